//! How many sockets clients may hold, so that none takes those of the others.
//!
//! All of a server's clients share the sockets that the system gives it. A client gets another one as long as it then holds no more
//! than are free. One that takes all that it can so has half of them, two have a third each, and some are free for others at any
//! time. (Dynamic thresholds: Choudhury and Hahne, IEEE/ACM Transactions on Networking 6 (2), 1998.)

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Sockets where the system has no limit that it tells.
const UNTOLD: u64 = 8192;
/// Kept back, of what the system gives, for the server's own sockets and files.
const RESERVE: u64 = 256;

/// The sockets of all clients of a server.
#[derive(Debug)]
pub(crate) struct Budget(Mutex<usize>);

impl Budget {
    /// What a process that may open so many files has for its clients.
    pub(crate) fn new(open_files: Option<u64>) -> Arc<Self> {
        let all = open_files.unwrap_or(UNTOLD);
        let free = all - RESERVE.min(all / 2);
        Arc::new(Self(Mutex::new(
            usize::try_from(free).unwrap_or(usize::MAX),
        )))
    }

    fn free(&self) -> MutexGuard<'_, usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What one client holds of them.
#[derive(Debug)]
pub(crate) struct Share {
    budget: Arc<Budget>,
    held: Mutex<usize>,
}

impl Share {
    pub(crate) fn of(budget: &Arc<Budget>) -> Arc<Self> {
        Arc::new(Self {
            budget: Arc::clone(budget),
            held: Mutex::new(0),
        })
    }

    /// So many more, until they are dropped; `None` if others may need them.
    pub(crate) fn take(self: &Arc<Self>, count: usize) -> Option<Sockets> {
        let mut free = self.budget.free();
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        // What is free then must not be less than what it holds then.
        if held.saturating_add(2 * count) > *free {
            return None;
        }
        *held += count;
        *free -= count;
        Some(Sockets {
            share: Arc::clone(self),
            count,
        })
    }
}

/// Sockets that a client may open.
#[derive(Debug)]
pub(crate) struct Sockets {
    share: Arc<Share>,
    count: usize,
}

impl Drop for Sockets {
    fn drop(&mut self) {
        let mut free = self.share.budget.free();
        let mut held = self
            .share
            .held
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        *held -= self.count;
        *free += self.count;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all_of(share: &Arc<Share>) -> Vec<Sockets> {
        std::iter::from_fn(|| share.take(1)).collect()
    }

    #[test]
    fn whoever_comes_late_gets_some() {
        let budget = Budget::new(Some(1024));
        assert_eq!(*budget.free(), 768);
        let (first, second, third) = (Share::of(&budget), Share::of(&budget), Share::of(&budget));
        let greedy = all_of(&first);
        assert_eq!(greedy.len(), 384);
        let also = all_of(&second);
        assert_eq!(also.len(), 192);
        let late = all_of(&third);
        assert_eq!(late.len(), 96);
        drop((greedy, also, late));
        assert_eq!(*budget.free(), 768);
        assert!(first.take(500).is_none());
        assert_eq!(*budget.free(), 768);
    }

    #[test]
    fn a_small_limit_leaves_half() {
        assert_eq!(*Budget::new(Some(64)).free(), 32);
        assert_eq!(*Budget::new(None).free(), 8192 - 256);
    }
}
