//! Redundant and backup-only: decisions worked out by hand.

use std::time::Duration;

use mpquic_sched::{
    Backup, BackupConfig, Data, PathId, PathIndex, PathStatus, PathView, Redundant,
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
