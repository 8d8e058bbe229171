//! LinUCB with an independent linear model for each arm; neither makes contexts nor settles rewards.
#![allow(
    clippy::needless_range_loop,
    reason = "the indices are those of the formulas, and most loops run over a triangle"
)]

mod config;
mod discounted;
mod inversion;
mod real;
mod regression;
#[cfg(feature = "serde")]
mod snapshot;

#[cfg(feature = "serde")]
pub(crate) use snapshot::array;

pub use config::{DiscountedLinUcbConfig, InvalidSetting, LinUcbConfig};
pub use discounted::DiscountedLinUcb;
pub use real::Real;

use regression::{Estimate, Regression};

use crate::Refused;
use crate::vectors::{Work, widest};

/// LinUCB: of K arms, the one with the largest upper confidence bound of a reward that is linear in
/// a context of D features.
///
/// **Rule.** For each arm, A = λI + Σ x x' and b = Σ r x over its samples (context x, reward r), and
/// θ = A^-1 b. The arm with the largest θ·x + α sqrt(x' A^-1 x) is chosen, the lowest of equals. θ·x
/// is in units of the reward, x' A^-1 x has none, so that α is in units of the reward. Before any
/// reward θ = 0 and all arms are equal: arm 0.
///
/// **Source.** Li, Chu, Langford, Schapire: *A Contextual-Bandit Approach to Personalized News
/// Article Recommendation*, WWW 2010, algorithm 1 (disjoint linear models), which inverts A at every
/// step, D³. Here A^-1 follows each sample (Sherman, Morrison, 1950; Hager: *Updating the Inverse of
/// a Matrix*, SIAM Review 1989, eq. 2): with v = A^-1 x and q = x·v, A^-1 loses v v'/(1 + q), and θ
/// gains v (r - θ·x)/(1 + q), the gain of recursive least squares. Each
/// [`reinvert_every`](LinUcbConfig::reinvert_every) samples of an arm both are computed from A and b
/// by Cholesky's factorisation, so that rounding does not add up. A and b are summed up in `f64`,
/// whatever `T` is. If contexts are so collinear that rounding would lose the regulariser, it is
/// raised to 2^-40 of A's diagonal.
///
/// **Cost.** A choice: K (2D² + 4D) flops. An update: 6D² + 10D flops; other arms are not touched. A
/// re-inversion: 3D³ + 6D² flops, within the update that it falls on, which then takes about ten
/// times as long as others. It falls also on an update with q > 1024, of which there are at most
/// D ln(1 + t L²/(Dλ)) / ln(1025) in t updates with |x| ≤ L. All this is the same however long the
/// model lives. Nothing is allocated.
///
/// **Refused** and counted are rewards and contexts that are not finite, and those so large
/// ([`Real::LIMIT`]) that x' A^-1 x or a sum of them might overflow.
///
/// **Snapshots**, with the feature `serde`: A, b, A^-1 and θ as they are, matrices by their lower
/// triangles, so that a model that is read goes on exactly as the one that was written. Reading fails,
/// and says why, on other dimensions, on what is not finite, on an A that is not positive definite,
/// and on an A^-1 or θ that is not that of A and b.
///
/// ```
/// use mpquic_bandit::{LinUcb, LinUcbConfig, Refused};
///
/// let mut bandit = LinUcb::<f64, 2, 2>::new(&LinUcbConfig::default());
/// let x = [1.0, 0.5];
/// assert_eq!(bandit.select(0.8, &x), 0); // Nothing is known: the lowest arm.
/// bandit.update(0, &x, 0.3)?;
/// assert_eq!(bandit.select(0.8, &x), 1); // The other one is less certain.
/// bandit.update(1, &x, 0.9)?;
/// assert_eq!(bandit.select(0.8, &x), 1);
///
/// assert_eq!(bandit.update(1, &x, f64::NAN), Err(Refused::Reward));
/// assert_eq!(bandit.refused(), 1);
/// # Ok::<(), Refused>(())
/// ```
#[derive(Debug, Clone)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(
        try_from = "snapshot::Read<T, D, K>",
        bound(
            serialize = "T: Real + serde::Serialize",
            deserialize = "T: Real + serde::de::DeserializeOwned"
        )
    )
)]
pub struct LinUcb<T, const D: usize, const K: usize> {
    #[cfg_attr(feature = "serde", serde(with = "snapshot::array"))]
    arms: [Regression<T, D>; K],
    reinvert_every: u32,
    refused: u64,
}

impl<T: Real, const D: usize, const K: usize> LinUcb<T, D, K> {
    /// A model that has seen nothing.
    ///
    /// # Panics
    ///
    /// If the settings do not pass [`LinUcbConfig::check`], or there are no arms or no features.
    pub fn new(config: &LinUcbConfig) -> Self {
        const { assert!(D > 0 && K > 0) };
        if let Err(wrong) = config.check() {
            panic!("{wrong}");
        }
        Self {
            arms: core::array::from_fn(|_| Regression::new(config.ridge)),
            reinvert_every: config.reinvert_every,
            refused: 0,
        }
    }

    /// θ·x + α sqrt(x' A^-1 x) of each arm.
    #[inline]
    pub fn scores(&self, alpha: T, x: &[T; D]) -> [T; K] {
        core::array::from_fn(|arm| {
            let estimate = self.arms[arm].estimate(x);
            estimate.mean + alpha * estimate.deviation
        })
    }

    /// The arm with the largest score, the lowest of equals. Changes and counts nothing. With a
    /// context that is not finite: arm 0, or whichever has a score that is a number.
    #[inline]
    pub fn select(&self, alpha: T, x: &[T; D]) -> usize {
        largest(&self.scores(alpha, x))
    }

    /// θ·x of each arm: what it is expected to bring, without a bonus for what is not known.
    #[inline]
    pub fn means(&self, x: &[T; D]) -> [T; K] {
        core::array::from_fn(|arm| self.arms[arm].mean(x))
    }

    /// θ·x and sqrt(x' A^-1 x) of an arm.
    #[inline(always)]
    pub(crate) fn estimate(&self, arm: usize, x: &[T; D]) -> Estimate<T> {
        self.arms[arm].estimate(x)
    }

    /// sqrt(x' A^-1 x) of each arm: how little is known of it at x.
    #[inline]
    pub fn deviations(&self, x: &[T; D]) -> [T; K] {
        core::array::from_fn(|arm| self.arms[arm].estimate(x).deviation)
    }

    /// Learns that `arm` brought `reward` in context `x`.
    ///
    /// # Errors
    ///
    /// What is refused is counted; the model stays as it was.
    #[inline]
    pub fn update(&mut self, arm: usize, x: &[T; D], reward: T) -> Result<(), Refused> {
        widest::<Update, _, _, _>((self, arm), x, reward)
    }

    /// How many updates were refused.
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// The estimated weight of each feature.
    ///
    /// # Panics
    ///
    /// If there is no such arm.
    pub fn theta(&self, arm: usize) -> &[T; D] {
        &self.arms[arm].theta
    }

    /// A^-1, symmetric to the last bit.
    ///
    /// # Panics
    ///
    /// If there is no such arm.
    pub fn inverse(&self, arm: usize) -> &[[T; D]; D] {
        &self.arms[arm].inverse
    }

    /// A model to start from where there is none yet: the mean of others; `None` of none.
    ///
    /// The mean is that of the A and of the b of each arm, and A^-1 and θ are computed from these: the
    /// model that has seen every sample of every model with a weight of one over their number. So
    /// the mean of models of ridge λ has ridge λ, it is as sure as they are on average, and a model
    /// that has seen much counts for more in θ than one that has seen little; a mean of the θ would
    /// give both the same say. It has refused nothing; it re-inverts as often as the first.
    ///
    /// Of n models: n K (D² + 2D) + K D³ flops.
    pub fn mean_of<'a>(mut models: impl Iterator<Item = &'a Self>) -> Option<Self> {
        let mut mean = models.next()?.clone();
        mean.refused = 0;
        let mut count = 1.0;
        for model in models {
            count += 1.0;
            for (sum, arm) in mean.arms.iter_mut().zip(&model.arms) {
                sum.add(arm);
            }
        }
        for arm in &mut mean.arms {
            arm.divide(count);
        }
        Some(mean)
    }
}

/// [`LinUcb::update`].
struct Update;

impl<T: Real, const D: usize, const K: usize> Work<(&mut LinUcb<T, D, K>, usize), &[T; D], T>
    for Update
{
    type Output = Result<(), Refused>;

    #[inline(always)]
    fn run((model, arm): (&mut LinUcb<T, D, K>, usize), x: &[T; D], reward: T) -> Self::Output {
        let every = model.reinvert_every;
        let done = match model.arms.get_mut(arm) {
            Some(regression) => regression.update(x, reward, every),
            None => Err(Refused::Arm),
        };
        if done.is_err() {
            model.refused += 1;
        }
        done
    }
}

/// The place of the largest value, the first of equals.
#[inline(always)]
pub(crate) fn largest<T: Real, const K: usize>(values: &[T; K]) -> usize {
    let mut best = 0;
    for k in 1..K {
        if values[k] > values[best] {
            best = k;
        }
    }
    best
}
