//! What is refused of a peer: tests from within, as no public call violates anything.

mod fields;
mod forge;
mod path_ids;
mod undecryptable;

#[path = "../../../tests/pair/mod.rs"]
mod pair;
