//! A store of a server's TLS sessions in one block of memory.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustls::server::StoresServerSessions;
use smallvec::SmallVec;

/// Sessions that are kept. Looking one up compares with each.
const SESSIONS: usize = 256;

/// Bytes of a key and of a session that need no memory of their own. A session is larger if the client has a certificate.
const KEY: usize = 48;
const SESSION: usize = 304;

/// Sessions of a server in memory, for [`session_storage`](rustls::ServerConfig::session_storage). The oldest of 256 goes
/// first.
///
/// It is to servers under attack what rustls' own `ServerSessionMemoryCache` is not: that one has three small blocks of
/// memory per session, made while connections come and go. They lie between the memory of those connections, and keep
/// allocators like glibc's from giving back what a flood has freed. These sessions share one block.
pub struct SessionMemory(Mutex<VecDeque<Session>>);

struct Session {
    key: SmallVec<[u8; KEY]>,
    value: SmallVec<[u8; SESSION]>,
}

impl SessionMemory {
    /// An empty one, with its memory.
    pub fn new() -> Self {
        Self(Mutex::new(VecDeque::with_capacity(SESSIONS)))
    }

    /// A panic elsewhere is no reason to panic here.
    fn lock(&self) -> MutexGuard<'_, VecDeque<Session>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for SessionMemory {
    fn default() -> Self {
        Self::new()
    }
}

// By hand: sessions are secrets.
impl fmt::Debug for SessionMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionMemory").finish_non_exhaustive()
    }
}

fn position(sessions: &VecDeque<Session>, key: &[u8]) -> Option<usize> {
    sessions.iter().position(|session| session.key[..] == *key)
}

impl StoresServerSessions for SessionMemory {
    fn put(&self, key: Vec<u8>, value: Vec<u8>) -> bool {
        let mut sessions = self.lock();
        if let Some(at) = position(&sessions, &key) {
            sessions.remove(at);
        }
        if sessions.len() >= SESSIONS {
            sessions.pop_front();
        }
        sessions.push_back(Session {
            // Not `from_vec`, which would keep the block.
            key: SmallVec::from_slice(&key),
            value: SmallVec::from_slice(&value),
        });
        true
    }

    fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        let sessions = self.lock();
        let session = sessions.get(position(&sessions, key)?)?;
        Some(session.value.to_vec())
    }

    fn take(&self, key: &[u8]) -> Option<Vec<u8>> {
        let mut sessions = self.lock();
        let at = position(&sessions, key)?;
        Some(sessions.remove(at)?.value.to_vec())
    }

    fn can_cache(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(number: usize) -> Vec<u8> {
        [&number.to_be_bytes()[..], &[7; 24]].concat()
    }

    #[test]
    fn sessions_are_found_and_taken_once() {
        let store = SessionMemory::new();
        assert!(store.can_cache());
        assert_eq!(store.get(&key(1)), None);
        assert!(store.put(key(1), vec![1; 130]) && store.put(key(2), vec![2; 5000]));
        assert_eq!(store.get(&key(1)), Some(vec![1; 130]));
        assert_eq!(store.take(&key(2)), Some(vec![2; 5000]));
        assert_eq!(store.take(&key(2)), None);
        assert!(store.put(key(1), vec![3]));
        assert_eq!(store.take(&key(1)), Some(vec![3]));
        assert_eq!(store.get(&key(1)), None, "the one before it was replaced");
    }

    #[test]
    fn the_oldest_makes_room_and_the_block_stays() {
        let store = SessionMemory::new();
        let block = store.lock().capacity();
        for number in 0..3 * SESSIONS {
            assert!(store.put(key(number), vec![0; 180]));
        }
        let sessions = store.lock();
        assert_eq!((sessions.len(), sessions.capacity()), (SESSIONS, block));
        assert!(sessions.iter().all(|session| !session.key.spilled()));
        assert!(sessions.iter().all(|session| !session.value.spilled()));
        drop(sessions);
        assert_eq!(store.get(&key(2 * SESSIONS - 1)), None);
        assert!(store.get(&key(2 * SESSIONS)).is_some());
    }
}
