//! UDP through the connection's datagrams: flows that live as long as the stream that asked for them.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use mpquic::{Connection, ConnectionError, RecvStream, SendStream};
use tokio::net::UdpSocket;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Duration, Instant};

use crate::caps::Sockets;
use crate::live::{Lane, Load};
use crate::server::Served;
use crate::wire::{Datagram, Refusal, TUNNEL, Target, flow};

/// Datagrams that wait for one flow. More are dropped, as any network would.
const WAITING: usize = 256;
/// Flows of one client at a time.
const FLOWS: usize = 256;
/// The largest UDP payload.
const LARGEST: usize = 65_535;
/// Targets of a flow that are remembered.
const TARGETS: usize = 64;
/// Names of a flow that are looked up at a time.
const LOOKUPS: usize = 8;
/// Datagrams that wait for one name.
const WAITING_FOR_NAME: usize = 8;
/// How long the address of a name is used. The answers of DNS servers are kept elsewhere, for as long as these say.
const FRESH: Duration = Duration::from_secs(30);
/// How long a target that is refused, or was not found, is not looked for again.
const REFUSED: Duration = Duration::from_secs(2);

/// The flows of one end of a connection: who gets which datagram.
#[derive(Debug, Default)]
pub(crate) struct Flows(
    Mutex<HashMap<u32, mpsc::Sender<Datagram>>>,
    /// Who takes the datagrams of the tunnel.
    Mutex<Option<mpsc::Sender<Bytes>>>,
);

impl Flows {
    fn lock(&self) -> MutexGuard<'_, HashMap<u32, mpsc::Sender<Datagram>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where the datagrams of a flow come out from now on, until it is [closed](Self::close); `None` if there are too many.
    pub(crate) fn open(&self, number: u32) -> Option<mpsc::Receiver<Datagram>> {
        let mut flows = self.lock();
        if flows.len() >= FLOWS {
            return None;
        }
        let (sender, receiver) = mpsc::channel(WAITING);
        flows.insert(number, sender);
        Some(receiver)
    }

    pub(crate) fn close(&self, number: u32) {
        self.lock().remove(&number);
    }

    /// The datagrams of the connection's tunnel come out there from now on.
    #[cfg(target_os = "linux")]
    pub(crate) fn set_tunnel(&self, tunnel: mpsc::Sender<Bytes>) {
        *self.1.lock().unwrap_or_else(PoisonError::into_inner) = Some(tunnel);
    }

    fn hand_to_tunnel(&self, bytes: Bytes) {
        let tunnel = self.1.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(tunnel) = &*tunnel {
            let _ = tunnel.try_send(bytes);
        }
    }

    /// Hands out what comes, until the connection ends. What belongs to no flow, or comes faster than it is taken, is dropped.
    pub(crate) async fn dispatch(&self, connection: &Connection, lane: &Lane) -> ConnectionError {
        let mut incoming = lane.incoming();
        loop {
            let bytes = match incoming.next(connection).await {
                Ok(bytes) => bytes,
                Err(error) => return error,
            };
            if bytes.starts_with(&TUNNEL) {
                self.hand_to_tunnel(bytes);
                continue;
            }
            let Ok(datagram) = Datagram::decode(bytes) else {
                continue;
            };
            if let Some(flow) = self.lock().get(&datagram.flow) {
                let _ = flow.try_send(datagram);
            }
        }
    }
}

/// The flows of a client, at the server.
#[derive(Debug)]
pub(crate) struct ServerFlows {
    client: Arc<Served>,
    flows: Flows,
    /// Where a datagram is received, of whichever flow.
    buffer: Mutex<Vec<u8>>,
}

impl ServerFlows {
    pub(crate) fn new(client: Arc<Served>) -> Self {
        Self {
            client,
            flows: Flows::default(),
            buffer: Mutex::default(),
        }
    }

    #[cfg(target_os = "linux")]
    pub(crate) fn set_tunnel(&self, tunnel: mpsc::Sender<Bytes>) {
        self.flows.set_tunnel(tunnel);
    }

    pub(crate) async fn dispatch(&self) -> ConnectionError {
        let Served {
            connection, lane, ..
        } = &*self.client;
        self.flows.dispatch(connection, lane).await
    }

    /// Serves a flow until its stream ends.
    pub(crate) async fn serve(&self, mut send: SendStream, mut recv: RecvStream) {
        let number = flow(send.id());
        // The first socket is the flow's from the start, so that it is refused here, and not silent later.
        let opened = self.client.share.take(1).and_then(|held| {
            let outgoing = self.flows.open(number)?;
            Some((outgoing, held))
        });
        let opened = opened.ok_or(Refusal::Busy);
        let status = Refusal::encode(opened.as_ref().map(|_| ()).map_err(|refusal| *refusal));
        let answered = send.write_all(&[status]).await;
        match opened {
            Ok((outgoing, held)) => {
                if answered.is_ok() {
                    tokio::select! {
                        // The client writes nothing more: its end, whatever it looks like, is the flow's.
                        _ = recv.received_reset() => {}
                        () = self.pass(number, outgoing, held) => {}
                    }
                }
                self.flows.close(number);
            }
            Err(why) => self.client.log.line(format_args!("UDP refused: {why}")),
        }
    }

    /// Sends what comes for a flow, and sends back what answers. The first socket is `_held` already.
    async fn pass(&self, number: u32, mut outgoing: mpsc::Receiver<Datagram>, _held: Sockets) {
        let mut sockets = FlowSockets::default();
        let mut targets = Targets::default();
        let mut lookups = JoinSet::new();
        let mut load = Load::default();
        loop {
            tokio::select! {
                datagram = outgoing.recv() => {
                    let Some(Datagram { target, payload, .. }) = datagram else { return };
                    // Names that are slow hold up no targets that are not.
                    let busy = lookups.len() >= LOOKUPS && !self.client.is_at_hand(&target);
                    let known = targets.entry(&target, busy);
                    match known {
                        Some(Known::At(address)) => {
                            let address = *address;
                            self.send(&mut sockets, address, &payload);
                        }
                        Some(Known::Waits(waiting)) if waiting.len() < WAITING_FOR_NAME => {
                            waiting.push(payload);
                            if waiting.len() == 1 {
                                let client = Arc::clone(&self.client);
                                lookups.spawn(async move {
                                    let found = client.resolve(&target).await;
                                    (target, found)
                                });
                            }
                        }
                        // What is not allowed, or more than waits for a name, is lost, as datagrams are.
                        _ => {}
                    }
                }
                Some(Ok((target, found))) = lookups.join_next(), if !lookups.is_empty() => {
                    match &found {
                        Ok(_) => self.client.log.line(format_args!("UDP to {target}")),
                        Err(why) => self.client.log.line(format_args!("UDP to {target} refused: {why}")),
                    }
                    let address = found.ok().and_then(|found| reachable(&found));
                    for payload in targets.settle(target, address) {
                        if let Some(address) = address {
                            self.send(&mut sockets, address, &payload);
                        }
                    }
                }
                () = readable(sockets.v4.as_ref()) => self.receive(number, sockets.v4.as_ref(), &mut load),
                () = readable(sockets.v6.as_ref()) => self.receive(number, sockets.v6.as_ref(), &mut load),
            }
        }
    }

    /// A datagram that cannot be sent now is lost, as they are.
    fn send(&self, sockets: &mut FlowSockets, to: SocketAddr, payload: &[u8]) {
        if let Some(user) = &self.client.user
            && !user.from().takes(payload.len())
        {
            return;
        }
        if let Some(socket) = sockets.of_family(to, &self.client) {
            // Not by tokio, which has not heard yet that a new socket can be written to.
            let _ = socket2::SockRef::from(socket).send_to(payload, &to.into());
        }
    }

    /// Sends back what a socket has.
    fn receive(&self, number: u32, socket: Option<&UdpSocket>, load: &mut Load) {
        let Some(socket) = socket else { return };
        let mut buffer = self.buffer.lock().unwrap_or_else(PoisonError::into_inner);
        buffer.resize(LARGEST, 0);
        // An error is that of a datagram that was sent before: nobody listens there, say.
        if let Ok((len, from)) = socket.try_recv_from(&mut buffer) {
            if let Some(user) = &self.client.user
                && !user.to().takes(len)
            {
                return;
            }
            let datagram = Datagram {
                flow: number,
                target: Target::Address(from),
                payload: Bytes::copy_from_slice(&buffer[..len]),
            };
            let Served {
                connection, lane, ..
            } = &*self.client;
            lane.send(connection, load, &datagram);
        }
    }
}

/// The sockets of a flow, one per family, bound when there is something to send.
#[derive(Debug, Default)]
struct FlowSockets {
    v4: Option<UdpSocket>,
    v6: Option<UdpSocket>,
    /// What the flow holds of its client's share for the second one.
    second: Option<Sockets>,
}

impl FlowSockets {
    /// `None` if the family is not there, or its socket too much.
    fn of_family(&mut self, to: SocketAddr, client: &Served) -> Option<&UdpSocket> {
        let (this, other) = match to {
            SocketAddr::V4(_) => (&mut self.v4, &self.v6),
            SocketAddr::V6(_) => (&mut self.v6, &self.v4),
        };
        if this.is_none() {
            if other.is_some() && self.second.is_none() {
                self.second = Some(client.share.take(1)?);
            }
            let bound = std::net::UdpSocket::bind(any_of(to.ip())).ok()?;
            bound.set_nonblocking(true).ok()?;
            *this = UdpSocket::from_std(bound).ok();
        }
        this.as_ref()
    }
}

/// Waits for a datagram; for ever, without a socket.
async fn readable(socket: Option<&UdpSocket>) {
    match socket {
        // What is wrong with it is seen when it is read.
        Some(socket) => drop(socket.readable().await),
        None => std::future::pending().await,
    }
}

/// Any local address of the family of `ip`.
const fn any_of(ip: IpAddr) -> SocketAddr {
    match ip {
        IpAddr::V4(_) => SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0),
        IpAddr::V6(_) => SocketAddr::new(IpAddr::V6(Ipv6Addr::UNSPECIFIED), 0),
    }
}

/// The first address to which the system knows a way, IPv6 before IPv4. Datagrams do not race: nobody knows which of them has arrived.
fn reachable(found: &[SocketAddr]) -> Option<SocketAddr> {
    let has_route = |address: &&SocketAddr| {
        let socket = std::net::UdpSocket::bind(any_of(address.ip()));
        socket.and_then(|socket| socket.connect(address)).is_ok()
    };
    found.iter().find(has_route).copied()
}

/// Where the datagrams of a flow go.
#[derive(Debug, Default)]
struct Targets(HashMap<Target, (Instant, Known)>);

#[derive(Debug)]
enum Known {
    At(SocketAddr),
    /// These wait for its address. None do before it is looked for.
    Waits(Vec<Bytes>),
    Refused,
}

impl Targets {
    /// What is known of a target; a new one waits. `None` if it would have to be looked up while that is `busy`, or too many are
    /// remembered and none can be forgotten.
    fn entry(&mut self, target: &Target, busy: bool) -> Option<&mut Known> {
        let now = Instant::now();
        let is_old = |(since, known): &(Instant, Known)| {
            let fresh = match known {
                Known::At(_) => FRESH,
                Known::Refused => REFUSED,
                Known::Waits(_) => return false,
            };
            now.duration_since(*since) > fresh
        };
        if self.0.get(target).is_none_or(is_old) {
            if busy {
                return None;
            }
            if self.0.len() >= TARGETS {
                self.0.retain(|_, entry| !is_old(entry));
            }
            if self.0.len() >= TARGETS {
                let settled = self
                    .0
                    .iter()
                    .filter(|(_, (_, known))| !matches!(known, Known::Waits(_)));
                let oldest = settled
                    .min_by_key(|(_, (since, _))| *since)
                    .map(|(target, _)| target.clone());
                self.0.remove(&oldest?);
            }
            self.0
                .insert(target.clone(), (now, Known::Waits(Vec::new())));
        }
        self.0.get_mut(target).map(|(_, known)| known)
    }

    /// Remembers what was found, and returns what waited for it.
    fn settle(&mut self, target: Target, address: Option<SocketAddr>) -> Vec<Bytes> {
        let known = address.map_or(Known::Refused, Known::At);
        match self.0.insert(target, (Instant::now(), known)) {
            Some((_, Known::Waits(waiting))) => waiting,
            _ => Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(number: usize) -> Target {
        Target::Name(format!("{number}.example"), 1)
    }

    #[test]
    fn what_a_flow_remembers_has_an_end() {
        let mut targets = Targets::default();
        let address = "192.0.2.1:1".parse().unwrap();
        for number in 0..TARGETS {
            let Some(Known::Waits(waiting)) = targets.entry(&name(number), false) else {
                panic!("{number}");
            };
            waiting.push(Bytes::from_static(b"first"));
        }
        // All of them wait: none is forgotten.
        assert!(targets.entry(&name(TARGETS), false).is_none());
        assert_eq!(targets.settle(name(3), Some(address)), ["first"]);
        assert!(matches!(targets.entry(&name(3), false), Some(Known::At(_))));
        assert!(matches!(
            targets.entry(&name(TARGETS), false),
            Some(Known::Waits(_))
        ));
        assert_eq!(targets.0.len(), TARGETS);
        assert!(!targets.0.contains_key(&name(3)));
        assert!(targets.settle(name(4), None).len() == 1);
        assert!(matches!(
            targets.entry(&name(4), false),
            Some(Known::Refused)
        ));
        assert!(targets.entry(&name(99), true).is_none());
    }
}
