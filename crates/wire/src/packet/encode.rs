//! Writes headers into a datagram; protects nothing (see `protection`).

use mpquic_sched_core::ConnectionId;

use super::varint;
use super::{FIXED_BIT, KEY_PHASE_BIT, LONG_HEADER_FORM, PacketType, Version};

/// Where things are in the buffer, counted from its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LongHeaderMarks {
    /// The packet's first byte.
    pub start: usize,
    /// The two bytes of the Length field.
    pub len_offset: usize,
    /// Where the packet number begins: an index into the buffer.
    pub pn_offset: usize,
    /// Bytes of the packet number.
    pub pn_len: usize,
}

/// What [`patch_length`] can write: a two-byte varint (RFC 9000 section 16).
const MAX_LENGTH: usize = (1 << 14) - 1;

fn put_cid(buf: &mut Vec<u8>, cid: &[u8]) {
    buf.push(cid.len() as u8);
    buf.extend_from_slice(cid);
}

/// The low `pn_len` bytes of the packet number; `pn_len` is 1 to 4.
fn put_pn(buf: &mut Vec<u8>, pn: u64, pn_len: usize) {
    // Each length for itself: known to the compiler, it is a store and no call.
    let [_, b, c, d] = (pn as u32).to_be_bytes();
    match pn_len {
        ..=1 => buf.push(d),
        2 => buf.extend_from_slice(&[c, d]),
        3 => buf.extend_from_slice(&[b, c, d]),
        _ => buf.extend_from_slice(&(pn as u32).to_be_bytes()),
    }
}

/// Appends the header of an Initial, 0-RTT or Handshake packet (RFC 9000 section 17.2). `token` is
/// for Initial packets. The Length is a placeholder until [`patch_length`].
pub fn encode_long_header(
    buf: &mut Vec<u8>,
    ty: PacketType,
    version: Version,
    dcid: &ConnectionId,
    scid: &ConnectionId,
    token: &[u8],
    pn: u64,
    pn_len: usize,
) -> LongHeaderMarks {
    debug_assert!((1..=4).contains(&pn_len));
    let start = buf.len();
    //= specs/rfc9000.txt#section-17.2
    //# The value included prior to protection MUST be set to 0.
    buf.push(
        LONG_HEADER_FORM | FIXED_BIT | version.long_type(Some(ty)) | (pn_len.clamp(1, 4) - 1) as u8,
    );
    buf.extend_from_slice(&version.number().to_be_bytes());
    put_cid(buf, dcid);
    put_cid(buf, scid);
    if ty == PacketType::Initial {
        varint::put(buf, token.len() as u64);
        buf.extend_from_slice(token);
    }
    let len_offset = buf.len();
    buf.extend_from_slice(&[0x40, 0]);
    let pn_offset = buf.len();
    put_pn(buf, pn, pn_len);
    LongHeaderMarks {
        start,
        len_offset,
        pn_offset,
        pn_len: buf.len() - pn_offset,
    }
}

/// Writes the Length of a packet that ends, its tag included, at `end` of `buf`. Packets with a
/// long header stay far below 2^14 bytes; a longer one is a bug of the caller's.
pub fn patch_length(buf: &mut [u8], marks: &LongHeaderMarks, end: usize) {
    let len = end.saturating_sub(marks.pn_offset);
    debug_assert!(len <= MAX_LENGTH, "a long-header packet of {len} bytes");
    let field = 0x4000 | len.min(MAX_LENGTH) as u16;
    if let Some(bytes) = buf.get_mut(marks.len_offset..marks.len_offset + 2) {
        bytes.copy_from_slice(&field.to_be_bytes());
    }
}

/// Appends a 1-RTT header (RFC 9000 section 17.3.1); returns the offset of the packet number in
/// `buf`. The payload starts `pn_len` bytes later. The spin bit is not used and thus 0, as section
/// 17.4 permits.
#[inline]
pub fn encode_short_header(
    buf: &mut Vec<u8>,
    dcid: &ConnectionId,
    key_phase: bool,
    pn: u64,
    pn_len: usize,
) -> usize {
    debug_assert!((1..=4).contains(&pn_len));
    let phase = if key_phase { KEY_PHASE_BIT } else { 0 };
    //= specs/rfc9000.txt#section-17.4
    //= type=implication
    //# When the spin bit is disabled, endpoints MAY set the spin bit to any value and MUST ignore
    //# any incoming value.
    //= specs/rfc9000.txt#section-17.3.1
    //# The value included prior to protection MUST be set to 0.
    //= specs/rfc9000.txt#section-17.4
    //# An endpoint that does not support this feature MUST disable it, as defined below.
    buf.push(FIXED_BIT | phase | (pn_len.clamp(1, 4) - 1) as u8);
    buf.extend_from_slice(dcid);
    let pn_offset = buf.len();
    put_pn(buf, pn, pn_len);
    pn_offset
}

/// Appends a Retry packet without its integrity tag (RFC 9000 section 17.2.5); the tag is
/// `crypto::retry_tag` over what was appended.
pub fn encode_retry_header(
    buf: &mut Vec<u8>,
    version: Version,
    dcid: &ConnectionId,
    scid: &ConnectionId,
    token: &[u8],
) {
    buf.push(LONG_HEADER_FORM | FIXED_BIT | version.long_type(None));
    buf.extend_from_slice(&version.number().to_be_bytes());
    put_cid(buf, dcid);
    put_cid(buf, scid);
    buf.extend_from_slice(token);
}

/// Appends a Version Negotiation packet (RFC 9000 section 17.2.1). The IDs are those of the packet
/// that is answered, swapped, and may be longer than ours ever are (RFC 8999 section 5.1; longer
/// than 255 bytes they cannot be).
pub fn encode_version_negotiation(
    buf: &mut Vec<u8>,
    dcid: &[u8],
    scid: &[u8],
    versions: &[u32],
    random: u8,
) {
    debug_assert!(dcid.len() <= 255 && scid.len() <= 255);
    //= specs/rfc9000.txt#section-17.2.1
    //# Where QUIC might be multiplexed with other protocols (see [RFC7983]), servers SHOULD set the
    //# most significant bit of this field (0x40) to 1 so that Version Negotiation packets appear to
    //# have the Fixed Bit field.
    buf.push(LONG_HEADER_FORM | FIXED_BIT | random);
    //= specs/rfc9000.txt#section-17.2.1
    //# The Version field of a Version Negotiation packet MUST be set to 0x00000000.
    buf.extend_from_slice(&0u32.to_be_bytes());
    put_cid(buf, &dcid[..dcid.len().min(255)]);
    put_cid(buf, &scid[..scid.len().min(255)]);
    for version in versions {
        buf.extend_from_slice(&version.to_be_bytes());
    }
}
