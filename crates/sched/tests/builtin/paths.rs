//! Redundant, backup-only and the ns-3 variants: decisions worked out by hand.

use std::time::Duration;

use mpquic_sched::replica::{MinRttNs3, RrNs3};
use mpquic_sched::{
    Acked, Backup, BackupConfig, Data, PathId, PathIndex, PathStatus, PathView, Redundant,
    Scheduler, StreamId, StreamUpdate, StreamUpdateKind,
};

use crate::{Asked, full, loaded, path, unsent};

fn closed(slot: usize) -> PathView {
    PathView::closed(PathIndex::new(slot).unwrap())
}

fn backup(mut view: PathView) -> PathView {
    view.status = PathStatus::Backup;
    view
}

fn suspect(mut view: PathView) -> PathView {
    view.suspect = true;
    view
}

#[test]
fn redundant_offers_every_path_in_the_order_of_speed() {
    let table: &[(&str, &[PathView], Option<usize>)] = &[
        ("no path", &[], None),
        ("the fastest first", &[path(0, 20), path(1, 10)], Some(1)),
        ("then the next", &[path(0, 20), full(1, 10)], Some(0)),
        ("all full", &[full(0, 20), full(1, 10)], None),
        (
            "backup not needed",
            &[full(0, 20), backup(path(1, 10))],
            None,
        ),
        ("in trouble", &[suspect(path(0, 20)), path(1, 90)], Some(1)),
        ("untested", &[path(0, 0), path(1, 90)], Some(1)),
    ];
    for (case, paths, expected) in table {
        let next = Asked::new(Redundant::default()).next(paths, &unsent(1));
        let expected = expected.map(|slot| (slot, Data::Redundant));
        assert_eq!(next, expected, "{case}");
    }
}

#[test]
fn backup_uses_one_path() {
    let fast = || loaded(0, 20, 10, 0);
    let slow = || loaded(1, 60, 10, 0);
    let busy = |mut view: PathView| {
        view.can_send = false;
        view
    };
    // Paths; without a primary path, and with path 1 as such.
    type Row<'a> = (&'a str, &'a [PathView], Option<usize>, Option<usize>);
    let table: &[Row<'_>] = &[
        ("no path", &[closed(0)], None, None),
        ("both", &[fast(), slow()], Some(0), Some(1)),
        ("fast is full", &[busy(fast()), slow()], None, Some(1)),
        ("slow is full", &[fast(), busy(slow())], Some(0), None),
        (
            "fast in trouble",
            &[suspect(fast()), slow()],
            Some(1),
            Some(1),
        ),
        (
            "slow in trouble",
            &[fast(), suspect(slow())],
            Some(0),
            Some(0),
        ),
        (
            "both in trouble",
            &[suspect(fast()), suspect(slow())],
            Some(0),
            Some(1),
        ),
        (
            "fast is a backup",
            &[backup(fast()), slow()],
            Some(1),
            Some(1),
        ),
        (
            "slow is a backup",
            &[fast(), backup(slow())],
            Some(0),
            Some(0),
        ),
        (
            "in trouble, and a backup",
            &[suspect(fast()), backup(slow())],
            Some(1),
            Some(1),
        ),
        ("slow is gone", &[fast(), closed(1)], Some(0), Some(0)),
        ("untested", &[path(0, 0), slow()], Some(1), Some(1)),
    ];
    for (case, paths, by_rtt, by_id) in table {
        for (primary, expected) in [(None, by_rtt), (Some(1), by_id)] {
            let scheduler = Backup::new(&BackupConfig {
                primary: primary.map(PathId),
            });
            let next = Asked::new(scheduler).next(paths, &unsent(1));
            let expected = expected.map(|slot| (slot, Data::Next));
            assert_eq!(next, expected, "{case}, primary {primary:?}");
        }
    }
    // The queue that its own traffic makes does not move it.
    let mut queued = [fast(), slow()];
    queued[0].smoothed_rtt = Duration::from_millis(500);
    let next = Asked::new(Backup::default()).next(&queued, &unsent(1));
    assert_eq!(next, Some((0, Data::Next)));
}

/// An event that begins an opportunity, at the same time.
fn event<S: Scheduler>(asked: &mut Asked<S>) {
    let id = StreamId::from(mpquic_sched::VarInt::from_u32(0));
    let written = StreamUpdate::new(id, StreamUpdateKind::Written(1));
    asked.scheduler.on_stream(&written);
}

#[test]
fn rr_ns3_gives_each_path_whole_opportunities() {
    let queue = unsent(1 << 20);
    let three = [
        loaded(0, 1, 10, 0),
        loaded(1, 90, 10, 0),
        loaded(2, 5, 10, 0),
    ];
    let filled = |paths: &[PathView], slot: usize| {
        let mut paths = paths.to_vec();
        paths[slot].can_send = false;
        paths[slot].in_flight = paths[slot].cwnd;
        paths
    };
    let mut rr = Asked::new(RrNs3::default());
    let slots = |rr: &mut Asked<RrNs3>, paths: &[PathView], times: usize| -> Vec<_> {
        let next = (0..times).map(|_| rr.next(paths, &queue).map(|(slot, _)| slot));
        next.collect()
    };
    // All packets of an opportunity go one way, until the window is full; whatever the time.
    assert_eq!(slots(&mut rr, &three, 3), [Some(0); 3]);
    assert_eq!(slots(rr.at(1), &three, 2), [Some(0); 2]);
    let paths = filled(&three, 0);
    assert_eq!(slots(&mut rr, &paths, 2), [None; 2]);
    event(&mut rr);
    assert_eq!(slots(&mut rr, &paths, 2), [Some(1); 2]);
    // Full already: nothing is sent at this opportunity, though another path has room.
    let paths = filled(&filled(&three, 1), 2);
    let acked = Acked::new(three[0].index, rr.now, rr.start, 1, None, None, 0);
    rr.scheduler.on_acked(&acked);
    assert_eq!(slots(&mut rr, &paths, 3), [None; 3]);
    event(&mut rr);
    assert_eq!(slots(&mut rr, &paths, 3), [Some(0); 3]);
    // Two opportunities at a time, if the second begins before the first is used up.
    event(&mut rr);
    assert_eq!(slots(&mut rr, &three, 2), [Some(0); 2]);
    assert_eq!(slots(&mut rr, &filled(&three, 0), 2), [Some(1); 2]);
    assert_eq!(slots(&mut rr, &filled(&filled(&three, 0), 1), 2), [None; 2]);
    // A window that opens again is another opportunity's.
    assert_eq!(slots(&mut rr, &three, 1), [None]);
    event(&mut rr);
    assert_eq!(slots(&mut rr, &three, 1), [Some(2)]);
    // What its pacer holds back goes on after that.
    let mut paced = three.clone();
    paced[2].can_send = false;
    paced[2].next_release = Some(rr.start + Duration::from_millis(7));
    assert_eq!(rr.waits(&paced, &queue), Some(7));
    assert_eq!(slots(rr.at(7), &three, 1), [Some(2)]);
    // With nothing left to send it is over.
    assert!(rr.next(&three, &unsent(0)).is_some());
    assert_eq!(slots(&mut rr, &three, 1), [None]);
    // Paths that are gone have no turn, nor has one that nothing will wake up.
    let mut dead = three.clone();
    dead[0].open = false;
    (dead[1].can_send, dead[1].in_flight) = (false, 0);
    for _ in 0..3 {
        event(&mut rr);
        assert_eq!(slots(&mut rr, &dead, 1), [Some(2)]);
    }
    dead[2].open = false;
    assert_eq!(slots(&mut rr, &dead, 1), [None]);
    assert_eq!(slots(&mut rr, &[], 1), [None]);
    let spare = [three[0].clone(), backup(three[1].clone())];
    for _ in 0..4 {
        event(&mut rr);
        assert_eq!(slots(&mut rr, &spare, 1), [Some(0)]);
    }
}

#[test]
fn minrtt_ns3_takes_the_newest_rtt_and_no_other_path() {
    let queue = unsent(1 << 20);
    let both = [loaded(0, 20, 10, 0), loaded(1, 21, 10, 0)];
    let mut ns3 = Asked::new(MinRttNs3::default());
    assert_eq!(ns3.next(&both, &queue), Some((0, Data::Next)));
    // Full: nothing is sent, at this opportunity or the next.
    let mut paths = both.clone();
    (paths[0].can_send, paths[0].in_flight) = (false, 12_350);
    assert_eq!(ns3.waits(&paths, &queue), None);
    event(&mut ns3);
    assert_eq!(ns3.waits(&paths, &queue), None);
    // Its newest RTT is larger: the other one's, from the next opportunity on. The smoothed one
    // plays no part.
    paths[0].latest_rtt = Duration::from_millis(22);
    assert_eq!(ns3.waits(&paths, &queue), None);
    event(&mut ns3);
    assert_eq!(ns3.next(&paths, &queue), Some((1, Data::Next)));
    paths[1].smoothed_rtt = Duration::from_millis(900);
    event(&mut ns3);
    assert_eq!(ns3.next(&paths, &queue), Some((1, Data::Next)));
    // Untested paths come last, and one that nothing will wake up is not waited for.
    let mut ns3 = Asked::new(MinRttNs3::default());
    paths[1].latest_rtt = Duration::ZERO;
    assert_eq!(ns3.waits(&paths, &queue), None);
    paths[0].in_flight = 0;
    event(&mut ns3);
    assert_eq!(ns3.next(&paths, &queue), Some((1, Data::Next)));
    // Held back by its pacer: until then.
    let mut ns3 = Asked::new(MinRttNs3::default());
    let mut paced = both.clone();
    paced[0].can_send = false;
    paced[0].next_release = Some(ns3.start + Duration::from_millis(9));
    assert_eq!(ns3.at(5).waits(&paced, &queue), Some(9));
    assert_eq!(ns3.at(9).next(&both, &queue), Some((0, Data::Next)));
    // Ties go to the lowest slot; trouble counts.
    let tie = [loaded(0, 20, 10, 0), loaded(1, 20, 10, 0)];
    let fresh = |paths: &[PathView]| Asked::new(MinRttNs3::default()).next(paths, &queue);
    assert_eq!(fresh(&tie), Some((0, Data::Next)));
    let trouble = [suspect(tie[0].clone()), tie[1].clone()];
    assert_eq!(fresh(&trouble), Some((1, Data::Next)));
    assert_eq!(fresh(&[]), None);
}
