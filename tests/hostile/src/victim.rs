//! The code under test: an `mpquic_proto::Endpoint` with all its connections, in virtual time.

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use mpquic_proto::{
    ClientConfig, CollectionSize, Connection, ConnectionError, ConnectionHandle, DatagramEvent,
    EcnCodepoint, Endpoint, EndpointConfig, Event, FourTuple, Incoming, ServerConfig, Transmit,
    TransportConfig,
};

use crate::meter;
use crate::peer::{Peer, Space};
use crate::tls::Identity;

/// A datagram that the victim has sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sent {
    /// When.
    pub at: Instant,
    /// Its own and the destination's address.
    pub tuple: FourTuple,
    /// How it is marked.
    pub ecn: Option<EcnCodepoint>,
    /// The bytes.
    pub data: Vec<u8>,
}

/// What the application does with a client that comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admission {
    /// Accepts at once.
    Accept,
    /// Leaves it waiting.
    Keep,
    /// Refuses.
    Refuse,
    /// Ignores.
    Ignore,
    /// Sends a Retry, and accepts who has answered one.
    Retry,
}

/// Bytes and datagrams in one direction.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Datagrams.
    pub datagrams: u64,
    /// Their bytes.
    pub bytes: u64,
}

impl Traffic {
    fn add(&mut self, bytes: usize) {
        self.datagrams += 1;
        self.bytes += bytes as u64;
    }
}

/// A server or a client in memory.
pub struct Victim {
    /// The virtual time.
    pub now: Instant,
    /// The endpoint.
    pub endpoint: Endpoint,
    /// Its connections, in the order in which they began.
    pub connections: Vec<(ConnectionHandle, Box<Connection>)>,
    /// Clients that wait, with [`Admission::Keep`].
    pub incoming: Vec<Incoming>,
    /// What becomes of clients.
    pub admission: Admission,
    /// What it has sent, oldest first; taken out by the tests.
    pub sent: Vec<Sent>,
    /// What arrived from each address.
    pub received_from: BTreeMap<SocketAddr, Traffic>,
    /// What was sent to each address.
    pub sent_to: BTreeMap<SocketAddr, Traffic>,
    /// The events of all connections.
    pub events: Vec<Event>,
    /// Connections that are over.
    pub ended: usize,
    /// Of each client that came, whether a token has proven its address.
    pub proven: Vec<bool>,
    /// Why the last connections ended that were refused with their first datagram.
    pub accept_errors: Vec<ConnectionError>,
    /// Keeps events; off where they would be the only thing that grows.
    pub keep_events: bool,
    buf: Vec<u8>,
}

impl fmt::Debug for Victim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Victim")
            .field("connections", &self.connections.len())
            .field("ended", &self.ended)
            .finish_non_exhaustive()
    }
}

/// Where a server is.
pub fn server_address() -> SocketAddr {
    ([192, 0, 2, 1], 443).into()
}

/// Where a client's path is.
pub fn client_address(path: u32) -> SocketAddr {
    (
        [198, 51, 100, 1 + (path % 250) as u8],
        40_000 + (path / 250 % 20_000) as u16,
    )
        .into()
}

impl Victim {
    fn new(endpoint: Endpoint, now: Instant) -> Self {
        Self {
            now,
            endpoint,
            connections: Vec::new(),
            incoming: Vec::new(),
            admission: Admission::Accept,
            sent: Vec::new(),
            received_from: BTreeMap::new(),
            sent_to: BTreeMap::new(),
            events: Vec::new(),
            ended: 0,
            proven: Vec::new(),
            accept_errors: Vec::new(),
            keep_events: true,
            buf: meter::metered(|| Vec::with_capacity(1 << 16)),
        }
    }

    /// A server with this identity.
    ///
    /// # Panics
    ///
    /// If rustls refuses the identity.
    pub fn server(identity: &Identity, transport: TransportConfig) -> Self {
        Self::server_with(identity, transport, |_| {})
    }

    /// A server whose settings are changed by `configure`.
    ///
    /// # Panics
    ///
    /// If rustls refuses the identity.
    pub fn server_with(
        identity: &Identity,
        transport: TransportConfig,
        configure: impl FnOnce(&mut ServerConfig),
    ) -> Self {
        Self::server_in(EndpointConfig::new([2; 32]), identity, transport, configure)
    }

    /// The same on an endpoint of this configuration.
    ///
    /// # Panics
    ///
    /// If rustls refuses the identity.
    pub fn server_in(
        endpoint: EndpointConfig,
        identity: &Identity,
        transport: TransportConfig,
        configure: impl FnOnce(&mut ServerConfig),
    ) -> Self {
        let chain = vec![identity.certificate.clone()];
        let mut config =
            ServerConfig::with_single_cert(chain, identity.key()).expect("a valid identity");
        config.transport(Arc::new(transport));
        configure(&mut config);
        let endpoint = meter::metered(|| Endpoint::new(Arc::new(endpoint), Some(Arc::new(config))));
        Self::new(endpoint, Instant::now())
    }

    /// A client that connects to [`server_address`] and trusts this identity.
    ///
    /// # Panics
    ///
    /// If rustls refuses the identity.
    pub fn client(identity: &Identity, transport: TransportConfig) -> Self {
        Self::client_with(identity, transport, |_| {})
    }

    /// The same, with settings that are changed by `configure`.
    ///
    /// # Panics
    ///
    /// If rustls refuses the identity.
    pub fn client_with(
        identity: &Identity,
        transport: TransportConfig,
        configure: impl FnOnce(&mut ClientConfig),
    ) -> Self {
        let mut roots = rustls::RootCertStore::empty();
        roots
            .add(identity.certificate.clone())
            .expect("a valid certificate");
        let mut config = ClientConfig::with_root_certificates(roots).expect("ring has the suites");
        config.transport(Arc::new(transport));
        configure(&mut config);
        let endpoint =
            meter::metered(|| Endpoint::new(Arc::new(EndpointConfig::new([1; 32])), None));
        let mut this = Self::new(endpoint, Instant::now());
        let tuple = FourTuple {
            local: client_address(0),
            remote: server_address(),
        };
        let now = this.now;
        let connection = meter::metered(|| this.endpoint.connect(now, config, tuple, "localhost"));
        let (handle, connection) = connection.expect("a valid address");
        let connection = meter::metered(|| Box::new(connection));
        this.connections.push((handle, connection));
        this.flush();
        this
    }

    /// The first connection that is not over.
    ///
    /// # Panics
    ///
    /// If there is none.
    pub fn connection(&mut self) -> &mut Connection {
        let events = &self.events;
        match self.connections.first_mut() {
            Some((_, connection)) => connection,
            None => panic!("no connection any more: {:?}", events.last()),
        }
    }

    /// What an application does with the first connection, with what it allocates and frees counted.
    ///
    /// # Panics
    ///
    /// If there is no connection.
    pub fn run_app<T>(&mut self, f: impl FnOnce(&mut Connection) -> T) -> T {
        let connection = self.connection();
        meter::metered(|| f(connection))
    }

    /// Hands it a datagram that came to `tuple.local` from `tuple.remote`, and lets it answer.
    pub fn deliver(&mut self, tuple: FourTuple, ecn: Option<EcnCodepoint>, datagram: &[u8]) {
        self.deliver_from(tuple, ecn, datagram.len(), || BytesMut::from(datagram));
    }

    /// Hands it datagrams that came at once: it answers all of them together.
    pub fn deliver_together(&mut self, tuple: FourTuple, datagrams: &[Vec<u8>]) {
        for datagram in datagrams {
            let bytes = || BytesMut::from(&datagram[..]);
            self.take_in(tuple, None, datagram.len(), bytes);
        }
        self.flush();
    }

    /// [`deliver`](Self::deliver) with a buffer that `datagram` makes, which is counted as the victim's.
    pub fn deliver_from(
        &mut self,
        tuple: FourTuple,
        ecn: Option<EcnCodepoint>,
        size: usize,
        datagram: impl FnOnce() -> BytesMut,
    ) {
        self.take_in(tuple, ecn, size, datagram);
        self.flush();
    }

    fn take_in(
        &mut self,
        tuple: FourTuple,
        ecn: Option<EcnCodepoint>,
        size: usize,
        datagram: impl FnOnce() -> BytesMut,
    ) {
        self.received_from
            .entry(tuple.remote)
            .or_default()
            .add(size);
        let now = self.now;
        let (endpoint, buf) = (&mut self.endpoint, &mut self.buf);
        buf.clear();
        let event = meter::metered(|| endpoint.handle(now, tuple, ecn, datagram(), buf));
        match event {
            Some(DatagramEvent::NewConnection(incoming)) => self.admit(incoming),
            Some(DatagramEvent::ConnectionEvent(handle, event)) => {
                let found = self
                    .connections
                    .iter_mut()
                    .find(|(other, _)| *other == handle);
                if let Some((_, connection)) = found {
                    meter::metered(|| connection.handle_event(event));
                }
            }
            Some(DatagramEvent::Response(transmit)) => self.note(&transmit),
            Some(_) | None => {}
        }
    }

    fn admit(&mut self, incoming: Incoming) {
        let now = self.now;
        let (endpoint, buf) = (&mut self.endpoint, &mut self.buf);
        buf.clear();
        self.proven.push(incoming.remote_address_validated());
        match self.admission {
            Admission::Retry if incoming.may_retry() => {
                let written = meter::metered(|| endpoint.retry(incoming, now, buf).ok());
                if let Some(transmit) = written {
                    self.note(&transmit);
                }
            }
            Admission::Keep => meter::metered(|| self.incoming.push(incoming)),
            Admission::Ignore => meter::metered(|| endpoint.ignore(incoming)),
            Admission::Refuse => {
                let transmit = meter::metered(|| endpoint.refuse(incoming, buf));
                self.note(&transmit);
            }
            Admission::Accept | Admission::Retry => match meter::metered(|| {
                let accepted = endpoint.accept(incoming, now, buf, None);
                accepted.map_err(Box::new)
            }) {
                Ok((handle, connection)) => {
                    let connection = meter::metered(|| Box::new(connection));
                    self.connections.push((handle, connection));
                }
                Err(error) => {
                    // Allocated by the code under test, freed by it.
                    let error = meter::metered(|| *error);
                    if let Some(transmit) = error.response {
                        self.note(&transmit);
                    }
                    self.accept_errors.push(error.cause);
                }
            },
        }
    }

    /// What a driver does between two looks at its sockets, if clients wait in a line ([`Endpoint::queue_clients`]): writes
    /// at most so many Retry packets, and sees to one client.
    pub fn serve(&mut self, retries: usize) {
        let now = self.now;
        for _ in 0..retries {
            let (endpoint, buf) = (&mut self.endpoint, &mut self.buf);
            buf.clear();
            let Some(transmit) = meter::metered(|| endpoint.next_retry(now, buf)) else {
                break;
            };
            self.note(&transmit);
        }
        let endpoint = &mut self.endpoint;
        if let Some(incoming) = meter::metered(|| endpoint.next_incoming(now)) {
            self.admit(incoming);
        }
        self.flush();
    }

    /// Accepts the client that has waited longest.
    pub fn accept_oldest(&mut self) {
        let kept = std::mem::replace(&mut self.admission, Admission::Accept);
        if !self.incoming.is_empty() {
            let incoming = self.incoming.remove(0);
            self.admit(incoming);
            self.flush();
        }
        self.admission = kept;
    }

    /// Notes what is in the buffer as sent.
    fn note(&mut self, transmit: &Transmit) {
        if transmit.size == 0 {
            return;
        }
        let segment = transmit.segment_size.unwrap_or(transmit.size);
        for data in self.buf[..transmit.size].chunks(segment) {
            self.sent_to
                .entry(transmit.network_path.remote)
                .or_default()
                .add(data.len());
            self.sent.push(Sent {
                at: self.now,
                tuple: transmit.network_path,
                ecn: transmit.ecn,
                data: data.to_vec(),
            });
        }
    }

    /// Sends all that its connections want to send now, and lets the endpoint forget those that are over.
    pub fn flush(&mut self) {
        let now = self.now;
        let mut at = 0;
        while at < self.connections.len() {
            loop {
                let (handle, connection) = &mut self.connections[at];
                let endpoint = &mut self.endpoint;
                meter::metered(|| {
                    while let Some(event) = connection.poll_endpoint_events() {
                        endpoint.handle_event(*handle, event);
                    }
                });
                self.buf.clear();
                let buf = &mut self.buf;
                let Some(transmit) = meter::metered(|| connection.poll_transmit(now, 10, buf))
                else {
                    break;
                };
                self.note(&transmit);
            }
            let (handle, connection) = &mut self.connections[at];
            while let Some(event) = meter::metered(|| connection.poll()) {
                if self.keep_events {
                    self.events.push(event);
                }
            }
            let endpoint = &mut self.endpoint;
            meter::metered(|| {
                while let Some(event) = connection.poll_endpoint_events() {
                    endpoint.handle_event(*handle, event);
                }
            });
            if connection.is_drained() {
                self.ended += 1;
                let over = self.connections.remove(at);
                meter::metered(|| drop(over));
            } else {
                at += 1;
            }
        }
    }

    /// When the endpoint or a connection next has something to do.
    pub fn next_timeout(&mut self) -> Option<Instant> {
        let connections = self.connections.iter_mut();
        let connections = connections.filter_map(|(_, connection)| connection.poll_timeout());
        connections.chain(self.endpoint.poll_timeout()).min()
    }

    /// Lets time pass, timer by timer.
    ///
    /// # Panics
    ///
    /// If timers fire without end at one point in time.
    pub fn advance(&mut self, by: Duration) {
        let end = self.now + by;
        let mut at_once = 0;
        while let Some(at) = self.next_timeout().filter(|at| *at <= end) {
            at_once = if at > self.now { 0 } else { at_once + 1 };
            assert!(at_once < 1000, "timers fire without end");
            self.now = self.now.max(at);
            let now = self.now;
            let endpoint = &mut self.endpoint;
            meter::metered(|| endpoint.handle_timeout(now));
            for (_, connection) in &mut self.connections {
                if connection.poll_timeout().is_some_and(|at| at <= now) {
                    meter::metered(|| connection.handle_timeout(now));
                }
            }
            self.flush();
        }
        self.now = end;
        self.flush();
    }

    /// Lets a client from this address in, one of many. What is sent to others meanwhile is lost.
    ///
    /// # Panics
    ///
    /// If its handshake does not come to its end.
    pub fn let_in(&mut self, remote: SocketAddr, peer: &mut Peer) {
        let tuple = FourTuple {
            local: server_address(),
            remote,
        };
        for _ in 0..20 {
            for datagram in peer.flight() {
                self.deliver(tuple, None, &datagram);
            }
            let acks = peer.take_acks();
            if let Some(datagram) = peer
                .seal(Space::Data(0), &acks)
                .filter(|_| !acks.is_empty())
            {
                self.deliver(tuple, None, &datagram);
            }
            if peer.confirmed {
                return;
            }
            self.advance(Duration::from_millis(10));
            for sent in std::mem::take(&mut self.sent) {
                if sent.tuple.remote == remote {
                    peer.receive(&sent.data);
                }
            }
        }
        panic!("no handshake: {peer:?}, {self:?}");
    }

    /// All that was sent to anyone.
    pub fn sent_in_all(&self) -> Traffic {
        self.sent_to
            .values()
            .fold(Traffic::default(), |sum, traffic| Traffic {
                datagrams: sum.datagrams + traffic.datagrams,
                bytes: sum.bytes + traffic.bytes,
            })
    }

    /// Every collection of every connection that is above its cap. What went over it closes the connection, so closed
    /// ones do not count.
    pub fn over_caps(&self) -> Vec<String> {
        let mut over = Vec::new();
        for (_, connection) in &self.connections {
            if connection.is_closed() {
                continue;
            }
            CollectionSize::for_each(connection, |collection| {
                if collection.size > collection.cap {
                    over.push(format!("{collection:?}"));
                }
            });
        }
        over
    }
}
