//! The handles of a connection: on its way, and established; the work is done in its task.

mod datagrams;

use std::fmt;
use std::future::Future;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use mpquic_sched_core::{IntoSchedulerFactory, Learned};
use proto::{
    ConnectionError, ConnectionStats, Dir, FourTuple, PathError, PathId, PathStats, Side, StreamId,
    ThroughputForecast, VarInt,
};
use rustls::pki_types::CertificateDer;
use tokio::time::Instant;

use crate::connection_state::{ConnectionRef, Shared, Signal, State};
use crate::path::{OpenPath, Path, PathEvents};
use crate::path_manager::{Mesh, PathManager};
use crate::recv_stream::RecvStream;
use crate::send_stream::SendStream;
use crate::socket::LocalAddr;

/// What the handshake agreed on.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct HandshakeData {
    /// The application protocol (ALPN), if one was agreed on.
    pub protocol: Option<Vec<u8>>,
    /// The name that the client asked for (SNI); servers only.
    pub server_name: Option<String>,
}

/// A connection attempt: a future of the [`Connection`]. Dropping it abandons the attempt.
#[derive(Debug)]
#[must_use = "futures do nothing unless polled, and dropping this one gives the connection up"]
pub struct Connecting {
    connection: ConnectionRef,
    done: WaitConnected,
}

/// The wait for the handshake; boxed once per connection so that [`Connecting`] can be moved.
struct WaitConnected(Pin<Box<dyn Future<Output = Result<(), ConnectionError>> + Send + Sync>>);

impl fmt::Debug for WaitConnected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WaitConnected")
    }
}

impl Connecting {
    pub(crate) fn new(connection: ConnectionRef) -> Self {
        // Not a counted reference: it lives and dies with the one beside it.
        let shared = std::sync::Arc::clone(connection.shared());
        let wait = async move {
            let check = |state: &mut State| match &state.error {
                Some(error) => Some(Err(error.clone())),
                None => state.connected.then_some(Ok(())),
            };
            shared.wait_for(Signal::Connected, check).await
        };
        Self {
            connection,
            done: WaitConnected(Box::pin(wait)),
        }
    }

    /// Waits for what the handshake agreed on, which is known before the handshake is complete.
    ///
    /// # Errors
    ///
    /// If the handshake fails first.
    pub async fn handshake_data(&mut self) -> Result<HandshakeData, ConnectionError> {
        let check = |state: &mut State| match &state.error {
            Some(error) => Some(Err(error.clone())),
            None => state
                .handshake_data_ready
                .then(|| Ok(handshake_data(state))),
        };
        self.connection.wait_for(Signal::HandshakeData, check).await
    }

    /// The connection, before the handshake is complete, and a future that tells whether early data was accepted.
    ///
    /// # Clients: 0-RTT
    ///
    /// Possible if the client resumes a session with a server that takes early data, and if
    /// `enable_early_data` is set in its [`rustls::ClientConfig`], which keeps the sessions
    /// (`resumption`): connections whose [`ClientConfig`](crate::ClientConfig)s were made from the same one share
    /// them. Otherwise the attempt is given back.
    ///
    /// Streams can be opened and written at once, within the limits that the server had last time. From here on, the
    /// connection stays on the address that it began on: early data is not sent from several. The data leaves with
    /// the first packets, a round trip before the handshake is complete.
    ///
    /// **Early data can be replayed.** Who records the packets can send them again, and a server may act on
    /// them each time. So write only what is harmless when it is repeated, such as a request that reads, and
    /// wait for the future for everything else. Early data has no forward secrecy with regard to the
    /// ticket, either (RFC 9001 section 9.2, RFC 8446 section 8).
    ///
    /// If the server rejects early data, the future gives `false`, and it is as if nothing had been sent:
    /// operations on the streams opened before fail with `ZeroRttRejected`. Open new ones and write again.
    /// It gives `false`, too, if the handshake fails.
    ///
    /// # Servers: 0.5-RTT, and early data of clients
    ///
    /// Always possible. What is written before the handshake is complete goes to a client whose address is
    /// not validated, at most three times as much as came from it, and who may be anyone: a client
    /// certificate is not checked yet. The future gives `true` once the handshake is complete.
    ///
    /// Streams that a client opened with early data can be accepted: see [`RecvStream::is_0rtt`].
    ///
    /// # Errors
    ///
    /// The attempt itself, on clients without a session that allows early data.
    ///
    /// ```no_run
    /// # // no_run: tests/book runs it over two links
    /// # async fn run(endpoint: mpquic::Endpoint) -> Result<(), Box<dyn std::error::Error>> {
    /// let connecting = endpoint.connect("203.0.113.5:4433".parse()?, "example.com")?;
    /// let connection = match connecting.into_0rtt() {
    ///     Ok((connection, accepted)) => {
    ///         let (mut send, mut recv) = connection.open_bi().await?;
    ///         send.write_all(b"GET /").await?; // harmless when repeated
    ///         send.finish()?;
    ///         if accepted.await {
    ///             println!("{} bytes", recv.read_to_end(1 << 20).await?.len());
    ///         } else {
    ///             println!("rejected: to be asked again, on a new stream");
    ///         }
    ///         connection
    ///     }
    ///     Err(connecting) => connecting.await?, // no ticket: the full handshake
    /// };
    /// # Ok(()) }
    /// ```
    pub fn into_0rtt(self) -> Result<(Connection, ZeroRttAccepted), Self> {
        let possible = {
            let state = self.connection.lock();
            !state.proto.side().is_client() || state.proto.session().has_0rtt()
        };
        if !possible {
            return Err(self);
        }
        // What is written now belongs to this attempt, and leaves from one address.
        self.connection.lock().proto.end_race();
        let accepted = ZeroRttAccepted {
            shared: std::sync::Arc::clone(self.connection.shared()),
            done: self.done,
        };
        Ok((Connection(self.connection), accepted))
    }

    /// The peer's address: of several, the one that is tried first, or that has answered.
    pub fn remote_address(&self) -> SocketAddr {
        first_path(&self.connection).remote
    }

    /// Our IP, if known: not that of a client on a wildcard socket before the first answer.
    pub fn local_ip(&self) -> Option<IpAddr> {
        Some(first_path(&self.connection).local.ip()).filter(|ip| !ip.is_unspecified())
    }
}

impl Future for Connecting {
    type Output = Result<Connection, ConnectionError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let done = self.done.0.as_mut().poll(cx);
        done.map(|result| result.map(|()| Connection(self.connection.clone())))
    }
}

/// Tells, once the handshake is complete, whether the server accepted early data; from [`Connecting::into_0rtt`]. On a
/// server, whether the handshake was completed. Dropping it changes nothing.
#[must_use = "futures do nothing unless polled"]
pub struct ZeroRttAccepted {
    /// Not a counted reference: it does not keep the connection open.
    shared: std::sync::Arc<Shared>,
    done: WaitConnected,
}

impl Future for ZeroRttAccepted {
    type Output = bool;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<bool> {
        self.done.0.as_mut().poll(cx).map(|result| {
            let state = self.shared.lock();
            result.is_ok()
                && (!state.proto.side().is_client() || state.proto.session().accepted_0rtt())
        })
    }
}

impl fmt::Debug for ZeroRttAccepted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ZeroRttAccepted")
    }
}

/// The addresses of the oldest open path.
fn first_path(shared: &Shared) -> FourTuple {
    let state = shared.lock();
    let first = state.proto.paths().iter().next();
    first.map_or(shared.first_path, |path| path.network_path())
}

fn handshake_data(state: &State) -> HandshakeData {
    HandshakeData {
        protocol: state.proto.session().alpn().map(<[u8]>::to_vec),
        server_name: state.proto.session().server_name().map(str::to_owned),
    }
}

fn try_open(state: &mut State, dir: Dir) -> Option<Result<(StreamId, bool), ConnectionError>> {
    if let Some(error) = &state.error {
        return Some(Err(error.clone()));
    }
    let early = state.proto.side().is_client() && state.proto.is_handshaking();
    let id = state.proto.streams().open(dir);
    // Without one, the peer must hear that we are blocked.
    state.task.touched |= id.is_none();
    id.map(|id| Ok((id, early)))
}

fn try_accept(state: &mut State, dir: Dir) -> Option<Result<StreamId, ConnectionError>> {
    // The peer may have another one when this one is over, not now: there is nothing to be sent.
    match state.proto.streams().accept(dir) {
        Some(id) => Some(Ok(id)),
        None => state.error.clone().map(Err),
    }
}

/// A multipath QUIC connection. May be cloned to get another handle.
///
/// When all handles are dropped, those of streams and paths included, the connection is closed with
/// code 0. Closing discards data that is not delivered. To be sure that the peer has received
/// everything, let the side that receives last close, or wait for [`SendStream::stopped`].
///
/// ```
/// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/doc/pair.rs"));
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let Pair { client: connection, server, .. } = pair().await?;
/// # tokio::spawn(async move {
/// #     let (mut send, mut recv) = server.accept_bi().await.unwrap();
/// #     assert_eq!(recv.read_to_end(9).await.unwrap(), b"GET /");
/// #     send.write_all(b"hello").await.unwrap();
/// #     send.finish().unwrap();
/// #     server.closed().await;
/// # });
/// let (mut send, mut recv) = connection.open_bi().await?;
/// send.write_all(b"GET /").await?;
/// send.finish()?;
/// let answer = recv.read_to_end(1 << 20).await?;
/// assert_eq!(answer, b"hello");
/// println!("{} bytes over {} paths", answer.len(), connection.paths().len());
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct Connection(ConnectionRef);

impl Connection {
    // -- streams

    /// A new stream, and whether it was opened by a client before the handshake was complete.
    async fn open(&self, dir: Dir) -> Result<(StreamId, bool), ConnectionError> {
        let signal = Signal::available(dir);
        let opened = self.0.wait_for(signal, |state| try_open(state, dir)).await;
        if opened.is_ok() {
            // The next one to wait sees for itself whether there is more: if not, the connection knows that it
            // owes a signal.
            self.0.pass_on(signal);
        }
        opened
    }

    fn poll_open(
        &self,
        cx: &Context<'_>,
        dir: Dir,
    ) -> Poll<Result<(StreamId, bool), ConnectionError>> {
        self.0
            .poll_for(Signal::available(dir), cx, |state| try_open(state, dir))
    }

    /// Opens a stream to send on. Waits while the peer allows no more.
    ///
    /// The peer learns of it with the first data.
    ///
    /// # Errors
    ///
    /// If the connection is over.
    pub async fn open_uni(&self) -> Result<SendStream, ConnectionError> {
        let (id, early) = self.open(Dir::Uni).await?;
        Ok(SendStream::new(self.0.clone(), id, early))
    }

    /// Opens a stream to send and to receive on. Waits while the peer allows no more.
    ///
    /// The peer learns of it with the first data: write something before waiting for an answer.
    ///
    /// # Errors
    ///
    /// If the connection is over.
    pub async fn open_bi(&self) -> Result<(SendStream, RecvStream), ConnectionError> {
        let (id, early) = self.open(Dir::Bi).await?;
        Ok(self.both(id, early))
    }

    /// [`open_uni`](Self::open_uni) for code that polls. The task of `cx` is woken when the peer allows more streams; all
    /// tasks that polled are, so that with many of them waiting the future is the better choice.
    pub fn poll_open_uni(&self, cx: &mut Context<'_>) -> Poll<Result<SendStream, ConnectionError>> {
        self.poll_open(cx, Dir::Uni)
            .map_ok(|(id, early)| SendStream::new(self.0.clone(), id, early))
    }

    /// [`open_bi`](Self::open_bi) for code that polls; see [`poll_open_uni`](Self::poll_open_uni).
    pub fn poll_open_bi(
        &self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(SendStream, RecvStream), ConnectionError>> {
        self.poll_open(cx, Dir::Bi)
            .map_ok(|(id, early)| self.both(id, early))
    }

    async fn accept(&self, dir: Dir) -> Result<StreamId, ConnectionError> {
        let signal = Signal::incoming(dir);
        self.0
            .wait_listed(signal, |state| try_accept(state, dir))
            .await
    }

    fn poll_accept(&self, cx: &Context<'_>, dir: Dir) -> Poll<Result<StreamId, ConnectionError>> {
        self.0
            .poll_for(Signal::incoming(dir), cx, |state| try_accept(state, dir))
    }

    /// The next stream that the peer opened to send on.
    ///
    /// # Errors
    ///
    /// If the connection is over.
    pub async fn accept_uni(&self) -> Result<RecvStream, ConnectionError> {
        let id = self.accept(Dir::Uni).await?;
        Ok(RecvStream::new(self.0.clone(), id, false))
    }

    /// The next stream that the peer opened to send and to receive on.
    ///
    /// # Errors
    ///
    /// If the connection is over.
    pub async fn accept_bi(&self) -> Result<(SendStream, RecvStream), ConnectionError> {
        let id = self.accept(Dir::Bi).await?;
        Ok(self.both(id, false))
    }

    /// [`accept_uni`](Self::accept_uni) for code that polls. All tasks that polled are woken by the next stream.
    pub fn poll_accept_uni(
        &self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<RecvStream, ConnectionError>> {
        self.poll_accept(cx, Dir::Uni)
            .map_ok(|id| RecvStream::new(self.0.clone(), id, false))
    }

    /// [`accept_bi`](Self::accept_bi) for code that polls. All tasks that polled are woken by the next stream.
    pub fn poll_accept_bi(
        &self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(SendStream, RecvStream), ConnectionError>> {
        self.poll_accept(cx, Dir::Bi)
            .map_ok(|id| self.both(id, false))
    }

    /// Changes how many streams to send and to receive on the peer may have open at a time
    /// ([`TransportConfig::max_concurrent_bidi_streams`](crate::TransportConfig::max_concurrent_bidi_streams)). What it
    /// was promised before stays promised.
    #[doc(alias = "set_max_concurrent_bi_streams")]
    pub fn set_max_concurrent_bidi_streams(&self, count: u64) {
        self.change(|proto| proto.streams().set_max_concurrent(Dir::Bi, count));
    }

    /// The same for streams that only the peer sends on.
    pub fn set_max_concurrent_uni_streams(&self, count: u64) {
        self.change(|proto| proto.streams().set_max_concurrent(Dir::Uni, count));
    }

    /// Changes how many bytes may be received and not read, over all streams
    /// ([`TransportConfig::receive_window`](crate::TransportConfig::receive_window)). Credit that the peer has stays its
    /// own. The window is then at least what that of a new connection begins with, if this lets it.
    pub fn set_receive_window(&self, bytes: u64) {
        self.change(|proto| proto.streams().set_receive_window(bytes));
    }

    /// Changes how many bytes may be written and not acknowledged, over all streams
    /// ([`TransportConfig::send_window`](crate::TransportConfig::send_window)).
    pub fn set_send_window(&self, bytes: u64) {
        self.change(|proto| proto.streams().set_send_window(bytes));
    }

    fn change(&self, change: impl FnOnce(&mut proto::Connection)) {
        self.0.with(|state| {
            change(&mut state.proto);
            state.task.touched = true;
        });
    }

    fn both(&self, id: StreamId, early: bool) -> (SendStream, RecvStream) {
        (
            SendStream::new(self.0.clone(), id, early),
            RecvStream::new(self.0.clone(), id, early),
        )
    }

    // -- life

    /// Closes the connection at once, with a code and a reason for the peer's application. Waiting
    /// operations end with [`ConnectionError::LocallyClosed`].
    pub fn close(&self, code: VarInt, reason: &[u8]) {
        self.0.close(code, Bytes::copy_from_slice(reason));
    }

    /// Waits until the connection is over; returns why.
    pub async fn closed(&self) -> ConnectionError {
        self.0
            .wait_for(Signal::Closed, |state| state.error.clone())
            .await
    }

    /// Why the connection is over, if it is.
    pub fn close_reason(&self) -> Option<ConnectionError> {
        self.0.lock().error.clone()
    }

    /// Waits for the handshake to be confirmed (RFC 9001 section 4.1.2). Paths can be opened from here on, if not
    /// before ([`PathStart`](crate::PathStart)).
    ///
    /// # Errors
    ///
    /// If the connection is over.
    pub async fn handshake_confirmed(&self) -> Result<(), ConnectionError> {
        let check = |state: &mut State| match &state.error {
            Some(error) => Some(Err(error.clone())),
            None => state.proto.is_handshake_confirmed().then_some(Ok(())),
        };
        self.0.wait_for(Signal::Paths, check).await
    }

    // -- facts

    /// Client or server.
    pub fn side(&self) -> Side {
        self.0.lock().proto.side()
    }

    /// A number that identifies the connection: the same for all its handles, and different for
    /// every other connection that is alive.
    pub fn stable_id(&self) -> usize {
        std::sync::Arc::as_ptr(self.0.shared()) as usize
    }

    fn first_path(&self) -> FourTuple {
        first_path(&self.0)
    }

    /// The runtime on which the connection's task runs. Who reads and writes there stays on the same thread, if it has one:
    /// see [`EndpointBuilder::shards_on`](crate::EndpointBuilder::shards_on).
    pub fn runtime(&self) -> &tokio::runtime::Handle {
        &self.0.endpoint.runtime
    }

    /// The peer's address on the oldest open path.
    pub fn remote_address(&self) -> SocketAddr {
        self.first_path().remote
    }

    /// Our IP on the oldest open path, if known.
    pub fn local_ip(&self) -> Option<IpAddr> {
        Some(self.first_path().local.ip()).filter(|ip| !ip.is_unspecified())
    }

    /// The smallest smoothed RTT of the open paths; [`Path::stats`] has them all.
    pub fn rtt(&self) -> Option<Duration> {
        let state = self.0.lock();
        state.proto.paths().iter().map(|path| path.rtt()).min()
    }

    /// The application protocol (ALPN), if one was agreed on.
    pub fn alpn(&self) -> Option<Vec<u8>> {
        self.0.lock().proto.session().alpn().map(<[u8]>::to_vec)
    }

    /// Whether the TLS session is one of an earlier connection: no certificate was sent and checked. False
    /// until the handshake says so.
    pub fn is_resumed(&self) -> bool {
        self.0.lock().proto.session().is_resumed()
    }

    /// Whether the server accepted early data (0-RTT). On clients, false until the handshake is complete.
    pub fn accepted_0rtt(&self) -> bool {
        self.0.lock().proto.session().accepted_0rtt()
    }

    /// What the handshake agreed on.
    pub fn handshake_data(&self) -> HandshakeData {
        handshake_data(&self.0.lock())
    }

    /// The peer's certificate chain, leaf first, if it sent one.
    pub fn peer_identity(&self) -> Option<Vec<CertificateDer<'static>>> {
        let state = self.0.lock();
        let chain = state.proto.session().peer_certificates();
        chain.map(<[_]>::to_vec)
    }

    /// Fills `output` with keying material that only the two ends of this connection can derive
    /// (RFC 8446 section 7.5).
    ///
    /// # Errors
    ///
    /// If the handshake is not complete, or the output too long.
    pub fn export_keying_material(
        &self,
        output: &mut [u8],
        label: &[u8],
        context: &[u8],
    ) -> Result<(), rustls::Error> {
        self.0
            .lock()
            .proto
            .session()
            .export_keying_material(output, label, context)
    }

    /// Updates the packet keys now (RFC 9001 section 6). They are updated in time without this.
    pub fn force_key_update(&self) {
        self.0.with(|state| {
            state.proto.force_key_update(Instant::now().into_std());
            state.task.touched = true;
        });
    }

    /// Issues new connection IDs for all paths, and asks the peer to retire those that it has: for when the
    /// [generator](crate::ConnectionIdGenerator) makes other ones from now on. Does nothing before the handshake is complete,
    /// nor for paths of which the peer has not retired those of the last time.
    pub fn replace_connection_ids(&self) {
        self.0.with(|state| {
            state.proto.replace_connection_ids();
            state.task.touched = true;
        });
    }

    /// Sends a PING on every open path.
    pub fn ping(&self) {
        self.0.with(|state| {
            state.proto.ping();
            state.task.touched = true;
        });
    }

    /// The last addresses and figures of a path that was abandoned, for whoever hears of that late: those of the 256 paths
    /// that were abandoned last are kept.
    pub fn closed_path(&self, id: PathId) -> Option<(FourTuple, PathStats)> {
        self.0.lock().closed_path(id)
    }

    /// Figures of the connection, over all its paths.
    pub fn stats(&self) -> ConnectionStats {
        self.0.lock().proto.stats()
    }

    /// What the connection may be expected to carry, over all its paths, by what it carried lately.
    ///
    /// ```no_run
    /// # // no_run: tests/book runs it over two links
    /// # fn choose(connection: mpquic::Connection, bitrates: &[u64]) -> u64 {
    /// // The highest bitrate (in bits per second) that four of five quarters of a second would have carried.
    /// let safe = connection.forecast().receive_low.unwrap_or(0) * 8;
    /// let fits = bitrates.iter().copied().filter(|rate| *rate <= safe);
    /// fits.max().unwrap_or(bitrates[0])
    /// # }
    /// ```
    ///
    /// An encoder on the side that sends goes by what the paths deliver. Where it fills none of them, they are not known to
    /// carry more than it sends: it has to try.
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/doc/pair.rs"));
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let Pair { client: connection, .. } = pair().await?;
    /// /// The next bitrate of an encoder that encodes at `rate` now, both in bits per second; `waiting` bytes are not sent yet.
    /// fn target_rate(connection: &mpquic::Connection, rate: u64, waiting: u64) -> u64 {
    ///     match connection.forecast().send {
    ///         // More waits than the paths deliver in 50 ms: less than they deliver, until it is gone.
    ///         Some(send) if waiting * 20 > send => rate.min(send * 8 * 4 / 5),
    ///         _ => rate + rate / 20,
    ///     }
    /// }
    ///
    /// assert_eq!(target_rate(&connection, 2_000_000, 0), 2_100_000);
    /// # Ok(()) }
    /// ```
    pub fn forecast(&self) -> ThroughputForecast {
        self.0.lock().proto.forecast()
    }

    /// What the scheduler of this connection has learned so far; `None` from schedulers that do not
    /// learn. After the connection is over, its last state remains available as long as there is a handle.
    ///
    /// Each side schedules what it sends, so a client that downloads finds little here, and its server
    /// more. The call allocates and takes the connection's lock: use it for reports.
    ///
    /// ```no_run
    /// # // no_run: tests/book runs it over two links
    /// # async fn run(connection: mpquic::Connection) {
    /// connection.closed().await;
    /// if let Some(learned) = connection.learned() {
    ///     println!("{learned}"); // the stage, a line for each pair of paths or each arm
    /// }
    /// # }
    /// ```
    pub fn learned(&self) -> Option<Learned> {
        self.0.lock().proto.scheduler().learned()
    }

    /// Schedules what this side sends by another scheduler from now on: one of a registry's `factory`, or of a function or closure. It is told of the open
    /// paths and of the streams that are not delivered. Nothing that was sent is lost or sent again for it.
    ///
    /// Each direction schedules for itself: the peer's scheduler stays. What the old scheduler has learned goes with it, but for what
    /// it leaves in a memory. Does nothing once the connection is over.
    ///
    /// ```no_run
    /// # // no_run: tests/book runs it over two links
    /// # fn run(connection: mpquic::Connection) -> Result<(), Box<dyn std::error::Error>> {
    /// use mpquic::sched::{Ecf, Registry};
    ///
    /// connection.set_scheduler(Ecf::default);
    /// connection.set_scheduler(Registry::new().factory("redundant", &Default::default())?);
    /// # Ok(()) }
    /// ```
    pub fn set_scheduler<Kind>(&self, factory: impl IntoSchedulerFactory<Kind>) {
        let facts = self.0.lock().proto.scheduler().facts();
        // Without the lock: it is the application's code.
        let scheduler = factory.into_factory().make_for(&facts);
        self.0.with(|state| {
            let now = Instant::now().into_std();
            state.proto.set_scheduler(now, scheduler);
            state.task.touched = true;
        });
    }

    // -- paths

    /// Whether both sides speak multipath (RFC 10069).
    pub fn is_multipath(&self) -> bool {
        self.0.lock().proto.paths().is_multipath()
    }

    /// Opens a path from a local address to a remote one; clients only.
    ///
    /// `local` is an IP on one of the endpoint's sockets ([`open_path_from`](Self::open_path_from) takes one with a port); see
    /// [`Endpoint::add_socket`](crate::Endpoint::add_socket) for addresses that come up later. The
    /// returned future completes when the peer has answered on the path. While the handshake is not
    /// complete, or the peer has not issued the connection IDs that a further path needs, the future
    /// waits for that, for at most three seconds. A path that the peer refuses before the handshake is confirmed is
    /// asked for once more when it is.
    ///
    /// If the endpoint has several addresses and nobody chose a [`PathManager`], the connection opens a path from each by
    /// itself: who asks for one of these gets it, and another one between the same addresses if they ask again.
    ///
    /// ```
    /// # async fn run(connection: mpquic::Connection) -> Result<(), Box<dyn std::error::Error>> {
    /// let remote = connection.remote_address();
    /// let path = connection.open_path("10.64.3.9".parse()?, remote).await?;
    /// println!("path {} has an RTT of {:?}", path.id(), path.stats()?.rtt);
    /// # Ok(()) }
    /// ```
    pub fn open_path(&self, local: IpAddr, remote: SocketAddr) -> OpenPath {
        OpenPath::new(self.0.clone(), local.into(), remote)
    }

    /// The same from one of several sockets that have the same IP: `local` is an address with a port, or an IP.
    pub fn open_path_from(&self, local: impl Into<LocalAddr>, remote: SocketAddr) -> OpenPath {
        OpenPath::new(self.0.clone(), local.into(), remote)
    }

    /// An open path.
    ///
    /// # Errors
    ///
    /// If there is none with this ID.
    pub fn path(&self, id: PathId) -> Result<Path, PathError> {
        self.0.lock().proto.path(id)?;
        Ok(Path::new(self.0.clone(), id))
    }

    /// The open paths, oldest first.
    pub fn paths(&self) -> Vec<Path> {
        let ids: Vec<_> = self.0.lock().proto.paths().ids().collect();
        ids.into_iter()
            .map(|id| Path::new(self.0.clone(), id))
            .collect()
    }

    /// Events of paths from now on; [`paths`](Self::paths) has those that are already open.
    pub fn path_events(&self) -> PathEvents {
        // Subscribed first: a connection that ends in between has told it.
        let receiver = self.0.path_events();
        let over = self.0.lock().error.is_some();
        PathEvents::new(receiver, over)
    }

    /// Sets which paths this connection opens by itself from now on. Has no effect on a server.
    pub fn set_path_manager(&self, manager: impl Into<PathManager>) {
        let remote = self.first_path().remote;
        let manager = manager.into();
        self.0.with(|state| {
            if state.error.is_some() || !state.proto.side().is_client() {
                return;
            }
            state.mesh = match manager {
                PathManager::Manual => None,
                PathManager::FullMesh(mesh) => Some(Mesh::new(mesh, remote)),
            };
            state.task.touched = true;
        });
    }
}
