//! The endpoint handle, and what it shares with its task and its connections.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use bytes::Bytes;
use proto::{
    ClientConfig, ConnectionHandle, EndpointEvent, FourTuple, ServerConfig, Transmit, VarInt,
};
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::time::Instant;
use tracing::Instrument;

use crate::builder::EndpointBuilder;
use crate::connection::Connecting;
use crate::driver::Driver;
use crate::endpoint_driver::EndpointDriver;
use crate::error::ConnectError;
use crate::incoming::Incoming;
use crate::path_manager::{Mesh, PathManager};
use crate::shared::{ConnectionRef, Shared};
use crate::socket::{LocalAddr, Socket, SocketSet, route};

/// The part under the mutex. Held for a batch of received datagrams or for one call, never
/// together with a connection's mutex.
pub(crate) struct EndpointState {
    pub(crate) proto: proto::Endpoint,
    /// By handle: handles are small numbers that are used again.
    connections: Vec<Option<Arc<Shared>>>,
    open: usize,
    pub(crate) incoming: VecDeque<proto::Incoming>,
    pub(crate) closed: bool,
    default_client: Option<ClientConfig>,
    path_manager: PathManager,
    /// Of the endpoint's task.
    pub(crate) driver: Option<Waker>,
}

impl EndpointState {
    pub(crate) fn connection(&self, handle: ConnectionHandle) -> Option<&Arc<Shared>> {
        self.connections.get(handle.0)?.as_ref()
    }

    fn insert(&mut self, shared: &Arc<Shared>) {
        let index = shared.handle.0;
        if index >= self.connections.len() {
            self.connections.resize(index + 1, None);
        }
        self.connections[index] = Some(Arc::clone(shared));
        self.open += 1;
    }
}

/// What the endpoint's handles, its task and its connections share.
pub(crate) struct EndpointShared {
    state: Mutex<EndpointState>,
    pub(crate) sockets: SocketSet,
    /// Something came in to be accepted, or the endpoint was closed.
    pub(crate) incoming: Notify,
    idle: Notify,
    handles: AtomicUsize,
    runtime: Handle,
}

impl EndpointShared {
    /// A panic elsewhere is no reason to panic here.
    pub(crate) fn lock(&self) -> MutexGuard<'_, EndpointState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether nobody will accept what comes in.
    pub(crate) fn is_orphan(&self) -> bool {
        self.handles.load(Ordering::Acquire) == 0
    }

    /// Whether the task has nothing left to do.
    pub(crate) fn is_finished(&self, state: &EndpointState) -> bool {
        state.open == 0 && self.is_orphan()
    }

    /// Takes in what a connection has to say, before that connection sends on.
    pub(crate) fn on_connection_events(
        &self,
        handle: ConnectionHandle,
        events: impl Iterator<Item = EndpointEvent>,
    ) {
        let mut gone = None;
        let (idle, waker) = {
            let mut state = self.lock();
            for event in events {
                if event == EndpointEvent::Drained {
                    gone = state.connections.get_mut(handle.0).and_then(Option::take);
                    state.open -= usize::from(gone.is_some());
                }
                state.proto.handle_event(handle, event);
            }
            let idle = gone.is_some() && state.open == 0;
            let waker = if idle && self.is_orphan() {
                state.driver.take()
            } else {
                None
            };
            (idle, waker)
        };
        // A connection's drop may do anything: not under the lock.
        drop(gone);
        if idle {
            self.idle.notify_waiters();
        }
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Sends an answer that belongs to no connection; if the socket is full, it is lost, as the
    /// packet that it answers might have been.
    pub(crate) fn respond(&self, transmit: &Transmit, data: &[u8]) {
        let sockets = self.sockets.snapshot();
        if let Some(index) = route(&sockets, transmit.network_path.local) {
            sockets[index].send(transmit, data, &mut 0);
        }
    }

    /// Makes a connection known, under the same hold of the mutex that made its handle: no
    /// datagram finds it missing.
    fn register(
        self: &Arc<Self>,
        state: &mut EndpointState,
        handle: ConnectionHandle,
        proto: proto::Connection,
        path: FourTuple,
    ) -> Arc<Shared> {
        let mesh = match &state.path_manager {
            PathManager::FullMesh(mesh) if proto.side().is_client() => {
                Some(Mesh::new(mesh.clone(), path.remote))
            }
            _ => None,
        };
        let shared = Arc::new(Shared::new(proto, handle, path, Arc::clone(self), mesh));
        state.insert(&shared);
        shared
    }

    /// Sets a connection going. Not under the mutex: a runtime that is shutting down drops the
    /// task at once, and its drop takes the mutex.
    fn launch(&self, shared: Arc<Shared>) -> Connecting {
        let span = tracing::debug_span!("connection", id = shared.handle.0);
        let connecting = Connecting::new(ConnectionRef::new(Arc::clone(&shared)));
        let _context = self.runtime.enter();
        self.runtime.spawn(Driver::new(shared).instrument(span));
        connecting
    }

    /// Accepts what came in.
    pub(crate) fn accept(
        self: &Arc<Self>,
        incoming: proto::Incoming,
        config: Option<Arc<ServerConfig>>,
    ) -> Result<Connecting, proto::ConnectionError> {
        let path = incoming.network_path();
        let mut answer = Vec::new();
        let result = {
            let mut state = self.lock();
            let now = Instant::now().into_std();
            match state.proto.accept(incoming, now, &mut answer, config) {
                Ok((handle, proto)) => Ok(self.register(&mut state, handle, proto, path)),
                Err(error) => Err(error),
            }
        };
        result.map(|shared| self.launch(shared)).map_err(|error| {
            if let Some(transmit) = error.response {
                self.respond(&transmit, &answer);
            }
            error.cause
        })
    }

    pub(crate) fn refuse(&self, incoming: proto::Incoming) {
        let mut answer = Vec::new();
        let transmit = self.lock().proto.refuse(incoming, &mut answer);
        self.respond(&transmit, &answer);
    }

    pub(crate) fn ignore(&self, incoming: proto::Incoming) {
        self.lock().proto.ignore(incoming);
    }

    /// Takes out a socket; returns whether there was one.
    pub(crate) fn remove_socket(&self, local: SocketAddr) -> bool {
        let found = self.sockets.remove(local);
        if found {
            self.sockets_changed();
        }
        found
    }

    /// Lets the tasks see that the sockets changed.
    fn sockets_changed(&self) {
        let (driver, connections) = {
            let mut state = self.lock();
            let connections: Vec<_> = state.connections.iter().flatten().cloned().collect();
            (state.driver.take(), connections)
        };
        if let Some(waker) = driver {
            waker.wake();
        }
        for connection in connections {
            connection.wake();
        }
    }
}

/// One or several UDP sockets, and all the connections that run over them: of a client, of a
/// server, or of both.
///
/// May be cloned to get another handle. When the last one is dropped, connections that are open
/// live on; no new ones are accepted.
///
/// ```no_run
/// # async fn run(config: mpquic::ClientConfig) -> Result<(), Box<dyn std::error::Error>> {
/// use mpquic::Endpoint;
///
/// // One socket per interface: Wi-Fi and LTE.
/// let endpoint = Endpoint::client(&["192.168.1.23:0".parse()?, "10.64.3.9:0".parse()?])?;
/// endpoint.set_default_client_config(config);
/// let connection = endpoint.connect("203.0.113.5:4433".parse()?, "example.com")?.await?;
/// # Ok(()) }
/// ```
pub struct Endpoint {
    shared: Arc<EndpointShared>,
}

impl Endpoint {
    /// An endpoint that only connects, from these local addresses; port 0 is any port.
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
    /// answers leave from the address that was asked.
    ///
    /// # Errors
    ///
    /// If an address cannot be bound, or outside of a tokio runtime.
    pub fn server(config: ServerConfig, locals: &[SocketAddr]) -> io::Result<Self> {
        Self::builder().bind_all(locals).server(config).build()
    }

    /// An endpoint with settings of its own.
    pub fn builder() -> EndpointBuilder {
        EndpointBuilder::default()
    }

    pub(crate) fn start(
        proto: proto::Endpoint,
        sockets: SocketSet,
        default_client: Option<ClientConfig>,
        path_manager: PathManager,
    ) -> io::Result<Self> {
        let runtime = Handle::try_current().map_err(io::Error::other)?;
        let shared = Arc::new(EndpointShared {
            state: Mutex::new(EndpointState {
                proto,
                connections: Vec::new(),
                open: 0,
                incoming: VecDeque::new(),
                closed: false,
                default_client,
                path_manager,
                driver: None,
            }),
            sockets,
            incoming: Notify::new(),
            idle: Notify::new(),
            handles: AtomicUsize::new(1),
            runtime,
        });
        let driver = EndpointDriver::new(Arc::clone(&shared));
        shared
            .runtime
            .spawn(driver.instrument(tracing::debug_span!("endpoint")));
        Ok(Self { shared })
    }

    pub(crate) const fn shared(&self) -> &Arc<EndpointShared> {
        &self.shared
    }

    // -- connections

    /// The configuration that [`connect`](Self::connect) takes.
    pub fn set_default_client_config(&self, config: ClientConfig) {
        self.shared.lock().default_client = Some(config);
    }

    /// Replaces the server configuration for future connections; with `None`, they are refused.
    pub fn set_server_config(&self, config: Option<ServerConfig>) {
        self.shared
            .lock()
            .proto
            .set_server_config(config.map(Arc::new));
    }

    /// Which paths future connections to servers open by themselves; see also
    /// [`Connection::set_path_manager`](crate::Connection::set_path_manager).
    pub fn set_path_manager(&self, manager: impl Into<PathManager>) {
        self.shared.lock().path_manager = manager.into();
    }

    /// Starts a connection with the default configuration, from the first local address of the
    /// remote's address family.
    ///
    /// # Errors
    ///
    /// If it cannot be tried at all. What goes wrong on the way, the future tells.
    pub fn connect(
        &self,
        remote: SocketAddr,
        server_name: &str,
    ) -> Result<Connecting, ConnectError> {
        let config = self.shared.lock().default_client.clone();
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
        let path = self.shared.sockets.default_path(remote);
        self.begin(
            config,
            path.ok_or(ConnectError::NoSocket(remote))?,
            server_name,
        )
    }

    /// Starts a connection from this local address, with this configuration or else the default.
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
        let config = config.or_else(|| self.shared.lock().default_client.clone());
        let path = self.shared.sockets.path_from(local, remote);
        self.begin(
            config.ok_or(ConnectError::NoDefaultClientConfig)?,
            path.ok_or(ConnectError::NoLocalSocket { local, remote })?,
            server_name,
        )
    }

    fn begin(
        &self,
        config: ClientConfig,
        path: FourTuple,
        server_name: &str,
    ) -> Result<Connecting, ConnectError> {
        let shared = {
            let mut state = self.shared.lock();
            if state.closed {
                return Err(ConnectError::EndpointClosed);
            }
            let now = Instant::now().into_std();
            let (handle, proto) = state.proto.connect(now, config, path, server_name)?;
            self.shared.register(&mut state, handle, proto, path)
        };
        Ok(self.shared.launch(shared))
    }

    /// The next client that wants to connect; `None` once the endpoint is closed.
    pub async fn accept(&self) -> Option<Incoming> {
        loop {
            let notified = self.shared.incoming.notified();
            {
                let mut state = self.shared.lock();
                if state.closed {
                    return None;
                }
                if let Some(incoming) = state.incoming.pop_front() {
                    drop(state);
                    return Some(Incoming::new(incoming, self.clone()));
                }
            }
            notified.await;
        }
    }

    /// Closes all connections with this code and reason, and takes and makes no more.
    ///
    /// Wait for [`wait_idle`](Self::wait_idle) if the peers shall hear of it.
    pub fn close(&self, code: VarInt, reason: &[u8]) {
        let (connections, incoming) = {
            let mut state = self.shared.lock();
            state.closed = true;
            let connections: Vec<_> = state.connections.iter().flatten().cloned().collect();
            (connections, std::mem::take(&mut state.incoming))
        };
        for waiting in incoming {
            self.shared.refuse(waiting);
        }
        let reason = Bytes::copy_from_slice(reason);
        for connection in connections {
            connection.close(code, reason.clone());
        }
        self.shared.incoming.notify_waiters();
    }

    /// Waits until no connection is left, not even one that waits for stragglers of a closed one.
    pub async fn wait_idle(&self) {
        loop {
            let notified = self.shared.idle.notified();
            if self.open_connections() == 0 {
                return;
            }
            notified.await;
        }
    }

    /// How many connections there are, those included that are closing.
    pub fn open_connections(&self) -> usize {
        self.shared.lock().open
    }

    // -- sockets

    /// The bound addresses, in the order in which they were bound.
    pub fn local_addrs(&self) -> Vec<SocketAddr> {
        self.shared.sockets.locals()
    }

    /// Binds a further local address, as when an interface comes up. Connections with a
    /// [`FullMesh`](crate::FullMesh) open paths from it; others can.
    ///
    /// # Errors
    ///
    /// If it cannot be bound.
    pub fn add_socket(&self, local: SocketAddr) -> io::Result<SocketAddr> {
        let local = self.shared.sockets.bind(local)?;
        self.shared.sockets_changed();
        Ok(local)
    }

    /// Takes a socket that is bound already, with options of one's own (such as `SO_BINDTODEVICE`).
    ///
    /// # Errors
    ///
    /// If it is not bound, or refuses an option that QUIC needs.
    pub fn adopt_socket(&self, socket: std::net::UdpSocket) -> io::Result<SocketAddr> {
        let local = self.shared.sockets.adopt(socket)?;
        self.shared.sockets_changed();
        Ok(local)
    }

    /// Closes the socket bound to `local`, as when an interface goes down; returns whether there
    /// was one. Paths from it are abandoned, a connection's last one excepted.
    pub fn remove_socket(&self, local: SocketAddr) -> bool {
        self.shared.remove_socket(local)
    }

    /// Binds `new` in the place of the socket bound to `old`.
    ///
    /// With multipath, [`add_socket`](Self::add_socket), opening paths, and then
    /// [`remove_socket`](Self::remove_socket) loses nothing on the way.
    ///
    /// # Errors
    ///
    /// If `new` cannot be bound, or nothing was bound to `old`.
    pub fn rebind(&self, old: SocketAddr, new: SocketAddr) -> io::Result<SocketAddr> {
        let local = self.shared.sockets.replace(old, new)?;
        self.shared.sockets_changed();
        Ok(local)
    }
}

impl Clone for Endpoint {
    fn clone(&self) -> Self {
        self.shared.handles.fetch_add(1, Ordering::Relaxed);
        Self {
            shared: Arc::clone(&self.shared),
        }
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        if self.shared.handles.fetch_sub(1, Ordering::AcqRel) == 1 {
            // The task ends when the last connection has.
            let waker = self.shared.lock().driver.take();
            if let Some(waker) = waker {
                waker.wake();
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

/// Binds all or none.
pub(crate) fn bind_all(
    locals: &[SocketAddr],
    sizes: crate::socket::BufferSizes,
) -> io::Result<Vec<Arc<Socket>>> {
    let bind = |local: &SocketAddr| match Socket::bind(*local, sizes) {
        Ok(socket) => Ok(Arc::new(socket)),
        Err(error) => Err(io::Error::new(
            error.kind(),
            format!("cannot bind {local}: {error}"),
        )),
    };
    locals.iter().map(bind).collect()
}
