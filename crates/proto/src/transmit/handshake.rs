//! Datagrams of Initial and Handshake packets, coalesced (RFC 9000 section 12.2).

use std::time::Instant;

use mpquic_sched_core::Side;

use super::plan::PacketSpec;
use crate::PathId;
use crate::connection::Connection;
use crate::ids::Transmit;
use crate::packet::MIN_INITIAL_DATAGRAM;
use crate::path::Addresses;
use crate::space::SpaceId;

impl Connection {
    /// Whether a space has something to send now.
    fn space_wants(&self, now: Instant, space_id: SpaceId) -> bool {
        let keys = match space_id {
            SpaceId::Initial => self.handshake.initial.is_some(),
            _ => self.handshake.handshake.is_some(),
        };
        let Some(space) = self.spaces.get(space_id).filter(|_| keys) else {
            return false;
        };
        space.acks.due(now)
            || self.handshake.can_send(space_id)
            || self.spaces.wants_probe(space_id)
    }

    #[inline(never)]
    pub(super) fn transmit_handshake(
        &mut self,
        now: Instant,
        buf: &mut Vec<u8>,
    ) -> Option<Transmit> {
        let initial = self.space_wants(now, SpaceId::Initial);
        let handshake = self.space_wants(now, SpaceId::Handshake);
        if !initial && !handshake {
            return None;
        }
        let path = self.paths.get(PathId::ZERO)?;
        let limit = usize::try_from(path.send_limit()).unwrap_or(usize::MAX);
        let size = usize::from(path.mtu()).min(limit);
        let in_flight = self.spaces.bytes_in_flight() + path.space().bytes_in_flight();
        let window_left = self
            .paths
            .controller()
            .window(path.index)
            .saturating_sub(in_flight);
        // RFC 9002 section 7: probes may exceed the window; the handshake otherwise may not.
        if !self.spaces.has_probes() && window_left < size as u64 && self.only_data(now) {
            return None;
        }
        if size < 64 {
            return None;
        }
        let start = buf.len();
        let spec = PacketSpec {
            end: Some(start + size),
            ecn: path.ecn(),
            ..PacketSpec::unscheduled(path.index)
        };
        //= specs/rfc9000.txt#section-14.1
        //# A client MUST expand the payload of all UDP datagrams carrying Initial packets to at
        //# least the smallest allowed maximum datagram size of 1200 bytes by adding PADDING frames
        //# to the Initial packet or by coalescing the Initial packet; see Section 12.2.
        //= specs/rfc9000.txt#section-14.1
        //# Similarly, a server MUST expand the payload of all UDP datagrams carrying ack-eliciting
        //# Initial packets to at least the smallest allowed maximum datagram size of 1200 bytes.
        //= specs/rfc9000.txt#section-8.1
        //# Clients MUST ensure that UDP datagrams containing Initial packets have UDP payloads of
        //# at least 1200 bytes, adding PADDING frames as necessary.
        let must_pad = initial && (self.side == Side::Client || self.is_initial_ack_eliciting());
        if must_pad && size < MIN_INITIAL_DATAGRAM {
            return None;
        }
        let pad_to = if must_pad {
            start + MIN_INITIAL_DATAGRAM
        } else {
            0
        };
        // A request that fits travels in the datagram of the ClientHello.
        let early = initial && !handshake && self.early_data_follows_initial(size);
        let mut number = None;
        if initial {
            let space = SpaceId::Initial;
            let pad_to = if handshake || early { 0 } else { pad_to };
            let spec = PacketSpec {
                space,
                pad_to,
                ..spec
            };
            number = Some(self.send_handshake_packet(now, &spec, buf)?);
        }
        if early {
            let spec = PacketSpec { pad_to, ..spec };
            if let Some(packet) = self.open_packet(&spec, buf) {
                let mut w = packet.writer(buf);
                self.fill_early(&mut w, now);
                self.seal_packet(now, &spec, &packet, w);
            }
        }
        if handshake {
            let space = SpaceId::Handshake;
            let spec = PacketSpec {
                space,
                pad_to,
                ..spec
            };
            let sent = self.send_handshake_packet(now, &spec, buf);
            number = number.or(sent);
            let room = (start + size).saturating_sub(buf.len());
            if buf.len() > start && self.early_cids_follow_handshake(room) {
                let spec = PacketSpec {
                    space: SpaceId::Data,
                    pad_to: 0,
                    ..spec
                };
                if let Some(packet) = self.open_packet(&spec, buf) {
                    let mut w = packet.writer(buf);
                    self.fill_early(&mut w, now);
                    match w.is_ack_eliciting() {
                        true => _ = self.seal_packet(now, &spec, &packet, w),
                        false => packet.discard(w),
                    }
                }
            }
            let has_initial = self.spaces.get(SpaceId::Initial).is_some();
            if buf.len() > start && self.side == Side::Client && has_initial {
                //= specs/rfc9001.txt#section-4.9.1
                //# Thus, a client MUST discard Initial keys when it first sends a Handshake packet
                //# and a server MUST discard Initial keys when it first successfully processes a
                //# Handshake packet.
                self.discard_space(SpaceId::Initial);
            }
        }
        let size = buf.len() - start;
        if size == 0 {
            return None;
        }
        if let Some(number) = number
            && self.race.is_some()
        {
            self.copy_to_others(now, number, spec.ecn, &buf[start..]);
        }
        self.note_datagrams(PathId::ZERO, Addresses::Current, spec.ecn, size, None)
    }

    /// Whether the next Initial packet is more than an acknowledgement.
    fn is_initial_ack_eliciting(&mut self) -> bool {
        self.handshake.can_send(SpaceId::Initial) || self.spaces.wants_probe(SpaceId::Initial)
    }

    /// Whether all that the spaces want to send is ack-eliciting data, which the window may hold back.
    fn only_data(&self, now: Instant) -> bool {
        !self.spaces.iter().any(|space| space.acks.due(now))
    }

    fn send_handshake_packet(
        &mut self,
        now: Instant,
        spec: &PacketSpec,
        buf: &mut Vec<u8>,
    ) -> Option<u64> {
        let space_id = spec.space;
        let packet = self.open_packet(spec, buf)?;
        let mut w = packet.writer(buf);
        if let Some(space) = self.spaces.get_mut(space_id) {
            //= specs/rfc10069-draft.md#frames
            //# All frames defined in this document MUST only be sent in 1-RTT packets.
            //= specs/rfc9000.txt#section-13.2.6
            //# ACK frames MUST only be carried in a packet that has the same packet number
            //# space as the packet being acknowledged; see Section 12.1.
            space.write_ack(&mut w, now, None, PathId::ZERO, 0);
        }
        let probe = self.spaces.take_probe(space_id);
        let stream = self.handshake.stream(space_id);
        if probe {
            stream.repeat();
        }
        stream.fill(&mut w);
        if probe && !w.is_ack_eliciting() {
            w.ping();
        }
        Some(self.seal_packet(now, spec, &packet, w)?.number)
    }
}
