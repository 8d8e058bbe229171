//! The datagram with CONNECTION_CLOSE (RFC 9000 section 10.2): at every level whose keys the peer may
//! have; decides nothing about the connection's state.

use std::time::Instant;

use mpquic_sched_core::TransportErrorCode;

use super::packet::PacketSpec;
use crate::connection::{CloseFrame, Connection};
use crate::frame::writer::FrameWriter;
use crate::ids::Transmit;
use crate::packet::MIN_INITIAL_DATAGRAM;
use crate::path::Addresses;
use crate::space::{PacketOrigin, SpaceId};
use crate::{ConnectionClose, PathId};

impl Connection {
    /// One datagram with CONNECTION_CLOSE for the next path that is due to get it.
    #[inline(never)]
    pub(super) fn transmit_close(&mut self, now: Instant, buf: &mut Vec<u8>) -> Option<Transmit> {
        let close = self.state.close_frame()?.clone();
        while let Some(index) = self.close_due.iter().next() {
            self.close_due.remove(index);
            let Some(id) = self.paths.at(index).map(|path| path.id) else {
                continue;
            };
            let start = buf.len();
            if let Some(transmit) = self.close_datagram(now, id, &close, buf) {
                self.close_sent = Some(now);
                if self.paths.open_count() == 1 {
                    self.last_close = buf[start..].into();
                }
                self.leave_unheard(now);
                return Some(transmit);
            }
        }
        self.leave_unheard(now);
        None
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
        let one_rtt = keys.one_rtt.is_some() && (keys.is_complete() || self.confirmed);
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
        let early = id == PathId::ZERO && !self.confirmed;
        let has_initial = early && keys.initial.is_some();
        if early {
            let ends_with_initial = keys.handshake.is_none();
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
                self.send_packet(now, &spec, buf, |_, w| write_early_close(w, close));
            }
        }
        if one_rtt {
            // RFC 9000 section 14.1: what follows an Initial packet expands its datagram.
            let pad_to = if has_initial { end } else { 0 };
            let spec = PacketSpec { pad_to, ..spec };
            self.send_packet(now, &spec, buf, |_, w| match close {
                CloseFrame::Transport(error) => write_transport_close(w, error),
                CloseFrame::Application(close) => {
                    let room = w.remaining();
                    close.encode(w.buf, room)
                }
            });
        }
        let size = buf.len() - start;
        if size == 0 {
            return None;
        }
        self.finish_transmit(id, Addresses::Current, None, size, None)
    }
}

/// RFC 9000 section 10.2.3: what the application said is not for unauthenticated eyes. False if it does not fit: the
/// amplification limit leaves no room.
fn write_early_close(w: &mut FrameWriter<'_>, close: &CloseFrame) -> bool {
    match close {
        CloseFrame::Transport(error) => write_transport_close(w, error),
        CloseFrame::Application(_) => {
            //= specs/rfc9000.txt#section-10.2.3
            //# A CONNECTION_CLOSE of type 0x1d MUST be replaced by a CONNECTION_CLOSE of type 0x1c
            //# when sending the frame in Initial or Handshake packets.
            //= specs/rfc9000.txt#section-10.2.3
            //# Endpoints MUST clear the value of the Reason Phrase field and SHOULD use the
            //# APPLICATION_ERROR code when converting to a CONNECTION_CLOSE of type 0x1c.
            let error = crate::TransportError::new(TransportErrorCode::APPLICATION_ERROR, "");
            write_transport_close(w, &error)
        }
    }
}

fn write_transport_close(w: &mut FrameWriter<'_>, error: &crate::TransportError) -> bool {
    let close = ConnectionClose {
        error_code: error.code,
        frame_type: error.frame.unwrap_or(0),
        reason: bytes::Bytes::copy_from_slice(error.reason.as_bytes()),
    };
    let room = w.remaining();
    close.encode(w.buf, room)
}
