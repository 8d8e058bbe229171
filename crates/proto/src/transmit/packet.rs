//! One packet as a straight line: what it is to be, its header and room for its frames, padding and protection, and who
//! learns that it leaves.

use std::time::Instant;

use mpquic_sched_core::{ConnectionId, EcnCodepoint, PathIndex, Sent, Side};
use mpquic_wire::crypto::{OneRttKeys, seal_long};
use mpquic_wire::packet::{
    LongHeaderMarks, PacketType, TAG_LEN, encode_long_header, encode_short_header, pn_len,
};

use crate::connection::Connection;
use crate::frame_writer::{FrameWriter, Resent};
use crate::handshake::Handshake;
use crate::ids::Transmit;
use crate::path::Addresses;
use crate::space::{PacketOrigin, SentPacket, SpaceId};
use crate::{NumberSpace, PacketSent, PathId, TransportError};

/// What a packet is to be, beside its frames.
#[derive(Debug, Clone, Copy)]
pub(super) struct PacketSpec {
    /// The path that carries it.
    pub(super) path: PathIndex,
    /// Which of the path's addresses it goes to.
    pub(super) to: Addresses,
    pub(super) space: SpaceId,
    /// Where the datagram must end: an index into the buffer. `None`: as large as the path takes.
    pub(super) end: Option<usize>,
    /// Rounds the maximum payload down to a multiple of this many bytes: see `EndpointConfig::cipher_block`.
    pub(super) block: u16,
    /// Where it must end at least: an index into the buffer, tag included; 0 for no padding.
    pub(super) pad_to: usize,
    /// The mark of its datagram's IP header.
    pub(super) ecn: Option<EcnCodepoint>,
    pub(super) origin: PacketOrigin,
}

impl PacketSpec {
    /// A 1-RTT packet that a path sends by itself, as large as the path takes.
    pub(super) const fn unscheduled(path: PathIndex) -> Self {
        Self {
            path,
            to: Addresses::Current,
            space: SpaceId::Data,
            end: None,
            block: 1,
            pad_to: 0,
            ecn: None,
            origin: PacketOrigin::Unscheduled,
        }
    }
}

/// A packet whose header is written and whose payload is being written.
pub(super) struct OpenPacket {
    /// Where the packet starts in the buffer.
    start: usize,
    payload: usize,
    pn_offset: usize,
    pn_len: usize,
    long: Option<LongHeaderMarks>,
    number: u64,
    /// Where the payload must end, tag not included.
    end: usize,
}

impl OpenPacket {
    /// The header is written; `None` if not even the smallest packet fits.
    fn new(
        buf: &mut Vec<u8>,
        start: usize,
        pn_offset: usize,
        pn_len: usize,
        long: Option<LongHeaderMarks>,
        number: u64,
        datagram_end: usize,
    ) -> Option<Self> {
        let payload = buf.len();
        let end = datagram_end.saturating_sub(TAG_LEN);
        // The smallest payload that header protection can sample (RFC 9001 section 5.4.2).
        if payload + 4 > end {
            buf.truncate(start);
            return None;
        }
        Some(Self {
            start,
            payload,
            pn_offset,
            pn_len,
            long,
            number,
            end,
        })
    }

    /// Writes the frames.
    #[inline]
    pub(super) fn writer<'a>(&self, buf: &'a mut Vec<u8>) -> FrameWriter<'a> {
        FrameWriter::new(buf, self.end)
    }

    /// There is nothing to be written: the buffer is as it was.
    #[inline]
    pub(super) fn discard(&self, w: FrameWriter<'_>) {
        w.buf.truncate(self.start);
    }
}

/// A packet that leaves.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sealed {
    pub(super) number: u64,
    pub(super) size: usize,
}

impl Connection {
    /// Writes a packet's header. `None`, and an unchanged buffer, if there can be no such packet now.
    pub(super) fn open_packet(
        &mut self,
        spec: &PacketSpec,
        buf: &mut Vec<u8>,
    ) -> Option<OpenPacket> {
        let path = self.paths.at(spec.path)?;
        let id = path.id;
        //= specs/rfc10069-draft.md#path-initiation
        //# An endpoint MUST use a connection ID associated to the same path ID as used in the
        //# packet received by the endpoint when it intends to send packets on the same path.
        let dcid = self.paths.remote_cid(id, spec.to)?;
        let path = self.paths.at(spec.path)?;
        match spec.space {
            SpaceId::Data => {
                let phase = self.handshake.one_rtt().map(OneRttKeys::phase);
                let (number, acked) = path.next_number()?;
                let end = match spec.end {
                    Some(end) => end,
                    //= specs/rfc9000.txt#section-14.2
                    //# All QUIC packets that are not sent in a PMTU probe SHOULD be sized to fit
                    //# within the maximum datagram size to avoid the datagram being fragmented or
                    //# dropped [RFC8085].
                    //= specs/rfc8899.txt#section-3
                    //# A PL MUST NOT send a datagram (other than a probe packet) with a size at the
                    //# PL that is larger than the current PLPMTU.
                    None => buf.len() + usize::from(path.mtu()),
                };
                let limit = path.network(spec.to)?.send_limit();
                let limit = usize::try_from(limit).unwrap_or(usize::MAX);
                //= specs/rfc9000.txt#section-8.2.2
                //# However, an endpoint MUST NOT expand the datagram containing the PATH_RESPONSE
                //# if the resulting data exceeds the anti-amplification limit.
                let end = end.min(buf.len().saturating_add(limit));
                //= specs/rfc9000.txt#section-17.2.3
                //# A client MUST NOT send 0-RTT packets once it starts processing 1-RTT packets
                //# from the server.
                match phase {
                    Some(phase) => open_short(buf, &dcid, phase, number, acked, end, spec.block),
                    None => {
                        let space = SpaceId::Data;
                        open_long(
                            &self.handshake,
                            self.side,
                            space,
                            &dcid,
                            buf,
                            (number, acked),
                            end,
                        )
                    }
                }
            }
            space_id => {
                let space = self.handshake.space(space_id)?;
                let numbers = (space.next_pn()?, space.largest_acked);
                open_long(
                    &self.handshake,
                    self.side,
                    space_id,
                    &dcid,
                    buf,
                    numbers,
                    spec.end?,
                )
            }
        }
    }

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

    /// A packet leaves: the path and the scheduler learn of it.
    fn note_packet(&mut self, now: Instant, spec: &PacketSpec, packet: SentPacket, resent: Resent) {
        let (decision, size) = (packet.decision, packet.size);
        let Some((path, controller)) = self.paths.with_controller(spec.path) else {
            return;
        };
        if spec.origin == PacketOrigin::Close {
            // Nobody acknowledges it, and nobody waits for it.
            match self.handshake.space_mut(spec.space) {
                Some(space) => {
                    space.numbers.take(&mut self.rng);
                }
                None => path.take_number(&mut self.rng),
            }
            return;
        }
        self.totals.sent_packets += 1;
        if packet.ack_eliciting {
            self.idle.on_eliciting_sent(now);
        }
        if spec.space != SpaceId::Data {
            path.on_handshake_packet_sent(now, &packet, controller);
            if let Some(space) = self.handshake.space_mut(spec.space) {
                space.on_sent(packet, &mut self.rng);
            }
            return;
        }
        let origin = spec.origin;
        let new_bytes = path.on_packet_sent(now, packet, resent, origin, controller, &mut self.rng);
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
    }

    /// Datagrams leave: the last `size` bytes of the buffer, for a path.
    pub(super) fn note_datagrams(
        &mut self,
        id: PathId,
        to: Addresses,
        ecn: Option<EcnCodepoint>,
        size: usize,
        segment_size: Option<usize>,
    ) -> Option<Transmit> {
        let datagrams = segment_size.map_or(1, |segment| size.div_ceil(segment)) as u64;
        self.totals.sent_datagrams += datagrams;
        self.totals.sent_bytes += size as u64;
        let path = self.paths.get_mut(id)?;
        Some(Transmit {
            network_path: path.on_datagrams_sent(to, datagrams, size)?,
            ecn,
            size,
            segment_size,
        })
    }
}

/// Starts a packet with a long header.
fn open_long(
    handshake: &Handshake,
    side: Side,
    space: SpaceId,
    dcid: &ConnectionId,
    buf: &mut Vec<u8>,
    (number, largest_acked): (u64, Option<u64>),
    end: usize,
) -> Option<OpenPacket> {
    let ty = match space {
        SpaceId::Initial => PacketType::Initial,
        SpaceId::Handshake => PacketType::Handshake,
        SpaceId::Data => {
            if side != Side::Client {
                //= specs/rfc9001.txt#section-5.6
                //# A server MUST NOT use 0-RTT keys to protect packets; it uses 1-RTT keys to
                //# protect acknowledgments of 0-RTT packets.
                return None;
            }
            handshake.early_data().keys()?;
            PacketType::ZeroRtt
        }
    };
    let (token, scid) = (handshake.initial_token(), &handshake.scid());
    let version = handshake.version();
    let pn_len = pn_len(number, largest_acked);
    let start = buf.len();
    let marks = encode_long_header(buf, ty, version, dcid, scid, token, number, pn_len);
    let pn_offset = marks.pn_offset;
    OpenPacket::new(buf, start, pn_offset, pn_len, Some(marks), number, end)
}

/// Starts a 1-RTT packet; what is encrypted of it takes whole blocks of so many bytes at most.
fn open_short(
    buf: &mut Vec<u8>,
    dcid: &ConnectionId,
    key_phase: bool,
    number: u64,
    largest_acked: Option<u64>,
    end: usize,
    block: u16,
) -> Option<OpenPacket> {
    let start = buf.len();
    let pn_len = pn_len(number, largest_acked);
    let pn_offset = encode_short_header(buf, dcid, key_phase, number, pn_len);
    let end = end_of_blocks(buf.len(), end, block);
    OpenPacket::new(buf, start, pn_offset, pn_len, None, number, end)
}

/// Where a datagram ends whose payload is whole blocks: before `end`, unless that leaves nothing of it.
fn end_of_blocks(payload: usize, end: usize, block: u16) -> usize {
    let room = end.saturating_sub(payload + TAG_LEN);
    let rest = room % usize::from(block);
    if rest < room { end - rest } else { end }
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
