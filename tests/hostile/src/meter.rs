//! An allocator that counts what the code under test allocates and holds, per thread; other code is not counted.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    static ON: Cell<bool> = const { Cell::new(false) };
    static HELD: Cell<i64> = const { Cell::new(0) };
    static PEAK: Cell<i64> = const { Cell::new(0) };
    static CALLS: Cell<u64> = const { Cell::new(0) };
}

/// The system's allocator, and a count. Tests install it with `#[global_allocator]`.
#[derive(Debug)]
pub struct Counting;

fn count(bytes: i64, calls: u64) {
    if ON.get() {
        let held = HELD.get() + bytes;
        HELD.set(held);
        PEAK.set(PEAK.get().max(held));
        CALLS.set(CALLS.get() + calls);
    }
}

// SAFETY: every call goes to the system allocator unchanged. Counting only uses thread-local cells without
// destructors that are initialised at compile time, so it does not allocate.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as i64, 1);
        // SAFETY: the caller upholds the contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as i64, 1);
        // SAFETY: the caller upholds the contract.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        count(-(layout.size() as i64), 0);
        // SAFETY: the caller upholds the contract.
        unsafe { System.dealloc(block, layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size as i64 - layout.size() as i64, 1);
        // SAFETY: the caller upholds the contract.
        unsafe { System.realloc(block, layout, size) }
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
