//! Doors for the fuzz targets and the codec bench into what is private; not part of the API.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mpquic_sched_core::{ConnectionId, Side};
use mpquic_wire::crypto::seal_long;
use mpquic_wire::frame::{Frame, FrameIter};
use mpquic_wire::packet::{
    PacketType, ProtectedPacket, Version, decode_next, encode_long_header, parse_invariant,
    unprotect_header, version_list,
};
use mpquic_wire::transport_parameters::TransportParameters;
use rand::SeedableRng;
use rand::rngs::StdRng;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;

use crate::crypto::initial_keys;
use crate::token::{AddressTokens, Kind, Lifetimes, Token, Verdict};
use crate::{Connection, ConnectionHandle, DatagramEvent};
use crate::{Endpoint, EndpointConfig, FourTuple, ServerConfig};

pub use crate::stream::fuzzing::assembler;

/// Decodes a payload; what is understood must be understood again after encoding.
pub fn frames(payload: &[u8]) {
    let mut again = Vec::new();
    let mut count = 0;
    for frame in FrameIter::new(payload).map_while(Result::ok) {
        let before = again.len();
        frame.encode(&mut again);
        assert_eq!(again.len() - before, frame.size());
        if let Frame::Ack(ack) = &frame {
            let mut below = u64::MAX;
            for range in ack.blocks.iter() {
                assert!(range.start() <= range.end() && *range.end() < below);
                below = *range.start();
            }
        }
        count += 1;
    }
    let decoded: Result<Vec<_>, _> = FrameIter::new(&again).collect();
    assert_eq!(decoded.expect("our own encoding").len(), count);
}

/// Splits a datagram into packets and removes their header protection.
pub fn datagram(datagram: &[u8]) {
    const CID_LEN: usize = 8;
    let keys = initial_keys(Version::V1, &ConnectionId::new(&[7; CID_LEN]), Side::Server);
    let mut datagram = datagram.to_vec();
    let mut rest = &mut datagram[..];
    while let Ok(packet) = decode_next(rest, CID_LEN) {
        parse_invariant(rest, CID_LEN).expect("a packet has invariant fields");
        let (bytes, after) = rest.split_at_mut(packet.size());
        assert!(!bytes.is_empty());
        match packet {
            ProtectedPacket::Long {
                pn_offset, token, ..
            } => {
                let _ = &bytes[token];
                let _ = unprotect_header(bytes, pn_offset, keys.remote.header.as_ref());
            }
            ProtectedPacket::Short { pn_offset, .. } => {
                let _ = unprotect_header(bytes, pn_offset, keys.remote.header.as_ref());
            }
            ProtectedPacket::Retry { token, tag, .. } => {
                let _ = (&bytes[token], &bytes[tag]);
            }
            ProtectedPacket::VersionNegotiation { versions, .. } => {
                assert!(version_list(&bytes[versions]).count() > 0);
            }
        }
        rest = after;
    }
}

/// Decodes transport parameters of both sides; what is accepted must survive a round trip.
pub fn transport_parameters(data: &[u8]) {
    for side in [Side::Client, Side::Server] {
        let Ok(params) = TransportParameters::decode(side, data) else {
            continue;
        };
        let mut again = Vec::new();
        params.encode(side, &mut again);
        let decoded = TransportParameters::decode(side, &again).expect("our own encoding");
        assert_eq!(decoded, params);
    }
}

/// `data` as the plain text of a token, as a token, and as what is done to genuine ones.
pub fn token(now: Instant, data: &[u8]) {
    for kind in [Kind::Retry, Kind::New] {
        if let Some(token) = Token::decode(kind, data) {
            let mut again = Vec::new();
            token.encode(&mut again);
            assert_eq!(again, data, "a token has one form");
        }
    }
    let tokens = AddressTokens::new(&[7; 32], None);
    let remote = SocketAddr::from(([192, 0, 2, 1], 443));
    let dcid = ConnectionId::new(&[3; 8]);
    let lifetime = Duration::from_secs(10);
    let lifetimes = Lifetimes {
        retry: lifetime,
        new: lifetime,
    };
    let proves = |token: &[u8]| {
        let verdict = tokens.check(now, token, remote, &dcid, lifetimes);
        !matches!(verdict, Verdict::Nothing | Verdict::InvalidRetry)
    };
    assert!(!proves(data), "made without the key");
    let mut rng = StdRng::from_seed([1; 32]);
    let genuine = [
        tokens.retry(now, &mut rng, remote, ConnectionId::new(&[4; 8]), &dcid),
        tokens.new_token(now, &mut rng, [remote.ip()].into_iter().collect()),
    ];
    for mut token in genuine {
        assert!(proves(&token));
        for (byte, change) in token.iter_mut().zip(data) {
            *byte ^= change;
        }
        let changed = data.iter().take(token.len()).any(|change| *change != 0);
        assert_eq!(proves(&token), !changed);
    }
}

/// A server that has no certificate: no handshake comes to its end.
#[derive(Debug)]
struct NoCertificate;

impl ResolvesServerCert for NoCertificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        None
    }
}

fn server_config() -> Arc<ServerConfig> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let tls = rustls::ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .expect("the provider has TLS 1.3")
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(NoCertificate));
    Arc::new(ServerConfig::new(Arc::new(tls)).expect("the provider has QUIC's cipher suites"))
}

/// Feeds a server datagrams and accepts what it takes for clients. The first byte of each piece of
/// `data` says whether the rest is a datagram or the frames of an Initial packet, the second how
/// long it is, in units of eight bytes. Whether a connection was made.
pub fn server(now: Instant, data: &[u8]) -> bool {
    let config = Arc::new(EndpointConfig::new([1; 32]));
    let mut endpoint = Endpoint::new(config, Some(server_config()));
    let tuple = FourTuple {
        local: ([192, 0, 2, 1], 443).into(),
        remote: ([192, 0, 2, 2], 50_000).into(),
    };
    let mut connection = None;
    let (mut now, mut number, mut accepted_any) = (now, 0, false);
    let mut rest = data;
    while let [kind, len, after @ ..] = rest {
        let (piece, after) = after.split_at(after.len().min(8 * usize::from(*len)));
        rest = after;
        let datagram = if kind % 2 == 0 {
            piece.to_vec()
        } else {
            number += 1;
            client_initial(number, piece)
        };
        let mut out = Vec::new();
        let event = endpoint.handle(now, tuple, None, datagram[..].into(), &mut out);
        match event {
            Some(DatagramEvent::NewConnection(incoming)) => {
                let accepted = endpoint.accept(incoming, now, &mut out, None);
                accepted_any |= accepted.is_ok();
                connection = connection.or_else(|| accepted.ok());
            }
            Some(DatagramEvent::ConnectionEvent(handle, event)) => {
                if let Some((_, connection)) = connection.as_mut().filter(|c| c.0 == handle) {
                    connection.handle_event(event);
                }
            }
            Some(
                DatagramEvent::Response(_) | DatagramEvent::Forward(..) | DatagramEvent::Queued,
            )
            | None => {}
        }
        now += Duration::from_millis(u64::from(kind / 2));
        connection = connection.and_then(|c| drive(&mut endpoint, now, c));
    }
    accepted_any
}

/// Lets a connection do what it wants to; `None` once it is over.
fn drive(
    endpoint: &mut Endpoint,
    now: Instant,
    (handle, mut connection): (ConnectionHandle, Connection),
) -> Option<(ConnectionHandle, Connection)> {
    if connection.poll_timeout().is_some_and(|at| at <= now) {
        connection.handle_timeout(now);
    }
    let mut out = Vec::new();
    while connection.poll_transmit(now, 4, &mut out).is_some() {}
    while connection.poll().is_some() {}
    while let Some(event) = connection.poll_endpoint_events() {
        endpoint.handle_event(handle, event);
    }
    (!connection.is_drained()).then_some((handle, connection))
}

/// A client's Initial packet with these frames, and enough padding.
fn client_initial(number: u64, frames: &[u8]) -> Vec<u8> {
    const SIZE: usize = 1200;
    let (dcid, scid) = (ConnectionId::new(&[7; 8]), ConnectionId::new(&[8; 8]));
    let mut buf = Vec::new();
    let ty = PacketType::Initial;
    let marks = encode_long_header(&mut buf, ty, Version::V1, &dcid, &scid, &[], number, 4);
    buf.extend_from_slice(frames);
    buf.resize(buf.len().max(SIZE), 0);
    let keys = initial_keys(Version::V1, &dcid, Side::Client);
    seal_long(&keys.local, &mut buf, &marks, number).expect("large enough");
    buf
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_initial_packet_makes_a_connection() {
        let now = Instant::now();
        assert!(server(now, &[1, 1, 0x01]), "PING");
        assert!(!server(now, &[1, 1, 0x08, 0]), "STREAM");
        assert!(!server(now, &[0, 1, 0xc0]), "no packet");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        /// The targets themselves hold on noise that leans towards small numbers, as types are.
        #[test]
        fn targets_hold_on_noise(bytes in vec(prop_oneof![0..0x40u8, any::<u8>(), Just(0x7e), 0x75..0x7du8], 0..120)) {
            frames(&bytes);
            datagram(&bytes);
            transport_parameters(&bytes);
            assembler(&bytes);
            token(Instant::now(), &bytes);
            server(Instant::now(), &bytes);
            let mut long = bytes;
            if long.len() > 6 {
                long[0] |= 0xc0;
                long[1..5].copy_from_slice(&Version::V1.number().to_be_bytes());
                long[5] &= 0x07;
                datagram(&long);
            }
        }
    }
}

/// Typical payloads and headers, for the codec bench.
pub mod samples {
    use mpquic_sched_core::{ConnectionId, StreamId, VarInt};

    use crate::PathId;
    use mpquic_wire::frame::{Frame, FrameIter, encode_ack, encode_stream_header};
    use mpquic_wire::packet::{decode_next, encode_short_header as encode_header};

    const DATA: [u8; 1400] = [7; 1400];

    /// A full packet of one stream.
    pub fn encode_stream_payload(buf: &mut Vec<u8>) {
        let id = StreamId::from(VarInt::from_u32(4));
        encode_stream_header(buf, id, 1 << 25, false, None);
        buf.extend_from_slice(&DATA);
    }

    /// PATH_ACK of five ranges.
    pub fn encode_ack_payload(buf: &mut Vec<u8>) {
        let ranges = (0..5u64).rev().map(|i| 20_000 + i * 100..=20_050 + i * 100);
        encode_ack(buf, Some(PathId(1)), 12, ranges, None, 1200);
    }

    /// What a receiver of bulk data sends now and then.
    pub fn encode_control_payload(buf: &mut Vec<u8>) {
        let id = StreamId::from(VarInt::from_u32(4));
        Frame::MaxData(1 << 28).encode(buf);
        Frame::MaxStreamData {
            id,
            offset: 1 << 27,
        }
        .encode(buf);
        Frame::PathStatusBackup { path: 1, seq: 3 }.encode(buf);
        Frame::Ping.encode(buf);
    }

    /// Decodes a payload to its end; how many frames it has.
    pub fn decode_payload(payload: &[u8]) -> usize {
        let mut count = 0;
        for frame in FrameIter::new(payload).map_while(Result::ok) {
            if let Frame::Ack(ack) = &frame {
                count += ack.blocks.iter().count();
            }
            count += usize::from(std::hint::black_box(frame).is_ack_eliciting());
        }
        count
    }

    /// The header of a 1-RTT packet.
    pub fn encode_short_header(buf: &mut Vec<u8>) {
        encode_header(buf, &ConnectionId::new(&[7; 8]), false, 20_000, 2);
    }

    /// Splits the first packet off a datagram; its length.
    pub fn decode_header(datagram: &[u8]) -> usize {
        decode_next(datagram, 8).map_or(0, |packet| packet.size())
    }
}
