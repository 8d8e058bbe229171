//! One state per path slot.

use mpquic_sched_core::PathIndex;

/// States by slot, as many as were ever needed: most connections have one path or two.
#[derive(Debug)]
pub(super) struct Slots<T> {
    states: Vec<Option<T>>,
    /// One past the highest slot in use.
    used: usize,
}

impl<T> Default for Slots<T> {
    fn default() -> Self {
        Self {
            states: Vec::new(),
            used: 0,
        }
    }
}

impl<T> Slots<T> {
    pub(super) fn set(&mut self, path: PathIndex, state: Option<T>) {
        let index = path.get();
        if index >= self.states.len() {
            self.states.reserve_exact(index + 1 - self.states.len());
            self.states.resize_with(index + 1, || None);
        }
        self.states[index] = state;
        let highest = self.states.iter().rposition(Option::is_some);
        self.used = highest.map_or(0, |index| index + 1);
    }

    pub(super) fn get(&self, path: PathIndex) -> Option<&T> {
        self.states.get(path.get())?.as_ref()
    }

    pub(super) fn get_mut(&mut self, path: PathIndex) -> Option<&mut T> {
        self.states.get_mut(path.get())?.as_mut()
    }

    /// The states that there are, in the order of their slots.
    pub(super) fn iter(&self) -> impl Iterator<Item = (PathIndex, &T)> + Clone {
        self.states[..self.used]
            .iter()
            .enumerate()
            .filter_map(|(index, state)| Some((PathIndex::new(index)?, state.as_ref()?)))
    }
}
