//! A path's round trip without a queue, as the newest samples show it.

use std::time::{Duration, Instant};

use crate::PathView;
use crate::support::nanos;

/// How long the smallest sample counts: BBR's MinRTTFilterLen (draft-ietf-ccwg-bbr section 2.13.1). It is between one and two
/// of these spans.
const SPAN: Duration = Duration::from_secs(5);

/// The smallest RTT sample of the last 5 to 10 s of one path. The smallest one of all
/// ([`PathView::min_rtt`]) never grows: on a path that has become longer, each packet on its way would be a queue.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Base {
    /// When the present span began.
    since: Option<Instant>,
    /// The smallest sample of the present span, and that of the one before, nanoseconds.
    present: f32,
    before: f32,
}

impl Base {
    /// In nanoseconds, brought up to date by the newest sample, if it came since the last call. The path has one.
    #[inline]
    pub(super) fn update(&mut self, now: Instant, path: &PathView, came: bool) -> f64 {
        if came || self.since.is_none() {
            self.sample(now, path);
        }
        f64::from(smaller(self.present, self.before))
    }

    #[inline(never)]
    fn sample(&mut self, now: Instant, path: &PathView) {
        let Some(since) = self.since else {
            // Whatever was before the first call.
            (self.since, self.before) = (Some(now), nanos(path.min_rtt) as f32);
            self.present = self.before;
            return;
        };
        let newest = nanos(path.latest_rtt) as f32;
        let age = now.saturating_duration_since(since);
        if age < SPAN {
            self.present = smaller(self.present, newest);
            return;
        }
        // After a silence of more than a span, nothing of before it counts.
        self.before = if age < 2 * SPAN { self.present } else { newest };
        (self.since, self.present) = (Some(now), newest);
    }
}

/// The smaller of two numbers. Unlike `f32::min`, which sees to NaN, one instruction.
fn smaller(a: f32, b: f32) -> f32 {
    if a < b { a } else { b }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    fn view(rtt: u64) -> PathView {
        changed!(
            PathView::of(0, ms(20)),
            min_rtt = ms(20),
            latest_rtt = ms(rtt)
        )
    }

    #[test]
    fn a_path_that_has_become_longer_has_a_longer_base() {
        let start = Instant::now();
        let mut base = Base::default();
        let mut at = |after, rtt| base.update(start + ms(after), &view(rtt), true) / 1e6;
        assert_eq!(at(0, 30), 20.0);
        assert_eq!(at(100, 60), 20.0);
        assert_eq!(at(4900, 60), 20.0);
        // The span before had 20 ms.
        assert_eq!(at(5000, 70), 20.0);
        assert_eq!(at(7000, 60), 20.0);
        assert_eq!(at(10_000, 65), 60.0);
        assert_eq!(at(10_100, 15), 15.0);
        // Nothing for more than two spans.
        assert_eq!(at(21_000, 80), 80.0);
    }

    #[test]
    fn what_is_not_acknowledged_is_no_sample() {
        let start = Instant::now();
        let mut base = Base::default();
        let mut at = |after, came| base.update(start + ms(after), &view(90), came) / 1e6;
        assert_eq!([at(0, false), at(60_000, false)], [20.0; 2]);
        assert_eq!(at(60_001, true), 90.0);
    }
}
