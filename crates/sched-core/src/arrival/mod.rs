//! Arrival: sends where data arrives first, waits where the others deliver all of it sooner, and copies what is late.

mod alone;
mod base;
mod config;
mod copies;
mod late;
mod predict;
mod rate;
mod said;

pub use config::ArrivalConfig;

use std::time::Instant;

use base::Base;
use copies::{Copies, REPAIR_ROUNDS, may_miss};
use late::Watch;
use predict::{Prediction, predict, run_among};
use rate::Rate;
use said::{Newest, Said};

use crate::support::{Patience, comes_back, nanos};
use crate::{
    Acked, Context, Data, Decision, Lost, PathSet, PathUpdate, PathUpdateKind, PathView, QueueView,
    Scheduler, Sent,
};

/// Below so many packets to send, nothing is sent ahead of what waits.
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
/// On a path whose smallest RTT was below a millisecond, the queue is in the hosts and counts for no path: `A` is
/// `R / 2 + leaves`, so that the path with the smallest RTT is used until its window is full.
///
/// **Waits end.** Only paths are waited for that have something in flight or are held back by their pacers, and that are
/// not in trouble; and no longer than the probe timeout of the path that is first among them, after which one packet goes.
/// A path without an RTT sample gets packets while no other path has room.
///
/// **What is late.** Of each path, it follows one packet at a time: its acknowledgement is predicted to come after `A + R / 2`.
/// If it has not come after nine eighths of that, one and a half times the mean error of such predictions, and a millisecond,
/// the path is late by the time since the prediction, and `A` grows by as much. With nothing left to send, what is in flight
/// on it goes on the path with the smallest `A` too ([`Data::Reinject`]), if that has room. The budget is 64 kB and a fiftieth of
/// what was delivered.
///
/// **Deadlines** ([`StreamHints::deadline`](crate::StreamHints)). A packet that arrives in time, but misses its deadline with a
/// chance of more than a hundredth, goes on a second path at once, if it is in time there: by an error of the prediction, or
/// by a loss if a repair would come too late. The budget is 64 kB and a fifth of what was delivered.
///
/// **Source.** Ours. Predicted arrival times as the measure are those of OTIAS (Yang, Wang, Amer 2014) and EDPF (Chebrolu,
/// Rao 2006); that new data waits if other paths finish it sooner is ECF's idea (Lim et al., CoNEXT 2017), here for any
/// number of paths and by rates instead of windows; the gap is DAPS' and STMS' idea.
///
/// **Cost.** Two walks over the slots, two divisions per path; 100 bytes of state, and 120 per path.
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
    copies: Copies,
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
    base: Base,
    /// That of the decision under way.
    prediction: Prediction,
    /// The packet whose acknowledgement tells whether predictions come true.
    watch: Watch,
}

impl Known {
    /// Takes in what was acknowledged since the last decision: the round trip without a queue, nanoseconds, and the rate
    /// that was measured, bytes per nanosecond. The path has an RTT sample.
    #[inline]
    fn note(&mut self, config: &ArrivalConfig, now: Instant, path: &PathView) -> (f64, f64) {
        let came = self.rate.is_behind(path);
        let measured = self.rate.update(now, path);
        let base = if config.base {
            self.base.update(now, path, came)
        } else {
            nanos(path.min_rtt)
        };
        (base, measured)
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
            copies: Copies::default(),
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
            if !path.has_rtt() {
                let fewer = found
                    .untested
                    .is_none_or(|other| path.sent_packets < other.sent_packets);
                if path.can_send && fewer {
                    found.untested = Some(path);
                }
                return;
            }
            let known = &mut paths[path.index.get()];
            let (base, measured) = known.note(config, cx.now, path);
            let mut prediction = predict(config, cx.now, path, base, measured);
            if path.in_flight == 0 {
                known.watch.on_idle();
            } else if config.late
                && let Some(late) = known.watch.late_by(cx.now, config.margin)
            {
                // What has been late for so long is expected to stay late for as long again.
                prediction.arrival += late;
            }
            known.prediction = prediction;
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
            if counts && path.has_rtt() && comes_back(path) {
                bytes += self.known(path).prediction.delivered_by(found.arrival);
            }
        }
        bytes
    }

    /// Whether, with nothing waiting, the path with room on which a packet arrives first is to carry copies of what is late on
    /// others, if a copy arrives before a loss would be repaired.
    fn is_to_copy(&mut self, cx: &Context<'_>, best: &PathView, arrival: f64) -> bool {
        if !self.config.late || cx.queue.in_flight == 0 || !self.copies.left_for_late(cx) {
            return false;
        }
        let mut copies = false;
        for path in cx.open() {
            if path.in_flight == 0 || path.suspect {
                continue;
            }
            let watch = self.known(path).watch;
            if let Some(late) = watch.late_by(cx.now, self.config.margin) {
                let repaired = late + REPAIR_ROUNDS * nanos(path.min_rtt);
                copies |= path.index != best.index && arrival < repaired;
            }
            if let Some(due) = watch.due(self.config.margin)
                && due > cx.now
            {
                self.wakeup = Some(self.wakeup.map_or(due, |at| at.min(due)));
            }
        }
        copies
    }

    /// Sends on this path, and on a second one at once what has a deadline that may be missed.
    fn send(&mut self, cx: &Context<'_>, path: &PathView, data: Data) -> Decision {
        let mut copies = PathSet::EMPTY;
        if self.config.deadlines
            && data == Data::Next
            && let Some(deadline) = cx.queue.head.and_then(|head| head.deadline)
            && let Some(second) = self.second(cx, path, deadline)
        {
            copies.insert(second.index);
            self.copies.on_copied(second.mtu.into());
        }
        Decision::Send {
            path: path.index,
            data,
            copies,
        }
    }

    /// The path that carries a copy of what this one may deliver after its deadline, if it arrives in time there.
    fn second<'a>(
        &self,
        cx: &Context<'a>,
        path: &PathView,
        deadline: Instant,
    ) -> Option<&'a PathView> {
        let left = nanos(deadline.saturating_duration_since(cx.now));
        let known = self.known(path);
        let slack = left - known.prediction.arrival;
        let deviation = known.watch.deviation();
        let in_doubt = slack > 0.0 && may_miss(path, nanos(path.smoothed_rtt), slack, deviation);
        if !in_doubt || !self.copies.left_for_deadlines(cx) {
            return None;
        }
        let arrival = |path: &PathView| self.known(path).prediction.arrival;
        let others = cx.sendable().filter(|other| other.index != path.index);
        let in_time = others.filter(|other| other.has_rtt() && arrival(other) < left);
        in_time.min_by(|a, b| arrival(a).total_cmp(&arrival(b)))
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
        let bulk = queue.unsent >= BULK_PACKETS * packet
            && queue.head.is_none_or(|head| head.remaining >= queue.unsent);
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
            said: Said::Soonest,
        };
        let Some(path) = found.best else {
            self.newest.said = match found.untested {
                Some(_) => Said::Untested,
                None => Said::NoRoom,
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
                self.newest.said = Said::CopyLate;
                Data::Reinject
            } else {
                Data::Next
            };
            return Decision::send_data(path.index, data);
        }
        if found.soonest >= found.arrival {
            self.patience.end();
            self.run = match found.paths {
                1 => u32::MAX,
                _ => run_among(cx, path),
            };
            return self.send(cx, path, Data::Next);
        }
        let others = self.others_deliver(cx, &found);
        let waiting = waiting as f64;
        if self.config.wait
            && !path.suspect
            && others >= waiting
            && let Some(awaited) = found.awaited
            && let Some(wait) = self.wait(cx, awaited)
        {
            self.newest.said = Said::Awaited;
            return wait;
        }
        self.patience.end();
        self.newest.said = Said::Meanwhile;
        self.send(cx, path, self.data(queue, path, others as u64))
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
        if let [path] = cx.paths
            && path.open
            && path.can_send
            && path.has_rtt()
            && let Some(decision) = self.decide_alone(cx, path)
        {
            return decision;
        }
        self.decide_among(cx)
    }

    fn why(&self) -> Option<&'static str> {
        Some(self.newest.said.in_words())
    }

    fn run(&self) -> u32 {
        self.run
    }

    fn on_sent(&mut self, event: &Sent) {
        if event.decision != self.newest.number {
            // A copy by the transport.
        } else if self.newest.copies {
            self.copies.on_copied(event.size.into());
        } else if let Some(known) = self.paths.get_mut(event.path.get()) {
            let predicted = known.prediction.round_trip;
            // Of a path without an RTT sample, nothing is predicted.
            if predicted > 0.0 {
                known.watch.on_sent(event.now, predicted);
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
mod tests {
    use std::time::{Duration, Instant};

    use super::*;
    use crate::PathId;
    use crate::PathIndex;

    const fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    /// A path of this RTT whose window of 100 kB is all that bounds it, past its first slow start.
    fn path(slot: usize, rtt: u64) -> PathView {
        changed!(
            PathView::of(slot, ms(rtt)),
            min_rtt = ms(rtt),
            latest_rtt = ms(rtt),
            pto = ms(rtt + 25),
            cwnd = 100_000,
            ssthresh = 100_000
        )
    }

    fn full(slot: usize, rtt: u64) -> PathView {
        changed!(path(slot, rtt), can_send = false, in_flight = 100_000)
    }

    fn queue(unsent: u64) -> QueueView {
        changed!(
            QueueView::default(),
            unsent = unsent,
            window_left = 10_000_000
        )
    }

    fn ask(arrival: &mut Arrival, now: Instant, paths: &[PathView], queue: &QueueView) -> String {
        match arrival.decide(&Context::new(now, paths, queue, 0)) {
            Decision::Send { path, data, .. } => format!("{path} {data:?}"),
            Decision::Wait { until: Some(until) } => {
                format!("wait {}", (until - now).as_millis())
            }
            Decision::Wait { until: None } => "nothing".into(),
        }
    }

    fn once(paths: &[PathView], queue: &QueueView) -> String {
        ask(&mut Arrival::default(), Instant::now(), paths, queue)
    }

    #[test]
    fn the_path_on_which_a_packet_arrives_first() {
        // The slower path's queue is empty: 60 / 2 ms. The other one has 30 ms in its queue and takes 20 / 2 ms.
        let queued = changed!(path(0, 20), in_flight = 100_000, smoothed_rtt = ms(40));
        assert_eq!(
            once(&[queued.clone(), path(1, 58)], &queue(1 << 20)),
            "1 Next"
        );
        assert_eq!(once(&[queued, path(1, 62)], &queue(1 << 20)), "0 Next");
        let [available, backup] = [path(0, 60), path(1, 20)];
        let backup = changed!(backup, status = crate::PathStatus::Backup);
        assert_eq!(once(&[available, backup], &queue(1 << 20)), "0 Next");
    }

    #[test]
    fn with_one_path_a_decision_stands_for_the_batch() {
        let run = |paths: &[PathView], queue: &QueueView| {
            let mut arrival = Arrival::default();
            ask(&mut arrival, Instant::now(), paths, queue);
            arrival.run()
        };
        let backup = changed!(path(1, 20), status = crate::PathStatus::Backup);
        assert_eq!(run(&[path(0, 20)], &queue(9000)), u32::MAX);
        assert_eq!(run(&[path(0, 20), backup], &queue(9000)), u32::MAX);
        // Which path is the soonest changes with each packet; and copies are asked for one by one.
        assert_eq!(run(&[path(0, 20), path(1, 20)], &queue(9000)), 1);
        assert_eq!(run(&[path(0, 20), full(1, 20)], &queue(9000)), 1);
        assert_eq!(run(&[path(0, 20)], &queue(0)), 1);
        assert_eq!(run(&[PathView::of(0, Duration::ZERO)], &queue(9000)), 1);
    }

    #[test]
    fn it_waits_if_the_others_deliver_all_sooner() {
        // 5 kB/ms for 40 ms, less the packet of 1200 bytes by which the window is exceeded.
        let others = |unsent| once(&[full(0, 20), path(1, 100)], &queue(unsent));
        assert_eq!(others(198_000), "wait 45");
        assert_eq!(others(199_000), "1 Next");
        // Of much, the slow path carries what comes after that.
        assert_eq!(others(1 << 20), "1 Ahead(198800)");
        // Two of them deliver as much together: 198 800, and 3.33 kB/ms for 35 ms.
        let three = [full(0, 20), full(1, 30), path(2, 100)];
        assert_eq!(once(&three, &queue(314_000)), "wait 45");
        assert_eq!(once(&three, &queue(315_000)), "2 Ahead(314266)");
    }

    #[test]
    fn no_wait_outlasts_the_probe_timeout() {
        let start = Instant::now();
        let paths = [full(0, 20), path(1, 100)];
        let mut arrival = Arrival::default();
        let mut at = |millis| ask(&mut arrival, start + ms(millis), &paths, &queue(9000));
        assert_eq!(at(0), "wait 45");
        assert_eq!(at(44), "wait 1");
        assert_eq!(at(45), "1 Next");
        assert_eq!(at(46), "wait 45");
        let paced = [
            changed!(
                full(0, 20),
                next_release = Some(start + ms(60)),
                in_flight = 0
            ),
            path(1, 100),
        ];
        let mut arrival = Arrival::default();
        assert_eq!(
            ask(&mut arrival, start + ms(50), &paced, &queue(9000)),
            "wait 10"
        );
    }

    #[test]
    fn nothing_is_waited_for_that_does_not_come_back() {
        let dead = changed!(full(0, 20), in_flight = 0);
        assert_eq!(once(&[dead, path(1, 100)], &queue(9000)), "1 Next");
        let suspect = |view: PathView| changed!(view, suspect = true);
        let all = [suspect(full(0, 20)), suspect(path(1, 100))];
        assert_eq!(once(&all, &queue(9000)), "1 Next");
        assert_eq!(once(&[full(0, 20), path(1, 100)], &queue(0)), "1 Next");
    }

    #[test]
    fn what_is_lost_is_left_to_those_who_deliver_it_sooner() {
        let paths = [full(0, 20), path(1, 100)];
        let lost = |unsent, lost| {
            let queue = changed!(queue(unsent), retransmittable = lost);
            once(&paths, &queue)
        };
        assert_eq!(lost(0, 50_000), "wait 45");
        assert_eq!(lost(0, 200_000), "1 Next");
        assert_eq!(lost(1 << 20, 50_000), "1 Ahead(148800)");
        assert_eq!(lost(1 << 20, 200_000), "1 Next");
        let small = changed!(queue(76_000), retransmittable = 125_000);
        assert_eq!(once(&paths, &small), "1 Ahead(0)");
        let control = changed!(queue(1 << 20), control = true);
        assert_eq!(once(&paths, &control), "1 Next");
    }

    /// It took frames for nothing if the path did not say how large its packets are.
    #[test]
    fn control_frames_wait_whatever_the_size_of_packets() {
        let mut tail = Tail::new();
        tail.queue.control = true;
        tail.paths[1].mtu = 0;
        assert_eq!(tail.at(39), "1 Next");
    }

    #[test]
    fn a_path_without_a_sample_gets_packets_while_no_other_has_room() {
        let new = |slot, sent| changed!(path(slot, 0), sent_packets = sent);
        assert_eq!(
            once(&[full(0, 20), new(1, 7), new(2, 6)], &queue(9000)),
            "2 Next"
        );
        assert_eq!(once(&[path(0, 200), new(1, 0)], &queue(9000)), "0 Next");
        assert_eq!(once(&[full(0, 20)], &queue(9000)), "nothing");
    }

    #[test]
    fn a_slot_s_next_path_has_a_rate_of_its_own() {
        let now = Instant::now();
        let mut arrival = Arrival::default();
        let paths = [
            changed!(full(0, 20), delivered_bytes = 1, delivery_rate = 10_000),
            path(1, 100),
        ];
        // 10 kB/s: 100 kB are in the queue for 10 s.
        assert_eq!(ask(&mut arrival, now, &paths, &queue(9000)), "1 Next");
        let index = PathIndex::new(0).unwrap();
        let abandoned = PathUpdate::new(index, PathId::ZERO, now, PathUpdateKind::Abandoned);
        arrival.on_path(&abandoned);
        let next = [full(0, 20), path(1, 100)];
        assert_eq!(ask(&mut arrival, now, &next, &queue(9000)), "wait 45");
    }

    /// Two paths of 20 and 40 ms with nothing waiting, 10 kB in flight on the first since the start; asked at this time.
    struct Tail {
        arrival: Arrival,
        start: Instant,
        paths: [PathView; 2],
        queue: QueueView,
    }

    impl Tail {
        fn new() -> Self {
            let start = Instant::now();
            let paths = [changed!(path(0, 20), in_flight = 10_000), path(1, 40)];
            let mut tail = Self {
                arrival: Arrival::default(),
                start,
                paths,
                queue: changed!(queue(10_000), in_flight = 10_000),
            };
            assert_eq!(tail.at(0), "0 Next");
            tail.sent(0, 1200);
            tail.queue = changed!(queue(0), in_flight = 10_000);
            tail
        }

        fn at(&mut self, millis: u64) -> String {
            ask(
                &mut self.arrival,
                self.start + ms(millis),
                &self.paths,
                &self.queue,
            )
        }

        fn sent(&mut self, slot: usize, size: u16) {
            let slot = PathIndex::new(slot).unwrap();
            self.arrival
                .on_sent(&Sent::new(slot, self.start, size, 0, false, size));
        }
    }

    #[test]
    fn what_is_late_is_copied_once_nothing_waits() {
        // Predicted after 20 ms: late after 22.5 + 1.5 * 10 + 1 ms.
        let mut tail = Tail::new();
        assert_eq!(tail.at(38), "0 Next");
        let due = tail.arrival.next_wakeup().unwrap() - tail.start;
        assert!(due > ms(38) && due < ms(39), "{due:?}");
        assert_eq!(tail.at(39), "1 Reinject");
        // There is new data: it goes where the late path does not hold it up, without a copy.
        tail.queue.unsent = 1000;
        assert_eq!(tail.at(39), "1 Next");
        tail.queue.unsent = 0;
        let slot = PathIndex::new(0).unwrap();
        let now = tail.start + ms(39);
        tail.arrival
            .on_acked(&Acked::new(slot, now, tail.start, 1200, None, Some(0), 0));
        assert_eq!(tail.at(39), "0 Next");
        let mut tail = Tail::new();
        tail.arrival
            .on_lost(&Lost::new(slot, now, tail.start, 1200, Some(0)));
        assert_eq!(tail.at(39), "0 Next");
        let mut tail = Tail::new();
        tail.arrival.config.late = false;
        assert_eq!(tail.at(39), "0 Next");
        tail.arrival.config.late = true;
        tail.queue.in_flight = 0;
        assert_eq!(tail.at(39), "1 Next");
    }

    #[test]
    fn copies_of_what_is_late_have_a_budget() {
        let mut tail = Tail::new();
        assert_eq!(tail.at(39), "1 Reinject");
        tail.sent(1, 60_000);
        assert_eq!(tail.at(40), "1 Reinject");
        tail.sent(1, 5535);
        assert_eq!(tail.at(41), "1 Reinject");
        tail.sent(1, 1);
        assert_eq!(tail.at(42), "1 Next");
        tail.paths[0].delivered_bytes = 50;
        assert_eq!(tail.at(43), "1 Reinject");
    }

    #[test]
    fn what_may_miss_its_deadline_goes_on_two_paths() {
        let now = Instant::now();
        let lossy = changed!(path(0, 20), sent_packets = 980, lost_packets = 20);
        let other = path(1, 40);
        let decide = |arrival: &mut Arrival, paths: &[PathView], left: Option<u64>| {
            let deadline = left.map(|left| now + ms(left));
            let id = crate::VarInt::from_u32(3).into();
            let head = crate::StreamHead::new(id, 0, 1000, deadline, None);
            let queue = changed!(queue(1000), head = Some(head));
            match arrival.decide(&Context::new(now, paths, &queue, 0)) {
                Decision::Send { path, copies, .. } => (path.get(), copies.len()),
                Decision::Wait { .. } => panic!("waits"),
            }
        };
        let paths = [lossy, other];
        let fresh = |left| decide(&mut Arrival::default(), &paths, left);
        // It arrives after 10 ms, on the other one after 20. A repair takes 30 ms more.
        assert_eq!(fresh(None), (0, 0));
        assert_eq!(fresh(Some(20)), (0, 0));
        assert_eq!(fresh(Some(21)), (0, 1));
        assert_eq!(fresh(Some(39)), (0, 1));
        assert_eq!(fresh(Some(41)), (0, 0));
        assert_eq!(fresh(Some(9)), (0, 0));
        let mut arrival = Arrival::default();
        arrival.config.deadlines = false;
        assert_eq!(decide(&mut arrival, &paths, Some(21)), (0, 0));
        // 64 kB are 54.6 packets.
        let mut arrival = Arrival::default();
        let copied = (0..100).filter(|_| decide(&mut arrival, &paths, Some(21)).1 == 1);
        assert_eq!(copied.count(), 55);
    }

    #[test]
    fn a_path_that_is_late_is_no_better_than_the_others() {
        // The late path delivers nothing before it is heard of: nobody waits for it.
        let mut tail = Tail::new();
        tail.paths = [full(0, 20), path(1, 60)];
        tail.queue = queue(9000);
        assert_eq!(tail.at(30), "wait 45");
        assert_eq!(tail.at(60), "1 Next");
    }
}
