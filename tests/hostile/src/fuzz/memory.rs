//! The file in which endpoints keep what they know of paths: whatever it holds ends in an error or in a memory that is
//! written as it is read, and no connection that begins with it sends more than a jump may be.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use mpquic_proto::{Dir, PathId, PathKey, PathMemory, SavedPath};
use mpquic_sched::memory::{MemoryError, Store};

use super::{Features, config, feature, identity};
use crate::duel::Duel;
use crate::params::Params;
use crate::victim::Victim;

/// The default of `CarefulResumeConfig::max_jump`.
const MAX_JUMP: u64 = 4 << 20;

/// A memory that says of every path what a store knows of one.
struct Everywhere {
    store: Store,
    key: PathKey,
}

impl PathMemory for Everywhere {
    fn look_up(&self, _: PathKey, now: Duration) -> Option<SavedPath> {
        self.store.look_up(self.key, now)
    }

    fn remember(&self, _: PathKey, saved: &SavedPath) {
        self.store.remember(self.key, saved);
    }

    fn forget(&self, _: PathKey) {
        self.store.forget(self.key);
    }

    fn claim(&self, _: PathKey) -> bool {
        self.store.claim(self.key)
    }

    fn release(&self, _: PathKey) {
        self.store.release(self.key);
    }
}

/// A file of this thread's own.
fn file() -> PathBuf {
    let (process, thread) = (std::process::id(), std::thread::current().id());
    std::env::temp_dir().join(format!("mpquic-fuzz-memory-{process}-{thread:?}.json"))
}

/// The key of the first path in the file.
fn first_key(data: &[u8]) -> Option<PathKey> {
    let text = std::str::from_utf8(data).ok()?;
    let digits = text.split("\"path\": \"").nth(1)?.get(..16)?;
    u64::from_str_radix(digits, 16).ok().map(PathKey::new)
}

/// One input.
///
/// # Panics
///
/// If the code under test does, writes something else than it has read, or jumps too far.
pub fn memory(data: &[u8]) -> Features {
    let file = file();
    let mut features = Features::new();
    if fs::write(&file, data).is_err() {
        return features;
    }
    let loaded = Store::load(&file);
    match loaded {
        Ok(store) => {
            let written = |store: &Store| {
                store.save(&file).ok()?;
                fs::read(&file).ok()
            };
            if let Some(first) = written(&store) {
                let again = Store::load(&file).expect("what was written can be read");
                assert_eq!(written(&again), Some(first), "the same memory, other bytes");
            }
            features.insert(feature(1, (store.saved_paths(), store.len())));
            features.insert(feature(2, download(store, data)));
        }
        Err(error) => {
            let kind = match error {
                MemoryError::Read { .. } => 0,
                MemoryError::TooLarge { .. } => 1,
                MemoryError::Foreign { .. } => 2,
                MemoryError::Format { .. } => 3,
                MemoryError::Entry { .. } => 4,
                MemoryError::Path { .. } => 5,
                _ => 6,
            };
            // What a file says that is nearly right is told in words.
            let words = error.to_string();
            let words: String = words.chars().filter(|c| c.is_alphabetic()).collect();
            features.insert(feature(3, (kind, words.len())));
        }
    }
    let _ = fs::remove_file(&file);
    features
}

/// A server that begins with this memory and has much to send: what careful resume made of it.
fn download(store: Store, data: &[u8]) -> Option<String> {
    let key = first_key(data)?;
    let mut transport = config();
    transport.path_memory(Some(Arc::new(Everywhere { store, key })));
    let params = Params::generous(Some(3));
    let mut duel = Duel::between(Victim::server(identity(), transport), params);
    duel.connect();
    let id = duel.victim.connection().streams().open(Dir::Uni)?;
    let _ = duel
        .victim
        .connection()
        .send_stream(id)
        .write(&[7; 1 << 18]);
    for _ in 0..8 {
        duel.exchange();
        duel.victim.advance(Duration::from_millis(20));
    }
    let stats = duel.victim.connection().path(PathId::ZERO).ok()?.stats();
    assert!(stats.jump_window <= MAX_JUMP, "{}", stats.jump_window);
    Some(format!("{:?}", stats.careful_resume))
}
