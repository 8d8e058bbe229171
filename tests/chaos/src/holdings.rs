//! What this process holds: bytes of its allocator, pages, files, tasks.

use std::fmt;
use std::str::FromStr;
use std::sync::atomic::{AtomicI64, Ordering};

use mpquic_test_support::allocator::{Change, Counting};

/// Bytes that are allocated and not freed, by all threads.
static HELD: AtomicI64 = AtomicI64::new(0);

/// Counts them.
pub(crate) const ALLOCATOR: Counting = Counting::new(count);

fn count(change: Change) {
    HELD.fetch_add(change.growth(), Ordering::Relaxed);
}

/// Tasks of the runtime that this is called on.
pub(crate) fn tasks() -> usize {
    tokio::runtime::Handle::current()
        .metrics()
        .num_alive_tasks()
}

/// What is held when the process is at rest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Holdings {
    /// Bytes that were allocated and not freed.
    pub(crate) bytes: i64,
    /// What the system counts as resident.
    pub(crate) resident: i64,
    /// Open files.
    pub(crate) files: i64,
    /// Tasks of the runtime.
    pub(crate) tasks: i64,
}

impl Holdings {
    /// Now, with so many tasks.
    pub(crate) fn now(tasks: usize) -> Self {
        let pages: i64 = std::fs::read_to_string("/proc/self/statm")
            .ok()
            .and_then(|text| text.split(' ').nth(1)?.parse().ok())
            .unwrap_or(0);
        Self {
            bytes: HELD.load(Ordering::Relaxed),
            resident: pages * 4096,
            // The one that lists them is among them.
            files: std::fs::read_dir("/proc/self/fd").map_or(0, |all| all.count() as i64 - 1),
            tasks: tasks as i64,
        }
    }
}

impl fmt::Display for Holdings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            bytes,
            resident,
            files,
            tasks,
        } = self;
        write!(f, "{bytes} {resident} {files} {tasks}")
    }
}

impl FromStr for Holdings {
    type Err = crate::Error;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut numbers = text.split(' ').map(str::parse);
        let mut next = || numbers.next().ok_or("a number is missing");
        Ok(Self {
            bytes: next()??,
            resident: next()??,
            files: next()??,
            tasks: next()??,
        })
    }
}
