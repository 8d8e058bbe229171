//! What a learning scheduler keeps for each ordered pair of paths, when it starts over, and what is remembered of it; what that is, and learning it, is the scheduler's.

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::memory::Recall;
use crate::{MAX_PATHS, PathIndex, PathKey, PathSet, PathUpdate, PathUpdateKind};

/// The state of one ordered pair (f, s).
pub trait PairState {
    /// What of it is kept for later connections.
    type Memory: Serialize + DeserializeOwned;

    /// Starts over for a new pair, from what the others have learned, if there are any. May be
    /// called within a decision, the first one of its pair: allocates nothing.
    fn start<'a>(&mut self, others: impl Iterator<Item = &'a Self> + Clone)
    where
        Self: 'a;

    /// What is worth remembering, if anything.
    fn memory(&self) -> Option<Self::Memory>;

    /// Starts over from what an earlier connection has learned of the same paths.
    fn recall(&mut self, memory: Self::Memory);
}

/// States by ordered pair of slots. "Fast" and "slow" are what a decision makes of two paths; as
/// RTTs change, the same two paths may meet as the other pair.
///
/// States are made when a path is opened, for it and each path open by then in both orders: all
/// that is ever allocated. A pair's state starts when both paths are validated if there is a memory of
/// them, else at the pair's first decision, when most is known that it can start from. When a path
/// ends or moves, its pairs are remembered and forgotten, and the states kept for the next path in
/// its slot. What has started when all ends is remembered, too.
#[derive(Debug)]
pub(crate) struct Pairs<S: PairState> {
    /// Where in `states` a pair's is, [`NONE`] before it was made.
    places: [[u8; MAX_PATHS]; MAX_PATHS],
    states: Vec<Pair<S>>,
    open: PathSet,
    keys: [Option<PathKey>; MAX_PATHS],
    memory: Recall,
}

#[derive(Debug)]
struct Pair<S> {
    fast: PathIndex,
    slow: PathIndex,
    /// Whether it has begun for the paths that are in the slots now.
    started: bool,
    state: S,
}

impl<S> Pair<S> {
    fn is_of(&self, path: PathIndex) -> bool {
        self.fast == path || self.slow == path
    }
}

/// No place: there are MAX_PATHS · (MAX_PATHS - 1) = 240 pairs at most.
const NONE: u8 = u8::MAX;

impl<S: PairState> Pairs<S> {
    pub(crate) const fn new(memory: Recall) -> Self {
        Self {
            places: [[NONE; MAX_PATHS]; MAX_PATHS],
            states: Vec::new(),
            open: PathSet::EMPTY,
            keys: [None; MAX_PATHS],
            memory,
        }
    }

    /// Takes note of what happened to a path; `make` makes a state. Whether what was learned of its
    /// pairs is gone, having ended or moved.
    pub(crate) fn on_path(&mut self, event: &PathUpdate, make: impl FnMut() -> S) -> bool {
        let path = event.path;
        match event.kind {
            PathUpdateKind::Opened => self.open(path, make),
            PathUpdateKind::Validated => self.know(path, event.key),
            PathUpdateKind::Moved => {
                self.end(path);
                self.know(path, event.key);
                return true;
            }
            PathUpdateKind::Abandoned => {
                self.end(path);
                self.open.remove(path);
                return true;
            }
            _ => {}
        }
        false
    }

    /// Whether there are two paths, and so something to learn.
    pub(crate) const fn is_needed(&self) -> bool {
        self.open.len() > 1
    }

    /// A path was opened: makes room for its pairs with all others that are open.
    fn open(&mut self, path: PathIndex, mut make: impl FnMut() -> S) {
        self.open.remove(path);
        for other in self.open.iter() {
            self.place(path, other, &mut make);
            self.place(other, path, &mut make);
        }
        self.open.insert(path);
    }

    /// A path's name is known: perhaps its pairs are, too.
    fn know(&mut self, path: PathIndex, key: Option<PathKey>) {
        self.keys[path.get()] = key;
        let Self {
            states,
            keys,
            memory,
            ..
        } = self;
        for pair in states.iter_mut().filter(|pair| pair.is_of(path)) {
            if let (false, Some(fast), Some(slow)) =
                (pair.started, keys[pair.fast.get()], keys[pair.slow.get()])
                && let Some(known) = memory.recall(fast, slow)
            {
                pair.state.recall(known);
                pair.started = true;
            }
        }
    }

    /// Remembers the pairs of a path, and forgets them.
    fn end(&mut self, path: PathIndex) {
        for place in 0..self.states.len() {
            if self.states[place].is_of(path) {
                self.remember(&self.states[place]);
                self.states[place].started = false;
            }
        }
        self.keys[path.get()] = None;
    }

    fn remember(&self, pair: &Pair<S>) {
        if let (true, Some(fast), Some(slow)) = (
            pair.started && self.memory.is_some(),
            self.keys[pair.fast.get()],
            self.keys[pair.slow.get()],
        ) && let Some(memory) = pair.state.memory()
        {
            self.memory.remember(fast, slow, &memory);
        }
    }

    /// The state of a pair, which starts now if it has not.
    ///
    /// For a pair of paths that were never announced, which a transport does not have, the state is
    /// made here.
    #[inline]
    pub(crate) fn get(
        &mut self,
        fast: PathIndex,
        slow: PathIndex,
        make: impl FnMut() -> S,
    ) -> &mut S {
        let mut place = self.places[fast.get()][slow.get()];
        if place == NONE {
            place = self.place(fast, slow, make);
        }
        let place = usize::from(place);
        if !self.states[place].started {
            self.start(place);
        }
        &mut self.states[place].state
    }

    /// The state of a pair, if it has started.
    #[inline]
    pub(crate) fn started(&mut self, fast: PathIndex, slow: PathIndex) -> Option<&mut S> {
        let place = usize::from(self.places[fast.get()][slow.get()]);
        let pair = self.states.get_mut(place)?;
        pair.started.then_some(&mut pair.state)
    }

    /// All pairs that have started, in the order in which they were made.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (PathIndex, PathIndex, &S)> {
        let started = self.states.iter().filter(|pair| pair.started);
        started.map(|pair| (pair.fast, pair.slow, &pair.state))
    }

    #[cold]
    fn place(&mut self, fast: PathIndex, slow: PathIndex, mut make: impl FnMut() -> S) -> u8 {
        let place = &mut self.places[fast.get()][slow.get()];
        if *place == NONE {
            *place = self.states.len() as u8;
            self.states.push(Pair {
                fast,
                slow,
                started: false,
                state: make(),
            });
        }
        *place
    }

    #[cold]
    fn start(&mut self, place: usize) {
        let (before, rest) = self.states.split_at_mut(place);
        let Some((pair, after)) = rest.split_first_mut() else {
            return;
        };
        let others = before.iter().chain(&*after).filter(|pair| pair.started);
        pair.state.start(others.map(|pair| &pair.state));
        pair.started = true;
    }
}

impl<S: PairState> Drop for Pairs<S> {
    fn drop(&mut self) {
        for pair in &self.states {
            self.remember(pair);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use serde_json::json;

    use super::*;
    use crate::PathId;
    use crate::memory::Store;

    #[derive(Debug, PartialEq)]
    struct Learned(f64);

    impl PairState for Learned {
        type Memory = f64;

        fn start<'a>(&mut self, others: impl Iterator<Item = &'a Self> + Clone) {
            let (sum, count) = others.fold((0.0, 0.0), |(s, n), other| (s + other.0, n + 1.0));
            self.0 = if count > 0.0 { sum / count } else { 0.0 };
        }

        fn memory(&self) -> Option<f64> {
            (self.0 != 0.0).then_some(self.0)
        }

        fn recall(&mut self, memory: f64) {
            self.0 = memory;
        }
    }

    fn slot(index: usize) -> PathIndex {
        PathIndex::new(index).unwrap()
    }

    fn event(index: usize, kind: PathUpdateKind, key: u64) -> PathUpdate {
        PathUpdate::new(slot(index), PathId::ZERO, Instant::now(), kind).with_key(PathKey::new(key))
    }

    fn opened(memory: Recall, paths: usize) -> Pairs<Learned> {
        let mut pairs = Pairs::new(memory);
        for index in 0..paths {
            for kind in [PathUpdateKind::Opened, PathUpdateKind::Validated] {
                pairs.on_path(&event(index, kind, 100 + index as u64), || Learned(99.0));
            }
        }
        pairs
    }

    fn never() -> Learned {
        panic!("made already")
    }

    #[test]
    fn a_new_pair_starts_from_the_others_that_have_begun() {
        assert!(!opened(Recall::none(), 1).is_needed());
        let mut pairs = opened(Recall::none(), 3);
        assert!(pairs.is_needed());
        assert_eq!(pairs.iter().count(), 0);
        assert_eq!(*pairs.get(slot(0), slot(1), never), Learned(0.0));
        pairs.get(slot(0), slot(1), never).0 = 4.0;
        assert_eq!(*pairs.get(slot(1), slot(0), never), Learned(4.0));
        pairs.get(slot(1), slot(0), never).0 = 8.0;
        assert_eq!(*pairs.get(slot(2), slot(0), never), Learned(6.0));
        assert_eq!(pairs.iter().count(), 3);
    }

    #[test]
    fn a_path_that_ends_takes_its_pairs_along_and_leaves_their_room() {
        let mut pairs = opened(Recall::none(), 3);
        pairs.get(slot(0), slot(1), never).0 = 4.0;
        pairs.get(slot(2), slot(1), never).0 = 6.0;
        assert!(pairs.on_path(&event(0, PathUpdateKind::Abandoned, 100), never));
        assert!(pairs.started(slot(0), slot(1)).is_none());
        assert_eq!(pairs.started(slot(2), slot(1)), Some(&mut Learned(6.0)));
        assert!(!pairs.on_path(&event(0, PathUpdateKind::Opened, 100), never));
        assert_eq!(*pairs.get(slot(0), slot(1), never), Learned(6.0));
        assert!(!pairs.on_path(&event(0, PathUpdateKind::Suspect, 100), never));
        assert!(pairs.started(slot(0), slot(1)).is_some());
    }

    #[test]
    fn there_is_room_for_every_pair() {
        let mut pairs = opened(Recall::none(), MAX_PATHS);
        let all = || (0..MAX_PATHS).flat_map(|f| (0..MAX_PATHS).map(move |s| (f, s)));
        for (f, s) in all().filter(|(f, s)| f != s) {
            pairs.get(slot(f), slot(s), never).0 = (f * MAX_PATHS + s) as f64;
        }
        for (f, s) in all() {
            let state = pairs.started(slot(f), slot(s)).map(|state| state.0);
            let expected = (f != s).then_some((f * MAX_PATHS + s) as f64);
            assert_eq!(state, expected);
        }
    }

    #[test]
    fn what_was_learned_is_there_for_the_next_connection() {
        let store = Store::new();
        let memory = || store.recall("test", &json!({}));
        let mut pairs = opened(memory(), 3);
        pairs.get(slot(0), slot(1), never).0 = 4.0;
        pairs.get(slot(2), slot(1), never).0 = 6.0;
        // Nothing worth remembering.
        pairs.get(slot(2), slot(0), never).0 = 0.0;
        drop(pairs);
        assert_eq!(store.len(), 2);

        let mut pairs = opened(memory(), 2);
        assert_eq!(pairs.started(slot(0), slot(1)), Some(&mut Learned(4.0)));
        assert!(pairs.started(slot(1), slot(0)).is_none());
        pairs.get(slot(0), slot(1), never).0 = 5.0;
        // It moves to where the third path was: what is known of (2, 1) is of (0, 1) now.
        assert!(pairs.on_path(&event(0, PathUpdateKind::Moved, 102), never));
        assert_eq!(pairs.started(slot(0), slot(1)), Some(&mut Learned(6.0)));
        // And back.
        assert!(pairs.on_path(&event(0, PathUpdateKind::Moved, 100), never));
        assert_eq!(pairs.started(slot(0), slot(1)), Some(&mut Learned(5.0)));
        pairs.get(slot(0), slot(1), never).0 = 7.0;
        assert!(pairs.on_path(&event(1, PathUpdateKind::Abandoned, 101), never));
        assert_eq!(
            memory().recall(PathKey::new(100), PathKey::new(101)),
            Some(7.0)
        );
    }
}
