//! The bytes that a thread has allocated and not freed, to find memory leaks of a run.

use mpquic_test_support::allocator::Counting;
pub(crate) use mpquic_test_support::allocator::held as live;

/// Growth that is not a leak: buffers of the test harness.
pub(crate) const SLACK: i64 = 2048;

#[global_allocator]
static ALLOCATOR: Counting = Counting::PER_THREAD;
