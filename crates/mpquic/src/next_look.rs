//! When a task of a connection reads the sockets in place of the endpoint's task.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::Instant;

/// While much is received, the sockets are read so often. A peer on the same host sends 2 MB meanwhile, half of what a socket
/// with the default buffer holds.
pub(crate) const INTERVAL: Duration = Duration::from_micros(500);

/// The endpoint's task is not late before so many tasks of connections have had their turn since. Behind a few, it has its own
/// soon enough, and what it reads then is still in the processor's cache when they take it.
pub(crate) const TURNS_OF_OTHERS: u32 = 8;

/// When the sockets are to be read again, whatever else there is to do. Looked at before each poll of a connection's task.
#[derive(Debug)]
pub(crate) struct NextLook {
    origin: Instant,
    /// Nanoseconds after the origin.
    pub(crate) at: AtomicU64,
    /// How often tasks of connections had their turn since the last look. Some are not counted if several count at once.
    pub(crate) turns: AtomicU32,
}

impl NextLook {
    const NEVER: u64 = u64::MAX;

    pub(crate) fn new() -> Self {
        Self {
            origin: Instant::now(),
            at: AtomicU64::new(Self::NEVER),
            turns: AtomicU32::new(0),
        }
    }

    /// A task of a connection has its turn.
    pub(crate) fn count_turn(&self) {
        if self.at.load(Ordering::Relaxed) != Self::NEVER {
            let turns = self.turns.load(Ordering::Relaxed);
            self.turns.store(turns.saturating_add(1), Ordering::Relaxed);
        }
    }

    /// Whether it is time. Does not look at the clock while little is received.
    pub(crate) fn is_due(&self, clock: impl FnOnce() -> Instant) -> bool {
        let at = self.at.load(Ordering::Relaxed);
        at != Self::NEVER
            && self.turns.load(Ordering::Relaxed) >= TURNS_OF_OTHERS
            && (clock() - self.origin).as_nanos() as u64 >= at
    }

    /// It was just looked. While little comes, that is all.
    pub(crate) fn set(&self, now: Instant, much: bool) {
        let at = if much {
            (now - self.origin + INTERVAL).as_nanos() as u64
        } else {
            Self::NEVER
        };
        self.at.store(at, Ordering::Relaxed);
        self.turns.store(0, Ordering::Relaxed);
    }
}
