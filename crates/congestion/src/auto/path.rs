//! What `auto` knows of one path: whether losses are forgiven, what a trial finds, when BBRv3 takes over and goes; holds no
//! window.

use std::num::NonZeroU64;
use std::time::{Duration, Instant};

use super::shared::Meetings;
use super::stay::{Reason, Stay};
use crate::bbr::Known;
use crate::{AckSummary, CongestionEvent, LossCause, LossJudge, LostPacket};

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

/// A slow start that overflows a queue loses a large part of what it sends in a round trip. What loses no more than this part of
/// the window, in a window of so many packets, was no overflow of ours.
const LONE_PART: u64 = 20;
const LEAST_LONE: u64 = 20;

/// Chance has to explain this part of the newest loss events before BBRv3 takes over,
const HANDED_SHARE: f32 = 0.5;
/// and so many of them, and one more for each time that it was wrong.
const HANDED_EVENTS: f32 = 1.0;
/// In a window of so many packets. Smaller ones take more of them in proportion: a flow of CUBIC makes one loss in about W^2
/// packets by itself, and what few packets of a queue drop looks like chance.
const HANDED_WINDOW: f32 = 60.0;
/// And a larger part of the newest.
const HANDED_SHARE_SMALL: f32 = 0.7;
/// As they are weighted, there are no more than ten.
const MOST_EVENTS: f32 = 9.0;
/// Runs of lost packets that are too many of all packets, once there are so many runs: BBRv3, too, takes no more than 5 % for chance,
/// and a queue of two packets that flows share loses as much.
pub(super) const MOST_LOST: f64 = 0.04;
const MOST_LOST_RUNS: u32 = 16;
/// A path is small whose highest delivery rate fills so many packets of its shortest round trip. A queue of a few packets that it
/// shares drops as much as a radio link loses, at the same round trips, and goes on to when this flow sends less.
const SMALL_PATH: f64 = 20.0;
/// On a small path so many runs are forgiven, not counting slow start: enough until BBRv3 takes over.
const FORGIVEN_SMALL: u32 = 8;
/// And fewer lost runs are too many. CUBIC makes as many in a window of seven packets.
const MOST_LOST_SMALL: f64 = 0.03;
/// For so long it does not take over again after the first time that it was wrong.
const RETURNED: Duration = Duration::from_secs(5);
/// The highest delivery rate is that of this time, at least, and twice that at most.
const RATE_SPAN: Duration = Duration::from_secs(2);
/// So many round trips are counted together, unless there is more to do: as many as the judge takes for the newest ones.
const COUNTED_SAMPLES: u8 = 8;
/// One round trip is sampled for so many packets of the window, which makes 32 if each second packet is acknowledged,
const SAMPLED_PACKETS: u64 = 64;
/// and no fewer than one in so many more.
const MOST_SKIPPED: u64 = 15;
/// Losses of older times count by half each time that there are so many.
const COUNTED_RUNS: u32 = 64;

/// Losses, as runs of packets in a row, among so many bytes that arrived.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Tally {
    pub(super) runs: u32,
    pub(super) bytes: u64,
}

impl Tally {
    /// Runs per byte.
    pub(super) fn rate(self) -> f64 {
        f64::from(self.runs) / self.bytes.max(1) as f64
    }

    /// What is long ago counts by half. Whether it was halved now.
    pub(super) const fn fade(&mut self) -> bool {
        let fades = self.runs >= COUNTED_RUNS;
        if fades {
            self.runs /= 2;
            self.bytes /= 2;
        }
        fades
    }
}

/// A window that was reduced to see whether losses become fewer.
#[derive(Debug, Clone, Copy)]
pub(super) struct Trial {
    began: Instant,
    /// The window before.
    window: u64,
    /// What was lost before, runs per byte.
    rate: f64,
    /// What left until then left before relief was felt.
    counts_from: Option<Instant>,
    seen: Tally,
}

/// Losses in slow start that may be too few for an overflow. The rest of their round trip tells.
#[derive(Debug, Clone, Copy)]
pub(super) struct Lone {
    /// The window before.
    window: NonZeroU64,
    /// So many bytes more may be lost.
    left: u64,
}

/// The window was reduced for no reason.
#[derive(Debug, Clone, Copy)]
pub(super) struct Back {
    /// What it was.
    pub(super) window: u64,
    /// In slow start.
    pub(super) slow_start: bool,
}

#[derive(Debug, Default)]
pub(super) struct Path {
    pub(super) judge: LossJudge,
    pub(super) mtu: u16,
    /// When the loss event under way began: packets sent until then belong to it.
    event: Option<Instant>,
    /// It is forgiven, and so many bytes of it are.
    forgives: bool,
    forgiven: u64,
    forgiven_runs: u32,
    last_lost: Option<u64>,
    /// Of all the time in which the path was small.
    forgiven_small: u8,
    /// Losses of the newest report.
    runs: u32,
    /// What is not counted yet: bytes, the highest rate, and round trips that were sampled.
    acked: u64,
    rate: f32,
    sampled: u8,
    /// ACK frames whose round trip is not sampled: until the next one that is, and between two.
    skipped: u8,
    every: u8,
    /// Since the last trial, if losses are forgiven.
    tally: Tally,
    pub(super) trial: Option<Trial>,
    lone: Option<Lone>,
    confirmed: u8,
    pub(super) refused: u32,
    refused_until: Option<Instant>,
    /// Since when there is no queue.
    quiet_since: Option<Instant>,
    reopened: u8,
    reopens_at: Option<Instant>,
    pub(super) rtt: Duration,
    /// Losses by chance, all runs of them, among what arrived up to these events.
    pub(super) chance: Tally,
    /// What arrived since the newest event: whether it is part of that shows the next one.
    unjudged: u64,
    /// The event under way may be one of chance.
    by_chance: bool,
    /// Losses outside of slow start, those with which an event begins.
    lost: Tally,
    /// The highest delivery rate of this span and of the one before it, bytes per second.
    rates: [f64; 2],
    rates_end: Option<Instant>,
    /// And of all times.
    highest_rate: f64,
    /// Careful resume is under way.
    pub(super) resuming: bool,
    /// BBRv3 is to take over with the next acknowledgement.
    pub(super) hands_over: bool,
    /// BBRv3 steers.
    pub(super) stay: Option<Box<Stay>>,
    /// Times that it was wrong, and until when it does not take over again.
    pub(super) returns: u32,
    returned_until: Option<Instant>,
    /// Times that earlier connections were wrong, by half: part of `returns` and of `refused`.
    pub(super) recalled: u32,
    /// Congestion events of earlier stays.
    pub(super) past_events: u64,
    /// Once there was a loss while there were other paths.
    pub(super) meetings: Option<Box<Meetings>>,
}

impl Path {
    pub(super) fn new(mtu: u16, shortest: Duration) -> Self {
        Self {
            mtu,
            judge: LossJudge::with_min_rtt(shortest),
            ..Self::default()
        }
    }

    pub(super) fn on_lost(&mut self, lost: &LostPacket) {
        let run = self.last_lost.is_none_or(|last| lost.number != last + 1);
        self.last_lost = Some(lost.number);
        if let Some(stay) = &mut self.stay {
            stay.on_lost(lost.sent, lost.size, run);
            return;
        }
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
    pub(super) fn on_loss(
        &mut self,
        event: &CongestionEvent,
        window: u64,
        slow_start: bool,
    ) -> bool {
        self.settle(slow_start);
        let runs = std::mem::take(&mut self.runs);
        if event.persistent {
            self.judge.judge(true);
            (self.forgives, self.hands_over, self.trial) = (false, false, None);
            self.lone = None;
            self.tally = Tally::default();
            self.event = Some(event.now);
            (self.by_chance, self.unjudged) = (false, 0);
            return true;
        }
        if self.event.is_none_or(|began| event.newest_sent > began) {
            self.event = Some(event.now);
            self.forgiven = 0;
            let forgiven = std::mem::take(&mut self.forgiven_runs);
            self.tally.runs = self.tally.runs.saturating_add(forgiven);
            if !slow_start {
                self.lost.runs = self.lost.runs.saturating_add(runs);
            }
            let cause = self.judge.judge(false);
            self.hands_over = cause != LossCause::Overflow && self.may_hand_over(event.now, window);
            self.by_chance = cause != LossCause::Overflow;
            self.count_chance(runs, true);
            self.forgives = cause != LossCause::Overflow
                && !self.loses_too_much()
                && !(self.is_small() && u32::from(self.forgiven_small) >= FORGIVEN_SMALL)
                && self.judge.chance_share() >= FORGIVEN_SHARE
                && !self.judge.has_plain_queue()
                && self.refused_until.is_none_or(|until| event.now >= until)
                && !self.begin_trial(event.now, window);
            let most = window / LONE_PART;
            let may_be_lone = slow_start
                && !self.forgives
                && window >= LEAST_LONE * u64::from(self.mtu)
                && !self.judge.has_probed_queue();
            self.lone = NonZeroU64::new(window)
                .filter(|_| may_be_lone)
                .map(|window| Lone { window, left: most });
        } else {
            self.count_chance(runs, false);
        }
        if let Some(lone) = &mut self.lone {
            match lone.left.checked_sub(event.lost_bytes) {
                Some(left) => lone.left = left,
                None => self.lone = None,
            }
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
            if self.is_small() {
                let runs = u8::try_from(runs).unwrap_or(u8::MAX);
                self.forgiven_small = self.forgiven_small.saturating_add(runs);
            }
        } else {
            self.forgiven_runs = 0;
        }
        !self.forgives
    }

    /// Whether a loss event began just now.
    pub(super) fn began(&self, now: Instant) -> bool {
        self.event == Some(now)
    }

    /// What chance has lost, for comparison with what is lost while BBRv3 steers. Where a queue overflowed, neither its losses nor
    /// what came before them tell of chance. On a small path that others fill it is often both, and the comparison is to be
    /// strict: all that came counts there, and of an event the losses of its first report. `first`: this is the event's first.
    fn count_chance(&mut self, runs: u32, first: bool) {
        if first {
            let before = std::mem::take(&mut self.unjudged);
            if self.by_chance {
                self.chance.bytes = self.chance.bytes.saturating_add(before);
            }
        }
        if self.by_chance && (first || !self.is_small()) {
            self.chance.runs = self.chance.runs.saturating_add(runs);
        }
    }

    /// Packets were lost while BBRv3 steers.
    pub(super) fn on_loss_of_stay(&mut self, event: &CongestionEvent, probing: bool) {
        let new = self.event.is_none_or(|began| event.newest_sent > began);
        if !new && !event.persistent {
            return;
        }
        self.event = Some(event.now);
        // A probe asks for losses: they tell nothing of what the path does without it.
        if probing && !event.persistent {
            self.judge.judge_probe();
        } else {
            self.judge.judge(event.persistent);
            if let Some(stay) = &mut self.stay {
                stay.events = stay.events.saturating_add(1);
            }
        }
    }

    /// More is lost than radio links lose by chance.
    fn loses_too_much(&self) -> bool {
        let most = if self.is_small() {
            MOST_LOST_SMALL
        } else {
            MOST_LOST
        };
        self.lost.runs >= MOST_LOST_RUNS && self.lost.rate() * f64::from(self.mtu) > most
    }

    /// The path holds few packets, as far as was seen.
    fn is_small(&self) -> bool {
        let most = SMALL_PATH * f64::from(self.mtu);
        self.highest_rate * self.judge.min_rtt().as_secs_f64() < most
    }

    /// Whether BBRv3 takes over: chance explains what is lost.
    fn may_hand_over(&self, now: Instant, window: u64) -> bool {
        let small = (HANDED_WINDOW * f32::from(self.mtu) / window.max(1) as f32).min(MOST_EVENTS);
        let share = if small > HANDED_EVENTS {
            HANDED_SHARE_SMALL
        } else {
            HANDED_SHARE
        };
        let enough = HANDED_EVENTS.max(small) + self.returns.min(MOST_DOUBLINGS) as f32;
        self.trial.is_none()
            && !self.resuming
            && self.judge.chance_share() >= share
            && self.judge.chance_sum() >= enough.min(MOST_EVENTS)
            && !self.loses_too_much()
            && self.returned_until.is_none_or(|until| now >= until)
            && self.refused_until.is_none_or(|until| now >= until)
    }

    /// What is known of the path when BBRv3 takes over.
    pub(super) fn begin_stay(&mut self, ack: &AckSummary<'_>, window: u64) -> Known {
        self.start_stay(window);
        Known {
            now: ack.now,
            mtu: self.mtu,
            window,
            rate: self.rates[0].max(self.rates[1]),
            min_rtt: self.judge.min_rtt(),
            delivered: ack.sample.total_delivered,
            loss: self.chance.rate() * f64::from(self.mtu),
        }
    }

    /// BBRv3 steers. `window`: what is left if it causes losses.
    pub(super) fn start_stay(&mut self, window: u64) {
        self.hands_over = false;
        (self.tally, self.trial) = (Tally::default(), None);
        let most = MOST_LOST / f64::from(self.mtu.max(1));
        self.stay = Some(Box::new(Stay::new(self.chance, window, most)));
    }

    /// CUBIC goes on.
    pub(super) fn end_stay(&mut self, reason: Reason, now: Instant) {
        self.judge.forget_chance();
        self.event = Some(now);
        (self.chance, self.unjudged) = (Tally::default(), 0);
        if reason == Reason::NoLosses {
            return;
        }
        let longer = 1 << self.returns.min(MOST_DOUBLINGS);
        self.returned_until = Some(now + RETURNED * longer);
        self.returns += 1;
    }

    fn on_rate(&mut self, now: Instant, rate: f64) {
        if self.rates_end.is_none_or(|end| now >= end) {
            self.rates_end = Some(now + RATE_SPAN);
            self.rates = [0.0, self.rates[0]];
        }
        self.rates[0] = self.rates[0].max(rate);
        self.highest_rate = self.highest_rate.max(rate);
    }

    /// Begins a trial, if it is time for one.
    fn begin_trial(&mut self, now: Instant, window: u64) -> bool {
        let due = FORGIVEN_RUNS << u32::from(self.confirmed).min(MOST_DOUBLINGS);
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
    pub(super) fn reopens(&mut self, now: Instant) -> bool {
        let quiet =
            |since: Instant| now.saturating_duration_since(since) >= QUIET_ROUNDS * self.rtt;
        if self.trial.is_some()
            || !self.quiet_since.is_some_and(quiet)
            || self.reopens_at.is_some_and(|at| now < at)
        {
            return false;
        }
        self.reopens_at =
            Some(now + REOPENED * (1 << u32::from(self.reopened).min(MOST_DOUBLINGS)));
        self.reopened = self.reopened.saturating_add(1);
        true
    }

    /// An ACK frame was processed. Whether more is to be done for it than is done here: for each while losses are being
    /// understood, and else for one in so many.
    #[inline]
    pub(super) fn count(&mut self, ack: &AckSummary<'_>) -> bool {
        self.acked = self.acked.saturating_add(ack.sample.newly_acked);
        // Unlike `f32::max`, which sees to NaN, one instruction.
        let rate = ack.sample.rate as f32;
        self.rate = if rate > self.rate { rate } else { self.rate };
        if self.skipped > 0 {
            self.skipped -= 1;
            return false;
        }
        self.sample(ack)
    }

    /// One of the ACK frames of which the round trip counts.
    #[inline(never)]
    fn sample(&mut self, ack: &AckSummary<'_>) -> bool {
        if let Some(sample) = ack.rtt_sample {
            // The peer's delay is no queue.
            let sample = sample.saturating_sub(ack.rtt.latest_delay());
            self.judge.on_sample(ack.now, sample, ack.rtt);
        }
        if self.is_busy() {
            return true;
        }
        self.skipped = self.every;
        self.sampled += 1;
        self.sampled >= COUNTED_SAMPLES
    }

    /// Whether each ACK frame counts.
    fn is_busy(&self) -> bool {
        self.trial.is_some() || self.lone.is_some() || self.hands_over || self.stay.is_some()
    }

    /// What was acknowledged since this was done before.
    fn settle(&mut self, slow_start: bool) -> u64 {
        let acked = std::mem::take(&mut self.acked);
        // From now on, it may be busy.
        (self.sampled, self.skipped) = (0, 0);
        if self.stay.is_some() {
            return acked;
        }
        if self.is_small() {
            self.chance.bytes = self.chance.bytes.saturating_add(acked);
        } else {
            self.unjudged = self.unjudged.saturating_add(acked);
        }
        self.chance.fade();
        if !slow_start {
            self.lost.bytes = self.lost.bytes.saturating_add(acked);
            self.lost.fade();
            if self.trial.is_none() {
                self.tally.bytes = self.tally.bytes.saturating_add(acked);
            }
        }
        acked
    }

    /// ACK frames were [counted](Self::count), this one as the newest. The window to go back to, if a trial has found that it was
    /// no reason to leave it.
    pub(super) fn on_ack(
        &mut self,
        ack: &AckSummary<'_>,
        window: u64,
        slow_start: bool,
    ) -> Option<Back> {
        self.rtt = ack.rtt.smoothed();
        if !self.judge.is_quiet() {
            self.quiet_since = None;
        } else if self.quiet_since.is_none() {
            self.quiet_since = Some(ack.now);
        }
        let rate = std::mem::take(&mut self.rate);
        if self.stay.is_none() {
            self.on_rate(ack.now, rate.into());
        }
        let acked = self.settle(slow_start);
        if self.stay.is_some() {
            return None;
        }
        let packets = window / u64::from(self.mtu.max(1));
        self.every = (packets / SAMPLED_PACKETS).min(MOST_SKIPPED) as u8;
        if let Some(lone) = self.lone
            && self.event.is_some_and(|began| ack.newest_sent > began)
        {
            self.lone = None;
            // A round trip that did not fill the window shows no overflow either: a burst of few packets may have been one.
            if !ack.sample.app_limited {
                self.judge.revise();
                self.hands_over = self.may_hand_over(ack.now, lone.window.get());
                return Some(Back {
                    window: lone.window.get(),
                    slow_start: true,
                });
            }
        }
        let trial = self.trial.as_mut()?;
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
            self.confirmed = self.confirmed.saturating_add(1);
            return Some(Back {
                window: before,
                slow_start: false,
            });
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

#[cfg(test)]
#[path = "path_tests.rs"]
mod tests;
