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
//!
//! **BBRv3 takes over** ([`Stay`]) where chance explains most losses, and until its losses or a standing queue speak against it.
//! Then CUBIC goes on with what was found, and the next time is later. It is a considerate BBRv3: what it has in flight fills
//! the path and hardly a queue, so that flows that do not forgive losses keep what these leave to them.

mod memory;
mod stay;

use std::time::{Duration, Instant};

use mpquic_sched_core::{PathIndex, SavedPath};

use super::bbr::{Bbr, Known};
use super::controller::Slots;
use super::cubic::Cubic;
use super::{
    AckSummary, AckedPacket, CongestionControl, CongestionEvent, Controller, InitialWindow,
    LossCause, LossCauses, LossJudge, LostPacket, NewPath, ResumeStep, RttEstimator, SentPacket,
    SlowStart, SpuriousLoss, Steering,
};
use stay::{Reason, Stay};

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
const MOST_LOST: f64 = 0.04;
const MOST_LOST_RUNS: u32 = 16;
/// A path is small whose highest delivery rate fills so many packets of its shortest round trip. A queue of a few packets that it
/// shares drops as much as a radio link loses, at the same round trips, and goes on to when this flow sends less.
const SMALL_PATH: f64 = 20.0;
/// On a small path so many runs are forgiven, not counting slow start: enough until BBRv3 takes over.
const FORGIVEN_SMALL: u32 = 8;
/// And fewer lost runs are too many. CUBIC makes as many in a window of seven packets.
const MOST_LOST_SMALL: f64 = 0.03;
/// Before so many packets were delivered, and none was lost, nothing is watched: most connections end with fewer or stay idle.
const WATCHED: u64 = 8;
/// For so long it does not take over again after the first time that it was wrong.
const RETURNED: Duration = Duration::from_secs(5);
/// The highest delivery rate is that of this time, at least, and twice that at most.
const RATE_SPAN: Duration = Duration::from_secs(2);
/// Losses of older times count by half each time that there are so many.
const COUNTED_RUNS: u32 = 64;

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

    /// What is long ago counts by half.
    const fn fade(&mut self) {
        if self.runs >= COUNTED_RUNS {
            self.runs /= 2;
            self.bytes /= 2;
        }
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
    /// Of all the time in which the path was small.
    forgiven_small: u32,
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
    /// Losses by chance, all runs of them, among what arrived up to these events.
    chance: Tally,
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
    resuming: bool,
    /// BBRv3 is to take over with the next acknowledgement.
    hands_over: bool,
    /// BBRv3 steers.
    stay: Option<Box<Stay>>,
    /// Times that it was wrong, and until when it does not take over again.
    returns: u32,
    returned_until: Option<Instant>,
    /// Times that earlier connections were wrong, by half: part of `returns` and of `refused`.
    recalled: u32,
    /// Congestion events of earlier stays.
    past_events: u64,
}

impl Path {
    fn new(mtu: u16, shortest: Duration) -> Self {
        Self {
            mtu,
            judge: LossJudge::with_min_rtt(shortest),
            ..Self::default()
        }
    }

    fn on_lost(&mut self, lost: &LostPacket) {
        let run = self.last_lost.is_none_or(|last| lost.number != last + 1);
        self.last_lost = Some(lost.number);
        if !run {
            return;
        }
        if let Some(stay) = &mut self.stay {
            stay.on_run(lost.sent);
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
            (self.forgives, self.hands_over, self.trial) = (false, false, None);
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
                && !(self.is_small() && self.forgiven_small >= FORGIVEN_SMALL)
                && self.judge.chance_share() >= FORGIVEN_SHARE
                && !self.judge.has_plain_queue()
                && self.refused_until.is_none_or(|until| event.now >= until)
                && !self.begin_trial(event.now, window);
        } else {
            self.count_chance(runs, false);
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
                self.forgiven_small = self.forgiven_small.saturating_add(runs);
            }
        } else {
            self.forgiven_runs = 0;
        }
        !self.forgives
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
    fn on_loss_of_stay(&mut self, event: &CongestionEvent, probing: bool) {
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
    fn begin_stay(&mut self, ack: &AckSummary<'_>, window: u64) -> Known {
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
    fn start_stay(&mut self, window: u64) {
        self.hands_over = false;
        (self.tally, self.trial) = (Tally::default(), None);
        let most = MOST_LOST / f64::from(self.mtu.max(1));
        self.stay = Some(Box::new(Stay::new(self.chance, window, most)));
    }

    /// CUBIC goes on.
    fn end_stay(&mut self, reason: Reason, now: Instant) {
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
        if self.stay.is_some() {
            return None;
        }
        self.on_rate(ack.now, ack.sample.rate);
        if self.is_small() {
            self.chance.bytes = self.chance.bytes.saturating_add(acked);
            self.chance.fade();
        } else {
            self.unjudged = self.unjudged.saturating_add(acked);
            self.chance.fade();
        }
        if !slow_start {
            self.lost.bytes = self.lost.bytes.saturating_add(acked);
            self.lost.fade();
        }
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

/// A path, which is watched from some packets on.
#[derive(Debug)]
struct Slot {
    mtu: u16,
    watched: Option<Box<Path>>,
}

/// The controller. Small while no path is watched: an idle connection is.
pub(super) struct Auto {
    cubic: Cubic,
    /// Of the paths that it steers; once there is one.
    bbr: Option<Box<Bbr>>,
    slow_start: Option<SlowStart>,
    /// Of BBRv3.
    seed: [u8; 8],
    paths: Slots<Slot>,
}

impl Auto {
    pub(super) fn new(
        initial: InitialWindow,
        slow_start: Option<SlowStart>,
        seed: [u8; 32],
    ) -> Self {
        Self {
            cubic: Cubic::new(initial, slow_start.unwrap_or_default()),
            bbr: None,
            slow_start,
            seed: std::array::from_fn(|i| seed[i]),
            paths: Slots::default(),
        }
    }

    fn watched(&self, path: PathIndex) -> Option<&Path> {
        self.paths.get(path)?.watched.as_deref()
    }

    fn watched_mut(&mut self, path: PathIndex) -> Option<&mut Path> {
        self.paths.get_mut(path)?.watched.as_deref_mut()
    }

    /// The path is watched from now on. `shortest`: the shortest of the round trips that were not, if there were any.
    fn watch(&mut self, path: PathIndex, shortest: Option<Duration>) -> Option<&mut Path> {
        let slot = self.paths.get_mut(path)?;
        let begin = || Box::new(Path::new(slot.mtu, shortest.unwrap_or(Duration::MAX)));
        Some(slot.watched.get_or_insert_with(begin))
    }

    /// BBRv3, which most connections never need.
    fn bbr(&mut self) -> &mut Bbr {
        let seed = std::array::from_fn(|i| self.seed[i % self.seed.len()]);
        let make = || Box::new(Bbr::new(self.cubic.initial, self.slow_start, seed));
        self.bbr.get_or_insert_with(make)
    }

    /// BBRv3, if it steers the path.
    fn handed(&self, path: PathIndex) -> Option<&Bbr> {
        self.watched(path).filter(|p| p.stay.is_some())?;
        self.bbr.as_deref()
    }

    fn handed_mut(&mut self, path: PathIndex) -> Option<&mut Bbr> {
        self.watched(path).filter(|p| p.stay.is_some())?;
        self.bbr.as_deref_mut()
    }

    fn steers(&self, path: PathIndex) -> &dyn Controller {
        match self.handed(path) {
            Some(bbr) => bbr,
            None => &self.cubic,
        }
    }

    fn steers_mut(&mut self, path: PathIndex) -> &mut dyn Controller {
        // Not by `handed_mut`, which would borrow all of it for both arms.
        match (self.handed(path).is_some(), &mut self.bbr) {
            (true, Some(bbr)) => &mut **bbr,
            _ => &mut self.cubic,
        }
    }

    /// An ACK frame of a path that BBRv3 steers.
    fn on_ack_of_stay(&mut self, ack: &AckSummary<'_>) -> bool {
        let Some(bbr) = &mut self.bbr else {
            return false;
        };
        let held_back = bbr.on_ack_end(ack);
        let slot = self.paths.get_mut(ack.path);
        let (Some(p), Some(round)) = (slot.and_then(|s| s.watched.as_mut()), bbr.round(ack.path))
        else {
            return held_back;
        };
        let Some(stay) = &mut p.stay else {
            return held_back;
        };
        let ended = stay.on_ack(
            (ack.now, ack.newest_sent),
            ack.sample.newly_acked,
            ack.rtt_sample,
            (p.judge.min_rtt(), ack.rtt.var()),
            round,
            p.judge.chance_share(),
        );
        let Some(reason) = ended else {
            return held_back;
        };
        // What BBRv3 found fills the path, unless it found that at the cost of others.
        let found = bbr.bdp(ack.path);
        let window = match reason {
            Reason::Losses => found.min(stay.window),
            _ => found,
        };
        p.stay = None;
        p.end_stay(reason, ack.now);
        p.past_events += bbr.congestion_events(ack.path);
        bbr.remove_path(ack.path);
        self.cubic.settle(ack.path, window, ack.now);
        false
    }
}

impl Controller for Auto {
    fn add_path(&mut self, new: &NewPath) {
        if let Some(bbr) = self.handed_mut(new.path) {
            bbr.remove_path(new.path);
        }
        self.cubic.add_path(new);
        let (mtu, watched) = (new.mtu, None);
        self.paths.set(new.path, Some(Slot { mtu, watched }));
        let judged = |saved: &&SavedPath| saved.loss_events > 0 || saved.refusals > 0;
        if let Some(saved) = new.saved.as_ref().filter(judged) {
            self.recall(new, saved);
        }
    }

    fn remove_path(&mut self, path: PathIndex) {
        if let Some(bbr) = self.handed_mut(path) {
            bbr.remove_path(path);
        }
        self.cubic.remove_path(path);
        self.paths.set(path, None);
    }

    fn on_packet_sent(&mut self, packet: &SentPacket) {
        self.steers_mut(packet.path).on_packet_sent(packet);
    }

    fn on_packet_acked(&mut self, packet: &AckedPacket<'_>) {
        self.steers_mut(packet.path).on_packet_acked(packet);
    }

    fn on_packet_lost(&mut self, packet: &LostPacket) {
        if let Some(p) = self.watch(packet.path, None) {
            p.on_lost(packet);
        }
        self.steers_mut(packet.path).on_packet_lost(packet);
    }

    fn on_congestion_event(&mut self, event: &CongestionEvent) {
        let path = event.path;
        if let Some(bbr) = self.handed_mut(path) {
            let probing = bbr.is_probing(path);
            bbr.on_congestion_event(event);
            if let Some(p) = self.watched_mut(path).filter(|_| !event.ecn) {
                p.on_loss_of_stay(event, probing);
            }
            return;
        }
        if event.ecn {
            // A mark is never made by chance.
            self.cubic.on_congestion_event(event);
            return;
        }
        let window = self.cubic.window(path);
        let slow_start = self.cubic.in_slow_start(path);
        let Some(p) = self.watch(path, None) else {
            return;
        };
        if p.on_loss(event, window, slow_start) {
            self.cubic.on_congestion_event(event);
        } else if !slow_start && p.reopens(event.now) {
            self.cubic.reopen(path);
        }
    }

    fn on_spurious_loss(&mut self, loss: &SpuriousLoss) {
        self.steers_mut(loss.path).on_spurious_loss(loss);
    }

    fn on_ack_end(&mut self, ack: &AckSummary<'_>) -> bool {
        let path = ack.path;
        let window = self.cubic.window(path);
        let slow_start = self.cubic.in_slow_start(path);
        if self.watched(path).is_none() {
            let mtu = self.paths.get(path).map_or(0, |slot| slot.mtu);
            if ack.sample.total_delivered < WATCHED * u64::from(mtu) {
                return false;
            }
        }
        let Some(p) = self.watch(path, Some(ack.rtt.min())) else {
            return false;
        };
        let before = p.on_ack(ack, window, slow_start);
        if p.stay.is_some() {
            return self.on_ack_of_stay(ack);
        }
        if p.hands_over {
            let known = p.begin_stay(ack, window);
            self.bbr().take_over(path, &known);
        } else if let Some(before) = before {
            self.cubic.raise(path, before);
        }
        false
    }

    fn on_restart(&mut self, path: PathIndex, now: Instant) {
        self.steers_mut(path).on_restart(path, now);
    }

    fn on_resume(&mut self, path: PathIndex, now: Instant, step: &ResumeStep) -> bool {
        if let Some(p) = self.watch(path, None) {
            p.resuming = match step {
                ResumeStep::Jump { .. } | ResumeStep::Retreat { .. } => true,
                ResumeStep::Settle { validating, .. } => *validating,
                ResumeStep::Validated | ResumeStep::Leave { .. } => false,
            };
        }
        self.steers_mut(path).on_resume(path, now, step)
    }

    fn pacing_rate(&self, path: PathIndex, rtt: &RttEstimator) -> Option<f64> {
        self.steers(path).pacing_rate(path, rtt)
    }

    fn on_mtu_update(&mut self, path: PathIndex, mtu: u16) {
        self.cubic.on_mtu_update(path, mtu);
        if let Some(bbr) = &mut self.bbr {
            bbr.on_mtu_update(path, mtu);
        }
        if let Some(slot) = self.paths.get_mut(path) {
            slot.mtu = mtu;
            if let Some(p) = &mut slot.watched {
                p.mtu = mtu;
            }
        }
    }

    fn window(&self, path: PathIndex) -> u64 {
        self.steers(path).window(path)
    }

    fn ssthresh(&self, path: PathIndex) -> u64 {
        self.steers(path).ssthresh(path)
    }

    fn in_slow_start(&self, path: PathIndex) -> bool {
        self.steers(path).in_slow_start(path)
    }

    fn is_probing(&self, path: PathIndex) -> bool {
        self.steers(path).is_probing(path)
    }

    fn congestion_events(&self, path: PathIndex) -> u64 {
        let past = self.watched(path).map_or(0, |p| p.past_events);
        let bbr = self
            .bbr
            .as_ref()
            .map_or(0, |bbr| bbr.congestion_events(path));
        past + bbr + self.cubic.congestion_events(path)
    }

    fn loss_causes(&self, path: PathIndex) -> LossCauses {
        self.watched(path)
            .map_or_else(LossCauses::default, |p| p.judge.causes())
    }

    fn steering(&self, path: PathIndex) -> Option<Steering> {
        let p = self.watched(path)?;
        let tenths = |sum: f32| (sum * 10.0).round() as u32;
        Some(Steering {
            by: match p.stay {
                Some(_) => CongestionControl::Bbr,
                None => CongestionControl::Cubic,
            },
            refusals: (p.returns + p.refused).saturating_sub(p.recalled),
            loss_events: tenths(p.judge.event_sum()),
            chance_events: tenths(p.judge.chance_sum()),
            chance_loss: p.chance_loss(),
        })
    }
}

#[cfg(test)]
#[path = "auto_tests.rs"]
mod tests;
