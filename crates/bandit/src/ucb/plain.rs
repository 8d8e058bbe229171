//! UCB1, for stationary rewards.

use num_traits::Float;

use super::board::{self, Board};
use super::horizon::Horizon;
use crate::{ArmSet, Refused};

/// UCB1 with the horizon-free confidence level of asymptotically optimal UCB.
///
/// **Rule.** Each eligible arm once, in ascending order. Then, of the eligible arms, the one with
/// the largest
///
/// ```text
/// mean_i + c sqrt(2 ln f(t) / n_i),   f(t) = 1 + t ln^2 t
/// ```
///
/// with n_i the rewards of choices of arm i, t the number of the choice, counted from 1, and c the
/// exploration coefficient, in the unit of the rewards; of equals the lowest arm. With c = sigma
/// and rewards whose deviation from their mean is sigma-subgaussian, the regret is asymptotically
/// optimal; for rewards in [0, 1], c = 1/2 is.
///
/// **Source.** Auer, Cesa-Bianchi, Fischer: *Finite-time Analysis of the Multiarmed Bandit
/// Problem*, Machine Learning 47, 2002 (UCB1: ln t and c = 1); the f(t) is that of Lattimore and
/// Szepesvari: *Bandit Algorithms*, 2020, algorithm 6 and theorem 8.1, and of Shu and Chang's
/// packet scheduler (CSC579, 2022).
///
/// **Late rewards.** If rewards come later than the next choice, report each choice by
/// [`chosen`](Self::chosen): it counts in t at once, and in n_i only with its reward (Joulani,
/// György, Szepesvári: *Online Learning under Delayed Feedback*, ICML 2013). An arm
/// whose first reward is still to come is not chosen again while another arm has a reward (ours: their
/// algorithm chooses it again and again). If rewards come at once, [`update`](Self::update) is
/// enough.
///
/// **Exactness.** sqrt(2 ln f(t)) is updated with t, not computed for each choice. It is exact for
/// t < 128, and later too small by less than 4 parts in a million. Counts are
/// exact up to 2^53; neither cost nor exactness depends on the age.
///
/// **Cost.** [`select`](Self::select): two flops an arm. `update`: 10 flops, among them two
/// divisions and a root. No allocation; 44 bytes an arm.
///
/// ```
/// use mpquic_bandit::{ArmSet, Ucb1};
///
/// let mut bandit = Ucb1::<2>::new(0.5);
/// let all = ArmSet::first_of(2);
/// let mut pulls = [0; 2];
/// for _ in 0..1000 {
///     let arm = bandit.select(all).unwrap();
///     pulls[arm] += 1;
///     bandit.update(arm, [0.2, 0.8][arm]).unwrap();
/// }
/// assert!(pulls[1] > 950 && pulls[0] > 10);
/// assert_eq!(bandit.select(ArmSet::only(0)), Some(0)); // the only eligible arm
/// ```
#[derive(Debug, Clone)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(
        try_from = "super::snapshot::PlainSnapshot<K>",
        into = "super::snapshot::PlainSnapshot<K>"
    )
)]
pub struct Ucb1<const K: usize> {
    pub(super) board: Board<K>,
    pub(super) horizon: Horizon,
    pub(super) exploration: f64,
    /// Rewards of choices.
    pub(super) pulls: [f64; K],
    /// Rewards in all, those that were only observed among them.
    pub(super) seen: [f64; K],
}

impl<const K: usize> Ucb1<K> {
    /// A new bandit of 1 to 32 arms. A coefficient that is not a number above 0 means no exploration.
    pub fn new(exploration: f64) -> Self {
        Self {
            board: Board::new(),
            horizon: Horizon::after(0),
            exploration: board::exploration(exploration),
            pulls: [0.0; K],
            seen: [0.0; K],
        }
    }

    /// The arm to choose, `None` if none of the bandit's is eligible. Counts nothing.
    #[inline]
    pub fn select(&self, eligible: ArmSet) -> Option<usize> {
        self.board.select(self.horizon.root(), eligible)
    }

    /// Reports that the arm was chosen; its reward will come later.
    ///
    /// # Errors
    ///
    /// [`Refused::Arm`].
    pub fn chosen(&mut self, arm: usize) -> Result<(), Refused> {
        self.board.arm(arm)?;
        self.board.choose(arm);
        self.horizon.step();
        Ok(())
    }

    /// The reward of a choice. If no [reported](Self::chosen) choice of the arm waits for its reward, it
    /// counts as a choice whose reward came at once.
    ///
    /// # Errors
    ///
    /// [`Refused::Reward`] if it is not finite or beyond 1e100 in size, [`Refused::Arm`]; only
    /// [`refused`](Self::refused) changes then.
    #[inline]
    pub fn update(&mut self, arm: usize, reward: f64) -> Result<(), Refused> {
        self.board.reward(arm, reward)?;
        if !self.board.rewarded(arm) {
            self.horizon.step();
        }
        self.pulls[arm] += 1.0;
        self.board.width[arm] = self.exploration / Float::sqrt(self.pulls[arm]);
        self.see(arm, reward);
        Ok(())
    }

    /// The reward that the arm would have had, if it had been chosen: it counts in the mean only.
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
        // The reciprocal does not wait for the mean of the last update, as a quotient would.
        self.board.mean[arm] += (reward - self.board.mean[arm]) * (1.0 / self.seen[arm]);
    }

    /// The reward of a choice that was [told of](Self::chosen) will never come; t keeps the choice.
    ///
    /// # Errors
    ///
    /// [`Refused::Arm`].
    pub fn abandon(&mut self, arm: usize) -> Result<(), Refused> {
        self.board.arm(arm)?;
        self.board.abandon(arm);
        Ok(())
    }

    /// Forgets all of an arm, as if it had never been tried; t keeps its choices.
    ///
    /// # Errors
    ///
    /// [`Refused::Arm`].
    pub fn reset(&mut self, arm: usize) -> Result<(), Refused> {
        self.board.arm(arm)?;
        self.board.reset(arm);
        (self.pulls[arm], self.seen[arm]) = (0.0, 0.0);
        Ok(())
    }

    /// The mean of the arm's rewards, `None` before the first or if there is no such arm.
    pub fn mean(&self, arm: usize) -> Option<f64> {
        let seen = *self.seen.get(arm)? > 0.0;
        seen.then(|| self.board.mean[arm])
    }

    /// How many choices of the arm have been rewarded; 0 if there is no such arm.
    pub fn pulls(&self, arm: usize) -> u64 {
        self.pulls.get(arm).map_or(0, |pulls| *pulls as u64)
    }

    /// How many choices of the arm wait for their reward.
    pub fn outstanding(&self, arm: usize) -> u32 {
        self.board.outstanding(arm)
    }

    /// How many choices there were, of all arms.
    pub const fn choices(&self) -> u64 {
        self.horizon.choices()
    }

    /// How often something was refused.
    pub const fn refused(&self) -> u64 {
        self.board.refused()
    }
}
