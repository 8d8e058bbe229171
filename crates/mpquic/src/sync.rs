//! Mutexes and atomic numbers of what threads share: the standard library's, or under `--cfg mpquic_loom` those of the model checker.

#[cfg(mpquic_loom)]
pub(crate) use loom::sync::{Mutex, MutexGuard, atomic};
pub(crate) use std::sync::PoisonError;
#[cfg(not(mpquic_loom))]
pub(crate) use std::sync::{Mutex, MutexGuard, atomic};
