//! Congestion control for one path or many (RFC 9002 and others): one controller per connection with a state per path,
//! so that LIA, OLIA and BALIA can couple the paths. Beside it what it is told and what follows from it: the round-trip time
//! ([`RttEstimator`]), the delivery rate ([`DeliveryRate`]) and the pacer ([`Pacer`]) of a path, and careful resume
//! ([`CarefulResume`]). It detects no losses, keeps no packets and reads no clock.
//!
//! [`CongestionControl`] names the controllers of this crate. To write one of your own, implement
//! [`Controller`] and give a [`ControllerFactory`] to `mpquic`'s `TransportConfig::congestion`, or call it from a transport of
//! yours:
//!
//! ```
//! use std::time::{Duration, Instant};
//!
//! use mpquic_congestion::{
//!     AckedPacket, CongestionControl, ControllerContext, ControllerFactory, InitialWindow, NewPath,
//!     PathIndex, RttEstimator,
//! };
//! use rand::SeedableRng;
//! use rand::rngs::StdRng;
//!
//! let mut rng = StdRng::seed_from_u64(1);
//! let mut context = ControllerContext::new(InitialWindow::default(), None, &mut rng);
//! let mut controller = CongestionControl::default().build(&mut context);
//! let path = PathIndex::new(0).unwrap();
//! let start = Instant::now();
//! controller.add_path(&NewPath::new(path, start, 1200));
//! let before = controller.window(path);
//!
//! let mut rtt = RttEstimator::new(Duration::from_millis(333));
//! let now = start + Duration::from_millis(20);
//! rtt.update(now, Duration::from_millis(20), Duration::ZERO);
//! controller.on_packet_acked(&AckedPacket::new(path, now, start, 1200, false, &rtt));
//! assert!(controller.window(path) > before);
//! ```
//!
//! Bytes are counted in `u64`, times are arguments, and a rate is in bytes per second. No method panics or allocates after the
//! paths have been added.
#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]
#![cfg_attr(
    test,
    allow(
        clippy::disallowed_methods,
        reason = "tests take a point to start from off the clock"
    )
)]

mod auto;
mod balia;
mod bbr;
mod builtin;
mod careful_resume;
mod controller;
mod coupled;
mod cubic;
mod delivery_rate;
mod hystart;
mod initial_window;
mod lia;
mod loss_cause;
mod new_reno;
mod olia;
mod pacing;
mod rapid_start;
mod reno_window;
mod round_variation;
mod rtt;
mod slow_start;
#[cfg(test)]
mod tests;
mod train;

use std::time::{Duration, Instant};

pub use builtin::{CongestionControl, UnknownCongestionControl};
pub use careful_resume::{CarefulResume, Reconnaissance, ResumeLimits, ResumeState, ResumeStep};
pub use controller::{
    AckSummary, AckedPacket, CongestionEvent, Controller, ControllerContext, ControllerFactory,
    ControllerState, LostPacket, NewPath, SentPacket, SpuriousLoss, Steering,
};
pub use initial_window::{InitialWindow, minimum_window};
pub use loss_cause::{LossCause, LossCauses, LossJudge};
pub use mpquic_sched_core::{MAX_PATHS, PathIndex};
pub use slow_start::{SlowStart, UnknownSlowStart};

pub use delivery_rate::{Acknowledged, DeliveryRate, DeliverySnapshot, RateSample};
pub use pacing::{Pace, Pacer};
pub use rtt::RttEstimator;

/// The largest congestion window that a connection uses, bytes: far beyond what any path carries,
/// and far below what would overflow.
pub const MAX_WINDOW: u64 = 1 << 40;

/// kGranularity (RFC 9002 section 6.1.2).
pub const GRANULARITY: Duration = Duration::from_millis(1);

/// Hosts stall that long now and then: less silence tells nothing.
pub const STALL: Duration = Duration::from_millis(10);

/// `instant + duration` for durations that a peer or a configuration may have made absurd: at most a day counts.
#[inline]
pub fn later(instant: Instant, duration: Duration) -> Instant {
    const DAY: Duration = Duration::from_secs(24 * 3600);
    instant + duration.min(DAY)
}

/// The README's example compiles.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;
