//! Decisions of the copies of published faults, worked out by hand.

use std::time::{Duration, Instant};

use mpquic_lab::replica::{BlestOverflow, DapsGap, MinRttNs3, PeekFrozen, PeekFrozenConfig, RrNs3};
use mpquic_sched::{
    Acked, Context, Data, Decision, PathIndex, PathStatus, PathView, QueueView, Scheduler,
    StreamId, StreamUpdate, StreamUpdateKind,
};

use crate::{Asked, PACKET, loaded, unsent};

const MANY: u64 = 1 << 30;

fn backup(mut view: PathView) -> PathView {
    view.status = PathStatus::Backup;
    view
}

fn suspect(mut view: PathView) -> PathView {
    view.suspect = true;
    view
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

#[test]
fn daps_gap_leaves_what_the_fast_path_has_free() {
    let slow = loaded(1, 60, 10, 0);
    let only = [loaded(0, 20, 10, 10), slow.clone()];
    // Eq. 1 leaves no gap when the fast path's window is full, and up to floor(R_s / R_f) if not.
    let mut crude = Asked::new(DapsGap::default());
    assert_eq!(crude.next(&only, &unsent(MANY)), Some((1, Data::Ahead(0))));
    let mut paced = [loaded(0, 20, 10, 3), slow];
    paced[0].can_send = false;
    let gap = 3 * PACKET;
    assert_eq!(
        crude.next(&paced, &unsent(MANY)),
        Some((1, Data::Ahead(gap)))
    );
    paced[0].in_flight = 8 * 1235;
    let gap = 2 * PACKET;
    assert_eq!(
        crude.next(&paced, &unsent(MANY)),
        Some((1, Data::Ahead(gap)))
    );
    assert_eq!(crude.next(&paced, &unsent(gap)), None);
}

/// A path with packets of 1000 bytes, RTT and its variation in milliseconds, window and bytes in flight in packets.
fn sized(slot: usize, rtt: u64, var: u64, window: u64, in_flight: u64) -> PathView {
    let mut view = PathView::of(slot, Duration::ZERO);
    view.mtu = 1000;
    view.smoothed_rtt = Duration::from_millis(rtt);
    view.rtt_var = Duration::from_millis(var);
    view.pto = Duration::from_millis(rtt + 4 * var + 25);
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
        Decision::Send { path, .. } => Some(path.get()),
    }
}

const WAIT: Option<usize> = None;
const SLOW: Option<usize> = Some(1);

#[test]
fn blest_overflow_wraps_where_the_original_does() {
    let now = Instant::now();
    // Bytes here, as in the original: W_f, R_f and R_s in ms, C, I_s.
    for (window, fast, slow, flow_window, in_flight, expected) in [
        // 1401646720000000000000000 > 3195328000000000000000 is meant; modulo 2⁶⁴ it is
        // 7765047327139561472 > 4041275248247570432.
        (60_000, 40, 200, 1_000_000, 0, WAIT),
        // Meant: 65325912960000000000000 > 1193708000000000000000.
        // Done: 5992194994477727744 < 13116379282588696576.
        (14_520, 10, 154, 6_000_000, 30_000, SLOW),
        // 1000 - (30000 + 1460) wraps too: 5992194994477727744 < 12354744073709551616.
        (14_520, 10, 154, 1000, 30_000, SLOW),
    ] {
        let mut paths = [sized(0, fast, 0, 0, 1), sized(1, slow, 0, 90, 0)];
        paths[0].cwnd = window;
        paths[1].in_flight = in_flight;
        let mut scheduler = BlestOverflow::default();
        let got = decide(&mut scheduler, now, &paths, &queue(1 << 20, flow_window));
        assert_eq!(
            got, expected,
            "{window} {fast} {slow} {flow_window} {in_flight}"
        );
    }
}

/// On a network of the papers, 50 and 2 Mbit/s: whatever is meant, it waits in half of the cases.
#[test]
fn blest_overflow_tosses_a_coin() {
    let now = Instant::now();
    let mut state = 1_u64;
    let mut up_to = |below: u64| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    let (mut waits, mut differs) = (0_u64, 0_u64);
    for _ in 0..20_000 {
        let mut paths = [sized(0, 1, 0, 0, 1), sized(1, 1, 0, 90, 0)];
        let fast_rtt = 40_000_000 + up_to(40_000_000);
        let slow_rtt = 200_000_000 + up_to(200_000_000);
        let window = 30_000 + up_to(300_000);
        let (in_flight, flow_window) = (up_to(80_000), up_to(6_000_000));
        paths[0].smoothed_rtt = Duration::from_nanos(fast_rtt);
        paths[1].smoothed_rtt = Duration::from_nanos(slow_rtt);
        (paths[0].cwnd, paths[1].in_flight) = (window, in_flight);
        let queue = queue(1 << 20, flow_window);
        let wait = decide(&mut BlestOverflow::default(), now, &paths, &queue) == WAIT;
        // The same without overflow.
        let (f, s, w) = (fast_rtt as f64, slow_rtt as f64, window as f64);
        let meant = 1460.0 * s * (2.0 * w * f + s - f)
            > 2.0 * f * f * (flow_window as f64 - in_flight as f64 - 1460.0);
        waits += u64::from(wait);
        differs += u64::from(wait != meant);
    }
    assert!(waits.abs_diff(10_000) < 400, "{waits}");
    assert!(differs.abs_diff(10_000) < 400, "{differs}");
}

/// RTTs of 40 and 100 ms, windows of 200 and 50 kB. The fast one is full, unless it has room.
fn pair(room: bool) -> [PathView; 2] {
    let view = |index, rtt, window, in_flight| {
        let mut view = PathView::closed(PathIndex::new(index).unwrap());
        (view.open, view.can_send) = (true, true);
        view.smoothed_rtt = Duration::from_millis(rtt);
        view.latest_rtt = view.smoothed_rtt;
        view.rtt_var = Duration::from_millis(5);
        view.pto = Duration::from_millis(rtt + 45);
        (view.cwnd, view.in_flight) = (window, in_flight);
        view
    };
    let mut pair = [view(0, 40, 200_000, 200_000), view(1, 100, 50_000, 10_000)];
    pair[0].can_send = room;
    pair
}

struct Frozen(Asked<PeekFrozen>);

impl Frozen {
    fn new(config: &PeekFrozenConfig) -> Self {
        Self(Asked::new(PeekFrozen::new(config)))
    }

    fn next(&mut self, at: u64, paths: &[PathView]) -> Option<usize> {
        let next = self.0.at(at).next(paths, &queue(1 << 20, 400_000));
        next.map(|(slot, _)| slot)
    }
}

#[test]
fn the_frozen_one_waits_in_a_tenth_of_its_decisions() {
    let mut connection = Frozen::new(&PeekFrozenConfig::default());
    let mut waits = 0;
    for at in 0..5000 {
        waits += usize::from(connection.next(at, &pair(false)).is_none());
        // A wait ends with room on the fast path.
        connection.next(at, &pair(true));
    }
    // Five standard deviations of a binomial: 5 · √(5000 · 0.1 · 0.9) = 106.
    assert!(waits.abs_diff(500) < 106, "{waits}");
}

#[test]
fn the_frozen_one_goes_by_its_weights() {
    let with = |theta_tx, theta_wt, p_wt| {
        let config = PeekFrozenConfig {
            theta_tx,
            theta_wt,
            p_tx: 1.0,
            p_wt,
            ..PeekFrozenConfig::default()
        };
        let mut connection = Frozen::new(&config);
        let first = connection.next(0, &pair(false));
        (first, connection.next(1, &pair(false)))
    };
    let of = |place: usize, weight| {
        let mut theta = [0.0; 6];
        theta[place] = weight;
        theta
    };
    assert_eq!(with([0.0; 6], [0.0; 6], 1.0), (Some(1), Some(1)));
    assert_eq!(with([0.0; 6], of(3, 1e-9), 1.0), (None, None));
    assert_eq!(with([0.0; 6], of(3, 1e-9), 0.0), (Some(1), Some(1)));
    // W_f/R_f = 5, I_s/R_s = 0.1.
    assert_eq!(with(of(0, 1.0), of(4, 49.0), 1.0), (Some(1), Some(1)));
    assert_eq!(with(of(0, 1.0), of(4, 51.0), 1.0), (None, None));
}
