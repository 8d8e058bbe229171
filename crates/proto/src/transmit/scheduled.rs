//! Packets with data: those that the scheduler asks for, in batches of one path for segmentation offload, and those that
//! are bound to a path.

use std::time::Instant;

use super::packet::PacketSpec;
use crate::TransportError;
use crate::connection::Connection;
use crate::data::{BatchMut, BoundData, Planned, Sizes};
use crate::ids::Transmit;
use crate::path::{Addresses, Path};
use crate::space::PacketOrigin;

impl Connection {
    /// Packets as the scheduler decides, one by one. Those of one path leave as one batch, also if
    /// decisions alternate between paths: each path's batch is built on its own, and the batches of
    /// the other paths are handed out by the next calls.
    pub(super) fn transmit_scheduled(
        &mut self,
        now: Instant,
        max_datagrams: usize,
        buf: &mut Vec<u8>,
    ) -> Option<Transmit> {
        let control = self.has_control();
        let mut waits = control || self.data.can_send_streams();
        if !waits {
            self.paths.note_app_limited();
            // A scheduler may want to reinject even if nothing waits.
            if !self.data.is_in_flight() {
                self.data.on_nothing_to_send(now);
                return None;
            }
        }
        let (paths, watch) = (&mut self.paths, &mut self.watch);
        let mut transmit = None;
        if let Some(planned) = self.data.plan_first(now, paths, watch, control, waits) {
            transmit = self.build_batches(now, max_datagrams, planned, waits, buf);
            waits = self.has_scheduled_data();
        }
        if let Some(fault) = self.data.take_fault() {
            // The scheduler has broken its contract: the connection is over, and both sides learn why.
            tracing::error!("{fault}");
            self.fail(now, TransportError::internal(fault));
            return transmit;
        }
        if !waits {
            self.data.on_nothing_to_send(now);
            if transmit.is_none() {
                if !self.config.tail_copies || self.paths.used() < 2 || !self.data.is_in_flight() {
                    return None;
                }
                let copy = self.data.tail_copy(now, &self.paths)?;
                return self.transmit_bound(now, copy, buf);
            }
        } else if transmit.is_none() {
            self.data.note_held_back(&mut self.paths);
        }
        self.data.end_tail();
        transmit
    }

    /// Builds the batches of all paths until nothing more may be sent, that of the first path in `buf`, and hands out the
    /// first.
    fn build_batches(
        &mut self,
        now: Instant,
        max_datagrams: usize,
        mut planned: Planned,
        waits: bool,
        buf: &mut Vec<u8>,
    ) -> Option<Transmit> {
        let first = planned.path;
        let path = self.paths.at(first)?;
        let (id, ecn) = (path.id, path.ecn());
        let (start, mut sizes) = (buf.len(), Sizes::default());
        let mut progress = false;
        while let Some(path) = self.paths.at(planned.path) {
            let sent = if planned.path == first {
                let batch = BatchMut {
                    buf,
                    start,
                    sizes: &mut sizes,
                    ecn,
                };
                self.send_planned(now, &planned, max_datagrams, batch)
            } else {
                let mut batch = self.data.take_batch(path.index, path.id, path.ecn());
                let sent = self.send_planned(now, &planned, max_datagrams, batch.as_mut());
                self.data.put_batch(batch);
                sent
            };
            let next = match sent {
                Sending::Sent => {
                    progress = true;
                    let control = self.data.control_waits_still(|| self.has_control());
                    let (paths, watch) = (&mut self.paths, &mut self.watch);
                    self.data
                        .plan_next(now, paths, watch, &planned, control, waits)
                }
                Sending::Nothing => {
                    let (paths, watch) = (&self.paths, &mut self.watch);
                    self.data
                        .plan_instead(now, paths, watch, &planned, !progress, waits)
                }
                Sending::Full => {
                    self.data.keep(planned);
                    None
                }
            };
            match next {
                Some(next) => planned = next,
                None => break,
            }
        }
        let size = buf.len() - start;
        if size > 0 {
            let to = Addresses::Current;
            let transmit = self.note_datagrams(id, to, ecn, size, sizes.segment());
            if transmit.is_some() {
                return transmit;
            }
            // The path was abandoned in between: its packets count as lost already.
            buf.truncate(start);
        }
        self.transmit_batch(buf)
    }

    /// Sends one packet as planned, into the batch of its path.
    #[inline(never)]
    fn send_planned(
        &mut self,
        now: Instant,
        planned: &Planned,
        max_datagrams: usize,
        batch: BatchMut<'_>,
    ) -> Sending {
        let index = planned.path;
        let Some(path) = self.paths.at(index) else {
            return Sending::Nothing;
        };
        let mtu = usize::from(path.mtu());
        // What is sent counts for the amplification limit when it leaves: one by one, so that each is held against it.
        let max_datagrams = if path.is_validated() && self.config.segmentation_offload {
            max_datagrams
        } else {
            1
        };
        // A datagram of the application may need the last byte of a packet.
        let block = if self.data.has_datagrams() {
            1
        } else {
            self.endpoint_config.cipher_block
        };
        if batch.is_full(mtu, block, max_datagrams) {
            return Sending::Full;
        }
        let spec = PacketSpec {
            ecn: batch.ecn,
            end: Some(batch.end_of_next(mtu)),
            block,
            origin: PacketOrigin::Decision(planned.number),
            ..PacketSpec::unscheduled(index)
        };
        let Some(packet) = self.open_packet(&spec, batch.buf) else {
            return Sending::Nothing;
        };
        let mut w = packet.writer(batch.buf);
        let owed = self.paths.at(index).map(Path::owed_ack);
        self.paths.fill_own_ack(&mut w, now, index);
        // The view of the queue is brought up to date before each decision.
        if self.data.control_waited() {
            self.fill_control(&mut w);
        }
        self.data.fill(
            &mut w,
            now,
            &mut self.paths,
            planned.data,
            planned.copying,
            index,
        );
        if !w.is_ack_eliciting() {
            // Only an ACK, or nothing: not what was asked for. The ACK stays owed.
            if let (Some(path), Some(owed)) = (self.paths.at_mut(index), owed) {
                path.restore_ack(&owed);
            }
            packet.discard(w);
            return Sending::Nothing;
        }
        let Some(sealed) = self.seal_packet(now, &spec, &packet, w) else {
            return Sending::Nothing;
        };
        batch.sizes.push(sealed.size);
        if !planned.copies.is_empty() {
            self.data.plan_copies(&self.paths, planned, sealed.number);
        }
        Sending::Sent
    }

    /// Hands out a batch that is built.
    pub(super) fn transmit_batch(&mut self, buf: &mut Vec<u8>) -> Option<Transmit> {
        let to = Addresses::Current;
        while let Some(batch) = self.data.pop_batch(buf) {
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

    /// A packet with data that is bound to a path.
    #[inline(never)]
    pub(super) fn transmit_bound(
        &mut self,
        now: Instant,
        data: BoundData,
        buf: &mut Vec<u8>,
    ) -> Option<Transmit> {
        let index = data.path();
        let spec = PacketSpec {
            ecn: self.paths.at(index)?.ecn(),
            origin: data
                .copy_of()
                .map_or(PacketOrigin::Unscheduled, PacketOrigin::Copy),
            ..PacketSpec::unscheduled(index)
        };
        let packet = self.open_packet(&spec, buf)?;
        let mut w = packet.writer(buf);
        self.data.fill_bound(&mut w, now, &mut self.paths, data);
        if !w.is_ack_eliciting() {
            packet.discard(w);
            return None;
        }
        self.seal_datagram(now, &spec, &packet, w)
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
