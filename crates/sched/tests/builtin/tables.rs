//! Decisions worked out by hand.

use std::num::NonZeroU32;
use std::time::{Duration, Instant};

use mpquic_sched::{
    Context, Decision, MinRtt, PathId, PathIndex, PathStatus, PathUpdate, PathUpdateKind, PathView,
    QueueView, Registry, RoundRobin, RoundRobinConfig, Scheduler, SinglePath, SinglePathConfig,
};

use serde_json::json;

use crate::{ask, ask_times, full, path};

fn with(mut view: PathView, change: impl FnOnce(&mut PathView)) -> PathView {
    change(&mut view);
    view
}

fn closed(slot: usize) -> PathView {
    PathView::closed(PathIndex::new(slot).unwrap())
}

fn backup(view: PathView) -> PathView {
    with(view, |view| view.status = PathStatus::Backup)
}

fn suspect(view: PathView) -> PathView {
    with(view, |view| view.suspect = true)
}

fn sent(view: PathView, packets: u64) -> PathView {
    with(view, |view| view.sent_packets = packets)
}

#[test]
fn min_rtt() {
    let table: &[(&str, &[PathView], Option<usize>)] = &[
        ("no slots", &[], None),
        ("no path", &[closed(0), closed(1)], None),
        ("one path", &[path(0, 10)], Some(0)),
        ("lower RTT", &[path(0, 20), path(1, 10)], Some(1)),
        ("tie", &[path(0, 20), path(1, 10), path(2, 10)], Some(1)),
        ("fastest full", &[full(0, 10), path(1, 90)], Some(1)),
        ("all full", &[full(0, 10), full(1, 90)], None),
        ("hole in the slots", &[closed(0), path(1, 90)], Some(1)),
        ("untested", &[path(0, 0), path(1, 900)], Some(1)),
        ("only untested left", &[path(0, 0), full(1, 9)], Some(0)),
        (
            "untested, fewest sent",
            &[sent(path(0, 0), 7), sent(path(1, 0), 6)],
            Some(1),
        ),
        (
            "tested, whatever was sent",
            &[sent(path(0, 10), 7), sent(path(1, 11), 0)],
            Some(0),
        ),
        (
            "backup is faster",
            &[path(0, 90), backup(path(1, 10))],
            Some(0),
        ),
        (
            "available is full, no spill to backup",
            &[full(0, 90), backup(path(1, 10))],
            None,
        ),
        (
            "available is suspect",
            &[suspect(path(0, 10)), backup(path(1, 90))],
            Some(1),
        ),
        (
            "all suspect",
            &[suspect(path(0, 10)), suspect(path(1, 5))],
            Some(1),
        ),
        (
            "suspect and backup",
            &[suspect(backup(path(0, 10))), suspect(path(1, 90))],
            Some(1),
        ),
    ];
    for (case, paths, expected) in table {
        assert_eq!(
            ask(&mut MinRtt::default(), paths),
            *expected,
            "{case}: {paths:?}"
        );
    }
}

#[test]
fn min_rtt_tells_nanoseconds_and_years_apart() {
    let rtt = |slot, rtt| with(path(slot, 1), |view| view.smoothed_rtt = rtt);
    let duration = Duration::new;
    for (a, b, expected) in [
        (duration(0, 2), duration(0, 1), 1),
        (duration(1, 0), duration(0, 999_999_999), 1),
        (duration(1 << 32, 0), duration(1 << 31, 999_999_999), 1),
    ] {
        let paths = [rtt(0, a), rtt(1, b)];
        assert_eq!(ask(&mut MinRtt::default(), &paths), Some(expected));
    }
    // However long its RTT, a path with a sample goes before one without.
    let paths = [path(0, 0), rtt(1, duration(1 << 32, 0))];
    assert_eq!(ask(&mut MinRtt::default(), &paths), Some(1));
}

#[test]
fn round_robin_takes_turns() {
    let mut scheduler = RoundRobin::default();
    let all = [path(0, 1), path(1, 90), path(2, 5)];
    assert_eq!(
        ask_times(&mut scheduler, &all, 7),
        [0, 1, 2, 0, 1, 2, 0],
        "whatever the RTT"
    );
    let one_full = [path(0, 1), full(1, 90), path(2, 5)];
    assert_eq!(
        ask_times(&mut scheduler, &one_full, 4),
        [2, 0, 2, 0],
        "goes on where it was"
    );
    assert_eq!(
        ask_times(&mut scheduler, &all, 4),
        [1, 2, 0, 1],
        "no debt to the path that was full"
    );
    let two_full = [full(0, 1), full(1, 90), path(2, 5)];
    assert_eq!(ask_times(&mut scheduler, &two_full, 3), [2, 2, 2]);
    assert_eq!(ask(&mut scheduler, &[full(0, 1), full(1, 2)]), None);
    assert_eq!(ask(&mut scheduler, &[]), None);
    let with_backup = [path(0, 1), backup(path(1, 1)), path(2, 1)];
    assert_eq!(
        ask_times(&mut RoundRobin::default(), &with_backup, 4),
        [0, 2, 0, 2],
        "backups get no turn"
    );
    assert_eq!(
        ask_times(&mut scheduler, &with_backup, 3),
        [0, 0, 2],
        "slot 2 had its turn before: slot 0 ends the round and begins the next"
    );
}

#[test]
fn round_robin_in_bursts() {
    let burst = NonZeroU32::new(3).unwrap();
    let mut scheduler = RoundRobin::new(&RoundRobinConfig { burst });
    let all = [path(0, 1), path(1, 1)];
    assert_eq!(ask_times(&mut scheduler, &all, 8), [0, 0, 0, 1, 1, 1, 0, 0]);
    let zero_full = [full(0, 1), path(1, 1)];
    assert_eq!(ask_times(&mut scheduler, &zero_full, 2), [1, 1]);
    assert_eq!(
        ask_times(&mut scheduler, &all, 5),
        [0, 1, 0, 0, 0],
        "what was begun is finished first, then a new round"
    );
}

#[test]
fn a_slots_next_path_starts_afresh() {
    let mut scheduler = RoundRobin::default();
    let all = [path(0, 1), path(1, 1)];
    assert_eq!(ask(&mut scheduler, &all), Some(0));
    let slot = PathIndex::new(0).unwrap();
    let event = |kind| PathUpdate::new(slot, PathId::ZERO, Instant::now(), kind);
    scheduler.on_path(&event(PathUpdateKind::Suspect));
    assert_eq!(ask(&mut scheduler, &all), Some(1));
    assert_eq!(ask(&mut scheduler, &all), Some(0));
    scheduler.on_path(&event(PathUpdateKind::Abandoned));
    scheduler.on_path(&event(PathUpdateKind::Opened));
    assert_eq!(ask(&mut scheduler, &all), Some(0));
}

#[test]
fn single_path() {
    let id = |view, id| with(view, |view: &mut PathView| view.id = PathId(id));
    let table: &[(&str, &[PathView], Option<usize>)] = &[
        ("no path", &[closed(0)], None),
        ("its path", &[id(path(0, 1), 3), id(path(1, 9), 5)], Some(1)),
        (
            "its path is full",
            &[id(path(0, 1), 3), id(full(1, 9), 5)],
            None,
        ),
        (
            "its path is in trouble",
            &[id(path(0, 1), 3), id(suspect(backup(path(1, 9))), 5)],
            Some(1),
        ),
        (
            "its path is gone: lowest ID, not lowest slot",
            &[id(path(0, 1), 7), closed(1), id(path(2, 9), 6)],
            Some(2),
        ),
        (
            "the other one is full",
            &[id(path(0, 1), 7), id(full(1, 9), 6)],
            None,
        ),
        (
            "the slot is not the ID",
            &[closed(0), closed(1), id(path(2, 9), 5)],
            Some(2),
        ),
    ];
    for (case, paths, expected) in table {
        let mut scheduler = SinglePath::new(&SinglePathConfig { path: PathId(5) });
        assert_eq!(ask(&mut scheduler, paths), *expected, "{case}: {paths:?}");
    }
    assert_eq!(
        ask(&mut SinglePath::default(), &[path(0, 9), path(1, 1)]),
        Some(0)
    );
}

/// In the kernel, no pacer is above the scheduler: held back is full.
#[test]
fn min_rtt_may_take_a_paced_path_for_a_full_one() {
    let now = Instant::now();
    let paced = with(full(0, 10), |view| {
        (view.cwnd, view.in_flight) = (100_000, 60_000);
        view.next_release = Some(now + Duration::from_millis(3));
    });
    let paths = [paced, path(1, 90)];
    let mut queue = QueueView::default();
    (queue.unsent, queue.window_left) = (40_000, 1 << 20);
    for (config, waits) in [(json!({}), true), (json!({"wait_for_pacer": false}), false)] {
        let mut minrtt = Registry::new().build("minrtt", &config).unwrap();
        let decision = minrtt.decide(&Context::new(now, &paths, &queue, 0));
        assert_eq!(matches!(decision, Decision::Wait { .. }), waits);
        assert_eq!(decision == Decision::send(paths[1].index), !waits);
    }
}

/// 60 kB in flight of a window of 100 kB leave room for 40 kB.
#[test]
fn min_rtt_waits_for_a_pacer_if_all_fits_the_window_behind_it() {
    let now = Instant::now();
    let release = now + Duration::from_millis(3);
    let paced = |slot, rtt| {
        with(full(slot, rtt), |view| {
            (view.cwnd, view.in_flight) = (100_000, 60_000);
            view.next_release = Some(release);
        })
    };
    let wait = Decision::Wait {
        until: Some(release),
    };
    let send = |slot| Decision::send(PathIndex::new(slot).unwrap());
    let late = |view| with(view, |view: &mut PathView| view.next_release = Some(now));
    let table: &[(&str, &[PathView], u64, u64, Decision)] = &[
        ("fits", &[paced(0, 10), path(1, 90)], 40_000, 0, wait),
        ("too much", &[paced(0, 10), path(1, 90)], 40_001, 0, send(1)),
        (
            "with the lost, too much",
            &[paced(0, 10), path(1, 90)],
            39_000,
            1_001,
            send(1),
        ),
        (
            "two faster ones",
            &[paced(0, 10), path(1, 90), paced(2, 20)],
            80_000,
            0,
            wait,
        ),
        (
            "the slower one is paced",
            &[path(0, 10), paced(1, 90)],
            1,
            0,
            send(0),
        ),
        (
            "full, not paced",
            &[full(0, 10), path(1, 90)],
            1,
            0,
            send(1),
        ),
        (
            "backup is paced",
            &[path(0, 90), backup(paced(1, 10))],
            1,
            0,
            send(0),
        ),
        ("overdue", &[late(paced(0, 10)), path(1, 90)], 1, 0, send(1)),
    ];
    for (name, paths, unsent, retransmittable, decision) in table {
        let mut queue = QueueView::default();
        (queue.unsent, queue.retransmittable) = (*unsent, *retransmittable);
        queue.window_left = 1_000_000;
        let cx = Context::new(now, paths, &queue, 0);
        assert_eq!(MinRtt::default().decide(&cx), *decision, "{name}");
    }
}
