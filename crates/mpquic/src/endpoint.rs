//! The endpoint handle; the work is done in the tasks of its shards.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::SystemTime;

use bytes::Bytes;
use proto::{
    ClientConfig, ConnectionCount, EndpointConfig, FourTuple, HalfOpen, MemoryUse, PathStatus,
    ServerConfig, VarInt,
};
use tokio::runtime::Handle;
use tokio::time::Instant;
use tracing::Instrument;

use crate::async_socket::AsyncUdpSocket;
use crate::binder::{Binder, MissingAddr};
use crate::builder::EndpointBuilder;
use crate::connection::Connecting;
use crate::endpoint_driver::EndpointDriver;
use crate::endpoint_state::EndpointShared;
use crate::error::ConnectError;
use crate::incoming::Incoming;
use crate::path_manager::PathManager;
use crate::shards::{ShardStats, Shards};
use crate::socket::{LocalAddr, Socket, SocketSet};
use crate::socket_health::SocketEvents;

/// One or several UDP sockets, and all the connections that run over them: of a client, of a
/// server, or of both.
///
/// May be cloned to get another handle. When the last one is dropped, open connections
/// continue; no new ones are accepted.
///
/// ```
/// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/doc/pair.rs"));
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let (client_config, server_config) = configs()?;
/// use mpquic::Endpoint;
///
/// let server = Endpoint::server(server_config, &["127.0.0.1:0".parse()?])?;
/// let address = server.local_addr()?; // with the port that the system chose
/// tokio::spawn(async move {
///     while let Some(incoming) = server.accept().await {
///         let connection = incoming.await.expect("a handshake");
///         connection.closed().await;
///     }
/// });
///
/// // One socket per interface; here there is but one. A connection opens a path from each.
/// let client = Endpoint::client(&["127.0.0.1:0".parse()?, "127.0.0.1:0".parse()?])?;
/// client.set_default_client_config(client_config);
/// let connection = client.connect(address, "localhost")?.await?;
/// connection.close(0_u32.into(), b"done");
/// client.wait_idle().await; // until the server has heard of it
/// # Ok(()) }
/// ```
pub struct Endpoint {
    /// At least one.
    shards: Arc<[Arc<EndpointShared>]>,
    common: Arc<Shards>,
    binder: Arc<Binder>,
    missing: Arc<[MissingAddr]>,
    /// Whether it counts among the handles that keep the endpoint.
    counted: bool,
}

impl Endpoint {
    /// An endpoint that only connects, from these local addresses; port 0 is any port. With several, its connections use all of
    /// them: they open a path from each to the server ([`PathManager`] says how to choose otherwise).
    ///
    /// # Errors
    ///
    /// If an address cannot be bound, or outside of a tokio runtime.
    pub fn client(locals: &[SocketAddr]) -> io::Result<Self> {
        Self::builder().bind_all(locals).build()
    }

    /// An endpoint that accepts connections on these local addresses, and can connect too.
    ///
    /// On a wildcard address (`0.0.0.0`, `[::]`), one socket serves all addresses of the machine:
    /// answers leave from the address that was asked. With both, each serves its address family; if the host has but
    /// one of them, the endpoint serves that ([`missing_addrs`](Self::missing_addrs)).
    ///
    /// # Errors
    ///
    /// If an address cannot be bound, or outside of a tokio runtime.
    pub fn server(config: ServerConfig, locals: &[SocketAddr]) -> io::Result<Self> {
        Self::builder().bind_all(locals).server(config).build()
    }

    /// Builds an endpoint with other settings.
    pub fn builder() -> EndpointBuilder {
        EndpointBuilder::default()
    }

    /// One shard with each configuration, on its runtime; each of `sockets` has one for every shard.
    pub(crate) fn start(
        configs: Vec<(EndpointConfig, Handle)>,
        server: Option<ServerConfig>,
        sockets: &[Vec<Arc<Socket>>],
        (binder, missing): (Binder, Vec<MissingAddr>),
        default_client: Option<ClientConfig>,
        path_manager: Option<&PathManager>,
    ) -> Self {
        let common = Arc::new(Shards::new(configs.len()));
        let server = server.map(Arc::new);
        let shards: Arc<[_]> = configs
            .into_iter()
            .enumerate()
            .map(|(index, (config, runtime))| {
                let proto = proto::Endpoint::new(Arc::new(config), server.clone());
                let own = sockets.iter().map(|shards| Arc::clone(&shards[index]));
                Arc::new(EndpointShared::new(
                    proto,
                    SocketSet::new(own.collect()),
                    default_client.clone(),
                    path_manager.cloned(),
                    runtime,
                    Arc::clone(&common),
                    index,
                ))
            })
            .collect();
        for shard in shards.iter() {
            let _context = shard.runtime.enter();
            let driver = EndpointDriver::new(Arc::clone(shard));
            let span = tracing::debug_span!("endpoint", shard = shard.shard);
            shard.runtime.spawn(driver.instrument(span));
        }
        Self {
            shards,
            common,
            binder: Arc::new(binder),
            missing: missing.into(),
            counted: true,
        }
    }

    /// For a task that works for the endpoint for as long as it is there, and does not keep it.
    #[cfg(feature = "interfaces")]
    pub(crate) fn uncounted(&self) -> Self {
        Self {
            shards: Arc::clone(&self.shards),
            common: Arc::clone(&self.common),
            binder: Arc::clone(&self.binder),
            missing: Arc::clone(&self.missing),
            counted: false,
        }
    }

    /// Waits until no handle and no connection is left.
    #[cfg(feature = "interfaces")]
    pub(crate) async fn finished(&self) {
        loop {
            let notified = self.common.idle.notified();
            if self.common.is_finished() {
                return;
            }
            notified.await;
        }
    }

    #[cfg(feature = "interfaces")]
    pub(crate) fn runtime(&self) -> &Handle {
        &self.first().runtime
    }

    pub(crate) fn shard(&self, index: usize) -> &Arc<EndpointShared> {
        &self.shards[index]
    }

    /// The first shard, which knows what all of them know.
    fn first(&self) -> &Arc<EndpointShared> {
        self.shard(0)
    }

    // -- connections

    /// The configuration that [`connect`](Self::connect) takes.
    pub fn set_default_client_config(&self, config: ClientConfig) {
        self.first().lock().default_client = Some(config);
    }

    /// Replaces the server configuration for future connections; with `None`, they are refused.
    pub fn set_server_config(&self, config: Option<ServerConfig>) {
        let config = config.map(Arc::new);
        for shard in self.shards.iter() {
            shard.lock().proto.set_server_config(config.clone());
        }
        // Whoever waits may have to prove their address now.
        self.common.wake_all();
    }

    /// Seals address validation tokens with this key from now on. Those of the key before it are accepted until the
    /// next rotation, so rotate at intervals longer than the lifetime of tokens
    /// ([`ValidationTokenConfig::lifetime`](crate::ValidationTokenConfig::lifetime)). It must be 32 random bytes; give
    /// it to all processes that share the key ([`EndpointConfig::token_key`](crate::EndpointConfig::token_key)).
    ///
    /// Also takes the time from the system again, by which tokens expire.
    pub fn rotate_token_key(&self, key: [u8; 32]) {
        for shard in self.shards.iter() {
            let state = shard.lock();
            state.proto.rotate_token_key(key);
            if let Ok(since_epoch) = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH) {
                let now = Instant::now().into_std();
                state.proto.set_clock(now, since_epoch);
            }
        }
    }

    /// Which paths future connections to servers open by themselves; [`PathManager`] says what is so without it. See also
    /// [`Connection::set_path_manager`](crate::Connection::set_path_manager).
    pub fn set_path_manager(&self, manager: impl Into<PathManager>) {
        let manager = manager.into();
        for shard in self.shards.iter() {
            shard.lock().path_manager = Some(manager.clone());
        }
    }

    /// Starts a connection with the default configuration, from all local addresses of the remote's address family at
    /// once: it is on the one to which the server answers first. [`ClientConfig::race`] says how. From a wildcard address
    /// (`0.0.0.0`, `[::]`), the system chooses.
    ///
    /// If nothing answers, the future ends after [`ClientConfig::handshake_timeout`], 10 s by default.
    ///
    /// # Errors
    ///
    /// If the attempt cannot start. The future reports what fails later.
    pub fn connect(
        &self,
        remote: SocketAddr,
        server_name: &str,
    ) -> Result<Connecting, ConnectError> {
        let config = self.first().lock().default_client.clone();
        self.connect_with(
            config.ok_or(ConnectError::NoDefaultClientConfig)?,
            remote,
            server_name,
        )
    }

    /// Starts a connection with this configuration.
    ///
    /// # Errors
    ///
    /// As [`connect`](Self::connect).
    pub fn connect_with(
        &self,
        config: ClientConfig,
        remote: SocketAddr,
        server_name: &str,
    ) -> Result<Connecting, ConnectError> {
        let paths = self.first().sockets.paths_to(remote);
        if paths.is_empty() {
            return Err(ConnectError::NoSocket(remote));
        }
        self.begin(config, &paths, true, server_name)
    }

    /// Starts a connection to one of several addresses of a server with the default configuration: to the first one, and
    /// to the next if nothing is heard for a while (250 ms, [`RaceConfig::attempt_delay`](crate::RaceConfig::attempt_delay)). The connection is the one
    /// whose handshake is complete first. RFC 8305 calls that Happy Eyeballs; as it says in section 4, addresses of
    /// different families take turns.
    ///
    /// If none of them answers, the future ends after [`ClientConfig::handshake_timeout`], 10 s by default, or at once if
    /// the system refuses to send to all of them.
    ///
    /// ```no_run
    /// # // no_run: tests/book runs it over two links
    /// # async fn run(endpoint: mpquic::Endpoint) -> Result<(), Box<dyn std::error::Error>> {
    /// let addresses: Vec<_> = tokio::net::lookup_host("example.com:443").await?.collect();
    /// match endpoint.connect_any(&addresses, "example.com")?.await {
    ///     Ok(connection) => println!("connected to {}", connection.remote_address()),
    ///     // Each pair of addresses, and why it failed.
    ///     Err(mpquic::ConnectionError::Unreachable(attempts)) => {
    ///         for attempt in attempts.iter() {
    ///             println!("{attempt}");
    ///         }
    ///     }
    ///     Err(error) => println!("{error}"),
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// If the attempt cannot start, or no socket has the address family of any of them. The future reports what fails
    /// later.
    pub fn connect_any(
        &self,
        remotes: &[SocketAddr],
        server_name: &str,
    ) -> Result<Connecting, ConnectError> {
        let config = self.first().lock().default_client.clone();
        let config = config.ok_or(ConnectError::NoDefaultClientConfig)?;
        self.connect_any_with(config, remotes, server_name)
    }

    /// The same with this configuration.
    ///
    /// # Errors
    ///
    /// As [`connect_any`](Self::connect_any).
    pub fn connect_any_with(
        &self,
        config: ClientConfig,
        remotes: &[SocketAddr],
        server_name: &str,
    ) -> Result<Connecting, ConnectError> {
        let paths: Vec<_> = in_turns(remotes)
            .into_iter()
            .flat_map(|remote| self.first().sockets.paths_to(remote))
            .collect();
        if let (true, Some(first)) = (paths.is_empty(), remotes.first()) {
            return Err(ConnectError::NoSocket(*first));
        }
        self.begin(config, &paths, true, server_name)
    }

    /// Starts a connection from this local address, with this configuration, or the default if it is `None`. Unless a
    /// [path manager](Self::set_path_manager) was set, it opens no further path by itself.
    ///
    /// `local` is an IP on one of the sockets, or an address with a port. One that is read from text needs a type:
    /// `"10.64.3.9".parse::<IpAddr>()?`.
    ///
    /// # Errors
    ///
    /// As [`connect`](Self::connect), and if no socket can send from there.
    pub fn connect_from(
        &self,
        local: impl Into<LocalAddr>,
        config: Option<ClientConfig>,
        remote: SocketAddr,
        server_name: &str,
    ) -> Result<Connecting, ConnectError> {
        let local = local.into();
        let config = config.or_else(|| self.first().lock().default_client.clone());
        let path = self.first().sockets.path_from(local, remote);
        self.begin(
            config.ok_or(ConnectError::NoDefaultClientConfig)?,
            &[path.ok_or(ConnectError::NoLocalSocket { local, remote })?],
            false,
            server_name,
        )
    }

    fn begin(
        &self,
        config: ClientConfig,
        paths: &[FourTuple],
        from_all: bool,
        server_name: &str,
    ) -> Result<Connecting, ConnectError> {
        let shard = self.shard(self.common.turn());
        let shared = {
            let mut state = shard.lock();
            if state.closed {
                return Err(ConnectError::EndpointClosed);
            }
            let now = Instant::now().into_std();
            let (handle, proto) = state.proto.connect_any(now, config, paths, server_name)?;
            shard.register(&mut state, handle, proto, paths[0], from_all)
        };
        Ok(shard.launch(shared))
    }

    /// The next client that wants to connect; `None` once the endpoint is closed.
    ///
    /// Lets other tasks run before it gives one out, so that connections that are established do not wait
    /// while many clients are accepted. Who is not accepted within
    /// [`handshake_timeout`](ServerConfig::handshake_timeout) is forgotten. Cancel-safe.
    pub async fn accept(&self) -> Option<Incoming> {
        tokio::task::yield_now().await;
        loop {
            let notified = self.common.incoming.notified();
            match self.next_incoming() {
                Ok(Some(incoming)) => return Some(incoming),
                Ok(None) => notified.await,
                Err(Closed) => return None,
            }
        }
    }

    /// A client that waits to be accepted, of the shard whose turn it is or one that comes after it.
    fn next_incoming(&self) -> Result<Option<Incoming>, Closed> {
        let (start, count) = (self.common.turn(), self.shards.len());
        let mut closed = 0;
        for index in (start..start + count).map(|index| index % count) {
            let shard = self.shard(index);
            let mut state = shard.lock();
            if state.closed {
                closed += 1;
                continue;
            }
            let next = state.proto.next_incoming(Instant::now().into_std());
            if let Some(incoming) = next {
                let more = state.proto.has_next_incoming();
                drop(state);
                // Another shard may have some too: who is woken in vain looks and waits again.
                if more || count > 1 {
                    self.common.incoming.notify_one();
                }
                return Ok(Some(Incoming::new(
                    incoming,
                    self.clone(),
                    Arc::clone(shard),
                )));
            }
        }
        if closed == count {
            Err(Closed)
        } else {
            Ok(None)
        }
    }

    /// Closes all connections with this code and reason. Afterwards none is accepted or started.
    ///
    /// Wait for [`wait_idle`](Self::wait_idle) so that the peers learn of it.
    pub fn close(&self, code: VarInt, reason: &[u8]) {
        let reason = Bytes::copy_from_slice(reason);
        for shard in self.shards.iter() {
            let (connections, incoming) = {
                let mut state = shard.lock();
                state.closed = true;
                let connections: Vec<_> = state.connections.iter().flatten().cloned().collect();
                (connections, state.proto.drain_clients())
            };
            for waiting in incoming {
                shard.refuse(waiting);
            }
            for connection in connections {
                connection.close(code, reason.clone());
            }
        }
        self.common.incoming.notify_waiters();
    }

    /// Waits until no connection is left, closing and draining ones included.
    pub async fn wait_idle(&self) {
        loop {
            let notified = self.common.idle.notified();
            if self.open_connections() == 0 {
                return;
            }
            notified.await;
        }
    }

    /// Memory for data that the connections have borrowed of the endpoint's: see
    /// [`EndpointConfig::send_memory`](crate::EndpointConfig::send_memory) and
    /// [`EndpointConfig::receive_memory`](crate::EndpointConfig::receive_memory).
    pub fn memory_use(&self) -> MemoryUse {
        let mut sum = MemoryUse::default();
        for shard in self.shards.iter() {
            let part = shard.lock().proto.memory_use();
            sum.send += part.send;
            sum.receive += part.receive;
            sum.send_limit += part.send_limit;
            sum.receive_limit += part.receive_limit;
        }
        sum
    }

    /// How many connections there are, closing ones included.
    pub fn open_connections(&self) -> usize {
        self.common.open()
    }

    /// What each shard has received, and how many connections it has: see [`EndpointBuilder::shards`].
    pub fn shard_stats(&self) -> Vec<ShardStats> {
        let stats = |shard: &Arc<EndpointShared>| {
            let connections = shard.lock().open;
            self.common.stats(shard.shard, connections)
        };
        self.shards.iter().map(stats).collect()
    }

    /// How many connections of the server are complete, and how many were refused, since there were too many: see
    /// [`ServerConfig::max_connections`].
    pub fn connection_count(&self) -> ConnectionCount {
        // It is that of all shards.
        self.first().lock().proto.connection_count()
    }

    /// How many connections are half open, and what they hold: clients that wait to be accepted, and
    /// connections of this server whose handshake is not complete. See
    /// [`ServerConfig::max_half_open`].
    pub fn half_open(&self) -> HalfOpen {
        let mut sum = HalfOpen::default();
        for shard in self.shards.iter() {
            let part = shard.lock().proto.half_open();
            sum.connections += part.connections;
            sum.bytes += part.bytes;
        }
        sum
    }

    // -- sockets

    /// Events of the sockets from now on.
    pub fn socket_events(&self) -> SocketEvents {
        SocketEvents::new(self.common.socket_events.subscribe())
    }

    /// The bound addresses, in the order in which they were bound.
    pub fn local_addrs(&self) -> Vec<SocketAddr> {
        self.first().sockets.locals()
    }

    /// The address that was bound first.
    ///
    /// # Errors
    ///
    /// If the endpoint has no socket any more.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        let first = self.local_addrs().into_iter().next();
        first.ok_or_else(|| {
            io::Error::new(io::ErrorKind::NotConnected, "the endpoint has no socket")
        })
    }

    /// The wildcard addresses that it was to be bound to and is not, since this host does not have their address family:
    /// nothing but `[::]` on a host without IPv6, as a rule. A program that serves tells its user.
    ///
    /// ```no_run
    /// # // no_run: tests/book runs it over two links
    /// # fn run(config: mpquic::ServerConfig) -> std::io::Result<()> {
    /// let both = ["0.0.0.0:4433".parse().unwrap(), "[::]:4433".parse().unwrap()];
    /// let endpoint = mpquic::Endpoint::server(config, &both)?;
    /// for missing in endpoint.missing_addrs() {
    ///     eprintln!("{missing}"); // no socket on [::]:4433: this host has no IPv6 (...)
    /// }
    /// # Ok(()) }
    /// ```
    pub fn missing_addrs(&self) -> &[MissingAddr] {
        &self.missing
    }

    /// Binds a further local address, as when an interface comes up. Connections with a
    /// [`FullMesh`](crate::FullMesh) open paths from it; others can.
    ///
    /// Beside an IPv4 address, `[::]` is for IPv6 only. If `[::]` was there first and takes IPv4, no IPv4 address can have its
    /// port: give both when the endpoint is built.
    ///
    /// # Errors
    ///
    /// If it cannot be bound.
    pub fn add_socket(&self, local: SocketAddr) -> io::Result<SocketAddr> {
        Ok(self.add(self.binder.bind(local, &self.local_addrs(), &[])?))
    }

    /// Takes a socket that is already bound, for options of your own (such as `SO_BINDTODEVICE`).
    ///
    /// # Errors
    ///
    /// If it is not bound, or refuses an option that QUIC needs.
    pub fn adopt_socket(&self, socket: std::net::UdpSocket) -> io::Result<SocketAddr> {
        Ok(self.add(self.binder.adopt(socket)?))
    }

    /// Takes a socket that need not be one of the system's: see [`AsyncUdpSocket`]. Returns the address that it says it has. To
    /// replace one, adopt the new one and then [remove](Self::remove_socket) the old one.
    ///
    /// # Errors
    ///
    /// If it does not tell its address.
    pub fn adopt_abstract_socket(&self, socket: Arc<dyn AsyncUdpSocket>) -> io::Result<SocketAddr> {
        Ok(self.add(self.binder.adopt_abstract(socket)?))
    }

    /// As [`adopt_socket`](Self::adopt_socket), with a word how paths from it are to be used.
    pub(crate) fn adopt_socket_as(
        &self,
        socket: std::net::UdpSocket,
        status: PathStatus,
    ) -> io::Result<SocketAddr> {
        let sockets = self.binder.adopt(socket)?;
        for socket in &sockets {
            socket.set_status(status);
        }
        Ok(self.add(sockets))
    }

    /// Sets how paths from the socket bound to `local` are to be used that a [`FullMesh`](crate::FullMesh) opens, those that are open included;
    /// returns whether there is one. Connections begin on a backup only if there is no other socket. Default
    /// [`Available`](PathStatus::Available).
    pub fn set_socket_status(&self, local: SocketAddr, status: PathStatus) -> bool {
        let mut found = false;
        for shard in self.shards.iter() {
            if shard.sockets.set_status(local, status) {
                found = true;
                shard.sockets_changed();
            }
        }
        found
    }

    /// A socket for each shard, all with the same address.
    fn add(&self, sockets: Vec<Arc<Socket>>) -> SocketAddr {
        let local = sockets[0].local();
        for (shard, socket) in self.shards.iter().zip(sockets) {
            shard.sockets.add(socket);
            shard.sockets_changed();
        }
        local
    }

    /// Closes the socket bound to `local`, as when an interface goes down; returns whether there
    /// was one. Paths from it are abandoned. A connection's last one goes on from another socket. If there is none, it
    /// waits for one ([`PathEvent::Stranded`](crate::PathEvent::Stranded)), at most for the idle timeout. If it may not go
    /// on from another socket, the connection ends
    /// ([`ConnectionError::LocalAddressLost`](crate::ConnectionError::LocalAddressLost)): the server forbids it, or the
    /// handshake is not confirmed.
    pub fn remove_socket(&self, local: SocketAddr) -> bool {
        let mut found = false;
        for shard in self.shards.iter().filter(|one| one.sockets.remove(local)) {
            found = true;
            shard.sockets_changed();
        }
        found
    }

    /// Replaces the socket bound to `old` by one bound to `new`, as when the address of an interface changed. Connections to
    /// servers go on from there with the same paths (RFC 9000 section 9.2), however often it happens; what was on its
    /// way to the old address is sent again. These cannot go on, and end with
    /// [`ConnectionError::LocalAddressLost`](crate::ConnectionError::LocalAddressLost): connections of a server, whose clients look
    /// for it at the old address; those whose server forbids it; and those whose handshake is not confirmed
    /// ([`Connection::handshake_confirmed`](crate::Connection::handshake_confirmed)).
    ///
    /// With multipath, nothing is lost if you call [`add_socket`](Self::add_socket), open paths, and
    /// then call [`remove_socket`](Self::remove_socket).
    ///
    /// # Errors
    ///
    /// If `new` cannot be bound, or nothing was bound to `old`.
    pub fn rebind(&self, old: SocketAddr, new: SocketAddr) -> io::Result<SocketAddr> {
        let missing = || {
            let text = format!("no socket is bound to {old}");
            io::Error::new(io::ErrorKind::NotFound, text)
        };
        let former = self.first().sockets.former(old).ok_or_else(missing)?;
        let mut beside = self.local_addrs();
        beside.retain(|local| *local != old);
        let sockets = self.binder.bind(new, &beside, &former)?;
        let local = sockets[0].local();
        for (shard, socket) in self.shards.iter().zip(sockets) {
            if !shard.sockets.replace(old, socket) {
                return Err(missing());
            }
            shard.sockets_changed();
        }
        Ok(local)
    }
}

/// All shards of an endpoint are closed.
struct Closed;

/// The addresses of both families in turns, those of a family in their order (RFC 8305 section 4, with a First Address
/// Family Count of 1).
fn in_turns(remotes: &[SocketAddr]) -> Vec<SocketAddr> {
    let Some(first) = remotes.first() else {
        return Vec::new();
    };
    let is_first = |remote: &&SocketAddr| remote.is_ipv4() == first.is_ipv4();
    let (mut first, mut second) = (
        remotes.iter().filter(is_first),
        remotes.iter().filter(|remote| !is_first(remote)),
    );
    let mut all = Vec::with_capacity(remotes.len());
    while all.len() < remotes.len() {
        all.extend(first.next().into_iter().chain(second.next()));
    }
    all
}

impl Clone for Endpoint {
    fn clone(&self) -> Self {
        self.common.on_handle();
        Self {
            shards: Arc::clone(&self.shards),
            common: Arc::clone(&self.common),
            binder: Arc::clone(&self.binder),
            missing: Arc::clone(&self.missing),
            counted: true,
        }
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        if self.counted && self.common.on_handle_gone() {
            // Nobody can add a socket any more: connections without one are over.
            for shard in self.shards.iter().filter(|one| one.sockets.is_bare()) {
                shard.sockets.touch();
                shard.sockets_changed();
            }
        }
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint")
            .field("locals", &self.local_addrs())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_take_turns() {
        let list = |text: &str| -> Vec<SocketAddr> {
            let words = text.split_whitespace();
            words.map(|word| word.parse().unwrap()).collect()
        };
        for (given, expected) in [
            ("", ""),
            ("1.0.0.1:1", "1.0.0.1:1"),
            (
                "[::1]:1 [::2]:1 [::3]:1 1.0.0.1:1 1.0.0.2:1",
                "[::1]:1 1.0.0.1:1 [::2]:1 1.0.0.2:1 [::3]:1",
            ),
            ("1.0.0.1:1 1.0.0.2:1 [::1]:1", "1.0.0.1:1 [::1]:1 1.0.0.2:1"),
        ] {
            assert_eq!(in_turns(&list(given)), list(expected));
        }
    }
}
