//! Memory for data over all connections of an endpoint: what is lent to whom, and how much more.
//!
//! Each connection may hold [`GUARANTEED`] bytes in each direction without asking, so that all of them
//! move whatever others hold. Beyond that it borrows from a pool that all share, in pieces, so that the
//! shared counter is touched once in many packets. A connection may borrow no more than what is left
//! for all others: one alone gets half of the pool, there is always something left for the next one to
//! come, and connections that give back and borrow again come to have equal parts (Choudhury and Hahne,
//! "Dynamic queue length thresholds for shared-memory packet switches", 1998). Those that hold what they
//! have for ever leave the others the guaranteed part at least.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What a connection may hold in each direction without borrowing.
const GUARANTEED: u64 = crate::limits::GUARANTEED_MEMORY;

/// Bytes are borrowed in multiples of this.
const PIECE: u64 = 16 << 10;

/// Bytes that are kept beyond what is needed, before they are given back.
const SPARE: u64 = 4 * PIECE;

/// One direction's pool.
#[derive(Debug)]
struct Pool {
    limit: u64,
    lent: AtomicU64,
}

impl Pool {
    const fn new(limit: u64) -> Self {
        Self {
            limit,
            lent: AtomicU64::new(0),
        }
    }

    /// How much a connection that has borrowed `own` could borrow in all, while others hold what they do.
    fn most(&self, own: u64) -> u64 {
        // Only a number is read: no other memory hangs on it.
        let others = self.lent.load(Ordering::Relaxed).saturating_sub(own);
        self.limit.saturating_sub(others) / 2
    }

    /// Lends up to `want` bytes more to a connection that has borrowed `own`; how many.
    fn borrow(&self, own: u64, want: u64) -> u64 {
        let mut lent = self.lent.load(Ordering::Relaxed);
        loop {
            let most = self.limit.saturating_sub(lent.saturating_sub(own)) / 2;
            let more = want.min(most.saturating_sub(own)) / PIECE * PIECE;
            if more == 0 {
                return 0;
            }
            let now = lent.saturating_add(more);
            let order = Ordering::Relaxed;
            match self.lent.compare_exchange_weak(lent, now, order, order) {
                Ok(_) => return more,
                Err(other) => lent = other,
            }
        }
    }

    /// A quarter of the pool is lent.
    fn is_crowded(&self) -> bool {
        self.lent.load(Ordering::Relaxed) > self.limit / 4
    }

    fn give_back(&self, bytes: u64) {
        self.lent.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// The pools of an endpoint.
#[derive(Debug)]
pub(crate) struct Memory {
    pools: [Pool; 2],
}

/// A direction of data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    /// Written and not acknowledged.
    Send,
    /// Received and not read.
    Receive,
}

/// What the connections of an endpoint have borrowed for data, beside the
/// [`GUARANTEED_MEMORY`](crate::limits::GUARANTEED_MEMORY) bytes of each in each direction.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemoryUse {
    /// Bytes for data that was written and not acknowledged.
    pub send: u64,
    /// The most that this may be.
    pub send_limit: u64,
    /// Bytes for data that was received and not read.
    pub receive: u64,
    /// The most that this may be.
    pub receive_limit: u64,
}

impl Memory {
    pub(crate) const fn new(send: u64, receive: u64) -> Self {
        Self {
            pools: [Pool::new(send), Pool::new(receive)],
        }
    }

    pub(crate) fn in_use(&self) -> MemoryUse {
        let [send, receive] = &self.pools;
        MemoryUse {
            send: send.lent.load(Ordering::Relaxed),
            send_limit: send.limit,
            receive: receive.lent.load(Ordering::Relaxed),
            receive_limit: receive.limit,
        }
    }
}

/// For which received data there is memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MemoryFor {
    All,
    /// Only for what leaves no gap.
    InOrder,
    /// Only for what the application waits for, having read all before it.
    Nothing,
}

/// What one connection has borrowed in one direction. Given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Loan {
    /// None: there is no limit.
    memory: Option<Arc<Memory>>,
    direction: Direction,
    borrowed: u64,
}

impl Loan {
    /// Without a limit.
    pub(crate) const fn unlimited(direction: Direction) -> Self {
        Self {
            memory: None,
            direction,
            borrowed: 0,
        }
    }

    pub(crate) fn new(memory: Arc<Memory>, direction: Direction) -> Self {
        Self {
            memory: Some(memory),
            ..Self::unlimited(direction)
        }
    }

    fn pool(&self) -> Option<&Pool> {
        let memory = self.memory.as_ref()?;
        Some(&memory.pools[self.direction as usize])
    }

    /// Whether so much is lent that connections should not hold more than they have a use for.
    pub(crate) fn is_crowded(&self) -> bool {
        self.pool().is_some_and(Pool::is_crowded)
    }

    /// What the connection may hold without borrowing more.
    fn covered(&self) -> u64 {
        GUARANTEED + self.borrowed
    }

    /// Sees to it that the connection may hold `bytes`; how many of these it may.
    #[inline]
    pub(crate) fn cover(&mut self, bytes: u64) -> u64 {
        if bytes <= self.covered() {
            return bytes;
        }
        self.borrow(bytes)
    }

    #[cold]
    fn borrow(&mut self, bytes: u64) -> u64 {
        let Some(pool) = self.pool() else {
            return bytes;
        };
        let want = (bytes - self.covered())
            .div_ceil(PIECE)
            .saturating_mul(PIECE);
        self.borrowed += pool.borrow(self.borrowed, want);
        bytes.min(self.covered())
    }

    /// The most that the connection could hold now.
    pub(crate) fn most(&self) -> u64 {
        match self.pool() {
            None => u64::MAX,
            Some(pool) => GUARANTEED + pool.most(self.borrowed).max(self.borrowed),
        }
    }

    /// The connection holds no more than `bytes` now: what it does not need goes back.
    #[inline]
    pub(crate) fn settle(&mut self, bytes: u64) {
        if self.borrowed > 0 && (bytes == 0 || bytes + SPARE < self.covered()) {
            self.give_back(bytes);
        }
    }

    #[cold]
    fn give_back(&mut self, bytes: u64) {
        let need = bytes.saturating_sub(GUARANTEED).div_ceil(PIECE) * PIECE;
        let more = self.borrowed.saturating_sub(need);
        if let Some(pool) = self.pool() {
            pool.give_back(more);
        }
        self.borrowed -= more;
    }
}

impl Drop for Loan {
    fn drop(&mut self) {
        self.give_back(0);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn loans(limit: u64, count: usize) -> (Arc<Memory>, Vec<Loan>) {
        let memory = Arc::new(Memory::new(limit, 0));
        let loan = || Loan::new(Arc::clone(&memory), Direction::Send);
        let loans = (0..count).map(|_| loan()).collect();
        (memory, loans)
    }

    #[test]
    fn one_alone_gets_half_and_many_get_equal_parts() {
        const LIMIT: u64 = 64 << 20;
        for count in [1, 2, 5, 10] {
            let (memory, mut loans) = loans(LIMIT, count);
            // Greedy ones, which ask over and over, the first long before the last.
            for round in 1..200 {
                for loan in loans.iter_mut().take(round * 10) {
                    // What they hold is acknowledged now and then.
                    loan.settle(0);
                    loan.cover(u64::MAX);
                }
            }
            let fair = LIMIT / (count as u64 + 1);
            for loan in &loans {
                assert!(
                    loan.borrowed <= 2 * fair + PIECE,
                    "{} of {fair}",
                    loan.borrowed
                );
                assert!(
                    loan.borrowed + PIECE >= fair / 4,
                    "{} of {fair}",
                    loan.borrowed
                );
            }
            let left = LIMIT - memory.in_use().send;
            assert!(left >= fair / 4, "{left} left for the next of {count}");
        }
    }

    #[test]
    fn the_guaranteed_part_is_never_refused() {
        let (memory, mut loans) = loans(0, 3);
        for loan in &mut loans {
            assert_eq!(loan.cover(GUARANTEED), GUARANTEED);
            assert_eq!(loan.cover(GUARANTEED + 1), GUARANTEED);
            assert_eq!(loan.most(), GUARANTEED);
        }
        assert_eq!(memory.in_use(), MemoryUse::default());
    }

    #[test]
    fn without_a_limit_all_is_covered() {
        let mut loan = Loan::unlimited(Direction::Receive);
        assert_eq!(loan.cover(u64::MAX), u64::MAX);
        assert_eq!(loan.most(), u64::MAX);
        loan.settle(0);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]
        /// Any connections that hold anything: the sum is right, within the limit, and all comes back.
        #[test]
        fn nothing_is_lost(
            limit in 0u64..4 << 20,
            ops in prop::collection::vec((0usize..8, 0u64..2 << 20, any::<bool>()), 0..200),
        ) {
            let (memory, mut loans) = loans(limit, 8);
            for (at, bytes, more) in ops {
                let loan = &mut loans[at];
                if more {
                    let most = loan.most();
                    let covered = loan.cover(bytes);
                    prop_assert!(covered <= bytes && covered <= loan.covered());
                    prop_assert!(covered >= bytes.min(GUARANTEED));
                    prop_assert!(covered <= most);
                } else {
                    loan.settle(bytes);
                    prop_assert!(loan.covered() <= bytes.max(GUARANTEED) + SPARE || loan.borrowed == 0);
                }
                let sum: u64 = loans.iter().map(|loan| loan.borrowed).sum();
                prop_assert_eq!(memory.in_use().send, sum);
                prop_assert!(sum <= limit);
            }
            drop(loans);
            prop_assert_eq!(memory.in_use().send, 0);
        }
    }
}
