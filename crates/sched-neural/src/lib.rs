//! The packet schedulers of mpquic that ask a trained network: DQN, GAPS and SAILfish, with their networks.
//!
//! This crate adds them by name to the registry of `mpquic-sched`. It brings in tract, which takes minutes to build: a
//! program without it has all other schedulers.
//!
//! ```
//! let registry = mpquic_sched_neural::registry();
//! let factory = registry.factory("gaps", &serde_json::json!({ "run": "thread" }))?;
//! let for_one_connection = factory.make();
//! # drop(for_one_connection);
//! # Ok::<(), mpquic_sched::RegistryError>(())
//! ```
//!
//! | name | scheduler | configuration |
//! |---|---|---|
//! | `dqn` | [`Dqn`] | [`DqnConfig`] |
//! | `gaps` | [`Gaps`] | [`GapsConfig`] |
//! | `sailfish` | [`Sailfish`] | [`SailfishConfig`] |
//!
//! Their field `model` says which network is asked: the one that comes with this crate (`"shipped"`, the default),
//! chance (`"random"`), or the path of an ONNX file with its card beside it. `mpquic_sched::neural` says how a policy is
//! asked and what becomes of answers that cannot be followed.
#![forbid(unsafe_code)]
#![cfg_attr(
    test,
    allow(
        clippy::disallowed_methods,
        reason = "tests take a point to start from off the clock"
    )
)]

#[cfg(test)]
#[macro_use]
mod testing;

mod dqn;
mod gaps;
mod model;
mod network;
mod registry;
mod sailfish;

pub use gaps::{Gaps, GapsConfig};
pub use network::Network;
pub use registry::{register, registry};
pub use sailfish::{Rates, Sailfish, SailfishConfig};

pub use mpquic_sched::neural::{
    Dqn, DqnConfig, Experience, Model, Policy, Random, Run, Unanswered,
};

/// The README's example compiles.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;
