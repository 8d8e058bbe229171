//! Opens a packet: its header, and room for its frames.

use mpquic_sched_core::{ConnectionId, Side};

use super::plan::PacketSpec;
use crate::connection::Connection;
use crate::crypto::OneRttKeys;
use crate::frame::writer::FrameWriter;
use crate::handshake::Handshake;
use crate::packet::{
    LongHeaderMarks, PacketType, TAG_LEN, encode_long_header, encode_short_header, pn_len,
};
use crate::space::SpaceId;

/// A packet whose header is written and whose payload is being written.
pub(super) struct OpenPacket {
    /// Where the packet starts in the buffer.
    pub(super) start: usize,
    pub(super) payload: usize,
    pub(super) pn_offset: usize,
    pub(super) pn_len: usize,
    pub(super) long: Option<LongHeaderMarks>,
    pub(super) number: u64,
    /// Where the payload must end, tag not included.
    pub(super) end: usize,
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
