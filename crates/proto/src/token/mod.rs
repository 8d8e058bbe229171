//! Address validation tokens (RFC 9000 section 8.1): what is in them, who can read them, when they count.

mod codec;
mod keys;
mod log;
mod store;

pub(crate) use self::codec::Addresses;
pub(crate) use self::keys::{AddressTokens, Lifetimes, Verdict, time_of_day};
pub use self::log::{NoTokenLog, TokenLog, TokenMemoryLog, TokenReuseError};
pub(crate) use self::store::SharedTokenStore;
pub use self::store::{NoTokenStore, TokenMemoryStore, TokenStore};

#[cfg(any(test, feature = "__fuzzing"))]
pub(crate) use self::codec::{Kind, Token};
