//! Pace, quantum and window from the model (section 5.6).

use super::super::MAX_WINDOW;
use super::super::initial_window::minimum_window;
use super::path::{Path, State};
use crate::{RateSample, RttEstimator};

/// 1 - BBR.PacingMarginPercent / 100.
const PACING_MARGIN: f64 = 0.99;
/// BBR.MinPipeCwnd, packets.
const MIN_PIPE_PACKETS: u64 = 4;
/// The most sent as a unit: 64 KB (section 5.6.3).
const MAX_QUANTUM: f64 = 65_536.0;
/// Seconds of sending in such a unit.
const QUANTUM_TIME: f64 = 1e-3;

impl Path {
    /// BBR.MinPipeCwnd.
    pub(super) fn min_pipe_cwnd(&self) -> u64 {
        (MIN_PIPE_PACKETS * u64::from(self.mtu)).max(1)
    }

    /// BDPMultiple(), for BBR.bw.
    pub(super) fn bdp(&self, gain: f64) -> u64 {
        self.bdp_of(self.bw, gain)
    }

    fn bdp_of(&self, bw: f64, gain: f64) -> u64 {
        match self.rtt.get() {
            Some(rtt) => (gain * bw * rtt.as_secs_f64()) as u64,
            None => self.initial_cwnd,
        }
    }

    /// C.send_quantum (section 5.6.3): what the pacer releases at a time, one millisecond's worth.
    fn send_quantum(&self) -> u64 {
        let quantum = (self.pacing_rate * QUANTUM_TIME).min(MAX_QUANTUM) as u64;
        quantum.max(2 * u64::from(self.mtu))
    }

    /// QuantizationBudget(): BBR.offload_budget of QUIC is the quantum (section 5.5.8.2).
    pub(super) fn quantization_budget(&self, inflight: u64) -> u64 {
        let budget = inflight.max(self.send_quantum()).max(self.min_pipe_cwnd());
        if self.state == State::Up {
            budget.saturating_add(2 * u64::from(self.mtu))
        } else {
            budget
        }
    }

    /// Inflight().
    pub(super) fn inflight(&self, bw: f64, gain: f64) -> u64 {
        self.quantization_budget(self.bdp_of(bw, gain))
    }

    /// UpdateMaxInflight(): BBR.max_inflight.
    fn max_inflight(&self) -> u64 {
        let extra = self.aggregation.extra(self.pipe.reached);
        let inflight = self.bdp(self.state.cwnd_gain()).saturating_add(extra);
        self.quantization_budget(inflight)
    }

    /// C.pacing_rate. InitPacingRate() before the first sample.
    pub(super) fn pacing_rate(&self, rtt: &RttEstimator) -> f64 {
        if self.pacing_rate > 0.0 {
            return self.pacing_rate;
        }
        let nanos = rtt.smoothed().as_nanos().max(1) as f64;
        State::Startup.pacing_gain() * self.initial_cwnd as f64 * 1e9 / nanos
    }

    /// SetPacingRate() (section 5.6.2).
    pub(super) fn set_pacing_rate(&mut self, rtt: &RttEstimator) {
        self.pacing_rate = self.pacing_rate(rtt);
        self.pace_with_gain(self.state.pacing_gain());
    }

    /// SetPacingRateWithGain().
    pub(super) fn pace_with_gain(&mut self, gain: f64) {
        let rate = gain * self.bw * PACING_MARGIN;
        if self.pipe.reached || rate > self.pacing_rate {
            self.pacing_rate = rate;
        }
    }

    /// SetCwnd() (section 5.6.4.6).
    pub(super) fn set_cwnd(&mut self, sample: &RateSample, rtt: &RttEstimator) {
        let max_inflight = self.max_inflight();
        let grown = self.cwnd.saturating_add(sample.newly_acked);
        if self.pipe.reached {
            self.cwnd = grown.min(max_inflight);
        } else if self.cwnd < max_inflight || self.delivered < self.initial_cwnd {
            let growth = self.startup_growth(sample.newly_acked);
            self.cwnd = self.cwnd.saturating_add(growth);
        }
        self.cwnd = self.cwnd.max(self.min_pipe_cwnd());
        if self.state == State::ProbeRtt {
            self.cwnd = self.cwnd.min(self.probe_rtt_cwnd());
        }
        self.bound_cwnd(rtt);
    }

    /// ProbeRTTCwnd() (section 5.6.4.5).
    pub(super) fn probe_rtt_cwnd(&self) -> u64 {
        self.bdp(State::ProbeRtt.cwnd_gain())
            .max(self.min_pipe_cwnd())
    }

    /// BoundCwndForModel() (section 5.6.4.7).
    fn bound_cwnd(&mut self, rtt: &RttEstimator) {
        let cap = match self.state {
            State::Down => self.inflight_longterm.min(self.considerate_inflight(rtt)),
            State::Refill => self.inflight_longterm,
            State::Up => self.inflight_longterm.min(self.considerate_probe(rtt)),
            State::Cruise => self
                .inflight_with_headroom()
                .min(self.considerate_inflight(rtt)),
            State::ProbeRtt => self.inflight_with_headroom(),
            State::Startup | State::Drain => u64::MAX,
        };
        let cap = cap.min(self.inflight_shortterm).max(self.min_pipe_cwnd());
        self.cwnd = self.cwnd.min(cap).min(MAX_WINDOW);
    }

    /// SaveCwnd() (section 5.6.4.4).
    pub(super) fn save_cwnd(&mut self) {
        self.prior_cwnd = if self.recovery.is_none() && self.state != State::ProbeRtt {
            self.cwnd
        } else {
            self.prior_cwnd.max(self.cwnd)
        };
    }

    /// RestoreCwnd().
    pub(super) fn restore_cwnd(&mut self) {
        self.cwnd = self.cwnd.max(self.prior_cwnd);
    }

    /// RFC 9002 section 7.6.2, in the place of OnEnterRTO(): the window grows from its minimum by
    /// what is acknowledged. What it was before is forgotten, unless the loss proves spurious.
    pub(super) fn collapse_cwnd(&mut self) {
        self.cwnd = minimum_window(self.mtu);
    }
}
