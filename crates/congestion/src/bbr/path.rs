//! The state of one path, and in which order an acknowledgement updates it (section 5.2); the steps
//! themselves are in the other files.

use std::time::{Duration, Instant};

use rand::rngs::StdRng;

use super::super::{AckSummary, InitialWindow};
use super::aggregation::Aggregation;
use super::ambient::Ambient;
use super::bandwidth::{FullPipe, MaxBandwidth};
use super::congestion::{RoundSignals, Undo};
use super::min_rtt::MinRtt;
use super::probe_bw::AckPhase;
use super::startup::RapidStartup;
use crate::RateSample;

/// BBR.state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    Startup,
    Drain,
    /// ProbeBW_DOWN, and the other three of ProbeBW.
    Down,
    Cruise,
    Refill,
    Up,
    ProbeRtt,
}

impl State {
    /// IsInAProbeBWState().
    pub(super) const fn is_probe_bw(self) -> bool {
        matches!(self, Self::Down | Self::Cruise | Self::Refill | Self::Up)
    }

    /// IsProbingBW().
    pub(super) const fn is_probing(self) -> bool {
        matches!(self, Self::Startup | Self::Refill | Self::Up)
    }

    /// The table of section 5.6.1.
    pub(super) const fn pacing_gain(self) -> f64 {
        match self {
            Self::Startup => 2.77,
            Self::Drain => 0.5,
            Self::Down => 0.9,
            Self::Cruise | Self::Refill | Self::ProbeRtt => 1.0,
            Self::Up => 1.25,
        }
    }

    /// The table of section 5.6.1.
    pub(super) const fn cwnd_gain(self) -> f64 {
        match self {
            Self::Startup | Self::Drain | Self::Down | Self::Cruise | Self::Refill => 2.0,
            Self::Up => 2.25,
            Self::ProbeRtt => 0.5,
        }
    }
}

/// Packet-timed round trips (section 5.5.1).
#[derive(Debug, Default)]
pub(super) struct Rounds {
    next_delivered: u64,
    /// The acknowledgement under way begins a round.
    pub(super) started: bool,
    pub(super) count: u64,
    /// BBR.rounds_since_probe_up.
    pub(super) since_probe_up: u64,
}

impl Rounds {
    /// UpdateRound().
    fn update(&mut self, sample: &RateSample) {
        self.started = sample.prior_delivered >= self.next_delivered;
        if self.started {
            self.restart(sample.total_delivered);
            self.count += 1;
            self.since_probe_up += 1;
        }
    }

    /// StartRound().
    pub(super) const fn restart(&mut self, total_delivered: u64) {
        self.next_delivered = total_delivered;
    }
}

/// A path. Volumes are bytes, rates bytes per second.
#[derive(Debug)]
pub(super) struct Path {
    /// C.SMSS.
    pub(super) mtu: u16,
    initial: InitialWindow,
    pub(super) initial_cwnd: u64,
    pub(super) cwnd: u64,
    /// The newest known-good window, not bent by recovery or ProbeRTT.
    pub(super) prior_cwnd: u64,
    /// 0 before it is first set.
    pub(super) pacing_rate: f64,
    pub(super) state: State,
    pub(super) rounds: Rounds,
    /// C.delivered, as of the newest event.
    pub(super) delivered: u64,
    pub(super) max_bw: MaxBandwidth,
    pub(super) pipe: FullPipe,
    pub(super) rapid: RapidStartup,
    pub(super) rtt: MinRtt,
    pub(super) aggregation: Aggregation,
    /// BBR.bw.
    pub(super) bw: f64,
    /// BBR.bw_shortterm; infinite if not set.
    pub(super) bw_shortterm: f64,
    /// BBR.inflight_shortterm and BBR.inflight_longterm; `u64::MAX` if not set.
    pub(super) inflight_shortterm: u64,
    pub(super) inflight_longterm: u64,
    pub(super) signals: RoundSignals,
    pub(super) undo: Undo,
    pub(super) ambient: Ambient,
    /// Since when loss is being repaired, until a packet sent later is acknowledged.
    pub(super) recovery: Option<Instant>,
    /// Careful resume: unvalidated packets are under way, or drain ("carefully-resuming" of RFC 9959).
    pub(super) resuming: bool,
    /// It took over from a controller that yields, and leaves as much to others: no queue stands in the cruise.
    pub(super) considerate: bool,
    /// What it has in flight there, in bandwidth-delay products.
    pub(super) fill: f64,
    /// New CE marks were reported, and not yet answered.
    pub(super) ce_marked: bool,
    pub(super) idle_restart: bool,
    /// The window was used up in this round, in the one before.
    pub(super) cwnd_limited: [bool; 2],
    pub(super) drain_start_round: u64,
    pub(super) ack_phase: AckPhase,
    /// BBR.is_bw_probe_sample.
    pub(super) probe_sample: bool,
    pub(super) prev_probe_too_high: bool,
    pub(super) prev_probe_precautionary: bool,
    pub(super) probe_up_rounds: u32,
    pub(super) probe_up_acked: u64,
    /// `u64::MAX` while inflight_longterm does not grow.
    pub(super) probe_up_acked_per_inc: u64,
    pub(super) cycle_start: Instant,
    pub(super) probe_wait: Duration,
    /// When ProbeRTT may end; `None` while too much is in flight.
    pub(super) probe_rtt_done: Option<Instant>,
    pub(super) probe_rtt_round_done: bool,
    /// Times that the model gave way to loss or marks.
    pub(super) congestion_events: u64,
}

impl Path {
    /// OnInit() (section 5.2.1).
    pub(super) fn new(now: Instant, mtu: u16, initial: InitialWindow, rapid: bool) -> Self {
        let initial_cwnd = initial.bytes(mtu);
        Self {
            mtu,
            initial,
            initial_cwnd,
            cwnd: initial_cwnd,
            prior_cwnd: 0,
            pacing_rate: 0.0,
            state: State::Startup,
            rounds: Rounds::default(),
            delivered: 0,
            max_bw: MaxBandwidth::default(),
            pipe: FullPipe::default(),
            rapid: RapidStartup::new(rapid),
            rtt: MinRtt::new(now),
            aggregation: Aggregation::new(now),
            bw: 0.0,
            bw_shortterm: f64::INFINITY,
            inflight_shortterm: u64::MAX,
            inflight_longterm: u64::MAX,
            signals: RoundSignals::default(),
            undo: Undo::default(),
            ambient: Ambient::default(),
            recovery: None,
            resuming: false,
            considerate: false,
            fill: 1.0,
            ce_marked: false,
            idle_restart: false,
            cwnd_limited: [false; 2],
            drain_start_round: 0,
            ack_phase: AckPhase::Init,
            probe_sample: false,
            prev_probe_too_high: false,
            prev_probe_precautionary: false,
            probe_up_rounds: 0,
            probe_up_acked: 0,
            probe_up_acked_per_inc: u64::MAX,
            cycle_start: now,
            probe_wait: Duration::ZERO,
            probe_rtt_done: None,
            probe_rtt_round_done: false,
            congestion_events: 0,
        }
    }

    /// A packet left, after which so much is in flight.
    pub(super) fn on_sent(&mut self, in_flight: u64) {
        self.cwnd_limited[0] |= in_flight + u64::from(self.mtu) > self.cwnd;
    }

    /// C.is_cwnd_limited.
    pub(super) const fn is_cwnd_limited(&self) -> bool {
        self.cwnd_limited[0] || self.cwnd_limited[1]
    }

    /// UpdateOnACK() (section 5.2.3). True if what leaves from now on is held back by choice.
    pub(super) fn on_ack(&mut self, ack: &AckSummary<'_>, rng: &mut StdRng) -> bool {
        let sample = ack.sample;
        self.delivered = sample.total_delivered;
        if self.recovery.is_some_and(|since| ack.newest_sent > since) {
            self.exit_recovery();
        }
        self.update_latest_signals(ack);
        self.max_bw_and_round(sample);
        self.update_ambient(ack);
        self.update_congestion_signals(ack, rng);
        self.aggregation.update(
            ack.now,
            self.rounds.count,
            sample.newly_acked,
            self.bw,
            self.cwnd,
        );
        self.pipe.update(self.rounds.started, sample);
        self.update_rapid_startup(ack);
        self.check_startup_done(sample);
        self.check_drain_done(ack, rng);
        self.update_probe_bw(ack, rng);
        self.rtt.update(ack.now, ack.rtt_sample);
        let held_back = self.check_probe_rtt(ack, rng);
        self.advance_latest_signals(sample);
        self.bw = self.max_bw.get().min(self.bw_shortterm);
        self.set_pacing_rate(ack.rtt);
        self.set_cwnd(sample, ack.rtt);
        self.follow_train();
        held_back
    }

    /// UpdateMaxBw() (section 5.5.5).
    fn max_bw_and_round(&mut self, sample: &RateSample) {
        self.rounds.update(sample);
        if self.rounds.started {
            self.cwnd_limited = [false, self.cwnd_limited[0]];
        }
        if !self.is_sample_tainted() {
            self.max_bw.update(sample);
        }
    }

    /// Measures the loss that is not congestion. What the model gave way by before it knew is taken
    /// back.
    fn update_ambient(&mut self, ack: &AckSummary<'_>) {
        let packet = f64::from(self.mtu.max(1));
        let sample = ack.sample;
        self.ambient.on_ack(
            sample.newly_acked as f64 / packet,
            sample.newly_lost as f64 / packet,
            ack.rtt_sample,
        );
        if self.rounds.started {
            let relieved = self.bw_shortterm < self.max_bw.get();
            let cruising = self.state == State::Cruise;
            if self.ambient.on_round(cruising, relieved, self.rtt.get()) {
                self.reset_short_term();
            }
        }
    }

    /// HandleRestartFromIdle() (section 5.4.1).
    pub(super) fn on_restart(&mut self, now: Instant, rng: &mut StdRng) {
        self.idle_restart = true;
        self.aggregation.restart(now);
        if self.state.is_probe_bw() {
            self.pace_with_gain(1.0);
        } else if self.state == State::ProbeRtt {
            self.check_probe_rtt_done(now, rng);
        }
    }

    pub(super) fn on_mtu_update(&mut self, mtu: u16) {
        let begun = self.delivered > 0;
        self.cwnd = self.initial.on_mtu_update(self.cwnd, begun, self.mtu, mtu);
        if !begun {
            self.initial_cwnd = self.initial.bytes(mtu);
        }
        self.mtu = mtu;
    }
}
