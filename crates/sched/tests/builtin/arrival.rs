//! What holds for `arrival`, whatever it sees: a path with room, or a wait that ends; no more gap than there is data; copies only of what may
//! be late.

use std::time::{Duration, Instant};

use mpquic_sched::{
    Acked, Arrival, ArrivalConfig, Context, Data, Decision, PathIndex, PathStatus, PathView,
    QueueView, Scheduler, Sent, StreamHead, VarInt,
};
use proptest::collection::vec;
use proptest::prelude::*;

/// From a nanosecond to longer than anybody lives.
fn time() -> impl Strategy<Value = Duration> {
    prop_oneof![
        1 => Just(Duration::ZERO),
        8 => (1..400_000_u64).prop_map(Duration::from_micros),
        1 => Just(Duration::MAX),
    ]
}

fn bytes() -> impl Strategy<Value = u64> {
    prop_oneof![1 => Just(0), 8 => 1..3_000_000_u64, 1 => Just(u64::MAX)]
}

/// A path, and how long until its pacer's release.
type Drawn = (PathView, Option<u64>);

fn path() -> impl Strategy<Value = Drawn> {
    let rare = || prop::bool::weighted(0.1);
    let flags = (prop::bool::weighted(0.9), any::<bool>(), rare(), rare());
    let times = (time(), time(), time(), time(), time());
    let sizes = (bytes(), bytes(), bytes(), bytes(), bytes());
    let release = prop::option::weighted(0.3, 0..200_000_u64);
    let mtu = prop_oneof![Just(0_u16), Just(1200), Just(u16::MAX)];
    (flags, times, sizes, release, mtu).prop_map(|(flags, times, sizes, release, mtu)| {
        let mut view = PathView::closed(PathIndex::new(0).unwrap());
        (view.open, view.can_send, view.suspect) = (flags.0, flags.1, flags.2);
        if flags.3 {
            view.status = PathStatus::Backup;
        }
        (view.smoothed_rtt, view.min_rtt, view.latest_rtt) = (times.0, times.1, times.2);
        (view.rtt_var, view.pto) = (times.3, times.4);
        (view.cwnd, view.in_flight, view.ssthresh) = (sizes.0, sizes.1, sizes.2);
        (view.delivery_rate, view.delivered_bytes) = (sizes.3, sizes.4);
        view.mtu = mtu;
        (view, release.filter(|_| !flags.1))
    })
}

fn paths() -> impl Strategy<Value = Vec<Drawn>> {
    vec(path(), 1..=8)
}

fn at(now: Instant, drawn: &[Drawn]) -> Vec<PathView> {
    let place = |(slot, (view, release)): (usize, &Drawn)| {
        let mut view = view.clone();
        view.index = PathIndex::new(slot).unwrap();
        view.next_release = release.map(|micros| now + Duration::from_micros(micros));
        view
    };
    drawn.iter().enumerate().map(place).collect()
}

fn queue() -> impl Strategy<Value = QueueView> {
    (bytes(), bytes(), bytes(), prop::bool::weighted(0.2)).prop_map(
        |(unsent, window, again, control)| {
            let mut queue = QueueView::default();
            (queue.unsent, queue.window_left) = (unsent, window);
            (queue.retransmittable, queue.control) = (again, control);
            queue
        },
    )
}

/// Bytes in flight, and the deadline of what goes next.
fn queue_with_more() -> impl Strategy<Value = (QueueView, Option<u64>)> {
    let deadline = prop::option::weighted(0.5, 0..400_000_u64);
    (queue(), bytes(), deadline).prop_map(|(mut queue, in_flight, deadline)| {
        queue.in_flight = in_flight;
        (queue, deadline)
    })
}

fn config() -> impl Strategy<Value = ArrivalConfig> {
    let switch = any::<bool>;
    let switches = (switch(), switch(), switch());
    let more = (switch(), switch(), 0.0..=100.0);
    (switches, more).prop_map(|((wait, ahead, fresh), more)| {
        let mut config = ArrivalConfig::default();
        (config.wait, config.ahead) = (wait, ahead);
        config.fresh = fresh;
        (config.late, config.deadlines, config.margin) = more;
        config
    })
}

/// The longest that a wait may last: no path's probe timeout is longer.
fn longest_pto(paths: &[PathView]) -> Duration {
    let open = paths.iter().filter(|path| path.open);
    open.map(|path| path.pto).max().unwrap_or_default()
}

/// A path that has become longer: what is in flight there is on its way, and no queue.
#[test]
fn a_path_that_has_become_longer_has_no_queue_for_that() {
    let start = Instant::now();
    let ms = Duration::from_millis;
    let view = |slot, rtt, in_flight, acknowledged| {
        let mut view = PathView::of(slot, ms(rtt));
        (view.min_rtt, view.latest_rtt, view.pto) = (ms(rtt), ms(rtt), ms(rtt + 25));
        (view.cwnd, view.ssthresh, view.in_flight) = (200_000, 200_000, in_flight);
        (view.delivered_bytes, view.delivery_rate) = (acknowledged, 1_000_000);
        view
    };
    let mut queue = QueueView::default();
    (queue.unsent, queue.window_left) = (1 << 20, 1 << 20);
    // For 12 s, 60 kB take 60 ms at 1 MB/s, where there were 20 ms once. A packet arrives in 30 ms; with a queue
    // of 40 ms, it would take 50. The other path takes 40.
    let takes = |base: bool| {
        let mut scheduler = Arrival::new(&ArrivalConfig {
            base,
            ..ArrivalConfig::default()
        });
        let mut taken = None;
        for step in 0..=120_u64 {
            let mut longer = view(0, 60, 60_000, 1 + step);
            longer.min_rtt = ms(20);
            // What the path model says after that time.
            longer.base_rtt = ms(60);
            let now = start + ms(100) * step as u32;
            let paths = [longer, view(1, 80, 0, 1)];
            if let Decision::Send { path, .. } =
                scheduler.decide(&Context::new(now, &paths, &queue, step))
            {
                taken = Some(path.get());
            }
        }
        taken
    };
    assert_eq!(takes(true), Some(0));
    assert_eq!(takes(false), Some(1));
}

proptest! {
    #[test]
    fn it_sends_where_there_is_room_or_waits_for_what_comes(
        config in config(),
        rounds in vec((paths(), queue_with_more()), 1..12),
        step in 0..50_000_u64,
    ) {
        let mut scheduler = Arrival::new(&config);
        let mut now = Instant::now() + Duration::from_secs(10);
        for (number, (drawn, (queue, deadline))) in (0_u64..).zip(&rounds) {
            let paths = at(now, drawn);
            let mut queue = queue.clone();
            let deadline = deadline.map(|micros| now + Duration::from_micros(micros));
            let id = VarInt::from_u32(3).into();
            queue.head = Some(StreamHead::new(id, 0, queue.unsent, deadline, None));
            let cx = Context::new(now, &paths, &queue, number);
            let sendable = cx.sendable_set();
            match scheduler.decide(&cx) {
                Decision::Send { path, data, copies } => {
                    prop_assert!(sendable.contains(path));
                    if !copies.is_empty() {
                        prop_assert!(config.deadlines && deadline.is_some() && data == Data::Next);
                        prop_assert!(copies.len() == 1 && !copies.contains(path));
                        prop_assert!(copies.iter().all(|copy| sendable.contains(copy)));
                    }
                    scheduler.on_sent(&Sent::new(path, now, 1200, number, false, 1200));
                    match data {
                        Data::Next => {}
                        Data::Reinject => {
                            prop_assert!(config.late && queue.in_flight > 0 && !queue.control);
                            prop_assert_eq!(queue.unsent.min(queue.window_left), 0);
                            prop_assert_eq!(queue.retransmittable, 0);
                        }
                        Data::Ahead(0) => prop_assert!(queue.retransmittable > 0 || config.ahead),
                        Data::Ahead(gap) => {
                            prop_assert!(config.ahead);
                            prop_assert!(gap < queue.unsent.min(queue.window_left));
                        }
                        other => prop_assert!(false, "{:?}", other),
                    }
                }
                Decision::Wait { until } if sendable.is_empty() => prop_assert_eq!(until, None),
                Decision::Wait { until } => {
                    prop_assert!(config.wait);
                    let until = until.unwrap();
                    prop_assert!(until > now && until - now <= longest_pto(&paths));
                    let some = queue.unsent.min(queue.window_left) > 0;
                    prop_assert!(some || queue.retransmittable > 0 || queue.control);
                }
            }
            if number % 3 == 0 {
                let sent = now;
                now += Duration::from_micros(step);
                let path = PathIndex::new(0).unwrap();
                scheduler.on_acked(&Acked::new(path, now, sent, 1200, None, Some(number), 0));
            } else {
                now += Duration::from_micros(step);
            }
            let wakeup = scheduler.next_wakeup();
            prop_assert!(wakeup.is_none() || config.late);
        }
    }

    /// If nothing ever changes, a packet goes within a probe timeout all the same.
    #[test]
    fn every_wait_ends(drawn in paths(), queue in queue()) {
        let mut scheduler = Arrival::default();
        let start = Instant::now() + Duration::from_secs(10);
        let paths = at(start, &drawn);
        let mut now = start;
        let mut asked = 0;
        while let Decision::Wait { until: Some(until) } =
            scheduler.decide(&Context::new(now, &paths, &queue, 0))
        {
            now = until;
            asked += 1;
            // A deadline, and the release of each pacer.
            prop_assert!(asked <= 9);
        }
        prop_assert!(now - start <= longest_pto(&paths));
    }

    /// One path is used whenever it has room.
    #[test]
    fn with_one_path_there_is_nothing_to_wait_for(drawn in path(), queue in queue()) {
        let now = Instant::now() + Duration::from_secs(10);
        let paths = at(now, &[drawn]);
        let cx = Context::new(now, &paths, &queue, 0);
        let decision = Arrival::default().decide(&cx);
        match cx.sendable_set().first() {
            Some(path) => prop_assert_eq!(decision, Decision::send(path)),
            None => prop_assert_eq!(decision, Decision::Wait { until: None }),
        }
    }
}

/// What a connection pays for it, beyond the transport's own state: 8 kB at most.
#[test]
fn its_state_is_small() {
    let size = size_of::<Arrival>();
    assert!(size <= 2048, "{size} bytes");
}
