//! The tests of this crate, in one program: each program of its own would be linked with all of the stack again.
//! A new file is named here; one that needs a process of its own, in `Cargo.toml`.

#[path = "contextual/main.rs"]
mod contextual;
mod full_information;
#[path = "numerics/main.rs"]
mod numerics;
mod off_policy;
#[path = "reference/main.rs"]
mod reference;
#[path = "regret/main.rs"]
mod regret;
mod settlement;
mod views;
