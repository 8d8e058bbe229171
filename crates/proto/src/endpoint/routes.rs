//! Which connection a connection ID or a stateless reset token belongs to.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::{BuildHasher, Hash, Hasher};
use std::net::{IpAddr, SocketAddr};

use mpquic_sched_core::ConnectionId;
use rand::RngExt;
use rand::rngs::StdRng;
use siphasher::sip::SipHasher13;
use siphasher::sip128::{Hasher128, SipHasher24};

use crate::ConnectionHandle;
use crate::cid::ResetToken;

/// Where a datagram goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Route {
    Connection(ConnectionHandle),
    /// Index of one that waits to be accepted.
    Incoming(usize),
    /// Number of one that was closed before it began.
    Closed(u64),
    /// Of what is over: dropped.
    Late,
}

/// The tables. Keys of the first are in part chosen by clients (original destination connection
/// IDs), so the hash is keyed: collisions cannot be prepared (CVE-2025-23020, -24946, -24947).
pub(super) struct Routes {
    cids: HashMap<ConnectionId, Route, KeyedHash>,
    /// The route that was found last: datagrams come in runs of the same ID.
    recent: Option<(ConnectionId, Route)>,
    tokens: ResetTokens<ConnectionHandle>,
}

impl Routes {
    pub(super) fn new(rng: &mut StdRng) -> Self {
        Self {
            cids: HashMap::with_hasher(KeyedHash::new(rng)),
            recent: None,
            tokens: ResetTokens::new(rng),
        }
    }

    /// Where packets to this ID go. `None` too if it is longer than any ID of ours.
    pub(super) fn get(&mut self, id: &[u8]) -> Option<Route> {
        if let Some((recent, route)) = &self.recent
            && **recent == *id
        {
            return Some(*route);
        }
        // `ConnectionId` holds no more, and version 1 knows no more.
        if id.len() > crate::packet::MAX_CID_LEN {
            return None;
        }
        let id = ConnectionId::new(id);
        let route = *self.cids.get(&id)?;
        self.recent = Some((id, route));
        Some(route)
    }

    /// Adds a route unless the ID has one: the first comer keeps it. Whether it was added.
    pub(super) fn add(&mut self, id: ConnectionId, route: Route) -> bool {
        match self.cids.entry(id) {
            Entry::Vacant(entry) => {
                entry.insert(route);
                true
            }
            Entry::Occupied(_) => false,
        }
    }

    /// Removes a route if it still leads there.
    pub(super) fn remove(&mut self, id: &ConnectionId, route: Route) {
        if self.cids.get(id) == Some(&route) {
            self.cids.remove(id);
            self.recent = None;
            shrink(&mut self.cids);
        }
    }

    /// The connection that a datagram from `remote` resets, if it ends in `token`.
    pub(super) fn reset(&self, remote: SocketAddr, token: &ResetToken) -> Option<ConnectionHandle> {
        self.tokens.get(remote, token)
    }

    pub(super) fn add_token(
        &mut self,
        remote: SocketAddr,
        token: &ResetToken,
        handle: ConnectionHandle,
    ) {
        self.tokens.add(remote, token, handle);
    }

    pub(super) fn remove_token(
        &mut self,
        remote: SocketAddr,
        token: &ResetToken,
        handle: ConnectionHandle,
    ) {
        self.tokens.remove(remote, token, handle);
    }

    #[cfg(test)]
    pub(super) fn sizes(&self) -> (usize, usize) {
        (self.cids.len(), self.tokens.table.len())
    }
}

/// Whose a token is, with its address, behind a pseudorandom function: looking one up tells nothing
/// about the tokens, whatever its timing (RFC 9000 section 10.3.1, the second approach), and
/// costs the same however many there are.
pub(super) struct ResetTokens<T> {
    table: HashMap<u128, T, KeyedHash>,
    key: [u8; 16],
}

impl<T: Copy + PartialEq> ResetTokens<T> {
    pub(super) fn new(rng: &mut StdRng) -> Self {
        Self {
            table: HashMap::with_hasher(KeyedHash::new(rng)),
            key: rng.random(),
        }
    }

    pub(super) fn get(&self, remote: SocketAddr, token: &ResetToken) -> Option<T> {
        if self.table.is_empty() {
            return None;
        }
        self.table.get(&self.image(remote, token)).copied()
    }

    /// The first comer keeps it.
    pub(super) fn add(&mut self, remote: SocketAddr, token: &ResetToken, owner: T) {
        let image = self.image(remote, token);
        self.table.entry(image).or_insert(owner);
    }

    /// Removes it if it is still this one's.
    pub(super) fn remove(&mut self, remote: SocketAddr, token: &ResetToken, owner: T) {
        let image = self.image(remote, token);
        if self.table.get(&image) == Some(&owner) {
            self.table.remove(&image);
            shrink(&mut self.table);
        }
    }

    fn image(&self, remote: SocketAddr, token: &ResetToken) -> u128 {
        let mut hasher = SipHasher24::new_with_key(&self.key);
        match remote.ip().to_canonical() {
            IpAddr::V4(ip) => hasher.write(&ip.octets()),
            IpAddr::V6(ip) => hasher.write(&ip.octets()),
        }
        hasher.write(&remote.port().to_be_bytes());
        hasher.write(token);
        hasher.finish128().as_u128()
    }
}

/// Places that a table keeps whatever it holds: what 512 buckets have.
const KEPT: usize = 448;

/// A table that a flood has filled does not keep its memory for ever. It shrinks to what twice as many entries need when
/// a sixteenth of it is in use: what moving them costs is spread over as many removals as there were.
fn shrink<K: Eq + Hash, V>(table: &mut HashMap<K, V, KeyedHash>) {
    if table.capacity() > KEPT.max(16 * table.len()) {
        table.shrink_to(KEPT.max(2 * table.len()));
    }
}

/// SipHash under a secret key that comes from the endpoint's seed: no ambient randomness.
struct KeyedHash([u8; 16]);

impl KeyedHash {
    fn new(rng: &mut StdRng) -> Self {
        Self(rng.random())
    }
}

impl BuildHasher for KeyedHash {
    type Hasher = SipHasher13;

    fn build_hasher(&self) -> SipHasher13 {
        SipHasher13::new_with_key(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;

    fn routes(seed: u64) -> Routes {
        Routes::new(&mut StdRng::seed_from_u64(seed))
    }

    const A: ConnectionHandle = ConnectionHandle(1);
    const B: ConnectionHandle = ConnectionHandle(2);

    #[test]
    fn first_comer_keeps_a_route_and_only_the_owner_removes_it() {
        let mut routes = routes(0);
        let id = ConnectionId::new(&[1; 8]);
        assert!(routes.add(id, Route::Connection(A)));
        assert!(!routes.add(id, Route::Connection(B)));
        routes.remove(&id, Route::Connection(B));
        routes.remove(&id, Route::Incoming(1));
        assert_eq!(routes.get(&id), Some(Route::Connection(A)));
        routes.remove(&id, Route::Connection(A));
        assert_eq!(routes.get(&id), None);
        assert_eq!(routes.get(&[0; 255]), None);
        // Nor is what was found last found when the ID means another connection.
        assert!(routes.add(id, Route::Connection(B)));
        assert_eq!(routes.get(&id), Some(Route::Connection(B)));
        assert_eq!(routes.get(&[1; 7]), None);
        assert_eq!(routes.get(&[1; 9]), None);
    }

    #[test]
    fn ids_of_different_length_differ() {
        let mut routes = routes(0);
        routes.add(ConnectionId::new(&[0; 8]), Route::Connection(A));
        assert_eq!(routes.get(&[0; 9]), None);
        assert_eq!(routes.get(&[]), None);
    }

    #[test]
    fn tokens_count_for_their_address() {
        let mut routes = routes(0);
        let here: SocketAddr = "192.0.2.1:443".parse().unwrap();
        let mapped: SocketAddr = "[::ffff:192.0.2.1]:443".parse().unwrap();
        let there: SocketAddr = "192.0.2.1:444".parse().unwrap();
        routes.add_token(here, &[1; 16], A);
        routes.add_token(here, &[1; 16], B);
        assert_eq!(routes.reset(here, &[1; 16]), Some(A));
        assert_eq!(routes.reset(mapped, &[1; 16]), Some(A));
        assert_eq!(routes.reset(there, &[1; 16]), None);
        assert_eq!(routes.reset(here, &[2; 16]), None);
        routes.remove_token(here, &[1; 16], B);
        assert_eq!(routes.reset(here, &[1; 16]), Some(A));
        routes.remove_token(here, &[1; 16], A);
        assert_eq!(routes.reset(here, &[1; 16]), None);
    }

    #[test]
    fn tables_shrink_after_a_flood() {
        let mut routes = routes(0);
        let id = |number: u64| ConnectionId::new(&number.to_be_bytes());
        let here: SocketAddr = "192.0.2.1:443".parse().unwrap();
        let token = |number: u64| [number.to_be_bytes(), [0; 8]].concat().try_into().unwrap();
        for number in 0..100_000 {
            assert!(routes.add(id(number), Route::Connection(A)));
            routes.add_token(here, &token(number), A);
        }
        let capacities = |routes: &Routes| (routes.cids.capacity(), routes.tokens.table.capacity());
        assert!(capacities(&routes) >= (100_000, 100_000));
        for number in 10..100_000 {
            routes.remove(&id(number), Route::Connection(A));
            routes.remove_token(here, &token(number), A);
        }
        let (cids, tokens) = capacities(&routes);
        assert!(cids <= KEPT && tokens <= KEPT, "{cids} {tokens}");
        for number in 0..10_u64 {
            assert_eq!(
                routes.get(&number.to_be_bytes()),
                Some(Route::Connection(A))
            );
            assert_eq!(routes.reset(here, &token(number)), Some(A));
        }
        // A table that is as large as it stays does not shrink with every removal.
        assert!(routes.add(id(10), Route::Connection(A)));
        routes.remove(&id(10), Route::Connection(A));
        assert_eq!(capacities(&routes), (cids, tokens));
    }

    /// IDs prepared to collide under a hash of known key spread evenly under ours.
    #[test]
    fn prepared_collisions_do_not_collide() {
        let known = KeyedHash([0; 16]);
        let prepared: Vec<_> = (0_u64..)
            .map(|n| ConnectionId::new(&n.to_be_bytes()))
            .filter(|id| known.hash_one(id) & 0xff == 0)
            .take(4096)
            .collect();
        for seed in 0..4 {
            let ours = KeyedHash::new(&mut StdRng::seed_from_u64(seed));
            let mut buckets = [0; 256];
            for id in &prepared {
                buckets[(ours.hash_one(id) & 0xff) as usize] += 1;
            }
            // 16 are expected in each.
            assert!(buckets.iter().all(|&count| count < 50));
        }
    }
}
