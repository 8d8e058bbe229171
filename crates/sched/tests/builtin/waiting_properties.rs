//! What holds for the schedulers that wait, whatever they see: no dead path, no endless wait, and
//! minRTT's decisions where the theory says so.

use std::time::{Duration, Instant};

use mpquic_sched::{
    Context, Data, Decision, MAX_PATHS, PathIndex, PathSet, PathStatus, PathView, QueueView,
    Scheduler,
};
use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::{Value, json};

/// Names and configurations.
fn waiting() -> Vec<(&'static str, Value)> {
    let mut all = vec![
        ("blest", json!({})),
        ("blest", json!({"multi": true})),
        ("blest", json!({"wait_for_pacer": true})),
        ("blest_overflow", json!({})),
        ("ecf", json!({})),
        ("ecf", json!({"floor": false, "beta": 10})),
        ("ecf", json!({"wait_for_pacer": true})),
        ("ecf_a", json!({"p_wait": 0.5, "p_send": 0.5})),
        ("falcon", json!({})),
        ("falcon", json!({"confirm": 1, "threshold": 0.1})),
        ("linucb", json!({})),
        ("linucb", json!({"p_tx": 0.5, "features": "latest"})),
        (
            "linucb",
            json!({"p_tx": 0, "reward": "deadline", "discount": 0.9}),
        ),
        ("peekaboo", json!({})),
        // In the stage that never uses the slow path, and deployed without having learned.
        ("peekaboo", json!({"tx_bytes": 0, "reward": "deadline"})),
        ("peekaboo", untaught()),
        ("peek_frozen", json!({})),
        ("peek_frozen", json!({"p_tx": 0})),
        ("sa_ecf", json!({})),
        ("sa_ecf", json!({"sharing": "weighted"})),
    ];
    all.retain(|(name, _)| is_known(name));
    all
}

/// The copies of published faults are among the lab's only.
fn is_known(name: &str) -> bool {
    crate::registry().names().any(|known| known == name)
}

fn untaught() -> Value {
    json!({"tx_bytes": 0, "wt_bytes": 0, "candidate_bytes": 0, "estimate_bytes": 0})
}

fn build(name: &str, config: &Value) -> Box<dyn Scheduler> {
    crate::registry()
        .build(name, config)
        .expect("a built-in one")
}

/// Microseconds from a view's time to the pacer's release, if it has one.
type Release = Option<u64>;

fn view() -> impl Strategy<Value = (PathView, Release)> {
    let flags = (
        prop::bool::weighted(0.9),
        any::<bool>(),
        prop::bool::weighted(0.1),
        prop::bool::weighted(0.1),
    );
    let rtt = prop_oneof![1 => Just(0), 8 => 1..400_000_u64];
    let sizes = (1..200_u64, prop_oneof![Just(0), 1..300_000_u64]);
    let slow_start = prop_oneof![Just(u64::MAX), 1000..500_000_u64];
    let release = prop::option::weighted(0.2, 1..200_000_u64);
    (flags, rtt, 0..50_000_u64, sizes, slow_start, release).prop_map(
        |((open, can_send, suspect, backup), rtt, var, (window, in_flight), ssthresh, release)| {
            let mut view = PathView::closed(PathIndex::new(0).unwrap());
            (view.open, view.can_send, view.suspect) = (open, can_send, suspect);
            if backup {
                view.status = PathStatus::Backup;
            }
            view.smoothed_rtt = Duration::from_micros(rtt);
            view.rtt_var = Duration::from_micros(var);
            view.pto = Duration::from_micros(rtt + 4 * var + 25_000);
            (view.cwnd, view.in_flight, view.ssthresh) = (window * 1200, in_flight, ssthresh);
            (view, release.filter(|_| !can_send))
        },
    )
}

fn views() -> impl Strategy<Value = Vec<(PathView, Release)>> {
    vec(view(), 1..=MAX_PATHS).prop_map(|mut views| {
        for (slot, (view, _)) in views.iter_mut().enumerate() {
            view.index = PathIndex::new(slot).unwrap();
        }
        views
    })
}

fn at(now: Instant, views: &[(PathView, Release)]) -> Vec<PathView> {
    let place = |(view, release): &(PathView, Release)| {
        let mut view = view.clone();
        view.next_release = release.map(|micros| now + Duration::from_micros(micros));
        view
    };
    views.iter().map(place).collect()
}

fn queue() -> impl Strategy<Value = QueueView> {
    let bytes = || prop_oneof![1 => Just(0_u64), 6 => 1..5_000_000_u64];
    let again = prop_oneof![4 => Just(0_u64), 1 => 1..5000_u64];
    let control = prop::bool::weighted(0.1);
    (bytes(), bytes(), bytes(), again, control, 0..MAX_PATHS).prop_map(
        |(unsent, window, streams, again, control, blocker)| {
            let mut queue = QueueView::default();
            (queue.unsent, queue.window_left) = (unsent, window);
            queue.flow_control_window = window.min(streams);
            (queue.retransmittable, queue.control) = (again, control);
            if window == 0 {
                queue.blocked_by = PathIndex::new(blocker);
            }
            queue
        },
    )
}

/// The path with the smallest RTT of those that may be used at all, written out naively.
fn fastest(paths: &[PathView]) -> Option<&PathView> {
    let open = || paths.iter().filter(|path| path.open);
    let best = open().map(PathView::standing).min();
    open()
        .filter(|path| Some(path.standing()) == best && path.has_rtt())
        .min_by_key(|path| path.smoothed_rtt)
}

fn decide(
    scheduler: &mut dyn Scheduler,
    now: Instant,
    paths: &[PathView],
    queue: &QueueView,
) -> Decision {
    scheduler.decide(&Context::new(now, paths, queue, 0))
}

/// Both decide the same all the way.
fn same(
    one: (&str, Value),
    other: (&str, Value),
    rounds: &[(Vec<PathView>, QueueView)],
) -> Result<(), TestCaseError> {
    let (mut a, mut b) = (build(one.0, &one.1), build(other.0, &other.1));
    let mut now = Instant::now();
    for (paths, queue) in rounds {
        let expected = decide(&mut *b, now, paths, queue);
        prop_assert_eq!(decide(&mut *a, now, paths, queue), expected, "{}", one.0);
        now += Duration::from_millis(3);
    }
    Ok(())
}

/// With new data only and without pacers: else there are more reasons to wait than the rules.
fn still(rounds: Vec<(Vec<(PathView, Release)>, QueueView)>) -> Vec<(Vec<PathView>, QueueView)> {
    let unpaced = |views: Vec<(PathView, Release)>| views.into_iter().map(|(view, _)| view);
    rounds
        .into_iter()
        .map(|(views, mut queue)| {
            (queue.retransmittable, queue.control) = (0, false);
            (unpaced(views).collect(), queue)
        })
        .collect()
}

proptest! {
    #[test]
    fn no_path_without_room_and_no_wait_without_end(
        rounds in vec((views(), queue()), 1..12),
        step in 0..50_000_u64,
    ) {
        for (name, config) in waiting() {
            let mut scheduler = build(name, &config);
            let mut now = Instant::now();
            for (views, queue) in &rounds {
                let paths = at(now, views);
                let cx = Context::new(now, &paths, queue, 0);
                match decide(&mut *scheduler, now, &paths, queue) {
                    Decision::Send { path, data, copies } => {
                        prop_assert!(cx.sendable_set().contains(path), "{}", name);
                        prop_assert_eq!(copies, PathSet::EMPTY);
                        let not_new = queue.retransmittable > 0 || queue.control;
                        let reason = match data {
                            Data::Next => true,
                            Data::Retransmit | Data::Ahead(0) => not_new,
                            _ => false,
                        };
                        prop_assert!(reason, "{} {:?}", name, data);
                    }
                    Decision::Wait { until } if cx.sendable_set().is_empty() => {
                        prop_assert_eq!(until, None);
                    }
                    Decision::Wait { until } => {
                        // Something wakes it up: a timer, and an acknowledgement or the pacer.
                        prop_assert!(until.is_some_and(|until| until > now), "{}", name);
                        let fast = fastest(&paths).unwrap();
                        prop_assert!(!fast.can_send && !fast.suspect, "{}", name);
                        prop_assert!(fast.in_flight > 0 || fast.next_release.is_some(), "{}", name);
                        prop_assert!(until <= Some(now + fast.pto), "{}", name);
                        let new = queue.unsent > 0 && queue.window_left > 0;
                        let other = queue.retransmittable > 0 || queue.control;
                        prop_assert!(new || other, "{}", name);
                    }
                }
                now += Duration::from_micros(step);
            }
        }
    }

    /// If nothing ever changes, something new is sent within a probe timeout all the same.
    #[test]
    fn every_wait_ends(views in views(), queue in queue()) {
        for (name, config) in waiting() {
            let mut scheduler = build(name, &config);
            let start = Instant::now();
            // As it was at the start, the pacer's release too.
            let paths = at(start, &views);
            let Some(fast) = fastest(&paths) else { continue };
            let mut now = start;
            let mut asked = 0;
            loop {
                match decide(&mut *scheduler, now, &paths, &queue) {
                    Decision::Send { data: Data::Next | Data::Ahead(0), .. }
                    | Decision::Wait { until: None } => break,
                    Decision::Wait { until: Some(until) } => now = until,
                    // Its retransmissions and the like are done some time.
                    Decision::Send { .. } => now += fast.pto / 4,
                }
                asked += 1;
                prop_assert!(asked <= 8, "{}", name);
            }
            prop_assert!(now <= start + fast.pto, "{}", name);
        }
    }

    #[test]
    fn with_room_on_the_fastest_path_all_are_min_rtt(rounds in vec((views(), queue()), 1..8)) {
        let mut rounds = still(rounds);
        for (paths, _) in &mut rounds {
            let index = fastest(paths).map(|path| path.index.get());
            if let Some(index) = index {
                paths[index].can_send = true;
            }
        }
        for (name, config) in waiting() {
            same((name, config), ("minrtt", json!({})), &rounds)?;
        }
    }

    #[test]
    fn what_is_min_rtt_in_disguise(rounds in vec((views(), queue()), 1..12)) {
        let paced: Vec<_> = rounds.iter().map(|(v, q)| (at(Instant::now(), v), q.clone())).collect();
        if is_known("ecf_nowait") {
            same(("ecf_nowait", json!({})), ("minrtt", json!({})), &paced)?;
        }
        let rounds = still(rounds);
        let never = json!({"p_wait": 0, "p_send": 1});
        same(("ecf_a", never), ("minrtt", json!({})), &rounds)?;
        // It has nothing to learn from, and transmits as long as both arms are equal.
        same(("linucb", json!({})), ("minrtt", json!({})), &rounds)?;
        same(("peekaboo", json!({})), ("minrtt", json!({})), &rounds)?;
        same(("peekaboo", untaught()), ("minrtt", json!({})), &rounds)?;
        if is_known("peek_frozen") {
            same(("peek_frozen", json!({"p_tx": 1})), ("minrtt", json!({})), &rounds)?;
        }
        same(("ecf_a", json!({"p_wait": 1})), ("ecf", json!({})), &rounds)?;
    }

    #[test]
    fn blest_with_an_endless_window_is_min_rtt(rounds in vec((views(), queue()), 1..12)) {
        let mut rounds = still(rounds);
        for (_, queue) in &mut rounds {
            (queue.window_left, queue.flow_control_window) = (1 << 60, 1 << 60);
        }
        for multi in [false, true] {
            same(("blest", json!({"multi": multi})), ("minrtt", json!({})), &rounds)?;
        }
    }

    /// The other end: with no window at all, BLEST spends nothing of it on a slower path.
    #[test]
    fn blest_without_a_window_never_spills(views in views(), mut queue in queue()) {
        (queue.window_left, queue.flow_control_window, queue.unsent) = (1200, 1200, 1200);
        (queue.retransmittable, queue.control) = (0, false);
        let mut paths = still(vec![(views, queue.clone())]).remove(0).0;
        for path in &mut paths {
            path.in_flight = path.cwnd;
        }
        let Some(fast) = fastest(&paths) else { return Ok(()) };
        let (fast, slot) = (fast.clone(), fast.index.get());
        prop_assume!(!fast.suspect);
        paths[slot].can_send = false;
        // One slower path with a sample, nothing in flight on it but a full window on the fast one.
        let slow = (slot + 1) % MAX_PATHS;
        let mut view = fast.clone();
        view.index = PathIndex::new(slow).unwrap();
        (view.smoothed_rtt, view.can_send) = (fast.smoothed_rtt * 3, true);
        (view.in_flight, view.cwnd) = (0, 12_000);
        let mut two = [PathView::closed(fast.index), PathView::closed(fast.index)];
        two[0] = paths[slot].clone();
        two[1] = view;
        two[0].index = PathIndex::new(0).unwrap();
        two[1].index = PathIndex::new(1).unwrap();
        // P ≥ w_f · 3 and λ ≥ 1: X exceeds what the window has, W_f + 1200.
        let decision = decide(&mut *build("blest", &json!({})), Instant::now(), &two, &queue);
        prop_assert!(matches!(decision, Decision::Wait { .. }), "{:?}", decision);
    }
}
