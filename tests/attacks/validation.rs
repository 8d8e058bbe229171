//! Attacks by addresses: amplification, challenges without end, addresses that rotate, black holes, forged requests.

use std::net::SocketAddr;
use std::time::Duration;

use mpquic_hostile::duel::{Duel, from};
use mpquic_hostile::meter;
use mpquic_hostile::params::{Params, id};
use mpquic_hostile::peer::{Peer, Space};
use mpquic_hostile::tls::{self, Identity};
use mpquic_hostile::victim::{Victim, client_address};
use mpquic_hostile::wire::Frame;
use mpquic_proto::{Dir, EarlyPathData, PathId};

use super::*;

/// The largest excess of what was sent over three times what was received, over all addresses but `validated`.
fn excess(victim: &Victim, validated: &[SocketAddr]) -> u64 {
    let sent = victim
        .sent_to
        .iter()
        .filter(|(to, _)| !validated.contains(to));
    sent.map(|(to, sent)| {
        let received = victim
            .received_from
            .get(to)
            .map_or(0, |received| received.bytes);
        sent.bytes.saturating_sub(3 * received)
    })
    .max()
    .unwrap_or(0)
}

/// RFC 9000 section 8.1: before the address is validated, at every moment, in every state.
#[test]
fn amplification_before_validation() {
    let mut worst = 0;
    // Silent after the first datagram, for as long as it lasts.
    let mut victim = Victim::server(&Identity::generate(), TransportConfig::default());
    let mut peer = Peer::client(
        1,
        b"original",
        Params::generous(Some(7)),
        tls::credulous_client(),
    )
    .unwrap();
    let hello = peer.flight();
    for datagram in &hello {
        victim.deliver(from(client_address(1)), None, datagram);
        worst = worst.max(excess(&victim, &[]));
    }
    for _ in 0..600 {
        victim.advance(Duration::from_millis(100));
        worst = worst.max(excess(&victim, &[]));
    }
    // Its own copies, one after the other; and garbage in small pieces, which counts too.
    let mut victim = Victim::server(&Identity::generate(), TransportConfig::default());
    for round in 0..50 {
        for datagram in &hello {
            victim.deliver(from(client_address(1)), None, datagram);
            victim.deliver(from(client_address(1)), None, &datagram[..40 + 20 * round]);
            worst = worst.max(excess(&victim, &[]));
        }
        victim.advance(Duration::from_millis(200));
        worst = worst.max(excess(&victim, &[]));
    }
    // A close: what the client says is an error.
    let mut victim = Victim::server(&Identity::generate(), TransportConfig::default());
    for datagram in &hello {
        victim.deliver(from(client_address(1)), None, datagram);
    }
    let bad = peer
        .seal(
            Space::Initial,
            &[Frame::HandshakeDone, Frame::Padding(1150)],
        )
        .unwrap();
    for _ in 0..100 {
        victim.deliver(from(client_address(1)), None, &bad);
        worst = worst.max(excess(&victim, &[]));
        victim.advance(Duration::from_millis(10));
    }
    figure(
        "amplification",
        "bytes beyond 3 x received, handshake and close",
        worst,
        0,
    );
}

/// A server that sends data before it has validated a path, and clients that pay for as much as they can get and never
/// answer a challenge: RFC 9000 section 8 holds at every moment.
#[test]
fn amplification_of_early_path_data() {
    let mut server = quiet();
    server.early_path_data(EarlyPathData::Both);
    let mut duel = Duel::established(server, Params::generous(Some(7)));
    let first = duel.tuple(0).remote;
    let id = duel.victim.connection().streams().open(Dir::Uni).unwrap();
    let _ = duel
        .victim
        .connection()
        .send_stream(id)
        .write(&[7; 1 << 20]);
    let target = client_address(99);
    let mut worst = 0;
    let mut received = 0;
    for path in 1..=7 {
        let issue = [duel.peer.issue(path, 0), duel.peer.issue(path, 1)];
        duel.send(&issue);
        for size in [1150, 1150, 300, 40, 1150, 1, 1150] {
            let frames = [Frame::PathChallenge([1; 8]), Frame::Padding(size)];
            duel.send_from(from(target), path, &frames);
            received += size as u64;
            worst = worst.max(excess(&duel.victim, &[first]));
        }
    }
    for _ in 0..200 {
        duel.victim.advance(Duration::from_millis(100));
        worst = worst.max(excess(&duel.victim, &[first]));
    }
    let sent = duel
        .victim
        .sent_to
        .get(&target)
        .map_or(0, |sent| sent.bytes);
    assert!(
        sent > received,
        "{sent} bytes for {received}: no data is among them"
    );
    figure(
        "amplification",
        "bytes beyond 3 x received, data before validation",
        worst,
        0,
    );
}

/// The same for new addresses of a connection, all at once, and for paths that are opened towards a victim's address.
#[test]
fn amplification_of_new_addresses() {
    let mut duel = multipath();
    let first = duel.tuple(0).remote;
    let id = duel.victim.connection().streams().open(Dir::Uni).unwrap();
    let _ = duel
        .victim
        .connection()
        .send_stream(id)
        .write(&[7; 1 << 20]);
    let mut worst = 0;
    for round in 0..200u32 {
        let size = [1, 20, 200, 1100][round as usize % 4];
        duel.send_from(
            from(client_address(10 + round % 40)),
            0,
            &[Frame::Ping, Frame::Padding(size)],
        );
        worst = worst.max(excess(&duel.victim, &[first]));
        duel.victim.advance(Duration::from_millis(37));
        worst = worst.max(excess(&duel.victim, &[first]));
    }
    figure(
        "amplification",
        "bytes beyond 3 x received, 40 new addresses",
        worst,
        0,
    );
    // All paths to one address: RFC 10069, Denial of Service with Multiple Paths.
    let mut duel = multipath();
    let first = duel.tuple(0).remote;
    let target = client_address(99);
    let mut worst = 0;
    for path in 1..=7 {
        let issue = [duel.peer.issue(path, 0), duel.peer.issue(path, 1)];
        duel.send(&issue);
        duel.send_from(
            from(target),
            path,
            &[Frame::PathChallenge([1; 8]), Frame::Padding(300)],
        );
        worst = worst.max(excess(&duel.victim, &[first]));
    }
    for _ in 0..200 {
        duel.victim.advance(Duration::from_millis(100));
        worst = worst.max(excess(&duel.victim, &[first]));
    }
    figure(
        "simultaneous validation",
        "bytes beyond 3 x received, 7 paths to one address",
        worst,
        0,
    );
}

/// quinn 1c7c4604, RFC 9000 section 8.2.2: the answer goes to where the challenge came from, and nowhere else.
#[test]
fn response_to_the_address_of_the_challenge() {
    let mut duel = multipath();
    let elsewhere = client_address(77);
    duel.collect();
    duel.send_from(
        from(elsewhere),
        0,
        &[Frame::PathChallenge([7; 8]), Frame::Padding(1150)],
    );
    let mut wrong = 0;
    let mut right = 0;
    for (tuple, opened) in duel.collect() {
        if opened.frames.contains(&Frame::PathResponse([7; 8])) {
            wrong += u64::from(tuple.remote != elsewhere);
            right += u64::from(tuple.remote == elsewhere);
            assert!(opened.size >= 1200, "padded: {}", opened.size);
        }
    }
    assert_eq!(right, 1);
    figure(
        "response to wrong address",
        "answers sent elsewhere",
        wrong,
        0,
    );
    // A small challenge from a new address: the answer counts against the limit of that address.
    duel.send_from(from(client_address(78)), 0, &[Frame::PathChallenge([8; 8])]);
    duel.victim.advance(SECOND);
    let over = excess(&duel.victim, &[duel.tuple(0).remote]);
    figure(
        "response to wrong address",
        "bytes beyond 3 x received at the new address",
        over,
        0,
    );
}

/// Finding 8: a peer that moves twice, and is heard again where it was.
#[test]
fn black_hole() {
    let mut silent = 0;
    for spare in [0, 1, 4] {
        for moves in 2..6u32 {
            let mut duel = single_path();
            let extra: Vec<_> = (1..=spare).map(|seq| duel.peer.issue(0, seq)).collect();
            duel.send(&extra);
            duel.settle();
            for place in 1..=moves {
                duel.send_from(
                    from(client_address(place)),
                    0,
                    &[Frame::Ping, Frame::Padding(1150)],
                );
            }
            let mut answered = false;
            for _ in 0..30 {
                duel.victim.advance(SECOND / 10);
                let came = duel.collect();
                answered |= came
                    .iter()
                    .any(|(tuple, _)| tuple.remote == client_address(moves));
                for (_, opened) in came {
                    for frame in opened.frames {
                        if let Frame::PathChallenge(data) = frame {
                            let here = from(client_address(moves));
                            duel.send_from(
                                here,
                                0,
                                &[Frame::PathResponse(data), Frame::Padding(1150)],
                            );
                        }
                    }
                }
                let closed = !duel.alive();
                answered |= closed;
            }
            silent += u64::from(!answered);
        }
    }
    figure(
        "black hole",
        "peers that moved and were neither answered nor closed",
        silent,
        0,
    );
}

/// RFC 9000 section 9.3.2: somebody sends a packet of the peer from elsewhere. Nobody answers there, and the peer hears
/// nothing and so sends nothing: the server returns to where the peer was, after three probe timeouts of a path of which
/// nothing is known (section 8.2.4), a second each.
#[test]
fn packets_from_where_the_peer_is_not() {
    for mut duel in [single_path(), multipath()] {
        let home = duel.tuple(0).remote;
        let id = duel.victim.connection().streams().open(Dir::Uni).unwrap();
        let _ = duel.victim.connection().send_stream(id).write(&[7; 3000]);
        let elsewhere = from(client_address(66));
        duel.send_from(elsewhere, 0, &[Frame::Ping, Frame::Padding(1150)]);
        let place = |duel: &mut Duel| {
            let connection = duel.victim.connection();
            connection.path(PathId::ZERO).unwrap().network_path().remote
        };
        assert_eq!(place(&mut duel), elsewhere.remote);
        let mut tenths = 0;
        while place(&mut duel) != home && tenths < 250 {
            duel.victim.advance(SECOND / 10);
            tenths += 1;
        }
        figure(
            "spurious move",
            "tenths of a second until the server is back, nobody heard",
            tenths,
            32,
        );
        assert!(duel.alive(), "{:?}", duel.reason());
    }
}

/// quinn 26b01e96: acknowledgements while a path is validated do not open its window.
#[test]
fn window_before_validation() {
    let mut duel = multipath();
    let issue = [duel.peer.issue(1, 0), duel.peer.issue(1, 1)];
    duel.send(&issue);
    let id = duel.victim.connection().streams().open(Dir::Uni).unwrap();
    let _ = duel
        .victim
        .connection()
        .send_stream(id)
        .write(&[7; 1 << 20]);
    duel.send_on(1, &[Frame::Ping, Frame::Padding(1150)]);
    let at_first = duel
        .victim
        .connection()
        .path(PathId(1))
        .unwrap()
        .stats()
        .cwnd;
    for _ in 0..50 {
        duel.victim.advance(Duration::from_millis(20));
        let came = duel.collect();
        let data = came.iter().any(|(_, opened)| {
            opened.space == Space::Data(1)
                && opened
                    .frames
                    .iter()
                    .any(|frame| matches!(frame, Frame::Stream { .. }))
        });
        assert!(
            !data,
            "no data before validation (RFC 10069, Path Initiation and Validation)"
        );
        duel.acknowledge();
        duel.send_on(1, &[Frame::Ping, Frame::Padding(1150)]);
    }
    let after = duel
        .victim
        .connection()
        .path(PathId(1))
        .map_or(0, |path| path.stats().cwnd);
    figure(
        "window before validation",
        "bytes that the window grew by",
        after.saturating_sub(at_first),
        0,
    );
}

/// RFC 9000 section 21.5: a server's preferred address that is the client's own network.
#[test]
fn request_forgery() {
    for address in [
        [127, 0, 0, 1],
        [0, 0, 0, 0],
        [255, 255, 255, 255],
        [224, 0, 0, 1],
    ] {
        let mut params = Params::generous(Some(7));
        params.set_bytes(id::PREFERRED_ADDRESS, &preferred_address(address));
        let mut duel = Duel::established_client(quiet(), params);
        duel.victim.advance(5 * SECOND);
        duel.settle();
        let target = SocketAddr::from((address, 8080));
        let sent = duel
            .victim
            .sent_to
            .get(&target)
            .map_or(0, |sent| sent.datagrams);
        figure(
            "request forgery",
            &format!("datagrams to {target}"),
            sent,
            0,
        );
        assert!(duel.alive() || duel.error().is_some());
    }
}

/// CVE-2023-6193, CVE-2023-49295, finding 7: challenges without end.
#[test]
fn challenge_flood() {
    let mut duel = multipath();
    let held = meter::reading().held;
    let address = duel.tuple(0).remote;
    let (before_in, before_out) = (
        duel.victim.received_from[&address],
        duel.victim.sent_to[&address],
    );
    for round in 0..5000u64 {
        duel.send(&[Frame::PathChallenge(round.to_be_bytes())]);
    }
    assert!(duel.alive(), "{:?}", duel.reason());
    assert_eq!(duel.victim.over_caps(), Vec::<String>::new());
    let received = duel.victim.received_from[&address].bytes - before_in.bytes;
    let sent = duel.victim.sent_to[&address].bytes - before_out.bytes;
    growth(
        "PATH_CHALLENGE flood",
        "bytes held after 5,000",
        held,
        meter::reading().held,
        32_768,
    );
    figure(
        "PATH_CHALLENGE flood",
        "tenths of a byte sent per byte received",
        10 * sent / received,
        30,
    );
    // While the window is full.
    let mut duel = multipath();
    let id = duel.victim.connection().streams().open(Dir::Uni).unwrap();
    let _ = duel
        .victim
        .connection()
        .send_stream(id)
        .write(&[7; 1 << 18]);
    duel.victim.flush();
    let before = duel.victim.sent_to[&address].bytes;
    let mut received = 0;
    for round in 0..2000u64 {
        duel.send(&[Frame::PathChallenge(round.to_be_bytes())]);
        received += 40;
    }
    assert_eq!(duel.victim.over_caps(), Vec::<String>::new());
    let sent = duel.victim.sent_to[&address].bytes - before;
    figure(
        "PATH_CHALLENGE flood",
        "tenths of a byte per byte, window full",
        10 * sent / received,
        30,
    );
}

/// RFC 9000 section 9: a client takes nothing from an address that it does not know for its server's.
#[test]
fn unknown_server_addresses() {
    let mut duel = Duel::established_client(quiet(), Params::generous(Some(7)));
    let stranger = mpquic_proto::FourTuple {
        local: duel.tuple(0).local,
        remote: ([203, 0, 113, 9], 443).into(),
    };
    let mut processed = 0;
    for number in 0..100 {
        duel.send_from(
            stranger,
            0,
            &[Frame::Datagram(vec![number]), Frame::PathChallenge([1; 8])],
        );
    }
    while duel.victim.connection().datagrams().recv().is_some() {
        processed += 1;
    }
    figure(
        "unknown server address",
        "packets processed, of 100",
        processed,
        0,
    );
    let sent = duel
        .victim
        .sent_to
        .get(&stranger.remote)
        .map_or(0, |sent| sent.datagrams);
    figure("unknown server address", "datagrams in answer", sent, 0);
}

/// All that came to the victim and left it, in bytes.
fn traffic(victim: &Victim) -> (u64, u64) {
    let received = victim.received_from.values();
    let received = received.map(|traffic| traffic.bytes).sum();
    (received, victim.sent_in_all().bytes)
}

/// quiche 439795b0, CVE-2023-6193: valid packets from ever new addresses, of which nothing is acknowledged. Packets
/// without a probing frame say that the peer has moved. With and without room in the congestion window.
#[test]
fn address_rotation() {
    const CLASS: &str = "address rotation";
    for (probing, full) in [(true, false), (true, true), (false, false), (false, true)] {
        let mut duel = multipath();
        let extra: Vec<_> = (1..5).map(|seq| duel.peer.issue(0, seq)).collect();
        duel.send(&extra);
        duel.settle();
        if full {
            let id = duel.victim.connection().streams().open(Dir::Uni).unwrap();
            let _ = duel
                .victim
                .connection()
                .send_stream(id)
                .write(&[7; 1 << 18]);
            duel.victim.flush();
        }
        let held = meter::reading().held;
        let events = duel.victim.events.len();
        let (received, sent) = traffic(&duel.victim);
        let mut over_caps = Vec::new();
        for place in 0..5000u32 {
            let frame = if probing {
                Frame::PathChallenge([1; 8])
            } else {
                Frame::Ping
            };
            let address: SocketAddr =
                ([203, 0, 113, (place % 250) as u8], 1024 + place as u16).into();
            duel.send_from(from(address), 0, &[frame]);
            if place % 10 == 0 {
                duel.victim.advance(Duration::from_millis(1));
            }
            over_caps.extend(duel.victim.over_caps());
            duel.victim.sent.clear();
        }
        assert_eq!(over_caps, Vec::<String>::new());
        assert!(duel.alive(), "{:?}", duel.reason());
        let kind = if probing { "probing" } else { "moving" };
        let window = if full { ", window full" } else { "" };
        let now = traffic(&duel.victim);
        let (received, sent) = (now.0 - received, now.1 - sent);
        let new = (duel.victim.events.len() - events) as u64;
        let name = format!("events by 5,000 addresses, {kind}{window}");
        figure(CLASS, &name, new, 16);
        let after = meter::reading().held;
        let name = format!("bytes held after them, {kind}{window}");
        growth(CLASS, &name, held, after, 32_768);
        let name = format!("tenths of a byte held per byte sent, {kind}{window}");
        growth(CLASS, &name, 0, 10 * (after - held) / received as i64, 2);
        let name = format!("tenths of a byte sent per byte received, {kind}{window}");
        figure(CLASS, &name, 10 * sent / received, 30);
        let over = excess(&duel.victim, &[client_address(0)]);
        let name = format!("bytes beyond 3 x received, {kind}{window}");
        figure(CLASS, &name, over, 0);
    }
}

/// What bounds the attack above costs no honest client anything: one that tries an address, or has moved, is answered and
/// asked at once, though the window is full. Only the next one waits for a probe timeout.
#[test]
fn a_client_that_moves_is_answered_at_once() {
    for probing in [true, false] {
        let mut duel = multipath();
        let extra: Vec<_> = (1..5).map(|seq| duel.peer.issue(0, seq)).collect();
        duel.send(&extra);
        duel.settle();
        let id = duel.victim.connection().streams().open(Dir::Uni).unwrap();
        let _ = duel
            .victim
            .connection()
            .send_stream(id)
            .write(&[7; 1 << 18]);
        duel.victim.flush();
        let stats = duel.victim.connection().path(PathId(0)).unwrap().stats();
        assert!(stats.in_flight + 1200 > stats.cwnd, "{stats:?}");
        duel.collect();
        let mut frames = vec![Frame::PathChallenge([1; 8])];
        if !probing {
            frames.push(Frame::Ping);
        }
        frames.push(Frame::Padding(1150));
        // Whether the answer and a challenge came to this address since the last look.
        let told = |duel: &mut Duel, at: SocketAddr| {
            let came = duel.collect();
            let here = came.iter().filter(|(tuple, _)| tuple.remote == at);
            let frames: Vec<_> = here.flat_map(|(_, opened)| &opened.frames).collect();
            let answer = frames.contains(&&Frame::PathResponse([1; 8]));
            let challenge = frames
                .iter()
                .any(|frame| matches!(frame, Frame::PathChallenge(_)));
            (answer, challenge)
        };
        duel.send_from(from(client_address(50)), 0, &frames);
        assert_eq!(told(&mut duel, client_address(50)), (true, true));
        duel.send_from(from(client_address(51)), 0, &frames);
        assert_eq!(told(&mut duel, client_address(51)), (false, false));
        duel.victim.advance(SECOND / 10);
        assert_eq!(told(&mut duel, client_address(51)), (true, true));
    }
}

/// RFC 9000 section 9.6.3: what comes to the server's preferred address comes from another address than the handshake's.
/// The server asks there, from the preferred address, within the limit; it does not follow before it has been answered.
//= specs/rfc9000.txt#section-9.6.3
//= type=test
//# If packets received at the server's preferred address have a different source address than
//# observed from the client during the handshake, the server MUST protect against potential attacks
//# as described in Sections 9.3.1 and 9.3.2.
//= specs/rfc9000.txt#section-9.6.3
//= type=test
//# Servers SHOULD initiate path validation to the client's new address upon receiving a probe packet
//# from a different address; see Section 8.
//= specs/rfc9000.txt#section-9.6.2
//= type=test
//# The server MUST send non- probing packets from its original address until it receives a
//# non-probing packet from the client at its preferred address and until the server has validated the
//# new path.
#[test]
fn another_source_at_the_preferred_address() {
    const CLASS: &str = "preferred address";
    let preferred: SocketAddr = ([192, 0, 2, 2], 443).into();
    for (probing, size) in [(true, 20), (true, 1150), (false, 20), (false, 1150)] {
        let victim = Victim::server_with(&Identity::generate(), quiet(), |config| {
            config.preferred_address_v4(Some("192.0.2.2:443".parse().unwrap()));
        });
        let mut duel = Duel::between(victim, Params::generous(None));
        duel.connect();
        let extra: Vec<_> = (1..5).map(|seq| duel.peer.issue(0, seq)).collect();
        duel.send(&extra);
        duel.settle();
        let stream = duel.victim.connection().streams().open(Dir::Uni).unwrap();
        let _ = duel
            .victim
            .connection()
            .send_stream(stream)
            .write(&[7; 1 << 18]);
        duel.collect();
        let elsewhere = client_address(70);
        let tuple = mpquic_proto::FourTuple {
            local: preferred,
            remote: elsewhere,
        };
        let frame = if probing {
            Frame::PathChallenge([3; 8])
        } else {
            Frame::Ping
        };
        let mut token = None;
        let mut data = 0;
        for _ in 0..5 {
            duel.send_from(tuple, 0, &[frame.clone(), Frame::Padding(size)]);
            duel.victim.advance(SECOND / 10);
            for (to, opened) in duel.collect() {
                if to.remote != elsewhere {
                    continue;
                }
                assert_eq!(to.local, preferred, "it asks from there");
                for frame in &opened.frames {
                    match frame {
                        Frame::PathChallenge(data) => token = Some(*data),
                        Frame::Stream { .. } => data += 1,
                        _ => {}
                    }
                }
            }
        }
        figure(
            CLASS,
            "packets of data to an address that is not proven",
            data,
            0,
        );
        let over = excess(&duel.victim, &[client_address(0)]);
        figure(CLASS, "bytes beyond 3 x received", over, 0);
        let path = |duel: &mut Duel| {
            duel.victim
                .connection()
                .path(PathId(0))
                .map(|path| path.network_path())
        };
        assert_eq!(path(&mut duel), Ok(duel.tuple(0)), "it does not follow");
        // Who answers, and says more than a probe does, has moved.
        let token = token.expect("a challenge");
        duel.send_from(
            tuple,
            0,
            &[Frame::PathResponse(token), Frame::Padding(1150)],
        );
        duel.victim.advance(SECOND / 10);
        let came = duel.collect();
        let again = came.iter().flat_map(|(to, opened)| {
            let here = to.remote == elsewhere;
            opened.frames.iter().filter(move |_| here)
        });
        let again = again.filter_map(|frame| match frame {
            Frame::PathChallenge(data) => Some(*data),
            _ => None,
        });
        // The size of the first challenges was limited: another one shows that the path takes full datagrams.
        for token in again.collect::<Vec<_>>() {
            duel.send_from(
                tuple,
                0,
                &[Frame::PathResponse(token), Frame::Padding(1150)],
            );
        }
        assert_eq!(path(&mut duel), Ok(duel.tuple(0)), "a probe moves nothing");
        duel.send_from(tuple, 0, &[Frame::Ping, Frame::Padding(1150)]);
        assert_eq!(path(&mut duel), Ok(tuple));
        assert!(duel.alive(), "{:?}", duel.reason());
    }
}
