//! The most that a path was seen to deliver, and whether sending faster still finds more.

use crate::RateSample;

/// BBR.max_bw: the largest delivery rate of this ProbeBW cycle and the one before (section 5.5.5).
#[derive(Debug, Default)]
pub(super) struct MaxBandwidth {
    previous: f64,
    current: f64,
}

impl MaxBandwidth {
    /// Takes in a sample. One that was limited by what there was to send only counts if it is
    /// larger: it then shows that the estimate is too low (section 5.5.4).
    pub(super) fn update(&mut self, sample: &RateSample) {
        if sample.rate > 0.0 && (sample.rate >= self.get() || !sample.app_limited) {
            self.current = self.current.max(sample.rate);
        }
    }

    /// The next cycle begins (section 5.5.6). One without a sample leaves the memory as it is.
    pub(super) fn advance(&mut self) {
        if self.current > 0.0 {
            self.previous = std::mem::take(&mut self.current);
        }
    }

    /// Bytes per second; 0 before the first sample.
    pub(super) const fn get(&self) -> f64 {
        self.previous.max(self.current)
    }
}

/// The full-pipe estimator (section 5.3.1.2).
#[derive(Debug, Default)]
pub(super) struct FullPipe {
    /// BBR.full_bw, bytes per second.
    baseline: f64,
    /// BBR.full_bw_count: rounds in a row without much growth.
    count: u32,
    /// BBR.full_bw_now: the pipe is full, as far as was seen since the last reset.
    pub(super) now: bool,
    /// BBR.full_bw_reached: it was once.
    pub(super) reached: bool,
}

/// Growth per round below which the pipe may be full.
const GROWTH: f64 = 1.25;
/// Rounds without such growth after which it is.
const ROUNDS: u32 = 3;

impl FullPipe {
    /// ResetFullBW(), and the baseline from which growth is measured.
    pub(super) const fn reset(&mut self, baseline: f64) {
        self.baseline = baseline;
        self.count = 0;
        self.now = false;
    }

    /// Whether the newest round brought no growth.
    pub(super) const fn is_stalled(&self) -> bool {
        self.count > 0
    }

    /// The pipe is full, as something else than the rate has told.
    pub(super) const fn fill(&mut self) {
        self.now = true;
        self.reached = true;
    }

    /// CheckFullBWReached().
    pub(super) fn update(&mut self, round_start: bool, sample: &RateSample) {
        if self.now || !round_start || sample.app_limited {
            return;
        }
        if sample.rate >= self.baseline * GROWTH {
            self.reset(sample.rate);
            return;
        }
        self.count += 1;
        if self.count >= ROUNDS {
            self.now = true;
            self.reached = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::sample;
    use super::*;

    #[test]
    fn the_filter_spans_two_cycles() {
        let mut max = MaxBandwidth::default();
        max.advance();
        assert_eq!(max.get(), 0.0);
        max.update(&sample(100.0));
        max.update(&sample(80.0));
        assert_eq!(max.get(), 100.0);
        max.advance();
        max.update(&sample(90.0));
        assert_eq!(max.get(), 100.0);
        max.advance();
        assert_eq!(max.get(), 90.0);
        // A cycle without samples keeps what there is.
        max.advance();
        assert_eq!(max.get(), 90.0);
    }

    #[test]
    fn limited_samples_count_if_they_are_larger() {
        let limited = |rate| RateSample {
            app_limited: true,
            ..sample(rate)
        };
        let mut max = MaxBandwidth::default();
        max.update(&limited(50.0));
        assert_eq!(max.get(), 50.0);
        max.advance();
        max.update(&limited(40.0));
        max.advance();
        assert_eq!(max.get(), 50.0, "the smaller one was not taken");
        max.update(&limited(60.0));
        assert_eq!(max.get(), 60.0);
    }

    #[test]
    fn three_rounds_without_a_quarter_more_fill_the_pipe() {
        let mut pipe = FullPipe::default();
        for rate in [100.0, 125.0, 157.0] {
            pipe.update(true, &sample(rate));
            assert_eq!(pipe.count, 0);
        }
        // Less than 157 * 1.25 = 196.25; only rounds count.
        pipe.update(true, &sample(196.0));
        pipe.update(false, &sample(196.0));
        pipe.update(true, &sample(160.0));
        assert_eq!((pipe.count, pipe.now), (2, false));
        pipe.update(
            true,
            &RateSample {
                app_limited: true,
                ..sample(10.0)
            },
        );
        assert!(!pipe.now, "limited rounds do not count");
        pipe.update(true, &sample(170.0));
        assert!(pipe.now && pipe.reached);
        pipe.reset(170.0);
        assert!(!pipe.now && pipe.reached);
        // Growth in between starts the count again.
        pipe.update(true, &sample(180.0));
        pipe.update(true, &sample(190.0));
        pipe.update(true, &sample(213.0));
        pipe.update(true, &sample(213.0));
        assert!(!pipe.now);
    }
}
