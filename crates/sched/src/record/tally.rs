//! Counts of one connection that two threads read, one of which writes.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use super::Outcome;
use crate::{Acked, Lost, Sent};

/// What has become of a connection so far.
///
/// Only the thread that the connection is on writes, so that no operation needs to be one that other cores wait for.
/// What is read is as of the end of the connection, the ring's own synchronisation seeing to the order.
#[derive(Debug, Default)]
pub(super) struct Tally {
    first: OnceLock<Instant>,
    last: AtomicU64,
    sent_packets: AtomicU64,
    sent_bytes: AtomicU64,
    retransmissions: AtomicU64,
    acked_bytes: AtomicU64,
    contiguous_bytes: AtomicU64,
    lost_packets: AtomicU64,
    pub(super) decisions: AtomicU64,
    pub(super) rewards: AtomicU64,
    pub(super) dropped: AtomicU64,
}

/// Adds to a counter that nobody else writes.
#[inline]
pub(super) fn add(counter: &AtomicU64, count: u64) {
    let sum = counter.load(Ordering::Relaxed).wrapping_add(count);
    counter.store(sum, Ordering::Relaxed);
}

impl Tally {
    /// Microseconds since the first time that this was asked.
    #[inline]
    pub(super) fn us(&self, now: Instant) -> u64 {
        let first = *self.first.get_or_init(|| now);
        let us = now.saturating_duration_since(first).as_micros();
        let us = u64::try_from(us).unwrap_or(u64::MAX);
        self.last.store(us, Ordering::Relaxed);
        us
    }

    #[inline]
    pub(super) fn sent(&self, event: &Sent) {
        self.us(event.now);
        add(&self.sent_packets, 1);
        add(&self.sent_bytes, u64::from(event.size));
        add(&self.retransmissions, u64::from(event.retransmission));
    }

    #[inline]
    pub(super) fn acked(&self, event: &Acked) {
        self.us(event.now);
        add(&self.acked_bytes, u64::from(event.size));
        add(&self.contiguous_bytes, event.contiguous);
    }

    #[inline]
    pub(super) fn lost(&self, event: &Lost) {
        self.us(event.now);
        add(&self.lost_packets, 1);
    }

    /// All of it.
    pub(super) fn outcome(&self, cut: bool) -> Outcome {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Outcome {
            us: read(&self.last),
            cut,
            sent_packets: read(&self.sent_packets),
            sent_bytes: read(&self.sent_bytes),
            retransmissions: read(&self.retransmissions),
            acked_bytes: read(&self.acked_bytes),
            contiguous_bytes: read(&self.contiguous_bytes),
            lost_packets: read(&self.lost_packets),
            decisions: read(&self.decisions),
            rewards: read(&self.rewards),
            dropped: read(&self.dropped),
        }
    }
}
