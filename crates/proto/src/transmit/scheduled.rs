//! Packets that the scheduler asked for, in batches of one path for segmentation offload, and their
//! copies; the choice is the scheduler's.

use std::time::Instant;

use mpquic_sched_core::{Data, EcnCodepoint, PathIndex};
use smallvec::SmallVec;

use super::plan::PacketSpec;
use crate::connection::Connection;
use crate::data::Sizes;
use crate::frame::writer::FrameWriter;
use crate::frame::{SentFrame, StreamRange};
use crate::ids::Transmit;
use crate::path::{Addresses, Path, Paths};
use crate::schedule::Planned;
use crate::space::PacketOrigin;
use crate::stream::{MIN_COPY_ROOM, Streams};
use crate::{Observation, TransportError};

impl Connection {
    /// Whether there is anything that a scheduler could send.
    pub(crate) fn has_scheduled_data(&self) -> bool {
        self.data.streams.can_send_data() || self.has_control()
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
        if !waiting {
            self.paths.note_app_limited();
            // A scheduler may want to reinject even if nothing waits.
            if self.data.streams.queue().in_flight == 0 {
                self.data.schedule.on_nothing_to_send(now);
                return None;
            }
        }
        self.data.schedule.refresh(now, &mut self.paths);
        let control = self.has_control();
        self.data
            .schedule
            .refresh_queue(&mut self.data.streams, control, &self.paths);
        let mut transmit = None;
        if let Some(planned) = self.next_planned(now, waiting)
            && (waiting || planned.data.is_copy())
        {
            transmit = self.build_batches(now, max_datagrams, planned, waiting, buf);
            waiting = self.has_scheduled_data();
        }
        if !waiting {
            self.data.schedule.on_nothing_to_send(now);
            if transmit.is_none() {
                return self.transmit_tail_copy(now, buf);
            }
        } else if transmit.is_none() {
            self.paths
                .note_held_back(|path| self.data.schedule.can_send(path));
        }
        self.data.schedule.end_tail();
        transmit
    }

    /// Nothing is left to send, and the scheduler wants no copies: what arrives late anyway goes on a path that delivers it
    /// sooner. The views of paths are up to date where anything is in flight.
    fn transmit_tail_copy(&mut self, now: Instant, buf: &mut Vec<u8>) -> Option<Transmit> {
        if !self.config.tail_copies
            || self.paths.used() < 2
            || self.data.streams.queue().in_flight == 0
        {
            return None;
        }
        self.transmit_late(now, buf)
    }

    #[inline(never)]
    fn transmit_late(&mut self, now: Instant, buf: &mut Vec<u8>) -> Option<Transmit> {
        let copy = self
            .data
            .schedule
            .tail_copy(now, &self.paths, &self.data.streams)?;
        let target = copy.path;
        let spec = PacketSpec {
            ecn: self.paths.at(target).and_then(Path::ecn),
            origin: PacketOrigin::Copy(copy.decision),
            ..PacketSpec::unscheduled(target)
        };
        let mut next = Some(copy);
        let packet = self.open_packet(&spec, buf)?;
        let mut w = packet.writer(buf);
        // A packet of one path need not fit in one of another: the rest goes into the next one, with what follows.
        while let Some(copy) = next.take() {
            let complete = copy.path == target
                && self.data.streams.fill_ranges(
                    &mut w,
                    &copy.ranges,
                    target,
                    Streams::fill_range_again,
                );
            if complete {
                self.paths.mark_carried(copy.source, copy.packet, target);
                self.data.schedule.on_tail_copied(&copy);
            }
            self.data.schedule.recycle(copy);
            if complete {
                next = self
                    .data
                    .schedule
                    .tail_copy(now, &self.paths, &self.data.streams);
            }
        }
        if !w.is_ack_eliciting() {
            packet.discard(w);
            return None;
        }
        self.seal_datagram(now, &spec, &packet, w)
    }

    /// What the scheduler wants to be sent next; `idle`: whether nothing may be in flight, for all that was sent just now.
    fn next_planned(&mut self, now: Instant, idle: bool) -> Option<Planned> {
        let paths = &self.paths;
        let planned = self
            .data
            .schedule
            .next(now, &|| idle && nothing_in_flight(paths));
        self.on_answer(now, planned.is_some());
        planned
    }

    /// The scheduler was asked. It may have broken its contract: then the connection is over, and both sides learn why.
    #[inline]
    fn on_answer(&mut self, now: Instant, sends: bool) {
        if self.watch.is_observed()
            && let Some(decided) = self.data.schedule.take_decided(now, &self.paths)
        {
            self.watch.note(now, Observation::Decided(decided));
        }
        if !sends && let Some(fault) = self.data.schedule.take_fault() {
            tracing::error!("{fault}");
            self.fail(now, TransportError::internal(fault));
        }
    }

    /// Builds the batches of all paths until nothing more may be sent, that of the first path in `buf`, and hands out the
    /// first.
    fn build_batches(
        &mut self,
        now: Instant,
        max_datagrams: usize,
        mut planned: Planned,
        waiting: bool,
        buf: &mut Vec<u8>,
    ) -> Option<Transmit> {
        let start = buf.len();
        let first = planned.path;
        let path = self.paths.at(first)?;
        let (id, first_ecn) = (path.id, path.ecn());
        let mut sizes = Sizes::default();
        let mut progress = false;
        while let Some(path) = self.paths.at(planned.path) {
            let mtu = usize::from(path.mtu());
            // What is sent counts for the amplification limit when it leaves: one by one, so that each is held against it.
            let max_datagrams = if path.is_validated() && self.config.segmentation_offload {
                max_datagrams
            } else {
                1
            };
            // A datagram of the application may need the last byte of a packet.
            let block = if self.data.datagrams.can_send() {
                1
            } else {
                self.endpoint_config.cipher_block
            };
            let sent = if planned.path != first {
                self.send_on_other(now, &planned, mtu, block, max_datagrams)
            } else if sizes.is_full(buf.len() - start, mtu, block, max_datagrams) {
                Sending::Full
            } else {
                let most = sizes.most_of_next(mtu);
                match self.send_scheduled(now, &planned, first_ecn, most, block, buf) {
                    Some(size) => {
                        sizes.push(size);
                        Sending::Sent
                    }
                    None => Sending::Nothing,
                }
            };
            match sent {
                Sending::Sent => {}
                Sending::Full => {
                    self.data.schedule.put_back(planned);
                    break;
                }
                Sending::Nothing => {
                    match self.planned_instead(now, &planned, waiting && !progress) {
                        Some(instead) if waiting || instead.data.is_copy() => planned = instead,
                        _ => break,
                    }
                    continue;
                }
            }
            self.data.schedule.on_progress(&planned);
            progress = true;
            self.data
                .schedule
                .refresh_sender(now, &mut self.paths, planned.path);
            let control = self.has_control_still();
            if !control && !self.data.streams.can_send_data() {
                break;
            }
            if self.data.streams.queue().retransmittable == 0
                && let Some(again) = self.data.schedule.again(&planned, control)
            {
                planned = again;
                continue;
            }
            self.data
                .schedule
                .refresh_queue(&mut self.data.streams, control, &self.paths);
            match self.next_planned(now, false) {
                Some(next) if waiting || next.data.is_copy() => planned = next,
                _ => break,
            }
        }
        let size = buf.len() - start;
        if size > 0 {
            let to = Addresses::Current;
            let transmit = self.note_datagrams(id, to, first_ecn, size, sizes.segment());
            if transmit.is_some() {
                return transmit;
            }
            // The path was abandoned in between: its packets count as lost already.
            buf.truncate(start);
        }
        self.transmit_batch(buf)
    }

    /// There was nothing of the kind planned for a path: what else to send.
    #[cold]
    #[inline(never)]
    fn planned_instead(&mut self, now: Instant, planned: &Planned, idle: bool) -> Option<Planned> {
        let paths = &self.paths;
        let instead = self
            .data
            .schedule
            .instead(now, planned, &|| idle && nothing_in_flight(paths));
        self.on_answer(now, instead.is_some());
        instead
    }

    /// Sends one packet as planned on another path than that of the batch that is built first.
    #[inline(never)]
    fn send_on_other(
        &mut self,
        now: Instant,
        planned: &Planned,
        mtu: usize,
        block: u16,
        max_datagrams: usize,
    ) -> Sending {
        let index = planned.path;
        let Some(path) = self.paths.at(index) else {
            return Sending::Nothing;
        };
        let batch = self.data.batches.open(index, path.id, path.ecn());
        if batch
            .sizes
            .is_full(batch.data.len(), mtu, block, max_datagrams)
        {
            return Sending::Full;
        }
        let (ecn, most) = (batch.ecn, batch.sizes.most_of_next(mtu));
        let mut data = std::mem::take(&mut batch.data);
        let size = self.send_scheduled(now, planned, ecn, most, block, &mut data);
        if let Some(batch) = self.data.batches.of(index) {
            batch.data = data;
            if let Some(size) = size {
                batch.sizes.push(size);
            }
        }
        match size {
            Some(_) => Sending::Sent,
            None => Sending::Nothing,
        }
    }

    /// Whether control frames or datagrams wait, after a packet of a batch. If none waited before it, there are some now only
    /// if the peer's limit was reached: all others come of what is received, or from the application.
    fn has_control_still(&self) -> bool {
        let waits = if self.data.schedule.control_waits() {
            self.has_control()
        } else {
            self.data.streams.is_data_blocked_due()
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
        while let Some(batch) = self.data.batches.pop(buf) {
            let transmit =
                self.note_datagrams(batch.id, to, batch.ecn, batch.size, batch.segment_size);
            if transmit.is_some() {
                return transmit;
            }
            // The path was abandoned in between: its packets count as lost already.
            buf.truncate(buf.len() - batch.size);
        }
        None
    }

    /// Sends one packet as planned, of at most so many bytes, of which whole blocks are encrypted; its size, or `None` if there
    /// was nothing of that kind to send.
    #[inline(never)]
    fn send_scheduled(
        &mut self,
        now: Instant,
        planned: &Planned,
        ecn: Option<EcnCodepoint>,
        most: usize,
        block: u16,
        buf: &mut Vec<u8>,
    ) -> Option<usize> {
        let index = planned.path;
        let start = buf.len();
        let spec = PacketSpec {
            ecn,
            end: Some(start + most),
            block,
            origin: PacketOrigin::Decision(planned.number),
            ..PacketSpec::unscheduled(index)
        };
        let packet = self.open_packet(&spec, buf)?;
        let mut w = packet.writer(buf);
        let owed = self.paths.at(index).map(Path::owed_ack);
        self.paths.fill_own_ack(&mut w, now, index);
        // The view of the queue is brought up to date before each decision.
        if self.data.schedule.control_waits() {
            self.fill_control(&mut w);
        }
        self.fill_data(&mut w, now, planned.data, index);
        if !w.is_ack_eliciting() {
            // Only an ACK, or nothing: not what was asked for. The ACK stays owed.
            if let (Some(path), Some(owed)) = (self.paths.at_mut(index), owed) {
                path.restore_ack(&owed);
            }
            packet.discard(w);
            return None;
        }
        let sealed = self.seal_packet(now, &spec, &packet, w)?;
        if !planned.copies.is_empty() {
            self.plan_copies(planned, sealed.number);
        }
        Some(sealed.size)
    }

    /// A packet left that is to go on further paths, too.
    #[cold]
    #[inline(never)]
    fn plan_copies(&mut self, planned: &Planned, number: u64) {
        let packet = self.paths.at(planned.path);
        let packet = packet.and_then(|path| path.space().sent.get(number));
        let ranges = packet.map_or_else(SmallVec::new, |packet| stream_ranges(&packet.frames));
        if !ranges.is_empty() {
            self.data
                .schedule
                .plan_reinjections(planned, number, &ranges);
        }
    }

    /// What the scheduler asked for. Returns whether stream data or datagrams were written.
    pub(super) fn fill_data(
        &mut self,
        w: &mut FrameWriter<'_>,
        now: Instant,
        data: Data,
        index: PathIndex,
    ) -> bool {
        self.data.streams.set_each_repeats(data == Data::Redundant);
        match data {
            Data::Next | Data::Retransmit => {
                let wrote = self.data.datagrams.fill_scheduled(w, now);
                self.data.streams.fill(w, data, index) || wrote
            }
            Data::Control => self.data.datagrams.fill_scheduled(w, now),
            Data::Stream(_) | Data::Ahead(_) => self.data.streams.fill(w, data, index),
            Data::Reinject => self.fill_reinjected(w, index),
            Data::Redundant => {
                let mut wrote = self.data.datagrams.fill_scheduled(w, now);
                if self.data.streams.queue().retransmittable > 0 {
                    wrote |= self.data.streams.fill_again(w, index);
                }
                wrote |= self.fill_reinjected(w, index);
                // New data never comes before older data that would have fitted.
                if w.remaining() > MIN_COPY_ROOM {
                    wrote |= self.data.streams.fill_fresh(w, index);
                }
                wrote
            }
        }
    }

    /// Copies of the oldest data in flight elsewhere, as much as fits.
    fn fill_reinjected(&mut self, w: &mut FrameWriter<'_>, index: PathIndex) -> bool {
        let mut wrote = false;
        while w.remaining() > MIN_COPY_ROOM {
            let Some(candidate) = self.data.schedule.oldest_not_carried(&self.paths, index) else {
                break;
            };
            let before = w.buf.len();
            let complete =
                self.data
                    .streams
                    .fill_ranges(w, &candidate.ranges, index, Streams::fill_range);
            wrote |= w.buf.len() > before;
            // The streams know of what was copied in part; the rest goes into the next packet.
            if !complete {
                break;
            }
            self.paths
                .mark_carried(candidate.source, candidate.packet, index);
            self.data.schedule.on_carried(index, &candidate);
        }
        wrote
    }

    /// Sends the oldest reinjection whose path has room.
    #[inline(never)]
    pub(super) fn transmit_reinjection(
        &mut self,
        now: Instant,
        buf: &mut Vec<u8>,
    ) -> Option<Transmit> {
        while let Some(copy) = self.data.schedule.next_reinjection() {
            let Some(ecn) = self.paths.at(copy.path).map(Path::ecn) else {
                continue;
            };
            self.data
                .schedule
                .refresh_path(now, &mut self.paths, copy.path);
            let spec = PacketSpec {
                ecn,
                origin: PacketOrigin::Copy(copy.decision),
                ..PacketSpec::unscheduled(copy.path)
            };
            if !self.data.schedule.can_send(copy.path) {
                continue;
            }
            let Some(packet) = self.open_packet(&spec, buf) else {
                continue;
            };
            let mut w = packet.writer(buf);
            let complete =
                self.data
                    .streams
                    .fill_ranges(&mut w, &copy.ranges, copy.path, Streams::fill_range);
            if !w.is_ack_eliciting() {
                packet.discard(w);
                continue;
            }
            if complete {
                self.paths.mark_carried(copy.source, copy.packet, copy.path);
            }
            let transmit = self.seal_datagram(now, &spec, &packet, w);
            if transmit.is_some() {
                return transmit;
            }
        }
        None
    }
}

/// What came of a packet that was planned.
enum Sending {
    Sent,
    /// There was nothing of that kind to send.
    Nothing,
    /// It is for the path's next batch.
    Full,
}

/// Whether nothing that was scheduled is in flight and can be counted on to arrive. Probes and
/// keep-alives get nothing on.
fn nothing_in_flight(paths: &Paths) -> bool {
    paths
        .iter()
        .all(|path| path.space().sent.scheduled() == 0 || path.is_suspect())
}

/// The stream data among a packet's frames.
pub(super) fn stream_ranges(frames: &[SentFrame]) -> SmallVec<[StreamRange; 2]> {
    let ranges = frames.iter().filter_map(SentFrame::stream);
    ranges.copied().collect()
}
