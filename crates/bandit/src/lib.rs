//! Bandit algorithms that decide in nanoseconds: no_std, no allocation.
//!
//! Without the standard library (`cargo build -p mpquic-bandit --no-default-features`), roots and
//! logarithms are libm's. Their results are equal or differ in the last bit. `serde` writes and reads
//! without allocating, too.
#![cfg_attr(docsrs, feature(doc_cfg))]
#![no_std]
#![deny(unsafe_code)]

#[cfg(any(test, feature = "std"))]
extern crate std;

mod adjustment;
mod alpha_tuning;
mod arm_set;
mod choice;
mod decisions;
mod draw;
mod epsilon_greedy;
mod full_information;
mod history;
mod linucb;
mod off_policy;
mod packets;
mod refused;
mod regret;
mod reward;
mod settlement;
mod thompson;
mod ucb;
mod vectors;
#[cfg(feature = "ndarray")]
mod views;

pub use adjustment::{Adjustment, Boundaries, indifference};
pub use alpha_tuning::AlphaTuning;
pub use arm_set::ArmSet;
pub use choice::{Choice, Epsilon};
pub use decisions::{DecisionId, Decisions, Logged};
pub use draw::Draw;
pub use epsilon_greedy::{EpsilonGreedy, Step};
pub use full_information::{DiscountedMeans, Hedge};
pub use history::History;
pub use linucb::{
    DiscountedLinUcb, DiscountedLinUcbConfig, InvalidSetting, LinUcb, LinUcbConfig, Real,
};
pub use off_policy::{Estimate, OffPolicy};
pub use packets::PacketSlot;
pub use refused::Refused;
pub use regret::{Outcome, RegretWindow, Regrets};
pub use reward::{DiscountedReward, LEAST_WEIGHT, MOST_PACKETS};
pub use settlement::{DecisionSlot, FirstPacket, Horizon, Settled, Settlement};
pub use thompson::LinThompson;
#[cfg(feature = "serde")]
pub use ucb::BadSnapshot;
pub use ucb::{DiscountedUcb, SlidingWindowUcb, Ucb1};
#[cfg(feature = "ndarray")]
pub use views::ViewError;

/// The README, whose example is compiled with the doc tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;
