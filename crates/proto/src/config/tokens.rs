//! Settings of the tokens that a server gives its clients for later connections.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::token::{TokenLog, TokenMemoryLog};

/// Settings of the address validation tokens that a server gives its clients for later connections (NEW_TOKEN
/// frames, RFC 9000 section 8.1.3).
///
/// A client that comes back with such a token, from an address that it had when it got the token, needs no Retry under
/// load, and the server may send it more than three times what it received from the start.
#[derive(Clone)]
pub struct ValidationTokenConfig {
    pub(crate) lifetime: Duration,
    pub(crate) sent: u32,
    pub(crate) log: Arc<dyn TokenLog>,
}

impl ValidationTokenConfig {
    /// How long a token counts after it was issued. Default one day; with 0, none counts, and more than a year counts as a
    /// year. Tokens that are sealed with a key that was
    /// replaced twice do not count whatever their age
    /// ([`Endpoint::rotate_token_key`](crate::Endpoint::rotate_token_key)).
    pub fn lifetime(&mut self, lifetime: Duration) -> &mut Self {
        self.lifetime = lifetime.min(365 * super::DAY);
        self
    }

    /// How many tokens a client gets when its handshake is complete. Default 2; 0 gives out none at all, and more than
    /// [`limits::MAX_NEW_TOKENS`](crate::limits::MAX_NEW_TOKENS) are not given out. With
    /// multipath, a client also gets one when a further address of its is validated; it counts for all addresses
    /// that were validated until then (RFC 10069).
    pub const fn sent(&mut self, count: u32) -> &mut Self {
        self.sent = count;
        self
    }

    /// Where it is remembered which tokens were used. Default [`TokenMemoryLog`].
    pub fn log(&mut self, log: Arc<dyn TokenLog>) -> &mut Self {
        self.log = log;
        self
    }
}

impl Default for ValidationTokenConfig {
    fn default() -> Self {
        Self {
            lifetime: Duration::from_secs(24 * 3600),
            sent: 2,
            log: Arc::new(TokenMemoryLog::default()),
        }
    }
}

impl fmt::Debug for ValidationTokenConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ValidationTokenConfig")
            .field("lifetime", &self.lifetime)
            .field("sent", &self.sent)
            .finish_non_exhaustive()
    }
}
