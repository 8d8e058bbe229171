//! The sending or the receiving halves of streams by ID, in the order of the IDs.

use std::collections::BTreeMap;

use mpquic_sched_core::StreamId;

/// So many are in a list, which is looked through. Requests, one after another, have one or two, and a list of those takes a
/// fraction of the code that a tree does.
const FEW: usize = 16;

/// All halves of one direction.
// An ordered map: stream IDs are the peer's choice, and the few levels of a tree of some hundred streams cost less than a
// keyed hash.
#[derive(Debug)]
pub(super) struct StreamMap<T> {
    /// Up to [`FEW`], by ascending ID. Empty if they are in `many`.
    few: Vec<(StreamId, Box<T>)>,
    /// All of them, if they are more than a few, or were a moment ago.
    many: BTreeMap<StreamId, Box<T>>,
}

impl<T> StreamMap<T> {
    pub(super) const fn new() -> Self {
        Self {
            few: Vec::new(),
            many: BTreeMap::new(),
        }
    }

    /// Where in the list a stream is.
    #[inline]
    fn position(&self, id: StreamId) -> Option<usize> {
        self.few.iter().position(|half| half.0 == id)
    }

    // Streams are looked up in many places: one copy of the code for all of them.
    #[inline(never)]
    pub(super) fn get(&self, id: StreamId) -> Option<&T> {
        match self.position(id) {
            Some(at) => Some(&self.few[at].1),
            None if self.many.is_empty() => None,
            None => self.get_of_many(id),
        }
    }

    #[inline(never)]
    pub(super) fn get_mut(&mut self, id: StreamId) -> Option<&mut T> {
        match self.position(id) {
            Some(at) => Some(&mut self.few[at].1),
            None if self.many.is_empty() => None,
            None => self.get_mut_of_many(id),
        }
    }

    #[cold]
    #[inline(never)]
    fn get_of_many(&self, id: StreamId) -> Option<&T> {
        self.many.get(&id).map(|half| &**half)
    }

    #[cold]
    #[inline(never)]
    fn get_mut_of_many(&mut self, id: StreamId) -> Option<&mut T> {
        self.many.get_mut(&id).map(|half| &mut **half)
    }

    pub(super) fn contains(&self, id: StreamId) -> bool {
        self.get(id).is_some()
    }

    /// Adds one that is not there.
    #[inline(never)]
    pub(super) fn insert(&mut self, id: StreamId, half: Box<T>) {
        if self.few.len() >= FEW || !self.many.is_empty() {
            return self.insert_into_many(id, half);
        }
        // Mostly the highest ID so far.
        let mut at = self.few.len();
        self.few.push((id, half));
        while at > 0 && self.few[at - 1].0 > id {
            self.few.swap(at - 1, at);
            at -= 1;
        }
    }

    #[cold]
    #[inline(never)]
    fn insert_into_many(&mut self, id: StreamId, half: Box<T>) {
        self.many.extend(self.few.drain(..));
        self.many.insert(id, half);
    }

    #[inline(never)]
    pub(super) fn remove(&mut self, id: StreamId) -> Option<Box<T>> {
        match self.position(id) {
            Some(at) => Some(self.few.remove(at).1),
            None if self.many.is_empty() => None,
            None => self.remove_of_many(id),
        }
    }

    #[cold]
    #[inline(never)]
    fn remove_of_many(&mut self, id: StreamId) -> Option<Box<T>> {
        let half = self.many.remove(&id);
        // Well below: streams that come and go at the border do not move the others to and fro.
        if self.many.len() <= FEW / 2 {
            self.few.extend(std::mem::take(&mut self.many));
        }
        half
    }

    pub(super) fn len(&self) -> usize {
        self.few.len() + self.many.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.few.is_empty() && self.many.is_empty()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (StreamId, &T)> {
        let few = self.few.iter().map(|(id, half)| (*id, &**half));
        few.chain(self.many.iter().map(|(id, half)| (*id, &**half)))
    }

    pub(super) fn ids(&self) -> impl Iterator<Item = StreamId> + '_ {
        self.iter().map(|(id, _)| id)
    }

    pub(super) fn values(&self) -> impl Iterator<Item = &T> {
        self.iter().map(|(_, half)| half)
    }

    pub(super) fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        let few = self.few.iter_mut().map(|(_, half)| &mut **half);
        few.chain(self.many.values_mut().map(|half| &mut **half))
    }

    /// Gives back memory that is not used.
    pub(super) fn shrink(&mut self) {
        self.few.shrink_to_fit();
    }
}

#[cfg(test)]
impl<T> std::ops::Index<StreamId> for StreamMap<T> {
    type Output = T;

    fn index(&self, id: StreamId) -> &T {
        self.get(id).expect("a half of this ID")
    }
}

#[cfg(test)]
mod tests {
    use mpquic_sched_core::{Dir, Side};
    use proptest::prelude::*;

    use super::*;

    fn id(index: u64) -> StreamId {
        StreamId::new(Side::Client, Dir::Uni, index)
    }

    proptest! {
        /// Against a tree, with few and with many.
        #[test]
        fn same_as_a_tree(ops in prop::collection::vec((0_u64..24, 0_u8..5), 1..200)) {
            let (mut halves, mut tree) = (StreamMap::new(), BTreeMap::new());
            for (index, op) in ops {
                let id = id(index);
                if op == 0 {
                    prop_assert_eq!(halves.remove(id).map(|half| *half), tree.remove(&id));
                } else {
                    match halves.get_mut(id) {
                        Some(half) => *half = op,
                        None => halves.insert(id, Box::new(op)),
                    }
                    tree.insert(id, op);
                }
                prop_assert_eq!(halves.get(id), tree.get(&id));
                prop_assert_eq!(halves.contains(id), tree.contains_key(&id));
                prop_assert_eq!((halves.len(), halves.is_empty()), (tree.len(), tree.is_empty()));
                prop_assert!(halves.iter().eq(tree.iter().map(|(id, half)| (*id, half))));
                prop_assert!(halves.values_mut().map(|half| &*half).eq(tree.values()));
            }
        }
    }
}
