//! Cholesky's factorisation of a small symmetric positive definite matrix, and what is solved with
//! it; knows nothing of bandits. All of it reads lower triangles only, in `f64`.

use num_traits::Float;

/// The smallest pivot, as a share of the diagonal element it started as, with which a matrix counts as
/// positive definite: about the rounding of the factorisation itself, D·2^-52. Being relative to
/// each element, it does not depend on the units of the features (Demmel, 1989; Higham, *Accuracy and
/// Stability of Numerical Algorithms*, 2nd ed., theorem 10.7).
const SMALLEST_PIVOT: f64 = 1.0 / (1_u64 << 48) as f64;

/// L of A = L L', with the reciprocals of its diagonal in the diagonal's place.
#[derive(Debug)]
pub(crate) struct Factor<const D: usize>([[f64; D]; D]);

impl<const D: usize> Factor<D> {
    /// The factor of the matrix with this lower triangle; `None` if that is not positive definite.
    ///
    /// D³/3 flops.
    pub(crate) fn of(a: &[[f64; D]; D]) -> Option<Self> {
        let mut l = [[0.0; D]; D];
        for i in 0..D {
            for j in 0..=i {
                let mut rest = a[i][j];
                for k in 0..j {
                    rest -= l[i][k] * l[j][k];
                }
                if i == j {
                    // Not `rest <= smallest`: NaN must fail.
                    if !(rest > a[i][i] * SMALLEST_PIVOT && rest < f64::INFINITY) {
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
    fn units_do_not_matter() {
        assert!(Factor::of(&[[1e30, 0.0], [1.0, 1e-20]]).is_some());
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
            assert!(Factor::of(&bad).is_none(), "{bad:?}");
        }
    }
}
