//! Congestion control: one controller per connection with a state per path; does not detect losses.
//!
//! [`CongestionControl`] names the controllers of this crate. To write one of your own, implement
//! [`Controller`] and give a [`ControllerFactory`] to
//! [`TransportConfig::congestion`](crate::TransportConfig::congestion).

mod balia;
mod bbr;
mod builtin;
mod careful_resume;
mod controller;
mod coupled;
mod cubic;
mod event;
mod hystart;
mod initial_window;
mod lia;
mod new_reno;
mod olia;
mod rapid_start;
mod reno_window;
mod slots;
mod slow_start;
#[cfg(test)]
mod tests;

pub use builtin::{CongestionControl, UnknownCongestionControl};
pub(crate) use careful_resume::CarefulResume;
pub use careful_resume::{ResumeState, ResumeStep};
pub use controller::{Controller, ControllerContext, ControllerFactory, ControllerState};
pub use event::{
    AckSummary, AckedPacket, CongestionEvent, LostPacket, NewPath, SentPacket, SpuriousLoss,
};
pub use initial_window::{InitialWindow, minimum_window};
pub use mpquic_sched_core::{MAX_PATHS, PathIndex};
pub use slow_start::{SlowStart, UnknownSlowStart};

pub use crate::recovery::{RateSample, RttEstimator};

/// The largest congestion window that a connection uses, bytes: far beyond what any path carries,
/// and far below what would overflow.
pub const MAX_WINDOW: u64 = 1 << 40;
