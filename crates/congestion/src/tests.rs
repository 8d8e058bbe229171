//! Tests of all loss-based controllers: the RFCs' rules by hand, and no panic whatever the numbers.

use std::time::{Duration, Instant};

use proptest::prelude::*;
use rand::SeedableRng;
use rand::rngs::StdRng;

use super::*;

const MTU: u16 = 1200;

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// With HyStart++: the rules of RFC 9002.
pub(super) fn build(kind: CongestionControl, initial: InitialWindow) -> Box<dyn Controller> {
    build_with(kind, initial, SlowStart::HyStartPlusPlus)
}

fn build_with(
    kind: CongestionControl,
    initial: InitialWindow,
    slow_start: SlowStart,
) -> Box<dyn Controller> {
    let mut rng = StdRng::seed_from_u64(1);
    kind.build(&mut ControllerContext::new(
        initial,
        Some(slow_start),
        &mut rng,
    ))
}

struct Run {
    cc: Box<dyn Controller>,
    path: PathIndex,
    now: Instant,
    rtt: RttEstimator,
}

impl Run {
    fn new(kind: CongestionControl, rtt_ms: u64) -> Self {
        Self::with(kind, rtt_ms, SlowStart::HyStartPlusPlus)
    }

    fn with(kind: CongestionControl, rtt_ms: u64, slow_start: SlowStart) -> Self {
        let now = Instant::now();
        let path = PathIndex::new(3).unwrap();
        let mut cc = build_with(kind, InitialWindow::default(), slow_start);
        cc.add_path(&NewPath::new(path, now, MTU));
        let mut rtt = RttEstimator::new(ms(333));
        rtt.update(now, ms(rtt_ms), Duration::ZERO);
        Self { cc, path, now, rtt }
    }

    fn window(&self) -> u64 {
        self.cc.window(self.path)
    }

    /// One RTT in which a full window is sent and acknowledged.
    fn round(&mut self) {
        let sent = self.now;
        self.now += self.rtt.smoothed();
        let mut left = self.window();
        while left > 0 {
            let bytes = left.min(u64::from(MTU));
            self.cc.on_packet_acked(&AckedPacket::new(
                self.path, self.now, sent, bytes, false, &self.rtt,
            ));
            left -= bytes;
        }
    }

    fn lose(&mut self, sent: Instant, persistent: bool) {
        self.cc.on_congestion_event(&CongestionEvent::loss(
            self.path, self.now, sent, 1200, persistent,
        ));
    }
}

const LOSS_BASED: [CongestionControl; 5] = [
    CongestionControl::NewReno,
    CongestionControl::Cubic,
    CongestionControl::Lia,
    CongestionControl::Olia,
    CongestionControl::Balia,
];

#[test]
fn names_are_parsed_and_unknown_ones_listed() {
    for control in CongestionControl::ALL {
        assert_eq!(control.to_string().parse(), Ok(*control));
    }
    let error = "Cubic".parse::<CongestionControl>().unwrap_err();
    assert_eq!(error.name, "Cubic");
    let said = error.to_string();
    assert!(
        said.starts_with(
            "unknown congestion controller \"Cubic\", expected one of newreno, cubic, "
        )
    );
    for (asked, meant) in [("bbr", "bbr3"), ("BBRv2", "bbr3"), ("reno", "newreno")] {
        let said = asked.parse::<CongestionControl>().unwrap_err().to_string();
        assert!(said.contains(&format!("did you mean {meant}?")), "{said}");
    }
    for asked in ["", "vegas", "2"] {
        let said = asked.parse::<CongestionControl>().unwrap_err().to_string();
        assert!(!said.contains("did you mean"), "{said}");
    }
    for name in ["lia", "olia", "balia"] {
        assert!(said.contains(name), "{said}");
    }
}

#[test]
fn the_initial_window_is_as_configured() {
    let now = Instant::now();
    let path = PathIndex::new(0).unwrap();
    for kind in LOSS_BASED {
        let mut cc = build(kind, InitialWindow::Packets(32));
        cc.add_path(&NewPath::new(path, now, 1200));
        assert_eq!(cc.window(path), 38_400, "{kind}");
        //= specs/rfc9002.txt#section-7.2
        //= type=test
        //# If the maximum datagram size changes during the connection, the initial congestion
        //# window SHOULD be recalculated with the new size.
        cc.on_mtu_update(path, 1400);
        assert_eq!(cc.window(path), 44_800, "{kind}");
        cc.on_congestion_event(&CongestionEvent::loss(path, now, now, 1400, false));
        let reduced = cc.window(path);
        cc.on_mtu_update(path, 1452);
        assert_eq!(cc.window(path), reduced, "{kind}");
    }
}

#[test]
fn a_path_can_begin_with_a_window_of_its_own() {
    let now = Instant::now();
    let (slow, other) = (PathIndex::new(0).unwrap(), PathIndex::new(1).unwrap());
    for &kind in CongestionControl::ALL {
        let mut cc = build(kind, InitialWindow::Packets(32));
        let own = Some(InitialWindow::Packets(4));
        cc.add_path(&NewPath::new(slow, now, 1200).with_initial_window(own));
        cc.add_path(&NewPath::new(other, now, 1200));
        assert_eq!(
            (cc.window(slow), cc.window(other)),
            (4800, 38_400),
            "{kind}"
        );
        cc.on_mtu_update(slow, 1400);
        cc.on_mtu_update(other, 1400);
        assert_eq!(
            (cc.window(slow), cc.window(other)),
            (5600, 44_800),
            "{kind}"
        );
        let least = Some(InitialWindow::Bytes(1));
        cc.on_path_changed(&NewPath::new(slow, now, 1200).with_initial_window(least));
        assert_eq!(cc.window(slow), 2400, "{kind}");
    }
}

//= specs/rfc9002.txt#section-7.3.1
//= type=test
//# The sender MUST exit slow start and enter a recovery period when a packet is lost or when the
//# ECN-CE count reported by its peer increases.
#[test]
fn slow_start_doubles_until_loss() {
    for kind in LOSS_BASED {
        let mut run = Run::new(kind, 50);
        assert!(run.cc.in_slow_start(run.path));
        for i in 1..=6 {
            run.round();
            assert_eq!(run.window(), 12_000 << i);
        }
        let before = run.window();
        run.lose(run.now, false);
        //= specs/rfc9002.txt#section-7.3.2
        //= type=test
        //# The congestion window MUST be set to the reduced value of the slow start threshold
        //# before exiting the recovery period.
        assert_eq!(run.window(), before / 2);
        //= specs/rfc9002.txt#section-7.3.2
        //= type=test
        //# On entering a recovery period, a sender MUST set the slow start threshold to half the
        //# value of the congestion window when loss is detected.
        assert_eq!(run.cc.ssthresh(run.path), run.window());
        assert!(!run.cc.in_slow_start(run.path));
        // Packets sent before the event change nothing, whether lost or acknowledged.
        let after = run.window();
        run.lose(run.now, false);
        let rtt = run.rtt.clone();
        run.cc.on_packet_acked(&AckedPacket::new(
            run.path, run.now, run.now, 1200, false, &rtt,
        ));
        assert_eq!(run.window(), after);
        assert_eq!(run.cc.congestion_events(run.path), 1);
    }
}

//= specs/rfc9002.txt#section-7.3.3
//= type=test
//# A sender in congestion avoidance uses an Additive Increase Multiplicative Decrease (AIMD)
//# approach that MUST limit the increase to the congestion window to at most one maximum datagram
//# size for each congestion window that is acknowledged.
#[test]
fn new_reno_grows_by_one_datagram_per_window() {
    let mut run = Run::new(CongestionControl::NewReno, 50);
    run.round();
    run.lose(run.now, false);
    assert_eq!(run.window(), 12_000);
    run.now += ms(1);
    for i in 1..=20 {
        run.round();
        assert_eq!(run.window(), 12_000 + i * 1200);
    }
}

//= specs/rfc9002.txt#section-7.6.2
//= type=test
//# When persistent congestion is declared, the sender's congestion window MUST be reduced to the
//# minimum congestion window (kMinimumWindow), similar to a TCP sender's response on an RTO
//# [RFC5681].
#[test]
fn persistent_congestion_leads_to_the_minimum_and_slow_start() {
    for kind in LOSS_BASED {
        let mut run = Run::new(kind, 50);
        (0..5).for_each(|_| run.round());
        run.lose(run.now, true);
        assert_eq!(run.window(), 2400);
        assert!(run.cc.in_slow_start(run.path));
        run.round();
        assert_eq!(run.window(), 4800);
    }
}

/// Three times the window per round trip where no queue stands; the same as before with the other slow starts.
#[test]
fn rapid_start_triples() {
    for kind in LOSS_BASED {
        let mut rapid = Run::with(kind, 50, SlowStart::Rapid);
        let mut classic = Run::with(kind, 50, SlowStart::Classic);
        for i in 1..=6 {
            rapid.round();
            classic.round();
            assert_eq!(rapid.window(), 12_000 * 3u64.pow(i), "{kind}");
            assert_eq!(classic.window(), 12_000 << i, "{kind}");
        }
    }
}

/// Packets that left together arrive at the rate of the narrowest link: the window goes to what that holds, eight times its size at
/// most, and the pace stays near that rate for a round trip.
#[test]
fn a_train_leads_the_window_to_what_the_path_holds() {
    for kind in LOSS_BASED {
        // Acknowledgements of two packets come 1 ms apart: 2.4 MB/s, 120 kB in 50 ms. `apart`: how they left.
        let first_flight = |apart: u64| {
            let mut run = Run::with(kind, 50, SlowStart::Train);
            let start = run.now;
            for i in 0..10 {
                let sent = start + ms(i / 2 * apart);
                run.now = start + ms(50 + i / 2);
                run.cc.on_packet_acked(&AckedPacket::new(
                    run.path, run.now, sent, 1200, false, &run.rtt,
                ));
            }
            run
        };
        let pace = |run: &Run| run.cc.pacing_rate(run.path, &run.rtt);

        let paced = first_flight(1);
        assert_eq!(paced.window(), 36_000, "{kind}");
        assert_eq!(pace(&paced), None, "{kind}");

        let mut train = first_flight(0);
        // The last two packets are acknowledged after that.
        assert_eq!(train.window(), 96_000 + 2 * 2400, "{kind}");
        assert_eq!(pace(&train).unwrap().round(), 1.35 * 2.4e6, "{kind}");
        // What left after that comes back: to all that the path holds, and then as in any Rapid Start.
        for (window, paced) in [(120_000, true), (122_400, false)] {
            let sent = train.now + ms(1);
            train.now += ms(51);
            train.cc.on_packet_acked(&AckedPacket::new(
                train.path, train.now, sent, 1200, false, &train.rtt,
            ));
            assert_eq!(train.window(), window, "{kind}");
            assert_eq!(pace(&train).is_some(), paced, "{kind}");
        }
    }
}

/// What is left of the window that overshot is the controller's part of what the path delivered, whatever that was.
#[test]
fn the_first_recovery_converges_to_what_was_delivered() {
    let left = |kind, beta: f64, delivered: u64| {
        let mut run = Run::with(kind, 50, SlowStart::Rapid);
        (0..4).for_each(|_| run.round());
        let flight = run.window();
        let (sent, rtt) = (run.now, run.rtt.clone());
        run.now += ms(50);
        // Packets are lost throughout the flight, and each acknowledgement tells of some.
        let lost = flight - delivered;
        for i in 0..100 {
            let event = CongestionEvent::loss(run.path, run.now, sent, lost / 100, false);
            run.cc.on_congestion_event(&event);
            assert_eq!(run.cc.congestion_events(run.path), 1, "{i}");
            run.cc.on_packet_acked(&AckedPacket::new(
                run.path,
                run.now,
                sent,
                delivered / 100,
                false,
                &rtt,
            ));
            assert!(!run.cc.in_slow_start(run.path));
        }
        let part = run.window() as f64 / delivered as f64;
        assert!((part - beta).abs() < 0.01, "{kind}: {part} of {delivered}");
        assert_eq!(run.cc.ssthresh(run.path), run.window());
        // The recovery is over: the next loss takes its part at once.
        let before = run.window() as f64;
        run.now += ms(1);
        run.lose(run.now, false);
        let part = run.window() as f64 / before;
        assert!((part - beta).abs() < 0.01, "{kind}: {part}");
    };
    // Four rounds: 972 kB.
    for delivered in [400_000, 600_000, 900_000] {
        left(CongestionControl::NewReno, 0.5, delivered);
        left(CongestionControl::Lia, 0.5, delivered);
        left(CongestionControl::Cubic, 0.7, delivered);
    }
}

/// All of the losses that ended it turn up: reordering.
#[test]
fn rapid_start_goes_on_after_a_spurious_loss() {
    let mut run = Run::with(CongestionControl::Cubic, 50, SlowStart::Rapid);
    (0..3).for_each(|_| run.round());
    let (before, sent) = (run.window(), run.now);
    run.lose(sent, false);
    assert!(run.window() < before && !run.cc.in_slow_start(run.path));
    let loss = SpuriousLoss::new(run.path, run.now, sent, 1200);
    run.cc.on_spurious_loss(&loss);
    assert_eq!(run.window(), before);
    assert!(run.cc.in_slow_start(run.path));
    run.now += ms(1);
    run.round();
    assert_eq!(run.window(), 3 * before);
}

#[test]
fn slow_starts_are_named() {
    for algorithm in SlowStart::ALL {
        assert_eq!(algorithm.to_string().parse(), Ok(*algorithm));
    }
    let said = "Rapid".parse::<SlowStart>().unwrap_err().to_string();
    let expected = "unknown slow start \"Rapid\", expected one of classic, hystart++, rapid, train";
    assert_eq!(said, expected);
}

/// A path that fails again and again before its window has grown back keeps its threshold: slow start brings the window
/// back in a few round trips once it works.
#[test]
fn flaps_leave_cubic_its_threshold() {
    let mut run = Run::new(CongestionControl::Cubic, 50);
    (0..5).for_each(|_| run.round());
    run.lose(run.now, true);
    let threshold = run.cc.ssthresh(run.path);
    for _ in 0..4 {
        run.round();
        run.now += ms(500);
        run.lose(run.now, true);
        assert_eq!(run.window(), 2400);
        assert_eq!(run.cc.ssthresh(run.path), threshold);
    }
    // Congestion at a lower window does lower it.
    run.round();
    run.now += ms(500);
    run.lose(run.now, false);
    assert!(run.cc.ssthresh(run.path) < threshold);
}

//= specs/rfc9002.txt#section-7.8
//= type=test
//# When this occurs, the congestion window SHOULD NOT be increased in either slow start or
//# congestion avoidance.
#[test]
fn an_unused_window_does_not_grow() {
    for kind in LOSS_BASED {
        let mut run = Run::new(kind, 50);
        let rtt = run.rtt.clone();
        for _ in 0..100 {
            run.cc.on_packet_acked(&AckedPacket::new(
                run.path,
                run.now + ms(50),
                run.now,
                1200,
                true,
                &rtt,
            ));
        }
        assert_eq!(run.window(), 12_000);
    }
}

#[test]
fn paths_do_not_touch_each_other() {
    for kind in LOSS_BASED {
        let mut run = Run::new(kind, 50);
        let other = PathIndex::new(0).unwrap();
        assert_eq!(run.cc.window(other), 0);
        run.lose(run.now, false);
        run.cc.add_path(&NewPath::new(other, run.now, 1400));
        assert_eq!(run.cc.window(other), 14_000);
        run.cc.on_mtu_update(other, 9000);
        assert_eq!(run.cc.window(other), 18_000);
        run.cc.remove_path(other);
        run.cc
            .on_congestion_event(&CongestionEvent::loss(other, run.now, run.now, 1, true));
        assert_eq!(
            (run.cc.window(other), run.cc.in_slow_start(other)),
            (0, false)
        );
        run.cc
            .on_path_changed(&NewPath::new(run.path, run.now, MTU));
        assert_eq!(
            (run.window(), run.cc.congestion_events(run.path)),
            (12_000, 0)
        );
    }
}

/// RFC 9438 section 4.2: back at the plateau after K seconds, flat there, convex beyond.
#[test]
fn cubic_follows_its_curve() {
    let mut run = Run::new(CongestionControl::Cubic, 100);
    (0..7).for_each(|_| run.round());
    let w_max = run.window() as f64;
    run.lose(run.now, false);
    run.now += ms(1);
    let start = run.now;
    let k = ((w_max / 1200.0) * 0.5 / 0.4).cbrt();
    let mut curve = Vec::new();
    while (run.now - start).as_secs_f64() < 2.0 * k {
        run.round();
        curve.push(((run.now - start).as_secs_f64(), run.window() as f64));
    }
    // The epoch begins with the first acknowledgement, one RTT after the start.
    for (t, window) in curve {
        let expected = 0.4 * 1200.0 * (t - k).powi(3) + w_max;
        assert!(
            (window / expected - 1.0).abs() < 0.03,
            "at {t}: {window} against {expected}"
        );
    }
}

/// RFC 9438 section 4.6: 0.7 of the window is left, but of that which overshot in the first slow start half.
#[test]
fn cubic_gives_up_less_once_it_knows_the_path() {
    let mut run = Run::new(CongestionControl::Cubic, 100);
    (0..7).for_each(|_| run.round());
    let overshot = run.window();
    run.lose(run.now, false);
    assert_eq!(run.window(), overshot / 2);
    run.now += ms(1);
    (0..10).for_each(|_| run.round());
    let known = run.window();
    run.lose(run.now, false);
    assert_eq!(run.window(), (known as f64 * 0.7) as u64);
}

/// RFC 9438 section 4.3: with a short RTT, growth is that of a Reno flow with alpha of 0.53.
#[test]
fn cubic_is_at_least_reno_friendly() {
    let mut run = Run::new(CongestionControl::Cubic, 5);
    (0..4).for_each(|_| run.round());
    run.lose(run.now, false);
    run.now += ms(1);
    let before = run.window();
    (0..20).for_each(|_| run.round());
    let grown = (run.window() - before) as f64 / 1200.0;
    assert!((grown / (20.0 * 0.529) - 1.0).abs() < 0.1, "{grown}");
}

#[test]
fn cubic_makes_room_with_fast_convergence() {
    let mut run = Run::new(CongestionControl::Cubic, 100);
    (0..5).for_each(|_| run.round());
    run.lose(run.now, false);
    let first = run.window() as f64;
    run.now += ms(1);
    run.lose(run.now, false);
    run.now += ms(1);
    // The plateau is now below the window of the second loss: 0.85 of it.
    let k = (first * (0.85 - 0.7) / 1200.0 / 0.4).cbrt();
    let end = run.now + Duration::from_secs_f64(k);
    while run.now < end {
        run.round();
    }
    assert!((run.window() as f64 / (first * 0.85) - 1.0).abs() < 0.02);
}

#[test]
fn cubic_takes_back_what_a_spurious_loss_did() {
    let mut run = Run::new(CongestionControl::Cubic, 50);
    (0..5).for_each(|_| run.round());
    let before = run.window();
    let sent = run.now;
    run.now += ms(50);
    run.lose(sent, false);
    run.lose(sent, false);
    assert!(run.window() < before);
    run.cc
        .on_spurious_loss(&SpuriousLoss::new(run.path, run.now, sent, 1200));
    assert!(run.window() < before, "half of it is still missing");
    run.cc
        .on_spurious_loss(&SpuriousLoss::new(run.path, run.now, sent, 1200));
    assert_eq!(run.window(), before);
    assert!(run.cc.in_slow_start(run.path));
    // A mark is no accident.
    run.lose(run.now, false);
    run.cc
        .on_congestion_event(&CongestionEvent::ecn(run.path, run.now, run.now));
    let reduced = run.window();
    run.cc
        .on_spurious_loss(&SpuriousLoss::new(run.path, run.now, run.now, 1200));
    assert_eq!(run.window(), reduced);
}

#[test]
fn cubic_does_not_leap_after_idle_time() {
    let mut run = Run::new(CongestionControl::Cubic, 100);
    (0..5).for_each(|_| run.round());
    run.lose(run.now, false);
    run.now += ms(1);
    run.round();
    let rtt = run.rtt.clone();
    run.cc.on_packet_acked(&AckedPacket::new(
        run.path, run.now, run.now, 1200, true, &rtt,
    ));
    let before = run.window();
    run.now += Duration::from_secs(60);
    run.round();
    assert!(run.window() < before + before / 10);
}

/// Slow start ends on a growing queue, not on a full one.
#[test]
fn hystart_ends_slow_start_without_loss() {
    for kind in LOSS_BASED {
        let mut run = Run::new(kind, 50);
        let mut rounds = 0;
        while run.cc.in_slow_start(run.path) {
            rounds += 1;
            assert!(rounds < 20);
            // A path of 50 ms and 2 MB/s: beyond 100 kB the queue grows.
            let queue = run.window().saturating_sub(100_000) / 2000;
            let sent = run.now;
            run.now += ms(50 + queue);
            for i in 0..run.window() / 1200 {
                let now = run.now + Duration::from_micros(i * 500);
                run.rtt.update(now, ms(50 + queue), Duration::ZERO);
                let rtt = run.rtt.clone();
                run.cc.on_packet_acked(&AckedPacket::new(
                    run.path,
                    now,
                    sent + Duration::from_micros(i * 500),
                    1200,
                    false,
                    &rtt,
                ));
            }
        }
        assert!(
            (100_000..700_000).contains(&run.window()),
            "{}",
            run.window()
        );
    }
}

#[derive(Debug, Clone)]
enum Op {
    Ack {
        back: u64,
        bytes: u64,
        app_limited: bool,
        rtt: u64,
    },
    Congestion {
        back: u64,
        persistent: bool,
        bytes: u64,
        ecn: bool,
    },
    Spurious {
        back: u64,
        bytes: u64,
    },
    Mtu(u16),
    Wait(u64),
    Change,
}

fn op() -> impl Strategy<Value = Op> {
    let number = || prop_oneof![0u64..3000, 0u64..10_000_000, any::<u64>()];
    prop_oneof![
        6 => (number(), number(), prop::bool::weighted(0.2), number())
            .prop_map(|(back, bytes, app_limited, rtt)| Op::Ack { back, bytes, app_limited, rtt }),
        2 => (number(), prop::bool::weighted(0.1), number(), any::<bool>())
            .prop_map(|(back, persistent, bytes, ecn)| Op::Congestion { back, persistent, bytes, ecn }),
        1 => (number(), number()).prop_map(|(back, bytes)| Op::Spurious { back, bytes }),
        1 => (1200u16..).prop_map(Op::Mtu),
        3 => prop_oneof![0u64..1_000_000, 0u64..1 << 50].prop_map(Op::Wait),
        1 => Just(Op::Change),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]
    #[test]
    fn windows_stay_within_bounds(ops in prop::collection::vec(op(), 1..150), kind in 0..LOSS_BASED.len(), slow_start in prop::sample::select(SlowStart::ALL)) {
        let mut run = Run::with(LOSS_BASED[kind], 50, slow_start);
        let origin = run.now;
        let mut mtu = MTU;
        for op in ops {
            let before = |back: u64| origin.max(run.now.checked_sub(Duration::from_micros(back)).unwrap_or(origin));
            match op {
                Op::Ack { back, bytes, app_limited, rtt } => {
                    let sent = before(back);
                    run.rtt.update(run.now, Duration::from_micros(rtt), Duration::ZERO);
                    run.cc.on_packet_acked(&AckedPacket::new(run.path, run.now, sent, bytes, app_limited, &run.rtt));
                }
                Op::Congestion { back, persistent, bytes, ecn } =>
                    run.cc.on_congestion_event(&CongestionEvent { path: run.path, now: run.now, newest_sent: before(back), lost_bytes: bytes, persistent, ecn }),
                Op::Spurious { back, bytes } => run.cc.on_spurious_loss(&SpuriousLoss::new(run.path, run.now, before(back), bytes)),
                Op::Mtu(new) => { mtu = new; run.cc.on_mtu_update(run.path, new); }
                Op::Wait(us) => run.now += Duration::from_micros(us),
                Op::Change => run.cc.on_path_changed(&NewPath::new(run.path, run.now, mtu)),
            }
            let window = run.window();
            prop_assert!(window >= 2 * u64::from(mtu), "{} below two of {}", window, mtu);
            prop_assert!(window <= MAX_WINDOW);
        }
    }
}
