//! An allocator that counts what the code under test allocates and holds, per thread; other code is not counted.

use std::cell::Cell;

use mpquic_test_support::allocator::{Change, Counting};

thread_local! {
    static ON: Cell<bool> = const { Cell::new(false) };
    static HELD: Cell<i64> = const { Cell::new(0) };
    static PEAK: Cell<i64> = const { Cell::new(0) };
    static CALLS: Cell<u64> = const { Cell::new(0) };
}

/// The system's allocator, and a count. Tests install it with `#[global_allocator]`.
pub const METER: Counting = Counting::new(count);

fn count(change: Change) {
    if ON.get() {
        let (bytes, calls) = (change.growth(), u64::from(change.allocated.is_some()));
        let held = HELD.get() + bytes;
        HELD.set(held);
        PEAK.set(PEAK.get().max(held));
        CALLS.set(CALLS.get() + calls);
    }
}

/// Runs code of the other side: what it allocates and frees on this thread is counted.
pub fn metered<T>(f: impl FnOnce() -> T) -> T {
    let before = ON.replace(true);
    let result = f();
    ON.set(before);
    result
}

/// What the metered code holds on this thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reading {
    /// Bytes allocated and not freed.
    pub held: i64,
    /// The most that were held since [`reset_peak`].
    pub peak: i64,
    /// Calls of the allocator.
    pub allocations: u64,
}

/// The counts of this thread. All are 0 where [`Counting`] is not the allocator.
pub fn reading() -> Reading {
    Reading {
        held: HELD.get(),
        peak: PEAK.get(),
        allocations: CALLS.get(),
    }
}

/// Begins a new search for the peak.
pub fn reset_peak() {
    PEAK.set(HELD.get());
}
