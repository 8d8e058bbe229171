//! Bandit algorithms that decide in nanoseconds: no_std, no allocation; knows nothing of networks.
#![no_std]
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate std;

mod draw;

pub use draw::Draw;
