//! What a closed connection leaves behind: the datagram that tells its peer once more, and how often that was asked for.

use std::time::{Duration, Instant};

/// What a connection leaves that is closing or draining, for [`Endpoint::keep_remains`](crate::Endpoint::keep_remains).
#[derive(Debug)]
pub struct Remains {
    /// Three PTOs after it was closed.
    pub(crate) until: Instant,
    /// The last datagram with CONNECTION_CLOSE; empty if it is draining.
    pub(crate) close: Box<[u8]>,
    /// When that was sent, and how long what comes may be older than its arrival.
    pub(crate) sent: Instant,
    pub(crate) round_trip: Duration,
    /// Packets that came since it was closed.
    pub(crate) received: u64,
}

impl Remains {
    /// Writes the close again in answer to datagrams of so many bytes, ever more rarely. Whether it did.
    pub(crate) fn answer(&mut self, now: Instant, datagrams: usize, buf: &mut Vec<u8>) -> bool {
        // Draining, or it left before the close can have arrived.
        if self.close.is_empty() || now < self.sent + self.round_trip {
            return false;
        }
        self.received = self.received.saturating_add(1);
        //= specs/rfc9000.txt#section-10.2.1
        //# An endpoint SHOULD limit the rate at which it generates packets in the closing state.
        let due = self.received.is_power_of_two();
        //= specs/rfc9000.txt#section-10.2.1
        //# To avoid being used for an amplification attack, such endpoints MUST limit the cumulative
        //# size of packets it sends to three times the cumulative size of the packets that are
        //# received and attributed to the connection.
        let write = due && self.close.len() <= 3 * datagrams;
        if write {
            self.sent = now;
            buf.extend_from_slice(&self.close);
        }
        write
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn remains(now: Instant, close: usize) -> Remains {
        Remains {
            until: now + Duration::from_secs(1),
            close: vec![0x40; close].into(),
            sent: now,
            round_trip: Duration::from_millis(10),
            received: 0,
        }
    }

    //= specs/rfc9000.txt#section-10.2.1
    //= type=test
    //# To avoid being used for an amplification attack, such endpoints MUST limit the cumulative
    //# size of packets it sends to three times the cumulative size of the packets that are
    //# received and attributed to the connection.
    #[test]
    fn who_sends_little_is_answered_nothing() {
        let start = Instant::now();
        for (datagram, answered) in [(33, false), (34, true)] {
            let mut remains = remains(start, 100);
            let mut buf = Vec::new();
            let now = start + remains.round_trip;
            assert_eq!(remains.answer(now, datagram, &mut buf), answered);
            assert_eq!(buf.len(), if answered { 100 } else { 0 });
        }
    }

    #[test]
    fn a_flood_is_answered_ever_more_rarely_and_drained_connections_never() {
        let start = Instant::now();
        let (mut closing, mut draining) = (remains(start, 100), remains(start, 0));
        let mut buf = Vec::new();
        for packet in 1..=1 << 20 {
            let now = start + packet * closing.round_trip;
            closing.answer(now, 1200, &mut buf);
            assert!(!draining.answer(now, 1200, &mut buf));
        }
        assert_eq!(buf.len(), 21 * 100, "the 1st, 2nd, 4th ... packet");
    }
}
