//! Statistics over seeds: quantiles, bootstrap intervals, paired differences.

use crate::networks::sampling::Draws;

/// Resamples per bootstrap. With this number, the ends of a 95 % interval vary by less than one
/// percent of its width.
const RESAMPLES: usize = 2000;

/// With fewer than six pairs, no difference is significant at 5 %: even if all pairs agree, this
/// happens by chance in 2 of 2^5 cases (sign test).
pub const MIN_PAIRS: usize = 6;

/// The arithmetic mean; NaN if there are no values.
pub fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// The middle value, or the mean of the two middle values; NaN if there are no values.
pub fn median(values: &[f64]) -> f64 {
    quantile(values, 0.5)
}

/// The value below which a share `q` of the values lies, with linear interpolation between the two
/// nearest ones (type 7 of Hyndman and Fan 1996, the default of R and NumPy). NaN if there are no
/// values.
pub fn quantile(values: &[f64], q: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    quantile_of_sorted(&sorted, q)
}

/// The same as [`quantile`] for values in ascending order.
pub fn quantile_of_sorted(sorted: &[f64], q: f64) -> f64 {
    let Some(last) = sorted.len().checked_sub(1) else {
        return f64::NAN;
    };
    let at = q.clamp(0.0, 1.0) * last as f64;
    let (below, above) = (at.floor() as usize, at.ceil() as usize);
    let (low, high) = (sorted[below], sorted[above]);
    // Interpolation between equal values must not change them by rounding.
    if low == high {
        return low;
    }
    low + (high - low) * (at - below as f64)
}

/// The 95 % percentile bootstrap interval of the median. It does not depend on the order of the
/// values.
pub fn median_interval(values: &[f64], seed: u64) -> [f64; 2] {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let n = sorted.len();
    if n == 0 {
        return [f64::NAN; 2];
    }
    if sorted[0] == sorted[n - 1] {
        return [sorted[0]; 2];
    }
    let mut draws = Draws::new(seed);
    let mut counts = vec![0_u32; n];
    let mut medians: Vec<f64> = (0..RESAMPLES)
        .map(|_| {
            counts.fill(0);
            for _ in 0..n {
                counts[draws.below(n)] += 1;
            }
            median_of_counts(&sorted, &counts)
        })
        .collect();
    medians.sort_by(f64::total_cmp);
    [0.025, 0.975].map(|q| quantile_of_sorted(&medians, q))
}

/// The 95 % percentile bootstrap interval of the arithmetic mean.
pub fn mean_interval(values: &[f64], seed: u64) -> [f64; 2] {
    let n = values.len();
    if n == 0 {
        return [f64::NAN; 2];
    }
    let mut draws = Draws::new(seed);
    let mut means: Vec<f64> = (0..RESAMPLES)
        .map(|_| (0..n).map(|_| values[draws.below(n)]).sum::<f64>() / n as f64)
        .collect();
    means.sort_by(f64::total_cmp);
    [0.025, 0.975].map(|q| quantile_of_sorted(&means, q))
}

/// The median of a resample, given how often it contains each of the sorted values.
fn median_of_counts(sorted: &[f64], counts: &[u32]) -> f64 {
    let n = sorted.len() as u32;
    let (lower, upper) = ((n - 1) / 2, n / 2);
    let mut seen = 0;
    let mut low = None;
    for (value, count) in sorted.iter().zip(counts) {
        seen += count;
        if seen > lower && low.is_none() {
            low = Some(*value);
        }
        if seen > upper {
            return f64::midpoint(low.unwrap_or(*value), *value);
        }
    }
    f64::NAN
}

/// What paired values say about a difference.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The interval lies below zero.
    Lower,
    /// The interval lies above zero.
    Higher,
    /// The interval contains zero.
    None,
    /// Fewer than [`MIN_PAIRS`] pairs.
    TooFew,
}

/// The difference between two series of values from the same seeds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Paired {
    /// The number of pairs.
    pub pairs: usize,
    /// The median of the first value minus the second.
    pub difference: f64,
    /// The 95 % bootstrap interval of this median.
    pub interval: [f64; 2],
    /// Whether there is a significant difference.
    pub verdict: Verdict,
}

impl Paired {
    /// Compares pairs of values: the first minus the second.
    pub fn new(pairs: &[(f64, f64)], seed: u64) -> Self {
        let differences: Vec<_> = pairs.iter().map(|(a, b)| a - b).collect();
        let interval = median_interval(&differences, seed);
        let verdict = if pairs.len() < MIN_PAIRS {
            Verdict::TooFew
        } else if interval[1] < 0.0 {
            Verdict::Lower
        } else if interval[0] > 0.0 {
            Verdict::Higher
        } else {
            Verdict::None
        };
        Self {
            pairs: pairs.len(),
            difference: median(&differences),
            interval,
            verdict,
        }
    }
}

/// The numbers of a box plot. The whiskers reach to the furthest values within 1.5 times the height
/// of the box (Tukey 1977). Values beyond are drawn as points.
#[derive(Debug, Clone, PartialEq)]
pub struct BoxPlot {
    /// The end of the lower whisker.
    pub low: f64,
    /// The first quartile, the median and the third quartile.
    pub quartiles: [f64; 3],
    /// The end of the upper whisker.
    pub high: f64,
    /// The values beyond the whiskers.
    pub outliers: Vec<f64>,
}

impl BoxPlot {
    /// The box plot of these values; `None` if there are none.
    pub fn new(values: &[f64]) -> Option<Self> {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let quartiles = [0.25, 0.5, 0.75].map(|q| quantile_of_sorted(&sorted, q));
        let reach = 1.5 * (quartiles[2] - quartiles[0]);
        let within = |value: &&f64| (quartiles[0] - reach..=quartiles[2] + reach).contains(*value);
        Some(Self {
            low: *sorted.iter().find(within)?,
            quartiles,
            high: *sorted.iter().rev().find(within)?,
            outliers: sorted
                .iter()
                .filter(|value| !within(value))
                .copied()
                .collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_worked_out_by_hand() {
        let values = [4.0, 1.0, 3.0, 2.0];
        assert_eq!(mean(&values), 2.5);
        assert_eq!(median(&values), 2.5);
        assert_eq!(median(&[5.0, 1.0, 9.0]), 5.0);
        // Position 0.25 * 3 = 0.75: three quarters of the way from 1 to 2.
        assert_eq!(quantile(&values, 0.25), 1.75);
        // Position 0.95 * 3 = 2.85.
        assert!((quantile(&values, 0.95) - 3.85).abs() < 1e-12);
        assert_eq!(quantile(&[7.0], 0.95), 7.0);
        assert!(median(&[]).is_nan() && mean(&[]).is_nan());
    }

    #[test]
    fn the_median_of_a_resample_is_that_of_its_values() {
        let sorted = [1.0, 2.0, 3.0, 4.0];
        for (counts, values) in [
            ([4, 0, 0, 0], [1.0, 1.0, 1.0, 1.0]),
            ([1, 1, 1, 1], [1.0, 2.0, 3.0, 4.0]),
            ([2, 0, 0, 2], [1.0, 1.0, 4.0, 4.0]),
            ([0, 1, 3, 0], [2.0, 3.0, 3.0, 3.0]),
        ] {
            assert_eq!(median_of_counts(&sorted, &counts), median(&values));
        }
    }

    #[test]
    fn intervals_have_the_ends_that_theory_gives() {
        // For 1..=99, the bootstrap median is at or below the value k with the probability that a
        // binomial variable (99, k/99) is at least 50: 2.5 % at k = 40, 97.5 % at k = 60.
        let values: Vec<_> = (1..=99).map(f64::from).collect();
        let [low, high] = median_interval(&values, 1);
        assert!((39.0..=41.0).contains(&low), "{low}");
        assert!((59.0..=61.0).contains(&high), "{high}");
        let mut shuffled = values.clone();
        shuffled.reverse();
        assert_eq!(median_interval(&shuffled, 1), [low, high]);
        assert_eq!(median_interval(&[3.0; 10], 1), [3.0, 3.0]);
    }

    #[test]
    fn a_difference_is_called_when_the_paired_interval_excludes_zero() {
        // The seeds differ much more than the two series do. Only pairs show the difference.
        let faster: Vec<_> = (0..20)
            .map(|n| (f64::from(n), f64::from(n) + 0.5))
            .collect();
        let paired = Paired::new(&faster, 7);
        assert_eq!(
            (paired.pairs, paired.difference, paired.verdict),
            (20, -0.5, Verdict::Lower)
        );
        let swapped: Vec<_> = faster.iter().map(|&(a, b)| (b, a)).collect();
        assert_eq!(Paired::new(&swapped, 7).verdict, Verdict::Higher);
        let mixed: Vec<_> = (0..20).map(|n| (1.0, [0.9, 1.1][n % 2])).collect();
        let none = Paired::new(&mixed, 7);
        assert_eq!(none.verdict, Verdict::None);
        assert!(none.interval[0] < 0.0 && none.interval[1] > 0.0);
        assert_eq!(Paired::new(&faster[..5], 7).verdict, Verdict::TooFew);
    }

    #[test]
    fn boxes_tell_outliers_from_whiskers() {
        // Quartiles 2, 3, 4, so the whiskers reach from -1 to 7.
        let plot = BoxPlot::new(&[1.0, 2.0, 3.0, 4.0, 9.0]).unwrap();
        assert_eq!(plot.quartiles, [2.0, 3.0, 4.0]);
        assert_eq!((plot.low, plot.high), (1.0, 4.0));
        assert_eq!(plot.outliers, [9.0]);
        assert_eq!(BoxPlot::new(&[]), None);
    }
}
