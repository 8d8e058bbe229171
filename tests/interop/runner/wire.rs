//! A relay that passes datagrams on with their ECN marks, drops what a case has it drop, and remembers what it saw.

use std::collections::HashMap;
use std::io::{self, IoSliceMut};
use std::net::{SocketAddr, SocketAddrV4};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use quinn_udp::{EcnCodepoint, RecvMeta, Transmit, UdpSocketState};
use tokio::io::Interest;
use tokio::sync::watch;

use crate::case::Case;
use crate::loopback;

/// The largest UDP payload.
const MAX_DATAGRAM: usize = 65_536;

/// What a packet with a long header is (RFC 9000 table 5).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Initial,
    ZeroRtt,
    Handshake,
    Retry,
}

/// A datagram that came by.
#[derive(Debug, Clone)]
pub(crate) struct Record {
    /// Whether it goes to the server.
    pub(crate) up: bool,
    /// Which of our addresses the client uses, and its own.
    pub(crate) route: (usize, SocketAddr),
    pub(crate) len: usize,
    pub(crate) marked: bool,
    pub(crate) dropped: bool,
    /// Whether the QUIC bit of its first packet is 0.
    pub(crate) cleared: bool,
    /// Versions and types of its packets with long headers.
    pub(crate) long: Vec<(u32, Kind)>,
    /// The start of the destination connection ID, if its first packet has a short header.
    pub(crate) short_dcid: Option<[u8; 4]>,
    /// How long its sender's connection ID is, if its first packet says so.
    pub(crate) scid_len: Option<usize>,
}

/// A UDP socket, with the marks of its datagrams.
struct Port {
    socket: tokio::net::UdpSocket,
    state: UdpSocketState,
}

impl Port {
    fn bind() -> Self {
        let socket = std::net::UdpSocket::bind((loopback(1), 0)).unwrap();
        let state = UdpSocketState::new((&socket).into()).unwrap();
        Self {
            socket: tokio::net::UdpSocket::from_std(socket).unwrap(),
            state,
        }
    }

    fn address(&self) -> SocketAddr {
        self.socket.local_addr().unwrap()
    }

    /// The datagrams that came together: the sender, their mark, their bytes.
    async fn recv(&self, buf: &mut [u8]) -> Vec<(SocketAddr, Option<EcnCodepoint>, Vec<u8>)> {
        loop {
            let mut meta = [RecvMeta::default()];
            let received = self
                .socket
                .async_io(Interest::READABLE, || {
                    let mut bufs = [IoSliceMut::new(buf)];
                    self.state.recv((&self.socket).into(), &mut bufs, &mut meta)
                })
                .await;
            // An error is that of an earlier datagram, whose receiver is gone.
            if received.is_ok() {
                let meta = meta[0];
                let datagrams = buf[..meta.len].chunks(meta.stride.max(1));
                return datagrams
                    .map(|datagram| (meta.addr, meta.ecn, datagram.to_vec()))
                    .collect();
            }
        }
    }

    async fn send(&self, to: SocketAddr, ecn: Option<EcnCodepoint>, datagram: &[u8]) {
        let transmit = Transmit {
            destination: to,
            ecn,
            contents: datagram,
            segment_size: None,
            src_ip: None,
        };
        let sent: io::Result<()> = self
            .socket
            .async_io(Interest::WRITABLE, || {
                self.state.try_send((&self.socket).into(), &transmit)
            })
            .await;
        sent.ok();
    }
}

#[derive(Default)]
struct Seen {
    records: Vec<Record>,
    /// Datagrams to the server, dropped ones included.
    up: usize,
    /// Whether a 0-RTT packet has come by.
    early: watch::Sender<bool>,
    /// What is on its way to an address that the client has left is lost.
    leaves: bool,
    /// The client's latest.
    latest: Option<(usize, SocketAddr)>,
}

/// Two addresses of one server, as clients see it.
pub(crate) struct Wire {
    fronts: [Arc<Port>; 2],
    seen: Arc<Mutex<Seen>>,
}

impl Wire {
    pub(crate) fn bind() -> Self {
        Self {
            fronts: [Port::bind(), Port::bind()].map(Arc::new),
            seen: Arc::default(),
        }
    }

    /// The address that clients begin with.
    pub(crate) fn address(&self) -> SocketAddr {
        self.fronts[0].address()
    }

    /// The address that the server may prefer.
    pub(crate) fn preferred(&self) -> SocketAddrV4 {
        match self.fronts[1].address() {
            SocketAddr::V4(address) => address,
            SocketAddr::V6(_) => unreachable!("bound to an IPv4 address"),
        }
    }

    /// A client that goes on from another address leaves the one that it had at once: nothing reaches it there any more.
    pub(crate) fn client_leaves(&self) {
        lock(&self.seen).leaves = true;
    }

    /// Passes on what comes from now on. Each client has a socket of its own towards the server.
    pub(crate) fn start(&self, case: Case, server: SocketAddr) {
        self.start_with(case, &[server]);
    }

    /// The same with several servers: the first for the first client, and so on; the last one for all others.
    pub(crate) fn start_with(&self, case: Case, servers: &[SocketAddr]) {
        for (number, front) in self.fronts.iter().enumerate() {
            let (front, seen) = (Arc::clone(front), Arc::clone(&self.seen));
            let servers = servers.to_vec();
            tokio::spawn(async move {
                let mut clients: HashMap<SocketAddr, (Arc<Port>, SocketAddr)> = HashMap::new();
                let mut buf = vec![0; MAX_DATAGRAM];
                loop {
                    for (client, ecn, datagram) in front.recv(&mut buf).await {
                        let server = servers[clients.len().min(servers.len() - 1)];
                        let (back, server) = clients.entry(client).or_insert_with(|| {
                            let back = Arc::new(Port::bind());
                            let (front, seen) = (Arc::clone(&front), Arc::clone(&seen));
                            let route = (number, client);
                            tokio::spawn(down(case, Arc::clone(&back), front, route, seen));
                            (back, server)
                        });
                        let pass = lock(&seen).add(case, true, (number, client), ecn, &datagram);
                        if pass {
                            back.send(*server, ecn, &datagram).await;
                        }
                    }
                }
            });
        }
    }

    /// What came by until now.
    pub(crate) fn records(&self) -> Vec<Record> {
        lock(&self.seen).records.clone()
    }
}

/// Passes on what the server sends to one client. Where early data is the matter, a client that comes back hears
/// nothing before it has sent some: no machine is so slow that the handshake overtakes its request.
async fn down(
    case: Case,
    back: Arc<Port>,
    front: Arc<Port>,
    route: (usize, SocketAddr),
    seen: Arc<Mutex<Seen>>,
) {
    let mut buf = vec![0; MAX_DATAGRAM];
    loop {
        for (_, ecn, datagram) in back.recv(&mut buf).await {
            let (pass, comes_back, mut early) = {
                let mut seen = lock(&seen);
                let pass = seen.add(case, false, route, ecn, &datagram);
                (pass, seen.records[0].route != route, seen.early.subscribe())
            };
            if case.asks_early() && comes_back {
                early.wait_for(|seen| *seen).await.ok();
            }
            if pass {
                front.send(route.1, ecn, &datagram).await;
            }
        }
    }
}

fn lock(seen: &Mutex<Seen>) -> MutexGuard<'_, Seen> {
    seen.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Seen {
    /// Whether the datagram is to be passed on.
    fn add(
        &mut self,
        case: Case,
        up: bool,
        route: (usize, SocketAddr),
        ecn: Option<EcnCodepoint>,
        datagram: &[u8],
    ) -> bool {
        self.up += usize::from(up);
        if up {
            self.latest = Some(route);
        }
        let dropped = up && case.drops().contains(&self.up)
            || datagram.len() > case.largest_datagram()
            || self.leaves && !up && self.latest != Some(route);
        let long = long_packets(datagram);
        if long.iter().any(|(_, kind)| *kind == Kind::ZeroRtt) {
            self.early.send_replace(true);
        }
        let short = datagram.first().is_some_and(|first| first & 0x80 == 0);
        self.records.push(Record {
            up,
            route,
            len: datagram.len(),
            marked: ecn == Some(EcnCodepoint::Ect0),
            dropped,
            cleared: datagram.first().is_some_and(|first| first & 0x40 == 0),
            long,
            short_dcid: datagram
                .get(1..5)
                .and_then(|id| id.try_into().ok())
                .filter(|_| short),
            scid_len: scid_len(datagram),
        });
        !dropped
    }
}

/// The length of the source connection ID of a packet with a long header.
fn scid_len(bytes: &[u8]) -> Option<usize> {
    let is_long = bytes.first()? & 0x80 != 0;
    let dcid_len = usize::from(*bytes.get(5)?);
    let len = usize::from(*bytes.get(6 + dcid_len)?);
    is_long.then_some(len)
}

/// The packets with long headers at the start of a datagram.
fn long_packets(mut datagram: &[u8]) -> Vec<(u32, Kind)> {
    let mut found = Vec::new();
    while let Some((version, kind, len)) = long_packet(datagram) {
        found.push((version, kind));
        datagram = datagram.get(len..).unwrap_or_default();
    }
    found
}

/// Version, type and length of the packet at the start; `None` for one with a short header, and for Version
/// Negotiation.
fn long_packet(bytes: &[u8]) -> Option<(u32, Kind, usize)> {
    let first = *bytes.first()?;
    let version = u32::from_be_bytes(bytes.get(1..5)?.try_into().ok()?);
    if first & 0x80 == 0 || version == 0 {
        return None;
    }
    // RFC 9369 section 3.2: the types of version 2 are numbered from 1.
    let shift = if version == 0x6b33_43cf { 3 } else { 0 };
    let kind = match ((first >> 4 & 3) + shift) % 4 {
        0 => Kind::Initial,
        1 => Kind::ZeroRtt,
        2 => Kind::Handshake,
        _ => return Some((version, Kind::Retry, bytes.len())),
    };
    let dcid = usize::from(*bytes.get(5)?);
    let scid = usize::from(*bytes.get(6 + dcid)?);
    let mut at = 7 + dcid + scid;
    if kind == Kind::Initial {
        let token = varint(bytes, &mut at)?;
        at = at.checked_add(token)?;
    }
    let len = varint(bytes, &mut at)?;
    Some((version, kind, at.checked_add(len)?))
}

/// RFC 9000 section 16.
fn varint(bytes: &[u8], at: &mut usize) -> Option<usize> {
    let first = *bytes.get(*at)?;
    let size = 1 << (first >> 6);
    let field = bytes.get(*at..*at + size)?;
    *at += size;
    let rest = field[1..].iter();
    let value = rest.fold(u64::from(first & 0x3f), |value, byte| {
        value << 8 | u64::from(*byte)
    });
    value.try_into().ok()
}
