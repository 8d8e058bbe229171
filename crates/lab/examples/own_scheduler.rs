//! The lab with the scheduler that `mpquic-lab new-scheduler` writes, as it is written.
//!
//! ```sh
//! cargo run --release -p mpquic-lab --example own_scheduler -- arena crates/lab/src/command/scaffold/arena.toml.txt
//! ```

use std::process::ExitCode;

#[path = "../src/command/scaffold/lib.rs"]
#[allow(
    unreachable_pub,
    reason = "it is the root of a library where it is written"
)]
mod my_scheduler;

fn main() -> ExitCode {
    mpquic_lab::cli::program(my_scheduler::register)
}
