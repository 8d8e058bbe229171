//! What is refused of a peer: tests from within, as no public call violates anything.

mod violations;

#[path = "../../../tests/pair/mod.rs"]
mod pair;
