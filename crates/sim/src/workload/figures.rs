//! Mean, quantiles and counts of the times of one run.

use std::time::Duration;

/// The arithmetic mean; NaN if there are no values.
pub(super) fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// The quantile at `share` (0 to 1), with linear interpolation between the two nearest order
/// statistics (type 7 of Hyndman and Fan 1996, the default of most software). NaN if there are no
/// values.
pub(super) fn quantile(values: &[f64], share: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let Some(last) = sorted.len().checked_sub(1) else {
        return f64::NAN;
    };
    let place = share.clamp(0.0, 1.0) * last as f64;
    let below = place.floor() as usize;
    let above = (below + 1).min(last);
    let rest = place - place.floor();
    sorted[below] + (sorted[above] - sorted[below]) * rest
}

pub(super) fn seconds(times: impl IntoIterator<Item = Duration>) -> Vec<f64> {
    times.into_iter().map(|time| time.as_secs_f64()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_by_hand() {
        let values = [4.0, 1.0, 3.0, 2.0];
        assert_eq!(mean(&values), 2.5);
        assert_eq!(quantile(&values, 0.5), 2.5);
        assert_eq!(quantile(&values, 0.0), 1.0);
        assert_eq!(quantile(&values, 1.0), 4.0);
        // Position 0.9 * 3 = 2.7: between 3 and 4.
        assert!((quantile(&values, 0.9) - 3.7).abs() < 1e-12);
        assert_eq!(quantile(&[7.0], 0.99), 7.0);
        assert!(quantile(&[], 0.5).is_nan() && mean(&[]).is_nan());
    }
}
