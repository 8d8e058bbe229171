//! A small sorted set of numbers kept as ranges, for those that mostly come in order: sequence numbers,
//! path IDs. Caps nothing itself.

use smallvec::SmallVec;

/// Numbers, as disjoint inclusive ranges in ascending order that never touch.
#[derive(Debug, Default)]
pub(crate) struct NumberSet(SmallVec<[(u64, u64); 2]>);

impl NumberSet {
    /// Adds one; false if it was there.
    pub(crate) fn insert(&mut self, value: u64) -> bool {
        // The first range that does not end before `value`.
        let at = self.0.partition_point(|&(_, end)| end < value);
        if self.0.get(at).is_some_and(|&(start, _)| start <= value) {
            return false;
        }
        let joins_left = at > 0 && value - 1 == self.0[at - 1].1;
        let joins_right = self.0.get(at).is_some_and(|&(start, _)| start - 1 == value);
        match (joins_left, joins_right) {
            (true, true) => {
                self.0[at - 1].1 = self.0[at].1;
                self.0.remove(at);
            }
            (true, false) => self.0[at - 1].1 = value,
            (false, true) => self.0[at].0 = value,
            (false, false) => self.0.insert(at, (value, value)),
        }
        true
    }

    pub(crate) fn contains(&self, value: u64) -> bool {
        let at = self.0.partition_point(|&(_, end)| end < value);
        self.0.get(at).is_some_and(|&(start, _)| start <= value)
    }

    /// The numbers up to and including `max` that are not in the set, ascending: the work is that for the ranges and for
    /// the numbers given, however many the set has.
    pub(crate) fn missing(&self, max: u64) -> impl Iterator<Item = u64> + '_ {
        let starts = std::iter::once(0).chain(self.0.iter().map(|&(_, end)| end + 1));
        let ends = self.0.iter().map(|&(start, _)| start);
        let ends = ends.chain(std::iter::once(max.saturating_add(1)));
        starts
            .zip(ends)
            .flat_map(move |(start, end)| start..end.min(max.saturating_add(1)))
    }

    /// How many ranges it takes: what it costs.
    pub(crate) fn ranges(&self) -> usize {
        self.0.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn agrees_with_a_set(values in prop::collection::vec(0_u64..64, 0..200)) {
            let mut model = BTreeSet::new();
            let mut set = NumberSet::default();
            for value in values {
                prop_assert_eq!(set.insert(value), model.insert(value));
                prop_assert!(set.0.windows(2).all(|pair| pair[0].1 + 1 < pair[1].0));
                prop_assert!(set.0.iter().all(|&(start, end)| start <= end));
            }
            for max in [0, 1, 31, 63, 70] {
                let missing: Vec<_> = (0..=max).filter(|value| !model.contains(value)).collect();
                prop_assert_eq!(set.missing(max).collect::<Vec<_>>(), missing);
            }
            for value in 0..66 {
                prop_assert_eq!(set.contains(value), model.contains(&value));
            }
        }
    }

    #[test]
    fn extremes() {
        let mut set = NumberSet::default();
        assert!(set.insert(u64::MAX));
        assert!(set.insert(0));
        assert!(set.insert(u64::MAX - 1));
        assert!(!set.insert(u64::MAX));
        assert_eq!(set.ranges(), 2);
    }
}
