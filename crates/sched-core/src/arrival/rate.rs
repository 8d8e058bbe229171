//! What a path has been seen to deliver, remembered for a few round trips.

use std::time::Instant;

use crate::PathView;
use crate::patience::nanos_between;
use crate::support::nanos;

/// Over how many smoothed RTTs the rate falls to a lower measurement.
const FALL_ROUNDS: f64 = 4.0;

/// The delivery rate of one path: it rises at once and falls slowly. A measurement that is too low is frequent (a window
/// that was reduced, a late acknowledgement), one that is too high is rare. Pauses of the application do not lower the
/// measurements in the first place ([`PathView::delivery_rate`]).
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Rate {
    /// Bytes per nanosecond; 0 before the first measurement.
    rate: f64,
    /// [`PathView::delivered_bytes`] at the newest measurement, and when that was.
    delivered: u64,
    at: Option<Instant>,
}

impl Rate {
    /// The rate in bytes per nanosecond, brought up to date by what was acknowledged since the last call; 0 before the
    /// first measurement.
    #[inline]
    pub(super) fn update(&mut self, now: Instant, path: &PathView) -> f64 {
        if self.is_behind(path) {
            self.measure(now, path);
        }
        self.rate
    }

    /// Whether something was acknowledged since the last call of [`update`](Self::update).
    #[inline]
    pub(super) const fn is_behind(&self, path: &PathView) -> bool {
        path.delivered_bytes != self.delivered
    }

    #[inline(never)]
    fn measure(&mut self, now: Instant, path: &PathView) {
        let newest = path.delivery_rate as f64 * 1e-9;
        let since = self.at.map_or(0.0, |at| nanos_between(at, now));
        (self.delivered, self.at) = (path.delivered_bytes, Some(now));
        if newest >= self.rate {
            self.rate = newest;
        } else {
            let rounds = FALL_ROUNDS * nanos(path.smoothed_rtt).max(1.0);
            self.rate += (newest - self.rate) * (since / rounds).min(1.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn view(delivered: u64, rate: u64) -> PathView {
        changed!(
            PathView::of(0, Duration::from_millis(50)),
            delivered_bytes = delivered,
            delivery_rate = rate
        )
    }

    fn near(rate: f64, expected: f64) {
        assert!(
            (rate - expected).abs() < 1e-9,
            "{rate} instead of {expected}"
        );
    }

    #[test]
    fn it_rises_at_once_and_falls_over_four_round_trips() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let mut rate = Rate::default();
        near(rate.update(at(0), &view(0, 0)), 0.0);
        near(rate.update(at(0), &view(1, 1_000_000)), 1e-3);
        near(rate.update(at(10), &view(2, 2_000_000)), 2e-3);
        // Half of four round trips: half of the way.
        near(rate.update(at(110), &view(3, 1_000_000)), 1.5e-3);
        // Nothing was acknowledged, so that nothing was measured.
        near(rate.update(at(900), &view(3, 1_000_000)), 1.5e-3);
        near(rate.update(at(910), &view(4, 1_000_000)), 1e-3);
    }
}
