//! Before a connection is complete: versions, tokens, transport parameters, levels of encryption, and who is answered how much.

use std::sync::Arc;
use std::time::Duration;

use mpquic_hostile::duel::{from, own_error};
use mpquic_hostile::meter;
use mpquic_hostile::packet::{Header, parse_header};
use mpquic_hostile::params::{Params, id};
use mpquic_hostile::peer::{CID_LEN, Peer, Sealing, Space};
use mpquic_hostile::tls::{self, Identity};
use mpquic_hostile::victim::{Admission, Victim, client_address};
use mpquic_hostile::wire::Frame;
use mpquic_proto::{AckFrequencyConfig, Dir, ServerConfig};
use ring::aead;

use super::*;

/// A client that has not sent anything.
fn client(who: u32) -> Peer {
    let dcid = [b"first".as_slice(), &who.to_be_bytes()].concat();
    let params = Params::generous(Some(7));
    Peer::client(who, &dcid, params, tls::credulous_client()).unwrap()
}

/// A server that has answered a client's first flight, and the client, which has the answer.
fn begun() -> Duel {
    let mut duel = Duel::with_server(quiet(), Params::generous(Some(7)));
    for datagram in duel.peer.flight() {
        duel.deliver(&datagram);
    }
    duel.collect();
    duel
}

/// quinn 0.11.18: Version Negotiation for datagrams that are too small (RFC 9000 section 6.1), which would make one byte many.
#[test]
fn quinn_0_11_18_version_negotiation_for_small_datagrams() {
    let mut victim = Victim::server(&Identity::generate(), quiet());
    let unknown = |len| {
        let mut datagram = vec![0xc0, 0x1a, 0x2a, 0x3a, 0x4a, 8];
        datagram.resize(len, 0);
        datagram
    };
    for len in (7..1200).step_by(17).chain([1199]) {
        victim.deliver(from(client_address(0)), None, &unknown(len));
    }
    let sent = victim.sent_in_all().datagrams as f64;
    let what = "datagrams out for 72 of less than 1,200 bytes";
    figure("quinn 0.11.18", what, sent, 0.0);
    victim.deliver(from(client_address(0)), None, &unknown(1200));
    let answer = victim.sent.pop().map(|sent| sent.data).unwrap_or_default();
    let header = parse_header(&answer, CID_LEN);
    assert!(matches!(header, Some(Header::Versions(_))), "{header:?}");
    let what = "bytes out for one of 1,200";
    figure("quinn 0.11.18", what, answer.len() as f64, 100.0);
}

/// quinn 0.11.18: a least delay of acknowledgements (QUIC Acknowledgment Frequency, section 3) that is above the round trip, up to the
/// largest: bounds that cross are no reason to panic; above max_ack_delay, it is an error.
#[test]
fn quinn_0_11_18_least_delay_above_the_round_trip() {
    const MIN_ACK_DELAY: u64 = 0xff04_de1b;
    for (delay, min, allowed) in [
        (25, 25_000, true),
        (25, 25_001, false),
        ((1 << 14) - 1, 16_383_000, true),
        ((1 << 14) - 1, (1 << 62) - 1, false),
    ] {
        let mut params = Params::generous(Some(7));
        params.set(id::MAX_ACK_DELAY, delay).set(MIN_ACK_DELAY, min);
        let mut config = quiet();
        config.ack_frequency_config(Some(AckFrequencyConfig::default()));
        let mut duel = Duel::with_server(config, params);
        if !allowed {
            duel.exchange();
            let error = own_error(duel.victim.accept_errors.first());
            assert_eq!(error, TRANSPORT_PARAMETER_ERROR, "{min}");
            continue;
        }
        duel.connect();
        duel.open_path(1);
        duel.victim.run_app(|connection| {
            let id = connection.streams().open(Dir::Uni).unwrap();
            connection.send_stream(id).write(&[7; 100_000]).unwrap();
        });
        duel.settle();
        assert!(duel.alive(), "{min}: {:?}", duel.reason());
        let received =
            duel.peer.received(Space::Data(0)).count() + duel.peer.received(Space::Data(1)).count();
        assert!(received > 90, "{min}: {received} packets");
    }
}

/// quinn 0.11.18: a transport parameter whose length and integer disagree (RFC 9000 section 18, 7.4).
#[test]
fn quinn_0_11_18_parameters_whose_length_lies() {
    for id in [
        id::MAX_IDLE_TIMEOUT,
        id::INITIAL_MAX_DATA,
        id::INITIAL_MAX_STREAMS_UNI,
        id::ACTIVE_CID_LIMIT,
        id::MAX_DATAGRAM_FRAME_SIZE,
        id::INITIAL_MAX_PATH_ID,
    ] {
        // Cut off, nothing at all, a byte too many, and two integers.
        for value in [
            [0x44].as_slice(),
            &[],
            &[5, 0],
            &[0x80, 0, 0],
            &[0x40, 5, 0x40, 5],
        ] {
            let mut params = Params::generous(Some(7));
            params.set_bytes(id, value);
            let mut duel = Duel::with_server(quiet(), params.clone());
            duel.exchange();
            let error = own_error(duel.victim.accept_errors.first());
            assert_eq!(error, TRANSPORT_PARAMETER_ERROR, "{id:#x} {value:?}");
            let mut duel = Duel::with_client(quiet(), params);
            duel.exchange();
            duel.exchange();
            assert_eq!(duel.error(), TRANSPORT_PARAMETER_ERROR, "{id:#x} {value:?}");
        }
    }
}

/// quinn 0.11.18: another configuration of the server, or none, while handshakes are under way: those go on with what they began with.
#[test]
fn quinn_0_11_18_configuration_changed_in_mid_handshake() {
    for another in [false, true] {
        let mut duel = begun();
        let config = another.then(|| {
            let identity = Identity::generate();
            let chain = vec![identity.certificate.clone()];
            let mut config = ServerConfig::with_single_cert(chain, identity.key()).unwrap();
            config.max_half_open(0).max_connections(0);
            Arc::new(config)
        });
        duel.victim.endpoint.set_server_config(config);
        duel.connect();
        assert!(duel.alive() && duel.peer.confirmed);
    }
}

/// quinn 0.11.18: a client whose first packets all vanish, with packets larger than the least: it gives up after its time, and says so
/// a few times only (RFC 9002 section 6.2.1).
#[test]
fn quinn_0_11_18_black_hole_before_the_handshake() {
    let mut config = TransportConfig::default();
    config.initial_mtu(1452).unwrap();
    let mut duel = Duel::with_client(config, Params::generous(Some(7)));
    let before = meter::reading().held;
    for _ in 0..120 {
        duel.victim.advance(Duration::from_secs(1));
    }
    assert!(duel.victim.connections.is_empty(), "{:?}", duel.reason());
    let sent = duel.victim.sent_in_all().datagrams as f64;
    let what = "datagrams into a black hole before the handshake";
    figure("quinn 0.11.18", what, sent, 20.0);
    let held = (meter::reading().held - before) as f64;
    figure("quinn 0.11.18", "bytes held more at the end", held, 0.0);
}

/// A Retry packet with this token, as RFC 9001 section 5.8 seals it.
fn retry(first: &[u8], to: &[u8], from: &[u8], token: &[u8]) -> Vec<u8> {
    const KEY: [u8; 16] = [
        0xbe, 0x0c, 0x69, 0x0b, 0x9f, 0x66, 0x57, 0x5a, 0x1d, 0x76, 0x6b, 0x54, 0xe3, 0x68, 0xc8,
        0x4e,
    ];
    const NONCE: [u8; 12] = [
        0x46, 0x15, 0x99, 0xd3, 0x5d, 0x63, 0x2b, 0xf2, 0x23, 0x98, 0x25, 0xbb,
    ];
    let mut packet = vec![0xf0, 0, 0, 0, 1, to.len() as u8];
    packet.extend_from_slice(to);
    packet.push(from.len() as u8);
    packet.extend_from_slice(from);
    packet.extend_from_slice(token);
    let pseudo = [&[first.len() as u8], first, &packet].concat();
    let key = aead::LessSafeKey::new(aead::UnboundKey::new(&aead::AES_128_GCM, &KEY).unwrap());
    let nonce = aead::Nonce::assume_unique_for_key(NONCE);
    let tag = key.seal_in_place_separate_tag(nonce, aead::Aad::from(pseudo), &mut []);
    packet.extend_from_slice(tag.unwrap().as_ref());
    packet
}

/// quinn 0.11.19: a token in a Retry that leaves no room in an Initial packet. What fits is repeated, what does not is no Retry; never
/// a panic, and never a datagram that is larger than the first ones.
#[test]
fn quinn_0_11_19_retries_as_large_as_a_packet() {
    for size in [16, 900, 1000, 1024, 1025, 1085, 1100, 1150, 1300, 8000] {
        let mut duel = Duel::with_client(quiet(), Params::generous(Some(7)));
        let first = duel.victim.sent[0].data.clone();
        let Some(Header::Long { dcid, scid, .. }) = parse_header(&first, CID_LEN) else {
            panic!("no Initial");
        };
        duel.victim.sent.clear();
        let packet = retry(&dcid, &scid, b"retrying", &vec![9; size]);
        duel.deliver(&packet);
        duel.victim.advance(Duration::from_secs(2));
        assert!(duel.alive(), "{size}: {:?}", duel.reason());
        let taken = duel.victim.sent.iter().any(|sent| {
            matches!(parse_header(&sent.data, CID_LEN), Some(Header::Long { token, .. }) if token.len() == size)
        });
        assert_eq!(taken, size <= 1024, "{size}");
        for sent in &duel.victim.sent {
            assert_eq!(sent.data.len(), 1200, "{size}");
        }
    }
}

/// quinn 0.11.19: a connection ID that stays behind where TLS refuses what a client says.
#[test]
fn quinn_0_11_19_clients_that_tls_refuses() {
    let mut victim = Victim::server(&Identity::generate(), quiet());
    let (mut held, mut refused) = (Vec::new(), 0);
    for who in 0..900u32 {
        let mut peer = client(who);
        // A ClientHello of four bytes.
        let hello = Frame::Crypto {
            offset: 0,
            data: vec![1, 0, 0, 4, 9, 9, 9, 9],
        };
        let datagram = peer.seal(Space::Initial, &[hello, Frame::Padding(1150)]);
        victim.deliver(from(client_address(who)), None, &datagram.unwrap());
        victim.sent.clear();
        // Each error has a text of its own.
        refused += victim.accept_errors.len();
        meter::metered(|| victim.accept_errors.clear());
        if who == 299 || who == 899 {
            assert_eq!(victim.endpoint.open_connections(), 0);
            victim.advance(Duration::from_secs(20));
            held.push(meter::reading().held);
        }
    }
    assert_eq!(refused, 900);
    let grown = (held[1] - held[0]).max(0) as f64;
    let what = "bytes held more after 900 refusals than after 300";
    figure("quinn 0.11.19", what, grown, 65_536.0);
}

/// OpenSSL CVE-2026-14456: clients that nobody accepts.
#[test]
fn cve_2026_14456_clients_that_wait() {
    let mut victim = Victim::server_with(&Identity::generate(), quiet(), |config| {
        config.max_incoming(64).retry_above(usize::MAX);
    });
    victim.admission = Admission::Keep;
    let hellos: Vec<_> = (0..500).map(|who| client(who).flight()).collect();
    let before = meter::reading().held;
    for (who, hello) in hellos.iter().enumerate() {
        for datagram in hello {
            victim.deliver(from(client_address(who as u32)), None, datagram);
        }
    }
    let waiting = victim.incoming.len() as f64;
    figure("CVE-2026-14456", "clients that wait, of 500", waiting, 64.0);
    let held = (meter::reading().held - before) as f64 / 64.0;
    figure("CVE-2026-14456", "bytes held for each", held, 4096.0);
    // Whoever is accepted after all gets an answer or an end, and nothing stays.
    victim.advance(Duration::from_secs(30));
    while !victim.incoming.is_empty() {
        victim.accept_oldest();
    }
    victim.advance(Duration::from_secs(60));
    assert_eq!(victim.endpoint.open_connections(), 0);
    let held = (meter::reading().held - before) as f64;
    figure("CVE-2026-14456", "bytes held at the end", held, 65_536.0);
}

/// OpenSSL CVE-2026-18798: one Initial again and again, whatever was answered: one connection at most, and an end of it.
#[test]
fn cve_2026_18798_one_initial_again_and_again() {
    for admission in [
        Admission::Accept,
        Admission::Refuse,
        Admission::Ignore,
        Admission::Retry,
        Admission::Keep,
    ] {
        let mut victim = Victim::server(&Identity::generate(), quiet());
        victim.admission = admission;
        let hello = client(1).flight();
        for round in 0..200 {
            for datagram in &hello {
                victim.deliver(from(client_address(round % 3)), None, datagram);
            }
            let open = victim.connections.len() + victim.incoming.len();
            assert!(open <= 1, "{admission:?}: {open}");
        }
        victim.accept_oldest();
        let (out, came) = (
            victim.sent_in_all().bytes as f64,
            victim.received_from.values().map(|t| t.bytes).sum::<u64>() as f64,
        );
        let what = format!("bytes out per byte in, {admission:?}");
        figure("CVE-2026-18798", &what, out / came, 3.0);
        victim.advance(Duration::from_secs(60));
        assert_eq!(victim.endpoint.open_connections(), 0, "{admission:?}");
    }
}

/// OpenSSL CVE-2026-35191: packets that share a datagram count once for what may be sent to an address that is not validated (RFC 9000
/// section 8.1).
#[test]
fn cve_2026_35191_coalesced_packets() {
    let mut duel = Duel::with_server(quiet(), Params::generous(Some(7)));
    for datagram in duel.peer.flight() {
        duel.deliver(&datagram);
    }
    let mut datagram = Vec::new();
    while datagram.len() < 1200 {
        let small = [Frame::Ping, Frame::Padding(60)];
        datagram.extend(duel.peer.seal(Space::Initial, &small).unwrap());
    }
    duel.deliver(&datagram);
    let mut worst = 0.0f64;
    for _ in 0..200 {
        duel.victim.advance(Duration::from_millis(100));
        let remote = client_address(0);
        let sent = duel.victim.sent_to.get(&remote).map_or(0, |t| t.bytes);
        let came = duel.victim.received_from[&remote].bytes;
        worst = worst.max(sent as f64 / came as f64);
    }
    let what = "bytes out per byte in, ten packets in a datagram";
    figure("CVE-2026-35191", what, worst, 3.0);
    // It does send what it may: without the limit it would go on.
    assert!(worst > 1.5, "{worst}");
}

/// rustls CVE-2026-123613: messages of TLS at a level where they do not belong (RFC 9001 section 4.1.3), and a KeyUpdate, which QUIC
/// has not (section 6).
//= specs/rfc9001.txt#section-6
//= type=test
//# Endpoints MUST treat the receipt of a TLS KeyUpdate message as a connection error of
//# type 0x010a, equivalent to a fatal TLS alert of unexpected_message; see Section 4.8.
#[test]
fn cve_2026_123613_messages_at_the_wrong_level() {
    const UNEXPECTED_MESSAGE: Option<u64> = Some(0x10a);
    const DECODE_ERROR: Option<u64> = Some(0x132);
    let crypto = |data: &[u8]| Frame::Crypto {
        offset: 0,
        data: data.to_vec(),
    };
    // A ClientHello among the Handshake packets.
    let mut duel = begun();
    let hello = crypto(&[&[1, 0, 0, 40], [3; 40].as_slice()].concat());
    duel.send_as(Space::Handshake, &[hello], &Sealing::default());
    // Whether TLS looks first at what it is or at what it says.
    let error = duel.error();
    assert!(
        [UNEXPECTED_MESSAGE, DECODE_ERROR].contains(&error),
        "{error:?}"
    );
    // A Finished, a certificate and a KeyUpdate in 1-RTT packets.
    for message in [
        [&[20, 0, 0, 32], [3; 32].as_slice()].concat(),
        [&[11, 0, 0, 32], [0; 32].as_slice()].concat(),
        vec![24, 0, 0, 1, 0],
    ] {
        let mut duel = server();
        duel.send(&[crypto(&message)]);
        let error = duel.error();
        assert!(
            [UNEXPECTED_MESSAGE, DECODE_ERROR].contains(&error),
            "{message:?}: {error:?}"
        );
        assert!(message[0] != 24 || error == UNEXPECTED_MESSAGE);
    }
}

/// A server that asks for a certificate when the handshake is over (RFC 9001 section 4.4), or for new keys of TLS (section 6).
//= specs/rfc9001.txt#section-4.4
//= type=test
//# More specifically, servers MUST NOT send post-
//# handshake TLS CertificateRequest messages, and clients MUST treat
//# receipt of such messages as a connection error of type
//# PROTOCOL_VIOLATION.
#[test]
fn a_certificate_request_after_the_handshake() {
    // With the one extension that it must have, signature_algorithms (RFC 8446 section 4.3.2).
    let certificate_request = [13, 0, 0, 11, 0, 0, 8, 0, 13, 0, 4, 0, 2, 4, 3];
    for (message, error) in [
        (&certificate_request[..], PROTOCOL_VIOLATION),
        (&[24, 0, 0, 1, 0], Some(0x10a)),
    ] {
        let mut duel = Duel::established_client(quiet(), Params::generous(Some(7)));
        let frame = duel.peer.tls_message(message);
        duel.send(&[frame]);
        assert_eq!(duel.error(), error, "{message:?}: {:?}", duel.reason());
    }
}

/// noq 1.4: an application's close in an Initial or Handshake packet is refused (RFC 9000 section 12.5), in the first packet too.
#[test]
fn noq_1_4_application_close_in_an_initial() {
    let close = [
        Frame::Close {
            app: true,
            code: 7,
            reason: Vec::new(),
        },
        Frame::Padding(1150),
    ];
    for space in [Space::Initial, Space::Handshake] {
        let mut duel = begun();
        let mut datagram = duel.peer.seal(space, &close).unwrap();
        datagram.resize(datagram.len().max(1200), 0);
        duel.deliver(&datagram);
        assert_eq!(duel.error(), PROTOCOL_VIOLATION, "{space:?}");
    }
    let mut duel = Duel::with_server(quiet(), Params::generous(Some(7)));
    let datagram = duel.peer.seal(Space::Initial, &close).unwrap();
    duel.deliver(&datagram);
    assert_eq!(
        own_error(duel.victim.accept_errors.first()),
        PROTOCOL_VIOLATION
    );
}

/// noq 1.4: what an application says when it closes during the handshake stays with it (RFC 9000 section 10.2.3): APPLICATION_ERROR
/// without a reason.
//= specs/rfc9000.txt#section-12.5
//= type=test
//# CONNECTION_CLOSE frames signaling application errors (type 0x1d) MUST only appear in
//# the application data packet number space.
#[test]
fn noq_1_4_close_during_the_handshake() {
    for against_server in [true, false] {
        let mut duel = if against_server {
            begun()
        } else {
            Duel::with_client(quiet(), Params::generous(Some(7)))
        };
        duel.victim.sent.clear();
        let now = duel.victim.now;
        duel.victim
            .run_app(|connection| connection.close(now, 7u32.into(), "secret".into()));
        duel.victim.flush();
        let closes: Vec<_> = duel
            .frames()
            .into_iter()
            .filter(|frame| matches!(frame, Frame::Close { .. }))
            .collect();
        assert!(!closes.is_empty(), "server: {against_server}");
        for close in closes {
            let expected = Frame::Close {
                app: false,
                code: 0x0c,
                reason: Vec::new(),
            };
            assert_eq!(close, expected, "server: {against_server}");
        }
    }
}

/// noq 1.4: a packet behind another in one datagram, to a connection ID of a path that was never opened, opens none (RFC 9000 section
/// 12.2).
#[test]
fn noq_1_4_coalesced_packet_for_a_path_never_opened() {
    let mut duel = begun();
    duel.connect();
    let issue = [duel.peer.issue(3, 0), duel.peer.issue(3, 1)];
    duel.send(&issue);
    let mut datagram = duel.peer.seal(Space::Handshake, &[Frame::Ping]).unwrap();
    let challenge = [Frame::PathChallenge([3; 8]), Frame::Padding(1100)];
    datagram.extend(duel.peer.seal(Space::Data(3), &challenge).unwrap());
    duel.collect();
    duel.deliver(&datagram);
    let answered = duel.frames().contains(&Frame::PathResponse([3; 8]));
    let open = duel.victim.connection().paths().ids().count();
    assert!(duel.alive() && open == 1 && !answered, "{open} {answered}");
}

/// quinn, min_mtu and padding: datagrams with an Initial packet that must be acknowledged, and those with a challenge or its answer, are
/// 1,200 bytes (RFC 9000 section 14.1, 8.2.1, 8.2.2).
#[test]
fn quinn_padding_of_what_proves_a_path() {
    let initial = |data: &[u8]| data[0] & 0xf0 == 0xc0;
    let mut server_side = Duel::with_server(quiet(), Params::generous(Some(7)));
    for datagram in server_side.peer.flight() {
        server_side.deliver(&datagram);
    }
    let client_side = Duel::with_client(quiet(), Params::generous(Some(7)));
    let mut smallest = f64::MAX;
    for duel in [&server_side, &client_side] {
        let sizes = duel.victim.sent.iter().filter(|sent| initial(&sent.data));
        let sizes: Vec<_> = sizes.map(|sent| sent.data.len()).collect();
        assert!(!sizes.is_empty());
        smallest = smallest.min(*sizes.iter().min().unwrap() as f64);
    }
    let mut duel = server();
    let issue = [duel.peer.issue(1, 0), duel.peer.issue(1, 1)];
    duel.send(&issue);
    duel.settle();
    duel.send_on(1, &[Frame::PathChallenge([1; 8]), Frame::Padding(1150)]);
    let mut proofs = 0;
    for (_, opened) in duel.collect() {
        let proves =
            |frame: &Frame| matches!(frame, Frame::PathChallenge(_) | Frame::PathResponse(_));
        if opened.frames.iter().any(proves) {
            proofs += 1;
            smallest = smallest.min(opened.size as f64);
        }
    }
    assert!(proofs > 0);
    figure("quinn padding", "bytes below 1,200", 1200.0 - smallest, 0.0);
}

/// Q3Fuzz 11: handshake after handshake, each complete and closed: what is held does not grow.
#[test]
fn q3fuzz_11_handshakes_for_an_hour() {
    let mut victim = Victim::server(&Identity::generate(), quiet());
    victim.keep_events = false;
    let mut held = Vec::new();
    for who in 0..150u32 {
        let mut peer = client(who);
        let remote = client_address(who);
        victim.let_in(remote, &mut peer);
        let close = Frame::Close {
            app: true,
            code: 0,
            reason: Vec::new(),
        };
        let datagram = peer.seal(Space::Data(0), &[close]).unwrap();
        victim.deliver(from(remote), None, &datagram);
        victim.advance(Duration::from_millis(50));
        victim.sent.clear();
        if who == 49 || who == 149 {
            victim.advance(Duration::from_secs(20));
            assert_eq!(victim.endpoint.open_connections(), 0);
            held.push(meter::reading().held);
        }
    }
    let grown = (held[1] - held[0]).max(0) as f64;
    let what = "bytes held more after 150 handshakes than after 50";
    figure("Q3Fuzz 11", what, grown, 65_536.0);
}

/// ngtcp2 CVE-2026-40170: the peer's transport parameters in a log: the largest values, and many that nobody knows.
#[test]
fn cve_2026_40170_log_of_the_largest_parameters() {
    use std::io::Write;
    use std::sync::Mutex;

    #[derive(Clone)]
    struct Shared(Arc<Mutex<Vec<u8>>>);
    impl Write for Shared {
        fn write(&mut self, data: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(data);
            Ok(data.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    const LARGEST: u64 = (1 << 62) - 1;
    let mut params = Params::generous(Some((1 << 32) - 1));
    for id in [
        id::MAX_IDLE_TIMEOUT,
        id::INITIAL_MAX_DATA,
        id::INITIAL_MAX_STREAM_DATA_BIDI_LOCAL,
        id::INITIAL_MAX_STREAM_DATA_BIDI_REMOTE,
        id::INITIAL_MAX_STREAM_DATA_UNI,
        id::ACTIVE_CID_LIMIT,
        id::MAX_DATAGRAM_FRAME_SIZE,
        0x03,
    ] {
        params.set(id, LARGEST);
    }
    params
        .set(id::INITIAL_MAX_STREAMS_BIDI, 1 << 60)
        .set(id::INITIAL_MAX_STREAMS_UNI, 1 << 60)
        .set(id::MAX_ACK_DELAY, (1 << 14) - 1)
        .set(0x0a, 20);
    // Quotes, ends of lines, zeros, and bytes that are no text.
    for unknown in 0..8u64 {
        let value: Vec<u8> = (0..=255).cycle().take(300).collect();
        params.set_bytes(LARGEST - unknown, &value);
    }
    let log = Shared(Arc::default());
    let (to, now) = (log.clone(), std::time::Instant::now());
    let mut config = quiet();
    config.observer(move |_| {
        let to = to.clone();
        Some(mpquic_qlog::direct(now, move |_| Some(to)))
    });
    let duel = Duel::established(config, params);
    assert!(duel.alive());
    drop(duel);
    let text = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    let control = text.chars().filter(|c| c.is_control());
    let odd = control.filter(|c| !['\n', '\u{1e}'].contains(c)).count();
    figure(
        "CVE-2026-40170",
        "bytes in the log that are no text",
        odd as f64,
        0.0,
    );
    let records = text.split('\u{1e}').skip(1);
    let mut parameters = 0;
    for record in records {
        let record: serde_json::Value = serde_json::from_str(record).unwrap();
        let name = record["name"].as_str().unwrap_or_default();
        if name.ends_with("parameters_set") && record["data"]["initiator"] == "remote" {
            parameters += 1;
            let max = &record["data"]["initial_max_data"];
            assert!(max.to_string().contains(&LARGEST.to_string()), "{record}");
        }
    }
    assert_eq!(parameters, 1);
}

/// xquic CVE-2026-1788: CRYPTO frames without end that say the same: nothing is kept twice, and each costs the same (RFC 9000 section
/// 7.5).
#[test]
fn cve_2026_1788_crypto_without_end() {
    let mut duel = server();
    duel.victim.keep_events = false;
    let frames: Vec<_> = (0..100)
        .map(|piece| Frame::Crypto {
            offset: 10 + 3 * (piece % 50),
            data: vec![7; 2],
        })
        .collect();
    let before = meter::reading().held;
    let mut allocations = Vec::new();
    for packets in [10, 1000] {
        let begin = meter::reading().allocations;
        for _ in 0..packets {
            duel.send(&frames);
        }
        allocations.push((meter::reading().allocations - begin) as f64 / (100.0 * packets as f64));
    }
    assert!(duel.alive(), "{:?}", duel.reason());
    let what = "allocations per frame, 10^5 for 10^3";
    figure("CVE-2026-1788", what, allocations[1], allocations[0] + 0.1);
    let held = (meter::reading().held - before) as f64;
    figure("CVE-2026-1788", "bytes held after 101,000", held, 65_536.0);
}
