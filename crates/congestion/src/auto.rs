//! `auto`: CUBIC that does not take losses by chance for congestion; detects no losses and measures no rates.
//!
//! On a radio link that loses one packet in a hundred, CUBIC's window is that of the loss and not that of the path. So each
//! loss event is judged ([`LossJudge`]): what a queue has dropped reduces the window as RFC 9438 has it, and what was lost by
//! chance does not, within bounds.
//!
//! - **The newest losses decide**, and not one: chance has to explain most of them, and no plain queue may stand.
//! - **So much and no more**: a tenth of the window is forgiven in a round trip, or one packet. More is answered at once.
//! - **Relief** is the proof. Chance loses as much when less is sent, and a queue does not: a policer, a queue of a few
//!   packets, one that is shorter than what delay varies by. After some forgiven losses the window is reduced once
//!   nevertheless, and what is lost then is counted. If losses become fewer, they were ours: from then on none is forgiven for
//!   a time that doubles with each such end.
//! - **Slow start begins again** where losses by chance have held the window down and no queue was seen for some round trips:
//!   CUBIC's curve would take its time.
//!
//! Everything else, such as slow start and careful resume, is that of [`Cubic`].

use std::time::{Duration, Instant};

use mpquic_sched_core::PathIndex;

use super::controller::Slots;
use super::cubic::Cubic;
use super::{
    AckSummary, AckedPacket, CongestionEvent, Controller, InitialWindow, LossCause, LossCauses,
    LossJudge, LostPacket, NewPath, ResumeStep, SlowStart, SpuriousLoss,
};

/// Chance has to explain this part of the newest loss events.
const FORGIVEN_SHARE: f32 = 0.6;
/// What is forgiven in a round trip: this part of the window, or one packet. A few packets of a small window would be a large
/// part of it, and a queue of a few packets loses as many.
const FORGIVEN_PART: f64 = 0.1;
/// Forgiven losses (runs of packets in a row) before the first trial. Each trial that finds chance doubles it.
const FORGIVEN_RUNS: u32 = 12;
const MOST_DOUBLINGS: u32 = 6;
/// A trial is over when so many losses are to be expected, if they come by chance.
const TRIAL_RUNS: f64 = 9.0;
/// It is over sooner if the window is back. It tells something from so many on.
const LEAST_TRIAL_RUNS: f64 = 4.0;
/// Losses by chance come as often as expected. No more than a third of nine are 2 % likely.
const RELIEVED: f64 = 1.0 / 3.0;
/// For so long no loss is forgiven after the first trial that found losses of our own.
const REFUSED: Duration = Duration::from_secs(5);

/// Slow start begins again after so many round trips without a queue,
const QUIET_ROUNDS: u32 = 4;
/// and not sooner than this after it did before. Each time doubles it.
const REOPENED: Duration = Duration::from_millis(500);

/// Losses, as runs of packets in a row, among so many bytes that arrived.
#[derive(Debug, Clone, Copy, Default)]
struct Tally {
    runs: u32,
    bytes: u64,
}

impl Tally {
    /// Runs per byte.
    fn rate(self) -> f64 {
        f64::from(self.runs) / self.bytes.max(1) as f64
    }
}

/// A window that was reduced to see whether losses become fewer.
#[derive(Debug, Clone, Copy)]
struct Trial {
    began: Instant,
    /// The window before.
    window: u64,
    /// What was lost before, runs per byte.
    rate: f64,
    /// What left until then left before relief was felt.
    counts_from: Option<Instant>,
    seen: Tally,
}

#[derive(Debug, Default)]
struct Path {
    judge: LossJudge,
    mtu: u16,
    /// When the loss event under way began: packets sent until then belong to it.
    event: Option<Instant>,
    /// It is forgiven, and so many bytes of it are.
    forgives: bool,
    forgiven: u64,
    forgiven_runs: u32,
    last_lost: Option<u64>,
    /// Losses of the newest report.
    runs: u32,
    /// Since the last trial, if losses are forgiven.
    tally: Tally,
    trial: Option<Trial>,
    confirmed: u32,
    refused: u32,
    refused_until: Option<Instant>,
    /// Since when there is no queue.
    quiet_since: Option<Instant>,
    reopened: u32,
    reopens_at: Option<Instant>,
    rtt: Duration,
}

impl Path {
    fn new(mtu: u16) -> Self {
        Self {
            mtu,
            ..Self::default()
        }
    }

    fn on_lost(&mut self, lost: &LostPacket) {
        let run = self.last_lost.is_none_or(|last| lost.number != last + 1);
        self.last_lost = Some(lost.number);
        if !run {
            return;
        }
        match &mut self.trial {
            None => self.runs = self.runs.saturating_add(1),
            Some(trial) if trial.counts_from.is_some_and(|from| lost.sent >= from) => {
                trial.seen.runs += 1;
            }
            Some(_) => {}
        }
    }

    /// Packets were lost. Whether the window gives way; `window` before it does.
    fn on_loss(&mut self, event: &CongestionEvent, window: u64, slow_start: bool) -> bool {
        let runs = std::mem::take(&mut self.runs);
        if event.persistent {
            self.judge.judge(true);
            (self.forgives, self.trial) = (false, None);
            self.tally = Tally::default();
            self.event = Some(event.now);
            return true;
        }
        if self.event.is_none_or(|began| event.newest_sent > began) {
            self.event = Some(event.now);
            self.forgiven = 0;
            let runs = std::mem::take(&mut self.forgiven_runs);
            self.tally.runs = self.tally.runs.saturating_add(runs);
            self.forgives = self.judge.judge(false) != LossCause::Overflow
                && self.judge.chance_share() >= FORGIVEN_SHARE
                && !self.judge.has_plain_queue()
                && self.refused_until.is_none_or(|until| event.now >= until)
                && !self.begin_trial(event.now, window);
        }
        if !self.forgives {
            return true;
        }
        self.forgiven = self.forgiven.saturating_add(event.lost_bytes);
        let most = (window as f64 * FORGIVEN_PART) as u64;
        self.forgives = self.forgiven <= most.max(u64::from(self.mtu));
        if self.forgives && !slow_start {
            // In slow start, the first packets that a queue drops may be among them.
            self.forgiven_runs = self.forgiven_runs.saturating_add(runs);
        } else {
            self.forgiven_runs = 0;
        }
        !self.forgives
    }

    /// Begins a trial, if it is time for one.
    fn begin_trial(&mut self, now: Instant, window: u64) -> bool {
        let due = FORGIVEN_RUNS << self.confirmed.min(MOST_DOUBLINGS);
        if self.trial.is_some() || self.tally.runs < due {
            return false;
        }
        self.trial = Some(Trial {
            began: now,
            window,
            rate: self.tally.rate(),
            counts_from: None,
            seen: Tally::default(),
        });
        true
    }

    /// Whether slow start begins again, after a loss that was forgiven outside of it.
    fn reopens(&mut self, now: Instant) -> bool {
        let quiet =
            |since: Instant| now.saturating_duration_since(since) >= QUIET_ROUNDS * self.rtt;
        if self.trial.is_some()
            || !self.quiet_since.is_some_and(quiet)
            || self.reopens_at.is_some_and(|at| now < at)
        {
            return false;
        }
        self.reopens_at = Some(now + REOPENED * (1 << self.reopened.min(MOST_DOUBLINGS)));
        self.reopened += 1;
        true
    }

    /// An ACK frame was processed. The window to go back to, if a trial has found that it was no reason to leave it.
    fn on_ack(&mut self, ack: &AckSummary<'_>, window: u64, slow_start: bool) -> Option<u64> {
        if let Some(sample) = ack.rtt_sample {
            // The peer's delay is no queue.
            let sample = sample.saturating_sub(ack.rtt.latest_delay());
            self.judge.on_sample(ack.now, sample, ack.rtt);
            self.rtt = ack.rtt.smoothed();
            if !self.judge.is_quiet() {
                self.quiet_since = None;
            } else if self.quiet_since.is_none() {
                self.quiet_since = Some(ack.now);
            }
        }
        let acked = ack.sample.newly_acked;
        let Some(trial) = &mut self.trial else {
            if !slow_start {
                self.tally.bytes = self.tally.bytes.saturating_add(acked);
            }
            return None;
        };
        match trial.counts_from {
            None if ack.newest_sent > trial.began => trial.counts_from = Some(ack.now),
            Some(from) if ack.newest_sent >= from => trial.seen.bytes += acked,
            _ => {}
        }
        let expected = trial.rate * trial.seen.bytes as f64;
        let seen = f64::from(trial.seen.runs);
        let back = window >= trial.window;
        if expected < TRIAL_RUNS && !back {
            return None;
        }
        let before = trial.window;
        (self.trial, self.tally) = (None, Tally::default());
        if expected < LEAST_TRIAL_RUNS {
            return None;
        }
        let by_chance = seen > expected * RELIEVED;
        // A trial may err.
        self.judge.set_proven(by_chance && self.confirmed > 0);
        if by_chance {
            self.confirmed += 1;
            return Some(before);
        }
        if std::mem::take(&mut self.confirmed) == 0 {
            let longer = 1 << self.refused.min(MOST_DOUBLINGS);
            self.refused_until = Some(ack.now + REFUSED * longer);
            self.refused += 1;
        }
        // Chance was proven before: the next trial decides.
        None
    }
}

/// The controller.
#[derive(Debug)]
pub(super) struct Auto {
    cubic: Cubic,
    paths: Slots<Path>,
}

impl Auto {
    pub(super) fn new(initial: InitialWindow, slow_start: SlowStart) -> Self {
        Self {
            cubic: Cubic::new(initial, slow_start),
            paths: Slots::default(),
        }
    }
}

impl Controller for Auto {
    fn add_path(&mut self, new: &NewPath) {
        self.cubic.add_path(new);
        self.paths.set(new.path, Some(Path::new(new.mtu)));
    }

    fn remove_path(&mut self, path: PathIndex) {
        self.cubic.remove_path(path);
        self.paths.set(path, None);
    }

    fn on_packet_acked(&mut self, packet: &AckedPacket<'_>) {
        self.cubic.on_packet_acked(packet);
    }

    fn on_packet_lost(&mut self, packet: &LostPacket) {
        if let Some(p) = self.paths.get_mut(packet.path) {
            p.on_lost(packet);
        }
    }

    fn on_congestion_event(&mut self, event: &CongestionEvent) {
        let window = self.cubic.window(event.path);
        let slow_start = self.cubic.in_slow_start(event.path);
        let gives_way = match self.paths.get_mut(event.path) {
            Some(p) if !event.ecn => p.on_loss(event, window, slow_start),
            // A mark is never made by chance.
            Some(_) => true,
            None => return,
        };
        if gives_way {
            self.cubic.on_congestion_event(event);
        } else if !slow_start
            && let Some(p) = self.paths.get_mut(event.path)
            && p.reopens(event.now)
        {
            self.cubic.reopen(event.path);
        }
    }

    fn on_spurious_loss(&mut self, loss: &SpuriousLoss) {
        self.cubic.on_spurious_loss(loss);
    }

    fn on_ack_end(&mut self, ack: &AckSummary<'_>) -> bool {
        let window = self.cubic.window(ack.path);
        let slow_start = self.cubic.in_slow_start(ack.path);
        if let Some(p) = self.paths.get_mut(ack.path)
            && let Some(before) = p.on_ack(ack, window, slow_start)
        {
            self.cubic.raise(ack.path, before);
        }
        false
    }

    fn on_resume(&mut self, path: PathIndex, now: Instant, step: &ResumeStep) -> bool {
        self.cubic.on_resume(path, now, step)
    }

    fn on_mtu_update(&mut self, path: PathIndex, mtu: u16) {
        self.cubic.on_mtu_update(path, mtu);
        if let Some(p) = self.paths.get_mut(path) {
            p.mtu = mtu;
        }
    }

    fn window(&self, path: PathIndex) -> u64 {
        self.cubic.window(path)
    }

    fn ssthresh(&self, path: PathIndex) -> u64 {
        self.cubic.ssthresh(path)
    }

    fn in_slow_start(&self, path: PathIndex) -> bool {
        self.cubic.in_slow_start(path)
    }

    fn congestion_events(&self, path: PathIndex) -> u64 {
        self.cubic.congestion_events(path)
    }

    fn loss_causes(&self, path: PathIndex) -> LossCauses {
        self.paths
            .get(path)
            .map_or_else(LossCauses::default, |p| p.judge.causes())
    }
}

#[cfg(test)]
#[path = "auto_tests.rs"]
mod tests;
