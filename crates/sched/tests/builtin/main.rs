//! The built-in schedulers and the registry, seen from outside the crate.
#![allow(
    clippy::disallowed_methods,
    reason = "tests take a point to start from off the clock"
)]

mod arrival;
mod dqn;
mod dqn_online;
mod gaps;
mod linucb;
mod paths;
mod peekaboo;
mod properties;
mod put_off;
mod registry;
mod streams;
mod streams_waiting;
mod support;
mod tables;
mod ucb;
mod waiting;
mod waiting_properties;

use mpquic_sched::Registry;
use support::{Asked, PACKET, ask, ask_times, full, loaded, path, unsent};

/// Where the tests of every scheduler find them: `mpquic-sched-neural` runs the same tests over its own.
fn registry() -> Registry {
    Registry::new()
}
