//! Builds one packet in the caller's buffer: header, room for frames, padding, protection; does not
//! choose what goes in.

use crate::crypto::{Keys, OneRttKeys, seal_long};
use crate::frame::writer::{FrameWriter, Resent};
use crate::packet::{
    LongHeaderMarks, PacketType, TAG_LEN, encode_long_header, encode_short_header, pn_len,
};
use crate::space::SentFrames;
use crate::{PathId, TransportError};
use mpquic_sched_core::ConnectionId;

/// A packet whose header is written and whose payload is being written.
pub(crate) struct PacketBuilder {
    /// Where the packet starts in the buffer.
    start: usize,
    payload: usize,
    pn_offset: usize,
    pn_len: usize,
    long: Option<LongHeaderMarks>,
    pub(crate) number: u64,
    /// Where the payload must end, tag not included.
    end: usize,
}

/// What was built.
pub(crate) struct Built {
    pub(crate) number: u64,
    pub(crate) size: u16,
    pub(crate) frames: SentFrames,
    pub(crate) ack_eliciting: bool,
    pub(crate) resent: Resent,
    /// Whether the packet counts against the congestion window: ack-eliciting or padded
    /// (RFC 9002 section 2).
    pub(crate) in_flight: bool,
}

/// The keys for one packet.
pub(crate) enum SealKeys<'a> {
    Long(&'a Keys),
    OneRtt(&'a mut OneRttKeys, Option<PathId>),
}

impl PacketBuilder {
    /// Starts a long header packet that may fill the datagram up to index `datagram_end`.
    /// `token` is for Initial packets. `None` if not even the smallest packet fits.
    pub(crate) fn long(
        buf: &mut Vec<u8>,
        ty: PacketType,
        version: u32,
        dcid: &ConnectionId,
        scid: &ConnectionId,
        token: &[u8],
        number: u64,
        largest_acked: Option<u64>,
        datagram_end: usize,
    ) -> Option<Self> {
        let start = buf.len();
        let pn_len = pn_len(number, largest_acked);
        let marks = encode_long_header(buf, ty, version, dcid, scid, token, number, pn_len);
        let pn_offset = marks.pn_offset;
        Self::finish_header(
            buf,
            start,
            pn_offset,
            pn_len,
            Some(marks),
            number,
            datagram_end,
        )
    }

    /// Starts a short header packet.
    pub(crate) fn short(
        buf: &mut Vec<u8>,
        dcid: &ConnectionId,
        key_phase: bool,
        number: u64,
        largest_acked: Option<u64>,
        datagram_end: usize,
    ) -> Option<Self> {
        let start = buf.len();
        let pn_len = pn_len(number, largest_acked);
        let pn_offset = encode_short_header(buf, dcid, key_phase, number, pn_len);
        Self::finish_header(buf, start, pn_offset, pn_len, None, number, datagram_end)
    }

    fn finish_header(
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

    /// The writer of this packet's frames.
    pub(crate) fn writer<'b>(&self, buf: &'b mut Vec<u8>) -> FrameWriter<'b> {
        FrameWriter::new(buf, self.end)
    }

    /// Takes the packet back.
    pub(crate) fn abort(self, buf: &mut Vec<u8>) {
        buf.truncate(self.start);
    }

    /// Pads to `pad_to` (an index into `buf`, tag included; 0 for none), encrypts, protects the
    /// header.
    pub(crate) fn finish(
        self,
        buf: &mut Vec<u8>,
        written: Written,
        pad_to: usize,
        keys: SealKeys<'_>,
    ) -> Result<Built, TransportError> {
        // RFC 9001 section 5.4.2: packet number and payload together have at least 4 bytes.
        let least = self.payload + 4 - self.pn_len.min(4);
        let target = least.max(pad_to.saturating_sub(TAG_LEN)).min(self.end);
        let padded = buf.len() < target;
        if padded {
            buf.resize(target, 0);
        }
        match (keys, &self.long) {
            (SealKeys::Long(keys), Some(marks)) => {
                seal_long(&keys.local, buf, marks, self.number)?;
            }
            (SealKeys::OneRtt(keys, path), None) => {
                let (start, pn_offset, pn_len) = (self.start, self.pn_offset, self.pn_len);
                keys.seal_packet(buf, start, pn_offset, pn_len, path, self.number)?;
            }
            _ => return Err(TransportError::internal("keys of another packet type")),
        }
        Ok(Built {
            number: self.number,
            size: (buf.len() - self.start) as u16,
            in_flight: written.ack_eliciting || padded,
            frames: written.frames,
            ack_eliciting: written.ack_eliciting,
            resent: written.resent,
        })
    }
}

/// What a [`FrameWriter`] leaves behind.
pub(crate) struct Written {
    pub(crate) frames: SentFrames,
    pub(crate) ack_eliciting: bool,
    pub(crate) resent: Resent,
}

impl From<FrameWriter<'_>> for Written {
    fn from(w: FrameWriter<'_>) -> Self {
        Self {
            ack_eliciting: w.is_ack_eliciting(),
            resent: w.resent(),
            frames: w.frames,
        }
    }
}
