//! How long a scheduler may wait for a path that is full, and when it may not at all.

use std::time::{Duration, Instant};

use crate::{Decision, PathView};

/// Whether a path has room, or something on its way that will make the transport ask again: one
/// that does not may not be waited for.
pub const fn comes_back(path: &PathView) -> bool {
    path.can_send || path.in_flight > 0 || path.next_release.is_some()
}

/// A duration in nanoseconds, as a float: products with bytes do not overflow, and 53 bits hold a
/// hundred days exactly. What is longer than 272 years counts as that.
#[inline]
pub fn nanos(duration: Duration) -> f64 {
    // A conversion of a signed number is a third of the work of one of an unsigned number.
    let secs = duration.as_secs().min(1 << 33) as i64;
    (secs * 1_000_000_000 + i64::from(duration.subsec_nanos())) as f64
}

/// A count of bytes as a float, for the same reason by way of a signed number: what exceeds that counts as its largest.
#[inline]
pub(crate) fn float(bytes: u64) -> f64 {
    bytes.min(i64::MAX as u64) as i64 as f64
}

/// The larger of two numbers of which neither is NaN: one instruction, where [`f64::max`] takes five.
#[inline]
pub(crate) fn larger(a: f64, b: f64) -> f64 {
    if a > b { a } else { b }
}

/// The smaller of two numbers of which neither is NaN.
#[inline]
pub(crate) fn smaller(a: f64, b: f64) -> f64 {
    if a < b { a } else { b }
}

/// The time between two instants in nanoseconds; none if `then` is after `now`. One copy of the code for all that ask.
#[inline(never)]
pub(crate) fn nanos_between(then: Instant, now: Instant) -> f64 {
    nanos(now.saturating_duration_since(then))
}

/// Bounds the waits of a scheduler.
///
/// A wait must end: the path waited for must have something in flight, whose acknowledgement or
/// loss makes the transport ask again, or be held back by its pacer only. And it must not last: a
/// wait that has gone on for longer than the path's probe timeout, which is its smoothed RTT, four
/// times its variation and the peer's largest acknowledgement delay (RFC 9002 section 6.2.1),
/// gives way to one packet on whichever path has room.
#[derive(Debug, Clone, Copy, Default)]
pub struct Patience {
    /// When the wait that is under way began.
    since: Option<Instant>,
}

impl Patience {
    /// No wait is under way.
    pub const NONE: Self = Self { since: None };

    /// The wait for `blocked`, or `None` if a packet has to go elsewhere now.
    pub fn wait(&mut self, now: Instant, blocked: &PathView) -> Option<Decision> {
        if !comes_back(blocked) {
            self.end();
            return None;
        }
        // The pacer's next release is the transport's timer anyway.
        let until = self.deadline(now, blocked)?;
        Some(Decision::Wait { until: Some(until) })
    }

    /// When the wait for `blocked` is over at the latest, for schedulers that have seen to it that something
    /// ends it. `None` if it is over now, and has been forgotten.
    #[inline]
    pub fn deadline(&mut self, now: Instant, blocked: &PathView) -> Option<Instant> {
        let since = *self.since.get_or_insert(now);
        // A path with so long a timeout that time ends before is as good as dead.
        let deadline = since.checked_add(blocked.pto).unwrap_or(now);
        if deadline <= now {
            self.since = None;
            return None;
        }
        Some(deadline)
    }

    /// Something is sent: the next wait is a new one.
    #[inline]
    pub fn end(&mut self) {
        self.since = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PathIndex;

    #[test]
    fn waits_for_a_pto_and_only_for_what_comes() {
        let start = Instant::now();
        let ms = |ms| start + Duration::from_millis(ms);
        let mut blocked = PathView::closed(PathIndex::new(0).unwrap());
        blocked.pto = Duration::from_millis(100);
        let mut patience = Patience::default();
        assert_eq!(patience.wait(start, &blocked), None, "nothing in flight");

        blocked.in_flight = 1;
        let until = |at| Some(Decision::Wait { until: Some(at) });
        assert_eq!(patience.wait(start, &blocked), until(ms(100)));
        assert_eq!(patience.wait(ms(99), &blocked), until(ms(100)));
        assert_eq!(patience.wait(ms(100), &blocked), None);
        assert_eq!(patience.wait(ms(100), &blocked), until(ms(200)));
        patience.end();
        assert_eq!(patience.wait(ms(150), &blocked), until(ms(250)));

        blocked.in_flight = 0;
        blocked.next_release = Some(ms(151));
        assert!(patience.wait(ms(150), &blocked).is_some());
    }

    #[test]
    fn nanoseconds() {
        assert_eq!(nanos(Duration::new(3, 17)), 3_000_000_017.0);
    }
}
