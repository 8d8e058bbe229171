//! Frames in time over several paths: a format, and a code that brings back what was lost. Without I/O, clock and randomness.
#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]

pub mod rlc;
pub mod wire;

/// The README, whose example is compiled with the doc tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;
