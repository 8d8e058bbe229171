//! Tests of the coupled controllers over several paths: what holds for the sums of windows, and who
//! counts in them.

use std::time::{Duration, Instant};

use mpquic_sched_core::PathIndex;
use proptest::prelude::*;

use crate::RttEstimator;
use crate::tests::build;
use crate::{AckedPacket, CongestionControl, CongestionEvent, Controller, InitialWindow, NewPath};

const MTU: u16 = 1000;
const COUPLED: [CongestionControl; 3] = [
    CongestionControl::Lia,
    CongestionControl::Olia,
    CongestionControl::Balia,
];

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// Some paths with settled RTTs, in congestion avoidance.
struct Run {
    cc: Box<dyn Controller>,
    now: Instant,
    rtts: Vec<RttEstimator>,
}

impl Run {
    /// Each path with this window (datagrams) and RTT (ms); the windows must be even numbers.
    fn new(kind: CongestionControl, paths: &[(u64, u64)]) -> Self {
        let start = Instant::now();
        let mut run = Self {
            cc: build(kind, InitialWindow::Bytes(2400)),
            now: start + ms(10),
            rtts: Vec::new(),
        };
        for (i, &(window, rtt_ms)) in paths.iter().enumerate() {
            run.cc.add_path(&NewPath::new(path(i), start, MTU));
            let mut rtt = RttEstimator::new(ms(333));
            (0..100).for_each(|_| rtt.update(run.now, ms(rtt_ms), Duration::ZERO));
            run.rtts.push(rtt);
            // Slow start to twice the window; on a lone path a loss halves that. The others have
            // not been heard of yet, so that they do not count.
            let missing = 2 * window * u64::from(MTU) - run.cc.window(path(i));
            run.cc.on_packet_acked(&AckedPacket::new(
                path(i),
                run.now,
                run.now,
                missing,
                false,
                &run.rtts[i],
            ));
            run.now += ms(100_000);
            run.cc
                .on_congestion_event(&CongestionEvent::loss(path(i), run.now, run.now, 1, false));
            assert_eq!(run.window(i), window * u64::from(MTU));
        }
        run.now += ms(1);
        for i in 0..paths.len() {
            run.hear_of(i);
        }
        run
    }

    /// Something is acknowledged on the path, which changes nothing but that it counts.
    fn hear_of(&mut self, i: usize) {
        self.cc.on_packet_acked(&AckedPacket::new(
            path(i),
            self.now,
            self.now,
            1,
            true,
            &self.rtts[i],
        ));
    }

    fn window(&self, i: usize) -> u64 {
        self.cc.window(path(i))
    }

    fn ack(&mut self, i: usize, bytes: u64) {
        self.cc.on_packet_acked(&AckedPacket::new(
            path(i),
            self.now,
            self.now,
            bytes,
            false,
            &self.rtts[i],
        ));
    }

    /// So many windows' worth is acknowledged on each path, turn by turn, without time passing; the
    /// growth in datagrams.
    fn windows(&mut self, count: u64) -> f64 {
        let before: u64 = (0..self.rtts.len()).map(|i| self.window(i)).sum();
        for _ in 0..count {
            for i in 0..self.rtts.len() {
                for _ in 0..self.window(i) / u64::from(MTU) {
                    self.ack(i, MTU.into());
                }
            }
        }
        let after: u64 = (0..self.rtts.len()).map(|i| self.window(i)).sum();
        (after as f64 - before as f64) / f64::from(MTU)
    }

    fn lose(&mut self, i: usize) {
        self.now += ms(1);
        self.cc.on_congestion_event(&CongestionEvent::loss(
            path(i),
            self.now,
            self.now,
            1,
            false,
        ));
        self.now += ms(1);
    }
}

fn path(i: usize) -> PathIndex {
    PathIndex::new(i).unwrap()
}

/// RFC 6356 section 3: on one path, alpha is 1; the others' papers say the same of theirs.
#[test]
fn a_single_path_is_new_reno_to_the_byte() {
    for kind in COUPLED {
        let mut run = Run::new(kind, &[(10, 50)]);
        let mut reno = Run::new(CongestionControl::NewReno, &[(10, 50)]);
        for round in 0..2000_u64 {
            for run in [&mut run, &mut reno] {
                if round % 700 == 699 {
                    run.lose(0);
                }
                run.ack(0, 300 + round * 7919 % 900);
            }
            assert_eq!(run.window(0), reno.window(0), "{kind}, round {round}");
        }
        assert!(reno.window(0) > 10_000);
    }
}

/// Equal paths: each grows by 1/n^2 of a datagram per window, for LIA as for OLIA (alpha 0); BALIA
/// the same, as (1 + 1)/2 (4 + 1)/5 is 1. Over 4 paths, in 64 windows, that is 4 datagrams each.
#[test]
fn equal_paths_grow_like_a_lone_flow_in_rate() {
    for kind in COUPLED {
        for paths in [2_u64, 4] {
            let mut run = Run::new(kind, &vec![(20, 100); paths as usize]);
            let rounds = 16 * paths;
            let grown = run.windows(rounds);
            let expected = rounds as f64 / paths as f64;
            // In whole datagrams, and a window that has grown takes longer to be acknowledged.
            assert!(
                (grown - expected).abs() <= 0.05 * expected + paths as f64,
                "{kind}, {paths} paths: {grown} datagrams instead of {expected}"
            );
        }
    }
}

/// The sum of all increases per RTT is no more than that of one flow: what makes LIA fair at a
/// shared bottleneck (RFC 6356 section 3, goal 2), and NewReno on each path is not.
#[test]
fn uncoupled_paths_grow_as_many_times_faster() {
    let mut run = Run::new(CongestionControl::NewReno, &[(20, 100), (20, 100)]);
    assert_eq!(run.windows(8), 16.0);
    for kind in COUPLED {
        let mut run = Run::new(kind, &[(20, 100), (20, 100)]);
        assert!(run.windows(8) <= 8.0, "{kind}");
    }
}

/// The example in `balia.rs`: windows of 20 and 10 datagrams, alpha of 1 and 2.
#[test]
fn balia_gives_up_more_on_the_slower_path() {
    let mut run = Run::new(CongestionControl::Balia, &[(20, 100), (10, 100)]);
    run.lose(1);
    assert_eq!(run.window(1), 2500);
    run.lose(0);
    assert_eq!(run.window(0), 10_000);
    assert_eq!(run.cc.ssthresh(path(0)), 10_000);
    for kind in [CongestionControl::Lia, CongestionControl::Olia] {
        let mut run = Run::new(kind, &[(20, 100), (10, 100)]);
        run.lose(1);
        assert_eq!(run.window(1), 5000, "{kind}");
    }
}

/// As in the example in `olia.rs`: the path with the larger window and more losses gives to the
/// other until they are alike, by w_1 / (w_0 + w_1)^2 - 1 / 2 w_1 per acknowledgement, which is below
/// zero from w_0 = 0.41 w_1 on; and it does not leave congestion avoidance by that.
#[test]
fn olia_moves_window_without_a_loss() {
    let mut run = Run::new(CongestionControl::Olia, &[(10, 100), (20, 100)]);
    let heard = |run: &mut Run, i: usize, bytes| {
        run.cc.on_packet_acked(&AckedPacket::new(
            path(i),
            run.now,
            run.now,
            bytes,
            true,
            &run.rtts[i],
        ));
    };
    heard(&mut run, 1, 50_000_000);
    run.windows(16);
    assert!(
        run.window(1) > 20_000,
        "the best path has most: nothing moves"
    );

    let mut run = Run::new(CongestionControl::Olia, &[(10, 100), (20, 100)]);
    heard(&mut run, 0, 50_000_000);
    run.windows(16);
    assert!(
        (17_000..=20_000).contains(&run.window(0)),
        "{}",
        run.window(0)
    );
    assert!(
        (17_000..20_000).contains(&run.window(1)),
        "{}",
        run.window(1)
    );
    assert!(!run.cc.in_slow_start(path(1)));
}

#[test]
fn olia_takes_no_window_below_the_least() {
    let mut run = Run::new(CongestionControl::Olia, &[(4, 10), (4, 10)]);
    // The first has the largest window, the second is the better path.
    run.lose(1);
    run.lose(0);
    run.lose(0);
    run.cc.on_packet_acked(&AckedPacket::new(
        path(1),
        run.now,
        run.now,
        50_000_000,
        true,
        &run.rtts[1],
    ));
    for _ in 0..1000 {
        run.ack(0, 1000);
        assert!(run.window(0) >= 2000);
    }
}

/// A path that is not heard of stands for nothing: the other grows as if alone.
#[test]
fn idle_and_broken_and_removed_paths_do_not_count() {
    for kind in COUPLED {
        let alone = Run::new(kind, &[(20, 100)]).windows(8);
        assert_eq!(alone, 8.0, "{kind}");
        let growth_of_first = |run: &mut Run| {
            let before = run.window(0);
            for _ in 0..8 {
                (0..run.window(0) / u64::from(MTU)).for_each(|_| run.ack(0, MTU.into()));
            }
            (run.window(0) - before) as f64 / f64::from(MTU)
        };
        let both = || Run::new(kind, &[(20, 100), (20, 100)]);

        let mut run = both();
        assert!(growth_of_first(&mut run) <= 2.0, "{kind}");
        let mut silent = both();
        // Three probe timeouts of 100 + 25 ms and a little.
        silent.now += ms(400);
        assert_eq!(growth_of_first(&mut silent), 8.0, "{kind}");
        // It comes back as soon as something arrives.
        silent.hear_of(1);
        assert!(growth_of_first(&mut silent) <= 2.0, "{kind}");
        let mut removed = both();
        removed.cc.remove_path(path(1));
        assert_eq!(growth_of_first(&mut removed), 8.0, "{kind}");
        let mut changed = both();
        changed
            .cc
            .on_path_changed(&NewPath::new(path(1), changed.now, MTU));
        assert_eq!(growth_of_first(&mut changed), 8.0, "{kind}");
    }
}

/// Slow start and its end are each path's own business.
#[test]
fn slow_start_is_not_coupled() {
    for kind in COUPLED {
        let mut run = Run::new(kind, &[(20, 100), (20, 100)]);
        run.cc.on_path_changed(&NewPath::new(path(1), run.now, MTU));
        let before = run.window(1);
        assert!(run.cc.in_slow_start(path(1)));
        run.ack(1, before);
        assert_eq!(run.window(1), 2 * before, "{kind}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    /// Whatever windows and RTTs: no path grows faster than a lone flow of its window, but for the
    /// half of a datagram per window that OLIA's alpha moves to it at most; in sum over the paths,
    /// that alpha moves nothing out of nothing.
    #[test]
    fn no_path_grows_faster_than_a_lone_flow(
        paths in prop::collection::vec((2u64..200, 5u64..500), 1..6),
        kind in prop::sample::select(&COUPLED[..]),
    ) {
        let paths: Vec<_> = paths.into_iter().map(|(w, rtt)| (2 * w, rtt)).collect();
        for i in 0..paths.len() {
            let mut run = Run::new(kind, &paths);
            let before = run.window(i);
            // One window, in small pieces.
            for _ in 0..before / 500 {
                run.ack(i, 500);
            }
            let grown = (run.window(i) as f64 - before as f64) / f64::from(MTU);
            prop_assert!(grown <= 2.0, "{kind}: {grown} datagrams on path {i}");
            if kind != CongestionControl::Olia {
                prop_assert!((0.0..=1.0).contains(&grown), "{kind}: {grown} datagrams on path {i}");
            }
        }
    }
}
