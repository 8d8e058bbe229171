//! A client and a server in memory with virtual time and a fixed delay; no losses but those a test
//! asks for.
#![allow(dead_code, reason = "each test binary uses a part of it")]
#![allow(
    clippy::disallowed_methods,
    reason = "tests take a point to start from off the clock"
)]

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use mpquic_proto::{
    ClientConfig, Connection, ConnectionHandle, DatagramEvent, Dir, Endpoint, EndpointConfig,
    Event, FourTuple, PathId, ServerConfig, StreamId, Transmit, TransportConfig, VarInt,
};
use mpquic_test_support::tls::Identity;

/// A datagram on its way.
#[derive(Debug, Clone)]
pub(crate) struct Flying {
    pub(crate) at: Instant,
    pub(crate) tuple: FourTuple,
    pub(crate) data: Vec<u8>,
}

pub(crate) struct Side {
    pub(crate) endpoint: Endpoint,
    pub(crate) connection: Option<(ConnectionHandle, Connection)>,
    pub(crate) inbound: VecDeque<Flying>,
    pub(crate) events: VecDeque<Event>,
}

/// Of a server that has this identity.
pub(crate) fn server_config(identity: &Identity) -> ServerConfig {
    let (chain, key) = (vec![identity.certificate.clone()], identity.key.clone_key());
    ServerConfig::with_single_cert(chain, key).unwrap()
}

/// What happens to a datagram: `None` drops it.
pub(crate) type Filter = Box<dyn FnMut(bool, &FourTuple, &[u8]) -> bool>;

/// What an application does when something has arrived, before anything is sent: is it the client's, and
/// what time is it.
pub(crate) type App = Box<dyn FnMut(bool, Instant, &mut Connection)>;

pub(crate) struct Pair {
    pub(crate) now: Instant,
    pub(crate) delay: Duration,
    pub(crate) client: Side,
    pub(crate) server: Side,
    /// Called with (from client, sender's tuple, datagram); false drops.
    pub(crate) filter: Filter,
    pub(crate) app: App,
    /// What a NAT makes of the client's addresses: inside and outside ones. What is sent to an outside
    /// address that it does not have any more gets lost.
    pub(crate) nat: Vec<(SocketAddr, SocketAddr)>,
    /// Whether the server has clients prove their address first.
    pub(crate) retry: bool,
    /// Whether the server may fail to accept a client, which is a fault of the test otherwise.
    pub(crate) may_refuse: bool,
    /// What both sides say of their links, if they are asked: IP packets of so many bytes.
    pub(crate) link_mtu: Option<u32>,
    pub(crate) client_config: ClientConfig,
    buf: Vec<u8>,
}

pub(crate) fn client_addr(path: u8) -> SocketAddr {
    SocketAddr::from(([10, 0, path, 1], 5000))
}

pub(crate) fn server_addr() -> SocketAddr {
    SocketAddr::from(([10, 0, 0, 100], 4433))
}

pub(crate) fn tuple(path: u8) -> FourTuple {
    FourTuple {
        local: client_addr(path),
        remote: server_addr(),
    }
}

/// What two connections in a row have in common: a client that remembers sessions, a server that
/// remembers them, too.
#[derive(Clone)]
pub(crate) struct Tls {
    pub(crate) client: rustls::ClientConfig,
    pub(crate) server: rustls::ServerConfig,
}

impl Tls {
    /// Early data is allowed on both sides.
    pub(crate) fn new() -> Self {
        let identity = Identity::new();
        let mut client = identity.client();
        client.enable_early_data = true;
        let mut server = identity.server();
        server.max_early_data_size = u32::MAX;
        Self { client, server }
    }

    /// A client and a server that begin a connection.
    pub(crate) fn pair(&self, client: TransportConfig, server: TransportConfig) -> Pair {
        let mut client_config = ClientConfig::new(Arc::new(self.client.clone())).unwrap();
        client_config.transport(Arc::new(client));
        let mut server_config = ServerConfig::new(Arc::new(self.server.clone())).unwrap();
        server_config.transport(Arc::new(server));
        // Networks of tests may lose more than the two have patience for.
        client_config.handshake_timeout(Duration::from_secs(60));
        server_config.handshake_timeout(Duration::from_secs(60));
        Pair::of(client_config, server_config, endpoint_configs())
    }

    /// The same after a connection whose tickets the client has got.
    pub(crate) fn resumed_pair(&self, client: TransportConfig, server: TransportConfig) -> Pair {
        self.get_tickets(&server);
        self.pair(client, server)
    }

    /// A connection to a server with these settings, long enough that its tickets reach the client.
    pub(crate) fn get_tickets(&self, server: &TransportConfig) {
        let mut first = self.pair(TransportConfig::default(), server.clone());
        first.connect();
        first.run_until(Duration::from_secs(1), |_| false);
        assert!(!first.c().session().is_resumed());
    }
}

/// Of the client and of the server.
fn endpoint_configs() -> [EndpointConfig; 2] {
    [1, 2].map(|seed| EndpointConfig::new([seed; 32]))
}

impl Pair {
    pub(crate) fn new(client: TransportConfig, server: TransportConfig) -> Self {
        Self::with_endpoints(client, server, endpoint_configs())
    }

    /// With these settings of the client's and the server's endpoint.
    pub(crate) fn with_endpoints(
        client: TransportConfig,
        server: TransportConfig,
        endpoints: [EndpointConfig; 2],
    ) -> Self {
        let (client_config, server_config) = Self::configs(client, server);
        Self::of(client_config, server_config, endpoints)
    }

    /// With other settings of the server.
    pub(crate) fn with_server(
        client: TransportConfig,
        server: TransportConfig,
        configure: impl FnOnce(&mut ServerConfig),
    ) -> Self {
        let (client, mut server) = Self::configs(client, server);
        configure(&mut server);
        Self::of(client, server, endpoint_configs())
    }

    /// With these settings.
    pub(crate) fn with_configs(client: ClientConfig, server: ServerConfig) -> Self {
        Self::of(client, server, endpoint_configs())
    }

    /// Of a client and a server that it trusts.
    pub(crate) fn configs(
        client: TransportConfig,
        server: TransportConfig,
    ) -> (ClientConfig, ServerConfig) {
        let identity = Identity::new();
        let mut server_config = server_config(&identity);
        server_config.transport(Arc::new(server));
        let mut client_config = ClientConfig::with_root_certificates(identity.roots()).unwrap();
        client_config.transport(Arc::new(client));
        (client_config, server_config)
    }

    /// The same with these configurations.
    pub(crate) fn of(
        client_config: ClientConfig,
        server_config: ServerConfig,
        [client_endpoint, server_endpoint]: [EndpointConfig; 2],
    ) -> Self {
        let now = Instant::now();
        let mut this = Self {
            now,
            delay: Duration::from_millis(10),
            client: Side::new(Endpoint::new(Arc::new(client_endpoint), None)),
            server: Side::new(Endpoint::new(
                Arc::new(server_endpoint),
                Some(Arc::new(server_config)),
            )),
            filter: Box::new(|_, _, _| true),
            app: Box::new(|_, _, _| ()),
            nat: Vec::new(),
            retry: false,
            may_refuse: false,
            link_mtu: None,
            client_config: client_config.clone(),
            buf: Vec::new(),
        };
        let connection = this
            .client
            .endpoint
            .connect(now, client_config, tuple(0), "localhost")
            .unwrap();
        this.client.connection = Some(connection);
        this
    }

    pub(crate) fn c(&mut self) -> &mut Connection {
        &mut self.client.connection.as_mut().unwrap().1
    }

    pub(crate) fn s(&mut self) -> &mut Connection {
        &mut self.server.connection.as_mut().unwrap().1
    }

    fn flush(&mut self, from_client: bool) {
        let (side, other) = if from_client {
            (&mut self.client, &mut self.server)
        } else {
            (&mut self.server, &mut self.client)
        };
        let Some((handle, connection)) = &mut side.connection else {
            return;
        };
        if self.link_mtu.is_some()
            && let Some((id, path)) = connection.paths().link_mtu_wanted(self.now)
        {
            connection
                .path_mut(id)
                .set_link_mtu(self.now, &path, self.link_mtu);
        }
        loop {
            while let Some(event) = connection.poll_endpoint_events() {
                side.endpoint.handle_event(*handle, event);
            }
            self.buf.clear();
            let Some(transmit) = connection.poll_transmit(self.now, 10, &mut self.buf) else {
                break;
            };
            assert_eq!(transmit.size, self.buf.len());
            let mut from = transmit.network_path.local;
            let mut to = transmit.network_path.remote;
            if from_client {
                let outside = self.nat.iter().find(|(inside, _)| *inside == from);
                from = outside.map_or(from, |(_, outside)| *outside);
            } else if let Some((inside, _)) = self.nat.iter().find(|(_, outside)| *outside == to) {
                to = *inside;
            } else if self.nat.iter().any(|(inside, _)| *inside == to) {
                continue;
            }
            let segment = transmit.segment_size.unwrap_or(transmit.size);
            for data in self.buf.chunks(segment) {
                if (self.filter)(from_client, &transmit.network_path, data) {
                    other.inbound.push_back(Flying {
                        at: self.now + self.delay,
                        tuple: FourTuple {
                            local: to,
                            remote: from,
                        },
                        data: data.to_vec(),
                    });
                }
            }
        }
        while let Some(event) = connection.poll() {
            side.events.push_back(event);
        }
    }

    /// Ends the connection, and begins another one from these addresses.
    pub(crate) fn reconnect(&mut self, tuple: FourTuple) {
        let now = self.now;
        self.c().close(now, VarInt::from_u32(0), Bytes::new());
        let over = self.run_until(Duration::from_secs(60), |pair| {
            pair.c().is_drained() && pair.s().is_drained()
        });
        assert!(over);
        self.server.connection = None;
        let config = self.client_config.clone();
        let connection = self
            .client
            .endpoint
            .connect(self.now, config, tuple, "localhost");
        self.client.connection = Some(connection.unwrap());
    }

    fn side(&mut self, client: bool) -> &mut Side {
        match client {
            true => &mut self.client,
            false => &mut self.server,
        }
    }

    /// Sends what the server's endpoint has written.
    fn answer(&mut self, transmit: &Transmit) {
        if (self.filter)(false, &transmit.network_path, &self.buf) {
            self.client.inbound.push_back(Flying {
                at: self.now + self.delay,
                tuple: FourTuple {
                    local: transmit.network_path.remote,
                    remote: transmit.network_path.local,
                },
                data: self.buf.clone(),
            });
        }
    }

    fn deliver(&mut self, to_client: bool) {
        loop {
            let side = match to_client {
                true => &mut self.client,
                false => &mut self.server,
            };
            if side.inbound.front().is_none_or(|next| next.at > self.now) {
                break;
            }
            let flying = side.inbound.pop_front().unwrap();
            self.buf.clear();
            let event = side.endpoint.handle(
                self.now,
                flying.tuple,
                None,
                BytesMut::from(&flying.data[..]),
                &mut self.buf,
            );
            match event {
                Some(DatagramEvent::ConnectionEvent(handle, event)) => {
                    let (own, connection) = side.connection.as_mut().unwrap();
                    assert_eq!(*own, handle);
                    connection.handle_event(event);
                }
                Some(DatagramEvent::NewConnection(incoming))
                    if self.retry && !incoming.remote_address_validated() =>
                {
                    let answer = side.endpoint.retry(incoming, self.now, &mut self.buf);
                    self.answer(&answer.unwrap());
                }
                Some(DatagramEvent::NewConnection(incoming)) => {
                    let accepted = side
                        .endpoint
                        .accept(incoming, self.now, &mut self.buf, None);
                    match accepted {
                        Ok(accepted) => side.connection = Some(accepted),
                        Err(error) if self.may_refuse => {
                            if let Some(answer) = error.response {
                                self.answer(&answer);
                            }
                        }
                        Err(error) => panic!("not accepted: {}", error.cause),
                    }
                }
                Some(DatagramEvent::Response(answer)) => self.answer(&answer),
                _ => {}
            }
        }
        let now = self.now;
        let side = self.side(to_client);
        if let Some((_, connection)) = &mut side.connection
            && connection.poll_timeout().is_some_and(|at| at <= now)
        {
            connection.handle_timeout(now);
        }
    }

    /// Handles everything due now, then moves to the next event; false if there is none.
    pub(crate) fn step(&mut self) -> bool {
        self.deliver(true);
        self.deliver(false);
        for (is_client, side) in [(true, &mut self.client), (false, &mut self.server)] {
            if let Some((_, connection)) = &mut side.connection {
                (self.app)(is_client, self.now, connection);
            }
        }
        self.flush(true);
        self.flush(false);
        let next = [&mut self.client, &mut self.server]
            .into_iter()
            .flat_map(|side| {
                let timeout = side.connection.as_mut().and_then(|(_, c)| c.poll_timeout());
                [side.inbound.front().map(|f| f.at), timeout]
            })
            .flatten()
            .min();
        match next {
            Some(next) => {
                self.now = self.now.max(next);
                true
            }
            None => false,
        }
    }

    /// Whether the path is open and validated on both sides.
    pub(crate) fn both_validated(&mut self, id: PathId) -> bool {
        let validated = |side: &Connection| side.path(id).is_ok_and(|path| path.is_validated());
        validated(self.c()) && validated(self.s())
    }

    /// Steps until `done` or `limit` of virtual time passed.
    pub(crate) fn run_until(
        &mut self,
        limit: Duration,
        mut done: impl FnMut(&mut Self) -> bool,
    ) -> bool {
        let end = self.now + limit;
        let mut steps = 0u64;
        while self.now < end {
            if done(self) {
                return true;
            }
            steps += 1;
            assert!(steps < 5_000_000, "spinning at {:?}", self.now);
            if !self.step() {
                return done(self);
            }
        }
        done(self)
    }

    pub(crate) fn connect(&mut self) {
        let ok = self.run_until(Duration::from_secs(10), |pair| {
            pair.c().is_handshake_confirmed() && pair.server.connection.is_some()
        });
        assert!(ok, "no handshake: {:?}", self.c().lost_reason());
    }
}

impl Side {
    fn new(endpoint: Endpoint) -> Self {
        Self {
            endpoint,
            connection: None,
            inbound: VecDeque::new(),
            events: VecDeque::new(),
        }
    }
}

/// Sends so much from the server to the client; whether all of it came within 20 seconds.
pub(crate) fn download(pair: &mut Pair, len: usize) -> bool {
    let id = pair.s().streams().open(Dir::Uni).unwrap();
    let data = vec![7; len];
    let (mut written, mut read) = (0, 0);
    pair.run_until(Duration::from_secs(20), |pair| {
        while written < len {
            match pair.s().send_stream(id).write(&data[written..]) {
                Ok(n) => written += n,
                Err(_) => break,
            }
            if written == len {
                pair.s().send_stream(id).finish().unwrap();
            }
        }
        pair.c().streams().accept(Dir::Uni);
        read_all(pair, id, &mut read) && read == len
    })
}

/// Has the client read what is there, and counts it; whether that was the end.
pub(crate) fn read_all(pair: &mut Pair, id: StreamId, read: &mut usize) -> bool {
    let mut buf = [0; 65536];
    loop {
        match pair.c().recv_stream(id).read(&mut buf) {
            Ok(Some(n)) => *read += n,
            Ok(None) => return true,
            // Nothing more for now, or not yet open.
            Err(_) => return false,
        }
    }
}
