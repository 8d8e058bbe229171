//! Startup and Drain (sections 5.3.1 and 5.3.2): the first search for the path's rate, and the end of
//! the queue that it made.

use rand::rngs::StdRng;

use super::super::AckSummary;
use super::ambient;
use super::path::{Path, State};
use crate::recovery::RateSample;

/// BBRStartupFullLossCnt: separate losses in a round for it to end Startup.
pub(super) const FULL_LOSS_COUNT: u32 = 6;

/// Rounds after which Drain ends in any case.
const MAX_DRAIN_ROUNDS: u64 = 3;

impl Path {
    /// EnterStartup().
    pub(super) const fn enter_startup(&mut self) {
        self.state = State::Startup;
    }

    /// CheckStartupDone().
    pub(super) fn check_startup_done(&mut self, sample: &RateSample) {
        self.check_startup_high_loss(sample);
        if self.state == State::Startup && self.pipe.reached {
            self.enter_drain();
        }
    }

    /// CheckStartupHighLoss() (section 5.3.1.3).
    fn check_startup_high_loss(&mut self, sample: &RateSample) {
        let ce = self.signals.ce_in_round;
        if self.pipe.reached || !self.signals.round_ended {
            return;
        }
        let losses = std::mem::take(&mut self.signals.loss_events);
        // The round that ended began with a loss: recovery has lasted a full round trip.
        // What the path loses anyway is not known yet. Where that may be all of it, the search goes
        // on: if the pipe is full, no more is delivered, and that ends it two rounds later.
        let packet = f64::from(self.mtu.max(1));
        let bearable = ambient::most(sample.tx_in_flight as f64 / packet) * packet;
        let lossy = losses >= FULL_LOSS_COUNT && sample.lost as f64 > bearable;
        if lossy || ce {
            self.undo.state = Some(State::Startup);
            self.pipe.reached = true;
            self.pipe.now = true;
            self.inflight_longterm = self.bdp(1.0).max(self.signals.inflight_latest);
            self.congestion_events += 1;
        }
    }

    pub(super) fn enter_drain(&mut self) {
        self.state = State::Drain;
        self.drain_start_round = self.rounds.count;
    }

    /// CheckDrainDone().
    pub(super) fn check_drain_done(&mut self, ack: &AckSummary<'_>, rng: &mut StdRng) {
        if self.state == State::Drain
            && (ack.in_flight <= self.inflight(self.bw, 1.0)
                || self.rounds.count > self.drain_start_round + MAX_DRAIN_ROUNDS)
        {
            if self.resuming {
                self.end_retreat();
            } else {
                self.start_down(ack.now, rng);
            }
        }
    }
}
