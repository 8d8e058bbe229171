//! The tests of this crate, in one program: each program of its own would be linked with all of the stack again.
//! A new file is named here; one that needs a process of its own, in `Cargo.toml`.

mod ack_frequency;
mod bbr;
mod congestion;
mod fabric;
mod fates;
mod late_tasks;
mod live;
mod loss_cause;
mod measurements;
mod null_aead;
mod path_memory;
mod path_model;
mod race;
mod runs;
mod scheduler_events;
mod scheduler_memory;
mod transfer;
mod waiting;
mod workloads;
