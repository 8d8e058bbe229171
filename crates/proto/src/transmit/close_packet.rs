//! The datagram with CONNECTION_CLOSE (RFC 9000 section 10.2): at every level whose keys the peer may
//! have; decides nothing about the connection's state.

use std::time::Instant;

use smallvec::SmallVec;

use super::plan::PacketSpec;
use crate::PathId;
use crate::connection::Connection;
use crate::handshake::Handshake;
use crate::ids::Transmit;
use crate::packet::MIN_INITIAL_DATAGRAM;
use crate::path::Addresses;
use crate::space::{PacketOrigin, SpaceId};

impl Connection {
    /// One datagram with CONNECTION_CLOSE for the next path that is due to get it.
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
