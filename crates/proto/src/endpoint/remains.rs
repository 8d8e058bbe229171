//! What is kept of connections that are closing or draining and that nobody holds any more: enough to tell the peer once more,
//! and to know when the last packets have come; builds no packets.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::{Duration, Instant};

use crate::{ConnectionHandle, FourTuple, Transmit};

/// How much later than they may, connections are forgotten: many at once, so that they do not cost a timer each.
const TOGETHER: Duration = Duration::from_millis(10);

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
    fn answer(&mut self, now: Instant, datagrams: usize, buf: &mut Vec<u8>) -> bool {
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

/// Whose time is over first.
#[derive(Debug, Default)]
pub(super) struct Ends(BinaryHeap<Reverse<(Instant, usize)>>);

impl Ends {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn add(&mut self, handle: ConnectionHandle, until: Instant) {
        self.0.push(Reverse((until, handle.0)));
    }

    /// When some are to be forgotten.
    pub(super) fn next(&self) -> Option<Instant> {
        self.0.peek().map(|Reverse((until, _))| *until + TOGETHER)
    }

    /// Takes the first one, if its time is over or no time is given.
    pub(super) fn take(&mut self, now: Option<Instant>) -> Option<ConnectionHandle> {
        let Reverse((until, handle)) = *self.0.peek()?;
        if now.is_some_and(|now| until > now) {
            return None;
        }
        self.0.pop();
        if self.0.is_empty() {
            // Most of the time there is none.
            self.0 = BinaryHeap::new();
        }
        Some(ConnectionHandle(handle))
    }
}

impl super::Endpoint {
    /// Takes what is left of a connection that is closing or draining, in place of
    /// [`EndpointEvent::Drained`](crate::EndpointEvent::Drained): the connection itself may be dropped, and what still comes for
    /// it goes to [`handle_remains`](Self::handle_remains). Returns whether
    /// [`poll_timeout`](Self::poll_timeout) is earlier now.
    pub fn keep_remains(&mut self, handle: ConnectionHandle, remains: Remains) -> bool {
        let Some(known) = self.connections.get_mut(handle.0) else {
            return false;
        };
        let before = self.ends.next();
        self.ends.add(handle, remains.until);
        known.remains = Some(Box::new(remains));
        before.is_none_or(|before| self.ends.next().is_some_and(|next| next < before))
    }

    /// Takes in what has come for a connection of which only [remains](Self::keep_remains) are left. If it is to be told once
    /// more that the connection is closed, that is appended to `buf`.
    pub fn handle_remains(
        &mut self,
        handle: ConnectionHandle,
        event: &super::ConnectionEvent,
        buf: &mut Vec<u8>,
    ) -> Option<Transmit> {
        let known = self.connections.get_mut(handle.0)?;
        let remains = known.remains.as_mut()?;
        let start = buf.len();
        let answered = remains.answer(event.now, event.size(), buf);
        let path: FourTuple = event.network_path;
        answered.then(|| super::answer_to(path, buf.len() - start))
    }

    /// Forgets the connections of which only remains are left, if their time is over, or all of them without a time. How many:
    /// each counts as drained.
    pub fn forget_remains(&mut self, now: Option<Instant>) -> usize {
        let mut count = 0;
        let waits = |now| self.ends.next().is_none_or(|next| next > now);
        if now.is_some_and(waits) {
            return count;
        }
        while let Some(handle) = self.ends.take(now) {
            self.handle_event(handle, super::EndpointEvent::Drained);
            count += 1;
        }
        count
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
