//! Bandit algorithms that decide in nanoseconds: no_std, no allocation; knows nothing of networks.
#![no_std]
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate std;

mod draw;
mod linucb;
mod refused;
mod reward;
mod settlement;
mod thompson;

pub use draw::Draw;
pub use linucb::{
    DiscountedLinUcb, DiscountedLinUcbConfig, InvalidSetting, LinUcb, LinUcbConfig, Real,
};
pub use refused::Refused;
pub use reward::{DiscountedReward, LEAST_WEIGHT, MOST_PACKETS};
pub use settlement::{DecisionSlot, Horizon, PacketSlot, Settled, Settlement};
pub use thompson::LinThompson;
