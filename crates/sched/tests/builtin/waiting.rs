//! Decisions of the schedulers that wait, worked out by hand from their formulas.

use std::time::{Duration, Instant};

use mpquic_sched::{
    Blest, BlestConfig, Context, Data, Decision, Ecf, EcfA, EcfAConfig, EcfConfig, MinRtt, PathId,
    PathIndex, PathUpdate, PathUpdateKind, PathView, QueueView, Registry, Scheduler, Sent,
};
use serde_json::json;

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// A path with packets of 1000 bytes, RTT and its variation in milliseconds, window and bytes in
/// flight in packets.
fn path(slot: usize, rtt: u64, var: u64, window: u64, in_flight: u64) -> PathView {
    let mut view = PathView::of(slot, Duration::ZERO);
    view.mtu = 1000;
    (view.smoothed_rtt, view.rtt_var) = (ms(rtt), ms(var));
    view.pto = ms(rtt + 4 * var + 25);
    (view.cwnd, view.in_flight) = (window * 1000, in_flight * 1000);
    view.can_send = in_flight < window;
    view
}

/// So many bytes to send, so many allowed.
fn queue(unsent: u64, flow_window: u64) -> QueueView {
    let mut queue = QueueView::default();
    (queue.unsent, queue.window_left) = (unsent, flow_window);
    queue.flow_control_window = flow_window;
    queue
}

/// The slot of the decision, `None` for a wait although a path has room.
fn decide(
    scheduler: &mut dyn Scheduler,
    now: Instant,
    paths: &[PathView],
    queue: &QueueView,
) -> Option<usize> {
    match scheduler.decide(&Context::new(now, paths, queue, 0)) {
        Decision::Wait { until } => {
            assert!(until.is_some_and(|until| until > now), "{until:?}");
            None
        }
        decision @ Decision::Send { path, .. } => {
            assert_eq!(decision, Decision::send(path));
            Some(path.get())
        }
    }
}

const WAIT: Option<usize> = None;
const SLOW: Option<usize> = Some(1);

/// RTTs of 40 and 200 ms, windows of 60 and 30 packets, the fast one full.
fn pair() -> [PathView; 2] {
    [path(0, 40, 0, 60, 60), path(1, 200, 0, 30, 10)]
}

#[test]
fn ecf_by_its_two_tests() {
    let jittery = [path(0, 40, 10, 60, 60), path(1, 200, 5, 30, 10)];
    let close = [path(0, 40, 0, 60, 60), path(1, 70, 20, 30, 10)];
    let table: &[(&str, &[PathView], u64, Option<usize>)] = &[
        // (1 + 240/60) · 40 = 200, not below 200.
        ("as long either way", &pair(), 240_000, SLOW),
        // (1 + 239/60) · 40 = 199.3 < 200; 239/30 · 200 = 1593 ≥ 2 · 40.
        ("sooner over f", &pair(), 239_000, WAIT),
        // Floors: (1 + 1) · 40 = 80 < 200; 1 · 200 ≥ 80.
        ("one byte", &pair(), 1, WAIT),
        // δ = max(10, 5): (1 + 254/60) · 40 = 209.3 < 210; 254/30 · 200 = 1693 ≥ 90.
        ("variation of f", &jittery, 254_000, WAIT),
        // (1 + 255/60) · 40 = 210, not below 210.
        ("and no more than that", &jittery, 255_000, SLOW),
        // δ = 20: (1 + 1) · 40 = 80 < 90, but 1 · 70 < 2 · 40 + 20 = 100.
        ("s would be through as soon", &close, 30_000, SLOW),
        // (1 + 70/60) · 40 = 86.7 < 90; 70/30 · 70 = 163 ≥ 100.
        ("not with more to send", &close, 70_000, WAIT),
        // (1 + 75/60) · 40 = 90, not below 90.
        ("nor with much more", &close, 75_000, SLOW),
    ];
    for (case, paths, unsent, expected) in table {
        let now = Instant::now();
        let got = decide(&mut Ecf::default(), now, paths, &queue(*unsent, 1 << 30));
        assert_eq!(got, *expected, "{case}");
    }
}

#[test]
fn ecf_does_not_change_its_mind_easily() {
    let now = Instant::now();
    let mut ecf = Ecf::default();
    let mut ask = |unsent| decide(&mut ecf, now, &pair(), &queue(unsent, 1 << 30));
    // (1 + 300/60) · 40 = 240, not below 200.
    assert_eq!(ask(300_000), SLOW);
    assert_eq!(ask(1000), WAIT);
    // But below 1.25 · 200 = 250.
    assert_eq!(ask(300_000), WAIT);
    // (1 + 315/60) · 40 = 250, not below 250: the flag falls.
    assert_eq!(ask(315_000), SLOW);
    assert_eq!(ask(300_000), SLOW);

    // Sending because of the second test leaves the flag: (1 + 1) · 40 = 80 < 90, 70 < 100.
    let mut ecf = Ecf::default();
    let close = [path(0, 40, 0, 60, 60), path(1, 70, 20, 30, 10)];
    assert_eq!(decide(&mut ecf, now, &close, &queue(70_000, 1 << 30)), WAIT);
    assert_eq!(decide(&mut ecf, now, &close, &queue(30_000, 1 << 30)), SLOW);
    // (1 + 80/60) · 40 = 93.3: not below 90, but below 1.25 · 90 = 112.5.
    assert_eq!(decide(&mut ecf, now, &close, &queue(80_000, 1 << 30)), WAIT);

    // The ns-3 model's beta: (1 + 539/60) · 40 = 399.3 < 2 · 200.
    let beta = EcfConfig {
        beta: 1.0,
        ..EcfConfig::default()
    };
    let mut ecf = Ecf::new(&beta);
    let mut ask = |unsent| decide(&mut ecf, now, &pair(), &queue(unsent, 1 << 30));
    assert_eq!([ask(1000), ask(539_000), ask(540_000)], [WAIT, WAIT, SLOW]);
}

/// From "never" to "always", by two factors.
#[test]
fn ecf_waits_as_much_as_its_factors_say() {
    let now = Instant::now();
    let ask = |margin, threshold, unsent| {
        let mut ecf = Ecf::new(&EcfConfig {
            margin,
            threshold,
            ..EcfConfig::default()
        });
        decide(&mut ecf, now, &pair(), &queue(unsent, 1 << 30))
    };
    // (1 + 300/60) · 40 = 240 against 200, 300 and nothing.
    assert_eq!(ask(1.0, 1.0, 300_000), SLOW);
    assert_eq!(ask(1.5, 1.0, 300_000), WAIT);
    assert_eq!(ask(0.0, 0.0, 1000), SLOW);
    assert_eq!(ask(1e9, 0.0, 1 << 40), WAIT);
    // The second test: 30/30 · 200 = 200, against 80 and 240.
    assert_eq!(ask(1.0, 1.0, 1000), WAIT);
    assert_eq!(ask(1.0, 3.0, 1000), SLOW);
    for wrong in [json!({"margin": -1}), json!({"threshold": 1e10})] {
        assert!(Registry::new().build("ecf", &wrong).is_err());
    }
}

#[test]
fn ecf_keeps_a_flag_for_each_ordered_pair() {
    let now = Instant::now();
    let mut ecf = Ecf::default();
    let with_room = |one: u64, two: u64| {
        [
            path(0, 40, 0, 60, 60),
            path(1, 200, 0, 30, one),
            path(2, 200, 0, 30, two),
        ]
    };
    let much = queue(300_000, 1 << 30);
    assert_eq!(
        decide(&mut ecf, now, &with_room(0, 0), &queue(1000, 1 << 30)),
        WAIT
    );
    // As above: the flag of (0, 1) makes it wait, that of (0, 2) was never raised.
    assert_eq!(decide(&mut ecf, now, &with_room(0, 0), &much), WAIT);
    assert_eq!(decide(&mut ecf, now, &with_room(30, 0), &much), Some(2));
    assert_eq!(decide(&mut ecf, now, &with_room(0, 0), &much), WAIT);
    // Another path in the slot has not been waited against.
    let slot = PathIndex::new(1).unwrap();
    ecf.on_path(&PathUpdate::new(
        slot,
        PathId(1),
        now,
        PathUpdateKind::Abandoned,
    ));
    assert_eq!(decide(&mut ecf, now, &with_room(0, 0), &much), SLOW);
}

/// Without the floor the last packets go where they take longest.
#[test]
fn ecf_without_the_floor_is_faulty() {
    let now = Instant::now();
    let unfloored = EcfConfig {
        floor: false,
        ..EcfConfig::default()
    };
    // (1 + 1/60) · 40 = 40.7 < 200, but 1/30 · 200 = 6.7 < 80: one packet, 100 ms instead of 60.
    let last = queue(1000, 1 << 30);
    assert_eq!(decide(&mut Ecf::new(&unfloored), now, &pair(), &last), SLOW);
    assert_eq!(decide(&mut Ecf::default(), now, &pair(), &last), WAIT);
    // 12/30 · 200 = 80 ≥ 80.
    for (unsent, expected) in [(11_999, SLOW), (12_000, WAIT)] {
        let got = decide(
            &mut Ecf::new(&unfloored),
            now,
            &pair(),
            &queue(unsent, 1 << 30),
        );
        assert_eq!(got, expected, "{unsent}");
    }
}

/// Sends packets over paths with these one-way delays and windows, without losses and queues.
/// When the last one arrives, and how many packets each path carried, the slow one's of the last
/// four apart; times in milliseconds.
fn chunk(scheduler: &mut dyn Scheduler, packets: u64) -> (u64, [u64; 2], u64) {
    let start = Instant::now();
    let (owd, window) = ([5, 50], [3, 2]);
    let mut acks: [Vec<u64>; 2] = Default::default();
    let mut carried = [0; 2];
    let (mut finished, mut late) = (0, 0);
    let mut left = packets;
    for t in 0.. {
        for path in &mut acks {
            path.retain(|at| *at > t);
        }
        while left > 0 {
            let views = [0, 1].map(|p| path(p, 2 * owd[p], 0, window[p], acks[p].len() as u64));
            if views.iter().all(|view| !view.can_send) {
                break;
            }
            let queue = queue(left * 1000, 1 << 30);
            let Some(p) = decide(scheduler, start + ms(t), &views, &queue) else {
                break;
            };
            late += u64::from(p == 1 && left <= 4);
            left -= 1;
            carried[p] += 1;
            acks[p].push(t + 2 * owd[p]);
            finished = finished.max(t + owd[p]);
        }
        if left == 0 {
            break;
        }
    }
    (finished, carried, late)
}

/// Lee and Yoo's table 1: 100 packets, windows of 3 and 2 packets, one-way delays of 5 and 50 ms.
///
/// The fast path takes 3 packets every 10 ms, the slow one 2 every 100 ms. Both send at 0, 100 and
/// 200 ms, when there are 97, 65 and 33 packets left after the fast path's three: (1 + 33/3) · 10 =
/// 120, not below 100. 31 are left then, and from 210 to 290 ms 27 of them leave on the fast path. At
/// 300 ms three of the last four go there, and the slow path has room for the last: (1 + 3/3) ·
/// 10 = 20 < 100, and 2/2 · 100 ≥ 20. Waiting, it leaves at 310 and arrives at 315 ms; over the
/// slow path it would at 350 ms.
#[test]
fn ecf_keeps_a_chunks_tail_off_the_slow_path() {
    let (finished, carried, late) = chunk(&mut Ecf::default(), 100);
    assert_eq!((finished, carried, late), (315, [94, 6], 0));
    let (finished, carried, late) = chunk(&mut MinRtt::default(), 100);
    assert_eq!((finished, carried, late), (350, [93, 7], 1));
}

#[test]
fn a_wait_ends() {
    let start = Instant::now();
    let mut ecf = Ecf::new(&EcfConfig {
        wait_for_pacer: true,
        ..EcfConfig::default()
    });
    let [fast, slow] = pair();
    let last = queue(1000, 1 << 30);
    let mut ask =
        |at: u64, paths: &[PathView]| ecf.decide(&Context::new(start + ms(at), paths, &last, 0));
    // The probe timeout of f is 40 + 25 ms.
    let until = |at| Decision::Wait {
        until: Some(start + ms(at)),
    };
    let both = [fast.clone(), slow.clone()];
    assert_eq!(ask(0, &both), until(65));
    assert_eq!(ask(64, &both), until(65));
    assert_eq!(ask(65, &both), Decision::send(slow.index));
    assert_eq!(ask(66, &both), until(131));
    // With room it is taken, and the next wait begins anew.
    let mut free = both.clone();
    free[0].can_send = true;
    assert_eq!(ask(70, &free), Decision::send(fast.index));
    assert_eq!(ask(80, &both), until(145));
    // Its pacer holds it back for 5 ms, not its window: arrival after 5 + 20 ms instead of 100.
    let mut paced = both.clone();
    (paced[0].in_flight, paced[0].next_release) = (0, Some(start + ms(95)));
    assert_eq!(ask(90, &paced), until(95));
    // In trouble: not waited for.
    let mut suspect = both.clone();
    suspect[0].suspect = true;
    assert_eq!(ask(91, &suspect), Decision::send(slow.index));
}

/// What is not new data is not put to the tests. A loss has cut the fast path's window from 60 packets
/// to 20: 41 of 60 are too many for another one, 2 · 41/60 · 40 + 40 = 94.7 ms.
#[test]
fn lost_data_goes_where_it_arrives_first() {
    let slot = PathIndex::new(1).unwrap();
    let on_slow = |data| Decision::Send {
        path: slot,
        data,
        copies: mpquic_sched::PathSet::EMPTY,
    };
    let obedient = EcfAConfig {
        p_wait: 1.0,
        ..EcfAConfig::default()
    };
    let now = Instant::now();
    let reduced = path(0, 40, 0, 20, 60);
    let near = [reduced.clone(), path(1, 94, 0, 30, 10)];
    let far = [reduced, path(1, 95, 0, 30, 10)];
    let until_pto = Decision::Wait {
        until: Some(now + ms(65)),
    };
    for scheduler in [
        &mut Ecf::default() as &mut dyn Scheduler,
        &mut EcfA::new(&obedient),
        &mut Blest::default(),
    ] {
        let mut decide = |paths: &[PathView], queue: &QueueView| {
            scheduler.decide(&Context::new(now, paths, queue, 0))
        };
        // All of them hold so little data back in so small a window.
        let mut queue = queue(1000, 1000);
        assert_eq!(decide(&near, &queue), until_pto);
        queue.retransmittable = 1000;
        assert_eq!(decide(&near, &queue), on_slow(Data::Retransmit));
        assert_eq!(decide(&far, &queue), until_pto);
        // Nothing new; then control frames instead of lost data; then nothing at all.
        queue.unsent = 0;
        assert_eq!(decide(&near, &queue), on_slow(Data::Next));
        assert_eq!(decide(&far, &queue), until_pto);
        (queue.retransmittable, queue.control) = (0, true);
        assert_eq!(decide(&near, &queue), on_slow(Data::Next));
        assert_eq!(decide(&far, &queue), until_pto);
        queue.control = false;
        assert_eq!(decide(&far, &queue), on_slow(Data::Next));
    }
    // Much new data goes on the slow path, ahead of what was lost.
    let mut much = queue(300_000, 1 << 30);
    much.retransmittable = 1000;
    let decision = Ecf::default().decide(&Context::new(now, &pair(), &much, 0));
    assert_eq!(decision, on_slow(Data::Ahead(0)));
}

#[test]
fn ecf_a_draws_once_per_packet() {
    let config = EcfAConfig {
        p_wait: 0.5,
        seed: 9,
        ..EcfAConfig::default()
    };
    let mut scheduler = EcfA::new(&config);
    let start = Instant::now();
    let last = queue(1000, 1 << 30);
    let mut free = pair();
    free[0].can_send = true;
    let mut waits = 0;
    for packet in 0..10_000 {
        let now = start + ms(packet);
        let first = decide(&mut scheduler, now, &pair(), &last);
        for _ in 0..5 {
            assert_eq!(decide(&mut scheduler, now, &pair(), &last), first);
        }
        waits += u64::from(first == WAIT);
        // The fast path has room in between, and has not sent yet: the same packet.
        assert_eq!(decide(&mut scheduler, now, &free, &last), Some(0));
        assert_eq!(decide(&mut scheduler, now, &pair(), &last), first);
        scheduler.on_sent(&Sent::new(free[0].index, now, 1235, packet, false, 1000));
    }
    // Five standard deviations: 5 · √(10000 · 0.25).
    assert!(waits.abs_diff(5000) < 250, "{waits}");

    // ECF says that it sends: p_send = 1 does.
    let never_waits = EcfAConfig {
        p_wait: 0.0,
        ..EcfAConfig::default()
    };
    let never_sends = EcfAConfig {
        p_wait: 1.0,
        p_send: 0.0,
        ..EcfAConfig::default()
    };
    for (config, unsent, expected) in [
        (&never_waits, 1000, SLOW),
        (&never_waits, 400_000, SLOW),
        (&never_sends, 1000, WAIT),
        (&never_sends, 400_000, WAIT),
    ] {
        let mut scheduler = EcfA::new(config);
        let got = decide(&mut scheduler, start, &pair(), &queue(unsent, 1 << 30));
        assert_eq!(got, expected);
    }
}

/// The smallest flow-control window with which BLEST sends on the slow path; one byte less, and it waits.
/// `before` are views that it saw earlier.
fn flow_window_needed(config: &BlestConfig, before: &[Vec<PathView>], paths: &[PathView]) -> u64 {
    let start = Instant::now();
    let waits = |flow_window: u64| {
        let mut blest = Blest::new(config);
        for views in before {
            decide(&mut blest, start, views, &queue(1, 1 << 50));
        }
        decide(&mut blest, start, paths, &queue(1 << 20, flow_window)) == WAIT
    };
    let (mut low, mut high) = (0, 1 << 40);
    assert!(!waits(high));
    while low < high {
        let middle = (low + high) / 2;
        if waits(middle) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    low
}

#[test]
fn blest_by_its_formula() {
    let default = BlestConfig::default();
    let with = |ssthresh: u64, mut paths: Vec<PathView>| {
        paths[0].ssthresh = ssthresh;
        paths
    };
    let f = || path(0, 40, 0, 60, 60);
    let s = |rtt, window, in_flight| path(1, rtt, 0, window, in_flight);
    // Seen before: the fast path at 20 and 60 ms, which is 40 on average, the slow one at 100 and
    // 300 ms.
    let seen = [
        vec![path(0, 20, 0, 60, 0), path(1, 300, 0, 44, 0)],
        vec![path(0, 60, 0, 60, 0), path(1, 100, 0, 44, 0)],
    ];
    // Space is flow_window + 60 + I_s - (I_s + 1) = flow_window + 59 packets.
    type Case<'a> = (&'a str, &'a [Vec<PathView>], Vec<PathView>, u64);
    let table: [Case<'_>; 8] = [
        // T = 100, n = ⌊100/40⌋ + 1 = 3, P = (60 + 1) · 3 = 183, X = 183000 · 1.2 = 219600.
        (
            "congestion avoidance",
            &[],
            with(30_000, vec![f(), s(100, 30, 10)]),
            160_600,
        ),
        // c = 81: P = (81 + 1) · 3 = 246, X = 295200.
        (
            "below the threshold",
            &[],
            with(80_000, vec![f(), s(100, 30, 10)]),
            236_200,
        ),
        // P = 60 · (2³ - 1) = 420, X = 504000.
        (
            "initial slow start",
            &[],
            with(u64::MAX, vec![f(), s(100, 30, 10)]),
            445_000,
        ),
        // n = 101, capped at 16: P = 60 · 65535 = 3932100, X = 4718520000.
        (
            "for long",
            &[],
            with(u64::MAX, vec![path(0, 1, 0, 60, 60), s(100, 30, 10)]),
            4_718_461_000,
        ),
        // T = 40, n = 2, P = (60 + 0.5) · 2 = 121, X = 145200.
        (
            "no slower",
            &[],
            with(30_000, vec![f(), s(40, 30, 10)]),
            86_200,
        ),
        // T = 100 + 200 · 11/44 = 150, n = 4, P = (60 + 1.5) · 4 = 246, X = 295200.
        (
            "a quarter of its window",
            &seen,
            with(30_000, vec![f(), s(100, 44, 10)]),
            236_200,
        ),
        // The last packet of its window: T = 300, n = 8, P = (60 + 3.5) · 8 = 508, X = 609600.
        (
            "all of its window",
            &seen,
            with(30_000, vec![f(), s(100, 44, 43)]),
            550_600,
        ),
        // T = 100 + 200/44 = 104.5, but R_s = 200: n = 6, P = (60 + 2.5) · 6 = 375, X = 450000.
        (
            "longer than estimated",
            &seen,
            with(30_000, vec![f(), s(200, 44, 0)]),
            391_000,
        ),
    ];
    for (case, before, paths, expected) in table {
        assert_eq!(
            flow_window_needed(&default, before, &paths),
            expected,
            "{case}"
        );
    }
}

#[test]
fn blest_multi_counts_all_faster_paths_without_room() {
    let mut paths = vec![
        path(0, 40, 0, 60, 60),
        path(1, 100, 0, 30, 10),
        path(2, 80, 0, 50, 50),
        path(3, 300, 0, 50, 50),
    ];
    paths[0].ssthresh = 30_000;
    // Space is flow_window + (60 + 10 + 50 + 50) - 11 = flow_window + 159 packets; X = 219600 as above.
    let single = BlestConfig::default();
    assert_eq!(flow_window_needed(&single, &[], &paths), 219_600 - 159_000);
    // Slot 2 is in slow start: n = ⌊100/80⌋ + 1 = 2, P = 50 · 3 = 150; (183 + 150) · 1200 = 399600.
    let multi = BlestConfig {
        multi: true,
        ..BlestConfig::default()
    };
    assert_eq!(flow_window_needed(&multi, &[], &paths), 399_600 - 159_000);
}

/// X is 183000 · λ, and space flow_window + 59000: λ is seen in thousandths by where it changes sides.
#[test]
fn blest_adapts_lambda() {
    let start = Instant::now();
    let mut paths = [path(0, 40, 0, 60, 60), path(1, 100, 0, 30, 10)];
    paths[0].ssthresh = 30_000;
    let mut blest = Blest::default();
    let mut expect = |at: u64, blocked_by: Option<usize>, thousandths: u64| {
        let now = start + ms(at);
        if let Some(slot) = blocked_by {
            let mut blocked = queue(1 << 20, 0);
            blocked.blocked_by = PathIndex::new(slot);
            // Nothing can be sent then; what is asked for all the same must not matter.
            assert_eq!(decide(&mut blest, now, &paths, &blocked), SLOW);
        }
        let edge = 183 * thousandths - 59_000;
        for (flow_window, expected) in [(edge - 90, WAIT), (edge + 90, SLOW)] {
            let got = decide(&mut blest, now, &paths, &queue(1 << 20, flow_window));
            assert_eq!(got, expected, "after {at} ms, {flow_window}");
        }
    };
    expect(0, None, 1200);
    expect(99, None, 1200); // rmin_s is 100 ms
    expect(100, None, 1190);
    expect(150, Some(1), 1190);
    expect(200, None, 1230);
    expect(300, None, 1220);
    expect(400, Some(0), 1210); // the fast path held it up
    for (at, expected) in [(500, 1250), (600, 1290), (700, 1300), (800, 1300)] {
        expect(at, Some(1), expected);
    }
    for step in 1..=40 {
        expect(800 + 100 * step, None, (1300 - 10 * step).max(1000));
    }
}
