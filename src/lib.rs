//! Holds the examples, benches and integration tests of the workspace; no code of its own.
