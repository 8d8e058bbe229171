//! One bandit over the path slots, whichever way it forgets.

use mpquic_bandit::{ArmSet, DiscountedUcb, Refused, SlidingWindowUcb, Ucb1};

use super::config::{Forgetting, LARGEST_WINDOW, UcbConfig};
use crate::{MAX_PATHS, PathIndex, PathSet};

/// Arm i is the path in slot i.
#[derive(Debug, Clone)]
pub(super) enum Arms {
    Plain(Ucb1<MAX_PATHS>),
    Discounted(DiscountedUcb<MAX_PATHS>),
    /// Apart from the others: it holds a thousand rewards.
    Window(Box<SlidingWindowUcb<MAX_PATHS, LARGEST_WINDOW>>),
}

/// The same call on whichever bandit it is.
macro_rules! each {
    ($arms:expr, $bandit:ident => $call:expr) => {
        match $arms {
            Arms::Plain($bandit) => $call,
            Arms::Discounted($bandit) => $call,
            Arms::Window($bandit) => $call,
        }
    };
}

/// A refused reward is counted by the bandit, which is all there is to do about it; arms are slots.
fn counted(_result: Result<(), Refused>) {}

impl Arms {
    pub(super) fn new(config: &UcbConfig) -> Self {
        let exploration = config.exploration;
        match config.forgetting {
            Forgetting::None => Self::Plain(Ucb1::new(exploration)),
            Forgetting::Discount(discount) => {
                Self::Discounted(DiscountedUcb::new(exploration, discount))
            }
            Forgetting::Window(window) => {
                Self::Window(Box::new(SlidingWindowUcb::new(exploration, window)))
            }
        }
    }

    /// Which of these to choose.
    pub(super) fn select(&self, paths: PathSet) -> Option<PathIndex> {
        let eligible = ArmSet::from_bits(paths.bits().into());
        let arm = each!(self, bandit => bandit.select(eligible))?;
        PathIndex::new(arm)
    }

    /// The path was chosen; its reward is outstanding from now on.
    pub(super) fn chosen(&mut self, path: PathIndex) {
        counted(each!(self, bandit => bandit.chosen(path.get())));
    }

    /// The reward of a choice.
    pub(super) fn update(&mut self, path: PathIndex, reward: f64) {
        counted(each!(self, bandit => bandit.update(path.get(), reward)));
    }

    /// The reward of a path, for a choice of it if one is outstanding.
    pub(super) fn reward(&mut self, path: PathIndex, reward: f64) {
        let arm = path.get();
        counted(each!(self, bandit => {
            if bandit.outstanding(arm) > 0 {
                bandit.update(arm, reward)
            } else {
                bandit.observe(arm, reward)
            }
        }));
    }

    /// The reward of a choice will not come.
    pub(super) fn abandon(&mut self, path: PathIndex) {
        counted(each!(self, bandit => bandit.abandon(path.get())));
    }

    /// The slot has another path.
    pub(super) fn reset(&mut self, path: PathIndex) {
        counted(each!(self, bandit => bandit.reset(path.get())));
    }

    pub(super) fn mean(&self, path: PathIndex) -> Option<f64> {
        each!(self, bandit => bandit.mean(path.get()))
    }

    pub(super) fn refused(&self) -> u64 {
        each!(self, bandit => bandit.refused())
    }
}
