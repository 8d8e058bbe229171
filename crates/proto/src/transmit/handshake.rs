//! Datagrams before the handshake is confirmed: Initial and Handshake packets, coalesced (RFC 9000 section 12.2); a client's
//! 0-RTT packets, and what a server sends with 1-RTT keys before it has heard the client's Finished (0.5-RTT). There is one
//! path and nothing to choose, so no scheduler is asked.

use std::time::Instant;

use mpquic_sched_core::Side;
use mpquic_wire::packet::MIN_INITIAL_DATAGRAM;

use super::packet::PacketSpec;
use crate::PathId;
use crate::connection::Connection;
use crate::frame_writer::FrameWriter;
use crate::ids::Transmit;
use crate::path::{Addresses, Path};
use crate::space::SpaceId;

/// Room for a packet that is worth having behind an Initial or Handshake packet: header, tag, and some data.
const WORTH: usize = 160;

impl Connection {
    /// The next datagram of Initial and Handshake packets.
    #[inline(never)]
    pub(super) fn transmit_handshake(
        &mut self,
        now: Instant,
        buf: &mut Vec<u8>,
    ) -> Option<Transmit> {
        let waiting = self.handshake.waiting(now)?;
        let path = self.paths.get(PathId::ZERO)?;
        let limit = usize::try_from(path.send_limit()).unwrap_or(usize::MAX);
        let size = usize::from(path.mtu()).min(limit);
        let in_flight = self.handshake.bytes_in_flight() + path.space().bytes_in_flight();
        let window = self.paths.controller().window(path.index);
        // RFC 9002 section 7: probes may exceed the window; the handshake otherwise may not.
        if !waiting.urgent && window.saturating_sub(in_flight) < size as u64 {
            return None;
        }
        if size < 64 || (waiting.padded && size < MIN_INITIAL_DATAGRAM) {
            return None;
        }
        let start = buf.len();
        let spec = PacketSpec {
            end: Some(start + size),
            ecn: path.ecn(),
            ..PacketSpec::unscheduled(path.index)
        };
        // The last packet of the datagram is padded.
        let pad_to = match waiting.padded {
            true => start + MIN_INITIAL_DATAGRAM,
            false => 0,
        };
        // A request that fits travels in the datagram of the ClientHello.
        let early = waiting.initial
            && !waiting.handshake
            && self.side == Side::Client
            && self.early_data_due()
            && self.handshake.initial_size() + WORTH <= size;
        let mut number = None;
        if waiting.initial {
            let last = !waiting.handshake && !early;
            let spec = PacketSpec {
                space: SpaceId::Initial,
                pad_to: if last { pad_to } else { 0 },
                ..spec
            };
            let packet = self.open_packet(&spec, buf)?;
            let mut w = packet.writer(buf);
            self.handshake.fill(SpaceId::Initial, &mut w, now);
            number = Some(self.seal_packet(now, &spec, &packet, w)?.number);
        }
        if early {
            let spec = PacketSpec { pad_to, ..spec };
            if let Some(packet) = self.open_packet(&spec, buf) {
                let mut w = packet.writer(buf);
                self.fill_early(&mut w, now);
                self.seal_packet(now, &spec, &packet, w);
            }
        }
        if waiting.handshake {
            let handshake = PacketSpec {
                space: SpaceId::Handshake,
                pad_to,
                ..spec
            };
            if let Some(packet) = self.open_packet(&handshake, buf) {
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
                && self.early_data_due()
                && let Some(packet) = self.open_packet(&spec, buf)
            {
                let mut w = packet.writer(buf);
                self.fill_early(&mut w, now);
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
        if let Some(number) = number
            && self.handshake.attempt().is_some()
        {
            // The server has fallen silent. The end of the handshake may reach it another way.
            let silent = self.paths.get(PathId::ZERO).map_or(0, Path::pto_count) > 0;
            //= specs/rfc9000.txt#section-18.2
            //# An endpoint that receives this transport parameter MUST NOT use a new local address when
            //# sending to the address that the peer used during the handshake.
            let moves = !self.peer.disable_active_migration;
            let again = silent && moves && !self.handshake.is_confirmed();
            if let Some(attempt) = self.handshake.attempt_mut() {
                attempt.copy(now, number, spec.ecn, &buf[start..], again);
            }
        }
        self.note_datagrams(PathId::ZERO, Addresses::Current, spec.ecn, size, None)
    }

    /// The next datagram of early data.
    #[inline(never)]
    pub(super) fn transmit_early(&mut self, now: Instant, buf: &mut Vec<u8>) -> Option<Transmit> {
        if !self.early_data_due() {
            return None;
        }
        let path = self.paths.get(PathId::ZERO)?;
        let index = path.index;
        let size = usize::from(path.mtu()).min(self.peer.early_udp_payload());
        let spec = PacketSpec {
            end: Some(buf.len() + size),
            ecn: path.ecn(),
            ..PacketSpec::unscheduled(index)
        };
        let packet = self.open_packet(&spec, buf)?;
        let mut w = packet.writer(buf);
        self.data.datagrams_mut().drop_oversized(None, w.capacity());
        self.fill_early(&mut w, now);
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

    /// Whether there is early data to send, and room for it in the congestion window. Without an acknowledgement the
    /// window lets no more out than its initial size, which may leave at once (RFC 9002 section 7.7).
    fn early_data_due(&self) -> bool {
        let waits = self.state.is_handshaking()
            && self.handshake.has_early_keys()
            && (self.paths.local_cids().can_send() || self.data.can_send_early());
        let Some(path) = self.paths.get(PathId::ZERO).filter(|_| waits) else {
            return false;
        };
        let in_flight = self.handshake.bytes_in_flight() + path.space().bytes_in_flight();
        in_flight + u64::from(path.mtu()) <= self.paths.controller().window(path.index)
    }

    /// Streams and datagrams: what a 0-RTT packet may carry, and of that what a client that has heard nothing yet has
    /// to say. A server's 1-RTT packet has the connection IDs of further paths before them.
    fn fill_early(&mut self, w: &mut FrameWriter<'_>, now: Instant) {
        //= specs/rfc10069-draft.md#frames
        //# All frames defined in this document MUST only be sent in 1-RTT packets.
        if self.side == Side::Server {
            self.paths.fill_local_cids(w);
        }
        let path = self.paths.get(PathId::ZERO).map(|path| path.index);
        self.data.fill_early(w, now, path);
    }
}
