//! What learning schedulers keep between connections: the store, its file, and a scheduler that uses
//! both.
#![allow(
    clippy::disallowed_methods,
    reason = "tests take a point to start from off the clock"
)]

mod files;
mod learner;
mod paths;
mod store;
