//! Sessions of a server that takes early data: kept with the limits that the client was told, and forgotten by a server
//! whose limits are smaller now (RFC 9000 section 7.4.1). The store itself is the user's.

use std::fmt;
use std::sync::Arc;

use rustls::server::{NoServerSessionStorage, ProducesTickets, StoresServerSessions};

use mpquic_wire::packet::Version;
use mpquic_wire::transport_parameters::{LIMITS, are_reduced};

/// Before the keys of the sessions: whoever else uses the store finds none of them, and we none of theirs.
const NAMESPACE: &[u8] = b"mpquic 0-RTT ";

/// A store of sessions that adds the limits of this server to each.
struct Sessions {
    store: Arc<dyn StoresServerSessions>,
    limits: [u64; LIMITS],
}

/// The TLS configuration with sessions that are good for a server with these limits only. One that takes no early
/// data is left as it is: without early data, a session promises nothing.
pub(super) fn bind(
    tls: &Arc<rustls::ServerConfig>,
    limits: [u64; LIMITS],
    version: Version,
) -> Arc<rustls::ServerConfig> {
    // RFC 9369 section 5: a ticket of one version must not be accepted with another. All of them are of version 1.
    if version != Version::V1 {
        let mut alone = rustls::ServerConfig::clone(tls);
        alone.session_storage = Arc::new(NoServerSessionStorage {});
        alone.ticketer = Arc::new(NoTickets);
        alone.send_tls13_tickets = 0;
        alone.max_early_data_size = 0;
        return Arc::new(alone);
    }
    if tls.max_early_data_size == 0 {
        return Arc::clone(tls);
    }
    let mut bound = rustls::ServerConfig::clone(tls);
    bound.session_storage = Arc::new(Sessions {
        store: Arc::clone(&tls.session_storage),
        limits,
    });
    Arc::new(bound)
}

/// The TLS configuration of a client that speaks this version: sessions are resumed with version 1 only (RFC 9369
/// section 5).
pub(super) fn of_client(
    tls: Arc<rustls::ClientConfig>,
    version: Version,
) -> Arc<rustls::ClientConfig> {
    if version == Version::V1 {
        return tls;
    }
    let mut alone = rustls::ClientConfig::clone(&tls);
    alone.resumption = rustls::client::Resumption::disabled();
    alone.enable_early_data = false;
    Arc::new(alone)
}

/// Makes and accepts no tickets.
#[derive(Debug)]
struct NoTickets;

impl ProducesTickets for NoTickets {
    fn enabled(&self) -> bool {
        false
    }

    fn lifetime(&self) -> u32 {
        0
    }

    fn encrypt(&self, _: &[u8]) -> Option<Vec<u8>> {
        None
    }

    fn decrypt(&self, _: &[u8]) -> Option<Vec<u8>> {
        None
    }
}

impl Sessions {
    /// Takes off the limits; `None` if this server cannot keep what was promised with the session.
    fn check(&self, value: Vec<u8>) -> Option<Vec<u8>> {
        let (limits, session) = value.split_at_checked(LIMITS * 8)?;
        let mut before = [0; LIMITS];
        for (limit, bytes) in before.iter_mut().zip(limits.as_chunks().0) {
            *limit = u64::from_be_bytes(*bytes);
        }
        //= specs/rfc9000.txt#section-7.4.1
        //# A server MUST reject 0-RTT data if the restored values for transport parameters cannot
        //# be supported.
        //= specs/rfc9221.txt#section-3
        //# When servers decide to accept 0-RTT data, they MUST send a max_datagram_frame_size
        //# transport parameter greater than or equal to the value they sent to the client in the
        //# connection where they sent them the NewSessionTicket message.
        (!are_reduced(&before, &self.limits)).then(|| session.to_vec())
    }
}

fn with_namespace(key: &[u8]) -> Vec<u8> {
    [NAMESPACE, key].concat()
}

impl StoresServerSessions for Sessions {
    fn put(&self, key: Vec<u8>, value: Vec<u8>) -> bool {
        let mut with_limits = Vec::with_capacity(LIMITS * 8 + value.len());
        for limit in self.limits {
            with_limits.extend_from_slice(&limit.to_be_bytes());
        }
        with_limits.extend_from_slice(&value);
        self.store.put(with_namespace(&key), with_limits)
    }

    fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.check(self.store.get(&with_namespace(key))?)
    }

    // Once: rustls takes early data with such sessions only (RFC 8446 section 8.1), and what is left of replays is in `has_0rtt`.
    //= specs/rfc9001.txt#section-9.2
    //# Endpoints MUST implement and use the replay protections described in [TLS13], however it is
    //# recognized that these protections are imperfect.
    fn take(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.check(self.store.take(&with_namespace(key))?)
    }

    fn can_cache(&self) -> bool {
        self.store.can_cache()
    }
}

impl fmt::Debug for Sessions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sessions")
            .field("store", &self.store)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use rustls::server::ServerSessionMemoryCache;

    use super::*;

    #[test]
    fn a_session_outlives_limits_that_rise_and_none_that_falls() {
        let store = ServerSessionMemoryCache::new(8);
        let with = |limits| Sessions {
            store: store.clone(),
            limits,
        };
        let before = [10; LIMITS];
        for at in 0..LIMITS {
            let (mut lower, mut higher) = (before, before);
            lower[at] -= 1;
            higher[at] += 1;
            assert!(with(before).put(vec![1], vec![2, 3]));
            assert_eq!(with(lower).get(&[1]), None);
            assert_eq!(with(higher).get(&[1]), Some(vec![2, 3]));
            assert_eq!(with(before).take(&[1]), Some(vec![2, 3]));
            assert_eq!(with(before).take(&[1]), None, "once");
        }
        // What another program put there.
        assert!(store.put(with_namespace(&[1]), vec![2; LIMITS * 8 - 1]));
        assert_eq!(with(before).take(&[1]), None);
    }
}
