//! Deterministic network simulator for mpquic: virtual time, modelled links, real protocol endpoints; and the same link model under real sockets.
#![forbid(unsafe_code)]

mod link;

pub use link::{
    Exit, Fate, Link, LinkConfig, LinkConfigError, LinkStats, Loss, Outage, QueueLimit, flip_bit,
};
