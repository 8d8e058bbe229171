//! What was chosen and how likely that was; epsilon around the choice of any rule.

use crate::{ArmSet, Draw};

/// An arm, and the probability with which it was chosen, which a log must have to be
/// [evaluated](crate::OffPolicy) later.
#[derive(Debug, Clone, Copy, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Choice {
    /// Which arm.
    pub arm: usize,
    /// How likely it was, above 0 and at most 1.
    pub probability: f64,
}

impl Choice {
    /// The choice of a rule that draws nothing.
    pub const fn certain(arm: usize) -> Self {
        Self {
            arm,
            probability: 1.0,
        }
    }
}

/// Takes the arm that a rule names, and with probability epsilon any of the eligible ones: so that each has a known
/// probability above 0, whatever the rule is.
///
/// **Rule.** With probability ε one of the n eligible arms, each as likely as the others; else the rule's. The rule's has
/// the probability 1 - ε + ε/n, each other one ε/n. A rule's arm that is not eligible is never taken: then all have 1/n.
///
/// **Source.** Sutton, Barto: *Reinforcement Learning*, 2018, section 2.4. As `--epsilon` in Vowpal Wabbit.
///
/// **Cost.** One drawn number for each choice, so that streams of draws stay synchronised.
///
/// ```
/// use mpquic_bandit::{ArmSet, Draw, Epsilon, LinUcb, LinUcbConfig};
///
/// let bandit = LinUcb::<f64, 1, 2>::new(&LinUcbConfig::default());
/// let (epsilon, mut draw) = (Epsilon::new(0.1), Draw::new(1));
/// let arm = bandit.select(0.5, &[1.0]);
/// let choice = epsilon.choose(arm, ArmSet::first_of(2), &mut draw).unwrap();
/// assert!((choice.probability - if choice.arm == arm { 0.95 } else { 0.05 }).abs() < 1e-12);
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(from = "f64", into = "f64")
)]
pub struct Epsilon(f64);

impl From<f64> for Epsilon {
    fn from(epsilon: f64) -> Self {
        Self::new(epsilon)
    }
}

impl From<Epsilon> for f64 {
    fn from(epsilon: Epsilon) -> Self {
        epsilon.0
    }
}

impl Epsilon {
    /// Explores with this probability. What is below 0 or NaN counts as 0, what is above 1 as 1.
    pub const fn new(epsilon: f64) -> Self {
        Self(if epsilon >= 0.0 {
            epsilon.min(1.0)
        } else {
            0.0
        })
    }

    /// The probability of exploring.
    pub const fn get(self) -> f64 {
        self.0
    }

    /// Draws: `None` if no arm is eligible.
    #[inline]
    pub fn choose(self, rule: usize, eligible: ArmSet, draw: &mut Draw) -> Option<Choice> {
        let drawn = draw.unit();
        let epsilon = self.of(rule, eligible);
        let arm = if drawn < epsilon {
            // Below epsilon it is uniform there: the same number says which.
            let count = eligible.len();
            let place = (drawn / epsilon * count as f64) as usize;
            eligible.iter().nth(place.min(count.checked_sub(1)?))?
        } else {
            rule
        };
        let probability = self.probability(arm, rule, eligible);
        Some(Choice { arm, probability })
    }

    /// How likely an arm is, if the rule names `rule`; 0 of one that is not eligible.
    #[inline]
    pub fn probability(self, arm: usize, rule: usize, eligible: ArmSet) -> f64 {
        if !eligible.contains(arm) {
            return 0.0;
        }
        let epsilon = self.of(rule, eligible);
        let uniform = epsilon / eligible.len() as f64;
        if arm == rule {
            1.0 - epsilon + uniform
        } else {
            uniform
        }
    }

    fn of(self, rule: usize, eligible: ArmSet) -> f64 {
        if eligible.contains(rule) { self.0 } else { 1.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probabilities_are_those_of_the_draws() {
        let eligible: ArmSet = [0, 2, 5].into_iter().collect();
        let mut draw = Draw::new(3);
        for (epsilon, rule) in [(0.0, 2), (0.3, 2), (1.0, 0), (0.2, 1), (0.2, 31)] {
            let rule_of = Epsilon::new(epsilon);
            let mut count = [0_u32; 6];
            let n = 40_000;
            for _ in 0..n {
                let choice = rule_of.choose(rule, eligible, &mut draw).unwrap();
                assert_eq!(
                    choice.probability,
                    rule_of.probability(choice.arm, rule, eligible)
                );
                count[choice.arm] += 1;
            }
            let mut sum = 0.0;
            for (arm, count) in count.into_iter().enumerate() {
                let p = rule_of.probability(arm, rule, eligible);
                sum += p;
                // Five standard deviations of a binomial.
                let spread = 5.0 * (p * (1.0 - p) * f64::from(n)).sqrt();
                assert!(
                    (f64::from(count) - p * f64::from(n)).abs() <= spread,
                    "{epsilon}, {arm}: {count} for {p}"
                );
            }
            assert!((sum - 1.0).abs() < 1e-12);
        }
    }

    #[test]
    fn nothing_eligible_and_strange_epsilons() {
        let mut draw = Draw::new(1);
        let half = Epsilon::new(0.5);
        assert_eq!(half.choose(0, ArmSet::EMPTY, &mut draw), None);
        assert_eq!(half.probability(0, 0, ArmSet::EMPTY), 0.0);
        for (given, taken) in [(f64::NAN, 0.0), (-1.0, 0.0), (7.0, 1.0)] {
            assert_eq!(Epsilon::new(given).get(), taken);
        }
    }
}
