//! The context of Peekaboo's decisions, as numbers for a linear model.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::support::nanos;
use crate::{PathView, QueueView};

/// How many numbers a context has.
pub(crate) const DIMENSIONS: usize = 6;

/// A context: [W_f/R_f, I_f/R_f, C/R_f, W_s/R_s, I_s/R_s, C/R_s].
pub(crate) type Features = [f64; DIMENSIONS];

/// Of what a decision's context is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FeatureRtt {
    /// The smoothed RTTs, as the paper has it.
    #[default]
    Smoothed,
    /// The newest samples, as in the public code that goes with it; without a sample of either path, all
    /// features are 0.
    Latest,
}

/// A larger flow-control window than this says nothing more (ours). One without a limit, 2^62 bytes, would
/// drown the other features in its square.
const MOST_WINDOW: u64 = 1 << 30;

impl FeatureRtt {
    const fn of(self, path: &PathView) -> Duration {
        match self {
            Self::Smoothed => path.smoothed_rtt,
            Self::Latest => path.latest_rtt,
        }
    }

    /// The context of a decision between two paths, in `scale` bytes per millisecond: W is the
    /// congestion window (what the controller's pace puts in flight where it has one,
    /// [`PathView::capacity`]), I the bytes in flight, C what the
    /// peer's flow control leaves ([`QueueView::flow_control_window`]).
    #[inline]
    pub fn context(self, fast: &PathView, slow: &PathView, window: u64, scale: f64) -> Features {
        let (fast_rtt, slow_rtt) = (self.of(fast), self.of(slow));
        if fast_rtt.is_zero() || slow_rtt.is_zero() {
            return [0.0; DIMENSIONS];
        }
        let window = window.min(MOST_WINDOW) as f64;
        let per = |rtt| 1e6 / (nanos(rtt) * scale);
        let (f, s) = (per(fast_rtt), per(slow_rtt));
        [
            fast.capacity() as f64 * f,
            fast.in_flight as f64 * f,
            window * f,
            slow.capacity() as f64 * s,
            slow.in_flight as f64 * s,
            window * s,
        ]
    }
}

/// C in bytes: what the peer's flow control leaves, or no more of it than there is to send.
#[inline]
pub(crate) fn flow_control_window(queue: &QueueView, backlog: bool) -> u64 {
    if backlog {
        queue.flow_control_window.min(queue.unsent)
    } else {
        queue.flow_control_window
    }
}

/// T_ref in milliseconds: max(2 · (R_f + s_f), R_s + s_s), with R the smoothed RTTs and s their
/// variations.
#[inline]
pub(crate) fn reference_time(fast: &PathView, slow: &PathView) -> f64 {
    let reach = |path: &PathView| nanos(path.smoothed_rtt) + nanos(path.rtt_var);
    (2.0 * reach(fast)).max(reach(slow)) / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PathIndex;

    const fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    fn pair() -> [PathView; 2] {
        let fast = changed!(
            PathView::closed(PathIndex::new(0).unwrap()),
            smoothed_rtt = ms(40),
            latest_rtt = ms(50),
            rtt_var = ms(5),
            cwnd = 200_000,
            in_flight = 100_000
        );
        let slow = changed!(
            PathView::closed(PathIndex::new(1).unwrap()),
            smoothed_rtt = ms(200),
            latest_rtt = ms(100),
            rtt_var = ms(20),
            cwnd = 50_000,
            in_flight = 20_000
        );
        [fast, slow]
    }

    #[track_caller]
    fn close(got: Features, expected: Features) {
        let near = |(a, b): (&f64, &f64)| (a - b).abs() <= 1e-12 * b.abs();
        assert!(got.iter().zip(&expected).all(near), "{got:?}");
    }

    #[test]
    fn bytes_per_millisecond_over_the_scale() {
        let [fast, slow] = pair();
        let smoothed = FeatureRtt::Smoothed;
        close(
            smoothed.context(&fast, &slow, 1_000_000, 1000.0),
            [5.0, 2.5, 25.0, 0.25, 0.1, 5.0],
        );
        close(
            smoothed.context(&fast, &slow, 1_000_000, 1.0),
            [5000.0, 2500.0, 25_000.0, 250.0, 100.0, 5000.0],
        );
        close(
            FeatureRtt::Latest.context(&fast, &slow, 1_000_000, 1000.0),
            [4.0, 2.0, 20.0, 0.5, 0.2, 10.0],
        );
        assert_eq!(
            smoothed.context(&fast, &slow, u64::MAX, 1000.0),
            smoothed.context(&fast, &slow, MOST_WINDOW, 1000.0)
        );
    }

    #[test]
    fn no_sample_no_features() {
        let [fast, mut slow] = pair();
        slow.latest_rtt = Duration::ZERO;
        let got = FeatureRtt::Latest.context(&fast, &slow, 1_000_000, 1000.0);
        assert_eq!(got, [0.0; DIMENSIONS]);
    }

    #[test]
    fn the_window_may_be_limited_to_what_there_is_to_send() {
        let mut queue = changed!(
            QueueView::default(),
            flow_control_window = 5_000,
            unsent = 3_000
        );
        assert_eq!(
            [false, true].map(|backlog| flow_control_window(&queue, backlog)),
            [5_000, 3_000]
        );
        queue.unsent = 9_000;
        assert_eq!(
            [false, true].map(|backlog| flow_control_window(&queue, backlog)),
            [5_000, 5_000]
        );
    }

    #[test]
    fn the_reference_time_is_the_longer_one() {
        let [mut fast, slow] = pair();
        assert_eq!(reference_time(&fast, &slow), 220.0);
        fast.smoothed_rtt = ms(120);
        assert_eq!(reference_time(&fast, &slow), 250.0);
    }
}
