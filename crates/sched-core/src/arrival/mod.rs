//! Arrival: sends where data arrives first, waits where the others deliver all of it sooner, and copies what is late.

mod config;
mod copies;
mod overdue;
mod predict;
mod reason;
mod single_path;

pub use config::ArrivalConfig;

use std::time::Instant;

use copies::{
    MISSES, Probes, REPAIR_ROUNDS, is_alone, is_least, may_copy_deadline, may_copy_late, may_miss,
    miss,
};
use overdue::Watch;
use predict::{Own, Prediction, Rate, Shown, is_near, predict, run_among};
use reason::{Newest, Reason};

use crate::patience::float;
use crate::support::{Patience, comes_back, nanos};
use crate::{
    Acked, Context, CopyCause, Data, Decision, Lost, PathSet, PathUpdate, PathUpdateKind, PathView,
    QueueView, Scheduler, Sent,
};

/// Below so many packets of one stream to send, nothing is sent ahead of what waits.
const BULK_PACKETS: u64 = 256;

/// Sends each packet on the path on which it arrives first, and waits if the other paths deliver all that waits before that.
///
/// **Rule.** With, for each usable path, `R` the smallest RTT of the last 5 to 10 s and `S` the smoothed one, `W` the window, `F` the bytes in flight,
/// and `r` the delivery rate (it rises at once and falls over four smoothed RTTs, and is at most `W / S`), a packet of this
/// path arrives in
///
/// ```text
/// A = R / 2 + max(leaves, F / r - R)
/// ```
///
/// `F / r - R` is the time until the path's queue is empty. `leaves` is when the path takes the packet: now, when its pacer
/// says, or when as much is acknowledged as exceeds a full window, at the rate `r`.
///
/// Of the paths with room ([`Context::sendable`]), the packet goes on the one with the smallest `A`. Those without room
/// deliver `G`, the sum of their `r (A - A_i)` as far as that is positive, before it arrives. If `G` is all that waits, new
/// and lost, and flow control lets it go, it waits. If not, and a single stream has more than 256 packets to send, the packet
/// carries what lies `G` ahead ([`Data::Ahead`]), so that the receiver need not hold it for long; lost data that the others
/// deliver sooner is left to them.
///
/// In a path's first slow start, the measured rate says what the window was a round trip ago. Unless the newest RTT sample
/// exceeds `R` by an eighth and a millisecond, there is no queue then: `F / r - R` counts as zero, and `r` is `2 W / S`.
///
/// Once packets were seen to arrive slower than they left, or earlier connections saw that, the rate of the bottleneck is known
/// ([`PathView::bottleneck`]), and `A` is no less than `R / 2` and what it takes to let through those of our bytes that have not passed
/// it yet: a burst into an empty slow path is a queue before any round trip shows it. In `G`, `r` is then that rate if it is higher, and
/// at most `W / S`: an application that sends little at a time is never seen to get all of it.
///
/// On a path whose smallest RTT was below a millisecond, the queue is in the hosts and counts for no path: `A` is
/// `R / 2 + leaves`, so that the path with the smallest RTT is used until its window is full.
///
/// **Waits end.** Only paths are waited for that have something in flight or are held back by their pacers, and that are
/// not in trouble; and no longer than the probe timeout of the path that is first among them, after which one packet goes.
/// A path without an RTT sample has the round trip that earlier connections saw; if none did, it gets packets while no other
/// path has room.
///
/// **What is late.** Of each path, it follows one packet at a time: its acknowledgement is predicted to come after `A + R / 2`.
/// If it has not come after nine eighths of that, one and a half times the mean error of such predictions, and a millisecond,
/// the path is late by the time since the prediction, and `A` grows by as much. With nothing left to send, what is in flight
/// on it goes on the path with the smallest `A` too ([`Data::Reinject`]), if that has room.
///
/// **Others.** What a path's round trips have above `R` and our own bytes is a queue of others ([`PathView::others_queue`]), and is
/// added to `A`. It is believed for some seconds, and meanwhile tried again: a packet that goes elsewhere is copied to the path that
/// would be the soonest without that queue, if nothing is in flight there and nobody has looked for two round trips, twice a
/// second at most. If no more than 400 bytes wait, they always go on both; and on up to four paths if hardly more is in flight: a
/// request.
///
/// **Deadlines** ([`StreamHints::deadline`](crate::StreamHints)). Each path misses a deadline with a chance: by an error of the
/// prediction, or by a loss if a repair would come too late. If that is more than a hundredth on the path where a packet arrives
/// first, it goes where it is the smallest, if that is less by a hundredth. What is likely to arrive in time there, but misses
/// the deadline with more than a hundredth, goes on a second path at once, if it is in time there, too.
///
/// **What is sent twice** comes out of the connection's purse ([`QueueView::purse`]). The less is left, the
/// likelier a deadline must be missed to be worth a copy, and 8 kB are left for what is late and for probes.
///
/// **Source.** Ours. Predicted arrival times as the measure are those of OTIAS (Yang, Wang, Amer 2014) and EDPF (Chebrolu,
/// Rao 2006); that new data waits if other paths finish it sooner is ECF's idea (Lim et al., CoNEXT 2017), here for any
/// number of paths and by rates instead of windows; the gap is DAPS' and STMS' idea.
///
/// **Cost.** Two walks over the slots, three divisions per path; 110 bytes of state, and 150 per path.
///
/// ```
/// use std::time::{Duration, Instant};
/// use mpquic_sched_core::{Arrival, Context, Decision, PathView, QueueView, Scheduler};
///
/// let now = Instant::now();
/// let view = |slot, rtt_ms| {
///     let mut view = PathView::of(slot, Duration::from_millis(rtt_ms));
///     (view.min_rtt, view.latest_rtt) = (view.smoothed_rtt, view.smoothed_rtt);
///     (view.cwnd, view.ssthresh) = (100_000, 100_000);
///     view.pto = Duration::from_millis(rtt_ms + 25);
///     view
/// };
/// // 100 kB per 20 ms, and the window is full: the next packet arrives in 10 ms all the same.
/// let mut paths = [view(0, 20), view(1, 100)];
/// (paths[0].can_send, paths[0].in_flight) = (false, 100_000);
/// let mut queue = QueueView::default();
/// queue.window_left = 1_000_000;
///
/// // The fast path delivers 200 kB in the 40 ms by which a packet on the slow one arrives later.
/// let mut scheduler = Arrival::default();
/// queue.unsent = 150_000;
/// let decision = scheduler.decide(&Context::new(now, &paths, &queue, 0));
/// assert!(matches!(decision, Decision::Wait { until: Some(_) }));
///
/// queue.unsent = 250_000;
/// let decision = scheduler.decide(&Context::new(now, &paths, &queue, 1));
/// assert!(matches!(decision, Decision::Send { path, .. } if path == paths[1].index));
/// ```
#[derive(Debug, Clone)]
pub struct Arrival {
    config: ArrivalConfig,
    /// By slot, as many as a decision was asked about.
    paths: Vec<Known>,
    patience: Patience,
    probes: Probes,
    /// What the newest decision was for.
    newest: Newest,
    /// When something is late that is not yet, if nothing happens before.
    wakeup: Option<Instant>,
    /// For how many packets the newest decision stands.
    run: u32,
}

/// What is known of a path.
#[derive(Debug, Clone, Copy, Default)]
struct Known {
    rate: Rate,
    /// That of the decision under way.
    prediction: Prediction,
    /// The packet whose acknowledgement tells whether predictions come true.
    watch: Watch,
    own: Own,
}

impl Known {
    /// Takes in what was acknowledged since the last decision. The path's round trip is known.
    #[inline(always)]
    fn note(&mut self, config: &ArrivalConfig, now: Instant, path: &PathView) -> Shown {
        let base = if !path.has_rtt() {
            path.saved_rtt
        } else if config.base {
            path.base()
        } else {
            path.min_rtt
        };
        let bottleneck = if config.bottleneck {
            float(path.bottleneck) * 1e-9
        } else {
            0.0
        };
        Shown {
            base: nanos(base),
            measured: self.rate.update(now, path),
            bottleneck,
            own: self.own.time(now, bottleneck, path.in_flight),
        }
    }
}

impl Default for Arrival {
    fn default() -> Self {
        Self::new(&ArrivalConfig::default())
    }
}

/// What one walk over the paths finds.
#[derive(Clone, Copy)]
struct Found<'a> {
    /// The path with room on which a packet arrives first, and when that is.
    best: Option<&'a PathView>,
    arrival: f64,
    /// The path with room that has no RTT sample and the fewest packets sent.
    untested: Option<&'a PathView>,
    /// A path without room on which a packet arrives first, and when that is.
    awaited: Option<&'a PathView>,
    soonest: f64,
    /// The path with room that would be the soonest without the queue that others have put there, and when that would be.
    tempting: Option<&'a PathView>,
    at_best: f64,
    standing: u8,
    /// Paths that were looked at.
    paths: usize,
}

impl Arrival {
    /// A scheduler with these settings.
    pub fn new(config: &ArrivalConfig) -> Self {
        Self {
            config: config.clone(),
            paths: Vec::new(),
            patience: Patience::default(),
            probes: Probes::default(),
            newest: Newest::default(),
            wakeup: None,
            run: 1,
        }
    }

    /// Predicts for all usable paths.
    fn survey<'a>(&mut self, cx: &Context<'a>) -> Found<'a> {
        let nothing = || Found {
            best: None,
            arrival: f64::INFINITY,
            untested: None,
            awaited: None,
            soonest: f64::INFINITY,
            tempting: None,
            at_best: f64::INFINITY,
            standing: u8::MAX,
            paths: 0,
        };
        if self.paths.len() < cx.paths.len() {
            self.grow(cx.paths.len());
        }
        let (config, paths) = (&self.config, &mut self.paths);
        cx.fold_usable(nothing, |found, path| {
            found.standing = path.standing();
            found.paths += 1;
            if path.known_rtt().is_zero() {
                let fewer = found
                    .untested
                    .is_none_or(|other| path.sent_packets < other.sent_packets);
                if path.can_send && fewer {
                    found.untested = Some(path);
                }
                return;
            }
            let known = &mut paths[path.index.get()];
            let shown = known.note(config, cx.now, path);
            let mut prediction = predict(config, cx.now, path, &shown);
            if path.in_flight == 0 {
                known.watch.on_idle();
            } else if config.late
                && let Some(late) = known.watch.overdue_by(cx.now)
            {
                // What has been late for so long is expected to stay late for as long again.
                prediction.arrival += late;
            }
            known.prediction = prediction;
            if prediction.others > 0.0 && path.can_send {
                let at_best = prediction.arrival - prediction.others;
                if at_best < found.at_best {
                    (found.tempting, found.at_best) = (Some(path), at_best);
                }
            }
            if path.can_send {
                if prediction.arrival < found.arrival {
                    (found.best, found.arrival) = (Some(path), prediction.arrival);
                }
            } else if comes_back(path) && prediction.arrival < found.soonest {
                (found.awaited, found.soonest) = (Some(path), prediction.arrival);
            }
        })
    }

    /// There are paths in more slots than before.
    #[cold]
    fn grow(&mut self, slots: usize) {
        self.paths.reserve_exact(slots - self.paths.len());
        self.paths.resize(slots, Known::default());
    }

    fn known(&self, path: &PathView) -> &Known {
        &self.paths[path.index.get()]
    }

    /// What the paths without room deliver before a packet arrives on the best one with room, bytes.
    fn others_deliver(&self, cx: &Context<'_>, found: &Found<'_>) -> f64 {
        let mut bytes = 0.0;
        for path in cx.open() {
            let counts = !path.can_send && path.standing() == found.standing;
            if counts && !path.known_rtt().is_zero() && comes_back(path) {
                bytes += self.known(path).prediction.delivered_by(found.arrival);
            }
        }
        bytes
    }

    /// Whether, with nothing waiting, the path with room on which a packet arrives first is to carry copies of what is late on
    /// others, if a copy arrives before a loss would be repaired.
    fn is_to_copy(&mut self, cx: &Context<'_>, best: &PathView, arrival: f64) -> bool {
        if !self.config.late || cx.queue.in_flight == 0 || !may_copy_late(cx.queue) {
            return false;
        }
        let mut copies = false;
        for path in cx.open() {
            if path.in_flight == 0 || path.suspect {
                continue;
            }
            let watch = self.known(path).watch;
            if let Some(late) = watch.overdue_by(cx.now) {
                let repaired = late + REPAIR_ROUNDS * nanos(path.min_rtt);
                copies |= path.index != best.index && arrival < repaired;
            }
            if let Some(due) = watch.due()
                && due > cx.now
            {
                self.wakeup = Some(self.wakeup.map_or(due, |at| at.min(due)));
            }
        }
        copies
    }

    /// Sends on this path, and at once on a second one what has a deadline that may be missed, or with what a path is tried that would
    /// be the soonest if the queue that others have put there was gone; and on all what is little and alone.
    #[inline]
    fn send(
        &mut self,
        cx: &Context<'_>,
        path: &PathView,
        data: Data,
        found: &Found<'_>,
        waiting: u64,
    ) -> Decision {
        let deadline = cx.queue.head.as_ref().and_then(|head| head.deadline);
        let copies = match (deadline, found.tempting) {
            (None, None) if !is_least(waiting) => PathSet::EMPTY,
            _ if data != Data::Next => PathSet::EMPTY,
            (deadline, tempting) => {
                let tempting = tempting.filter(|_| found.at_best < found.arrival);
                self.also_on(cx, path, deadline, tempting, waiting)
            }
        };
        Decision::Send {
            path: path.index,
            data,
            copies,
        }
    }

    /// The paths on which the next packet goes, too.
    #[inline(never)]
    fn also_on(
        &mut self,
        cx: &Context<'_>,
        path: &PathView,
        deadline: Option<Instant>,
        tempting: Option<&PathView>,
        waiting: u64,
    ) -> PathSet {
        if self.config.deadlines
            && let Some(deadline) = deadline
            && let Some(second) = self.second(cx, path, deadline)
        {
            return PathSet::only(second.index);
        }
        if !self.config.probes {
            return PathSet::EMPTY;
        }
        if is_least(waiting) && is_alone(cx.queue) && !is_near(path) {
            let all = self.before_its_repair(cx, path);
            if !all.is_empty() {
                self.newest.reason = Reason::Alone;
                self.newest.cause = CopyCause::Least;
                return all;
            }
        }
        let Some(tempting) = tempting.filter(|other| other.index != path.index) else {
            return PathSet::EMPTY;
        };
        if !self.probes.is_due(cx, tempting, waiting) {
            return PathSet::EMPTY;
        }
        self.newest.reason = Reason::Tried;
        self.newest.cause = if is_least(waiting) {
            CopyCause::Least
        } else {
            CopyCause::Probe
        };
        PathSet::only(tempting.index)
    }

    /// Three more paths on which a packet arrives before this one would have sent it again, were it not for queues of others: those
    /// may be gone, or stand in the other direction.
    fn before_its_repair(&self, cx: &Context<'_>, path: &PathView) -> PathSet {
        let latest = self.known(path).prediction.arrival + nanos(path.pto);
        let others = cx.sendable().filter(|other| {
            let Prediction {
                arrival, others, ..
            } = self.known(other).prediction;
            other.index != path.index && other.has_rtt() && arrival - others <= latest
        });
        let mut all = PathSet::EMPTY;
        for other in others.take(3) {
            all.insert(other.index);
        }
        all
    }

    /// The path on which what goes next misses its deadline less often than on the one where it arrives first: that loses
    /// packets, or is known to be late where this one was often wrong.
    #[inline(never)]
    fn rather_in_time<'a>(
        &self,
        cx: &Context<'a>,
        soonest: &PathView,
        deadline: Instant,
    ) -> Option<&'a PathView> {
        let of_soonest = self.miss(cx, soonest, deadline);
        if of_soonest <= MISSES {
            return None;
        }
        let others = cx.sendable();
        let others = others
            .filter(|other| other.index != soonest.index && self.known(other).watch.is_tried());
        let (least, path) = others
            .map(|other| (self.miss(cx, other, deadline), other))
            .min_by(|a, b| a.0.total_cmp(&b.0))?;
        (least + MISSES < of_soonest).then_some(path)
    }

    /// The chance that a packet on this path misses its deadline.
    fn miss(&self, cx: &Context<'_>, path: &PathView, deadline: Instant) -> f64 {
        let left = nanos(deadline.saturating_duration_since(cx.now));
        let known = self.known(path);
        let slack = left - known.prediction.arrival;
        miss(path, slack, known.watch.deviation())
    }

    /// The path that carries a copy of what this one may deliver after its deadline, if it arrives in time there.
    fn second<'a>(
        &self,
        cx: &Context<'a>,
        path: &PathView,
        deadline: Instant,
    ) -> Option<&'a PathView> {
        let left = nanos(deadline.saturating_duration_since(cx.now));
        let in_time = |path: &PathView| self.known(path).prediction.arrival < left;
        let chance = self.miss(cx, path, deadline);
        let purse = cx.queue.purse;
        if !in_time(path) || !may_miss(chance, purse) || !may_copy_deadline(cx.queue) {
            return None;
        }
        let arrival = |path: &PathView| self.known(path).prediction.arrival;
        let others = cx.sendable().filter(|other| other.index != path.index);
        let others = others.filter(|other| other.has_rtt() && in_time(other));
        others.min_by(|a, b| arrival(a).total_cmp(&arrival(b)))
    }

    fn wait(&mut self, cx: &Context<'_>, awaited: &PathView) -> Option<Decision> {
        let deadline = self.patience.deadline(cx.now, awaited)?;
        // Nothing but a timer tells that a pacer has opened.
        let until = match awaited.next_release {
            Some(release) if release > cx.now => release.min(deadline),
            _ => deadline,
        };
        Some(Decision::Wait { until: Some(until) })
    }

    /// What goes on a path by whose delivery the others have delivered so many bytes.
    fn data(&self, queue: &QueueView, path: &PathView, others: u64) -> Data {
        let lost = queue.retransmittable;
        let packet = u64::from(path.mtu);
        if queue.control || others < packet || others < lost {
            return Data::Next;
        }
        let bulk = match queue.head {
            Some(head) if head.deadline.is_some() => false,
            Some(head) if head.remaining < queue.unsent => true,
            _ => queue.unsent >= BULK_PACKETS * packet,
        };
        let gap = others - lost;
        if self.config.ahead && bulk && gap < new_data(queue) {
            Data::Ahead(gap)
        } else if lost > 0 && new_data(queue) > 0 {
            Data::Ahead(0)
        } else {
            Data::Next
        }
    }

    /// The decision where there may be a choice.
    #[inline(never)]
    fn decide_among(&mut self, cx: &Context<'_>) -> Decision {
        let found = self.survey(cx);
        self.wakeup = None;
        self.run = 1;
        self.newest = Newest {
            number: cx.decision,
            copies: false,
            cause: CopyCause::Deadline,
            reason: Reason::Soonest,
        };
        let Some(path) = found.best else {
            self.newest.reason = match found.untested {
                Some(_) => Reason::Untested,
                None => Reason::NoRoom,
            };
            return found
                .untested
                .map_or(Decision::Wait { until: None }, |path| {
                    Decision::send(path.index)
                });
        };
        let queue = cx.queue;
        let mut waiting = new_data(queue).saturating_add(queue.retransmittable);
        if queue.control {
            waiting = waiting.saturating_add(u64::from(path.mtu.max(1)));
        }
        if waiting == 0 {
            self.patience.end();
            self.newest.copies = self.is_to_copy(cx, path, found.arrival);
            let data = if self.newest.copies {
                self.newest.reason = Reason::CopyLate;
                self.newest.cause = CopyCause::Late;
                Data::Reinject
            } else {
                Data::Next
            };
            return Decision::send_data(path.index, data);
        }
        if self.config.deadlines
            && let Some(deadline) = queue.head.as_ref().and_then(|head| head.deadline)
            && let Some(other) = self.rather_in_time(cx, path, deadline)
        {
            self.patience.end();
            self.newest.reason = Reason::InTime;
            return self.send(cx, other, Data::Next, &found, waiting);
        }
        if found.soonest >= found.arrival {
            self.patience.end();
            self.run = match found.paths {
                1 => u32::MAX,
                _ => run_among(cx, path),
            };
            return self.send(cx, path, Data::Next, &found, waiting);
        }
        let others = self.others_deliver(cx, &found);
        if self.config.wait
            && !path.suspect
            && others >= waiting as f64
            && let Some(awaited) = found.awaited
            && let Some(wait) = self.wait(cx, awaited)
        {
            self.newest.reason = Reason::Awaited;
            return wait;
        }
        self.patience.end();
        self.newest.reason = Reason::Meanwhile;
        let data = self.data(queue, path, others as u64);
        self.send(cx, path, data, &found, waiting)
    }
}

/// New data that the peer's window lets go.
fn new_data(queue: &QueueView) -> u64 {
    queue.unsent.min(queue.window_left)
}

impl Scheduler for Arrival {
    fn follows_streams(&self) -> bool {
        false
    }

    fn decide(&mut self, cx: &Context<'_>) -> Decision {
        match cx.paths {
            [path] if path.open && path.can_send && path.has_rtt() => {
                self.decide_single_path(cx, path)
            }
            _ => self.decide_among(cx),
        }
    }

    fn why(&self) -> Option<&'static str> {
        Some(self.newest.reason.in_words())
    }

    fn heeds_purse(&self) -> bool {
        true
    }

    fn copies_for(&self) -> CopyCause {
        self.newest.cause
    }

    fn run(&self) -> u32 {
        self.run
    }

    fn on_sent(&mut self, event: &Sent) {
        if let Some(known) = self.paths.get_mut(event.path.get()) {
            known.own.on_sent(event.now, event.size);
        }
        if event.decision != self.newest.number {
            // A copy by the transport.
        } else if self.newest.copies {
            // Follows what was sent before.
        } else if let Some(known) = self.paths.get_mut(event.path.get()) {
            let predicted = known.prediction.round_trip;
            // Of a path without an RTT sample, nothing is predicted.
            if predicted > 0.0 {
                known
                    .watch
                    .on_sent(event.now, predicted, self.config.margin);
            }
        }
    }

    fn on_acked(&mut self, event: &Acked) {
        if let Some(known) = self.paths.get_mut(event.path.get()) {
            known.watch.on_acked(event.now, event.sent);
        }
    }

    fn on_lost(&mut self, event: &Lost) {
        if let Some(known) = self.paths.get_mut(event.path.get()) {
            known.watch.on_lost(event.sent);
        }
    }

    fn next_wakeup(&self) -> Option<Instant> {
        self.wakeup
    }

    fn on_wakeup(&mut self, _cx: &Context<'_>) {
        self.wakeup = None;
    }

    fn on_path(&mut self, event: &PathUpdate) {
        if event.kind == PathUpdateKind::Opened && self.paths.len() <= event.path.get() {
            self.grow(event.path.get() + 1);
        }
        let of_another_path = matches!(
            event.kind,
            PathUpdateKind::Abandoned | PathUpdateKind::Moved
        );
        if of_another_path && let Some(known) = self.paths.get_mut(event.path.get()) {
            *known = Known::default();
        }
    }
}

#[cfg(test)]
mod tests;
