//! What an application does with a connection's streams and datagrams: handles that borrow the connection.

use bytes::Bytes;
use mpquic_sched_core::{ConnectionFacts, Dir, Learned, PathSet, StreamHints, StreamId, VarInt};
use mpquic_wire::packet::{MIN_INITIAL_DATAGRAM, TAG_LEN};

use super::DataPlane;
use crate::config::MIN_WINDOW;
use crate::datagram::Route;
use crate::path::{Path, Paths};
use crate::{
    Chunk, ClosedStream, DatagramFate, DatagramOptions, FinishError, ReadError, SendDatagramError,
    WriteError,
};

/// A connection's streams as a whole: which begin, and how much they may hold. Of
/// [`Connection::streams`](crate::Connection::streams).
pub struct Streams<'a> {
    data: &'a mut DataPlane,
    closed: bool,
}

/// The half of a stream that we write. Of [`Connection::send_stream`](crate::Connection::send_stream).
pub struct SendStream<'a> {
    data: &'a mut DataPlane,
    closed: bool,
    id: StreamId,
}

/// The half of a stream that we read. Of [`Connection::recv_stream`](crate::Connection::recv_stream).
pub struct RecvStream<'a> {
    data: &'a mut DataPlane,
    id: StreamId,
}

/// A connection's datagrams (RFC 9221). Of [`Connection::datagrams`](crate::Connection::datagrams).
pub struct Datagrams<'a> {
    data: &'a mut DataPlane,
    paths: &'a Paths,
    early: bool,
}

/// A connection's scheduler. Of [`Connection::scheduler`](crate::Connection::scheduler).
#[derive(Clone, Copy)]
pub struct SchedulerRef<'a> {
    data: &'a DataPlane,
    paths: &'a Paths,
}

impl DataPlane {
    pub(crate) fn scheduler_handle<'a>(&'a self, paths: &'a Paths) -> SchedulerRef<'a> {
        SchedulerRef { data: self, paths }
    }

    /// `closed`: no stream can be opened or written any more.
    pub(crate) fn streams_handle(&mut self, closed: bool) -> Streams<'_> {
        Streams { data: self, closed }
    }

    pub(crate) fn send_stream(&mut self, id: StreamId, closed: bool) -> SendStream<'_> {
        SendStream {
            data: self,
            closed,
            id,
        }
    }

    pub(crate) fn recv_stream(&mut self, id: StreamId) -> RecvStream<'_> {
        RecvStream { data: self, id }
    }

    /// `early`: they leave in 0-RTT packets.
    pub(crate) fn datagrams_handle<'a>(
        &'a mut self,
        paths: &'a Paths,
        early: bool,
    ) -> Datagrams<'a> {
        Datagrams {
            data: self,
            paths,
            early,
        }
    }
}

impl SchedulerRef<'_> {
    /// What it is called ([`Scheduler::name`](mpquic_sched_core::Scheduler::name)).
    pub fn name(self) -> &'static str {
        self.data.schedule.name()
    }

    /// What it has learned, if it learns. Allocates.
    pub fn learned(self) -> Option<Learned> {
        self.data.schedule.learned()
    }

    /// What a factory of schedulers is told of the connection.
    pub fn facts(self) -> ConnectionFacts {
        self.paths.facts()
    }
}

impl Streams<'_> {
    /// Opens a stream. Returns `None` if the peer's stream limit is reached;
    /// [`StreamEvent::Available`](crate::StreamEvent::Available) is emitted when the limit rises.
    pub fn open(&mut self, dir: Dir) -> Option<StreamId> {
        if self.closed {
            return None;
        }
        self.data.streams.open(dir)
    }

    /// Accepts the next stream that the peer opened.
    pub fn accept(&mut self, dir: Dir) -> Option<StreamId> {
        self.data.streams.accept(dir)
    }

    /// Changes how many streams of this direction the peer may have open at a time
    /// ([`TransportConfig::max_concurrent_bidi_streams`](crate::TransportConfig::max_concurrent_bidi_streams)). What it
    /// was promised before stays promised (RFC 9000 section 4.6).
    pub fn set_max_concurrent(&mut self, dir: Dir, count: u64) {
        self.data.streams.set_max_concurrent(dir, count);
    }

    /// Changes how many bytes may be received and not read, over all streams
    /// ([`TransportConfig::receive_window`](crate::TransportConfig::receive_window)). Credit that the peer has stays its
    /// own (RFC 9000 section 4.1). The window is then at least what that of a new connection begins with, if this lets it.
    pub fn set_receive_window(&mut self, bytes: u64) {
        self.data.streams.set_receive_window(bytes.max(MIN_WINDOW));
    }

    /// Changes how many bytes may be written and not acknowledged, over all streams
    /// ([`TransportConfig::send_window`](crate::TransportConfig::send_window)).
    pub fn set_send_window(&mut self, bytes: u64) {
        self.data.streams.set_send_window(bytes.max(MIN_WINDOW));
    }
}

impl SendStream<'_> {
    /// Its ID.
    pub const fn id(&self) -> StreamId {
        self.id
    }

    /// Writes as much of `data` as fits. Returns how many bytes were written.
    ///
    /// # Errors
    ///
    /// See [`WriteError`].
    #[inline]
    pub fn write(&mut self, data: &[u8]) -> Result<usize, WriteError> {
        if self.closed {
            return Err(WriteError::ClosedStream);
        }
        self.data.streams.write(self.id, data)
    }

    /// Writes as much of `chunk` as fits, without copying it. Advances `chunk` past the written bytes.
    ///
    /// # Errors
    ///
    /// See [`WriteError`].
    #[inline]
    pub fn write_chunk(&mut self, chunk: &mut Bytes) -> Result<usize, WriteError> {
        if self.closed {
            return Err(WriteError::ClosedStream);
        }
        self.data.streams.write_chunk(self.id, chunk)
    }

    /// Ends the stream: no more data will be written. Written data is still delivered.
    ///
    /// # Errors
    ///
    /// See [`FinishError`].
    #[inline]
    pub fn finish(&mut self) -> Result<(), FinishError> {
        self.data.streams.finish(self.id)
    }

    /// Resets the stream: data that was not delivered yet is no longer sent (RFC 9000 section 3.1).
    ///
    /// # Errors
    ///
    /// If the stream is unknown or closed.
    pub fn reset(&mut self, code: VarInt) -> Result<(), ClosedStream> {
        self.data.streams.reset(self.id, code)
    }

    /// The code with which the peer asked to stop sending, if it has.
    ///
    /// # Errors
    ///
    /// If the stream is unknown or closed.
    pub fn stopped(&self) -> Result<Option<VarInt>, ClosedStream> {
        self.data.streams.stopped(self.id)
    }

    /// Sets the priority. Streams of higher priority are sent first; streams of equal priority take
    /// turns. Default 0.
    ///
    /// # Errors
    ///
    /// If the stream is unknown or closed.
    pub fn set_priority(&mut self, priority: i32) -> Result<(), ClosedStream> {
        self.data.streams.set_priority(self.id, priority)
    }

    /// The stream's priority.
    ///
    /// # Errors
    ///
    /// If the stream is unknown or closed.
    pub fn priority(&self) -> Result<i32, ClosedStream> {
        self.data.streams.priority(self.id)
    }

    /// Tells the scheduler what the application knows of the stream.
    ///
    /// # Errors
    ///
    /// If the stream is unknown or closed.
    pub fn set_hints(&mut self, hints: StreamHints) -> Result<(), ClosedStream> {
        self.data.streams.set_hints(self.id, hints)
    }
}

impl RecvStream<'_> {
    /// Its ID.
    pub const fn id(&self) -> StreamId {
        self.id
    }

    /// On servers, whether data of the stream came in 0-RTT packets, so that it may be a repetition of
    /// what another connection brought before. False once the stream was read to its end.
    pub fn is_0rtt(&self) -> bool {
        self.data.streams.is_early(self.id)
    }

    /// Reads the next bytes into `buf`. `Ok(None)` is the end of the stream.
    ///
    /// # Errors
    ///
    /// See [`ReadError`].
    #[inline]
    pub fn read(&mut self, buf: &mut [u8]) -> Result<Option<usize>, ReadError> {
        self.data.streams.read(self.id, buf)
    }

    /// Reads the next bytes without copying them, at most `max`. `Ok(None)` is the end of the stream.
    ///
    /// # Errors
    ///
    /// See [`ReadError`].
    #[inline]
    pub fn read_chunk(&mut self, max: usize) -> Result<Option<Bytes>, ReadError> {
        self.data.streams.read_chunk(self.id, max)
    }

    /// Reads data as soon as it is here, whatever is missing before it: up to `max` bytes (0 counts as 1) that follow each
    /// other, the lowest that are here, and where they begin. Each byte comes once. `Ok(None)` is the end of the stream:
    /// all of it was read. From the first call on, the stream can be read in no other way.
    ///
    /// # Errors
    ///
    /// See [`ReadError`].
    #[inline]
    pub fn read_unordered(&mut self, max: usize) -> Result<Option<Chunk>, ReadError> {
        self.data.streams.read_unordered(self.id, max)
    }

    /// Asks the peer to stop sending. Unread data is dropped.
    ///
    /// # Errors
    ///
    /// If the stream is unknown or closed.
    pub fn stop(&mut self, code: VarInt) -> Result<(), ClosedStream> {
        self.data.streams.stop(self.id, code)
    }
}

impl Datagrams<'_> {
    /// Queues a datagram. With `drop`, the oldest queued datagrams are dropped if the buffer is full.
    ///
    /// # Errors
    ///
    /// See [`SendDatagramError`].
    pub fn send(&mut self, data: Bytes, drop: bool) -> Result<(), SendDatagramError> {
        self.send_with(data, DatagramOptions::new(), drop)
    }

    /// Queues a datagram that goes where the options say. With `drop`, the oldest queued datagrams are dropped if the
    /// buffer is full: those of the path, or of the scheduler's queue, that hold most of it.
    ///
    /// # Errors
    ///
    /// See [`SendDatagramError`].
    pub fn send_with(
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
        let room = self.room();
        self.data
            .datagrams
            .send(data, paths, options.deadline, options.tag, drop, room)
    }

    /// The oldest news of a datagram that was sent with a [tag](DatagramOptions::tag), and removes it.
    /// [`Event::DatagramFates`](crate::Event::DatagramFates) tells that there are news after there were none. At most
    /// [`MAX_DATAGRAM_FATES`](crate::limits::MAX_DATAGRAM_FATES) wait; beyond that the oldest are dropped
    /// ([`dropped_fates`](crate::ConnectionStats::dropped_fates)). Those that wait can still be taken once the connection is
    /// over.
    pub fn fate(&mut self) -> Option<DatagramFate> {
        self.data.datagrams.next_fate()
    }

    /// Returns the oldest received datagram, and removes it.
    pub fn recv(&mut self) -> Option<Bytes> {
        self.data.datagrams.recv()
    }

    /// The size of the largest datagram that fits every open path. `None` if the peer does not accept
    /// datagrams, or if the handshake has not told yet.
    pub fn max_size(&self) -> Option<usize> {
        self.data.datagrams.max_size(self.room())
    }

    /// Free bytes in the buffer of datagrams to send.
    pub fn send_buffer_space(&self) -> usize {
        self.data.datagrams.send_buffer_space()
    }

    /// Room for frames in a packet that fits every open path.
    //= specs/rfc8899.txt#section-5
    //# A PL MUST adjust the MPS indicated by DPLPMTUD to account for any additional overhead
    //# introduced by the PL.
    fn room(&self) -> usize {
        let sizes = self.paths.iter().map(Path::mtu);
        let packet = sizes.min().map_or(MIN_INITIAL_DATAGRAM, usize::from);
        // Short header with the longest connection ID and packet number, and the tag.
        let short = 1 + 20 + 4 + TAG_LEN;
        // Long header of 0-RTT packets: version, another connection ID, lengths.
        let long = if self.early { 4 + 1 + 1 + 20 + 2 } else { 0 };
        packet - (short + long)
    }
}
