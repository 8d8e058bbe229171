//! What an endpoint's handles, its task and its connections share; no protocol state of its own.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use proto::{ClientConfig, ConnectionHandle, EndpointEvent, FourTuple, ServerConfig, Transmit};
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::time::Instant;
use tracing::Instrument;

use crate::connection::Connecting;
use crate::driver::Driver;
use crate::path_manager::{Mesh, PathManager};
use crate::shared::{ConnectionRef, Shared};
use crate::socket::{SocketSet, route};

/// The part under the mutex. Held for a batch of received datagrams or for one call, never
/// together with a connection's mutex.
pub(crate) struct EndpointState {
    pub(crate) proto: proto::Endpoint,
    /// By handle: handles are small numbers that are used again.
    pub(crate) connections: Vec<Option<Arc<Shared>>>,
    pub(crate) open: usize,
    pub(crate) incoming: VecDeque<proto::Incoming>,
    pub(crate) closed: bool,
    pub(crate) default_client: Option<ClientConfig>,
    pub(crate) path_manager: PathManager,
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
    pub(crate) idle: Notify,
    pub(crate) handles: AtomicUsize,
    pub(crate) runtime: Handle,
}

impl EndpointShared {
    /// With one handle.
    pub(crate) fn new(
        proto: proto::Endpoint,
        sockets: SocketSet,
        default_client: Option<ClientConfig>,
        path_manager: PathManager,
        runtime: Handle,
    ) -> Self {
        Self {
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
        }
    }

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
    pub(crate) fn register(
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
    pub(crate) fn launch(&self, shared: Arc<Shared>) -> Connecting {
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

    /// Has the client prove its address first.
    pub(crate) fn retry(&self, incoming: proto::Incoming) -> Result<(), proto::RetryError> {
        let mut answer = Vec::new();
        let now = Instant::now().into_std();
        let transmit = self.lock().proto.retry(incoming, now, &mut answer)?;
        self.respond(&transmit, &answer);
        Ok(())
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
    pub(crate) fn sockets_changed(&self) {
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
