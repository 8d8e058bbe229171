//! What the application does with streams: open, write, read, end, poll; sends nothing.

use bytes::Bytes;
use mpquic_sched_core::{Dir, StreamHints, StreamId, StreamUpdateKind as Fact, VarInt};

use super::pool::Pool;
use super::recv::{Outcome, RecvStream};
use super::send::SendStream;
use super::set::Streams;
use super::{ClosedStream, FinishError, ReadError, StreamEvent, WriteError};

impl Streams {
    // -- opening and accepting

    pub(crate) fn open(&mut self, dir: Dir) -> Option<StreamId> {
        let ids = &mut self.local[dir as usize];
        if ids.next >= ids.limit {
            ids.wanted = true;
            return None;
        }
        let id = StreamId::new(self.side, dir, ids.next);
        ids.next += 1;
        self.create(id);
        Some(id)
    }

    pub(crate) fn accept(&mut self, dir: Dir) -> Option<StreamId> {
        let (index, is_new) = self.remote[dir as usize].accept()?;
        let id = StreamId::new(!self.side, dir, index);
        if is_new {
            self.create(id);
        }
        Some(id)
    }

    // -- writing

    /// How much may be written now.
    fn room(&mut self, id: StreamId) -> Result<usize, WriteError> {
        let Some(stream) = self.sends.get_mut(&id) else {
            return Err(WriteError::ClosedStream);
        };
        if let Some(code) = stream.stopped {
            stream.stop_noticed = true;
            self.free_send_if_done(id);
            return Err(WriteError::Stopped(code));
        }
        if !stream.is_open() {
            return Err(WriteError::ClosedStream);
        }
        let credit = stream.credit_left();
        if credit == 0 {
            // RFC 9000 section 4.1: once per limit.
            let untold = stream.blocked_at != Some(stream.credit());
            if untold {
                stream.blocked_at = Some(stream.credit());
                stream.pending.blocked = true;
            }
            if !stream.wants_credit {
                self.with_send(id, |stream, _| stream.wants_credit = true);
            }
            if untold {
                self.queue_send_control(id);
            }
            return Err(WriteError::Blocked);
        }
        let window = self.send_window.saturating_sub(self.totals.buffered);
        if window == 0 {
            if !stream.in_blocked {
                stream.in_blocked = true;
                self.blocked.push(id);
            }
            return Err(WriteError::Blocked);
        }
        Ok(usize::try_from(credit.min(window)).unwrap_or(usize::MAX))
    }

    pub(crate) fn write(&mut self, id: StreamId, data: &[u8]) -> Result<usize, WriteError> {
        let room = self.room(id)?;
        let data = &data[..data.len().min(room)];
        self.append(id, data.len(), |stream, pool| {
            stream.buffer.write(data, pool)
        });
        Ok(data.len())
    }

    /// Takes as much as fits off the front of `chunk`, without copying unless it is small.
    pub(crate) fn write_chunk(
        &mut self,
        id: StreamId,
        chunk: &mut Bytes,
    ) -> Result<usize, WriteError> {
        let room = self.room(id)?;
        let data = chunk.split_to(chunk.len().min(room));
        let n = data.len();
        self.append(id, n, |stream, pool| stream.buffer.push(data, pool));
        Ok(n)
    }

    fn append(&mut self, id: StreamId, n: usize, f: impl FnOnce(&mut SendStream, &mut Pool)) {
        if n > 0 {
            self.with_send(id, f);
            self.sched_events.push(id, Fact::Written(n as u64));
        }
    }

    pub(crate) fn finish(&mut self, id: StreamId) -> Result<(), FinishError> {
        let Some(stream) = self.sends.get_mut(&id) else {
            return Err(FinishError::ClosedStream);
        };
        if let Some(code) = stream.stopped {
            stream.stop_noticed = true;
            self.free_send_if_done(id);
            return Err(FinishError::Stopped(code));
        }
        if !stream.is_open() {
            return Err(FinishError::ClosedStream);
        }
        self.with_send(id, |stream, _| stream.finish());
        self.sched_events.push(id, Fact::Finished);
        Ok(())
    }

    /// Abandons sending; a stream that the peer stopped was reset already (RFC 9000 section 3.5).
    pub(crate) fn reset(&mut self, id: StreamId, code: VarInt) -> Result<(), ClosedStream> {
        let stream = self.sends.get_mut(&id).ok_or(ClosedStream)?;
        if stream.stopped.is_some() && !stream.stop_noticed {
            stream.stop_noticed = true;
            self.free_send_if_done(id);
            return Ok(());
        }
        if stream.is_reset() {
            return Err(ClosedStream);
        }
        self.reset_send(id, code);
        Ok(())
    }

    pub(super) fn reset_send(&mut self, id: StreamId, code: VarInt) {
        self.with_send(id, |stream, pool| stream.reset(code, pool));
        self.queue_send_control(id);
        self.sched_events.push(id, Fact::Reset);
        self.wake_writers();
    }

    /// The peer's STOP_SENDING code, if it came.
    pub(crate) fn stopped(&self, id: StreamId) -> Result<Option<VarInt>, ClosedStream> {
        let stream = self.sends.get(&id).ok_or(ClosedStream)?;
        Ok(stream.stopped)
    }

    pub(crate) fn set_priority(&mut self, id: StreamId, priority: i32) -> Result<(), ClosedStream> {
        let stream = self.sends.get_mut(&id).ok_or(ClosedStream)?;
        if stream.in_fresh {
            self.fresh.remove(stream.priority, id);
            self.fresh.push(priority, id);
        }
        if stream.in_again {
            self.again.remove(stream.priority, id);
            self.again.push(priority, id);
        }
        stream.priority = priority;
        self.tidy();
        Ok(())
    }

    pub(crate) fn priority(&self, id: StreamId) -> Result<i32, ClosedStream> {
        self.sends.get(&id).map(|s| s.priority).ok_or(ClosedStream)
    }

    pub(crate) fn set_hints(
        &mut self,
        id: StreamId,
        hints: StreamHints,
    ) -> Result<(), ClosedStream> {
        self.sends.get_mut(&id).ok_or(ClosedStream)?.hints = hints;
        self.sched_events.push(id, Fact::Hint(hints));
        Ok(())
    }

    // -- reading

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

    fn read_with<T>(
        &mut self,
        id: StreamId,
        f: impl FnOnce(&mut RecvStream, &mut Pool) -> Result<Option<(usize, T)>, ReadError>,
    ) -> Result<Option<T>, ReadError> {
        let stream = self.recvs.get_mut(&id).ok_or(ReadError::ClosedStream)?;
        match f(stream, &mut self.pool) {
            Ok(Some((n, data))) => {
                self.window.consume(n as u64);
                if stream.pending.max_stream_data {
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
        let stream = self.recvs.get_mut(&id).ok_or(ClosedStream)?;
        if stream.stopped().is_some() {
            return Err(ClosedStream);
        }
        let before = stream.assembler.out_of_order();
        let (dropped, over) = stream.stop(code, &mut self.pool);
        self.note_out_of_order(before, 0);
        self.window.consume(dropped);
        if over {
            self.free_recv(id);
        } else {
            self.queue_recv_control(id);
        }
        Ok(())
    }

    // -- polling

    pub(crate) fn poll_event(&mut self) -> Option<StreamEvent> {
        while let Some(event) = self.events.pop_front() {
            let holds = match event {
                StreamEvent::Opened { dir } => {
                    self.opened_queued[dir as usize] = false;
                    self.remote[dir as usize].has_unaccepted()
                }
                StreamEvent::Readable { id } => self.recvs.get_mut(&id).is_some_and(|s| {
                    s.readable_queued = false;
                    s.is_readable()
                }),
                StreamEvent::Writable { id } => self.sends.get_mut(&id).is_some_and(|s| {
                    s.writable_queued = false;
                    s.is_open()
                }),
                StreamEvent::Finished { .. }
                | StreamEvent::Stopped { .. }
                | StreamEvent::Available { .. } => true,
            };
            if holds {
                return Some(event);
            }
        }
        None
    }

    pub(crate) fn enable_sched_events(&mut self, enabled: bool) {
        self.sched_events.enabled = enabled;
    }

    pub(crate) fn poll_sched_event(&mut self) -> Option<mpquic_sched_core::StreamUpdate> {
        self.sched_events.pop()
    }
}
