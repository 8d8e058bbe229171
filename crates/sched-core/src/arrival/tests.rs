//! Tests of the whole rule: what goes where, what waits, what is copied.

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
        window_left = 10_000_000,
        purse = 64 * 1024
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

/// Streams of one priority take turns: what lies ahead is of the longest ones, and none of the short ones waits for the slow path.
#[test]
fn of_several_streams_the_slow_path_carries_what_lies_ahead() {
    let paths = [full(0, 20), path(1, 100)];
    let with = |remaining, deadline| {
        let id = crate::StreamId::new(crate::Side::Client, crate::Dir::Bi, 0);
        let head = crate::StreamHead::new(id, 0, remaining, deadline, None);
        let queue = changed!(queue(250_000), head = Some(head));
        once(&paths, &queue)
    };
    assert_eq!(with(50_000, None), "1 Ahead(198800)");
    // One stream that is not long.
    assert_eq!(with(250_000, None), "1 Next");
    // Whose deadline is the nearest goes first.
    let deadline = Instant::now() + ms(60_000);
    assert_eq!(with(50_000, Some(deadline)), "1 Next");
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
fn copies_of_what_is_late_end_with_the_purse() {
    let mut tail = Tail::new();
    assert_eq!(tail.at(39), "1 Reinject");
    tail.queue.purse = 0;
    assert_eq!(tail.at(40), "1 Next");
    tail.queue.purse = 1;
    assert_eq!(tail.at(41), "1 Reinject");
    assert_eq!(tail.arrival.copies_for(), CopyCause::Late);
}

#[test]
fn a_path_behind_others_is_tried_with_copies() {
    let behind = changed!(path(0, 20), others_queue = ms(40));
    let paths = [behind, path(1, 60)];
    let copies = |arrival: &mut Arrival, paths: &[PathView], queue: &QueueView| {
        let queue = changed!(queue.clone(), in_flight = 90_000);
        let cx = Context::new(Instant::now(), paths, &queue, 0);
        match arrival.decide(&cx) {
            Decision::Send { path, copies, .. } => (path.get(), copies.len()),
            Decision::Wait { .. } => panic!("waits"),
        }
    };
    // 10 ms and 40 against 30.
    let mut arrival = Arrival::default();
    assert_eq!(copies(&mut arrival, &paths, &queue(9000)), (1, 1));
    assert_eq!(arrival.copies_for(), CopyCause::Probe);
    assert_eq!(copies(&mut arrival, &paths, &queue(9000)), (1, 0));
    assert_eq!(copies(&mut arrival, &paths, &queue(300)), (1, 1));
    assert_eq!(arrival.copies_for(), CopyCause::Least);
    // Without the queue, it would be no sooner either.
    let far = [
        changed!(path(0, 62), others_queue = ms(40)),
        paths[1].clone(),
    ];
    assert_eq!(copies(&mut arrival, &far, &queue(300)), (1, 0));
    arrival.config.probes = false;
    assert_eq!(copies(&mut arrival, &paths, &queue(300)), (1, 0));
    arrival.config.others = false;
    assert_eq!(copies(&mut arrival, &paths, &queue(300)), (0, 0));
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
}

/// Which path a packet with so much time left goes on, and on how many more.
fn in_time(arrival: &mut Arrival, now: Instant, paths: &[PathView], left: u64) -> (usize, usize) {
    let id = crate::VarInt::from_u32(3).into();
    let head = crate::StreamHead::new(id, 0, 1000, Some(now + ms(left)), None);
    let queue = changed!(queue(1000), head = Some(head));
    match arrival.decide(&Context::new(now, paths, &queue, 0)) {
        Decision::Send { path, copies, .. } => (path.get(), copies.len()),
        Decision::Wait { .. } => panic!("waits"),
    }
}

/// A scheduler whose predictions were off by so much in the mean, milliseconds, on each path.
fn off_by(paths: &[PathView], errors: &[u64]) -> (Arrival, Instant) {
    let (mut arrival, mut now) = (Arrival::default(), Instant::now());
    for (path, error) in paths.iter().zip(errors) {
        arrival.decide(&Context::new(now, paths, &queue(1 << 20), 0));
        let round_trip = arrival.known(path).prediction.round_trip;
        let watch = &mut arrival.paths[path.index.get()].watch;
        watch.on_sent(now, round_trip, 1.5);
        let sent = now;
        now += Duration::from_nanos(round_trip as u64) + ms(*error);
        watch.on_acked(now, sent);
    }
    (arrival, now)
}

#[test]
fn a_deadline_is_kept_where_it_is_missed_the_least() {
    let lossy = changed!(path(0, 20), sent_packets = 980, lost_packets = 40);
    let reliable = changed!(path(1, 40), sent_packets = 980);
    let paths = [lossy, reliable];
    // It arrives after 10 ms and after 20; a repair takes 30 ms more on the first.
    let (mut arrival, now) = off_by(&paths, &[1, 1]);
    assert_eq!(in_time(&mut arrival, now, &paths, 39), (1, 0));
    assert_eq!(in_time(&mut arrival, now, &paths, 41), (0, 0));
    // Hardly in time there: with a copy on the sooner path, and at last on that one with a copy there.
    assert_eq!(in_time(&mut arrival, now, &paths, 23), (1, 1));
    assert_eq!(in_time(&mut arrival, now, &paths, 21), (0, 1));
    // Nothing was sent yet where it would go.
    let mut fresh = Arrival::default();
    assert_eq!(in_time(&mut fresh, now, &paths, 39), (0, 1));
    arrival.config.deadlines = false;
    assert_eq!(in_time(&mut arrival, now, &paths, 39), (0, 0));
}

/// After a fall of its rate, a path is taken for slow until it is tried again.
#[test]
fn what_would_be_late_for_sure_goes_where_predictions_were_often_wrong() {
    let slow = changed!(path(0, 10), in_flight = 90_000, smoothed_rtt = ms(120));
    let paths = [slow, path(1, 92)];
    let (mut arrival, now) = off_by(&paths, &[40, 1]);
    let (at_0, at_1) = (
        arrival.known(&paths[0]).prediction.arrival,
        arrival.known(&paths[1]).prediction.arrival,
    );
    assert!(at_0 > at_1 && at_1 == 46e6, "{at_0} {at_1}");
    assert_eq!(in_time(&mut arrival, now, &paths, 20).0, 0);
    assert_eq!(in_time(&mut arrival, now, &paths, 60).0, 1);
}

#[test]
fn what_is_little_and_alone_goes_on_all_paths() {
    let on = |paths: &[PathView], queue: &QueueView| {
        let mut arrival = Arrival::default();
        match arrival.decide(&Context::new(Instant::now(), paths, queue, 0)) {
            Decision::Send { path, copies, .. } => {
                let least = copies.is_empty() || arrival.copies_for() == CopyCause::Least;
                assert!(least && !copies.contains(path));
                copies
                    .iter()
                    .fold(path.to_string(), |all, path| format!("{all} {path}"))
            }
            Decision::Wait { .. } => panic!("waits"),
        }
    };
    // Three copies at most.
    let paths = [0, 1, 2, 3, 4].map(|slot| path(slot, 20 + 10 * slot as u64));
    assert_eq!(on(&paths, &queue(400)), "0 1 2 3");
    // More than that, beside data, and with a purse that the other kinds need: one path.
    assert_eq!(on(&paths, &queue(401)), "0");
    assert_eq!(on(&paths, &changed!(queue(400), in_flight = 1601)), "0");
    assert_eq!(on(&paths, &changed!(queue(400), purse = 16 * 1024)), "0");
    // 10 ms, and 45 until it would be sent again: not where it arrives after 60.
    assert_eq!(on(&[path(0, 20), path(1, 120)], &queue(400)), "0");
    // But where others' queue would delay it as much: it may stand in the other direction.
    let behind = changed!(path(1, 40), others_queue = ms(90));
    assert_eq!(on(&[path(0, 20), behind], &queue(400)), "0 1");
    // A backup path stays one.
    let backup = changed!(path(1, 20), status = crate::PathStatus::Backup);
    assert_eq!(on(&[path(0, 20), backup], &queue(400)), "0");
    // Within a rack, only the hosts delay it.
    let near = [0, 1].map(|slot| changed!(path(slot, 20), min_rtt = Duration::from_micros(300)));
    assert_eq!(on(&near, &queue(400)), "0");
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

/// A packet of 1000 bytes left.
fn sent(arrival: &mut Arrival, now: Instant, slot: usize) {
    let index = PathIndex::new(slot).unwrap();
    arrival.on_sent(&Sent::new(index, now, 1000, 0, false, 1000));
}

#[test]
fn a_burst_into_an_empty_slow_path_is_a_queue_once_its_bottleneck_is_known() {
    // 500 bytes per ms: ten packets take 20 ms, and are hardly more than a round trip's worth. 10 ms lie between the paths.
    let now = Instant::now();
    let ask_after = |config: &ArrivalConfig, bottleneck, packets: u64, after| {
        let slow = changed!(path(0, 20), bottleneck = bottleneck, cwnd = 20_000);
        let mut arrival = Arrival::new(config);
        ask(
            &mut arrival,
            now,
            &[slow.clone(), path(1, 40)],
            &queue(1 << 20),
        );
        for _ in 0..packets {
            sent(&mut arrival, now, 0);
        }
        let slow = changed!(slow, in_flight = packets * 1000);
        ask(
            &mut arrival,
            now + ms(after),
            &[slow, path(1, 40)],
            &queue(1 << 20),
        )
    };
    let config = ArrivalConfig::default();
    assert_eq!(ask_after(&config, 500_000, 4, 0), "0 Next");
    assert_eq!(ask_after(&config, 500_000, 6, 0), "1 Next");
    assert_eq!(ask_after(&config, 500_000, 6, 3), "0 Next");
    assert_eq!(ask_after(&config, 0, 6, 0), "0 Next");
    let without = ArrivalConfig {
        bottleneck: false,
        ..config
    };
    assert_eq!(ask_after(&without, 500_000, 6, 0), "0 Next");
}

/// However slow a bottleneck is believed to be, what was acknowledged has passed it.
#[test]
fn no_more_bytes_are_before_the_bottleneck_than_are_in_flight() {
    let now = Instant::now();
    let slow = changed!(path(0, 20), bottleneck = 10_000);
    let mut arrival = Arrival::default();
    ask(
        &mut arrival,
        now,
        &[slow.clone(), path(1, 40)],
        &queue(1 << 20),
    );
    for _ in 0..50 {
        sent(&mut arrival, now, 0);
    }
    let busy = changed!(slow.clone(), in_flight = 50_000);
    let paths = [busy, path(1, 40)];
    assert_eq!(
        ask(&mut arrival, now + ms(20), &paths, &queue(1 << 20)),
        "1 Next"
    );
    let paths = [slow, path(1, 40)];
    assert_eq!(
        ask(&mut arrival, now + ms(20), &paths, &queue(1 << 20)),
        "0 Next"
    );
}

#[test]
fn a_path_that_earlier_connections_knew_takes_part_before_its_first_sample() {
    // The first flight left on the path of 20 ms, whose window is full; the other one has no sample yet.
    let new = |saved| {
        let mut new = PathView::of(1, Duration::ZERO);
        (new.saved_rtt, new.cwnd, new.pto) = (saved, 100_000, ms(100));
        new
    };
    let full_new = |saved| changed!(new(saved), can_send = false, in_flight = 100_000);
    assert_eq!(once(&[path(0, 60), new(ms(20))], &queue(9000)), "1 Next");
    assert_eq!(once(&[path(0, 60), new(ms(0))], &queue(9000)), "0 Next");
    // And it is waited for: all that waits arrives there before it would on the far path.
    assert_eq!(
        once(&[path(0, 300), full_new(ms(20))], &queue(9000)),
        "wait 100"
    );
    assert_eq!(
        once(&[path(0, 300), full_new(ms(0))], &queue(9000)),
        "0 Next"
    );
    // It is no path within a host for want of a sample.
    let mut arrival = Arrival::default();
    ask(
        &mut arrival,
        Instant::now(),
        &[path(0, 60), new(ms(20))],
        &queue(9000),
    );
    assert_eq!(arrival.run(), 1);
}
