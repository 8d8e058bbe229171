//! Packets that a path owes without being scheduled: challenges, answers, loss probes,
//! acknowledgements, keep-alives, MTU probes; carries no new stream data but in loss probes.

use std::time::Instant;

use mpquic_sched_core::{Data, PathIndex};
use smallvec::SmallVec;

use super::{MIN_INITIAL_DATAGRAM, PacketOrigin, Written};
use crate::PathId;
use crate::connection::Connection;
use crate::frame::writer::FrameWriter;
use crate::frame::{Frame, types};
use crate::ids::Transmit;
use crate::path::NetworkPath;
use crate::space::{AckScheduler, SentFrame, StreamRange};

impl Connection {
    /// The next datagram that some path owes. Acknowledgements that could travel with data are left
    /// to the scheduled packets first; `all` sends what is left of them.
    pub(super) fn transmit_owed(
        &mut self,
        now: Instant,
        buf: &mut Vec<u8>,
        all: bool,
    ) -> Option<Transmit> {
        let foreign = self.foreign_ack_due(now);
        let established = self.state.is_established();
        let ids: SmallVec<[PathId; 4]> = self
            .paths
            .iter()
            .filter(|path| {
                foreign
                    || path.network.probe_due()
                    || path.aside.as_ref().is_some_and(NetworkPath::probe_due)
                    || path.probes > 0
                    || path.space.acks.due(now)
                    || (established && (path.ping || (all && path.mtu.poll(now).is_some())))
            })
            .filter(|path| self.remote_cids.active(path.id).is_some())
            .map(|path| path.id)
            .collect();
        for id in ids {
            let Some(path) = self.paths.get(id) else {
                continue;
            };
            let transmit = if path.network.probe_due() {
                self.transmit_path_probe(now, id, buf)
            } else if path.aside.as_ref().is_some_and(NetworkPath::probe_due) {
                self.transmit_probe_aside(now, id, buf)
            } else if path.probes > 0 {
                self.transmit_loss_probe(now, id, buf)
            } else if self.carries_own_acks(path)
                && (foreign || (path.space.acks.due(now) && (all || !self.data_will_carry_ack(id))))
            {
                self.transmit_ack(now, id, buf)
            } else if path.ping && self.state.is_established() {
                self.transmit_ping(now, id, buf)
            } else if all && self.state.is_established() {
                self.transmit_mtu_probe(now, id, buf)
            } else {
                None
            };
            if transmit.is_some() {
                return transmit;
            }
        }
        None
    }

    /// Whether a scheduled packet on this path is likely to follow at once.
    fn data_will_carry_ack(&self, id: PathId) -> bool {
        let Some(path) = self.paths.get(id) else {
            return false;
        };
        self.paths.open_count() == 1
            && self.state.is_established()
            && path.network.is_validated()
            && self.has_scheduled_data()
            && path.space.bytes_in_flight() + u64::from(path.mtu.current())
                <= self.controller.window(path.index)
    }

    /// PATH_CHALLENGE and PATH_RESPONSE, padded (RFC 9000 sections 8.2.1 and 8.2.2).
    fn transmit_path_probe(
        &mut self,
        now: Instant,
        id: PathId,
        buf: &mut Vec<u8>,
    ) -> Option<Transmit> {
        let start = buf.len();
        let builder = self.start_packet(id, buf)?;
        let token = rand::Rng::next_u64(&mut self.rng);
        let mut w = builder.writer(buf);
        let path = self.paths.get_mut(id)?;
        if let Some(response) = path.network.next_response() {
            Frame::PathResponse(response).encode(w.buf);
            w.mark_ack_eliciting();
        }
        if path.network.challenge_due() && w.remaining() > 16 {
            Frame::PathChallenge(token).encode(w.buf);
            w.record(SentFrame::PathChallenge(token));
            path.network.on_challenge_sent(now, token);
        }
        self.fill_own_ack(&mut w, now, id);
        let written = Written::from(w);
        let pad_to = start + MIN_INITIAL_DATAGRAM;
        self.seal(
            now,
            id,
            builder,
            written,
            pad_to,
            None,
            buf,
            PacketOrigin::Owed,
        )?;
        self.finish_transmit(id, None, buf.len() - start, None)
    }

    /// The same, over the addresses that the path does not use, or not any more (RFC 9000 sections
    /// 8.2.2 and 9.3.3).
    fn transmit_probe_aside(
        &mut self,
        now: Instant,
        id: PathId,
        buf: &mut Vec<u8>,
    ) -> Option<Transmit> {
        self.swap_aside(id);
        let transmit = self.transmit_path_probe(now, id, buf);
        self.swap_aside(id);
        transmit
    }

    fn swap_aside(&mut self, id: PathId) {
        if let Some(path) = self.paths.get_mut(id)
            && let Some(aside) = &mut path.aside
        {
            std::mem::swap(&mut path.network, aside);
        }
    }

    /// RFC 9002 section 6.2.4: data if there is any, else a PING. With other paths to carry the
    /// data, a PING is enough to learn whether this one lives.
    fn transmit_loss_probe(
        &mut self,
        now: Instant,
        id: PathId,
        buf: &mut Vec<u8>,
    ) -> Option<Transmit> {
        let start = buf.len();
        let path = self.paths.get_mut(id)?;
        path.probes -= 1;
        path.ping = false;
        let index = path.index;
        let builder = self.start_packet(id, buf)?;
        let mut w = builder.writer(buf);
        self.fill_own_ack(&mut w, now, id);
        if !self.has_other_usable(index) {
            self.fill_control(&mut w);
            if self.state.is_established() {
                self.fill_data(&mut w, Data::Next, index);
                if !w.is_ack_eliciting() {
                    self.fill_probe(&mut w, id, index);
                }
            }
        }
        if !w.is_ack_eliciting() {
            w.buf.push(types::PING as u8);
            w.mark_ack_eliciting();
        }
        let written = Written::from(w);
        let ecn = self.paths.get(id)?.ecn.outgoing();
        self.seal(now, id, builder, written, 0, ecn, buf, PacketOrigin::Owed)?;
        self.finish_transmit(id, ecn, buf.len() - start, None)
    }

    /// The oldest stream data in flight on this path, once more.
    fn fill_probe(&mut self, w: &mut FrameWriter<'_>, id: PathId, index: PathIndex) {
        let Some(path) = self.paths.get(id) else {
            return;
        };
        let oldest: SmallVec<[StreamRange; 2]> = path
            .space
            .sent
            .iter()
            .map(|(_, packet)| super::scheduled::stream_ranges(&packet.frames))
            .find(|ranges| !ranges.is_empty())
            .unwrap_or_default();
        for range in &oldest {
            self.streams.fill_probe(w, range, index);
        }
    }

    fn transmit_ack(&mut self, now: Instant, id: PathId, buf: &mut Vec<u8>) -> Option<Transmit> {
        let start = buf.len();
        let builder = self.start_packet(id, buf)?;
        let mut w = builder.writer(buf);
        self.fill_own_ack(&mut w, now, id);
        self.fill_foreign_acks(&mut w, now);
        if w.frames.is_empty() {
            builder.abort(buf);
            return None;
        }
        let written = Written::from(w);
        let ecn = self.paths.get(id)?.ecn.outgoing();
        self.seal(now, id, builder, written, 0, ecn, buf, PacketOrigin::Owed)?;
        self.finish_transmit(id, ecn, buf.len() - start, None)
    }

    fn transmit_ping(&mut self, now: Instant, id: PathId, buf: &mut Vec<u8>) -> Option<Transmit> {
        let start = buf.len();
        let builder = self.start_packet(id, buf)?;
        if let Some(path) = self.paths.get_mut(id) {
            path.ping = false;
        }
        let mut w = builder.writer(buf);
        self.fill_own_ack(&mut w, now, id);
        w.buf.push(types::PING as u8);
        w.mark_ack_eliciting();
        let written = Written::from(w);
        self.seal(now, id, builder, written, 0, None, buf, PacketOrigin::Owed)?;
        self.finish_transmit(id, None, buf.len() - start, None)
    }

    /// RFC 8899: a PING padded to the size that is being tried.
    fn transmit_mtu_probe(
        &mut self,
        now: Instant,
        id: PathId,
        buf: &mut Vec<u8>,
    ) -> Option<Transmit> {
        let path = self.paths.get_mut(id)?;
        if !path.network.is_validated() || !self.confirmed {
            return None;
        }
        let size = path.mtu.poll(now)?;
        // A probe counts against the window like any packet (RFC 9000 section 14.4).
        if path.space.bytes_in_flight() + u64::from(size) > self.controller.window(path.index) {
            return None;
        }
        let start = buf.len();
        let builder = self.start_packet_of(id, buf, Some(size.into()))?;
        let mut w = builder.writer(buf);
        w.buf.push(types::PING as u8);
        w.mark_ack_eliciting();
        let written = Written::from(w);
        let pad_to = start + usize::from(size);
        self.seal(
            now,
            id,
            builder,
            written,
            pad_to,
            None,
            buf,
            PacketOrigin::MtuProbe,
        )?;
        self.finish_transmit(id, None, buf.len() - start, None)
    }

    /// What a path owes by way of acknowledgement, to be restored if the packet that was to carry it
    /// is taken back; `None` if it owes nothing.
    pub(super) fn owed_ack(&self, id: PathId) -> Option<AckScheduler> {
        let acks = &self.paths.get(id)?.space.acks;
        acks.pending().then(|| acks.clone())
    }

    pub(super) fn restore_ack(&mut self, id: PathId, owed: Option<AckScheduler>) {
        if let (Some(path), Some(owed)) = (self.paths.get_mut(id), owed) {
            path.space.acks = owed;
        }
    }
}
