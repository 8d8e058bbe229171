//! Attacks before and during the handshake: floods of Initial packets, memory before keys, strange orders of answers.

use std::time::Duration;

use mpquic_hostile::duel::{Duel, from};
use mpquic_hostile::meter;
use mpquic_hostile::packet::parse_header;
use mpquic_hostile::params::{Params, id};
use mpquic_hostile::peer::{CID_LEN, Peer, Sealing, Space};
use mpquic_hostile::tls::{self, Identity};
use mpquic_hostile::victim::{Admission, Victim, client_address};
use mpquic_hostile::wire::Frame;

use super::*;

fn client(who: u32) -> Peer {
    let dcid = [b"first".as_slice(), &who.to_be_bytes()].concat();
    Peer::client(
        who,
        &dcid,
        Params::generous(Some(7)),
        tls::credulous_client(),
    )
    .unwrap()
}

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
    assert!(duel.victim.connection().recv_datagram().is_none());
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
    assert!(duel.victim.connection().recv_datagram().is_some());
    // All of it is gone once the handshake is over.
    duel.connect();
    duel.victim.advance(Duration::from_secs(120));
    assert_eq!(duel.victim.endpoint.open_connections(), 0);
}

/// Initial packets of clients that wait: as many as may, and nothing for those beyond.
#[test]
fn initial_flood() {
    let limit = 500;
    let mut victim = Victim::server_with(&Identity::generate(), quiet(), |config| {
        config.max_incoming(limit).retry_above(usize::MAX);
    });
    victim.admission = Admission::Keep;
    let before = meter::reading();
    let mut template = client(0).flight().remove(0);
    let flood = |victim: &mut Victim, range: std::ops::Range<u32>, template: &mut [u8]| {
        for who in range {
            // Another connection ID: nobody derives keys to see that the rest does not fit.
            template[6..10].copy_from_slice(&who.to_be_bytes());
            victim.deliver(from(client_address(who)), None, template);
        }
    };
    flood(&mut victim, 0..limit as u32, &mut template);
    assert_eq!(victim.incoming.len(), limit);
    let full = meter::reading();
    let each = (full.held - before.held) as u64 / limit as u64;
    figure("Initial flood", "bytes held per waiting client", each, 4096);
    flood(&mut victim, 10_000..15_000, &mut template);
    let after = meter::reading();
    assert_eq!(victim.incoming.len(), limit);
    figure(
        "Initial flood",
        "allocations per Initial beyond the cap",
        (after.allocations - full.allocations) / 5000,
        2,
    );
    growth(
        "Initial flood",
        "bytes held for 5,000 beyond the cap",
        full.held,
        after.held,
        1024,
    );
    // One that waits, and goes on sending.
    template[6..10].copy_from_slice(&7u32.to_be_bytes());
    for _ in 0..1000 {
        victim.deliver(from(client_address(7)), None, &template);
    }
    growth(
        "Initial flood",
        "bytes held of 1,200,000 from one that waits",
        full.held,
        meter::reading().held,
        16_384,
    );
    let waiting = std::mem::take(&mut victim.incoming);
    meter::metered(|| {
        for incoming in waiting {
            victim.endpoint.ignore(incoming);
        }
    });
    growth(
        "Initial flood",
        "bytes held when all were ignored",
        before.held,
        meter::reading().held,
        131_072,
    );
    // Nobody accepts them, and nobody gives them up: they are forgotten all the same.
    flood(&mut victim, 20_000..20_000 + limit as u32, &mut template);
    assert_eq!(victim.endpoint.half_open().connections, limit);
    victim.advance(11 * SECOND);
    figure(
        "Initial flood",
        "places taken 11 s later",
        victim.endpoint.half_open().connections as u64,
        0,
    );
    let accepted = victim.connections.len();
    victim.accept_oldest();
    assert_eq!(victim.connections.len(), accepted, "it came too late");
}

/// RFC 9000 section 10.2: a client whose first packet ends the connection goes on sending. It is told again, ever more
/// rarely; and so are no more of them than there is room for.
#[test]
fn closed_before_it_began() {
    let mut victim = Victim::server_with(&Identity::generate(), quiet(), |config| {
        config.retry_above(usize::MAX);
    });
    victim.keep_events = false;
    // A ClientHello with a parameter that only servers send.
    let refused = |who: u32| {
        let mut params = Params::generous(Some(7));
        params.set_bytes(id::RESET_TOKEN, &[1; 16]);
        let dcid = [b"closed".as_slice(), &who.to_be_bytes()].concat();
        let peer = Peer::client(who, &dcid, params, tls::credulous_client());
        peer.unwrap().flight()
    };
    let hello = refused(0);
    let tuple = from(client_address(0));
    for datagram in &hello {
        victim.deliver(tuple, None, datagram);
    }
    assert_eq!(victim.accept_errors.len(), 1);
    let told = victim.sent_in_all().datagrams;
    assert!(told > 0, "the client is told");
    for _ in 0..1000 {
        for datagram in &hello {
            victim.deliver(tuple, None, datagram);
        }
    }
    let again = victim.sent_in_all().datagrams - told;
    assert!(again > 0, "a client that did not hear it is told again");
    figure(
        "closed before it began",
        "closes for 1,000 further datagrams",
        again,
        10,
    );
    assert_eq!(victim.accept_errors.len(), 1, "no second handshake");
    let before = meter::reading().held;
    for who in 1..=1500 {
        for datagram in refused(who) {
            victim.deliver(from(client_address(who)), None, &datagram);
        }
        victim.sent.clear();
        victim.accept_errors.clear();
    }
    growth(
        "closed before it began",
        "bytes held for 1,500 refused at once",
        before,
        meter::reading().held,
        768 * 1024,
    );
    // Three seconds later they are forgotten: the next one is a new connection.
    victim.advance(4 * SECOND);
    for datagram in &hello {
        victim.deliver(tuple, None, datagram);
    }
    assert_eq!(victim.accept_errors.len(), 1);
}

/// CVE-2024-45311: copies of an Initial in every order of the application's answers.
#[test]
fn every_answer_to_a_client() {
    let answers = [
        Admission::Accept,
        Admission::Keep,
        Admission::Refuse,
        Admission::Ignore,
    ];
    let mut orders = 0;
    for first in answers {
        for second in answers {
            for third in answers {
                let mut victim = Victim::server(&Identity::generate(), quiet());
                let mut peer = client(3);
                let hello = peer.flight();
                let tuple = from(client_address(3));
                for answer in [first, second, third] {
                    victim.admission = answer;
                    for datagram in &hello {
                        victim.deliver(tuple, None, datagram);
                        victim.deliver(tuple, None, datagram);
                    }
                    victim.advance(Duration::from_millis(10));
                    if answer == Admission::Refuse {
                        victim.accept_oldest();
                    }
                }
                while !victim.incoming.is_empty() {
                    victim.accept_oldest();
                }
                assert!(victim.endpoint.open_connections() <= 1);
                victim.advance(Duration::from_secs(3600));
                assert_eq!(victim.endpoint.open_connections(), 0);
                orders += 1;
            }
        }
    }
    figure(
        "incoming state machine",
        "orders left out, of 64",
        64 - orders,
        0,
    );
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

/// First flights of so many clients that go no further. The bytes of them.
fn begin_handshakes(victim: &mut Victim, clients: std::ops::Range<u32>) -> u64 {
    let mut received = 0;
    for who in clients {
        for datagram in client(who).flight() {
            victim.deliver(from(client_address(who)), None, &datagram);
            received += datagram.len() as u64;
        }
        victim.sent.clear();
    }
    received
}

/// Finding 2: clients that begin a handshake and go no further, from addresses that need not be theirs.
#[test]
fn half_open_connections() {
    let mut victim = Victim::server_with(&Identity::generate(), quiet(), |config| {
        config.half_open_memory(4 << 20).retry_above(usize::MAX);
    });
    victim.keep_events = false;
    let before = meter::reading().held;
    begin_handshakes(&mut victim, 0..200);
    growth(
        "half-open connections",
        "bytes held of 200, budget 4 MiB",
        before,
        meter::reading().held,
        4 << 20,
    );
    figure(
        "half-open connections",
        "of 200 within the budget",
        victim.endpoint.half_open().connections as u64,
        (4 << 20) / mpquic_proto::limits::HALF_OPEN_COST as u64,
    );
    let mut victim = Victim::server_with(&Identity::generate(), quiet(), |config| {
        config.max_half_open(200).retry_above(usize::MAX);
    });
    victim.keep_events = false;
    let before = meter::reading().held;
    let received = begin_handshakes(&mut victim, 0..1000);
    let held = (meter::reading().held - before).max(0) as u64;
    figure(
        "half-open connections",
        "half-open connections of 1,000, cap 200",
        victim.endpoint.half_open().connections as u64,
        200,
    );
    figure(
        "half-open connections",
        "bytes held per byte received",
        held / received,
        25,
    );
    figure(
        "half-open connections",
        "bytes held per half-open connection",
        held / 200,
        73_728,
    );
    // They are over by the deadline, whatever else comes.
    for _ in 0..12 {
        victim.advance(SECOND);
        victim.sent.clear();
    }
    figure(
        "half-open connections",
        "of them after 12 s",
        victim.endpoint.half_open().connections as u64,
        0,
    );
    // And what the closing state needs is over after three PTOs.
    victim.advance(8 * SECOND);
    growth(
        "half-open connections",
        "bytes held then",
        before,
        meter::reading().held,
        262_144,
    );
}

/// One that is kept alive by small packets now and then.
#[test]
fn half_open_kept_alive() {
    let mut victim = Victim::server(&Identity::generate(), quiet());
    let mut peer = client(1);
    let tuple = from(client_address(1));
    for datagram in peer.flight() {
        victim.deliver(tuple, None, &datagram);
    }
    let mut seconds = 0;
    while victim.endpoint.open_connections() > 0 && seconds < 200 {
        for sent in std::mem::take(&mut victim.sent) {
            peer.receive(&sent.data);
        }
        // Small and large ones: neither changes the deadline.
        let size = if seconds % 2 == 0 { 1 } else { 1170 };
        let ping = peer
            .seal(Space::Initial, &[Frame::Ping, Frame::Padding(size)])
            .unwrap();
        victim.deliver(tuple, None, &ping);
        victim.advance(SECOND);
        seconds += 1;
    }
    figure(
        "half-open connections",
        "seconds that PINGs keep one alive",
        seconds,
        12,
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

/// Retry: above its threshold the server keeps nothing of a client, and answers no more than it got.
#[test]
fn retry_under_load() {
    let mut victim = Victim::server_with(&Identity::generate(), quiet(), |config| {
        config.retry_above(50);
    });
    victim.keep_events = false;
    begin_handshakes(&mut victim, 1..61);
    let before = meter::reading();
    let (sent, accepted) = (victim.sent_in_all().bytes, victim.proven.len());
    let received = begin_handshakes(&mut victim, 61..561);
    let after = meter::reading();
    growth(
        "Retry",
        "bytes held for 500 clients above the threshold",
        before.held,
        after.held,
        4096,
    );
    figure(
        "Retry",
        "allocations per client above the threshold",
        (after.allocations - before.allocations) / 500,
        8,
    );
    figure(
        "Retry",
        "tenths of a byte sent per byte received",
        10 * (victim.sent_in_all().bytes - sent) / received,
        10,
    );
    figure(
        "Retry",
        "TLS handshakes begun above the threshold",
        (victim.proven.len() - accepted) as u64,
        0,
    );
    // One that answers is served.
    let mut duel = Duel::between(victim, Params::generous(Some(7)));
    duel.victim.sent.clear();
    for _ in 0..10 {
        duel.exchange();
    }
    assert!(
        duel.peer.complete && duel.peer.retries == 1,
        "{:?}",
        duel.peer
    );
}
