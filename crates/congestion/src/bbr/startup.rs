//! Startup and Drain (sections 5.3.1 and 5.3.2): the first search for the path's rate, and the end of
//! the queue that it made.

use std::time::Duration;

use rand::rngs::StdRng;

use super::super::rapid_start::{End, RapidStart};
use super::super::slow_start::{Growth, MAX_GROWTH, PACE_BEYOND_TRAIN};
use super::super::train::Train;
use super::super::{AckSummary, MAX_WINDOW};
use super::ambient;
use super::path::{Path, State};
use crate::RateSample;

/// BBRStartupFullLossCnt: separate losses in a round for it to end Startup.
pub(super) const FULL_LOSS_COUNT: u32 = 6;

/// Rounds after which Drain ends in any case.
const MAX_DRAIN_ROUNDS: u64 = 3;

/// The measured rate has come to that of the train from this part of it on.
const REACHED: f64 = 0.9;

/// Rapid Start (`SlowStart::Rapid`) in Startup, beyond the draft.
///
/// - The packets of the initial window, which leave together, tell the rate of the narrowest link ([`Train`]). Startup goes to
///   that rate at once, and not by doublings.
/// - The pace is bounded by that rate. Startup of the draft sends at 2.77 times the rate of a full path for three round trips.
/// - Once the measured rate is there, one round without growth is enough. That makes two observations that agree.
/// - The window does not grow beside a queue that has grown within a round. What is in flight fills the path then: if the rate
///   does not grow for a round trip of that, Startup is over.
#[derive(Debug, Default)]
pub(super) struct RapidStartup {
    /// `None`: Startup as the draft has it.
    queue: Option<RapidStart>,
    /// The round in which a queue had grown.
    queued: Option<u64>,
    train: Train,
    /// The window when the round began.
    round_cwnd: u64,
    /// The round in which the measured rate had come to that of the train.
    reached: Option<u64>,
}

impl RapidStartup {
    pub(super) fn new(enabled: bool) -> Self {
        Self {
            queue: enabled.then(RapidStart::default),
            ..Self::default()
        }
    }

    /// Startup is over.
    fn end(&mut self) {
        self.queued = None;
        self.train = Train::default();
        self.reached = None;
    }
}

impl Path {
    /// How far the window opens by an acknowledgement before the pipe was full.
    pub(super) const fn startup_growth(&self, acked: u64) -> u64 {
        if self.rapid.queued.is_some() {
            0
        } else {
            acked
        }
    }

    /// Looks for the rate of trains and for a queue in Startup, and ends it if the rate does not grow any more.
    pub(super) fn update_rapid_startup(&mut self, ack: &AckSummary<'_>) {
        if self.state != State::Startup || self.pipe.reached {
            self.rapid.end();
            return;
        }
        if self.resuming {
            // The jump has a test of its own of what it finds.
            return;
        }
        let rapid = &mut self.rapid;
        let Some(queue) = &mut rapid.queue else {
            return;
        };
        if self.rounds.started {
            rapid.round_cwnd = self.cwnd;
        }
        let (round, delivered) = (self.rounds.count, ack.sample.total_delivered);
        rapid.train.on_ack(
            self.rounds.started,
            ack.now,
            ack.newest_sent,
            delivered,
            self.mtu,
        );
        let train = rapid.train.rate();
        if train == 0.0 {
            rapid.reached = None;
        } else if self.max_bw.get() >= train * REACHED {
            rapid.reached = rapid.reached.or(Some(round));
        }
        // What left after either of them was seen is acknowledged from the second round after it on.
        let is_over = |since: Option<u64>| since.is_some_and(|since| round >= since + 2);
        if self.rounds.started && (is_over(rapid.queued) || is_over(rapid.reached)) {
            rapid.queued = rapid.queued.filter(|since| round < since + 2);
            if self.pipe.is_stalled() {
                rapid.end();
                self.pipe.fill();
                return;
            }
        }
        let Some(rtt) = ack.rtt_sample.filter(|_| !ack.sample.app_limited) else {
            return;
        };
        if queue.on_ack(ack.now, ack.newest_sent, 1, rtt, End::AboveCeiling) == Growth::Exit {
            rapid.queued = rapid.queued.or(Some(round));
        }
    }

    /// Opens the window to what a train says that the path holds, and bounds the pace by its rate.
    pub(super) fn follow_train(&mut self) {
        let train = self.rapid.train.rate();
        let Some(rtt) = self.rtt.get().filter(|_| train > 0.0) else {
            return;
        };
        if self.state != State::Startup || self.pipe.reached || self.resuming {
            return;
        }
        let (rapid, rtt) = (&self.rapid, rtt.max(Duration::from_micros(1)).as_secs_f64());
        let most = rapid.round_cwnd as f64 * MAX_GROWTH;
        let calm = rapid.queued.is_none() && self.recovery.is_none();
        if calm && rapid.reached.is_none() && self.is_cwnd_limited() {
            let window = (train * rtt).min(most) as u64;
            self.cwnd = self.cwnd.max(window).min(MAX_WINDOW);
            self.pacing_rate = self.pacing_rate.max(train.min(most / rtt));
        }
        self.pacing_rate = self.pacing_rate.min(PACE_BEYOND_TRAIN * train.max(self.bw));
    }

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
                self.end_retreat(ack.now, rng);
            } else {
                self.start_down(ack.now, rng);
            }
        }
    }
}
