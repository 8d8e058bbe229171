//! The two answers of the schedulers that learn whether to wait, and what they tell observers.

use std::time::Instant;

use crate::PathIndex;

/// What to do with new data, the fast path being full and the slow one not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub enum Arm {
    /// The next packet goes on the slow path. The arm's number is 0.
    #[default]
    Send,
    /// Wait, until the fast path has room again. The arm's number is 1.
    Wait,
}

impl Arm {
    /// The arm's number.
    pub const fn index(self) -> usize {
        match self {
            Self::Send => 0,
            Self::Wait => 1,
        }
    }

    /// The other one.
    #[must_use]
    pub const fn other(self) -> Self {
        match self {
            Self::Send => Self::Wait,
            Self::Wait => Self::Send,
        }
    }

    /// The arm with the larger value; of equals, [`Send`](Self::Send).
    pub fn largest([tx, wt]: [f64; 2]) -> Self {
        if wt > tx { Self::Wait } else { Self::Send }
    }
}

/// What a learning scheduler did, for those who watch it: tests, recorders.
///
/// ```
/// use std::sync::{Arc, Mutex};
/// use mpquic_sched::{Linucb, Step};
///
/// let rewards = Arc::new(Mutex::new(Vec::new()));
/// let into = Arc::clone(&rewards);
/// let scheduler = Linucb::default().with_observer(Box::new(move |step| {
///     if let Step::Settled { reward, .. } = step {
///         into.lock().unwrap().push(*reward);
///     }
/// }));
/// # drop(scheduler);
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum Step {
    /// A decision was made.
    #[non_exhaustive]
    Decided {
        /// Its number, [`Context::decision`](crate::Context::decision).
        decision: u64,
        /// When.
        now: Instant,
        /// The path that is full.
        fast: PathIndex,
        /// The path that is not.
        slow: PathIndex,
        /// What it rests on: [W_f/R_f, I_f/R_f, C/R_f, W_s/R_s, I_s/R_s, C/R_s], scaled.
        context: [f64; 6],
        /// The scores of [`Arm::Send`] and [`Arm::Wait`].
        scores: [f64; 2],
        /// The arm with the larger score.
        chosen: Arm,
        /// What is done: the same, or the other one if chance has it so.
        arm: Arm,
        /// T_ref of its reward, milliseconds.
        reference: f64,
    },
    /// A decision's reward is complete, and was learned from. In the order of the decisions.
    #[non_exhaustive]
    Settled {
        /// The decision's number.
        decision: u64,
        /// When.
        now: Instant,
        /// The path that was full.
        fast: PathIndex,
        /// The path that was not.
        slow: PathIndex,
        /// What the decision rested on.
        context: [f64; 6],
        /// What was done.
        arm: Arm,
        /// What that earned, scaled.
        reward: f64,
    },
}

/// Watches a scheduler.
pub(crate) type Observer = Box<dyn FnMut(&Step) + Send>;
