//! Streams that we send on: what the application writes, what packets carry of it, and what became of that; does not
//! choose paths.

use std::time::Instant;

use bytes::Bytes;
use mpquic_sched_core::{
    Data, PathIndex, PathSet, StreamHints, StreamId, StreamUpdateKind as Fact, VarInt,
};
use smallvec::SmallVec;

use super::block::Pool;
use super::counters::AckedBytes;
use super::send::{Repeats, SendStream};
use super::set::Streams;
use super::{ClosedStream, FinishError, WriteError};
use crate::frame_writer::FrameWriter;
use crate::sent_frame::StreamRange;

/// A stream of which something was acknowledged that the sums over all streams do not know of.
#[derive(Debug, Clone, Copy)]
pub(super) struct Unsettled {
    id: StreamId,
    /// For the first time.
    newly: bool,
}

/// Less room than this is not worth a copy of stream data.
pub(crate) const MIN_COPY_ROOM: usize = 40;

/// Writes a range of a stream once more.
type FillRange =
    fn(&mut Streams, &mut FrameWriter<'_>, &StreamRange, PathIndex) -> Option<StreamRange>;

/// What the application does.
impl Streams {
    /// How much of `wanted` may be written now.
    fn room(&mut self, id: StreamId, wanted: usize) -> Result<usize, WriteError> {
        let Some(stream) = self.sends.get_mut(id) else {
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
        let room = self.send_room(credit.min(wanted.max(1) as u64));
        if room == 0 {
            if let Some(stream) = self.sends.get_mut(id)
                && !stream.in_blocked
            {
                stream.in_blocked = true;
                self.blocked.push(id);
            }
            return Err(WriteError::Blocked);
        }
        Ok(usize::try_from(room).unwrap_or(usize::MAX))
    }

    pub(crate) fn write(&mut self, id: StreamId, data: &[u8]) -> Result<usize, WriteError> {
        let room = self.room(id, data.len())?;
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
        let room = self.room(id, chunk.len())?;
        let data = chunk.split_to(chunk.len().min(room));
        let n = data.len();
        self.append(id, n, |stream, pool| stream.buffer.push(data, pool));
        Ok(n)
    }

    fn append(&mut self, id: StreamId, n: usize, f: impl FnOnce(&mut SendStream, &mut Pool)) {
        if n > 0 {
            self.pace.on_written();
            self.with_send(id, f);
            self.sched_events.push(id, Fact::Written(n as u64));
        }
    }

    pub(crate) fn finish(&mut self, id: StreamId) -> Result<(), FinishError> {
        let Some(stream) = self.sends.get_mut(id) else {
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

    //= specs/rfc9000.txt#section-11.2
    //# RESET_STREAM MUST only be instigated by the application protocol that uses QUIC.
    /// Abandons sending; a stream that the peer stopped was reset already (RFC 9000 section 3.5).
    pub(crate) fn reset(&mut self, id: StreamId, code: VarInt) -> Result<(), ClosedStream> {
        let stream = self.sends.get_mut(id).ok_or(ClosedStream)?;
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
        self.on_send_buffer_freed();
    }

    /// The peer's STOP_SENDING code, if it came.
    pub(crate) fn stopped(&self, id: StreamId) -> Result<Option<VarInt>, ClosedStream> {
        let stream = self.sends.get(id).ok_or(ClosedStream)?;
        Ok(stream.stopped)
    }

    pub(crate) fn set_priority(&mut self, id: StreamId, priority: i32) -> Result<(), ClosedStream> {
        let stream = self.sends.get_mut(id).ok_or(ClosedStream)?;
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
        self.sends.get(id).map(|s| s.priority).ok_or(ClosedStream)
    }

    pub(crate) fn set_hints(
        &mut self,
        id: StreamId,
        hints: StreamHints,
    ) -> Result<(), ClosedStream> {
        self.sends.get_mut(id).ok_or(ClosedStream)?.hints = hints;
        if let Some(priority) = hints.priority {
            self.set_priority(id, priority)?;
        }
        self.sched_events.push(id, Fact::Hint(hints));
        Ok(())
    }
}

/// What packets carry.
impl Streams {
    /// Fills the rest of a packet that goes out on `path`. True if anything was written.
    /// Copies need the records of sent packets: see [`fill_range`](Self::fill_range).
    pub(crate) fn fill(&mut self, w: &mut FrameWriter<'_>, pick: Data, path: PathIndex) -> bool {
        match pick {
            // The receiver waits for lost data, which is the oldest: the faster path will have room in less time than
            // this one takes.
            Data::Next if self.late.contains(path) => self.fill_fresh(w, path),
            Data::Next => {
                let again = self.totals.again > 0 && self.fill_again(w, path);
                self.fill_fresh(w, path) || again
            }
            Data::Retransmit => self.totals.again > 0 && self.fill_again(w, path),
            Data::Stream(id) => self.fill_stream(w, id, path),
            Data::Ahead(gap) => self.fill_ahead(w, gap, path),
            Data::Control | Data::Reinject | Data::Redundant => false,
        }
    }

    /// Lost data, by priority. Ranges that `path` has carried wait for another path within a stream, if one can carry
    /// them.
    pub(crate) fn fill_again(&mut self, w: &mut FrameWriter<'_>, path: PathIndex) -> bool {
        let (mut wrote, usable) = (false, self.usable);
        let mut at = 0;
        // A stream that has nothing for this path, or nothing that fits, is passed over.
        while w.remaining() > 0 && at <= MAX_PASSED_OVER {
            let next = self.again.iter().nth(at);
            let Some(id) = next else { break };
            if self.with_send(id, |s, _| s.send_again(w, path, usable)) == Some(true) {
                wrote = true;
            } else {
                at += 1;
            }
        }
        wrote
    }

    /// New data, by priority, one packet's worth each among equals.
    pub(crate) fn fill_fresh(&mut self, w: &mut FrameWriter<'_>, path: PathIndex) -> bool {
        let mut wrote = false;
        while w.remaining() > 0 {
            let Some(id) = self.next_fresh() else { break };
            if !self.send_fresh(w, id, path) {
                break;
            }
            wrote = true;
            if self.fresh.has_several() && self.fresh.front() == Some(id) {
                self.fresh.rotate();
                self.tidy();
            }
        }
        wrote
    }

    /// The first stream with new data that may go now.
    fn next_fresh(&self) -> Option<StreamId> {
        if self.window_left() > 0 {
            return self.fresh.front();
        }
        if self.totals.free == 0 {
            return None;
        }
        // The connection's window is used up: only what needs none of it.
        self.fresh.iter().find(|id| {
            self.sends
                .get(*id)
                .is_some_and(|s| !s.is_reset() && s.has_free())
        })
    }

    fn send_fresh(&mut self, w: &mut FrameWriter<'_>, id: StreamId, path: PathIndex) -> bool {
        let left = self.window_left();
        let cost = self.with_send(id, |s, _| s.send_fresh(w, path, left));
        self.charge(cost.flatten())
    }

    fn charge(&mut self, cost: Option<u64>) -> bool {
        self.data_sent += cost.unwrap_or(0);
        cost.is_some()
    }

    fn fill_stream(&mut self, w: &mut FrameWriter<'_>, id: StreamId, path: PathIndex) -> bool {
        let (mut wrote, usable) = (false, self.usable);
        while self.with_send(id, |s, _| s.again() > 0 && s.send_again(w, path, usable))
            == Some(true)
        {
            wrote = true;
        }
        while self
            .sends
            .get(id)
            .is_some_and(|s| !s.is_reset() && s.unsent() > 0)
            && self.send_fresh(w, id, path)
        {
            wrote = true;
        }
        self.take_turn(id);
        wrote
    }

    /// Takes streams that wait no more off the front of the queues of ready streams.
    #[inline(never)]
    pub(super) fn tidy(&mut self) {
        while let Some(id) = self.fresh.front() {
            match self.sends.get_mut(id) {
                Some(s) if !s.is_reset() && s.unsent() > 0 => break,
                Some(s) => s.in_fresh = false,
                None => {}
            }
            self.fresh.pop();
        }
        while let Some(id) = self.again.front() {
            match self.sends.get_mut(id) {
                Some(s) if s.again() > 0 => break,
                Some(s) => s.in_again = false,
                None => {}
            }
            self.again.pop();
        }
    }

    /// A stream was asked for by its ID: its equals come next, whether or not it had anything for
    /// the path that asked.
    fn take_turn(&mut self, id: StreamId) {
        if let Some(stream) = self.sends.get(id) {
            if stream.in_fresh {
                self.fresh.take_turn(stream.priority, id);
            }
            if stream.in_again {
                self.again.take_turn(stream.priority, id);
            }
            self.tidy();
        }
    }

    /// New data behind a gap, which is left to be sent as [`Data::Next`].
    fn fill_ahead(&mut self, w: &mut FrameWriter<'_>, gap: u64, path: PathIndex) -> bool {
        if gap == 0 {
            return self.fill_fresh(w, path);
        }
        let mut wrote = false;
        while w.remaining() > 0
            && let Some((id, gap)) = self.behind(gap)
        {
            let left = self.window_left();
            let cost = self.with_send(id, |s, _| s.send_ahead(w, path, gap, left));
            if !self.charge(cost.flatten()) {
                break;
            }
            wrote = true;
            self.take_turn(id);
        }
        wrote
    }

    /// The stream that the transport would send from after `gap` bytes of new data, and how many
    /// of them are its own.
    ///
    /// Streams of one priority take turns packet by packet: after some bytes, all that have not
    /// ended have sent equally many. How many is found like the level of water over a floor.
    fn behind(&self, gap: u64) -> Option<(StreamId, u64)> {
        let mut rest = gap;
        let mut unsent = self
            .fresh
            .iter()
            .filter_map(|id| {
                let stream = self.sends.get(id).filter(|s| !s.is_reset())?;
                // Their ends alone are left to the path that fills the gap.
                let bytes = stream.unsent_bytes();
                (bytes > 0).then_some((stream.priority, id, bytes))
            })
            .take(MAX_LOOKED_AT)
            .peekable();
        while let Some(&(priority, ..)) = unsent.peek() {
            let mut equals: SmallVec<[(StreamId, u64); MAX_LOOKED_AT]> = SmallVec::new();
            while let Some((_, id, bytes)) = unsent.next_if(|stream| stream.0 == priority) {
                equals.push((id, bytes));
            }
            let total: u64 = equals.iter().map(|stream| stream.1).sum();
            if total <= rest {
                rest -= total;
                continue;
            }
            let level = water_level(&equals, rest);
            return equals
                .into_iter()
                .find(|stream| stream.1 > level)
                .map(|stream| (stream.0, level));
        }
        None
    }

    /// Writes what is not acknowledged of `r` again on another path, as far as it fits: a copy or
    /// a reinjection. What was written, or `None`: never data that `path` has carried.
    pub(crate) fn fill_range(
        &mut self,
        w: &mut FrameWriter<'_>,
        r: &StreamRange,
        path: PathIndex,
    ) -> Option<StreamRange> {
        self.copy(w, r, path, Repeats::Never)
    }

    /// Like [`fill_range`](Self::fill_range), but what `path` has lost may go there again.
    pub(crate) fn fill_range_again(
        &mut self,
        w: &mut FrameWriter<'_>,
        r: &StreamRange,
        path: PathIndex,
    ) -> Option<StreamRange> {
        self.copy(w, r, path, Repeats::Lost)
    }

    /// Writes what is not acknowledged of these ranges, and what `fill` says may go on this path; true if all of it
    /// fitted.
    pub(crate) fn fill_ranges(
        &mut self,
        w: &mut FrameWriter<'_>,
        ranges: &[StreamRange],
        index: PathIndex,
        fill: FillRange,
    ) -> bool {
        for range in ranges {
            // Piece by piece: what is acknowledged, or was here before, is left out.
            loop {
                if w.remaining() <= MIN_COPY_ROOM {
                    return false;
                }
                let Some(written) = fill(self, w, range, index) else {
                    break;
                };
                if written.end == range.end && written.fin == range.fin {
                    break;
                }
            }
        }
        true
    }

    /// Like [`fill_range`](Self::fill_range), but on any path: for loss probes (RFC 9002 section
    /// 6.2.4).
    pub(crate) fn fill_probe(
        &mut self,
        w: &mut FrameWriter<'_>,
        r: &StreamRange,
        path: PathIndex,
    ) -> Option<StreamRange> {
        self.copy(w, r, path, Repeats::Always)
    }

    /// Whether any of this range is in flight in one packet only.
    pub(crate) fn is_in_flight_once(&self, r: &StreamRange) -> bool {
        let stream = self.sends.get(r.id);
        stream.is_some_and(|stream| stream.is_in_flight_once(r))
    }

    /// Whether the application may yet write on a stream.
    pub(crate) fn goes_on(&self, id: StreamId) -> bool {
        self.sends.get(id).is_some_and(|stream| stream.is_open())
    }

    /// Whether the application has said when what is sent on a stream is to have arrived, and that is not before `by`.
    pub(crate) fn is_due_after(&self, id: StreamId, by: Instant) -> bool {
        let deadline = self.sends.get(id).and_then(|stream| stream.hints.deadline);
        deadline.is_some_and(|deadline| by <= deadline)
    }

    /// Whether this is what its receiver waits for: all before it is acknowledged, and it is not.
    pub(crate) fn is_waited_for(&self, r: &StreamRange) -> bool {
        let stream = self.sends.get(r.id);
        stream.is_some_and(|stream| stream.is_waited_for(r))
    }

    fn copy(
        &mut self,
        w: &mut FrameWriter<'_>,
        r: &StreamRange,
        path: PathIndex,
        repeats: Repeats,
    ) -> Option<StreamRange> {
        self.with_send(r.id, |s, _| s.send_copy(w, r, path, repeats))
            .flatten()
    }

    // -- acknowledged, lost

    /// A packet with this range was acknowledged, perhaps after it had been declared lost. Packets of one acknowledgement
    /// mostly follow each other in one stream, whose sums are brought up to date once: with
    /// [`settle_acked`](Self::settle_acked), before anything else is done or asked here.
    #[inline(never)]
    pub(crate) fn on_acked(&mut self, r: &StreamRange) -> AckedBytes {
        if self.acked.is_some_and(|acked| acked.id != r.id) {
            self.settle_acked();
        }
        let Some(stream) = self.sends.get_mut(r.id) else {
            return AckedBytes::default();
        };
        let acked = stream.on_acked(r);
        let delivered = stream.is_delivered();
        self.pace.taken += acked.newly;
        let newly = acked.newly > 0 || self.acked.is_some_and(|acked| acked.newly);
        self.acked = Some(Unsettled { id: r.id, newly });
        if delivered {
            self.settle_acked();
        }
        acked
    }

    /// What was acknowledged is over: what it means for the sums, for memory and for those who wait.
    #[inline(never)]
    pub(crate) fn settle_acked(&mut self) {
        let Some(Unsettled { id, newly }) = self.acked.take() else {
            return;
        };
        let delivered = self.with_send(id, |stream, pool| {
            stream.release_acked(pool);
            stream.is_delivered()
        });
        if newly {
            self.on_send_buffer_freed();
        }
        if delivered == Some(true) {
            self.free_send_if_done(id);
        }
    }

    /// A packet with this range, sent on `path`, was declared lost. What is neither acknowledged
    /// nor in flight on a path that can be counted on is sent again.
    pub(crate) fn on_lost(&mut self, r: &StreamRange, path: PathIndex) {
        // What others have in flight is not counted on if each repeats its own.
        let doubtful = if self.each_repeats {
            PathSet::from_bits(u16::MAX)
        } else {
            self.suspects
        };
        self.with_send(r.id, |s, _| s.on_lost(r, path, doubtful));
    }

    /// Whether each path repeats what it has lost though another one has a copy in flight, which may be stuck in a queue:
    /// as long as everything goes on every path.
    pub(crate) fn set_each_repeats(&mut self, each: bool) {
        self.each_repeats = each;
    }

    /// The paths in trouble, whenever that changes. For those that are new in the set, call
    /// [`make_sendable`](Self::make_sendable) with what they have in flight.
    pub(crate) fn set_suspects(&mut self, paths: PathSet) {
        self.suspects = paths;
    }

    /// The paths that can be counted on to carry data, and those on which lost data would arrive later than on a faster
    /// one that has no room just now. Whenever that may have changed.
    pub(crate) fn set_usable(&mut self, usable: PathSet, late: PathSet) {
        self.usable = usable;
        self.late = late;
    }

    /// A path in trouble has this range in flight: it is sent elsewhere, unless a healthy path has
    /// it in flight too.
    pub(crate) fn make_sendable(&mut self, r: &StreamRange) {
        let suspects = self.suspects;
        self.with_send(r.id, |s, _| s.make_sendable(r, suspects));
    }

    /// A path ended, after what it had in flight was declared lost: its slot will mean another.
    pub(crate) fn forget_path(&mut self, path: PathIndex) {
        self.suspects.remove(path);
        self.usable.remove(path);
        self.late.remove(path);
        for stream in self.sends.values_mut() {
            stream.forget_path(path);
        }
    }
}

/// How high `water` rises over columns that hold so much each, less than all hold together.
fn water_level(columns: &[(StreamId, u64)], mut water: u64) -> u64 {
    let mut level = 0;
    loop {
        let open = columns.iter().filter(|column| column.1 > level);
        let count = open.clone().count() as u64;
        let Some(next) = open.map(|column| column.1).min() else {
            return level;
        };
        // Neither factor is large enough for an overflow: all of it was written.
        let step = (next - level) * count;
        if step > water {
            return level + water / count;
        }
        water -= step;
        level = next;
    }
}

/// Streams that are looked at for where a gap ends.
const MAX_LOOKED_AT: usize = 32;

/// Streams whose lost data is passed over in one packet, because the path has it in flight.
const MAX_PASSED_OVER: usize = 8;
