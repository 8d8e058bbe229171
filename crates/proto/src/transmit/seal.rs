//! Seals a packet: padding and protection. Then it is noted as sent.

use std::time::Instant;

use super::open::OpenPacket;
use super::plan::PacketSpec;
use crate::connection::Connection;
use crate::crypto::seal_long;
use crate::frame::writer::FrameWriter;
use crate::handshake::Handshake;
use crate::ids::Transmit;
use crate::packet::TAG_LEN;
use crate::path::Addresses;
use crate::space::{PacketOrigin, SentPacket, SpaceId};
use crate::{NumberSpace, PacketSent, PathId, TransportError};

/// A packet that leaves.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sealed {
    pub(super) number: u64,
    pub(super) size: usize,
}

impl Connection {
    /// Pads, encrypts and notes a packet whose frames are written; its number and size. `None`, and the connection is over, if it
    /// cannot be encrypted.
    pub(super) fn seal_packet(
        &mut self,
        now: Instant,
        spec: &PacketSpec,
        packet: &OpenPacket,
        w: FrameWriter<'_>,
    ) -> Option<Sealed> {
        let id = self.paths.at(spec.path)?.id;
        let (ack_eliciting, resent) = (w.is_ack_eliciting(), w.resent());
        let mut sent = SentPacket {
            time_sent: now,
            size: 0,
            ack_eliciting,
            in_flight: ack_eliciting,
            ecn_marked: spec.ecn.is_some(),
            mtu_probe: spec.origin == PacketOrigin::MtuProbe,
            path_probe: spec.origin == PacketOrigin::PathProbe,
            elsewhere: spec.to == Addresses::Previous,
            decision: spec.origin.decision(),
            delivery: None,
            frames: w.frames,
        };
        let buf = w.buf;
        // RFC 9002 section 2: ack-eliciting or padded.
        sent.in_flight |= pad(packet, buf, spec.pad_to);
        if self.watch.wants_packets() {
            // Before it is protected: whoever looks may want to see the frames.
            self.watch.on_packet_sent(&PacketSent {
                now,
                space: NumberSpace::on_path(spec.space, id),
                number: packet.number,
                size: (buf.len() - packet.start + TAG_LEN) as u16,
                early: spec.space == SpaceId::Data && packet.long.is_some(),
                ack_eliciting,
                retransmission: resent.any,
                mtu_probe: spec.origin == PacketOrigin::MtuProbe,
                decision: spec.origin.decision(),
                payload: &buf[packet.payload..],
            });
        }
        if let Some(first) = buf.get_mut(packet.start) {
            self.handshake.draw_quic_bit(first);
        }
        let nonce_path = self.paths.nonce_path(id);
        if let Err(error) = protect(&mut self.handshake, spec.space, nonce_path, packet, buf) {
            // Nothing can be sent any more.
            buf.truncate(packet.start);
            self.fail(now, error);
            return None;
        }
        sent.size = (buf.len() - packet.start) as u16;
        let sealed = Sealed {
            number: packet.number,
            size: buf.len() - packet.start,
        };
        self.note_packet(now, spec, sent, resent);
        Some(sealed)
    }

    /// Seals a packet that is a datagram of its own, and hands it out.
    pub(super) fn seal_datagram(
        &mut self,
        now: Instant,
        spec: &PacketSpec,
        packet: &OpenPacket,
        w: FrameWriter<'_>,
    ) -> Option<Transmit> {
        let size = self.seal_packet(now, spec, packet, w)?.size;
        let id = self.paths.at(spec.path)?.id;
        self.note_datagrams(id, spec.to, spec.ecn, size, None)
    }
}

/// Encrypts a packet and protects its header.
fn protect(
    handshake: &mut Handshake,
    space: SpaceId,
    nonce_path: Option<PathId>,
    packet: &OpenPacket,
    buf: &mut Vec<u8>,
) -> Result<(), TransportError> {
    let Some(marks) = &packet.long else {
        let Some(keys) = handshake.one_rtt_mut() else {
            return Err(no_keys());
        };
        return keys.seal_packet(
            buf,
            packet.start,
            packet.pn_offset,
            packet.pn_len,
            nonce_path,
            packet.number,
        );
    };
    match handshake.local_keys(space) {
        Some(keys) => seal_long(keys, buf, marks, packet.number),
        None => Err(no_keys()),
    }
}

/// Pads the payload; whether anything was added.
#[inline]
fn pad(packet: &OpenPacket, buf: &mut Vec<u8>, pad_to: usize) -> bool {
    // RFC 9001 section 5.4.2: packet number and payload together have at least 4 bytes.
    let least = packet.payload + 4 - packet.pn_len.min(4);
    let target = least.max(pad_to.saturating_sub(TAG_LEN)).min(packet.end);
    let short = buf.len() < target;
    if short {
        append_padding(buf, target);
    }
    short
}

/// Most packets are full.
#[cold]
#[inline(never)]
fn append_padding(buf: &mut Vec<u8>, len: usize) {
    buf.resize(len, 0);
}

#[cold]
fn no_keys() -> TransportError {
    TransportError::internal("no keys for this packet")
}
