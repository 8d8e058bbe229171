//! Ridge regression of one arm, brought forward a sample at a time.

use core::hint::black_box;

use super::inversion;
use super::real::{Real, dot, dot_at_once, times, times_at_once};
use crate::Refused;

/// An update with x'A^-1x above this re-inverts at once: Sherman–Morrison subtracts q/(1 + q) of
/// what A^-1 has in the direction of x, which loses log2(1 + q) bits there. Over t updates with
/// |x| ≤ L there are at most D ln(1 + t L²/(D λ)) / ln(1 + 1024) such updates, because the
/// determinant of A grows by 1 + q in each (Abbasi-Yadkori, Pál, Szepesvári: *Improved Algorithms
/// for Linear Stochastic Bandits*, NIPS 2011, lemma 11).
const STEEP: f64 = 1024.0;

/// The largest A_ii (A^-1)_ii that is let be: how much larger the variance of θ_i is than it would be
/// without the other features (the variance inflation factor of Marquardt, 1970; free of units). The
/// 2^11 that are left of an `f64` are for the updates until the next re-inversion.
const INFLATED: f64 = (1_u64 << 41) as f64;

/// By which share of itself the diagonal of A is raised when rounding has eaten the regulariser.
const RAISE: f64 = 1.0 / (1_u64 << 40) as f64;

/// A = λI + Σ x x', b = Σ r x, A^-1 and θ = A^-1 b of the samples (x, r) of one arm.
///
/// A and b are `f64` sums, A by its lower triangle. A^-1 and θ follow each sample by the formulas of
/// Sherman and Morrison, and are computed from A and b anew every so many samples.
#[derive(Debug, Clone)]
#[repr(align(16))]
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
pub(crate) struct Regression<T, const D: usize> {
    #[cfg_attr(feature = "serde", serde(with = "super::snapshot::lower"))]
    pub(super) gram: [[f64; D]; D],
    #[cfg_attr(feature = "serde", serde(with = "super::snapshot::array"))]
    pub(super) moments: [f64; D],
    #[cfg_attr(feature = "serde", serde(with = "super::snapshot::triangle"))]
    pub(super) inverse: [[T; D]; D],
    #[cfg_attr(feature = "serde", serde(with = "super::snapshot::array"))]
    pub(super) theta: [T; D],
    /// Samples since A^-1 was computed from A.
    pub(super) since: u32,
}

/// How many elements of row i of A are kept: those up to the diagonal, rounded up to a whole register of
/// two; the rest is zero.
#[inline(always)]
pub(super) fn kept<const D: usize>(i: usize) -> usize {
    (i / 2 * 2 + 2).min(D)
}

/// θ·x and sqrt(x' A^-1 x).
#[derive(Debug, Clone, Copy)]
pub(crate) struct Estimate<T> {
    pub(crate) mean: T,
    pub(crate) deviation: T,
}

impl<T: Real, const D: usize> Regression<T, D> {
    pub(crate) fn new(ridge: f64) -> Self {
        Self::diagonal(&[ridge; D])
    }

    /// No samples, and this diagonal for A.
    pub(crate) fn diagonal(ridge: &[f64; D]) -> Self {
        let mut gram = [[0.0; D]; D];
        let mut inverse = [[T::zero(); D]; D];
        for i in 0..D {
            gram[i][i] = ridge[i];
            inverse[i][i] = T::of(1.0 / ridge[i]);
        }
        Self {
            gram,
            moments: [0.0; D],
            inverse,
            theta: [T::zero(); D],
            since: 0,
        }
    }

    #[inline(always)]
    pub(crate) fn mean(&self, x: &[T; D]) -> T {
        dot(&self.theta, x)
    }

    #[inline(always)]
    pub(crate) fn estimate(&self, x: &[T; D]) -> Estimate<T> {
        let q = dot(&times(&self.inverse, x), x);
        // In `f32`, and in a direction seen a million times more often than others, rounding can
        // bring q below zero.
        let q = if q > T::zero() { q } else { T::zero() };
        Estimate {
            mean: self.mean(x),
            deviation: q.sqrt(),
        }
    }

    /// Whether a sample can be learned from: finite, and not beyond [`Real::LIMIT`].
    #[inline(always)]
    pub(crate) fn fit(x: &[T; D], reward: T) -> Result<(), Refused> {
        // No range contains NaN.
        if !(-T::LIMIT..=T::LIMIT).contains(&reward) {
            return Err(Refused::Reward);
        }
        if !(T::zero()..=T::LIMIT * T::LIMIT).contains(&dot(x, x)) {
            return Err(Refused::Context);
        }
        Ok(())
    }

    /// Takes one sample in, or refuses it without a trace.
    #[inline(always)]
    pub(crate) fn update(&mut self, x: &[T; D], reward: T, every: u32) -> Result<(), Refused> {
        Self::fit(x, reward)?;
        self.since += 1;
        self.absorb(x, reward, self.since >= every);
        Ok(())
    }

    /// Takes one sample in that is [fit](Self::fit); computes A^-1 anew if that is due.
    #[inline(always)]
    pub(crate) fn absorb(&mut self, x: &[T; D], reward: T, due: bool) {
        // Written down and read again: the compiler does not know that x_i x_j is x_j x_i, which it would compute once,
        // and then everything number by number. So it works in vectors, row by row.
        let again = black_box(*x);
        let v = times_at_once(&self.inverse, &again);
        let v_again = black_box(v);
        let wide: [f64; D] = core::array::from_fn(|i| x[i].wide());
        for i in 0..D {
            for j in 0..kept::<D>(i) {
                self.gram[i][j] += again[i].wide() * wide[j];
            }
        }
        for (moment, x) in self.moments.iter_mut().zip(wide) {
            *moment += reward.wide() * x;
        }
        let q = dot_at_once(&v, x);
        // q is not negative but for rounding; -1/2 would be a broken A^-1.
        if due || !(T::of(-0.5)..=T::of(STEEP)).contains(&q) {
            self.reinvert();
            return;
        }
        let loss = -T::one() / (T::one() + q);
        let step = (reward - self.mean(x)) * -loss;
        for (theta, v) in self.theta.iter_mut().zip(v) {
            *theta += v * step;
        }
        for (row, &vi) in self.inverse.iter_mut().zip(&v_again) {
            for (element, &vj) in row.iter_mut().zip(&v) {
                // In this order A^-1 stays symmetric to the last bit, and the products do not wait
                // for the division.
                *element += (vi * vj) * loss;
            }
            // No vector goes on in the next row: rows are what is read next.
            black_box(());
        }
    }

    /// A^-1 and θ from A and b.
    ///
    /// Where A is not positive definite by a margin that survives rounding (contexts along a line, and
    /// so many or so large that the regulariser is 2^-41 of the sum), its diagonal is raised by a
    /// share of 2^-40 until it is: a larger regulariser, in the units of each feature.
    #[cold]
    #[inline(never)]
    pub(crate) fn reinvert(&mut self) {
        let Some(inverse) = self.invert() else {
            // Not with finite sums, which LIMIT sees to.
            return;
        };
        self.inverse = inverse.map(|row| row.map(T::of));
        // What the inverse loses to rounding is made up for by a step of refinement.
        let theta = times(&inverse, &self.moments);
        let rest = core::array::from_fn(|i| {
            let element = |k: usize| self.gram[i.max(k)][i.min(k)];
            self.moments[i] - (0..D).map(|k| element(k) * theta[k]).sum::<f64>()
        });
        let correction = times(&inverse, &rest);
        self.theta = core::array::from_fn(|i| T::of(theta[i] + correction[i]));
        self.since = 0;
    }

    fn invert(&mut self) -> Option<[[f64; D]; D]> {
        let mut raise = RAISE;
        // The last raises make the diagonal dominate.
        for _ in 0..12 {
            if let Some(inverse) = inversion::inverse(&self.gram)
                && (0..D).all(|i| self.gram[i][i] * inverse[i][i] <= INFLATED)
            {
                return Some(inverse);
            }
            for i in 0..D {
                self.gram[i][i] += raise * self.gram[i][i];
            }
            raise *= 16.0;
        }
        None
    }

    /// Adds the A and b of another to these; A^-1 and θ wait for [`Self::divide`].
    pub(crate) fn add(&mut self, other: &Self) {
        for i in 0..D {
            for j in 0..kept::<D>(i) {
                self.gram[i][j] += other.gram[i][j];
            }
            self.moments[i] += other.moments[i];
        }
    }

    /// A and b over `count`, with the A^-1 and θ that belong to them.
    pub(crate) fn divide(&mut self, count: f64) {
        for i in 0..D {
            for j in 0..kept::<D>(i) {
                self.gram[i][j] /= count;
            }
            self.moments[i] /= count;
        }
        self.reinvert();
    }
}

#[cfg(feature = "serde")]
impl<T: Real, const D: usize> Default for Regression<T, D> {
    fn default() -> Self {
        Self::new(1.0)
    }
}
