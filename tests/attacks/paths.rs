//! Attacks by path IDs: churn, floods of frames that name paths, races of PATH_ABANDON, replays on dead paths.

use std::collections::BTreeSet;
use std::time::Duration;

use mpquic_hostile::duel::Duel;
use mpquic_hostile::meter;
use mpquic_hostile::params::Params;
use mpquic_hostile::peer::Space;
use mpquic_hostile::wire::Frame;
use mpquic_proto::{Dir, PathEvent, PathId, PathStatus};

use super::*;

/// Allocations and bytes out per packet in, of the last and the first of many.
fn cost(duel: &mut Duel, packets: u64, mut make: impl FnMut(u64) -> Vec<Frame>) -> (u64, u64) {
    let before = meter::reading();
    let sent = duel.victim.sent_in_all().bytes;
    for packet in 0..packets {
        duel.send(&make(packet));
    }
    let after = meter::reading();
    let out = duel.victim.sent_in_all().bytes - sent;
    (
        (after.allocations - before.allocations) / packets,
        out / packets,
    )
}

/// Finding 1: a peer that uses up path IDs as fast as it may.
#[test]
fn path_id_churn() {
    let mut duel = multipath();
    duel.send(&[Frame::MaxPathId((1 << 32) - 1)]);
    let start = meter::reading().held;
    let mut used = 0u64;
    let (mut most_frames, mut most_allocations) = (0, 0);
    // At one moment, as fast as answers come: no more IDs than a few times the paths that may be open.
    while used < duel.peer.their_max_path_id.unwrap() && used < 10_000 {
        used += 1;
        let path = used;
        duel.send(&[Frame::PathAbandon { path, code: 0 }]);
        duel.victim.advance(Duration::from_millis(1));
        duel.collect();
        duel.acknowledge();
    }
    figure(
        "path-ID churn",
        "path IDs used up at once, of 10,000",
        used,
        100,
    );
    let begin = duel.victim.now;
    let at_once = used;
    for _ in 0..2000 {
        let limit = duel.peer.their_max_path_id.unwrap();
        while used < limit {
            used += 1;
            let before = meter::reading().allocations;
            duel.send(&[Frame::PathAbandon {
                path: used,
                code: 0,
            }]);
            most_allocations = most_allocations.max(meter::reading().allocations - before);
            let came = duel.collect();
            let frames: usize = came.iter().map(|(_, opened)| opened.frames.len()).sum();
            most_frames = most_frames.max(frames);
            duel.acknowledge();
        }
        duel.victim.advance(Duration::from_millis(50));
        let came = duel.collect();
        duel.answer(&came);
        duel.settle();
    }
    assert!(duel.alive(), "{:?}", duel.reason());
    assert_eq!(duel.victim.over_caps(), Vec::<String>::new());
    let seconds = (duel.victim.now - begin).as_secs().max(1);
    figure(
        "path-ID churn",
        "path IDs used up per second",
        (used - at_once) / seconds,
        100,
    );
    figure(
        "path-ID churn",
        "frames in answer to one PATH_ABANDON",
        most_frames as u64,
        64,
    );
    figure(
        "path-ID churn",
        "allocations for one PATH_ABANDON at most",
        most_allocations,
        200,
    );
    growth(
        "path-ID churn",
        "bytes held after all of it",
        start,
        meter::reading().held,
        65_536,
    );
}

/// The same frames many times: what one costs does not depend on how many came before.
#[test]
fn floods_of_path_frames() {
    type Make = fn(u64) -> Vec<Frame>;
    let floods: [(&str, Make); 6] = [
        ("PATHS_BLOCKED", |_| vec![Frame::PathsBlocked(7)]),
        ("PATH_CIDS_BLOCKED", |_| {
            vec![Frame::PathCidsBlocked { path: 0, next: 0 }]
        }),
        ("MAX_PATH_ID", |n| vec![Frame::MaxPathId(100 + n)]),
        ("PATH_STATUS", |n| {
            vec![Frame::PathStatus {
                path: 0,
                seq: n + 1,
                backup: n % 2 == 0,
            }]
        }),
        ("PATH_STATUS of others", |n| {
            vec![Frame::PathStatus {
                path: n % 8,
                seq: n,
                backup: true,
            }]
        }),
        ("PATH_RETIRE_CONNECTION_ID", |_| {
            vec![Frame::RetireCid {
                path: Some(3),
                seq: 0,
            }]
        }),
    ];
    for (name, make) in floods {
        let mut duel = multipath();
        duel.open_path(1);
        duel.victim.keep_events = false;
        cost(&mut duel, 200, make);
        duel.settle();
        let before = meter::reading().held;
        let (allocations, bytes) = cost(&mut duel, 10_000, make);
        assert!(duel.alive(), "{name}: {:?}", duel.error());
        assert_eq!(duel.victim.over_caps(), Vec::<String>::new());
        let class = "flood of path frames";
        figure(
            class,
            &format!("{name}: allocations per packet"),
            allocations,
            8,
        );
        figure(
            class,
            &format!("{name}: bytes sent per packet of some 30 to 40"),
            bytes,
            60,
        );
        growth(
            class,
            &format!("{name}: bytes held after 10,000"),
            before,
            meter::reading().held,
            32_768,
        );
    }
}

/// Reordered status frames: the highest sequence number wins.
#[test]
fn status_out_of_order() {
    let mut duel = multipath();
    duel.open_path(1);
    let status = |duel: &mut Duel| {
        duel.victim
            .connection()
            .path(PathId(1))
            .unwrap()
            .remote_status()
    };
    for (seq, backup, expected) in [
        (10, true, PathStatus::Backup),
        (9, false, PathStatus::Backup),
        (10, false, PathStatus::Backup),
        (12, false, PathStatus::Available),
        (11, true, PathStatus::Available),
    ] {
        duel.send(&[Frame::PathStatus {
            path: 1,
            seq,
            backup,
        }]);
        assert_eq!(status(&mut duel), Some(expected), "{seq}");
    }
    // All paths are backup: data flows on one of them.
    duel.send(&[
        Frame::PathStatus {
            path: 0,
            seq: 20,
            backup: true,
        },
        Frame::PathStatus {
            path: 1,
            seq: 20,
            backup: true,
        },
    ]);
    let id = duel.victim.connection().streams().open(Dir::Uni).unwrap();
    duel.victim
        .connection()
        .send_stream(id)
        .write(&[5; 3000])
        .unwrap();
    duel.victim.flush();
    let data: usize = duel
        .frames()
        .iter()
        .map(|frame| {
            if let Frame::Stream { data, .. } = frame {
                data.len()
            } else {
                0
            }
        })
        .sum();
    figure(
        "all paths backup",
        "bytes of 3,000 that are held back",
        3000 - data as u64,
        0,
    );
}

/// MAX_PATH_ID at its edges: the largest is taken without work, more is an error, less is reordering.
#[test]
fn max_path_id() {
    let mut duel = multipath();
    let before = meter::reading();
    duel.send(&[Frame::MaxPathId((1 << 32) - 1)]);
    let after = meter::reading();
    assert!(duel.alive(), "{:?}", duel.reason());
    growth(
        "MAX_PATH_ID 2^32-1",
        "bytes held",
        before.held,
        after.held,
        16_384,
    );
    figure(
        "MAX_PATH_ID 2^32-1",
        "allocations",
        after.allocations - before.allocations,
        64,
    );
    duel.send(&[Frame::MaxPathId(8)]);
    assert!(duel.alive(), "{:?}", duel.reason());
    duel.send(&[Frame::MaxPathId(1 << 32)]);
    assert_eq!(duel.error(), PROTOCOL_VIOLATION);
    // Below what the transport parameter said.
    let mut duel = multipath();
    duel.send(&[Frame::MaxPathId(3)]);
    assert_eq!(duel.error(), PROTOCOL_VIOLATION);
}

/// noq 3905485d, #399, #400, #435: PATH_ABANDON repeated, crossed, of the last path, of a path that is being opened.
#[test]
fn races_of_path_abandon() {
    // Repeated, on each of the paths, before and after the answer.
    let mut duel = multipath();
    duel.open_path(1);
    duel.open_path(2);
    for on in [0, 2, 1] {
        for _ in 0..50 {
            duel.send_on(on, &[Frame::PathAbandon { path: 1, code: 0 }]);
        }
    }
    let frames = duel.frames();
    let answers = frames
        .iter()
        .filter(|frame| matches!(frame, Frame::PathAbandon { .. }))
        .count();
    figure(
        "PATH_ABANDON races",
        "answers to 150 PATH_ABANDON of one path",
        answers as u64,
        2,
    );
    assert!(duel.alive(), "{:?}", duel.reason());
    // Crossed: both abandon the path at once.
    let now = duel.victim.now;
    duel.victim
        .connection()
        .path_mut(PathId(2))
        .close(now, mpquic_proto::PathErrorCode::NO_ERROR)
        .unwrap();
    duel.send(&[Frame::PathAbandon { path: 2, code: 0 }]);
    duel.victim.flush();
    duel.settle();
    assert!(duel.alive(), "{:?}", duel.reason());
    // The answer is lost and lost again: it is repeated until it is acknowledged.
    let mut duel = multipath();
    duel.open_path(1);
    duel.send(&[Frame::PathAbandon { path: 1, code: 0 }]);
    let mut seen = 0;
    for _ in 0..20 {
        duel.victim.advance(Duration::from_millis(200));
        let frames = duel.frames();
        seen += frames
            .iter()
            .filter(|frame| matches!(frame, Frame::PathAbandon { path: 1, .. }))
            .count();
    }
    assert!(seen >= 3, "a lost PATH_ABANDON is repeated: {seen}");
    figure(
        "PATH_ABANDON races",
        "repetitions in 4 s of silence",
        seen as u64,
        40,
    );
    // The only path that is validated, while another is being opened: it never hangs.
    let mut duel = multipath();
    let issue = [duel.peer.issue(1, 0), duel.peer.issue(1, 1)];
    duel.send(&issue);
    duel.send_on(1, &[Frame::PathChallenge([1; 8]), Frame::Padding(1150)]);
    duel.send_on(1, &[Frame::PathAbandon { path: 0, code: 0 }]);
    duel.victim.advance(60 * SECOND);
    assert_eq!(
        duel.victim.endpoint.open_connections(),
        0,
        "it ends by the idle timeout"
    );
    // The last path.
    let mut duel = multipath();
    duel.send(&[Frame::PathAbandon { path: 0, code: 0 }]);
    assert_eq!(duel.error(), NO_ERROR);
    assert!(
        duel.frames()
            .iter()
            .any(|frame| matches!(frame, Frame::Close { .. })),
        "the peer is told"
    );
}

/// Abandons every path ID that may be used.
fn abandon_all(duel: &mut Duel, abandoned: &mut BTreeSet<u64>) {
    for path in 1..=duel.peer.their_max_path_id.unwrap() {
        if abandoned.insert(path) {
            duel.send(&[Frame::PathAbandon { path, code: 0 }]);
        }
    }
}

/// The paths that the victim abandons within 20 ms. What it sends then is acknowledged, and nothing of before; or nothing
/// at all.
fn abandoned_by_victim(duel: &mut Duel, acknowledges: bool) -> Vec<u64> {
    duel.victim.advance(Duration::from_millis(20));
    let mut paths = Vec::new();
    for (_, opened) in duel.collect() {
        if let (Space::Data(path), true) = (opened.space, acknowledges) {
            duel.send(&[Frame::ack(Some(path.into()), opened.number, opened.number)]);
        }
        paths.extend(opened.frames.iter().filter_map(|frame| match frame {
            Frame::PathAbandon { path, .. } => Some(*path),
            _ => None,
        }));
    }
    paths
}

/// Once answers were lost beyond the 32 abandoned paths that are remembered. None is, and a peer that acknowledges nothing
/// has few of them kept.
#[test]
fn every_path_abandon_is_answered() {
    let mut duel = multipath();
    let (mut abandoned, mut answered) = (BTreeSet::new(), BTreeSet::new());
    // The answers to the first ones are lost.
    while abandoned.len() < 40 {
        abandon_all(&mut duel, &mut abandoned);
        abandoned_by_victim(&mut duel, false);
    }
    for _ in 0..200 {
        abandon_all(&mut duel, &mut abandoned);
        answered.extend(abandoned_by_victim(&mut duel, true));
    }
    for _ in 0..200 {
        answered.extend(abandoned_by_victim(&mut duel, true));
    }
    let missing = abandoned.difference(&answered).count();
    assert!(abandoned.len() > 100 && duel.alive());
    figure(
        "PATH_ABANDON races",
        "abandoned paths without an answer",
        missing as u64,
        0,
    );
    // Nothing is ever acknowledged.
    let mut duel = multipath();
    duel.victim.keep_events = false;
    let mut abandoned = BTreeSet::new();
    while abandoned.len() < 400 {
        abandon_all(&mut duel, &mut abandoned);
        abandoned_by_victim(&mut duel, false);
        assert_eq!(duel.victim.over_caps(), Vec::<String>::new());
    }
    assert!(duel.alive(), "{:?}", duel.reason());
}

/// noq 52a50004, 898cea7d: datagrams of a path that is gone, again, and under an ID that was never opened.
#[test]
fn replays_on_dead_paths() {
    let mut duel = multipath();
    duel.open_path(1);
    let mut recorded = Vec::new();
    for number in 0..40u8 {
        let frames = [
            Frame::Datagram(vec![number; 50]),
            Frame::PathStatus {
                path: 1,
                seq: 30,
                backup: false,
            },
        ];
        let datagram = duel.peer.seal(Space::Data(1), &frames).unwrap();
        if number % 2 == 0 {
            let tuple = duel.tuple(1);
            duel.victim.deliver(tuple, None, &datagram);
        }
        recorded.push(datagram);
    }
    let mut first = 0;
    while duel.victim.connection().datagrams().recv().is_some() {
        first += 1;
    }
    assert_eq!(first, 20);
    duel.send(&[Frame::PathAbandon { path: 1, code: 0 }]);
    // Its packet numbers are still known: what was processed is not processed again, what was on its way is, once.
    for _ in 0..10 {
        for datagram in &recorded {
            let tuple = duel.tuple(1);
            duel.victim.deliver(tuple, None, datagram);
        }
    }
    let mut late = 0;
    while duel.victim.connection().datagrams().recv().is_some() {
        late += 1;
    }
    figure(
        "replay on an abandoned path",
        "packets processed, of 20 new ones in ten copies",
        late,
        20,
    );
    duel.settle();
    duel.victim.advance(10 * SECOND);
    let before = meter::reading().held;
    let sent = duel.victim.sent_in_all().datagrams;
    for round in 0..10 {
        for datagram in &recorded {
            let tuple = duel.tuple(round);
            duel.victim.deliver(tuple, None, datagram);
        }
    }
    assert!(duel.alive(), "{:?}", duel.reason());
    let mut processed = 0;
    while duel.victim.connection().datagrams().recv().is_some() {
        processed += 1;
    }
    figure(
        "replay after discard",
        "packets processed, of 400",
        processed,
        0,
    );
    figure(
        "replay after discard",
        "datagrams in answer, of 400",
        duel.victim.sent_in_all().datagrams - sent,
        400,
    );
    growth(
        "replay after discard",
        "bytes held",
        before,
        meter::reading().held,
        8192,
    );
}

/// noq #435, 5660b3e8: whenever something is in flight that must be acknowledged, a timer is armed.
#[test]
fn no_timer_is_orphaned() {
    let mut moments = 0;
    for abandon in [0, 1, 2] {
        let mut duel = multipath();
        duel.open_path(1);
        duel.open_path(2);
        let id = duel.victim.connection().streams().open(Dir::Uni).unwrap();
        duel.victim
            .connection()
            .send_stream(id)
            .write(&[5; 8000])
            .unwrap();
        duel.victim.flush();
        let on = (abandon + 1) % 3;
        duel.send_on(
            on,
            &[Frame::PathAbandon {
                path: abandon.into(),
                code: 0,
            }],
        );
        for _ in 0..100 {
            let at = duel.victim.next_timeout();
            assert!(at.is_some(), "something is in flight");
            duel.victim.advance(Duration::from_millis(50));
            duel.victim.sent.clear();
            moments += 1;
        }
    }
    figure(
        "timer orphans",
        "moments not looked at, of 300",
        300 - moments,
        0,
    );
}

/// Paths that never answer: validation gives up, and tells the peer.
#[test]
fn paths_that_never_validate() {
    let mut duel = multipath();
    let mut sent = 0;
    for path in 1..=7 {
        let issue = [duel.peer.issue(path, 0), duel.peer.issue(path, 1)];
        duel.send(&issue);
        duel.send_on(path, &[Frame::Ping]);
    }
    let opened = duel.victim.events.len();
    for _ in 0..100 {
        duel.victim.advance(Duration::from_millis(200));
        let came = duel.collect();
        sent += came
            .iter()
            .filter(|(tuple, _)| tuple.remote != duel.tuple(0).remote)
            .map(|(_, opened)| opened.size as u64)
            .sum::<u64>();
        duel.acknowledge();
    }
    assert!(duel.alive() && opened > 0, "{:?}", duel.reason());
    let told = duel.victim.events.iter().any(
        |event| matches!(event, mpquic_proto::Event::Path(PathEvent::Opened { id }) if id.0 > 0),
    );
    assert!(!told, "none of them was validated");
    let received: u64 = (1..=7)
        .map(|path| duel.victim.received_from[&duel.tuple(path).remote].bytes)
        .sum();
    figure(
        "simultaneous validation",
        "bytes sent beyond 3 x received",
        sent.saturating_sub(3 * received),
        0,
    );
}

/// A path that a single-path peer makes up.
#[test]
fn path_ids_without_multipath() {
    let mut duel = Duel::established(quiet(), Params::generous(None));
    let dcid = duel.peer.dcid(0).unwrap().clone();
    duel.peer.their_cids.insert(4, vec![dcid]);
    let before = duel.victim.sent_in_all().datagrams;
    for _ in 0..100 {
        duel.send_on(4, &[Frame::Ping]);
    }
    assert!(duel.alive(), "the nonce of another path opens nothing");
    figure(
        "path ID without multipath",
        "datagrams in answer",
        duel.victim.sent_in_all().datagrams - before,
        0,
    );
}
