//! State under a mutex that one task works on and any thread may touch: whoever leaves work wakes the task, and never with the lock held.

use std::task::Waker;

use crate::sync::{Mutex, MutexGuard, PoisonError};

/// The task, as its state sees it.
#[derive(Debug, Default)]
pub(crate) struct Task {
    /// Set by whoever leaves something for the task to do; [`Guarded::with`] then wakes it.
    pub(crate) touched: bool,
    /// If it sleeps.
    waker: Option<Waker>,
}

impl Task {
    /// It has nothing left to do, and is woken by the next one to touch the state.
    pub(crate) fn sleeps(&mut self, waker: &Waker) {
        match &mut self.waker {
            Some(known) => known.clone_from(waker),
            none => *none = Some(waker.clone()),
        }
    }
}

/// What a task works on.
pub(crate) trait Driven {
    fn task(&mut self) -> &mut Task;
}

/// The state under its mutex.
#[derive(Debug)]
pub(crate) struct Guarded<T>(Mutex<T>);

impl<T: Driven> Guarded<T> {
    pub(crate) fn new(state: T) -> Self {
        Self(Mutex::new(state))
    }

    /// A panic elsewhere is no reason to panic here: the task's end closes the connection.
    /// One copy of it: it is called all over the crate.
    #[inline(never)]
    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs `f` under the mutex, then wakes the task if `f` left work for it.
    pub(crate) fn with<U>(&self, f: impl FnOnce(&mut T) -> U) -> U {
        let mut state = self.lock();
        let value = f(&mut state);
        Self::release(state);
        value
    }

    /// Ends a hold of the mutex. One copy, as of [`lock`](Self::lock).
    #[inline(never)]
    fn release(mut state: MutexGuard<'_, T>) {
        let task = state.task();
        let touched = std::mem::take(&mut task.touched);
        let waker = touched.then(|| task.waker.take()).flatten();
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}
