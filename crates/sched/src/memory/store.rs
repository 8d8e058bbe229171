//! The memory of a process: bounded, shared, in no file; forgets what was not used for longest.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::Serialize;

use super::paths::SavedPaths;
use super::{DEFAULT_CAPACITY, MAX_BYTES, MAX_ENTRY_BYTES, MemoryError, Recall, file};
use crate::{PathKey, PathMemory, SavedPath};

/// What learning schedulers have learned, and the facts of paths, for the next connection over the same paths.
///
/// As a [`PathMemory`] it is what a transport keeps the facts of paths in: of [`MAX_SAVED_PATHS`] at most, and none
/// that was not renewed for [`MAX_SAVED_AGE`].
///
/// [`MAX_SAVED_PATHS`]: super::MAX_SAVED_PATHS
/// [`MAX_SAVED_AGE`]: super::MAX_SAVED_AGE
///
/// Clones are handles on the same memory, from any thread. It holds a bounded number of entries and
/// bytes; beyond that, those that were neither recalled nor remembered for longest go. A process
/// wants one of it, beside the [`Registry`](crate::Registry) that makes its schedulers; see the
/// [module](super) for how.
///
/// What a peer can do to it: each pair of addresses has entries of its own, so that a peer spoils
/// what is remembered of itself. One that comes from many addresses (or, if you let it configure
/// schedulers, with many configurations) can push out what is known of others, which are then learned again.
#[derive(Clone)]
pub struct Store(Arc<Mutex<Entries>>);

/// Whose piece of memory, and of what.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    pub(super) scheduler: Arc<str>,
    /// A fingerprint of the configuration.
    pub(super) config: u64,
    pub(super) fast: PathKey,
    /// The same as `fast` for what was learned of a single path.
    pub(super) slow: PathKey,
}

/// A piece of memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    /// The time of the last use, in uses; no two entries of a store have the same.
    pub(super) used: u64,
    /// JSON, as the scheduler wrote it.
    pub(super) learned: Box<str>,
}

pub(super) struct Entries {
    by_key: BTreeMap<Key, Entry>,
    capacity: usize,
    uses: u64,
    bytes: usize,
    refused: u64,
    paths: SavedPaths,
}

impl Store {
    /// An empty memory of at most [`DEFAULT_CAPACITY`] entries.
    pub fn new() -> Self {
        Self::with_capacity(DEFAULT_CAPACITY)
    }

    /// An empty memory of at most so many entries. With none, nothing is ever remembered.
    pub fn with_capacity(capacity: usize) -> Self {
        Self(Arc::new(Mutex::new(Entries {
            by_key: BTreeMap::new(),
            capacity,
            uses: 0,
            bytes: 0,
            refused: 0,
            paths: SavedPaths::default(),
        })))
    }

    /// Reads the memory that [`save`](Self::save) wrote, with the default capacity. A file that does
    /// not exist is an empty memory: that of a first start.
    ///
    /// The file is untrusted input: it is read up to a bound, and what is in it is checked here as
    /// far as it is the same for all schedulers, and by each scheduler when it recalls its own (see
    /// [`refused`](Self::refused)). Whoever can write it can make schedulers begin with any state
    /// that they could have learned by themselves, and no more.
    ///
    /// # Errors
    ///
    /// If the file cannot be read, is too large, is not JSON, has another format version or is
    /// otherwise not what `save` writes. Learning can then start fresh, with [`Store::new`].
    pub fn load(path: impl AsRef<Path>) -> Result<Self, MemoryError> {
        let store = Self::new();
        let read = file::read(path.as_ref())?;
        let mut entries = store.lock();
        for (key, entry) in read.entries {
            entries.insert(key, entry.learned);
        }
        for (key, known) in read.paths {
            entries.paths.put(key, &known.saved);
        }
        drop(entries);
        Ok(store)
    }

    /// Writes the memory to a file, whole or not at all: to a temporary file in the same folder that
    /// then takes its name. The same memory makes the same bytes. On Unix, only the owner may read it.
    ///
    /// Of two processes that save to one file, the last one wins.
    ///
    /// # Errors
    ///
    /// [`MemoryError::Write`]; what was there before is there still.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<(), MemoryError> {
        // Not written under the lock: connections that open or end do not wait for a disk.
        let (entries, paths) = {
            let entries = self.lock();
            (entries.ranked(), entries.paths.ranked())
        };
        let text = file::text(&entries, &paths);
        file::write(path.as_ref(), &text)
    }

    /// The handle of a scheduler on its own part: of this name, and of a configuration that is the
    /// same but for its field `seed`.
    ///
    /// [`Registry::register_learner`](crate::Registry::register_learner) does this for schedulers that
    /// a registry makes.
    pub fn recall(&self, scheduler: &str, config: &impl Serialize) -> Recall {
        Recall::new(self.clone(), scheduler, config)
    }

    /// How many entries there are.
    pub fn len(&self) -> usize {
        self.lock().by_key.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Of how many paths facts are kept.
    pub fn saved_paths(&self) -> usize {
        self.lock().paths.len()
    }

    /// How many pieces were refused since the store was made: entries that their scheduler could not
    /// take, which are forgotten, and deposits that could not be taken back or were too large.
    pub fn refused(&self) -> u64 {
        self.lock().refused
    }

    /// Nothing in here leaves the entries half changed: after a panic they are still good.
    fn lock(&self) -> MutexGuard<'_, Entries> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The text of an entry, which counts as used by that.
    pub(super) fn get(&self, key: &Key) -> Option<Box<str>> {
        let mut entries = self.lock();
        entries.uses += 1;
        let now = entries.uses;
        let entry = entries.by_key.get_mut(key)?;
        entry.used = now;
        Some(entry.learned.clone())
    }

    /// Takes in an entry that is known to be good.
    pub(super) fn put(&self, key: Key, learned: Box<str>) {
        self.lock().insert(key, learned);
    }

    /// Counts what was refused, and forgets the entry that it was, unless it was replaced since.
    pub(super) fn refuse(&self, key: &Key, learned: Option<&str>) {
        let mut entries = self.lock();
        entries.refused += 1;
        if learned.is_some_and(|learned| {
            let kept = entries.by_key.get(key);
            kept.is_some_and(|kept| &*kept.learned == learned)
        }) {
            entries.remove(key);
        }
    }
}

impl PathMemory for Store {
    fn look_up(&self, key: PathKey, now: Duration) -> Option<SavedPath> {
        self.lock().paths.get(key, now)
    }

    fn remember(&self, key: PathKey, saved: &SavedPath) {
        let mut entries = self.lock();
        if entries.capacity > 0 {
            entries.paths.put(key, saved);
        }
    }

    fn forget(&self, key: PathKey) {
        self.lock().paths.remove(key);
    }

    fn claim(&self, key: PathKey) -> bool {
        self.lock().paths.claim(key)
    }

    fn release(&self, key: PathKey) {
        self.lock().paths.release(key);
    }
}

impl Default for Store {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let entries = self.lock();
        f.debug_struct("Store")
            .field("entries", &entries.by_key.len())
            .field("bytes", &entries.bytes)
            .field("paths", &entries.paths.len())
            .field("refused", &entries.refused)
            .finish()
    }
}

impl Entries {
    fn insert(&mut self, key: Key, learned: Box<str>) {
        if learned.len() > MAX_ENTRY_BYTES {
            self.refused += 1;
            return;
        }
        self.remove(&key);
        self.uses += 1;
        self.bytes += file::size(&key, &learned);
        let used = self.uses;
        self.by_key.insert(key, Entry { used, learned });
        while self.by_key.len() > self.capacity || self.bytes > MAX_BYTES - file::FRAME {
            // A walk over all, but only when a path opens or ends with the store full.
            let oldest = self.by_key.iter().min_by_key(|(_, entry)| entry.used);
            let Some(oldest) = oldest.map(|(key, _)| key.clone()) else {
                break;
            };
            self.remove(&oldest);
        }
    }

    fn remove(&mut self, key: &Key) {
        if let Some(entry) = self.by_key.remove(key) {
            self.bytes -= file::size(key, &entry.learned);
        }
    }

    /// All entries in the order of their keys, with the times of their last uses replaced by their
    /// ranks, so that it does not show in a file how long a process ran.
    fn ranked(&self) -> Vec<(Key, Entry)> {
        let mut times: Vec<_> = self.by_key.values().map(|entry| entry.used).collect();
        times.sort_unstable();
        let rank = |entry: &Entry| times.partition_point(|time| *time < entry.used) as u64;
        self.by_key
            .iter()
            .map(|(key, entry)| {
                let entry = Entry {
                    used: rank(entry),
                    learned: entry.learned.clone(),
                };
                (key.clone(), entry)
            })
            .collect()
    }
}
