//! What each command of `mpquic-lab` does.

pub(crate) mod adaptation;
pub(crate) mod arena;
pub mod cli;
pub(crate) mod curves;
pub(crate) mod figures;
pub(crate) mod help;
pub(crate) mod listing;
pub(crate) mod scaffold;
pub(crate) mod shell;
pub(crate) mod trace;
