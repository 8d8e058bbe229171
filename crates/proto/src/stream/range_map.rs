//! Disjoint ranges of offsets with a value each.
//!
//! Kept in a ring buffer sorted by offset: what senders do happens at its two ends (new ranges at
//! the back, acknowledged ones at the front), where every operation is O(1); elsewhere a binary
//! search and a move of the shorter side. Nothing is allocated once the ring is large enough.

use std::collections::VecDeque;

#[derive(Debug, Clone, Copy)]
struct Entry<V> {
    start: u64,
    end: u64,
    value: V,
}

/// Disjoint, non-empty ranges in ascending order; neighbours of equal value are merged.
#[derive(Debug, Clone)]
pub(super) struct RangeMap<V> {
    entries: VecDeque<Entry<V>>,
    total: u64,
}

impl<V> Default for RangeMap<V> {
    fn default() -> Self {
        Self {
            entries: VecDeque::new(),
            total: 0,
        }
    }
}

impl<V: Copy + Eq> RangeMap<V> {
    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Whether it has no memory of its own.
    pub(super) fn is_bare(&self) -> bool {
        self.entries.capacity() == 0
    }

    /// The sum of the ranges' lengths.
    pub(super) fn total(&self) -> u64 {
        self.total
    }

    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// The lowest range.
    pub(super) fn first(&self) -> Option<(u64, u64, V)> {
        self.entries.front().map(|e| (e.start, e.end, e.value))
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (u64, u64, V)> + '_ {
        self.entries.iter().map(|e| (e.start, e.end, e.value))
    }

    /// The offset that has so many bytes of ranges before it, and where its range ends; `None` if there are not so many.
    /// Looked for from the nearer end.
    pub(super) fn nth(&self, bytes: u64) -> Option<(u64, u64)> {
        let behind = self.total.checked_sub(bytes).filter(|left| *left > 0)?;
        let mut left = bytes.min(behind);
        if bytes < behind {
            self.entries.iter().find_map(|e| {
                let len = e.end - e.start;
                if left < len {
                    return Some((e.start + left, e.end));
                }
                left -= len;
                None
            })
        } else {
            self.entries.iter().rev().find_map(|e| {
                let len = e.end - e.start;
                if left <= len {
                    return Some((e.end - left, e.end));
                }
                left -= len;
                None
            })
        }
    }

    /// Changes values in place; neighbours that become equal stay apart.
    pub(super) fn for_each_value(&mut self, mut change: impl FnMut(&mut V)) {
        for entry in &mut self.entries {
            change(&mut entry.value);
        }
    }

    /// The first entry that ends after `pos`.
    fn index(&self, pos: u64) -> usize {
        match (self.entries.front(), self.entries.back()) {
            (Some(front), _) if front.end > pos => 0,
            (_, Some(back)) if back.end > pos => self.entries.partition_point(|e| e.end <= pos),
            _ => self.entries.len(),
        }
    }

    /// The value at `pos` and where its range ends; or no value and where the next range starts.
    pub(super) fn probe(&self, pos: u64) -> (Option<V>, u64) {
        match self.entries.get(self.index(pos)) {
            Some(e) if e.start <= pos => (Some(e.value), e.end),
            Some(e) => (None, e.start),
            None => (None, u64::MAX),
        }
    }

    /// Adds a range that overlaps none.
    pub(super) fn insert(&mut self, start: u64, end: u64, value: V) {
        if start >= end {
            return;
        }
        let at = self.index(start);
        debug_assert!(self.entries.get(at).is_none_or(|e| e.start >= end));
        self.total += end - start;
        let joins_left = at
            .checked_sub(1)
            .is_some_and(|i| self.entries[i].end == start && self.entries[i].value == value);
        let joins_right = self
            .entries
            .get(at)
            .is_some_and(|e| e.start == end && e.value == value);
        match (joins_left, joins_right) {
            (true, true) => {
                self.entries[at - 1].end = self.entries[at].end;
                self.entries.remove(at);
            }
            (true, false) => self.entries[at - 1].end = end,
            (false, true) => self.entries[at].start = start,
            (false, false) => self.entries.insert(at, Entry { start, end, value }),
        }
    }

    /// Takes a range out, whatever of it is there.
    pub(super) fn remove(&mut self, start: u64, end: u64) {
        if start >= end {
            return;
        }
        let mut at = self.index(start);
        let Some(first) = self.entries.get(at).copied() else {
            return;
        };
        if first.start >= end {
            return;
        }
        if first.start < start {
            self.entries[at].end = start;
            self.total -= first.end.min(end) - start;
            at += 1;
            if first.end > end {
                self.entries.insert(
                    at,
                    Entry {
                        start: end,
                        ..first
                    },
                );
                return;
            }
        }
        let mut last = at;
        while let Some(e) = self.entries.get_mut(last) {
            if e.start >= end {
                break;
            }
            if e.end > end {
                self.total -= end - e.start;
                e.start = end;
                break;
            }
            self.total -= e.end - e.start;
            last += 1;
        }
        match last - at {
            0 => {}
            1 => {
                self.entries.remove(at);
            }
            _ => {
                self.entries.drain(at..last);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]
        /// Against one value per offset.
        #[test]
        fn same_as_a_plain_array(ops in prop::collection::vec((0u64..64, 1u64..20, 0u8..4), 1..60)) {
            let mut map = RangeMap::default();
            let mut model = [None; 96];
            for (start, len, value) in ops {
                let end = start + len;
                map.remove(start, end);
                let value = (value != 0).then_some(value);
                if let Some(value) = value {
                    map.insert(start, end, value);
                }
                model[start as usize..end as usize].fill(value);
                prop_assert_eq!(map.total(), model.iter().flatten().count() as u64);
                for (at, want) in model.iter().enumerate() {
                    let (got, until) = map.probe(at as u64);
                    prop_assert_eq!(got, *want);
                    let same = model[at..].iter().take_while(|v| *v == want).count() as u64;
                    if got.is_some() || until != u64::MAX {
                        prop_assert_eq!(until, at as u64 + same);
                    }
                }
                let held = |at: &u64| model[*at as usize].is_some();
                let held: Vec<u64> = (0..model.len() as u64).filter(held).collect();
                for bytes in 0..=held.len() {
                    let nth = map.nth(bytes as u64);
                    prop_assert_eq!(nth.map(|(at, _)| at), held.get(bytes).copied());
                    let until = nth.map(|(at, _)| map.probe(at).1);
                    prop_assert_eq!(nth.map(|(_, end)| end), until);
                }
                let entries: Vec<_> = map.iter().collect();
                for pair in entries.windows(2) {
                    prop_assert!(pair[0].1 < pair[1].0 || pair[0].2 != pair[1].2);
                }
            }
        }
    }
}
