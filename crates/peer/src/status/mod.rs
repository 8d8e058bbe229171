//! What a program does, to look at: figures for Prometheus, as JSON, and as a page with charts.
//!
//! The figures are written here and not by an exporter of the `metrics` facade, whose names have no place for a path, a user and a peer,
//! and which brings in eleven crates that nothing else here needs.

mod figures;
mod server;

pub use figures::{PathFigures, Peer, Present, Status};
pub use server::StatusServer;
