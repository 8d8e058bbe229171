//! What an endpoint's handles, the task of one of its shards and the connections of that share.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use proto::{
    ClientConfig, ConnectionError, ConnectionHandle, EndpointEvent, FourTuple, PathRef, Remains,
    ServerConfig, Transmit, TransportError, TransportErrorCode, VarInt,
};
use tokio::runtime::Handle;
use tokio::time::Instant;
use tracing::Instrument;

use crate::connection::Connecting;
use crate::connection_state::{ConnectionRef, Shared};
use crate::crowd;
use crate::driver::Driver;
use crate::inbox::{ReadAhead, Run};
use crate::next_look::NextLook;
use crate::path_manager::{Mesh, PathManager};
use crate::recv_driver::Reader;
use crate::shards::Shards;
use crate::socket::{SocketSet, route};

/// Places of connections that are kept though they are free.
const KEPT_PLACES: usize = 256;

/// The part under the mutex. Held for a batch of received datagrams or for one call, never
/// together with a connection's mutex.
pub(crate) struct EndpointState {
    pub(crate) proto: proto::Endpoint,
    /// By handle: handles are small numbers that are used again.
    pub(crate) connections: Vec<Option<Arc<Shared>>>,
    pub(crate) open: usize,
    pub(crate) closed: bool,
    /// Its task is over: nobody would forget what is left of connections.
    ended: bool,
    pub(crate) default_client: Option<ClientConfig>,
    /// Chosen by the application.
    pub(crate) path_manager: Option<PathManager>,
}

impl EndpointState {
    pub(crate) fn connection(&self, handle: ConnectionHandle) -> Option<&Arc<Shared>> {
        self.connections.get(handle.0)?.as_ref()
    }

    /// Forgets the clients that have waited to be accepted for too long, and what is left of connections whose time is over: of
    /// so many, the common part is to be told. When the next one is due.
    pub(crate) fn expire(
        &mut self,
        now: impl FnOnce() -> std::time::Instant,
    ) -> (usize, Option<std::time::Instant>) {
        if self.proto.is_at_rest() {
            return (0, None);
        }
        let now = now();
        self.proto.handle_timeout(now);
        let gone = self.proto.forget_remains(Some(now));
        self.open -= gone;
        (gone, self.proto.poll_timeout())
    }

    /// Takes out a connection that is over. Free places at the end go, and the memory of a crowd with them.
    fn take(&mut self, handle: ConnectionHandle) -> Option<Arc<Shared>> {
        let taken = self.connections.get_mut(handle.0).and_then(Option::take);
        while let Some(None) = self.connections.last() {
            self.connections.pop();
        }
        let used = self.connections.len();
        if self.connections.capacity() > KEPT_PLACES.max(16 * used) {
            self.connections.shrink_to(KEPT_PLACES.max(2 * used));
        }
        taken
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

/// One shard of an endpoint, which most endpoints have: what its task and its connections share with the endpoint's
/// handles.
pub(crate) struct EndpointShared {
    state: Mutex<EndpointState>,
    pub(crate) sockets: SocketSet,
    pub(crate) read_ahead: ReadAhead,
    reader: Mutex<Reader>,
    pub(crate) next_look: NextLook,
    pub(crate) common: Arc<Shards>,
    /// Its number.
    pub(crate) shard: usize,
    pub(crate) runtime: Handle,
}

impl EndpointShared {
    pub(crate) fn new(
        mut proto: proto::Endpoint,
        sockets: SocketSet,
        default_client: Option<ClientConfig>,
        path_manager: Option<PathManager>,
        runtime: Handle,
        common: Arc<Shards>,
        shard: usize,
    ) -> Self {
        // The sockets are read before anybody is served.
        proto.queue_clients();
        Self {
            state: Mutex::new(EndpointState {
                proto,
                connections: Vec::new(),
                open: 0,
                closed: false,
                ended: false,
                default_client,
                path_manager,
            }),
            sockets,
            read_ahead: ReadAhead::default(),
            reader: Mutex::new(Reader::new()),
            next_look: NextLook::new(),
            common,
            shard,
            runtime,
        }
    }

    /// A panic elsewhere is no reason to panic here.
    #[inline(never)]
    pub(crate) fn lock(&self) -> MutexGuard<'_, EndpointState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// For the shard's task. It waits while another task reads in its place.
    pub(crate) fn reader(&self) -> MutexGuard<'_, Reader> {
        self.reader.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads the sockets if that is overdue and the task whose work it is waits for its turn behind those of connections.
    pub(crate) fn read_if_due(&self) {
        if self.next_look.is_due(Instant::now)
            && self.read_ahead.has_room()
            && let Ok(mut reader) = self.reader.try_lock()
        {
            reader.look_in_place(self);
        }
    }

    /// The shortest round trip of the paths of a connection, if it is open.
    pub(crate) fn shortest_round_trip(&self, handle: ConnectionHandle) -> Option<Duration> {
        let connection = self.lock().connection(handle).cloned()?;
        let state = connection.lock();
        // Who receives sends little, and the smoothed one may be that of the handshake, before there was a queue.
        let known = |path: PathRef<'_>| path.latest_rtt().map(|latest| latest.max(path.rtt()));
        state.proto.paths().iter().filter_map(known).min()
    }

    /// Takes in what a connection has to say, before that connection sends on.
    pub(crate) fn on_connection_events(
        &self,
        handle: ConnectionHandle,
        events: impl Iterator<Item = EndpointEvent>,
    ) {
        let mut gone = None;
        {
            let mut state = self.lock();
            for event in events {
                if event == EndpointEvent::Drained {
                    gone = state.take(handle);
                    state.open -= usize::from(gone.is_some());
                }
                state.proto.handle_event(handle, event);
            }
        }
        // A connection's drop may do anything: not under the lock.
        if gone.take().is_some() {
            self.on_gone(1);
        }
    }

    /// So many connections are over.
    pub(crate) fn on_gone(&self, count: usize) {
        if count > 0 {
            self.common.on_gone(count);
            crowd::on_gone(&self.common, &self.runtime);
        }
    }

    /// Takes what is left of a connection that nobody holds any more, and is about to be dropped. It counts until the last
    /// packets for it have come.
    pub(crate) fn keep_remains(&self, handle: ConnectionHandle, remains: Remains) {
        let (connection, earlier, gone) = {
            let mut state = self.lock();
            let connection = state.take(handle);
            let earlier = state.proto.keep_remains(handle, remains);
            let gone = match state.ended {
                true => state.proto.forget_remains(None),
                false => 0,
            };
            state.open -= gone;
            (connection, earlier, gone)
        };
        // A connection's drop may do anything: not under the lock.
        drop(connection);
        self.on_gone(gone);
        if earlier {
            // Its timer.
            self.common.wake(self.shard);
        }
    }

    /// Sends an answer that belongs to no connection; if the socket is full, it is lost, as the
    /// packet that it answers might have been.
    pub(crate) fn respond(&self, transmit: &Transmit, data: &[u8]) {
        let sockets = self.sockets.snapshot();
        if let Some(index) = route(&sockets, transmit.network_path.local) {
            sockets[index].send(transmit, data, true, &mut 0);
        }
    }

    /// Makes a connection known, under the same hold of the mutex that made its handle: no
    /// datagram finds it missing. Whether it is a client's that begins from all addresses.
    pub(crate) fn register(
        self: &Arc<Self>,
        state: &mut EndpointState,
        handle: ConnectionHandle,
        proto: proto::Connection,
        path: FourTuple,
        from_all: bool,
    ) -> Arc<Shared> {
        let mesh = match &state.path_manager {
            _ if proto.side().is_server() => None,
            Some(PathManager::Manual) => None,
            Some(PathManager::FullMesh(mesh)) => Some(Mesh::new(mesh.clone(), path.remote)),
            None => (from_all && self.sockets.has_several()).then(|| Mesh::by_default(path.remote)),
        };
        let shared = Arc::new(Shared::new(proto, handle, path, Arc::clone(self), mesh));
        state.insert(&shared);
        self.common.on_open();
        shared
    }

    /// Sets a connection going. Not under the mutex: a runtime that is shutting down drops the
    /// task at once, and its drop takes the mutex.
    pub(crate) fn launch(&self, shared: Arc<Shared>) -> Connecting {
        let span = shared.lock().proto.span().clone();
        let connecting = Connecting::new(ConnectionRef::new(Arc::clone(&shared)));
        let _context = self.runtime.enter();
        self.runtime.spawn(Driver::new(shared).instrument(span));
        connecting
    }

    /// Accepts what came in. The mutex is free while TLS works: a flood of handshakes holds up only those
    /// who accept them.
    pub(crate) fn accept(
        self: &Arc<Self>,
        incoming: proto::Incoming,
        config: Option<Arc<ServerConfig>>,
    ) -> Result<Connecting, ConnectionError> {
        let mut answer = Vec::new();
        let result = self.try_accept(incoming, config, &mut answer);
        result.map_err(|error| {
            if let Some(transmit) = error.response {
                self.respond(&transmit, &answer);
            }
            error.cause
        })
    }

    #[expect(
        clippy::result_large_err,
        reason = "made once per connection, and taken apart at once"
    )]
    fn try_accept(
        self: &Arc<Self>,
        incoming: proto::Incoming,
        config: Option<Arc<ServerConfig>>,
        answer: &mut Vec<u8>,
    ) -> Result<Connecting, proto::AcceptError> {
        let path = incoming.network_path();
        let job = self.lock().proto.prepare_accept(incoming, answer, config)?;
        let outcome = job.run(Instant::now().into_std());
        let (shared, datagrams, closed) = {
            let mut state = self.lock();
            let now = Instant::now().into_std();
            let accepted = state.proto.finish_accept(now, outcome, answer)?;
            let shared = self.register(
                &mut state,
                accepted.handle,
                accepted.connection,
                path,
                false,
            );
            (shared, accepted.datagrams, state.closed)
        };
        for datagram in datagrams {
            shared.deliver(Run::single(&datagram), std::iter::once(datagram));
        }
        if closed {
            // Whoever closed the endpoint did not find it.
            shared.close(VarInt::from_u32(0), Bytes::new());
        }
        Ok(self.launch(shared))
    }

    /// The endpoint's task is over before its time. Whoever waits for something is told.
    pub(crate) fn end(&self) {
        let (connections, incoming, gone) = {
            let mut state = self.lock();
            state.closed = true;
            state.ended = true;
            let connections: Vec<_> = state.connections.iter().flatten().cloned().collect();
            let gone = state.proto.forget_remains(None);
            state.open -= gone;
            (connections, state.proto.drain_clients(), gone)
        };
        drop(incoming);
        self.on_gone(gone);
        let reason = TransportError::new(
            TransportErrorCode::INTERNAL_ERROR,
            "the endpoint's task has ended",
        );
        for connection in connections {
            connection.fail(ConnectionError::TransportError(reason.clone()));
        }
        self.common.incoming.notify_waiters();
        self.common.idle.notify_waiters();
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

    /// Lets the tasks see that the sockets changed.
    pub(crate) fn sockets_changed(&self) {
        let connections: Vec<_> = self.lock().connections.iter().flatten().cloned().collect();
        self.common.wake(self.shard);
        for connection in connections {
            connection.wake();
        }
    }
}
