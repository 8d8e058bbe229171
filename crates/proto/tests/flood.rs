//! A flood of first Initial packets from addresses of others, in virtual time: what it costs the server, and what an
//! honest client notices.
#![allow(
    clippy::disallowed_methods,
    reason = "tests take a point to start from off the clock"
)]

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::pair::Pair;
use bytes::BytesMut;
use mpquic_proto::{
    ClientConfig, Connection, ConnectionHandle, DatagramEvent, Endpoint, EndpointConfig, FourTuple,
    ServerConfig, Transmit, TransportConfig,
};

const ONE_WAY: Duration = Duration::from_millis(10);
const TICK: Duration = Duration::from_millis(1);

/// A datagram for the server: when, from where.
type Up = (Instant, SocketAddr, Vec<u8>);

fn server_address() -> SocketAddr {
    SocketAddr::from(([10, 0, 0, 100], 4433))
}

struct Server {
    endpoint: Endpoint,
    /// By handle.
    connections: BTreeMap<usize, Connection>,
    /// ClientHellos that TLS has answered.
    accepted: usize,
    most_half_open: usize,
    /// To whom, and what.
    out: Vec<(SocketAddr, Vec<u8>)>,
}

impl Server {
    fn new(config: ServerConfig) -> Self {
        let endpoint = Endpoint::new(
            Arc::new(EndpointConfig::new([2; 32])),
            Some(Arc::new(config)),
        );
        Self {
            endpoint,
            connections: BTreeMap::new(),
            accepted: 0,
            most_half_open: 0,
            out: Vec::new(),
        }
    }

    fn send(&mut self, transmit: &Transmit, data: &[u8]) {
        let segment = transmit.segment_size.unwrap_or(transmit.size);
        for datagram in data.chunks(segment) {
            let to = transmit.network_path.remote;
            self.out.push((to, datagram.to_vec()));
        }
    }

    fn receive(&mut self, now: Instant, from: SocketAddr, datagram: &[u8]) {
        let mut buf = Vec::new();
        let path = FourTuple {
            local: server_address(),
            remote: from,
        };
        let event = self
            .endpoint
            .handle(now, path, None, BytesMut::from(datagram), &mut buf);
        match event {
            Some(DatagramEvent::ConnectionEvent(handle, event)) => {
                if let Some(connection) = self.connections.get_mut(&handle.0) {
                    connection.handle_event(event);
                    self.drive(now, handle);
                }
            }
            Some(DatagramEvent::NewConnection(incoming)) => {
                let accepted = self.endpoint.accept(incoming, now, &mut buf, None);
                let (handle, connection) = accepted.map_err(|error| error.cause).unwrap();
                self.accepted += 1;
                self.connections.insert(handle.0, connection);
                self.drive(now, handle);
            }
            Some(DatagramEvent::Response(transmit)) => self.send(&transmit, &buf),
            _ => {}
        }
        let half_open = self.endpoint.half_open().connections;
        self.most_half_open = self.most_half_open.max(half_open);
    }

    fn drive(&mut self, now: Instant, handle: ConnectionHandle) {
        let Some(mut connection) = self.connections.remove(&handle.0) else {
            return;
        };
        if connection.poll_timeout().is_some_and(|at| at <= now) {
            connection.handle_timeout(now);
        }
        let mut buf = Vec::new();
        while let Some(transmit) = connection.poll_transmit(now, 10, &mut buf) {
            self.send(&transmit, &buf);
            buf.clear();
        }
        while connection.poll().is_some() {}
        while let Some(event) = connection.poll_endpoint_events() {
            self.endpoint.handle_event(handle, event);
        }
        if !connection.is_drained() {
            self.connections.insert(handle.0, connection);
        }
    }

    fn on_timers(&mut self, now: Instant) {
        self.endpoint.handle_timeout(now);
        let mut due = Vec::new();
        for (handle, connection) in &mut self.connections {
            if connection.poll_timeout().is_some_and(|at| at <= now) {
                due.push(ConnectionHandle(*handle));
            }
        }
        for handle in due {
            self.drive(now, handle);
        }
    }
}

/// An honest client with one connection.
struct Client {
    address: SocketAddr,
    began: Instant,
    endpoint: Endpoint,
    handle: ConnectionHandle,
    connection: Connection,
}

impl Client {
    fn new(now: Instant, number: u16, config: &ClientConfig) -> Self {
        let seed = [number.to_be_bytes(); 16].concat().try_into().unwrap();
        let mut endpoint = Endpoint::new(Arc::new(EndpointConfig::new(seed)), None);
        let address = SocketAddr::from(([10, 9, 0, 1], 1000 + number));
        let path = FourTuple {
            local: address,
            remote: server_address(),
        };
        let begun = endpoint.connect(now, config.clone(), path, "localhost");
        let (handle, connection) = begun.unwrap();
        Self {
            address,
            began: now,
            endpoint,
            handle,
            connection,
        }
    }

    fn send(&mut self, now: Instant, up: &mut VecDeque<Up>) {
        if self.connection.poll_timeout().is_some_and(|at| at <= now) {
            self.connection.handle_timeout(now);
        }
        let mut buf = Vec::new();
        while let Some(transmit) = self.connection.poll_transmit(now, 1, &mut buf) {
            assert_eq!(transmit.size, buf.len());
            up.push_back((now + ONE_WAY, self.address, std::mem::take(&mut buf)));
        }
        while let Some(event) = self.connection.poll_endpoint_events() {
            self.endpoint.handle_event(self.handle, event);
        }
    }

    fn receive(&mut self, now: Instant, datagram: &[u8]) {
        let path = FourTuple {
            local: self.address,
            remote: server_address(),
        };
        let data = BytesMut::from(datagram);
        let event = self.endpoint.handle(now, path, None, data, &mut Vec::new());
        if let Some(DatagramEvent::ConnectionEvent(_, event)) = event {
            self.connection.handle_event(event);
        }
    }
}

/// What became of it.
struct Outcome {
    accepted: usize,
    most_half_open: usize,
    slowest_handshake: Duration,
    left: usize,
}

/// For 14 seconds, 100 first packets a second from addresses of others, which is 1 Mbit/s. Every second, an honest client
/// connects.
fn flood(configure: impl FnOnce(&mut ServerConfig)) -> Outcome {
    let transport = TransportConfig::default;
    let (client_config, mut server_config) = Pair::configs(transport(), transport());
    configure(&mut server_config);
    let mut server = Server::new(server_config);
    let attack = Duration::from_secs(14);
    let start = Instant::now();
    // The attacker knows how to begin, and never hears an answer.
    let mut attacker = Endpoint::new(Arc::new(EndpointConfig::new([66; 32])), None);
    let mut up: VecDeque<Up> = VecDeque::new();
    let mut down: VecDeque<(Instant, SocketAddr, Vec<u8>)> = VecDeque::new();
    let mut clients: Vec<Client> = Vec::new();
    let mut slowest = Duration::ZERO;
    let (mut now, mut spoofed) = (start, 0_u32);
    while now < start + attack + Duration::from_secs(12) {
        let passed = now - start;
        if passed < attack && passed.as_millis().is_multiple_of(10) {
            let from = SocketAddr::from(([192, 0, 2, spoofed as u8], (spoofed >> 8) as u16 + 1));
            spoofed += 1;
            let path = FourTuple {
                local: from,
                remote: server_address(),
            };
            let begun = attacker.connect(now, client_config.clone(), path, "localhost");
            let (handle, mut connection) = begun.unwrap();
            let mut datagram = Vec::new();
            assert!(connection.poll_transmit(now, 1, &mut datagram).is_some());
            attacker.handle_event(handle, mpquic_proto::EndpointEvent::Drained);
            up.push_back((now + ONE_WAY, from, datagram));
        }
        if passed < attack && passed.as_millis() % 1000 == 5 {
            clients.push(Client::new(now, clients.len() as u16, &client_config));
        }
        for client in &mut clients {
            client.send(now, &mut up);
        }
        while up.front().is_some_and(|(at, ..)| *at <= now) {
            let (_, from, datagram) = up.pop_front().unwrap();
            server.receive(now, from, &datagram);
        }
        server.on_timers(now);
        let sent = server.out.drain(..);
        down.extend(sent.map(|(to, datagram)| (now + ONE_WAY, to, datagram)));
        while down.front().is_some_and(|(at, ..)| *at <= now) {
            let (_, to, datagram) = down.pop_front().unwrap();
            if let Some(client) = clients.iter_mut().find(|client| client.address == to) {
                let before = client.connection.is_handshake_confirmed();
                client.receive(now, &datagram);
                if !before && client.connection.is_handshake_confirmed() {
                    slowest = slowest.max(now - client.began);
                }
            }
        }
        now += TICK;
    }
    assert_eq!(spoofed, 1400);
    for client in &clients {
        assert!(client.connection.is_handshake_confirmed());
    }
    Outcome {
        accepted: server.accepted - clients.len(),
        most_half_open: server.most_half_open,
        slowest_handshake: slowest,
        left: server.endpoint.half_open().connections,
    }
}

#[test]
fn spoofed_initials_fill_no_more_than_the_threshold() {
    let outcome = flood(|config| {
        config.retry_above(32);
    });
    // The first 32, and as many again once those have expired.
    assert!(outcome.accepted <= 2 * 32, "{}", outcome.accepted);
    assert!(outcome.most_half_open <= 33, "{}", outcome.most_half_open);
    // One round trip for the Retry, two for the handshake and its confirmation.
    let slowest = outcome.slowest_handshake;
    assert!(slowest <= Duration::from_millis(85), "{slowest:?}");
    assert_eq!(outcome.left, 0);
}

/// The same without the defence, so that the test above can fail.
#[test]
fn without_retry_every_spoofed_initial_costs() {
    let outcome = flood(|config| {
        config.retry_above(usize::MAX);
    });
    assert_eq!(outcome.accepted, 1400);
    assert!(outcome.most_half_open >= 900, "{}", outcome.most_half_open);
    assert_eq!(outcome.left, 0);
}
