//! A recording as its owner has it: made, handed to registries, flushed, ended.

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use rtrb::RingBuffer;
use serde::{Deserialize, Serialize};

use super::codec::longest;
use super::ring::LENGTH;
use super::segment::Segments;
use super::tally::Tally;
use super::writer::{Live, Writer};
use super::{MAX_BYTES, MAX_VALUES, MIN_BYTES, RecordError, Recorded, Ring, Schema};

/// How much a recording may take.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct RecorderConfig {
    /// The most that the files may have together, bytes: 64 MiB; [`MIN_BYTES`] to [`MAX_BYTES`].
    pub max_bytes: u64,
    /// What each connection sets aside for records that are not written yet, bytes: 64 KiB, at most 16 MiB, and no less
    /// than two records take. At 10 ms from one look to the next, that is 6 MB/s.
    pub ring_bytes: u64,
}

impl Default for RecorderConfig {
    fn default() -> Self {
        Self {
            max_bytes: 64 << 20,
            ring_bytes: 64 << 10,
        }
    }
}

impl RecorderConfig {
    const RING_BYTES: std::ops::RangeInclusive<u64> = 1..=16 << 20;

    fn check(&self) -> Result<(), RecordError> {
        for (field, found, range) in [
            ("max_bytes", self.max_bytes, MIN_BYTES..=MAX_BYTES),
            ("ring_bytes", self.ring_bytes, Self::RING_BYTES),
        ] {
            if !range.contains(&found) {
                return Err(RecordError::Setting {
                    field,
                    expected: format!("{} to {}", range.start(), range.end()),
                    found,
                });
            }
        }
        Ok(())
    }
}

/// Writes what schedulers experience to a file; see the [module](super).
///
/// Clones are handles on the same recording, from any thread. It ends when the last one is gone, those included that
/// registries, [`Source`]s and their factories hold; that waits until what was recorded has been handed to the system.
#[derive(Clone)]
pub struct Recorder(Arc<Inner>);

struct Inner {
    path: PathBuf,
    config: RecorderConfig,
    shared: Arc<Shared>,
    connections: AtomicU64,
    thread: Option<JoinHandle<()>>,
}

/// What the recorder and its writer share.
pub(super) struct Shared {
    pub(super) stop: AtomicBool,
    /// Held for moments, and never by a scheduler's hot path.
    pub(super) desk: Mutex<Desk>,
    pub(super) answer: Condvar,
}

#[derive(Default)]
pub(super) struct Desk {
    /// Connections that the writer has not seen yet.
    pub(super) opened: Vec<Live>,
    /// How many questions were asked, and how many of them have been answered.
    pub(super) asked: u64,
    pub(super) answered: u64,
    pub(super) written: Written,
    /// Why nothing is written any more.
    pub(super) failed: Option<io::Error>,
}

/// What has been handed to the system.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Written {
    /// Decisions and rewards, over all segments, those included that are kept no longer.
    pub records: u64,
    /// Connections that have ended.
    pub connections: u64,
    /// Decisions and rewards of these that were dropped.
    pub dropped: u64,
}

impl Recorder {
    /// Begins a recording in this file.
    ///
    /// If the file is a recording, it becomes the one before, `FILE.1`, and the one that was there is gone. Any other file
    /// is refused. On Unix, only the owner may read what is written.
    ///
    /// # Errors
    ///
    /// If a setting is out of its range, the file is something else or in use, or cannot be written; or if the system
    /// gives no thread.
    pub fn create(path: impl AsRef<Path>, config: &RecorderConfig) -> Result<Self, RecordError> {
        let path = path.as_ref();
        config.check()?;
        // Only to tell recordings apart: decides nothing.
        let id = RandomState::new().hash_one(std::process::id());
        let segments = Segments::create(path, config.max_bytes / 2, id)?;
        let shared = Arc::new(Shared {
            stop: AtomicBool::new(false),
            desk: Mutex::default(),
            answer: Condvar::new(),
        });
        let writer = Writer {
            shared: Arc::clone(&shared),
            segments,
            live: Vec::new(),
            payload: Vec::new(),
            written: Written::default(),
        };
        let thread = thread::Builder::new()
            .name("mpquic-recorder".into())
            .spawn(move || writer.run())
            .map_err(RecordError::Thread)?;
        Ok(Self(Arc::new(Inner {
            path: path.to_owned(),
            config: config.clone(),
            shared,
            connections: AtomicU64::new(0),
            thread: Some(thread),
        })))
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.0.path
    }

    /// Waits until all that was recorded before is handed to the system.
    ///
    /// # Errors
    ///
    /// Why nothing is written any more: the first error, told each time.
    pub fn flush(&self) -> Result<Written, RecordError> {
        let shared = &self.0.shared;
        let mut desk = shared.lock();
        desk.asked += 1;
        let mine = desk.asked;
        self.0.wake();
        while desk.failed.is_none() && desk.answered < mine {
            desk = shared
                .answer
                .wait(desk)
                .unwrap_or_else(PoisonError::into_inner);
        }
        match &desk.failed {
            None => Ok(desk.written),
            Some(error) => Err(RecordError::Write {
                path: self.0.path.clone(),
                source: io::Error::new(error.kind(), error.to_string()),
            }),
        }
    }

    /// Where the rings of schedulers with this schema come from.
    ///
    /// ```
    /// use mpquic_sched::record::{Recorder, RecorderConfig, Schema, Ring};
    /// use mpquic_sched::{Context, Decision, Scheduler};
    ///
    /// struct First(Ring);
    ///
    /// impl Scheduler for First {
    ///     fn decide(&mut self, cx: &Context<'_>) -> Decision {
    ///         match cx.sendable().next() {
    ///             Some(path) => {
    ///                 let state = [path.smoothed_rtt.as_secs_f32() * 1e3];
    ///                 let action = [path.index.get() as f32];
    ///                 self.0.decided(cx.decision, cx.now, &state, &action, false);
    ///                 Decision::send(path.index)
    ///             }
    ///             None => Decision::Wait { until: None },
    ///         }
    ///     }
    /// }
    ///
    /// # let folder = std::env::temp_dir().join(format!("mpquic-source-doc-{}", std::process::id()));
    /// # std::fs::create_dir_all(&folder)?;
    /// let recorder = Recorder::create(folder.join("first.traj"), &RecorderConfig::default())?;
    /// let schema = Schema::new("first", serde_json::json!({}))
    ///     .with_state(1, &[("rtt", "ms")])
    ///     .with_action(&["slot"]);
    /// let source = recorder.source(&schema)?;
    /// let for_one_connection = source.record(First);
    /// # drop((for_one_connection, source, recorder));
    /// # std::fs::remove_dir_all(&folder)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`RecordError::Schema`]: its states or its configuration are too large.
    pub fn source(&self, schema: &Schema) -> Result<Source, RecordError> {
        Ok(Source {
            recorder: self.clone(),
            text: schema.text()?.into(),
            sizes: [schema.state_len(), schema.action_len()],
        })
    }
}

impl Inner {
    fn wake(&self) {
        if let Some(thread) = &self.thread {
            thread.thread().unpark();
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Release);
        self.wake();
        if let Some(thread) = self.thread.take() {
            // If it panicked, that was told on stderr.
            let _ = thread.join();
        }
    }
}

impl fmt::Debug for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recorder")
            .field("path", &self.0.path)
            .field("config", &self.0.config)
            .finish_non_exhaustive()
    }
}

/// Makes the rings of one kind of scheduler.
#[derive(Debug, Clone)]
pub struct Source {
    recorder: Recorder,
    text: Arc<str>,
    sizes: [usize; 2],
}

impl Source {
    /// Makes a scheduler that writes into a ring, and counts around it what becomes of its packets. When the scheduler is
    /// dropped, the outcome is written.
    ///
    /// Allocates the ring, and takes a lock for a moment.
    pub fn record<S>(&self, make: impl FnOnce(Ring) -> S) -> Recorded<S> {
        let inner = &self.recorder.0;
        let connection = inner.connections.fetch_add(1, Ordering::Relaxed);
        let [state, action] = self.sizes;
        let least = 2 * (LENGTH + longest(state + action));
        let bytes = usize::try_from(inner.config.ring_bytes).unwrap_or(usize::MAX);
        let (producer, consumer) = RingBuffer::new(bytes.max(least));
        let tally = Arc::new(Tally::default());
        let live = Live {
            connection,
            schema: Arc::clone(&self.text),
            ring: consumer,
            tally: Arc::clone(&tally),
            introduced: None,
        };
        {
            let mut desk = inner.shared.lock();
            // After a failure nobody would ever take it.
            if desk.failed.is_none() {
                desk.opened.push(live);
            }
        }
        inner.wake();
        let ring = Ring::new(connection, producer, Arc::clone(&tally), self.sizes);
        Recorded::new(make(ring), tally)
    }
}

const _: () = assert!(longest(MAX_VALUES) <= u16::MAX as usize);
const _: () = assert!(super::MAX_SCHEMA_BYTES + 64 + longest(MAX_VALUES) < MIN_BYTES as usize / 2);
