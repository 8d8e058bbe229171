//! Bandit algorithms that decide in nanoseconds: no_std, no allocation; knows nothing of networks.
#![no_std]
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate std;

mod arm_set;
mod draw;
mod epsilon_greedy;
mod linucb;
mod refused;
mod ucb;

pub use arm_set::ArmSet;
pub use draw::Draw;
pub use epsilon_greedy::{Epsilon, EpsilonGreedy};
pub use linucb::{InvalidSetting, LinUcb, LinUcbConfig, Real};
pub use refused::Refused;
#[cfg(feature = "serde")]
pub use ucb::BadSnapshot;
pub use ucb::{DiscountedUcb, SlidingWindowUcb, Ucb1};
