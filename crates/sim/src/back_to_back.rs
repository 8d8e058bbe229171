//! Two connections joined in memory with a fixed delay and without a link model, for benchmarks and allocation tests.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use mpquic_proto::{
    ClientConfig, Connection, ConnectionHandle, DatagramEvent, Endpoint, EndpointConfig, FourTuple,
    PathId, ServerConfig, Side, Transmit, TransportConfig,
};

use crate::SimError;
use crate::identity;

/// The datagrams of one transmit, in flight.
struct Flying {
    at: Instant,
    tuple: FourTuple,
    ecn: Option<mpquic_proto::EcnCodepoint>,
    data: BytesMut,
    segment: usize,
}

struct Half {
    endpoint: Endpoint,
    connection: Option<(ConnectionHandle, Connection)>,
    inbound: VecDeque<Flying>,
}

/// Called with `Some` when code of one side starts to run, and with `None` when it stops. An
/// allocation counter can use it to count what that side does and to leave out this harness.
pub type Meter = fn(Option<Side>);

/// A client and a server whose datagrams go straight to each other. For networks, see
/// [`Network`](crate::Network).
pub struct BackToBack {
    now: Instant,
    delay: Duration,
    halves: [Half; 2],
    buf: Vec<u8>,
    meter: Meter,
}

impl BackToBack {
    /// Makes a pair with a confirmed handshake and `paths` validated paths.
    ///
    /// # Errors
    ///
    /// If a configuration is invalid or the handshake does not complete.
    pub fn connect(
        transport: TransportConfig,
        paths: u8,
        delay: Duration,
        meter: Meter,
    ) -> Result<Self, SimError> {
        let transport = Arc::new(transport);
        let mut server = ServerConfig::new(identity::server_tls()?)?;
        server.transport(transport.clone());
        let mut client = ClientConfig::new(identity::client_tls()?)?;
        client.transport(transport);
        // The origin of virtual time. All other times are derived from it.
        #[allow(
            clippy::disallowed_methods,
            reason = "an Instant cannot be made otherwise; only differences to it matter"
        )]
        let now = Instant::now();
        let half = |seed, server| Half {
            endpoint: Endpoint::new(Arc::new(EndpointConfig::new([seed; 32])), server),
            connection: None,
            inbound: VecDeque::new(),
        };
        let mut this = Self {
            now,
            delay,
            halves: [half(1, None), half(2, Some(Arc::new(server)))],
            buf: Vec::new(),
            meter,
        };
        let connection =
            this.halves[0]
                .endpoint
                .connect(now, client, Self::tuple(0), identity::SERVER_NAME)?;
        this.halves[0].connection = Some(connection);
        this.run_while(|pair| {
            !pair
                .side(Side::Client)
                .is_some_and(|c| c.is_handshake_confirmed())
        })?;
        for path in 1..paths {
            let now = this.now;
            let Some(client) = this.side(Side::Client) else {
                continue;
            };
            // The peer's connection IDs for the first path IDs are here: they come right after the
            // handshake.
            let id =
                client
                    .open_path(now, Self::tuple(path))
                    .map_err(|error| SimError::Invariant {
                        at: Duration::ZERO,
                        message: error.to_string(),
                    })?;
            this.run_while(|pair| !pair.is_validated(id))?;
        }
        Ok(this)
    }

    fn is_validated(&mut self, id: PathId) -> bool {
        [Side::Client, Side::Server].into_iter().all(|side| {
            self.side(side)
                .is_some_and(|connection| connection.path(id).is_ok_and(|path| path.is_validated()))
        })
    }

    /// The client's view of this network path.
    fn tuple(path: u8) -> FourTuple {
        FourTuple {
            local: SocketAddr::from(([10, 0, path, 1], 5000)),
            remote: SocketAddr::from(([10, 0, 0, 100], 4433)),
        }
    }

    /// The virtual time.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// The connection of a side. `None` on the server before the first datagram.
    pub fn side(&mut self, side: Side) -> Option<&mut Connection> {
        self.halves[side as usize]
            .connection
            .as_mut()
            .map(|(_, connection)| connection)
    }

    /// Runs as long as `more` returns true. `more` may use the connections.
    ///
    /// # Errors
    ///
    /// If no event is pending, or a connection is lost.
    pub fn run_while(&mut self, mut more: impl FnMut(&mut Self) -> bool) -> Result<(), SimError> {
        while more(self) {
            let Some(next) = self.step() else {
                return Err(SimError::Invariant {
                    at: Duration::ZERO,
                    message: "nothing left to happen".into(),
                });
            };
            self.now = self.now.max(next);
            for side in [Side::Client, Side::Server] {
                let reason = self.side(side).and_then(|c| c.lost_reason().cloned());
                if let Some(reason) = reason {
                    return Err(SimError::Invariant {
                        at: Duration::ZERO,
                        message: format!("{side:?}: {reason}"),
                    });
                }
            }
        }
        Ok(())
    }

    /// Handles everything that is due on both sides. Returns when the next event is due.
    fn step(&mut self) -> Option<Instant> {
        self.deliver(Side::Client);
        self.deliver(Side::Server);
        self.flush(Side::Client);
        self.flush(Side::Server);
        let mut next: Option<Instant> = None;
        for half in &mut self.halves {
            let arrival = half.inbound.front().map(|flying| flying.at);
            let timeout = half.connection.as_mut().and_then(|(_, c)| c.poll_timeout());
            for at in [arrival, timeout].into_iter().flatten() {
                next = Some(next.map_or(at, |next| next.min(at)));
            }
        }
        next
    }

    fn deliver(&mut self, side: Side) {
        let half = &mut self.halves[side as usize];
        while half
            .inbound
            .front()
            .is_some_and(|flying| flying.at <= self.now)
        {
            let Some(mut flying) = half.inbound.pop_front() else {
                return;
            };
            while !flying.data.is_empty() {
                let len = flying.segment.min(flying.data.len());
                let data = flying.data.split_to(len);
                (self.meter)(Some(side));
                let event =
                    half.endpoint
                        .handle(self.now, flying.tuple, flying.ecn, data, &mut self.buf);
                match event {
                    Some(DatagramEvent::ConnectionEvent(_, event)) => {
                        if let Some((_, connection)) = &mut half.connection {
                            connection.handle_event(event);
                        }
                    }
                    Some(DatagramEvent::NewConnection(incoming)) => {
                        half.connection = half
                            .endpoint
                            .accept(incoming, self.now, &mut self.buf, None)
                            .ok();
                    }
                    _ => {}
                }
                (self.meter)(None);
            }
        }
        if let Some((_, connection)) = &mut half.connection {
            (self.meter)(Some(side));
            if connection.poll_timeout().is_some_and(|at| at <= self.now) {
                connection.handle_timeout(self.now);
            }
            (self.meter)(None);
        }
    }

    fn flush(&mut self, side: Side) {
        loop {
            let half = &mut self.halves[side as usize];
            let Some((handle, connection)) = &mut half.connection else {
                return;
            };
            (self.meter)(Some(side));
            while let Some(event) = connection.poll_endpoint_events() {
                half.endpoint.handle_event(*handle, event);
            }
            self.buf.clear();
            let transmit = connection.poll_transmit(self.now, 10, &mut self.buf);
            if transmit.is_none() {
                while connection.poll().is_some() {}
            }
            (self.meter)(None);
            let Some(transmit) = transmit else {
                return;
            };
            self.send(side, &transmit);
        }
    }

    fn send(&mut self, from: Side, transmit: &Transmit) {
        let flying = Flying {
            at: self.now + self.delay,
            tuple: FourTuple {
                local: transmit.network_path.remote,
                remote: transmit.network_path.local,
            },
            ecn: transmit.ecn,
            data: BytesMut::from(&self.buf[..transmit.size]),
            segment: transmit.segment_size.unwrap_or(transmit.size),
        };
        self.halves[!from as usize].inbound.push_back(flying);
    }
}
