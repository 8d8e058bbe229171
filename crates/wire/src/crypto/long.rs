//! Keys of packets with long headers: Initial keys (RFC 9001 section 5.2), sealing and opening; Handshake keys come from TLS.

use mpquic_sched_core::{ConnectionId, Side};
use rustls::crypto::ring::cipher_suite::TLS13_AES_128_GCM_SHA256;
use rustls::quic::{DirectionalKeys, Keys};

use crate::TransportError;
use crate::packet::{LongHeaderMarks, TAG_LEN, Version, patch_length, seal_packet};

/// The keys of Initial packets. `dcid` is the Destination Connection ID of the client's first
/// Initial packet, or of its first after a Retry. Both need AES-128-GCM whatever TLS offers.
//= specs/rfc9001.txt#section-5.2
//# The HKDF-Expand-Label function defined in TLS 1.3 MUST be used for Initial packets even where
//# the TLS versions offered do not include TLS 1.3.
pub fn initial_keys(version: Version, dcid: &ConnectionId, side: Side) -> Keys {
    let side = match side {
        Side::Client => rustls::Side::Client,
        Side::Server => rustls::Side::Server,
    };
    TLS13_AES_128_GCM_SHA256
        .tls13()
        .and_then(|suite| suite.quic_suite())
        .expect("ring's AES-128-GCM suite is one of TLS 1.3 and supports QUIC")
        .keys(dcid, side, version.tls())
}

/// Finishes an Initial or Handshake packet that ends at the end of `buf`: Length, encryption, tag,
/// header protection. `keys` are the local ones.
pub fn seal_long(
    keys: &DirectionalKeys,
    buf: &mut Vec<u8>,
    marks: &LongHeaderMarks,
    pn: u64,
) -> Result<(), TransportError> {
    let end = buf.len() + TAG_LEN;
    patch_length(buf, marks, end);
    seal_packet(
        buf,
        marks.start,
        marks.pn_offset,
        marks.pn_len,
        keys.header.as_ref(),
        |header, payload| {
            keys.packet
                .encrypt_in_place(pn, header, payload)
                .map_err(|_| TransportError::internal("packet too long to encrypt"))
        },
    )
}

/// Decrypts the payload of an Initial or Handshake packet in place; `keys` are the remote ones.
/// Returns the payload's length without the tag, `None` if it is not authentic.
pub fn open_long(
    keys: &DirectionalKeys,
    pn: u64,
    header: &[u8],
    payload: &mut [u8],
) -> Option<usize> {
    keys.packet
        .decrypt_in_place(pn, header, payload)
        .ok()
        .map(<[u8]>::len)
}
