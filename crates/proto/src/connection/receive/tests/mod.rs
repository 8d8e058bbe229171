//! What is refused of a peer: tests from within, as no public call violates anything.

mod attacks;
mod early_data;
mod early_paths;
mod fields;
mod forge;
mod frames;
mod idle;
mod packets;
mod parameters;
mod path_ids;
mod retry;
mod table;
mod undecryptable;

#[path = "../../../../tests/pair/mod.rs"]
mod pair;
