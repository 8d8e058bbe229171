//! Peekaboo's stochastic adjustment: how often to keep the choice of a two-armed policy.

use crate::{Draw, Regrets};

/// The probabilities with which the choices of a two-armed policy are kept.
///
/// If the choices of a deterministic policy are mostly wrong, the other arm is the better guess. The
/// adjustment wraps any policy: it keeps the arm that the policy chose with the probability of that
/// arm, and takes the other arm otherwise.
///
/// **Formula.** With `e` the mean regret of arm 1 where arm 0 was right and `f` that of arm 0 where
/// arm 1 was right (in Peekaboo arm 0 transmits and arm 1 waits), the probabilities at which the
/// expected regret does not depend on which arm is right are
///
/// ```text
/// p_indiff,1 = f / (e + f)          p_indiff,0 = e / (e + f)
/// ```
///
/// and with `q_a` the share of the choices of `a` that were right,
///
/// ```text
/// p_a = 0.9 if q_a > 0.7;  0.1 if q_a < 0.3;  p_indiff,a else
/// ```
///
/// **Source.** Wu, Alay, Brunstrom, Ferlin, Caso: *Peekaboo*, IEEE JSAC 2020, section III-B. It has
/// three traps. One place prints `1 / (e + f)`; the derivation gives `f / (e + f)`, which is used
/// here. With `e + f = 0` it is undefined: `p = 1` then (ours), since nothing speaks against the
/// policy; the same holds for an arm that was never chosen, whose `q` is unknown. And the text says
/// that a single decision is best kept always if `q > 0.5`. By its own equation 5 the slope in `p` is
/// `q·(e + f) - e`, so the condition is `q > e / (e + f)`, which is the same only for `e = f`. The
/// boundaries 0.3 and 0.7 inherit this simplification; they are in [`Boundaries`].
///
/// **Cost.** A draw (5 integer operations) and a comparison for a choice; no state but the two
/// probabilities.
///
/// ```
/// use mpquic_bandit::{Adjustment, Boundaries, Draw, Outcome, Regrets};
///
/// let mut regrets = Regrets::default();
/// for n in 0..10 {
///     // Arm 0 is right nine times of ten, arm 1 as often as not.
///     regrets.add(Outcome::new(0, if n == 0 { -1.0 } else { 3.0 }));
///     regrets.add(Outcome::new(1, if n % 2 == 0 { 1.0 } else { -1.0 }));
/// }
/// let adjustment = Adjustment::of(&regrets, &Boundaries::default(), 1);
/// assert_eq!(adjustment.keep(0), 0.9);
/// // e = (9 · 3 + 5 · 1) / 14, f = (1 · 1 + 5 · 1) / 6: f / (e + f) = 7 / 23.
/// assert!((adjustment.keep(1) - 7.0 / 23.0).abs() < 1e-12);
///
/// let mut draw = Draw::new(1);
/// let kept = (0..1000).filter(|_| adjustment.select(0, &mut draw) == 0).count();
/// assert!((850..950).contains(&kept));
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(try_from = "[f64; 2]", into = "[f64; 2]"))]
pub struct Adjustment {
    keep: [f64; 2],
}

impl Adjustment {
    /// Every choice is kept: the policy as it is.
    pub const KEEP: Self = Self { keep: [1.0; 2] };

    /// The probabilities that follow from these regrets. An arm that was chosen less often than
    /// `least` times counts as never chosen: a `q` of three decisions says nothing.
    pub fn of(regrets: &Regrets, boundaries: &Boundaries, least: u32) -> Self {
        let indifferent = indifference(regrets.regret(0), regrets.regret(1));
        let keep = |arm: usize| match regrets.q(arm) {
            Some(q) if regrets.chosen(arm) >= least => boundaries.keep(q, indifferent[arm]),
            _ => 1.0,
        };
        Self {
            keep: [keep(0), keep(1)],
        }
    }

    /// Given probabilities for arm 0 and arm 1; `None` if one of them is not a probability.
    pub fn fixed(keep: [f64; 2]) -> Option<Self> {
        keep.iter()
            .all(|p| (0.0..=1.0).contains(p))
            .then_some(Self { keep })
    }

    /// The probability to keep a choice of this arm.
    ///
    /// # Panics
    ///
    /// If there is no such arm: they are 0 and 1.
    pub const fn keep(&self, arm: usize) -> f64 {
        self.keep[arm]
    }

    /// The arm to take if the policy chose `choice`. Each call draws once.
    ///
    /// # Panics
    ///
    /// If there is no such arm: they are 0 and 1.
    #[inline]
    pub fn select(&self, choice: usize, draw: &mut Draw) -> usize {
        if draw.chance(self.keep[choice]) {
            choice
        } else {
            1 - choice
        }
    }
}

impl Default for Adjustment {
    /// [`KEEP`](Self::KEEP).
    fn default() -> Self {
        Self::KEEP
    }
}

impl From<Adjustment> for [f64; 2] {
    fn from(adjustment: Adjustment) -> Self {
        adjustment.keep
    }
}

impl TryFrom<[f64; 2]> for Adjustment {
    type Error = &'static str;

    fn try_from(keep: [f64; 2]) -> Result<Self, Self::Error> {
        Self::fixed(keep).ok_or("expected two probabilities, 0 to 1")
    }
}

/// The probabilities to keep a choice of arm 0 and of arm 1 at which the expected regret is the same
/// whichever arm is right, from the mean regrets of arm 0 and arm 1 where they were wrong. 1 for
/// both if there is no regret, or no finite one.
pub fn indifference(regret_0: f64, regret_1: f64) -> [f64; 2] {
    let sum = regret_0 + regret_1;
    if sum > 0.0 && sum.is_finite() && regret_0 >= 0.0 && regret_1 >= 0.0 {
        [regret_1 / sum, regret_0 / sum]
    } else {
        [1.0; 2]
    }
}

/// When a policy counts as mostly right or mostly wrong, and how often its choice is kept then.
#[derive(Debug, Clone, Copy, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(deny_unknown_fields, default))]
pub struct Boundaries {
    /// Choices that are right less often than this are mostly wrong. Default 0.3.
    pub low: f64,
    /// Choices that are right more often than this are mostly right. Default 0.7.
    pub high: f64,
    /// The probability to keep what is mostly wrong. Default 0.1.
    pub keep_wrong: f64,
    /// The probability to keep what is mostly right. Default 0.9.
    pub keep_right: f64,
}

impl Default for Boundaries {
    fn default() -> Self {
        Self {
            low: 0.3,
            high: 0.7,
            keep_wrong: 0.1,
            keep_right: 0.9,
        }
    }
}

impl Boundaries {
    /// The probability to keep a choice that is right with probability `q`.
    pub fn keep(&self, q: f64, indifferent: f64) -> f64 {
        if q > self.high {
            self.keep_right
        } else if q < self.low {
            self.keep_wrong
        } else {
            indifferent
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Outcome;

    #[test]
    fn the_formula_and_its_traps() {
        // f of arm 0, e of arm 1: p_1 = f / (e + f), not 1 / (e + f).
        assert_eq!(indifference(3.0, 1.0), [0.25, 0.75]);
        assert_eq!(indifference(0.0, 2.0), [1.0, 0.0]);
        for (f, e) in [
            (0.0, 0.0),
            (f64::NAN, 1.0),
            (f64::INFINITY, 1.0),
            (-1.0, 3.0),
        ] {
            assert_eq!(indifference(f, e), [1.0; 2], "{f} {e}");
        }
        // The probabilities of both arms come to the same mix where regrets are equal in the other
        // arm: keeping arm 0 with p is taking arm 1 with 1 - p.
        let [p_0, p_1] = indifference(0.7, 0.2);
        assert!((p_0 + p_1 - 1.0).abs() < 1e-15);
    }

    #[test]
    fn at_indifference_the_regret_is_the_same_whichever_arm_is_right() {
        // Arm 1 chosen and kept with p: regret p · e if arm 0 is right, (1 - p) · f if arm 1 is.
        let (f, e) = (2.5, 0.4);
        let p = indifference(f, e)[1];
        assert!((p * e - (1.0 - p) * f).abs() < 1e-12);
    }

    #[test]
    fn the_boundaries_are_open() {
        let boundaries = Boundaries::default();
        for (q, expected) in [
            (0.0, 0.1),
            (0.299, 0.1),
            (0.3, 0.5),
            (0.7, 0.5),
            (0.701, 0.9),
            (1.0, 0.9),
        ] {
            assert_eq!(boundaries.keep(q, 0.5), expected, "{q}");
        }
    }

    #[test]
    fn what_nothing_is_known_of_is_kept() {
        let mut regrets = Regrets::default();
        let boundaries = Boundaries::default();
        assert_eq!(Adjustment::of(&regrets, &boundaries, 1), Adjustment::KEEP);
        // Arm 0 was always wrong, arm 1 was never chosen.
        regrets.add(Outcome::new(0, -2.0));
        let adjustment = Adjustment::of(&regrets, &boundaries, 1);
        assert_eq!((adjustment.keep(0), adjustment.keep(1)), (0.1, 1.0));
        let of_two = Adjustment::of(&regrets, &boundaries, 2);
        assert_eq!(of_two, Adjustment::KEEP);
        // A tie is not right, and no regret either.
        let mut regrets = Regrets::default();
        regrets.add(Outcome::new(0, 0.0));
        assert_eq!(Adjustment::of(&regrets, &boundaries, 1).keep(0), 0.1);
    }

    #[test]
    fn choices_are_kept_as_often_as_that() {
        let adjustment = Adjustment::fixed([0.73, 0.2]).unwrap();
        let mut draw = Draw::new(5);
        for (arm, p) in [(0, 0.73), (1, 0.2)] {
            let mut kept = 0_u32;
            for _ in 0..100_000 {
                kept += u32::from(adjustment.select(arm, &mut draw) == arm);
            }
            // Five standard deviations.
            let sigma = 100_000.0_f64 * p * (1.0 - p);
            assert!((f64::from(kept) - 100_000.0 * p).powi(2) < 25.0 * sigma);
        }
        let never = Adjustment::fixed([0.0, 1.0]).unwrap();
        assert!((0..1000).all(|_| never.select(0, &mut draw) == 1));
        assert!((0..1000).all(|_| never.select(1, &mut draw) == 1));
        assert_eq!(Adjustment::fixed([0.5, f64::NAN]), None);
        assert_eq!(Adjustment::fixed([0.5, 1.5]), None);
    }

    #[cfg(feature = "serde")]
    #[test]
    fn a_snapshot_is_checked() {
        let adjustment = Adjustment::fixed([0.25, 1.0]).unwrap();
        let text = serde_json::to_string(&adjustment).unwrap();
        assert_eq!(text, "[0.25,1.0]");
        assert_eq!(
            serde_json::from_str::<Adjustment>(&text).unwrap(),
            adjustment
        );
        for wrong in ["[0.25]", "[0.25,1.5]", "[null,0.5]", "[-0.1,0.5]"] {
            assert!(
                serde_json::from_str::<Adjustment>(wrong).is_err(),
                "{wrong}"
            );
        }
    }
}
