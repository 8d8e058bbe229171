//! Epsilon-greedy: the best so far, now and then any; the baseline that bounds of confidence must
//! beat.

use num_traits::Float;

use crate::{ArmSet, Draw, Refused};

/// With which probability the next choice is any eligible arm.
#[derive(Debug, Clone, Copy, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
pub enum Epsilon {
    /// The same for ever: the regret grows in proportion to t.
    Constant(f64),
    /// min(1, scale / t) for the choice number t, counted from 1. With scale = c K / d^2, c above
    /// 5, and d the least gap between the best arm's mean and another's, the regret grows as ln t
    /// (Auer, Cesa-Bianchi, Fischer 2002, theorem 3: rewards in [0, 1], d between 0 and 1).
    Inverse {
        /// How many choices explore for certain.
        scale: f64,
    },
    /// max(least, first * factor^(t - 1)), as the learners of many packet schedulers have it.
    Exponential {
        /// The first choice's.
        first: f64,
        /// By what it shrinks with each choice.
        factor: f64,
        /// It shrinks no further.
        least: f64,
    },
}

/// Epsilon-greedy over `K` arms.
///
/// **Rule.** Each eligible arm once, in ascending order. Then, with probability [`Epsilon`], an
/// eligible arm drawn evenly, otherwise the one with the largest mean reward; of equals the
/// lowest.
///
/// **Source.** Sutton and Barto: *Reinforcement Learning*, 2nd edition, section 2.2; for the
/// decays, see [`Epsilon`].
///
/// **Cost.** [`select`](Self::select): a draw (eight integer operations), a comparison an arm.
/// [`update`](Self::update): four flops. No allocation; 16 bytes an arm.
///
/// ```
/// use mpquic_bandit::{ArmSet, Epsilon, EpsilonGreedy};
///
/// let mut bandit = EpsilonGreedy::<2>::new(Epsilon::Inverse { scale: 20.0 }, 7);
/// let mut second = 0;
/// for _ in 0..1000 {
///     let arm = bandit.select(ArmSet::first_of(2)).unwrap();
///     second += arm;
///     bandit.update(arm, [0.2, 0.8][arm]).unwrap();
/// }
/// assert!(second > 900);
/// ```
#[derive(Debug, Clone)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(try_from = "snapshot::Snapshot<K>", into = "snapshot::Snapshot<K>")
)]
pub struct EpsilonGreedy<const K: usize> {
    mean: [f64; K],
    pulls: [f64; K],
    epsilon: Epsilon,
    /// The probability at the next choice.
    now: f64,
    /// Its number.
    t: f64,
    draw: Draw,
    refused: u64,
}

/// A probability, whatever was said.
const fn probability(p: f64) -> f64 {
    if p >= 0.0 { p.min(1.0) } else { 0.0 }
}

impl<const K: usize> EpsilonGreedy<K> {
    /// A bandit that knows nothing yet, of 1 to 32 arms, drawing from this seed. A probability
    /// below 0, or not a number, is 0, and one above 1 is 1.
    pub const fn new(epsilon: Epsilon, seed: u64) -> Self {
        const { assert!(0 < K && K <= ArmSet::CAPACITY, "1 to 32 arms") };
        let now = match epsilon {
            Epsilon::Constant(p) | Epsilon::Exponential { first: p, .. } => p,
            Epsilon::Inverse { scale } => scale,
        };
        Self {
            mean: [0.0; K],
            pulls: [0.0; K],
            epsilon,
            now: probability(now),
            t: 1.0,
            draw: Draw::new(seed),
            refused: 0,
        }
    }

    /// The arm to choose, `None` if none of the bandit's is eligible. Each call draws, and moves
    /// the decay on.
    pub fn select(&mut self, eligible: ArmSet) -> Option<usize> {
        let eligible = eligible.intersection(ArmSet::first_of(K));
        if eligible.is_empty() {
            return None;
        }
        let explores = self.draw.chance(self.now);
        let place = (self.draw.unit() * eligible.len() as f64) as usize;
        self.decay();
        let untried = eligible.iter().find(|arm| self.pulls[*arm] == 0.0);
        untried.or_else(|| match explores {
            true => eligible.iter().nth(place),
            false => self.best(eligible),
        })
    }

    fn best(&self, eligible: ArmSet) -> Option<usize> {
        let mut best: Option<usize> = None;
        for arm in eligible.iter() {
            if best.is_none_or(|best| self.mean[arm] > self.mean[best]) {
                best = Some(arm);
            }
        }
        best
    }

    fn decay(&mut self) {
        self.t += 1.0;
        self.now = probability(match self.epsilon {
            Epsilon::Constant(p) => p,
            Epsilon::Inverse { scale } => scale / self.t,
            Epsilon::Exponential { factor, least, .. } => {
                Float::max(self.now * probability(factor), least)
            }
        });
    }

    /// The reward of a choice.
    ///
    /// # Errors
    ///
    /// [`Refused::Reward`] if it is not finite or beyond 1e100 in size, [`Refused::Arm`]; nothing
    /// but [`refused`](Self::refused) changes then.
    pub fn update(&mut self, arm: usize, reward: f64) -> Result<(), Refused> {
        let why = match (self.pulls.get_mut(arm), reward.abs() <= 1e100) {
            (Some(pulls), true) => {
                *pulls += 1.0;
                self.mean[arm] += (reward - self.mean[arm]) * (1.0 / *pulls);
                return Ok(());
            }
            (None, true) => Refused::Arm,
            (_, false) => Refused::Reward,
        };
        self.refused += 1;
        Err(why)
    }

    /// The probability with which the next choice is any eligible arm.
    pub const fn epsilon(&self) -> f64 {
        self.now
    }

    /// The mean of the arm's rewards, `None` before the first or if there is no such arm.
    pub fn mean(&self, arm: usize) -> Option<f64> {
        let pulled = *self.pulls.get(arm)? > 0.0;
        pulled.then(|| self.mean[arm])
    }

    /// How many rewards of the arm there were; 0 if there is no such arm.
    pub fn pulls(&self, arm: usize) -> u64 {
        self.pulls.get(arm).map_or(0, |pulls| *pulls as u64)
    }

    /// How often something was refused.
    pub const fn refused(&self) -> u64 {
        self.refused
    }
}

#[cfg(feature = "serde")]
mod snapshot {
    use serde::{Deserialize, Serialize};

    use super::{Epsilon, EpsilonGreedy, probability};
    use crate::Draw;
    use crate::ucb::BadSnapshot;
    use crate::ucb::snapshot::{Array, MOST, check_mean};

    #[derive(Serialize, Deserialize)]
    #[serde(deny_unknown_fields)]
    pub(super) struct Snapshot<const K: usize> {
        epsilon: Epsilon,
        now: f64,
        choices: u64,
        draw: Draw,
        refused: u64,
        arms: Array<Arm, K>,
    }

    #[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Arm {
        pulls: u64,
        mean: f64,
    }

    impl<const K: usize> From<EpsilonGreedy<K>> for Snapshot<K> {
        fn from(bandit: EpsilonGreedy<K>) -> Self {
            Self {
                epsilon: bandit.epsilon,
                now: bandit.now,
                choices: bandit.t as u64 - 1,
                arms: Array(core::array::from_fn(|arm| Arm {
                    pulls: bandit.pulls(arm),
                    mean: bandit.mean[arm],
                })),
                draw: bandit.draw,
                refused: bandit.refused,
            }
        }
    }

    impl<const K: usize> TryFrom<Snapshot<K>> for EpsilonGreedy<K> {
        type Error = BadSnapshot;

        fn try_from(snapshot: Snapshot<K>) -> Result<Self, BadSnapshot> {
            let mut bandit = Self::new(snapshot.epsilon, 0);
            BadSnapshot::unless(snapshot.choices < MOST, "choices", "less than 2^53")?;
            bandit.t = snapshot.choices as f64 + 1.0;
            let good = probability(snapshot.now) == snapshot.now;
            BadSnapshot::unless(good, "now", "a probability, 0 to 1")?;
            bandit.now = snapshot.now;
            for (arm, saved) in snapshot.arms.0.iter().enumerate() {
                check_mean(saved.mean)?;
                BadSnapshot::unless(saved.pulls <= MOST, "pulls", "at most 2^53")?;
                (bandit.mean[arm], bandit.pulls[arm]) = (saved.mean, saved.pulls as f64);
            }
            (bandit.draw, bandit.refused) = (snapshot.draw, snapshot.refused);
            Ok(bandit)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(feature = "serde")]
    #[test]
    fn is_written_and_read() {
        let mut one = EpsilonGreedy::<3>::new(Epsilon::Inverse { scale: 30.0 }, 5);
        let mut draw = Draw::new(8);
        for _ in 0..200 {
            let arm = one.select(ArmSet::first_of(3)).unwrap();
            one.update(arm, draw.unit()).unwrap();
        }
        let text = serde_json::to_string(&one).unwrap();
        let mut read: EpsilonGreedy<3> = serde_json::from_str(&text).unwrap();
        for _ in 0..200 {
            let arm = one.select(ArmSet::first_of(3)).unwrap();
            assert_eq!(read.select(ArmSet::first_of(3)), Some(arm));
            let reward = draw.unit();
            one.update(arm, reward).unwrap();
            read.update(arm, reward).unwrap();
        }
        for (from, to) in [
            (r#""refused":0"#, r#""refused":-1"#),
            (r#""choices":200"#, r#""choices":9007199254740992"#),
            (r#""now":"#, r#""now":1"#),
            (r#""mean":0."#, r#""mean":1e101,"x":0."#),
        ] {
            let bad = text.replacen(from, to, 1);
            assert_ne!(bad, text);
            let read = serde_json::from_str::<EpsilonGreedy<3>>(&bad);
            assert!(read.is_err(), "{bad}");
        }
    }

    #[test]
    fn the_decays() {
        let epsilons = |epsilon, times: &[usize]| {
            let mut bandit = EpsilonGreedy::<2>::new(epsilon, 1);
            let mut t = 1;
            for (at, expected) in times.iter().zip([1.0, 1.0, 0.5, 0.1]) {
                while t < *at {
                    bandit.select(ArmSet::only(0));
                    t += 1;
                }
                let relative = bandit.epsilon() / expected;
                assert!(
                    (0.999..1.001).contains(&relative),
                    "{epsilon:?} at {at}: {}",
                    bandit.epsilon()
                );
            }
        };
        epsilons(Epsilon::Constant(1.0), &[1, 1000]);
        epsilons(Epsilon::Constant(7.0), &[1]);
        epsilons(Epsilon::Inverse { scale: 10.0 }, &[1, 10, 20, 100]);
        let exponential = Epsilon::Exponential {
            first: 1.0,
            factor: 0.5_f64.powf(0.01),
            least: 0.1,
        };
        epsilons(exponential, &[1, 1, 101, 900]);
        for nonsense in [f64::NAN, -1.0, f64::NEG_INFINITY] {
            let bandit = EpsilonGreedy::<2>::new(Epsilon::Constant(nonsense), 1);
            assert_eq!(bandit.epsilon(), 0.0);
        }
    }

    #[test]
    fn explores_evenly_and_as_often_as_it_says() {
        let mut bandit = EpsilonGreedy::<4>::new(Epsilon::Constant(0.3), 5);
        let eligible = ArmSet::from_bits(0b1011);
        for (arm, reward) in [(0, 0.1), (1, 0.9), (2, 5.0), (3, 0.2)] {
            bandit.update(arm, reward).unwrap();
        }
        let mut pulls = [0_u32; 4];
        for _ in 0..30_000 {
            pulls[bandit.select(eligible).unwrap()] += 1;
        }
        assert_eq!(pulls[2], 0, "not eligible");
        // 3000 each by chance, within five standard deviations of a binomial.
        for arm in [0, 3] {
            assert!(pulls[arm].abs_diff(3000) < 5 * 52, "{pulls:?}");
        }
    }

    #[test]
    fn each_eligible_arm_once_first_then_the_lowest_of_the_best() {
        let mut bandit = EpsilonGreedy::<3>::new(Epsilon::Constant(0.0), 5);
        assert_eq!(bandit.select(ArmSet::EMPTY), None);
        assert_eq!(bandit.select(ArmSet::only(3)), None);
        for arm in [0, 1, 2] {
            assert_eq!(bandit.select(ArmSet::first_of(3)), Some(arm));
            bandit.update(arm, [1.0, 2.0, 2.0][arm]).unwrap();
        }
        assert_eq!(bandit.select(ArmSet::first_of(3)), Some(1));
        assert_eq!(bandit.select(ArmSet::from_bits(0b101)), Some(2));
    }

    #[test]
    fn refusals_change_nothing_else() {
        let mut bandit = EpsilonGreedy::<2>::new(Epsilon::Constant(0.0), 5);
        bandit.update(1, 0.5).unwrap();
        assert_eq!(bandit.update(1, f64::NAN), Err(Refused::Reward));
        assert_eq!(bandit.update(0, f64::INFINITY), Err(Refused::Reward));
        assert_eq!(bandit.update(2, 1.0), Err(Refused::Arm));
        assert_eq!(bandit.refused(), 3);
        assert_eq!(
            (bandit.mean(0), bandit.mean(1), bandit.mean(2)),
            (None, Some(0.5), None)
        );
        assert_eq!(
            (bandit.pulls(0), bandit.pulls(1), bandit.pulls(2)),
            (0, 1, 0)
        );
    }
}
