//! The tests of this crate, in one program: each program of its own would be linked with all of the stack again.
//! A new file is named here; one that needs a process of its own, in `Cargo.toml`.

mod abstract_socket;
mod admission;
mod close;
mod common;
mod datagrams;
mod early_data;
mod handshake;
mod learning;
mod link_mtu;
mod links;
mod lost_addresses;
mod names;
mod paths;
#[cfg(feature = "qlog")]
mod qlog;
mod race;
mod replays;
mod server;
mod shards;
mod streams;
mod switch;
mod wildcards;
