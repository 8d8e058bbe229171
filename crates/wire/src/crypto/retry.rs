//! The integrity tag of Retry packets (RFC 9001 section 5.8); tokens are the endpoint's.

use mpquic_sched_core::ConnectionId;
use ring::aead::{AES_128_GCM, Aad, LessSafeKey, Nonce, UnboundKey};

use crate::packet::{TAG_LEN, Version};

/// Key and nonce of each version (RFC 9001 section 5.8, RFC 9369 section 3.3.3). Known to all: the tag proves only that
/// the sender saw the Initial packet.
const fn key_and_nonce(version: Version) -> ([u8; 16], [u8; 12]) {
    match version {
        Version::V1 => (
            [
                0xbe, 0x0c, 0x69, 0x0b, 0x9f, 0x66, 0x57, 0x5a, 0x1d, 0x76, 0x6b, 0x54, 0xe3, 0x68,
                0xc8, 0x4e,
            ],
            [
                0x46, 0x15, 0x99, 0xd3, 0x5d, 0x63, 0x2b, 0xf2, 0x23, 0x98, 0x25, 0xbb,
            ],
        ),
        Version::V2 => (
            [
                0x8f, 0xb4, 0xb0, 0x1b, 0x56, 0xac, 0x48, 0xe2, 0x60, 0xfb, 0xcb, 0xce, 0xad, 0x7c,
                0xcc, 0x92,
            ],
            [
                0xd8, 0x69, 0x69, 0xbc, 0x2d, 0x7c, 0x6d, 0x99, 0x90, 0xef, 0xb0, 0x4a,
            ],
        ),
    }
}

/// The tag of a Retry packet. `packet` is all of it but the tag; `original_dcid` is the Destination
/// Connection ID of the Initial packet that it answers.
pub fn retry_tag(version: Version, original_dcid: &ConnectionId, packet: &[u8]) -> [u8; TAG_LEN] {
    let (key, nonce) = key_and_nonce(version);
    let mut pseudo = Vec::with_capacity(1 + original_dcid.len() + packet.len());
    pseudo.push(original_dcid.len() as u8);
    pseudo.extend_from_slice(original_dcid);
    pseudo.extend_from_slice(packet);
    let key = UnboundKey::new(&AES_128_GCM, &key).expect("the key has the algorithm's length");
    let tag = LessSafeKey::new(key)
        .seal_in_place_separate_tag(
            Nonce::assume_unique_for_key(nonce),
            Aad::from(&pseudo),
            &mut [],
        )
        .expect("nothing to encrypt cannot be too long");
    let mut bytes = [0; TAG_LEN];
    bytes.copy_from_slice(tag.as_ref());
    bytes
}

/// Whether a Retry packet, tag included, answers the Initial packet sent to `original_dcid`.
pub fn verify_retry_tag(version: Version, original_dcid: &ConnectionId, packet: &[u8]) -> bool {
    let Some((packet, tag)) = packet.split_last_chunk::<TAG_LEN>() else {
        return false;
    };
    // The key is public, so there is no secret that the time of a comparison could tell.
    retry_tag(version, original_dcid, packet) == *tag
}
