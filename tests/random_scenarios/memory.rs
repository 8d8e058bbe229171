//! Bytes that a thread has allocated and not freed; what a run leaves behind shows in them.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// Growth that is no leak: buffers of the test harness.
pub(crate) const SLACK: i64 = 2048;

thread_local! {
    static LIVE: Cell<i64> = const { Cell::new(0) };
}

struct Counting;

fn add(bytes: i64) {
    LIVE.with(|live| live.set(live.get() + bytes));
}

/// This thread's balance: what it frees for others counts, too. A run stays on its thread.
pub(crate) fn live() -> i64 {
    LIVE.with(Cell::get)
}

// SAFETY: every call goes on to the system allocator unchanged; counting touches only a thread-local
// cell, initialised at compile time and without a destructor, so that it does not allocate.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        add(layout.size() as i64);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        add(-(layout.size() as i64));
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(block, layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        add(size as i64 - layout.size() as i64);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.realloc(block, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;
