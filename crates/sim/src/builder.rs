//! What a simulated network is made of: addresses, links, settings, applications; does not run it.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use mpquic_proto::{ClientConfig, Endpoint, EndpointConfig, ServerConfig, Side, TransportConfig};

use crate::app::{App, Idle};
use crate::fabric::{ClientAddress, Fabric, Path};
use crate::link::{Link, LinkConfig};
use crate::network::Network;
use crate::null_aead::{self, Integrity};
use crate::peer::Peer;
use crate::trace::Trace;
use crate::{SimError, content, identity};

/// Makes a [`Network`].
pub struct NetworkBuilder {
    seed: u64,
    paths: Vec<(usize, usize, LinkConfig, LinkConfig)>,
    client_transport: TransportConfig,
    server_transport: TransportConfig,
    client_tls: Option<Arc<rustls::ClientConfig>>,
    server_tls: Option<Arc<rustls::ServerConfig>>,
    null_aead: bool,
    client_app: Box<dyn App>,
    server_app: Box<dyn App>,
    open_all_paths: bool,
    max_datagrams: usize,
    interval: Duration,
    keep_trace: bool,
}

impl NetworkBuilder {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            seed,
            paths: Vec::new(),
            client_transport: TransportConfig::default(),
            server_transport: TransportConfig::default(),
            client_tls: None,
            server_tls: None,
            null_aead: false,
            client_app: Box::new(Idle),
            server_app: Box::new(Idle),
            open_all_paths: false,
            max_datagrams: 10,
            interval: Duration::from_millis(100),
            keep_trace: false,
        }
    }

    /// Adds a path from a new client address to the server's first address, with these links
    /// (client to server, server to client). The first path is that of the handshake.
    #[must_use]
    pub fn path(self, up: LinkConfig, down: LinkConfig) -> Self {
        let client = self.paths.iter().map(|path| path.0 + 1).max().unwrap_or(0);
        self.path_between(client, 0, up, down)
    }

    /// Adds a path with the same link in both directions: see [`path`](Self::path).
    #[must_use]
    pub fn symmetric_path(self, link: LinkConfig) -> Self {
        self.path(link.clone(), link)
    }

    /// Adds a path between the client's and the server's addresses with these numbers.
    #[must_use]
    pub fn path_between(
        mut self,
        client: usize,
        server: usize,
        up: LinkConfig,
        down: LinkConfig,
    ) -> Self {
        self.paths.push((client, server, up, down));
        self
    }

    /// The transport's settings of both sides.
    #[must_use]
    pub fn transport(mut self, config: TransportConfig) -> Self {
        self.client_transport = config.clone();
        self.server_transport = config;
        self
    }

    /// The transport's settings of the client.
    #[must_use]
    pub fn client_transport(mut self, config: TransportConfig) -> Self {
        self.client_transport = config;
        self
    }

    /// The transport's settings of the server.
    #[must_use]
    pub fn server_transport(mut self, config: TransportConfig) -> Self {
        self.server_transport = config;
        self
    }

    /// Another TLS configuration of the client than [`identity::client_tls`]. Sizes of handshake
    /// messages may differ from run to run with it, and so may the trace.
    #[must_use]
    pub fn client_tls(mut self, tls: Arc<rustls::ClientConfig>) -> Self {
        self.client_tls = Some(tls);
        self
    }

    /// Another TLS configuration of the server than [`identity::server_tls`]: see
    /// [`client_tls`](Self::client_tls).
    #[must_use]
    pub fn server_tls(mut self, tls: Arc<rustls::ServerConfig>) -> Self {
        self.server_tls = Some(tls);
        self
    }

    /// Handshake and 1-RTT packets are not encrypted: a run takes less time, and is otherwise the
    /// same. Packet sizes and AEAD limits are those of AES-128-GCM, so equal seeds have equal trace
    /// hashes with and without.
    ///
    /// A packet still opens only with the keys, path and packet number that it was sealed with, and
    /// unchanged if some link corrupts packets. TLS itself, Initial packets and Retry stay real. A
    /// side with a TLS configuration of its own keeps that; both must have one then.
    #[must_use]
    pub fn null_aead(mut self) -> Self {
        self.null_aead = true;
        self
    }

    /// The client's application. Default [`Idle`].
    #[must_use]
    pub fn client(mut self, app: impl App) -> Self {
        self.client_app = Box::new(app);
        self
    }

    /// The server's application. Default [`Idle`].
    #[must_use]
    pub fn server(mut self, app: impl App) -> Self {
        self.server_app = Box::new(app);
        self
    }

    /// The client opens all paths, in their order, as soon as the protocol lets it.
    #[must_use]
    pub fn open_all_paths(mut self) -> Self {
        self.open_all_paths = true;
        self
    }

    /// How many datagrams a connection may hand out at once. Default 10.
    #[must_use]
    pub fn max_datagrams(mut self, count: usize) -> Self {
        self.max_datagrams = count;
        self
    }

    /// The interval of [`Network::received`]. Default 100 ms.
    #[must_use]
    pub fn interval(mut self, interval: Duration) -> Self {
        self.interval = interval;
        self
    }

    /// Keeps the trace's records, to find where two runs part. Costs memory per datagram.
    #[must_use]
    pub fn keep_trace(mut self) -> Self {
        self.keep_trace = true;
        self
    }

    /// Makes the network; the client's first datagram leaves at time 0, when it runs.
    ///
    /// # Errors
    ///
    /// If a setting cannot be.
    pub fn build(self) -> Result<Network, SimError> {
        let Some(&(first_client, first_server, ..)) = self.paths.first() else {
            return Err(SimError::NoPath);
        };
        let clients = addresses(self.paths.iter().map(|path| path.0), "client address")?;
        let servers = addresses(self.paths.iter().map(|path| path.1), "server address")?;
        let clients: Vec<_> = (0..clients).map(client_address).collect();
        let servers: Vec<_> = (0..servers).map(server_address).collect();

        let corruption = |path: &(usize, usize, LinkConfig, LinkConfig)| {
            path.2.corruption > 0.0 || path.3.corruption > 0.0
        };
        let integrity = match self.paths.iter().any(corruption) {
            true => Integrity::Bits,
            false => Integrity::Keys,
        };
        let null_suite = self.null_aead.then(|| null_aead::suite(integrity));

        let mut pairs = BTreeSet::new();
        let mut paths = Vec::new();
        for (number, (client, server, up, down)) in self.paths.into_iter().enumerate() {
            if !pairs.insert((client, server)) {
                return Err(SimError::Address {
                    what: "path",
                    number,
                });
            }
            let link = |config, direction| {
                // Words 8 and up of the seed's stream; those below are the endpoints'.
                let seed = content::word(self.seed, 8 + 2 * number as u64 + direction);
                Link::new(config, seed).map_err(|source| SimError::Link {
                    path: number,
                    source,
                })
            };
            paths.push(Path::new(client, server, link(up, 0)?, link(down, 1)?));
        }

        let client_tls = match (self.client_tls, null_suite) {
            (Some(tls), _) => tls,
            (None, Some(suite)) => identity::client_tls_with(suite)?,
            (None, None) => identity::client_tls()?,
        };
        let server_tls = match (self.server_tls, null_suite) {
            (Some(tls), _) => tls,
            (None, Some(suite)) => identity::server_tls_with(suite)?,
            (None, None) => identity::server_tls()?,
        };
        let mut client_config = ClientConfig::new(client_tls)?;
        client_config.transport(Arc::new(self.client_transport));
        let mut server_config = ServerConfig::new(server_tls)?;
        server_config.transport(Arc::new(self.server_transport));

        let endpoint = |place, server| {
            let mut seed = [0; 32];
            content::fill(self.seed, place, &mut seed);
            Endpoint::new(Arc::new(EndpointConfig::new(seed)), server)
        };
        let client = endpoint(0, None);
        let server = endpoint(32, Some(Arc::new(server_config)));

        let mut client = Peer::new(Side::Client, client, self.client_app, self.max_datagrams);
        let server = Peer::new(Side::Server, server, self.server_app, self.max_datagrams);
        if self.open_all_paths {
            client.wanted_paths = paths
                .iter()
                .skip(1)
                .map(|path| four_tuple(clients[path.client].inside, servers[path.server]))
                .collect();
        }
        let handshake_path = four_tuple(clients[first_client].inside, servers[first_server]);
        let trace = Trace::new(self.keep_trace);
        let fabric = Fabric::new(clients, servers, paths, trace, self.interval);
        Network::start(client, server, fabric, client_config, handshake_path)
    }
}

pub(crate) const fn four_tuple(local: SocketAddr, remote: SocketAddr) -> mpquic_proto::FourTuple {
    mpquic_proto::FourTuple { local, remote }
}

/// How many addresses there are; every number up to the largest must be used.
fn addresses(numbers: impl Iterator<Item = usize>, what: &'static str) -> Result<usize, SimError> {
    let numbers: BTreeSet<_> = numbers.collect();
    match (0..numbers.len()).find(|number| !numbers.contains(number)) {
        Some(number) => Err(SimError::Address { what, number }),
        // One byte of the address tells them apart.
        None if numbers.len() > 250 => Err(SimError::Address { what, number: 250 }),
        None => Ok(numbers.len()),
    }
}

/// Each in a network of its own, as interfaces are.
fn client_address(number: usize) -> ClientAddress {
    let ip = Ipv4Addr::new(10, 0, number as u8, 2);
    let inside = SocketAddr::new(IpAddr::V4(ip), 50_000);
    ClientAddress {
        inside,
        outside: inside,
    }
}

fn server_address(number: usize) -> SocketAddr {
    let ip = Ipv4Addr::new(192, 0, 2, number as u8 + 1);
    SocketAddr::new(IpAddr::V4(ip), 4433)
}
