//! The tests of this crate, in one program: each program of its own would be linked with all of the stack again.
//! A new file is named here; one that needs a process of its own, in `Cargo.toml`.

mod files;
mod lab;
mod mobile;
#[cfg(feature = "neural")]
mod neural_dqn;
#[cfg(feature = "neural")]
mod neural_gaps;
#[cfg(feature = "neural")]
mod neural_sailfish;
mod new_scheduler;
mod qlog;
mod shards;
mod shell;
mod tail;
mod time_lost;
mod verdicts;
