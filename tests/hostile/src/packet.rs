//! Packets of QUIC version 1 on the wire: headers and their protection, with the keys of rustls.

use rustls::quic::{DirectionalKeys, HeaderProtectionKey, PacketKey};

use crate::wire::{Reader, put_varint};

/// QUIC version 1.
pub const VERSION_1: u32 = 1;

/// Bytes of an AEAD tag, of every cipher suite of QUIC version 1.
pub const TAG: usize = 16;

/// Long packet types of version 1 (RFC 9000 section 17.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
#[expect(missing_docs, reason = "the names of RFC 9000")]
pub enum Long {
    Initial = 0,
    ZeroRtt = 1,
    Handshake = 2,
    Retry = 3,
}

/// The header of one packet in a datagram, still protected.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields of RFC 9000 section 17")]
pub enum Header {
    /// Protected, with a long header.
    Long {
        ty: Long,
        dcid: Vec<u8>,
        scid: Vec<u8>,
        token: Vec<u8>,
        /// Where the packet number starts.
        number_at: usize,
        /// Where the packet ends.
        end: usize,
    },
    /// Retry: token and tag.
    Retry {
        dcid: Vec<u8>,
        scid: Vec<u8>,
        token: Vec<u8>,
    },
    /// Version Negotiation.
    Versions(Vec<u32>),
    /// A short header, to the end of the datagram.
    Short { dcid: Vec<u8>, number_at: usize },
}

/// Reads the header of the first packet. `cid_len` is the length of connection IDs in short headers.
pub fn parse_header(datagram: &[u8], cid_len: usize) -> Option<Header> {
    let mut r = Reader(datagram);
    let first = r.byte()?;
    if first & 0x80 == 0 {
        let dcid = r.bytes(cid_len)?.to_vec();
        return Some(Header::Short {
            dcid,
            number_at: 1 + cid_len,
        });
    }
    let version = u32::from_be_bytes(r.bytes(4)?.try_into().ok()?);
    let len = r.byte()?;
    let dcid = r.bytes(len.into())?.to_vec();
    let len = r.byte()?;
    let scid = r.bytes(len.into())?.to_vec();
    if version == 0 {
        let versions = r.0.chunks_exact(4);
        let versions = versions.map(|v| u32::from_be_bytes(v.try_into().unwrap_or_default()));
        return Some(Header::Versions(versions.collect()));
    }
    let ty = match (first >> 4) & 3 {
        0 => Long::Initial,
        1 => Long::ZeroRtt,
        2 => Long::Handshake,
        _ => {
            let token = r.0.get(..r.0.len().checked_sub(TAG)?)?.to_vec();
            return Some(Header::Retry { dcid, scid, token });
        }
    };
    let token = if ty == Long::Initial {
        r.counted()?.to_vec()
    } else {
        Vec::new()
    };
    let len = usize::try_from(r.varint()?).ok()?;
    let number_at = datagram.len() - r.0.len();
    r.bytes(len)?;
    Some(Header::Long {
        ty,
        dcid,
        scid,
        token,
        number_at,
        end: number_at + len,
    })
}

/// Which path ID's nonce a packet has: `None` for Initial and Handshake packets.
pub type NoncePath = Option<u32>;

/// Encrypts what comes after a header with a packet number of four bytes, and protects that header.
fn protect(
    packet: &mut Vec<u8>,
    number_at: usize,
    header: &dyn HeaderProtectionKey,
    key: &dyn PacketKey,
    path: NoncePath,
    number: u64,
) {
    let (aad, body) = packet.split_at_mut(number_at + 4);
    let tag = match path {
        Some(path) => key.encrypt_in_place_for_path(path, number, aad, body),
        None => key.encrypt_in_place(number, aad, body),
    };
    // Only payloads beyond any datagram fail.
    let Ok(tag) = tag else { return };
    packet.extend_from_slice(tag.as_ref());
    let (front, rest) = packet.split_at_mut(number_at + 4);
    let (first, front) = front.split_at_mut(1);
    let sample = &rest[..header.sample_len().min(rest.len())];
    // A packet number of four bytes leaves a whole sample behind it: there is always a tag.
    let _ = header.encrypt_in_place(sample, &mut first[0], &mut front[number_at - 1..]);
}

/// A long-header packet, sealed. `first_bits` are set in the first byte before protection.
pub fn seal_long(
    ty: Long,
    version: u32,
    dcid: &[u8],
    scid: &[u8],
    token: &[u8],
    number: u64,
    first_bits: u8,
    payload: &[u8],
    keys: &DirectionalKeys,
) -> Vec<u8> {
    let mut packet = vec![0xc0 | (ty as u8) << 4 | 3 | first_bits];
    packet.extend_from_slice(&version.to_be_bytes());
    packet.push(dcid.len() as u8);
    packet.extend_from_slice(dcid);
    packet.push(scid.len() as u8);
    packet.extend_from_slice(scid);
    if ty == Long::Initial {
        put_varint(&mut packet, token.len() as u64);
        packet.extend_from_slice(token);
    }
    put_varint(&mut packet, (4 + payload.len() + TAG) as u64);
    let number_at = packet.len();
    packet.extend_from_slice(&(number as u32).to_be_bytes());
    packet.extend_from_slice(payload);
    protect(
        &mut packet,
        number_at,
        keys.header.as_ref(),
        keys.packet.as_ref(),
        None,
        number,
    );
    packet
}

/// A 1-RTT packet, sealed.
pub fn seal_short(
    dcid: &[u8],
    path: u32,
    number: u64,
    phase: bool,
    first_bits: u8,
    payload: &[u8],
    header: &dyn HeaderProtectionKey,
    key: &dyn PacketKey,
) -> Vec<u8> {
    let mut packet = vec![0x43 | u8::from(phase) << 2 | first_bits];
    packet.extend_from_slice(dcid);
    let number_at = packet.len();
    packet.extend_from_slice(&(number as u32).to_be_bytes());
    packet.extend_from_slice(payload);
    protect(&mut packet, number_at, header, key, Some(path), number);
    packet
}

/// Removes header protection. The first byte, the packet number as it is written, and its length.
pub fn unprotect(
    packet: &mut [u8],
    number_at: usize,
    key: &dyn HeaderProtectionKey,
) -> Option<(u8, u64, usize)> {
    let sample_at = number_at.checked_add(4)?;
    let sample = packet
        .get(sample_at..sample_at + key.sample_len())?
        .to_vec();
    let (first, rest) = packet.split_first_mut()?;
    let field = rest.get_mut(number_at - 1..number_at + 3)?;
    key.decrypt_in_place(&sample, first, field).ok()?;
    let len = usize::from(*first & 3) + 1;
    let number = field[..len]
        .iter()
        .fold(0, |number, byte| (number << 8) | u64::from(*byte));
    Some((*first, number, len))
}

/// The packet number that is closest to the next expected one (RFC 9000 appendix A.3).
pub fn expand(truncated: u64, len: usize, expected: u64) -> u64 {
    let window = 1u64 << (8 * len);
    let candidate = (expected & !(window - 1)) | truncated;
    if candidate + window / 2 <= expected {
        candidate + window
    } else if candidate > expected + window / 2 && candidate >= window {
        candidate - window
    } else {
        candidate
    }
}

/// Decrypts a packet whose header is unprotected; its payload.
pub fn open(
    packet: &[u8],
    body_at: usize,
    number: u64,
    path: NoncePath,
    key: &dyn PacketKey,
) -> Option<Vec<u8>> {
    let (header, body) = packet.split_at_checked(body_at)?;
    let mut body = body.to_vec();
    let opened = match path {
        Some(path) => key.decrypt_in_place_for_path(path, number, header, &mut body),
        None => key.decrypt_in_place(number, header, &mut body),
    };
    let len = opened.ok()?.len();
    body.truncate(len);
    Some(body)
}
