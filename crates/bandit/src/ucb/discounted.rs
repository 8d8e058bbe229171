//! Discounted UCB, for rewards that drift: older rewards weigh less.

use num_traits::Float;

use super::board::{self, Board};
use crate::{ArmSet, Refused};

/// No count falls below this: it would weigh nothing anyhow, and slow arithmetic (subnormal
/// numbers) lies further down.
const LEAST: f64 = 1e-150;

/// By how much a logarithm may be out of date.
const STALE: f64 = 1e-6;

/// Discounted UCB: a reward counts gamma^k after k more of them.
///
/// **Rule.** As [`Ucb1`](crate::Ucb1), with the largest
///
/// ```text
/// mean_i + c sqrt(2 ln n / N_i),   N_i = sum over i's rewards of gamma^age,   n = sum of N_i
/// ```
///
/// where the mean is weighted in the same way, and age is the number of rewards, of any arm, that
/// came later. An arm that is not chosen gradually becomes unknown again.
///
/// **Source.** Garivier and Moulines: *On Upper-Confidence Bound Policies for Switching Bandit
/// Problems*, ALT 2011, whose bonus 2 B sqrt(xi ln n / N) with xi = 1/2 is ours with c =
/// B, the size of the rewards. For a horizon T with so many breakpoints they choose gamma = 1 -
/// sqrt(breakpoints / T) / (4 B), with a regret of order sqrt(T breakpoints) ln T.
///
/// **Late rewards.** As with [`Ucb1`](crate::Ucb1); a reward is of the age at which it comes.
///
/// **Exactness.** ln n is kept until n has changed by a millionth, which puts it wrong by less than
/// 1e-6. Weights shrink by repeated multiplication, which puts a bonus wrong by less than 1e-13 /
/// (1 - gamma), relatively. Neither depends on the bandit's age.
///
/// **Cost.** [`select`](Self::select): two flops an arm. [`update`](Self::update): 5 flops an arm
/// and 10 more. No allocation; 44 bytes an arm.
///
/// ```
/// use mpquic_bandit::{ArmSet, DiscountedUcb};
///
/// let mut bandit = DiscountedUcb::<2>::new(0.5, 0.99);
/// let all = ArmSet::first_of(2);
/// let mut pull = |world: [f64; 2], times: usize| -> usize {
///     let mut second = 0;
///     for _ in 0..times {
///         let arm = bandit.select(all).unwrap();
///         second += arm;
///         bandit.update(arm, world[arm]).unwrap();
///     }
///     second
/// };
/// assert!(pull([0.9, 0.1], 2000) < 400);
/// assert!(pull([0.1, 0.9], 2000) > 1400); // the world has changed
/// ```
#[derive(Debug, Clone)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(
        try_from = "super::snapshot::DiscountedSnapshot<K>",
        into = "super::snapshot::DiscountedSnapshot<K>"
    )
)]
pub struct DiscountedUcb<const K: usize> {
    pub(super) board: Board<K>,
    pub(super) exploration: f64,
    pub(super) discount: f64,
    /// By what the widths grow when the counts shrink: discount^(-1/2).
    growth: f64,
    /// Discounted number of rewards of choices, of each arm and of all.
    pub(super) weight: [f64; K],
    pub(super) total: f64,
    /// Discounted number of rewards, those that were only observed among them.
    pub(super) seen: [f64; K],
    /// sqrt(2 ln total), and the total that it was computed for.
    root: f64,
    root_of: f64,
}

impl<const K: usize> DiscountedUcb<K> {
    /// A new bandit of 1 to 32 arms. An exploration coefficient that is not a number above 0 means no
    /// exploration; a discount that is not between 0 and 1 means no forgetting.
    pub fn new(exploration: f64, discount: f64) -> Self {
        let discount = if discount > 0.0 && discount < 1.0 {
            discount
        } else {
            1.0
        };
        Self {
            board: Board::new(),
            exploration: board::exploration(exploration),
            discount,
            growth: 1.0 / Float::sqrt(discount),
            weight: [0.0; K],
            total: 0.0,
            seen: [0.0; K],
            root: 0.0,
            root_of: 0.0,
        }
    }

    /// The arm to choose, `None` if none of the bandit's is eligible. Counts nothing.
    #[inline]
    pub fn select(&self, eligible: ArmSet) -> Option<usize> {
        self.board.select(self.root, eligible)
    }

    /// Reports that the arm was chosen; its reward will come later.
    ///
    /// # Errors
    ///
    /// [`Refused::Arm`].
    pub fn chosen(&mut self, arm: usize) -> Result<(), Refused> {
        self.board.arm(arm)?;
        self.board.choose(arm);
        Ok(())
    }

    /// The reward of a choice. All earlier rewards are discounted.
    ///
    /// # Errors
    ///
    /// [`Refused::Reward`] if it is not finite or beyond 1e100 in size, [`Refused::Arm`]; only
    /// [`refused`](Self::refused) changes then.
    #[inline]
    pub fn update(&mut self, arm: usize, reward: f64) -> Result<(), Refused> {
        self.board.reward(arm, reward)?;
        self.board.rewarded(arm);
        for weight in &mut self.weight {
            *weight = (*weight * self.discount).max(LEAST);
        }
        for seen in &mut self.seen {
            *seen = (*seen * self.discount).max(LEAST);
        }
        // The width that goes with the least weight: no infinities.
        let widest = self.exploration * 1e75;
        for width in &mut self.board.width {
            *width = (*width * self.growth).min(widest);
        }
        self.weight[arm] += 1.0;
        self.board.width[arm] = self.exploration / Float::sqrt(self.weight[arm]);
        self.see(arm, reward);
        self.total = self.total * self.discount + 1.0;
        if (self.total - self.root_of).abs() > STALE * self.root_of {
            self.renew();
        }
        Ok(())
    }

    /// The reward that the arm would have had, if it had been chosen: it counts in the mean only, with
    /// the weight of the last reward of a choice.
    ///
    /// # Errors
    ///
    /// As [`update`](Self::update).
    pub fn observe(&mut self, arm: usize, reward: f64) -> Result<(), Refused> {
        self.board.reward(arm, reward)?;
        self.see(arm, reward);
        Ok(())
    }

    #[inline]
    fn see(&mut self, arm: usize, reward: f64) {
        self.seen[arm] += 1.0;
        self.board.mean[arm] += (reward - self.board.mean[arm]) * (1.0 / self.seen[arm]);
    }

    #[inline(never)]
    pub(super) fn renew(&mut self) {
        self.root_of = self.total;
        self.root = Float::sqrt(2.0 * Float::ln(self.total.max(1.0)));
    }

    /// The reward of a choice that was [told of](Self::chosen) will never come.
    ///
    /// # Errors
    ///
    /// [`Refused::Arm`].
    pub fn abandon(&mut self, arm: usize) -> Result<(), Refused> {
        self.board.arm(arm)?;
        self.board.abandon(arm);
        Ok(())
    }

    /// Forgets all of an arm, as if it had never been tried.
    ///
    /// # Errors
    ///
    /// [`Refused::Arm`].
    pub fn reset(&mut self, arm: usize) -> Result<(), Refused> {
        self.board.arm(arm)?;
        self.board.reset(arm);
        self.total = (self.total - self.weight[arm]).max(0.0);
        (self.weight[arm], self.seen[arm]) = (0.0, 0.0);
        self.renew();
        Ok(())
    }

    /// The discounted mean of the arm's rewards, `None` before the first or if there is no such arm.
    pub fn mean(&self, arm: usize) -> Option<f64> {
        let seen = *self.seen.get(arm)? > LEAST;
        seen.then(|| self.board.mean[arm])
    }

    /// The discounted number of the arm's choices that were rewarded; 0 if there is no such arm.
    pub fn weight(&self, arm: usize) -> f64 {
        let weight = self.weight.get(arm).copied().unwrap_or(0.0);
        if weight > LEAST { weight } else { 0.0 }
    }

    /// How many choices of the arm wait for their reward.
    pub fn outstanding(&self, arm: usize) -> u32 {
        self.board.outstanding(arm)
    }

    /// How often something was refused.
    pub const fn refused(&self) -> u64 {
        self.board.refused()
    }
}
