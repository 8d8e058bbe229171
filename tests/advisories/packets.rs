//! Packets, datagrams, acknowledgements, and frames where they do not belong.

use std::sync::Arc;
use std::time::Duration;

use mpquic_hostile::duel::from;
use mpquic_hostile::meter;
use mpquic_hostile::packet::{Header, parse_header};
use mpquic_hostile::params::{Params, id};
use mpquic_hostile::peer::{CID_LEN, Peer};
use mpquic_hostile::tls::{self, Identity};
use mpquic_hostile::victim::{Victim, client_address};
use mpquic_hostile::wire::Frame;
use mpquic_proto::{Dir, PathId, TokenMemoryStore, TokenStore};

use super::*;

/// quinn GHSA-2hv7-gw8g-gpq5: empty DATAGRAM frames that nobody reads count (RFC 9221 section 5.3 lets a receiver drop them).
#[test]
fn ghsa_2hv7_gw8g_gpq5_empty_datagrams() {
    let mut duel = server();
    duel.victim.keep_events = false;
    let held = |duel: &mut Duel, count| {
        for _ in 0..count {
            duel.send(&[Frame::Datagram(Vec::new())]);
        }
        meter::reading().held
    };
    let before = held(&mut duel, 100);
    let after = held(&mut duel, 100_000);
    assert!(duel.alive(), "{:?}", duel.reason());
    let what = "bytes held for 100,000 empty datagrams";
    // With the default buffer of a megabyte, each counts with what it costs to keep.
    figure("GHSA-2hv7-gw8g-gpq5", what, (after - before) as f64, 2e6);
}

/// OpenSSL CVE-2026-63075: what is kept of packets that carry acknowledgements only, while the peer acknowledges none of them (RFC 9000
/// section 13.2.4).
#[test]
fn cve_2026_63075_acks_that_nobody_acknowledges() {
    let mut duel = server();
    duel.open_path(1);
    duel.victim.keep_events = false;
    let held = |duel: &mut Duel, count: u64| {
        for _ in 0..count {
            for path in 0..2 {
                duel.send_on(path, &[Frame::Ping]);
            }
            duel.victim.flush();
            // Taken from the wire, and never answered.
            duel.collect();
        }
        meter::reading().held
    };
    let before = held(&mut duel, 500);
    let after = held(&mut duel, 20_000);
    assert!(duel.alive(), "{:?}", duel.reason());
    let what = "bytes held more after 40,000 PINGs on two paths";
    figure(
        "CVE-2026-63075",
        what,
        (after - before).max(0) as f64,
        65_536.0,
    );
}

/// OpenSSL CVE-2026-34183: PATH_CHALLENGE without end, on all paths: one answer each at most, and nothing is kept (RFC 9000 section
/// 8.2.2).
#[test]
fn cve_2026_34183_path_challenges() {
    let mut duel = server();
    duel.open_path(1);
    duel.victim.keep_events = false;
    let before = meter::reading().held;
    let (sent, mut received) = (duel.victim.sent_in_all().bytes, 0u64);
    for round in 0..500u64 {
        for path in 0..2 {
            // A hundred in a packet, as in Q3Fuzz 5.
            let challenge =
                |number: u64| Frame::PathChallenge((100 * round + number).to_be_bytes());
            let frames: Vec<_> = (0..100).map(challenge).collect();
            received += 900;
            duel.send_on(path, &frames);
        }
        duel.victim.flush();
        duel.collect();
    }
    assert!(duel.alive(), "{:?}", duel.reason());
    let out = (duel.victim.sent_in_all().bytes - sent) as f64;
    figure(
        "CVE-2026-34183",
        "bytes out per byte in",
        out / received as f64,
        1.5,
    );
    let held = (meter::reading().held - before).max(0) as f64;
    figure("CVE-2026-34183", "bytes held after 100,000", held, 65_536.0);
}

/// s2n-quic GHSA-9q54-f358-3fqf: CRYPTO at a high offset makes no buffer as large as the offset (RFC 9000 section 7.5).
#[test]
fn ghsa_9q54_f358_3fqf_crypto_at_a_high_offset() {
    for offset in [4000, 60_000, 9_000_000, (1 << 62) - 2] {
        let mut duel = server();
        let before = meter::reading().held;
        meter::reset_peak();
        duel.send(&[Frame::Crypto {
            offset,
            data: vec![7],
        }]);
        let peak = (meter::reading().peak - before).max(0) as f64;
        let what = format!("bytes held at most for CRYPTO at {offset}");
        figure("GHSA-9q54-f358-3fqf", &what, peak, 65_536.0);
    }
}

/// s2n-quic CVE-2026-94450: first packets to connection IDs that are too short or too long (RFC 9000 section 7.2: at least 8 bytes; 17.2:
/// at most 20), with Retry and without.
#[test]
fn cve_2026_94450_lengths_of_the_first_connection_id() {
    for retry in [false, true] {
        let mut victim = Victim::server_with(&Identity::generate(), quiet(), |config| {
            config.retry_above(if retry { 0 } else { usize::MAX });
        });
        for length in 0..8u8 {
            // A whole Initial, sealed with the keys that follow from so short an ID.
            let dcid = vec![5; usize::from(length)];
            let params = Params::generous(Some(7));
            let peer = Peer::client(9, &dcid, params, tls::credulous_client());
            for datagram in peer.unwrap().flight() {
                victim.deliver(from(client_address(length.into())), None, &datagram);
            }
        }
        assert_eq!(victim.proven.len(), 0, "retry: {retry}");
        for length in (0..8).chain([21, 255]) {
            // An Initial of version 1 with a token of no bytes; what follows is noise.
            let mut datagram = vec![0xc3, 0, 0, 0, 1, length];
            datagram.extend(std::iter::repeat_n(5, usize::from(length)));
            datagram.push(8);
            datagram.extend_from_slice(&[6; 8]);
            datagram.extend_from_slice(&[0, 0x44, 0x40]);
            datagram.resize(1200, 9);
            victim.deliver(from(client_address(length.into())), None, &datagram);
            victim.flush();
        }
        assert_eq!(victim.endpoint.open_connections(), 0, "retry: {retry}");
    }
}

/// s2n-quic 0.91: a token of no bytes is an error of the frame (RFC 9000 section 19.7), and a client must not send any.
#[test]
fn s2n_quic_0_91_tokens() {
    let mut duel = Duel::established_client(quiet(), Params::generous(Some(7)));
    duel.send(&[Frame::NewToken(Vec::new())]);
    assert_eq!(duel.error(), FRAME_ENCODING_ERROR);
    // Q3Fuzz 10.
    let mut duel = server();
    duel.send(&[Frame::NewToken(vec![7; 16])]);
    assert_eq!(duel.error(), PROTOCOL_VIOLATION);
}

/// quinn 0.11.19: tokens that leave no room in an Initial packet are no reason to panic: a client that was given one connects all the
/// same, with datagrams no larger than others (RFC 9000 section 14.1), and with a token that fits.
#[test]
fn quinn_0_11_19_tokens_as_large_as_a_packet() {
    for (size, used) in [(1000, true), (1024, true), (1025, false), (1150, false)] {
        let identity = Identity::generate();
        let store: Arc<dyn TokenStore> = Arc::new(TokenMemoryStore::default());
        let client = || {
            let store = Arc::clone(&store);
            let victim = Victim::client_with(&identity, quiet(), |config| {
                config.token_store(store);
            });
            let peer = Peer::server(8, Params::generous(Some(7)), tls::server(&identity));
            Duel {
                victim,
                peer,
                against_server: false,
                validated: [client_address(0)].into(),
            }
        };
        let mut duel = client();
        duel.connect();
        duel.send(&[Frame::NewToken(vec![7; size])]);
        assert!(duel.alive(), "{size}: {:?}", duel.reason());
        let again = client();
        let first = &again.victim.sent[0].data;
        assert_eq!(first.len(), 1200, "{size}");
        let Some(Header::Long { token, .. }) = parse_header(first, CID_LEN) else {
            panic!("no Initial");
        };
        assert_eq!(token.len(), if used { size } else { 0 });
    }
}

/// Q3Fuzz 1 and 6: what follows a CONNECTION_CLOSE in the same packet is nothing (RFC 9000 section 10.2.2).
#[test]
fn q3fuzz_01_a_stream_behind_the_close() {
    for app in [false, true] {
        let mut duel = server();
        let close = Frame::Close {
            app,
            code: 0,
            reason: Vec::new(),
        };
        duel.send(&[stream(0, 0, &[7; 10]), close, stream(4, 0, &[7; 10])]);
        assert!(!duel.alive());
        let opened = duel.victim.run_app(|connection| {
            let mut streams = connection.streams();
            std::iter::from_fn(|| streams.accept(Dir::Bi)).count()
        });
        assert_eq!(opened, 1, "of what came before the close");
        duel.victim.advance(Duration::from_secs(10));
        assert_eq!(duel.victim.endpoint.open_connections(), 0);
    }
}

/// Q3Fuzz 7: RESET_STREAM of a unidirectional stream and DATA_BLOCKED(1) are allowed, and change nothing.
#[test]
fn q3fuzz_07_reset_and_data_blocked() {
    let mut duel = server();
    duel.send(&[
        Frame::ResetStream {
            id: 2,
            code: 1,
            size: 0,
        },
        Frame::DataBlocked(1),
        Frame::StreamsBlocked {
            uni: true,
            max: 1 << 60,
        },
    ]);
    assert!(duel.alive(), "{:?}", duel.reason());
    // More streams than there can be (section 19.14).
    duel.send(&[Frame::StreamsBlocked {
        uni: true,
        max: (1 << 60) + 1,
    }]);
    let error = duel.error();
    assert!(
        [FRAME_ENCODING_ERROR, STREAM_LIMIT_ERROR].contains(&error),
        "{error:?}"
    );
}

/// Q3Fuzz 17: a limit that goes down is no limit (RFC 9000 section 4.1), and an answer that nobody asked for proves nothing.
#[test]
fn q3fuzz_17_less_credit_and_unasked_answers() {
    let mut params = Params::generous(Some(7));
    params.set(id::INITIAL_MAX_DATA, 5000);
    let mut duel = Duel::established(quiet(), params);
    for number in 0..2000u64 {
        duel.send(&[Frame::MaxData(0), Frame::PathResponse(number.to_be_bytes())]);
    }
    assert!(duel.alive(), "{:?}", duel.reason());
    duel.victim.sent.clear();
    duel.victim.run_app(|connection| {
        let id = connection.streams().open(Dir::Uni).unwrap();
        connection.send_stream(id).write(&[7; 4000]).unwrap();
    });
    duel.victim.flush();
    let came: usize = duel
        .frames()
        .iter()
        .map(|frame| match frame {
            Frame::Stream { data, .. } => data.len(),
            _ => 0,
        })
        .sum();
    assert_eq!(came, 4000);
    // From an address that has answered no challenge.
    let elsewhere = from(client_address(40));
    for number in 0..200u64 {
        let answer = Frame::PathResponse(number.to_be_bytes());
        duel.send_from(elsewhere, 0, &[answer, Frame::Ping, Frame::Padding(1100)]);
        let path = duel.victim.connection().path(PathId(0)).unwrap();
        let proven = path.is_validated() && path.network_path().remote == elsewhere.remote;
        assert!(!proven, "{:?}", path.network_path());
    }
}

/// quicly CVE-2025-61684: an ACK whose ranges reach below zero (RFC 9000 section 19.3.1).
#[test]
fn cve_2025_61684_ranges_below_zero() {
    for (largest, first, ranges) in [
        (5, 6, Vec::new()),
        (5, 0, vec![(5, 0)]),
        (5, 1, vec![(1, 3)]),
        ((1 << 62) - 1, 0, vec![(1 << 61, 1 << 61)]),
    ] {
        for path in [None, Some(0)] {
            let mut duel = server();
            duel.send(&[Frame::Ack {
                path,
                largest,
                delay: 0,
                first,
                ranges: ranges.clone(),
                ecn: None,
            }]);
            let error = duel.error();
            assert!(
                [FRAME_ENCODING_ERROR, PROTOCOL_VIOLATION].contains(&error),
                "{largest} {first} {ranges:?}: {error:?}"
            );
        }
    }
}

/// What OpenSSL CVE-2026-42772 and others are about: what a frame costs must not depend on how many came before. Ten kinds of frames, a
/// hundred in a packet: allocations for each at 10^3 and at 10^5.
#[test]
fn cost_of_a_frame_at_10_to_3_and_10_to_5() {
    type Make = fn(u64) -> Frame;
    let kinds: [(&str, Make); 10] = [
        ("PING", |_| Frame::Ping),
        ("MAX_DATA", |n| Frame::MaxData((1 << 41) + n)),
        ("MAX_STREAM_DATA", |n| Frame::MaxStreamData {
            id: 0,
            max: (1 << 41) + n,
        }),
        ("DATA_BLOCKED", Frame::DataBlocked),
        ("STREAM, the same byte", |_| stream(0, 5, &[7])),
        // Backwards over 50 streams, 2,000 pieces each.
        ("STREAM, reversed", |n| {
            stream(4 * (n / 2000 % 50), 2 * (2000 - n % 2000), &[7])
        }),
        ("RETIRE_CONNECTION_ID", |_| Frame::RetireCid {
            path: Some(1),
            seq: 0,
        }),
        ("PATH_STATUS", |n| Frame::PathStatus {
            path: 1,
            seq: n,
            backup: n.is_multiple_of(3),
        }),
        ("PATH_CHALLENGE", |n| Frame::PathChallenge(n.to_be_bytes())),
        ("MAX_PATH_ID", |n| Frame::MaxPathId(8 + n)),
    ];
    for (what, make) in kinds {
        let mut duel = server();
        duel.open_path(1);
        duel.victim.keep_events = false;
        duel.send(&[stream(0, 0, &[7])]);
        let mut costs = Vec::new();
        let mut number = 0;
        for packets in [10, 1000] {
            let begin = meter::reading().allocations;
            for packet in 0..packets {
                let frames: Vec<_> = (number..number + 100).map(make).collect();
                duel.send(&frames);
                number += 100;
                if packet % 20 == 19 {
                    let came = duel.collect();
                    duel.answer(&came);
                }
            }
            let count = meter::reading().allocations - begin;
            costs.push(count as f64 / (100.0 * f64::from(packets)));
        }
        assert!(duel.alive(), "{what}: {:?}", duel.reason());
        let what = format!("allocations for one {what}, 10^5 for 10^3");
        figure("cost of a frame", &what, costs[1], costs[0] + 0.1);
    }
}
