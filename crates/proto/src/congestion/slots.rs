//! One state per path slot; knows no algorithm.

use mpquic_sched_core::{MAX_PATHS, PathIndex};

/// A fixed array of states.
#[derive(Debug)]
pub(super) struct Slots<T> {
    states: [Option<T>; MAX_PATHS],
    /// One past the highest slot in use.
    used: usize,
}

impl<T> Default for Slots<T> {
    fn default() -> Self {
        Self {
            states: [const { None }; MAX_PATHS],
            used: 0,
        }
    }
}

impl<T> Slots<T> {
    pub(super) fn set(&mut self, path: PathIndex, state: Option<T>) {
        self.states[path.get()] = state;
        let highest = self.states.iter().rposition(Option::is_some);
        self.used = highest.map_or(0, |index| index + 1);
    }

    pub(super) const fn get(&self, path: PathIndex) -> Option<&T> {
        self.states[path.get()].as_ref()
    }

    pub(super) const fn get_mut(&mut self, path: PathIndex) -> Option<&mut T> {
        self.states[path.get()].as_mut()
    }

    /// The states that there are, in the order of their slots.
    pub(super) fn iter(&self) -> impl Iterator<Item = (PathIndex, &T)> + Clone {
        self.states[..self.used]
            .iter()
            .enumerate()
            .filter_map(|(index, state)| Some((PathIndex::new(index)?, state.as_ref()?)))
    }
}
