//! What a connection tells a congestion controller: one struct per event.

use std::time::{Duration, Instant};

use mpquic_sched_core::PathIndex;

use super::InitialWindow;
use crate::{RateSample, RttEstimator};

/// A path begins, or continues over other addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct NewPath {
    /// The slot of the path.
    pub path: PathIndex,
    /// The current time.
    pub now: Instant,
    /// The largest UDP payload that the path takes, bytes; it may change later.
    pub mtu: u16,
    /// The window with which this path begins. `None`: as all,
    /// [`ControllerContext::initial_window`](super::ControllerContext::initial_window).
    pub initial_window: Option<InitialWindow>,
}

impl NewPath {
    /// A path in this slot, which begins as all.
    #[inline]
    pub const fn new(path: PathIndex, now: Instant, mtu: u16) -> Self {
        Self {
            path,
            now,
            mtu,
            initial_window: None,
        }
    }

    /// With a window of its own to begin with.
    #[must_use]
    #[inline]
    pub const fn with_initial_window(mut self, window: Option<InitialWindow>) -> Self {
        self.initial_window = window;
        self
    }
}

/// A packet that counts as in flight was sent (RFC 9002 appendix B.4, `OnPacketSentCC`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct SentPacket {
    /// The path on which it was sent.
    pub path: PathIndex,
    /// The current time.
    pub now: Instant,
    /// The size of the packet, bytes.
    pub size: u64,
    /// Bytes in flight on the path, this packet included.
    pub in_flight: u64,
}

impl SentPacket {
    /// A packet of this size, after which so many bytes are in flight.
    #[inline]
    pub const fn new(path: PathIndex, now: Instant, size: u64, in_flight: u64) -> Self {
        Self {
            path,
            now,
            size,
            in_flight,
        }
    }
}

/// A packet in flight was newly acknowledged (RFC 9002 appendix B.5, `OnPacketAcked`).
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct AckedPacket<'a> {
    /// The path on which it was sent.
    pub path: PathIndex,
    /// The current time.
    pub now: Instant,
    /// When the packet was sent.
    pub sent: Instant,
    /// The size of the packet, bytes.
    pub size: u64,
    /// Whether the window was underused because there was too little to send. The window must not
    /// grow then (RFC 9002 section 7.8). Waiting for the pacer does not count as underuse.
    pub app_limited: bool,
    /// The round-trip time of the path, the newest sample included.
    pub rtt: &'a RttEstimator,
}

impl<'a> AckedPacket<'a> {
    /// A packet of this size, sent at `sent`.
    #[inline]
    pub const fn new(
        path: PathIndex,
        now: Instant,
        sent: Instant,
        size: u64,
        app_limited: bool,
        rtt: &'a RttEstimator,
    ) -> Self {
        Self {
            path,
            now,
            sent,
            size,
            app_limited,
            rtt,
        }
    }
}

/// A packet in flight was declared lost (RFC 9002 section 6.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct LostPacket {
    /// The path on which it was sent.
    pub path: PathIndex,
    /// The current time.
    pub now: Instant,
    /// The packet number.
    pub number: u64,
    /// When the packet was sent.
    pub sent: Instant,
    /// The size of the packet, bytes.
    pub size: u64,
    /// Bytes in flight when the packet had been sent, itself included.
    pub tx_in_flight: u64,
    /// Bytes declared lost on the path since the packet was sent, itself included.
    pub lost: u64,
    /// Bytes delivered on the path so far.
    pub total_delivered: u64,
    /// Whether there was too little to send when the packet was sent.
    pub app_limited: bool,
}

impl LostPacket {
    /// A packet of this number and size, sent at `sent`. The other fields are zero and `false`.
    #[inline]
    pub const fn new(path: PathIndex, now: Instant, number: u64, sent: Instant, size: u64) -> Self {
        Self {
            path,
            now,
            number,
            sent,
            size,
            tx_in_flight: 0,
            lost: 0,
            total_delivered: 0,
            app_limited: false,
        }
    }
}

/// Congestion was detected: packets were lost, or the peer reported new ECN-CE marks (RFC 9002
/// appendix B.6, `OnCongestionEvent`).
///
/// A controller reduces its window at most once per round trip: it ignores events whose
/// [`newest_sent`](Self::newest_sent) is not later than the start of its recovery period.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct CongestionEvent {
    /// The path on which it was detected.
    pub path: PathIndex,
    /// The current time.
    pub now: Instant,
    /// When the newest of the lost packets was sent. For ECN: when the newest of the packets was
    /// sent that the ACK frame with the report newly acknowledged.
    pub newest_sent: Instant,
    /// Bytes declared lost; 0 for ECN.
    pub lost_bytes: u64,
    /// Whether the losses establish persistent congestion (RFC 9002 section 7.6).
    pub persistent: bool,
    /// Whether the event is a report of ECN-CE marks (RFC 9002 section 7.1) and not a loss.
    pub ecn: bool,
}

impl CongestionEvent {
    /// So many bytes were lost; the newest of the packets was sent at `newest_sent`.
    #[inline]
    pub const fn loss(
        path: PathIndex,
        now: Instant,
        newest_sent: Instant,
        lost_bytes: u64,
        persistent: bool,
    ) -> Self {
        Self {
            path,
            now,
            newest_sent,
            lost_bytes,
            persistent,
            ecn: false,
        }
    }

    /// The peer reported new ECN-CE marks with the acknowledgement of a packet sent at
    /// `newest_sent`.
    #[inline]
    pub const fn ecn(path: PathIndex, now: Instant, newest_sent: Instant) -> Self {
        Self {
            path,
            now,
            newest_sent,
            lost_bytes: 0,
            persistent: false,
            ecn: true,
        }
    }
}

/// Packets that were declared lost were acknowledged after all: they were delayed or reordered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct SpuriousLoss {
    /// The path on which they were sent.
    pub path: PathIndex,
    /// The current time.
    pub now: Instant,
    /// When the newest of them was sent.
    pub newest_sent: Instant,
    /// Their size, bytes.
    pub bytes: u64,
}

impl SpuriousLoss {
    /// Packets of so many bytes, the newest of them sent at `newest_sent`.
    #[inline]
    pub const fn new(path: PathIndex, now: Instant, newest_sent: Instant, bytes: u64) -> Self {
        Self {
            path,
            now,
            newest_sent,
            bytes,
        }
    }
}

/// An ACK frame was processed: what all its packets tell together.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct AckSummary<'a> {
    /// The path whose packets it acknowledges.
    pub path: PathIndex,
    /// The current time.
    pub now: Instant,
    /// The sample of the path's delivery rate.
    pub sample: &'a RateSample,
    /// When the newest of the newly acknowledged packets was sent.
    pub newest_sent: Instant,
    /// The RTT sample of the frame, if it gave one (RFC 9002 section 5.1).
    pub rtt_sample: Option<Duration>,
    /// The round-trip time of the path, that sample included.
    pub rtt: &'a RttEstimator,
    /// Bytes in flight, without the packets that the frame acknowledged or caused to be declared
    /// lost.
    pub in_flight: u64,
}

impl<'a> AckSummary<'a> {
    /// An ACK frame without an RTT sample that leaves nothing in flight.
    #[inline]
    pub const fn new(
        path: PathIndex,
        now: Instant,
        newest_sent: Instant,
        sample: &'a RateSample,
        rtt: &'a RttEstimator,
    ) -> Self {
        Self {
            path,
            now,
            sample,
            newest_sent,
            rtt_sample: None,
            rtt,
            in_flight: 0,
        }
    }
}
