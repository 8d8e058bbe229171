//! What another policy would have earned on a log: inverse propensities, self-normalised ones, doubly robust.

use num_traits::Float;

use crate::Refused;

/// An estimate and its standard error, in the unit of the rewards.
#[derive(Debug, Clone, Copy, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Estimate {
    /// The reward of a decision, in the mean.
    pub value: f64,
    /// The standard error; infinite where two lines at least are needed for one.
    pub error: f64,
}

impl Estimate {
    /// `value` less and plus `z` standard errors: 1.96 for 95 % where there are many lines and no weight is
    /// far above the others.
    pub fn interval(&self, z: f64) -> (f64, f64) {
        (self.value - z * self.error, self.value + z * self.error)
    }
}

/// A running mean and its spread (Welford, 1962).
#[derive(Debug, Clone, Default)]
struct Mean {
    value: f64,
    squares: f64,
}

impl Mean {
    fn add(&mut self, sample: f64, count: f64) {
        let before = sample - self.value;
        self.value += before / count;
        self.squares += before * (sample - self.value);
    }

    fn estimate(&self, count: f64) -> Estimate {
        let error = if count > 1.0 {
            Float::sqrt(self.squares / (count * (count - 1.0)))
        } else {
            f64::INFINITY
        };
        Estimate {
            value: self.value,
            error,
        }
    }
}

/// Estimates what a policy would have earned, from a log that another policy wrote with the probabilities of its choices.
///
/// **Estimates**, over n lines with weight w = π(a|x)/p, where p is the logged probability of the logged arm a and π(a|x)
/// that of the policy that is judged:
///
/// ```text
/// IPS     1/n Σ w r
/// SNIPS   Σ w r / Σ w
/// DR      1/n Σ [ v(x) + w (r - q(x, a)) ],   v(x) = Σ_k π(k|x) q(x, k)
/// ```
///
/// with q a model of the reward. IPS has no bias if p is right and above 0 wherever π is; SNIPS has one of order 1/n, a
/// smaller spread, and moves with rewards that are shifted; DR has none if p or q is right, and a small spread if q is good.
/// Errors are those of a mean, for SNIPS by the delta method.
///
/// **Source.** Horvitz, Thompson: *A Generalization of Sampling Without Replacement From a Finite Universe*, JASA 1952;
/// Swaminathan, Joachims: *The Self-Normalized Estimator for Counterfactual Learning*, NIPS 2015; Dudík, Langford, Li: *Doubly
/// Robust Policy Evaluation and Learning*, ICML 2011. Weights are clipped as by Ionides: *Truncated Importance Sampling*, JCGS 2008.
///
/// **Cost.** About 40 flops a line, 100 bytes in all.
///
/// ```
/// use mpquic_bandit::{ArmSet, Draw, Epsilon, OffPolicy};
///
/// // Logged: arm 0 nine times of ten. What does arm 1 alone bring?
/// let (logger, mut draw) = (Epsilon::new(0.2), Draw::new(1));
/// let mut judged = OffPolicy::new();
/// for _ in 0..10_000 {
///     let choice = logger.choose(0, ArmSet::first_of(2), &mut draw).unwrap();
///     let reward = [0.3, 0.6][choice.arm];
///     judged.add(f64::from(choice.arm == 1), choice.probability, reward)?;
/// }
/// let (low, high) = judged.ips().interval(1.96);
/// assert!(low < 0.6 && 0.6 < high && high - low < 0.1);
/// assert!((judged.snips().value - 0.6).abs() < 1e-12); // All its rewards are equal.
/// # Ok::<(), mpquic_bandit::Refused>(())
/// ```
#[derive(Debug, Clone)]
pub struct OffPolicy {
    clip: f64,
    count: u64,
    ips: Mean,
    robust: Mean,
    modelled: Mean,
    weights: f64,
    /// Σ w², Σ w² r, Σ w² r².
    squares: [f64; 3],
    rewards: f64,
    largest: f64,
    refused: u64,
}

impl OffPolicy {
    /// No line yet; weights as they are.
    pub fn new() -> Self {
        Self::clipped(f64::INFINITY)
    }

    /// No line yet; a weight above `limit` counts as `limit`, which trades bias for spread. A limit that is not above 0 is none.
    pub fn clipped(limit: f64) -> Self {
        Self {
            clip: if limit > 0.0 { limit } else { f64::INFINITY },
            count: 0,
            ips: Mean::default(),
            robust: Mean::default(),
            modelled: Mean::default(),
            weights: 0.0,
            squares: [0.0; 3],
            rewards: 0.0,
            largest: 0.0,
            refused: 0,
        }
    }

    /// A line: the judged policy's probability of the logged arm, the logged probability, and the reward. Without a model,
    /// [`doubly_robust`](Self::doubly_robust) is [`ips`](Self::ips).
    ///
    /// # Errors
    ///
    /// [`Refused::Probability`] if `target` is not from 0 to 1 or `logged` not above 0 and at most 1; [`Refused::Reward`] if a
    /// reward is not finite or beyond 1e100 in size. Only [`refused`](Self::refused) changes then.
    pub fn add(&mut self, target: f64, logged: f64, reward: f64) -> Result<(), Refused> {
        self.add_modelled(target, logged, reward, 0.0, 0.0)
    }

    /// The same with what a model expects: `predicted` of the logged arm, q(x, a), and `expected` of the judged policy, v(x).
    ///
    /// # Errors
    ///
    /// As [`add`](Self::add).
    pub fn add_modelled(
        &mut self,
        target: f64,
        logged: f64,
        reward: f64,
        predicted: f64,
        expected: f64,
    ) -> Result<(), Refused> {
        // Not so for NaN either.
        let likely = (0.0..=1.0).contains(&target) && 0.0 < logged && logged <= 1.0;
        let sound = [reward, predicted, expected].map(crate::ucb::check_reward);
        let wrong = if likely {
            sound.into_iter().find_map(Result::err)
        } else {
            Some(Refused::Probability)
        };
        if let Some(why) = wrong {
            self.refused += 1;
            return Err(why);
        }
        self.count += 1;
        let (weight, count) = ((target / logged).min(self.clip), self.count as f64);
        self.ips.add(weight * reward, count);
        self.modelled.add(expected, count);
        self.robust
            .add(expected + weight * (reward - predicted), count);
        self.weights += weight;
        self.rewards += weight * reward;
        self.largest = self.largest.max(weight);
        for (power, sum) in self.squares.iter_mut().enumerate() {
            *sum += weight * weight * Float::powi(reward, power as i32);
        }
        Ok(())
    }

    /// How many lines there were.
    pub const fn lines(&self) -> u64 {
        self.count
    }

    /// By inverse propensities; 0 without a line.
    pub fn ips(&self) -> Estimate {
        self.ips.estimate(self.count as f64)
    }

    /// Self-normalised; 0 with an infinite error if the judged policy takes none of the logged arms.
    pub fn snips(&self) -> Estimate {
        if self.weights <= 0.0 {
            return Estimate {
                value: 0.0,
                error: f64::INFINITY,
            };
        }
        let value = self.rewards / self.weights;
        let [w, wr, wrr] = self.squares;
        let residuals = (wrr - 2.0 * value * wr + value * value * w).max(0.0);
        Estimate {
            value,
            error: Float::sqrt(residuals) / self.weights,
        }
    }

    /// Doubly robust.
    pub fn doubly_robust(&self) -> Estimate {
        self.robust.estimate(self.count as f64)
    }

    /// What the model alone expects (the direct method), as good as the model.
    pub fn direct(&self) -> Estimate {
        self.modelled.estimate(self.count as f64)
    }

    /// (Σ w)² / Σ w²: how many lines of equal weight would say as much (Kish, 1965). Few say that the policies are too
    /// different to judge one by the other's log.
    pub fn effective_lines(&self) -> f64 {
        if self.squares[0] > 0.0 {
            self.weights * self.weights / self.squares[0]
        } else {
            0.0
        }
    }

    /// The largest weight of a line.
    pub const fn largest_weight(&self) -> f64 {
        self.largest
    }

    /// How many lines were refused.
    pub const fn refused(&self) -> u64 {
        self.refused
    }
}

impl Default for OffPolicy {
    fn default() -> Self {
        Self::new()
    }
}
