//! What loss does to the model (section 5.5.10), and how a spurious one is taken back (5.5.11).

use std::time::{Duration, Instant};

use rand::rngs::StdRng;

use super::super::{AckSummary, LostPacket};
use super::ambient;
use super::path::{Path, State};
use crate::RateSample;

/// BBR.LossThresh.
pub(super) const LOSS_THRESHOLD: f64 = 0.02;
/// BBR.Beta.
const BETA: f64 = 0.7;

/// The newest round's delivery and losses.
#[derive(Debug, Default)]
pub(super) struct RoundSignals {
    /// BBR.loss_round_delivered.
    round_delivered: u64,
    /// BBR.loss_round_start.
    pub(super) round_ended: bool,
    /// BBR.is_loss_in_round.
    loss_in_round: bool,
    /// CE marks were reported in it.
    pub(super) ce_in_round: bool,
    bw_latest: f64,
    pub(super) inflight_latest: u64,
    /// Separate runs of lost packets in it.
    pub(super) loss_events: u32,
    /// The packet lost last.
    last_lost: Option<u64>,
    /// Bytes acknowledged and lost in it.
    acked: u64,
    lost: u64,
    /// The shortest round trip in it, and in the one before it.
    rtt: Option<Duration>,
    pub(super) rtt_before: Option<Duration>,
}

impl RoundSignals {
    /// Signals of a path on which so much is delivered already.
    pub(super) fn new(delivered: u64) -> Self {
        Self {
            round_delivered: delivered,
            ..Self::default()
        }
    }

    /// ResetCongestionSignals().
    pub(super) const fn reset(&mut self) {
        self.loss_in_round = false;
        self.bw_latest = 0.0;
        self.inflight_latest = 0;
    }

    /// What was lost so far is answered, and says nothing of what is sent from now on.
    pub(super) const fn forget_losses(&mut self) {
        self.loss_in_round = false;
        self.ce_in_round = false;
        self.loss_events = 0;
        self.lost = 0;
        self.acked = 0;
    }
}

/// What to go back to if a loss proves spurious (section 2.15).
#[derive(Debug, Default)]
pub(super) struct Undo {
    /// The state that was left because of the loss.
    pub(super) state: Option<State>,
    saved: Option<Saved>,
}

#[derive(Debug, Clone, Copy)]
struct Saved {
    bw_shortterm: f64,
    inflight_shortterm: u64,
    inflight_longterm: u64,
    cwnd: u64,
    /// When the first of the lost packets left.
    first_sent: Instant,
    /// Bytes lost since that did not turn up again.
    missing: u64,
}

impl Path {
    /// UpdateLatestDeliverySignals().
    pub(super) fn update_latest_signals(&mut self, ack: &AckSummary<'_>) {
        let signals = &mut self.signals;
        let sample = ack.sample;
        signals.rtt = ambient::shorter(signals.rtt, ack.rtt_sample);
        signals.round_ended = false;
        signals.bw_latest = signals.bw_latest.max(sample.rate);
        signals.inflight_latest = signals.inflight_latest.max(sample.delivered);
        signals.acked += sample.newly_acked;
        signals.lost += sample.newly_lost;
        if sample.prior_delivered >= signals.round_delivered {
            signals.round_delivered = sample.total_delivered;
            signals.round_ended = true;
        }
    }

    /// AdvanceLatestDeliverySignals().
    pub(super) const fn advance_latest_signals(&mut self, sample: &RateSample) {
        let signals = &mut self.signals;
        if signals.round_ended {
            signals.bw_latest = sample.rate;
            signals.inflight_latest = sample.delivered;
            signals.ce_in_round = false;
        }
    }

    /// UpdateCongestionSignals(), but for UpdateMaxBw().
    pub(super) fn update_congestion_signals(&mut self, ack: &AckSummary<'_>, rng: &mut StdRng) {
        if std::mem::take(&mut self.ce_marked) {
            self.on_ce(ack, rng);
        }
        if !self.signals.round_ended {
            return;
        }
        self.adapt_lower_bounds();
        self.signals.loss_in_round = false;
        self.signals.acked = 0;
        self.signals.lost = 0;
        self.signals.rtt_before = self.signals.rtt.take();
        self.adapt_to_others();
    }

    /// AdaptLowerBoundsFromCongestion(), with InitLowerBounds() and LossLowerBounds().
    fn adapt_lower_bounds(&mut self) {
        if self.state.is_probing() || !self.signals.loss_in_round {
            return;
        }
        let packet = f64::from(self.mtu.max(1));
        let lost = self.signals.lost as f64 / packet;
        let packets = lost + self.signals.acked as f64 / packet;
        let queue = ambient::has_queue(self.signals.rtt, self.rtt.get());
        if !self.signals.ce_in_round && !queue && lost <= self.ambient.allowance(packets, 0.0) {
            return;
        }
        if self.bw_shortterm == f64::INFINITY {
            self.bw_shortterm = self.max_bw.get();
        }
        if self.inflight_shortterm == u64::MAX {
            self.inflight_shortterm = self.cwnd;
        }
        self.bw_shortterm = self.signals.bw_latest.max(BETA * self.bw_shortterm);
        let lowered = (BETA * self.inflight_shortterm as f64) as u64;
        self.inflight_shortterm = self.signals.inflight_latest.max(lowered);
        self.congestion_events += 1;
    }

    /// ResetShortTermModel().
    pub(super) const fn reset_short_term(&mut self) {
        self.bw_shortterm = f64::INFINITY;
        self.inflight_shortterm = u64::MAX;
    }

    /// IsInflightTooHigh().
    pub(super) fn is_inflight_too_high(&self, tx_in_flight: u64, lost: u64) -> bool {
        lost as f64 > tx_in_flight as f64 * self.loss_threshold(tx_in_flight)
    }

    /// The same after a jump. Nothing was measured on the path yet, so that losses by chance are to be expected.
    fn is_jump_too_high(&self, tx_in_flight: u64, lost: u64) -> bool {
        let packet = f64::from(self.mtu.max(1));
        let packets = tx_in_flight as f64 / packet;
        lost as f64 / packet > self.ambient.remarkable(packets, LOSS_THRESHOLD)
    }

    /// BBR.LossThresh, and what the path loses anyway.
    fn loss_threshold(&self, in_flight: u64) -> f64 {
        let packets = in_flight as f64 / f64::from(self.mtu.max(1));
        if packets > 0.0 {
            self.ambient.allowance(packets, LOSS_THRESHOLD) / packets
        } else {
            LOSS_THRESHOLD
        }
    }

    /// HandleLostPacket().
    pub(super) fn on_lost(&mut self, lost: &LostPacket, rng: &mut StdRng) {
        let now = lost.now;
        self.delivered = lost.total_delivered;
        self.note_loss(now, lost.sent);
        if let Some(saved) = &mut self.undo.saved {
            saved.missing += lost.size;
            saved.first_sent = saved.first_sent.min(lost.sent);
        }
        if self
            .signals
            .last_lost
            .is_none_or(|last| lost.number != last + 1)
        {
            self.signals.loss_events = self.signals.loss_events.saturating_add(1);
        }
        self.signals.last_lost = Some(lost.number);
        if self.probe_sample && self.is_inflight_too_high(lost.tx_in_flight, lost.lost) {
            let at_loss = self.inflight_at_loss(lost);
            self.on_inflight_too_high(now, at_loss, lost.app_limited, rng);
        }
        if self.resuming
            && self.state == State::Startup
            && self.is_jump_too_high(lost.tx_in_flight, lost.lost)
        {
            // Startup would wait for the end of the round, and a jump may be far too much.
            self.congestion_events += 1;
            self.retreat();
        }
    }

    /// NoteLoss().
    fn note_loss(&mut self, now: Instant, sent: Instant) {
        if !self.signals.loss_in_round {
            self.signals.round_delivered = self.delivered;
            self.save_state(sent);
        }
        self.signals.loss_in_round = true;
        if self.recovery.is_none() {
            self.recovery = Some(now);
        }
    }

    /// SaveStateUponLoss().
    fn save_state(&mut self, sent: Instant) {
        self.save_cwnd();
        self.undo = Undo {
            state: None,
            saved: Some(Saved {
                bw_shortterm: self.bw_shortterm,
                inflight_shortterm: self.inflight_shortterm,
                inflight_longterm: self.inflight_longterm,
                cwnd: self.prior_cwnd,
                first_sent: sent,
                missing: 0,
            }),
        };
    }

    /// InflightAtLoss(): how much was in flight when the losses crossed the threshold.
    fn inflight_at_loss(&self, lost: &LostPacket) -> u64 {
        let size = lost.size;
        let before = lost.tx_in_flight.saturating_sub(size) as f64;
        let lost_before = lost.lost.saturating_sub(size) as f64;
        let threshold = self.loss_threshold(lost.tx_in_flight).min(0.5);
        let prefix = (threshold * before - lost_before) / (1.0 - threshold);
        (before + prefix).max(0.0) as u64
    }

    /// HandleInflightTooHigh().
    fn on_inflight_too_high(
        &mut self,
        now: Instant,
        in_flight: u64,
        app_limited: bool,
        rng: &mut StdRng,
    ) {
        self.prev_probe_too_high = true;
        self.probe_sample = false;
        self.congestion_events += 1;
        if !app_limited {
            let floor = (self.target_inflight() as f64 * BETA) as u64;
            self.inflight_longterm = in_flight.max(floor);
        }
        if self.state == State::Up {
            self.undo.state = Some(State::Up);
            self.start_down(now, rng);
        }
    }

    /// New CE marks: as if the round's losses were too many.
    fn on_ce(&mut self, ack: &AckSummary<'_>, rng: &mut StdRng) {
        self.note_loss(ack.now, ack.newest_sent);
        // A mark is no accident: nothing will turn up that takes it back.
        self.undo.saved = None;
        self.signals.ce_in_round = true;
        if self.probe_sample {
            let sample = ack.sample;
            self.on_inflight_too_high(ack.now, sample.tx_in_flight, sample.app_limited, rng);
        }
    }

    /// Persistent congestion (RFC 9002 section 7.6).
    pub(super) fn on_persistent_congestion(&mut self, now: Instant) {
        self.recovery = Some(now);
        self.prior_cwnd = 0;
        self.collapse_cwnd();
    }

    /// The losses are repaired: a packet sent since is acknowledged.
    pub(super) fn exit_recovery(&mut self) {
        self.recovery = None;
        self.restore_cwnd();
    }

    /// Lost packets turned up. Once all of an episode did, HandleSpuriousLossDetection().
    pub(super) fn on_spurious_loss(&mut self, sent: Instant, bytes: u64) {
        let Some(saved) = &mut self.undo.saved else {
            return;
        };
        if sent < saved.first_sent {
            return;
        }
        saved.missing = saved.missing.saturating_sub(bytes);
        if saved.missing > 0 {
            return;
        }
        let saved = *saved;
        self.undo.saved = None;
        self.recovery = None;
        self.prior_cwnd = self.prior_cwnd.max(saved.cwnd);
        self.restore_cwnd();
        self.signals.loss_in_round = false;
        self.pipe.reset(0.0);
        self.bw_shortterm = self.bw_shortterm.max(saved.bw_shortterm);
        self.inflight_shortterm = self.inflight_shortterm.max(saved.inflight_shortterm);
        self.inflight_longterm = self.inflight_longterm.max(saved.inflight_longterm);
        match self.undo.state.take() {
            Some(State::Startup) if self.state != State::Startup => {
                self.pipe.reached = false;
                if self.state != State::ProbeRtt {
                    self.enter_startup();
                }
            }
            Some(State::Up) if self.state != State::Up && self.state != State::ProbeRtt => {
                self.start_refill();
            }
            _ => {}
        }
    }
}
