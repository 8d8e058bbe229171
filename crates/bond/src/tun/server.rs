//! The server's end: addresses for clients, and who may send what to whom.

use std::collections::HashMap;
use std::fmt;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use ipnet::IpNet;
use mpquic::{RecvStream, SendStream};
use tokio::sync::mpsc;

use super::device::Device;
use super::packet::Head;
use super::tunnel::{Sink, Tunnel};
use super::wire::{LEAST_MTU, Lease};
use crate::allow::AllowList;
use crate::error::Error;
use crate::server::Served;
use crate::settings::CLIENTS;
use crate::udp::ServerFlows;
use crate::wire::{Refusal, Target};

/// For so long, what was found out about a target holds.
const FRESH: Duration = Duration::from_secs(1);
/// Datagrams of a client that wait to be read.
const WAITING: usize = 1024;
/// Targets of a client that are remembered.
const TARGETS: usize = 4096;
/// The secret by which a client gets the addresses that it had.
pub(crate) type Cookie = [u8; 16];

/// The networks of a server's tunnels, and what clients are told.
#[derive(Debug, Clone)]
pub struct Pool {
    /// The device's name.
    pub device: String,
    /// At most one of IPv4, and one of IPv6. The server has the first address, clients have those after it.
    pub networks: Vec<IpNet>,
    /// The largest packet, bytes: at least 1,280.
    pub mtu: u16,
    /// Where clients ask for names.
    pub dns: Vec<IpAddr>,
}

impl Pool {
    /// Whether it makes sense.
    ///
    /// # Errors
    ///
    /// What does not.
    pub fn check(&self) -> Result<(), Error> {
        let refused = |why: String| Err(Error::Argument(why));
        for (number, network) in self.networks.iter().enumerate() {
            let before = &self.networks[..number];
            if before
                .iter()
                .any(|other| other.addr().is_ipv4() == network.addr().is_ipv4())
            {
                return refused(format!("{network}: one network of each family"));
            }
            if network.hosts().take(2).count() < 2 {
                return refused(format!("{network} has no room for a client"));
            }
        }
        if self.networks.is_empty() || self.mtu < LEAST_MTU {
            return refused(format!(
                "a tunnel has a network, and an MTU of {LEAST_MTU} at least"
            ));
        }
        Ok(())
    }

    fn server(&self) -> Vec<IpNet> {
        self.networks
            .iter()
            .filter_map(|network| address(network, 0))
            .collect()
    }

    /// What the client of this number is told.
    fn lease(&self, number: usize) -> Option<Lease> {
        let addresses: Option<_> = self
            .networks
            .iter()
            .map(|network| address(network, number))
            .collect();
        Some(Lease {
            mtu: self.mtu,
            addresses: addresses?,
            dns: self.dns.clone(),
        })
    }
}

/// An address of a network with its prefix: the first, or one after it.
fn address(network: &IpNet, number: usize) -> Option<IpNet> {
    let ip = network.hosts().nth(match network {
        // The iterator of IPv6 begins with the address of all zeros, which is the routers' (RFC 4291 section 2.6.1).
        IpNet::V6(_) => number + 1,
        IpNet::V4(_) => number,
    })?;
    IpNet::new(ip, network.prefix_len()).ok()
}

/// All tunnels of a server.
pub(crate) struct TunServer {
    pool: Pool,
    device: Arc<Device>,
    guests: Mutex<Guests>,
}

#[derive(Debug, Default)]
struct Guests {
    /// Which number a cookie has, and when it was last used.
    numbers: HashMap<Cookie, (usize, Instant)>,
    /// The tunnel of an address.
    tunnels: HashMap<IpAddr, (Arc<Tunnel>, Arc<Served>)>,
}

impl fmt::Debug for TunServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TunServer").field(&self.pool).finish()
    }
}

impl Guests {
    /// The number of a client: the one that it had, one that nobody had, or that of the client which has been away for longest.
    fn number(&mut self, cookie: Cookie, pool: &Pool) -> Option<usize> {
        let now = Instant::now();
        if let Some((number, used)) = self.numbers.get_mut(&cookie) {
            *used = now;
            return Some(*number);
        }
        let taken: Vec<usize> = self.numbers.values().map(|(number, _)| *number).collect();
        let free = (1..=CLIENTS).find(|number| !taken.contains(number));
        let free = free.filter(|number| pool.lease(*number).is_some());
        let number = free.or_else(|| {
            let is_away = |number: usize| {
                let lease = pool.lease(number);
                lease.is_some_and(|lease| {
                    let mut ips = lease.addresses.iter().map(IpNet::addr);
                    ips.all(|ip| !self.tunnels.contains_key(&ip))
                })
            };
            let away = self
                .numbers
                .iter()
                .filter(|(_, (number, _))| is_away(*number));
            let oldest = away.min_by_key(|(_, (_, used))| *used);
            let (cookie, number) = oldest.map(|(cookie, (number, _))| (*cookie, *number))?;
            self.numbers.remove(&cookie);
            Some(number)
        })?;
        self.numbers.insert(cookie, (number, now));
        Some(number)
    }
}

/// A client's tunnel, for as long as it lives.
#[derive(Debug)]
pub(crate) struct Guest {
    server: Arc<TunServer>,
    pub(crate) tunnel: Arc<Tunnel>,
    ips: Vec<IpAddr>,
}

impl Drop for Guest {
    fn drop(&mut self) {
        self.tunnel.end();
        let mut guests = self.server.guests();
        for ip in &self.ips {
            // The client may be here again, by another connection.
            if guests
                .tunnels
                .get(ip)
                .is_some_and(|(there, _)| Arc::ptr_eq(there, &self.tunnel))
            {
                guests.tunnels.remove(ip);
            }
        }
    }
}

impl TunServer {
    /// Makes the device.
    pub(crate) fn new(pool: Pool) -> Result<Arc<Self>, Error> {
        pool.check()?;
        let device = Device::new(&pool.device, pool.mtu, &pool.server())?;
        Ok(Arc::new(Self {
            pool,
            device: Arc::new(device),
            guests: Mutex::default(),
        }))
    }

    fn guests(&self) -> MutexGuard<'_, Guests> {
        self.guests.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Addresses for a client, and its end of the tunnel; `None` if all are taken.
    pub(crate) fn enter(
        self: &Arc<Self>,
        cookie: Cookie,
        client: &Arc<Served>,
    ) -> Option<(Lease, Guest)> {
        let mut guests = self.guests();
        let number = guests.number(cookie, &self.pool)?;
        let lease = self.pool.lease(number)?;
        let ips = super::device::ips(&lease.addresses);
        let (ruled, rated) = (Arc::clone(client), Arc::clone(client));
        let gate = Gate::new(ips.clone(), move || ruled.allow());
        let device = Arc::clone(&self.device);
        let sink: Sink = Arc::new(move |packet| {
            let user = rated.user.as_ref();
            let takes = || user.is_none_or(|user| user.from().takes(packet.len()));
            if gate.lets_pass(packet) && takes() {
                device.write(packet);
            }
        });
        let lane = Arc::clone(&client.lane);
        let tunnel = Tunnel::new(client.connection.clone(), lane, sink);
        for ip in &ips {
            guests
                .tunnels
                .insert(*ip, (Arc::clone(&tunnel), Arc::clone(client)));
        }
        let server = Arc::clone(self);
        Some((
            lease,
            Guest {
                server,
                tunnel,
                ips,
            },
        ))
    }

    /// Hands on what the system has for clients, until the device fails.
    pub(crate) async fn run(&self) -> Error {
        let error = self.device.read(|packet: Bytes| {
            let Some(head) = Head::of(&packet) else {
                return;
            };
            let tunnel = self.guests().tunnels.get(&head.to).cloned();
            let Some((tunnel, client)) = tunnel else {
                return;
            };
            let user = client.user.as_ref();
            if user.is_none_or(|user| user.to().takes(packet.len())) {
                tunnel.send(&packet, &head);
            }
        });
        error.await.into()
    }
}

impl Served {
    /// Gives the client a tunnel, until its stream ends.
    pub(crate) async fn tunnel(
        self: &Arc<Self>,
        cookie: Cookie,
        mut send: SendStream,
        mut recv: RecvStream,
        flows: &ServerFlows,
    ) {
        let entered = self.enter(cookie);
        let (lease, guest) = match entered {
            Ok(entered) => entered,
            Err(why) => {
                self.log.line(format_args!("tunnel refused: {why}"));
                // A client that is gone needs no answer.
                let _ = send.write_all(&[why as u8]).await;
                return;
            }
        };
        let (datagrams, mut arriving) = mpsc::channel(WAITING);
        flows.set_tunnel(datagrams);
        let told: Vec<_> = guest.ips.iter().map(ToString::to_string).collect();
        self.log
            .line(format_args!("tunnel for {}", told.join(", ")));
        let answer = [&[0], &lease.encode()[..]].concat();
        let arriving = async {
            while let Some(datagram) = arriving.recv().await {
                guest.tunnel.arrived(datagram);
            }
        };
        if send.write_all(&answer).await.is_ok() {
            tokio::select! {
                // The client writes nothing more: its end is the tunnel's.
                _ = recv.received_reset() => {}
                _ = self.connection.closed() => {}
                () = arriving => {}
            }
        }
        self.own_tunnel().tunnel = None;
    }

    /// Addresses for this client, if it has no tunnel yet. A connection has those of one cookie: with others it could go through the addresses of all who are away.
    fn enter(self: &Arc<Self>, cookie: Cookie) -> Result<(Lease, Guest), Refusal> {
        let server = self.shared.tun.get().ok_or(Refusal::Denied)?;
        let mut own = self.own_tunnel();
        if own.tunnel.is_some() {
            return Err(Refusal::Busy);
        }
        if *own.cookie.get_or_insert(cookie) != cookie {
            return Err(Refusal::Denied);
        }
        let (lease, guest) = server.enter(cookie, self).ok_or(Refusal::Busy)?;
        own.tunnel = Some(Arc::clone(&guest.tunnel));
        Ok((lease, guest))
    }

    fn own_tunnel(&self) -> MutexGuard<'_, OwnTunnel> {
        self.tunnel.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Serves a lane of the client's tunnel.
    pub(crate) async fn lane(&self, number: u8, mut send: SendStream, recv: RecvStream) {
        let tunnel = self.own_tunnel().tunnel.clone();
        let status = Refusal::encode(tunnel.as_ref().map(|_| ()).ok_or(Refusal::Denied));
        let answered = send.write_all(&[status]).await;
        if let (Some(tunnel), Ok(())) = (tunnel, answered) {
            tokio::select! {
                () = tunnel.serve_lane(number.into(), send, recv) => {}
                _ = self.connection.closed() => {}
            }
        }
    }
}

/// What a connection has of the tunnels.
#[derive(Debug, Default)]
pub(crate) struct OwnTunnel {
    /// By which it asked for the first one.
    cookie: Option<Cookie>,
    tunnel: Option<Arc<Tunnel>>,
}

/// What a client may send: from its own addresses, to what the rules allow.
struct Gate<F> {
    own: Vec<IpAddr>,
    /// The rules as they are now.
    rules: F,
    known: Mutex<Known>,
}

struct Known {
    since: Instant,
    allow: AllowList,
    targets: HashMap<(IpAddr, Option<u16>), bool>,
}

impl<F: Fn() -> AllowList> Gate<F> {
    fn new(own: Vec<IpAddr>, rules: F) -> Self {
        let known = Known {
            since: Instant::now(),
            allow: rules(),
            targets: HashMap::new(),
        };
        Self {
            own,
            rules,
            known: Mutex::new(known),
        }
    }

    fn lets_pass(&self, packet: &[u8]) -> bool {
        let head = Head::of(packet);
        head.is_some_and(|head| self.own.contains(&head.from) && self.allows(&head))
    }

    fn allows(&self, head: &Head) -> bool {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.since.elapsed() > FRESH || known.targets.len() >= TARGETS {
            *known = Known {
                since: Instant::now(),
                allow: (self.rules)(),
                targets: HashMap::new(),
            };
        }
        let Known { allow, targets, .. } = &mut *known;
        let port = head.ports.map(|(_, port)| port);
        let decide = || match port {
            Some(port) => allow.allows(&Target::Address((head.to, port).into()), head.to),
            // A rule for a port is one about TCP and UDP.
            None => allow.allows_all_ports(head.to),
        };
        *targets.entry((head.to, port)).or_insert_with(decide)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(networks: &[&str]) -> Pool {
        Pool {
            device: "none".to_owned(),
            networks: networks.iter().map(|text| text.parse().unwrap()).collect(),
            mtu: 1400,
            dns: Vec::new(),
        }
    }

    #[test]
    fn the_server_is_first_and_clients_come_after_it() {
        let pool = pool(&["10.66.0.0/29", "fd66::/64"]);
        pool.check().unwrap();
        assert_eq!(
            pool.server(),
            [
                "10.66.0.1/29".parse().unwrap(),
                "fd66::1/64".parse().unwrap()
            ]
        );
        let lease = pool.lease(1).unwrap();
        assert_eq!(
            lease.addresses,
            [
                "10.66.0.2/29".parse().unwrap(),
                "fd66::2/64".parse().unwrap()
            ]
        );
        assert_eq!(pool.lease(6), None);
        let mut guests = Guests::default();
        let cookie = |number: u8| [number; 16];
        for number in 1..6 {
            assert_eq!(guests.number(cookie(number), &pool), Some(number.into()));
        }
        // The same again, and then the one that was away for longest.
        assert_eq!(guests.number(cookie(1), &pool), Some(1));
        assert_eq!(guests.number(cookie(9), &pool), Some(2));
    }

    #[test]
    fn a_pool_makes_sense() {
        for networks in [&["10.0.0.0/24", "10.1.0.0/24"][..], &["10.0.0.1/32"], &[]] {
            assert!(pool(networks).check().is_err(), "{networks:?}");
        }
        let small = Pool {
            mtu: 1279,
            ..pool(&["10.0.0.0/24"])
        };
        assert!(small.check().is_err());
    }

    #[test]
    fn a_gate_takes_what_is_from_its_client_to_what_is_allowed() {
        use crate::tun::packet::tests::{v4, v6};
        let rules = ["10.88.0.2:443", "10.9.0.0/16:*", "[fd66::9]:*", "*:*"];
        let rules = AllowList::new(rules.map(|rule| rule.parse().unwrap()).to_vec());
        let own: IpAddr = "fd66::2".parse().unwrap();
        let gate = Gate::new(vec![[10, 66, 0, 2].into(), own], || rules.clone());
        let ports = |port: u16| [&[0x9c, 0x40][..], &port.to_be_bytes(), &[0; 8]].concat();
        let me = [10, 66, 0, 2];
        let passes = |from, to, protocol, offset, port| {
            gate.lets_pass(&v4(from, to, protocol, offset, &ports(port)))
        };
        assert!(passes(me, [10, 88, 0, 2], 6, 0, 443));
        assert!(passes(me, [9, 9, 9, 9], 17, 0, 53));
        assert!(passes(me, [9, 9, 9, 9], 1, 0, 0));
        assert!(passes(me, [10, 9, 0, 1], 17, 7, 53));
        assert!(gate.lets_pass(&v6(2, 9, 17, &ports(1))));
        // Of others, of the server, of a neighbour; loops.
        for from in [
            [10, 66, 0, 1],
            [10, 66, 0, 3],
            [127, 0, 0, 1],
            [9, 9, 9, 9],
            [0; 4],
        ] {
            assert!(!passes(from, [10, 88, 0, 2], 6, 0, 443), "{from:?}");
        }
        assert!(!gate.lets_pass(&v6(3, 9, 17, &ports(1))));
        // Another port, no port, a fragment that has none.
        assert!(!passes(me, [10, 88, 0, 2], 6, 0, 80));
        assert!(!passes(me, [10, 88, 0, 2], 6, 0, 0));
        assert!(!passes(me, [10, 88, 0, 2], 1, 0, 443));
        assert!(!passes(me, [10, 88, 0, 2], 6, 1, 443));
        // This machine, neighbours, networks inside, groups, itself.
        for to in [
            [127, 0, 0, 1],
            [10, 66, 0, 1],
            [10, 66, 0, 3],
            me,
            [192, 168, 0, 1],
            [169, 254, 169, 254],
            [224, 0, 0, 1],
            [255; 4],
            [0; 4],
        ] {
            assert!(!passes(me, to, 17, 0, 53), "{to:?}");
            assert!(!passes(me, to, 1, 0, 0), "{to:?}");
        }
        for to in [1, 2, 3] {
            assert!(!gate.lets_pass(&v6(2, to, 17, &ports(53))));
        }
    }
}
