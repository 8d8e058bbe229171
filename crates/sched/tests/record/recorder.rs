//! The recorder: what is written is read back, in order and paired; what cannot be is counted; the file stays small and
//! nobody else's is touched.

use std::fs;
use std::time::Instant;

use mpquic_sched::record::{
    self, MAX_BYTES, MAX_SCHEMA_BYTES, MAX_VALUES, MIN_BYTES, ReadError, RecordError, Recorder,
    RecorderConfig, Schema,
};
use mpquic_sched::{
    Acked, Context, Decision, Lost, PathId, PathIndex, PathUpdate, PathUpdateKind, Scheduler, Sent,
};

use super::{at, place, recorder, ring, schema};

#[test]
fn records_come_back_by_connection_in_order_and_paired() {
    let (_folder, file) = place();
    let recorder = recorder(&file, 1 << 20, 64 << 10);
    let other = Schema::new("other", serde_json::json!({}));
    let (one, two) = (
        recorder.source(&schema()).unwrap(),
        recorder.source(&other).unwrap(),
    );
    let (mut a, mut b, mut c) = (ring(&one), ring(&two), ring(&one));
    assert_eq!([&a, &b, &c].map(|ring| ring.connection()), [0, 1, 2]);
    let start = Instant::now();
    a.decided(3, at(start, 0), &[1.0, -0.0], &[f32::NAN], false);
    b.decided(0, at(start, 500), &[], &[], true);
    a.decided(9, at(start, 70), &[f32::INFINITY, 1e-40], &[2.0], true);
    c.rewarded(4, at(start, 1), 0.5, false);
    a.rewarded(9, at(start, 90), 0.1, false);
    a.rewarded(3, at(start, 90), f64::MIN_POSITIVE, false);
    a.rewarded(9, at(start, 95), -1e300, true);
    b.rewarded(0, at(start, 400), 0.0, false);
    drop((b, c));
    let written = recorder.flush().unwrap();
    assert_eq!(
        (written.records, written.connections, written.dropped),
        (8, 2, 0)
    );

    let recording = record::read(&file).unwrap();
    assert_eq!(
        (&*recording.segments, &*recording.damage),
        (&[0][..], &[][..])
    );
    let [a_read, b_read, c_read] = &recording.trajectories()[..] else {
        panic!("three connections");
    };
    assert_eq!((a_read.schema, b_read.schema), (&schema(), &other));
    let bits = |values: &[f32]| {
        values
            .iter()
            .map(|value| value.to_bits())
            .collect::<Vec<_>>()
    };
    let [first, second] = &a_read.pairs[..] else {
        panic!("two decisions");
    };
    assert_eq!(
        (
            first.decided.number,
            first.decided.us,
            first.decided.fell_back
        ),
        (3, 0, false)
    );
    assert_eq!(bits(&first.decided.state), bits(&[1.0, -0.0]));
    assert_eq!(bits(&first.decided.action), bits(&[f32::NAN]));
    assert_eq!(first.rewards.len(), 1);
    assert_eq!(
        (
            second.decided.number,
            second.decided.us,
            second.decided.fell_back
        ),
        (9, 70, true)
    );
    let rewards: Vec<_> = second
        .rewards
        .iter()
        .map(|r| (r.us, r.reward, r.done))
        .collect();
    assert_eq!(rewards, [(90, 0.1, false), (95, -1e300, true)]);
    // Still open; ended; ended, with a reward of a decision that nobody saw.
    assert!(a_read.ended.is_none());
    let outcome = b_read.ended.unwrap();
    // Its time began with its first record, and does not run backwards.
    assert_eq!(
        (b_read.pairs[0].decided.us, b_read.pairs[0].rewards[0].us),
        (0, 0)
    );
    assert_eq!(
        (outcome.decisions, outcome.rewards, outcome.cut),
        (1, 1, false)
    );
    assert_eq!(c_read.orphans.len(), 1);
}

/// Sends nothing.
struct Idle;

impl Scheduler for Idle {
    fn decide(&mut self, _: &Context<'_>) -> Decision {
        Decision::Wait { until: None }
    }
}

#[test]
fn the_outcome_tells_what_became_of_the_packets() {
    let (_folder, file) = place();
    let recorder = recorder(&file, 1 << 20, 1);
    let source = recorder.source(&schema()).unwrap();
    let mut scheduler = source.record(|_tape| Idle);
    let (path, start) = (PathIndex::new(0).unwrap(), Instant::now());
    let opened = PathUpdateKind::Opened;
    scheduler.on_path(&PathUpdate::new(path, PathId::ZERO, at(start, 10), opened));
    scheduler.on_sent(&Sent::new(path, at(start, 20), 1400, 0, false, 1300));
    scheduler.on_sent(&Sent::new(path, at(start, 30), 1000, 1, true, 0));
    scheduler.on_acked(&Acked::new(
        path,
        at(start, 40),
        start,
        1000,
        None,
        Some(1),
        900,
    ));
    scheduler.on_lost(&Lost::new(path, at(start, 5010), start, 1400, Some(0)));
    drop(scheduler);
    recorder.flush().unwrap();
    let recording = record::read(&file).unwrap();
    let outcome = *recording.trajectories()[0].ended.unwrap();
    assert_eq!(outcome.us, 5000);
    assert_eq!(
        (
            outcome.sent_packets,
            outcome.sent_bytes,
            outcome.retransmissions
        ),
        (2, 2400, 1)
    );
    assert_eq!((outcome.acked_bytes, outcome.contiguous_bytes), (1000, 900));
    assert_eq!((outcome.lost_packets, outcome.cut), (1, false));
}

#[test]
fn what_is_not_written_is_counted() {
    let (_folder, file) = place();
    let recorder = recorder(&file, 1 << 20, 1);
    let source = recorder.source(&schema()).unwrap();
    let start = Instant::now();
    let mut ring = ring(&source);
    // Not as the schema has it.
    ring.decided(0, start, &[1.0], &[1.0], false);
    ring.decided(1, start, &[1.0, 2.0], &[], false);
    // And faster than any disk: the ring holds two.
    for number in 2..100_000 {
        ring.decided(number, start, &[1.0, 2.0], &[1.0], false);
    }
    drop(ring);
    let written = recorder.flush().unwrap();
    let recording = record::read(&file).unwrap();
    let trajectory = &recording.trajectories()[0];
    let outcome = trajectory.ended.unwrap();
    assert_eq!(
        (outcome.decisions, outcome.dropped),
        (100_000, written.dropped)
    );
    assert!(outcome.dropped > 2);
    assert_eq!(trajectory.pairs.len() as u64, 100_000 - outcome.dropped);
    assert_eq!(written.records, 100_000 - outcome.dropped);
}

#[test]
fn the_newest_two_segments_are_kept() {
    let (folder, file) = place();
    let recorder = recorder(&file, MIN_BYTES, 64 << 10);
    let source = recorder.source(&schema()).unwrap();
    let (start, mut quiet, mut busy) = (Instant::now(), ring(&source), ring(&source));
    quiet.decided(0, start, &[0.0, 0.0], &[0.0], false);
    let mut number = 0;
    let newest = loop {
        for _ in 0..100 {
            busy.decided(
                number,
                at(start, number),
                &[0.0, 1.0],
                &[number as f32],
                false,
            );
            number += 1;
        }
        recorder.flush().unwrap();
        let files = fs::read_dir(folder.path()).unwrap();
        let sizes: Vec<_> = files
            .map(|f| f.unwrap().metadata().unwrap().len())
            .collect();
        assert!(
            sizes.len() <= 2 && sizes.iter().sum::<u64>() <= MIN_BYTES,
            "{sizes:?}"
        );

        let recording = record::read(&file).unwrap();
        assert!(recording.damage.is_empty());
        let newest = *recording.segments.last().unwrap();
        assert_eq!(
            recording.segments,
            (newest.saturating_sub(1)..=newest).collect::<Vec<_>>()
        );
        let trajectories = recording.trajectories();
        let pairs = &trajectories.last().unwrap().pairs;
        let numbers: Vec<_> = pairs.iter().map(|pair| pair.decided.number).collect();
        assert_eq!(numbers, (numbers[0]..number).collect::<Vec<_>>());
        if newest == 6 {
            break newest;
        }
    };
    // One that was told of long ago is introduced again.
    drop(quiet);
    drop(busy);
    recorder.flush().unwrap();
    let recording = record::read(&file).unwrap();
    assert_eq!(recording.segments, [newest - 1, newest]);
    for trajectory in recording.trajectories() {
        assert_eq!(trajectory.schema, &schema());
        assert!(trajectory.ended.is_some());
    }
    assert_eq!(recording.trajectories()[0].pairs.len(), 0);
}

#[test]
fn the_segment_before_can_be_missing_or_another_recordings() {
    let (folder, file) = place();
    let before = folder.path().join("test.traj.1");
    let fill = |segments: u64| {
        let recorder = recorder(&file, MIN_BYTES, 1 << 20);
        let source = recorder.source(&schema()).unwrap();
        let mut ring = ring(&source);
        let start = Instant::now();
        // 49 bytes each, so that each segment holds less than 1400.
        for number in 0..segments * 1400 {
            ring.decided(number, start, &[0.0, 1.0], &[1.0], false);
        }
        drop(ring);
        assert_eq!(recorder.flush().unwrap().dropped, 0);
    };
    fill(1);
    let whole = record::read(&file).unwrap();
    assert_eq!(whole.segments, [0, 1]);
    let newest = fs::read(&file).unwrap();
    // Between two segments.
    fs::remove_file(&file).unwrap();
    let recording = record::read(&file).unwrap();
    assert_eq!((recording.id, &*recording.segments), (whole.id, &[0][..]));
    // Without the older one.
    fs::rename(&before, folder.path().join("aside")).unwrap();
    fs::write(&file, &newest).unwrap();
    let recording = record::read(&file).unwrap();
    assert_eq!((recording.id, &*recording.segments), (whole.id, &[1][..]));
    // A new recording: the last segment of the one before is there still, and is not taken for its own.
    fill(0);
    let recording = record::read(&file).unwrap();
    assert!(recording.id != whole.id && recording.segments == [0]);
    assert_eq!(record::read(&before).unwrap().id, whole.id);
}

#[test]
fn a_recorder_that_ends_first_says_so_and_leaves_connections_alone() {
    let (_folder, file) = place();
    let recorder = recorder(&file, 1 << 20, 1);
    let source = recorder.source(&schema()).unwrap();
    let mut ring = ring(&source);
    let start = Instant::now();
    ring.decided(0, start, &[0.0, 1.0], &[1.0], false);
    drop((source, recorder));
    for number in 1..100 {
        ring.decided(number, start, &[0.0, 1.0], &[1.0], false);
    }
    let recording = record::read(&file).unwrap();
    let trajectory = &recording.trajectories()[0];
    assert_eq!(trajectory.pairs.len(), 1);
    assert!(trajectory.ended.unwrap().cut);
}

#[test]
fn a_disk_that_fails_is_told_and_stops_no_connection() {
    let (folder, file) = place();
    let recorder = recorder(&file, MIN_BYTES, 1 << 20);
    let source = recorder.source(&schema()).unwrap();
    let mut ring = ring(&source);
    let start = Instant::now();
    fs::remove_dir_all(folder.path()).unwrap();
    let mut number = 0;
    let error = loop {
        for _ in 0..1000 {
            ring.decided(number, start, &[0.0, 1.0], &[1.0], false);
            number += 1;
        }
        match recorder.flush() {
            // Until it is time for another segment, nobody sees that the folder is gone.
            Ok(_) => assert!(number < 10_000),
            Err(error) => break error,
        }
    };
    let expected = format!("cannot write the recording {}: ", file.display());
    assert!(error.to_string().starts_with(&expected), "{error}");
    assert!(recorder.flush().is_err());
    // Those to come are not recorded, either.
    let mut after = super::ring(&source);
    after.decided(0, start, &[0.0, 1.0], &[1.0], false);
    ring.decided(number, start, &[0.0, 1.0], &[1.0], false);
}

#[test]
fn what_is_not_a_recording_is_left_as_it_is() {
    let (folder, file) = place();
    let create = || Recorder::create(&file, &RecorderConfig::default());
    fs::write(&file, "dear diary").unwrap();
    let error = create().unwrap_err();
    assert!(matches!(error, RecordError::InTheWay { .. }), "{error}");
    assert_eq!(fs::read(&file).unwrap(), b"dear diary");
    // The same of what would be replaced later.
    let before = folder.path().join("test.traj.1");
    fs::rename(&file, &before).unwrap();
    assert!(matches!(create(), Err(RecordError::InTheWay { path, .. }) if path == before));
    fs::remove_file(&before).unwrap();
    fs::create_dir(&file).unwrap();
    assert!(matches!(create(), Err(RecordError::InTheWay { .. })));
    fs::remove_dir(&file).unwrap();
    // An empty file is nobody's loss; then it is a recording, and in use.
    fs::write(&file, "").unwrap();
    let first = create().unwrap();
    assert!(matches!(create(), Err(RecordError::InUse { .. })));
    drop(first);
    drop(create().unwrap());
    assert!(before.exists());
}

#[test]
fn settings_and_schemas_have_bounds() {
    let (_folder, file) = place();
    for (max_bytes, ring_bytes, field) in [
        (MIN_BYTES - 1, 1, "max_bytes"),
        (MAX_BYTES + 1, 1, "max_bytes"),
        (MIN_BYTES, 0, "ring_bytes"),
        (MIN_BYTES, u64::MAX, "ring_bytes"),
    ] {
        let mut config = RecorderConfig::default();
        (config.max_bytes, config.ring_bytes) = (max_bytes, ring_bytes);
        let error = Recorder::create(&file, &config).unwrap_err();
        assert!(
            matches!(error, RecordError::Setting { field: f, .. } if f == field),
            "{error}"
        );
        assert!(!file.exists());
    }
    let recorder = recorder(&file, MIN_BYTES, 1);
    let wide = Schema::new("wide", serde_json::json!({}));
    let widest = wide.clone().with_state(MAX_VALUES, &[("x", "")]);
    let source = recorder.source(&widest).unwrap();
    let mut ring = ring(&source);
    ring.decided(0, Instant::now(), &[0.5; MAX_VALUES], &[], false);
    drop(ring);
    assert_eq!(recorder.flush().unwrap().records, 1);
    let recording = record::read(&file).unwrap();
    assert_eq!(
        recording.trajectories()[0].pairs[0].decided.state,
        [0.5; MAX_VALUES]
    );

    let long = Schema::new("long", "x".repeat(MAX_SCHEMA_BYTES).into());
    let huge = wide.clone().with_state(usize::MAX, &[("x", ""), ("y", "")]);
    for schema in [widest.with_action(&["one more"]), long, huge] {
        let error = recorder.source(&schema).unwrap_err();
        assert!(matches!(error, RecordError::Schema { .. }), "{error}");
    }
}

#[test]
fn a_file_that_is_not_there_is_no_recording() {
    let (_folder, file) = place();
    let error = record::read(&file).unwrap_err();
    assert!(matches!(error, ReadError::Read { .. }));
    let expected = format!("cannot read the recording {}: ", file.display());
    assert!(error.to_string().starts_with(&expected), "{error}");
}
