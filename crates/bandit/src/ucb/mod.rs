//! Upper confidence bounds: plain, discounted, over a window; contexts are LinUCB's matter.

mod board;
mod discounted;
mod horizon;
mod plain;
#[cfg(feature = "serde")]
pub(crate) mod snapshot;
mod window;

#[cfg(test)]
mod tests;

pub(crate) use board::{LARGEST as LARGEST_REWARD, reward as check_reward};
pub use discounted::DiscountedUcb;
pub use plain::Ucb1;
#[cfg(feature = "serde")]
pub use snapshot::BadSnapshot;
pub use window::SlidingWindowUcb;
