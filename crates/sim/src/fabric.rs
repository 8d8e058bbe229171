//! What lies between the endpoints: addresses, links, and the record of each datagram. Knows no connection.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::BytesMut;
use mpquic_proto::{EcnCodepoint, FourTuple, Side, Transmit};

use crate::event_queue::EventQueue;
use crate::link::{Fate, Link, flip_bit};
use crate::observe::ByteSeries;
use crate::trace::{DatagramInfo, DatagramStep, Trace};

/// A function that sees every datagram enter and leave its link.
pub(crate) type DatagramHook = Box<dyn FnMut(&DatagramInfo)>;

/// A datagram on a link.
#[derive(Debug, Clone)]
pub(crate) struct Datagram {
    bytes: Vec<u8>,
    ecn: Option<EcnCodepoint>,
    /// As the receiver sees it.
    network_path: FourTuple,
}

/// A datagram that reached its endpoint.
pub(crate) struct Arrived {
    pub(crate) to: Side,
    pub(crate) network_path: FourTuple,
    pub(crate) ecn: Option<EcnCodepoint>,
    pub(crate) bytes: BytesMut,
}

/// A client's address, and what it looks like from outside: another one after a rebinding of the
/// NAT between (RFC 9000 section 9.3.3).
#[derive(Debug, Clone, Copy)]
pub(crate) struct ClientAddress {
    pub(crate) inside: SocketAddr,
    pub(crate) outside: SocketAddr,
}

/// A pair of links between a client's and a server's address.
pub(crate) struct Path {
    pub(crate) client: usize,
    pub(crate) server: usize,
    /// By sender: client's, server's.
    pub(crate) links: [Link<Datagram>; 2],
    /// When each link's next wake-up is due.
    wake: [Option<Duration>; 2],
}

impl Path {
    pub(crate) fn new(
        client: usize,
        server: usize,
        up: Link<Datagram>,
        down: Link<Datagram>,
    ) -> Self {
        Self {
            client,
            server,
            links: [up, down],
            wake: [None, None],
        }
    }
}

pub(crate) struct Fabric {
    pub(crate) clients: Vec<ClientAddress>,
    pub(crate) servers: Vec<SocketAddr>,
    pub(crate) paths: Vec<Path>,
    wakes: EventQueue<(usize, usize)>,
    pub(crate) trace: Trace,
    pub(crate) hooks: Vec<DatagramHook>,
    /// By sender.
    pub(crate) received: [ByteSeries; 2],
    pub(crate) unroutable: u64,
}

/// The bit to flip in place of this one, so that equal seeds stay equal runs. The first byte's highest
/// bit makes a long header of a short one (RFC 9000 section 17.2): what stands where its connection
/// IDs' lengths would be is ciphertext, which TLS draws anew in each run, and with it the size of the
/// Version Negotiation packet in answer. The fixed bit is flipped instead.
const fn replayable(bit: u64) -> u64 {
    if bit == 7 { 6 } else { bit }
}

/// The place of a side's things in an array of two.
pub(crate) const fn index(side: Side) -> usize {
    match side {
        Side::Client => 0,
        Side::Server => 1,
    }
}

const SIDES: [Side; 2] = [Side::Client, Side::Server];

impl Fabric {
    pub(crate) fn new(
        clients: Vec<ClientAddress>,
        servers: Vec<SocketAddr>,
        paths: Vec<Path>,
        trace: Trace,
        interval: Duration,
    ) -> Self {
        let series = ByteSeries::new(interval, paths.len());
        Self {
            clients,
            servers,
            paths,
            wakes: EventQueue::new(),
            trace,
            hooks: Vec::new(),
            received: [series.clone(), series],
            unroutable: 0,
        }
    }

    pub(crate) fn next_time(&self) -> Option<Duration> {
        self.wakes.next_time()
    }

    /// Sends what a connection or endpoint wrote: one datagram, or several of one size (the last
    /// may be shorter).
    pub(crate) fn send(&mut self, now: Duration, from: Side, transmit: &Transmit, bytes: &[u8]) {
        let bytes = &bytes[..transmit.size.min(bytes.len())];
        let segment = transmit.segment_size.unwrap_or(bytes.len()).max(1);
        let route = self.route(from, transmit.network_path);
        for datagram in bytes.chunks(segment) {
            let mut info = DatagramInfo {
                at: now,
                sent: now,
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
            let entered = self.paths[path].links[index(from)].enqueue(
                now,
                datagram.len(),
                Datagram {
                    bytes: datagram.to_vec(),
                    ecn: transmit.ecn,
                    network_path,
                },
            );
            if let Err((_, loss)) = entered {
                info.what = DatagramStep::Left(Fate::Lost(loss));
                self.record(&info);
            }
        }
        if let Some((path, _)) = route {
            self.plan(path, index(from));
        }
    }

    /// The link for these addresses, and how the receiver sees them.
    fn route(&self, from: Side, addresses: FourTuple) -> Option<(usize, FourTuple)> {
        let FourTuple { local, remote } = addresses;
        // An unspecified local address leaves the choice to the system: the first that fits.
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

    /// Lets the next due link work, if any is due by `now`; returns whether one was.
    pub(crate) fn work(&mut self, now: Duration, arrived: &mut Vec<Arrived>) -> bool {
        if self.wakes.next_time().is_none_or(|at| at > now) {
            return false;
        }
        let Some((at, (number, direction))) = self.wakes.pop() else {
            return false;
        };
        let path = &mut self.paths[number];
        // Superseded by an earlier wake-up, which has planned the next one.
        if path.wake[direction] != Some(at) {
            return true;
        }
        path.wake[direction] = None;
        while let Some(exit) = self.paths[number].links[direction].poll(now) {
            let from = SIDES[direction];
            self.record(&DatagramInfo {
                at: exit.at,
                sent: exit.entered,
                from,
                path: Some(number),
                size: exit.size,
                what: DatagramStep::Left(exit.fate),
            });
            if !exit.fate.arrives() {
                continue;
            }
            let Datagram {
                mut bytes,
                ecn,
                network_path,
            } = exit.payload;
            if let Fate::Corrupted { bit } = exit.fate {
                flip_bit(&mut bytes, replayable(bit));
            }
            self.received[direction].add(number, exit.at, exit.size as u64);
            arrived.push(Arrived {
                to: SIDES[1 - direction],
                network_path,
                ecn,
                bytes: BytesMut::from(bytes.as_slice()),
            });
        }
        self.plan(number, direction);
        true
    }

    /// Plans the next wake-up of a link whose state has changed.
    pub(crate) fn plan(&mut self, number: usize, direction: usize) {
        let path = &mut self.paths[number];
        let Some(at) = path.links[direction].next_event() else {
            return;
        };
        if path.wake[direction].is_none_or(|planned| at < planned) {
            path.wake[direction] = Some(at);
            self.wakes.push(at, (number, direction));
        }
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
        let paths = configs
            .iter()
            .enumerate()
            .map(|(i, config)| {
                let link = || Link::new(config.clone(), i as u64).unwrap();
                Path::new(i, 0, link(), link())
            })
            .collect();
        let servers = vec![address("192.0.2.1:4433")];
        Fabric::new(clients, servers, paths, Trace::new(false), ms(100))
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
        fabric.send(ms(0), Side::Client, &batch, &bytes);
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
        fabric.send(ms(0), Side::Client, &datagram, b"abc");
        assert_eq!(run(&mut fabric).len(), 1);
    }

    #[test]
    fn without_a_link_nothing_arrives_and_it_is_counted() {
        let mut fabric = fabric(&[LinkConfig::default()]);
        let datagram = transmit("10.9.9.9:5000", "192.0.2.1:4433", 3, None);
        fabric.send(ms(0), Side::Client, &datagram, b"abc");
        assert_eq!(fabric.next_time(), None);
        assert_eq!(fabric.unroutable, 1);
    }

    #[test]
    fn after_a_rebinding_the_old_address_leads_nowhere() {
        let mut fabric = fabric(&[LinkConfig::default()]);
        fabric.clients[0].outside = address("203.0.113.7:1");
        let up = transmit("10.0.0.2:5000", "192.0.2.1:4433", 3, None);
        fabric.send(ms(0), Side::Client, &up, b"abc");
        let seen = run(&mut fabric).remove(0).1.network_path.remote;
        assert_eq!(seen, address("203.0.113.7:1"));
        let old = transmit("192.0.2.1:4433", "10.0.0.2:5000", 3, None);
        fabric.send(ms(1), Side::Server, &old, b"abc");
        assert_eq!(fabric.unroutable, 1);
        let new = transmit("192.0.2.1:4433", "203.0.113.7:1", 3, None);
        fabric.send(ms(1), Side::Server, &new, b"abc");
        let back = run(&mut fabric).remove(0).1;
        assert_eq!(back.network_path.local, address("10.0.0.2:5000"));
    }

    #[test]
    fn a_corrupted_datagram_differs_in_one_bit() {
        let config = LinkConfig {
            corruption: 1.0,
            ..LinkConfig::default()
        };
        let mut fabric = fabric(&[config]);
        let datagram = transmit("10.0.0.2:5000", "192.0.2.1:4433", 8, None);
        fabric.send(ms(0), Side::Client, &datagram, &[0; 8]);
        let bytes = run(&mut fabric).remove(0).1.bytes;
        assert_eq!(bytes.iter().map(|byte| byte.count_ones()).sum::<u32>(), 1);
    }

    #[test]
    fn a_link_that_becomes_faster_wakes_earlier() {
        let mut fabric = fabric(&[LinkConfig::new(1000, ms(0))]);
        let datagram = transmit("10.0.0.2:5000", "192.0.2.1:4433", 1000, None);
        fabric.send(ms(0), Side::Client, &datagram, &[0; 1000]);
        fabric.paths[0].links[0].set_rate(ms(1), None).unwrap();
        fabric.plan(0, 0);
        let arrived = run(&mut fabric);
        assert_eq!((arrived.len(), arrived[0].0), (1, ms(1)));
    }
}
