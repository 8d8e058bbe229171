//! What answers states: the trait, and chance.

use std::borrow::Cow;

use mpquic_bandit::Draw;

use super::Experience;
use crate::{LearnedOnline, PathUpdate};

/// Answers states: a network, or what stands in for one.
///
/// ```
/// use mpquic_sched::neural::{Policy, Unanswered};
///
/// /// Always the last of seven actions.
/// struct Last;
///
/// impl Policy for Last {
///     fn answer(&mut self, _state: &[f32]) -> Result<&[f32], Unanswered> {
///         Ok(&[0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0])
///     }
/// }
/// ```
pub trait Policy: Send {
    /// The outputs for a state, both in the units and the order that the scheduler's documentation gives.
    ///
    /// # Errors
    ///
    /// [`Unanswered`], if there is no answer. The scheduler falls back for this once and asks again for its next
    /// state.
    fn answer(&mut self, state: &[f32]) -> Result<&[f32], Unanswered>;

    /// What runs it, for reports: `plan (AVX-512)`, `tract`, `random`.
    fn engine(&self) -> Cow<'static, str> {
        Cow::Borrowed("custom")
    }

    /// Whether it learns from what comes of its answers. If so, it is told of each [`experience`](Self::experience), as
    /// long as it runs inline ([`Run::Inline`](super::Run::Inline)).
    fn learns(&self) -> bool {
        false
    }

    /// What came of its answers, in the order of time. On the hot path: what takes long belongs on another thread.
    fn experience(&mut self, experience: &Experience<'_>) {
        let _ = experience;
    }

    /// Whether the next state is about data that the application has marked for exploration
    /// ([`StreamHints::explore`](crate::StreamHints::explore)). For those that learn.
    fn mark(&mut self, explore: bool) {
        let _ = explore;
    }

    /// A path began or ended. For those that learn, and remember by paths what they have learned.
    fn on_path(&mut self, event: &PathUpdate) {
        let _ = event;
    }

    /// How far it is, for those that learn.
    fn online(&self) -> Option<LearnedOnline> {
        None
    }
}

/// A policy had no answer to a state: an input or output was not a finite number, or its engine failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the policy has no answer")]
pub struct Unanswered;

/// Outputs drawn independently and uniformly from -1 to 1, whatever the state: the least that a trained policy has to
/// beat.
///
/// The largest of them is each one with the same probability, so that it is a fair draw among actions, too.
#[derive(Debug, Clone)]
pub struct Random {
    draw: Draw,
    outputs: Vec<f32>,
}

impl Random {
    /// A policy with so many outputs and its own stream of random numbers.
    pub fn new(outputs: usize, seed: u64) -> Self {
        Self {
            draw: Draw::new(seed),
            outputs: vec![0.0; outputs],
        }
    }
}

impl Policy for Random {
    fn answer(&mut self, _state: &[f32]) -> Result<&[f32], Unanswered> {
        for output in &mut self.outputs {
            *output = (2.0 * self.draw.unit() - 1.0) as f32;
        }
        Ok(&self.outputs)
    }

    fn engine(&self) -> Cow<'static, str> {
        Cow::Borrowed("random")
    }
}
