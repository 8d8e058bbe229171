//! What tests of several crates share: an allocator that counts, programs that end with the test, an identity for TLS, a test on a runtime.

pub mod allocator;
pub mod held;
#[cfg(feature = "runtime")]
pub mod runtime;
#[cfg(feature = "tls")]
pub mod tls;
