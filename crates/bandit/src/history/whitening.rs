//! The transformation that makes Mahalanobis distances Euclidean ones.

use num_traits::Float;

use super::VARIANCE_ADDED;

/// Pivots below this share of the variance are rounding: some hundred units in the last place.
const ROUNDING: f64 = 1e-13;

/// `z = L⁻¹ (x - m)`, with `L L'` the covariance and 10⁻⁶ more on its diagonal.
#[derive(Debug, Clone)]
pub(super) struct Whitening<const D: usize> {
    pub(super) mean: [f64; D],
    /// `L`, with the inverse of each element of its diagonal in its place; zero above.
    pub(super) factor: [[f64; D]; D],
}

impl<const D: usize> Whitening<D> {
    /// That of the first `len` entries of the columns.
    pub(super) fn of<const N: usize>(columns: &[[f32; N]; D], len: usize) -> Self {
        let n = len.max(1) as f64;
        let mut mean = [0.0; D];
        for (mean, column) in mean.iter_mut().zip(columns) {
            *mean = column[..len].iter().map(|x| f64::from(*x)).sum::<f64>() / n;
        }
        let mut factor = [[0.0; D]; D];
        for i in 0..D {
            for j in 0..=i {
                let pairs = columns[i][..len].iter().zip(&columns[j][..len]);
                let products =
                    pairs.map(|(x, y)| (f64::from(*x) - mean[i]) * (f64::from(*y) - mean[j]));
                factor[i][j] = products.sum::<f64>() / n;
            }
            factor[i][i] += VARIANCE_ADDED;
        }
        factorise(&mut factor);
        Self { mean, factor }
    }

    /// By forward substitution, D² flops.
    #[inline(always)]
    pub(super) fn apply(&self, x: &[f64; D]) -> [f64; D] {
        let mut z = [0.0; D];
        for i in 0..D {
            let row = &self.factor[i];
            let mut rest = x[i] - self.mean[i];
            for (l, z) in row.iter().zip(&z).take(i) {
                rest -= l * z;
            }
            z[i] = rest * row[i];
        }
        z
    }
}

/// Cholesky in place, of the lower triangle.
///
/// What is added to the variances is the least that any pivot can be; one that came out lower, or as
/// low as the rounding of what was subtracted, has lost it.
fn factorise<const D: usize>(m: &mut [[f64; D]; D]) {
    for j in 0..D {
        let row = m[j];
        let dot = |other: &[f64; D]| -> f64 { (0..j).map(|k| row[k] * other[k]).sum() };
        let least = VARIANCE_ADDED.max(ROUNDING * row[j]);
        let inverse = 1.0 / Float::sqrt((row[j] - dot(&row)).max(least));
        for other in &mut m[j + 1..] {
            other[j] = (other[j] - dot(other)) * inverse;
        }
        m[j][j] = inverse;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_factor_by_hand() {
        // [4 2; 2 5] = L L' with L = [2 0; 1 2].
        let mut m = [[4.0, 0.0], [2.0, 5.0]];
        factorise(&mut m);
        assert_eq!(m, [[0.5, 0.0], [1.0, 0.5]]);
    }

    #[test]
    fn whitened_samples_have_unit_covariance() {
        let columns = [
            [1.0, 2.0, 4.0, 9.0, -3.0, 0.5],
            [10.0, -20.0, 35.0, 7.0, 7.0, 0.0],
        ];
        let whitening = Whitening::<2>::of(&columns, 6);
        let z: [[f64; 2]; 6] = core::array::from_fn(|n| {
            whitening.apply(&[f64::from(columns[0][n]), f64::from(columns[1][n])])
        });
        for (i, j, expected) in [(0, 0, 1.0), (1, 1, 1.0), (0, 1, 0.0)] {
            let covariance = z.iter().map(|z| z[i] * z[j]).sum::<f64>() / 6.0;
            assert!((covariance - expected).abs() < 1e-6, "{i} {j} {covariance}");
        }
    }

    #[test]
    fn constant_and_dependent_features_are_safe() {
        let x: [f32; 8] = core::array::from_fn(|n| 1e5 + n as f32 * 1e4);
        let columns = [x, x.map(|x| 3.0 * x), [1e5; 8]];
        let whitening = Whitening::<3>::of(&columns, 8);
        let z = whitening.apply(&[1.4e5, 4.2e5, 1e5]);
        assert!(z.iter().all(|z| z.is_finite()), "{z:?}");
        assert!(whitening.factor.iter().flatten().all(|l| l.is_finite()));
        // None at all: the identity's share only.
        let none = Whitening::<3>::of(&columns, 0);
        assert_eq!(
            none.apply(&[1e-3, 0.0, 0.0]).map(|z| (z * 1e6).round()),
            [1e6, 0.0, 0.0]
        );
    }
}
