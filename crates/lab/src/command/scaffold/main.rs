//! The lab with the scheduler `my_scheduler` in it: `cargo run --release -- arena arena.toml`.

use std::process::ExitCode;

fn main() -> ExitCode {
    mpquic_lab::cli::program(my_scheduler::register)
}
