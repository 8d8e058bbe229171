//! Frames in time over several paths: a format, and a code that brings back what was lost. Without I/O, clock and randomness.
#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]
#![cfg_attr(
    test,
    allow(
        clippy::disallowed_methods,
        reason = "tests read the clock for a starting point"
    )
)]

mod receiver;
pub mod rlc;
pub mod wire;

pub use receiver::{Limits, MAX_FRAMES, MAX_READY, ReceiveError, Receiver, ReceiverStats, Verdict};

/// The README, whose example is compiled with the doc tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;
