//! The schedulers of this crate, and what holds for every scheduler, seen from outside.
#![allow(
    clippy::disallowed_methods,
    reason = "tests take a point to start from off the clock"
)]

mod cards;
mod dqn;
mod gaps;
// What holds for every view is said once, in `mpquic-sched`, and holds for these, too.
#[path = "../../../sched/tests/builtin/properties.rs"]
mod properties;
mod recorded;
mod registry;
mod sailfish;
#[path = "../../../sched/tests/builtin/support.rs"]
#[allow(dead_code, reason = "the tests here need a part of it")]
mod support;

use mpquic_sched_neural::registry;
use support::{Asked, PACKET, ask, loaded, path, unsent};
