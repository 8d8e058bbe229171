//! Tests of address validation at the endpoint: Retry, tokens that count and that do not, what they cost.

use std::time::Duration;

use mpquic_wire::ConnectionClose;
use mpquic_wire::crypto::{Keys, open_long};
use mpquic_wire::frame::{Frame, FrameIter};
use mpquic_wire::packet::{
    PacketType, ProtectedPacket, decode_next, encode_long_header, patch_length, unprotect_header,
};
use proptest::prelude::*;

use super::tests::{Bench, CLIENT, path, shared_server};
use super::*;
use crate::cid::ResetKey;
use crate::crypto::{initial_keys, keys_derived};
use crate::handshake::AddressProof;

const SCID: [u8; 8] = [9; 8];

/// A client's Initial packet with a token: whole, as far as one can see without keys.
pub(super) fn initial(dcid: &[u8], token: &[u8]) -> Vec<u8> {
    let mut buf = Vec::new();
    let (dcid, scid) = (ConnectionId::new(dcid), ConnectionId::new(&SCID));
    let ty = PacketType::Initial;
    let marks = encode_long_header(&mut buf, ty, Version::V1, &dcid, &scid, token, 0, 1);
    buf.resize(1200, 0xee);
    patch_length(&mut buf, &marks, 1200);
    buf
}

/// The same, sealed as a client would.
fn sealed_initial(dcid: &[u8], token: &[u8]) -> Vec<u8> {
    let mut buf = Vec::new();
    let (dcid, scid) = (ConnectionId::new(dcid), ConnectionId::new(&SCID));
    let ty = PacketType::Initial;
    let marks = encode_long_header(&mut buf, ty, Version::V1, &dcid, &scid, token, 0, 1);
    // With the AEAD's tag.
    buf.resize(1200 - 16, 0);
    let keys = initial_keys(Version::V1, &dcid, mpquic_sched_core::Side::Client);
    mpquic_wire::crypto::seal_long(&keys.local, &mut buf, &marks, 0).unwrap();
    assert_eq!(buf.len(), 1200);
    buf
}

/// Source connection ID and token of a Retry packet.
fn read_retry(packet: &[u8], original_dcid: &[u8]) -> (ConnectionId, Vec<u8>) {
    let original = ConnectionId::new(original_dcid);
    assert!(mpquic_wire::crypto::verify_retry_tag(
        Version::V1,
        &original,
        packet
    ));
    let Ok(ProtectedPacket::Retry {
        dcid, scid, token, ..
    }) = decode_next(packet, 8)
    else {
        panic!("no Retry packet");
    };
    assert_eq!(*dcid, SCID);
    (scid, packet[token].to_vec())
}

/// The code of a CONNECTION_CLOSE in an Initial packet that answers one to `dcid`.
fn close_code(packet: &[u8], dcid: &[u8]) -> TransportErrorCode {
    let mut packet = packet.to_vec();
    let Ok(ProtectedPacket::Long { pn_offset, .. }) = decode_next(&packet, 8) else {
        panic!("no Initial packet");
    };
    let Keys { remote, .. } = initial_keys(
        Version::V1,
        &ConnectionId::new(dcid),
        mpquic_sched_core::Side::Client,
    );
    let (_, number, len) = unprotect_header(&mut packet, pn_offset, &*remote.header).unwrap();
    let (header, payload) = packet.split_at_mut(pn_offset + len);
    let len = open_long(&remote, number, header, payload).unwrap();
    let frame = FrameIter::new(&payload[..len]).next().unwrap().unwrap();
    let Frame::ConnectionClose(ConnectionClose { error_code, .. }) = frame else {
        panic!("{frame:?}");
    };
    error_code
}

impl Bench {
    fn retry(&mut self, incoming: Incoming, dcid: &[u8]) -> (ConnectionId, Vec<u8>) {
        let mut buf = vec![1, 2, 3];
        let transmit = self.endpoint.retry(incoming, self.now, &mut buf).unwrap();
        assert_eq!(transmit.size, buf.len() - 3);
        // An answer must not be of use to somebody who sends from others' addresses.
        assert!(transmit.size < 200, "{}", transmit.size);
        read_retry(&buf[3..], dcid)
    }

    /// A token of a NEW_TOKEN frame for this IP.
    pub(super) fn token_for(&mut self, ip: &str) -> Vec<u8> {
        let ips = [ip.parse().unwrap()].into_iter().collect();
        self.endpoint
            .tokens
            .new_token(self.now, &mut self.endpoint.rng, ips)
    }
}

fn bench() -> Bench {
    Bench::with(Some(shared_server()))
}

//= specs/rfc9000.txt#section-8.1.3
//= type=test
//# When a server receives an Initial packet with an address validation token, it MUST attempt to
//# validate the token, unless it has already completed address validation.
//= specs/rfc9000.txt#section-8.1.3
//= type=test
//# If the validation succeeds, the server SHOULD then allow the handshake to proceed.
#[test]
fn a_retry_makes_the_client_come_back_with_its_address_proven() {
    let mut bench = bench();
    let first = bench.incoming(&initial(&[1; 8], &[])).unwrap();
    assert!(!first.remote_address_validated() && first.may_retry());
    let (scid, token) = bench.retry(first, &[1; 8]);
    //= specs/rfc9000.txt#section-17.2.5.1
    //= type=test
    //# This value MUST NOT be equal to the Destination Connection ID field of the packet sent by the
    //# client.
    assert_ne!(*scid, [1; 8]);
    bench.assert_none_waits();

    let second = bench.incoming(&initial(&scid, &token)).unwrap();
    assert!(second.remote_address_validated());
    let original_dcid = ConnectionId::new(&[1; 8]);
    assert_eq!(second.proof, AddressProof::Retry { original_dcid });
    //= specs/rfc9000.txt#section-8.1.2
    //= type=test
    //# In response to processing an Initial packet containing a token that was provided in a Retry
    //# packet, a server cannot send another Retry packet; it can only refuse the connection or permit
    //# it to proceed.
    assert!(!second.may_retry());
    let (now, mut buf) = (bench.now, Vec::new());
    let error = bench.endpoint.retry(second, now, &mut buf).unwrap_err();
    assert!(buf.is_empty());
    let second = error.into_incoming();
    assert!(second.remote_address_validated());
    // It still waits: its repeated Initials belong to it.
    assert_eq!(bench.endpoint.waiting.len(), 1);
    assert!(bench.handle(&initial(&scid, &token)).is_none());
    assert_eq!(bench.endpoint.forget(&second).unwrap().len(), 1);
    bench.assert_none_waits();
}

//= specs/rfc9000.txt#section-8.1.2
//= type=test
//# Instead, the server SHOULD immediately close (Section 10.2) the connection with an INVALID_TOKEN
//# error.
#[test]
fn a_retry_token_that_does_not_count_ends_the_attempt() {
    let mut bench = bench();
    let first = bench.incoming(&initial(&[1; 8], &[])).unwrap();
    let (scid, token) = bench.retry(first, &[1; 8]);
    let mut forged = token.clone();
    *forged.last_mut().unwrap() ^= 1;
    let foreign = {
        let mut config = EndpointConfig::new([5; 32]);
        config.token_key([6; 32]);
        let mut other = bench_with(config);
        let incoming = other.incoming(&initial(&[1; 8], &[])).unwrap();
        other.retry(incoming, &[1; 8]).1
    };
    // (What, sent from, to which ID, with which token.)
    let cases = [
        ("spoofed", "192.0.2.2:1111", *scid == SCID, &token),
        ("from another port", "192.0.2.1:1112", false, &token),
        ("to another ID", CLIENT, true, &token),
        ("forged", CLIENT, false, &forged),
        ("foreign", CLIENT, false, &foreign),
    ];
    for (what, from, other_id, token) in cases {
        let dcid = if other_id { &[3; 8][..] } else { &scid[..] };
        let event = bench.handle_from(from, &sealed_initial(dcid, token));
        assert!(matches!(event, Some(DatagramEvent::Response(_))), "{what}");
        let code = close_code(&bench.buf, dcid);
        assert_eq!(code, TransportErrorCode::INVALID_TOKEN, "{what}");
        bench.assert_none_waits();
    }
    // In time it counts; later it does not.
    let start = bench.now;
    bench.now = start + Duration::from_secs(15);
    let incoming = bench.incoming(&initial(&scid, &token)).unwrap();
    bench.endpoint.ignore(incoming);
    bench.now += Duration::from_millis(1);
    let late = sealed_initial(&scid, &token);
    let event = bench.handle(&late);
    assert!(
        matches!(event, Some(DatagramEvent::Response(_))),
        "too late"
    );
    // The answers are limited: they cost more than the packets that ask for them.
    let answered = (0..1000).filter(|_| bench.handle(&late).is_some());
    let answered = answered.count();
    assert!(answered <= 64, "{answered}");
}

/// A bit of the token is another one when the packet arrives. The client has a token that counts, and repeats the packet:
/// it must not be turned away.
//= specs/rfc9000.txt#section-8.1.2
//= type=test
//# If a server receives a client Initial that contains an invalid Retry token but is otherwise
//# valid, it knows the client will not accept another Retry token.
#[test]
fn a_retry_token_that_was_damaged_on_the_way_ends_nothing() {
    let mut bench = bench();
    let first = bench.incoming(&initial(&[1; 8], &[])).unwrap();
    let (scid, token) = bench.retry(first, &[1; 8]);
    let sealed = sealed_initial(&scid, &token);
    let start = sealed.windows(token.len()).position(|at| at == token);
    for bit in [0, 100, 8 * token.len() - 1] {
        let mut damaged = sealed.clone();
        damaged[start.unwrap() + bit / 8] ^= 1 << (bit % 8);
        let event = bench.handle(&damaged);
        // A token of another kind counts for nothing, and is answered by a Retry packet, or waits.
        if let Some(DatagramEvent::NewConnection(incoming)) = event {
            bench.endpoint.ignore(incoming);
            continue;
        }
        assert!(event.is_none(), "{bit}: {event:?}");
    }
    let incoming = bench.incoming(&sealed).unwrap();
    assert!(incoming.remote_address_validated());
}

fn bench_with(config: EndpointConfig) -> Bench {
    let mut bench = bench();
    bench.endpoint = Endpoint::new(Arc::new(config), Some(shared_server()));
    bench
}

//= specs/rfc9000.txt#section-8.1.3
//= type=test
//# If the token is invalid, then the server SHOULD proceed as if the client did not have a validated
//# address, including potentially sending a Retry packet.
//= specs/rfc9000.txt#section-8.1.4
//= type=test
//# If the client IP address has changed, the server MUST adhere to the anti-amplification limit; see
//# Section 8.
//= specs/rfc9000.txt#section-8.1.4
//= type=test
//# To protect against such attacks, servers MUST ensure that replay of tokens is prevented or
//# limited.
#[test]
fn a_token_of_an_earlier_connection_counts_once_and_from_its_ip() {
    let mut config = ServerConfig::new(shared_server().tls.clone()).unwrap();
    config.max_incoming(10);
    let mut bench = Bench::with(Some(Arc::new(config)));
    let token = bench.token_for("192.0.2.1");
    let mut forged = token.clone();
    *forged.last_mut().unwrap() ^= 1;
    let mut validated = |from: &str, token: &[u8]| {
        let event = bench.handle_from(from, &initial(&[1; 8], token));
        let Some(DatagramEvent::NewConnection(incoming)) = event else {
            panic!("{event:?}");
        };
        let validated = incoming.remote_address_validated();
        assert!(incoming.may_retry());
        bench.endpoint.ignore(incoming);
        validated
    };
    assert!(!validated("192.0.2.2:1111", &token), "another IP");
    assert!(!validated(CLIENT, &forged));
    assert!(!validated(CLIENT, b"of another implementation"));
    assert!(validated("192.0.2.1:9", &token), "the port does not matter");
    assert!(!validated("192.0.2.1:9", &token), "it was used");
    bench.assert_none_waits();
}

#[test]
fn keys_are_separate_and_can_be_given() {
    // By default, from the seed, and not the same for both uses.
    let of = |config: EndpointConfig| Endpoint::new(Arc::new(config), None);
    let id = ConnectionId::new(&[1; 8]);
    let seeded = of(EndpointConfig::new([5; 32]));
    let mut given = EndpointConfig::new([5; 32]);
    given.reset_key([7; 32]).token_key([8; 32]);
    let given = of(given);
    assert_eq!(
        given.reset_key.token(&id),
        ResetKey::new(&[7; 32]).token(&id)
    );
    assert_ne!(given.reset_key.token(&id), seeded.reset_key.token(&id));

    // Two processes with other seeds and the same keys understand each other's tokens.
    let now = Instant::now();
    let process = |seed: u8| {
        let mut config = EndpointConfig::new([seed; 32]);
        config
            .token_key([8; 32])
            .clock(now, Duration::from_secs(1 << 30));
        let mut bench = bench_with(config);
        bench.now = now;
        bench
    };
    let (mut a, mut b) = (process(1), process(2));
    let first = a.incoming(&initial(&[1; 8], &[])).unwrap();
    let (scid, token) = a.retry(first, &[1; 8]);
    let second = b.incoming(&initial(&scid, &token)).unwrap();
    assert!(second.remote_address_validated());
    b.endpoint.ignore(second);

    // Keys rotate at run time: one more time is fine, a second time is not.
    b.endpoint.rotate_token_key([9; 32]);
    let second = b.incoming(&initial(&scid, &token)).unwrap();
    b.endpoint.ignore(second);
    b.endpoint.rotate_token_key([10; 32]);
    assert!(b.response(&sealed_initial(&scid, &token)).is_some());
}

/// What an Initial packet costs that comes to nothing.
#[test]
fn no_key_is_derived_for_what_is_dropped() {
    let mut config = ServerConfig::new(shared_server().tls.clone()).unwrap();
    config.max_incoming(3);
    let mut bench = Bench::with(Some(Arc::new(config)));
    let (retry, new) = {
        let incoming = bench.incoming(&initial(&[200; 8], &[])).unwrap();
        (
            bench.retry(incoming, &[200; 8]).1,
            bench.token_for("192.0.2.1"),
        )
    };
    let waiting: Vec<_> = (0..3)
        .map(|n| bench.incoming(&initial(&[n; 8], &[])).unwrap())
        .collect();
    let before = keys_derived();
    for n in 10..110 {
        for token in [&[][..], &retry, &new] {
            assert!(bench.handle(&initial(&[n; 8], token)).is_none());
        }
    }
    assert_eq!(keys_derived(), before, "full: nothing is looked at");
    for incoming in waiting {
        bench.endpoint.ignore(incoming);
    }
    // With room: a key for a token, none without.
    let incoming = bench.incoming(&initial(&[1; 8], &[])).unwrap();
    assert_eq!(keys_derived(), before);
    bench.endpoint.ignore(incoming);
    let incoming = bench.incoming(&initial(&[1; 8], &new)).unwrap();
    assert_eq!(keys_derived(), before + 1);
    bench.endpoint.ignore(incoming);
}

/// Many send first packets from addresses that are not theirs. The honest client is told to prove its address, and
/// gets in.
#[test]
fn above_the_threshold_clients_prove_their_address_first() {
    let mut config = (*shared_server()).clone();
    config.retry_above(5).max_half_open(8).max_incoming(100);
    let mut bench = Bench::with(Some(Arc::new(config)));
    let kept: Vec<_> = (0..5)
        .map(|n| bench.incoming(&initial(&[n; 8], &[])).unwrap())
        .collect();
    let before = keys_derived();
    for n in 10..200 {
        let answer = bench.response(&initial(&[n; 8], &[])).unwrap();
        read_retry(&answer, &[n; 8]);
    }
    assert_eq!(keys_derived(), before + 190, "one for each token");
    assert_eq!(bench.endpoint.half_open().connections, 5, "nothing is kept");

    let answer = bench.response(&initial(&[200; 8], &[])).unwrap();
    let (scid, token) = read_retry(&answer, &[200; 8]);
    let honest = bench.incoming(&initial(&scid, &token)).unwrap();
    assert!(honest.remote_address_validated());
    // Nor does a client need it that was here before.
    let token = bench.token_for("192.0.2.1");
    let known = bench.incoming(&initial(&[201; 8], &token)).unwrap();
    assert!(known.remote_address_validated());
    // A token that does not count is none.
    let answer = bench.response(&initial(&[202; 8], &token)).unwrap();
    read_retry(&answer, &[202; 8]);

    // The second budget: beyond it, nobody gets an answer, and nothing is computed.
    let token = bench.token_for("192.0.2.1");
    let last = bench.incoming(&initial(&[203; 8], &token)).unwrap();
    let before = keys_derived();
    for n in 10..200 {
        assert!(bench.handle(&initial(&[n; 8], &[])).is_none());
        assert!(bench.handle(&initial(&[n; 8], &token)).is_none());
    }
    assert_eq!(keys_derived(), before);
    // Both budgets are free again.
    for incoming in kept.into_iter().chain([honest, known, last]) {
        bench.endpoint.ignore(incoming);
    }
    let incoming = bench.incoming(&initial(&[1; 8], &[])).unwrap();
    assert!(!incoming.remote_address_validated());
    bench.endpoint.ignore(incoming);
    bench.assert_none_waits();
}

proptest! {
    /// No token makes a panic, or an answer larger than a tenth of the packet that it came in.
    #[test]
    fn any_token(mut token in prop::collection::vec(any::<u8>(), 0..900), kind in 0..3_u8) {
        if let (1..3, Some(first)) = (kind, token.first_mut()) {
            *first = [0xb5, 0x3a][usize::from(kind) - 1];
        }
        let mut bench = bench();
        match bench.handle(&sealed_initial(&[1; 8], &token)) {
            Some(DatagramEvent::NewConnection(incoming)) => {
                prop_assert!(!incoming.remote_address_validated());
                bench.endpoint.ignore(incoming);
            }
            Some(DatagramEvent::Response(transmit)) => {
                prop_assert!(token.first() == Some(&0xb5) && transmit.size < 120);
            }
            other => prop_assert!(false, "{:?}", other),
        }
        bench.assert_none_waits();
    }
}

/// What can be done with a client that wants to connect.
#[derive(Debug, Clone, Copy)]
enum Choice {
    Accept,
    Refuse,
    Retry,
    Ignore,
}

const CHOICES: [Choice; 4] = [
    Choice::Accept,
    Choice::Refuse,
    Choice::Retry,
    Choice::Ignore,
];

/// CVE-2024-45311: the first packet of a client comes again and again, before and after each choice, in every
/// order of choices. Nothing panics, one connection at most is there at a time, and nothing is left in the end.
#[test]
fn a_repeated_initial_after_every_choice() {
    let tls = shared_server();
    let roots = rustls::RootCertStore::empty();
    let config = ClientConfig::with_root_certificates(roots).unwrap();
    for number in 0..4_u32.pow(3) * 8 {
        let mut bench = Bench::with(Some(Arc::clone(&tls)));
        let mut client = Endpoint::new(Arc::new(EndpointConfig::new([4; 32])), None);
        let server = path("192.0.2.9:4433");
        let connected = client.connect(bench.now, config.clone(), server, "localhost");
        let (_, mut client) = connected.unwrap();
        let mut datagram = Vec::new();
        let transmit = client.poll_transmit(bench.now, 1, &mut datagram);
        assert!(transmit.is_some());
        let mut accepted = Vec::new();
        let (mut retried, mut refused) = (0, false);
        for step in 0..3 {
            let choice = CHOICES[(number / 4_u32.pow(step) % 4) as usize];
            let Some(event) = bench.handle(&datagram) else {
                continue;
            };
            let incoming = match event {
                DatagramEvent::NewConnection(incoming) => incoming,
                // A connection has it, which was accepted.
                DatagramEvent::ConnectionEvent(..) => {
                    assert!(!accepted.is_empty());
                    continue;
                }
                // It hears again that it was refused.
                DatagramEvent::Response(_) => {
                    assert!(refused);
                    continue;
                }
                DatagramEvent::Forward(..) | DatagramEvent::Queued => {
                    panic!("there are no shards, and no queue")
                }
            };
            if number / 64 / 2_u32.pow(step) % 2 == 1 {
                assert!(bench.handle(&datagram).is_none(), "it waits already");
            }
            let (now, mut buf) = (bench.now, Vec::new());
            match choice {
                Choice::Accept => {
                    let made = bench.endpoint.accept(incoming, now, &mut buf, None);
                    accepted.push(made.unwrap().0);
                }
                Choice::Refuse => {
                    assert!(bench.endpoint.refuse(incoming, &mut buf).size > 0);
                    refused = true;
                }
                Choice::Retry => {
                    assert!(bench.endpoint.retry(incoming, now, &mut buf).is_ok());
                    retried += 1;
                }
                Choice::Ignore => bench.endpoint.ignore(incoming),
            }
        }
        assert!(accepted.len() <= 1 && retried <= 3);
        for handle in accepted {
            bench.tell(handle, EndpointEvent::Drained);
        }
        bench.assert_none_waits();
    }
}
