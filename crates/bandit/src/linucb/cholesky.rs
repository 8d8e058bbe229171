//! Cholesky's factorisation of a small symmetric positive definite matrix, and what is solved with
//! it; knows nothing of bandits. All of it reads lower triangles only, in `f64`.

use num_traits::Float;

/// The smallest pivot, as a share of the trace, with which a matrix counts as positive definite.
/// Rounding in the factorisation itself is of the order of D·2^-52 (Higham, *Accuracy and Stability
/// of Numerical Algorithms*, 2nd ed., theorem 10.3); the margin of 2^11 is for the inverse, which is
/// brought forward for some hundreds of updates by formulas that round, too.
const SMALLEST_PIVOT: f64 = 1.0 / (1_u64 << 41) as f64;

/// L of A = L L', with the reciprocals of its diagonal in the diagonal's place.
#[derive(Debug)]
pub(crate) struct Factor<const D: usize>([[f64; D]; D]);

impl<const D: usize> Factor<D> {
    /// The factor of the matrix with this lower triangle. `None` if that is not positive definite, or
    /// not by a margin that survives rounding.
    ///
    /// D³/3 flops.
    pub(crate) fn of(a: &[[f64; D]; D]) -> Option<Self> {
        let trace: f64 = (0..D).map(|i| a[i][i]).sum();
        let smallest = trace * SMALLEST_PIVOT;
        let mut l = [[0.0; D]; D];
        for i in 0..D {
            for j in 0..=i {
                let mut rest = a[i][j];
                for k in 0..j {
                    rest -= l[i][k] * l[j][k];
                }
                if i == j {
                    // Not `rest <= smallest`: NaN must fail.
                    if !(rest > smallest && rest < f64::INFINITY) {
                        return None;
                    }
                    l[i][i] = 1.0 / Float::sqrt(rest);
                } else {
                    l[i][j] = rest * l[j][j];
                }
            }
        }
        Some(Self(l))
    }

    /// A^-1 b by two triangular systems: 2 D² flops.
    pub(crate) fn solve(&self, b: &[f64; D]) -> [f64; D] {
        let l = &self.0;
        let mut y = *b;
        for i in 0..D {
            for k in 0..i {
                y[i] -= l[i][k] * y[k];
            }
            y[i] *= l[i][i];
        }
        for i in (0..D).rev() {
            for k in i + 1..D {
                y[i] -= l[k][i] * y[k];
            }
            y[i] *= l[i][i];
        }
        y
    }

    /// The lower triangle of A^-1 = L^-T L^-1: 2 D³/3 flops.
    pub(crate) fn inverse(&self) -> [[f64; D]; D] {
        let l = &self.0;
        // L^-1, column by column.
        let mut m = [[0.0; D]; D];
        for j in 0..D {
            m[j][j] = l[j][j];
            for i in j + 1..D {
                let mut sum = 0.0;
                for k in j..i {
                    sum += l[i][k] * m[k][j];
                }
                m[i][j] = -sum * l[i][i];
            }
        }
        let mut inverse = [[0.0; D]; D];
        for i in 0..D {
            for j in 0..=i {
                inverse[i][j] = (i..D).map(|k| m[k][i] * m[k][j]).sum();
            }
        }
        inverse
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn worked_out_by_hand() {
        // A = [4 2; 2 5] = L L' with L = [2 0; 1 2]; A^-1 = [5 -2; -2 4]/16.
        let factor = Factor::of(&[[4.0, f64::NAN], [2.0, 5.0]]).unwrap();
        assert_eq!(factor.0, [[0.5, 0.0], [1.0, 0.5]]);
        assert_eq!(factor.solve(&[8.0, 8.0]), [1.5, 1.0]);
        let inverse = factor.inverse();
        assert_eq!(
            (inverse[0][0], inverse[1][0], inverse[1][1]),
            (5.0 / 16.0, -2.0 / 16.0, 4.0 / 16.0)
        );
    }

    #[test]
    fn what_is_not_positive_definite() {
        for bad in [
            [[1.0, 0.0], [1.0, 1.0]],
            [[1.0, 0.0], [2.0, 1.0]],
            [[0.0, 0.0], [0.0, 1.0]],
            [[1.0, 0.0], [0.0, 1e-13]],
            [[f64::NAN, 0.0], [0.0, 1.0]],
            [[f64::INFINITY, 0.0], [0.0, 1.0]],
            [[1.0, 0.0], [f64::NAN, 1.0]],
        ] {
            assert!(Factor::of(&bad).is_none(), "{bad:?}");
        }
    }
}
