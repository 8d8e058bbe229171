//! Arrival: sends where data arrives first, and waits where the others deliver all of it sooner; writes no copies.

mod config;
mod predict;
mod rate;

pub use config::ArrivalConfig;

use predict::{Prediction, predict};
use rate::Rate;

use crate::support::{Patience, comes_back};
use crate::{
    Context, Data, Decision, MAX_PATHS, PathUpdate, PathUpdateKind, PathView, QueueView, Scheduler,
};

/// Below so many packets to send, nothing is sent ahead of what waits.
const BULK_PACKETS: u64 = 256;

/// If the others deliver so many times what waits, a packet of the path with room is late for sure.
const SURELY_LATE: f64 = 2.0;

/// Sends each packet on the path on which it arrives first, and waits if the other paths deliver all that waits before that.
///
/// **Rule.** With, for each usable path, `R` the smallest and `S` the smoothed RTT, `W` the window, `F` the bytes in flight,
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
/// **Waits end.** Only paths are waited for that have something in flight or are held back by their pacers, and that are
/// not in trouble; and no longer than the probe timeout of the path that is first among them, after which one packet goes.
/// A path without an RTT sample gets packets while no other path has room.
///
/// **Copies** are the transport's: it copies the last bytes of a transfer if they arrive sooner on another path
/// (`TransportConfig::tail_copies`). As long as its budget ([`QueueView::copyable`]) covers all that a path has in flight, it
/// does not wait if `G` is less than twice what waits: what would be late is copied to the path that it would have waited for.
/// If `G` is more, the packet is late for sure, and the budget is better kept for what is late by accident.
///
/// **Source.** Ours. Predicted arrival times as the measure are those of OTIAS (Yang, Wang, Amer 2014) and EDPF (Chebrolu,
/// Rao 2006); that new data waits if other paths finish it sooner is ECF's idea (Lim et al., CoNEXT 2017), here for any
/// number of paths and by rates instead of windows; the gap is DAPS' and STMS' idea.
///
/// **Cost.** Two walks over the slots, two divisions per path; about 1 kB of state.
///
/// ```
/// use std::time::{Duration, Instant};
/// use mpquic_sched::{Arrival, Context, Decision, PathView, QueueView, Scheduler};
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
    rates: [Rate; MAX_PATHS],
    /// The predictions of the decision under way.
    predictions: [Prediction; MAX_PATHS],
    patience: Patience,
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
}

impl Arrival {
    /// A scheduler with these settings.
    pub fn new(config: &ArrivalConfig) -> Self {
        let nothing = Prediction {
            arrival: 0.0,
            rate: 0.0,
        };
        Self {
            config: config.clone(),
            rates: [Rate::default(); MAX_PATHS],
            predictions: [nothing; MAX_PATHS],
            patience: Patience::default(),
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
        };
        let (config, rates) = (&self.config, &mut self.rates);
        let predictions = &mut self.predictions;
        cx.fold_usable(nothing, |found, path| {
            found.standing = path.standing();
            if !path.has_rtt() {
                let fewer = found
                    .untested
                    .is_none_or(|other| path.sent_packets < other.sent_packets);
                if path.can_send && fewer {
                    found.untested = Some(path);
                }
                return;
            }
            let slot = path.index.get();
            let measured = rates[slot].update(cx.now, path);
            let prediction = predict(config, cx.now, path, measured);
            predictions[slot] = prediction;
            if path.can_send {
                if prediction.arrival < found.arrival {
                    (found.best, found.arrival) = (Some(path), prediction.arrival);
                }
            } else if comes_back(path) && prediction.arrival < found.soonest {
                (found.awaited, found.soonest) = (Some(path), prediction.arrival);
            }
        })
    }

    /// What the paths without room deliver before a packet arrives on the best one with room, bytes.
    fn others_deliver(&self, cx: &Context<'_>, found: &Found<'_>) -> f64 {
        let mut bytes = 0.0;
        for path in cx.open() {
            let counts = !path.can_send && path.standing() == found.standing;
            if counts && path.has_rtt() && comes_back(path) {
                bytes += self.predictions[path.index.get()].delivered_by(found.arrival);
            }
        }
        bytes
    }

    /// Whether a packet on this path might be in time, and the transport can still copy all that the path would have in
    /// flight: what is late there arrives elsewhere, at no other cost than that of having waited.
    fn may_be_late(&self, queue: &QueueView, path: &PathView, others: f64, waiting: f64) -> bool {
        let packet = u64::from(path.mtu);
        self.config.copies
            && others < SURELY_LATE * waiting
            && path.in_flight.saturating_add(packet) <= queue.copyable
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
}

/// New data that the peer's window lets go.
fn new_data(queue: &QueueView) -> u64 {
    queue.unsent.min(queue.window_left)
}

impl Scheduler for Arrival {
    fn decide(&mut self, cx: &Context<'_>) -> Decision {
        let found = self.survey(cx);
        let Some(path) = found.best else {
            return found
                .untested
                .map_or(Decision::Wait { until: None }, |path| {
                    Decision::send(path.index)
                });
        };
        let queue = cx.queue;
        let mut waiting = new_data(queue).saturating_add(queue.retransmittable);
        if queue.control {
            waiting = waiting.saturating_add(u64::from(path.mtu));
        }
        if waiting == 0 || found.soonest >= found.arrival {
            self.patience.end();
            return Decision::send(path.index);
        }
        let others = self.others_deliver(cx, &found);
        let waiting = waiting as f64;
        if self.config.wait
            && !path.suspect
            && others >= waiting
            && !self.may_be_late(queue, path, others, waiting)
            && let Some(awaited) = found.awaited
            && let Some(wait) = self.wait(cx, awaited)
        {
            return wait;
        }
        self.patience.end();
        Decision::send_data(path.index, self.data(queue, path, others as u64))
    }

    fn on_path(&mut self, event: &PathUpdate) {
        // What was measured is of another path.
        if matches!(
            event.kind,
            PathUpdateKind::Abandoned | PathUpdateKind::Moved
        ) {
            self.rates[event.path.get()] = Rate::default();
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
    fn what_the_transport_can_copy_need_not_wait() {
        let slow = changed!(path(1, 100), in_flight = 8800);
        let ask = |unsent, copyable| {
            let queue = changed!(queue(unsent), copyable = copyable);
            once(&[full(0, 20), slow.clone()], &queue)
        };
        assert_eq!(ask(150_000, 9999), "wait 45");
        assert_eq!(ask(150_000, 10_000), "1 Next");
        // The other one delivers 198 800 bytes by then.
        assert_eq!(ask(99_500, 10_000), "1 Next");
    }

    #[test]
    fn what_is_late_for_sure_waits_instead_of_being_copied() {
        let queue = |unsent| changed!(queue(unsent), copyable = 1_000_000);
        let paths = [full(0, 20), path(1, 100)];
        assert_eq!(once(&paths, &queue(99_300)), "wait 45");
        assert_eq!(once(&paths, &queue(9000)), "wait 45");
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
}
