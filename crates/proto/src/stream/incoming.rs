//! Streams that we receive on: what the peer's frames bring (RFC 9000 sections 3, 4 and 19), and what the application
//! reads of it; sends nothing.

use std::time::{Duration, Instant};

use bytes::Bytes;
use mpquic_sched_core::{Dir, StreamId, VarInt};
use mpquic_wire::frame::{Frame, FrameIter, Stream, types};

use super::assembler::Held;
use super::block::Pool;
use super::ids::{MAX_STREAMS, Use};
use super::recv::{Outcome, RecvStream, StreamChunk};
use super::set::Streams;
use super::{Chunk, ClosedStream, ReadError, StreamEvent};
use crate::TransportError;
use crate::memory::MemoryFor;

/// What the application does.
impl Streams {
    pub(crate) fn read(
        &mut self,
        id: StreamId,
        buf: &mut [u8],
    ) -> Result<Option<usize>, ReadError> {
        self.read_with(id, |stream, pool| {
            Ok(match stream.read(buf, pool)? {
                Outcome::Data(n) => Some((n, n)),
                Outcome::End => None,
            })
        })
    }

    /// The sum of the highest offsets received.
    pub(crate) const fn received(&self) -> u64 {
        self.received
    }

    pub(crate) fn read_chunk(
        &mut self,
        id: StreamId,
        max: usize,
    ) -> Result<Option<Bytes>, ReadError> {
        self.read_with(id, |stream, pool| {
            Ok(match stream.read_chunk(max, pool)? {
                Outcome::Data(chunk) => Some((chunk.len(), chunk)),
                Outcome::End => None,
            })
        })
    }

    pub(crate) fn read_unordered(
        &mut self,
        id: StreamId,
        max: usize,
    ) -> Result<Option<Chunk>, ReadError> {
        self.read_with(id, |stream, pool| {
            Ok(match stream.read_unordered(max, pool)? {
                Outcome::Data(chunk) => Some((chunk.bytes.len(), chunk)),
                Outcome::End => None,
            })
        })
    }

    fn read_with<T>(
        &mut self,
        id: StreamId,
        f: impl FnOnce(&mut RecvStream, &mut Pool) -> Result<Option<(usize, T)>, ReadError>,
    ) -> Result<Option<T>, ReadError> {
        let stream = self.recvs.get_mut(id).ok_or(ReadError::ClosedStream)?;
        let before = stream.assembler.usage();
        let result = f(stream, &mut self.pool);
        let after = stream.assembler.usage();
        let announce = stream.pending.max_stream_data;
        self.note_held(before, after);
        match result {
            Ok(Some((n, data))) => {
                self.window.consume(n as u64);
                if announce {
                    self.queue_recv_control(id);
                }
                Ok(Some(data))
            }
            // RFC 9000 section 3.2: "Data Read" and "Reset Read" are terminal.
            Ok(None) => {
                self.free_recv(id);
                Ok(None)
            }
            Err(error) => {
                if matches!(error, ReadError::Reset(_)) {
                    self.free_recv(id);
                }
                Err(error)
            }
        }
    }

    pub(crate) fn stop(&mut self, id: StreamId, code: VarInt) -> Result<(), ClosedStream> {
        let stream = self.recvs.get_mut(id).ok_or(ClosedStream)?;
        if stream.stopped().is_some() {
            return Err(ClosedStream);
        }
        let before = stream.assembler.usage();
        let (dropped, over) = stream.stop(code, &mut self.pool);
        self.note_held(before, Held::default());
        self.window.discard(dropped);
        if over {
            self.free_recv(id);
        } else {
            self.queue_recv_control(id);
        }
        Ok(())
    }
}

/// What the peer's frames do.
impl Streams {
    /// Whether a packet has data for which there is no memory. It is not acknowledged, and so its data comes
    /// again.
    //= specs/rfc9000.txt#section-13.1
    //# For STREAM frames, this means the data has been enqueued in preparation to be received by the
    //# application protocol, but it does not require that data be delivered and consumed.
    pub(crate) fn lacks_memory_for(&self, memory: MemoryFor, payload: &[u8]) -> bool {
        FrameIter::new(payload).any(|frame| match frame {
            Ok(Frame::Stream(stream)) => !self.has_memory_for(memory, &stream),
            _ => false,
        })
    }

    /// Whether there is memory for what a STREAM frame carries.
    pub(crate) fn has_memory_for(&self, memory: MemoryFor, frame: &Stream<'_>) -> bool {
        let (offset, len) = (frame.offset, frame.data.len() as u64);
        let in_order = memory == MemoryFor::InOrder && self.is_in_order(frame.id, offset);
        len == 0 || in_order || self.needs_no_memory(frame.id, offset, len)
    }

    /// The peer names a stream in a frame: it may come to be by that, and must not be one that
    /// only we may bring about (RFC 9000 sections 2.1, 3.2 and 4.6).
    fn on_named(&mut self, id: StreamId, frame: u64) -> Result<(), TransportError> {
        let dir = id.dir();
        if id.initiator() == self.side {
            if id.index() >= self.local[dir as usize].next {
                //= specs/rfc9000.txt#section-19.5
                //# Receiving a STOP_SENDING frame for a locally initiated stream that has not yet
                //# been created MUST be treated as a connection error of type STREAM_STATE_ERROR.
                //= specs/rfc9000.txt#section-19.10
                //# Receiving a MAX_STREAM_DATA frame for a locally initiated stream that has not
                //# yet been created MUST be treated as a connection error of type
                //# STREAM_STATE_ERROR.
                //= specs/rfc9000.txt#section-19.8
                //# An endpoint MUST terminate the connection with error STREAM_STATE_ERROR if it
                //# receives a STREAM frame for a locally initiated stream that has not yet been
                //# created, or for a send-only stream.
                return Err(TransportError::stream_state("not opened yet").in_frame(frame));
            }
            return Ok(());
        }
        match self.remote[dir as usize].on_use(id) {
            Use::Known => {}
            Use::First => self.create(id),
            Use::New => {
                self.create(id);
                if !self.opened_queued[dir as usize] {
                    self.opened_queued[dir as usize] = true;
                    self.emit(StreamEvent::Opened { dir });
                }
            }
            //= specs/rfc9000.txt#section-4.6
            //# An endpoint that receives a frame with a stream ID exceeding the limit it has sent
            //# MUST treat this as a connection error of type STREAM_LIMIT_ERROR; see Section 11 for
            //# details on error handling.
            //= specs/rfc9000.txt#section-19.11
            //# An endpoint MUST terminate a connection with an error of type STREAM_LIMIT_ERROR if
            //# a peer opens more streams than was permitted.
            Use::Forbidden => {
                return Err(
                    TransportError::stream_limit("a stream beyond the limit").in_frame(frame)
                );
            }
        }
        Ok(())
    }

    /// A frame about data that the peer sends.
    fn on_named_by_sender(&mut self, id: StreamId, frame: u64) -> Result<(), TransportError> {
        if id.dir() == Dir::Uni && id.initiator() == self.side {
            //= specs/rfc9000.txt#section-19.4
            //# An endpoint that receives a RESET_STREAM frame for a send-only stream MUST terminate
            //# the connection with error STREAM_STATE_ERROR.
            //= specs/rfc9000.txt#section-19.13
            //# An endpoint that receives a STREAM_DATA_BLOCKED frame for a send-only stream MUST
            //# terminate the connection with error STREAM_STATE_ERROR.
            return Err(TransportError::stream_state("a send-only stream").in_frame(frame));
        }
        self.on_named(id, frame)
    }

    /// A frame about data that the peer receives.
    fn on_named_by_receiver(&mut self, id: StreamId, frame: u64) -> Result<(), TransportError> {
        if id.dir() == Dir::Uni && id.initiator() != self.side {
            //= specs/rfc9000.txt#section-19.5
            //# An endpoint that receives a STOP_SENDING frame for a receive-only stream MUST
            //# terminate the connection with error STREAM_STATE_ERROR.
            //= specs/rfc9000.txt#section-19.10
            //# An endpoint that receives a MAX_STREAM_DATA frame for a receive-only stream MUST
            //# terminate the connection with error STREAM_STATE_ERROR.
            return Err(TransportError::stream_state("a receive-only stream").in_frame(frame));
        }
        self.on_named(id, frame)
    }

    fn connection_left(&self) -> u64 {
        self.window.limit().saturating_sub(self.received)
    }

    fn on_arrival(&mut self, id: StreamId, arrival: &StreamChunk) {
        self.received += arrival.rise;
        if arrival.dropped > 0 {
            self.window.discard(arrival.dropped);
        }
        if arrival.readable {
            self.push_readable(id);
        }
        if arrival.over {
            self.free_recv(id);
        }
    }

    /// STREAM (section 19.8). `rtt` is the longest round trip of the paths in use that windows
    /// cover.
    pub(crate) fn on_stream_frame(
        &mut self,
        now: Instant,
        rtt: impl Fn() -> Duration,
        frame: &Stream<'_>,
    ) -> Result<(), TransportError> {
        let id = frame.id;
        // A stream that we receive on may be named: it came to be by that, or by us.
        if !self.recvs.contains(id) {
            self.on_named_by_sender(id, types::STREAM)?;
        }
        let left = self.connection_left();
        let Some(stream) = self.recvs.get_mut(id) else {
            return Ok(());
        };
        let before = stream.assembler.usage();
        let arrival = stream.on_data(now, &rtt, frame, left, &mut self.pool)?;
        let after = stream.assembler.usage();
        self.max_gaps_seen = self.max_gaps_seen.max(stream.assembler.gaps());
        let stream_window = stream.window.size();
        let announce = stream.pending.max_stream_data;
        self.note_held(before, after);
        self.on_arrival(id, &arrival);
        if announce {
            self.queue_recv_control(id);
        }
        // One stream must be able to use its window whatever others leave unread.
        self.window.tune(now, &rtt);
        if arrival.starved && self.received == self.window.limit() {
            self.window.on_starved(self.out_of_order(), rtt());
        }
        self.window.grow_to(stream_window.saturating_mul(3) / 2);
        self.window.set_memory(self.most_memory());
        Ok(())
    }

    /// Data of this stream came in a 0-RTT packet.
    pub(crate) fn mark_early(&mut self, id: StreamId) {
        if let Some(stream) = self.recvs.get_mut(id) {
            stream.is_early = true;
        }
    }

    /// Whether data of this stream came in a 0-RTT packet; false if it is over.
    pub(crate) fn is_early(&self, id: StreamId) -> bool {
        self.recvs.get(id).is_some_and(|stream| stream.is_early)
    }

    /// RESET_STREAM (section 19.4).
    pub(crate) fn on_reset_stream(
        &mut self,
        id: StreamId,
        code: VarInt,
        final_size: u64,
    ) -> Result<(), TransportError> {
        self.on_named_by_sender(id, types::RESET_STREAM)?;
        let left = self.connection_left();
        let Some(stream) = self.recvs.get_mut(id) else {
            return Ok(());
        };
        let before = stream.assembler.usage();
        let arrival = stream.on_reset(code, final_size, left, &mut self.pool)?;
        let after = stream.assembler.usage();
        self.note_held(before, after);
        self.on_arrival(id, &arrival);
        Ok(())
    }

    /// STOP_SENDING (section 19.5): answered with RESET_STREAM and the same code (section 3.5).
    pub(crate) fn on_stop_sending(
        &mut self,
        id: StreamId,
        code: VarInt,
    ) -> Result<(), TransportError> {
        self.on_named_by_receiver(id, types::STOP_SENDING)?;
        let Some(stream) = self.sends.get_mut(id) else {
            return Ok(());
        };
        if stream.stopped.is_some() || stream.is_reset() {
            return Ok(());
        }
        stream.stopped = Some(code);
        // After finish() the application has nothing left to do with the stream.
        stream.stop_noticed = !stream.is_open();
        //= specs/rfc9000.txt#section-3.5
        //# An endpoint that receives a STOP_SENDING frame MUST send a RESET_STREAM frame if the
        //# stream is in the "Ready" or "Send" state.
        //= specs/rfc9000.txt#section-3.5
        //# An endpoint SHOULD copy the error code from the STOP_SENDING frame to the RESET_STREAM
        //# frame it sends, but it can use any application error code.
        self.reset_send(id, code);
        self.emit(StreamEvent::Stopped {
            id,
            error_code: code,
        });
        Ok(())
    }

    /// MAX_DATA (section 19.9).
    pub(crate) fn on_max_data(&mut self, limit: u64) {
        //= specs/rfc9000.txt#section-4.1
        //# A sender MUST ignore any MAX_STREAM_DATA or MAX_DATA frames that do not increase flow
        //# control limits.
        //= specs/rfc9000.txt#section-13.3
        //# A receiver MUST accept packets containing an outdated frame, such as a MAX_DATA frame
        //# carrying a smaller maximum data value than one found in an older packet.
        self.max_data = self.max_data.max(limit);
    }

    /// MAX_STREAM_DATA (section 19.10).
    pub(crate) fn on_max_stream_data(
        &mut self,
        id: StreamId,
        limit: u64,
    ) -> Result<(), TransportError> {
        self.on_named_by_receiver(id, types::MAX_STREAM_DATA)?;
        self.raise_stream_credit(id, limit);
        Ok(())
    }

    pub(super) fn raise_stream_credit(&mut self, id: StreamId, limit: u64) {
        let wanted = self.with_send(id, |stream, _| {
            stream.raise_credit(limit) && std::mem::take(&mut stream.wants_credit)
        });
        if wanted == Some(true) {
            self.pace.on_credit();
            self.push_writable(id);
        }
    }

    /// MAX_STREAMS (section 19.11).
    pub(crate) fn on_max_streams(&mut self, dir: Dir, limit: u64) -> Result<(), TransportError> {
        if limit > MAX_STREAMS {
            let frame = match dir {
                Dir::Bi => types::MAX_STREAMS_BIDI,
                Dir::Uni => types::MAX_STREAMS_UNI,
            };
            return Err(TransportError::frame_encoding("more than 2^60 streams").in_frame(frame));
        }
        self.raise_stream_limit(dir, limit);
        Ok(())
    }

    pub(super) fn raise_stream_limit(&mut self, dir: Dir, limit: u64) {
        let ids = &mut self.local[dir as usize];
        //= specs/rfc9000.txt#section-4.6
        //# MAX_STREAMS frames that do not increase the stream limit MUST be ignored.
        //= specs/rfc9000.txt#section-19.11
        //# MAX_STREAMS frames that do not increase the stream limit MUST be ignored.
        if limit > ids.limit {
            ids.limit = limit;
            if std::mem::take(&mut ids.wanted) {
                self.emit(StreamEvent::Available { dir });
            }
        }
    }

    /// STREAM_DATA_BLOCKED (section 19.13): checked; a hint only.
    pub(crate) fn on_stream_data_blocked(&mut self, id: StreamId) -> Result<(), TransportError> {
        self.on_named_by_sender(id, types::STREAM_DATA_BLOCKED)
    }

    /// STREAMS_BLOCKED (section 19.14): checked; a hint only.
    pub(crate) fn on_streams_blocked(
        &mut self,
        dir: Dir,
        limit: u64,
    ) -> Result<(), TransportError> {
        if limit > MAX_STREAMS {
            let frame = match dir {
                Dir::Bi => types::STREAMS_BLOCKED_BIDI,
                Dir::Uni => types::STREAMS_BLOCKED_UNI,
            };
            return Err(TransportError::frame_encoding("more than 2^60 streams").in_frame(frame));
        }
        Ok(())
    }
}
