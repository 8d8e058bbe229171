//! What a client makes of a Retry packet, and of tokens that it has kept.
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use mpquic_sched_core::{ConnectionId, Side};
use mpquic_wire::crypto::{open_long, retry_tag};
use mpquic_wire::packet::{
    ProtectedPacket, Version, decode_next, encode_retry_header, unprotect_header,
};

use crate::connection::Connection;
use crate::crypto::initial_keys;
use crate::events::DatagramMeta;
use crate::limits;
use crate::{
    ClientConfig, Endpoint, EndpointConfig, FourTuple, NoTokenStore, TokenMemoryStore, TokenStore,
};

struct Client {
    now: Instant,
    connection: Connection,
    tuple: FourTuple,
}

struct Initial {
    dcid: ConnectionId,
    scid: ConnectionId,
    token: Vec<u8>,
    number: u64,
    payload: Vec<u8>,
}

impl Client {
    fn new() -> Self {
        Self::with(Arc::new(NoTokenStore))
    }

    fn with(store: Arc<dyn TokenStore>) -> Self {
        let now = Instant::now();
        let mut endpoint = Endpoint::new(Arc::new(EndpointConfig::new([1; 32])), None);
        let roots = rustls::RootCertStore::empty();
        let mut config = ClientConfig::with_root_certificates(roots).unwrap();
        config.token_store(store);
        let tuple = FourTuple {
            local: "127.0.0.1:1".parse().unwrap(),
            remote: "127.0.0.1:2".parse().unwrap(),
        };
        let connected = endpoint.connect(now, config, tuple, "localhost");
        Self {
            now,
            connection: connected.unwrap().1,
            tuple,
        }
    }

    /// The next Initial packet, opened with the keys that its destination gives.
    fn next(&mut self, keys_of: Option<ConnectionId>) -> Option<Initial> {
        let mut buf = Vec::new();
        let transmit = self.connection.poll_transmit(self.now, 1, &mut buf)?;
        //= specs/rfc9000.txt#section-8.1
        //= type=test
        //# Clients MUST ensure that UDP datagrams containing Initial packets have UDP payloads
        //# of at least 1200 bytes, adding PADDING frames as necessary.
        //= specs/rfc9000.txt#section-14.1
        //= type=test
        //# A client MUST expand the payload of all UDP datagrams carrying Initial packets to at
        //# least the smallest allowed maximum datagram size of 1200 bytes by adding PADDING
        //# frames to the Initial packet or by coalescing the Initial packet; see Section 12.2.
        assert!(transmit.size >= 1200);
        let Ok(ProtectedPacket::Long {
            dcid,
            scid,
            token,
            pn_offset,
            ..
        }) = decode_next(&buf, 8)
        else {
            panic!("no Initial packet");
        };
        let token = buf[token].to_vec();
        let keys = initial_keys(Version::V1, &keys_of.unwrap_or(dcid), Side::Server);
        let (_, number, len) = unprotect_header(&mut buf, pn_offset, &*keys.remote.header).unwrap();
        let (header, payload) = buf.split_at_mut(pn_offset + len);
        let len = open_long(&keys.remote, number, header, payload).unwrap();
        Some(Initial {
            dcid,
            scid,
            token,
            number,
            payload: payload[..len].to_vec(),
        })
    }

    fn receive(&mut self, datagram: &[u8]) {
        let mut arrival = DatagramMeta::new(self.now, self.tuple, None);
        arrival.bytes = datagram.len();
        self.connection
            .on_datagram(&arrival, &mut datagram.to_vec());
    }
}

fn retry(to: &Initial, from: &ConnectionId, token: &[u8]) -> Vec<u8> {
    let mut buf = Vec::new();
    encode_retry_header(&mut buf, Version::V1, &to.scid, from, token);
    let tag = retry_tag(Version::V1, &to.dcid, &buf);
    buf.extend_from_slice(&tag);
    buf
}

/// RFC 9000 section 17.2.2: the first packet that a server sees carries the ClientHello, whichever of them are
/// lost.
#[test]
fn every_loss_probe_carries_the_client_hello() {
    let mut client = Client::new();
    let first = client.next(None).unwrap();
    assert!(client.next(None).is_none());
    for _ in 0..3 {
        client.now = client.connection.poll_timeout().unwrap();
        client.connection.handle_timeout(client.now);
        let mut probes = 0;
        while let Some(probe) = client.next(None) {
            assert_eq!(probe.dcid, first.dcid);
            assert_eq!(
                probe.payload[..8],
                first.payload[..8],
                "not the same CRYPTO frame"
            );
            probes += 1;
        }
        assert_eq!(probes, 2, "RFC 9002 section 6.2.4");
    }
}

#[test]
fn the_client_begins_again_with_the_token() {
    let mut client = Client::new();
    let first = client.next(None).unwrap();
    assert!(first.token.is_empty());
    let server = ConnectionId::new(&[9; 11]);
    client.receive(&retry(&first, &server, b"a token"));
    let second = client.next(None).unwrap();
    //= specs/rfc9000.txt#section-17.2.5.1
    //= type=test
    //# The client MUST use the value from the Source Connection ID field of the Retry packet in
    //# the Destination Connection ID field of subsequent packets that it sends.
    assert_eq!(second.dcid, server);
    //= specs/rfc9000.txt#section-8.1.2
    //= type=test
    //# This token MUST be repeated by the client in all Initial packets it sends for that
    //# connection after it receives the Retry packet.
    assert_eq!(second.token, b"a token");
    //= specs/rfc9000.txt#section-17.2.5.3
    //= type=test
    //# A client MUST NOT reset the packet number for any packet number space after processing a
    //# Retry packet.
    assert!(second.number > first.number);
    //= specs/rfc9000.txt#section-17.2.5.3
    //= type=test
    //# A client MUST use the same cryptographic handshake message it included in this packet.
    // The same ClientHello: the same CRYPTO frame, with less padding after it.
    let hello = first.payload.iter().rposition(|byte| *byte != 0).unwrap();
    assert_eq!(second.payload[..hello], first.payload[..hello]);

    // Only one, and only the first.
    client.receive(&retry(&second, &ConnectionId::new(&[8; 8]), b"another"));
    assert!(client.next(None).is_none());
}

//= specs/rfc9000.txt#section-8.1.3
//= type=test
//# The client MUST include the token in all Initial packets it sends, unless a Retry replaces the
//# token with a newer one.
//= specs/rfc9000.txt#section-8.1.3
//= type=test
//# The client MUST NOT use the token provided in a Retry for future connections.
#[test]
fn a_kept_token_goes_into_every_initial_packet_until_a_retry_replaces_it() {
    let store = Arc::new(TokenMemoryStore::default());
    store.insert("elsewhere", Bytes::from_static(b"another server's"));
    store.insert("localhost", Bytes::from_static(b"kept"));
    let mut client = Client::with(store.clone());
    let first = client.next(None).unwrap();
    assert_eq!(first.token, b"kept");
    client.now = client.connection.poll_timeout().unwrap();
    client.connection.handle_timeout(client.now);
    assert_eq!(client.next(None).unwrap().token, b"kept");
    while client.next(None).is_some() {}
    let server = ConnectionId::new(&[9; 8]);
    client.receive(&retry(&first, &server, b"of the Retry"));
    assert_eq!(client.next(None).unwrap().token, b"of the Retry");
    assert_eq!(store.take("localhost"), None);
    // A store that is not ours may hold what leaves no room in an Initial packet.
    store.insert(
        "localhost",
        Bytes::from(vec![1; limits::MAX_RETRY_TOKEN + 1]),
    );
    let mut client = Client::with(store);
    assert_eq!(client.next(None).unwrap().token, b"");
}

#[test]
fn what_is_no_answer_to_the_first_packet_is_dropped() {
    let server = ConnectionId::new(&[9; 8]);
    let mut client = Client::new();
    let first = client.next(None).unwrap();
    // Another tag, our own ID, a token that leaves no room.
    let mut forged = retry(&first, &server, b"token");
    *forged.last_mut().unwrap() ^= 1;
    client.receive(&forged);
    client.receive(&retry(&first, &first.dcid, b"token"));
    client.receive(&retry(&first, &server, &[0; 1100]));
    assert!(client.next(None).is_none());
    assert!(client.connection.handshake.initial_token().is_empty());
    // The right one is still heard.
    client.receive(&retry(&first, &server, b"token"));
    assert!(client.next(None).is_some());
}
