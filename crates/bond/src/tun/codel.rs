//! When a lane drops a packet so that a TCP sender slows down: CoDel (RFC 8289), by how long packets have waited and not by how many do. A queue that drops what
//! is too much at once cuts a flow to a half of the links as soon as their rate is found out; one that only grows delays it for as long as it is.

use std::time::{Duration, Instant};

/// How long packets may wait all the time. RFC 8289 section 4.4 has 5 ms for links of the internet; a lane gets what two links of different delays carry
/// in order, and is written to in pieces. Ours: so long, CUBIC fills links with round trips of up to 120 ms after it has slowed down by 0.7 (RFC 9438 section 4.6).
const TARGET: Duration = Duration::from_millis(50);
/// For how long they wait longer before the first one is dropped: a round trip of the slow ones (RFC 8289 section 4.3).
const INTERVAL: Duration = Duration::from_millis(200);

/// The state of a queue.
#[derive(Debug, Default)]
pub(super) struct CoDel {
    /// When packets will have waited too long for too long.
    late_at: Option<Instant>,
    /// When the next one is dropped, if packets are.
    drop_at: Option<Instant>,
    /// How many were dropped since they are, and how many were when the last time began.
    count: u32,
    before: u32,
    /// The end of the last time, by when the next would have been dropped.
    ended: Option<Instant>,
}

impl CoDel {
    /// Whether a packet that leaves the queue after so long is dropped (RFC 8289 section 5.5).
    pub(super) fn drops(&mut self, waited: Duration, now: Instant) -> bool {
        if waited < TARGET {
            self.late_at = None;
            self.ended = self.drop_at.take().or(self.ended);
            return false;
        }
        let late_at = *self.late_at.get_or_insert(now + INTERVAL);
        if now < late_at {
            self.ended = self.drop_at.take().or(self.ended);
            return false;
        }
        match self.drop_at {
            Some(at) if now < at => false,
            Some(at) => {
                self.count += 1;
                self.drop_at = Some(at + self.pause());
                true
            }
            None => {
                // Shortly after the last time, it goes on at the rate that was right then.
                let since = self.count - self.before;
                let is_again = self.ended.is_some_and(|ended| now < ended + 16 * INTERVAL);
                self.count = if since > 1 && is_again { since } else { 1 };
                self.before = self.count;
                self.drop_at = Some(now + self.pause());
                true
            }
        }
    }

    /// The control law: the rate of a TCP flow goes with the root of its losses (RFC 8289 section 3.2).
    fn pause(&self) -> Duration {
        INTERVAL.div_f64(f64::from(self.count).sqrt())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many of the packets are dropped that leave each millisecond, after as long as is told.
    fn dropped(codel: &mut CoDel, now: &mut Instant, millis: u32, waited: Duration) -> u32 {
        let step = Duration::from_millis(1);
        let mut leave = || {
            *now += step;
            u32::from(codel.drops(waited, *now))
        };
        (0..millis).map(|_| leave()).sum()
    }

    #[test]
    fn a_queue_that_gets_short_drops_nothing_and_one_that_does_not_ever_more() {
        let (mut codel, mut now) = (CoDel::default(), Instant::now());
        let (short, long) = (Duration::from_millis(49), Duration::from_millis(60));
        for _ in 0..10 {
            assert_eq!(dropped(&mut codel, &mut now, 199, long), 0);
            assert_eq!(dropped(&mut codel, &mut now, 1, short), 0);
        }
        assert_eq!(dropped(&mut codel, &mut now, 201, long), 1);
        let first = dropped(&mut codel, &mut now, 1000, long);
        let second = dropped(&mut codel, &mut now, 1000, long);
        assert!(first > 5 && second > first, "{first} {second}");
        assert_eq!(dropped(&mut codel, &mut now, 1, short), 0);
        // Where it left off, after another interval.
        assert_eq!(dropped(&mut codel, &mut now, 200, long), 0);
        let again = dropped(&mut codel, &mut now, 200, long);
        assert!(again > 2, "{again}");
        // Long after, from the beginning.
        dropped(&mut codel, &mut now, 60_000, short);
        assert_eq!(dropped(&mut codel, &mut now, 202, long), 1);
    }
}
