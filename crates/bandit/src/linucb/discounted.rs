//! LinUCB with forgetting: older samples weigh less, for rewards that drift.

use num_traits::Float;

use super::config::DiscountedLinUcbConfig;
use super::largest;
use super::real::{Real, add_square, dot, rows, times};
use super::regression::{Estimate, Regression, kept};
use crate::Refused;

/// D-LinUCB: [`LinUcb`](crate::LinUcb) in which every update of any arm makes what all arms have seen
/// before weigh γ times as much.
///
/// **Rule.** At step t an arm has V = Σ γ^(t-s) x x' + Λ, W = Σ γ^(2(t-s)) x x' + Λ₂ and
/// b = Σ γ^(t-s) r x over its samples (x, r) of steps s, and θ = V^-1 b. The arm with the largest
/// θ·x + α sqrt(x' V^-1 W V^-1 x) is chosen, the lowest of equals. The uncertainty of an arm that
/// is not chosen grows with time up to its initial value, so the arm is tried again.
///
/// **Source.** Russac, Vernade, Cappé: *Weighted Linear Bandits for Non-Stationary Environments*,
/// NeurIPS 2019, algorithm 1 and eq. 5, with an independent model for each arm (a context of K D
/// features of which an arm sees its own D). With Γ breaks in T steps they take
/// γ = 1 - (Γ / (D T))^(2/3).
///
/// **The regulariser** must not be forgotten, or V would become singular in directions no longer
/// seen. The paper has Λ = Λ₂ = λI, by adding (1 - γ) λI at each step, a change of full rank which
/// would cost an inversion, D³, per step. Here each step gives back one coordinate, in turn, what D
/// steps have taken from it: λ (1 - γ^D) to one element of V's diagonal, λ (1 - γ^(2D)) of W's. That
/// is of rank one, and V^-1 follows exactly, by Sherman and Morrison, without a product with V^-1.
/// So Λ is diagonal with the elements λ γ^j, j = 0 .. D-1, each step another permutation, and Λ₂ has
/// their squares over λ: never above λ, never below λ γ^(D-1) (for γ = 0.99, D = 6: 0.951 λ). V is
/// positive definite at all times, and W ⪯ V as in the paper, so that the bonus is at most that of
/// [`LinUcb`](crate::LinUcb) on the same V.
///
/// **Cost.** A choice: K (4D² + 7D) flops. An update: about 6D² flops for each of the K arms, which
/// all forget, and 8D² for the one that learns. Re-inversion as in [`LinUcb`](crate::LinUcb); the
/// arms take turns at it, and it comes at the latest when a sample has faded by 2^-20. Numbers that
/// have faded below 2^-480 (`f32`: 2^-80) become zero at that time, before they could become
/// subnormal and slow. Nothing is allocated.
///
/// **Refused** is what [`LinUcb`](crate::LinUcb) refuses; nothing is forgotten for it.
///
/// ```
/// use mpquic_bandit::{DiscountedLinUcb, DiscountedLinUcbConfig};
///
/// let config = DiscountedLinUcbConfig { discount: 0.9, ..Default::default() };
/// let mut bandit = DiscountedLinUcb::<f64, 1, 2>::new(&config);
/// for _ in 0..50 {
///     bandit.update(0, &[1.0], 1.0)?;
/// }
/// let before = bandit.means(&[1.0])[0];
/// assert!(before > 0.9);
/// for _ in 0..50 {
///     bandit.update(1, &[1.0], 0.5)?;
/// }
/// // Arm 0 has faded.
/// assert!(bandit.means(&[1.0])[0] < 0.1);
/// # Ok::<(), mpquic_bandit::Refused>(())
/// ```
#[derive(Debug, Clone)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(
        try_from = "super::snapshot::ReadDiscounted<T, D, K>",
        bound(
            serialize = "T: Real + serde::Serialize",
            deserialize = "T: Real + serde::de::DeserializeOwned"
        )
    )
)]
pub struct DiscountedLinUcb<T, const D: usize, const K: usize> {
    #[cfg_attr(feature = "serde", serde(with = "super::snapshot::array"))]
    arms: [Fading<T, D>; K],
    config: DiscountedLinUcbConfig,
    /// The coordinate whose regulariser is restored next.
    turn: usize,
    refused: u64,
    #[cfg_attr(feature = "serde", serde(skip))]
    forgetting: Forgetting<T>,
}

/// The regression of one arm, and W.
#[derive(Debug, Clone)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(
        deny_unknown_fields,
        bound(
            serialize = "T: Real + serde::Serialize",
            deserialize = "T: Real + serde::de::DeserializeOwned"
        )
    )
)]
pub(crate) struct Fading<T, const D: usize> {
    pub(super) regression: Regression<T, D>,
    #[cfg_attr(feature = "serde", serde(with = "super::snapshot::triangle"))]
    pub(super) squares: [[T; D]; D],
}

/// What of the settings an update needs, worked out in advance.
#[derive(Debug, Clone, Default)]
struct Forgetting<T> {
    /// γ and λ (1 - γ^D).
    wide: (f64, f64),
    /// 1/γ and λ (1 - γ^D).
    inverse: (T, T),
    /// γ² and λ (1 - γ^(2D)).
    squares: (T, T),
    /// Updates between re-inversions.
    every: u32,
}

impl<T: Real> Forgetting<T> {
    fn new<const D: usize>(config: &DiscountedLinUcbConfig) -> Self {
        let DiscountedLinUcbConfig {
            ridge,
            discount,
            reinvert_every,
        } = *config;
        let squared = discount * discount;
        let fresh = ridge * (1.0 - discount.powi(D as i32));
        // γ^every is to stay above 2^-20.
        let faded = 20.0 * core::f64::consts::LN_2 / -Float::ln(discount);
        Self {
            wide: (discount, fresh),
            inverse: (T::of(1.0 / discount), T::of(fresh)),
            squares: (
                T::of(squared),
                T::of(ridge * (1.0 - squared.powi(D as i32))),
            ),
            every: reinvert_every.min(faded.max(1.0) as u32),
        }
    }
}

impl<T: Real, const D: usize> Fading<T, D> {
    /// An arm whose last re-inversion is made out to be `since` updates ago.
    fn new(ridge: f64, discount: f64, since: u32) -> Self {
        // As if the coordinates had had their turns, the first one longest ago.
        let ages = core::array::from_fn(|i| (D - 1 - i) as i32);
        let diagonal = ages.map(|age| ridge * discount.powi(age));
        let mut squares = [[T::zero(); D]; D];
        for i in 0..D {
            squares[i][i] = T::of(ridge * (discount * discount).powi(ages[i]));
        }
        let mut regression = Regression::diagonal(&diagonal);
        regression.since = since;
        Self {
            regression,
            squares,
        }
    }

    #[inline(always)]
    fn estimate(&self, x: &[T; D]) -> Estimate<T> {
        let v = times(&self.regression.inverse, x);
        let q = dot(&times(&self.squares, &v), &v);
        let q = if q > T::zero() { q } else { T::zero() };
        Estimate {
            mean: self.regression.mean(x),
            deviation: q.sqrt(),
        }
    }

    /// One step of forgetting, in which coordinate `turn` gets its regulariser back.
    #[inline(never)]
    fn fade(&mut self, by: &Forgetting<T>, turn: usize) {
        let Regression {
            gram,
            moments,
            inverse,
            theta,
            since,
        } = &mut self.regression;
        let (discount, fresh) = by.wide;
        for i in 0..D {
            for j in 0..kept::<D>(i) {
                gram[i][j] *= discount;
            }
            moments[i] *= discount;
        }
        for row in self.squares.iter_mut().take(rows::<D>()) {
            for square in row {
                *square *= by.squares.0;
            }
        }
        gram[turn][turn] += fresh;
        self.squares[turn][turn] += by.squares.1;

        // V^-1/γ, and then Sherman and Morrison with x = sqrt(c) e and reward 0: V^-1 e is a column.
        let (grown, fresh) = by.inverse;
        let v = inverse[turn].map(|value| value * grown);
        let gain = fresh / (T::one() + fresh * v[turn]);
        let step = theta[turn] * gain;
        for (theta, v) in theta.iter_mut().zip(v) {
            *theta -= v * step;
        }
        for (row, &vi) in inverse.iter_mut().zip(&v).take(rows::<D>()) {
            for (element, &vj) in row.iter_mut().zip(&v) {
                *element = *element * grown - (vi * vj) * gain;
            }
        }
        *since += 1;
    }

    /// Computes V^-1 and θ anew, and drops what has faded away.
    #[cold]
    #[inline(never)]
    fn renew(&mut self) {
        fn drop_faded<T: Real>(value: &mut T, tiny: T) {
            if value.abs() < tiny {
                *value = T::zero();
            }
        }
        let model = &mut self.regression;
        for i in 0..D {
            for j in 0..D {
                drop_faded(&mut model.gram[i][j], T::TINY.wide());
                drop_faded(&mut self.squares[i][j], T::TINY);
            }
            drop_faded(&mut model.moments[i], T::TINY.wide());
        }
        model.reinvert();
        for i in 0..D {
            for j in 0..D {
                drop_faded(&mut model.inverse[i][j], T::TINY);
            }
            drop_faded(&mut model.theta[i], T::TINY);
        }
    }
}

#[cfg(feature = "serde")]
impl<T: Real, const D: usize> Default for Fading<T, D> {
    fn default() -> Self {
        Self::new(1.0, 0.5, 0)
    }
}

impl<T: Real, const D: usize, const K: usize> DiscountedLinUcb<T, D, K> {
    /// A model that has seen nothing.
    ///
    /// # Panics
    ///
    /// If the settings do not pass [`DiscountedLinUcbConfig::check`], or there are no arms or no
    /// features.
    pub fn new(config: &DiscountedLinUcbConfig) -> Self {
        const { assert!(D > 0 && K > 0) };
        if let Err(wrong) = config.check() {
            panic!("{wrong}");
        }
        let forgetting = Forgetting::new::<D>(config);
        // So that no two arms re-invert in one update.
        let since = |arm| (arm as u64 * u64::from(forgetting.every) / K as u64) as u32;
        Self {
            arms: core::array::from_fn(|arm| {
                Fading::new(config.ridge, config.discount, since(arm))
            }),
            config: config.clone(),
            turn: 0,
            refused: 0,
            forgetting,
        }
    }

    /// Of parts that are known to fit each other.
    #[cfg(feature = "serde")]
    pub(super) fn from_parts(
        arms: [Fading<T, D>; K],
        config: DiscountedLinUcbConfig,
        turn: usize,
        refused: u64,
    ) -> Self {
        Self {
            forgetting: Forgetting::new::<D>(&config),
            arms,
            config,
            turn,
            refused,
        }
    }

    /// The settings it was made with.
    pub fn config(&self) -> &DiscountedLinUcbConfig {
        &self.config
    }

    /// θ·x + α sqrt(x' V^-1 W V^-1 x) of each arm.
    #[inline]
    pub fn scores(&self, alpha: T, x: &[T; D]) -> [T; K] {
        core::array::from_fn(|arm| {
            let estimate = self.arms[arm].estimate(x);
            estimate.mean + alpha * estimate.deviation
        })
    }

    /// The arm with the largest score, the lowest of equals. Changes and counts nothing.
    #[inline]
    pub fn select(&self, alpha: T, x: &[T; D]) -> usize {
        largest(&self.scores(alpha, x))
    }

    /// θ·x of each arm.
    #[inline]
    pub fn means(&self, x: &[T; D]) -> [T; K] {
        core::array::from_fn(|arm| self.arms[arm].regression.mean(x))
    }

    /// Lets all arms forget a step, and learns that `arm` brought `reward` in context `x`.
    ///
    /// # Errors
    ///
    /// What is refused is counted; the model stays as it was.
    pub fn update(&mut self, arm: usize, x: &[T; D], reward: T) -> Result<(), Refused> {
        let fit = match arm < K {
            true => Regression::fit(x, reward),
            false => Err(Refused::Arm),
        };
        if fit.is_err() {
            self.refused += 1;
            return fit;
        }
        for fading in &mut self.arms {
            fading.fade(&self.forgetting, self.turn);
        }
        self.turn = if self.turn + 1 < D { self.turn + 1 } else { 0 };
        let chosen = &mut self.arms[arm];
        add_square(&mut chosen.squares, x);
        chosen.regression.absorb(x, reward, false);
        for fading in &mut self.arms {
            if fading.regression.since >= self.forgetting.every {
                fading.renew();
            }
        }
        Ok(())
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
        &self.arms[arm].regression.theta
    }

    /// V^-1, symmetric to the last bit.
    ///
    /// # Panics
    ///
    /// If there is no such arm.
    pub fn inverse(&self, arm: usize) -> &[[T; D]; D] {
        &self.arms[arm].regression.inverse
    }

    /// A model to start from: the mean of other models; `None` if there are none. The means
    /// are those of V, W and b, as in [`LinUcb::mean_of`](crate::LinUcb::mean_of); the settings, and
    /// whose turn it is, are the first one's.
    pub fn mean_of<'a>(mut models: impl Iterator<Item = &'a Self>) -> Option<Self> {
        let mut mean = models.next()?.clone();
        mean.refused = 0;
        let mut count = 1.0;
        for model in models {
            count += 1.0;
            for (sum, arm) in mean.arms.iter_mut().zip(&model.arms) {
                sum.regression.add(&arm.regression);
                for i in 0..D {
                    for j in 0..D {
                        sum.squares[i][j] += arm.squares[i][j];
                    }
                }
            }
        }
        for arm in &mut mean.arms {
            let since = arm.regression.since;
            arm.regression.divide(count);
            // The arms keep their turns at re-inversion.
            arm.regression.since = since;
            for row in &mut arm.squares {
                for square in row {
                    *square = *square / T::of(count);
                }
            }
        }
        Some(mean)
    }
}
