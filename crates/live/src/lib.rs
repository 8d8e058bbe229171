//! Frames in time over several paths: copies, hedging, and repair at a learned rate. Without I/O, clock and transport.
//!
//! With the feature `tokio`, `LiveSender` and `LiveReceiver` are that over a connection of `mpquic`: frames go in at one end, and come out
//! whole, or named as missing when they are due, at the other. With `proto`, `Outlet` is the sender's side over `mpquic-proto`, for
//! those who have an event loop of their own. Below both:
//!
//! [`Sender`] takes frames and the fates of datagrams, and says what to send where; [`Receiver`] takes datagrams, and says of each frame
//! what became of it. [`wire`] is the format between them, [`rlc`] the code.
#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]
#![cfg_attr(
    test,
    allow(
        clippy::disallowed_methods,
        reason = "tests read the clock for a starting point"
    )
)]

#[cfg(feature = "proto")]
mod outlet;
#[cfg(feature = "tokio")]
mod quic;
mod receiver;
pub mod rlc;
mod sender;
pub mod wire;

#[cfg(feature = "proto")]
pub use outlet::{MAX_PAYLOAD, Outlet, tune};
#[cfg(feature = "tokio")]
pub use quic::{LiveConfig, LiveError, LiveFlow, LiveReceiver, LiveSender, Received};
pub use receiver::{Limits, MAX_FRAMES, MAX_READY, ReceiveError, Receiver, ReceiverStats, Verdict};

pub use sender::{
    Cause, Config, Count, Fate, Flow, FrameInfo, Learned, NotLearned, PathId, PathView, RATES,
    Repair, SendError, Sender, SenderStats, Transmit,
};

/// The README, whose example is compiled with the doc tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;
