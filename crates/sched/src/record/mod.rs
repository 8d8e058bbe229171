//! What schedulers experience on real connections, written to a file for training.
//!
//! A [`Recorder`] belongs to a file. A [`Registry`] that has one ([`Registry::with_recorder`]) makes schedulers that are
//! recorded: `linucb`, `peekaboo`, and those that ask a network. Of each connection, the file then holds
//!
//! - which scheduler it had, how configured, and what the elements of its states and actions are ([`Schema`]);
//! - each decision: its number, when, the state, the action ([`Decided`]);
//! - each reward, under the number of the decision that earned it ([`Rewarded`]);
//! - how the connection went, when it has ended ([`Outcome`]).
//!
//! Connections are numbered in the order in which their schedulers were made; a connection here is the life of one
//! scheduler. Times are microseconds since the first thing that the scheduler was told: the file holds no date, no
//! address and no content.
//!
//! [`Registry`]: crate::Registry
//! [`Registry::with_recorder`]: crate::Registry::with_recorder
//!
//! # What it costs, and what it cannot do to a connection
//!
//! On the hot path a record is written into a ring of the connection's own, made when its scheduler is, and never waited
//! for: no allocation, no lock, no system call. A thread of the recorder's empties the rings every 10 ms. When a ring is
//! full, or the disk is, records are dropped and counted; the connection goes on. A record takes 40 bytes and 4 more for
//! each number in it.
//!
//! # The file
//!
//! Bounded by [`RecorderConfig::max_bytes`]: it is written in segments of half of that, and the newest two are kept,
//! `FILE` and, before it, `FILE.1`. Each can be read without the other. Each record has a length and a checksum, so that
//! after a crash whatever was written before is read back, and where it broke off is told ([`Damage`]). What has been
//! handed to the system survives the process, not the machine: nothing waits for the disk.
//!
//! ```text
//! segment = "MPQTRAJ\n" record*           numbers are little-endian
//! record  = length:u16 !length:u16 crc32(payload):u32 payload
//! payload = 0 JSON {crate, format, recording, segment}            first in each segment
//!         | 1 schema:u32 JSON {scheduler, config, features, rows, actions}
//!         | 2 connection:u64 schema:u32                           before what else is told of the connection
//!         | 3 connection:u64 number:u64 us:u64 flags:u8 state:u16 action:u16 f32*   flags: 1 = fell back
//!         | 4 connection:u64 number:u64 us:u64 flags:u8 reward:f64                  flags: 1 = done
//!         | 5 connection:u64 us:u64 flags:u8 u64{9}               flags: 1 = cut; the fields of Outcome
//! ```
//!
//! [`read`] reads it, and so does `training/mpquic_training/trajectories.py`.
//!
//! ```
//! use mpquic_sched::Registry;
//! use mpquic_sched::record::{self, Recorder, RecorderConfig};
//!
//! # let folder = std::env::temp_dir().join(format!("mpquic-record-doc-{}", std::process::id()));
//! # std::fs::create_dir_all(&folder)?;
//! let file = folder.join("linucb.traj");
//! let recorder = Recorder::create(&file, &RecorderConfig::default())?;
//! let registry = Registry::new().with_recorder(recorder.clone());
//! let scheduler = registry.build("linucb", &serde_json::json!({"alpha": 1.0}))?;
//! // ... the connection ...
//! drop(scheduler);
//! let written = recorder.flush()?;
//! assert_eq!((written.connections, written.dropped), (1, 0));
//!
//! let recording = record::read(&file)?;
//! let trajectory = &recording.trajectories()[0];
//! assert_eq!(trajectory.schema.scheduler, "linucb");
//! assert_eq!(trajectory.schema.config["alpha"], 1.0);
//! assert_eq!(trajectory.ended.unwrap().decisions, 0);
//! # std::fs::remove_dir_all(&folder)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # A scheduler of your own
//!
//! [`Recorder::source`] takes what its records look like, [`Source::record`] makes a scheduler that holds a [`Ring`] to
//! write them on, and counts around it what becomes of its packets.

mod codec;
mod error;
mod read;
mod recorder;
mod ring;
mod schema;
mod segment;
mod tally;
mod trajectory;
mod writer;

pub use codec::{Decided, Event, Outcome, Rewarded};
pub use error::{Damage, ReadError, RecordError};
pub use read::{Recording, read};
pub use recorder::{Recorder, RecorderConfig, Source, Written};
pub use ring::{Recorded, Ring};
pub use schema::Schema;
pub use trajectory::{Pair, Trajectory};

/// The most numbers in a state and its action together.
pub const MAX_VALUES: usize = 4096;

/// The longest schema, bytes of JSON: a scheduler's configuration, and the names of its features.
pub const MAX_SCHEMA_BYTES: usize = 16 << 10;

/// The least [`RecorderConfig::max_bytes`]: two segments that hold the largest records there can be.
pub const MIN_BYTES: u64 = 128 << 10;

/// The most [`RecorderConfig::max_bytes`]; half of it is the largest file that is read.
pub const MAX_BYTES: u64 = 2 << 30;
