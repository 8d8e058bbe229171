//! The sending half of one stream: what became of each byte.
//!
//! Offsets in here count the end of the stream (FIN) as one more byte after the last one, so that
//! loss, acknowledgement and retransmission of the end need no rules of their own.
//!
//! Every offset up to the end of what was written is in exactly one state:
//! - acknowledged: below `base` or in `acked`;
//! - unsent: at or above `frontier`, or in `holes` (left by [`mpquic_sched_core::Data::Ahead`]);
//! - to be sent again: in `queue`, lost or in flight only on paths in trouble;
//! - in flight: in `copies`, or in none of the maps, which means in flight once, on one path that
//!   is the only one that ever carried it. That common case thus costs nothing.

use mpquic_sched_core::{PathIndex, PathSet, StreamHints, StreamId, VarInt};
use mpquic_wire::frame::{encode_stream_header, stream_header_size};
use mpquic_wire::packet::varint;

use super::block::Pool;
use super::counters::{AckedBytes, Flight, Tally};
use super::range_map::RangeMap;
use super::ready::ReadyQueue;
use super::send_buffer::SendBuffer;
use crate::frame_writer::FrameWriter;
use crate::sent_frame::{SentFrame, StreamRange};

/// A piece of a stream is not made smaller than this to fill a packet's rest.
const MIN_PIECE: u64 = 16;

/// How many ranges are looked at for one that a path has not carried.
const MAX_LOOKED_AT: usize = 16;

/// What a copy may repeat of what its path carried before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Repeats {
    Never,
    /// What was lost there.
    Lost,
    Always,
}

/// RFC 9000 section 3.1; the states in which all is acknowledged are the stream's absence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// "Ready" and "Send".
    Open,
    /// "Data Sent", or on the way there: no more will be written.
    Finished,
    /// "Reset Sent" and "Reset Recvd".
    Reset { code: VarInt, acked: bool },
}

/// Frames that wait to be sent for this half.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct SendPending {
    pub(super) reset: bool,
    pub(super) blocked: bool,
}

#[derive(Debug)]
pub(super) struct SendStream {
    id: StreamId,
    state: State,
    pub(super) buffer: SendBuffer,
    /// The peer's limit (RFC 9000 section 4.1).
    credit: u64,
    base: u64,
    frontier: u64,
    holes: RangeMap<()>,
    acked: RangeMap<()>,
    queue: RangeMap<Flight>,
    copies: RangeMap<Flight>,

    /// What the sums over all streams have of it.
    pub(super) counted: Tally,
    pub(super) priority: i32,
    pub(super) hints: StreamHints,
    /// The peer's STOP_SENDING.
    pub(super) stopped: Option<VarInt>,
    /// The application knows that the stream was stopped.
    pub(super) stop_noticed: bool,
    pub(super) pending: SendPending,
    /// The limit that STREAM_DATA_BLOCKED was queued for.
    pub(super) blocked_at: Option<u64>,

    // Membership in queues of the set, so that none holds a stream twice.
    pub(super) in_control: bool,
    pub(super) in_fresh: bool,
    pub(super) in_again: bool,
    pub(super) in_blocked: bool,
    pub(super) writable_queued: bool,
    /// A write found no credit: Writable is owed once there is.
    pub(super) wants_credit: bool,
}

impl SendStream {
    pub(super) fn new(id: StreamId, credit: u64) -> Self {
        Self {
            id,
            state: State::Open,
            buffer: SendBuffer::default(),
            credit,
            base: 0,
            frontier: 0,
            holes: RangeMap::default(),
            acked: RangeMap::default(),
            queue: RangeMap::default(),
            copies: RangeMap::default(),
            counted: Tally::default(),
            priority: 0,
            hints: StreamHints::default(),
            stopped: None,
            stop_noticed: false,
            pending: SendPending::default(),
            blocked_at: None,
            in_control: false,
            in_fresh: false,
            in_again: false,
            in_blocked: false,
            writable_queued: false,
            wants_credit: false,
        }
    }

    /// Makes one that is over, and [lean](Self::is_lean), a new one.
    pub(super) fn renew(&mut self, new_id: StreamId, new_credit: u64) {
        // All fields, each in its place: a new one would have to be moved here.
        let Self {
            id,
            state,
            buffer,
            credit,
            base,
            frontier,
            holes: _,
            acked: _,
            queue: _,
            copies: _,
            counted,
            priority,
            hints,
            stopped,
            stop_noticed,
            pending,
            blocked_at,
            in_control,
            in_fresh,
            in_again,
            in_blocked,
            writable_queued,
            wants_credit,
        } = self;
        (*id, *state, *credit) = (new_id, State::Open, new_credit);
        buffer.renew();
        (*base, *frontier, *counted) = (0, 0, Tally::default());
        (*priority, *hints) = (0, StreamHints::default());
        (*stopped, *stop_noticed) = (None, false);
        (*pending, *blocked_at) = (SendPending::default(), None);
        (*in_control, *in_fresh, *in_again) = (false, false, false);
        (*in_blocked, *writable_queued, *wants_credit) = (false, false, false);
    }

    /// Whether it holds no memory but what a small stream needs.
    pub(super) fn is_lean(&self) -> bool {
        let bare = self.holes.is_bare() && self.acked.is_bare();
        bare && self.queue.is_bare() && self.copies.is_bare() && self.buffer.is_lean()
    }

    pub(super) const fn id(&self) -> StreamId {
        self.id
    }

    /// Whether the application may write.
    pub(super) fn is_open(&self) -> bool {
        self.state == State::Open
    }

    /// Bytes that the application has written.
    pub(super) fn written(&self) -> u64 {
        self.buffer.end()
    }

    pub(super) fn is_reset(&self) -> bool {
        matches!(self.state, State::Reset { .. })
    }

    /// One past the last offset written, the end included.
    fn end(&self) -> u64 {
        self.buffer.end() + u64::from(self.state == State::Finished)
    }

    /// Never sent, the end included.
    pub(super) fn unsent(&self) -> u64 {
        self.end() - self.frontier + self.holes.total()
    }

    /// The same without the end.
    pub(super) fn unsent_bytes(&self) -> u64 {
        let (data_end, holes) = (self.buffer.end(), self.holes.total());
        // The end itself is never skipped: holes are bytes.
        data_end.saturating_sub(self.frontier) + holes
    }

    /// Never sent, and needing no credit: below what was sent already, or an end alone.
    fn free(&self) -> u64 {
        let end_alone = self.state == State::Finished && self.frontier == self.buffer.end();
        self.holes.total() + u64::from(end_alone)
    }

    pub(super) fn has_free(&self) -> bool {
        self.free() > 0
    }

    /// Waiting to be sent again.
    pub(super) fn again(&self) -> u64 {
        self.queue.total()
    }

    /// Bytes that were sent at least once count for the connection's window: the highest offset.
    pub(super) fn highest_sent(&self) -> u64 {
        self.frontier.min(self.buffer.end())
    }

    pub(super) fn tally(&self) -> Tally {
        if self.is_reset() {
            return Tally::default();
        }
        let elsewhere = self.holes.total() + self.acked.total() + self.queue.total();
        Tally {
            unsent: self.unsent(),
            free: self.free(),
            again: self.again(),
            out_of_order: self.acked.total(),
            in_flight: self.frontier - self.base - elsewhere,
            buffered: self.buffer.len(),
            room: self.room(),
            starved: u64::from(self.is_starved()),
        }
    }

    /// Brings the sums over all streams and the queues of ready ones up to date after a change. True if it may have to leave
    /// a queue.
    // Every change ends with it: one copy of the code for all of them.
    #[inline(never)]
    pub(super) fn settle(
        &mut self,
        totals: &mut Tally,
        fresh: &mut ReadyQueue,
        again: &mut ReadyQueue,
    ) -> bool {
        let apart = self.holes.total() | self.acked.total() | self.queue.total();
        let counted = &self.counted;
        let counted_apart = counted.free | counted.again | counted.out_of_order;
        let in_order = !self.is_reset() && apart | counted_apart == 0;
        // As mostly: some of the sums change, and no queue.
        if in_order && self.in_fresh && self.frontier < self.buffer.end() {
            let unsent = self.end() - self.frontier;
            let in_flight = self.frontier - self.base;
            let room = self.room();
            let counted = &mut self.counted;
            counted.replace_in_order(totals, unsent, in_flight, self.buffer.len(), room);
            return false;
        }
        self.settle_all(totals, fresh, again)
    }

    /// The same, whatever has changed.
    #[inline(never)]
    fn settle_all(
        &mut self,
        totals: &mut Tally,
        fresh: &mut ReadyQueue,
        again: &mut ReadyQueue,
    ) -> bool {
        let now = self.tally();
        totals.replace(&self.counted, &now);
        self.counted = now;
        if now.unsent > 0 && !self.in_fresh {
            self.in_fresh = true;
            fresh.push(self.priority, self.id);
        }
        if now.again > 0 && !self.in_again {
            self.in_again = true;
            again.push(self.priority, self.id);
        }
        (self.in_fresh && now.unsent == 0) || (self.in_again && now.again == 0)
    }

    /// Whether nothing but the peer's limit for this stream holds its writer back.
    pub(super) fn is_starved(&self) -> bool {
        self.wants_more() && self.unsent() == 0
    }

    /// Whether the application has more to write than the peer's limit lets it.
    fn wants_more(&self) -> bool {
        self.wants_credit && self.is_open()
    }

    /// What the peer's limit leaves beyond what was sent. All of a finished stream is within the
    /// limit: that does not hold it back.
    fn room(&self) -> u64 {
        if !self.wants_more() && self.unsent() == 0 {
            return 0;
        }
        let left = match self.state {
            State::Open => self.credit.saturating_sub(self.frontier),
            State::Finished | State::Reset { .. } => u64::MAX,
        };
        left.min(Tally::ROOM_CAP)
    }

    /// Room below the peer's limit for this stream.
    pub(super) fn credit_left(&self) -> u64 {
        self.credit.saturating_sub(self.buffer.end())
    }

    pub(super) fn credit(&self) -> u64 {
        self.credit
    }

    /// MAX_STREAM_DATA; limits never fall (RFC 9000 section 4.1). True if it rose.
    pub(super) fn raise_credit(&mut self, limit: u64) -> bool {
        //= specs/rfc9000.txt#section-4.1
        //# A sender MUST ignore any MAX_STREAM_DATA or MAX_DATA frames that do not increase flow
        //# control limits.
        let rises = limit > self.credit;
        self.credit = self.credit.max(limit);
        rises
    }

    //= specs/rfc9000.txt#section-4.5
    //# An endpoint MUST NOT send data on a stream at or beyond the final size.
    pub(super) fn finish(&mut self) {
        debug_assert!(self.is_open());
        self.state = State::Finished;
    }

    /// Gives up all data. The final size is [`highest_sent`](Self::highest_sent).
    pub(super) fn reset(&mut self, code: VarInt, pool: &mut Pool) {
        //= specs/rfc9000.txt#section-3.3
        //# A sender MUST NOT send a STREAM or STREAM_DATA_BLOCKED frame for a stream in the "Reset
        //# Sent" state or any terminal state -- that is, after sending a RESET_STREAM frame.
        self.frontier = self.highest_sent();
        self.state = State::Reset { code, acked: false };
        self.buffer.clear(pool);
        self.holes.clear();
        self.acked.clear();
        self.queue.clear();
        self.copies.clear();
        self.pending = SendPending {
            reset: true,
            blocked: false,
        };
    }

    /// Code and final size for RESET_STREAM.
    pub(super) fn reset_frame(&self) -> Option<(VarInt, u64)> {
        match self.state {
            //= specs/rfc9000.txt#section-13.3
            //# The content of a RESET_STREAM frame MUST NOT change when it is sent again.
            State::Reset { code, acked: false } => Some((code, self.frontier)),
            _ => None,
        }
    }

    pub(super) fn on_reset_acked(&mut self) {
        if let State::Reset { acked, .. } = &mut self.state {
            *acked = true;
            self.pending.reset = false;
        }
    }

    /// All data and the end were acknowledged ("Data Recvd").
    pub(super) fn is_delivered(&self) -> bool {
        self.state == State::Finished && self.base == self.end()
    }

    /// Nothing is left to do for a stream that was reset, and the application knows of it.
    pub(super) fn is_reset_done(&self) -> bool {
        matches!(self.state, State::Reset { acked: true, .. })
            && (self.stopped.is_none() || self.stop_noticed)
    }

    // -- sending

    /// Writes one frame with data from `start`, which is unacknowledged up to `end`. Where the
    /// frame ended, or `None` if nothing sensible fits.
    fn write_frame(
        &mut self,
        w: &mut FrameWriter<'_>,
        start: u64,
        end: u64,
        carried: PathSet,
    ) -> Option<u64> {
        let id = self.id;
        let data_end = end.min(self.buffer.end());
        let avail = data_end.saturating_sub(start);
        let room = w
            .remaining()
            .checked_sub(stream_header_size(id, start, None))? as u64;
        let fits = avail.min(room);
        if fits < avail.min(MIN_PIECE) {
            return None;
        }
        // RFC 9000 section 19.8: a frame without length extends to the end of the packet.
        let len = if avail >= room {
            None
        } else if avail + varint::size(avail) as u64 <= room {
            Some(avail as usize)
        } else {
            // The length would push data into another packet: a byte of PADDING is cheaper.
            w.buf.resize(w.buf.len() + (room - avail) as usize, 0);
            None
        };
        let data_to = start + fits;
        let fin = end > data_end && data_to == data_end;
        encode_stream_header(w.buf, id, start, fin, len);
        self.buffer.copy_to(start, data_to, w.buf);
        w.record(SentFrame::Stream(StreamRange {
            id: self.id,
            start,
            end: data_to,
            fin,
            carried,
        }));
        Some(data_to + u64::from(fin))
    }

    /// Sends lost data again, if there is some that `path` may carry: the oldest, but for what another of the `usable`
    /// paths has not tried yet. True if something was written.
    pub(super) fn send_again(
        &mut self,
        w: &mut FrameWriter<'_>,
        path: PathIndex,
        usable: PathSet,
    ) -> bool {
        let others = usable.difference(PathSet::only(path));
        let mut choice = None;
        for (start, end, flight) in self.queue.iter().take(MAX_LOOKED_AT) {
            if !flight.may_go(path) {
                continue;
            }
            // What this path lost is better off on another one, if there is another one. Without any, the receiver
            // would wait for the oldest data until all that is newer has left.
            let tried = flight.carried.contains(path);
            if !tried || others.difference(flight.carried).is_empty() {
                choice = Some((start, end, flight));
                break;
            }
            choice = choice.or(Some((start, end, flight)));
        }
        let Some((start, end, flight)) = choice else {
            return false;
        };
        let flight = flight.sent(path);
        let Some(to) = self.write_frame(w, start, end, flight.carried) else {
            return false;
        };
        w.mark_retransmission(to.min(self.buffer.end()) - start);
        self.queue.remove(start, to);
        self.place(start, to, flight);
        true
    }

    /// Sends data for the first time, lowest offset first. The credit that it cost, or `None` if
    /// nothing was written.
    pub(super) fn send_fresh(
        &mut self,
        w: &mut FrameWriter<'_>,
        path: PathIndex,
        window_left: u64,
    ) -> Option<u64> {
        if let Some((start, end, ())) = self.holes.first() {
            let to = self.write_frame(w, start, end, PathSet::only(path))?;
            self.holes.remove(start, to);
            return Some(0);
        }
        self.send_at(w, path, self.frontier, window_left)
    }

    /// Sends data for the first time, behind a gap of so many unsent bytes; never the end alone.
    /// The credit that it cost, or `None` if nothing was written.
    pub(super) fn send_ahead(
        &mut self,
        w: &mut FrameWriter<'_>,
        path: PathIndex,
        gap: u64,
        window_left: u64,
    ) -> Option<u64> {
        if let Some((start, end)) = self.holes.nth(gap) {
            let to = self.write_frame(w, start, end, PathSet::only(path))?;
            self.holes.remove(start, to);
            return Some(0);
        }
        let left = gap - self.holes.total();
        let start = self.frontier.checked_add(left)?;
        if start >= self.buffer.end() {
            return None;
        }
        self.send_at(w, path, start, window_left)
    }

    /// Sends from `start`, at or beyond the frontier.
    fn send_at(
        &mut self,
        w: &mut FrameWriter<'_>,
        path: PathIndex,
        start: u64,
        window_left: u64,
    ) -> Option<u64> {
        // RFC 9000 section 4.1: highest offsets count, so that a gap costs credit too; an end
        // costs none.
        //= specs/rfc9000.txt#section-19.10
        //# The data sent on a stream MUST NOT exceed the largest maximum stream data value
        //# advertised by the receiver.
        //= specs/rfc9000.txt#section-19.9
        //# The sum of the final sizes on all streams -- including streams in terminal states --
        //# MUST NOT exceed the value advertised by a receiver.
        //= specs/rfc9000.txt#section-4.1
        //# Senders MUST NOT send data in excess of either limit.
        //= specs/rfc9000.txt#section-2.2
        //# An endpoint MUST NOT send data on any stream without ensuring that it is within the flow
        //# control limits set by its peer.
        let limit = self.frontier.saturating_add(window_left);
        let end = if limit < self.buffer.end() {
            limit
        } else {
            self.end()
        };
        if start >= end {
            return None;
        }
        let to = self.write_frame(w, start, end, PathSet::only(path))?;
        let before = self.highest_sent();
        self.holes.insert(self.frontier, start, ());
        self.frontier = to;
        Some(self.highest_sent() - before)
    }

    /// Whether the first byte that is not acknowledged is in this range.
    pub(super) fn is_waited_for(&self, r: &StreamRange) -> bool {
        !self.is_reset() && (r.start..r.end + u64::from(r.fin)).contains(&self.base)
    }

    /// Whether any of this range is in flight in one packet only.
    pub(super) fn is_in_flight_once(&self, r: &StreamRange) -> bool {
        let end = r.end + u64::from(r.fin);
        let mut pos = r.start;
        while !self.is_reset() && pos < end {
            let (flight, to) = self.flight_at(pos, end, r.carried);
            if flight.is_some_and(|flight| flight.count <= 1) {
                return true;
            }
            pos = to;
        }
        false
    }

    /// Sends what is not acknowledged of a range again as a copy, as far as it fits.
    pub(super) fn send_copy(
        &mut self,
        w: &mut FrameWriter<'_>,
        r: &StreamRange,
        path: PathIndex,
        repeats: Repeats,
    ) -> Option<StreamRange> {
        if self.is_reset() || (r.carried.contains(path) && repeats == Repeats::Never) {
            return None;
        }
        let end = r.end + u64::from(r.fin);
        let mut carried = r.carried;
        let mut found = None;
        let mut pos = r.start;
        // The first run of pieces that may go.
        while pos < end {
            let (flight, to) = self.flight_at(pos, end, r.carried);
            let flight = flight.filter(|flight| match repeats {
                Repeats::Never => !flight.carried.contains(path),
                Repeats::Lost => flight.may_go(path),
                Repeats::Always => true,
            });
            match (flight, found) {
                (Some(flight), _) => {
                    carried = carried.union(flight.carried);
                    found.get_or_insert(pos);
                }
                (None, Some(_)) => break,
                (None, None) => {}
            }
            pos = to;
        }
        let start = found?;
        carried.insert(path);
        let to = self.write_frame(w, start, pos, carried)?;
        let bytes = to.min(self.buffer.end()) - start;
        match repeats {
            Repeats::Always => w.mark_retransmission(bytes),
            Repeats::Never | Repeats::Lost => w.mark_copy(bytes),
        }
        self.for_each_flight(start, to, r.carried, |stream, from, to, flight, _| {
            let flight = flight.sent(path);
            stream.take_out(from, to);
            stream.place(from, to, flight);
        });
        let fin = to > self.buffer.end();
        Some(StreamRange {
            id: self.id,
            start,
            end: to - u64::from(fin),
            fin,
            carried,
        })
    }

    // -- acknowledged, lost

    /// A packet with this range was acknowledged. Its memory is given back by [`release_acked`](Self::release_acked).
    pub(super) fn on_acked(&mut self, r: &StreamRange) -> AckedBytes {
        let end = r.end + u64::from(r.fin);
        if self.is_reset() || end <= self.base {
            return AckedBytes::default();
        }
        let data_end = self.buffer.end();
        let base_before = self.base;
        let fin_before = r.fin && self.acked.probe(data_end).0.is_some();
        let mut newly = 0;
        let plain = self.queue.is_empty() && self.copies.is_empty();
        if plain && r.start <= self.base && self.acked.is_empty() {
            newly = end - self.base;
            self.base = end;
        } else {
            self.for_each_flight(r.start, end, r.carried, |stream, from, to, _, _| {
                stream.take_out(from, to);
                stream.acked.insert(from, to, ());
                newly += to - from;
            });
            if let Some((start, to, ())) = self.acked.first()
                && start <= self.base
            {
                self.acked.remove(start, to);
                self.base = to;
            }
        }
        if r.fin && !fin_before && newly > 0 {
            newly -= 1;
        }
        let contiguous = self.base.min(data_end) - base_before.min(data_end);
        AckedBytes { newly, contiguous }
    }

    /// Forgets the bytes that were acknowledged.
    pub(super) fn release_acked(&mut self, pool: &mut Pool) {
        self.buffer.release(self.base, pool);
    }

    /// A packet with this range was declared lost; it went out on `path`.
    pub(super) fn on_lost(&mut self, r: &StreamRange, path: PathIndex, suspects: PathSet) {
        if self.is_reset() {
            return;
        }
        let end = r.end + u64::from(r.fin);
        self.for_each_flight(
            r.start,
            end,
            r.carried,
            |stream, from, to, flight, queued| {
                let flight = flight.lost(path);
                stream.take_out(from, to);
                if queued || flight.needs_sending(suspects) {
                    stream.queue.insert(from, to, flight);
                } else {
                    stream.place(from, to, flight);
                }
            },
        );
    }

    /// A path in trouble has this range in flight: send it elsewhere, unless it is in flight on a
    /// healthy path too.
    pub(super) fn make_sendable(&mut self, r: &StreamRange, suspects: PathSet) {
        if self.is_reset() {
            return;
        }
        let end = r.end + u64::from(r.fin);
        self.for_each_flight(
            r.start,
            end,
            r.carried,
            |stream, from, to, flight, queued| {
                if !queued && flight.needs_sending(suspects) {
                    stream.take_out(from, to);
                    stream.queue.insert(from, to, flight);
                }
            },
        );
    }

    /// A path ended; its slot will mean another one.
    pub(super) fn forget_path(&mut self, path: PathIndex) {
        self.queue.for_each_value(|flight| flight.forget(path));
        self.copies.for_each_value(|flight| flight.forget(path));
    }

    /// The state at `pos`, `None` if acknowledged, and up to where it is the same.
    fn flight_at(&self, pos: u64, end: u64, carried: PathSet) -> (Option<Flight>, u64) {
        if pos < self.base {
            return (None, self.base.min(end));
        }
        let (acked, to) = self.acked.probe(pos);
        let end = end.min(to);
        if acked.is_some() {
            return (None, end);
        }
        let (queued, to) = self.queue.probe(pos);
        let end = end.min(to);
        if queued.is_some() {
            return (queued, end);
        }
        let (copied, to) = self.copies.probe(pos);
        (copied.or_else(|| Some(Flight::once(carried))), end.min(to))
    }

    /// Calls `f` for each unacknowledged piece of a range that was sent, with its state and
    /// whether it waits to be sent again.
    fn for_each_flight(
        &mut self,
        start: u64,
        end: u64,
        carried: PathSet,
        mut f: impl FnMut(&mut Self, u64, u64, Flight, bool),
    ) {
        let mut pos = start;
        while pos < end {
            let (flight, to) = self.flight_at(pos, end, carried);
            if let Some(flight) = flight {
                let queued = self.queue.probe(pos).0.is_some();
                f(self, pos, to, flight, queued);
            }
            pos = to;
        }
    }

    /// Takes a piece out of the maps of what is not acknowledged.
    fn take_out(&mut self, start: u64, end: u64) {
        self.queue.remove(start, end);
        self.copies.remove(start, end);
    }

    /// Puts a piece that is in flight where it belongs.
    fn place(&mut self, start: u64, end: u64, flight: Flight) {
        if !flight.is_plain() {
            self.copies.insert(start, end, flight);
        }
    }
}

#[cfg(test)]
impl SendStream {
    /// How often `pos` is in flight and whether it waits, for the model; `None` if acknowledged.
    pub(super) fn inspect(&self, pos: u64) -> Option<(bool, Option<u16>, bool)> {
        if pos < self.base || self.acked.probe(pos).0.is_some() {
            return None;
        }
        let unsent = pos >= self.frontier || self.holes.probe(pos).0.is_some();
        let queued = self.queue.probe(pos).0;
        let copied = self.copies.probe(pos).0;
        assert!(
            usize::from(unsent) + usize::from(queued.is_some()) + usize::from(copied.is_some())
                <= 1
        );
        let count = queued.or(copied).map(|f| f.count);
        Some((unsent, count, queued.is_some()))
    }
}
