//! No scheduler that asks a network allocates once it is made: the decision, its answer and all feedback are counted.
#![allow(
    clippy::disallowed_methods,
    reason = "tests take a point to start from off the clock"
)]

// One program counts all schedulers of its registry, those of `mpquic-sched` and these.
#[path = "../../sched/tests/counted/mod.rs"]
mod counted;

use std::time::{Duration, Instant};

use counted::allocations;
use mpquic_sched::{
    Context, PathIndex, PathView, QueueView, Sent, StreamId, StreamUpdate, StreamUpdateKind,
    StreamView, VarInt,
};
use mpquic_sched_neural::registry;
use serde_json::json;

/// Nor do they when what they do is written down, whether or not the writer keeps up.
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

/// Room for streams is made when they are written to: binding many at a time takes none.
#[test]
fn sailfish_does_not_allocate_for_many_streams() {
    let mut scheduler = registry().build("sailfish", &json!({})).unwrap();
    let now = Instant::now();
    let paths = [0, 1].map(|slot| {
        let mut view = PathView::closed(PathIndex::new(slot).unwrap());
        (view.open, view.can_send, view.cwnd) = (true, true, 100_000);
        view.smoothed_rtt = Duration::from_millis(20 + 30 * slot as u64);
        view
    });
    let mut queue = QueueView::default();
    (queue.unsent, queue.window_left, queue.flow_control_window) = (1 << 20, 1 << 20, 1 << 20);
    let id = |number: u64| StreamId::from(VarInt::from_u32(number as u32));
    for number in 0..1000 {
        scheduler.on_stream(&StreamUpdate::new(
            id(number),
            StreamUpdateKind::Written(900),
        ));
    }
    let before = allocations();
    for number in 0..1000 {
        let streams = [StreamView::new(id(number), 0, 900)];
        let cx = Context::new(now, &paths, &queue, number).with_streams(&streams);
        std::hint::black_box(scheduler.decide(&cx));
        scheduler.on_sent(&Sent::new(paths[0].index, now, 1235, number, false, 900));
    }
    for number in 0..1000 {
        scheduler.on_stream(&StreamUpdate::new(id(number), StreamUpdateKind::FullyAcked));
    }
    assert_eq!(allocations() - before, 0);
    let learned = scheduler.learned().unwrap();
    assert_eq!(learned.policy.unwrap().decisions, 1000);
    assert_eq!(learned.dropped, 0);
}
