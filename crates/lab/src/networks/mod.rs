//! Networks that are drawn and not written: from models of mobile links, and from a broad prior.

pub mod mobile;
pub(crate) mod random;
pub(crate) mod sampling;
