//! The application's calls about the connection, its streams and its datagrams; passes them on.

use std::time::Instant;

use bytes::Bytes;
use mpquic_sched_core::{Dir, PathSet, StreamHints, StreamId, VarInt};
use rustls::pki_types::CertificateDer;

use super::Connection;
use crate::closing::CloseFrame;
use crate::config::MIN_WINDOW;
use crate::datagram::Route;
use crate::{
    ApplicationClose, Chunk, ClosedStream, ConnectionError, DatagramOptions, FinishError,
    ReadError, SendDatagramError, ThroughputForecast, WriteError,
};

impl Connection {
    /// Closes the connection with the application's code and reason (RFC 9000 section 10.2). Does
    /// nothing if it is closed already.
    pub fn close(&mut self, now: Instant, code: VarInt, reason: Bytes) {
        let close = CloseFrame::Application(ApplicationClose {
            error_code: code,
            reason,
        });
        self.with_race(|race, own| race.give_up(own, now));
        self.start_closing(now, close, false);
    }

    /// Whether the connection is closing, draining or drained.
    pub fn is_closed(&self) -> bool {
        !self.state.is_alive()
    }

    /// Whether the connection is over: it has nothing to send and nothing to wait for.
    pub fn is_drained(&self) -> bool {
        self.state.is_drained()
    }

    /// Whether the TLS handshake is incomplete.
    pub fn is_handshaking(&self) -> bool {
        self.state.is_handshaking()
    }

    /// Whether the handshake is confirmed (RFC 9001 section 4.1.2).
    pub fn is_handshake_confirmed(&self) -> bool {
        self.handshake.is_confirmed()
    }

    /// Why the connection ended, if it has.
    pub fn lost_reason(&self) -> Option<&ConnectionError> {
        self.state.lost_reason()
    }

    /// The application protocol that ALPN selected.
    pub fn alpn(&self) -> Option<&[u8]> {
        self.handshake.session().alpn()
    }

    /// The server name that the client sent. `None` on clients.
    pub fn server_name(&self) -> Option<&str> {
        self.handshake.session().server_name()
    }

    /// The peer's certificate chain, leaf first, once it was received.
    pub fn peer_certificates(&self) -> Option<&[CertificateDer<'static>]> {
        self.handshake.session().peer_certificates()
    }

    /// Fills `output` with keying material for the application (RFC 8446 section 7.5).
    ///
    /// # Errors
    ///
    /// If the handshake is incomplete, or `output` is longer than TLS allows.
    pub fn export_keying_material(
        &self,
        output: &mut [u8],
        label: &[u8],
        context: &[u8],
    ) -> Result<(), rustls::Error> {
        self.handshake
            .session()
            .export_keying_material(output, label, context)
    }

    /// Starts a key update (RFC 9001 section 6). Does nothing if one is in progress or if it is too
    /// early.
    //= specs/rfc9001.txt#section-6.1
    //# An endpoint MUST NOT initiate a key update prior to having confirmed the handshake (Section
    //# 4.1.2).
    pub fn force_key_update(&mut self, now: Instant) {
        if self.handshake.is_confirmed()
            && let Some(keys) = self.handshake.one_rtt_mut()
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

    /// Opens a stream. Returns `None` if the peer's stream limit is reached;
    /// [`StreamEvent::Available`](crate::StreamEvent::Available) is emitted when the limit rises.
    pub fn open(&mut self, dir: Dir) -> Option<StreamId> {
        if self.is_closed() {
            return None;
        }
        self.data.streams_mut().open(dir)
    }

    /// Changes how many streams of this direction the peer may have open at a time
    /// ([`TransportConfig::max_concurrent_bidi_streams`](crate::TransportConfig::max_concurrent_bidi_streams)). What it
    /// was promised before stays promised (RFC 9000 section 4.6).
    pub fn set_max_concurrent_streams(&mut self, dir: Dir, count: u64) {
        self.data.streams_mut().set_max_concurrent(dir, count);
    }

    /// Changes how many bytes may be received and not read, over all streams
    /// ([`TransportConfig::receive_window`](crate::TransportConfig::receive_window)). Credit that the peer has stays its
    /// own (RFC 9000 section 4.1).
    pub fn set_receive_window(&mut self, bytes: u64) {
        self.data
            .streams_mut()
            .set_receive_window(bytes.max(MIN_WINDOW));
    }

    /// Changes how many bytes may be written and not acknowledged, over all streams
    /// ([`TransportConfig::send_window`](crate::TransportConfig::send_window)).
    pub fn set_send_window(&mut self, bytes: u64) {
        self.data
            .streams_mut()
            .set_send_window(bytes.max(MIN_WINDOW));
    }

    /// What the connection may be expected to carry: by what it carried lately.
    pub fn forecast(&self) -> ThroughputForecast {
        let usable = self.paths.iter().filter(|path| !path.is_suspect());
        let rates = usable.map(|path| path.stats(self.paths.controller()).delivery_rate);
        let send: u64 = rates.sum();
        let (receive, receive_low) = self.receive_rate.forecast();
        ThroughputForecast {
            receive,
            receive_low,
            send: (send > 0).then_some(send),
        }
    }

    /// Accepts the next stream that the peer opened.
    pub fn accept(&mut self, dir: Dir) -> Option<StreamId> {
        self.data.streams_mut().accept(dir)
    }

    /// Writes as much of `data` as fits. Returns how many bytes were written.
    ///
    /// # Errors
    ///
    /// See [`WriteError`].
    pub fn write(&mut self, id: StreamId, data: &[u8]) -> Result<usize, WriteError> {
        if self.is_closed() {
            return Err(WriteError::ClosedStream);
        }
        self.data.streams_mut().write(id, data)
    }

    /// Writes as much of `chunk` as fits, without copying it. Advances `chunk` past the written bytes.
    ///
    /// # Errors
    ///
    /// See [`WriteError`].
    pub fn write_chunk(&mut self, id: StreamId, chunk: &mut Bytes) -> Result<usize, WriteError> {
        if self.is_closed() {
            return Err(WriteError::ClosedStream);
        }
        self.data.streams_mut().write_chunk(id, chunk)
    }

    /// Ends the stream: no more data will be written. Written data is still delivered.
    ///
    /// # Errors
    ///
    /// See [`FinishError`].
    pub fn finish(&mut self, id: StreamId) -> Result<(), FinishError> {
        self.data.streams_mut().finish(id)
    }

    /// Resets the stream: data that was not delivered yet is no longer sent (RFC 9000 section 3.1).
    ///
    /// # Errors
    ///
    /// If the stream is unknown or closed.
    pub fn reset(&mut self, id: StreamId, code: VarInt) -> Result<(), ClosedStream> {
        self.data.streams_mut().reset(id, code)
    }

    /// The code with which the peer asked to stop sending, if it has.
    ///
    /// # Errors
    ///
    /// If the stream is unknown or closed.
    pub fn stopped(&self, id: StreamId) -> Result<Option<VarInt>, ClosedStream> {
        self.data.streams().stopped(id)
    }

    /// Sets the priority. Streams of higher priority are sent first; streams of equal priority take
    /// turns. Default 0.
    ///
    /// # Errors
    ///
    /// If the stream is unknown or closed.
    pub fn set_priority(&mut self, id: StreamId, priority: i32) -> Result<(), ClosedStream> {
        self.data.streams_mut().set_priority(id, priority)
    }

    /// The stream's priority.
    ///
    /// # Errors
    ///
    /// If the stream is unknown or closed.
    pub fn priority(&self, id: StreamId) -> Result<i32, ClosedStream> {
        self.data.streams().priority(id)
    }

    /// Tells the scheduler what the application knows of the stream.
    ///
    /// # Errors
    ///
    /// If the stream is unknown or closed.
    pub fn set_hints(&mut self, id: StreamId, hints: StreamHints) -> Result<(), ClosedStream> {
        self.data.streams_mut().set_hints(id, hints)
    }

    /// Reads the next bytes into `buf`. `Ok(None)` is the end of the stream.
    ///
    /// # Errors
    ///
    /// See [`ReadError`].
    pub fn read(&mut self, id: StreamId, buf: &mut [u8]) -> Result<Option<usize>, ReadError> {
        self.data.streams_mut().read(id, buf)
    }

    /// Reads the next bytes without copying them, at most `max`. `Ok(None)` is the end of the stream.
    ///
    /// # Errors
    ///
    /// See [`ReadError`].
    pub fn read_chunk(&mut self, id: StreamId, max: usize) -> Result<Option<Bytes>, ReadError> {
        self.data.streams_mut().read_chunk(id, max)
    }

    /// Reads data as soon as it is here, whatever is missing before it: up to `max` bytes (0 counts as 1) that follow each
    /// other, the lowest that are here, and where they begin. Each byte comes once. `Ok(None)` is the end of the stream:
    /// all of it was read. From the first call on, the stream can be read in no other way.
    ///
    /// # Errors
    ///
    /// See [`ReadError`].
    pub fn read_unordered(&mut self, id: StreamId, max: usize) -> Result<Option<Chunk>, ReadError> {
        self.data.streams_mut().read_unordered(id, max)
    }

    /// Asks the peer to stop sending. Unread data is dropped.
    ///
    /// # Errors
    ///
    /// If the stream is unknown or closed.
    pub fn stop(&mut self, id: StreamId, code: VarInt) -> Result<(), ClosedStream> {
        self.data.streams_mut().stop(id, code)
    }

    /// Queues a datagram. With `drop`, the oldest queued datagrams are dropped if the buffer is full.
    ///
    /// # Errors
    ///
    /// See [`SendDatagramError`].
    pub fn send_datagram(&mut self, data: Bytes, drop: bool) -> Result<(), SendDatagramError> {
        self.send_datagram_with(data, DatagramOptions::new(), drop)
    }

    /// Queues a datagram that goes where the options say. With `drop`, the oldest queued datagrams are dropped if the
    /// buffer is full: those of the path, or of the scheduler's queue, that hold most of it.
    ///
    /// # Errors
    ///
    /// See [`SendDatagramError`].
    pub fn send_datagram_with(
        &mut self,
        data: Bytes,
        options: DatagramOptions,
        drop: bool,
    ) -> Result<(), SendDatagramError> {
        let paths = match options.route {
            Route::Scheduled => None,
            Route::Path(id) => {
                let path = self.paths.get(id);
                let path = path.ok_or(SendDatagramError::PathNotOpen)?;
                Some(PathSet::only(path.index))
            }
            Route::AllPaths => Some(self.paths.best()),
        };
        let room = self.datagram_room();
        self.data
            .datagrams_mut()
            .send(data, paths, options.deadline, drop, room)
    }

    /// Returns the oldest received datagram, and removes it.
    pub fn recv_datagram(&mut self) -> Option<Bytes> {
        self.data.datagrams_mut().recv()
    }

    /// The size of the largest datagram that fits every open path. `None` if the peer does not accept
    /// datagrams, or if the handshake has not told yet.
    pub fn max_datagram_size(&self) -> Option<usize> {
        self.peer.max_datagram_frame_size?;
        self.data.datagrams().max_size(self.datagram_room())
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
        let short = 1 + 20 + 4 + crate::packet::TAG_LEN;
        // Long header of 0-RTT packets: version, another connection ID, lengths.
        let long = if self.side.is_client()
            && self.state.is_handshaking()
            && self.handshake.has_early_keys()
        {
            4 + 1 + 1 + 20 + 2
        } else {
            0
        };
        packet - (short + long)
    }

    /// Free bytes in the buffer of datagrams to send.
    pub fn datagram_send_buffer_space(&self) -> usize {
        self.data.datagrams().send_buffer_space()
    }
}
