//! One run, from the description of a network to its metrics.

pub(crate) mod learned;
pub(crate) mod metrics;
pub(crate) mod oracle;
pub(crate) mod qlogs;
pub mod runner;
pub(crate) mod scenario;
pub(crate) mod setup;
pub(crate) mod time_lost;
pub(crate) mod timelines;
pub(crate) mod training;
