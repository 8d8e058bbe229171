//! What a bandit does not learn from, and why; counting is each bandit's own.

use core::fmt;

/// A sample that would have spoilt what was learned. It did not change the bandit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refused {
    /// The reward is not finite, or too large for sums of such rewards to stay finite.
    Reward,
    /// The context is not finite, or too large for sums of its products to stay finite.
    Context,
    /// There is no such arm.
    Arm,
    /// The probability is none, or is 0 of what was chosen.
    Probability,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Reward => "the reward is not a finite number of reasonable size",
            Self::Context => "the context is not made of finite numbers of reasonable size",
            Self::Arm => "there is no such arm",
            Self::Probability => {
                "the probability is not from 0 to 1, or 0 of a choice that was made"
            }
        })
    }
}

impl core::error::Error for Refused {}
