//! The queue of clients that wait to be accepted, for drivers that take them out of it: who is next.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Instant;

use mpquic_sched_core::ConnectionId;
use mpquic_wire::packet::Version;

use super::{Endpoint, Incoming};
use crate::shards::Network;
use crate::{FourTuple, Transmit};

/// When a network's turn comes: one that has had none since it waits before others, the one with the newest client first;
/// then the one whose last turn was longest ago.
type Turn = (u64, Reverse<u64>, Network);

/// Clients of one network.
#[derive(Debug, Default)]
struct Group {
    /// Their numbers, oldest first.
    numbers: VecDeque<u64>,
    /// The count of turns at its last one; 0 if it had none.
    served: u64,
}

impl Group {
    fn turn(&self, network: Network) -> Option<Turn> {
        let newest = self.numbers.back()?;
        Some((self.served, Reverse(*newest), network))
    }
}

/// What waits in the queue.
trait Waits {
    fn network(&self) -> Network;
}

impl Waits for Incoming {
    fn network(&self) -> Network {
        Network::of(self.network_path.remote)
    }
}

/// A client that is to get a Retry packet: what that takes, a tenth of the client's datagram.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) network_path: FourTuple,
    pub(super) version: Version,
    pub(super) dcid: ConnectionId,
    pub(super) scid: ConnectionId,
}

impl Waits for Asked {
    fn network(&self) -> Network {
        Network::of(self.network_path.remote)
    }
}

/// Clients that wait for the same.
///
/// Of two turns, one goes round the networks, and there to the newest client: many clients of one network do not stand before
/// another, and many made-up ones, which come from everywhere, not before one that comes later. The other turn goes to who
/// waits longest: no flood, however it is timed, has all turns.
#[derive(Debug)]
struct Queue<T> {
    /// In the order in which they came.
    clients: BTreeMap<u64, T>,
    groups: BTreeMap<Network, Group>,
    turns: BTreeSet<Turn>,
    /// Turns since nobody waited.
    served: u64,
    /// Clients that have come.
    count: u64,
}

impl<T> Default for Queue<T> {
    fn default() -> Self {
        Self {
            clients: BTreeMap::new(),
            groups: BTreeMap::new(),
            turns: BTreeSet::new(),
            served: 0,
            count: 0,
        }
    }
}

impl<T: Waits> Queue<T> {
    fn len(&self) -> usize {
        self.clients.len()
    }

    fn is_empty(&self) -> bool {
        self.clients.is_empty()
    }

    fn push(&mut self, client: T) {
        let (network, number) = (client.network(), self.count);
        self.count += 1;
        let group = self.groups.entry(network).or_default();
        if let Some(turn) = group.turn(network) {
            self.turns.remove(&turn);
        }
        group.numbers.push_back(number);
        self.turns.extend(group.turn(network));
        self.clients.insert(number, client);
    }

    fn pop_next(&mut self) -> Option<T> {
        if self.is_empty() {
            return None;
        }
        self.served += 1;
        let next = if self.served % 2 == 1 {
            let (.., network) = self.turns.pop_first()?;
            let group = self.groups.get_mut(&network)?;
            group.served = self.served;
            self.turns.extend(group.turn(network));
            let newest = *group.numbers.back()?;
            self.remove(newest)
        } else {
            self.pop_oldest()
        };
        if self.is_empty() {
            self.served = 0;
        }
        next
    }

    fn oldest(&self) -> Option<&T> {
        self.clients.values().next()
    }

    fn pop_oldest(&mut self) -> Option<T> {
        let oldest = *self.clients.keys().next()?;
        self.remove(oldest)
    }

    /// Removes one that is the oldest or the newest of its network.
    fn remove(&mut self, number: u64) -> Option<T> {
        let client = self.clients.remove(&number)?;
        let network = client.network();
        if let Some(group) = self.groups.get_mut(&network) {
            if let Some(turn) = group.turn(network) {
                self.turns.remove(&turn);
            }
            if group.numbers.back() == Some(&number) {
                group.numbers.pop_back();
            } else {
                group.numbers.pop_front();
            }
            match group.turn(network) {
                Some(turn) => {
                    self.turns.insert(turn);
                }
                None => {
                    self.groups.remove(&network);
                }
            }
        }
        Some(client)
    }
}

/// Those who wait.
#[derive(Debug, Default)]
pub(super) struct AcceptQueue {
    /// To be accepted, with an address that is proven. They come first: to be among them costs an address of one's own, and a
    /// round trip.
    proven: Queue<Incoming>,
    /// The others that are to be accepted.
    others: Queue<Incoming>,
    /// Who has to prove an address.
    asked: Queue<Asked>,
}

impl AcceptQueue {
    pub(super) fn push(&mut self, incoming: Incoming) {
        if incoming.remote_address_validated() {
            self.proven.push(incoming);
        } else {
            self.others.push(incoming);
        }
    }

    /// One that is to get a Retry packet, of at most so many. Who has waited longest goes first.
    pub(super) fn ask(&mut self, client: Asked, most: usize) {
        self.asked.push(client);
        while self.asked.len() > most {
            self.asked.pop_oldest();
        }
    }

    /// How many are to get a Retry packet.
    pub(super) fn asked(&self) -> usize {
        self.asked.len()
    }

    /// Who is given up for another one that is, or is not, proven: who has waited longest, of those who are worth no more.
    pub(super) fn least(&self, for_proven: bool) -> Option<&Incoming> {
        let others = self.others.oldest();
        others.or_else(|| self.proven.oldest().filter(|_| for_proven))
    }

    /// Removes that one.
    pub(super) fn give_up(&mut self, for_proven: bool) -> Option<Incoming> {
        let others = self.others.pop_oldest();
        others.or_else(|| for_proven.then(|| self.proven.pop_oldest())?)
    }

    /// Whether nobody waits to be accepted.
    pub(super) fn is_empty(&self) -> bool {
        self.proven.is_empty() && self.others.is_empty()
    }

    /// Forgets those whose time is over.
    pub(super) fn expire(&mut self, now: Instant) {
        for queue in [&mut self.proven, &mut self.others] {
            while queue.oldest().is_some_and(|oldest| oldest.expires <= now) {
                queue.pop_oldest();
            }
        }
    }
}

impl Endpoint {
    /// From now on, clients that want to connect wait in a queue until the driver has time for them:
    /// [`handle`](Self::handle) returns [`DatagramEvent::Queued`](crate::DatagramEvent::Queued) for each, in place of
    /// [`NewConnection`](crate::DatagramEvent::NewConnection), or of a Retry packet above
    /// [`ServerConfig::retry_above`](crate::ServerConfig::retry_above). Then [`next_incoming`](Self::next_incoming) and
    /// [`next_retry`](Self::next_retry) say who is next. So a driver can read all that its sockets hold before it does the
    /// work of TLS or writes an answer, and who comes after a flood does not have to wait for all of it.
    ///
    /// Clients whose address is proven come first. Of two turns, one goes round the networks that clients come from (24 bits
    /// of an IPv4 address, 56 of an IPv6 address), the newest client of each first; the other goes to who has waited
    /// longest. When as many wait as may ([`ServerConfig::max_incoming`](crate::ServerConfig::max_incoming),
    /// [`ServerConfig::max_retries_waiting`](crate::ServerConfig::max_retries_waiting)), who has waited longest is dropped
    /// for the newest.
    ///
    /// ```
    /// # use std::time::Instant;
    /// # use mpquic_proto::{Endpoint, Incoming};
    /// /// When the sockets have nothing more: a few Retry packets, then one client. Then the sockets are read again.
    /// fn serve(endpoint: &mut Endpoint, now: Instant, mut send: impl FnMut(&[u8])) -> Option<Incoming> {
    ///     let mut packet = Vec::new();
    ///     for _ in 0..16 {
    ///         let Some(transmit) = endpoint.next_retry(now, &mut packet) else { break };
    ///         send(&packet[packet.len() - transmit.size..]);
    ///     }
    ///     endpoint.next_incoming(now)
    /// }
    /// ```
    pub fn queue_clients(&mut self) {
        self.accept_queue.get_or_insert_default();
    }

    /// The client that is to be accepted next.
    pub fn next_incoming(&mut self, now: Instant) -> Option<Incoming> {
        self.handle_timeout(now);
        let queue = self.accept_queue.as_mut()?;
        queue.proven.pop_next().or_else(|| queue.others.pop_next())
    }

    /// Writes a Retry packet to `buf` for the next client that has to prove its address. `None` if there is none.
    pub fn next_retry(&mut self, now: Instant, buf: &mut Vec<u8>) -> Option<Transmit> {
        let client = self.accept_queue.as_mut()?.asked.pop_next()?;
        let (dcid, scid) = (&client.dcid, &client.scid);
        Some(self.write_retry(now, client.network_path, client.version, dcid, scid, buf))
    }

    /// Whether [`next_incoming`](Self::next_incoming) has one, unless it has expired.
    pub fn has_next_incoming(&self) -> bool {
        let queue = self.accept_queue.as_ref();
        queue.is_some_and(|queue| !queue.proven.is_empty() || !queue.others.is_empty())
    }

    /// Whether [`next_retry`](Self::next_retry) has one.
    pub fn has_next_retry(&self) -> bool {
        let queue = self.accept_queue.as_ref();
        queue.is_some_and(|queue| !queue.asked.is_empty())
    }

    /// All that wait to be accepted, to be [refused](Self::refuse) or [ignored](Self::ignore).
    pub fn drain_clients(&mut self) -> Vec<Incoming> {
        let Some(queue) = &mut self.accept_queue else {
            return Vec::new();
        };
        let queues = [&mut queue.proven, &mut queue.others].map(std::mem::take);
        let clients = queues.into_iter().flat_map(|queue| queue.clients);
        clients.map(|(_, client)| client).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::admission_tests::initial as with_token;
    use super::super::tests::{Bench, initial, shared_server};
    use crate::{DatagramEvent, ServerConfig};

    /// A server whose clients wait in the queue.
    fn bench(configure: impl FnOnce(&mut ServerConfig)) -> Bench {
        let mut config = (*shared_server()).clone();
        config.retry_above(usize::MAX);
        configure(&mut config);
        let mut bench = Bench::with(Some(config.into()));
        bench.endpoint.queue_clients();
        bench
    }

    impl Bench {
        fn queue(&mut self, number: u64, remote: &str) {
            let event = self.handle_from(remote, &initial(number));
            assert!(matches!(event, Some(DatagramEvent::Queued)), "{event:?}");
        }

        /// The number of the client that is next; it is ignored.
        fn serve(&mut self) -> Option<u64> {
            let next = self.endpoint.next_incoming(self.now)?;
            let number = u64::from_be_bytes(next.dcid[..].try_into().unwrap());
            self.endpoint.ignore(next);
            Some(number)
        }

        fn serve_all(&mut self) -> Vec<u64> {
            std::iter::from_fn(|| self.serve()).collect()
        }
    }

    #[test]
    fn turns_go_round_the_networks_and_to_who_waits_longest() {
        let mut bench = bench(|_| {});
        for number in 0..6 {
            bench.queue(number, "192.0.2.1:7");
        }
        bench.queue(6, "192.0.2.200:7");
        bench.queue(7, "[2001:db8::1]:7");
        bench.queue(8, "[2001:db8::2:0:0:1]:7");
        bench.queue(9, "[2001:db8:1::1]:7");
        // Three networks: 9, 8 and 6 are the newest of each, then 7 and 5; and between them the oldest of all.
        assert_eq!(bench.serve_all(), [9, 0, 8, 1, 6, 2, 7, 3, 5, 4]);
        assert!(!bench.endpoint.has_next_incoming());
        bench.assert_none_waits();
        // All is forgotten: the newest is first again.
        bench.queue(10, "192.0.2.1:7");
        bench.queue(11, "[::ffff:192.0.2.2]:7");
        assert_eq!(bench.serve_all(), [11, 10]);
    }

    #[test]
    fn what_is_repeated_takes_no_second_place() {
        let mut bench = bench(|_| {});
        bench.queue(1, "192.0.2.1:7");
        assert!(bench.handle_from("192.0.2.1:7", &initial(1)).is_none());
        assert_eq!(bench.serve_all(), [1]);
        bench.assert_none_waits();
    }

    #[test]
    fn the_newest_are_kept() {
        let mut bench = bench(|config| {
            config.max_incoming(10);
        });
        for number in 0..100 {
            bench.queue(number, &format!("192.0.{number}.1:7"));
        }
        assert_eq!(bench.endpoint.half_open().connections, 10);
        let mut left = bench.serve_all();
        left.sort_unstable();
        assert_eq!(left, (90..100).collect::<Vec<_>>());
        bench.assert_none_waits();
    }

    #[test]
    fn who_is_above_the_threshold_proves_the_address_and_goes_first() {
        let mut bench = bench(|config| {
            config.retry_above(2).max_retries_waiting(3);
        });
        for number in 0..6 {
            bench.queue(number, &format!("192.0.2.1:{}", 1000 + number));
        }
        // Nothing is held for the others that counts as a connection.
        assert_eq!(bench.endpoint.half_open().connections, 2);
        let mut asked = Vec::new();
        while bench.endpoint.has_next_retry() {
            let mut buf = vec![1, 2, 3];
            let transmit = bench.endpoint.next_retry(bench.now, &mut buf).unwrap();
            assert_eq!(transmit.size, buf.len() - 3);
            asked.push(transmit.network_path.remote.port());
        }
        // The third one was given up for the last one.
        assert_eq!(asked, [1005, 1003, 1004]);
        let token = bench.token_for("192.0.2.1");
        let event = bench.handle_from("192.0.2.1:7", &with_token(&[7; 8], &token));
        assert!(matches!(event, Some(DatagramEvent::Queued)), "{event:?}");
        assert_eq!(bench.serve_all(), [u64::from_be_bytes([7; 8]), 1, 0]);
        bench.assert_none_waits();
    }

    #[test]
    fn a_client_whose_address_is_proven_gives_way_to_no_other() {
        let mut bench = bench(|config| {
            config.max_incoming(2);
        });
        for id in [1, 2] {
            let token = bench.token_for("192.0.2.1");
            let datagram = with_token(&[id; 8], &token);
            assert!(bench.handle_from("192.0.2.1:7", &datagram).is_some());
        }
        assert!(bench.handle_from("192.0.2.1:7", &initial(3)).is_none());
        let token = bench.token_for("192.0.2.1");
        let datagram = with_token(&[4; 8], &token);
        assert!(bench.handle_from("192.0.2.1:7", &datagram).is_some());
        let of = |id: u8| u64::from_be_bytes([id; 8]);
        assert_eq!(bench.serve_all(), [of(4), of(2)]);
        bench.assert_none_waits();
    }

    #[test]
    fn nobody_waits_beyond_the_deadline_or_the_end() {
        let mut bench = bench(|_| {});
        bench.queue(1, "192.0.2.1:7");
        bench.now = bench.endpoint.poll_timeout().unwrap();
        bench.endpoint.handle_timeout(bench.now);
        assert!(!bench.endpoint.has_next_incoming() && bench.serve().is_none());
        bench.assert_none_waits();
        bench.queue(2, "192.0.2.1:7");
        for incoming in bench.endpoint.drain_clients() {
            let _ = bench.endpoint.refuse(incoming, &mut Vec::new());
        }
        bench.assert_none_waits();
    }
}
