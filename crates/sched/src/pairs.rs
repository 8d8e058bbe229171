//! What a learning scheduler keeps for each ordered pair of paths, and when it starts over; what that is, and learning it, is the scheduler's.

use crate::{MAX_PATHS, PathIndex, PathSet};

/// The state of one ordered pair (f, s).
pub(crate) trait PairState {
    /// Starts over for a new pair, from what the others have learned, if there are any. May be
    /// called within a decision, the first one of its pair: allocates nothing.
    fn start<'a>(&mut self, others: impl Iterator<Item = &'a Self>)
    where
        Self: 'a;
}

/// States by ordered pair of slots. "Fast" and "slow" are what a decision makes of two paths; as
/// RTTs change, the same two paths may meet as the other pair.
///
/// States are made when a path is opened, for it and each path open by then in both orders: all
/// that is ever allocated. A pair's state starts at the pair's first decision, when most is known
/// that it can start from. When a path ends, its pairs are forgotten, and the states kept for the
/// next path in its slot.
#[derive(Debug, Clone)]
pub(crate) struct Pairs<S> {
    /// Where in `states` a pair's is, [`NONE`] before it was made.
    places: [[u8; MAX_PATHS]; MAX_PATHS],
    states: Vec<Pair<S>>,
    open: PathSet,
}

#[derive(Debug, Clone)]
struct Pair<S> {
    fast: PathIndex,
    slow: PathIndex,
    /// Whether it has begun for the paths that are in the slots now.
    started: bool,
    state: S,
}

/// No place: there are MAX_PATHS · (MAX_PATHS - 1) = 240 pairs at most.
const NONE: u8 = u8::MAX;

impl<S: PairState> Pairs<S> {
    pub(crate) const fn new() -> Self {
        Self {
            places: [[NONE; MAX_PATHS]; MAX_PATHS],
            states: Vec::new(),
            open: PathSet::EMPTY,
        }
    }

    /// A path was opened: makes room for its pairs with all others that are open. Whether there are
    /// others.
    pub(crate) fn open(&mut self, path: PathIndex, mut make: impl FnMut() -> S) -> bool {
        self.open.remove(path);
        for other in self.open.iter() {
            self.place(path, other, &mut make);
            self.place(other, path, &mut make);
        }
        let others = !self.open.is_empty();
        self.open.insert(path);
        others
    }

    /// A path ended: what its pairs have learned is gone.
    pub(crate) fn close(&mut self, path: PathIndex) {
        self.open.remove(path);
        for pair in &mut self.states {
            if pair.fast == path || pair.slow == path {
                pair.started = false;
            }
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
    #[allow(dead_code, reason = "for what a scheduler reports of itself")]
    pub(crate) fn iter(&self) -> impl Iterator<Item = (PathIndex, PathIndex, &S)> {
        let started = self.states.iter().filter(|pair| pair.started);
        started.map(|pair| (pair.fast, pair.slow, &pair.state))
    }

    /// Gives a pair a state from elsewhere (memory); it has started then.
    #[allow(
        dead_code,
        reason = "for what a scheduler remembers of earlier connections"
    )]
    pub(crate) fn recall(&mut self, fast: PathIndex, slow: PathIndex, state: S) {
        let place = usize::from(self.places[fast.get()][slow.get()]);
        if let Some(pair) = self.states.get_mut(place) {
            (pair.started, pair.state) = (true, state);
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq)]
    struct Learned(f64);

    impl PairState for Learned {
        fn start<'a>(&mut self, others: impl Iterator<Item = &'a Self>) {
            let (sum, count) = others.fold((0.0, 0.0), |(s, n), other| (s + other.0, n + 1.0));
            self.0 = if count > 0.0 { sum / count } else { 0.0 };
        }
    }

    fn slot(index: usize) -> PathIndex {
        PathIndex::new(index).unwrap()
    }

    #[test]
    fn a_new_pair_starts_from_the_others_that_have_begun() {
        let mut pairs = Pairs::new();
        let fresh = || Learned(99.0);
        assert!(!pairs.open(slot(0), fresh));
        assert!(pairs.open(slot(1), fresh));
        assert!(pairs.open(slot(2), fresh));
        assert_eq!(pairs.iter().count(), 0);
        let never = || panic!("made already");
        assert_eq!(*pairs.get(slot(0), slot(1), never), Learned(0.0));
        pairs.get(slot(0), slot(1), never).0 = 4.0;
        assert_eq!(*pairs.get(slot(1), slot(0), never), Learned(4.0));
        pairs.get(slot(1), slot(0), never).0 = 8.0;
        assert_eq!(*pairs.get(slot(2), slot(0), never), Learned(6.0));
        assert_eq!(pairs.iter().count(), 3);
    }

    #[test]
    fn a_path_that_ends_takes_its_pairs_along_and_leaves_their_room() {
        let mut pairs = Pairs::new();
        for index in 0..3 {
            pairs.open(slot(index), || Learned(0.0));
        }
        let never = || panic!("made already");
        pairs.get(slot(0), slot(1), never).0 = 4.0;
        pairs.get(slot(2), slot(1), never).0 = 6.0;
        pairs.close(slot(0));
        assert!(pairs.started(slot(0), slot(1)).is_none());
        assert_eq!(pairs.started(slot(2), slot(1)), Some(&mut Learned(6.0)));
        assert!(pairs.open(slot(0), never));
        assert_eq!(*pairs.get(slot(0), slot(1), never), Learned(6.0));
        pairs.recall(slot(1), slot(0), Learned(1.0));
        assert_eq!(*pairs.get(slot(1), slot(0), never), Learned(1.0));
    }

    #[test]
    fn there_is_room_for_every_pair() {
        let mut pairs = Pairs::new();
        for index in 0..MAX_PATHS {
            pairs.open(slot(index), || Learned(0.0));
        }
        let all = || (0..MAX_PATHS).flat_map(|f| (0..MAX_PATHS).map(move |s| (f, s)));
        for (f, s) in all().filter(|(f, s)| f != s) {
            let never = || panic!("made already");
            pairs.get(slot(f), slot(s), never).0 = (f * MAX_PATHS + s) as f64;
        }
        for (f, s) in all() {
            let state = pairs.started(slot(f), slot(s)).map(|state| state.0);
            let expected = (f != s).then_some((f * MAX_PATHS + s) as f64);
            assert_eq!(state, expected);
        }
    }
}
