//! Sets of arms, one bit each.

use core::fmt;

/// A set of arms: which of them are eligible.
///
/// ```
/// use mpquic_bandit::ArmSet;
///
/// let arms: ArmSet = [0, 3].into_iter().collect();
/// assert!(arms.contains(3) && !arms.contains(1));
/// assert_eq!(ArmSet::first_of(2).iter().collect::<Vec<_>>(), [0, 1]);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Default, Hash)]
pub struct ArmSet(u32);

impl ArmSet {
    /// The most arms that a set can name: 0 to 31.
    pub const CAPACITY: usize = 32;

    /// No arm.
    pub const EMPTY: Self = Self(0);

    /// The set with bit i for arm i.
    pub const fn from_bits(bits: u32) -> Self {
        Self(bits)
    }

    /// Bit i for arm i.
    pub const fn bits(self) -> u32 {
        self.0
    }

    /// The arms 0 to `count` - 1; all 32 if there are to be more.
    pub const fn first_of(count: usize) -> Self {
        Self(if count < Self::CAPACITY {
            (1 << count) - 1
        } else {
            u32::MAX
        })
    }

    /// The set of one arm; of none if it is beyond [`CAPACITY`](Self::CAPACITY).
    pub const fn only(arm: usize) -> Self {
        Self(if arm < Self::CAPACITY { 1 << arm } else { 0 })
    }

    /// Adds an arm; one beyond [`CAPACITY`](Self::CAPACITY) is not added.
    pub const fn insert(&mut self, arm: usize) {
        self.0 |= Self::only(arm).0;
    }

    /// Takes an arm out.
    pub const fn remove(&mut self, arm: usize) {
        self.0 &= !Self::only(arm).0;
    }

    /// Whether the arm is in the set.
    pub const fn contains(self, arm: usize) -> bool {
        self.0 & Self::only(arm).0 != 0
    }

    /// Whether no arm is in the set.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// How many arms are in the set.
    pub const fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    /// The lowest arm.
    pub const fn first(self) -> Option<usize> {
        if self.0 == 0 {
            None
        } else {
            Some(self.0.trailing_zeros() as usize)
        }
    }

    /// The arms in both sets.
    pub const fn intersection(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// The arms in this set and not in the other.
    pub const fn difference(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// The arms in the set, in ascending order.
    pub fn iter(self) -> impl Iterator<Item = usize> {
        let mut rest = self.0;
        core::iter::from_fn(move || {
            let arm = Self(rest).first()?;
            rest &= rest - 1;
            Some(arm)
        })
    }
}

impl FromIterator<usize> for ArmSet {
    fn from_iter<I: IntoIterator<Item = usize>>(arms: I) -> Self {
        let mut set = Self::EMPTY;
        for arm in arms {
            set.insert(arm);
        }
        set
    }
}

impl fmt::Debug for ArmSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::format;
    use std::vec::Vec;

    use super::*;

    #[test]
    fn set_operations() {
        let mut set: ArmSet = [0, 3, 31, 32, usize::MAX].into_iter().collect();
        assert_eq!(set.iter().collect::<Vec<_>>(), [0, 3, 31]);
        assert_eq!(set.len(), 3);
        assert!(!set.contains(32));
        set.remove(0);
        set.remove(64);
        assert_eq!(set.first(), Some(3));
        assert_eq!(format!("{set:?}"), "{3, 31}");
        assert_eq!(set.intersection(ArmSet::first_of(4)), ArmSet::only(3));
        assert_eq!(set.difference(ArmSet::first_of(4)), ArmSet::only(31));
        assert!(ArmSet::EMPTY.is_empty() && ArmSet::EMPTY.first().is_none());
        assert_eq!(ArmSet::first_of(0), ArmSet::EMPTY);
        assert_eq!(ArmSet::first_of(32).len(), 32);
        assert_eq!(ArmSet::first_of(99), ArmSet::from_bits(u32::MAX));
    }
}
