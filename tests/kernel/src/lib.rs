//! The simulator beside Linux: the same downloads in virtual time, and by our endpoints and the kernel's TCP over links that the kernel
//! shapes.
#![cfg(target_os = "linux")]

mod agree;
mod error;
mod ours;
mod place;
mod report;
mod tcp;
mod wire;

pub use agree::{Options, agree};
pub use error::Fault;
pub use place::{Host, Place, PlaceError};
pub use report::{Kind, Report, Row};
pub use tcp::Kernel;
