//! Attacks by streams and keys: fragments, churn, slow peers, strange orders, duplicates around key updates.

use std::time::Duration;

use mpquic_hostile::duel::Duel;
use mpquic_hostile::meter;
use mpquic_hostile::params::{Params, id};
use mpquic_hostile::peer::{Peer, Sealing, Space};
use mpquic_hostile::tls::{Identity, credulous_client};
use mpquic_hostile::victim::{Victim, client_address};
use mpquic_hostile::wire::{Frame, payload};
use mpquic_proto::{Dir, EndpointConfig, StreamId};

use super::*;

fn piece(id: u64, offset: u64, data: &[u8], fin: bool) -> Frame {
    Frame::Stream {
        id,
        offset,
        fin,
        data: data.to_vec(),
    }
}

/// RUSTSEC-2026-0185: one byte at every second offset.
#[test]
fn fragmentation() {
    let mut duel = multipath();
    let before = meter::reading().held;
    meter::reset_peak();
    let (mut frames, mut offset) = (0u64, 1);
    let mut received = 0;
    while duel.alive() && frames < 200_000 {
        let mut packet = Vec::new();
        for _ in 0..100 {
            packet.push(piece(0, offset, &[7], false));
            offset += 2;
        }
        frames += 100;
        received += payload(&packet).len() as u64;
        duel.send(&packet);
    }
    assert!(!duel.alive(), "the cap on gaps, or flow control, ends it");
    let peak = meter::reading().peak;
    figure(
        "stream fragmentation",
        "one-byte frames until the end",
        frames,
        100_000,
    );
    figure(
        "stream fragmentation",
        "bytes held per byte received",
        (peak - before).max(0) as u64 / received,
        16,
    );
}

/// Finding 6: one byte in every block.
#[test]
fn sparse_data() {
    let mut duel = multipath();
    let before = meter::reading().held;
    let mut received = 0;
    'all: for stream in 0..64 {
        for block in 0..200u64 {
            let frame = piece(4 * stream, block * 16_384 + 1, &[7], false);
            received += payload(std::slice::from_ref(&frame)).len() as u64 + 30;
            duel.send(&[frame]);
            if !duel.alive() {
                break 'all;
            }
        }
    }
    let held = (meter::reading().held - before).max(0) as u64;
    figure(
        "sparse stream data",
        "bytes held per byte received",
        held / received,
        64,
    );
}

/// Finding 6: a window grows for what arrived, or for what was read; not for a byte at its end.
#[test]
fn windows_without_data() {
    let mut duel = multipath();
    duel.send(&[piece(0, 1, &[7], false)]);
    let mut limit = 1 << 20;
    let mut sent = 0;
    for _ in 0..200 {
        // The last byte that may be sent, and nothing before it.
        duel.send(&[piece(0, limit - 1, &[7], false)]);
        sent += 1;
        duel.victim.advance(Duration::from_millis(20));
        let came = duel.collect();
        for (_, opened) in &came {
            for frame in &opened.frames {
                if let Frame::MaxStreamData { id: 0, max } = frame {
                    limit = limit.max(*max);
                }
            }
        }
        duel.answer(&came);
    }
    assert!(duel.alive() && sent == 200, "{:?}", duel.reason());
    figure(
        "sparse stream data",
        "bytes of window after 201 bytes, all of them at its end",
        limit,
        1 << 20,
    );
}

/// Streams that are opened and reset at once, without end (GHSA-475v-pq2g-fp9g).
#[test]
fn churn() {
    let mut duel = multipath();
    duel.victim.keep_events = false;
    let mut next = 0u64;
    let mut allowed = 128;
    let mut received = 0u64;
    let mut early = None;
    let before = meter::reading();
    let sent = duel.victim.sent_in_all().bytes;
    for round in 0..3000 {
        let mut packet = Vec::new();
        while next < allowed && packet.len() < 40 {
            packet.push(piece(4 * next, 0, &[1], false));
            packet.push(Frame::ResetStream {
                id: 4 * next,
                code: 7,
                size: 1,
            });
            packet.push(Frame::StopSending {
                id: 4 * next,
                code: 7,
            });
            next += 1;
        }
        if packet.is_empty() {
            packet.push(Frame::Ping);
        }
        received += 30 + payload(&packet).len() as u64;
        duel.send(&packet);
        duel.victim.run_app(|connection| {
            while let Some(id) = connection.streams().accept(Dir::Bi) {
                let _ = connection.send_stream(id).reset(7u32.into());
                let _ = connection.recv_stream(id).read_chunk(100);
            }
        });
        duel.victim.flush();
        duel.victim.advance(Duration::from_millis(2));
        let came = duel.collect();
        for (_, opened) in &came {
            for frame in &opened.frames {
                if let Frame::MaxStreams { uni: false, max } = frame {
                    allowed = allowed.max(*max);
                }
            }
        }
        duel.answer(&came);
        if round == 300 {
            early = Some(meter::reading());
        }
    }
    let after = meter::reading();
    let early = early.unwrap();
    assert!(duel.alive() && next > 2000, "{next} streams");
    assert_eq!(duel.victim.over_caps(), Vec::<String>::new());
    growth(
        "stream churn",
        "bytes held more after 3,000 rounds than after 300",
        early.held,
        after.held,
        65_536,
    );
    let out = duel.victim.sent_in_all().bytes - sent;
    figure(
        "stream churn",
        "bytes sent per byte received",
        out / received,
        3,
    );
    figure(
        "stream churn",
        "allocations per stream",
        (after.allocations - before.allocations) / next,
        40,
    );
}

/// RFC 9000 section 21.8: only the highest stream is opened; all below it come to be.
#[test]
fn highest_stream_only() {
    let mut duel = multipath();
    let before = meter::reading().held;
    duel.send(&[
        piece(4 * 127, 0, &[1], false),
        piece(2 + 4 * 127, 0, &[1], false),
    ]);
    assert!(duel.alive(), "{:?}", duel.reason());
    let held = (meter::reading().held - before).max(0) as u64;
    figure(
        "stream commitment",
        "bytes held for 256 streams by one packet",
        held,
        256 * 1024,
    );
    duel.send(&[piece(4 * 128, 0, &[1], false)]);
    assert_eq!(duel.error(), STREAM_LIMIT_ERROR);
    // Beyond the window of a stream, and beyond that of the connection.
    let mut duel = multipath();
    duel.send(&[piece(0, (1 << 20) - 1, &[1], false)]);
    assert!(duel.alive(), "{:?}", duel.reason());
    duel.send(&[piece(0, 1 << 20, &[1], false)]);
    assert_eq!(duel.error(), FLOW_CONTROL_ERROR);
    let mut duel = multipath();
    duel.send(&[piece(0, (1 << 20) - 1, &[1], false)]);
    duel.send(&[piece(4, 1 << 19, &[1], false)]);
    assert_eq!(duel.error(), FLOW_CONTROL_ERROR);
    let mut duel = multipath();
    duel.send(&[piece(0, (1 << 62) - 2, &[1], false)]);
    let error = duel.error();
    assert!(
        [FLOW_CONTROL_ERROR, FRAME_ENCODING_ERROR].contains(&error),
        "{error:?}"
    );
}

/// One byte in every idle period: what is held does not grow, and the end comes when the bytes end.
#[test]
fn slowloris() {
    let mut duel = multipath();
    let before = meter::reading().held;
    for byte in 0..200 {
        duel.send(&[piece(0, byte, &[1], false)]);
        duel.victim.advance(29 * SECOND);
        duel.collect();
        assert!(duel.alive(), "{:?}", duel.reason());
    }
    growth(
        "slowloris",
        "bytes held after 200 bytes in 97 minutes",
        before,
        meter::reading().held,
        65_536,
    );
    duel.victim.advance(61 * SECOND);
    figure(
        "slowloris",
        "connections left after the last byte",
        duel.victim.endpoint.open_connections() as u64,
        0,
    );
}

/// Finding 5: a reader that does not read. What one connection pins is what its send window allows; the budget of the
/// endpoint is the sum's.
#[test]
fn slow_reader() {
    let mut params = Params::generous(Some(7));
    params.set(id::INITIAL_MAX_DATA, 0);
    let mut duel = Duel::established(quiet(), params);
    let before = meter::reading().held;
    let id = duel.victim.connection().streams().open(Dir::Uni).unwrap();
    let mut written = 0;
    for _ in 0..1000 {
        let write = duel
            .victim
            .run_app(|connection| connection.send_stream(id).write(&[7; 1 << 16]));
        written += write.unwrap_or(0);
    }
    let held = (meter::reading().held - before).max(0) as u64;
    assert!(
        written > 10_000 && held > 10_000,
        "{written} bytes, {held} held"
    );
    figure(
        "slow reader",
        "bytes held, with the send window of 16 MiB",
        held,
        1 << 20,
    );
}

/// Many connections to a server with a budget of 1 MiB in each direction.
fn many(count: u32, params: &Params) -> (Victim, Vec<Peer>) {
    let mut endpoint = EndpointConfig::new([5; 32]);
    endpoint.send_memory(1 << 20).receive_memory(1 << 20);
    let identity = Identity::generate();
    let mut victim = Victim::server_in(endpoint, &identity, quiet(), |config| {
        config.retry_above(usize::MAX);
    });
    victim.keep_events = false;
    let mut peers = Vec::new();
    for who in 0..count {
        let dcid = [b"many".as_slice(), &who.to_be_bytes()].concat();
        let tls = credulous_client();
        let mut peer = Peer::client(who, &dcid, params.clone(), tls).unwrap();
        victim.let_in(client_address(who), &mut peer);
        peers.push(peer);
    }
    (victim, peers)
}

/// Finding 5, over all connections: readers that take nothing pin no more than the endpoint's budget, and what each
/// connection may have besides.
#[test]
fn slow_readers_together() {
    let mut params = Params::generous(None);
    params.set(id::INITIAL_MAX_DATA, 0);
    let count = 60;
    let (mut victim, _peers) = many(count, &params);
    let before = meter::reading().held;
    let mut least = usize::MAX;
    for (_, connection) in &mut victim.connections {
        let id = connection.streams().open(Dir::Uni).unwrap();
        let mut written = 0;
        for _ in 0..100 {
            written +=
                meter::metered(|| connection.send_stream(id).write(&[7; 1 << 16])).unwrap_or(0);
        }
        least = least.min(written);
    }
    let held = (meter::reading().held - before).max(0) as u64;
    let limit = (1 << 20) + u64::from(count) * 80 * 1024;
    figure(
        "slow readers",
        "bytes held for 60 of them, budget 1 MiB and 64 KiB each",
        held,
        limit,
    );
    figure(
        "slow readers",
        "bytes of the guaranteed 65,536 that one of them lacks",
        mpquic_proto::limits::GUARANTEED_MEMORY.saturating_sub(least as u64),
        0,
    );
}

/// The same with a least rate: who takes less for a period is closed, and what it pinned comes back.
#[test]
fn readers_below_the_least_rate() {
    let mut params = Params::generous(None);
    params.set(id::INITIAL_MAX_DATA, 100_000);
    let mut config = quiet();
    config.min_peer_rate(10_000, 10 * SECOND);
    let mut duel = Duel::established(config, params);
    let id = duel.victim.connection().streams().open(Dir::Uni).unwrap();
    let _ = duel
        .victim
        .connection()
        .send_stream(id)
        .write(&[7; 1 << 20]);
    let mut seconds = 0;
    while duel.alive() && seconds < 100 {
        // It is alive and well, and takes nothing beyond its first window.
        duel.victim.advance(SECOND);
        let came = duel.collect();
        duel.answer(&came);
        duel.send(&[Frame::Ping]);
        seconds += 1;
    }
    figure(
        "slow reader",
        "seconds until a reader below the least rate is closed",
        seconds,
        25,
    );
    assert_eq!(duel.victim.endpoint.memory_use().send, 0);
}

/// The same, of a reader that gives its streams no credit, or a little of it: then nothing is written that could wait.
#[test]
fn readers_that_give_no_credit() {
    for trickle in [0, 64] {
        let mut params = Params::generous(None);
        params.set(id::INITIAL_MAX_STREAM_DATA_UNI, 64);
        let mut config = quiet();
        config.min_peer_rate(10_000, 10 * SECOND);
        let mut duel = Duel::established(config, params);
        let id = duel.victim.connection().streams().open(Dir::Uni).unwrap();
        let (mut seconds, mut credit) = (0, 64);
        while duel.alive() && seconds < 100 {
            while duel
                .victim
                .connection()
                .send_stream(id)
                .write(&[7; 1 << 16])
                .is_ok()
            {}
            duel.victim.advance(SECOND);
            let came = duel.collect();
            // The credit comes before the acknowledgement, and the writer is not back between the two.
            credit += trickle;
            duel.send(&[Frame::MaxStreamData {
                id: id.into(),
                max: credit,
            }]);
            duel.answer(&came);
            duel.send(&[Frame::Ping]);
            seconds += 1;
        }
        figure(
            "reader without credit",
            "seconds until a reader that gives little credit is closed",
            seconds,
            25,
        );
    }
}

/// Finding 6, over all connections: senders whose data nobody reads.
#[test]
fn unread_data_together() {
    let count = 60;
    let (mut victim, mut peers) = many(count, &Params::generous(None));
    let before = meter::reading().held;
    let mut sent = 0;
    for round in 0..400 {
        for (who, peer) in (0u32..).zip(&mut peers) {
            // All but the first byte of the stream, so that nothing can be read.
            let frame = piece(0, 1 + 1100 * round, &[7; 1100], false);
            let Some(datagram) = peer.seal(Space::Data(0), &[frame]) else {
                continue;
            };
            sent += datagram.len();
            victim.deliver(
                mpquic_hostile::duel::from(client_address(who)),
                None,
                &datagram,
            );
        }
    }
    let held = (meter::reading().held - before).max(0) as u64;
    let limit = (1 << 20) + u64::from(count) * 100 * 1024;
    assert!(sent > 20 << 20);
    figure(
        "unread data",
        "bytes held of 27 MB from 60, budget 1 MiB and 64 KiB each",
        held,
        limit,
    );
}

/// neqo cc1d9b55: every order of the frames that end a stream, in one packet and in several.
#[test]
fn orders_of_stop_and_reset() {
    let frames = [
        piece(0, 0, b"abc", false),
        piece(0, 3, b"def", true),
        Frame::StopSending { id: 0, code: 1 },
        Frame::ResetStream {
            id: 0,
            code: 2,
            size: 6,
        },
        Frame::MaxStreamData {
            id: 0,
            max: 1 << 30,
        },
    ];
    let mut orders = Vec::new();
    permute(&mut (0..frames.len()).collect(), 0, &mut orders);
    for order in &orders {
        for together in [true, false] {
            let mut duel = multipath();
            let ordered: Vec<_> = order.iter().map(|at| frames[*at].clone()).collect();
            if together {
                duel.send(&ordered);
            }
            for frame in &ordered {
                duel.send(std::slice::from_ref(frame));
                let id = StreamId::from(mpquic_proto::VarInt::from_u32(0));
                let _ = duel.victim.connection().send_stream(id).write(b"answer");
                let _ = duel.victim.connection().recv_stream(id).read_chunk(2);
                duel.victim.flush();
            }
            duel.settle();
            assert!(duel.alive(), "{order:?}: {:?}", duel.error());
        }
    }
    figure(
        "STOP_SENDING and STREAM",
        "orders left out, of 120",
        120 - orders.len() as u64,
        0,
    );
}

fn permute(rest: &mut Vec<usize>, at: usize, all: &mut Vec<Vec<usize>>) {
    if at == rest.len() {
        all.push(rest.clone());
        return;
    }
    for other in at..rest.len() {
        rest.swap(at, other);
        permute(rest, at + 1, all);
        rest.swap(at, other);
    }
}

/// RFC 9000 section 4.5: a final size that changes, and data beyond it.
#[test]
fn final_size_lies() {
    for (second, name) in [
        (piece(0, 10, b"x", false), "data beyond"),
        (piece(0, 0, b"ab", true), "smaller"),
        (
            Frame::ResetStream {
                id: 0,
                code: 0,
                size: 9,
            },
            "larger by a reset",
        ),
        (
            Frame::ResetStream {
                id: 0,
                code: 0,
                size: 1,
            },
            "below what came",
        ),
    ] {
        let mut duel = multipath();
        duel.send(&[piece(0, 0, b"abc", true)]);
        duel.send(&[second]);
        assert_eq!(duel.error(), Some(6), "{name}");
    }
    // An end before data that came.
    let reset = Frame::ResetStream {
        id: 0,
        code: 0,
        size: 2,
    };
    for end in [piece(0, 0, b"ab", true), reset] {
        let mut duel = multipath();
        duel.send(&[piece(0, 0, b"abc", false)]);
        duel.send(&[end]);
        assert_eq!(duel.error(), Some(6));
    }
}

/// neqo d8403dae: packets around key updates twice, early, late, on two paths. Those of the old keys are taken once, for three probe
/// timeouts.
#[test]
fn key_updates() {
    let mut duel = multipath();
    duel.open_path(1);
    let mut processed = 0;
    for round in 0..12u8 {
        let path = u32::from(round % 2);
        // Two of the old keys that come late, one of them too late.
        let old = payload(&[Frame::Datagram(vec![round; 30])]);
        let [late, too_late] = [(); 2].map(|()| {
            let sealed = duel
                .peer
                .seal_as(Space::Data(path), &old, &Sealing::default());
            sealed.unwrap()
        });
        duel.peer.update_keys();
        for path in [path, 1 - path] {
            let frames = [Frame::Datagram(vec![100 + round; 30])];
            let fresh = duel.peer.seal(Space::Data(path), &frames).unwrap();
            let tuple = duel.tuple(path);
            for _ in 0..3 {
                duel.victim.deliver(tuple, None, &fresh);
            }
        }
        let tuple = duel.tuple(path);
        for _ in 0..3 {
            duel.victim.deliver(tuple, None, &late);
        }
        assert!(duel.alive(), "{:?} in round {round}", duel.error());
        duel.settle();
        duel.victim.advance(4 * SECOND);
        duel.victim.deliver(tuple, None, &too_late);
        while duel.victim.connection().datagrams().recv().is_some() {
            processed += 1;
        }
        assert_eq!(
            duel.peer.their_updates(),
            1 + usize::from(round),
            "the victim follows"
        );
    }
    assert!(processed >= 36, "{processed}");
    figure(
        "key update duplicates",
        "packets processed, of 36 in three copies and 12 that are too late",
        processed,
        36,
    );
    // Keys that nobody was told of: not authentic.
    let mut duel = multipath();
    duel.peer.update_keys();
    duel.peer.update_keys();
    duel.send(&[Frame::Ping]);
    assert!(duel.alive() && duel.peer.their_updates() == 0);
    // Twice in a row, both seen, without an acknowledgement in between (RFC 9001 section 6.2).
    let mut duel = multipath();
    let updates = [(); 2].map(|()| {
        duel.peer.update_keys();
        duel.peer.seal(Space::Data(0), &[Frame::Ping]).unwrap()
    });
    let tuple = duel.tuple(0);
    duel.victim.deliver_together(tuple, &updates);
    assert_eq!(duel.error(), KEY_UPDATE_ERROR);
    // The same of ours is not begun.
    let mut duel = multipath();
    let now = duel.victim.now;
    for _ in 0..2 {
        duel.victim.connection().force_key_update(now);
    }
    assert_eq!(duel.victim.connection().stats().key_updates, 1);
    // The bit flips with every packet, sealed with keys of long ago: nothing is opened, and nothing kept.
    let before = meter::reading().held;
    for generation in 0..200 {
        let how = Sealing {
            generation: generation % 5 - 2,
            ..Sealing::default()
        };
        duel.send_as(Space::Data(0), &[Frame::Ping], &how);
    }
    growth(
        "key update duplicates",
        "bytes held after 200 packets of odd keys",
        before,
        meter::reading().held,
        16_384,
    );
}

/// Datagrams that nobody reads.
#[test]
fn unread_datagrams() {
    let mut config = quiet();
    config.datagram_receive_buffer(Some(64 * 1024));
    let mut duel = Duel::established(config, Params::generous(Some(7)));
    duel.victim.keep_events = false;
    let before = meter::reading().held;
    for size in 0..20_000 {
        duel.send(&[Frame::Datagram(vec![1; size % 3])]);
    }
    let held = (meter::reading().held - before).max(0) as u64;
    assert_eq!(duel.victim.over_caps(), Vec::<String>::new());
    figure(
        "unread datagrams",
        "bytes held with a buffer of 65,536, of 0 to 2 bytes each",
        held,
        16 * 65_536,
    );
}

/// Many frames in one packet that each make an event or an answer.
#[test]
fn packets_full_of_frames() {
    let full: [(&str, Vec<Frame>); 5] = [
        ("PING", vec![Frame::Ping; 1100]),
        (
            "PATH_CHALLENGE",
            (0..120).map(|n| Frame::PathChallenge([n; 8])).collect(),
        ),
        (
            "MAX_DATA",
            (0..200).map(|n| Frame::MaxData((1 << 41) + n)).collect(),
        ),
        (
            "RESET_STREAM",
            (0..128)
                .map(|n| Frame::ResetStream {
                    id: 4 * n,
                    code: 0,
                    size: 0,
                })
                .collect(),
        ),
        ("ACK", vec![Frame::ack(Some(0), 0, 0); 180]),
    ];
    for (name, frames) in full {
        let mut duel = multipath();
        duel.victim.keep_events = false;
        let before = meter::reading();
        let sent = duel.victim.sent_in_all().bytes;
        duel.send(&frames);
        assert!(duel.alive(), "{name}: {:?}", duel.error());
        let out = duel.victim.sent_in_all().bytes - sent;
        let allocations = meter::reading().allocations - before.allocations;
        let count = frames.len() as u64;
        figure(
            "full packets",
            &format!("{name}: allocations for {count} frames"),
            allocations,
            200 + 3 * count,
        );
        figure(
            "full packets",
            &format!("{name}: bytes sent for one packet"),
            out,
            6000,
        );
    }
}
