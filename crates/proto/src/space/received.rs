//! Which packet numbers of a space were received.

use std::ops::RangeInclusive;

use crate::limits::MAX_ACK_RANGES;

/// Received packet numbers as at most [`MAX_ACK_RANGES`] ranges. Numbers below the ranges that were
/// given up count as received, so that no packet is ever processed twice (RFC 9000 section 13.2.3).
#[derive(Debug, Default)]
pub(crate) struct ReceivedPackets {
    /// Ascending, neither overlapping nor adjacent: first and last number.
    ranges: Vec<(u64, u64)>,
    /// Numbers below this one count as duplicates.
    floor: u64,
}

impl ReceivedPackets {
    /// Whether the packet was received before, or may have been.
    pub(crate) fn is_duplicate(&self, pn: u64) -> bool {
        // In order, it is larger than all before it.
        if self.largest().is_some_and(|largest| pn > largest) {
            return false;
        }
        pn < self.floor
            || self.is_beyond_memory(pn)
            || self
                .search(pn)
                .is_some_and(|i| (self.ranges[i].0..=self.ranges[i].1).contains(&pn))
    }

    /// Whether a number lies below all that is remembered while there is no room to remember it: it might be processed
    /// again and again (RFC 9000 section 12.3).
    fn is_beyond_memory(&self, pn: u64) -> bool {
        self.ranges.len() == MAX_ACK_RANGES
            && self
                .ranges
                .first()
                .is_some_and(|&(first, _)| pn + 1 < first)
    }

    /// The index of the last range that starts at or before `pn`.
    fn search(&self, pn: u64) -> Option<usize> {
        // In order, the newest range is the one.
        let newest = self.ranges.len().checked_sub(1)?;
        if self.ranges[newest].0 <= pn {
            return Some(newest);
        }
        self.ranges
            .partition_point(|&(start, _)| start <= pn)
            .checked_sub(1)
    }

    /// How many ranges are remembered.
    pub(crate) fn ranges(&self) -> usize {
        self.ranges.len()
    }

    /// Takes in the number that follows the largest, as nearly all do; false, with nothing changed, if this is another.
    #[inline]
    pub(crate) fn extend(&mut self, pn: u64) -> bool {
        match self.ranges.last_mut() {
            Some((_, largest)) if pn.checked_sub(1) == Some(*largest) => {
                *largest = pn;
                true
            }
            _ => false,
        }
    }

    /// Takes in a number; false if it is a duplicate.
    pub(crate) fn insert(&mut self, pn: u64) -> bool {
        if self.extend(pn) {
            return true;
        }
        if pn < self.floor {
            return false;
        }
        let before = self.search(pn);
        if let Some(i) = before {
            let (_, end) = self.ranges[i];
            if pn <= end {
                return false;
            }
            if pn - 1 == end {
                self.ranges[i].1 = pn;
                if self.ranges.get(i + 1).is_some_and(|next| next.0 - 1 == pn) {
                    self.ranges[i].1 = self.ranges[i + 1].1;
                    self.ranges.remove(i + 1);
                }
                return true;
            }
        }
        let after = before.map_or(0, |i| i + 1);
        match self.ranges.get_mut(after) {
            Some(next) if next.0 - 1 == pn => next.0 = pn,
            _ => {
                if self.ranges.len() < MAX_ACK_RANGES {
                    self.ranges.insert(after, (pn, pn));
                } else if after > 0 {
                    // The oldest range goes; what lay in or below it cannot be told from new.
                    let (_, end) = self.ranges.remove(0);
                    self.floor = self.floor.max(end + 1);
                    self.ranges.insert(after - 1, (pn, pn));
                } else {
                    //= specs/rfc9000.txt#section-13.2.3
                    //# A receiver MUST retain an ACK Range unless it can ensure that it will not
                    //# subsequently accept packets with numbers in that range.
                    // Older than all that is remembered, and no room: as if it had been lost.
                    return false;
                }
            }
        }
        true
    }

    /// The largest number received. It stays, whatever is discarded (RFC 9000 section 13.2.3).
    //= specs/rfc9000.txt#section-13.2.3
    //# Receivers can discard all ACK Ranges, but they MUST retain the largest packet number that
    //# has been successfully processed, as that is used to recover packet numbers from subsequent
    //# packets; see Section 17.1.
    pub(crate) fn largest(&self) -> Option<u64> {
        self.ranges.last().map(|&(_, end)| end)
    }

    /// Whether a number between the two, both excluded, is missing.
    pub(crate) fn missing_between(&self, low: u64, high: u64) -> bool {
        self.search(high)
            .is_none_or(|i| self.ranges[i].0 > low.saturating_add(1).max(self.floor))
    }

    /// Whether this number was received, and neither of its neighbours was.
    pub(crate) fn is_alone(&self, pn: u64) -> bool {
        self.search(pn).is_some_and(|i| self.ranges[i] == (pn, pn))
    }

    /// The smallest number that is not below `pn` and was not received.
    pub(crate) fn first_missing_from(&self, pn: u64) -> u64 {
        let pn = pn.max(self.floor);
        match self.search(pn) {
            Some(i) if self.ranges[i].1 >= pn => self.ranges[i].1.saturating_add(1),
            _ => pn,
        }
    }

    /// The ranges in descending order, as an ACK frame lists them.
    //= specs/rfc9000.txt#section-13.2.3
    //# A receiver SHOULD include an ACK Range containing the largest received packet number in
    //# every ACK frame.
    pub(crate) fn descending(&self) -> impl Iterator<Item = RangeInclusive<u64>> + '_ {
        self.ranges.iter().rev().map(|&(start, end)| start..=end)
    }

    /// Number of ranges.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.ranges.len()
    }

    /// Numbers below `pn` need no acknowledging any more (RFC 9000 section 13.2.4). The largest
    /// number stays in any case: every ACK frame names it.
    //= specs/rfc9000.txt#section-13.2.3
    //# After receiving acknowledgments for an ACK frame, the receiver SHOULD stop tracking those
    //# acknowledged ACK Ranges.
    pub(crate) fn discard_below(&mut self, pn: u64) {
        let Some(largest) = self.largest() else {
            return;
        };
        let floor = pn.min(largest);
        if let Some(first) = self.ranges.first()
            && first.1 < floor
        {
            self.pop_below(floor);
        }
        if let Some(first) = self.ranges.first_mut() {
            first.0 = first.0.max(floor);
        }
        self.floor = self.floor.max(floor);
    }

    /// Forgets the ranges that end below `floor`.
    #[inline(never)]
    fn pop_below(&mut self, floor: u64) {
        let gone = self.ranges.partition_point(|&(_, end)| end < floor);
        self.ranges.drain(..gone);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn ranges(received: &ReceivedPackets) -> Vec<RangeInclusive<u64>> {
        received.descending().collect()
    }

    #[test]
    fn joins_neighbours() {
        let mut r = ReceivedPackets::default();
        for pn in [0, 1, 4, 2, 6, 5] {
            assert!(r.insert(pn), "{pn}");
        }
        assert_eq!(ranges(&r), [4..=6, 0..=2]);
        assert!(!r.insert(1));
        assert!(r.missing_between(2, 4));
        assert!(!r.missing_between(4, 6));
        assert!(!r.missing_between(0, 2));
        assert!(r.insert(3));
        assert_eq!(ranges(&r), [0..=6]);
        assert_eq!(r.largest(), Some(6));
    }

    #[test]
    fn alternate_losses_keep_the_ranges_capped() {
        let mut r = ReceivedPackets::default();
        for pn in (0..1_000_000).step_by(2) {
            assert!(r.insert(pn));
            assert!(r.len() <= MAX_ACK_RANGES);
        }
        assert!(!r.insert(1), "below what is remembered");
        assert!(r.is_duplicate(1));
        assert!(r.insert(999_997));
    }

    //= specs/rfc9000.txt#section-13.2.3
    //= type=test
    //# Receivers can discard all ACK Ranges, but they MUST retain the largest packet number that
    //# has been successfully processed, as that is used to recover packet numbers from subsequent
    //# packets; see Section 17.1.
    //= specs/rfc9000.txt#section-13.2.3
    //= type=test
    //# After receiving acknowledgments for an ACK frame, the receiver SHOULD stop tracking those
    //# acknowledged ACK Ranges.
    #[test]
    fn the_largest_survives_discarding() {
        let mut r = ReceivedPackets::default();
        (0..10).for_each(|pn| assert!(r.insert(pn)));
        r.discard_below(100);
        assert_eq!(ranges(&r), [9..=9]);
        assert!(!r.insert(3));
        assert!(r.insert(10));
        assert_eq!(ranges(&r), [9..=10]);
        assert!(
            !r.missing_between(3, 10),
            "what lies below the floor is settled"
        );
    }

    #[test]
    fn extreme_numbers() {
        let mut r = ReceivedPackets::default();
        assert!(r.insert(u64::MAX));
        assert!(r.insert(0));
        assert!(!r.insert(u64::MAX));
        r.discard_below(u64::MAX);
        assert_eq!(r.largest(), Some(u64::MAX));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]
        #[test]
        fn behaves_like_a_set(ops in prop::collection::vec((0u64..300, 0u8..100), 1..400)) {
            let mut r = ReceivedPackets::default();
            let mut model = BTreeSet::new();
            for (pn, op) in ops {
                if op == 0 {
                    r.discard_below(pn);
                    if let Some(&largest) = model.last() {
                        // Everything below counts as received.
                        model.extend(0..pn.min(largest));
                    }
                } else {
                    let floor = r.floor;
                    let known = model.contains(&pn);
                    let full = r.len() == MAX_ACK_RANGES;
                    // With no room left a number below all that is remembered counts as received;
                    // the neighbour of the lowest range still joins it.
                    let lowest = r.descending().last().map_or(0, |range| *range.start());
                    let forgotten = pn < floor || (full && pn + 1 < lowest);
                    prop_assert_eq!(r.is_duplicate(pn), known || forgotten);
                    let fresh = r.insert(pn);
                    prop_assert_eq!(fresh, !(known || forgotten));
                    if fresh {
                        model.insert(pn);
                    }
                    model.extend(floor..r.floor);
                }
                let missing = (pn..).find(|pn| *pn >= r.floor && !model.contains(pn));
                prop_assert_eq!(Some(r.first_missing_from(pn)), missing);
                prop_assert!(r.len() <= MAX_ACK_RANGES);
                prop_assert_eq!(r.largest(), model.last().copied());
                let listed: BTreeSet<u64> = r.descending().flatten().collect();
                prop_assert_eq!(listed, model.range(r.floor.min(300)..).copied().collect::<BTreeSet<_>>());
                let list = ranges(&r);
                prop_assert!(list.windows(2).all(|w| *w[1].end() + 1 < *w[0].start()));
            }
        }
    }
}
