//! Makes one packet: header, the frames of whoever asks for it, padding, protection; then everybody concerned learns
//! that it leaves. It does not choose what goes in.

use std::time::Instant;

use mpquic_sched_core::{ConnectionId, EcnCodepoint, PathIndex, Sent, Side};

use crate::connection::Connection;
use crate::crypto::{OneRttKeys, seal_long};
use crate::frame::writer::{FrameWriter, Resent};
use crate::ids::Transmit;
use crate::packet::{
    LongHeaderMarks, PacketType, TAG_LEN, encode_long_header, encode_short_header, pn_len,
};
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
struct OpenPacket {
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

    /// Pads the payload; whether anything was added.
    #[inline]
    fn pad(&self, buf: &mut Vec<u8>, pad_to: usize) -> bool {
        // RFC 9001 section 5.4.2: packet number and payload together have at least 4 bytes.
        let least = self.payload + 4 - self.pn_len.min(4);
        let target = least.max(pad_to.saturating_sub(TAG_LEN)).min(self.end);
        let short = buf.len() < target;
        if short {
            zero_to(buf, target);
        }
        short
    }
}

impl Connection {
    /// Makes a packet in the buffer; its frames are what `write` writes. `None`, and an unchanged buffer, if it cannot be
    /// made or `write` wants none of it (false).
    pub(super) fn send_packet(
        &mut self,
        now: Instant,
        spec: &PacketSpec,
        buf: &mut Vec<u8>,
        write: impl FnOnce(&mut Self, &mut FrameWriter<'_>) -> bool,
    ) -> Option<u64> {
        let path = self.paths.at(spec.path)?;
        let id = path.id;
        //= specs/rfc10069-draft.md#path-initiation
        //# An endpoint MUST use a connection ID associated to the same path ID as used in the
        //# packet received by the endpoint when it intends to send packets on the same path.
        let dcid = match spec.to {
            Addresses::Current => self.paths.remote_cids().active(id)?,
            Addresses::Previous => self.paths.remote_cids_mut().for_other(id)?,
        };
        let path = self.paths.at(spec.path)?;
        let opened = match spec.space {
            SpaceId::Data => {
                let phase = self.handshake.one_rtt.as_ref().map(OneRttKeys::phase);
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
                    Some(phase) => start_short(buf, &dcid, phase, number, acked, end, spec.block),
                    None => self.start_zero_rtt(&dcid, buf, number, acked, end),
                }
            }
            space_id => self.start_long(space_id, &dcid, buf, spec.end?),
        };
        let packet = opened.as_ref()?;
        let mut w = FrameWriter::new(buf, packet.end);
        if !write(self, &mut w) {
            buf.truncate(packet.start);
            return None;
        }
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
        // RFC 9002 section 2: ack-eliciting or padded.
        sent.in_flight |= packet.pad(buf, spec.pad_to);
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
        if let Err(error) = self.protect(spec.space, id, packet, buf) {
            // Nothing can be sent any more.
            self.fail(now, error);
            return None;
        }
        sent.size = (buf.len() - packet.start) as u16;
        self.on_packet_sent(now, spec, sent, resent);
        Some(packet.number)
    }

    /// Starts a packet of the Initial or Handshake space.
    fn start_long(
        &self,
        space_id: SpaceId,
        dcid: &ConnectionId,
        buf: &mut Vec<u8>,
        end: usize,
    ) -> Option<OpenPacket> {
        let ty = match space_id {
            SpaceId::Initial => PacketType::Initial,
            _ => PacketType::Handshake,
        };
        let space = self.spaces.get(space_id)?;
        let number = space.next_pn()?;
        let pn_len = pn_len(number, space.largest_acked);
        let token = &self.initial_token;
        let scid = &self.handshake_scid;
        let start = buf.len();
        let marks = encode_long_header(buf, ty, self.version, dcid, scid, token, number, pn_len);
        let pn_offset = marks.pn_offset;
        OpenPacket::new(buf, start, pn_offset, pn_len, Some(marks), number, end)
    }

    /// Starts a 0-RTT packet.
    fn start_zero_rtt(
        &self,
        dcid: &ConnectionId,
        buf: &mut Vec<u8>,
        number: u64,
        largest_acked: Option<u64>,
        end: usize,
    ) -> Option<OpenPacket> {
        if self.side != Side::Client {
            //= specs/rfc9001.txt#section-5.6
            //# A server MUST NOT use 0-RTT keys to protect packets; it uses 1-RTT keys to protect
            //# acknowledgments of 0-RTT packets.
            return None;
        }
        self.handshake.early_data.keys()?;
        let (ty, scid) = (PacketType::ZeroRtt, &self.handshake_scid);
        let pn_len = pn_len(number, largest_acked);
        let start = buf.len();
        let marks = encode_long_header(buf, ty, self.version, dcid, scid, &[], number, pn_len);
        let pn_offset = marks.pn_offset;
        OpenPacket::new(buf, start, pn_offset, pn_len, Some(marks), number, end)
    }

    /// Encrypts a packet and protects its header.
    fn protect(
        &mut self,
        space: SpaceId,
        id: PathId,
        packet: &OpenPacket,
        buf: &mut Vec<u8>,
    ) -> Result<(), TransportError> {
        if let Some(first) = buf.get_mut(packet.start) {
            self.quic_bit.apply(first);
        }
        let Some(marks) = &packet.long else {
            let nonce_path = self.paths.nonce_path(id);
            let Some(keys) = &mut self.handshake.one_rtt else {
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
        let keys = match space {
            SpaceId::Initial => self.handshake.initial.as_ref().map(|keys| &keys.local),
            SpaceId::Handshake => self.handshake.handshake.as_ref().map(|keys| &keys.local),
            SpaceId::Data => self.handshake.early_data.keys(),
        };
        match keys {
            Some(keys) => seal_long(keys, buf, marks, packet.number),
            None => Err(no_keys()),
        }
    }

    /// A packet leaves: the path and the scheduler learn of it.
    fn on_packet_sent(
        &mut self,
        now: Instant,
        spec: &PacketSpec,
        packet: SentPacket,
        resent: Resent,
    ) {
        let (decision, size) = (packet.decision, packet.size);
        let Some((path, controller)) = self.paths.with_controller(spec.path) else {
            return;
        };
        if spec.origin == PacketOrigin::Close {
            // Nobody acknowledges it, and nobody waits for it.
            match self.spaces.get_mut(spec.space) {
                Some(space) => {
                    space.numbers.take(&mut self.rng);
                }
                None => path.take_number(&mut self.rng),
            }
            return;
        }
        self.totals.sent_packets += 1;
        if packet.ack_eliciting && !self.eliciting_since_received {
            // RFC 9000 section 10.1: the first ack-eliciting packet after the last one received.
            self.eliciting_since_received = true;
            self.idle_since = now;
        }
        if spec.space != SpaceId::Data {
            path.on_handshake_packet_sent(now, &packet, controller);
            if let Some(space) = self.spaces.get_mut(spec.space) {
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
        if let Some(decision) = decision {
            // A packet is not larger than a UDP payload, so this saturates nothing.
            let new_bytes = u16::try_from(new_bytes).unwrap_or(u16::MAX);
            self.data.on_sent(&Sent::new(
                spec.path, now, size, decision, resent.any, new_bytes,
            ));
        }
    }

    /// Datagrams leave: the last `size` bytes of the buffer, for a path.
    pub(super) fn finish_transmit(
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

    /// Makes a packet that is a datagram of its own, and hands it out.
    pub(super) fn transmit_packet(
        &mut self,
        now: Instant,
        spec: &PacketSpec,
        buf: &mut Vec<u8>,
        write: impl FnOnce(&mut Self, &mut FrameWriter<'_>) -> bool,
    ) -> Option<Transmit> {
        let start = buf.len();
        self.send_packet(now, spec, buf, write)?;
        let id = self.paths.at(spec.path)?.id;
        self.finish_transmit(id, spec.to, spec.ecn, buf.len() - start, None)
    }
}

/// Most packets are full.
#[cold]
#[inline(never)]
fn zero_to(buf: &mut Vec<u8>, len: usize) {
    buf.resize(len, 0);
}

#[cold]
fn no_keys() -> TransportError {
    TransportError::internal("no keys for this packet")
}

/// Starts a 1-RTT packet; what is encrypted of it takes whole blocks of so many bytes at most.
fn start_short(
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
