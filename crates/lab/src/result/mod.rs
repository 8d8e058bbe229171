//! What runs left: their lines in a file, groups of them, statistics and comparisons.

pub(crate) mod compare;
pub(crate) mod merge;
pub(crate) mod record;
pub mod statistics;
pub mod store;
pub(crate) mod summary;
