//! Everything between the endpoints: addresses, links, and the record of each datagram.

use std::mem;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::BytesMut;
use mpquic_proto::{EcnCodepoint, FourTuple, Side, Transmit};

use crate::SimError;
use crate::link::{Fate, Link, flip_bit};
use crate::observe::ByteSeries;
use crate::trace::{DatagramInfo, DatagramStep, Trace};

/// A function that sees every datagram enter and leave its link.
pub(crate) type DatagramHook = Box<dyn FnMut(&DatagramInfo)>;

/// A datagram in flight.
#[derive(Debug, Clone)]
pub(crate) struct Datagram {
    bytes: BytesMut,
    ecn: Option<EcnCodepoint>,
    /// The addresses as the receiver sees them.
    network_path: FourTuple,
    flow: usize,
    from: Side,
    sent: Duration,
    path: usize,
    /// The index in the path's chain of the link that the datagram is on.
    hop: usize,
    /// What happened to it on the links before.
    fate: Fate,
}

/// A datagram that reached its endpoint.
pub(crate) struct Arrived {
    pub(crate) flow: usize,
    pub(crate) to: Side,
    pub(crate) network_path: FourTuple,
    pub(crate) ecn: Option<EcnCodepoint>,
    pub(crate) bytes: BytesMut,
}

/// A client's address, from inside and from outside. After a NAT rebinding, the outside address is
/// a new one (RFC 9000 section 9.3.3).
#[derive(Debug, Clone, Copy)]
pub(crate) struct ClientAddress {
    pub(crate) inside: SocketAddr,
    pub(crate) outside: SocketAddr,
}

/// A client's and a server's address and the links between them.
pub(crate) struct Path {
    pub(crate) client: usize,
    pub(crate) server: usize,
    /// The numbers of the links that a datagram crosses, in order. Indexed by the sender: client,
    /// server.
    pub(crate) chains: [Vec<usize>; 2],
}

/// A link, and whether several paths may use it.
pub(crate) struct Line {
    /// The datagrams are boxed, since they go through two queues on each link.
    pub(crate) link: Link<Box<Datagram>>,
    pub(crate) shared: bool,
}

impl Line {
    pub(crate) fn new(link: Link<Box<Datagram>>, shared: bool) -> Self {
        Self { link, shared }
    }
}

/// The path of a flow of cross traffic, which has its own addresses.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Crossing {
    pub(crate) path: usize,
    pub(crate) client: SocketAddr,
    pub(crate) server: SocketAddr,
}

pub(crate) struct Fabric {
    pub(crate) clients: Vec<ClientAddress>,
    pub(crate) servers: Vec<SocketAddr>,
    pub(crate) paths: Vec<Path>,
    pub(crate) lines: Vec<Line>,
    /// Earlier outside addresses of clients, and the clients' numbers.
    pub(crate) former: Vec<(SocketAddr, usize)>,
    /// Those of the flows from 1 on.
    pub(crate) crossings: Vec<Crossing>,
    /// When each link's next wake-up is due; `Duration::MAX` for never. There are so few links that
    /// looking at all of them costs less than keeping them sorted.
    wakes: Vec<Duration>,
    pub(crate) trace: Trace,
    pub(crate) hooks: Vec<DatagramHook>,
    /// Data of the flow under test, indexed by the sender.
    pub(crate) received: [ByteSeries; 2],
    pub(crate) unroutable: u64,
    /// Boxes of datagrams that have left their last link, for the next ones.
    #[expect(clippy::vec_box, reason = "the boxes are what is kept")]
    spare: Vec<Box<Datagram>>,
    /// Memory for the bytes of the next datagrams.
    block: BytesMut,
}

/// How much memory for datagrams is allocated at once, bytes. Ours: enough for 40 of full size.
const BLOCK: usize = 64 * 1024;

/// The bit to flip in place of this one, so that runs with equal seeds stay equal. Flipping the
/// highest bit of the first byte would turn a short header into a long one (RFC 9000 section 17.2).
/// The bytes in the place of the connection ID lengths would then be ciphertext, which differs in
/// each run because TLS draws new keys, and the size of the Version Negotiation packet in response
/// would differ with them. The fixed bit is flipped instead.
const fn replayable(bit: u64) -> u64 {
    if bit == 7 { 6 } else { bit }
}

/// A side's index in arrays of two.
pub(crate) const fn index(side: Side) -> usize {
    match side {
        Side::Client => 0,
        Side::Server => 1,
    }
}

impl Fabric {
    pub(crate) fn new(
        clients: Vec<ClientAddress>,
        servers: Vec<SocketAddr>,
        paths: Vec<Path>,
        lines: Vec<Line>,
        trace: Trace,
        interval: Duration,
    ) -> Self {
        let series = ByteSeries::new(interval, paths.len());
        let wakes = vec![Duration::MAX; lines.len()];
        Self {
            clients,
            servers,
            paths,
            lines,
            former: Vec::new(),
            crossings: Vec::new(),
            wakes,
            trace,
            hooks: Vec::new(),
            received: [series.clone(), series],
            unroutable: 0,
            spare: Vec::new(),
            block: BytesMut::new(),
        }
    }

    pub(crate) fn next_time(&self) -> Option<Duration> {
        self.next_wake().map(|(at, _)| at)
    }

    /// The next wake-up and its link. Of simultaneous ones, that of the link with the lower number.
    fn next_wake(&self) -> Option<(Duration, usize)> {
        let wakes = self.wakes.iter().enumerate();
        let (number, at) = wakes.min_by_key(|(_, at)| **at)?;
        (*at < Duration::MAX).then_some((*at, number))
    }

    /// Sends what a connection or endpoint wrote: one datagram, or several of one size, of which
    /// the last may be shorter.
    pub(crate) fn send(
        &mut self,
        now: Duration,
        flow: usize,
        from: Side,
        transmit: &Transmit,
        bytes: &[u8],
    ) {
        let bytes = &bytes[..transmit.size.min(bytes.len())];
        let segment = transmit.segment_size.unwrap_or(bytes.len()).max(1);
        let route = self.route(flow, from, transmit.network_path);
        for datagram in bytes.chunks(segment) {
            let mut info = DatagramInfo {
                at: now,
                sent: now,
                flow,
                from,
                path: route.map(|(path, _)| path),
                size: datagram.len(),
                what: DatagramStep::Sent,
            };
            let Some((path, network_path)) = route else {
                info.what = DatagramStep::NoRoute;
                self.unroutable += 1;
                self.record(&info);
                continue;
            };
            self.record(&info);
            let datagram = Datagram {
                bytes: self.stored(datagram),
                ecn: transmit.ecn,
                network_path,
                flow,
                from,
                sent: now,
                path,
                hop: 0,
                fate: Fate::Delivered,
            };
            let boxed = match self.spare.pop() {
                Some(mut spare) => {
                    *spare = datagram;
                    spare
                }
                None => Box::new(datagram),
            };
            self.enter(now, boxed);
        }
        if let Some((path, _)) = route {
            self.plan(self.paths[path].chains[index(from)][0]);
        }
    }

    /// A copy of a datagram's bytes. Many share one allocation, which lasts as long as any of them.
    fn stored(&mut self, bytes: &[u8]) -> BytesMut {
        if self.block.capacity() < bytes.len() {
            self.block = BytesMut::with_capacity(BLOCK.max(bytes.len()));
        }
        self.block.extend_from_slice(bytes);
        self.block.split()
    }

    /// Puts a datagram on the next link of its path. The caller must plan the link's wake-up.
    fn enter(&mut self, at: Duration, datagram: Box<Datagram>) {
        let number = self.paths[datagram.path].chains[index(datagram.from)][datagram.hop];
        let link = &mut self.lines[number].link;
        if let Err((datagram, loss)) = link.enqueue(at, datagram.bytes.len(), datagram) {
            self.left(at, &datagram, Fate::Lost(loss));
            self.discard(datagram);
        }
    }

    /// Takes what is left of a datagram that has left its last link.
    fn discard(&mut self, mut datagram: Box<Datagram>) -> BytesMut {
        let bytes = mem::take(&mut datagram.bytes);
        self.spare.push(datagram);
        bytes
    }

    /// The path of these addresses, and the addresses as the receiver sees them.
    fn route(&self, flow: usize, from: Side, addresses: FourTuple) -> Option<(usize, FourTuple)> {
        if let Some(crossing) = flow.checked_sub(1) {
            let Crossing {
                path,
                client,
                server,
            } = *self.crossings.get(crossing)?;
            let (own, peer) = match from {
                Side::Client => (client, server),
                Side::Server => (server, client),
            };
            let seen = FourTuple {
                local: peer,
                remote: own,
            };
            return (addresses.remote == peer).then_some((path, seen));
        }
        let FourTuple { local, remote } = addresses;
        // An unspecified local address leaves the choice to the system, which takes the first that
        // fits.
        let is_local = |address: SocketAddr| {
            address == local || (local.ip().is_unspecified() && address.port() == local.port())
        };
        self.paths.iter().enumerate().find_map(|(number, path)| {
            let client = self.clients.get(path.client)?;
            let server = *self.servers.get(path.server)?;
            match from {
                Side::Client => (is_local(client.inside) && remote == server).then_some((
                    number,
                    FourTuple {
                        local: server,
                        remote: client.outside,
                    },
                )),
                Side::Server => (is_local(server) && remote == client.outside).then_some((
                    number,
                    FourTuple {
                        local: client.inside,
                        remote: server,
                    },
                )),
            }
        })
    }

    /// Changes a client's address.
    pub(crate) fn readdress(
        &mut self,
        client: usize,
        change: impl FnOnce(&mut ClientAddress),
    ) -> Result<(), SimError> {
        let Some(address) = self.clients.get_mut(client) else {
            return Err(SimError::Missing {
                what: "client address",
                number: client,
            });
        };
        self.former.push((address.outside, client));
        change(address);
        Ok(())
    }

    /// Lets the next due link work, if one is due by `now`. Returns whether one was.
    pub(crate) fn work(&mut self, now: Duration, arrived: &mut Vec<Arrived>) -> bool {
        let Some((_, number)) = self.next_wake().filter(|(at, _)| *at <= now) else {
            return false;
        };
        while let Some(exit) = self.lines[number].link.poll(now) {
            let mut datagram = exit.payload;
            let fate = match exit.fate {
                Fate::Delivered => datagram.fate,
                fate => fate,
            };
            if !fate.arrives() {
                self.left(exit.at, &datagram, fate);
                self.discard(datagram);
                continue;
            }
            if let Fate::Corrupted { bit } = exit.fate {
                flip_bit(&mut datagram.bytes, replayable(bit));
            }
            let chain = &self.paths[datagram.path].chains[index(datagram.from)];
            if let Some(&next) = chain.get(datagram.hop + 1) {
                datagram.fate = fate;
                datagram.hop += 1;
                self.enter(exit.at, datagram);
                self.plan(next);
                continue;
            }
            self.left(exit.at, &datagram, fate);
            if datagram.flow == 0 {
                let size = datagram.bytes.len() as u64;
                self.received[index(datagram.from)].add(datagram.path, exit.at, size);
            }
            arrived.push(Arrived {
                flow: datagram.flow,
                to: !datagram.from,
                network_path: datagram.network_path,
                ecn: datagram.ecn,
                bytes: self.discard(datagram),
            });
        }
        self.plan(number);
        true
    }

    /// Plans the next wake-up of a link whose state has changed.
    pub(crate) fn plan(&mut self, number: usize) {
        self.wakes[number] = self.lines[number]
            .link
            .next_event()
            .unwrap_or(Duration::MAX);
    }

    /// The path that a side's connection means by these addresses, even if the side does not know
    /// of a rebinding yet.
    pub(crate) fn path_of(&self, side: Side, addresses: FourTuple) -> Option<usize> {
        if let Some((path, _)) = self.route(0, side, addresses) {
            return Some(path);
        }
        let (_, client) = self
            .former
            .iter()
            .find(|(outside, _)| *outside == addresses.remote)?;
        self.paths.iter().position(|path| {
            path.client == *client && self.servers.get(path.server) == Some(&addresses.local)
        })
    }

    /// The bytes that wait or are being serialised on the links of a path's direction, overhead
    /// included.
    pub(crate) fn queued_bytes(&self, path: usize, direction: usize) -> u64 {
        let chain = self.paths.get(path).map(|path| &path.chains[direction]);
        let links = chain.into_iter().flatten();
        links
            .map(|&number| self.lines[number].link.queued_bytes())
            .sum()
    }

    /// The link that represents a path's direction: the first link that no other path uses, or the
    /// first one.
    pub(crate) fn own_link(&self, path: usize, direction: usize) -> Option<usize> {
        let chain = &self.paths.get(path)?.chains[direction];
        let own = chain.iter().find(|&&number| !self.lines[number].shared);
        own.or_else(|| chain.first()).copied()
    }

    /// A datagram has left its last link, or was lost on the way.
    fn left(&mut self, at: Duration, datagram: &Datagram, fate: Fate) {
        self.record(&DatagramInfo {
            at,
            sent: datagram.sent,
            flow: datagram.flow,
            from: datagram.from,
            path: Some(datagram.path),
            size: datagram.bytes.len(),
            what: DatagramStep::Left(fate),
        });
    }

    fn record(&mut self, info: &DatagramInfo) {
        self.trace.datagram(info);
        for hook in &mut self.hooks {
            hook(info);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::LinkConfig;

    const fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    fn address(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    fn fabric(configs: &[LinkConfig]) -> Fabric {
        let clients = (0..configs.len())
            .map(|i| {
                let inside = address(&format!("10.0.{i}.2:5000"));
                ClientAddress {
                    inside,
                    outside: inside,
                }
            })
            .collect();
        let paths = (0..configs.len())
            .map(|i| Path {
                client: i,
                server: 0,
                chains: [vec![2 * i], vec![2 * i + 1]],
            })
            .collect();
        let lines = configs
            .iter()
            .flat_map(|config| [config, config])
            .enumerate()
            .map(|(i, config)| Line::new(Link::new(config.clone(), i as u64).unwrap(), false))
            .collect();
        let servers = vec![address("192.0.2.1:4433")];
        Fabric::new(clients, servers, paths, lines, Trace::new(false), ms(100))
    }

    fn transmit(local: &str, remote: &str, size: usize, segment_size: Option<usize>) -> Transmit {
        Transmit {
            network_path: FourTuple {
                local: address(local),
                remote: address(remote),
            },
            ecn: Some(EcnCodepoint::Ect0),
            size,
            segment_size,
        }
    }

    fn run(fabric: &mut Fabric) -> Vec<(Duration, Arrived)> {
        let mut all = Vec::new();
        while let Some(now) = fabric.next_time() {
            let mut arrived = Vec::new();
            fabric.work(now, &mut arrived);
            all.extend(arrived.into_iter().map(|datagram| (now, datagram)));
        }
        all
    }

    #[test]
    fn segments_become_datagrams_and_each_side_sees_its_own_addresses() {
        let mut fabric = fabric(&[
            LinkConfig::new(10_000_000, ms(10)),
            LinkConfig::new(10_000_000, ms(30)),
        ]);
        let bytes: Vec<u8> = (0..250).collect();
        let batch = transmit("10.0.1.2:5000", "192.0.2.1:4433", 250, Some(100));
        fabric.send(ms(0), 0, Side::Client, &batch, &bytes);
        let arrived = run(&mut fabric);
        let sizes: Vec<_> = arrived.iter().map(|(_, a)| a.bytes.len()).collect();
        assert_eq!(sizes, [100, 100, 50]);
        assert!(arrived.iter().all(|(at, _)| *at > ms(30)));
        let first = &arrived[0].1;
        assert_eq!(first.to, Side::Server);
        assert_eq!(first.ecn, Some(EcnCodepoint::Ect0));
        assert_eq!(first.bytes[..], bytes[..100]);
        assert_eq!(first.network_path.local, address("192.0.2.1:4433"));
        assert_eq!(first.network_path.remote, address("10.0.1.2:5000"));
        assert_eq!(fabric.received[0].total(1), 250);
        assert_eq!(fabric.received[1].total(1), 0);
    }

    #[test]
    fn an_unspecified_local_address_takes_the_first_path() {
        let mut fabric = fabric(&[LinkConfig::default()]);
        let datagram = transmit("0.0.0.0:5000", "192.0.2.1:4433", 3, None);
        fabric.send(ms(0), 0, Side::Client, &datagram, b"abc");
        assert_eq!(run(&mut fabric).len(), 1);
    }

    #[test]
    fn without_a_link_nothing_arrives_and_it_is_counted() {
        let mut fabric = fabric(&[LinkConfig::default()]);
        let datagram = transmit("10.9.9.9:5000", "192.0.2.1:4433", 3, None);
        fabric.send(ms(0), 0, Side::Client, &datagram, b"abc");
        assert_eq!(fabric.next_time(), None);
        assert_eq!(fabric.unroutable, 1);
    }

    #[test]
    fn after_a_rebinding_the_old_address_leads_nowhere() {
        let mut fabric = fabric(&[LinkConfig::default()]);
        fabric.clients[0].outside = address("203.0.113.7:1");
        let up = transmit("10.0.0.2:5000", "192.0.2.1:4433", 3, None);
        fabric.send(ms(0), 0, Side::Client, &up, b"abc");
        let seen = run(&mut fabric).remove(0).1.network_path.remote;
        assert_eq!(seen, address("203.0.113.7:1"));
        let old = transmit("192.0.2.1:4433", "10.0.0.2:5000", 3, None);
        fabric.send(ms(1), 0, Side::Server, &old, b"abc");
        assert_eq!(fabric.unroutable, 1);
        let new = transmit("192.0.2.1:4433", "203.0.113.7:1", 3, None);
        fabric.send(ms(1), 0, Side::Server, &new, b"abc");
        let back = run(&mut fabric).remove(0).1;
        assert_eq!(back.network_path.local, address("10.0.0.2:5000"));
    }

    #[test]
    fn an_address_that_gave_way_to_another_one_leads_nowhere() {
        let mut fabric = fabric(&[LinkConfig::new(10_000_000, ms(10))]);
        let new = address("10.0.0.9:5000");
        let now = ClientAddress {
            inside: new,
            outside: new,
        };
        fabric.readdress(0, |address| *address = now).unwrap();
        assert!(fabric.readdress(1, |_| ()).is_err());
        let server = "192.0.2.1:4433";
        for (side, from, to) in [
            (Side::Client, "10.0.0.2:5000", server),
            (Side::Server, server, "10.0.0.2:5000"),
        ] {
            fabric.send(ms(0), 0, side, &transmit(from, to, 3, None), b"abc");
        }
        assert_eq!(fabric.unroutable, 2);
        for (side, from, to) in [
            (Side::Client, "10.0.0.9:5000", server),
            (Side::Server, server, "10.0.0.9:5000"),
        ] {
            fabric.send(ms(0), 0, side, &transmit(from, to, 3, None), b"abc");
        }
        assert_eq!(run(&mut fabric).len(), 2);
    }

    #[test]
    fn a_corrupted_datagram_differs_in_one_bit() {
        let config = LinkConfig {
            corruption: 1.0,
            ..LinkConfig::default()
        };
        let mut fabric = fabric(&[config]);
        let datagram = transmit("10.0.0.2:5000", "192.0.2.1:4433", 8, None);
        fabric.send(ms(0), 0, Side::Client, &datagram, &[0; 8]);
        let bytes = run(&mut fabric).remove(0).1.bytes;
        assert_eq!(bytes.iter().map(|byte| byte.count_ones()).sum::<u32>(), 1);
    }

    #[test]
    fn a_link_that_becomes_faster_wakes_earlier() {
        let mut fabric = fabric(&[LinkConfig::new(1000, ms(0))]);
        let datagram = transmit("10.0.0.2:5000", "192.0.2.1:4433", 1000, None);
        fabric.send(ms(0), 0, Side::Client, &datagram, &[0; 1000]);
        fabric.lines[0].link.set_rate(ms(1), None).unwrap();
        fabric.plan(0);
        let arrived = run(&mut fabric);
        assert_eq!((arrived.len(), arrived[0].0), (1, ms(1)));
    }
}
