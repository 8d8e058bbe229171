//! The reference: sums kept plainly, everything else by Gauss and Jordan when asked. Its own code.

/// A^-1 b, or A^-1, of a full matrix by elimination with partial pivoting.
pub(crate) fn eliminate(a: &[Vec<f64>], right: &[Vec<f64>]) -> Vec<Vec<f64>> {
    let n = a.len();
    let mut rows: Vec<Vec<f64>> = a
        .iter()
        .zip(right)
        .map(|(a, r)| a.iter().chain(r).copied().collect())
        .collect();
    for column in 0..n {
        let pivot = (column..n)
            .max_by(|&i, &j| rows[i][column].abs().total_cmp(&rows[j][column].abs()))
            .unwrap();
        rows.swap(column, pivot);
        let scale = rows[column][column];
        rows[column].iter_mut().for_each(|value| *value /= scale);
        for i in (0..n).filter(|&i| i != column) {
            let factor = rows[i][column];
            let from = rows[column].clone();
            for (value, from) in rows[i].iter_mut().zip(from) {
                *value -= factor * from;
            }
        }
    }
    rows.iter().map(|row| row[n..].to_vec()).collect()
}

pub(crate) fn identity(n: usize) -> Vec<Vec<f64>> {
    (0..n)
        .map(|i| (0..n).map(|j| f64::from(u8::from(i == j))).collect())
        .collect()
}

/// Whether a symmetric matrix is positive definite: every leading elimination pivot is positive.
pub(crate) fn positive_definite(m: &[Vec<f64>]) -> bool {
    let n = m.len();
    let mut m = m.to_vec();
    for k in 0..n {
        if m[k][k].is_nan() || m[k][k] <= 0.0 {
            return false;
        }
        for i in k + 1..n {
            let factor = m[i][k] / m[k][k];
            for j in k..n {
                m[i][j] -= factor * m[k][j];
            }
        }
    }
    true
}

/// One arm as the paper writes it: A and b.
#[derive(Clone)]
pub(crate) struct PlainArm {
    pub(crate) a: Vec<Vec<f64>>,
    pub(crate) b: Vec<f64>,
}

impl PlainArm {
    pub(crate) fn new(d: usize, ridge: f64) -> Self {
        let a = identity(d)
            .iter()
            .map(|row| row.iter().map(|v| v * ridge).collect())
            .collect();
        Self { a, b: vec![0.0; d] }
    }

    pub(crate) fn update(&mut self, x: &[f64], reward: f64) {
        for (i, row) in self.a.iter_mut().enumerate() {
            for (value, xj) in row.iter_mut().zip(x) {
                *value += x[i] * xj;
            }
            self.b[i] += reward * x[i];
        }
    }

    pub(crate) fn theta(&self) -> Vec<f64> {
        let b: Vec<_> = self.b.iter().map(|&b| vec![b]).collect();
        eliminate(&self.a, &b).concat()
    }

    pub(crate) fn inverse(&self) -> Vec<Vec<f64>> {
        eliminate(&self.a, &identity(self.b.len()))
    }

    /// θ·x + α sqrt(x' A^-1 x).
    pub(crate) fn score(&self, alpha: f64, x: &[f64]) -> f64 {
        let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
        let spread: Vec<_> = self.inverse().iter().map(|row| dot(row, x)).collect();
        dot(&self.theta(), x) + alpha * dot(&spread, x).sqrt()
    }
}
