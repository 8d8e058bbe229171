//! Pairs of paths: what a hostile peer does with one path to another, to what is left of an abandoned one, or to the address of somebody
//! else. The names of sections are those of RFC 10069.

use std::time::Duration;

use mpquic_hostile::duel::from;
use mpquic_hostile::meter;
use mpquic_hostile::params::Params;
use mpquic_hostile::peer::{Sealing, Space};
use mpquic_hostile::victim::client_address;
use mpquic_hostile::wire::{Frame, payload};
use mpquic_proto::{Dir, PathId};

use super::*;

/// A server with so many validated paths beside the first one.
fn with_paths(count: u32) -> Duel {
    let mut duel = server();
    for path in 1..=count {
        duel.open_path(path);
    }
    duel.settle();
    duel.victim.keep_events = false;
    duel
}

/// The paths that are open.
fn open(duel: &mut Duel) -> Vec<u32> {
    duel.victim
        .connection()
        .paths()
        .ids()
        .map(|path| path.0)
        .collect()
}

/// Has the victim's application write so much on a new stream, as far as it may.
fn write(duel: &mut Duel, bytes: usize) -> usize {
    duel.victim.run_app(|connection| {
        let id = connection.streams().open(Dir::Uni).unwrap();
        connection
            .send_stream(id)
            .write(&vec![7; bytes])
            .unwrap_or(0)
    })
}

/// Bytes out beyond three times those that came, over all addresses but the proven ones.
fn excess(duel: &Duel, proven: &[std::net::SocketAddr]) -> u64 {
    let victim = &duel.victim;
    let others = victim.sent_to.iter().filter(|(to, _)| !proven.contains(to));
    let over = others.map(|(to, sent)| {
        let came = victim.received_from.get(to).map_or(0, |came| came.bytes);
        sent.bytes.saturating_sub(3 * came)
    });
    over.max().unwrap_or(0)
}

/// Datagrams of the victim's application that came, for those of the peer.
fn datagrams(duel: &mut Duel) -> u32 {
    duel.victim.run_app(|connection| {
        let mut count = 0;
        while connection.datagrams().recv().is_some() {
            count += 1;
        }
        count
    })
}

/// New Frames: what names an abandoned path is ignored, and nothing is kept of it, however much of it comes.
#[test]
fn frames_for_an_abandoned_path() {
    let mut duel = with_paths(1);
    duel.send(&[Frame::PathAbandon { path: 1, code: 0 }]);
    duel.settle();
    duel.victim.advance(Duration::from_secs(5));
    let (before, sent) = (meter::reading().held, duel.victim.sent_in_all().bytes);
    let mut retired = 0;
    for seq in 2..5000u64 {
        let mut token = [4; 16];
        token[..8].copy_from_slice(&seq.to_be_bytes());
        duel.send(&[
            Frame::NewCid {
                path: Some(1),
                seq,
                retire_prior_to: seq,
                cid: duel.peer.own_cid(1, seq as u32),
                token,
            },
            Frame::RetireCid {
                path: Some(1),
                seq: seq % 2,
            },
            Frame::PathStatus {
                path: 1,
                seq,
                backup: true,
            },
            Frame::ack(Some(1), 0, 0),
        ]);
        if seq % 100 == 0 {
            duel.victim.advance(Duration::from_millis(10));
            let came = duel.collect();
            let named = came.iter().flat_map(|(_, opened)| &opened.frames);
            retired += named
                .filter(|frame| matches!(frame, Frame::RetireCid { path: Some(1), .. }))
                .count();
            duel.answer(&came);
        }
    }
    assert!(duel.alive(), "{:?}", duel.reason());
    let held = (meter::reading().held - before).max(0) as f64;
    figure(
        "abandoned path",
        "bytes held after 20,000 frames",
        held,
        65_536.0,
    );
    let what = "retirements of what was issued for it";
    figure("abandoned path", what, retired as f64, 0.0);
    let out = (duel.victim.sent_in_all().bytes - sent) as f64 / 20_000.0;
    figure("abandoned path", "bytes sent per frame", out, 20.0);
}

/// Path Initiation and Validation: a path that is opened and never proves its address, while its peer goes on sending on it: what goes
/// there is within three times what came, data goes where it can, and the end is told.
#[test]
fn a_path_whose_validation_never_ends() {
    let mut duel = with_paths(0);
    let issue = [duel.peer.issue(1, 0), duel.peer.issue(1, 1)];
    duel.send(&issue);
    duel.settle();
    let written = write(&mut duel, 100_000);
    let (mut told, mut got, mut before) = (false, 0, 0);
    for round in 0..300 {
        if round == 20 {
            // The data is there; what sending it took is kept to be used again.
            before = meter::reading().held;
        }
        duel.send_on(1, &[Frame::Ping, Frame::Padding(100 * (round % 3))]);
        duel.victim.advance(Duration::from_millis(100));
        let came = duel.collect();
        for frame in came.iter().flat_map(|(_, opened)| &opened.frames) {
            match frame {
                Frame::PathAbandon { path: 1, .. } => told = true,
                Frame::Stream { data, .. } => got += data.len(),
                _ => {}
            }
        }
        // All is acknowledged, no challenge is answered.
        duel.acknowledge();
    }
    assert!(duel.alive(), "{:?}", duel.reason());
    assert!(told, "the end of path 1 is told");
    assert!(got >= written, "{got} of {written}");
    let over = excess(&duel, &[client_address(0)]) as f64;
    figure("endless validation", "bytes beyond three times", over, 0.0);
    let held = (meter::reading().held - before).max(0) as f64;
    figure(
        "endless validation",
        "bytes held more after 30 seconds",
        held,
        65_536.0,
    );
}

/// Denial of Service with Multiple Paths: seven paths to seven addresses that nobody has proved: three times what came from each, and
/// no byte from one is spent at another.
#[test]
fn three_times_on_each_of_seven_paths() {
    let mut config = quiet();
    config.early_path_data(mpquic_proto::EarlyPathData::Both);
    let mut duel = Duel::established(config, Params::generous(Some(7)));
    for path in 1..=7 {
        let issue = [duel.peer.issue(path, 0), duel.peer.issue(path, 1)];
        duel.send(&issue);
    }
    duel.settle();
    write(&mut duel, 1 << 19);
    let mut worst = 0;
    for path in 1..=7u32 {
        // Much from one address, next to nothing from the others.
        let size = if path == 1 { 1150 } else { 30 };
        duel.send_on(path, &[Frame::PathChallenge([1; 8]), Frame::Padding(size)]);
        worst = worst.max(excess(&duel, &[client_address(0)]));
    }
    for _ in 0..100 {
        duel.victim.advance(Duration::from_millis(100));
        worst = worst.max(excess(&duel, &[client_address(0)]));
    }
    let reached = (1..=7).filter(|path| duel.victim.sent_to.contains_key(&client_address(*path)));
    assert!(reached.count() >= 6);
    figure(
        "seven addresses",
        "bytes beyond three times",
        worst as f64,
        0.0,
    );
}

/// Path Close: a path that is opened and abandoned as fast as the limit moves: each round costs what the first ones cost.
#[test]
fn abandon_and_reopen_without_end() {
    let mut duel = with_paths(0);
    duel.send(&[Frame::MaxPathId((1 << 32) - 1)]);
    duel.settle();
    let (mut allocations, mut held) = (Vec::new(), Vec::new());
    let mut sent = Vec::new();
    for path in 1..=120u32 {
        let begin = (
            meter::reading().allocations,
            duel.victim.sent_in_all().bytes,
        );
        duel.open_path(path);
        duel.send(&[Frame::PathAbandon {
            path: path.into(),
            code: 0,
        }]);
        duel.settle();
        allocations.push((meter::reading().allocations - begin.0) as f64);
        sent.push((duel.victim.sent_in_all().bytes - begin.1) as f64);
        held.push(meter::reading().held);
    }
    assert!(duel.alive(), "{:?}", duel.reason());
    assert_eq!(duel.victim.over_caps(), Vec::<String>::new());
    let mean = |all: &[f64]| all.iter().sum::<f64>() / all.len() as f64;
    let (early, late) = (mean(&allocations[40..60]), mean(&allocations[100..]));
    let what = "allocations per round, the last for the first";
    figure("reopened paths", what, late, 1.1 * early);
    let (early, late) = (mean(&sent[40..60]), mean(&sent[100..]));
    let what = "bytes sent per round, the last for the first";
    figure("reopened paths", what, late, 1.1 * early);
    let grown = (held[119] - held[59]).max(0) as f64;
    figure(
        "reopened paths",
        "bytes held more after twice as many",
        grown,
        16_384.0,
    );
}

/// Key Phase Update Process: packets of the old keys that are on their way on all other paths when one path brings the new ones: taken
/// for three probe timeouts, and not later.
#[test]
fn a_key_update_while_all_paths_have_old_packets() {
    let mut duel = with_paths(7);
    let frames = [Frame::Datagram(vec![1; 20])];
    let sealed = |duel: &mut Duel| {
        let all = (1..=7).map(|path| duel.peer.seal(Space::Data(path), &frames).unwrap());
        all.collect::<Vec<_>>()
    };
    let (soon, late) = (sealed(&mut duel), sealed(&mut duel));
    datagrams(&mut duel);
    duel.peer.update_keys();
    duel.send(&[Frame::Ping]);
    for (path, datagram) in (1..).zip(&soon) {
        let tuple = duel.tuple(path);
        duel.victim.deliver(tuple, None, datagram);
    }
    assert_eq!(datagrams(&mut duel), 7);
    assert_eq!(duel.victim.connection().stats().key_updates, 1);
    duel.settle();
    duel.victim.advance(Duration::from_secs(5));
    for (path, datagram) in (1..).zip(&late) {
        let tuple = duel.tuple(path);
        duel.victim.deliver(tuple, None, datagram);
    }
    let taken = datagrams(&mut duel) as f64;
    figure(
        "key update",
        "packets of old keys taken five seconds later",
        taken,
        0.0,
    );
    assert!(duel.alive(), "{:?}", duel.reason());
}

/// Nonce Calculation: path IDs that no nonce has room for, in each frame that has one.
#[test]
fn path_ids_that_no_nonce_has_room_for() {
    for path in [1 << 32, (1 << 32) + 1, (1 << 62) - 1] {
        for frame in [
            Frame::ack(Some(path), 0, 0),
            Frame::PathAbandon { path, code: 0 },
            Frame::PathStatus {
                path,
                seq: 1,
                backup: false,
            },
            Frame::PathStatus {
                path,
                seq: 1,
                backup: true,
            },
            Frame::RetireCid {
                path: Some(path),
                seq: 0,
            },
            Frame::PathCidsBlocked { path, next: 0 },
            Frame::PathsBlocked(path),
            Frame::MaxPathId(path),
        ] {
            let mut duel = with_paths(0);
            duel.send(std::slice::from_ref(&frame));
            let error = duel.error();
            assert!(
                [PROTOCOL_VIOLATION, FRAME_ENCODING_ERROR].contains(&error),
                "{frame:?}: {error:?}"
            );
        }
    }
}

/// PATH_CIDS_BLOCKED: a next sequence number beyond what was issued is an error, and so is the retirement of what never was.
#[test]
fn sequence_numbers_of_connection_ids_never_issued() {
    for frame in [
        Frame::PathCidsBlocked { path: 1, next: 100 },
        Frame::PathCidsBlocked {
            path: 1,
            next: (1 << 62) - 1,
        },
        Frame::RetireCid {
            path: Some(1),
            seq: 100,
        },
    ] {
        let mut duel = with_paths(1);
        duel.send(std::slice::from_ref(&frame));
        assert_eq!(duel.error(), PROTOCOL_VIOLATION, "{frame:?}");
    }
}

/// Connection ID Changes, Migration, and NAT Rebindings: path 2 moves in the moment in which path 1 goes: it stays path 2, at its new
/// address, and carries what is written.
#[test]
fn one_path_moves_while_another_goes() {
    let mut duel = with_paths(2);
    write(&mut duel, 20_000);
    let moved = from(client_address(60));
    duel.send(&[Frame::PathAbandon { path: 1, code: 0 }]);
    duel.send_from(moved, 2, &[Frame::Ping, Frame::Padding(1150)]);
    duel.send_from(moved, 2, &[Frame::PathAbandon { path: 1, code: 3 }]);
    let unproven = excess(&duel, &[0, 1, 2].map(client_address)) as f64;
    figure(
        "moved and abandoned",
        "bytes beyond three times",
        unproven,
        0.0,
    );
    for _ in 0..20 {
        duel.victim.advance(Duration::from_millis(20));
        let came = duel.collect();
        // From where the path is now.
        for (tuple, opened) in &came {
            for frame in &opened.frames {
                if let (Frame::PathChallenge(data), Space::Data(path)) = (frame, opened.space) {
                    duel.send_from(
                        *tuple,
                        path,
                        &[Frame::PathResponse(*data), Frame::Padding(1150)],
                    );
                }
            }
        }
        duel.acknowledge();
    }
    assert!(duel.alive(), "{:?}", duel.reason());
    assert_eq!(open(&mut duel), [0, 2]);
    let path = duel.victim.connection().path(PathId(2)).unwrap();
    assert_eq!(
        (path.network_path().remote, path.is_validated()),
        (moved.remote, true)
    );
}

/// The same section: one connection ID that comes from two addresses in turn: each turn is a migration, and costs no more than it.
#[test]
fn one_connection_id_from_two_addresses_in_turn() {
    let mut duel = with_paths(1);
    let before = meter::reading().held;
    let sent = duel.victim.sent_in_all();
    let mut worst = 0;
    for round in 0..2000u32 {
        let place = client_address(70 + round % 2);
        duel.send_from(from(place), 1, &[Frame::Ping]);
        worst = worst.max(excess(&duel, &[0, 1].map(client_address)));
        if round % 10 == 0 {
            duel.victim.advance(Duration::from_millis(10));
            duel.collect();
            duel.acknowledge();
        }
    }
    assert!(duel.alive(), "{:?}", duel.reason());
    assert_eq!(duel.victim.over_caps(), Vec::<String>::new());
    figure(
        "two addresses",
        "bytes beyond three times",
        worst as f64,
        0.0,
    );
    let out = (duel.victim.sent_in_all().datagrams - sent.datagrams) as f64 / 2000.0;
    figure("two addresses", "datagrams out per datagram in", out, 1.5);
    let held = (meter::reading().held - before).max(0) as f64;
    figure("two addresses", "bytes held more", held, 65_536.0);
}

/// Computing Path RTT: what path 1 carries is acknowledged on path 0 only, and three seconds late: all arrives, path 0 repeats little of
/// it, and nothing that is acknowledged is kept.
#[test]
fn acknowledgements_through_another_path_and_late() {
    let mut duel = with_paths(1);
    let before = meter::reading().held;
    let written = write(&mut duel, 200_000);
    let mut late: Vec<(u32, Frame)> = Vec::new();
    let (mut got, mut sent) = (vec![false; written], 0);
    for round in 0..1500u32 {
        duel.victim.advance(Duration::from_millis(10));
        for (_, opened) in duel.collect() {
            for frame in &opened.frames {
                if let Frame::Stream { offset, data, .. } = frame {
                    let from = *offset as usize;
                    got[from..from + data.len()].fill(true);
                    sent += data.len();
                }
            }
            let Space::Data(path) = opened.space else {
                continue;
            };
            let due = if path == 1 { round + 300 } else { round };
            let ack = Frame::ack(Some(path.into()), opened.number, opened.number);
            late.push((due, ack));
        }
        let due: Vec<_> = late.extract_if(.., |(due, _)| *due <= round).collect();
        let acks: Vec<_> = due.into_iter().map(|(_, ack)| ack).collect();
        for acks in acks.chunks(50) {
            duel.send(acks);
        }
    }
    assert!(duel.alive(), "{:?}", duel.reason());
    assert!(got.iter().all(|byte| *byte));
    let stats = duel.victim.connection().path(PathId(1)).unwrap().stats();
    assert!(stats.in_flight == 0 && !stats.suspect, "{stats:?}");
    assert!(stats.sent_stream_bytes > 0, "path 1 carries some of it");
    let what = "bytes sent per byte";
    figure("late PATH_ACK", what, sent as f64 / written as f64, 2.0);
    let held = (meter::reading().held - before).max(0) as f64;
    figure("late PATH_ACK", "bytes held at the end", held, 65_536.0);
}

/// Nonce Calculation: packets that come again on another path, as they are, and with that path's connection ID: nothing is taken twice,
/// and what was sealed for one path is not authentic on another.
#[test]
fn replays_on_another_path() {
    let mut duel = with_paths(2);
    datagrams(&mut duel);
    let mut recorded = Vec::new();
    for number in 0..50u8 {
        let frames = [Frame::Datagram(vec![number; 20])];
        recorded.push(duel.peer.seal(Space::Data(1), &frames).unwrap());
        let tuple = duel.tuple(1);
        duel.victim
            .deliver(tuple, None, &recorded[usize::from(number)]);
    }
    assert_eq!(datagrams(&mut duel), 50);
    let dcid = duel.peer.dcid(2).unwrap().cid.clone();
    let sent = duel.victim.sent_in_all().bytes;
    let mut came = 0;
    for datagram in &recorded {
        let mut renamed = datagram.clone();
        renamed[1..=dcid.len()].copy_from_slice(&dcid);
        for path in 0..3 {
            let tuple = duel.tuple(path);
            duel.victim.deliver(tuple, None, datagram);
            duel.victim.deliver(tuple, None, &renamed);
            came += (datagram.len() + renamed.len()) as u64;
        }
    }
    assert!(duel.alive(), "{:?}", duel.reason());
    let taken = datagrams(&mut duel) as f64;
    figure("replay across paths", "packets taken, of 300", taken, 0.0);
    let out = (duel.victim.sent_in_all().bytes - sent) as f64 / came as f64;
    figure("replay across paths", "bytes out per byte in", out, 1.0);
}

/// Rotating and Retiring Connection IDs: IDs of all paths retired without end. Each gets one in its place, and nothing grows.
#[test]
fn retirement_on_all_paths_without_end() {
    let mut duel = with_paths(3);
    let sent = duel.victim.sent_in_all().bytes;
    let (mut retired, mut half) = (0, 0);
    for round in 0..800 {
        if round == 400 {
            half = meter::reading().held;
        }
        for path in 0..4u32 {
            let Some(oldest) = duel.peer.their_cids.get(&path).map(|cids| cids[0].seq) else {
                continue;
            };
            // Of several IDs, the oldest; the packet itself goes to another one.
            if duel.peer.their_cids[&path].len() < 2 {
                continue;
            }
            duel.peer.their_cids.get_mut(&path).unwrap().remove(0);
            duel.send_on(
                (path + 1) % 4,
                &[Frame::RetireCid {
                    path: Some(path.into()),
                    seq: oldest,
                }],
            );
            retired += 1;
        }
        duel.victim.advance(Duration::from_millis(10));
        let came = duel.collect();
        duel.answer(&came);
    }
    assert!(
        duel.alive() && retired > 2000,
        "{retired}: {:?}",
        duel.reason()
    );
    assert_eq!(duel.victim.over_caps(), Vec::<String>::new());
    let held = (meter::reading().held - half).max(0) as f64;
    figure(
        "retirement",
        "bytes held more after twice as many",
        held,
        8192.0,
    );
    let out = (duel.victim.sent_in_all().bytes - sent) as f64 / f64::from(retired);
    figure("retirement", "bytes sent per frame", out, 120.0);
}

/// PATH_ABANDON, NO_CID_AVAILABLE_FOR_PATH: packets on a path for which the peer has issued no connection ID: there is nowhere to answer
/// to, and little is kept while they come.
#[test]
fn packets_on_a_path_without_a_connection_id_to_answer_to() {
    let mut duel = with_paths(0);
    let before = meter::reading().held;
    let sent = duel.victim.sent_in_all().datagrams;
    let mut half = 0;
    for round in 0..2000u32 {
        if round == 1000 {
            half = meter::reading().held;
        }
        duel.send_on(1 + round % 7, &[Frame::Ping, Frame::Padding(20)]);
        if round % 20 == 0 {
            duel.victim.advance(Duration::from_millis(10));
            duel.collect();
            duel.acknowledge();
        }
    }
    assert!(duel.alive(), "{:?}", duel.reason());
    assert_eq!(duel.victim.over_caps(), Vec::<String>::new());
    assert_eq!(duel.peer.unopened, 0, "nothing goes to another path's ID");
    let out = (duel.victim.sent_in_all().datagrams - sent) as f64 / 2000.0;
    figure(
        "no connection ID",
        "datagrams out per datagram in",
        out,
        1.0,
    );
    // What seven paths are.
    let held = (meter::reading().held - before).max(0) as f64;
    figure("no connection ID", "bytes held for seven", held, 98_304.0);
    let more = (meter::reading().held - half).max(0) as f64;
    figure(
        "no connection ID",
        "bytes held more after twice as many",
        more,
        8192.0,
    );
}

/// Connection Lifecycle: frames of multipath where nobody has agreed to it, and in packets other than 1-RTT.
#[test]
fn frames_of_multipath_without_multipath() {
    let frames = || {
        [
            Frame::ack(Some(0), 0, 0),
            Frame::PathAbandon { path: 0, code: 0 },
            Frame::PathStatus {
                path: 0,
                seq: 1,
                backup: true,
            },
            Frame::MaxPathId(3),
            Frame::PathsBlocked(1),
            Frame::PathCidsBlocked { path: 0, next: 0 },
            Frame::RetireCid {
                path: Some(0),
                seq: 0,
            },
        ]
    };
    for frame in frames() {
        let mut duel = Duel::established(quiet(), Params::generous(None));
        duel.send(std::slice::from_ref(&frame));
        let error = duel.error();
        assert!(
            [PROTOCOL_VIOLATION, FRAME_ENCODING_ERROR].contains(&error),
            "{frame:?}: {error:?}"
        );
        let mut duel = Duel::with_server(quiet(), Params::generous(Some(7)));
        for datagram in duel.peer.flight() {
            duel.deliver(&datagram);
        }
        duel.collect();
        let sealed = duel.peer.seal_as(
            Space::Handshake,
            &payload(std::slice::from_ref(&frame)),
            &Sealing::default(),
        );
        duel.deliver(&sealed.unwrap());
        assert_eq!(duel.error(), PROTOCOL_VIOLATION, "{frame:?}");
    }
}
