//! No built-in scheduler allocates once it is made and its paths have been opened for the first time:
//! the decision and all feedback are counted.
#![allow(
    clippy::disallowed_methods,
    reason = "tests take a point to start from off the clock"
)]

mod counted;

use std::time::{Duration, Instant};

use counted::allocations;
use mpquic_sched::{
    Acked, Context, PathId, PathIndex, PathUpdate, PathUpdateKind, PathView, QueueView, Registry,
    Sent,
};
use serde_json::json;

/// The schedulers that are counted.
fn registry() -> Registry {
    Registry::new()
}

/// Nor do they when what they do is written down, whether or not the writer keeps up.
#[cfg(feature = "record")]
#[test]
fn recorded_schedulers_do_not_allocate() {
    use mpquic_sched::record::{Recorder, RecorderConfig};

    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("all.traj");
    let recorder = Recorder::create(&file, &RecorderConfig::default()).unwrap();
    counted::do_not_allocate(&registry().with_recorder(recorder.clone()));
    let written = recorder.flush().unwrap();
    assert!(
        written.connections >= 5 && written.records > 100,
        "{written:?}"
    );
}

/// The stages of a lesson end on the hot path, and so does what was learned.
#[test]
fn peekaboo_does_not_allocate_through_its_stages() {
    let config = json!({
        "tx_bytes": 50_000, "wt_bytes": 50_000, "candidate_bytes": 10_000, "estimate_bytes": 10_000,
        "tuning": "full", "threshold": 0, "least": 1, "window": 1, "judge_every": 1, "pause_ms": 10,
    });
    let mut scheduler = Registry::new().build("peekaboo", &config).unwrap();
    let start = Instant::now();
    let mut paths = [0, 1].map(|slot| {
        let mut view = PathView::closed(PathIndex::new(slot).unwrap());
        (view.open, view.cwnd, view.in_flight) = (true, 100_000, 100_000);
        view.smoothed_rtt = Duration::from_millis(20 + 30 * slot as u64);
        view.pto = view.smoothed_rtt * 3;
        scheduler.on_path(&PathUpdate::new(
            view.index,
            PathId::ZERO,
            start,
            PathUpdateKind::Opened,
        ));
        view
    });
    let mut queue = QueueView::default();
    (queue.unsent, queue.window_left, queue.flow_control_window) = (1 << 20, 1 << 20, 1 << 20);
    let relearned = |scheduler: &dyn mpquic_sched::Scheduler| {
        let pairs = scheduler.learned().unwrap().pairs;
        pairs.iter().map(|pair| pair.relearned).sum::<u64>()
    };
    let mut counted = 0;
    for number in 0..20_000_u64 {
        let now = start + Duration::from_micros(200 * number);
        let before = allocations();
        // The fast path is full, and then it is not.
        for room in [false, true] {
            (paths[0].can_send, paths[1].can_send) = (room, true);
            paths[0].in_flight = 90_000 + number * 7919 % 10_000;
            let cx = Context::new(now, &paths, &queue, 2 * number + u64::from(room));
            std::hint::black_box(scheduler.decide(&cx));
        }
        let slot = paths[number as usize % 2].index;
        scheduler.on_sent(&Sent::new(slot, now, 1235, 2 * number, false, 1200));
        // Some come sooner than others.
        if number % 7 > 2 {
            let bytes = 1200 * if number % 7 == 3 { 4 } else { 1 };
            scheduler.on_acked(&Acked::new(slot, now, now, 1235, None, None, bytes));
        }
        counted += allocations() - before;
    }
    assert_eq!(counted, 0);
    assert!(
        relearned(&*scheduler) > 2,
        "{}",
        scheduler.learned().unwrap()
    );
}
