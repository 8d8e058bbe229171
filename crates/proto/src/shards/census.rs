//! Counts the complete connections of a server, and those of each network that clients come from.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::Network;

/// Connections of a server whose handshake is complete, and attempts that were refused since there were too many: of all
/// shards of an endpoint.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct ConnectionCount {
    /// Connections that are complete and not closed.
    pub complete: usize,
    /// Attempts that were refused for [`ServerConfig::max_connections`](crate::ServerConfig::max_connections) or
    /// [`ServerConfig::max_connections_per_prefix`](crate::ServerConfig::max_connections_per_prefix), since the endpoint began.
    pub refused: u64,
}

/// How many there may be.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    pub(crate) all: usize,
    pub(crate) per_network: usize,
}

impl Limits {
    const fn are_none(self) -> bool {
        self.all == usize::MAX && self.per_network == usize::MAX
    }
}

/// All that are counted. A tree: clients choose their networks, and prepare no collisions.
#[derive(Debug, Default)]
struct Counts {
    all: usize,
    networks: BTreeMap<Network, usize>,
}

impl Counts {
    fn has_room(&self, network: Network, limits: Limits) -> bool {
        let there = self.networks.get(&network).copied().unwrap_or(0);
        self.all < limits.all && there < limits.per_network
    }
}

/// The count of an endpoint, which its shards share. It is touched when a connection begins and when it ends.
#[derive(Debug, Default)]
pub(crate) struct Census {
    counts: Mutex<Counts>,
    refused: AtomicU64,
}

impl Census {
    /// Nothing in here panics with the lock held.
    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn count(&self) -> ConnectionCount {
        ConnectionCount {
            complete: self.counts().all,
            refused: self.refused.load(Ordering::Relaxed),
        }
    }

    /// Whether another connection from there would be one too many.
    pub(crate) fn is_full(&self, limits: Limits, remote: SocketAddr) -> bool {
        !limits.are_none() && !self.counts().has_room(Network::of(remote), limits)
    }

    pub(crate) fn on_refused(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }
}

/// The place of one connection in the count: taken when its handshake is complete, which proves the address, and given back
/// when this is dropped. Wherever the connection moves, it counts for the network where it began.
#[derive(Debug)]
pub(crate) struct Counted {
    census: Arc<Census>,
    network: Network,
    limits: Limits,
    entered: bool,
}

impl Counted {
    pub(crate) fn new(census: &Arc<Census>, limits: Limits, remote: SocketAddr) -> Self {
        Self {
            census: Arc::clone(census),
            network: Network::of(remote),
            limits,
            entered: false,
        }
    }

    /// Takes the place. Whether there was one: others may have come first while this handshake was under way.
    pub(crate) fn enter(&mut self) -> bool {
        if self.entered {
            return true;
        }
        let mut counts = self.census.counts();
        self.entered = counts.has_room(self.network, self.limits);
        if self.entered {
            counts.all += 1;
            *counts.networks.entry(self.network).or_default() += 1;
        } else {
            self.census.on_refused();
        }
        self.entered
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        if !self.entered {
            return;
        }
        let mut counts = self.census.counts();
        counts.all -= 1;
        if let Some(there) = counts.networks.get_mut(&self.network) {
            *there -= 1;
            if *there == 0 {
                counts.networks.remove(&self.network);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::endpoint::tests::shared_server;

    fn limits(all: usize, per_network: usize) -> Limits {
        let mut server = (*shared_server()).clone();
        server
            .max_connections(all)
            .max_connections_per_prefix(per_network);
        server.connection_limits()
    }

    fn from(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    #[test]
    fn places_are_taken_per_network_and_given_back() {
        let census = Arc::new(Census::default());
        let limits = limits(4, 2);
        let enter = |remote: &str| {
            let mut counted = Counted::new(&census, limits, from(remote));
            counted.enter().then_some(counted)
        };
        let first = enter("192.0.2.1:1").unwrap();
        let second = enter("[::ffff:192.0.2.77]:2").unwrap();
        assert!(census.is_full(limits, from("192.0.2.3:3")));
        assert!(enter("192.0.2.3:3").is_none(), "a network of 24 bits");
        let third = enter("[2001:db8::1]:4").unwrap();
        let fourth = enter("[2001:db8:0:00ff::2]:4").unwrap();
        assert!(enter("[2001:db8:0:0012::2]:4").is_none(), "of 56 bits");
        assert!(enter("203.0.113.1:1").is_none(), "of all");
        assert_eq!(census.count().complete, 4);
        assert_eq!(census.count().refused, 3);
        drop(second);
        drop(first);
        assert!(!census.is_full(limits, from("203.0.113.1:1")));
        drop((third, fourth));
        assert_eq!(census.count().complete, 0);
        assert!(census.counts().networks.is_empty());
    }

    #[test]
    fn a_place_is_taken_once_and_none_is_given_back_that_was_not_taken() {
        let census = Arc::new(Census::default());
        let limits = limits(1, usize::MAX);
        let mut one = Counted::new(&census, limits, from("192.0.2.1:1"));
        let mut other = Counted::new(&census, limits, from("203.0.113.1:1"));
        assert!(one.enter() && one.enter() && !other.enter());
        drop(other);
        assert_eq!(census.count().complete, 1);
    }

    #[test]
    fn zero_is_no_limit() {
        let census = Census::default();
        assert!(!census.is_full(limits(0, 0), from("192.0.2.1:1")));
    }
}
