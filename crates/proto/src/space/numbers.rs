//! The packet numbers of a space, some of them skipped as a trap.

use std::collections::VecDeque;

use rand::RngExt;
use rand::rngs::StdRng;

/// One past the largest packet number (RFC 9000 section 12.3).
const END: u64 = 1 << 62;

/// Packets at the start of a space without a skip: handshakes and short transfers stay clean.
const FIRST_SKIP: u64 = 16;

/// Bounds of the mean distance between skips. It grows with the packet number; the upper bound keeps
/// a trap in every window of a fast path, or a peer that acknowledges ahead of what it receives
/// could blow up the congestion window between two of them.
const MIN_DISTANCE: u64 = 64;
const MAX_DISTANCE: u64 = 1 << 13;

/// Skipped numbers remembered. Older ones need not be kept: their neighbours are acknowledged or lost.
const MAX_REMEMBERED: usize = 64;

/// Gives out packet numbers and now and then leaves one out: who acknowledges it acknowledges what
/// was never sent (RFC 9000 section 21.4).
#[derive(Debug)]
pub(crate) struct PacketNumbers {
    next: u64,
    next_skip: u64,
    /// Ascending.
    skipped: VecDeque<u64>,
}

impl PacketNumbers {
    pub(crate) fn new(rng: &mut StdRng) -> Self {
        let mut numbers = Self {
            next: 0,
            next_skip: 0,
            skipped: VecDeque::new(),
        };
        numbers.plan_skip(rng);
        numbers
    }

    fn plan_skip(&mut self, rng: &mut StdRng) {
        let mean = self.next.clamp(MIN_DISTANCE, MAX_DISTANCE);
        self.next_skip = self.next + FIRST_SKIP + rng.random_range(0..2 * mean);
    }

    /// The next number, if there is one left.
    pub(crate) const fn next(&self) -> Option<u64> {
        if self.next < END {
            Some(self.next)
        } else {
            None
        }
    }

    /// Takes the next number.
    pub(crate) fn take(&mut self, rng: &mut StdRng) -> u64 {
        //= specs/rfc9000.txt#section-12.3
        //# A QUIC endpoint MUST NOT reuse a packet number within the same packet number space in
        //# one connection.
        //= specs/rfc9000.txt#section-12.3
        //# Subsequent packets sent in the same packet number space MUST increase the packet number
        //# by at least one.
        let pn = self.next;
        self.next += 1;
        if self.next == self.next_skip {
            if self.skipped.len() == MAX_REMEMBERED {
                self.skipped.pop_front();
            }
            self.skipped.push_back(self.next);
            self.next += 1;
            self.plan_skip(rng);
        }
        pn
    }

    /// Whether a packet with this number may exist, as far as the largest sent tells.
    pub(crate) const fn was_reached(&self, pn: u64) -> bool {
        pn < self.next
    }

    /// Whether the range has a number that was skipped.
    #[inline]
    pub(crate) fn has_skipped(&self, low: u64, high: u64) -> bool {
        // Most ACKs touch only what lies above the newest skip.
        let newest = self.skipped.back();
        newest.is_some_and(|&newest| newest >= low) && self.find_skipped(low, high)
    }

    #[inline(never)]
    fn find_skipped(&self, low: u64, high: u64) -> bool {
        let index = self.skipped.partition_point(|&skipped| skipped < low);
        self.skipped.get(index).is_some_and(|&skip| skip <= high)
    }

    /// The oldest skipped number that is remembered.
    pub(crate) fn oldest_skipped(&self) -> Option<u64> {
        self.skipped.front().copied()
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::*;

    #[test]
    fn skips_late_seldom_and_unpredictably() {
        let mut patterns = Vec::new();
        for seed in 0..50 {
            let mut rng = StdRng::seed_from_u64(seed);
            let mut numbers = PacketNumbers::new(&mut rng);
            let mut skips = Vec::new();
            let mut last = None;
            for _ in 0..200_000 {
                let expected = numbers.next();
                let pn = numbers.take(&mut rng);
                assert_eq!(expected, Some(pn));
                if let Some(last) = last {
                    assert!(pn > last && pn - last <= 2);
                    if pn - last == 2 {
                        skips.push(pn - 1);
                        assert!(numbers.has_skipped(pn - 1, pn - 1));
                        assert!(!numbers.has_skipped(pn, pn + 100));
                        assert!(numbers.has_skipped(0, pn));
                    }
                }
                last = Some(pn);
            }
            assert!(skips[0] >= FIRST_SKIP);
            assert!((10..200).contains(&skips.len()), "{}", skips.len());
            assert!(
                skips
                    .windows(2)
                    .all(|w| w[1] - w[0] <= FIRST_SKIP + 2 * MAX_DISTANCE + 1)
            );
            assert!(numbers.skipped.len() <= MAX_REMEMBERED);
            patterns.push(skips);
        }
        patterns.sort();
        patterns.dedup();
        assert_eq!(patterns.len(), 50);
    }

    #[test]
    fn ends_at_the_largest_number() {
        let mut rng = StdRng::seed_from_u64(1);
        let mut numbers = PacketNumbers::new(&mut rng);
        numbers.next = END - 1;
        assert_eq!(numbers.take(&mut rng), END - 1);
        assert_eq!(numbers.next(), None);
        assert!(numbers.was_reached(END - 1) && !numbers.was_reached(END));
    }
}
