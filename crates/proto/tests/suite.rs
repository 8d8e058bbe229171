//! The tests of this crate, in one program: each program of its own would be linked with all of the stack again.
//! A new file is named here; one that needs a process of its own, in `Cargo.toml`.

mod admission;
mod cipher_block;
mod connection;
mod datagrams;
mod early_data;
mod early_paths;
mod extremes;
mod fates;
mod fleet;
mod flood;
mod half_open;
mod idle_timers;
mod learning;
mod memory;
mod migration;
mod mtu;
mod multipath;
mod own_controller;
mod own_scheduler;
mod pair;
mod quic_bit;
mod race;
mod rebinding;
mod unordered;
mod validation;
mod versions;
