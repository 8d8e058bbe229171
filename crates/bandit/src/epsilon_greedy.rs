//! Epsilon-greedy over values that follow rewards by a step.

use crate::ucb::{LARGEST_REWARD, check_reward};
use crate::{ArmSet, Choice, Draw, Epsilon, Refused};

/// How far a value goes towards a reward.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
pub enum Step {
    /// 1/n with the arm's n-th reward: the mean of them all.
    #[default]
    Mean,
    /// Always this share, above 0 and at most 1: what is old fades. With 1 the newest alone counts.
    Constant(f64),
}

/// Epsilon-greedy with a constant step or the mean.
///
/// **Rule.** With probability ε any of the eligible arms, each as likely; else the one with the largest value, the lowest of
/// equals. A value starts as `initial` and moves by each reward of the arm: Q += step (reward - Q). With [`Step::Mean`], `initial`
/// is gone after the first reward; with [`Step::Constant`] it fades by (1 - step)^n.
///
/// **Source.** Sutton, Barto: *Reinforcement Learning*, 2018, sections 2.4 (the mean), 2.5 (the constant step, eq. 2.5) and 2.6
/// (initial values above all rewards try each arm soon); figure 5 of Shu and Chang's report for CSC579, 2022.
///
/// **Regret.** Grows with t for ever, by ε times the mean loss of an arm; that is the price of following changes.
///
/// **Cost.** A choice: one drawn number and a comparison an arm. An update: 3 flops. No allocation; 16 bytes an arm.
///
/// ```
/// use mpquic_bandit::{ArmSet, Draw, EpsilonGreedy, Step};
///
/// let mut bandit = EpsilonGreedy::<2>::new(0.1, Step::Constant(0.1), 1.0);
/// let (all, mut draw) = (ArmSet::first_of(2), Draw::new(1));
/// let mut pulls = [0; 2];
/// for _ in 0..1000 {
///     let choice = bandit.choose(all, &mut draw).unwrap();
///     pulls[choice.arm] += 1;
///     bandit.update(choice.arm, [0.2, 0.8][choice.arm]).unwrap();
/// }
/// assert!(pulls[1] > 900 && pulls[0] > 20);
/// ```
#[derive(Debug, Clone)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(try_from = "Read<K>")
)]
pub struct EpsilonGreedy<const K: usize> {
    epsilon: Epsilon,
    step: Step,
    initial: f64,
    #[cfg_attr(feature = "serde", serde(with = "crate::linucb::array"))]
    values: [f64; K],
    #[cfg_attr(feature = "serde", serde(with = "crate::linucb::array"))]
    pulls: [u64; K],
    refused: u64,
}

/// `EpsilonGreedy` as it is read, before it is checked.
#[cfg(feature = "serde")]
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields, rename = "EpsilonGreedy")]
struct Read<const K: usize> {
    epsilon: Epsilon,
    step: Step,
    initial: f64,
    #[serde(with = "crate::linucb::array")]
    values: [f64; K],
    #[serde(with = "crate::linucb::array")]
    pulls: [u64; K],
    refused: u64,
}

#[cfg(feature = "serde")]
impl<const K: usize> TryFrom<Read<K>> for EpsilonGreedy<K> {
    type Error = Refused;

    fn try_from(read: Read<K>) -> Result<Self, Refused> {
        for value in read.values {
            check_reward(value)?;
        }
        Ok(Self {
            values: read.values,
            pulls: read.pulls,
            refused: read.refused,
            ..Self::new(read.epsilon.get(), read.step, read.initial)
        })
    }
}

impl<const K: usize> EpsilonGreedy<K> {
    /// A bandit of 1 to 32 arms, each worth `initial`, in the unit of the rewards (not finite: 0). Of ε and the step, what is
    /// out of range counts as the next that is in it, NaN as 0; a constant step of 0 learns nothing.
    pub const fn new(epsilon: f64, step: Step, initial: f64) -> Self {
        const { assert!(0 < K && K <= ArmSet::CAPACITY, "1 to 32 arms") };
        let step = match step {
            Step::Constant(step) => Step::Constant(Epsilon::new(step).get()),
            Step::Mean => Step::Mean,
        };
        let initial = if initial.is_finite() {
            initial.clamp(-LARGEST_REWARD, LARGEST_REWARD)
        } else {
            0.0
        };
        Self {
            epsilon: Epsilon::new(epsilon),
            step,
            initial,
            values: [initial; K],
            pulls: [0; K],
            refused: 0,
        }
    }

    /// The eligible arm with the largest value, `None` if none of the bandit's is eligible.
    #[inline]
    pub fn greedy(&self, eligible: ArmSet) -> Option<usize> {
        let mut best: Option<usize> = None;
        for arm in eligible.intersection(ArmSet::first_of(K)).iter() {
            if best.is_none_or(|best| self.values[arm] > self.values[best]) {
                best = Some(arm);
            }
        }
        best
    }

    /// Draws an arm, `None` if none of the bandit's is eligible. Counts nothing.
    #[inline]
    pub fn choose(&self, eligible: ArmSet, draw: &mut Draw) -> Option<Choice> {
        let eligible = eligible.intersection(ArmSet::first_of(K));
        self.epsilon.choose(self.greedy(eligible)?, eligible, draw)
    }

    /// With which probability [`choose`](Self::choose) takes each arm.
    pub fn probabilities(&self, eligible: ArmSet) -> [f64; K] {
        let eligible = eligible.intersection(ArmSet::first_of(K));
        let Some(greedy) = self.greedy(eligible) else {
            return [0.0; K];
        };
        core::array::from_fn(|arm| self.epsilon.probability(arm, greedy, eligible))
    }

    /// Learns a reward of an arm, whenever it comes.
    ///
    /// # Errors
    ///
    /// [`Refused::Reward`] if it is not finite or beyond 1e100 in size, [`Refused::Arm`]; only
    /// [`refused`](Self::refused) changes then.
    #[inline]
    pub fn update(&mut self, arm: usize, reward: f64) -> Result<(), Refused> {
        let wrong = match check_reward(reward) {
            Ok(_) if arm < K => None,
            Ok(_) => Some(Refused::Arm),
            Err(why) => Some(why),
        };
        if let Some(why) = wrong {
            self.refused += 1;
            return Err(why);
        }
        self.pulls[arm] += 1;
        let step = match self.step {
            Step::Mean => 1.0 / self.pulls[arm] as f64,
            Step::Constant(step) => step,
        };
        self.values[arm] += step * (reward - self.values[arm]);
        Ok(())
    }

    /// Forgets all of an arm.
    ///
    /// # Errors
    ///
    /// [`Refused::Arm`].
    pub fn reset(&mut self, arm: usize) -> Result<(), Refused> {
        let Some(value) = self.values.get_mut(arm) else {
            self.refused += 1;
            return Err(Refused::Arm);
        };
        (*value, self.pulls[arm]) = (self.initial, 0);
        Ok(())
    }

    /// What each arm is held to be worth.
    pub const fn values(&self) -> &[f64; K] {
        &self.values
    }

    /// How many rewards of an arm were learned; 0 if there is no such arm.
    pub fn pulls(&self, arm: usize) -> u64 {
        self.pulls.get(arm).copied().unwrap_or(0)
    }

    /// How often something was refused.
    pub const fn refused(&self) -> u64 {
        self.refused
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mean_and_the_constant_step() {
        let rewards = [3.0, 5.0, -2.0, 8.0];
        let mut mean = EpsilonGreedy::<1>::new(0.0, Step::Mean, 99.0);
        let mut constant = EpsilonGreedy::<1>::new(0.0, Step::Constant(0.25), 1.0);
        let mut expected = 1.0;
        for reward in rewards {
            mean.update(0, reward).unwrap();
            constant.update(0, reward).unwrap();
            expected += 0.25 * (reward - expected);
        }
        assert!((mean.values()[0] - 3.5).abs() < 1e-12);
        assert_eq!(constant.values()[0], expected);
        mean.reset(0).unwrap();
        assert_eq!((mean.values()[0], mean.pulls(0)), (99.0, 0));
    }

    #[test]
    fn what_is_refused_changes_nothing() {
        let mut bandit = EpsilonGreedy::<2>::new(f64::NAN, Step::Constant(9.0), f64::NAN);
        assert_eq!(bandit.update(0, f64::NAN), Err(Refused::Reward));
        assert_eq!(bandit.update(0, 1e101), Err(Refused::Reward));
        assert_eq!(bandit.update(2, 1.0), Err(Refused::Arm));
        assert_eq!(bandit.reset(2), Err(Refused::Arm));
        assert_eq!((bandit.values(), bandit.refused()), (&[0.0; 2], 4));
        let mut draw = Draw::new(1);
        assert_eq!(bandit.choose(ArmSet::only(7), &mut draw), None);
        assert_eq!(bandit.probabilities(ArmSet::EMPTY), [0.0; 2]);
        bandit.update(1, 5.0).unwrap();
        assert_eq!(
            bandit.choose(ArmSet::first_of(9), &mut draw),
            Some(Choice::certain(1))
        );
        assert_eq!(bandit.values(), &[0.0, 5.0]); // A step of 9 counts as 1.
    }
}
