//! One bandit over the path slots, whichever way it forgets.

use mpquic_bandit::{
    ArmSet, DiscountedUcb, Draw, EpsilonGreedy, Refused, SlidingWindowUcb, Step, Ucb1,
};

use super::config::{EpsilonGreedyConfig, Forgetting, LARGEST_WINDOW, UcbConfig};
use crate::{MAX_PATHS, PathIndex, PathSet};

/// Arm i is the path in slot i.
#[derive(Debug, Clone)]
pub(super) enum Arms {
    Plain(Ucb1<MAX_PATHS>),
    Discounted(DiscountedUcb<MAX_PATHS>),
    /// Apart from the others: it holds a thousand rewards.
    Window(Box<SlidingWindowUcb<MAX_PATHS, LARGEST_WINDOW>>),
    /// Explores by chance; knows nothing of choices that wait.
    Greedy(EpsilonGreedy<MAX_PATHS>, Draw),
}

/// The same call on whichever bandit it is.
macro_rules! each {
    ($arms:expr, $bandit:ident => $call:expr, greedy => Ok(())) => {
        match $arms {
            Arms::Plain($bandit) => $call,
            Arms::Discounted($bandit) => $call,
            Arms::Window($bandit) => $call,
            Arms::Greedy(..) => Ok(()),
        }
    };
    ($arms:expr, $bandit:ident => $call:expr, greedy => $greedy:expr) => {
        match $arms {
            Arms::Plain($bandit) => $call,
            Arms::Discounted($bandit) => $call,
            Arms::Window($bandit) => $call,
            Arms::Greedy($bandit, _) => $greedy,
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

    pub(super) fn greedy(config: &EpsilonGreedyConfig) -> Self {
        let step = if config.step > 0.0 {
            Step::Constant(config.step)
        } else {
            Step::Mean
        };
        let bandit = EpsilonGreedy::new(config.epsilon, step, 0.0);
        Self::Greedy(bandit, Draw::new(config.seed))
    }

    /// Which of these to choose.
    pub(super) fn select(&mut self, paths: PathSet) -> Option<PathIndex> {
        let eligible = ArmSet::from_bits(paths.bits().into());
        let arm = match self {
            Self::Plain(bandit) => bandit.select(eligible),
            Self::Discounted(bandit) => bandit.select(eligible),
            Self::Window(bandit) => bandit.select(eligible),
            Self::Greedy(bandit, draw) => bandit.choose(eligible, draw).map(|choice| choice.arm),
        }?;
        PathIndex::new(arm)
    }

    /// The path was chosen; its reward is outstanding from now on.
    pub(super) fn chosen(&mut self, path: PathIndex) {
        counted(each!(self, bandit => bandit.chosen(path.get()), greedy => Ok(())));
    }

    /// The reward of a choice.
    pub(super) fn update(&mut self, path: PathIndex, reward: f64) {
        let arm = path.get();
        counted(
            each!(self, bandit => bandit.update(arm, reward), greedy => bandit.update(arm, reward)),
        );
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
        }, greedy => bandit.update(arm, reward)));
    }

    /// The reward of a choice will not come.
    pub(super) fn abandon(&mut self, path: PathIndex) {
        counted(each!(self, bandit => bandit.abandon(path.get()), greedy => Ok(())));
    }

    /// The slot has another path.
    pub(super) fn reset(&mut self, path: PathIndex) {
        let arm = path.get();
        counted(each!(self, bandit => bandit.reset(arm), greedy => bandit.reset(arm)));
    }

    pub(super) fn mean(&self, path: PathIndex) -> Option<f64> {
        let arm = path.get();
        each!(self, bandit => bandit.mean(arm), greedy => (bandit.pulls(arm) > 0).then(|| bandit.values()[arm]))
    }

    pub(super) fn refused(&self) -> u64 {
        each!(self, bandit => bandit.refused(), greedy => bandit.refused())
    }
}
