//! Packets that the scheduler asked for, in batches of one path for segmentation offload, and their
//! copies; the choice is the scheduler's.

use std::time::Instant;

use mpquic_sched_core::{Data, PathIndex};
use smallvec::SmallVec;

use super::packet::PacketSpec;
use crate::connection::Connection;
use crate::frame::writer::FrameWriter;
use crate::ids::Transmit;
use crate::path::{Addresses, Path};
use crate::schedule::Planned;
use crate::space::{PacketOrigin, SentFrame, StreamRange};
use crate::stream::Streams;

/// Writes a range of a stream once more.
type FillRange =
    fn(&mut Streams, &mut FrameWriter<'_>, &StreamRange, PathIndex) -> Option<StreamRange>;

impl Connection {
    /// Whether there is anything that a scheduler could send.
    pub(crate) fn has_scheduled_data(&self) -> bool {
        self.streams.can_send_data() || self.has_control()
    }

    /// Whether the scheduler may have more to copy.
    pub(crate) fn has_copies(&self) -> bool {
        self.schedule.is_copying() && self.streams.queue().in_flight > 0
    }

    /// Whether nothing that was scheduled is in flight and can be counted on to arrive. Probes and
    /// keep-alives get nothing on.
    fn nothing_in_flight(&self) -> bool {
        self.paths
            .iter()
            .all(|path| path.space().sent.scheduled() == 0 || path.is_suspect())
    }

    /// Nothing waits to be sent: what the paths with room in their windows deliver says less than
    /// what they could.
    fn note_app_limited(&mut self) {
        for path in self.paths.iter_mut() {
            if path.space().bytes_in_flight() < self.controller.window(path.index) {
                path.on_app_limited();
            }
        }
    }

    /// The scheduler leaves paths unused that could send, though data waits. That, too, says less
    /// than what they could, unless enough is in flight to keep them busy meanwhile.
    fn note_held_back(&mut self) {
        for path in self.paths.iter_mut() {
            let in_flight = path.space().bytes_in_flight();
            if self.schedule.can_send(path.index)
                && in_flight.saturating_mul(2) < self.controller.window(path.index)
            {
                path.on_app_limited();
            }
        }
    }

    /// Packets as the scheduler decides, one by one. Those of one path leave as one batch, also if
    /// decisions alternate between paths: each path's batch is built on its own, and the batches of
    /// the other paths are handed out by the next calls.
    pub(super) fn transmit_scheduled(
        &mut self,
        now: Instant,
        max_datagrams: usize,
        buf: &mut Vec<u8>,
    ) -> Option<Transmit> {
        let mut waiting = self.has_scheduled_data();
        let mut transmit = None;
        if let Some((planned, nothing_in_flight)) = self.first_planned(now, waiting) {
            self.build_batches(now, max_datagrams, planned, waiting, nothing_in_flight);
            transmit = self.transmit_batch(buf);
            waiting = self.has_scheduled_data();
        }
        if transmit.is_none() && waiting {
            self.note_held_back();
        }
        if !waiting {
            self.schedule.on_nothing_to_send(now);
        }
        if waiting || transmit.is_some() {
            self.schedule.end_tail();
            return transmit;
        }
        self.transmit_tail_copy(now, buf)
    }

    /// Nothing is left to send, and the scheduler wants no copies: what arrives late anyway goes on a path that delivers it
    /// sooner. The views of paths are up to date where anything is in flight.
    fn transmit_tail_copy(&mut self, now: Instant, buf: &mut Vec<u8>) -> Option<Transmit> {
        if !self.config.tail_copies || self.paths.used() < 2 || self.streams.queue().in_flight == 0
        {
            return None;
        }
        let copy = self.schedule.tail_copy(now, &self.paths, &self.streams)?;
        let target = copy.path;
        let spec = PacketSpec {
            ecn: self.paths.at(target).and_then(Path::ecn),
            origin: PacketOrigin::Copy(copy.decision),
            ..PacketSpec::unscheduled(target)
        };
        let mut next = Some(copy);
        self.transmit_packet(now, &spec, buf, |this, w| {
            // A packet of one path need not fit in one of another: the rest goes into the next one, with what follows.
            while let Some(copy) = next.take() {
                let complete = copy.path == target
                    && this.fill_ranges(w, &copy.ranges, target, Streams::fill_range_again);
                if complete {
                    this.mark_carried(copy.source, copy.packet, target);
                    this.schedule.on_tail_copied(&copy);
                }
                this.schedule.recycle(copy);
                if complete {
                    next = this.schedule.tail_copy(now, &this.paths, &this.streams);
                }
            }
            w.is_ack_eliciting()
        })
    }

    /// The scheduler's first decision, and whether nothing is in flight; `waiting`: whether there is anything to send.
    fn first_planned(&mut self, now: Instant, waiting: bool) -> Option<(Planned, bool)> {
        if !waiting {
            self.note_app_limited();
        }
        // A scheduler may want to reinject even if nothing waits.
        if !waiting && self.streams.queue().in_flight == 0 {
            return None;
        }
        let max_ack_delay = self.peer_max_ack_delay();
        let (controller, cids) = (&*self.controller, &self.remote_cids);
        self.schedule
            .refresh(now, &mut self.paths, controller, max_ack_delay, |id| {
                cids.active(id).is_some()
            });
        self.refresh_queue(self.has_control());
        let nothing_in_flight = waiting && self.nothing_in_flight();
        let planned = self.schedule.next(now, nothing_in_flight);
        self.note_answer(now);
        Some((planned?, nothing_in_flight))
    }

    fn build_batches(
        &mut self,
        now: Instant,
        max_datagrams: usize,
        mut planned: Planned,
        waiting: bool,
        nothing_in_flight: bool,
    ) {
        let max_datagrams = if self.config.segmentation_offload {
            max_datagrams
        } else {
            1
        };
        let mut batches = std::mem::take(&mut self.batches);
        let mut progress = false;
        loop {
            if !waiting && !planned.data.is_copy() {
                break;
            }
            let Some(path) = self.paths.at(planned.path) else {
                break;
            };
            let mtu = usize::from(path.mtu());
            // What is sent counts for the amplification limit when it leaves: one by one, so that each is held against it.
            let max_datagrams = if path.is_validated() {
                max_datagrams
            } else {
                1
            };
            let batch = batches.open(planned.path, path.id, path.ecn());
            // A datagram of the application may need the last byte of a packet.
            let block = if self.datagrams.can_send() {
                1
            } else {
                self.endpoint_config.cipher_block
            };
            if batch.is_full(mtu, usize::from(block), max_datagrams) {
                self.schedule.put_back(planned);
                break;
            }
            let spec = PacketSpec {
                ecn: batch.ecn,
                end: Some(batch.end_of_next(mtu)),
                block,
                origin: PacketOrigin::Decision(planned.number),
                ..PacketSpec::unscheduled(planned.path)
            };
            let Some(size) = self.send_scheduled(now, planned, &spec, &mut batch.data) else {
                let nothing_in_flight = nothing_in_flight && !progress;
                let instead = self.schedule.instead(now, planned, nothing_in_flight);
                self.note_answer(now);
                match instead {
                    Some(instead) => planned = instead,
                    None => break,
                }
                continue;
            };
            batch.push(size);
            self.schedule.on_progress(planned);
            progress = true;
            if let Some(path) = self.paths.at_mut(planned.path) {
                self.schedule.refresh_sender(now, path, &*self.controller);
            }
            let control = self.has_control_still();
            if !control && !self.streams.can_send_data() {
                break;
            }
            if self.streams.queue().retransmittable == 0
                && let Some(again) = self.schedule.again(planned, control)
            {
                planned = again;
                continue;
            }
            self.refresh_queue(control);
            let next = self.schedule.next(now, false);
            self.note_answer(now);
            match next {
                Some(next) => planned = next,
                None => break,
            }
        }
        self.batches = batches;
    }

    /// Whether control frames or datagrams wait, after a packet of a batch. If none waited before it, only streams and
    /// datagrams can have some now: the others have them from what comes, or from the application.
    fn has_control_still(&self) -> bool {
        let waits = if self.schedule.control_waits() {
            self.has_control()
        } else {
            self.streams.can_send_control() || self.datagrams.can_send()
        };
        debug_assert_eq!(
            waits,
            self.has_control(),
            "a packet made other control frames wait"
        );
        waits
    }

    /// Hands out a batch that is built.
    pub(super) fn transmit_batch(&mut self, buf: &mut Vec<u8>) -> Option<Transmit> {
        let to = Addresses::Current;
        while let Some(batch) = self.batches.pop(buf) {
            let transmit =
                self.finish_transmit(batch.id, to, batch.ecn, batch.size, batch.segment_size);
            if transmit.is_some() {
                return transmit;
            }
            // The path was abandoned in between: its packets count as lost already.
            buf.truncate(buf.len() - batch.size);
        }
        None
    }

    /// Sends one packet as planned; its size, or `None` if there was nothing of that kind to send.
    fn send_scheduled(
        &mut self,
        now: Instant,
        planned: Planned,
        spec: &PacketSpec,
        buf: &mut Vec<u8>,
    ) -> Option<usize> {
        let index = planned.path;
        let mut ranges = SmallVec::<[StreamRange; 2]>::new();
        let start = buf.len();
        let number = self.send_packet(now, spec, buf, |this, w| {
            let owed = this.paths.at(index).and_then(Path::owed_ack);
            this.fill_own_ack(w, now, index);
            // The view of the queue is brought up to date before each decision.
            if this.schedule.control_waits() {
                this.fill_control(w);
            }
            this.fill_data(w, now, planned.data, index);
            if !w.is_ack_eliciting() {
                // Only an ACK, or nothing: not what was asked for. The ACK stays owed.
                if let (Some(path), Some(owed)) = (this.paths.at_mut(index), owed) {
                    path.restore_ack(owed);
                }
                return false;
            }
            if !planned.copies.is_empty() {
                ranges = stream_ranges(&w.frames);
            }
            true
        })?;
        if !ranges.is_empty() {
            self.schedule.plan_reinjections(planned, number, &ranges);
        }
        Some(buf.len() - start)
    }

    /// What the scheduler asked for. Returns whether stream data or datagrams were written.
    pub(super) fn fill_data(
        &mut self,
        w: &mut FrameWriter<'_>,
        now: Instant,
        data: Data,
        index: PathIndex,
    ) -> bool {
        self.streams.set_each_repeats(data == Data::Redundant);
        match data {
            Data::Next | Data::Retransmit => {
                let wrote = self.fill_datagrams(w, now);
                self.streams.fill(w, data, index) || wrote
            }
            Data::Control => self.fill_datagrams(w, now),
            Data::Stream(_) | Data::Ahead(_) => self.streams.fill(w, data, index),
            Data::Reinject => self.fill_reinjected(w, index),
            Data::Redundant => {
                let mut wrote = self.fill_datagrams(w, now);
                if self.streams.queue().retransmittable > 0 {
                    wrote |= self.streams.fill_again(w, index);
                }
                wrote |= self.fill_reinjected(w, index);
                // New data never comes before older data that would have fitted.
                if w.remaining() > MIN_COPY_ROOM {
                    wrote |= self.streams.fill_fresh(w, index);
                }
                wrote
            }
        }
    }

    fn fill_datagrams(&mut self, w: &mut FrameWriter<'_>, now: Instant) -> bool {
        let before = w.buf.len();
        if self.datagrams.can_send() {
            self.datagrams.drop_oversized(None, w.capacity());
            self.datagrams.fill(w, None, now);
        }
        w.buf.len() > before
    }

    /// Copies of the oldest data in flight elsewhere, as much as fits.
    fn fill_reinjected(&mut self, w: &mut FrameWriter<'_>, index: PathIndex) -> bool {
        let mut wrote = false;
        while w.remaining() > MIN_COPY_ROOM {
            let Some(candidate) = self.schedule.oldest_not_carried(&self.paths, index) else {
                break;
            };
            let before = w.buf.len();
            let complete = self.fill_ranges(w, &candidate.ranges, index, Streams::fill_range);
            wrote |= w.buf.len() > before;
            // The streams know of what was copied in part; the rest goes into the next packet.
            if !complete {
                break;
            }
            self.mark_carried(candidate.source, candidate.packet, index);
            self.schedule.on_carried(index, &candidate);
        }
        wrote
    }

    /// Writes what is not acknowledged of these ranges, and what `fill` says may go on this path; true if all of it
    /// fitted.
    pub(super) fn fill_ranges(
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
                let Some(written) = fill(&mut self.streams, w, range, index) else {
                    break;
                };
                if written.end == range.end && written.fin == range.fin {
                    break;
                }
            }
        }
        true
    }

    /// All of a sent packet's data is on one more path now.
    pub(super) fn mark_carried(&mut self, source: PathIndex, packet: u64, target: PathIndex) {
        if let Some(path) = self.paths.at_mut(source) {
            path.mark_carried(packet, target);
        }
    }

    /// Sends the oldest reinjection whose path has room.
    pub(super) fn transmit_reinjection(
        &mut self,
        now: Instant,
        buf: &mut Vec<u8>,
    ) -> Option<Transmit> {
        let max_ack_delay = self.peer_max_ack_delay();
        while let Some(copy) = self.schedule.next_reinjection() {
            let Some(path) = self.paths.at_mut(copy.path) else {
                continue;
            };
            let controller = &*self.controller;
            self.schedule
                .refresh_path(now, path, controller, max_ack_delay);
            let spec = PacketSpec {
                ecn: path.ecn(),
                origin: PacketOrigin::Copy(copy.decision),
                ..PacketSpec::unscheduled(copy.path)
            };
            if !self.schedule.can_send(copy.path) {
                continue;
            }
            let transmit = self.transmit_packet(now, &spec, buf, |this, w| {
                let complete = this.fill_ranges(w, &copy.ranges, copy.path, Streams::fill_range);
                let any = w.is_ack_eliciting();
                if any && complete {
                    this.mark_carried(copy.source, copy.packet, copy.path);
                }
                any
            });
            if transmit.is_some() {
                return transmit;
            }
        }
        None
    }

    /// Brings the scheduler's view of the queue up to date. `control`: whether control frames or datagrams wait.
    fn refresh_queue(&mut self, control: bool) {
        if self.streams.queue().retransmittable > 0 {
            // Which paths carry what is to be sent again.
            let (usable, late) = (self.schedule.usable(), self.schedule.late());
            self.streams.set_usable(usable, late);
        }
        self.schedule
            .refresh_queue(&self.streams, control, &self.paths);
    }
}

/// Less room than this is not worth a copy of stream data.
const MIN_COPY_ROOM: usize = 40;

/// The stream data among a packet's frames.
pub(super) fn stream_ranges(frames: &[SentFrame]) -> SmallVec<[StreamRange; 2]> {
    let ranges = frames.iter().filter_map(SentFrame::stream);
    ranges.copied().collect()
}
