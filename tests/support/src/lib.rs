//! What tests of several crates share: an allocator that counts, an identity for TLS, a test on a runtime.

pub mod allocator;
#[cfg(feature = "runtime")]
pub mod runtime;
#[cfg(feature = "tls")]
pub mod tls;
