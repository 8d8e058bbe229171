//! ONNX policies that decide in the process: loaded with their card, checked, compiled to a flat plan; trains
//! nothing and knows no network.
//!
//! A policy is two files: the network (`policy.onnx`) and its [`Card`] (`policy.json`), which says what goes in, in
//! what unit and how it is scaled, what comes out and what it means, and where the weights come from.
//!
//! [`Policy::load`] takes neither on trust. The file's size, its records, nodes, weights, and the cost of every
//! operator are bounded before anything is built ([`Limits`]); what is broken is refused with a [`LoadError`] that
//! names what and where.
//!
//! ```no_run
//! # // no_run: tests/book runs it in the root of the repository, where the file is
//! let mut policy = mpquic_infer::Policy::load("models/dqn.onnx")?;
//! println!("{} runs on {}", policy.card().name, policy.engine());
//! let state = [25.0, 40_000.0, 0.0, 70.0, 20_000.0, 0.0, 1e6, 5e5, 6e5, 0.05];
//! let values = policy.run(&state)?;
//! let best = (0..values.len()).max_by(|&a, &b| values[a].total_cmp(&values[b]));
//! # let _ = best;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! What runs is one of two engines, and [`Policy::engine`] says which:
//!
//! - a **compiled plan** ([`Engine::Plan`]): a flat list of kernels over one arena sized at load. A run allocates
//!   nothing, takes no lock, makes no system call;
//! - **tract** ([`Engine::Tract`]) for graphs that the plan has no kernels for; [`Policy::why_no_plan`] says what was
//!   missing. It allocates for each node.
#![cfg_attr(docsrs, feature(doc_cfg))]
#![deny(unsafe_op_in_unsafe_fn)]

mod card;
mod engine;
mod load;
mod plan;
mod policy;
mod upper_halves;

pub use card::{Card, CardError, Clip, Feature, Input, Normalisation, Output, Provenance};
pub use engine::{Engine, Prefer, Vectors};
pub use load::{Limits, LoadError};
pub use plan::Unplanned;
pub use policy::{Options, Policy, RunError};

/// The README, whose example is compiled with the doc tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;
