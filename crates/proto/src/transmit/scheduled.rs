//! Packets that the scheduler asked for, in batches of one path for segmentation offload, and their
//! copies; the choice is the scheduler's.

use std::time::Instant;

use mpquic_sched_core::{EcnCodepoint, PathIndex, PathSet};
use smallvec::SmallVec;

use super::{PacketBuilder, PacketOrigin, SealKeys, Written};
use crate::PathId;
use crate::connection::Connection;
use crate::ids::Transmit;
use crate::path::Path;
use crate::schedule::{Copy, PathFacts, Planned, refresh};
use crate::space::{SentFrame, StreamRange};

impl Connection {
    /// Whether there is anything that a scheduler could send.
    pub(crate) fn has_scheduled_data(&self) -> bool {
        self.streams.can_send_data() || self.has_control()
    }

    /// Whether the scheduler may have more to copy.
    pub(crate) fn has_copies(&self) -> bool {
        self.schedule.is_copying() && self.streams.queue().in_flight > 0
    }

    /// Brings the scheduler's view of the queue up to date: O(1) but for the
    /// streams, if the scheduler wants them.
    fn refresh_queue(&mut self, wants_streams: bool) {
        let counters = self.streams.queue();
        let control = self.has_control();
        let head = self.streams.head();
        let blocked_by = if counters.blocked {
            self.oldest_in_flight()
        } else {
            None
        };
        let queue = &mut self.schedule.queue;
        queue.unsent = counters.unsent;
        queue.retransmittable = counters.retransmittable;
        queue.window_left = counters.window_left;
        queue.credit = counters.credit;
        queue.blocked_by = blocked_by;
        queue.out_of_order = counters.out_of_order;
        queue.in_flight = counters.in_flight;
        queue.control = control;
        queue.head = head;
        if wants_streams {
            self.streams.views(&mut self.schedule.streams);
        } else {
            self.schedule.streams.clear();
        }
    }

    /// The path with the oldest packet in flight of those that the scheduler asked for.
    fn oldest_in_flight(&self) -> Option<PathIndex> {
        let oldest = |path: &Path| {
            let mut sent = path.space.sent.iter();
            let (_, packet) = sent.find(|(_, packet)| packet.decision.is_some())?;
            Some((packet.time_sent, path.index))
        };
        let (_, index) = self.paths.iter().filter_map(oldest).min()?;
        Some(index)
    }

    fn refresh_views(&mut self, now: Instant) {
        let max_ack_delay = self.peer_max_ack_delay();
        self.schedule.forget_barren();
        self.schedule.used = self.paths.used();
        for path in self.paths.iter_mut() {
            let usable = path.network.is_validated() && self.remote_cids.active(path.id).is_some();
            let facts = PathFacts {
                usable,
                max_ack_delay,
            };
            let view = &mut self.schedule.views[path.index.get()];
            refresh(view, path, &*self.controller, facts, now);
        }
    }

    fn refresh_view(&mut self, now: Instant, index: PathIndex) {
        let max_ack_delay = self.peer_max_ack_delay();
        if let Some(path) = self.paths.at_mut(index) {
            let facts = PathFacts {
                usable: true,
                max_ack_delay,
            };
            let view = &mut self.schedule.views[index.get()];
            refresh(view, path, &*self.controller, facts, now);
        }
    }

    /// Whether nothing that was scheduled is in flight and can be counted on to arrive. Probes and
    /// keep-alives get nothing on.
    fn nothing_in_flight(&self) -> bool {
        self.paths
            .iter()
            .all(|path| path.space.sent.scheduled() == 0 || path.suspect.is_suspect())
    }

    /// Nothing waits to be sent: what the paths with room in their windows deliver says less than
    /// what they could.
    fn note_app_limited(&mut self) {
        for path in self.paths.iter_mut() {
            let in_flight = path.space.bytes_in_flight();
            if in_flight < self.controller.window(path.index) {
                path.delivery.on_app_limited(in_flight);
            }
        }
    }

    /// The scheduler leaves paths unused that could send, though data waits. That, too, says less
    /// than what they could, unless enough is in flight to keep them busy meanwhile.
    fn note_held_back(&mut self) {
        for path in self.paths.iter_mut() {
            let unused = self.schedule.views.get(path.index.get());
            let in_flight = path.space.bytes_in_flight();
            if unused.is_some_and(|view| view.can_send)
                && in_flight.saturating_mul(2) < self.controller.window(path.index)
            {
                path.delivery.on_app_limited(in_flight);
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
        let transmit = self.build_batch(now, max_datagrams, buf);
        if transmit.is_none() && self.has_scheduled_data() {
            self.note_held_back();
        }
        // A scheduler that has nothing to send does not wait.
        if self.schedule.wait_clock.is_running() && !self.has_scheduled_data() {
            self.schedule.wait_clock.stop(now);
        }
        transmit
    }

    fn build_batch(
        &mut self,
        now: Instant,
        max_datagrams: usize,
        buf: &mut Vec<u8>,
    ) -> Option<Transmit> {
        let waiting = self.has_scheduled_data();
        if !waiting {
            self.note_app_limited();
        }
        // A scheduler may want to reinject even if nothing waits.
        if !waiting && self.streams.queue().in_flight == 0 {
            return None;
        }
        self.refresh_views(now);
        let wants_streams = self.schedule.wants_streams();
        self.refresh_queue(wants_streams);
        let nothing_in_flight = waiting && self.nothing_in_flight();
        let mut planned = self.schedule.next(now, nothing_in_flight)?;
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
            let (id, ecn) = (path.id, path.ecn.outgoing());
            let mtu = usize::from(path.mtu.current());
            let batch = batches.open(planned.path, id, ecn);
            if batch.is_full(mtu, max_datagrams) {
                self.schedule.put_back(planned);
                break;
            }
            let ecn = batch.ecn;
            let Some(size) = self.build_scheduled(now, id, planned, ecn, &mut batch.data) else {
                let nothing_in_flight = nothing_in_flight && !progress;
                match self.schedule.instead(now, planned, nothing_in_flight) {
                    Some(instead) => planned = instead,
                    None => break,
                }
                continue;
            };
            batch.push(size);
            self.schedule.on_progress(planned);
            progress = true;
            self.refresh_view(now, planned.path);
            if !self.has_scheduled_data() {
                break;
            }
            self.refresh_queue(wants_streams);
            match self.schedule.next(now, false) {
                Some(next) => planned = next,
                None => break,
            }
        }
        self.batches = batches;
        self.transmit_batch(buf)
    }

    /// Hands out a batch that is built.
    pub(super) fn transmit_batch(&mut self, buf: &mut Vec<u8>) -> Option<Transmit> {
        while let Some(batch) = self.batches.pop(buf) {
            let transmit =
                self.finish_transmit(batch.id, batch.ecn, batch.size, batch.segment_size);
            if transmit.is_some() {
                return transmit;
            }
            // The path was abandoned in between: its packets count as lost already.
            buf.truncate(buf.len() - batch.size);
        }
        None
    }

    /// Builds one packet as planned; `None` if there was nothing of that kind to send.
    fn build_scheduled(
        &mut self,
        now: Instant,
        id: PathId,
        planned: Planned,
        ecn: Option<EcnCodepoint>,
        buf: &mut Vec<u8>,
    ) -> Option<usize> {
        let start = buf.len();
        let builder = self.start_packet(id, buf)?;
        let mut w = builder.writer(buf);
        let owed = self.owed_ack(id);
        self.fill_own_ack(&mut w, now, id);
        self.fill_control(&mut w);
        self.fill_data(&mut w, planned.data, planned.path);
        if !w.is_ack_eliciting() {
            // Only an ACK, or nothing: not what was asked for. The ACK stays owed.
            builder.abort(buf);
            self.restore_ack(id, owed);
            return None;
        }
        let written = Written::from(w);
        let ranges: SmallVec<[StreamRange; 2]> = if planned.copies.is_empty() {
            SmallVec::new()
        } else {
            stream_ranges(&written.frames)
        };
        let number = builder.number;
        self.seal(
            now,
            id,
            builder,
            written,
            0,
            ecn,
            buf,
            PacketOrigin::Decision(planned.number),
        )?;
        if !ranges.is_empty() {
            self.plan_copies(planned, number, &ranges);
        }
        Some(buf.len() - start)
    }

    /// The same stream data goes on further paths too, as soon as they take it.
    fn plan_copies(&mut self, planned: Planned, number: u64, ranges: &[StreamRange]) {
        let others = planned.copies.difference(PathSet::only(planned.path));
        for path in others.iter() {
            let can_send = self
                .schedule
                .views
                .get(path.get())
                .is_some_and(|view| view.can_send);
            if !can_send {
                continue;
            }
            self.schedule.push_copy(Copy {
                path,
                source: planned.path,
                packet: number,
                ranges: SmallVec::from_slice(ranges),
                decision: planned.number,
            });
        }
    }

    /// Sends the oldest copy whose path has room.
    pub(super) fn transmit_copy(&mut self, now: Instant, buf: &mut Vec<u8>) -> Option<Transmit> {
        while let Some(copy) = self.schedule.copies.pop_front() {
            let Some(id) = self.paths.at(copy.path).map(|path| path.id) else {
                continue;
            };
            self.refresh_view(now, copy.path);
            if !self.schedule.views[copy.path.get()].can_send {
                continue;
            }
            let start = buf.len();
            let Some(builder) = self.start_packet(id, buf) else {
                continue;
            };
            let mut w = builder.writer(buf);
            let complete = self.fill_ranges(&mut w, &copy.ranges, copy.path);
            if !w.is_ack_eliciting() {
                builder.abort(buf);
                continue;
            }
            let written = Written::from(w);
            let ecn = self.paths.get(id)?.ecn.outgoing();
            if complete {
                self.mark_carried(copy.source, copy.packet, copy.path);
            }
            self.seal(
                now,
                id,
                builder,
                written,
                0,
                ecn,
                buf,
                PacketOrigin::Copy(copy.decision),
            )?;
            return self.finish_transmit(id, ecn, buf.len() - start, None);
        }
        None
    }

    /// Starts a 1-RTT packet on a path.
    pub(super) fn start_packet(&mut self, id: PathId, buf: &mut Vec<u8>) -> Option<PacketBuilder> {
        self.start_packet_of(id, buf, None)
    }

    /// Starts a 1-RTT packet on a path, of a datagram of this size if given.
    pub(super) fn start_packet_of(
        &mut self,
        id: PathId,
        buf: &mut Vec<u8>,
        size: Option<usize>,
    ) -> Option<PacketBuilder> {
        let dcid = self.remote_cids.active(id)?;
        let phase = self.handshake.one_rtt.as_ref()?.phase();
        let path = self.paths.get(id)?;
        let budget = usize::try_from(path.network.budget()).unwrap_or(usize::MAX);
        let size = size
            .unwrap_or_else(|| path.mtu.current().into())
            .min(budget);
        let path = self.paths.get_mut(id)?;
        let number = path.space.next_pn()?;
        let acked = path.space.largest_acked;
        let end = buf.len() + size;
        PacketBuilder::short(buf, &dcid, phase, number, acked, end)
    }

    /// Protects a 1-RTT packet and books it.
    pub(super) fn seal(
        &mut self,
        now: Instant,
        id: PathId,
        builder: PacketBuilder,
        written: Written,
        pad_to: usize,
        ecn: Option<EcnCodepoint>,
        buf: &mut Vec<u8>,
        origin: PacketOrigin,
    ) -> Option<()> {
        let nonce_path = self.nonce_path(id);
        let keys = self.handshake.one_rtt.as_mut()?;
        match builder.finish(buf, written, pad_to, SealKeys::OneRtt(keys, nonce_path)) {
            Ok(built) => {
                self.book(now, id, built, ecn, origin);
                Some(())
            }
            Err(error) => {
                self.on_seal_error(now, error);
                None
            }
        }
    }
}

/// The stream data among a packet's frames.
pub(super) fn stream_ranges(frames: &[SentFrame]) -> SmallVec<[StreamRange; 2]> {
    frames
        .iter()
        .filter_map(|frame| match frame {
            SentFrame::Stream(range) => Some(*range),
            _ => None,
        })
        .collect()
}
