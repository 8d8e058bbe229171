//! One state per path slot; knows no algorithm.

use mpquic_sched::{MAX_PATHS, PathIndex};

/// A fixed array of states.
#[derive(Debug)]
pub(super) struct Slots<T>([Option<T>; MAX_PATHS]);

impl<T> Default for Slots<T> {
    fn default() -> Self {
        Self([const { None }; MAX_PATHS])
    }
}

impl<T> Slots<T> {
    pub(super) fn set(&mut self, path: PathIndex, state: Option<T>) {
        self.0[path.get()] = state;
    }

    pub(super) const fn get(&self, path: PathIndex) -> Option<&T> {
        self.0[path.get()].as_ref()
    }

    pub(super) const fn get_mut(&mut self, path: PathIndex) -> Option<&mut T> {
        self.0[path.get()].as_mut()
    }
}
