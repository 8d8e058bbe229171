//! A path's round trip without a queue, as the newest samples show it.

use std::time::{Duration, Instant};

/// How long the smallest sample counts: BBR's MinRTTFilterLen (draft-ietf-ccwg-bbr section 2.13.1). It is between one and two
/// of these spans.
const SPAN: Duration = Duration::from_secs(5);

/// The smallest RTT sample of the last 5 to 10 s of one path. The smallest one of all
/// ([`PathView::min_rtt`](crate::PathView::min_rtt)) never grows: on a path that has become longer, each packet on its way would
/// be a queue.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Base {
    /// When the present span began.
    since: Option<Instant>,
    /// The smallest sample of the present span, and that of the one before.
    present: Duration,
    before: Duration,
}

impl Base {
    /// The smallest one with this sample.
    #[inline]
    pub(super) fn update(&mut self, now: Instant, sample: Duration) -> Duration {
        let age = self.since.map(|since| now.saturating_duration_since(since));
        match age {
            Some(age) if age < SPAN => self.present = self.present.min(sample),
            _ => {
                // After a silence of more than a span, nothing of before it counts.
                self.before = match age {
                    Some(age) if age < 2 * SPAN => self.present,
                    _ => sample,
                };
                (self.since, self.present) = (Some(now), sample);
            }
        }
        self.get()
    }

    /// Zero before the first sample.
    #[inline]
    pub(super) fn get(&self) -> Duration {
        self.present.min(self.before)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn a_path_that_has_become_longer_has_a_longer_base() {
        let start = Instant::now();
        let mut base = Base::default();
        assert_eq!(base.get(), ms(0));
        let mut at = |after, rtt| base.update(start + ms(after), ms(rtt));
        assert_eq!(at(0, 30), ms(30));
        assert_eq!(at(50, 20), ms(20));
        assert_eq!(at(100, 60), ms(20));
        assert_eq!(at(4900, 60), ms(20));
        // The span before had 20 ms.
        assert_eq!(at(5000, 70), ms(20));
        assert_eq!(at(7000, 60), ms(20));
        assert_eq!(at(10_000, 65), ms(60));
        assert_eq!(at(10_100, 15), ms(15));
        // Nothing for more than two spans.
        assert_eq!(at(21_000, 80), ms(80));
    }
}
