//! ProbeBW (section 5.3.3): slow down, cruise, refill the pipe, try for more.

use std::time::{Duration, Instant};

use rand::RngExt;
use rand::rngs::StdRng;

use super::super::{AckSummary, MAX_WINDOW};
use super::path::{Path, State};
use crate::RateSample;

/// What acknowledgements tell of the probe (section 2.14).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AckPhase {
    Init,
    Refilling,
    Starting,
    Feedback,
    Stopping,
}

/// BBR.Headroom: the part of inflight_longterm that is left to others.
const HEADROOM: f64 = 0.15;
/// T_bbr: the least time between probes, and how much chance adds to it (section 5.3.3.8.3).
const PROBE_WAIT: f64 = 2.0;
const PROBE_WAIT_SPREAD: f64 = 1.0;
/// T_reno: rounds between probes at most.
const RENO_ROUNDS: u64 = 63;
/// Doublings of the slope of inflight_longterm.
const MAX_SLOPE_ROUNDS: u32 = 30;

impl Path {
    /// StartProbeBW_DOWN(). EnterProbeBW() is the same.
    pub(super) fn start_down(&mut self, now: Instant, rng: &mut StdRng) {
        self.signals.reset();
        self.probe_up_acked_per_inc = u64::MAX;
        // PickProbeWait() (section 5.3.3.8.3).
        self.rounds.since_probe_up = rng.random_range(0..=1);
        let spread: f64 = rng.random();
        self.probe_wait = Duration::from_secs_f64(PROBE_WAIT + spread * PROBE_WAIT_SPREAD);
        self.cycle_start = now;
        self.ack_phase = AckPhase::Stopping;
        self.rounds.restart(self.delivered);
        self.state = State::Down;
    }

    /// StartProbeBW_CRUISE().
    pub(super) fn start_cruise(&mut self) {
        self.state = State::Cruise;
        self.ambient.on_cruise();
    }

    /// StartProbeBW_REFILL().
    pub(super) fn start_refill(&mut self) {
        self.reset_short_term();
        self.probe_up_rounds = 0;
        self.probe_up_acked = 0;
        self.prev_probe_precautionary = false;
        self.ack_phase = AckPhase::Refilling;
        self.rounds.restart(self.delivered);
        self.state = State::Refill;
    }

    /// StartProbeBW_UP().
    fn start_up(&mut self, sample: &RateSample) {
        self.ack_phase = AckPhase::Starting;
        self.rounds.restart(self.delivered);
        self.pipe.reset(sample.rate);
        self.state = State::Up;
        self.raise_slope();
    }

    /// UpdateProbeBWCyclePhase().
    pub(super) fn update_probe_bw(&mut self, ack: &AckSummary<'_>, rng: &mut StdRng) {
        if !self.pipe.reached || self.adapt_long_term(ack.sample) {
            return;
        }
        match self.state {
            State::Down => {
                if !self.try_refill(ack.now) && self.is_time_to_cruise(ack.in_flight) {
                    self.start_cruise();
                }
            }
            State::Cruise => {
                self.try_refill(ack.now);
            }
            State::Refill => {
                if self.rounds.started {
                    self.probe_sample = true;
                    self.start_up(ack.sample);
                }
            }
            State::Up => {
                if self.is_time_to_go_down(ack) {
                    self.prev_probe_too_high = false;
                    self.start_down(ack.now, rng);
                }
            }
            State::Startup | State::Drain | State::ProbeRtt => {}
        }
    }

    /// IsTimeToProbeBW().
    fn try_refill(&mut self, now: Instant) -> bool {
        // IsRenoCoexistenceProbeTime(): TargetInflight(), in packets.
        let target = self.target_inflight() / u64::from(self.mtu.max(1));
        let due = now > self.cycle_start + self.probe_wait
            || self.rounds.since_probe_up >= target.min(RENO_ROUNDS);
        if due {
            self.start_refill();
        }
        due
    }

    /// TargetInflight().
    pub(super) fn target_inflight(&self) -> u64 {
        self.bdp(1.0).min(self.cwnd)
    }

    /// IsTimeToCruise().
    fn is_time_to_cruise(&self, in_flight: u64) -> bool {
        in_flight <= self.inflight_with_headroom()
            && in_flight <= self.inflight(self.max_bw.get(), 1.0)
    }

    /// IsTimeToGoDown().
    fn is_time_to_go_down(&mut self, ack: &AckSummary<'_>) -> bool {
        if self.has_probed() {
            return true;
        }
        // Section 5.3.3.6, deceleration.
        if self.prev_probe_too_high && ack.in_flight >= self.inflight_longterm {
            self.prev_probe_precautionary = true;
            return true;
        }
        if self.is_cwnd_limited() && self.cwnd >= self.inflight_longterm {
            self.pipe.reset(ack.sample.rate);
            return false;
        }
        self.pipe.now
    }

    /// InflightWithHeadroom().
    pub(super) fn inflight_with_headroom(&self) -> u64 {
        if self.inflight_longterm == u64::MAX {
            return u64::MAX;
        }
        let headroom = (HEADROOM * self.inflight_longterm as f64) as u64;
        let headroom = headroom.max(u64::from(self.mtu));
        self.inflight_longterm
            .saturating_sub(headroom)
            .max(self.min_pipe_cwnd())
    }

    /// RaiseInflightLongtermSlope().
    fn raise_slope(&mut self) {
        let growth = 1_u64 << self.probe_up_rounds;
        self.probe_up_rounds = (self.probe_up_rounds + 1).min(MAX_SLOPE_ROUNDS);
        self.probe_up_acked_per_inc = (self.cwnd / growth).max(u64::from(self.mtu)).max(1);
    }

    /// ProbeInflightLongtermUpward().
    fn probe_inflight_upward(&mut self, sample: &RateSample) {
        if !self.is_cwnd_limited() || self.cwnd < self.inflight_longterm {
            return;
        }
        self.probe_up_acked += sample.newly_acked;
        let steps = self.probe_up_acked / self.probe_up_acked_per_inc;
        self.probe_up_acked -= steps * self.probe_up_acked_per_inc;
        self.inflight_longterm = self
            .inflight_longterm
            .saturating_add(steps.saturating_mul(self.mtu.into()))
            .min(MAX_WINDOW);
        if self.rounds.started {
            self.raise_slope();
        }
    }

    /// AdaptLongTermModel(): whether it changed the state.
    fn adapt_long_term(&mut self, sample: &RateSample) -> bool {
        if self.ack_phase == AckPhase::Starting && self.rounds.started {
            self.ack_phase = AckPhase::Feedback;
        }
        if self.ack_phase == AckPhase::Stopping && self.rounds.started {
            self.probe_sample = false;
            self.ack_phase = AckPhase::Init;
            if self.state.is_probe_bw() && !sample.app_limited {
                self.max_bw.advance();
            }
            // Section 5.3.3.6, acceleration.
            if self.state.is_probe_bw()
                && self.prev_probe_precautionary
                && !self.prev_probe_too_high
            {
                self.start_refill();
                return true;
            }
        }
        if self.inflight_longterm != u64::MAX
            && !self.is_inflight_too_high(sample.tx_in_flight, sample.lost)
        {
            self.inflight_longterm = self.inflight_longterm.max(sample.tx_in_flight);
            if self.state == State::Up {
                self.probe_inflight_upward(sample);
            }
        }
        false
    }
}
