//! The receiving half of one stream (RFC 9000 section 3.2).

use std::time::{Duration, Instant};

use bytes::Bytes;
use mpquic_sched_core::VarInt;
use mpquic_wire::frame::{Stream, types};

use super::assembler::Assembler;
use super::block::Pool;
use super::flow::RecvWindow;
use super::{Chunk, ReadError};
use crate::TransportError;
use crate::limits::max_stream_gaps;

/// What a frame changed.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct StreamChunk {
    /// By how much the highest offset rose: what it costs of the connection's window.
    pub(super) rise: u64,
    /// Bytes that the application will never read: they go back into the connection's window.
    pub(super) dropped: u64,
    /// Something to read: data, the end, or a reset.
    pub(super) readable: bool,
    /// A stopped stream learned its final size: nothing is left to wait for.
    pub(super) over: bool,
    /// It is new, and the application has read all up to a gap before it.
    pub(super) starved: bool,
}

/// How a read went.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Outcome<T> {
    Data(T),
    End,
}

/// Frames that wait to be sent for this half.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct RecvPending {
    pub(super) stop_sending: bool,
    pub(super) max_stream_data: bool,
}

#[derive(Debug)]
pub(super) struct RecvStream {
    pub(super) assembler: Assembler,
    pub(super) window: RecvWindow,
    pub(super) pending: RecvPending,
    /// Whether the stream is in the queue of control frames.
    pub(super) in_control: bool,
    /// Whether a Readable event waits to be polled.
    pub(super) readable_queued: bool,
    /// Whether data came in 0-RTT packets.
    pub(super) is_early: bool,
    /// One past the highest byte received, or the final size.
    highest: u64,
    final_size: Option<u64>,
    reset: Option<VarInt>,
    stopped: Option<VarInt>,
}

impl RecvStream {
    pub(super) fn new(window: RecvWindow) -> Self {
        Self {
            assembler: Assembler::default(),
            window,
            pending: RecvPending::default(),
            in_control: false,
            readable_queued: false,
            is_early: false,
            highest: 0,
            final_size: None,
            reset: None,
            stopped: None,
        }
    }

    /// Makes one that is over, cleared and lean, a new one.
    pub(super) fn renew(&mut self, new_window: RecvWindow) {
        // All fields, each in its place: a new one would have to be moved here.
        let Self {
            assembler,
            window,
            pending,
            in_control,
            readable_queued,
            is_early,
            highest,
            final_size,
            reset,
            stopped,
        } = self;
        assembler.renew();
        (*window, *pending) = (new_window, RecvPending::default());
        (*in_control, *readable_queued, *is_early) = (false, false, false);
        (*highest, *final_size) = (0, None);
        (*reset, *stopped) = (None, None);
    }

    /// The code of our STOP_SENDING.
    pub(super) fn stopped(&self) -> Option<VarInt> {
        self.stopped
    }

    /// Whether frames that the peer may send can still matter to it.
    pub(super) fn wants_more(&self) -> bool {
        self.final_size.is_none()
    }

    /// Whether data is missing that the application is to have.
    pub(super) fn expects_data(&self) -> bool {
        self.reset.is_none() && self.stopped.is_none() && !self.is_complete()
    }

    /// All data up to the final size is here ("Data Recvd").
    fn is_complete(&self) -> bool {
        self.final_size == Some(self.assembler.frontier())
    }

    /// Something for the application to read.
    pub(super) fn is_readable(&self) -> bool {
        self.stopped.is_none()
            && (self.reset.is_some() || self.assembler.readable() > 0 || self.is_complete())
    }

    /// Whether data was received already, or is what the application waits for, having read all before it;
    /// or is not kept.
    pub(super) fn needs_no_memory(&self, offset: u64, len: u64) -> bool {
        let frontier = self.assembler.frontier();
        let dropped = self.stopped.is_some() || self.reset.is_some();
        let next = offset <= frontier && self.assembler.readable() == 0;
        dropped || next || offset.saturating_add(len) <= frontier
    }

    /// Checks an end of data against what is known (RFC 9000 sections 4.1 and 4.5). How far it is beyond the highest so far.
    #[inline]
    fn check(
        &self,
        end: u64,
        is_final: bool,
        connection_left: u64,
        frame: u64,
    ) -> Result<u64, TransportError> {
        // Nothing is to be said of most data.
        let rise = end.saturating_sub(self.highest);
        let knows_end = is_final || self.final_size.is_some();
        if !knows_end && end <= self.window.limit() && rise <= connection_left {
            return Ok(rise);
        }
        self.check_closely(end, is_final, connection_left, frame)
    }

    #[inline(never)]
    fn check_closely(
        &self,
        end: u64,
        is_final: bool,
        connection_left: u64,
        frame: u64,
    ) -> Result<u64, TransportError> {
        //= specs/rfc9000.txt#section-4.5
        //# A receiver SHOULD treat receipt of data at or beyond the final size as an error of type
        //# FINAL_SIZE_ERROR, even after a stream is closed.
        //= specs/rfc9000.txt#section-4.5
        //# If a RESET_STREAM or STREAM frame is received indicating a change in the final size for
        //# the stream, an endpoint SHOULD respond with an error of type FINAL_SIZE_ERROR; see
        //# Section 11 for details on error handling.
        if let Some(size) = self.final_size
            && (end > size || (is_final && end != size))
        {
            return Err(TransportError::final_size("the final size changed").in_frame(frame));
        }
        if is_final && end < self.highest {
            return Err(
                TransportError::final_size("the final size is below data received").in_frame(frame),
            );
        }
        //= specs/rfc9000.txt#section-19.10
        //# An endpoint MUST terminate a connection with an error of type FLOW_CONTROL_ERROR if it
        //# receives more data than the largest maximum stream data that it has sent for the
        //# affected stream.
        if end > self.window.limit() {
            return Err(TransportError::flow_control("beyond the stream's limit").in_frame(frame));
        }
        //= specs/rfc9000.txt#section-4.1
        //# A receiver MUST close the connection with an error of type FLOW_CONTROL_ERROR if the
        //# sender violates the advertised connection or stream data limits; see Section 11 for
        //# details on error handling.
        let rise = end.saturating_sub(self.highest);
        //= specs/rfc9000.txt#section-19.9
        //# An endpoint MUST terminate a connection with an error of type FLOW_CONTROL_ERROR if it
        //# receives more data than the maximum data value that it has sent.
        if rise > connection_left {
            return Err(
                TransportError::flow_control("beyond the connection's limit").in_frame(frame),
            );
        }
        Ok(rise)
    }

    /// STREAM (RFC 9000 section 19.8).
    pub(super) fn on_data(
        &mut self,
        now: Instant,
        rtt: impl Fn() -> Duration,
        frame: &Stream<'_>,
        connection_left: u64,
        pool: &mut Pool,
    ) -> Result<StreamChunk, TransportError> {
        let (offset, fin, data) = (frame.offset, frame.fin, frame.data);
        let frame = types::STREAM;
        let end = match offset.checked_add(data.len() as u64) {
            Some(end) if end <= VarInt::MAX.into_inner() => end,
            _ => {
                return Err(
                    TransportError::frame_encoding("stream data beyond 2^62-1").in_frame(frame)
                );
            }
        };
        let rise = self.check(end, fin, connection_left, frame)?;
        self.highest += rise;
        let learned_end = fin && self.final_size.is_none();
        if fin {
            self.final_size = Some(end);
        }
        let mut arrival = StreamChunk {
            rise,
            ..StreamChunk::default()
        };
        if self.stopped.is_some() || self.reset.is_some() {
            self.window.discard(rise);
            arrival.dropped = rise;
            arrival.over = self.stopped.is_some() && self.final_size.is_some();
            return Ok(arrival);
        }
        let more = self.assembler.insert(offset, data, pool);
        if self.assembler.gaps() > 0 {
            arrival.starved = self.look_at_gaps(rise)?;
        }
        let used_up = arrival.starved && self.highest == self.window.limit();
        if self.wants_more()
            && (self.window.tune(now, &rtt)
                || (used_up && self.window.on_starved(self.assembler.out_of_order(), rtt())))
        {
            self.pending.max_stream_data |= self.window.is_due();
        }
        arrival.readable = more || (learned_end && self.is_complete());
        Ok(arrival)
    }

    /// Data came, `rise` bytes more than before, and there are gaps: whether the application has read all up to the first of
    /// them.
    #[cold]
    #[inline(never)]
    fn look_at_gaps(&self, rise: u64) -> Result<bool, TransportError> {
        if self.assembler.gaps() > max_stream_gaps(self.window.size()) {
            let error = TransportError::internal("too many gaps in a stream's data");
            return Err(error.in_frame(types::STREAM));
        }
        Ok(rise > 0 && self.assembler.readable() == 0)
    }

    /// RESET_STREAM (RFC 9000 section 19.4).
    pub(super) fn on_reset(
        &mut self,
        code: VarInt,
        final_size: u64,
        connection_left: u64,
        pool: &mut Pool,
    ) -> Result<StreamChunk, TransportError> {
        let rise = self.check(final_size, true, connection_left, types::RESET_STREAM)?;
        self.highest += rise;
        // RFC 9000 section 3.2: once all data is here, a reset may be ignored.
        //= specs/rfc9000.txt#section-4.5
        //# The receiver MUST use the final size of the stream to account for all bytes sent on the
        //# stream in its connection-level flow controller.
        let ignored = self.is_complete() || self.reset.is_some();
        self.final_size = Some(final_size);
        let mut arrival = StreamChunk {
            rise,
            ..StreamChunk::default()
        };
        if self.stopped.is_some() {
            self.window.discard(rise);
            arrival.dropped = rise;
            arrival.over = true;
        } else if !ignored {
            self.reset = Some(code);
            arrival.dropped = self.drop_data(pool);
            self.assembler.shrink();
            arrival.readable = true;
        }
        Ok(arrival)
    }

    /// Drops what was received and not read; how much of the connection's window that frees.
    fn drop_data(&mut self, pool: &mut Pool) -> u64 {
        let dropped = self.highest - self.window.consumed();
        self.window.discard(dropped);
        self.assembler.clear(pool);
        dropped
    }

    /// Whether reading is possible at all; a reset or the end ends the half.
    fn before_read(&self) -> Result<Outcome<()>, ReadError> {
        if self.stopped.is_some() {
            return Err(ReadError::ClosedStream);
        }
        if let Some(code) = self.reset {
            return Err(ReadError::Reset(code));
        }
        if self.assembler.readable() > 0 {
            return Ok(Outcome::Data(()));
        }
        if self.is_complete() {
            return Ok(Outcome::End);
        }
        Err(ReadError::Blocked)
    }

    fn after_read(&mut self, n: u64) {
        self.window.consume(n);
        if self.wants_more() && self.window.is_due() {
            self.pending.max_stream_data = true;
        }
    }

    pub(super) fn read(
        &mut self,
        buf: &mut [u8],
        pool: &mut Pool,
    ) -> Result<Outcome<usize>, ReadError> {
        // A read of nothing only asks how the stream stands.
        if !buf.is_empty() {
            self.check_order()?;
        }
        match self.before_read()? {
            Outcome::End => Ok(Outcome::End),
            Outcome::Data(()) => {
                let n = self.assembler.read(buf, pool);
                self.after_read(n as u64);
                Ok(Outcome::Data(n))
            }
        }
    }

    /// Out of order, at least one byte; from the first call on, in no other way.
    pub(super) fn read_unordered(
        &mut self,
        max: usize,
        pool: &mut Pool,
    ) -> Result<Outcome<Chunk>, ReadError> {
        if self.stopped.is_none()
            && self.reset.is_none()
            && let Some((offset, bytes)) = self.assembler.read_unordered(max.max(1), pool)
        {
            self.after_read(bytes.len() as u64);
            return Ok(Outcome::Data(Chunk { offset, bytes }));
        }
        match self.before_read()? {
            Outcome::End => Ok(Outcome::End),
            Outcome::Data(()) => Err(ReadError::Blocked),
        }
    }

    /// An ordered read must not follow one out of order.
    fn check_order(&self) -> Result<(), ReadError> {
        match self.assembler.is_unordered() && self.stopped.is_none() && self.reset.is_none() {
            true => Err(ReadError::IllegalOrderedRead),
            false => Ok(()),
        }
    }

    pub(super) fn read_chunk(
        &mut self,
        max: usize,
        pool: &mut Pool,
    ) -> Result<Outcome<Bytes>, ReadError> {
        self.check_order()?;
        match self.before_read()? {
            Outcome::End => Ok(Outcome::End),
            Outcome::Data(()) => {
                let chunk = self.assembler.read_chunk(max, pool);
                self.after_read(chunk.len() as u64);
                Ok(Outcome::Data(chunk))
            }
        }
    }

    /// The application wants no more. How many bytes go back into the connection's window, and
    /// whether the peer need not even be asked (RFC 9000 section 3.5).
    pub(super) fn stop(&mut self, code: VarInt, pool: &mut Pool) -> (u64, bool) {
        let dropped = self.drop_data(pool);
        self.stopped = Some(code);
        let over = self.final_size.is_some();
        if !over {
            // It may be long until the peer has heard of it.
            self.assembler.shrink();
        }
        self.pending = RecvPending {
            stop_sending: !over,
            max_stream_data: false,
        };
        (dropped, over)
    }
}
