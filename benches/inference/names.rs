//! Of which schedulers the bench `inference` has rows. `benches/tests/names.rs` holds the list against what `mpquic-lab names` prints.

/// Those that ask a trained network.
pub(crate) const SCHEDULERS: &[&str] = &["dqn", "gaps", "sailfish"];
