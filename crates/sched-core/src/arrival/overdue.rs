//! Whether what is in flight on a path is later than was predicted when it was sent.

use std::time::{Duration, Instant};

use crate::patience::nanos_between;

/// This part of its predicted round trip a packet may be late in any case.
const SLACK: f64 = 0.125;

/// And so many nanoseconds: timers are no better (RFC 9002 section 6.1.2, kGranularity).
const GRANULARITY: f64 = 1e6;

/// The weight of a new error in the deviation, that of RFC 9002 section 5.3.
const WEIGHT: f64 = 0.25;

/// Follows one packet of a path at a time: when its acknowledgement was predicted to come, and when it came. What was sent
/// after it comes later, so that all of it is late if this packet is.
#[derive(Debug, Clone, Copy)]
pub(super) struct Watch {
    /// When the packet that is followed was sent.
    sent: Option<Instant>,
    /// From when on it is later than it may be. What is asked at each decision is a comparison.
    due: Option<Instant>,
    /// How long its acknowledgement was predicted to take, nanoseconds.
    predicted: f64,
    /// How far off the predictions were in the mean, nanoseconds; NaN before the first acknowledgement.
    deviation: f64,
}

impl Default for Watch {
    fn default() -> Self {
        Self {
            sent: None,
            due: None,
            predicted: 0.0,
            deviation: f64::NAN,
        }
    }
}

impl Watch {
    /// A packet left whose acknowledgement is predicted to take so many nanoseconds. It is followed if no other one is. It is late
    /// if it takes longer by more than `margin` deviations.
    #[inline]
    pub(super) fn on_sent(&mut self, now: Instant, predicted: f64, margin: f64) {
        if self.sent.is_none() {
            self.follow(now, predicted, margin);
        }
    }

    #[inline(never)]
    fn follow(&mut self, now: Instant, predicted: f64, margin: f64) {
        (self.sent, self.predicted) = (Some(now), predicted);
        let allowed = predicted * (1.0 + SLACK) + margin * self.deviation() + GRANULARITY;
        self.due = now.checked_add(Duration::from_nanos(allowed.ceil() as u64));
    }

    /// A packet sent at `sent` was acknowledged.
    #[inline]
    pub(super) fn on_acked(&mut self, now: Instant, sent: Instant) {
        let Some(followed) = self.sent.filter(|followed| sent >= *followed) else {
            return;
        };
        self.sent = None;
        if sent == followed {
            let error = (nanos_between(sent, now) - self.predicted).abs();
            self.deviation = if self.deviation.is_nan() {
                error
            } else {
                self.deviation + WEIGHT * (error - self.deviation)
            };
        }
    }

    /// Packets sent at `sent` are not waited for any more.
    #[inline]
    pub(super) fn on_lost(&mut self, sent: Instant) {
        self.sent = self.sent.filter(|followed| sent < *followed);
    }

    /// Nothing is in flight.
    #[inline]
    pub(super) fn on_idle(&mut self) {
        self.sent = None;
    }

    /// Whether it is known how far off predictions are.
    pub(super) const fn is_tried(&self) -> bool {
        !self.deviation.is_nan()
    }

    /// How far off predictions are in the mean, nanoseconds; half of the one at hand before any came true.
    pub(super) fn deviation(&self) -> f64 {
        if self.deviation.is_nan() {
            self.predicted / 2.0
        } else {
            self.deviation
        }
    }

    /// By how many nanoseconds the acknowledgement is later than predicted, if that is more than it may be.
    #[inline]
    pub(super) fn overdue_by(&self, now: Instant) -> Option<f64> {
        let sent = self.sent?;
        if self.due.is_none_or(|due| now < due) {
            return None;
        }
        Some(nanos_between(sent, now) - self.predicted)
    }

    /// When it will be later than it may be.
    pub(super) fn due(&self) -> Option<Instant> {
        self.sent.and(self.due)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: f64 = 1e6;

    const fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn a_packet_is_late_beyond_what_predictions_are_usually_off_by() {
        let start = Instant::now();
        let mut watch = Watch::default();
        assert_eq!(watch.overdue_by(start + ms(500)), None);
        watch.on_sent(start, 40.0 * MS, 2.0);
        // 45 + 2 * 20 + 1 ms.
        assert_eq!(watch.overdue_by(start + ms(85)), None);
        assert_eq!(watch.overdue_by(start + ms(86)), Some(46.0 * MS));
        let due = watch.due().unwrap();
        assert!(watch.overdue_by(due).is_some() && due < start + ms(87));
        // It took 44 ms: the next one may take 45 + 2 * 4 + 1 ms.
        watch.on_acked(start + ms(44), start);
        assert_eq!(watch.due(), None);
        watch.on_sent(start + ms(100), 40.0 * MS, 2.0);
        assert_eq!(watch.overdue_by(start + ms(153)), None);
        assert_eq!(watch.overdue_by(start + ms(154)), Some(14.0 * MS));
        // A margin of nothing: 46 ms.
        watch.on_idle();
        assert_eq!(
            (watch.due(), watch.overdue_by(start + ms(500))),
            (None, None)
        );
        watch.on_sent(start + ms(100), 40.0 * MS, 0.0);
        assert_eq!(watch.overdue_by(start + ms(146)), Some(6.0 * MS));
    }

    #[test]
    fn the_oldest_is_followed_until_it_or_a_later_one_is_heard_of() {
        let start = Instant::now();
        let late = |watch: &Watch| watch.overdue_by(start + ms(500)).is_some();
        let mut watch = Watch::default();
        watch.on_sent(start + ms(10), 40.0 * MS, 1.0);
        watch.on_sent(start + ms(400), 400.0 * MS, 1.0);
        watch.on_acked(start + ms(20), start + ms(9));
        watch.on_lost(start + ms(9));
        assert!(late(&watch));
        let mut other = watch;
        watch.on_lost(start + ms(10));
        assert!(!late(&watch));
        // What came before the packet that was followed says nothing of its prediction.
        other.on_acked(start + ms(450), start + ms(11));
        assert!(!late(&other) && other.deviation.is_nan());
    }
}
