//! Bandit algorithms that decide in nanoseconds: no_std, no allocation; knows nothing of networks.
#![no_std]
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate std;

mod draw;
mod linucb;
mod refused;
mod thompson;

pub use draw::Draw;
pub use linucb::{
    DiscountedLinUcb, DiscountedLinUcbConfig, InvalidSetting, LinUcb, LinUcbConfig, Real,
};
pub use refused::Refused;
pub use thompson::LinThompson;
