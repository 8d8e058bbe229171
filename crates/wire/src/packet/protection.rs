//! What a packet's header does not show: its number, of which few bytes are sent (RFC 9000 section 17.1, appendix A.2 and A.3),
//! and the bits under header protection (RFC 9001 section 5.4); and a QUIC bit that means nothing (RFC 9287). Keys are the caller's.

use rustls::quic::{HeaderProtectionKey, Tag};

use super::{FIXED_BIT, KEY_PHASE_BIT, LONG_HEADER_FORM};
use crate::TransportError;

/// Bytes that the number of a packet needs on the wire: enough for more than twice the distance
/// to the largest acknowledged one.
#[inline]
pub const fn pn_len(pn: u64, largest_acked: Option<u64>) -> usize {
    //= specs/rfc9000.txt#section-17.1
    //# After an acknowledgment is received for a packet number space, the sender MUST use a packet
    //# number size able to represent more than twice as large a range as the difference between the
    //# largest acknowledged packet number and the packet number being sent.
    let unacked = match largest_acked {
        Some(acked) => pn.saturating_sub(acked),
        //= specs/rfc9000.txt#section-17.1
        //# Prior to receiving an acknowledgment for a packet number space, the full packet number
        //# MUST be included; it is not to be truncated, as described below.
        None => pn.saturating_add(1),
    };
    if unacked < 1 << 7 {
        1
    } else if unacked < 1 << 15 {
        2
    } else if unacked < 1 << 23 {
        3
    } else {
        4
    }
}

/// The packet number whose low `pn_len` bytes are `truncated` and which is closest to `expected`,
/// one more than the largest received (0 if none was).
#[inline]
pub const fn expand_pn(truncated: u64, pn_len: usize, expected: u64) -> u64 {
    let window = 1u64 << (8 * pn_len);
    let half = window / 2;
    let candidate = (expected & !(window - 1)) | truncated;
    if candidate + half <= expected && candidate < (1 << 62) - window {
        candidate + window
    } else if candidate > expected + half && candidate >= window {
        candidate - window
    } else {
        candidate
    }
}

/// Whether the reserved bits of an unprotected first byte are zero (RFC 9000 sections 17.2 and
/// 17.3.1). If not: PROTOCOL_VIOLATION, but only once the packet has been decrypted.
#[inline]
pub const fn reserved_bits_are_zero(first: u8) -> bool {
    if first & LONG_HEADER_FORM != 0 {
        first & 0x0c == 0
    } else {
        first & 0x18 == 0
    }
}

/// The key phase bit of an unprotected short header's first byte.
#[inline]
pub const fn key_phase(first: u8) -> bool {
    first & KEY_PHASE_BIT != 0
}

/// A sample is taken as if the packet number had four bytes (RFC 9001 section 5.4.2).
const SAMPLE_OFFSET: usize = 4;

/// First byte, packet number field (four bytes, of which the packet number may be fewer), sample.
type Parts<'a> = (&'a mut u8, &'a mut [u8], &'a [u8]);

#[inline]
fn split<'a>(
    packet: &'a mut [u8],
    pn_offset: usize,
    hp: &dyn HeaderProtectionKey,
) -> Option<Parts<'a>> {
    let (header, tail) = packet.split_at_mut_checked(pn_offset.checked_add(SAMPLE_OFFSET)?)?;
    //= specs/rfc9001.txt#section-5.4.2
    //# An endpoint MUST discard packets that are not long enough to contain a complete sample.
    let sample = tail.get(..hp.sample_len())?;
    let (first, rest) = header.split_first_mut()?;
    let pn = rest.get_mut(pn_offset.checked_sub(1)?..)?;
    Some((first, pn, sample))
}

/// Removes header protection in place. `packet` is one packet, no more. Returns the first byte, the
/// truncated packet number and its length; `None` if the packet is too short for a sample.
#[inline]
pub fn unprotect_header(
    packet: &mut [u8],
    pn_offset: usize,
    hp: &dyn HeaderProtectionKey,
) -> Option<(u8, u64, usize)> {
    let (first, pn, sample) = split(packet, pn_offset, hp)?;
    hp.decrypt_in_place(sample, first, pn).ok()?;
    let pn_len = usize::from(*first & 0x03) + 1;
    let truncated = pn[..pn_len]
        .iter()
        .fold(0, |pn, &byte| (pn << 8) | u64::from(byte));
    Some((*first, truncated, pn_len))
}

/// Adds header protection in place, after the payload was encrypted and its tag appended.
/// `pn_offset` is relative to `packet`.
///
/// # Errors
///
/// INTERNAL_ERROR if the packet is too short for a sample: the caller must pad so that packet
/// number and payload have four bytes at least (RFC 9001 section 5.4.2).
#[inline]
pub(super) fn protect_header(
    packet: &mut [u8],
    pn_offset: usize,
    pn_len: usize,
    hp: &dyn HeaderProtectionKey,
) -> Result<(), TransportError> {
    let parts = split(packet, pn_offset, hp);
    let protected = parts.and_then(|(first, pn, sample)| {
        debug_assert_eq!(usize::from(*first & 0x03) + 1, pn_len);
        debug_assert!(*first & LONG_HEADER_FORM == 0 || pn_offset > 6);
        let pn = pn.get_mut(..pn_len)?;
        hp.encrypt_in_place(sample, first, pn).ok()
    });
    protected.ok_or_else(|| TransportError::internal("packet too short to protect its header"))
}

/// Encrypts the packet that starts at `start` of `buf` and ends at its end, appends the tag and
/// protects the header. `pn_offset` counts from the start of `buf`. The Length of a long header
/// must have been patched before, tag included: it is authenticated.
///
/// `seal` gets the header and the payload, to be encrypted in place, and returns the tag.
///
/// # Errors
///
/// Those of `seal`, and INTERNAL_ERROR for offsets that make no packet.
//= specs/rfc9001.txt#section-9.5
//# For the sending of packets, construction and protection of packet payloads and packet numbers
//# MUST be free from side channels that would reveal the packet number or its encoded size.
#[inline]
pub fn seal_packet(
    buf: &mut Vec<u8>,
    start: usize,
    pn_offset: usize,
    pn_len: usize,
    hp: &dyn HeaderProtectionKey,
    seal: impl FnOnce(&[u8], &mut [u8]) -> Result<Tag, TransportError>,
) -> Result<(), TransportError> {
    let header_len = (pn_offset + pn_len).checked_sub(start);
    let (header, payload) = header_len
        .and_then(|len| buf.get_mut(start..)?.split_at_mut_checked(len))
        .ok_or_else(|| TransportError::internal("packet offsets"))?;
    let tag = seal(header, payload)?;
    buf.extend_from_slice(tag.as_ref());
    protect_header(&mut buf[start..], pn_offset - start, pn_len, hp)
}

/// What the QUIC bit of the next packet is. Set, until the peer has said that it need not be.
#[derive(Debug, Default)]
pub struct QuicBit {
    /// Of a xorshift generator; 0 while the bit is set.
    state: u64,
}

impl QuicBit {
    /// The peer has sent grease_quic_bit. The bits follow from `seed`, which no observer knows: drawing each of them
    /// from the random numbers of the connection would cost more than the bit is worth.
    pub const fn start(&mut self, seed: [u8; 16]) {
        let [a, b, c, d, e, f, g, h, ..] = seed;
        self.state = u64::from_le_bytes([a, b, c, d, e, f, g, h]) | 1;
    }

    /// Gives the first byte of a packet, whose header is not yet protected, its QUIC bit.
    #[inline]
    pub const fn apply(&mut self, first: &mut u8) {
        if self.state == 0 {
            return;
        }
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        if self.state >> 63 == 0 {
            *first &= !FIXED_BIT;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Only that bit is touched, only when the peer takes it, and both values come without a period that shows.
        #[test]
        fn both_values_once_the_peer_takes_them(seed in any::<[u8; 16]>(), byte in any::<u8>()) {
            let mut bit = QuicBit::default();
            let draw = |bit: &mut QuicBit| {
                let mut first = byte | FIXED_BIT;
                bit.apply(&mut first);
                assert_eq!(first | FIXED_BIT, byte | FIXED_BIT);
                first & FIXED_BIT != 0
            };
            prop_assert!((0..100).all(|_| draw(&mut bit)));
            bit.start(seed);
            // The first few of a seed with few bits are alike.
            let drawn: Vec<_> = (0..1064).map(|_| draw(&mut bit)).skip(64).collect();
            let set = drawn.iter().filter(|set| **set).count();
            prop_assert!((350..650).contains(&set), "{set} of 1000");
            prop_assert!((1..100).all(|period| drawn[..800] != drawn[period..][..800]));
        }
    }
}
