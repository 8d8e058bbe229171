//! The DATAGRAM frame's header, by the names that it has in `frame`, which replaces it.

/// RFC 9221 section 4: without length, extends to the end of the packet.
pub(super) const DATAGRAM: u64 = 0x30;
const DATAGRAM_LEN: u64 = 0x31;

/// Everything of a DATAGRAM frame before its data; explicit length unless `None`.
pub(super) fn encode_datagram_header(buf: &mut Vec<u8>, len: Option<usize>) {
    let Some(len) = len else {
        buf.push(DATAGRAM as u8);
        return;
    };
    buf.push(DATAGRAM_LEN as u8);
    match len {
        0..0x40 => buf.push(len as u8),
        0x40..0x4000 => buf.extend_from_slice(&(len as u16 | 0x4000).to_be_bytes()),
        _ => buf.extend_from_slice(&(len as u32 | 0x8000_0000).to_be_bytes()),
    }
}

/// The size of what [`encode_datagram_header`] writes.
pub(super) const fn datagram_header_size(len: Option<usize>) -> usize {
    1 + match len {
        None => 0,
        Some(0..0x40) => 1,
        Some(0x40..0x4000) => 2,
        Some(_) => 4,
    }
}
