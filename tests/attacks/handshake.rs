//! Attacks before and during the handshake: CRYPTO frames, memory before keys, what is cut off, what belongs nowhere.

use std::time::Duration;

use mpquic_hostile::duel::{Duel, from};
use mpquic_hostile::meter;
use mpquic_hostile::packet::parse_header;
use mpquic_hostile::params::{Params, id};
use mpquic_hostile::peer::{CID_LEN, Peer, Sealing, Space};
use mpquic_hostile::tls::{self, Identity};
use mpquic_hostile::victim::{Victim, client_address};
use mpquic_hostile::wire::Frame;
use mpquic_proto::PathStart;

use super::*;

#[test]
fn crypto_out_of_order() {
    // One byte far away.
    for space in [Space::Initial, Space::Handshake, Space::Data(0)] {
        let mut duel = Duel::with_server(quiet(), Params::generous(Some(7)));
        let hello = duel.peer.flight();
        if space == Space::Initial {
            // The first packet has it: nothing is kept of the client.
            let far = [
                Frame::Crypto {
                    offset: 1 << 20,
                    data: vec![1],
                },
                Frame::Padding(1150),
            ];
            duel.send_as(space, &far, &Sealing::default());
            assert_eq!(duel.victim.endpoint.open_connections(), 0);
            assert_eq!(duel.victim.accept_errors.len(), 1);
            continue;
        }
        for datagram in hello {
            duel.deliver(&datagram);
        }
        duel.collect();
        if let Space::Data(_) = space {
            duel.connect();
        }
        duel.send_as(
            space,
            &[Frame::Crypto {
                offset: 1 << 20,
                data: vec![1],
            }],
            &Sealing::default(),
        );
        assert_eq!(duel.error(), CRYPTO_BUFFER_EXCEEDED, "{space:?}");
    }
    // One byte at every second offset: the cap on gaps ends it, and what was held is bounded.
    for space in [Space::Handshake, Space::Data(0)] {
        let mut duel = begun();
        if let Space::Data(_) = space {
            duel.connect();
        }
        let before = meter::reading().held;
        meter::reset_peak();
        let mut frames = 0;
        while duel.alive() && frames < 2000 {
            frames += 1;
            duel.send_as(
                space,
                &[Frame::Crypto {
                    offset: 100 + 2 * frames,
                    data: vec![1],
                }],
                &Sealing::default(),
            );
        }
        assert_eq!(duel.error(), CRYPTO_BUFFER_EXCEEDED);
        figure(
            "out-of-order CRYPTO",
            "one-byte frames until the end",
            frames,
            200,
        );
        growth(
            "out-of-order CRYPTO",
            "bytes held at most meanwhile",
            before,
            meter::reading().peak,
            48 * 1024,
        );
    }
    // The last byte that may be: what is held is what came, not the gap before it.
    let mut duel = multipath();
    let before = meter::reading().held;
    duel.send(&[Frame::Crypto {
        offset: 65_000,
        data: vec![1],
    }]);
    assert!(duel.alive(), "{:?}", duel.reason());
    growth(
        "out-of-order CRYPTO",
        "bytes held for one byte at 65,000",
        before,
        meter::reading().held,
        2048,
    );
}

/// CVE-2025-54939: packets behind the first, to other connection IDs.
#[test]
fn coalesced_with_other_connection_ids() {
    let mut victim = Victim::server(&Identity::generate(), quiet());
    let mut peer = client(1);
    let hello = peer.flight();
    let tuple = from(client_address(1));
    for datagram in &hello {
        victim.deliver(tuple, None, datagram);
    }
    victim.sent.clear();
    let before = meter::reading().held;
    for stranger in 0..2000u32 {
        let ping = [Frame::Ping, Frame::Padding(700)];
        let mut datagram = peer.seal(Space::Initial, &ping).unwrap();
        let dcid = Some([b"stranger".as_slice(), &stranger.to_be_bytes()].concat());
        let other = Sealing {
            dcid,
            ..Sealing::default()
        };
        let payload = mpquic_hostile::wire::payload(&ping);
        datagram.extend(peer.seal_as(Space::Initial, &payload, &other).unwrap());
        victim.deliver(tuple, None, &datagram);
    }
    // RFC 9000 section 12.2: what comes behind, to another connection ID, is not processed. Here it would be an error.
    let ping = [Frame::Ping, Frame::Padding(700)];
    let mut datagram = peer.seal(Space::Initial, &ping).unwrap();
    let other = Sealing {
        dcid: Some(b"stranger".to_vec()),
        ..Sealing::default()
    };
    let wrong = mpquic_hostile::wire::payload(&[Frame::HandshakeDone, Frame::Padding(700)]);
    datagram.extend(peer.seal_as(Space::Initial, &wrong, &other).unwrap());
    victim.deliver(tuple, None, &datagram);
    figure(
        "coalesced with another DCID",
        "packets behind the first that are processed",
        u64::from(victim.connection().lost_reason().is_some()),
        0,
    );
    assert_eq!(victim.endpoint.open_connections(), 1);
    growth(
        "pre-handshake memory",
        "bytes held after 2,000 coalesced strangers",
        before,
        meter::reading().held,
        32_768,
    );
}

#[test]
fn packets_before_their_keys() {
    let mut duel = begun();
    let before = meter::reading().held;
    // The first one is authentic: the client's last flight is on its way. RFC 9001 section 5.7: the server has the keys,
    // and must not use them before TLS is complete.
    let last_flight = duel.peer.flight();
    let early = duel.peer.seal(Space::Data(0), &[Frame::Datagram(vec![1])]);
    duel.deliver(&early.unwrap());
    assert!(duel.victim.connection().datagrams().recv().is_none());
    // As large as can be, full ones, and many tiny ones; they open with no key.
    for (count, len) in [(30, 65_000), (1000, 1400), (5000, 30)] {
        for number in 0..count {
            let dcid = duel.peer.dcid(0).unwrap().cid.clone();
            let mut datagram = vec![0x43];
            datagram.extend_from_slice(&dcid);
            datagram.resize(len, number as u8);
            duel.deliver(&datagram);
        }
        growth(
            "undecryptable",
            &format!("bytes held of {count} x {len} before keys"),
            before,
            meter::reading().held,
            16_384,
        );
        assert_eq!(duel.victim.over_caps(), Vec::<String>::new());
    }
    for datagram in last_flight {
        duel.deliver(&datagram);
    }
    assert!(duel.victim.connection().datagrams().recv().is_some());
    // All of it is gone once the handshake is over.
    duel.connect();
    duel.victim.advance(Duration::from_secs(120));
    assert_eq!(duel.victim.endpoint.open_connections(), 0);
}

/// Every datagram of a handshake, cut off at every byte, in both roles: nothing breaks and the handshake goes on.
#[test]
fn datagrams_cut_off() {
    let mut cuts = 0;
    let mut duel = Duel::with_server(quiet(), Params::generous(Some(7)));
    for datagram in duel.peer.flight() {
        for len in 0..datagram.len() {
            duel.deliver(&datagram[..len]);
            cuts += 1;
        }
        assert_eq!(
            duel.victim.endpoint.open_connections(),
            0,
            "a cut packet is not authentic"
        );
        duel.deliver(&datagram);
    }
    duel.collect();
    for datagram in duel.peer.flight() {
        for len in 0..datagram.len() {
            duel.deliver(&datagram[..len]);
            cuts += 1;
        }
        duel.deliver(&datagram);
    }
    duel.connect();
    assert!(duel.alive(), "{:?}", duel.reason());
    let mut duel = Duel::with_client(quiet(), Params::generous(Some(7)));
    for _ in 0..3 {
        duel.collect();
        for datagram in duel.peer.flight() {
            for len in 0..datagram.len() {
                duel.deliver(&datagram[..len]);
                cuts += 1;
            }
            duel.deliver(&datagram);
        }
        duel.victim.advance(Duration::from_millis(10));
    }
    duel.connect();
    assert!(duel.alive() && cuts > 2000);
    // A Retry shorter than its tag (GHSA-hvhj-4r52-8568), and every other length.
    let mut duel = Duel::with_client(quiet(), Params::generous(Some(7)));
    duel.collect();
    let scid = duel.peer.handshake_dcid.clone();
    let mut retry = vec![0xf0, 0, 0, 0, 1, scid.len() as u8];
    retry.extend_from_slice(&scid);
    retry.extend_from_slice(&[4, 1, 2, 3, 4]);
    for len in 0..200 {
        let mut retry = retry.clone();
        retry.resize(retry.len() + len, 7);
        duel.deliver(&retry);
    }
    duel.connect();
    assert!(duel.alive(), "a Retry without a valid tag changes nothing");
    figure("truncation", "panics in thousands of cut datagrams", 0, 0);
}

/// Transport parameters cut off at every byte: the handshake ends with TRANSPORT_PARAMETER_ERROR or goes on.
#[test]
fn transport_parameters_cut_off() {
    let mut whole = Params::generous(Some(7));
    whole.set(id::MAX_ACK_DELAY, 25);
    let mut refused = 0;
    for position in 0..whole.0.len() {
        let (id, value) = whole.0[position].clone();
        for len in 0..value.len() {
            let mut params = whole.clone();
            params.set_bytes(id, &value[..len]);
            let mut duel = Duel::with_server(quiet(), params);
            for datagram in duel.peer.flight() {
                duel.deliver(&datagram);
            }
            let error = duel.victim.accept_errors.first();
            assert_eq!(
                mpquic_hostile::duel::own_error(error),
                TRANSPORT_PARAMETER_ERROR,
                "{id:#x}, {len} bytes"
            );
            assert_eq!(duel.victim.endpoint.open_connections(), 0);
            refused += 1;
        }
    }
    figure(
        "truncation",
        "parameters cut off and taken",
        whole.0.len() as u64 - refused.min(whole.0.len() as u64),
        0,
    );
}

/// RFC 10069, initial_max_path_id: not with connection IDs of no length.
#[test]
fn multipath_without_connection_ids() {
    let mut params = Params::generous(Some(7));
    params.set_bytes(id::INITIAL_SCID, b"");
    let mut victim = Victim::server(&Identity::generate(), quiet());
    let mut peer = Peer::client_without_cid(b"original", params, tls::credulous_client()).unwrap();
    for datagram in peer.flight() {
        victim.deliver(from(client_address(0)), None, &datagram);
    }
    let error = mpquic_hostile::duel::own_error(victim.accept_errors.first());
    assert!(
        error == PROTOCOL_VIOLATION || error == TRANSPORT_PARAMETER_ERROR,
        "{error:?}"
    );
    figure(
        "zero-length CID with multipath",
        "connections made",
        victim.endpoint.open_connections() as u64,
        0,
    );
}

/// Empty datagrams, tiny ones, and ones of other versions: little is done and little answered.
#[test]
fn datagrams_of_nothing() {
    let mut victim = Victim::server(&Identity::generate(), quiet());
    let before = meter::reading().held;
    for len in 0..40 {
        for first in [0, 0x40, 0x80, 0xc0, 0xff] {
            victim.deliver(from(client_address(len)), None, &vec![first; len as usize]);
        }
    }
    figure(
        "zero length",
        "bytes sent for datagrams of less than 40",
        victim.sent_in_all().bytes,
        0,
    );
    // Packets of a version that nobody knows, and Initials that begin a connection: well-formed, but too small.
    for len in 40..1200 {
        let mut unknown = vec![0xc0, 0x1a, 0x2a, 0x3a, 0x4a, 8];
        unknown.resize(len, 0);
        victim.deliver(from(client_address(7)), None, &unknown);
    }
    let ping = [Frame::Ping, Frame::Padding(1000)];
    let small = client(9).seal(Space::Initial, &ping).unwrap();
    assert!((1000..1200).contains(&small.len()));
    victim.deliver(from(client_address(9)), None, &small);
    figure(
        "zero length",
        "bytes sent for first packets of less than 1,200",
        victim.sent_in_all().bytes,
        0,
    );
    assert!(victim.accept_errors.is_empty(), "it was not looked at");
    growth(
        "zero length",
        "bytes held after them",
        before,
        meter::reading().held,
        1024,
    );
    for sent in &victim.sent {
        assert!(
            parse_header(&sent.data, CID_LEN)
                .is_none_or(|header| !format!("{header:?}").contains("Versions"))
        );
    }
}

/// RFC 9000 section 10.3.3: resets are shorter than what they answer, so two endpoints end; and they are rationed.
#[test]
fn reset_loops() {
    let mut one = Victim::server(&Identity::generate(), quiet());
    let mut other = Victim::server(&Identity::generate(), quiet());
    one.deliver(from(client_address(0)), None, &[0x55; 1200]);
    let mut turns = 0;
    while let Some(sent) = one.sent.pop() {
        turns += 1;
        other.deliver(from(client_address(0)), None, &sent.data);
        std::mem::swap(&mut one, &mut other);
    }
    figure(
        "stateless reset loop",
        "datagrams until two endpoints are silent",
        turns,
        1200,
    );
    let mut victim = Victim::server(&Identity::generate(), quiet());
    let before = victim.sent_in_all();
    for who in 0..5000 {
        let mut datagram = vec![0x41; 43];
        datagram[1..5].copy_from_slice(&u32::to_be_bytes(who));
        victim.deliver(from(client_address(who)), None, &datagram);
        let last = victim.sent.pop();
        assert!(
            last.is_none_or(|sent| sent.data.len() < 43),
            "no longer than what it answers"
        );
    }
    let sent = victim.sent_in_all().datagrams - before.datagrams;
    figure(
        "stateless reset flood",
        "resets sent for 5,000 packets at once",
        sent,
        500,
    );
}

/// NCC: connection IDs of a peer are never hashed without a key. Nobody counts probes of a map from outside, so the
/// sources are searched for hashers that take none.
#[test]
fn no_unkeyed_hash() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../crates");
    let mut found = Vec::new();
    let mut files = 0;
    let mut folders = vec![std::path::PathBuf::from(root)];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|ext| ext == "rs") {
                files += 1;
                let text = std::fs::read_to_string(&path).unwrap();
                for hasher in [
                    "FxHash",
                    "FxBuild",
                    "FnvHash",
                    "FnvBuild",
                    "BuildHasherDefault",
                    "AHash",
                    "XxHash",
                ] {
                    if text.contains(hasher) {
                        found.push(format!("{hasher} in {}", path.display()));
                    }
                }
            }
        }
    }
    assert!(files > 100 && found.is_empty(), "{found:?}");
    figure(
        "HashDoS",
        "hashers without a key in the sources",
        found.len() as u64,
        0,
    );
}

/// RFC 9000 section 14.1: small Initial packets of a client do nothing, on connections neither.
#[test]
fn small_initial_packets() {
    let mut duel = begun();
    let before = duel.victim.connection().stats();
    for _ in 0..100 {
        duel.send_as(Space::Initial, &[Frame::Ping], &Sealing::default());
    }
    duel.victim.flush();
    let after = duel.victim.connection().stats();
    assert_eq!(before.undecryptable_packets, after.undecryptable_packets);
    let acks = duel
        .frames()
        .iter()
        .filter(|frame| matches!(frame, Frame::Ack { .. }))
        .count();
    figure(
        "small Initial packets",
        "acknowledgements of 100 small Initials",
        acks as u64,
        0,
    );
}

/// Connection IDs of further paths that a server issues to whoever sends one datagram, and packets on those paths that it
/// keeps for a Finished that never comes.
#[test]
fn paths_of_half_open_connections() {
    const COUNT: u32 = 64;
    let held = |start| {
        let mut transport = quiet();
        transport.path_start(start);
        let mut victim = Victim::server(&Identity::generate(), transport);
        let hellos: Vec<_> = (0..COUNT).map(|who| client(who).flight()).collect();
        let before = meter::reading().held;
        for (who, hello) in hellos.iter().enumerate() {
            for datagram in hello {
                victim.deliver(from(client_address(who as u32)), None, datagram);
            }
        }
        assert_eq!(victim.endpoint.half_open().connections, COUNT as usize);
        victim.sent.clear();
        meter::reading().held - before
    };
    let [confirmed, complete] = [PathStart::Confirmed, PathStart::Complete].map(held);
    assert!(
        complete > confirmed,
        "{complete}, {confirmed}: none is issued early"
    );
    growth(
        "half-open connections",
        "bytes held for the connection IDs of further paths, each",
        confirmed / i64::from(COUNT),
        complete / i64::from(COUNT),
        4096,
    );
    let mut duel = begun();
    let before = meter::reading().held;
    let mut sent = 0;
    for path in 1..=7 {
        for _ in 0..100 {
            sent += u64::from(duel.send_on(path, &[Frame::Ping, Frame::Padding(1150)]));
        }
    }
    assert!(sent >= 300, "{sent} packets");
    growth(
        "half-open connections",
        "bytes held of 300 packets on paths before the Finished",
        before,
        meter::reading().held,
        32_768,
    );
    assert_eq!(duel.victim.over_caps(), Vec::<String>::new());
}
