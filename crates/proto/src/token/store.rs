//! What a client keeps of servers' tokens: the trait, and a store in memory of bounded size.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;

use crate::limits;

/// Keeps the tokens that servers give a client for its next connections (NEW_TOKEN frames, RFC 9000 section 8.1.3),
/// and hands each out once.
///
/// With a token, a client needs no further round trip at a server under load. A server can tell from it that the
/// client was there before; nobody else can, since each token is used once. A client that does not want that
/// takes [`NoTokenStore`].
pub trait TokenStore: Send + Sync {
    /// Takes in a token that the server of this name has sent.
    fn insert(&self, server_name: &str, token: Bytes);

    /// Hands out a token for this server, if there is one, and forgets it: a token must not be used twice. Of several,
    /// the one that came last is the most useful (RFC 9000 section 8.1.3).
    fn take(&self, server_name: &str) -> Option<Bytes>;
}

/// Keeps no token.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoTokenStore;

impl TokenStore for NoTokenStore {
    fn insert(&self, _: &str, _: Bytes) {}

    fn take(&self, _: &str) -> Option<Bytes> {
        None
    }
}

/// The default store, in memory: the newest tokens of the servers that were used last.
#[derive(Debug)]
pub struct TokenMemoryStore {
    max_servers: usize,
    max_tokens: usize,
    state: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    servers: BTreeMap<String, Server>,
    /// Counts uses.
    time: u64,
}

#[derive(Debug, Default)]
struct Server {
    used: u64,
    /// Newest last.
    tokens: VecDeque<Bytes>,
}

impl TokenMemoryStore {
    /// A store for so many servers, and so many tokens of each. The oldest go first.
    pub fn new(max_servers: usize, max_tokens: usize) -> Self {
        Self {
            max_servers,
            max_tokens,
            state: Mutex::default(),
        }
    }
}

impl Default for TokenMemoryStore {
    /// For [`limits::MAX_TOKEN_SERVERS`] servers with [`limits::MAX_TOKENS_PER_SERVER`] tokens each.
    fn default() -> Self {
        Self::new(limits::MAX_TOKEN_SERVERS, limits::MAX_TOKENS_PER_SERVER)
    }
}

impl TokenStore for TokenMemoryStore {
    fn insert(&self, server_name: &str, token: Bytes) {
        if self.max_servers == 0 || self.max_tokens == 0 {
            return;
        }
        let mut kept = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        kept.time += 1;
        let time = kept.time;
        if !kept.servers.contains_key(server_name) && kept.servers.len() >= self.max_servers {
            let oldest = kept.servers.iter().min_by_key(|(_, server)| server.used);
            if let Some(name) = oldest.map(|(name, _)| name.clone()) {
                kept.servers.remove(&name);
            }
        }
        let server = kept.servers.entry(server_name.to_owned()).or_default();
        server.used = time;
        // A repeated frame (RFC 9000 section 19.7).
        if server.tokens.contains(&token) {
            return;
        }
        if server.tokens.len() >= self.max_tokens {
            server.tokens.pop_front();
        }
        server.tokens.push_back(token);
    }

    fn take(&self, server_name: &str) -> Option<Bytes> {
        let mut kept = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        kept.time += 1;
        let time = kept.time;
        let server = kept.servers.get_mut(server_name)?;
        server.used = time;
        let token = server.tokens.pop_back();
        if server.tokens.is_empty() {
            kept.servers.remove(server_name);
        }
        token
    }
}

/// The store of a configuration.
#[derive(Clone)]
pub(crate) struct SharedTokenStore(pub(crate) Arc<dyn TokenStore>);

impl Default for SharedTokenStore {
    fn default() -> Self {
        Self(Arc::new(TokenMemoryStore::default()))
    }
}

impl fmt::Debug for SharedTokenStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenStore")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(n: u32) -> Bytes {
        Bytes::copy_from_slice(&n.to_be_bytes())
    }

    //= specs/rfc9000.txt#section-8.1.3
    //= type=test
    //# A client MUST NOT include a token that is not applicable to the server that it is connecting
    //# to, unless the client has the knowledge that the server that issued the token and the server
    //# the client is connecting to are jointly managing the tokens.
    //= specs/rfc9000.txt#section-8.1.3
    //= type=test
    //# A client SHOULD NOT reuse a token from a NEW_TOKEN frame for different connection attempts.
    #[test]
    fn each_token_goes_out_once_the_newest_first_to_its_server() {
        let store = TokenMemoryStore::default();
        assert_eq!(store.take("a"), None);
        for n in [1, 2, 2, 1] {
            store.insert("a", token(n));
        }
        store.insert("b", token(3));
        assert_eq!(store.take("a"), Some(token(2)));
        assert_eq!(store.take("a"), Some(token(1)));
        assert_eq!(store.take("a"), None);
        assert_eq!(store.take("b"), Some(token(3)));
        assert!(store.state.lock().unwrap().servers.is_empty());
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let store = TokenMemoryStore::new(3, 2);
        for n in 0..100 {
            for server in ["a", "b", "c"] {
                store.insert(server, token(n));
            }
        }
        assert_eq!(store.take("a"), Some(token(99)));
        // The one that was used least recently makes room.
        store.insert("d", token(7));
        assert_eq!(store.take("b"), None);
        assert_eq!(store.take("a"), Some(token(98)));
        assert_eq!(store.take("c"), Some(token(99)));
        assert_eq!(store.take("d"), Some(token(7)));
        for store in [TokenMemoryStore::new(0, 2), TokenMemoryStore::new(2, 0)] {
            store.insert("a", token(1));
            assert_eq!(store.take("a"), None);
        }
        NoTokenStore.insert("a", token(1));
        assert_eq!(NoTokenStore.take("a"), None);
    }
}
