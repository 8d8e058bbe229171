//! A path that another controller has used before: Startup with what is known of it, and how it goes, for the owner of both.

use std::time::{Duration, Instant};

use mpquic_sched_core::PathIndex;

use super::super::{Controller, MAX_WINDOW, NewPath};
use super::path::{Path, State};
use super::{Bbr, congestion::RoundSignals};
use crate::{RateSample, RttEstimator};

/// What is in flight in the cruise of a considerate flow at most, in bandwidth-delay products, and while it probes for more.
///
/// A probe that sends a quarter more needs a quarter more in flight. The rest of the draft's two and a quarter would only
/// stand in the queue, and where others send as well, overflow it.
const CONSIDERATE: f64 = 1.1;
const CONSIDERATE_PROBE: f64 = 1.25;
/// BBR.max_bw is what a probe has found, and where others send as well, it is more than what is left to the flow between probes: a
/// queue stands in the cruise, and others whose windows are those of losses by chance lose as much of their rate as it adds to
/// their round trips. Each such round takes this much off what is in flight,
const LESS: f64 = 0.05;
/// down to this; a round without a queue gives this much back.
const LEAST: f64 = 0.8;
const MORE: f64 = 0.01;
/// A queue stands whose shortest round trip in a round is above that of the path by this part of it, and this time.
const STANDS: f64 = 0.125;
const STANDS_TIME: Duration = Duration::from_millis(1);
/// A probe that has made a queue of this part has found the path full: the draft's three rounds without growth would only be
/// three rounds of a queue.
const PROBED: f64 = 0.25;
/// And for so many variations of the round trip more: the shortest round trip is not that of all packets.
const VARIATIONS: u32 = 2;

/// What is known of a path that BBR takes over.
#[derive(Debug, Clone, Copy)]
pub(in super::super) struct Known {
    pub(in super::super) now: Instant,
    pub(in super::super) mtu: u16,
    /// The window so far, bytes.
    pub(in super::super) window: u64,
    /// The highest delivery rate of late, bytes per second.
    pub(in super::super) rate: f64,
    pub(in super::super) min_rtt: Duration,
    /// Bytes delivered so far.
    pub(in super::super) delivered: u64,
    /// The part of the packets that is lost by chance.
    pub(in super::super) loss: f64,
}

/// Where a path is in its cycle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) struct Round {
    /// The newest acknowledgement begins a round trip.
    pub(in super::super) started: bool,
    /// In ProbeBW_CRUISE.
    pub(in super::super) cruising: bool,
    /// The first search is over.
    pub(in super::super) settled: bool,
}

impl Bbr {
    /// The path begins here as another controller leaves it.
    pub(in super::super) fn take_over(&mut self, path: PathIndex, known: &Known) {
        let mut state = Path::new(known.now, known.mtu, self.initial, self.rapid);
        state.take_over(known);
        self.paths.set(path, Some(state));
    }

    /// A path begins that is known to lose this part of its packets by chance, and on which another controller may go on.
    pub(in super::super) fn begin(&mut self, new: &NewPath, loss: f64) {
        self.add_path(new);
        if let Some(p) = self.paths.get_mut(new.path) {
            p.ambient.expect(loss);
            p.consider_others();
        }
    }

    pub(in super::super) fn round(&self, path: PathIndex) -> Option<Round> {
        let p = self.paths.get(path)?;
        Some(Round {
            started: p.rounds.started,
            cruising: p.state == State::Cruise,
            settled: !matches!(p.state, State::Startup | State::Drain),
        })
    }

    /// What fills the path and no queue, bytes.
    pub(in super::super) fn bdp(&self, path: PathIndex) -> u64 {
        self.paths.get(path).map_or(0, |p| p.bdp(1.0))
    }
}

impl Path {
    fn take_over(&mut self, known: &Known) {
        self.delivered = known.delivered;
        self.rounds.restart(known.delivered);
        self.signals = RoundSignals::new(known.delivered);
        self.max_bw.update(&RateSample {
            rate: known.rate,
            ..RateSample::default()
        });
        self.bw = known.rate;
        self.rtt.update(known.now, Some(known.min_rtt));
        self.ambient.expect(known.loss);
        self.consider_others();
        self.cwnd = known.window.max(self.bdp(1.0)).min(MAX_WINDOW);
        self.pace_with_gain(State::Startup.pacing_gain());
    }

    const fn consider_others(&mut self) {
        self.considerate = true;
        self.fill = CONSIDERATE;
    }

    /// Whether a queue stood all through the newest round: this part of the shortest round trip.
    fn has_stood(&self, part: f64) -> bool {
        match (self.signals.rtt_before, self.rtt.get()) {
            (Some(round), Some(min)) => round > min + min.mul_f64(part).max(STANDS_TIME),
            _ => false,
        }
    }

    /// A round has ended: whether others are left more in the cruise, or less.
    pub(super) fn adapt_to_others(&mut self) {
        if !self.considerate || self.state != State::Cruise {
            return;
        }
        self.fill = if self.has_stood(STANDS) {
            (self.fill - LESS).max(LEAST)
        } else {
            (self.fill + MORE).min(CONSIDERATE)
        };
    }

    /// Whether a considerate flow has probed enough.
    pub(super) fn has_probed(&self) -> bool {
        self.considerate && self.signals.round_ended && self.has_stood(PROBED)
    }

    /// The most that a considerate flow has in flight while it probes for more.
    pub(super) fn considerate_probe(&self, rtt: &RttEstimator) -> u64 {
        let cruise = self.considerate_inflight(rtt);
        if cruise == u64::MAX {
            return u64::MAX;
        }
        cruise.max(self.bdp(CONSIDERATE_PROBE))
    }

    /// The most that a considerate flow has in flight in the cruise.
    pub(super) fn considerate_inflight(&self, rtt: &RttEstimator) -> u64 {
        let Some(min) = self.rtt.get().filter(|_| self.considerate) else {
            return u64::MAX;
        };
        let varies = (VARIATIONS * rtt.var()).min(min);
        let span = min.as_secs_f64() * self.fill + varies.as_secs_f64();
        let extra = self.aggregation.extra(true);
        self.quantization_budget((self.bw * span) as u64 + extra)
    }
}
