//! The counters of a link.

use std::time::Duration;

/// The counters of one direction of a link. Bytes do not include the link's overhead.
///
/// When the link is empty, `packets_in + duplicated` equals `delivered` plus the three kinds of
/// drops.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LinkStats {
    /// Packets given to the link.
    pub packets_in: u64,
    /// Bytes of these packets.
    pub bytes_in: u64,
    /// Packets dropped because the queue was full.
    pub dropped_queue: u64,
    /// Packets lost at random.
    pub dropped_loss: u64,
    /// Packets lost because the link was down when they came or while they waited.
    pub dropped_outage: u64,
    /// Packets delivered, second copies included.
    pub delivered: u64,
    /// Bytes of these packets.
    pub bytes_delivered: u64,
    /// Second copies made.
    pub duplicated: u64,
    /// Packets with a flipped bit.
    pub corrupted: u64,
    /// Packets held back so that others may overtake them.
    pub reordered: u64,
    /// Time spent on serialisation.
    pub busy: Duration,
    /// The largest number of packets that waited at a time.
    pub max_queue_packets: u64,
    /// The largest number of bytes that waited at a time, overhead included.
    pub max_queue_bytes: u64,
}

impl LinkStats {
    /// All lost packets, whatever the cause.
    pub const fn dropped(&self) -> u64 {
        self.dropped_queue + self.dropped_loss + self.dropped_outage
    }
}
