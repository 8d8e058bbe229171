//! All streams of a connection and what they share: IDs, windows, queues of turns.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mpquic_sched_core::{
    Dir, MAX_STREAM_VIEWS, PathSet, Side, StreamHead, StreamId, StreamUpdateKind as Fact,
    StreamView,
};

use super::StreamEvent;
use super::assembler::Held;
use super::block::Pool;
use super::control_queue::ControlQueue;
use super::counters::Tally;
use super::events::SchedEvents;
use super::flow::{self, INITIAL_STREAM_WINDOW, INITIAL_WINDOW, RecvWindow};
use super::ids::{LocalIds, RemoteIds};
use super::min_peer_rate::Pace;
use super::outgoing::Unsettled;
use super::ready::ReadyQueue;
use super::recv::RecvStream;
use super::send::SendStream;
use super::spare::Spare;
use super::stream_map::StreamMap;
use crate::TransportConfig;
use crate::limits::{GUARANTEED_MEMORY, MIN_SEND_BUFFER, max_stream_gaps};
use crate::memory::{Direction, Loan, Memory, MemoryFor};

/// Blocked writers are woken when so much of the send window is free, or half of it.
const WAKE_ROOM: u64 = 64 * 1024;

/// What a connection may hold of received data beyond what it could borrow.
const RESERVE: u64 = 64 * 1024;

/// The time between two packets out of order that take of it.
const RESERVE_INTERVAL: Duration = Duration::from_millis(100);

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
    /// What the peer's windows, the connection's and the streams', leave for new data.
    pub(crate) credit: u64,
    /// There is new data, written or wanting to be, and the peer's windows let none of it go.
    pub(crate) blocked: bool,
}

/// All streams of a connection.
#[derive(Debug)]
pub(crate) struct Streams {
    pub(super) side: Side,
    //= specs/rfc9000.txt#section-4.4
    //# Both endpoints MUST maintain flow control state for the stream in the unterminated direction
    //# until that direction enters a terminal state.
    // A half that is over is gone from its map.
    pub(super) sends: StreamMap<SendStream>,
    pub(super) recvs: StreamMap<RecvStream>,
    pub(super) local: [LocalIds; 2],
    pub(super) remote: [RemoteIds; 2],
    pub(super) params: PeerStreamParams,
    pub(super) pool: Pool,
    pub(super) spare: Spare,

    // Sending.
    /// The peer's MAX_DATA.
    pub(super) max_data: u64,
    /// Sum of the highest offsets sent.
    pub(super) data_sent: u64,
    pub(super) send_window: u64,
    /// What the paths can use of it.
    worthwhile: u64,
    pub(super) send_loan: Loan,
    pub(super) pace: Pace,
    pub(super) totals: Tally,
    /// Streams with data never sent.
    pub(super) fresh: ReadyQueue,
    /// Streams with data to be sent again.
    pub(super) again: ReadyQueue,
    /// What was acknowledged last, until the sums know of it.
    pub(super) acked: Option<Unsettled>,
    /// Paths in trouble.
    pub(super) suspects: PathSet,
    /// Paths that can be counted on to carry data soon.
    pub(super) usable: PathSet,
    /// Paths on which lost data would arrive later than on a faster one that has no room just now.
    pub(super) late: PathSet,
    /// Each path repeats what it has lost, also while another has a copy in flight.
    pub(super) each_repeats: bool,
    /// Writers that wait for room in the send window.
    pub(super) blocked: Vec<StreamId>,
    /// The limit that DATA_BLOCKED was sent for.
    pub(super) told_blocked_at: Option<u64>,

    // Receiving.
    pub(super) window: RecvWindow,
    first_stream_window: u64,
    stream_window_max: u64,
    /// Sum of the highest offsets received.
    pub(super) received: u64,
    /// A MAX_DATA was lost.
    pub(super) announce_again: bool,
    pub(super) max_gaps_seen: usize,
    /// Received beyond the first gap of each stream, summed over them.
    out_of_order: u64,
    max_out_of_order_seen: u64,
    /// Memory of the receive buffers.
    held: u64,
    recv_loan: Loan,
    /// When more than the loan may be taken again.
    reserve_at: Option<Instant>,

    // Waiting to be polled or sent.
    pub(super) send_control: ControlQueue,
    pub(super) recv_control: ControlQueue,
    pub(super) events: VecDeque<StreamEvent>,
    pub(super) opened_queued: [bool; 2],
    pub(super) sched_events: SchedEvents,
}

fn connection_window(config: &TransportConfig) -> RecvWindow {
    let max = config.receive_window;
    RecvWindow::new(
        flow::first(config.window_auto_tuning, INITIAL_WINDOW, max),
        max,
    )
}

fn stream_window(config: &TransportConfig) -> RecvWindow {
    let max = config.stream_receive_window;
    RecvWindow::new(
        flow::first(config.window_auto_tuning, INITIAL_STREAM_WINDOW, max),
        max,
    )
}

impl Streams {
    pub(crate) fn new(side: Side, config: &TransportConfig) -> Self {
        Self {
            side,
            sends: StreamMap::new(),
            recvs: StreamMap::new(),
            local: Default::default(),
            remote: [
                RemoteIds::new(config.max_concurrent_bidi_streams),
                RemoteIds::new(config.max_concurrent_uni_streams),
            ],
            params: PeerStreamParams::default(),
            pool: Pool::default(),
            spare: Spare::default(),
            max_data: 0,
            data_sent: 0,
            send_window: config.send_window,
            worthwhile: match config.window_auto_tuning {
                true => 0,
                false => u64::MAX,
            },
            send_loan: Loan::unlimited(Direction::Send),
            pace: Pace::default(),
            totals: Tally::default(),
            fresh: ReadyQueue::default(),
            again: ReadyQueue::default(),
            acked: None,
            suspects: PathSet::EMPTY,
            usable: PathSet::EMPTY,
            late: PathSet::EMPTY,
            each_repeats: false,
            blocked: Vec::new(),
            told_blocked_at: None,
            window: connection_window(config),
            first_stream_window: stream_window(config).size(),
            stream_window_max: config.stream_receive_window,
            received: 0,
            announce_again: false,
            max_gaps_seen: 0,
            out_of_order: 0,
            max_out_of_order_seen: 0,
            held: 0,
            reserve_at: None,
            recv_loan: Loan::unlimited(Direction::Receive),
            send_control: ControlQueue::default(),
            recv_control: ControlQueue::default(),
            events: VecDeque::new(),
            opened_queued: [false; 2],
            sched_events: SchedEvents::default(),
        }
    }

    /// What is held counts for this memory from now on.
    pub(crate) fn share(&mut self, memory: &Arc<Memory>) {
        self.send_loan = Loan::new(Arc::clone(memory), Direction::Send);
        self.recv_loan = Loan::new(Arc::clone(memory), Direction::Receive);
    }

    /// What our transport parameters must say.
    pub(crate) fn local_params(config: &TransportConfig) -> PeerStreamParams {
        let stream = stream_window(config).limit();
        PeerStreamParams {
            max_data: connection_window(config).limit(),
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
        let ids: Vec<_> = self.sends.ids().collect();
        for id in ids {
            let credit = self.initial_credit(id);
            self.raise_stream_credit(id, credit);
        }
        self.on_max_data(params.max_data);
        self.raise_stream_limit(Dir::Bi, params.max_streams_bidi);
        self.raise_stream_limit(Dir::Uni, params.max_streams_uni);
    }

    /// The server rejected 0-RTT, and nothing was received yet: as if no stream had ever been opened.
    pub(crate) fn start_over(&mut self, config: &TransportConfig) {
        let before = std::mem::replace(self, Self::new(self.side, config));
        self.sched_events.enabled = before.sched_events.enabled;
        self.worthwhile = before.worthwhile;
        (self.suspects, self.usable, self.late) = (before.suspects, before.usable, before.late);
        (self.send_loan, self.recv_loan) = (before.send_loan, before.recv_loan);
        self.send_loan.settle(0);
        for (ids, before) in self.local.iter_mut().zip(before.local) {
            // Whoever waits to open a stream still does.
            ids.wanted = before.wanted;
        }
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
            let credit = self.initial_credit(id);
            self.sends.insert(id, self.spare.send(id, credit));
            self.sched_events.push(id, Fact::Opened);
        }
        if !ours || id.dir() == Dir::Bi {
            let window = RecvWindow::new(self.first_stream_window, self.stream_window_max);
            self.recvs.insert(id, self.spare.recv(window));
        }
    }

    // -- figures

    pub(crate) fn open(&mut self, dir: Dir) -> Option<StreamId> {
        let ids = &mut self.local[dir as usize];
        //= specs/rfc9000.txt#section-4.6
        //# Endpoints MUST NOT exceed the limit set by their peer.
        //= specs/rfc9000.txt#section-19.11
        //# An endpoint MUST NOT open more streams than permitted by the current stream limit set by
        //# its peer.
        if ids.next >= ids.limit {
            ids.wanted = true;
            return None;
        }
        let id = StreamId::new(self.side, dir, ids.next);
        //= specs/rfc9000.txt#section-2.1
        //# A QUIC endpoint MUST NOT reuse a stream ID within a connection.
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

    pub(crate) fn poll_event(&mut self) -> Option<StreamEvent> {
        while let Some(event) = self.events.pop_front() {
            let holds = match event {
                StreamEvent::Opened { dir } => {
                    self.opened_queued[dir as usize] = false;
                    self.remote[dir as usize].has_unaccepted()
                }
                StreamEvent::Readable { id } => self.recvs.get_mut(id).is_some_and(|s| {
                    s.readable_queued = false;
                    s.is_readable()
                }),
                StreamEvent::Writable { id } => self.sends.get_mut(id).is_some_and(|s| {
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

    pub(crate) fn queue(&self) -> QueueCounters {
        debug_assert!(self.acked.is_none(), "the sums are not up to date");
        QueueCounters {
            unsent: self.totals.unsent,
            retransmittable: self.totals.again,
            window_left: self.window_left(),
            out_of_order: self.totals.out_of_order,
            in_flight: self.totals.in_flight,
            credit: self.window_left().min(self.totals.room),
            blocked: if self.totals.unsent > self.totals.free {
                self.window_left() == 0
            } else {
                self.totals.starved > 0
            },
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
        let stream = self.sends.get(id)?;
        Some(StreamHead::new(
            id,
            stream.priority,
            stream.unsent(),
            stream.hints.deadline,
            stream.hints.chunk,
        ))
    }

    /// The streams with data to send, for a scheduler that wants to know: those with data never
    /// sent in the order of their turns, then those with data to be sent again only.
    #[inline(never)]
    pub(crate) fn views(&self, views: &mut Vec<StreamView>) {
        views.clear();
        let fresh = self.fresh.iter().map(|id| (id, false));
        let again = self.again.iter().map(|id| (id, true));
        for (id, again) in fresh.chain(again) {
            if views.len() == MAX_STREAM_VIEWS {
                break;
            }
            let Some(stream) = self.sends.get(id) else {
                continue;
            };
            let tally = stream.tally();
            // The queues are tidied at their fronts only; and no stream is listed twice.
            let listed = if again {
                tally.again > 0 && tally.unsent == 0
            } else {
                tally.unsent > 0
            };
            if listed {
                let mut view = StreamView::new(id, stream.priority, tally.unsent);
                view.retransmittable = tally.again;
                view.sent = stream.highest_sent();
                view.size = stream.hints.size;
                view.deadline = stream.hints.deadline;
                view.chunk = stream.hints.chunk;
                view.tag = stream.hints.tag;
                views.push(view);
            }
        }
    }

    /// Whether there is a stream that we receive on.
    pub(crate) fn may_receive(&self) -> bool {
        !self.recvs.is_empty()
    }

    /// Whether data is to come on one of these. Looks at them one by one.
    pub(crate) fn expects_data(&self) -> bool {
        self.recvs.values().any(|stream| stream.expects_data())
    }

    /// Whether anything that was sent is not acknowledged.
    #[cfg(test)]
    pub(crate) fn has_unacked(&self) -> bool {
        self.totals.in_flight + self.totals.again > 0
    }

    /// Bytes written and kept until all up to them is acknowledged.
    pub(crate) fn buffered_send(&self) -> u64 {
        self.totals.buffered
    }

    /// Bytes received and not read.
    #[cfg(test)]
    pub(crate) fn buffered_recv(&self) -> u64 {
        self.recvs.values().map(|s| s.assembler.buffered()).sum()
    }

    /// The most gaps that one stream's data has had.
    pub(crate) fn max_gaps_seen(&self) -> usize {
        self.max_gaps_seen
    }

    /// Bytes received beyond the first gap of their stream, over all streams.
    pub(crate) fn out_of_order(&self) -> u64 {
        self.out_of_order
    }

    /// The most that there were of these bytes.
    pub(crate) fn max_out_of_order_seen(&self) -> u64 {
        self.max_out_of_order_seen
    }

    /// Halves of streams that have state, sending and receiving.
    pub(crate) fn open_halves(&self) -> (usize, usize) {
        (self.sends.len(), self.recvs.len())
    }

    /// Gaps of the streams that are read out of order.
    pub(crate) fn unordered_gaps(&self) -> usize {
        let unordered = self.recvs.values().filter(|s| s.assembler.is_unordered());
        unordered.map(|stream| stream.assembler.gaps()).sum()
    }

    /// What the peer has used of the connection's credit and the application has not read: data, and the gaps in it.
    pub(crate) fn credit_in_use(&self) -> u64 {
        self.received.saturating_sub(self.window.consumed())
    }

    /// Calls `tell` with each collection that the peer can make grow, its size and its cap.
    pub(crate) fn for_each_size(&self, tell: &mut impl FnMut(&'static str, usize, usize)) {
        let mut total = 0;
        for stream in self.recvs.values() {
            let (window, assembler) = (stream.window.size(), &stream.assembler);
            let bytes = (assembler.readable() + assembler.out_of_order()) as usize;
            total += bytes;
            tell(
                "gaps of a stream",
                assembler.gaps(),
                max_stream_gaps(window),
            );
            tell("bytes of a stream", bytes, window as usize);
            tell(
                "memory of a stream",
                assembler.held(),
                assembler.most_held(),
            );
        }
        tell("bytes of all streams", total, self.window.size() as usize);
        for ids in &self.remote {
            let (open, most) = ids.open();
            tell("streams of the peer", open as usize, most as usize);
        }
    }

    // -- bookkeeping

    /// Changes a sending half and brings the sums and queues up to date.
    pub(super) fn with_send<T>(
        &mut self,
        id: StreamId,
        f: impl FnOnce(&mut SendStream, &mut Pool) -> T,
    ) -> Option<T> {
        let stream = self.sends.get_mut(id)?;
        let result = f(stream, &mut self.pool);
        if stream.settle(&mut self.totals, &mut self.fresh, &mut self.again) {
            self.tidy();
        }
        Some(result)
    }

    /// What one stream has of received data was `before`, and is `after` now.
    #[inline]
    pub(super) fn note_held(&mut self, before: Held, after: Held) {
        if before == after {
            // Data in order, for which there was room; and what is lent may have become more.
            self.recv_loan.settle(self.held);
        } else {
            self.note_change(before, after);
        }
    }

    #[inline(never)]
    fn note_change(&mut self, before: Held, after: Held) {
        self.out_of_order = self.out_of_order - before.out_of_order + after.out_of_order;
        self.max_out_of_order_seen = self.max_out_of_order_seen.max(self.out_of_order);
        self.held = self.held - before.memory + after.memory;
        self.recv_loan.settle(self.held);
    }

    /// The most that received data may take, while others hold what they do.
    pub(super) fn most_memory(&self) -> u64 {
        self.recv_loan.most()
    }

    /// For which received data there is memory, if it is so many bytes. Half of the reserve is for any data, now and then:
    /// a peer that hears nothing at all could not tell what was lost. All of it is for data in order, at any time: what
    /// waits behind gaps must not keep out what fills them.
    pub(crate) fn memory_for(&mut self, now: Instant, bytes: u64) -> MemoryFor {
        let wanted = self.held + bytes;
        let covered = self.recv_loan.cover(wanted);
        if covered == wanted {
            return MemoryFor::All;
        }
        let due = self.reserve_at.is_none_or(|at| at <= now);
        if due && wanted <= covered + RESERVE / 2 {
            self.reserve_at = Some(now + RESERVE_INTERVAL);
            return MemoryFor::All;
        }
        match wanted <= covered + RESERVE {
            true => MemoryFor::InOrder,
            false => MemoryFor::Nothing,
        }
    }

    /// Whether the data begins where what was received without a gap ends, or before.
    pub(super) fn is_in_order(&self, id: StreamId, offset: u64) -> bool {
        match self.recvs.get(id) {
            None => offset == 0,
            Some(stream) => offset <= stream.assembler.frontier(),
        }
    }

    /// Whether data needs no memory for long: it was received already, or it comes next for an application
    /// that has read all before it, or it is not kept.
    pub(super) fn needs_no_memory(&self, id: StreamId, offset: u64, len: u64) -> bool {
        match self.recvs.get(id) {
            None => offset == 0,
            Some(stream) => stream.needs_no_memory(offset, len),
        }
    }

    pub(super) fn queue_send_control(&mut self, id: StreamId) {
        if let Some(stream) = self.sends.get_mut(id)
            && !stream.in_control
        {
            stream.in_control = true;
            self.send_control.push(id);
        }
    }

    pub(super) fn queue_recv_control(&mut self, id: StreamId) {
        if let Some(stream) = self.recvs.get_mut(id)
            && !stream.in_control
        {
            stream.in_control = true;
            self.recv_control.push(id);
        }
    }

    pub(super) fn push_readable(&mut self, id: StreamId) {
        if let Some(stream) = self.recvs.get_mut(id)
            && !stream.readable_queued
        {
            stream.readable_queued = true;
            self.emit(StreamEvent::Readable { id });
        }
    }

    pub(super) fn push_writable(&mut self, id: StreamId) {
        if let Some(stream) = self.sends.get_mut(id)
            && !stream.writable_queued
        {
            stream.writable_queued = true;
            self.emit(StreamEvent::Writable { id });
        }
    }

    /// How much of `wanted` may be written now.
    pub(super) fn send_room(&mut self, wanted: u64) -> u64 {
        let held = self.totals.buffered;
        let own = self.own_limit().saturating_sub(held).min(wanted);
        self.send_loan.cover(held + own).saturating_sub(held)
    }

    /// The most that may be kept, as far as this connection alone decides. What is acknowledged behind a
    /// gap is kept, too, and no path has a use for it.
    fn own_limit(&self) -> u64 {
        // What begins or waits may hold more than its paths can use, so that the schedulers see far ahead: while
        // there is plenty. A crowd of readers that take nothing would pin most of the pool that way.
        let least = match self.send_loan.is_crowded() {
            false => MIN_SEND_BUFFER,
            true => GUARANTEED_MEMORY,
        };
        let worthwhile = self.worthwhile.max(least);
        let worthwhile = worthwhile.saturating_add(self.totals.out_of_order);
        self.send_window.min(worthwhile)
    }

    /// Whether windows have their full size from the start.
    pub(super) const fn has_fixed_windows(&self) -> bool {
        self.worthwhile == u64::MAX
    }

    /// The paths can use so many bytes of written data. No effect on windows of fixed size.
    pub(crate) fn set_worthwhile(&mut self, bytes: u64) {
        if !self.has_fixed_windows() {
            self.worthwhile = bytes.min(u64::MAX - 1);
        }
    }

    /// A period of the peer's pace is over: how many bytes it took, if more waited for it all the time.
    pub(crate) fn end_period(&mut self) -> Option<u64> {
        self.pace.next(self.waits_for_peer())
    }

    /// Whether data waits for the peer: for its acknowledgement, or for its credit.
    fn waits_for_peer(&self) -> bool {
        self.totals.buffered > self.totals.out_of_order || self.totals.starved > 0
    }

    /// Data was acknowledged or given up: memory goes back, and writers go on.
    pub(super) fn on_send_buffer_freed(&mut self) {
        self.send_loan.settle(self.totals.buffered);
        if !self.waits_for_peer() {
            self.pace.on_all_taken();
        }
        self.wake_writers();
    }

    /// Tells writers that wait for the send window, once it has room worth a write.
    pub(super) fn wake_writers(&mut self) {
        if self.blocked.is_empty() {
            return;
        }
        let most = self.own_limit().min(self.send_loan.most());
        let room = most.saturating_sub(self.totals.buffered);
        if room < WAKE_ROOM.min(most / 2).max(1) {
            return;
        }
        let mut blocked = std::mem::take(&mut self.blocked);
        for id in blocked.drain(..) {
            if let Some(stream) = self.sends.get_mut(id) {
                stream.in_blocked = false;
                self.push_writable(id);
            }
        }
        // Its memory is used again.
        self.blocked = blocked;
    }

    /// Frees a sending half in a terminal state (RFC 9000 section 3.1).
    pub(super) fn free_send_if_done(&mut self, id: StreamId) {
        let Some(stream) = self.sends.get(id) else {
            return;
        };
        let delivered = stream.is_delivered();
        if !delivered && !stream.is_reset_done() {
            return;
        }
        //= specs/rfc9000.txt#section-3.3
        //# A sender MUST NOT send any of these frames from a terminal state ("Data Recvd" or "Reset
        //# Recvd").
        if let Some(stream) = self.sends.remove(id) {
            self.totals.replace(&stream.counted, &Tally::default());
            if stream.in_control || stream.in_fresh || stream.in_again {
                self.on_queued_freed(&stream);
            }
            if delivered {
                self.spare.keep_send(stream);
            }
        }
        if delivered {
            self.emit(StreamEvent::Finished { id });
            self.sched_events.push(id, Fact::FullyAcked);
        }
        self.tidy();
        self.on_half_freed(id);
    }

    /// A sending half is freed that is in some queue.
    #[cold]
    #[inline(never)]
    fn on_queued_freed(&mut self, stream: &SendStream) {
        let there = |id| self.sends.contains(id);
        if stream.in_control {
            self.send_control.on_freed(there);
        }
        if stream.in_fresh {
            self.fresh.on_freed(there);
        }
        if stream.in_again {
            self.again.on_freed(there);
        }
    }

    // In many places, and most of it is the queue's code: one copy for all.
    #[inline(never)]
    pub(super) fn emit(&mut self, event: StreamEvent) {
        self.events.push_back(event);
    }

    /// Frees a receiving half that is over.
    pub(super) fn free_recv(&mut self, id: StreamId) {
        if let Some(mut stream) = self.recvs.remove(id) {
            let before = stream.assembler.usage();
            stream.assembler.clear(&mut self.pool);
            self.note_held(before, Held::default());
            if stream.in_control {
                self.recv_control.on_freed(|id| self.recvs.contains(id));
            }
            self.spare.keep_recv(stream);
            self.on_half_freed(id);
        }
    }

    /// The connection ended: nothing more is sent. What was received can still be read.
    pub(crate) fn on_closed(&mut self) {
        let ids: Vec<_> = self.sends.ids().collect();
        for id in ids {
            self.with_send(id, |stream, pool| stream.buffer.clear(pool));
        }
        self.send_loan.settle(0);
        self.shrink();
    }

    /// Gives back memory that is kept to be used again.
    pub(crate) fn shrink(&mut self) {
        self.pool = Pool::default();
        self.spare = Spare::default();
        self.fresh.shrink();
        self.again.shrink();
        self.blocked.shrink_to_fit();
        self.sends.shrink();
        self.recvs.shrink();
        self.send_control.shrink();
        self.recv_control.shrink();
        self.events.shrink_to_fit();
        self.sched_events.shrink();
        for stream in self.recvs.values_mut() {
            stream.assembler.shrink();
        }
    }

    fn on_half_freed(&mut self, id: StreamId) {
        if self.sends.contains(id) || self.recvs.contains(id) {
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
