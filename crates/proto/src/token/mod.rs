//! Address validation tokens (RFC 9000 section 8.1): what is in them, who can read them, when they count; sends nothing.

mod codec;
mod keys;
mod log;

pub(crate) use self::keys::{AddressTokens, Lifetimes, Verdict};
pub use self::log::{NoTokenLog, TokenLog, TokenMemoryLog, TokenReuseError};
