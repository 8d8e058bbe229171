//! Recording what schedulers experience: the file format, the recorder and its bounds, and the built-in schedulers that
//! are recorded.
#![allow(
    clippy::disallowed_methods,
    reason = "tests take a point to start from off the clock"
)]

mod builtin;
mod drive;
mod fixture;
mod format;
mod recorder;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use mpquic_sched::record::{Recorder, RecorderConfig, Ring, Schema, Source};

/// A folder of its own, and a file in it that is not there yet.
fn place() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("test.traj");
    (folder, file)
}

/// A recorder with these bounds.
fn recorder(file: &Path, max_bytes: u64, ring_bytes: u64) -> Recorder {
    let mut config = RecorderConfig::default();
    (config.max_bytes, config.ring_bytes) = (max_bytes, ring_bytes);
    Recorder::create(file, &config).unwrap()
}

/// States of two numbers, actions of one.
fn schema() -> Schema {
    Schema::new("test", serde_json::json!({"seed": 7}))
        .with_state(2, &[("rtt", "ms")])
        .with_action(&["slot"])
}

/// The ring of one more connection, which ends when it is dropped.
fn ring(source: &Source) -> Ring {
    let mut ring = None;
    source.record(|made| ring = Some(made));
    ring.unwrap()
}

/// A point in time, so many microseconds after some other one.
fn at(start: Instant, us: u64) -> Instant {
    start + Duration::from_micros(us)
}
