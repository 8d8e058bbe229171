//! The keys of the measurements without a protocol: the AEAD that TLS agrees on for the others, without a handshake.

use rustls::Side;
use rustls::crypto::ring::cipher_suite::TLS13_AES_256_GCM_SHA384;
use rustls::quic::{DirectionalKeys, Keys, Version};

use crate::stack::Result;

/// Bytes that the AEAD adds.
pub(crate) const TAG: usize = 16;

/// Both directions, known to everybody: what is measured is not to be secret.
pub(crate) fn keys(side: Side) -> Result<Keys> {
    let suite = TLS13_AES_256_GCM_SHA384.tls13().ok_or("not of TLS 1.3")?;
    let quic = suite.quic.ok_or("without QUIC")?;
    Ok(Keys::initial(Version::V1, suite, quic, b"measured", side))
}

/// Encrypts the end of a packet, from `header` on, whose last bytes are room for the tag.
pub(crate) fn seal(
    keys: &DirectionalKeys,
    number: u64,
    packet: &mut [u8],
    header: usize,
) -> Result<()> {
    let (header, payload) = packet.split_at_mut(header);
    let room = payload.len() - TAG;
    let (payload, place) = payload.split_at_mut(room);
    let tag = keys.packet.encrypt_in_place(number, header, payload)?;
    place.copy_from_slice(tag.as_ref());
    Ok(())
}
