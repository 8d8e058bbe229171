//! Connections that were over before they began, and the packet that says so.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use mpquic_sched_core::ConnectionId;

use crate::limits;

/// How long a closed connection is remembered: three PTOs at the initial RTT of RFC 9002 section 6.2.2.
const CLOSED_FOR: Duration = Duration::from_secs(3);

/// The closed connections, oldest first, each with the number by which routes know it.
#[derive(Debug, Default)]
pub(super) struct Refused {
    entries: VecDeque<Entry>,
    /// The number of the first.
    first: u64,
}

#[derive(Debug)]
struct Entry {
    dcid: ConnectionId,
    until: Instant,
    /// A packet with CONNECTION_CLOSE.
    packet: Box<[u8]>,
    received: u32,
}

impl Refused {
    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Remembers one; its number.
    pub(super) fn add(&mut self, now: Instant, dcid: ConnectionId, packet: Box<[u8]>) -> u64 {
        let until = now + CLOSED_FOR;
        // In the order of their ends, even if an earlier one was closed later.
        let last = self.entries.back().map_or(until, |entry| entry.until);
        self.entries.push_back(Entry {
            dcid,
            until: until.max(last),
            packet,
            received: 0,
        });
        self.first + self.entries.len() as u64 - 1
    }

    /// Forgets one whose time is over, or the oldest while there are too many; call it until there is none.
    pub(super) fn expire(&mut self, now: Instant) -> Option<(u64, ConnectionId)> {
        let too_many = self.entries.len() > limits::MAX_CLOSED_KEPT;
        if !too_many && self.entries.front()?.until > now {
            return None;
        }
        let gone = self.entries.pop_front()?;
        self.first += 1;
        Some((self.first - 1, gone.dcid))
    }

    /// Writes the packet again in answer to a datagram of so many bytes, ever more rarely. Whether it did.
    pub(super) fn answer(&mut self, number: u64, datagram: usize, buf: &mut Vec<u8>) -> bool {
        let index = number.checked_sub(self.first);
        let index = index.and_then(|index| usize::try_from(index).ok());
        let Some(entry) = index.and_then(|index| self.entries.get_mut(index)) else {
            return false;
        };
        entry.received = entry.received.saturating_add(1);
        //= specs/rfc9000.txt#section-10.2.1
        //# An endpoint SHOULD limit the rate at which it generates packets in the closing state.
        let due = entry.received.is_power_of_two();
        //= specs/rfc9000.txt#section-10.2.1
        //# To avoid being used for an amplification attack, such endpoints MUST limit the cumulative
        //# size of packets it sends to three times the cumulative size of the packets that are
        //# received and attributed to the connection.
        let write = due && entry.packet.len() <= 3 * datagram;
        if write {
            buf.extend_from_slice(&entry.packet);
        }
        write
    }

    /// What is kept.
    pub(super) fn bytes(&self) -> usize {
        let packets = self.entries.iter().map(|entry| entry.packet.len());
        self.entries.len() * size_of::<Entry>() + packets.sum::<usize>()
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }
}
