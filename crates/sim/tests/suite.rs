//! The tests of this crate, in one program: each program of its own would be linked with all of the stack again.
//! A new file is named here; one that needs a process of its own, in `Cargo.toml`.

mod ack_frequency;
mod bbr;
mod congestion;
mod fabric;
mod files;
mod lab;
mod late_tasks;
mod measurements;
mod mobile;
mod neural_dqn;
#[cfg(feature = "neural")]
mod neural_gaps;
#[cfg(feature = "neural")]
mod neural_sailfish;
mod new_scheduler;
mod null_aead;
mod path_memory;
#[cfg(feature = "lab")]
mod qlog;
mod race;
mod runs;
mod scheduler_events;
mod scheduler_memory;
mod shards;
mod tail;
mod time_lost;
mod transfer;
mod waiting;
mod workloads;
