//! The bytes that a thread has allocated and not freed, to find memory leaks of a run.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// Growth that is not a leak: buffers of the test harness.
pub(crate) const SLACK: i64 = 2048;

thread_local! {
    static LIVE: Cell<i64> = const { Cell::new(0) };
}

struct Counting;

fn add(bytes: i64) {
    LIVE.with(|live| live.set(live.get() + bytes));
}

/// The balance of this thread. It also counts memory that the thread frees for others; a run stays
/// on its thread.
pub(crate) fn live() -> i64 {
    LIVE.with(Cell::get)
}

// SAFETY: every call goes to the system allocator unchanged. Counting only uses a thread-local cell
// without a destructor that is initialised at compile time, so it does not allocate.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        add(layout.size() as i64);
        // SAFETY: the caller upholds the contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        add(-(layout.size() as i64));
        // SAFETY: the caller upholds the contract.
        unsafe { System.dealloc(block, layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        add(size as i64 - layout.size() as i64);
        // SAFETY: the caller upholds the contract.
        unsafe { System.realloc(block, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;
