//! One packet as a straight line: what it is to be, its header and room for its frames, padding and protection.

use std::time::Instant;

use mpquic_sched_core::{ConnectionId, EcnCodepoint, PathIndex};
use mpquic_wire::crypto::{OneRttKeys, seal_long};
use mpquic_wire::packet::{
    LongHeaderMarks, TAG_LEN, encode_long_header, encode_short_header, pn_len,
};

use crate::frame_writer::{FrameWriter, Resent};
use crate::handshake::Handshake;
use crate::observe::ObserverHooks;
use crate::path::{Addresses, Paths};
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

    /// Writes the packet's header. `None`, and an unchanged buffer, if there can be no such packet now.
    pub(super) fn open(
        &self,
        handshake: &Handshake,
        paths: &mut Paths,
        buf: &mut Vec<u8>,
    ) -> Option<OpenPacket> {
        let id = paths.at(self.path)?.id;
        //= specs/rfc10069-draft.md#path-initiation
        //# An endpoint MUST use a connection ID associated to the same path ID as used in the
        //# packet received by the endpoint when it intends to send packets on the same path.
        let dcid = paths.remote_cid(id, self.to)?;
        let path = paths.at(self.path)?;
        match self.space {
            SpaceId::Data => {
                let phase = handshake.one_rtt().map(OneRttKeys::phase);
                let (number, acked) = path.next_number()?;
                let end = match self.end {
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
                let limit = path.network(self.to)?.send_limit();
                let limit = usize::try_from(limit).unwrap_or(usize::MAX);
                //= specs/rfc9000.txt#section-8.2.2
                //# However, an endpoint MUST NOT expand the datagram containing the PATH_RESPONSE
                //# if the resulting data exceeds the anti-amplification limit.
                let end = end.min(buf.len().saturating_add(limit));
                //= specs/rfc9000.txt#section-17.2.3
                //# A client MUST NOT send 0-RTT packets once it starts processing 1-RTT packets
                //# from the server.
                match phase {
                    Some(phase) => open_short(buf, &dcid, phase, number, acked, end, self.block),
                    None => {
                        let space = SpaceId::Data;
                        open_long(handshake, space, &dcid, buf, (number, acked), end)
                    }
                }
            }
            space_id => {
                let space = handshake.space(space_id)?;
                let numbers = (space.next_pn()?, space.largest_acked);
                open_long(handshake, space_id, &dcid, buf, numbers, self.end?)
            }
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
    pub(super) number: u64,
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

    /// Pads and encrypts the packet, whose frames are written, and says what leaves. `id`: of the path that carries it.
    ///
    /// # Errors
    ///
    /// If it cannot be encrypted: nothing can be sent any more. The buffer is as it was.
    #[inline]
    pub(super) fn seal(
        &self,
        now: Instant,
        spec: &PacketSpec,
        id: PathId,
        handshake: &mut Handshake,
        paths: &Paths,
        watch: &mut ObserverHooks,
        w: FrameWriter<'_>,
    ) -> Result<(SentPacket, Resent), TransportError> {
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
        sent.in_flight |= self.pad(buf, spec.pad_to);
        //= specs/rfc9000.txt#section-12.4
        //# The payload of a packet that contains frames MUST contain at least one frame, and MAY
        //# contain multiple frames and multiple frame types.
        debug_assert!(buf.len() > self.payload, "a packet without frames");
        if watch.wants_packets() {
            // Before it is protected: whoever looks may want to see the frames.
            watch.on_packet_sent(&PacketSent {
                now,
                space: NumberSpace::on_path(spec.space, id),
                number: self.number,
                size: (buf.len() - self.start + TAG_LEN) as u16,
                early: spec.space == SpaceId::Data && self.long.is_some(),
                ack_eliciting,
                retransmission: resent.any,
                mtu_probe: spec.origin == PacketOrigin::MtuProbe,
                decision: spec.origin.decision(),
                payload: &buf[self.payload..],
            });
        }
        if let Some(first) = buf.get_mut(self.start) {
            handshake.draw_quic_bit(first);
        }
        if let Err(error) = self.protect(handshake, spec.space, paths.nonce_path(id), buf) {
            buf.truncate(self.start);
            return Err(error);
        }
        sent.size = (buf.len() - self.start) as u16;
        Ok((sent, resent))
    }

    /// Encrypts it and protects its header.
    fn protect(
        &self,
        handshake: &mut Handshake,
        space: SpaceId,
        nonce_path: Option<PathId>,
        buf: &mut Vec<u8>,
    ) -> Result<(), TransportError> {
        let Some(marks) = &self.long else {
            let keys = handshake.one_rtt_mut().ok_or_else(no_keys)?;
            let (pn_offset, pn_len) = (self.pn_offset, self.pn_len);
            return keys.seal_packet(buf, self.start, pn_offset, pn_len, nonce_path, self.number);
        };
        let keys = handshake.local_keys(space).ok_or_else(no_keys)?;
        seal_long(keys, buf, marks, self.number)
    }

    /// Pads the payload; whether anything was added.
    #[inline]
    fn pad(&self, buf: &mut Vec<u8>, pad_to: usize) -> bool {
        // RFC 9001 section 5.4.2: packet number and payload together have at least 4 bytes.
        let least = self.payload + 4 - self.pn_len.min(4);
        let target = least.max(pad_to.saturating_sub(TAG_LEN)).min(self.end);
        let short = buf.len() < target;
        if short {
            append_padding(buf, target);
        }
        short
    }

    /// There is nothing to be written: the buffer is as it was.
    #[inline]
    pub(super) fn discard(&self, w: FrameWriter<'_>) {
        w.buf.truncate(self.start);
    }
}

/// Starts a packet with a long header.
fn open_long(
    handshake: &Handshake,
    space: SpaceId,
    dcid: &ConnectionId,
    buf: &mut Vec<u8>,
    (number, largest_acked): (u64, Option<u64>),
    end: usize,
) -> Option<OpenPacket> {
    let ty = handshake.long_type(space)?;
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
