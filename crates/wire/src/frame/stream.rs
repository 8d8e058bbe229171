//! Frames that carry or end a byte stream: STREAM, CRYPTO, RESET_STREAM, STOP_SENDING (RFC 9000 sections 19.4 to 19.8).

use mpquic_sched_core::{StreamId, VarInt};

use super::decode::{Malformed, stream_id, varint62};
use super::types;
use crate::packet::varint::{self, Reader};

/// STREAM (RFC 9000 section 19.8).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stream<'a> {
    /// The stream.
    pub id: StreamId,
    /// Offset of the first byte.
    pub offset: u64,
    /// Whether the stream ends here.
    pub fin: bool,
    /// The bytes.
    pub data: &'a [u8],
}

impl<'a> Stream<'a> {
    #[inline]
    pub(super) fn decode(ty: u64, r: &mut Reader<'a>) -> Result<Self, Malformed> {
        let id = stream_id(r.small_varint()?);
        let offset = if ty & types::STREAM_OFF != 0 {
            r.varint()?
        } else {
            0
        };
        let data = if ty & types::STREAM_LEN != 0 {
            r.varint_bytes()?
        } else {
            r.take_rest()
        };
        //= specs/rfc9000.txt#section-19.8
        //# Receipt of a frame that exceeds this limit MUST be treated as a connection error of type
        //# FRAME_ENCODING_ERROR or FLOW_CONTROL_ERROR.
        if offset + data.len() as u64 > varint::MAX {
            return Err(Malformed("stream data beyond 2^62-1"));
        }
        Ok(Self {
            id,
            offset,
            fin: ty & types::STREAM_FIN != 0,
            data,
        })
    }

    /// With an explicit length.
    pub fn encode(&self, buf: &mut Vec<u8>) {
        encode_stream_header(buf, self.id, self.offset, self.fin, Some(self.data.len()));
        buf.extend_from_slice(self.data);
    }

    /// Bytes that the frame takes.
    pub fn size(&self) -> usize {
        stream_header_size(self.id, self.offset, Some(self.data.len())) + self.data.len()
    }

    /// The frame type on the wire.
    pub const fn ty(&self) -> u64 {
        stream_type(self.offset, self.fin, true)
    }
}

#[inline]
const fn stream_type(offset: u64, fin: bool, len: bool) -> u64 {
    types::STREAM
        | if offset > 0 { types::STREAM_OFF } else { 0 }
        | if len { types::STREAM_LEN } else { 0 }
        | if fin { types::STREAM_FIN } else { 0 }
}

/// Appends a STREAM frame up to its data. Without `len`, the data reaches to the packet's end.
#[inline]
pub fn encode_stream_header(
    buf: &mut Vec<u8>,
    id: StreamId,
    offset: u64,
    fin: bool,
    len: Option<usize>,
) {
    buf.push(stream_type(offset, fin, len.is_some()) as u8);
    varint::put(buf, id.into());
    if offset > 0 {
        varint::put(buf, offset);
    }
    if let Some(len) = len {
        varint::put(buf, len as u64);
    }
}

/// Bytes that [`encode_stream_header`] appends.
#[inline]
pub fn stream_header_size(id: StreamId, offset: u64, len: Option<usize>) -> usize {
    1 + varint::size(id.into())
        + if offset > 0 { varint::size(offset) } else { 0 }
        + len.map_or(0, |len| varint::size(len as u64))
}

/// CRYPTO (RFC 9000 section 19.6).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Crypto<'a> {
    /// Offset of the first byte.
    pub offset: u64,
    /// The bytes.
    pub data: &'a [u8],
}

impl<'a> Crypto<'a> {
    pub(super) fn decode(r: &mut Reader<'a>) -> Result<Self, Malformed> {
        let offset = r.varint()?;
        let data = r.varint_bytes()?;
        //= specs/rfc9000.txt#section-19.6
        //# Receipt of a frame that exceeds this limit MUST be treated as a connection error of type
        //# FRAME_ENCODING_ERROR or CRYPTO_BUFFER_EXCEEDED.
        if offset + data.len() as u64 > varint::MAX {
            return Err(Malformed("crypto data beyond 2^62-1"));
        }
        Ok(Self { offset, data })
    }

    /// Appends the frame.
    pub fn encode(&self, buf: &mut Vec<u8>) {
        encode_crypto_header(buf, self.offset, self.data.len());
        buf.extend_from_slice(self.data);
    }

    /// Bytes that the frame takes.
    pub fn size(&self) -> usize {
        crypto_header_size(self.offset, self.data.len()) + self.data.len()
    }
}

/// Appends a CRYPTO frame up to its data.
pub fn encode_crypto_header(buf: &mut Vec<u8>, offset: u64, len: usize) {
    varint::put(buf, types::CRYPTO);
    varint::put(buf, offset);
    varint::put(buf, len as u64);
}

/// Bytes that [`encode_crypto_header`] appends.
pub const fn crypto_header_size(offset: u64, len: usize) -> usize {
    1 + varint::size(offset) + varint::size(len as u64)
}

/// RESET_STREAM (RFC 9000 section 19.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResetStream {
    /// The stream.
    pub id: StreamId,
    /// The application's code.
    pub error_code: VarInt,
    /// Final Size, in bytes.
    pub final_size: u64,
}

impl ResetStream {
    pub(super) fn decode(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            id: stream_id(r.varint()?),
            error_code: varint62(r.varint()?),
            final_size: r.varint()?,
        })
    }

    /// Appends the frame.
    pub fn encode(&self, buf: &mut Vec<u8>) {
        varint::put(buf, types::RESET_STREAM);
        varint::put(buf, self.id.into());
        varint::put(buf, self.error_code.into_inner());
        varint::put(buf, self.final_size);
    }

    /// Bytes that the frame takes.
    pub fn size(&self) -> usize {
        1 + varint::size(self.id.into())
            + varint::size(self.error_code.into_inner())
            + varint::size(self.final_size)
    }
}

/// STOP_SENDING (RFC 9000 section 19.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StopSending {
    /// The stream.
    pub id: StreamId,
    /// The application's code.
    pub error_code: VarInt,
}

impl StopSending {
    pub(super) fn decode(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            id: stream_id(r.varint()?),
            error_code: varint62(r.varint()?),
        })
    }

    /// Appends the frame.
    pub fn encode(&self, buf: &mut Vec<u8>) {
        varint::put(buf, types::STOP_SENDING);
        varint::put(buf, self.id.into());
        varint::put(buf, self.error_code.into_inner());
    }

    /// Bytes that the frame takes.
    pub fn size(&self) -> usize {
        1 + varint::size(self.id.into()) + varint::size(self.error_code.into_inner())
    }
}
