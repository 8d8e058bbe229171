//! When a frame is due at the receiver, whose clock has nothing to do with the sender's.
//!
//! The smallest difference between a packet's arrival and its time stamp is that of the shortest way here. What a frame may be
//! later than that, its packets say. So that clocks which drift apart do no harm, a difference counts for 10 to 20 s.

use std::time::{Duration, Instant};

/// How long a bucket of differences lasts: ours. At 100 parts in a million, clocks drift by 1 ms in it.
const BUCKET: Duration = Duration::from_secs(10);

/// Differences of arrival and time stamp, in microseconds since the first packet.
#[derive(Debug)]
pub(super) struct Clock {
    begin: Instant,
    smallest: i64,
    /// The smallest one of the bucket before.
    before: i64,
    until: Instant,
}

impl Clock {
    pub(super) fn new(now: Instant, sent: u64) -> Self {
        let mut clock = Self {
            begin: now,
            smallest: i64::MAX,
            before: i64::MAX,
            until: now + BUCKET,
        };
        clock.observe(now, sent);
        clock
    }

    /// A packet with this time stamp, in milliseconds, came.
    pub(super) fn observe(&mut self, now: Instant, sent: u64) {
        if now >= self.until {
            // After a long silence the bucket before is old, too.
            self.before = if now < self.until + BUCKET {
                self.smallest
            } else {
                i64::MAX
            };
            self.smallest = i64::MAX;
            self.until = now + BUCKET;
        }
        let since = i64::try_from(now.saturating_duration_since(self.begin).as_micros())
            .unwrap_or(i64::MAX / 2);
        self.smallest = self.smallest.min(since - micros(sent));
    }

    /// When what was sent at this time is due, if it may be so many milliseconds later than by the shortest way.
    pub(super) fn due(&self, sent: u64, budget: u32) -> Instant {
        let offset = self.smallest.min(self.before);
        let since = micros(sent)
            .saturating_add(offset)
            .saturating_add(i64::from(budget) * 1_000);
        let since = Duration::from_micros(u64::try_from(since).unwrap_or(0));
        // A time stamp that is far in the future is a peer's mistake, and its frame's verdict comes when it is pushed out.
        self.begin
            .checked_add(since)
            .unwrap_or_else(|| self.begin + Duration::from_secs(1 << 30))
    }
}

fn micros(millis: u64) -> i64 {
    i64::try_from(millis.saturating_mul(1_000)).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn due_by_the_shortest_way() {
        let begin = Instant::now();
        let at = |ms| begin + Duration::from_millis(ms);
        // Stamps are 1,000 ms behind arrivals on a way of 30 ms, the first took 50.
        let mut clock = Clock::new(at(0), 1_000);
        assert_eq!(clock.due(1_000, 100), at(100));
        clock.observe(at(13), 1_033);
        assert_eq!(clock.due(1_000, 100), at(80));
        clock.observe(at(80), 1_066);
        assert_eq!(clock.due(1_066, 100), at(146));
        // 20 s later, only what came meanwhile counts.
        clock.observe(at(10_010), 11_000);
        assert_eq!(clock.due(11_000, 0), at(9_980));
        clock.observe(at(20_020), 21_000);
        assert_eq!(clock.due(21_000, 0), at(20_010));
        clock.observe(at(60_000), 61_000);
        assert_eq!(clock.due(61_000, 0), at(60_000));
    }

    #[test]
    fn hostile_stamps_do_not_overflow() {
        let begin = Instant::now();
        let mut clock = Clock::new(begin, crate::wire::MAX_SENT);
        clock.observe(begin, 0);
        clock.due(crate::wire::MAX_SENT, 1 << 30);
        clock.due(0, 0);
    }
}
