//! Application data before the handshake is complete: a client's 0-RTT packets, and what a server sends with 1-RTT keys
//! before it has heard the client's Finished (0.5-RTT). There is one path and nothing to choose, so no scheduler is asked.

use std::time::Instant;

use mpquic_sched_core::Side;

use super::plan::PacketSpec;
use crate::PathId;
use crate::connection::Connection;
use crate::frame::writer::FrameWriter;
use crate::ids::Transmit;
use crate::space::SpaceId;

/// What the header and the tag of an Initial packet take beside its token and its CRYPTO frames, with an ACK frame.
const INITIAL_OVERHEAD: usize = 160;

/// Room for a 0-RTT packet that is worth having behind an Initial packet: header, tag, and some data.
const WORTH: usize = 160;

impl Connection {
    /// Whether keys for application data are there before the handshake is complete.
    pub(crate) fn has_early_keys(&self) -> bool {
        if !self.state.is_handshaking() {
            return false;
        }
        match self.side {
            Side::Client => self.handshake.early_data.keys().is_some(),
            Side::Server => self.handshake.one_rtt.is_some() && self.peer_known,
        }
    }

    /// Whether there is early data to send, and room for it in the congestion window. Without an acknowledgement the
    /// window lets no more out than its initial size, which may leave at once (RFC 9002 section 7.7).
    fn early_data_due(&self) -> bool {
        let waits = self.has_early_keys()
            && (self.paths.local_cids().can_send() || self.data.can_send_early());
        let Some(path) = self.paths.get(PathId::ZERO).filter(|_| waits) else {
            return false;
        };
        let in_flight = self.spaces.bytes_in_flight() + path.space().bytes_in_flight();
        in_flight + u64::from(path.mtu()) <= self.paths.controller().window(path.index)
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

    /// Whether a 1-RTT packet is to follow the last Handshake packet of a server's first flight in its datagram, which
    /// has this much room left: a client then has the connection IDs of further paths when its handshake is complete.
    pub(super) fn early_cids_follow_handshake(&self, room: usize) -> bool {
        self.side == Side::Server
            && room >= WORTH
            && self.paths.local_cids().can_send()
            && !self.handshake.can_send(SpaceId::Handshake)
            && self.early_data_due()
    }

    /// Whether a 0-RTT packet is to follow the Initial packet that is about to be written into `room` bytes.
    pub(super) fn early_data_follows_initial(&self, room: usize) -> bool {
        if self.side != Side::Client || !self.early_data_due() {
            return false;
        }
        let crypto = self.handshake.unsent(SpaceId::Initial);
        crypto + self.initial_token.len() + INITIAL_OVERHEAD + WORTH <= room
    }

    /// Streams and datagrams: what a 0-RTT packet may carry, and of that what a client that has heard nothing yet has
    /// to say. A server's 1-RTT packet has the connection IDs of further paths before them.
    pub(super) fn fill_early(&mut self, w: &mut FrameWriter<'_>, now: Instant) {
        //= specs/rfc10069-draft.md#frames
        //# All frames defined in this document MUST only be sent in 1-RTT packets.
        if self.side == Side::Server {
            self.paths.fill_local_cids(w);
        }
        let path = self.paths.get(PathId::ZERO).map(|path| path.index);
        self.data.fill_early(w, now, path);
    }
}
