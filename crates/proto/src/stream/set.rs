//! All streams of a connection and what they share: IDs, windows, queues; the application's side.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use mpquic_sched::{PathSet, StreamEventKind as Fact, StreamHead, StreamHints};
use quinn_proto::{Dir, Side, StreamId, VarInt};

use super::events::SchedEvents;
use super::flow::{INITIAL_STREAM_WINDOW, INITIAL_WINDOW, RecvWindow};
use super::ids::{LocalIds, RemoteIds};
use super::pool::Pool;
use super::ready::ReadyQueue;
use super::recv::{Outcome, RecvStream};
use super::send::{SendStream, Tally};
use super::{ClosedStream, FinishError, ReadError, StreamEvent, WriteError};
use crate::TransportConfig;

/// Blocked writers are woken when so much of the send window is free, or half of it.
const WAKE_ROOM: u64 = 64 * 1024;

/// One side's initial limits, as in its transport parameters (RFC 9000 section 18.2).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct PeerStreamParams {
    pub(crate) max_data: u64,
    pub(crate) max_stream_data_bidi_local: u64,
    pub(crate) max_stream_data_bidi_remote: u64,
    pub(crate) max_stream_data_uni: u64,
    pub(crate) max_streams_bidi: u64,
    pub(crate) max_streams_uni: u64,
}

/// What there is to send, in bytes. The end of a stream counts as a byte wherever it waits, so
/// that zero means that nothing does.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct QueueCounters {
    /// Never sent; within the streams' windows, not necessarily within the connection's.
    pub(crate) unsent: u64,
    /// To be sent again: lost, or in flight only on paths in trouble.
    pub(crate) retransmittable: u64,
    /// What the peer's connection window leaves for data beyond what was sent.
    pub(crate) window_left: u64,
    /// Acknowledged beyond the first byte that is not.
    pub(crate) out_of_order: u64,
    /// In flight, what is to be sent again left out.
    pub(crate) in_flight: u64,
}

/// All streams of a connection.
#[derive(Debug)]
pub(crate) struct Streams {
    pub(super) side: Side,
    // A half that is over is gone from its map. Ordered maps: stream IDs are the peer's choice,
    // and the few levels of a tree of some hundred streams cost less than a keyed hash.
    pub(super) sends: BTreeMap<StreamId, Box<SendStream>>,
    pub(super) recvs: BTreeMap<StreamId, Box<RecvStream>>,
    pub(super) local: [LocalIds; 2],
    pub(super) remote: [RemoteIds; 2],
    pub(super) params: PeerStreamParams,
    pub(super) pool: Pool,

    // Sending.
    /// The peer's MAX_DATA.
    pub(super) max_data: u64,
    /// Sum of the highest offsets sent.
    pub(super) data_sent: u64,
    pub(super) send_window: u64,
    pub(super) totals: Tally,
    /// Streams with data never sent.
    pub(super) fresh: ReadyQueue,
    /// Streams with data to be sent again.
    pub(super) again: ReadyQueue,
    /// Paths in trouble.
    pub(super) suspects: PathSet,
    /// Writers that wait for room in the send window.
    pub(super) blocked: Vec<StreamId>,
    /// The limit that DATA_BLOCKED was sent for.
    pub(super) told_blocked_at: Option<u64>,

    // Receiving.
    pub(super) window: RecvWindow,
    stream_window_max: u64,
    /// Sum of the highest offsets received.
    pub(super) received: u64,
    /// A MAX_DATA was lost.
    pub(super) announce_again: bool,
    pub(super) max_gaps_seen: usize,
    pub(super) max_out_of_order_seen: u64,

    // Waiting to be polled or sent.
    pub(super) send_control: VecDeque<StreamId>,
    pub(super) recv_control: VecDeque<StreamId>,
    pub(super) events: VecDeque<StreamEvent>,
    pub(super) opened_queued: [bool; 2],
    pub(super) sched_events: SchedEvents,
}

impl Streams {
    pub(crate) fn new(side: Side, config: &TransportConfig) -> Self {
        Self {
            side,
            sends: BTreeMap::new(),
            recvs: BTreeMap::new(),
            local: Default::default(),
            remote: [
                RemoteIds::new(config.max_concurrent_bidi_streams),
                RemoteIds::new(config.max_concurrent_uni_streams),
            ],
            params: PeerStreamParams::default(),
            pool: Pool::default(),
            max_data: 0,
            data_sent: 0,
            send_window: config.send_window,
            totals: Tally::default(),
            fresh: ReadyQueue::default(),
            again: ReadyQueue::default(),
            suspects: PathSet::EMPTY,
            blocked: Vec::new(),
            told_blocked_at: None,
            window: RecvWindow::new(INITIAL_WINDOW, config.receive_window),
            stream_window_max: config.stream_receive_window,
            received: 0,
            announce_again: false,
            max_gaps_seen: 0,
            max_out_of_order_seen: 0,
            send_control: VecDeque::new(),
            recv_control: VecDeque::new(),
            events: VecDeque::new(),
            opened_queued: [false; 2],
            sched_events: SchedEvents::default(),
        }
    }

    /// What our transport parameters must say.
    pub(crate) fn local_params(config: &TransportConfig) -> PeerStreamParams {
        let stream = RecvWindow::new(INITIAL_STREAM_WINDOW, config.stream_receive_window).limit();
        PeerStreamParams {
            max_data: RecvWindow::new(INITIAL_WINDOW, config.receive_window).limit(),
            max_stream_data_bidi_local: stream,
            max_stream_data_bidi_remote: stream,
            max_stream_data_uni: stream,
            max_streams_bidi: config
                .max_concurrent_bidi_streams
                .min(super::ids::MAX_STREAMS),
            max_streams_uni: config
                .max_concurrent_uni_streams
                .min(super::ids::MAX_STREAMS),
        }
    }

    /// The peer's transport parameters. Limits only rise: those remembered for 0-RTT may come
    /// first (RFC 9000 section 7.4.1).
    pub(crate) fn set_peer_params(&mut self, params: PeerStreamParams) {
        self.params = params;
        let ids: Vec<_> = self.sends.keys().copied().collect();
        for id in ids {
            let credit = self.initial_credit(id);
            self.raise_stream_credit(id, credit);
        }
        self.on_max_data(params.max_data);
        self.raise_stream_limit(Dir::Bi, params.max_streams_bidi);
        self.raise_stream_limit(Dir::Uni, params.max_streams_uni);
    }

    /// What the peer granted a stream to begin with: its "local" are the streams that it opens.
    fn initial_credit(&self, id: StreamId) -> u64 {
        match (id.dir(), id.initiator() == self.side) {
            (Dir::Uni, _) => self.params.max_stream_data_uni,
            (Dir::Bi, true) => self.params.max_stream_data_bidi_remote,
            (Dir::Bi, false) => self.params.max_stream_data_bidi_local,
        }
    }

    /// Makes the halves of a stream that came to be.
    pub(super) fn create(&mut self, id: StreamId) {
        let ours = id.initiator() == self.side;
        if ours || id.dir() == Dir::Bi {
            let stream = SendStream::new(id, self.initial_credit(id));
            self.sends.insert(id, Box::new(stream));
            self.sched_events.push(id, Fact::Opened);
        }
        if !ours || id.dir() == Dir::Bi {
            let window = RecvWindow::new(INITIAL_STREAM_WINDOW, self.stream_window_max);
            self.recvs.insert(id, Box::new(RecvStream::new(window)));
        }
    }

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
            stream.wants_credit = true;
            // RFC 9000 section 4.1: once per limit.
            if stream.blocked_at != Some(stream.credit()) {
                stream.blocked_at = Some(stream.credit());
                stream.pending.blocked = true;
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
        let (dropped, over) = stream.stop(code, &mut self.pool);
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

    pub(crate) fn poll_sched_event(&mut self) -> Option<mpquic_sched::StreamEvent> {
        self.sched_events.pop()
    }

    // -- figures

    pub(crate) fn queue(&self) -> QueueCounters {
        QueueCounters {
            unsent: self.totals.unsent,
            retransmittable: self.totals.again,
            window_left: self.window_left(),
            out_of_order: self.totals.out_of_order,
            in_flight: self.totals.in_flight,
        }
    }

    pub(super) fn window_left(&self) -> u64 {
        self.max_data.saturating_sub(self.data_sent)
    }

    /// Whether stream data can be sent now, on some path.
    pub(crate) fn can_send_data(&self) -> bool {
        self.totals.again > 0
            || self.totals.free > 0
            || (self.totals.unsent > 0 && self.window_left() > 0)
    }

    /// The stream whose data goes next: the first with data never sent, else the first with data
    /// to be sent again.
    pub(crate) fn head(&self) -> Option<StreamHead> {
        let id = self.fresh.front().or_else(|| self.again.front())?;
        let stream = self.sends.get(&id)?;
        Some(StreamHead::new(
            id,
            stream.priority,
            stream.unsent(),
            stream.hints.deadline,
            stream.hints.chunk,
        ))
    }

    /// Whether anything sent is not acknowledged, or anything waits to be sent.
    pub(crate) fn has_unacked(&self) -> bool {
        let t = &self.totals;
        t.in_flight + t.again + t.unsent > 0
    }

    /// Bytes written and kept until all up to them is acknowledged.
    pub(crate) fn buffered_send(&self) -> u64 {
        self.totals.buffered
    }

    /// Bytes received and not read.
    pub(crate) fn buffered_recv(&self) -> u64 {
        self.recvs.values().map(|s| s.assembler.buffered()).sum()
    }

    /// The most gaps that one stream's data has had.
    pub(crate) fn max_gaps_seen(&self) -> usize {
        self.max_gaps_seen
    }

    /// The most bytes that one stream has had beyond its first gap.
    pub(crate) fn max_out_of_order_seen(&self) -> u64 {
        self.max_out_of_order_seen
    }

    /// Halves of streams that have state, sending and receiving.
    pub(crate) fn open_halves(&self) -> (usize, usize) {
        (self.sends.len(), self.recvs.len())
    }

    // -- bookkeeping

    /// Changes a sending half and brings the sums and queues up to date.
    pub(super) fn with_send<T>(
        &mut self,
        id: StreamId,
        f: impl FnOnce(&mut SendStream, &mut Pool) -> T,
    ) -> Option<T> {
        let stream = self.sends.get_mut(&id)?;
        let before = stream.tally();
        let result = f(stream, &mut self.pool);
        let after = stream.tally();
        self.totals.replace(before, after);
        if after.unsent > 0 && !stream.in_fresh {
            stream.in_fresh = true;
            self.fresh.push(stream.priority, id);
        }
        if after.again > 0 && !stream.in_again {
            stream.in_again = true;
            self.again.push(stream.priority, id);
        }
        let stale = (stream.in_fresh && after.unsent == 0) || (stream.in_again && after.again == 0);
        if stale {
            self.tidy();
        }
        Some(result)
    }

    /// Takes streams that wait no more off the front of the queues of ready streams.
    pub(super) fn tidy(&mut self) {
        while let Some(id) = self.fresh.front() {
            match self.sends.get_mut(&id) {
                Some(s) if s.tally().unsent > 0 => break,
                Some(s) => s.in_fresh = false,
                None => {}
            }
            self.fresh.pop();
        }
        while let Some(id) = self.again.front() {
            match self.sends.get_mut(&id) {
                Some(s) if s.again() > 0 => break,
                Some(s) => s.in_again = false,
                None => {}
            }
            self.again.pop();
        }
    }

    pub(super) fn queue_send_control(&mut self, id: StreamId) {
        if let Some(stream) = self.sends.get_mut(&id)
            && !stream.in_control
        {
            stream.in_control = true;
            self.send_control.push_back(id);
        }
    }

    pub(super) fn queue_recv_control(&mut self, id: StreamId) {
        if let Some(stream) = self.recvs.get_mut(&id)
            && !stream.in_control
        {
            stream.in_control = true;
            self.recv_control.push_back(id);
        }
    }

    pub(super) fn push_readable(&mut self, id: StreamId) {
        if let Some(stream) = self.recvs.get_mut(&id)
            && !stream.readable_queued
        {
            stream.readable_queued = true;
            self.events.push_back(StreamEvent::Readable { id });
        }
    }

    pub(super) fn push_writable(&mut self, id: StreamId) {
        if let Some(stream) = self.sends.get_mut(&id)
            && !stream.writable_queued
        {
            stream.writable_queued = true;
            self.events.push_back(StreamEvent::Writable { id });
        }
    }

    /// Tells writers that wait for the send window, once it has room worth a write.
    pub(super) fn wake_writers(&mut self) {
        if self.blocked.is_empty() {
            return;
        }
        let room = self.send_window.saturating_sub(self.totals.buffered);
        if room < WAKE_ROOM.min(self.send_window / 2).max(1) {
            return;
        }
        let mut blocked = std::mem::take(&mut self.blocked);
        for id in blocked.drain(..) {
            if let Some(stream) = self.sends.get_mut(&id) {
                stream.in_blocked = false;
                self.push_writable(id);
            }
        }
        // Its memory is used again.
        self.blocked = blocked;
    }

    /// Frees a sending half in a terminal state (RFC 9000 section 3.1).
    pub(super) fn free_send_if_done(&mut self, id: StreamId) {
        let Some(stream) = self.sends.get(&id) else {
            return;
        };
        let delivered = stream.is_delivered();
        if !delivered && !stream.is_reset_done() {
            return;
        }
        if let Some(stream) = self.sends.remove(&id) {
            self.totals.replace(stream.tally(), Tally::default());
            if stream.in_control {
                self.send_control.retain(|x| *x != id);
            }
        }
        if delivered {
            self.events.push_back(StreamEvent::Finished { id });
            self.sched_events.push(id, Fact::FullyAcked);
        }
        self.tidy();
        self.on_half_freed(id);
    }

    /// Frees a receiving half that is over.
    pub(super) fn free_recv(&mut self, id: StreamId) {
        if let Some(mut stream) = self.recvs.remove(&id) {
            stream.assembler.clear(&mut self.pool);
            if stream.in_control {
                self.recv_control.retain(|x| *x != id);
            }
            self.on_half_freed(id);
        }
    }

    fn on_half_freed(&mut self, id: StreamId) {
        if self.sends.contains_key(&id) || self.recvs.contains_key(&id) {
            return;
        }
        if id.initiator() != self.side {
            self.remote[id.dir() as usize].on_closed();
        }
        if self.sends.is_empty() && self.recvs.is_empty() {
            self.pool.trim();
        }
    }
}
