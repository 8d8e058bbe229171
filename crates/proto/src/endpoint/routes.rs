//! Which connection a connection ID or a stateless reset token belongs to.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::net::SocketAddr;

use mpquic_sched_core::ConnectionId;
use rand::rngs::StdRng;

use crate::ConnectionHandle;
use crate::cid::ResetToken;
use crate::shards::{KeyedHash, ResetTokens, shrink};

/// Where a datagram goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Route {
    Connection(ConnectionHandle),
    /// Index of one that waits to be accepted.
    Incoming(usize),
    /// Number of one that was closed before it began.
    Refused(u64),
    /// Of what is over: dropped.
    Retired,
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
        if id.len() > mpquic_wire::packet::MAX_CID_LEN {
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

    /// Connection IDs and tokens.
    pub(super) fn sizes(&self) -> (usize, usize) {
        (self.cids.len(), self.tokens.sizes().0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shards::KEPT;
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
        let capacities = |routes: &Routes| (routes.cids.capacity(), routes.tokens.sizes().1);
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
}
