//! The two kinds of floating-point number a linear bandit computes with.

use core::fmt::Debug;
use core::ops::{AddAssign, MulAssign, SubAssign};

use num_traits::Float;

mod sealed {
    pub trait Sealed {}
    impl Sealed for f32 {}
    impl Sealed for f64 {}
}

/// `f32` or `f64`.
///
/// The statistics that a model sums up are `f64` for both: a sum of `f32` stands still after 2^24
/// equal terms. What is computed from them at each decision is of this type.
pub trait Real:
    sealed::Sealed + Float + AddAssign + SubAssign + MulAssign + Debug + Default + Send + Sync + 'static
{
    /// The largest Euclidean norm of a context, and the largest magnitude of a reward, that is
    /// learned from: 2^480 for `f64`, 2^40 for `f32`. Products of two of them, summed 2^40 times,
    /// and the inverses of such sums, are still normal numbers.
    const LIMIT: Self;

    /// What counts as nothing once it has faded: 2^-480 for `f64`, 2^-80 for `f32`.
    const TINY: Self;

    /// Of this value, rounded to this type.
    fn of(value: f64) -> Self;

    /// This value; exact.
    fn wide(self) -> f64;
}

impl Real for f64 {
    const LIMIT: Self = Self::from_bits((1023 + 480) << 52);
    const TINY: Self = Self::from_bits((1023 - 480) << 52);

    #[inline(always)]
    fn of(value: f64) -> Self {
        value
    }

    #[inline(always)]
    fn wide(self) -> f64 {
        self
    }
}

impl Real for f32 {
    const LIMIT: Self = Self::from_bits((127 + 40) << 23);
    const TINY: Self = Self::from_bits((127 - 80) << 23);

    #[inline(always)]
    fn of(value: f64) -> Self {
        value as Self
    }

    #[inline(always)]
    fn wide(self) -> f64 {
        f64::from(self)
    }
}

/// a·b, in four partial sums: four times shorter a chain of additions than one sum.
#[inline(always)]
pub(crate) fn dot<T: Real, const D: usize>(a: &[T; D], b: &[T; D]) -> T {
    let mut sums = [T::zero(); 4];
    for (i, (&a, &b)) in a.iter().zip(b).enumerate() {
        sums[i % 4] += a * b;
    }
    (sums[0] + sums[2]) + (sums[1] + sums[3])
}

/// [`dot`] without the zero at the head of each sum, an addition less to wait for. A sum of nothing but -0 may be -0.
#[inline(always)]
pub(crate) fn dot_at_once<T: Real, const D: usize>(a: &[T; D], b: &[T; D]) -> T {
    let mut sums = [T::zero(); 4];
    for (i, (&a, &b)) in a.iter().zip(b).enumerate() {
        let sum = &mut sums[i % 4];
        *sum = if i < 4 { a * b } else { *sum + a * b };
    }
    (sums[0] + sums[2]) + (sums[1] + sums[3])
}

/// M x for a symmetric M, as a sum of its rows scaled: no sum runs across a vector register.
#[inline(always)]
pub(crate) fn times<T: Real, const D: usize>(m: &[[T; D]; D], x: &[T; D]) -> [T; D] {
    let mut product = [T::zero(); D];
    for (row, &x) in m.iter().zip(x) {
        for (sum, &m) in product.iter_mut().zip(row) {
            *sum += m * x;
        }
    }
    product
}

/// [`times`] in the way of [`dot_at_once`].
#[inline(always)]
pub(crate) fn times_at_once<T: Real, const D: usize>(m: &[[T; D]; D], x: &[T; D]) -> [T; D] {
    let mut product = m[0].map(|m| m * x[0]);
    for (row, &x) in m[1..].iter().zip(&x[1..]) {
        for (sum, &m) in product.iter_mut().zip(row) {
            *sum += m * x;
        }
    }
    product
}

/// M + x x'.
#[inline(always)]
pub(crate) fn add_square<T: Real, const D: usize>(m: &mut [[T; D]; D], x: &[T; D]) {
    for (row, &xi) in m.iter_mut().zip(x).take(rows::<D>()) {
        for (m, &xj) in row.iter_mut().zip(x) {
            *m += xi * xj;
        }
    }
}

/// D, which the compiler does not know of. A loop over that many rows stays a loop whose body, one
/// row, is made of vector instructions. Unrolled, a symmetric product x_i x_j would be recognised
/// as x_j x_i, computed once, and everything be done number by number.
#[inline(always)]
pub(crate) fn rows<const D: usize>() -> usize {
    core::hint::black_box(D)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_powers_of_two() {
        assert_eq!(<f64 as Real>::LIMIT, 2_f64.powi(480));
        assert_eq!(<f32 as Real>::LIMIT, 2_f32.powi(40));
        assert_eq!(<f64 as Real>::TINY, 2_f64.powi(-480));
        assert_eq!(<f32 as Real>::TINY, 2_f32.powi(-80));
        assert!((<f32 as Real>::LIMIT * <f32 as Real>::LIMIT).is_normal());
    }
}
