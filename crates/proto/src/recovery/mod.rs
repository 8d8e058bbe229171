//! Loss recovery of one path (RFC 9002): what was lost, when to probe, how fast to send; sends nothing.

mod ack_frequency;
mod delivery_rate;
mod ecn;
mod pacing;
mod persistent;
mod pto;
mod rtt;
mod suspect;

use std::time::{Duration, Instant};

pub(crate) use ack_frequency::{AckFrequency, PathsInUse};
pub use delivery_rate::RateSample;
pub(crate) use delivery_rate::{Acknowledged, DeliveryRate, DeliverySnapshot};
pub(crate) use ecn::{EcnCounter, EcnReport, EcnValidator};
pub(crate) use pacing::{Pace, Pacer};
pub(crate) use persistent::PersistentCongestion;
pub(crate) use pto::{pto_duration, pto_time};
pub use rtt::RttEstimator;
pub(crate) use suspect::Suspect;

/// kGranularity (RFC 9002 section 6.1.2).
pub(crate) const GRANULARITY: Duration = Duration::from_millis(1);

/// Hosts stall that long now and then: less silence tells nothing.
pub(crate) const STALL: Duration = Duration::from_millis(10);

/// The earlier of two times, either of which may be never.
pub(crate) fn earlier(a: Option<Instant>, b: Option<Instant>) -> Option<Instant> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}

/// `instant + duration` for durations that a peer or a configuration may have made absurd.
pub(crate) fn later(instant: Instant, duration: Duration) -> Instant {
    const DAY: Duration = Duration::from_secs(24 * 3600);
    instant + duration.min(DAY)
}
