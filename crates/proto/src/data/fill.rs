//! Writes data into packets: what was planned, copies, probes, early data.

use std::time::Instant;

use mpquic_sched_core::{Data, PathIndex, PathSet};
use smallvec::SmallVec;

use super::DataPlane;
use super::plan::{BoundData, stream_ranges};
use crate::PathId;
use crate::frame_writer::FrameWriter;
use crate::handshake::Handshake;
use crate::path::Paths;
use crate::schedule::{Copying, TailCopy};
use crate::sent_frame::{SentFrame, StreamRange};
use crate::stream::{MIN_COPY_ROOM, Streams};

impl DataPlane {
    /// What the scheduler asked for.
    pub(crate) fn fill(
        &mut self,
        w: &mut FrameWriter<'_>,
        now: Instant,
        paths: &mut Paths,
        data: Data,
        copying: Copying,
        index: PathIndex,
    ) {
        self.streams.set_each_repeats(data == Data::Redundant);
        let carrier = || id_of(paths, index);
        match data {
            Data::Next | Data::Retransmit => {
                self.datagrams.fill_scheduled(w, carrier, now);
                self.streams.fill(w, data, index);
            }
            Data::Control => {
                self.datagrams.fill_scheduled(w, carrier, now);
            }
            Data::Stream(_) | Data::Ahead(_) => {
                self.streams.fill(w, data, index);
            }
            Data::Reinject => self.fill_reinjected(w, paths, index, copying),
            Data::Redundant => {
                self.datagrams.fill_scheduled(w, carrier, now);
                if self.streams.queue().retransmittable > 0 {
                    self.streams.fill_again(w, index);
                }
                self.fill_reinjected(w, paths, index, copying);
                // New data never comes before older data that would have fitted.
                if w.remaining() > MIN_COPY_ROOM {
                    self.streams.fill_fresh(w, index);
                }
            }
        }
    }

    /// Copies of the oldest data in flight elsewhere, as much as fits.
    fn fill_reinjected(
        &mut self,
        w: &mut FrameWriter<'_>,
        paths: &mut Paths,
        index: PathIndex,
        copying: Copying,
    ) {
        while w.remaining() > MIN_COPY_ROOM {
            let Some(candidate) = self.schedule.oldest_not_carried(paths, index) else {
                break;
            };
            let bytes = size_of(&candidate.ranges);
            if !self.schedule.may_copy(bytes) {
                break;
            }
            self.schedule.purse.on_written(bytes, copying);
            let complete =
                self.streams
                    .fill_ranges(w, &candidate.ranges, index, Streams::fill_range);
            // The streams know of what was copied in part; the rest goes into the next packet.
            if !complete {
                break;
            }
            paths.mark_carried(candidate.source, candidate.packet, index);
            self.schedule.on_carried(index, &candidate);
        }
    }

    /// Data that goes on one path without a decision of its own.
    pub(crate) fn fill_bound(
        &mut self,
        w: &mut FrameWriter<'_>,
        now: Instant,
        paths: &mut Paths,
        data: BoundData,
    ) {
        match data {
            BoundData::Datagrams(index) => {
                self.datagrams.drop_oversized(Some(index), w.capacity());
                // Before the acknowledgement: the largest that may be queued fits only into a packet of its own.
                let carrier = id_of(paths, index);
                if self.datagrams.fill(w, Some(index), carrier, now) {
                    paths.fill_own_ack(w, now, index);
                }
            }
            BoundData::Copy(copy) => {
                let bytes = size_of(&copy.ranges);
                self.schedule.purse.on_written(bytes, copy.copying);
                let complete =
                    self.streams
                        .fill_ranges(w, &copy.ranges, copy.path, Streams::fill_range);
                if complete && w.is_ack_eliciting() {
                    paths.mark_carried(copy.source, copy.packet, copy.path);
                }
            }
            BoundData::Tail(copy) => self.fill_tail(w, now, paths, copy),
        }
    }

    /// A copy of the last bytes, and those that are to follow it on its path.
    fn fill_tail(
        &mut self,
        w: &mut FrameWriter<'_>,
        now: Instant,
        paths: &mut Paths,
        first: TailCopy,
    ) {
        let target = first.path;
        // What fits in part counts, too.
        self.schedule.purse.on_written(0, Copying::Tail);
        let mut next = Some(first);
        // A packet of one path need not fit in one of another: the rest goes into the next one, with what follows.
        while let Some(copy) = next.take() {
            let complete = copy.path == target
                && self
                    .streams
                    .fill_ranges(w, &copy.ranges, target, Streams::fill_range_again);
            if complete {
                paths.mark_carried(copy.source, copy.packet, target);
                self.schedule.on_tail_copied(&copy);
            }
            self.schedule.recycle(copy);
            if complete {
                next = self.schedule.tail_copy(now, paths, &self.streams);
            }
        }
    }

    /// What a loss probe carries on the only path there is (RFC 9002 section 6.2.4). `repeat`: data in flight that its
    /// receiver waits for, of one stream after the other as this number counts.
    pub(crate) fn fill_probe(
        &mut self,
        w: &mut FrameWriter<'_>,
        now: Instant,
        paths: &mut Paths,
        index: PathIndex,
        repeat: Option<usize>,
    ) {
        self.streams
            .set_usable(PathSet::only(index), PathSet::EMPTY);
        // New data alone could go to waste: a receiver that is short of memory has room for what it waits for, and for
        // nothing else.
        if !repeat.is_some_and(|turn| self.fill_waited_for(w, paths, index, turn)) {
            self.fill(w, now, paths, Data::Next, Copying::Asked, index);
        }
        if !w.is_ack_eliciting() {
            self.fill_oldest_in_flight(w, paths, index);
        }
    }

    /// Data in flight on this path that its receiver waits for, once more: of one stream after the other, as `turn`
    /// counts. False if there is none.
    fn fill_waited_for(
        &mut self,
        w: &mut FrameWriter<'_>,
        paths: &Paths,
        index: PathIndex,
        turn: usize,
    ) -> bool {
        let Some(path) = paths.at(index) else {
            return false;
        };
        let waited_for = || {
            let packets = path.space().sent.iter();
            let frames = packets.flat_map(|(_, packet)| &packet.frames);
            frames.filter_map(|frame| match frame {
                SentFrame::Stream(range) if self.streams.is_waited_for(range) => Some(*range),
                _ => None,
            })
        };
        let nth = turn.checked_rem(waited_for().count());
        let Some(range) = nth.and_then(|nth| waited_for().nth(nth)) else {
            return false;
        };
        self.streams.fill_probe(w, &range, index).is_some()
    }

    /// The oldest stream data in flight on this path, once more.
    fn fill_oldest_in_flight(&mut self, w: &mut FrameWriter<'_>, paths: &Paths, index: PathIndex) {
        let Some(path) = paths.at(index) else {
            return;
        };
        let sent = path.space().sent.iter();
        let oldest: SmallVec<[StreamRange; 2]> = sent
            .map(|(_, packet)| stream_ranges(&packet.frames))
            .find(|ranges| !ranges.is_empty())
            .unwrap_or_default();
        for range in &oldest {
            self.streams.fill_probe(w, range, index);
        }
    }

    /// Whether there is early data to send, and room for it in the congestion window. Without an acknowledgement the
    /// window lets no more out than its initial size, which may leave at once (RFC 9002 section 7.7).
    pub(crate) fn is_early_due(&self, handshake: &Handshake, paths: &Paths) -> bool {
        let waits = !handshake.is_complete()
            && handshake.has_early_keys()
            && (paths.local_cids().can_send()
                || self.streams.can_send_data()
                || self.streams.can_send_control()
                || self.datagrams.can_send());
        let Some(path) = paths.get(PathId::ZERO).filter(|_| waits) else {
            return false;
        };
        //= specs/rfc9221.txt#section-5.4
        //# The sender MUST either delay sending the frame until the controller allows it or drop
        //# the frame without sending it (at which point it MAY notify the application).
        let in_flight = handshake.bytes_in_flight() + path.space().bytes_in_flight();
        in_flight + u64::from(path.mtu()) <= paths.controller().window(path.index)
    }

    /// Streams and datagrams: what a 0-RTT packet may carry, and of that what a client that has heard nothing yet has
    /// to say. A server's 1-RTT packet has the connection IDs of further paths before them.
    //= specs/rfc9221.txt#section-5
    //# Like STREAM frames, DATAGRAM frames contain application data and MUST be protected with
    //# either 0-RTT or 1-RTT keys.
    pub(crate) fn fill_early(&mut self, w: &mut FrameWriter<'_>, now: Instant, paths: &mut Paths) {
        paths.fill_early_cids(w);
        if self.streams.can_send_control() {
            self.streams.fill_control(w);
        }
        self.datagrams.fill(w, None, PathId::ZERO, now);
        if let Some(path) = paths.get(PathId::ZERO) {
            self.streams.fill(w, Data::Next, path.index);
        }
    }
}

/// The ID of the path in a slot.
fn id_of(paths: &Paths, index: PathIndex) -> PathId {
    paths.at(index).map_or(PathId::ZERO, |path| path.id)
}

/// The bytes of these pieces of streams.
pub(super) fn size_of(ranges: &[StreamRange]) -> u64 {
    ranges.iter().map(|range| range.end - range.start).sum()
}
