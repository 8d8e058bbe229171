//! A recording of an earlier build's, committed, which this build and the Python reader must be able to read.

use std::path::Path;
use std::time::Instant;

use mpquic_sched::record::{self, MIN_BYTES, Recorder, Recording, Schema};
use mpquic_sched::{Acked, Context, Decision, Lost, PathIndex, Scheduler, Sent};

use super::{at, recorder};

/// The committed file; `training/tests` read it, too.
const FIXTURE: &[u8] = include_bytes!("fixture.traj");

struct Idle;

impl Scheduler for Idle {
    fn decide(&mut self, _: &Context<'_>) -> Decision {
        Decision::Wait { until: None }
    }
}

/// Two connections: one with a state of two rows that ends well, one that has nothing but an orphan and does not end.
fn write(recorder: &Recorder) {
    let schema = Schema::new("fixture", serde_json::json!({"seed": 7, "alpha": 0.5}))
        .with_state(2, &[("rtt", "ms"), ("window", "bytes"), ("loss", "")])
        .with_action(&["path_0", "path_1"]);
    let source = recorder.source(&schema).unwrap();
    let mut ring = None;
    let start = Instant::now();
    let mut scheduler = source.record(|made| {
        ring = Some(made);
        Idle
    });
    let path = PathIndex::new(0).unwrap();
    scheduler.on_sent(&Sent::new(path, start, 1400, 0, false, 1300));
    let mut ring = ring.unwrap();
    for number in 0..5_u8 {
        let (value, now) = (f32::from(number), at(start, 1000 * u64::from(number)));
        let state = [value, 0.1, 1e-40, -value, f32::INFINITY, 3e38];
        // One is missing.
        if number != 3 {
            ring.decided(
                u64::from(number),
                now,
                &state,
                &[value / 4.0, -1.0],
                number == 2,
            );
        }
        // In two parts, the second one later; the last one earns nothing.
        if number > 0 {
            ring.rewarded(u64::from(number) - 1, now, 0.1, false);
            ring.rewarded(u64::from(number) - 1, now, f64::from(number), number == 4);
        }
    }
    scheduler.on_acked(&Acked::new(
        path,
        at(start, 5000),
        start,
        1400,
        None,
        Some(0),
        1300,
    ));
    scheduler.on_lost(&Lost::new(path, at(start, 6000), start, 1000, None));
    drop(ring);
    drop(scheduler);
    recorder.flush().unwrap();

    let other = Schema::new("other", serde_json::json!({})).with_action(&["slot"]);
    let mut open = super::ring(&recorder.source(&other).unwrap());
    open.rewarded(17, start, -2.5, true);
    recorder.flush().unwrap();
    // Left open on purpose: what a process leaves that is killed.
    let recording = record::read(recorder.path()).unwrap();
    assert!(recording.trajectories()[1].ended.is_none());
    std::fs::copy(recorder.path(), copy()).unwrap();
}

/// Where the recording of this build is left, to be committed should the format change on purpose.
fn copy() -> &'static Path {
    Path::new(concat!(env!("CARGO_TARGET_TMPDIR"), "/fixture.traj"))
}

#[test]
fn recordings_of_earlier_builds_are_read() {
    let (_folder, file) = super::place();
    let recorder = recorder(&file, MIN_BYTES, 1 << 16);
    write(&recorder);
    let written = record::read(copy()).unwrap();
    let committed = Recording::from_segments([FIXTURE]).unwrap();
    let place = copy().display();
    assert_eq!(
        (written.events, written.connections),
        (committed.events, committed.connections),
        "if that is on purpose, count up FORMAT, and commit {place}",
    );
}
