//! One connection: glue between its parts; no part calls back.

mod event;

pub use event::{Event, PathEvent};

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use mpquic_sched::{PathStatus, StreamHints};
use quinn_proto::{ConnectionId, Dir, Side, StreamId, VarInt};
use rand::rngs::StdRng;

use crate::cid::ResetKey;
use crate::{
    ClientConfig, ClosedStream, ConnectError, ConnectionError, ConnectionEvent, ConnectionStats,
    EndpointConfig, EndpointEvent, FinishError, FourTuple, PathError, PathErrorCode, PathId,
    PathStats, ReadError, SendDatagramError, ServerConfig, Transmit, WriteError,
};

/// One connection.
pub struct Connection {}

impl Connection {
    /// A client's connection, with its first flight ready to be sent.
    pub(crate) fn new_client(
        _now: Instant,
        _config: ClientConfig,
        _endpoint: &Arc<EndpointConfig>,
        _network_path: FourTuple,
        _server_name: &str,
        _rng: StdRng,
        _reset_key: Arc<ResetKey>,
    ) -> Result<Self, ConnectError> {
        todo!()
    }
    /// A server's connection, which has seen no packet yet.
    pub(crate) fn new_server(
        _now: Instant,
        _config: &Arc<ServerConfig>,
        _endpoint: &Arc<EndpointConfig>,
        _network_path: FourTuple,
        _original_dcid: ConnectionId,
        _client_scid: ConnectionId,
        _version: u32,
        _rng: StdRng,
        _reset_key: Arc<ResetKey>,
    ) -> Self {
        todo!()
    }
    /// Writes datagrams to send to the end of `buf`, at most `max_datagrams` of one path at once.
    pub fn poll_transmit(
        &mut self,
        _now: Instant,
        _max_datagrams: usize,
        _buf: &mut Vec<u8>,
    ) -> Option<Transmit> {
        todo!()
    }
    /// When to call [`handle_timeout`](Self::handle_timeout).
    pub fn poll_timeout(&mut self) -> Option<Instant> {
        todo!()
    }
    /// The time of [`poll_timeout`](Self::poll_timeout) has come.
    pub fn handle_timeout(&mut self, _now: Instant) {
        todo!()
    }
    /// Takes in a datagram from the endpoint.
    pub fn handle_event(&mut self, _event: ConnectionEvent) {
        todo!()
    }
    /// What the endpoint must know; drain it before each transmit.
    pub fn poll_endpoint_events(&mut self) -> Option<EndpointEvent> {
        todo!()
    }
    /// What the application may want to know.
    pub fn poll(&mut self) -> Option<Event> {
        todo!()
    }

    // -- life
    /// Closes with the application's code and reason.
    pub fn close(&mut self, _now: Instant, _code: VarInt, _reason: Bytes) {
        todo!()
    }
    /// Closing, draining or drained.
    pub fn is_closed(&self) -> bool {
        todo!()
    }
    /// Over, nothing to send or wait for.
    pub fn is_drained(&self) -> bool {
        todo!()
    }
    /// TLS still under way.
    pub fn is_handshaking(&self) -> bool {
        todo!()
    }
    /// RFC 9001 section 4.1.2.
    pub fn is_handshake_confirmed(&self) -> bool {
        todo!()
    }
    /// Client or server.
    pub fn side(&self) -> Side {
        todo!()
    }
    /// Negotiated ALPN protocol.
    pub fn alpn(&self) -> Option<&[u8]> {
        todo!()
    }
    /// SNI the client sent (server side).
    pub fn server_name(&self) -> Option<&str> {
        todo!()
    }
    /// The peer's certificate chain.
    pub fn peer_certificates(&self) -> Option<&[rustls::pki_types::CertificateDer<'static>]> {
        todo!()
    }
    /// RFC 5705 / 8446 §7.5 exporter.
    pub fn export_keying_material(
        &self,
        _output: &mut [u8],
        _label: &[u8],
        _context: &[u8],
    ) -> Result<(), rustls::Error> {
        todo!()
    }
    /// Begin a key update (RFC 9001 §6).
    pub fn force_key_update(&mut self, _now: Instant) {
        todo!()
    }
    /// Sends a PING on every open path.
    pub fn ping(&mut self) {
        todo!()
    }
    /// Figures of the whole connection.
    pub fn stats(&self) -> ConnectionStats {
        todo!()
    }

    // -- streams
    /// Opens a stream, `None` if the peer's limit forbids (an `Available` event follows).
    pub fn open(&mut self, _dir: Dir) -> Option<StreamId> {
        todo!()
    }
    /// Takes the next stream that the peer opened.
    pub fn accept(&mut self, _dir: Dir) -> Option<StreamId> {
        todo!()
    }
    /// Writes what fits.
    pub fn write(&mut self, _id: StreamId, _data: &[u8]) -> Result<usize, WriteError> {
        todo!()
    }
    /// Writes what fits without copying; `chunk` is advanced.
    pub fn write_chunk(&mut self, _id: StreamId, _chunk: &mut Bytes) -> Result<usize, WriteError> {
        todo!()
    }
    /// No more data will be written.
    pub fn finish(&mut self, _id: StreamId) -> Result<(), FinishError> {
        todo!()
    }
    /// Abandons sending.
    pub fn reset(&mut self, _id: StreamId, _code: VarInt) -> Result<(), ClosedStream> {
        todo!()
    }
    /// The peer's STOP_SENDING code, if it came.
    pub fn stopped(&self, _id: StreamId) -> Result<Option<VarInt>, ClosedStream> {
        todo!()
    }
    /// Higher goes first.
    pub fn set_priority(&mut self, _id: StreamId, _priority: i32) -> Result<(), ClosedStream> {
        todo!()
    }
    /// Current priority.
    pub fn priority(&self, _id: StreamId) -> Result<i32, ClosedStream> {
        todo!()
    }
    /// Tells the scheduler about the stream.
    pub fn set_hints(&mut self, _id: StreamId, _hints: StreamHints) -> Result<(), ClosedStream> {
        todo!()
    }
    /// Reads in order; `Ok(None)` is the end.
    pub fn read(&mut self, _id: StreamId, _buf: &mut [u8]) -> Result<Option<usize>, ReadError> {
        todo!()
    }
    /// Reads in order; `Ok(None)` is the end.
    pub fn read_chunk(&mut self, _id: StreamId, _max: usize) -> Result<Option<Bytes>, ReadError> {
        todo!()
    }
    /// Asks the peer to stop sending; unread data is dropped.
    pub fn stop(&mut self, _id: StreamId, _code: VarInt) -> Result<(), ClosedStream> {
        todo!()
    }

    // -- datagrams
    /// Queues a datagram; with `drop`, the oldest queued ones make room.
    pub fn send_datagram(&mut self, _data: Bytes, _drop: bool) -> Result<(), SendDatagramError> {
        todo!()
    }
    /// The oldest received datagram.
    pub fn recv_datagram(&mut self) -> Option<Bytes> {
        todo!()
    }
    /// Largest datagram now; `None` if the peer takes none.
    pub fn max_datagram_size(&self) -> Option<usize> {
        todo!()
    }
    /// Free bytes of the send buffer.
    pub fn datagram_send_buffer_space(&self) -> usize {
        todo!()
    }

    // -- paths
    /// Whether RFC 10069 was negotiated.
    pub fn is_multipath(&self) -> bool {
        todo!()
    }
    /// Opens a path (client only). `PathEvent::Opened` or `PathEvent::Abandoned` follows.
    pub fn open_path(&mut self, _now: Instant, _path: FourTuple) -> Result<PathId, PathError> {
        todo!()
    }
    /// Abandons a path.
    pub fn close_path(
        &mut self,
        _now: Instant,
        _id: PathId,
        _code: PathErrorCode,
    ) -> Result<(), PathError> {
        todo!()
    }
    /// Tells the peer our preference, and takes it for our own sending too.
    pub fn set_path_status(&mut self, _id: PathId, _status: PathStatus) -> Result<(), PathError> {
        todo!()
    }
    /// Our status of a path and the peer's, if it told.
    pub fn path_status(&self, _id: PathId) -> Result<(PathStatus, Option<PathStatus>), PathError> {
        todo!()
    }
    /// IDs of the open paths (validated or not), ascending.
    pub fn paths(&self) -> impl Iterator<Item = PathId> + '_ {
        std::iter::empty()
    }
    /// Its addresses.
    pub fn network_path(&self, _id: PathId) -> Result<FourTuple, PathError> {
        todo!()
    }
    /// Its figures.
    pub fn path_stats(&self, _id: PathId) -> Result<PathStats, PathError> {
        todo!()
    }
    /// The RTT estimate of a path.
    pub fn rtt(&self, _id: PathId) -> Result<Duration, PathError> {
        todo!()
    }
    #[doc(hidden)]
    pub fn lost_reason(&self) -> Option<&ConnectionError> {
        todo!()
    }
}
