//! What a neural scheduler tells those who watch it: trainers, recorders, tests; keeps nothing.

use std::time::Instant;

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

/// Watches a scheduler.
pub(crate) type Observer = Box<dyn FnMut(&Experience<'_>) + Send>;
