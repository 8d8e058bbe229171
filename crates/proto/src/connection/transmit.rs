//! What leaves next, in which order: close, handshake, what paths send by themselves, what the scheduler wants. The planes
//! plan and fill packets; here they are opened, sealed and noted.

use std::time::Instant;

use mpquic_sched_core::{PathIndex, Sent, Side};
use mpquic_wire::packet::MIN_INITIAL_DATAGRAM;

use super::Connection;
use super::packet::{OpenPacket, PacketSpec};
use crate::data::{BatchMut, BoundData, Planned, Sizes};
use crate::frame_writer::FrameWriter;
use crate::ids::Transmit;
use crate::path::{Addresses, Due, DueFacts, Path};
use crate::space::{PacketOrigin, SpaceId};
use crate::{PathId, TransportError};

/// Room for a packet that is worth having behind an Initial or Handshake packet: header, tag, and some data.
const WORTH: usize = 160;

/// What came of a packet that was planned.
enum Sending {
    Sent,
    /// There was nothing of that kind to send.
    Nothing,
    /// It is for the path's next batch.
    Full,
}

/// A packet that leaves.
struct Sealed {
    number: u64,
    size: usize,
}

/// The order.
impl Connection {
    /// Writes datagrams to send to the end of `buf`: one, or up to `max_datagrams` of equal size
    /// for one path. `None` if there is nothing to send now.
    pub fn poll_transmit(
        &mut self,
        now: Instant,
        max_datagrams: usize,
        buf: &mut Vec<u8>,
    ) -> Option<Transmit> {
        if self.handshake.attempt().is_some()
            && let Some(transmit) = self.transmit_race(now, max_datagrams, buf)
        {
            return Some(transmit);
        }
        if !self.state.is_alive() {
            return self.transmit_close(now, buf);
        }
        self.data.datagrams_mut().drop_expired(now);
        if self.data.has_batches()
            && let Some(transmit) = self.transmit_batch(buf)
        {
            return Some(transmit);
        }
        // Without such keys, there is nothing of the handshake to send any more.
        if self.handshake.has_long_keys()
            && let Some(transmit) = self.transmit_handshake(now, buf)
        {
            return Some(transmit);
        }
        if self.state.is_handshaking()
            && let Some(transmit) = self.transmit_early(now, buf)
        {
            return Some(transmit);
        }
        self.handshake.one_rtt()?;
        self.data.tell_stream_events();
        let mut left = false;
        if let Some(transmit) = self.transmit_unscheduled(now, buf, false, &mut left) {
            return Some(transmit);
        }
        if self.state.is_established() {
            while self.data.has_copies_to_send()
                && let Some(copy) = self.data.next_copy(now, &mut self.paths)
            {
                if let Some(transmit) = self.transmit_bound(now, copy, buf) {
                    return Some(transmit);
                }
            }
            for index in self.data.paths_of_datagrams().iter() {
                let data = self.data.datagrams_for(now, &mut self.paths, index);
                if let Some(data) = data
                    && let Some(transmit) = self.transmit_bound(now, data, buf)
                {
                    return Some(transmit);
                }
            }
            if let Some(transmit) = self.transmit_scheduled(now, max_datagrams.max(1), buf) {
                return Some(transmit);
            }
            if !self.state.is_alive() {
                // For a fault of the scheduler's.
                return self.transmit_close(now, buf);
            }
        }
        // Nothing has left since, so that no path has anything that it did not have.
        if !left {
            return None;
        }
        self.transmit_unscheduled(now, buf, true, &mut left)
    }

    /// Whether nothing is left to send, and [`poll_transmit`](Self::poll_transmit) would return `None`: a cheap question
    /// between a datagram and the next. If so, the paths do not use their windows from `now` on. `false` says nothing.
    pub fn comes_to_rest(&mut self, now: Instant) -> bool {
        let sends = !self.state.is_established()
            || self.handshake.has_long_keys()
            || self.handshake.attempt().is_some()
            || self.data.can_send_streams()
            || self.has_control()
            || self.data.has_bound()
            || self.paths.has_any_due(now);
        // What is in flight may be copied to another path.
        if sends || (self.paths.used() > 1 && self.data.is_in_flight()) {
            return false;
        }
        self.data.tell_stream_events();
        self.paths.note_app_limited();
        self.data.on_nothing_to_send(now);
        true
    }

    /// Copies that are due, and what the other attempts have to send.
    #[inline(never)]
    fn transmit_race(
        &mut self,
        now: Instant,
        max_datagrams: usize,
        buf: &mut Vec<u8>,
    ) -> Option<Transmit> {
        let race = self.race.as_mut();
        if let Some(farewell) = race.and_then(|race| race.next_farewell(buf)) {
            return Some(farewell);
        }
        let attempt = self.handshake.attempt_mut();
        if let Some(attempt) = attempt.filter(|_| self.state.is_alive())
            && let Some(copy) = attempt.poll_transmit(now, buf)
        {
            self.paths.count_sent(1, copy.size as u64);
            return Some(copy);
        }
        self.with_race(|race, own| race.poll_transmit(own, now, max_datagrams, buf))?
    }

    /// Whether control frames or datagrams wait to be scheduled.
    pub(super) fn has_control(&self) -> bool {
        self.handshake.can_send_control()
            || self.data.streams().can_send_control()
            || self.data.has_datagrams()
            || self.paths.can_send_control()
    }

    /// Fills a 1-RTT packet with everything but stream data and datagrams, most urgent first. The owners are asked in this
    /// order, and choose what to write.
    fn fill_control(&mut self, w: &mut FrameWriter<'_>) {
        self.handshake.fill_control(w);
        self.handshake.fill_new_tokens(w);
        self.paths.fill_control(w);
        if self.data.streams().can_send_control() {
            self.data.streams_mut().fill_control(w);
        }
    }
}

/// Packets and datagrams.
impl Connection {
    /// Seals and notes a packet whose frames are written. `None`, and the connection is over, if it cannot be encrypted.
    fn seal_packet(
        &mut self,
        now: Instant,
        spec: &PacketSpec,
        packet: &OpenPacket,
        w: FrameWriter<'_>,
    ) -> Option<Sealed> {
        let id = self.paths.at(spec.path)?.id;
        let (handshake, paths, watch) = (&mut self.handshake, &self.paths, &mut self.watch);
        let (sent, resent) = match packet.seal(now, spec, id, handshake, paths, watch, w) {
            Ok(sealed) => sealed,
            Err(error) => {
                self.fail(now, error);
                return None;
            }
        };
        let (origin, size, decision) = (spec.origin, sent.size, sent.decision);
        let sealed = Sealed {
            number: packet.number,
            size: size.into(),
        };
        let (path, controller) = self.paths.with_controller(spec.path)?;
        if origin == PacketOrigin::Close {
            // Nobody acknowledges it, and nobody waits for it.
            match self.handshake.space_mut(spec.space) {
                Some(space) => _ = space.numbers.take(&mut self.rng),
                None => path.take_number(&mut self.rng),
            }
            return Some(sealed);
        }
        self.totals.sent_packets += 1;
        if sent.ack_eliciting {
            self.idle.on_eliciting_sent(now);
        }
        if spec.space != SpaceId::Data {
            path.on_handshake_packet_sent(now, &sent, controller);
            if let Some(space) = self.handshake.space_mut(spec.space) {
                space.on_sent(sent, &mut self.rng);
            }
            return Some(sealed);
        }
        let new_bytes = path.on_packet_sent(now, sent, resent, origin, controller, &mut self.rng);
        self.totals.retransmitted_bytes += resent.retransmitted;
        self.totals.reinjected_bytes += resent.copied;
        if matches!(origin, PacketOrigin::Copy(_)) {
            self.totals.copied_bytes += resent.copied;
        }
        if resent.copied > 0 {
            self.data.on_copied(resent.copied);
        }
        if let Some(decision) = decision {
            // A packet is not larger than a UDP payload, so this saturates nothing.
            let new_bytes = u16::try_from(new_bytes).unwrap_or(u16::MAX);
            self.data.on_sent(&Sent::new(
                spec.path, now, size, decision, resent.any, new_bytes,
            ));
        }
        Some(sealed)
    }

    /// Seals a packet that is a datagram of its own, and hands it out.
    fn seal_datagram(
        &mut self,
        now: Instant,
        spec: &PacketSpec,
        packet: &OpenPacket,
        w: FrameWriter<'_>,
    ) -> Option<Transmit> {
        let size = self.seal_packet(now, spec, packet, w)?.size;
        let id = self.paths.at(spec.path)?.id;
        self.paths
            .on_datagrams_sent(id, spec.to, spec.ecn, size, None)
    }
}

/// What the scheduler asks for, and what is bound to a path.
impl Connection {
    /// Packets as the scheduler decides, one by one. Those of one path leave as one batch, also if
    /// decisions alternate between paths: each path's batch is built on its own, and the batches of
    /// the other paths are handed out by the next calls.
    fn transmit_scheduled(
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
            if !self.data.is_in_flight() || self.paths.used() < 2 {
                self.data.on_nothing_to_send(now);
                return None;
            }
        }
        let (paths, watch) = (&mut self.paths, &mut self.watch);
        let mut transmit = None;
        if let Some(planned) = self.data.plan_first(now, paths, watch, control, waits) {
            transmit = self.build_batches(now, max_datagrams, planned, waits, buf);
            waits = self.data.can_send_streams()
                || self.data.control_waits_still(|| self.has_control());
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
                if !self.config.tail_copies || !self.data.is_in_flight() {
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
            let transmit = self
                .paths
                .on_datagrams_sent(id, to, ecn, size, sizes.segment());
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
        let max_datagrams = if path.is_validated() {
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
        let Some(packet) = spec.open(&self.handshake, &mut self.paths, batch.buf) else {
            return Sending::Nothing;
        };
        let mut w = packet.writer(batch.buf);
        let owed = self.paths.at(index).map(Path::owed_ack);
        self.paths.fill_own_ack(&mut w, now, index);
        // The view of the queue is brought up to date before each decision.
        if self.data.control_waited() {
            self.fill_control(&mut w);
        }
        if self.paths.ack_frequency().can_send() {
            self.paths.fill_ack_frequency(&mut w);
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
        if self.paths.ack_frequency().peer_threshold() > 1
            && !self.data.can_send_streams()
            && !self.data.has_datagrams()
        {
            self.paths.fill_end_of_burst(&mut w, index, packet.number);
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
    fn transmit_batch(&mut self, buf: &mut Vec<u8>) -> Option<Transmit> {
        let to = Addresses::Current;
        while let Some(batch) = self.data.pop_batch(buf) {
            let transmit = self.paths.on_datagrams_sent(
                batch.id,
                to,
                batch.ecn,
                batch.size,
                batch.segment_size,
            );
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
    fn transmit_bound(
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
        let packet = spec.open(&self.handshake, &mut self.paths, buf)?;
        let mut w = packet.writer(buf);
        self.data.fill_bound(&mut w, now, &mut self.paths, data);
        if !w.is_ack_eliciting() {
            packet.discard(w);
            return None;
        }
        if self.paths.ack_frequency().can_send() {
            self.paths.fill_ack_frequency(&mut w);
        }
        if self.paths.ack_frequency().peer_threshold() > 1
            && !self.data.paths_of_datagrams().contains(index)
        {
            self.paths.fill_end_of_burst(&mut w, index, packet.number);
        }
        self.seal_datagram(now, &spec, &packet, w)
    }
}

/// What paths send by themselves: no new stream data but in loss probes.
impl Connection {
    /// The next datagram that some path has to send by itself. Acknowledgements that could travel with data are left
    /// to the scheduled packets first, as are MTU probes; `all` sends what is left of them. `left` is set if anything is.
    fn transmit_unscheduled(
        &mut self,
        now: Instant,
        buf: &mut Vec<u8>,
        all: bool,
        left: &mut bool,
    ) -> Option<Transmit> {
        let other_acks = self.paths.carrier_of_other_acks(now);
        for slot in 0..self.paths.used() {
            let facts = DueFacts {
                established: self.state.is_established(),
                confirmed: self.handshake.is_confirmed(),
                other_acks,
                all,
            };
            if let Some(path) = self.paths.in_slot(slot)
                && self.paths.has_due(now, path, facts)
            {
                *left = true;
                let index = path.index;
                if let Some(transmit) = self.transmit_due(now, index, facts, buf) {
                    return Some(transmit);
                }
            }
        }
        None
    }

    /// The datagram that a path has to send by itself now, if it has not rather to wait.
    #[inline(never)]
    fn transmit_due(
        &mut self,
        now: Instant,
        index: PathIndex,
        facts: DueFacts,
        buf: &mut Vec<u8>,
    ) -> Option<Transmit> {
        let path = self.paths.at(index)?;
        let data_waits = || self.data.can_send_streams() || self.has_control();
        let due = self.paths.due(now, path, facts, data_waits)?;
        let plan = self.paths.plan_due(now, index, due, buf.len())?;
        let spec = PacketSpec {
            to: plan.to,
            end: plan.end,
            pad_to: plan.pad_to,
            ecn: plan.ecn,
            origin: plan.origin,
            ..PacketSpec::unscheduled(index)
        };
        let packet = spec.open(&self.handshake, &mut self.paths, buf)?;
        let mut w = packet.writer(buf);
        self.paths.fill_due(&mut w, now, index, due, &mut self.rng);
        if due == Due::LossProbe {
            // RFC 9002 section 6.2.4: data if there is any. With other paths to carry it, a PING is enough to learn whether
            // this one lives.
            //= specs/rfc10069-draft.md#path-initiation
            //# After receiving packets from the client on a new path, if the server decides to use the
            //# new path, the server MUST validate the peer's address before sending any data as
            //# described in ({{Section 8.2 of QUIC-TRANSPORT}}), unless it has previously validated the
            //# 4-tuple used for that path.
            if self.paths.is_only_usable(index) {
                self.fill_control(&mut w);
                if self.state.is_established() {
                    // RFC 9002 section 6.2.4 leaves it to us what a probe carries.
                    let repeat = self.paths.probe_repeats(index);
                    self.data
                        .fill_probe(&mut w, now, &mut self.paths, index, repeat);
                }
            }
            self.paths.finish_loss_probe(&mut w);
        }
        if due == Due::Ack && w.frames.is_empty() {
            packet.discard(w);
            return None;
        }
        let transmit = self.seal_datagram(now, &spec, &packet, w);
        if transmit.is_some() {
            self.paths.on_due_sent(index, &plan);
        }
        transmit
    }

    /// One datagram with CONNECTION_CLOSE (RFC 9000 section 10.2) for the next path that is due to get it: at every level
    /// whose keys the peer may have.
    #[inline(never)]
    fn transmit_close(&mut self, now: Instant, buf: &mut Vec<u8>) -> Option<Transmit> {
        let close = self.state.close_frame()?.clone();
        let mut transmit = None;
        while transmit.is_none()
            && let Some(index) = self.state.take_due()
        {
            let Some(path) = self.paths.at(index) else {
                continue;
            };
            let (id, start) = (path.id, buf.len());
            //= specs/rfc9000.txt#section-10.2.1
            //# An endpoint in the closing state MUST either discard packets received from an
            //# unvalidated address or limit the cumulative size of packets it sends to an
            //# unvalidated address to three times the size of packets it receives from that
            //# address.
            let limit = usize::try_from(path.send_limit()).unwrap_or(usize::MAX);
            let end = start + MIN_INITIAL_DATAGRAM.min(limit);
            let levels = self.handshake.close_levels(id);
            for &space in &levels {
                // RFC 9000 section 14.1: an Initial packet, or what follows it, expands its datagram.
                let last = levels.last() == Some(&space);
                let pads = last && levels.contains(&SpaceId::Initial);
                let spec = PacketSpec {
                    space,
                    end: Some(end),
                    pad_to: if pads { end } else { 0 },
                    origin: PacketOrigin::Close,
                    ..PacketSpec::unscheduled(index)
                };
                let Some(packet) = spec.open(&self.handshake, &mut self.paths, buf) else {
                    continue;
                };
                let mut w = packet.writer(buf);
                let wrote = match space {
                    SpaceId::Data => close.write(&mut w),
                    _ => close.write_early(&mut w),
                };
                match wrote {
                    true => _ = self.seal_packet(now, &spec, &packet, w),
                    false => packet.discard(w),
                }
            }
            let size = buf.len() - start;
            if size > 0 {
                transmit = self
                    .paths
                    .on_datagrams_sent(id, Addresses::Current, None, size, None);
            }
            if transmit.is_some() {
                let alone = self.paths.open_count() == 1;
                let only = alone.then(|| &buf[start..]);
                self.state.on_close_sent(now, only);
            }
        }
        // The peer is told, if it is there. If it was never heard of, it asks for no repetition.
        let unheard = self.side.is_client() && !self.handshake.is_heard();
        if unheard && self.state.is_told() {
            self.handshake
                .retire_cid_quietly(now, &mut self.endpoint_events);
            self.end(now, None);
        }
        transmit
    }
}

/// Before the handshake is confirmed: there is one path and nothing to choose, so no scheduler is asked.
impl Connection {
    /// The next datagram of Initial and Handshake packets.
    #[inline(never)]
    fn transmit_handshake(&mut self, now: Instant, buf: &mut Vec<u8>) -> Option<Transmit> {
        let path = self.paths.get(PathId::ZERO)?;
        let window = self.paths.controller().window(path.index);
        let flight = self.handshake.next_flight(now, path, window)?;
        let size = flight.size;
        let start = buf.len();
        // All packets of the datagram have the connection ID that this path has now.
        //= specs/rfc9000.txt#section-12.2
        //# Senders MUST NOT coalesce QUIC packets with different connection IDs into a single UDP
        //# datagram.
        let spec = PacketSpec {
            end: Some(start + size),
            ecn: path.ecn(),
            ..PacketSpec::unscheduled(path.index)
        };
        // The last packet of the datagram is padded.
        let pad_to = match flight.padded {
            true => start + MIN_INITIAL_DATAGRAM,
            false => 0,
        };
        // A request that fits travels in the datagram of the ClientHello.
        let early = flight.initial
            && !flight.handshake
            && self.side == Side::Client
            && self.data.is_early_due(&self.handshake, &self.paths)
            && self.handshake.initial_size() + WORTH <= size;
        let mut number = None;
        if flight.initial {
            let last = !flight.handshake && !early;
            let spec = PacketSpec {
                space: SpaceId::Initial,
                pad_to: if last { pad_to } else { 0 },
                ..spec
            };
            let packet = spec.open(&self.handshake, &mut self.paths, buf)?;
            let mut w = packet.writer(buf);
            self.handshake.fill(SpaceId::Initial, &mut w, now);
            number = Some(self.seal_packet(now, &spec, &packet, w)?.number);
        }
        if early {
            let spec = PacketSpec { pad_to, ..spec };
            if let Some(packet) = spec.open(&self.handshake, &mut self.paths, buf) {
                let mut w = packet.writer(buf);
                self.data.fill_early(&mut w, now, &mut self.paths);
                self.seal_packet(now, &spec, &packet, w);
            }
        }
        if flight.handshake {
            let handshake = PacketSpec {
                space: SpaceId::Handshake,
                pad_to,
                ..spec
            };
            if let Some(packet) = handshake.open(&self.handshake, &mut self.paths, buf) {
                let mut w = packet.writer(buf);
                self.handshake.fill(SpaceId::Handshake, &mut w, now);
                let sealed = self.seal_packet(now, &handshake, &packet, w);
                let sent = sealed.map(|sealed| sealed.number);
                number = number.or(sent);
            }
            let any = buf.len() > start;
            // Behind the last Handshake packet of a server's first flight: a client then has the connection IDs of further
            // paths when its handshake is complete.
            if any
                && self.side == Side::Server
                && (start + size).saturating_sub(buf.len()) >= WORTH
                && self.paths.local_cids().can_send()
                && self.handshake.has_sent_all()
                && self.data.is_early_due(&self.handshake, &self.paths)
                && let Some(packet) = spec.open(&self.handshake, &mut self.paths, buf)
            {
                let mut w = packet.writer(buf);
                self.data.fill_early(&mut w, now, &mut self.paths);
                match w.is_ack_eliciting() {
                    true => _ = self.seal_packet(now, &spec, &packet, w),
                    false => packet.discard(w),
                }
            }
            //= specs/rfc9001.txt#section-4.9.1
            //# Thus, a client MUST discard Initial keys when it first sends a Handshake packet
            //# and a server MUST discard Initial keys when it first successfully processes a
            //# Handshake packet.
            if any
                && self.side == Side::Client
                && self.handshake.discard(SpaceId::Initial)
                && let Some(path) = self.paths.get_mut(PathId::ZERO)
            {
                path.reset_pto_backoff();
            }
        }
        let size = buf.len() - start;
        if size == 0 {
            return None;
        }
        if let Some(number) = number {
            let silent = self.paths.get(PathId::ZERO).map_or(0, Path::pto_count) > 0;
            self.handshake
                .copy_datagram(now, number, spec.ecn, &buf[start..], silent);
        }
        self.paths
            .on_datagrams_sent(PathId::ZERO, Addresses::Current, spec.ecn, size, None)
    }

    /// The next datagram of early data.
    #[inline(never)]
    fn transmit_early(&mut self, now: Instant, buf: &mut Vec<u8>) -> Option<Transmit> {
        if !self.data.is_early_due(&self.handshake, &self.paths) {
            return None;
        }
        let path = self.paths.get(PathId::ZERO)?;
        let index = path.index;
        let size = usize::from(path.mtu()).min(self.handshake.peer().early_udp_payload());
        let spec = PacketSpec {
            end: Some(buf.len() + size),
            ecn: path.ecn(),
            ..PacketSpec::unscheduled(index)
        };
        let packet = spec.open(&self.handshake, &mut self.paths, buf)?;
        let mut w = packet.writer(buf);
        self.data.datagrams_mut().drop_oversized(None, w.capacity());
        self.data.fill_early(&mut w, now, &mut self.paths);
        if !w.is_ack_eliciting() {
            packet.discard(w);
            return None;
        }
        //= specs/rfc9000.txt#section-12.5
        //# Note that it is not possible to send the following frames in 0-RTT packets for
        //# various reasons: ACK, CRYPTO, HANDSHAKE_DONE, NEW_TOKEN, PATH_RESPONSE, and
        //# RETIRE_CONNECTION_ID.
        if self.side == Side::Server {
            self.paths.fill_own_ack(&mut w, now, index);
        }
        self.seal_datagram(now, &spec, &packet, w)
    }
}
