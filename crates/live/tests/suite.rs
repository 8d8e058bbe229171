//! The tests of this crate, in one program. A new file is named here; one that needs a process of its own, in `Cargo.toml`.
#![allow(
    clippy::disallowed_methods,
    reason = "tests read the clock for a starting point"
)]

mod codec;
mod link;
mod network;
mod receiver;
