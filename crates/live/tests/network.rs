//! Calls over two links in virtual time: freezes, what repair is learned, frames in time beside retransmission.

use mpquic_live::{RATES, Repair};
use proptest::prelude::*;

use crate::link::{Call, Link, Rng, run};

/// Holes of 0.3 to 2 s, one in 4 s.
fn holes(count: usize, seed: u64) -> Vec<(f64, f64)> {
    let mut rng = Rng(seed);
    (0..count)
        .map(|i| {
            let from = 4_000.0 * (i as f64 + 0.5) + 1_000.0 * rng.unit();
            (from, from + 300.0 + 1_700.0 * rng.unit())
        })
        .collect()
}

/// As many as are asked of the program when it is done, with `EVERY_SEED`, as the random tests have it; otherwise a part.
fn thorough() -> bool {
    std::env::var_os("EVERY_SEED").is_some()
}

/// The first of the links falls silent, again and again. Returns the share of bytes beyond the frames'.
fn freezes(name: &str, links: &[Link], frames: f64) -> f64 {
    let count = if thorough() { 70 } else { 14 };
    let mut links = links.to_vec();
    links[0].holes = holes(count, 5);
    let outcome = run(&Call {
        seconds: 4.0 * count as f64 + 4.0,
        frames,
        worth: 0.1,
        ..Call::new(links.clone())
    });
    // A key frame is five usual ones, a fifth longer than the mean at most.
    let usual = 4_000.0 / frames * (2.0 * frames) / (2.0 * frames + 4.0);
    let key = 1.2 * 5.0 * usual / links[1].rate;
    let bound = 1_000.0 / frames + 2.0 * links[0].one_way + 40.0 + links[1].one_way + key;
    let (longest, bytes) = (outcome.longest_gap, outcome.stats.overhead());
    println!(
        "{name}, {frames} frames a second, {count} holes: longest freeze {longest:.0} ms of {bound:.0}, bytes {:.2} %",
        100.0 * bytes
    );
    assert!(longest <= bound, "{name}: {longest} > {bound}");
    assert!(outcome.late() <= 0.06, "{name}: {}", outcome.late());
    bytes
}

#[test]
fn a_silent_hole_is_a_short_freeze() {
    for (name, links) in [
        (
            "Wi-Fi and LTE",
            [Link::new(8.0, 40.0), Link::new(30.0, 12.0)],
        ),
        (
            "LTE and LTE",
            [Link::new(25.0, 12.0), Link::new(30.0, 12.0)],
        ),
        ("far", [Link::new(60.0, 20.0), Link::new(65.0, 20.0)]),
        (
            "Wi-Fi and 5G",
            [Link::new(8.0, 40.0), Link::new(12.0, 40.0)],
        ),
    ] {
        freezes(name, &links, 30.0);
    }
    freezes(
        "LTE and LTE",
        &[Link::new(25.0, 12.0), Link::new(30.0, 12.0)],
        20.0,
    );
}

/// Jitter is not taken for silence: the trigger is what the path's round trips take as a rule.
#[test]
fn jitter_costs_little() {
    let jitter = |one_way| Link {
        jitter: 15.0,
        ..Link::new(one_way, 12.0)
    };
    let bytes = freezes("LTE with jitter", &[jitter(25.0), jitter(30.0)], 30.0);
    assert!(bytes <= 0.06, "{bytes}");
}

/// Where nothing is lost, nothing is spent, whoever chooses; with what was learned elsewhere, no longer than seconds.
#[test]
fn a_clean_network_costs_nothing() {
    let links = vec![Link::new(8.0, 50.0), Link::new(30.0, 20.0)];
    for deadline in [200.0, 100.0] {
        let outcome = run(&Call {
            deadline,
            ..Call::new(links.clone())
        });
        assert_eq!(outcome.in_time, outcome.frames);
        assert!(outcome.stats.overhead() <= 0.01, "{:?}", outcome.stats);
    }
    let far = vec![
        Link::new(60.0, 20.0).lossy(0.03, 3.0),
        Link::new(65.0, 20.0).lossy(0.03, 3.0),
    ];
    let learned = run(&Call {
        seconds: 20.0,
        ..Call::new(far)
    })
    .learned;
    let rate_after = |seconds: usize, learned| {
        let outcome = run(&Call {
            learned,
            seconds: 30.0,
            ..Call::new(links.clone())
        });
        outcome.rates[seconds]
    };
    assert!(rate_after(0, learned) > 0.05);
    assert_eq!(rate_after(29, learned), 0.0);
}

/// Where a copy would come too late, repair is learned within seconds, and most of what retransmission misses is in time.
#[test]
fn far_and_lossy_is_repaired_ahead() {
    let seeds = if thorough() { 1..6 } else { 1..3 };
    for (loss, of_retransmission) in [(0.02, 0.15), (0.03, 0.15), (0.01, 0.3)] {
        // A minute has 1,800 frames, and chance decides on a few of them: all seeds together.
        let (mut late, mut retransmitted, mut rate, mut repaired) = (0.0, 0.0, 0.0, 0);
        for seed in seeds.clone() {
            let links = [60.0, 65.0].map(|one_way| Link::new(one_way, 20.0).lossy(loss, 3.0));
            let call = Call {
                seed,
                ..Call::new(links.to_vec())
            };
            let retransmission = run(&Call {
                repair: Repair::Fixed(0.0),
                reacts: false,
                ..call.clone()
            })
            .late();
            let outcome = run(&call);
            let settled = &outcome.rates[5..];
            let mean = settled.iter().sum::<f64>() / settled.len() as f64;
            println!(
                "loss {loss}, seed {seed}: late {:.2} % for {:.1} % of bytes, retransmission {:.2} %, mean rate {mean:.2}, first {:?}",
                100.0 * outcome.late(),
                100.0 * outcome.stats.overhead(),
                100.0 * retransmission,
                &outcome.rates[..6],
            );
            repaired += outcome.repaired;
            rate += mean / seeds.clone().count() as f64;
            late += outcome.late();
            retransmitted += retransmission;
        }
        assert!(repaired > 100 * seeds.clone().count() as u64);
        assert!((0.12..=0.33).contains(&rate), "loss {loss}: {rate}");
        assert!(
            late <= of_retransmission * retransmitted,
            "loss {loss}: {late} of {retransmitted}"
        );
    }
}

/// Everybody but the learner, on one far and lossy pair: better than retransmission; and behind the best of fixed rates, the learner
/// is by no more than half a point.
#[test]
fn beside_the_baselines() {
    let links = [60.0, 65.0].map(|one_way| Link::new(one_way, 20.0).lossy(0.02, 3.0));
    let late = |repair, reacts| {
        run(&Call {
            repair,
            reacts,
            ..Call::new(links.to_vec())
        })
        .late()
    };
    let retransmission = late(Repair::Fixed(0.0), false);
    for repair in [
        Repair::Rule,
        Repair::Hedge,
        Repair::LinUcb,
        Repair::Fixed(0.05),
    ] {
        assert!(late(repair, true) < retransmission, "{repair:?}");
    }
    let best = [0.05, 0.1, 0.2]
        .map(|rate| late(Repair::Fixed(rate), true))
        .into_iter()
        .fold(1.0, f64::min);
    let learned = late(Repair::Learned, true);
    assert!(
        learned <= best + 0.005,
        "{learned}, the best fixed rate {best}"
    );
}

/// Headroom holds repair back: where frames nearly fill the links, not even a fixed rate of 1 makes a queue.
#[test]
fn repair_yields_to_frames() {
    let links = vec![Link::new(20.0, 2.5), Link::new(25.0, 2.5)];
    let alone = run(&Call {
        repair: Repair::Fixed(0.0),
        seconds: 20.0,
        ..Call::new(links.clone())
    });
    let full = run(&Call {
        repair: Repair::Fixed(1.0),
        seconds: 20.0,
        ..Call::new(links)
    });
    // 4 of 5 Mbit/s, of which 90 % may be used: an eighth.
    assert!(
        full.stats.repair.bytes as f64 <= 0.2 * full.stats.source.bytes as f64,
        "{:?}",
        full.stats
    );
    assert!(
        full.late() <= alone.late() + 0.01,
        "{} {}",
        full.late(),
        alone.late()
    );
}

#[test]
fn rates_are_those_of_the_grid() {
    assert!(RATES.is_sorted());
    assert_eq!((RATES[0], RATES[9]), (0.0, 1.0));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Any two links: what is handed over is what was sent, with one verdict on each frame (`run` checks both), and copies have
    /// their limit.
    #[test]
    fn any_network(
        delays in prop::array::uniform2(1.0..150.0_f64),
        rates in prop::array::uniform2(1.0..50.0_f64),
        losses in prop::array::uniform2(0.0..0.3_f64),
        jitter in 0.0..40.0_f64,
        hole in 0.0..3_000.0_f64,
        frames in 10.0..60.0_f64,
        rate in 0.1..8.0_f64,
        deadline in 20.0..400.0_f64,
        seed in any::<u64>(),
        repair in prop_oneof![
            Just(Repair::Learned), Just(Repair::Hedge), Just(Repair::LinUcb), Just(Repair::Rule), Just(Repair::Fixed(0.3)),
        ],
    ) {
        let mut links: Vec<Link> =
            (0..2).map(|i| Link { jitter, ..Link::new(delays[i], rates[i]).lossy(losses[i].max(1e-4), 5.0) }).collect();
        links[0].holes = vec![(hole, hole + 500.0)];
        links[1].holes = vec![(hole + 300.0, hole + 700.0)];
        let outcome = run(&Call { seconds: 4.0, frames, rate, deadline, repair, seed, ..Call::new(links) });
        let stats = outcome.stats;
        prop_assert!(stats.copies.packets <= 2 * stats.source.packets);
        prop_assert!(stats.hedge.packets <= stats.source.packets);
        prop_assert!(stats.repair.packets <= stats.source.packets + 4);
    }
}
