//! Header protection (RFC 9001 section 5.4) and the last steps of a packet before it leaves; keys are the caller's.

use rustls::quic::{HeaderProtectionKey, Tag};

use super::LONG_HEADER_FORM;
use crate::TransportError;

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
