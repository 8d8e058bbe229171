//! The few encoders that this room needs, by the names that they have in `frame`, which replaces them.

use quinn_proto::StreamId;

use crate::frame::writer::FrameWriter;

/// RFC 9000 section 19.8.
pub(super) const STREAM: u64 = 0x08;
const STREAM_FIN: u64 = 0x01;
const STREAM_LEN: u64 = 0x02;
const STREAM_OFF: u64 = 0x04;

pub(super) const RESET_STREAM: u64 = 0x04;
pub(super) const STOP_SENDING: u64 = 0x05;
pub(super) const MAX_DATA: u64 = 0x10;
pub(super) const MAX_STREAM_DATA: u64 = 0x11;
pub(super) const MAX_STREAMS_BIDI: u64 = 0x12;
pub(super) const MAX_STREAMS_UNI: u64 = 0x13;
pub(super) const DATA_BLOCKED: u64 = 0x14;
pub(super) const STREAM_DATA_BLOCKED: u64 = 0x15;
pub(super) const STREAMS_BLOCKED_BIDI: u64 = 0x16;
pub(super) const STREAMS_BLOCKED_UNI: u64 = 0x17;

/// RFC 9000 section 16.
pub(super) const fn varint_size(value: u64) -> usize {
    match value {
        0..0x40 => 1,
        0x40..0x4000 => 2,
        0x4000..0x4000_0000 => 4,
        _ => 8,
    }
}

fn put_varint(buf: &mut Vec<u8>, value: u64) {
    match varint_size(value) {
        1 => buf.push(value as u8),
        2 => buf.extend_from_slice(&(value as u16 | 0x4000).to_be_bytes()),
        4 => buf.extend_from_slice(&(value as u32 | 0x8000_0000).to_be_bytes()),
        _ => buf.extend_from_slice(&(value | 0xc000_0000_0000_0000).to_be_bytes()),
    }
}

/// A frame that consists of varints only. False, and nothing written, if it does not fit.
pub(super) fn put_frame(w: &mut FrameWriter<'_>, fields: &[u64]) -> bool {
    let size: usize = fields.iter().map(|&f| varint_size(f)).sum();
    if size > w.remaining() {
        return false;
    }
    for &field in fields {
        put_varint(w.buf, field);
    }
    true
}

/// Everything of a STREAM frame before its data; explicit length unless `None`.
pub(super) fn encode_stream_header(
    buf: &mut Vec<u8>,
    id: StreamId,
    offset: u64,
    fin: bool,
    len: Option<usize>,
) {
    let mut ty = STREAM;
    if offset > 0 {
        ty |= STREAM_OFF;
    }
    if len.is_some() {
        ty |= STREAM_LEN;
    }
    if fin {
        ty |= STREAM_FIN;
    }
    put_varint(buf, ty);
    put_varint(buf, id.into());
    if offset > 0 {
        put_varint(buf, offset);
    }
    if let Some(len) = len {
        put_varint(buf, len as u64);
    }
}

/// The size of what [`encode_stream_header`] writes.
pub(super) fn stream_header_size(id: StreamId, offset: u64, len: Option<usize>) -> usize {
    let offset = if offset > 0 { varint_size(offset) } else { 0 };
    let len = len.map_or(0, |len| varint_size(len as u64));
    1 + varint_size(id.into()) + offset + len
}
