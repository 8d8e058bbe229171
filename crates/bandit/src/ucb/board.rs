//! Means and widths of the arms, and the choice among them.

use crate::{ArmSet, Refused};

/// Beyond this a reward is refused: sums and squares of such rewards stay finite.
pub(crate) const LARGEST: f64 = 1e100;

/// A reward that can be reckoned with, or why not.
pub(crate) const fn reward(reward: f64) -> Result<f64, Refused> {
    // Not so for NaN either.
    if reward.abs() <= LARGEST {
        Ok(reward)
    } else {
        Err(Refused::Reward)
    }
}

/// The exploration coefficient as it is used: never NaN, negative or too large.
pub(super) const fn exploration(coefficient: f64) -> f64 {
    if coefficient >= 0.0 {
        coefficient.min(LARGEST)
    } else {
        0.0
    }
}

/// What choosing needs of each arm, side by side.
#[derive(Debug, Clone)]
pub(super) struct Board<const K: usize> {
    /// The mean of the rewards; 0 before the first.
    pub(super) mean: [f64; K],
    /// The exploration coefficient over the root of how often the arm's choice was rewarded. Only
    /// those that are [`known`](Self::known) have one.
    pub(super) width: [f64; K],
    /// The arms with a reward of a choice.
    known: u32,
    /// The arms that have none, nor one to come.
    untried: u32,
    /// How many choices of an arm have not been rewarded yet.
    outstanding: [u32; K],
    refused: u64,
}

impl<const K: usize> Board<K> {
    const ALL: u32 = {
        assert!(0 < K && K <= ArmSet::CAPACITY, "1 to 32 arms");
        ArmSet::first_of(K).bits()
    };

    pub(super) const fn new() -> Self {
        Self {
            mean: [0.0; K],
            width: [0.0; K],
            known: 0,
            untried: Self::ALL,
            outstanding: [0; K],
            refused: 0,
        }
    }

    /// The eligible arm with the largest mean + width * `root`; of equals the lowest. First of all
    /// each that was never tried, in ascending order; last of all those whose first reward is still
    /// to come, the one with the fewest choices outstanding.
    #[inline]
    pub(super) fn select(&self, root: f64, eligible: ArmSet) -> Option<usize> {
        let eligible = eligible.bits() & Self::ALL;
        if eligible & self.known == Self::ALL {
            return Some(highest::<K>(core::array::from_fn(|arm| {
                self.score(arm, root)
            })));
        }
        self.select_some(root, eligible)
    }

    #[inline]
    fn score(&self, arm: usize, root: f64) -> f64 {
        self.mean[arm] + self.width[arm] * root
    }

    fn select_some(&self, root: f64, eligible: u32) -> Option<usize> {
        let untried = ArmSet::from_bits(eligible & self.untried);
        if !untried.is_empty() {
            return untried.first();
        }
        let known = ArmSet::from_bits(eligible & self.known);
        let mut best: Option<(usize, f64)> = None;
        for arm in known.iter().take_while(|arm| *arm < K) {
            let score = self.score(arm, root);
            if best.is_none_or(|(_, highest)| score > highest) {
                best = Some((arm, score));
            }
        }
        match best {
            Some((arm, _)) => Some(arm),
            None => ArmSet::from_bits(eligible)
                .iter()
                .min_by_key(|arm| self.outstanding[*arm]),
        }
    }

    pub(super) const fn arm(&mut self, arm: usize) -> Result<(), Refused> {
        if arm < K {
            Ok(())
        } else {
            self.refuse(Refused::Arm)
        }
    }

    pub(super) const fn reward(&mut self, arm: usize, reward: f64) -> Result<(), Refused> {
        if let Err(why) = self::reward(reward) {
            return self.refuse(why);
        }
        self.arm(arm)
    }

    const fn refuse(&mut self, why: Refused) -> Result<(), Refused> {
        self.refused += 1;
        Err(why)
    }

    pub(super) const fn refused(&self) -> u64 {
        self.refused
    }

    #[cfg(feature = "serde")]
    pub(super) const fn set_refused(&mut self, refused: u64) {
        self.refused = refused;
    }

    /// The arm, which must be one, was chosen; its reward is to come.
    pub(super) const fn choose(&mut self, arm: usize) {
        self.outstanding[arm] = self.outstanding[arm].saturating_add(1);
        self.untried &= !(1 << arm);
    }

    /// The reward of a choice of the arm, which must be one, came: whether the choice was told of
    /// before.
    #[inline]
    pub(super) const fn rewarded(&mut self, arm: usize) -> bool {
        self.known |= 1 << arm;
        self.untried &= !(1 << arm);
        self.take(arm)
    }

    /// The reward of a choice of the arm, which must be one, will not come.
    pub(super) const fn abandon(&mut self, arm: usize) {
        self.take(arm);
        if self.outstanding[arm] == 0 && self.known & 1 << arm == 0 {
            self.untried |= 1 << arm;
        }
    }

    #[inline]
    const fn take(&mut self, arm: usize) -> bool {
        let was = self.outstanding[arm];
        self.outstanding[arm] = was.saturating_sub(1);
        was > 0
    }

    /// The arm, which must be one, has no reward of a choice any more, or was forgotten altogether.
    pub(super) const fn unknow(&mut self, arm: usize) {
        self.known &= !(1 << arm);
        if self.outstanding[arm] == 0 {
            self.untried |= 1 << arm;
        }
    }

    /// Forgets the arm, which must be one.
    pub(super) const fn reset(&mut self, arm: usize) {
        self.outstanding[arm] = 0;
        (self.mean[arm], self.width[arm]) = (0.0, 0.0);
        self.unknow(arm);
    }

    pub(super) fn outstanding(&self, arm: usize) -> u32 {
        self.outstanding.get(arm).copied().unwrap_or(0)
    }
}

/// The place of the largest; of equals the lowest. One after the other without a branch: pairs
/// first, which wait less for each other, took half as long again for 4 and 8 arms.
#[inline]
fn highest<const K: usize>(score: [f64; K]) -> usize {
    let (mut best, mut place) = (score[0], 0);
    for (arm, s) in score.iter().enumerate().skip(1) {
        place = if *s > best { arm } else { place };
        best = if *s > best { *s } else { best };
    }
    place
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_of_the_highest() {
        assert_eq!(highest([3.0]), 0);
        assert_eq!(highest([1.0, 1.0]), 0);
        assert_eq!(highest([1.0, 2.0, 2.0]), 1);
        assert_eq!(highest([1.0, 2.0, 3.0]), 2);
        assert_eq!(highest([0.0; 32]), 0);
        for place in 0..7 {
            let mut scores = [-1.0; 7];
            scores[place..].fill(5.0);
            assert_eq!(highest(scores), place);
        }
    }

    #[test]
    fn what_can_be_reckoned_with() {
        for refused in [f64::NAN, f64::INFINITY, -f64::INFINITY, 1.1e100, -1.1e100] {
            assert_eq!(reward(refused), Err(Refused::Reward));
        }
        assert_eq!(reward(-1e100), Ok(-1e100));
        assert_eq!(exploration(f64::NAN), 0.0);
        assert_eq!(exploration(-1.0), 0.0);
        assert_eq!(exploration(f64::INFINITY), LARGEST);
    }
}
