//! The tests of this crate, in one program: each program of its own would be linked with all of the stack again.
//! A new file is named here; one that needs a process of its own, in `Cargo.toml`.

mod advisories;
mod common;
mod datagrams;
mod endings;
mod examples;
mod limits;
mod requests;

use mpquic_test_support::allocator::Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting::new(advisories::meter::count);
