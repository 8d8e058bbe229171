//! The networks, and the emulated links of one download.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use mpquic_sim::{FluidPath, LinkConfig, Relay, fluid_bound};

use crate::Fault;

/// The client's addresses: one for each link.
pub(crate) const CLIENT: [Ipv4Addr; 2] = [Ipv4Addr::LOCALHOST, Ipv4Addr::new(127, 0, 0, 2)];
/// Bytes that are written or read at a time.
pub(crate) const CHUNK: usize = 64 * 1024;
pub(crate) const LOOPBACK: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
/// The UDP payload with which the bound counts.
const MTU: u16 = 1452;

/// Two links to one server.
#[derive(Debug, Clone)]
pub(crate) struct Network {
    pub(crate) name: String,
    /// In the order of the client's addresses.
    links: [LinkConfig; 2],
    /// The place of the link that is the better one alone.
    pub(crate) better: usize,
}

fn link(mbps: u64, owd_ms: u64) -> LinkConfig {
    LinkConfig::new(mbps * 1_000_000, Duration::from_millis(owd_ms))
}

/// The networks of docs/results/side_by_side.md.
const USUAL: [&str; 2] = ["het", "p-low"];

impl Network {
    /// The networks of these names in these orders; the first two and both where there are none.
    pub(crate) fn all(names: &[String], orders: &[u8]) -> Result<Vec<Self>, Fault> {
        let known = [
            ("het", [link(50, 10), link(10, 70)]),
            (
                "p-low",
                [
                    link(50, 20),
                    link(2, 100).with_loss(0.015).with_rtt_variation(8.0),
                ],
            ),
            (
                "p-med",
                [
                    link(50, 20).with_loss(0.015).with_rtt_variation(8.0),
                    link(2, 100).with_loss(0.015).with_rtt_variation(8.0),
                ],
            ),
        ];
        if let Some(name) = names.iter().find(|n| known.iter().all(|(k, _)| k != n)) {
            return Err(
                format!("no network is named {name:?}; there are het, p-low and p-med").into(),
            );
        }
        let orders = if orders.is_empty() { &[1, 2] } else { orders };
        let mut networks = Vec::new();
        for (name, [better, other]) in known {
            let wanted = match names {
                [] => USUAL.contains(&name),
                names => names.iter().any(|wanted| wanted == name),
            };
            if !wanted {
                continue;
            }
            for order in orders {
                let (links, better) = match order {
                    1 => ([better.clone(), other.clone()], 0),
                    _ => ([other.clone(), better.clone()], 1),
                };
                networks.push(Self {
                    name: format!("{name}/{order}"),
                    links,
                    better,
                });
            }
        }
        Ok(networks)
    }

    /// The shortest time from the request to the last byte that the fluid model allows, in seconds.
    pub(crate) fn bound(&self, bytes: u64) -> Option<f64> {
        let paths = self.links.each_ref().map(|l| FluidPath::new(l, l, MTU));
        let workload = format!("file:{bytes}B").parse().ok()?;
        fluid_bound(&workload, &paths, 0)
    }

    /// The links before a server, with the queues and the randomness of this seed.
    pub(crate) fn before(&self, server: SocketAddr, seed: u64) -> io::Result<Bottleneck> {
        // No client has an address that takes these.
        let relay = Relay::spawn(
            LOOPBACK,
            server,
            LinkConfig::default(),
            LinkConfig::default(),
            seed,
        )?;
        for (number, (from, link)) in (0..).zip(CLIENT.into_iter().zip(&self.links)) {
            let seed = seed.wrapping_mul(2).wrapping_add(number);
            relay.add_links(from.into(), link.clone(), link.clone(), seed)?;
        }
        Ok(Bottleneck { relay })
    }
}

/// The emulated links of one download.
pub(crate) struct Bottleneck {
    relay: Relay,
}

impl Bottleneck {
    /// The server, as the client sees it.
    pub(crate) const fn address(&self) -> SocketAddr {
        self.relay.addr()
    }

    /// Datagrams to the client that found a queue full.
    pub(crate) fn dropped(&self) -> u64 {
        let links = CLIENT
            .into_iter()
            .filter_map(|ip| self.relay.link_stats(ip.into()));
        links.map(|(_, down)| down.dropped_queue).sum()
    }
}
