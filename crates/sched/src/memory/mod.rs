//! What learning schedulers, and paths, keep from one connection to the next.
//!
//! A [`Store`] holds what was learned, each piece under the scheduler's name, a fingerprint of its
//! configuration and the [`PathKey`]s of the paths that it was learned of. A [`Registry`] that has a
//! store gives each learning scheduler that it makes a [`Recall`], a handle on the scheduler's own
//! part of it:
//!
//! - when both paths of a pair are open, the scheduler asks whether something is known of it;
//! - when a path ends, and when the connection does, it deposits what it has learned.
//!
//! The newest deposit counts. It is all a matter of opening and closing paths: decisions and
//! acknowledgements never touch the store, and its lock is held for a copy at most.
//!
//! [`Registry`]: crate::Registry
//! [`PathKey`]: crate::PathKey
//!
//! Beside that, a store is a [`PathMemory`](crate::PathMemory): a transport keeps in it what it measured of each path,
//! the [`SavedPath`](crate::SavedPath)s with which later connections begin.
//!
//! # In an application
//!
//! One store per process, loaded at the start and saved at the end (and now and then, if you like):
//!
//! ```
//! use mpquic_sched::Registry;
//! use mpquic_sched::memory::Store;
//!
//! # let folder = std::env::temp_dir().join(format!("mpquic-memory-doc-{}", std::process::id()));
//! # std::fs::create_dir_all(&folder)?;
//! let file = folder.join("memory.json");
//! let store = Store::load(&file).unwrap_or_else(|refused| {
//!     eprintln!("{refused}; learning starts fresh");
//!     Store::new()
//! });
//! let registry = Registry::new().with_memory(store.clone());
//! // ... connections whose schedulers come from this registry ...
//! store.save(&file)?;
//! # std::fs::remove_dir_all(&folder)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # A learning scheduler of your own
//!
//! ```
//! use mpquic_sched::memory::{Recall, Store};
//! use mpquic_sched::{
//!     Context, Decision, NoConfig, PathUpdate, PathUpdateKind, PathKey, Registry, Scheduler,
//! };
//!
//! /// Counts the packets that a path has carried in its life, over all connections.
//! struct Counter {
//!     recall: Recall,
//!     path: Option<PathKey>,
//!     packets: u64,
//! }
//!
//! impl Scheduler for Counter {
//!     fn decide(&mut self, cx: &Context<'_>) -> Decision {
//!         match cx.sendable().next() {
//!             Some(path) => {
//!                 self.packets += 1;
//!                 Decision::send(path.index)
//!             }
//!             None => Decision::Wait { until: None },
//!         }
//!     }
//!
//!     fn on_path(&mut self, event: &PathUpdate) {
//!         if event.kind == PathUpdateKind::Validated && self.path.is_none() {
//!             self.path = event.key;
//!             let known = event.key.and_then(|key| self.recall.recall_path(key));
//!             self.packets = known.unwrap_or(0);
//!         }
//!     }
//! }
//!
//! impl Drop for Counter {
//!     fn drop(&mut self) {
//!         if let Some(key) = self.path {
//!             self.recall.remember_path(key, &self.packets);
//!         }
//!     }
//! }
//!
//! let mut registry = Registry::new().with_memory(Store::new());
//! registry.register_learner("counter", |_| Ok(()), |_: &NoConfig, recall| Counter {
//!     recall,
//!     path: None,
//!     packets: 0,
//! })?;
//! # drop(registry.build("counter", &serde_json::json!({}))?);
//! # Ok::<(), mpquic_sched::RegistryError>(())
//! ```

mod error;
mod file;
mod paths;
mod recall;
mod store;

pub use error::MemoryError;
pub use paths::{MAX_SAVED_AGE, MAX_SAVED_PATHS};
pub use recall::Recall;
pub use store::Store;

/// The largest file that is read, bytes, and the most that a store holds.
///
/// Stops: a file that was put in our place from using up memory.
pub const MAX_BYTES: usize = 32 << 20;

/// The largest single piece, bytes of JSON. Larger ones are refused.
pub const MAX_ENTRY_BYTES: usize = 256 << 10;

/// How many pieces a store holds if nothing else is asked for.
pub const DEFAULT_CAPACITY: usize = 1024;
