//! Handles of paths, the future that opens one, and the receiver of their events.

use std::fmt;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use proto::{
    ConnectionError, FourTuple, PathError, PathErrorCode, PathEvent, PathId, PathStats, PathStatus,
};
use tokio::sync::{broadcast, oneshot};
use tokio::time::Instant;

use crate::connection_state::{ConnectionRef, PathOutcome, Signal, State};
use crate::error::OpenPathError;
use crate::socket::LocalAddr;

/// How long to wait for the peer to allow a further path: three initial PTOs, as long as path
/// validation may take (RFC 9000 section 8.2.4).
const MAX_WAIT: Duration = Duration::from_secs(3);

/// An open path of a connection. May be cloned to get another handle; dropping it leaves the path
/// as it is.
///
/// ```
/// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/doc/pair.rs"));
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let Pair { client: connection, client_endpoint: endpoint, .. } = pair().await?;
/// use mpquic::PathStatus;
///
/// // The second socket's path is the expensive one: it is kept for when there is no other.
/// let path = connection.open_path_from(endpoint.local_addrs()[1], connection.remote_address()).await?;
/// path.set_status(PathStatus::Backup)?;
/// for path in connection.paths() {
///     let (addresses, stats) = (path.network_path()?, path.stats()?);
///     println!("{} from {}: {:?}, {:?}", path.id(), addresses.local, path.status()?, stats.rtt);
/// }
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct Path {
    connection: ConnectionRef,
    id: PathId,
}

impl Path {
    pub(crate) const fn new(connection: ConnectionRef, id: PathId) -> Self {
        Self { connection, id }
    }

    /// Its ID, the same on both sides.
    pub const fn id(&self) -> PathId {
        self.id
    }

    /// Abandons the path. Data in flight on it is sent again on other paths.
    ///
    /// [`PathErrorCode::APPLICATION_ABANDON_PATH`] keeps a [`FullMesh`](crate::FullMesh) from
    /// opening it again.
    ///
    /// # Errors
    ///
    /// If it is not open any more, or the last one.
    pub fn close(&self, code: PathErrorCode) -> Result<(), PathError> {
        self.connection.with(|state| {
            let now = Instant::now().into_std();
            state.task.touched = true;
            state.proto.path_mut(self.id).close(now, code)
        })
    }

    /// Sets how the path is to be used, and tells the peer.
    ///
    /// # Errors
    ///
    /// If it is not open any more, or the connection does not use multipath.
    pub fn set_status(&self, status: PathStatus) -> Result<(), PathError> {
        self.connection.with(|state| {
            state.task.touched = true;
            state.proto.path_mut(self.id).set_status(status)
        })
    }

    /// Sends no more than so many bytes per second on the path from now on, whatever the congestion controller would; `None`, which is the
    /// default, lifts that. It holds for packets that the path's congestion window limits, with their headers, and not for
    /// acknowledgements and probes; a burst of 10 ms, or of 10 packets, may come at once. The peer is not told, and sends as
    /// it likes: for its direction, it has to set the same.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/doc/pair.rs"));
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let Pair { client: connection, .. } = pair().await?;
    /// for path in connection.paths() {
    ///     path.set_max_rate(Some(1_250_000))?; // 10 Mbit/s
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// If it is not open any more.
    pub fn set_max_rate(&self, bytes_per_second: Option<u64>) -> Result<(), PathError> {
        self.connection.with(|state| {
            state.task.touched = true;
            let path = &mut state.proto.path_mut(self.id);
            path.set_max_rate(bytes_per_second)
        })
    }

    /// How we want the path to be used.
    ///
    /// # Errors
    ///
    /// If it is not open any more.
    pub fn status(&self) -> Result<PathStatus, PathError> {
        Ok(self.connection.lock().proto.path(self.id)?.status())
    }

    /// How the peer wants it to be used, if it has said so.
    ///
    /// # Errors
    ///
    /// If it is not open any more.
    pub fn remote_status(&self) -> Result<Option<PathStatus>, PathError> {
        Ok(self.connection.lock().proto.path(self.id)?.remote_status())
    }

    /// Its figures; the last ones, if it was abandoned.
    ///
    /// # Errors
    ///
    /// If it was abandoned so long ago that its figures are forgotten: those of the 256 paths that were abandoned last are
    /// kept, as many as an event may wait to be read.
    pub fn stats(&self) -> Result<PathStats, PathError> {
        let state = self.connection.lock();
        match state.proto.path(self.id) {
            Ok(path) => Ok(path.stats()),
            Err(gone) => {
                let closed = state.closed_path(self.id);
                closed.map(|(_, stats)| stats).ok_or(gone)
            }
        }
    }

    /// Its smoothed RTT.
    ///
    /// # Errors
    ///
    /// If its state is gone.
    pub fn rtt(&self) -> Result<Duration, PathError> {
        Ok(self.connection.lock().proto.path(self.id)?.rtt())
    }

    /// For how long the oldest packet has been waiting for its acknowledgement, of those that the peer must acknowledge;
    /// `None` if there is none in flight.
    ///
    /// # Errors
    ///
    /// If it is not open any more.
    pub fn oldest_unacked(&self) -> Result<Option<Duration>, PathError> {
        let state = self.connection.lock();
        let sent = state.proto.path(self.id)?.oldest_unacked();
        Ok(sent.map(|at| Instant::now().into_std().saturating_duration_since(at)))
    }

    /// How long ago the last packet came on it; `None` if none came since the handshake was complete. Acknowledgements of
    /// packets of one path may come on another.
    ///
    /// # Errors
    ///
    /// If it is not open any more.
    pub fn last_heard(&self) -> Result<Option<Duration>, PathError> {
        let state = self.connection.lock();
        let came = state.proto.path(self.id)?.last_heard();
        Ok(came.map(|at| Instant::now().into_std().saturating_duration_since(at)))
    }

    /// Tells by [`PathEvent::Silent`] when the path is silent: once the acknowledgement of a packet, of those that left after
    /// the newest acknowledged one, is late by `extra` on its smoothed RTT. [`PathEvent::Heard`] follows when one comes.
    /// `None` turns it off, which is the default.
    ///
    /// It is for applications that cannot wait for the transport, whose data goes elsewhere only after
    /// [`PathEvent::Suspect`]: one that sends on another path as well while this one is silent. The transport does nothing
    /// differently for it. Where nothing is sent, there is no silence: send something now and then to learn of it.
    ///
    /// A peer may hold the acknowledgement of a single packet back, by 25 ms unless it says otherwise, until it has a second
    /// one. Silence begins so much later then. [`AckFrequencyConfig`](crate::AckFrequencyConfig) with a threshold of 0 asks
    /// the peer to acknowledge each packet at once.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/doc/pair.rs"));
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let Pair { client: connection, server_endpoint, .. } = pair().await?;
    /// use std::time::Duration;
    /// use mpquic::PathEvent;
    ///
    /// let mut events = connection.path_events();
    /// for path in connection.paths() {
    ///     path.watch_silence(Some(Duration::from_millis(20)))?;
    /// }
    /// # drop(server_endpoint);
    /// connection.send_datagram("anyone?".into())?;
    /// # let silent = async {
    /// while let Some(event) = events.recv().await {
    ///     if let PathEvent::Silent { id, after } = event {
    ///         println!("path {id} has not answered for {after:?}");
    /// #       return;
    ///     }
    /// }
    /// # };
    /// # tokio::time::timeout(Duration::from_millis(100), silent).await.ok();
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// If it is not open any more.
    pub fn watch_silence(&self, extra: Option<Duration>) -> Result<(), PathError> {
        self.connection.with(|state| {
            state.task.touched = true;
            state.proto.path_mut(self.id).watch_silence(extra)
        })
    }

    /// Its addresses, as this side sees them now.
    ///
    /// # Errors
    ///
    /// If its state is gone.
    pub fn network_path(&self) -> Result<FourTuple, PathError> {
        Ok(self.connection.lock().proto.path(self.id)?.network_path())
    }
}

/// A path that is being opened: a future of the [`Path`], by
/// [`Connection::open_path`](crate::Connection::open_path).
///
/// If it is dropped after the path was requested, the path is opened all the same.
#[must_use = "futures do nothing unless polled"]
pub struct OpenPath(Pin<Box<dyn Future<Output = Result<Path, OpenPathError>> + Send>>);

impl OpenPath {
    pub(crate) fn new(connection: ConnectionRef, local: LocalAddr, remote: SocketAddr) -> Self {
        Self(Box::pin(open(connection, local, remote)))
    }
}

impl Future for OpenPath {
    type Output = Result<Path, OpenPathError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.as_mut().poll(cx)
    }
}

impl fmt::Debug for OpenPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OpenPath")
    }
}

async fn open(
    connection: ConnectionRef,
    local: LocalAddr,
    remote: SocketAddr,
) -> Result<Path, OpenPathError> {
    let network_path = connection
        .endpoint
        .sockets
        .path_from(local, remote)
        .ok_or(OpenPathError::NoLocalSocket { local, remote })?;
    let (first, early) = attempt(&connection, network_path).await?;
    match first {
        // Not every peer may like paths that begin before the handshake is confirmed.
        Err(OpenPathError::Abandoned { by_peer: true, .. }) if early => {
            attempt(&connection, network_path).await?.0
        }
        outcome => outcome,
    }
    .map(|id| Path::new(connection, id))
}

/// Opens a path and waits for what becomes of it. Also returns whether the handshake was not confirmed when it was
/// opened.
async fn attempt(
    connection: &ConnectionRef,
    network_path: FourTuple,
) -> Result<(Result<PathId, OpenPathError>, bool), OpenPathError> {
    let mut refusal = PathError::HandshakeIncomplete;
    let attempt = connection.wait_for(Signal::Paths, |state| {
        match try_open(state, network_path) {
            // These pass: an event comes when it is worth another try.
            Err(OpenPathError::Path(
                error @ (PathError::HandshakeIncomplete
                | PathError::NoPathIdLeft { .. }
                | PathError::NoCidAvailable { .. }),
            )) => {
                refusal = error;
                None
            }
            result => Some(result),
        }
    });
    let waited = tokio::time::timeout(MAX_WAIT, attempt).await;
    let (id, early, outcome) = waited.unwrap_or(Err(refusal.into()))?;
    match outcome.await {
        Ok(Ok(())) => Ok((Ok(id), early)),
        Ok(Err((error_code, by_peer))) => {
            let abandoned = OpenPathError::Abandoned {
                error_code,
                by_peer,
            };
            Ok((Err(abandoned), early))
        }
        // The connection ended and let go of all who wait.
        Err(_) => {
            let reason = connection.lock().error.clone();
            Err(reason.unwrap_or(ConnectionError::LocallyClosed).into())
        }
    }
}

fn try_open(
    state: &mut State,
    network_path: FourTuple,
) -> Result<(PathId, bool, oneshot::Receiver<PathOutcome>), OpenPathError> {
    if let Some(error) = &state.error {
        return Err(error.clone().into());
    }
    let (sender, receiver) = oneshot::channel();
    let early = !state.proto.is_handshake_confirmed();
    let taken = state
        .mesh
        .as_mut()
        .and_then(|mesh| mesh.take_opened(&network_path));
    if let Some((id, opened)) = taken {
        if opened {
            // The receiver is here.
            let _ = sender.send(Ok(()));
        } else {
            state.opening.insert(id, sender);
        }
        return Ok((id, early, receiver));
    }
    // Whether it opens or is blocked, there is something to tell the peer.
    state.task.touched = true;
    let id = state
        .proto
        .open_path(Instant::now().into_std(), network_path)?;
    // Under the same hold of the mutex: the outcome cannot come before.
    state.opening.insert(id, sender);
    Ok((id, early, receiver))
}

/// The events of a connection's paths, in order; by
/// [`Connection::path_events`](crate::Connection::path_events).
///
/// ```no_run
/// # // no_run: tests/book runs it over two links
/// # async fn run(connection: mpquic::Connection) {
/// use mpquic::PathEvent;
///
/// let mut events = connection.path_events();
/// while let Some(event) = events.recv().await {
///     if let PathEvent::Abandoned { id, error_code, .. } = event {
///         println!("path {id} is gone: {error_code}");
///     }
/// }
/// # }
/// ```
#[derive(Debug)]
pub struct PathEvents {
    receiver: broadcast::Receiver<Option<PathEvent>>,
    over: bool,
    missed: u64,
}

impl PathEvents {
    pub(crate) const fn new(receiver: broadcast::Receiver<Option<PathEvent>>, over: bool) -> Self {
        Self {
            receiver,
            over,
            missed: 0,
        }
    }

    /// The next event; `None` once the connection is over. Cancel-safe.
    pub async fn recv(&mut self) -> Option<PathEvent> {
        while !self.over {
            match self.receiver.recv().await {
                Ok(Some(event)) => return Some(event),
                Ok(None) | Err(broadcast::error::RecvError::Closed) => self.over = true,
                Err(broadcast::error::RecvError::Lagged(count)) => {
                    self.missed = self.missed.saturating_add(count);
                }
            }
        }
        None
    }

    /// The next event if there is one, without waiting.
    pub fn try_recv(&mut self) -> Option<PathEvent> {
        while !self.over {
            match self.receiver.try_recv() {
                Ok(Some(event)) => return Some(event),
                Ok(None) | Err(broadcast::error::TryRecvError::Closed) => self.over = true,
                Err(broadcast::error::TryRecvError::Empty) => return None,
                Err(broadcast::error::TryRecvError::Lagged(count)) => {
                    self.missed = self.missed.saturating_add(count);
                }
            }
        }
        None
    }

    /// How many events were missed because they came too fast. If it rises, look at
    /// [`Connection::paths`](crate::Connection::paths).
    pub const fn missed(&self) -> u64 {
        self.missed
    }
}
