//! Holds the examples, benches and integration tests of the workspace, and the README, whose example
//! is compiled with the doctests; and the one thing that they ask of it, the registry of schedulers.
#![cfg_attr(doctest, doc = include_str!("../README.md"))]

/// The schedulers by name: those that ask a trained network, too, with the feature `neural`.
pub fn schedulers() -> mpquic_sched::Registry {
    #[cfg(feature = "neural")]
    return mpquic_sched_neural::registry();
    #[cfg(not(feature = "neural"))]
    mpquic_sched::Registry::new()
}
