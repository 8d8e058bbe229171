//! A client's 0-RTT packets on a server (RFC 9000 section 17.2.3): found keys, decrypted, and only frames that may come
//! in them let through.

use std::time::Duration;

use mpquic_sched_core::ConnectionId;

use crate::connection::Connection;
use crate::crypto::open_long;
use crate::events::DatagramMeta;
use crate::frame::{Frame, FrameIter};
use crate::memory::MemoryFor;
use crate::packet::{PacketType, expand_pn, reserved_bits_are_zero, unprotect_header};
use crate::path::PathState;
use crate::space::{ReceivedPacket, SpaceId};
use crate::{NumberSpace, PacketReceived, PathId, TransportError};

impl Connection {
    /// A 0-RTT packet from the client.
    pub(super) fn on_zero_rtt_packet(
        &mut self,
        arrival: &DatagramMeta,
        dcid: &ConnectionId,
        scid: &ConnectionId,
        pn_offset: usize,
        bytes: &mut [u8],
    ) {
        let Some(keys) = self.handshake.early_data.keys() else {
            //= specs/rfc9001.txt#section-4.6.2
            //# When rejecting 0-RTT, a server MUST NOT process any 0-RTT packets, even if it could.
            //= specs/rfc9001.txt#section-5.7
            //# The server MAY retain these packets for later decryption in anticipation of
            //# receiving a ClientHello.
            if self.handshake.awaits_client_hello() && self.state.is_alive() {
                self.keep_undecryptable(arrival, SpaceId::Initial, PathId::ZERO, bytes);
            }
            return;
        };
        let Some(path) = self.paths.get(PathId::ZERO) else {
            return;
        };
        let Some((first, truncated, pn_len)) = unprotect_header(bytes, pn_offset, &*keys.header)
        else {
            return;
        };
        let number = expand_pn(truncated, pn_len, path.next_expected());
        let (header, payload) = bytes.split_at_mut(pn_offset + pn_len);
        let Some(len) = open_long(keys, number, header, payload) else {
            self.on_undecryptable(arrival.now, NumberSpace::Path(PathId::ZERO));
            return;
        };
        let payload = pn_offset + pn_len..pn_offset + pn_len + len;
        //= specs/rfc9000.txt#section-17.2
        //# An endpoint MUST treat receipt of a packet that has a non-zero value for these bits
        //# after removing both packet and header protection as a connection error of type
        //# PROTOCOL_VIOLATION.
        if !reserved_bits_are_zero(first) {
            return self.fail(
                arrival.now,
                TransportError::protocol_violation("reserved bits are set"),
            );
        }
        if !self.state.is_alive() {
            if self.state.is_closing() {
                self.closing_packet(arrival, PathId::ZERO, &bytes[payload]);
            }
            return;
        }
        // RFC 9000 section 7.2: all long headers of the handshake have the same Source Connection ID.
        let known_source = self.remote_scid == *scid;
        //= specs/rfc9000.txt#section-12.3
        //# A receiver MUST discard a newly unprotected packet unless it is certain that it has not
        //# processed another packet with the same packet number from the same packet number space.
        if (!known_source && !self.confirmed) || path.is_duplicate(number) {
            return;
        }
        // As with 1-RTT packets.
        let memory = self
            .data
            .streams_mut()
            .memory_for(arrival.now, payload.len() as u64);
        if memory != MemoryFor::All
            && self
                .data
                .streams()
                .lacks_memory_for(memory, &bytes[payload.clone()])
        {
            self.totals.refused_packets += 1;
            return;
        }
        self.on_authenticated(arrival.now, || PacketReceived {
            now: arrival.now,
            space: NumberSpace::Path(PathId::ZERO),
            number,
            early: true,
            header: payload.start,
            payload: &bytes[payload.clone()],
        });
        if let Err(error) = self.on_zero_rtt_payload(arrival, dcid, number, &bytes[payload]) {
            self.fail(arrival.now, error);
        }
    }

    fn on_zero_rtt_payload(
        &mut self,
        arrival: &DatagramMeta,
        dcid: &ConnectionId,
        number: u64,
        payload: &[u8],
    ) -> Result<(), TransportError> {
        let mut ack_eliciting = false;
        let mut any = false;
        let mut frames = FrameIter::new(payload);
        while let Some(frame) = frames.next() {
            let frame = frame?;
            any = true;
            let frame_type = frames.last_type();
            //= specs/rfc9000.txt#section-12.5
            //# A server MAY treat receipt of these frames in 0-RTT packets as a connection error of
            //# type PROTOCOL_VIOLATION.
            //= specs/rfc10069-draft.md#frames
            //# If an endpoint receives a multipath-specific frame in a different packet type, it
            //# MUST close the connection with an error of type PROTOCOL_VIOLATION.
            if !frame.allowed_in(PacketType::ZeroRtt) {
                return Err(super::dispatch::not_allowed().in_frame(frame_type));
            }
            ack_eliciting |= frame.is_ack_eliciting();
            let early = match &frame {
                Frame::Stream(stream) => Some(stream.id),
                Frame::ResetStream(reset) => Some(reset.id),
                _ => None,
            };
            self.on_frame(arrival, PathId::ZERO, dcid, frame)
                .map_err(|error| error.in_frame(frame_type))?;
            if !self.state.is_alive() {
                return Ok(());
            }
            if let Some(id) = early {
                self.data.streams_mut().mark_early(id);
            }
        }
        if !any {
            return Err(super::dispatch::empty());
        }
        //= specs/rfc9000.txt#section-13.2.6
        //# Packets that a client sends with 0-RTT packet protection MUST be acknowledged by the
        //# server in packets protected by 1-RTT keys.
        let received = ReceivedPacket {
            now: arrival.now,
            received: arrival.received,
            pn: number,
            ack_eliciting,
            ecn: arrival.ecn,
            policy: self.paths.ack_frequency().policy(),
            //= specs/rfc9000.txt#section-13.2.1
            //# An endpoint MUST acknowledge all ack-eliciting Initial and Handshake packets
            //# immediately and all ack-eliciting 0-RTT and 1-RTT packets within its advertised
            //# max_ack_delay, with the following exception.
            immediate: false,
        };
        match self.paths.state(PathId::ZERO) {
            PathState::Open(path) => path.on_packet_received(&received),
            PathState::Abandoned(Some(retired)) => {
                retired.space.on_received(&received);
            }
            PathState::Abandoned(None) | PathState::NeverOpened(_) => {}
        }
        Ok(())
    }

    /// A 1-RTT packet came: soon nothing can come with 0-RTT keys any more.
    #[cold]
    pub(super) fn schedule_early_key_discard(&mut self, now: std::time::Instant) {
        let wait: Duration = 3 * self.paths.largest_pto();
        self.handshake.early_data.discard_at(now + wait);
    }
}
