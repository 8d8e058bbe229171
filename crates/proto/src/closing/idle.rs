//! When a connection ends for want of anything heard (RFC 9000 section 10.1), and when it is at rest, so that it needs
//! less memory.

use std::time::{Duration, Instant};

/// The longest idle timeout that three PTOs ask for in place of a shorter one that was negotiated.
const MAX_IDLE_OF_PTO: Duration = Duration::from_secs(30);

/// A connection that received nothing for this long is at rest.
const REST: Duration = Duration::from_secs(1);

/// Follows what comes and what leaves.
#[derive(Debug)]
pub(crate) struct IdleTimer {
    /// When a packet was last received, or the first ack-eliciting one sent after that.
    since: Instant,
    eliciting_since_received: bool,
    local: Option<Duration>,
    /// The smaller of both sides' timeouts.
    timeout: Option<Duration>,
    /// When to see whether the connection is at rest; none while it is.
    rest_at: Option<Instant>,
}

impl IdleTimer {
    /// With our own max_idle_timeout.
    pub(crate) const fn new(now: Instant, local: Option<Duration>) -> Self {
        Self {
            since: now,
            eliciting_since_received: false,
            local,
            timeout: local,
            rest_at: None,
        }
    }

    /// The peer's max_idle_timeout, milliseconds; 0 for none.
    //= specs/rfc9000.txt#section-10.1
    //# Each endpoint advertises a max_idle_timeout, but the effective value at an endpoint is
    //# computed as the minimum of the two advertised values (or the sole advertised value, if only
    //# one endpoint advertises a non-zero value).
    pub(crate) fn set_peer(&mut self, millis: u64) {
        let remote = (millis != 0).then(|| Duration::from_millis(millis));
        self.timeout = match (self.local, remote) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
    }

    /// When a packet was last received, or the first ack-eliciting one sent after that.
    pub(crate) const fn since(&self) -> Instant {
        self.since
    }

    /// The smaller of both sides' idle timeouts.
    pub(crate) const fn timeout(&self) -> Option<Duration> {
        self.timeout
    }

    /// RFC 9000 section 10.1: the smaller of both sides' timeouts, at least three PTOs.
    pub(crate) fn deadline(&self, largest_pto: impl FnOnce() -> Duration) -> Option<Instant> {
        let timeout = self.timeout?;
        //= specs/rfc9000.txt#section-10.1
        //# To avoid excessively small idle timeout periods, endpoints MUST increase the idle
        //# timeout period to be at least three times the current Probe Timeout (PTO).
        // The PTO rests on RTT samples, which a peer can make as long as it likes by answering late.
        let least = (3 * largest_pto()).min(timeout.max(MAX_IDLE_OF_PTO));
        Some(self.since + timeout.max(least))
    }

    /// The deadline, or `next` if that is earlier, as it hardly ever is not: the PTO is asked for only then.
    pub(crate) fn earlier(
        &self,
        next: Option<Instant>,
        largest_pto: impl FnOnce() -> Duration,
    ) -> Option<Instant> {
        match (self.timeout, next) {
            (Some(timeout), Some(next)) if next <= self.since + timeout => Some(next),
            (_, None) => self.deadline(largest_pto),
            (_, Some(next)) => Some(self.deadline(largest_pto).map_or(next, |at| at.min(next))),
        }
    }

    /// RFC 9000 section 10.1: a packet that was received and processed restarts the timer.
    pub(crate) fn on_received(&mut self, now: Instant) {
        self.since = now;
        if self.rest_at.is_none() {
            self.rest_at = Some(now + REST);
        }
        self.eliciting_since_received = false;
    }

    /// An ack-eliciting packet leaves. RFC 9000 section 10.1: the first one after the last one received restarts the timer.
    pub(crate) fn on_eliciting_sent(&mut self, now: Instant) {
        if !self.eliciting_since_received {
            self.eliciting_since_received = true;
            self.since = now;
        }
    }

    /// What is sent next does not restart the timer.
    pub(crate) const fn keep(&mut self) {
        self.eliciting_since_received = true;
    }

    /// When to ask [`is_at_rest`](Self::is_at_rest).
    pub(crate) const fn rest_timer(&self) -> Option<Instant> {
        self.rest_at
    }

    /// Whether nothing has come for so long that buffers are not needed for now: once for each rest.
    pub(crate) fn is_at_rest(&mut self, now: Instant) -> bool {
        if self.rest_at.is_none_or(|at| at > now) {
            return false;
        }
        let due = self.since + REST;
        self.rest_at = Some(due).filter(|due| now < *due);
        self.rest_at.is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn pto() -> Duration {
        SECOND / 10
    }

    //= specs/rfc9000.txt#section-10.1
    //= type=test
    //# To avoid excessively small idle timeout periods, endpoints MUST increase the idle timeout
    //# period to be at least three times the current Probe Timeout (PTO).
    #[test]
    fn the_smaller_timeout_counts_but_no_less_than_three_ptos() {
        let now = Instant::now();
        for (local, remote, expected) in [
            (None, 0, None),
            (Some(10), 0, Some(10)),
            (None, 5000, Some(5)),
            (Some(10), 5000, Some(5)),
            (Some(2), 5000, Some(2)),
        ] {
            let mut timer = IdleTimer::new(now, local.map(Duration::from_secs));
            timer.set_peer(remote);
            assert_eq!(timer.timeout(), expected.map(Duration::from_secs));
            let deadline = expected.map(|after| now + Duration::from_secs(after));
            assert_eq!(timer.deadline(pto), deadline);
            assert_eq!(timer.earlier(None, pto), deadline);
            let soon = Some(now + SECOND);
            assert_eq!(timer.earlier(soon, || panic!("it is not needed")), soon);
        }
        let mut timer = IdleTimer::new(now, Some(SECOND));
        assert_eq!(timer.deadline(|| SECOND), Some(now + 3 * SECOND));
        // A peer that answers late for ever cannot put it off for ever.
        assert_eq!(timer.deadline(|| 100 * SECOND), Some(now + MAX_IDLE_OF_PTO));
        timer.set_peer(100);
        let later = Some(now + 60 * SECOND);
        assert_eq!(timer.earlier(later, pto), Some(now + 3 * pto()));
    }

    #[test]
    fn what_comes_restarts_it_and_the_first_question_after_that() {
        let now = Instant::now();
        let mut timer = IdleTimer::new(now, None);
        for (after, restarts) in [(1, true), (2, false), (3, false)] {
            let at = now + after * SECOND;
            timer.on_eliciting_sent(at);
            assert_eq!(timer.since() == at, restarts);
        }
        let heard = now + 4 * SECOND;
        timer.on_received(heard);
        timer.keep();
        timer.on_eliciting_sent(now + 5 * SECOND);
        assert_eq!(timer.since(), heard);
    }

    #[test]
    fn a_rest_begins_once_a_second_after_the_last_packet() {
        let now = Instant::now();
        let mut timer = IdleTimer::new(now, None);
        assert!(!timer.is_at_rest(now + SECOND), "nothing came yet");
        timer.on_received(now);
        timer.on_received(now + SECOND / 2);
        assert_eq!(timer.rest_timer(), Some(now + REST));
        assert!(!timer.is_at_rest(now + REST));
        let due = now + SECOND / 2 + REST;
        assert_eq!(timer.rest_timer(), Some(due));
        assert!(timer.is_at_rest(due) && !timer.is_at_rest(due));
        assert_eq!(timer.rest_timer(), None);
        timer.on_received(due);
        assert_eq!(timer.rest_timer(), Some(due + REST));
    }
}
