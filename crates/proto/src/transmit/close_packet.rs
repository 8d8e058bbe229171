//! The datagram with CONNECTION_CLOSE (RFC 9000 section 10.2): at every level whose keys the peer may
//! have; decides nothing about the connection's state.

use std::time::Instant;

use super::plan::PacketSpec;
use crate::PathId;
use crate::closing::CloseFrame;
use crate::connection::Connection;
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
            let Some(id) = self.paths.at(index).map(|path| path.id) else {
                continue;
            };
            let start = buf.len();
            transmit = self.close_datagram(now, id, &close, buf);
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

    fn close_datagram(
        &mut self,
        now: Instant,
        id: PathId,
        close: &CloseFrame,
        buf: &mut Vec<u8>,
    ) -> Option<Transmit> {
        let start = buf.len();
        let path = self.paths.get(id)?;
        //= specs/rfc9000.txt#section-10.2.1
        //# An endpoint in the closing state MUST either discard packets received from an
        //# unvalidated address or limit the cumulative size of packets it sends to an unvalidated
        //# address to three times the size of packets it receives from that address.
        let limit = usize::try_from(path.send_limit()).unwrap_or(usize::MAX);
        let end = start + MIN_INITIAL_DATAGRAM.min(limit);
        let spec = PacketSpec {
            end: Some(end),
            origin: PacketOrigin::Close,
            ..PacketSpec::unscheduled(path.index)
        };
        let keys = &self.handshake;
        let one_rtt =
            keys.one_rtt().is_some() && (keys.is_complete() || self.handshake.is_confirmed());
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
        let early = id == PathId::ZERO && !self.handshake.is_confirmed();
        let has_initial = early && keys.has_keys(SpaceId::Initial);
        if early {
            let ends_with_initial = !keys.has_keys(SpaceId::Handshake);
            for (space, last) in [
                (SpaceId::Initial, ends_with_initial),
                (SpaceId::Handshake, !one_rtt),
            ] {
                let pad_to = if last && has_initial { end } else { 0 };
                let spec = PacketSpec {
                    space,
                    pad_to,
                    ..spec
                };
                if let Some(packet) = self.open_packet(&spec, buf) {
                    let mut w = packet.writer(buf);
                    match close.write_early(&mut w) {
                        true => _ = self.seal_packet(now, &spec, &packet, w),
                        false => packet.discard(w),
                    }
                }
            }
        }
        if one_rtt {
            // RFC 9000 section 14.1: what follows an Initial packet expands its datagram.
            let pad_to = if has_initial { end } else { 0 };
            let spec = PacketSpec { pad_to, ..spec };
            if let Some(packet) = self.open_packet(&spec, buf) {
                let mut w = packet.writer(buf);
                match close.write(&mut w) {
                    true => _ = self.seal_packet(now, &spec, &packet, w),
                    false => packet.discard(w),
                }
            }
        }
        let size = buf.len() - start;
        if size == 0 {
            return None;
        }
        self.note_datagrams(id, Addresses::Current, None, size, None)
    }
}
