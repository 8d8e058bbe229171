//! STMS and DAPS: gaps and schedules worked out by hand.

use std::time::Duration;

use mpquic_sched::{
    Acked, Context, Daps, DapsConfig, Data, Decision, MinRtt, PathId, PathIndex, PathStatus,
    PathUpdate, PathUpdateKind, PathView, Scheduler, Stms,
};

use crate::{Asked, PACKET, loaded, path, unsent};

const MANY: u64 = 1 << 30;

fn slot(index: usize) -> PathIndex {
    PathIndex::new(index).unwrap()
}

impl<S: Scheduler> Asked<S> {
    /// A packet of this path is acknowledged, of this decision; so many packets' worth of data
    /// became contiguous.
    fn acked(&mut self, path: usize, decision: u64, contiguous: u64) {
        let (now, sent) = (self.now, self.start);
        let bytes = contiguous * PACKET;
        let acked = Acked::new(slot(path), now, sent, 1235, None, Some(decision), bytes);
        self.scheduler.on_acked(&acked);
    }

    /// The gap in packets that the slow path leaves now.
    #[track_caller]
    fn gap(&mut self, paths: &[PathView]) -> f64 {
        match self.next(paths, &unsent(MANY)) {
            Some((_, Data::Ahead(gap))) => gap as f64 / PACKET as f64,
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn stms_starts_with_what_the_fast_path_delivers_in_the_difference_of_delays() {
    // Window of the fast path, RTTs of both, packets.
    for (window, fast, slow, gap) in [
        (10, 20, 60, 10.0),
        (10, 20, 70, 12.5),
        (32, 40, 200, 64.0),
        (10, 20, 21, 0.25),
        (10, 20, 20, 0.0),
    ] {
        let paths = [loaded(0, slow, 10, 0), loaded(1, fast, window, window)];
        if slow == fast {
            // Of equals the one with the lowest slot is the fastest.
            let mut stms = Asked::new(Stms::default());
            assert_eq!(stms.next(&paths, &unsent(MANY)), Some((0, Data::Next)));
            continue;
        }
        let mut stms = Asked::new(Stms::default());
        assert_eq!(stms.gap(&paths), gap, "{window} {fast} {slow}");
    }
}

#[test]
fn stms_chooses() {
    let ready = loaded(0, 20, 10, 3);
    let full = loaded(0, 20, 10, 10);
    let slow = loaded(1, 60, 10, 0);
    let lost = |bytes| {
        let mut queue = unsent(MANY);
        queue.retransmittable = bytes;
        queue
    };
    let control = || {
        let mut queue = unsent(MANY);
        queue.control = true;
        queue
    };
    let backup = |mut view: PathView| {
        view.status = PathStatus::Backup;
        view
    };
    let next = |paths: &[PathView], queue: &_| Asked::new(Stms::default()).next(paths, queue);
    let slow_full = loaded(1, 60, 10, 10);
    let untested = path(1, 0);
    // The fast path has room: it takes the lowest data.
    let both = [ready.clone(), slow.clone()];
    assert_eq!(next(&both, &unsent(MANY)), Some((0, Data::Next)));
    // It has none: the slow one leaves a gap of 10 packets.
    let only = [full.clone(), slow.clone()];
    let gap = 10 * PACKET;
    assert_eq!(next(&only, &unsent(MANY)), Some((1, Data::Ahead(gap))));
    assert_eq!(next(&only, &unsent(gap + 1)), Some((1, Data::Ahead(gap))));
    // Nothing behind the gap: the fast path will take it.
    assert_eq!(next(&only, &unsent(gap)), None);
    // What was lost goes at once, and without a gap.
    assert_eq!(next(&only, &lost(1)), Some((1, Data::Retransmit)));
    // So do control frames.
    assert_eq!(next(&only, &control()), Some((1, Data::Retransmit)));
    // Nothing there is nothing to leave a gap in.
    assert_eq!(next(&only, &unsent(0)), Some((1, Data::Next)));
    // No room anywhere, no path, a backup that nobody needs, a path that nobody has measured.
    assert_eq!(next(&[full.clone(), slow_full], &unsent(MANY)), None);
    assert_eq!(next(&[], &unsent(MANY)), None);
    let spare = [full.clone(), backup(slow.clone())];
    assert_eq!(next(&spare, &unsent(MANY)), None);
    let new = [full.clone(), untested];
    assert_eq!(next(&new, &unsent(MANY)), Some((1, Data::Next)));
    // The fast path is in trouble: the slow one is the fastest there is.
    let mut trouble = only.clone();
    trouble[0].suspect = true;
    assert_eq!(next(&trouble, &unsent(gap)), Some((1, Data::Next)));
}

#[test]
fn a_wait_for_the_fast_path_ends() {
    // The fast path's PTO is 65 ms, as `loaded` makes it; 10 packets are its own.
    let paths = [loaded(0, 20, 10, 10), loaded(1, 60, 10, 0)];
    let tail = unsent(10 * PACKET);
    let mut stms = Asked::new(Stms::default());
    assert_eq!(stms.waits(&paths, &tail), Some(65));
    assert_eq!(stms.at(64).waits(&paths, &tail), Some(65));
    // One packet, and on with it.
    assert_eq!(stms.at(65).next(&paths, &tail), Some((1, Data::Next)));
    assert_eq!(stms.at(65).waits(&paths, &tail), Some(130));
    // A packet on the fast path ends the wait.
    let room = [loaded(0, 20, 10, 9), loaded(1, 60, 10, 0)];
    assert_eq!(stms.at(70).next(&room, &tail), Some((0, Data::Next)));
    assert_eq!(stms.at(80).waits(&paths, &tail), Some(145));
    // Nothing that could wake it up: no wait.
    let mut idle = paths.clone();
    idle[0].in_flight = 0;
    assert_eq!(stms.at(81).next(&idle, &tail), Some((1, Data::Next)));
}

#[test]
fn stms_widens_the_gap_when_slow_data_comes_late() {
    let paths = [loaded(0, 20, 100, 100), loaded(1, 60, 10, 0)];
    let mut stms = Asked::new(Stms::default());
    assert_eq!(stms.gap(&paths), 100.0);
    // Five packets of the fast path wait for one of the slow path's: d = 6, an eighth of it counts.
    for _ in 0..5 {
        stms.at(50).acked(0, 900, 0);
    }
    stms.acked(1, 901, 6);
    assert_eq!(stms.at(59).gap(&paths), 100.0, "the interval is not over");
    assert_eq!(stms.at(60).gap(&paths), 100.75);
    // A new interval begins with an average of 0: d = 8, then d = 0.
    stms.acked(1, 902, 8);
    stms.acked(1, 903, 2);
    assert_eq!(stms.at(119).gap(&paths), 100.75);
    assert_eq!(stms.at(120).gap(&paths), 101.625);
    assert_eq!(stms.at(180).gap(&paths), 101.625, "nothing learnt");
}

#[test]
fn stms_narrows_the_gap_when_slow_data_waits() {
    let paths = [loaded(0, 20, 100, 100), loaded(1, 60, 10, 0)];
    let mut stms = Asked::new(Stms::default());
    let mut queue = unsent(MANY);
    queue.out_of_order = 3 * PACKET;
    assert_eq!(stms.gap(&paths), 100.0);
    // Three slow packets came before the fast one that they follow: d = -4.
    for _ in 0..3 {
        stms.acked(1, 900, 0);
    }
    assert!(stms.next(&paths, &queue).is_some());
    stms.acked(0, 901, 4);
    // Traffic in order is no reason for anything.
    stms.acked(0, 902, 1);
    stms.acked(0, 903, 2);
    assert_eq!(stms.at(60).gap(&paths), 99.5);
}

#[test]
fn stms_shares_a_narrowing_among_those_who_waited() {
    let paths = [
        loaded(0, 20, 100, 100),
        loaded(1, 60, 10, 10),
        loaded(2, 60, 10, 0),
    ];
    let mut stms = Asked::new(Stms::default());
    let with = |stms: &mut Asked<Stms>, slow: usize| {
        let mut paths = paths.clone();
        for (slot, view) in paths.iter_mut().enumerate().skip(1) {
            view.can_send = slot == slow;
        }
        let mut queue = unsent(MANY);
        queue.out_of_order = 1;
        match stms.next(&paths, &queue) {
            Some((_, Data::Ahead(gap))) => gap as f64 / PACKET as f64,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!((with(&mut stms, 1), with(&mut stms, 2)), (100.0, 100.0));
    // Three of one, one of the other; a = 8.
    for path in [1, 1, 2, 1] {
        stms.acked(path, 900, 0);
    }
    stms.acked(0, 901, 8);
    stms.at(60);
    assert_eq!((with(&mut stms, 1), with(&mut stms, 2)), (99.25, 99.75));
}

#[test]
fn stms_learns_nothing_from_losses() {
    let paths = [loaded(0, 20, 100, 100), loaded(1, 60, 10, 0)];
    let mut stms = Asked::new(Stms::default());
    assert_eq!(stms.gap(&paths), 100.0);
    let mut queue = unsent(MANY);
    queue.retransmittable = PACKET;
    let repeat = stms.number;
    let Decision::Send { path, .. } = stms.decide(&paths, &queue, &[]) else {
        panic!("waits");
    };
    stms.sent(path, true);
    stms.acked(1, repeat, 50);
    assert_eq!(stms.at(60).gap(&paths), 100.0);
    stms.acked(1, 900, 8);
    assert_eq!(stms.at(120).gap(&paths), 101.0);
}

#[test]
fn stms_keeps_the_gap_within_its_bounds() {
    let paths = [loaded(0, 20, 10, 10), loaded(1, 60, 10, 0)];
    let mut stms = Asked::new(Stms::default());
    let mut queue = unsent(MANY);
    queue.out_of_order = 1;
    assert_eq!(stms.gap(&paths), 10.0);
    // 2 w_f R_s / R_f.
    stms.acked(1, 900, 10_000);
    assert_eq!(stms.at(60).gap(&paths), 60.0);
    stms.acked(1, 901, 0);
    assert!(stms.next(&paths, &queue).is_some());
    stms.acked(0, 902, 10_000);
    assert_eq!(stms.at(120).gap(&paths), 0.0);
    // A slot's next path starts anew.
    let event = PathUpdate::new(slot(1), PathId(1), stms.now, PathUpdateKind::Abandoned);
    stms.scheduler.on_path(&event);
    assert_eq!(stms.gap(&paths), 10.0);
}

/// Delays of 1 and 3 slots of 4 ms, bursts of 2 and 3: six packets of the fast path's, then three.
fn daps_paths() -> [PathView; 2] {
    [loaded(0, 8, 2, 0), loaded(1, 24, 3, 0)]
}

#[test]
fn daps_follows_its_schedule() {
    let mut daps = Asked::new(Daps::default());
    let paths = daps_paths();
    // Both have room all the time: in the order of the data. The period over, the next begins.
    let expected = [0, 0, 0, 0, 0, 0, 1, 1, 1];
    for (number, slot) in expected.into_iter().cycle().take(20).enumerate() {
        let next = daps.next(&paths, &unsent(MANY));
        assert_eq!(next, Some((slot, Data::Next)), "packet {number}");
    }
}

#[test]
fn daps_paths_go_on_side_by_side() {
    let mut daps = Asked::new(Daps::default());
    let both = daps_paths();
    let full = |slot: usize| {
        let mut paths = daps_paths();
        paths[slot].can_send = false;
        paths[slot].in_flight = paths[slot].cwnd;
        paths
    };
    let queue = unsent(MANY);
    assert_eq!(daps.next(&both, &queue), Some((0, Data::Next)));
    // Five packets of the fast path come before the slow one's, however many of these are sent.
    for _ in 0..3 {
        let ahead = Data::Ahead(5 * PACKET);
        assert_eq!(daps.next(&full(0), &queue), Some((1, ahead)));
    }
    // The slow path has done its part: it waits for the fast one's PTO of 41 ms.
    assert_eq!(daps.waits(&full(0), &queue), Some(41));
    // A packet without the schedule does not count in it: five are left.
    assert_eq!(daps.at(41).next(&full(0), &queue), Some((1, Data::Next)));
    for _ in 0..5 {
        assert_eq!(daps.next(&full(1), &queue), Some((0, Data::Next)));
    }
    // The next period.
    let ahead = Data::Ahead(6 * PACKET);
    assert_eq!(daps.next(&full(0), &queue), Some((1, ahead)));
}

#[test]
fn daps_waits_for_a_full_path_whose_turn_it_is() {
    let mut daps = Asked::new(Daps::default());
    let queue = unsent(MANY);
    let mut paths = daps_paths();
    for _ in 0..6 {
        assert_eq!(daps.next(&paths, &queue), Some((0, Data::Next)));
    }
    paths[1].can_send = false;
    paths[1].in_flight = paths[1].cwnd;
    // The slow path's PTO is 73 ms.
    assert_eq!(daps.waits(&paths, &queue), Some(73));
    assert_eq!(daps.at(73).next(&paths, &queue), Some((0, Data::Next)));
    assert_eq!(daps.waits(&paths, &queue), Some(146));
    // What was lost does not wait, nor does anything for a path in trouble: a period of one path.
    let mut lost = unsent(MANY);
    lost.retransmittable = 1;
    assert_eq!(daps.next(&paths, &lost), Some((0, Data::Retransmit)));
    paths[1].suspect = true;
    for _ in 0..10 {
        assert_eq!(daps.next(&paths, &queue), Some((0, Data::Next)));
    }
}

#[test]
fn daps_leaves_the_end_to_whom_it_belongs() {
    let mut paths = daps_paths();
    paths[0].can_send = false;
    paths[0].in_flight = paths[0].cwnd;
    let mut daps = Asked::new(Daps::default());
    // Six packets are the fast path's.
    assert!(daps.waits(&paths, &unsent(6 * PACKET)).is_some());
    let next = daps.next(&paths, &unsent(6 * PACKET + 1));
    assert_eq!(next, Some((1, Data::Ahead(6 * PACKET))));
    let mut control = unsent(MANY);
    control.control = true;
    assert_eq!(daps.next(&paths, &control), Some((1, Data::Retransmit)));
}

#[test]
fn daps_skips_what_cannot_be_used() {
    let queue = unsent(MANY);
    let mut paths = daps_paths();
    let mut daps = Asked::new(Daps::default());
    assert_eq!(daps.next(&paths, &queue), Some((0, Data::Next)));
    // The fast path goes: nothing is left out for it any more.
    paths[0].open = false;
    for _ in 0..3 {
        assert_eq!(daps.next(&paths, &queue), Some((1, Data::Next)));
    }
    let event = PathUpdate::new(slot(0), PathId::ZERO, daps.now, PathUpdateKind::Abandoned);
    daps.scheduler.on_path(&event);
    // Its slot's next path is in the next schedule: 12 slots and 3, four bursts of three packets
    // arrive before its one.
    paths[0] = loaded(0, 96, 4, 0);
    for _ in 0..12 {
        assert_eq!(daps.next(&paths, &queue), Some((1, Data::Next)));
    }
    assert_eq!(daps.next(&paths, &queue), Some((0, Data::Next)));

    // Without samples, as minRTT.
    let untested = [path(0, 0), path(1, 0)];
    let cx = Context::new(daps.now, &untested, &queue, 99);
    let min_rtt = MinRtt::default().decide(&cx);
    assert_eq!(Daps::default().decide(&cx), min_rtt);
}

#[test]
fn daps_smooths_windows() {
    let queue = unsent(MANY);
    let mut paths = daps_paths();
    let mut daps = Asked::new(Daps::default());
    assert!(daps.next(&paths, &queue).is_some());
    // 2 packets become 2 + 16/8 = 4 after an RTT of 8 ms; not before, and only once.
    paths[0].cwnd = 18 * 1235;
    daps.at(7);
    assert!(daps.next(&paths, &queue).is_some());
    daps.at(8);
    for _ in 0..4 {
        assert_eq!(daps.next(&paths, &queue), Some((0, Data::Next)));
    }
    for _ in 0..3 {
        assert_eq!(daps.next(&paths, &queue), Some((1, Data::Next)));
    }
    // 3 bursts of 4 in the next period.
    for _ in 0..12 {
        assert_eq!(daps.next(&paths, &queue), Some((0, Data::Next)));
    }
    assert_eq!(daps.next(&paths, &queue), Some((1, Data::Next)));
}

#[test]
fn daps_takes_its_unit_from_its_settings() {
    let queue = unsent(MANY);
    // With 24 ms both delays are one slot: bursts take turns.
    let mut daps = Asked::new(Daps::new(&DapsConfig { unit_ms: 24.0 }));
    let paths = daps_paths();
    for slot in [0, 0, 1, 1, 1, 0] {
        assert_eq!(daps.next(&paths, &queue), Some((slot, Data::Next)));
    }
    for unit_ms in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        assert!(DapsConfig { unit_ms }.check().is_err());
    }
    // A unit that cannot be used is no reason to hang.
    let mut daps = Asked::new(Daps::new(&DapsConfig { unit_ms: 0.0 }));
    assert_eq!(daps.next(&paths, &queue), Some((0, Data::Next)));
    let mut slow = daps_paths();
    slow[1].smoothed_rtt = Duration::from_secs(3600);
    let mut daps = Asked::new(Daps::default());
    assert_eq!(daps.next(&slow, &queue), Some((0, Data::Next)));
}
