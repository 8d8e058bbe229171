//! A histogram of weighted integers with bounded memory.

use serde::{Deserialize, Serialize};

/// The bits of a value that its bucket preserves.
const PRECISION: u32 = 7;
/// Buckets per power of two.
const PER_OCTAVE: u64 = 1 << PRECISION;

/// A summary of the values in a histogram.
///
/// The mean and the greatest value are exact. Quantiles are exact up to 255 and within 0.4 % above.
/// The width of a bucket is at most 1/128 of its values, and a quantile is the middle of its
/// bucket.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Distribution {
    /// The number of values, or the sum of their weights.
    pub weight: u64,
    /// Their mean.
    pub mean: f64,
    /// Their median.
    pub p50: u64,
    /// Their 95th percentile.
    pub p95: u64,
    /// Their 99th percentile.
    pub p99: u64,
    /// The greatest of them.
    pub max: u64,
}

/// Weights by value. It takes 1 KiB, and the same for each power of two above 2^7 up to the
/// greatest value.
#[derive(Debug, Clone, Default)]
pub(crate) struct Histogram {
    /// Indexed by bucket, up to the last bucket in use.
    weights: Vec<u64>,
    weight: u64,
    /// The sum of values times weights.
    sum: u128,
    max: u64,
}

/// The bucket of a value. Up to twice the first octave, that is the value itself; later buckets are
/// ever wider.
const fn bucket(value: u64) -> usize {
    let shift = (u64::BITS - 1 - (value | PER_OCTAVE).leading_zeros()) - PRECISION;
    (shift as u64 * PER_OCTAVE + (value >> shift)) as usize
}

/// The middle of a bucket.
const fn middle(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    if bucket < 2 * PER_OCTAVE {
        return bucket;
    }
    let shift = bucket / PER_OCTAVE - 1;
    let start = (bucket % PER_OCTAVE + PER_OCTAVE) << shift;
    start + (1 << (shift - 1))
}

impl Histogram {
    pub(crate) fn add(&mut self, value: u64, weight: u64) {
        let bucket = bucket(value);
        if self.weights.len() <= bucket {
            // Grows by a whole octave at a time.
            let octaves = bucket as u64 / PER_OCTAVE + 1;
            self.weights.resize((octaves * PER_OCTAVE) as usize, 0);
        }
        self.weights[bucket] += weight;
        self.weight += weight;
        self.sum += u128::from(value) * u128::from(weight);
        self.max = self.max.max(value);
    }

    pub(crate) fn distribution(&self) -> Distribution {
        if self.weight == 0 {
            return Distribution::default();
        }
        Distribution {
            weight: self.weight,
            mean: self.sum as f64 / self.weight as f64,
            p50: self.quantile(0.5),
            p95: self.quantile(0.95),
            p99: self.quantile(0.99),
            max: self.max,
        }
    }

    /// The smallest value that is not exceeded by this part of the weight (nearest rank).
    fn quantile(&self, part: f64) -> u64 {
        let rank = (part * self.weight as f64).ceil() as u64;
        let mut below = 0;
        for (bucket, weight) in self.weights.iter().enumerate() {
            below += weight;
            if below >= rank.max(1) {
                return middle(bucket).min(self.max);
            }
        }
        self.max
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn small_values_are_exact() {
        let mut histogram = Histogram::default();
        assert_eq!(histogram.distribution(), Distribution::default());
        for value in 1..=100 {
            histogram.add(value, 1);
        }
        let expected = Distribution {
            weight: 100,
            mean: 50.5,
            p50: 50,
            p95: 95,
            p99: 99,
            max: 100,
        };
        assert_eq!(histogram.distribution(), expected);
    }

    #[test]
    fn weights_count() {
        let mut histogram = Histogram::default();
        for (value, weight) in [(10, 94), (200, 5), (7, 0), (30, 1)] {
            histogram.add(value, weight);
        }
        let got = histogram.distribution();
        assert_eq!((got.weight, got.p50, got.p95, got.p99), (100, 10, 30, 200));
        assert_eq!(got.mean, (940.0 + 1000.0 + 30.0) / 100.0);
    }

    #[test]
    fn every_value_has_its_place() {
        assert_eq!(bucket(0), 0);
        assert_eq!((bucket(255), bucket(256), bucket(257)), (255, 256, 256));
        assert_eq!(bucket(258), 257);
        let mut histogram = Histogram::default();
        histogram.add(u64::MAX, 1);
        assert_eq!(histogram.distribution().max, u64::MAX);
        assert_eq!(histogram.weights.len(), 58 * 128);
    }

    proptest! {
        #[test]
        fn quantiles_are_near_and_mean_and_maximum_exact(
            values in prop::collection::vec((0_u32..40, any::<u64>()), 1..300),
        ) {
            let mut values: Vec<_> = values.iter().map(|(bits, v)| v >> (24 + bits)).collect();
            let mut histogram = Histogram::default();
            values.iter().for_each(|value| histogram.add(*value, 1));
            values.sort_unstable();
            let got = histogram.distribution();
            prop_assert_eq!(got.max, *values.last().unwrap());
            let mean = values.iter().sum::<u64>() as f64 / values.len() as f64;
            prop_assert!((got.mean - mean).abs() <= 1e-9 * mean);
            for (part, got) in [(0.5, got.p50), (0.95, got.p95), (0.99, got.p99)] {
                let rank = (part * values.len() as f64).ceil() as usize;
                let exact = values[rank - 1];
                prop_assert!(got.abs_diff(exact) as f64 <= exact as f64 / 256.0, "{got} {exact}");
                prop_assert!(exact > 255 || got == exact);
            }
        }
    }
}
