//! Bandit algorithms that decide in nanoseconds: no_std, no allocation; knows nothing of networks.
#![no_std]
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate std;

mod adjustment;
mod alpha_tuning;
mod draw;
mod history;
mod regret;

pub use adjustment::{Adjustment, Boundaries, indifference};
pub use alpha_tuning::AlphaTuning;
pub use draw::Draw;
pub use history::History;
pub use regret::{Outcome, RegretWindow, Regrets};
