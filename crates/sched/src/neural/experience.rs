//! What a neural scheduler tells those who watch it: trainers, recorders, tests.

use std::time::Instant;

use crate::Scheduler;

/// A piece of a neural scheduler's experience.
///
/// Decisions are numbered from 0 over the scheduler's life. Those of one scheduler and the rewards of one decision come
/// in the order of time; a reward may come any time after its decision, or never (the connection ended, a stream was
/// reset).
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum Experience<'a> {
    /// A state was handed to the policy, and its answer was taken.
    #[non_exhaustive]
    Decided {
        /// The number of the decision.
        number: u64,
        /// When.
        now: Instant,
        /// What was handed over, in the scheduler's units.
        state: &'a [f32],
        /// What is done: the number of an action, or the values of continuous ones, one per path.
        action: &'a [f32],
        /// Whether the answer was refused and `action` is not what the policy wanted.
        fell_back: bool,
    },
    /// A decision earned something.
    #[non_exhaustive]
    Rewarded {
        /// The number of the decision.
        number: u64,
        /// When that was known.
        now: Instant,
        /// How much, in the unit that the scheduler's documentation gives.
        reward: f32,
        /// Whether the episode (a chunk, a page, a connection) ends with it.
        done: bool,
    },
}

impl<'a> Experience<'a> {
    /// A state was handed to the policy, and its answer was taken.
    #[inline]
    pub const fn decided(
        number: u64,
        now: Instant,
        state: &'a [f32],
        action: &'a [f32],
        fell_back: bool,
    ) -> Self {
        Self::Decided {
            number,
            now,
            state,
            action,
            fell_back,
        }
    }

    /// A decision earned something.
    #[inline]
    pub const fn rewarded(number: u64, now: Instant, reward: f32, done: bool) -> Self {
        Self::Rewarded {
            number,
            now,
            reward,
            done,
        }
    }
}

/// Watches a scheduler.
pub type Observer = Box<dyn FnMut(&Experience<'_>) + Send>;

/// A scheduler that asks a policy, as the registry makes it
/// ([`register_neural`](crate::Registry::register_neural)): it says what its states and actions are, and can be watched,
/// so that a recorder can write its experience down.
pub trait NeuralScheduler: Scheduler + Sized + 'static {
    /// What a row of the state has: the name and unit of each feature.
    const FEATURES: &'static [(&'static str, &'static str)];
    /// Elements of a state: rows of features, one after the other.
    const STATE: usize;

    /// The names of an action's elements.
    fn actions() -> Vec<String>;

    /// The same scheduler, watched.
    #[must_use]
    fn with_observer(self, observer: Observer) -> Self;
}
