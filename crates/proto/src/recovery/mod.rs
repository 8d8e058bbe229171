//! Loss recovery of one path (RFC 9002): what was lost, when to probe, how fast to send.

mod ack_frequency;
mod ecn;
mod persistent;
mod pto;
mod suspect;

use std::time::Instant;

pub(crate) use mpquic_congestion::{
    Acknowledged, DeliveryRate, DeliverySnapshot, Pace, Pacer, RttEstimator, STALL, later,
};

#[cfg(test)]
pub(crate) use mpquic_congestion::RateSample;

pub(crate) use ack_frequency::{AckFrequency, PathsInUse};
pub(crate) use ecn::{EcnCounter, EcnReport, EcnValidator};
pub(crate) use persistent::PersistentCongestion;
pub(crate) use pto::{pto_duration, pto_time};
pub(crate) use suspect::Suspect;

/// The earlier of two times, either of which may be never.
pub(crate) fn earlier(a: Option<Instant>, b: Option<Instant>) -> Option<Instant> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}
