//! Path slots and sets of them.

use std::fmt;

/// The most paths that one connection can have open at a time.
///
/// A path ID (RFC 10069) is never reused, a slot is: it stays with its path while that lives.
pub const MAX_PATHS: usize = 16;

/// The slot of a live path: its place in [`Context::paths`](crate::Context::paths).
///
/// Stable while the path lives; given to another path only after
/// [`PathUpdateKind::Abandoned`](crate::PathUpdateKind::Abandoned).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(transparent))]
pub struct PathIndex(u8);

impl PathIndex {
    pub(crate) const FIRST: Self = Self(0);

    /// The slot with this number, or `None` if it is not below [`MAX_PATHS`].
    #[inline]
    pub const fn new(index: usize) -> Option<Self> {
        if index < MAX_PATHS {
            Some(Self(index as u8))
        } else {
            None
        }
    }

    /// The slot's number, below [`MAX_PATHS`].
    #[inline]
    pub const fn get(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for PathIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A set of path slots, one bit each.
#[derive(Clone, Copy, PartialEq, Eq, Default, Hash)]
pub struct PathSet(u16);

impl PathSet {
    /// No path.
    pub const EMPTY: Self = Self(0);

    /// The set of one path.
    #[inline]
    pub const fn only(path: PathIndex) -> Self {
        Self(1 << path.0)
    }

    /// The set with bit i for slot i.
    #[inline]
    pub const fn from_bits(bits: u16) -> Self {
        Self(bits)
    }

    /// Bit i for slot i.
    #[inline]
    pub const fn bits(self) -> u16 {
        self.0
    }

    /// Adds a path.
    #[inline]
    pub const fn insert(&mut self, path: PathIndex) {
        self.0 |= 1 << path.0;
    }

    /// Takes a path out.
    #[inline]
    pub const fn remove(&mut self, path: PathIndex) {
        self.0 &= !(1 << path.0);
    }

    /// Whether the path is in the set.
    #[inline]
    pub const fn contains(self, path: PathIndex) -> bool {
        self.0 & (1 << path.0) != 0
    }

    /// Whether no path is in the set.
    #[inline]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// How many paths are in the set.
    #[inline]
    pub const fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    /// The path with the lowest slot.
    #[inline]
    pub const fn first(self) -> Option<PathIndex> {
        if self.0 == 0 {
            None
        } else {
            Some(PathIndex(self.0.trailing_zeros() as u8))
        }
    }

    /// The paths in either set.
    #[inline]
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// The paths in both sets.
    #[inline]
    pub const fn intersection(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// The paths in this set and not in the other.
    #[inline]
    pub const fn difference(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// The paths in the set, in ascending order of their slots.
    #[inline]
    pub fn iter(self) -> impl Iterator<Item = PathIndex> {
        let mut rest = self;
        std::iter::from_fn(move || {
            let lowest = rest.first()?;
            rest.0 &= rest.0 - 1;
            Some(lowest)
        })
    }
}

impl FromIterator<PathIndex> for PathSet {
    fn from_iter<I: IntoIterator<Item = PathIndex>>(paths: I) -> Self {
        let mut set = Self::EMPTY;
        for path in paths {
            set.insert(path);
        }
        set
    }
}

impl fmt::Debug for PathSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set()
            .entries(self.iter().map(PathIndex::get))
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn set_operations() {
        let p = |i| PathIndex::new(i).unwrap();
        let mut set: PathSet = [p(0), p(3), p(15)].into_iter().collect();
        assert_eq!(set.len(), 3);
        assert_eq!(
            set.iter().map(PathIndex::get).collect::<Vec<_>>(),
            [0, 3, 15]
        );
        set.remove(p(3));
        assert!(!set.contains(p(3)));
        assert_eq!(set.first(), Some(p(0)));
        assert_eq!(PathSet::EMPTY.first(), None);
        assert_eq!(set.difference(PathSet::only(p(0))), PathSet::only(p(15)));
        assert!(PathIndex::new(MAX_PATHS).is_none());
    }
}
