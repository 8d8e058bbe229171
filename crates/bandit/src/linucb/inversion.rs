//! The inverse of a small symmetric positive definite matrix.

use num_traits::Float;

use super::real::rows;

/// The smallest pivot, as a share of the diagonal element it started as, with which a matrix counts as
/// positive definite: about the rounding of the elimination itself, D·2^-52. Being relative to each
/// element, it does not depend on the units of the features (Demmel, 1989; Higham, *Accuracy and
/// Stability of Numerical Algorithms*, 2nd ed., theorem 10.7).
const SMALLEST_PIVOT: f64 = 1.0 / (1_u64 << 48) as f64;

/// A^-1 of the symmetric matrix with this lower triangle, symmetric to the last bit; `None` if the matrix is
/// not positive definite.
///
/// By Cholesky's factorisation A = L L', in the order that changes what is left of A after each column,
/// then L^-1, row by row from those above, then A^-1 = L^-T L^-1, as a sum of the squares of the rows
/// of L^-1, so that it is positive definite by form. 3 D³ flops, three times those of the usual order, but on
/// whole rows: no sum waits for its last term.
pub(super) fn inverse<const D: usize>(lower: &[[f64; D]; D]) -> Option<[[f64; D]; D]> {
    // Of what is left of A the upper triangle is looked at, and becomes L'.
    let mut rest = [[0.0; D]; D];
    for i in 0..D {
        for j in 0..=i {
            rest[j][i] = lower[i][j];
        }
    }
    // L^-1.
    let mut m = [[0.0; D]; D];
    let mut inverse = [[0.0; D]; D];
    for k in 0..rows::<D>() {
        let pivot = rest[k][k];
        // NaN is not greater than anything.
        if !(pivot > lower[k][k] * SMALLEST_PIVOT && pivot < f64::INFINITY) {
            return None;
        }
        let scale = 1.0 / Float::sqrt(pivot);
        let column = rest[k].map(|value| value * scale);
        m[k][k] += 1.0;
        let row = m[k].map(|value| value * scale);
        for i in k + 1..D {
            take(&mut rest[i], column[i], &column);
            take(&mut m[i], column[i], &row);
        }
        for i in 0..=k {
            take(&mut inverse[i], -row[i], &row);
        }
    }
    Some(inverse)
}

/// y - a x.
#[inline(always)]
fn take<const D: usize>(y: &mut [f64; D], a: f64, x: &[f64; D]) {
    for (y, x) in y.iter_mut().zip(x) {
        *y -= a * x;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn worked_out_by_hand() {
        // The upper triangle is not looked at.
        let inverse = inverse(&[[4.0, f64::NAN], [2.0, 5.0]]).unwrap();
        assert_eq!(inverse, [[0.3125, -0.125], [-0.125, 0.25]]);
    }

    #[test]
    fn units_do_not_matter() {
        assert!(inverse(&[[1e30, 0.0], [1.0, 1e-20]]).is_some());
    }

    #[test]
    fn what_is_not_positive_definite() {
        for bad in [
            [[1.0, 0.0], [1.0, 1.0]],
            [[1.0, 0.0], [2.0, 1.0]],
            [[0.0, 0.0], [0.0, 1.0]],
            [[1.0, 0.0], [1.0, 1.0 + 1e-15]],
            [[f64::NAN, 0.0], [0.0, 1.0]],
            [[f64::INFINITY, 0.0], [0.0, 1.0]],
            [[1.0, 0.0], [f64::NAN, 1.0]],
        ] {
            assert!(inverse(&bad).is_none(), "{bad:?}");
        }
    }
}
