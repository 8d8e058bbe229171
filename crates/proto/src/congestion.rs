//! Congestion control: what of `mpquic-congestion` a user of this crate needs.
//!
//! [`CongestionControl`] names the controllers of that crate. To write one of your own, implement
//! [`Controller`] and give a [`ControllerFactory`] to
//! [`TransportConfig::congestion`](crate::TransportConfig::congestion).

pub use mpquic_congestion::{
    AckSummary, AckedPacket, CongestionControl, CongestionEvent, Controller, ControllerContext,
    ControllerFactory, ControllerState, InitialWindow, LossCause, LossCauses, LostPacket,
    MAX_PATHS, MAX_WINDOW, NewPath, PathIndex, RateSample, ResumeState, ResumeStep, RttEstimator,
    SentPacket, SlowStart, SpuriousLoss, Steering, UnknownCongestionControl, UnknownSlowStart,
    minimum_window,
};

pub(crate) use mpquic_congestion::CarefulResume;
