//! The application's calls about the connection, its streams and its datagrams; passes them on.

use std::time::Instant;

use bytes::Bytes;
use mpquic_sched_core::{Dir, StreamHints, StreamId, VarInt};
use rustls::pki_types::CertificateDer;

use super::{CloseFrame, Connection};
use crate::{
    ApplicationClose, ClosedStream, ConnectionError, FinishError, ReadError, SendDatagramError,
    WriteError,
};

impl Connection {
    /// Closes with the application's code and reason (RFC 9000 section 10.2). No effect on a
    /// connection that is closed already.
    pub fn close(&mut self, now: Instant, code: VarInt, reason: Bytes) {
        let close = CloseFrame::Application(ApplicationClose {
            error_code: code,
            reason,
        });
        self.start_closing(now, close, false);
    }

    /// Whether it is closing, draining or drained.
    pub fn is_closed(&self) -> bool {
        !self.state.is_alive()
    }

    /// Whether it is over: nothing to send, nothing to wait for.
    pub fn is_drained(&self) -> bool {
        self.state.is_drained()
    }

    /// Whether TLS is still under way.
    pub fn is_handshaking(&self) -> bool {
        self.state.is_handshaking()
    }

    /// RFC 9001 section 4.1.2: from here on, paths can be opened.
    pub fn is_handshake_confirmed(&self) -> bool {
        self.confirmed
    }

    /// Why it ended, if it did.
    pub fn lost_reason(&self) -> Option<&ConnectionError> {
        self.lost_reason.as_ref()
    }

    /// The protocol that ALPN chose.
    pub fn alpn(&self) -> Option<&[u8]> {
        self.handshake.alpn()
    }

    /// The server name that the client asked for; on servers.
    pub fn server_name(&self) -> Option<&str> {
        self.handshake.server_name()
    }

    /// The peer's certificate chain, leaf first, once TLS has it.
    pub fn peer_certificates(&self) -> Option<&[CertificateDer<'static>]> {
        self.handshake.peer_certificates()
    }

    /// Keying material for the application (RFC 8446 section 7.5).
    ///
    /// # Errors
    ///
    /// While the handshake is under way, or if `output` is longer than TLS can give.
    pub fn export_keying_material(
        &self,
        output: &mut [u8],
        label: &[u8],
        context: &[u8],
    ) -> Result<(), rustls::Error> {
        self.handshake
            .export_keying_material(output, label, context)
    }

    /// Starts a key update (RFC 9001 section 6), unless one is under way or it is too early.
    //= specs/rfc9001.txt#section-6.1
    //# An endpoint MUST NOT initiate a key update prior to having confirmed the handshake (Section
    //# 4.1.2).
    pub fn force_key_update(&mut self, now: Instant) {
        if self.confirmed
            && let Some(keys) = &mut self.handshake.one_rtt
        {
            keys.initiate_update(now);
        }
    }

    /// Sends a PING on every open path.
    pub fn ping(&mut self) {
        for path in self.paths.iter_mut() {
            path.request_ping();
        }
    }

    /// Opens a stream; `None` if the peer's limit forbids, then
    /// [`StreamEvent::Available`](crate::StreamEvent::Available) follows when it no longer does.
    pub fn open(&mut self, dir: Dir) -> Option<StreamId> {
        if self.is_closed() {
            return None;
        }
        self.streams.open(dir)
    }

    /// Takes the next stream that the peer opened.
    pub fn accept(&mut self, dir: Dir) -> Option<StreamId> {
        self.streams.accept(dir)
    }

    /// Writes as much as there is room for; returns how many bytes.
    ///
    /// # Errors
    ///
    /// See [`WriteError`].
    pub fn write(&mut self, id: StreamId, data: &[u8]) -> Result<usize, WriteError> {
        if self.is_closed() {
            return Err(WriteError::ClosedStream);
        }
        self.streams.write(id, data)
    }

    /// Like [`write`](Self::write) without copying: `chunk` is advanced past what was taken.
    ///
    /// # Errors
    ///
    /// See [`WriteError`].
    pub fn write_chunk(&mut self, id: StreamId, chunk: &mut Bytes) -> Result<usize, WriteError> {
        if self.is_closed() {
            return Err(WriteError::ClosedStream);
        }
        self.streams.write_chunk(id, chunk)
    }

    /// No more data will be written; what was written will still be delivered.
    ///
    /// # Errors
    ///
    /// See [`FinishError`].
    pub fn finish(&mut self, id: StreamId) -> Result<(), FinishError> {
        self.streams.finish(id)
    }

    /// Abandons sending: what was not delivered yet may never be.
    ///
    /// # Errors
    ///
    /// If the stream is unknown or over.
    pub fn reset(&mut self, id: StreamId, code: VarInt) -> Result<(), ClosedStream> {
        self.streams.reset(id, code)
    }

    /// The code with which the peer asked us to stop sending, if it did.
    ///
    /// # Errors
    ///
    /// If the stream is unknown or over.
    pub fn stopped(&self, id: StreamId) -> Result<Option<VarInt>, ClosedStream> {
        self.streams.stopped(id)
    }

    /// Streams of higher priority are sent first; equals take turns. Default 0.
    ///
    /// # Errors
    ///
    /// If the stream is unknown or over.
    pub fn set_priority(&mut self, id: StreamId, priority: i32) -> Result<(), ClosedStream> {
        self.streams.set_priority(id, priority)
    }

    /// The stream's priority.
    ///
    /// # Errors
    ///
    /// If the stream is unknown or over.
    pub fn priority(&self, id: StreamId) -> Result<i32, ClosedStream> {
        self.streams.priority(id)
    }

    /// Tells the scheduler what the application knows of the stream.
    ///
    /// # Errors
    ///
    /// If the stream is unknown or over.
    pub fn set_hints(&mut self, id: StreamId, hints: StreamHints) -> Result<(), ClosedStream> {
        self.streams.set_hints(id, hints)
    }

    /// Reads in order into `buf`; `Ok(None)` is the end of the stream.
    ///
    /// # Errors
    ///
    /// See [`ReadError`].
    pub fn read(&mut self, id: StreamId, buf: &mut [u8]) -> Result<Option<usize>, ReadError> {
        self.streams.read(id, buf)
    }

    /// Reads in order, at most `max` bytes; `Ok(None)` is the end of the stream.
    ///
    /// # Errors
    ///
    /// See [`ReadError`].
    pub fn read_chunk(&mut self, id: StreamId, max: usize) -> Result<Option<Bytes>, ReadError> {
        self.streams.read_chunk(id, max)
    }

    /// Asks the peer to stop sending; what was received and not read is dropped.
    ///
    /// # Errors
    ///
    /// If the stream is unknown or over.
    pub fn stop(&mut self, id: StreamId, code: VarInt) -> Result<(), ClosedStream> {
        self.streams.stop(id, code)
    }

    /// Queues a datagram; with `drop`, the oldest queued ones make room for it.
    ///
    /// # Errors
    ///
    /// See [`SendDatagramError`].
    pub fn send_datagram(&mut self, data: Bytes, drop: bool) -> Result<(), SendDatagramError> {
        let room = self.datagram_room();
        self.datagrams.send(data, drop, room)
    }

    /// Takes the oldest received datagram.
    pub fn recv_datagram(&mut self) -> Option<Bytes> {
        self.datagrams.recv()
    }

    /// The largest datagram that every open path carries now; `None` if the peer takes none, or
    /// before the handshake told.
    pub fn max_datagram_size(&self) -> Option<usize> {
        self.peer.max_datagram_frame_size?;
        self.datagrams.max_size(self.datagram_room())
    }

    /// Room for frames in a packet that fits every open path.
    pub(crate) fn datagram_room(&self) -> usize {
        let packet = self
            .paths
            .iter()
            .map(|path| usize::from(path.mtu()))
            .min()
            .unwrap_or(crate::packet::MIN_INITIAL_DATAGRAM);
        // Short header with the longest connection ID and packet number, and the tag.
        packet - (1 + 20 + 4 + crate::packet::TAG_LEN)
    }

    /// Free bytes in the buffer of datagrams to send.
    pub fn datagram_send_buffer_space(&self) -> usize {
        self.datagrams.send_buffer_space()
    }
}
