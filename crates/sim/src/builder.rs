//! `NetworkBuilder`: the addresses, links, settings and applications of a simulated network.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use mpquic_proto::congestion::SlowStart;
use mpquic_proto::{
    ClientConfig, Endpoint, EndpointConfig, Observer, RaceConfig, ServerConfig, Side, TokenStore,
    TransportConfig,
};

use crate::app::{App, Idle};
use crate::bound::FluidPath;
use crate::chain::{Hop, SharedLink};
use crate::cross::{CrossTraffic, Sink, Source};
use crate::fabric::{ClientAddress, Crossing, Fabric, Line, Path};
use crate::link::{Link, LinkConfig};
use crate::measure::{LostTimeMeter, Recorder};
use crate::network::{self, Flow, Meters, Network};
use crate::null_aead::{self, Integrity};
use crate::peer::Peer;
use crate::seeds::{self, MAX_HOPS};
use crate::trace::Trace;
use crate::{SimError, identity};

/// The most addresses per side: one byte distinguishes them.
const MAX_ADDRESSES: usize = 250;
/// The most flows of cross traffic: two bytes of their addresses distinguish them.
const MAX_CROSS: usize = 1 << 16;

/// The key of servers whose clients keep tokens.
const TOKEN_KEY: [u8; 32] = [0x5c; 32];

/// A path as the caller configured it.
struct Plan {
    client: usize,
    server: usize,
    /// Indexed by the sending side.
    chains: [Vec<Hop>; 2],
}

/// Configures and builds a [`Network`].
pub struct NetworkBuilder {
    seed: u64,
    paths: Vec<Plan>,
    shared: Vec<LinkConfig>,
    cross: Vec<CrossTraffic>,
    cross_start: SlowStart,
    client_transport: TransportConfig,
    server_transport: TransportConfig,
    client_tls: Option<Arc<rustls::ClientConfig>>,
    server_tls: Option<Arc<rustls::ServerConfig>>,
    configure_client: Box<dyn Fn(&mut ClientConfig)>,
    configure_server: Box<dyn Fn(&mut ServerConfig)>,
    null_aead: bool,
    client_app: Box<dyn App>,
    server_app: Box<dyn App>,
    open_all_paths: bool,
    max_datagrams: usize,
    interval: Duration,
    keep_trace: bool,
    measure: bool,
    timeline: Option<Duration>,
    handshake_path: usize,
    race: Option<RaceConfig>,
    tokens: Option<Arc<dyn TokenStore>>,
    lost_time: Option<LostTimeMeter>,
    observer: Option<Arc<MakeObserver>>,
    stop: Option<Arc<AtomicBool>>,
}

/// Makes the observer of a connection, given its side and the start of virtual time.
type MakeObserver = dyn Fn(Side, Instant) -> Option<Box<dyn Observer>> + Send + Sync;

impl NetworkBuilder {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            seed,
            paths: Vec::new(),
            shared: Vec::new(),
            cross: Vec::new(),
            cross_start: SlowStart::Rapid,
            client_transport: TransportConfig::default(),
            server_transport: TransportConfig::default(),
            client_tls: None,
            server_tls: None,
            configure_client: Box::new(|_| ()),
            configure_server: Box::new(|_| ()),
            null_aead: false,
            client_app: Box::new(Idle),
            server_app: Box::new(Idle),
            open_all_paths: false,
            max_datagrams: 10,
            interval: Duration::from_millis(100),
            keep_trace: false,
            measure: false,
            timeline: None,
            handshake_path: 0,
            race: None,
            tokens: None,
            lost_time: None,
            observer: None,
            stop: None,
        }
    }

    /// Attaches an observer to each connection under test for which this returns one; it is given the connection's side and
    /// the start of virtual time. Cross traffic is not observed.
    pub fn observer(
        mut self,
        make: impl Fn(Side, Instant) -> Option<Box<dyn Observer>> + Send + Sync + 'static,
    ) -> Self {
        self.observer = Some(Arc::new(make));
        self
    }

    /// Ends the run with [`SimError::Stopped`] at its next event once `stop` is set, which another thread may do.
    #[must_use]
    pub fn stop_when(mut self, stop: Arc<AtomicBool>) -> Self {
        self.stop = Some(stop);
        self
    }

    /// Adds a path from a new client address to the server's first address. The links are those
    /// from client to server and from server to client. The first path carries the handshake,
    /// unless [`handshake_path`](Self::handshake_path) names another one.
    #[must_use]
    pub fn path(self, up: LinkConfig, down: LinkConfig) -> Self {
        self.path_through([up], [down])
    }

    /// Adds a path with the same link in both directions: see [`path`](Self::path).
    #[must_use]
    pub fn symmetric_path(self, link: LinkConfig) -> Self {
        self.path(link.clone(), link)
    }

    /// Adds a path between the client address and the server address with these numbers.
    #[must_use]
    pub fn path_between(
        self,
        client: usize,
        server: usize,
        up: LinkConfig,
        down: LinkConfig,
    ) -> Self {
        self.path_between_through(client, server, [up], [down])
    }

    /// Creates a link that several paths can use: see [`path_through`](Self::path_through).
    ///
    /// ```
    /// use std::time::Duration;
    /// use mpquic_sim::{Hop, LinkConfig, Network};
    ///
    /// let ms = Duration::from_millis;
    /// let mut builder = Network::builder(1);
    /// let bottleneck = builder.shared_link(LinkConfig::new(10_000_000, ms(5)));
    /// for access in [ms(5), ms(20)] {
    ///     let access = LinkConfig::new(100_000_000, access);
    ///     let down = [bottleneck.into(), Hop::Own(access.clone())];
    ///     builder = builder.path_through([access], down);
    /// }
    /// assert!(builder.build().is_ok());
    /// ```
    pub fn shared_link(&mut self, config: LinkConfig) -> SharedLink {
        self.shared.push(config);
        SharedLink(self.shared.len() - 1)
    }

    /// Adds a path from a new client address to the server's first address that crosses several
    /// links. The first chain carries what the client sends, the second what the server sends, each
    /// in the given order. The delays of a chain add up, and its slowest link limits the rate.
    #[must_use]
    pub fn path_through(
        self,
        up: impl IntoIterator<Item = impl Into<Hop>>,
        down: impl IntoIterator<Item = impl Into<Hop>>,
    ) -> Self {
        let client = self.paths.iter().map(|path| path.client + 1).max();
        self.path_between_through(client.unwrap_or(0), 0, up, down)
    }

    /// Adds a path over chains of links between the client address and the server address with
    /// these numbers: see [`path_through`](Self::path_through).
    #[must_use]
    pub fn path_between_through(
        mut self,
        client: usize,
        server: usize,
        up: impl IntoIterator<Item = impl Into<Hop>>,
        down: impl IntoIterator<Item = impl Into<Hop>>,
    ) -> Self {
        self.paths.push(Plan {
            client,
            server,
            chains: [
                up.into_iter().map(Into::into).collect(),
                down.into_iter().map(Into::into).collect(),
            ],
        });
        self
    }

    /// Adds a flow of cross traffic.
    #[must_use]
    pub fn cross_traffic(mut self, traffic: CrossTraffic) -> Self {
        self.cross.push(traffic);
        self
    }

    /// Sets the first slow start of cross traffic, but for flows with [`CongestionControl::Auto`](mpquic_proto::CongestionControl),
    /// which start as the connection under test does. Default [`SlowStart::Rapid`]: what others do does not change with what this
    /// library starts with.
    #[must_use]
    pub const fn cross_slow_start(mut self, algorithm: SlowStart) -> Self {
        self.cross_start = algorithm;
        self
    }

    /// Sets the transport configuration of both sides.
    #[must_use]
    pub fn transport(mut self, config: TransportConfig) -> Self {
        self.client_transport = config.clone();
        self.server_transport = config;
        self
    }

    /// Sets the transport configuration of the client.
    #[must_use]
    pub fn client_transport(mut self, config: TransportConfig) -> Self {
        self.client_transport = config;
        self
    }

    /// Sets the transport configuration of the server.
    #[must_use]
    pub fn server_transport(mut self, config: TransportConfig) -> Self {
        self.server_transport = config;
        self
    }

    /// Replaces the client's TLS configuration, [`identity::client_tls`]. With another one, the
    /// sizes of handshake messages may differ from run to run, and so may the trace.
    #[must_use]
    pub fn client_tls(mut self, tls: Arc<rustls::ClientConfig>) -> Self {
        self.client_tls = Some(tls);
        self
    }

    /// Replaces the server's TLS configuration, [`identity::server_tls`]: see
    /// [`client_tls`](Self::client_tls).
    #[must_use]
    pub fn server_tls(mut self, tls: Arc<rustls::ServerConfig>) -> Self {
        self.server_tls = Some(tls);
        self
    }

    /// Changes settings of the client beside TLS and the transport, such as
    /// [`ClientConfig::handshake_timeout`]. Clients of cross traffic get them too.
    #[must_use]
    pub fn configure_client(mut self, configure: impl Fn(&mut ClientConfig) + 'static) -> Self {
        self.configure_client = Box::new(configure);
        self
    }

    /// Changes settings of the server beside TLS and the transport, such as
    /// [`ServerConfig::retry_above`]. Servers of cross traffic get them too.
    #[must_use]
    pub fn configure_server(mut self, configure: impl Fn(&mut ServerConfig) + 'static) -> Self {
        self.configure_server = Box::new(configure);
        self
    }

    /// Leaves Handshake and 1-RTT packets unencrypted. The run takes less time and is otherwise the
    /// same: packet sizes and AEAD limits are those of AES-128-GCM, so the trace hash of a seed is
    /// the same with and without encryption.
    ///
    /// A packet still opens only with the keys, path and packet number that it was sealed with. If
    /// a link corrupts packets, the packet must also be unchanged. TLS itself, Initial packets and
    /// Retry packets are real. A side with its own TLS configuration keeps it; the other side must
    /// then have its own, too.
    #[must_use]
    pub fn null_aead(mut self) -> Self {
        self.null_aead = true;
        self
    }

    /// Sets the client's application. Default: [`Idle`].
    #[must_use]
    pub fn client(mut self, app: impl App) -> Self {
        self.client_app = Box::new(app);
        self
    }

    /// Sets the server's application. Default: [`Idle`].
    #[must_use]
    pub fn server(mut self, app: impl App) -> Self {
        self.server_app = Box::new(app);
        self
    }

    /// Sets the client's application, of a type chosen at run time. Default: [`Idle`].
    #[must_use]
    pub fn client_boxed(mut self, app: Box<dyn App>) -> Self {
        self.client_app = app;
        self
    }

    /// Sets the server's application, of a type chosen at run time. Default: [`Idle`].
    #[must_use]
    pub fn server_boxed(mut self, app: Box<dyn App>) -> Self {
        self.server_app = app;
        self
    }

    /// Sets the number of the path that carries the handshake. Default: 0, the first one.
    #[must_use]
    pub fn handshake_path(mut self, number: usize) -> Self {
        self.handshake_path = number;
        self
    }

    /// The client begins on all paths at once, the handshake's path first: see [`RaceConfig`].
    #[must_use]
    pub const fn race(mut self, race: RaceConfig) -> Self {
        self.race = Some(race);
        self
    }

    /// The client under test takes its address validation token from this store, and keeps there what it is given. The
    /// servers of all networks with such a store accept each other's tokens.
    #[must_use]
    pub fn token_store(mut self, store: Arc<dyn TokenStore>) -> Self {
        self.tokens = Some(store);
        self
    }

    /// The client opens all paths in order, as soon as the protocol allows it.
    #[must_use]
    pub fn open_all_paths(mut self) -> Self {
        self.open_all_paths = true;
        self
    }

    /// Sets how many datagrams a connection may produce per transmit. Default: 10.
    #[must_use]
    pub fn max_datagrams(mut self, count: usize) -> Self {
        self.max_datagrams = count;
        self
    }

    /// Sets the interval of [`Network::received`]. Default: 100 ms.
    #[must_use]
    pub fn interval(mut self, interval: Duration) -> Self {
        self.interval = interval;
        self
    }

    /// Keeps the records of the trace, to find where two runs begin to differ. This costs memory
    /// per datagram.
    #[must_use]
    pub fn keep_trace(mut self) -> Self {
        self.keep_trace = true;
        self
    }

    /// Samples the out-of-order queues of both sides: see
    /// [`SideMeasurements::out_of_order`](crate::SideMeasurements::out_of_order). The rest of
    /// [`Network::measurements`] is always available. This does not change the run.
    #[must_use]
    pub fn measure(mut self) -> Self {
        self.measure = true;
        self
    }

    /// Records the state of the paths over time, at most once per interval: see
    /// [`Network::timeline`]. This does not change the run.
    #[must_use]
    pub fn timeline(mut self, interval: Duration) -> Self {
        self.timeline = Some(interval);
        self
    }

    /// Records where the time of a download of this size goes: see
    /// [`Network::lost_time`](crate::Network::lost_time). The paths are those of its fluid bound, in
    /// the network's order. This does not change the run.
    #[must_use]
    pub fn lost_time(mut self, paths: &[FluidPath], bytes: u64) -> Self {
        self.lost_time = Some(LostTimeMeter::new(paths, bytes));
        self
    }

    /// Builds the network. When it runs, the client's first datagram leaves at time 0.
    ///
    /// # Errors
    ///
    /// If a setting is invalid.
    pub fn build(self) -> Result<Network, SimError> {
        if self.paths.is_empty() {
            return Err(SimError::NoPath);
        }
        let number = self.handshake_path;
        if number >= self.paths.len() {
            return Err(SimError::Missing {
                what: "path",
                number,
            });
        }
        let clients = self.paths.iter().map(|path| path.client);
        let clients = addresses(clients, "client address", "client addresses")?;
        let servers = self.paths.iter().map(|path| path.server);
        let servers = addresses(servers, "server address", "server addresses")?;
        if self.cross.len() > MAX_CROSS {
            return Err(SimError::TooMany {
                what: "flows of cross traffic",
                count: self.cross.len(),
                most: MAX_CROSS,
            });
        }
        let clients: Vec<_> = (0..clients).map(client_address).collect();
        let servers: Vec<_> = (0..servers).map(server_address).collect();
        let (paths, lines) = lay(self.seed, self.shared, self.paths)?;
        let corrupts = |line: &Line| line.link.config().corruption > 0.0;
        let integrity = match lines.iter().any(corrupts) {
            true => Integrity::Bits,
            false => Integrity::Keys,
        };
        let null_suite = self.null_aead.then(|| null_aead::suite(integrity));

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
        let (seed, max_datagrams) = (self.seed, self.max_datagrams);
        let origin = network::origin();
        // Both ends of a flow, and the configuration with which the flow's client connects.
        let flow = |flow, apps: [Box<dyn App>; 2], transports: [TransportConfig; 2]| {
            let [client_transport, server_transport] = transports.map(Arc::new);
            let mut client = ClientConfig::new(client_tls.clone())?;
            client.transport(client_transport).race(self.race);
            (self.configure_client)(&mut client);
            let mut server = ServerConfig::new(server_tls.clone())?;
            server.transport(server_transport);
            (self.configure_server)(&mut server);
            let tokens = self.tokens.as_ref().filter(|_| flow == 0);
            if let Some(store) = tokens {
                client.token_store(Arc::clone(store));
            }
            let endpoint = |side, server| {
                let mut config = EndpointConfig::new(seeds::endpoint(seed, flow, side));
                if tokens.is_some() {
                    config.token_key(TOKEN_KEY);
                }
                if let Some(make) = self.observer.clone().filter(|_| flow == 0) {
                    config.observer(move |side| make(side, origin));
                }
                Endpoint::new(Arc::new(config), server)
            };
            let [client_app, server_app] = apps;
            let peer = |side, endpoint, app| Peer::new(flow, side, endpoint, app, max_datagrams);
            let peers = [
                peer(Side::Client, endpoint(Side::Client, None), client_app),
                peer(
                    Side::Server,
                    endpoint(Side::Server, Some(Arc::new(server))),
                    server_app,
                ),
            ];
            Ok::<_, SimError>((peers, client))
        };

        let under_test = [self.client_transport, self.server_transport];
        let apps = [self.client_app, self.server_app];
        let (mut peers, client_config) = flow(0, apps, under_test.clone())?;
        // The handshake's path first.
        let mut order: Vec<usize> = (0..paths.len()).filter(|other| *other != number).collect();
        order.insert(0, number);
        let order = order.into_iter().map(|number| &paths[number]);
        let order: Vec<_> = order
            .map(|path| four_tuple(clients[path.client].inside, servers[path.server]))
            .collect();
        if self.open_all_paths {
            peers[0].paths_expected = paths.len();
            // With a race, nobody knows yet which one the handshake is on.
            let known = usize::from(self.race.is_none());
            peers[0].wanted_paths = order[known..].to_vec();
        }
        let begin_on = match self.race {
            Some(_) => order,
            None => order.into_iter().take(1).collect(),
        };
        if self.measure {
            for peer in &mut peers {
                peer.meter = Some(Box::default());
            }
        }
        let mut flows = vec![Flow::under_test(peers)];
        let (mut crossings, mut times) = (Vec::new(), Vec::new());
        for (number, traffic) in self.cross.into_iter().enumerate() {
            traffic.validate(number, paths.len())?;
            let (source, sink) = (Box::new(Source::default()), Box::new(Sink));
            let apps: [Box<dyn App>; 2] = match traffic.from {
                Side::Client => [source, sink],
                Side::Server => [sink, source],
            };
            let transports = under_test
                .each_ref()
                .map(|config| traffic.transport(config, self.cross_start));
            let (peers, config) = flow(number + 1, apps, transports)?;
            let crossing = crossing(number, traffic.path);
            let addresses = four_tuple(crossing.client, crossing.server);
            flows.push(Flow::cross(peers, traffic, config, addresses));
            crossings.push(crossing);
            times.push((traffic.begins(seeds::phase(seed, number)), traffic.stop));
        }

        let recorder = self
            .timeline
            .map(|interval| Box::new(Recorder::new(interval, paths.len())));
        let trace = Trace::new(self.keep_trace);
        let mut fabric = Fabric::new(clients, servers, paths, lines, trace, self.interval);
        fabric.crossings = crossings;
        Network::start(
            origin,
            flows,
            fabric,
            client_config,
            &begin_on,
            times,
            Meters {
                recorder,
                lost_time: self.lost_time.map(Box::new),
                stop: self.stop,
            },
        )
    }
}

/// Creates the links: the shared ones first, by number, then those of each path.
fn lay(
    seed: u64,
    shared: Vec<LinkConfig>,
    plans: Vec<Plan>,
) -> Result<(Vec<Path>, Vec<Line>), SimError> {
    let mut lines = Vec::new();
    for (number, config) in shared.into_iter().enumerate() {
        let link = Link::new(config, seeds::shared_link(seed, number)).map_err(|source| {
            SimError::SharedLink {
                link: number,
                source,
            }
        })?;
        lines.push(Line::new(link, true));
    }
    let shared = lines.len();
    let mut paths: Vec<Path> = Vec::new();
    for (path, plan) in plans.into_iter().enumerate() {
        let same = |other: &Path| (other.client, other.server) == (plan.client, plan.server);
        if let Some(first) = paths.iter().position(same) {
            return Err(SimError::PathTwice {
                path,
                first,
                client: plan.client,
                server: plan.server,
            });
        }
        let mut chains = [Vec::new(), Vec::new()];
        for (direction, hops) in plan.chains.into_iter().enumerate() {
            if !(1..=MAX_HOPS).contains(&hops.len()) {
                return Err(SimError::Chain {
                    path,
                    from: [Side::Client, Side::Server][direction],
                    hops: hops.len(),
                    most: MAX_HOPS,
                });
            }
            for (hop, planned) in hops.into_iter().enumerate() {
                let number = match planned {
                    Hop::Shared(SharedLink(number)) if number < shared => number,
                    Hop::Shared(SharedLink(number)) => {
                        return Err(SimError::Missing {
                            what: "shared link",
                            number,
                        });
                    }
                    Hop::Own(config) => {
                        let link = Link::new(config, seeds::link(seed, path, direction, hop))
                            .map_err(|source| SimError::Link { path, source })?;
                        lines.push(Line::new(link, false));
                        lines.len() - 1
                    }
                };
                chains[direction].push(number);
            }
        }
        paths.push(Path {
            client: plan.client,
            server: plan.server,
            chains,
        });
    }
    Ok((paths, lines))
}

pub(crate) const fn four_tuple(local: SocketAddr, remote: SocketAddr) -> mpquic_proto::FourTuple {
    mpquic_proto::FourTuple { local, remote }
}

/// Counts the addresses. Every number up to the largest must be used.
fn addresses(
    numbers: impl Iterator<Item = usize>,
    what: &'static str,
    several: &'static str,
) -> Result<usize, SimError> {
    let numbers: BTreeSet<_> = numbers.collect();
    match (0..numbers.len()).find(|number| !numbers.contains(number)) {
        Some(number) => Err(SimError::Missing { what, number }),
        None if numbers.len() > MAX_ADDRESSES => Err(SimError::TooMany {
            what: several,
            count: numbers.len(),
            most: MAX_ADDRESSES,
        }),
        None => Ok(numbers.len()),
    }
}

/// Each address is in its own network, as the addresses of different interfaces are.
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

/// The addresses of a flow of cross traffic. No other flow has them.
fn crossing(number: usize, path: usize) -> Crossing {
    let [.., high, low] = (number as u32).to_be_bytes();
    let address = |network, port| SocketAddr::from(([10, network, high, low], port));
    Crossing {
        path,
        client: address(254, 50_000),
        server: address(255, 4433),
    }
}
