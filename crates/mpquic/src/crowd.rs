//! Has the allocator give the memory of many connections back to the system once they are gone.
//!
//! glibc keeps what was freed between blocks that are still in use, which is nearly all that a crowd of connections held. Other
//! allocators give it back by themselves.

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;

use crate::shards::Shards;
use crate::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// So many connections are a crowd.
const CROWD: usize = 64;

/// When all are gone, fewer are worth it.
const GROUP: usize = 8;

/// How long it takes until those are gone, too, that end at the same time.
const WAIT: Duration = Duration::from_secs(3);

/// Whether the allocator is known to need it.
const KEEPS: bool = cfg!(all(target_os = "linux", target_env = "gnu"));

/// What an endpoint knows of its crowds.
#[derive(Debug, Default)]
pub(crate) struct Crowd {
    /// The most connections since memory was given back.
    most: AtomicUsize,
    /// It is about to be.
    waiting: AtomicBool,
}

impl Crowd {
    /// There is one more connection: so many.
    pub(crate) fn on_open(&self, open: usize) {
        self.most.fetch_max(open, Ordering::Relaxed);
    }

    /// So many are left. Whether half of a crowd is gone, or all of it; once, until [`after`](Self::after).
    pub(crate) fn is_gone(&self, open: usize) -> bool {
        let most = self.most.load(Ordering::Relaxed);
        let gone = (most >= CROWD && open <= most / 2) || (most >= GROUP && open == 0);
        gone && !self.waiting.swap(true, Ordering::Relaxed)
    }

    /// So many are left when the memory is given back.
    pub(crate) fn after(&self, open: usize) {
        self.most.store(open, Ordering::Relaxed);
        self.waiting.store(false, Ordering::Relaxed);
    }
}

/// Connections have ended.
pub(crate) fn on_gone(common: &Arc<Shards>, runtime: &Handle) {
    if !KEEPS || !common.crowd.is_gone(common.open()) {
        return;
    }
    let common = Arc::clone(common);
    runtime.spawn(async move {
        let mut left = usize::MAX;
        // Once more for those that have ended meanwhile: the last of a crowd may be few.
        while common.open() < left {
            left = common.open();
            tokio::time::sleep(WAIT).await;
            // It takes milliseconds for each 100 MB.
            let _ = tokio::task::spawn_blocking(trim).await;
        }
        common.crowd.after(common.open());
    });
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn trim() {
    #[expect(unsafe_code, reason = "the standard library has no such function")]
    // SAFETY: it takes a number, and may be called at any time from any thread (malloc_trim(3): MT-Safe).
    let given = unsafe { libc::malloc_trim(0) };
    tracing::debug!(given = given == 1, "memory back to the system");
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
const fn trim() {}

#[cfg(test)]
mod tests {
    use super::*;

    fn crowd(most: usize) -> Crowd {
        let crowd = Crowd::default();
        for open in 1..=most {
            crowd.on_open(open);
        }
        crowd
    }

    #[test]
    fn half_of_a_crowd_and_all_of_a_group_are_noticed_once() {
        let many = crowd(400);
        assert!(!many.is_gone(201) && many.is_gone(200) && !many.is_gone(100));
        many.after(90);
        assert!(!many.is_gone(46) && many.is_gone(45));
        many.after(40);
        assert!(!many.is_gone(1) && many.is_gone(0));
        many.after(0);
        assert!(!many.is_gone(0));
        let few = crowd(GROUP - 1);
        assert!(!few.is_gone(0));
    }
}
