//! What a link counts; no behaviour.

use std::time::Duration;

/// Counters of one direction of a link. Bytes are those given to the link, without its overhead.
///
/// Once all is out: `packets_in + duplicated` equals `delivered` plus the three kinds of drops.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LinkStats {
    /// Packets that wanted to enter.
    pub packets_in: u64,
    /// Bytes of these.
    pub bytes_in: u64,
    /// Packets for which the queue had no room.
    pub dropped_queue: u64,
    /// Packets lost at random.
    pub dropped_loss: u64,
    /// Packets that came to, or waited in, a dark link.
    pub dropped_outage: u64,
    /// Packets that came out, second copies included.
    pub delivered: u64,
    /// Bytes of these.
    pub bytes_delivered: u64,
    /// Second copies made.
    pub duplicated: u64,
    /// Packets with a flipped bit.
    pub corrupted: u64,
    /// Packets held back so that others may overtake.
    pub reordered: u64,
    /// Time spent serialising.
    pub busy: Duration,
    /// The most packets that waited at a time.
    pub max_queue_packets: u64,
    /// The most bytes that waited at a time, with overhead.
    pub max_queue_bytes: u64,
}

impl LinkStats {
    /// Packets lost, whatever the cause.
    pub const fn dropped(&self) -> u64 {
        self.dropped_queue + self.dropped_loss + self.dropped_outage
    }
}
