//! Keys against the RFCs' samples, and 1-RTT keys of a real TLS handshake through updates.

mod key_update;
mod samples;

use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::crypto::ring::{cipher_suite, default_provider};
use rustls::quic::{ClientConnection, Connection, KeyChange, ServerConnection, Version};
use rustls::{RootCertStore, SupportedCipherSuite};

use super::*;
use crate::packet::{encode_short_header, key_phase, unprotect_header};
use crate::{ConnectionId, PathId};

/// Bytes from hexadecimal digits; white space is ignored.
fn hex(digits: &str) -> Vec<u8> {
    let digits: Vec<u8> = digits
        .chars()
        .filter_map(|c| c.to_digit(16).map(|d| d as u8))
        .collect();
    assert_eq!(digits.len() % 2, 0);
    digits.chunks(2).map(|d| d[0] << 4 | d[1]).collect()
}

/// The 1-RTT keys of a client and a server.
fn handshake(suite: SupportedCipherSuite) -> (OneRttKeys, OneRttKeys) {
    let issued = rcgen::generate_simple_self_signed(["localhost".into()]).unwrap();
    let mut provider = default_provider();
    provider.cipher_suites = vec![suite];
    let provider = Arc::new(provider);
    let mut roots = RootCertStore::empty();
    roots.add(issued.cert.der().clone()).unwrap();
    let client = rustls::ClientConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let key = issued.signing_key.serialize_der().try_into().unwrap();
    let server = rustls::ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![issued.cert.der().clone()], key)
        .unwrap();
    let name = "localhost".try_into().unwrap();
    let mut client: Connection =
        ClientConnection::new(Arc::new(client), Version::V1, name, Vec::new())
            .unwrap()
            .into();
    let mut server: Connection = ServerConnection::new(Arc::new(server), Version::V1, Vec::new())
        .unwrap()
        .into();
    let (mut client_keys, mut server_keys) = (None, None);
    for _ in 0..8 {
        flight(&mut client, &mut server, &mut client_keys);
        flight(&mut server, &mut client, &mut server_keys);
    }
    (client_keys.unwrap(), server_keys.unwrap())
}

/// All that `from` has to say to `to`, level by level.
fn flight(from: &mut Connection, to: &mut Connection, keys: &mut Option<OneRttKeys>) {
    loop {
        let mut buf = Vec::new();
        let change = from.write_hs(&mut buf);
        if !buf.is_empty() {
            to.read_hs(&buf).unwrap();
        }
        match change {
            Some(KeyChange::OneRtt { keys: new, next }) => *keys = Some(OneRttKeys::new(new, next)),
            Some(KeyChange::Handshake { .. }) => {}
            None if buf.is_empty() => return,
            None => {}
        }
    }
}

fn aes() -> (OneRttKeys, OneRttKeys) {
    handshake(cipher_suite::TLS13_AES_128_GCM_SHA256)
}

const PTO: Duration = Duration::from_millis(100);

/// A sealed packet as it travels.
fn seal(keys: &mut OneRttKeys, path: Option<u32>, pn: u64) -> Vec<u8> {
    let dcid = ConnectionId::new(&[7; 8]);
    let mut buf = b"in front".to_vec();
    let start = buf.len();
    let pn_offset = encode_short_header(&mut buf, &dcid, keys.phase(), pn, 2);
    buf.extend_from_slice(b"payload");
    keys.seal_packet(&mut buf, start, pn_offset, 2, path.map(PathId), pn)
        .unwrap();
    buf.split_off(start)
}

/// Opens a copy of a packet of this number.
fn open(
    keys: &mut OneRttKeys,
    path: Option<u32>,
    pn: u64,
    packet: &[u8],
    now: Instant,
) -> Result<bool, OpenError> {
    let mut packet = packet.to_vec();
    let (first, truncated, len) = unprotect_header(&mut packet, 9, keys.remote_header()).unwrap();
    assert_eq!((truncated, len), (pn & 0xffff, 2));
    let (header, payload) = packet.split_at_mut(9 + len);
    let path = path.map(PathId);
    let opened = keys.open(path, pn, key_phase(first), header, payload, now, PTO)?;
    assert_eq!(&payload[..opened.payload_len], b"payload");
    Ok(opened.updated)
}
