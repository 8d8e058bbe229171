//! Loss recovery of one path (RFC 9002): what was lost, when to probe, how fast to send.

mod ecn;
mod persistent;

use std::time::Instant;

pub(crate) use mpquic_congestion::{
    Acknowledged, DeliveryRate, DeliverySnapshot, Pace, Pacer, RttEstimator, STALL, later,
};

#[cfg(test)]
pub(crate) use mpquic_congestion::RateSample;

pub(crate) use ecn::{EcnCounter, EcnReport, EcnValidator};
pub(crate) use persistent::PersistentCongestion;

/// kPacketThreshold (RFC 9002 section 6.1.1).
//= specs/rfc9002.txt#section-6.1.1
//= type=implication
//# In order to remain similar to TCP, implementations SHOULD NOT use a packet threshold less than
//# 3; see [RFC5681].
pub(crate) const PACKET_THRESHOLD: u64 = 3;

/// The earlier of two times, either of which may be never.
pub(crate) fn earlier(a: Option<Instant>, b: Option<Instant>) -> Option<Instant> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}
