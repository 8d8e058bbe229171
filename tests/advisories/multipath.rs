//! What only multipath has, of which there is no public list: a peer that does with frames of RFC 10069 what it should not.

use mpquic_hostile::meter;
use mpquic_hostile::params::Params;
use mpquic_hostile::peer::reset_token;
use mpquic_hostile::wire::Frame;
use mpquic_proto::{PathId, PathStatus};

use super::*;

/// A server with two validated paths.
fn two_paths() -> Duel {
    let mut duel = server();
    duel.open_path(1);
    duel.settle();
    duel.victim.keep_events = false;
    duel
}

/// PATH_ACK of numbers that only the other path has sent: each path has its own number space.
#[test]
fn acks_of_packets_that_another_path_sent() {
    let mut duel = two_paths();
    // The path with the handshake has sent more.
    for _ in 0..50 {
        duel.send(&[Frame::Ping]);
        duel.victim.flush();
        duel.collect();
    }
    duel.send(&[Frame::ack(Some(1), 0, 40)]);
    assert_eq!(duel.error(), PROTOCOL_VIOLATION);
}

/// PATH_ACK for path IDs that were never opened, are beyond the limit, or are no path IDs.
#[test]
fn acks_for_paths_that_are_not_there() {
    for path in [2, 7] {
        let mut duel = two_paths();
        duel.send(&[Frame::ack(Some(path), 0, 0)]);
        assert_eq!(duel.error(), PROTOCOL_VIOLATION, "{path}");
    }
    for path in [8, 1 << 32, (1 << 62) - 1] {
        let mut duel = two_paths();
        duel.send(&[Frame::ack(Some(path), 0, 0)]);
        let error = duel.error();
        assert!(
            [PROTOCOL_VIOLATION, FRAME_ENCODING_ERROR].contains(&error),
            "{path}: {error:?}"
        );
    }
}

/// Connection IDs for path IDs beyond the limit that the server gave.
#[test]
fn connection_ids_for_paths_beyond_the_limit() {
    for path in [8, 1000, u64::from(u32::MAX), 1 << 32, (1 << 62) - 1] {
        let mut duel = two_paths();
        duel.send(&[Frame::NewCid {
            path: Some(path),
            seq: 0,
            retire_prior_to: 0,
            cid: vec![9; 8],
            token: [9; 16],
        }]);
        let error = duel.error();
        assert!(
            [PROTOCOL_VIOLATION, FRAME_ENCODING_ERROR].contains(&error),
            "{path}: {error:?}"
        );
    }
}

/// A connection ID that another path has already.
#[test]
fn one_connection_id_on_two_paths() {
    let mut duel = two_paths();
    let cid = duel.peer.own_cid(1, 0);
    duel.send(&[Frame::NewCid {
        path: Some(2),
        seq: 0,
        retire_prior_to: 0,
        cid,
        token: [9; 16],
    }]);
    assert_eq!(duel.error(), PROTOCOL_VIOLATION);
}

/// MAX_PATH_ID that rises by one: what we hold and issue for it is bounded by our own limit.
#[test]
fn max_path_id_that_rises_by_one() {
    let mut duel = Duel::established(quiet(), Params::generous(Some(1)));
    duel.victim.keep_events = false;
    let (before, sent) = (meter::reading().held, duel.victim.sent_in_all().bytes);
    for max in 2..5000 {
        duel.send(&[Frame::MaxPathId(max)]);
        if max % 50 == 0 {
            duel.settle();
        }
    }
    assert!(duel.alive(), "{:?}", duel.reason());
    let held = (meter::reading().held - before).max(0) as f64;
    figure(
        "MAX_PATH_ID",
        "bytes held after 5,000 that rise",
        held,
        65_536.0,
    );
    let out = (duel.victim.sent_in_all().bytes - sent) as f64;
    figure("MAX_PATH_ID", "bytes sent per frame", out / 5000.0, 60.0);
}

/// MAX_PATH_ID that falls is reordered and changes nothing; one below the transport parameter or beyond 2^32 - 1 is an error.
#[test]
fn max_path_id_that_falls_or_is_too_large() {
    let at_most_three = || Duel::established(quiet(), Params::generous(Some(3)));
    let mut duel = at_most_three();
    for max in [7, 5, 3] {
        duel.send(&[Frame::MaxPathId(max)]);
    }
    duel.open_path(1);
    assert!(duel.alive(), "{:?}", duel.reason());
    for max in [2, 0, 1 << 32, (1 << 62) - 1] {
        let mut duel = at_most_three();
        duel.send(&[Frame::MaxPathId(max)]);
        assert_eq!(duel.error(), PROTOCOL_VIOLATION, "{max}");
    }
}

/// A status with the largest sequence number is the last; those below it change nothing, and nothing grows.
#[test]
fn path_status_with_the_largest_sequence_number() {
    let mut duel = two_paths();
    let status = |seq, backup| Frame::PathStatus {
        path: 1,
        seq,
        backup,
    };
    duel.send(&[status((1 << 62) - 1, true)]);
    let before = meter::reading().held;
    for seq in 0..10_000 {
        duel.send(&[status(seq, false)]);
    }
    assert!(duel.alive(), "{:?}", duel.reason());
    let path = duel.victim.connection().path(PathId(1)).unwrap();
    assert_eq!(path.remote_status(), Some(PathStatus::Backup));
    let held = (meter::reading().held - before).max(0) as f64;
    figure(
        "PATH_STATUS",
        "bytes held after 10,000 old ones",
        held,
        65_536.0,
    );
}

/// PATH_ABANDON again and again, of a path that is gone and of those that never were.
#[test]
fn path_abandon_again_and_again() {
    let mut duel = two_paths();
    let abandon = |path| Frame::PathAbandon { path, code: 0 };
    duel.send(&[abandon(1)]);
    duel.settle();
    let (before, sent) = (meter::reading().held, duel.victim.sent_in_all().bytes);
    for round in 0..10_000u64 {
        duel.send(&[abandon(1 + round % 7)]);
        if round % 100 == 0 {
            duel.settle();
        }
    }
    assert!(duel.alive(), "{:?}", duel.reason());
    let held = (meter::reading().held - before).max(0) as f64;
    figure("PATH_ABANDON", "bytes held after 10,000", held, 65_536.0);
    let out = (duel.victim.sent_in_all().bytes - sent) as f64;
    figure("PATH_ABANDON", "bytes sent per frame", out / 10_000.0, 60.0);
}

/// PATHS_BLOCKED and PATH_CIDS_BLOCKED without end: they are hints, and make no answer each.
#[test]
fn blocked_frames_without_end() {
    let mut duel = two_paths();
    let (before, sent) = (meter::reading().held, duel.victim.sent_in_all().bytes);
    let mut answers = 0;
    for round in 0..10_000 {
        duel.send(&[
            Frame::PathsBlocked(7),
            Frame::PathCidsBlocked {
                path: round % 8,
                next: 0,
            },
        ]);
        if round % 100 == 0 {
            duel.victim.flush();
            let came = duel.collect();
            let all = came.iter().flat_map(|(_, opened)| &opened.frames);
            answers += all
                .filter(|frame| matches!(frame, Frame::MaxPathId(_) | Frame::NewCid { .. }))
                .count();
            duel.answer(&came);
        }
    }
    assert!(duel.alive(), "{:?}", duel.reason());
    let held = (meter::reading().held - before).max(0) as f64;
    figure("PATHS_BLOCKED", "bytes held after 20,000", held, 65_536.0);
    figure(
        "PATHS_BLOCKED",
        "limits and IDs in answer",
        answers as f64,
        0.0,
    );
    let out = (duel.victim.sent_in_all().bytes - sent) as f64;
    figure(
        "PATHS_BLOCKED",
        "bytes sent per frame",
        out / 20_000.0,
        60.0,
    );
}

/// A stateless reset with the token of the second path's connection ID ends the connection (RFC 9000 section 10.3.1: any token that the
/// peer gave), and one that is a bit off does not.
#[test]
fn stateless_resets_that_name_the_second_path() {
    let mut duel = two_paths();
    let datagram = |token: [u8; 16]| {
        let mut datagram = vec![0x47; 60];
        datagram[44..].copy_from_slice(&token);
        datagram
    };
    let mut wrong = reset_token(1, 0);
    wrong[15] ^= 1;
    for path in 0..2 {
        let tuple = duel.tuple(path);
        duel.victim.deliver(tuple, None, &datagram(wrong));
        assert!(duel.alive(), "{:?}", duel.reason());
    }
    let tuple = duel.tuple(1);
    duel.victim
        .deliver(tuple, None, &datagram(reset_token(1, 0)));
    assert!(!duel.alive());
}
