//! Holds the examples, benches and integration tests of the workspace, and the README, whose example
//! is compiled with the doctests; no code of its own.
#![cfg_attr(doctest, doc = include_str!("../README.md"))]
