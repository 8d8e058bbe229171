//! Startup and Drain (sections 5.3.1 and 5.3.2): the first search for the path's rate, and the end of
//! the queue that it made.

use rand::rngs::StdRng;

use super::super::AckSummary;
use super::super::rapid_start::RapidStart;
use super::super::slow_start::Growth;
use super::ambient;
use super::path::{Path, State};
use crate::recovery::RateSample;

/// BBRStartupFullLossCnt: separate losses in a round for it to end Startup.
pub(super) const FULL_LOSS_COUNT: u32 = 6;

/// Rounds after which Drain ends in any case.
const MAX_DRAIN_ROUNDS: u64 = 3;

/// The pace at which the rate triples per round trip, as 4 ln 2 is that at which it doubles: the measured rate is the mean of
/// the round trip before the last, and 1 / ((1/3 - 1/9) / ln 3) is what that has grown by since.
const RAPID_PACING_GAIN: f64 = 4.94;
/// The window that three times the volume of a round trip takes.
const RAPID_CWND_GAIN: f64 = 3.0;

/// Rapid Start (`SlowStart::Rapid`) in Startup, beyond the draft: growth by three while there is no queue, and no growth once
/// one has grown. What is in flight fills the path then: if the rate does not grow for a round trip of that, Startup is over
/// after one such round instead of three.
#[derive(Debug, Default)]
pub(super) struct RapidStartup {
    /// `None`: Startup as the draft has it.
    queue: Option<RapidStart>,
    /// No queue was seen.
    calm: bool,
    /// The round in which a queue had grown.
    queued: Option<u64>,
}

impl RapidStartup {
    pub(super) fn new(enabled: bool) -> Self {
        Self {
            queue: enabled.then(RapidStart::default),
            calm: false,
            queued: None,
        }
    }
}

impl Path {
    /// BBR.StartupPacingGain, and that of the other states.
    pub(super) const fn pacing_gain(&self) -> f64 {
        if self.rapid.calm {
            RAPID_PACING_GAIN
        } else {
            self.state.pacing_gain()
        }
    }

    /// BBR.cwnd_gain.
    pub(super) const fn cwnd_gain(&self) -> f64 {
        if self.rapid.calm {
            RAPID_CWND_GAIN
        } else {
            self.state.cwnd_gain()
        }
    }

    /// How far the window opens by an acknowledgement before the pipe was full.
    pub(super) const fn startup_growth(&self, acked: u64) -> u64 {
        if self.rapid.queued.is_some() {
            0
        } else if self.rapid.calm {
            acked.saturating_mul(2)
        } else {
            acked
        }
    }

    /// Looks for a queue in Startup, and ends it if the rate does not grow beside one.
    pub(super) fn update_rapid_startup(&mut self, ack: &AckSummary<'_>) {
        self.rapid.calm = false;
        if self.state != State::Startup || self.pipe.reached {
            self.rapid.queued = None;
            return;
        }
        if let Some(round) = self.rapid.queued
            && self.rounds.started
            && self.rounds.count >= round + 2
        {
            self.rapid.queued = None;
            if self.pipe.is_stalled() {
                self.pipe.fill();
                return;
            }
        }
        let (Some(queue), Some(rtt)) = (&mut self.rapid.queue, ack.rtt_sample) else {
            return;
        };
        if ack.sample.app_limited {
            return;
        }
        match queue.on_ack(ack.now, ack.newest_sent, 1, rtt) {
            Growth::Exit => self.rapid.queued = self.rapid.queued.or(Some(self.rounds.count)),
            Growth::By(bytes) => self.rapid.calm = bytes > 1 && self.rapid.queued.is_none(),
        }
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
                self.end_retreat();
            } else {
                self.start_down(ack.now, rng);
            }
        }
    }
}
