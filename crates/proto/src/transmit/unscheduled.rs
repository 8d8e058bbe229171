//! Packets that a path sends without being scheduled: challenges, answers, loss probes, acknowledgements, keep-alives,
//! MTU probes, CONNECTION_CLOSE; they carry no new stream data but in loss probes.

use std::time::Instant;

use mpquic_sched_core::PathIndex;
use mpquic_wire::packet::MIN_INITIAL_DATAGRAM;
use smallvec::SmallVec;

use super::packet::PacketSpec;
use crate::PathId;
use crate::connection::Connection;
use crate::frame_writer::FrameWriter;
use crate::handshake::Handshake;
use crate::ids::Transmit;
use crate::path::{Addresses, Due, DueFacts};
use crate::space::{PacketOrigin, SpaceId};

impl Connection {
    /// The next datagram that some path has to send by itself. Acknowledgements that could travel with data are left
    /// to the scheduled packets first, as are MTU probes; `all` sends what is left of them. `left` is set if anything is.
    pub(super) fn transmit_unscheduled(
        &mut self,
        now: Instant,
        buf: &mut Vec<u8>,
        all: bool,
        left: &mut bool,
    ) -> Option<Transmit> {
        // With one path, there is no other.
        let several = self.paths.used() > 1 || !self.paths.retired().is_empty();
        let other_acks = several && self.paths.ack_on_other_path_due(now);
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
        let data_waits = || self.has_scheduled_data();
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
        let packet = self.open_packet(&spec, buf)?;
        let mut w = packet.writer(buf);
        match due {
            Due::LossProbe => self.fill_loss_probe(&mut w, now, index),
            _ => self.paths.fill_due(&mut w, now, index, due, &mut self.rng),
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

    /// RFC 9002 section 6.2.4: data if there is any, else a PING. With other paths to carry the
    /// data, a PING is enough to learn whether this one lives.
    fn fill_loss_probe(&mut self, w: &mut FrameWriter<'_>, now: Instant, index: PathIndex) {
        self.paths.fill_own_ack(w, now, index);
        //= specs/rfc10069-draft.md#path-initiation
        //# After receiving packets from the client on a new path, if the server decides to use the
        //# new path, the server MUST validate the peer's address before sending any data as
        //# described in ({{Section 8.2 of QUIC-TRANSPORT}}), unless it has previously validated the
        //# 4-tuple used for that path.
        if self.paths.is_only_usable(index) {
            self.fill_control(w);
            if self.state.is_established() {
                // RFC 9002 section 6.2.4 leaves it to us what a probe carries.
                let repeat = self.paths.probe_repeats(index);
                self.data.fill_probe(w, now, &mut self.paths, index, repeat);
            }
        }
        //= specs/rfc9002.txt#section-6.2.4
        //# All probe packets sent on a PTO MUST be ack-eliciting.
        //= specs/rfc9002.txt#section-6.2.4
        //# When there is no data to send, the sender SHOULD send a PING or other ack-eliciting
        //# frame in a single packet, rearming the PTO timer.
        if !w.is_ack_eliciting() {
            w.ping();
        }
        if self.paths.ack_frequency().is_in_use() {
            // Answered late, a probe would tell nothing before the next one.
            w.immediate_ack();
        }
    }

    /// One datagram with CONNECTION_CLOSE (RFC 9000 section 10.2) for the next path that is due to get it: at every level
    /// whose keys the peer may have.
    #[inline(never)]
    pub(super) fn transmit_close(&mut self, now: Instant, buf: &mut Vec<u8>) -> Option<Transmit> {
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
            let levels = levels(&self.handshake, id);
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
                let Some(packet) = self.open_packet(&spec, buf) else {
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
                transmit = self.note_datagrams(id, Addresses::Current, None, size, None);
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
            self.end_quietly(now);
        }
        transmit
    }
}

/// The levels at which the peer may have keys to read a close on this path.
//= specs/rfc9000.txt#section-10.2.3
//# After the handshake is confirmed (see Section 4.1.2 of [QUIC-TLS]), an endpoint MUST
//# send any CONNECTION_CLOSE frames in a 1-RTT packet.
//= specs/rfc9000.txt#section-10.2.3
//# Under these circumstances, a server SHOULD send a CONNECTION_CLOSE frame in both
//# Handshake and Initial packets to ensure that at least one of them is processable by the
//# client.
//= specs/rfc9000.txt#section-10.2.3
//# * Prior to confirming the handshake, a peer might be unable to process 1-RTT packets, so
//# an endpoint SHOULD send a CONNECTION_CLOSE frame in both Handshake and 1-RTT packets.
fn levels(handshake: &Handshake, path: PathId) -> SmallVec<[SpaceId; 3]> {
    let confirmed = handshake.is_confirmed();
    let early = path == PathId::ZERO && !confirmed;
    let one_rtt = handshake.one_rtt().is_some() && (handshake.is_complete() || confirmed);
    let mut levels = SmallVec::new();
    for space in [SpaceId::Initial, SpaceId::Handshake] {
        if early && handshake.has_keys(space) {
            levels.push(space);
        }
    }
    if one_rtt {
        levels.push(SpaceId::Data);
    }
    levels
}
