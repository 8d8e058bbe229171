//! The system's allocator, which tells a function of each block that comes or goes.
//!
//! A program has one allocator, and installs it by itself:
//!
//! ```
//! use mpquic_test_support::allocator::{Counting, allocations};
//!
//! #[global_allocator]
//! static ALLOCATOR: Counting = Counting::PER_THREAD;
//!
//! let before = allocations();
//! drop(std::hint::black_box(Box::new(1_u64)));
//! assert_eq!(allocations(), before + 1);
//! ```

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// A block comes, goes, or changes its size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Change {
    /// Bytes of the block that is freed, if one is.
    pub freed: Option<usize>,
    /// Bytes of the block that is allocated, if one is.
    pub allocated: Option<usize>,
}

impl Change {
    /// Bytes that are held more than before.
    pub fn growth(self) -> i64 {
        self.allocated.unwrap_or(0) as i64 - self.freed.unwrap_or(0) as i64
    }
}

/// The system's allocator; the function is called for each change.
#[derive(Debug)]
pub struct Counting(fn(Change));

impl Counting {
    /// Counts for [`allocations`] and [`held`].
    pub const PER_THREAD: Self = Self::new(count);

    /// The function must not allocate, or not for its own changes: thread-local cells that it uses are initialised at compile
    /// time and have no destructor.
    pub const fn new(told: fn(Change)) -> Self {
        Self(told)
    }

    fn tell(&self, freed: Option<usize>, allocated: Option<usize>) {
        (self.0)(Change { freed, allocated });
    }
}

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
    static HELD: Cell<i64> = const { Cell::new(0) };
}

fn count(change: Change) {
    ALLOCATIONS.set(ALLOCATIONS.get() + u64::from(change.allocated.is_some()));
    HELD.set(HELD.get() + change.growth());
}

/// How often this thread has allocated, with [`Counting::PER_THREAD`].
pub fn allocations() -> u64 {
    ALLOCATIONS.get()
}

/// Bytes that this thread has allocated and not freed, with [`Counting::PER_THREAD`]. What it frees for others counts, too.
pub fn held() -> i64 {
    HELD.get()
}

// SAFETY: every call goes to the system allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        self.tell(None, Some(layout.size()));
        // SAFETY: the caller upholds the contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        self.tell(None, Some(layout.size()));
        // SAFETY: the caller upholds the contract.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        self.tell(Some(layout.size()), None);
        // SAFETY: the caller upholds the contract.
        unsafe { System.dealloc(block, layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        self.tell(Some(layout.size()), Some(size));
        // SAFETY: the caller upholds the contract.
        unsafe { System.realloc(block, layout, size) }
    }
}
