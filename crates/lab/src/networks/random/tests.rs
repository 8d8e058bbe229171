//! The networks of the prior are the same for the same seed, within their ranges, and balanced.

use std::collections::BTreeMap;

use mpquic_sim::QueueLimit;

use super::*;

const COUNT: usize = 630;

#[test]
fn the_same_seed_gives_the_same_networks_whatever_their_number() {
    let networks = |count, seed| -> Vec<_> {
        let drawn = draw("prior", count, seed).into_iter();
        drawn.map(|drawn| drawn.network).collect()
    };
    let all = networks(40, 1);
    assert_eq!(networks(40, 1), all);
    assert_eq!(networks(20, 1), all[..20]);
    let other = networks(40, 2);
    assert!(all.iter().zip(&other).all(|(a, b)| a.paths != b.paths));
    // Of one seed, no two are alike.
    for (at, network) in all.iter().enumerate() {
        assert!(all[..at].iter().all(|before| before.paths != network.paths));
    }
}

#[test]
fn all_values_are_within_their_ranges() {
    let milliseconds = |time: Duration| time.as_secs_f64() * 1e3;
    let (mut rates, mut delays, mut losses) = (Vec::new(), Vec::new(), Vec::new());
    for drawn in draw("prior", COUNT, 3) {
        let network = drawn.network;
        assert!((2..=4).contains(&network.paths.len()));
        for path in &network.paths {
            for link in [&path.up, &path.down] {
                assert!(link.validate().is_ok(), "{}: {link:?}", network.name);
                let rate = link.rate.unwrap();
                let delay = milliseconds(link.delay);
                let QueueLimit::Bytes(queue) = link.queue else {
                    panic!("{:?}", link.queue)
                };
                let product = rate as f64 / 8e3 * 2.0 * delay;
                let queue = queue as f64;
                assert!(queue >= 13_500.0 && queue <= (4.1 * product).max(13_500.0));
                assert!(queue >= 0.24 * product);
                // Of the RTT: 30 % of twice the delay, divided over both directions.
                let jitter = milliseconds(link.delay_sd) * 2.0_f64.sqrt() / (2.0 * delay);
                assert!(jitter <= 0.301, "{jitter}");
            }
            let bursts = path
                .down
                .gilbert_elliott
                .map_or(0.0, |chain| chain.mean_loss());
            assert!(path.down.loss + bursts <= 0.03);
            assert!(path.up.loss == 0.0 && path.up.rate <= path.down.rate);
            rates.push(path.down.rate.unwrap());
            delays.push(milliseconds(path.down.delay));
            losses.push(path.down.loss + bursts);
        }
        for shared in &network.shared {
            let through = network.paths.iter();
            assert_eq!(through.filter(|path| path.through.is_some()).count(), 2);
            assert!(shared.link.validate().is_ok());
        }
    }
    let share = |count: usize, of: usize| count as f64 / of as f64;
    // The ends of the ranges are reached, and their middle is that of the logarithms.
    let below = |limit| {
        share(
            rates.iter().filter(|rate| **rate < limit).count(),
            rates.len(),
        )
    };
    assert!(below(1_000_000) == 0.0 && below(1_300_000) > 0.02);
    assert!(
        (0.45..0.55).contains(&below(14_100_000)),
        "{}",
        below(14_100_000)
    );
    assert!(below(160_000_000) < 0.98 && below(200_000_001) == 1.0);
    let short = delays.iter().filter(|delay| **delay < 17.3).count();
    assert!((0.45..0.55).contains(&share(short, delays.len())));
    assert!(delays.iter().all(|delay| (1.0..=300.0).contains(delay)));
    assert!(losses.iter().any(|loss| *loss > 0.028));
}

#[test]
fn kinds_of_all_sorts_are_balanced_together() {
    let mut counts: BTreeMap<(String, String), usize> = BTreeMap::new();
    let mut count = |a: &str, b: String| {
        *counts.entry((a.to_owned(), b)).or_default() += 1;
    };
    for drawn in draw("prior", COUNT, 1) {
        let network = &drawn.network;
        let kind = drawn.workload.to_string();
        let kind = kind.split(':').next().unwrap().to_owned();
        let control = &network.congestion[0];
        let feature = network.set.split(' ').nth(1).unwrap();
        let paths = network.paths.len().to_string();
        count(control, kind.clone());
        count(control, feature.to_owned());
        count(control, paths.clone());
        count(&kind, feature.to_owned());
        count(&kind, paths.clone());
        count(feature, paths);
    }
    let expected = |name: &str| match name {
        "file" => 2.0 / 6.0,
        "page" | "video" | "messages" | "requests" => 1.0 / 6.0,
        "2" => 3.0 / 5.0,
        "3" | "4" => 1.0 / 5.0,
        "cubic" | "olia" | "bbr3" => 1.0 / 3.0,
        _ => 1.0 / 7.0,
    };
    assert_eq!(counts.len(), 3 * (5 + 7 + 3) + 5 * (7 + 3) + 7 * 3);
    for ((a, b), count) in counts {
        // Exact: the number of networks is a multiple of all turns.
        let wanted = COUNT as f64 * expected(&a) * expected(&b);
        assert!(
            (count as f64 - wanted).abs() < 1e-6,
            "{a} {b}: {count}, {wanted}"
        );
    }
}

#[test]
fn each_feature_is_there() {
    for drawn in draw("prior", 70, 1) {
        let network = drawn.network;
        let links = || network.paths.iter().map(|path| &path.down);
        let there = match network.set.split(' ').nth(1).unwrap() {
            "plain" => links().all(|link| link.outages.is_empty() && link.changes.is_empty()),
            "loss" => links().all(|link| link.loss > 0.0),
            "bursts" => links().all(|link| link.gilbert_elliott.is_some()),
            "mobile" => links().any(|link| link.rate_steps.len() == 600),
            "outage" => links().any(|link| !link.outages.is_empty()),
            "shared" => network.shared.len() == 1,
            "stuck" => links().any(|link| link.changes.len() == 2),
            other => panic!("{other}"),
        };
        assert!(there, "{}", network.name);
    }
}

#[test]
fn mobile_links_fade_and_stay_near_their_level() {
    let mut means = Vec::new();
    let mut fades = 0;
    for drawn in draw("prior", COUNT, 5) {
        for path in &drawn.network.paths {
            let steps = &path.down.rate_steps;
            if steps.is_empty() {
                continue;
            }
            let level = path.down.rate.unwrap() as f64;
            let factors: Vec<_> = steps.iter().map(|step| step.rate as f64 / level).collect();
            let mean = factors.iter().sum::<f64>() / factors.len() as f64;
            means.push(mean);
            fades += usize::from(factors.iter().any(|factor| *factor < 0.1));
            assert!(factors.iter().all(|factor| *factor < 3.1));
        }
    }
    let mean = means.iter().sum::<f64>() / means.len() as f64;
    assert!((0.8..1.3).contains(&mean), "{mean}");
    assert!(fades * 2 > means.len(), "{fades} of {}", means.len());
}

#[test]
fn workloads_fit_their_networks() {
    let mut sizes = Vec::new();
    for drawn in draw("prior", COUNT, 1) {
        let workload = drawn.workload.to_string();
        let reparsed: Workload = workload.parse().unwrap();
        assert_eq!(reparsed, drawn.workload);
        assert_eq!(drawn.network.workloads.join(" "), workload);
        let paths = &drawn.network.paths;
        let rate: u64 = paths.iter().map(|path| path.down.rate.unwrap()).sum();
        match &drawn.workload {
            Workload::File(file) => {
                assert!(file.size == 64_000 || file.size * 8 < rate * 60);
                sizes.push(file.size);
            }
            Workload::Messages(messages) => {
                assert!(messages.rate == 500_000 || messages.rate * 5 <= rate * 2);
                let shortest = paths.iter().map(|path| path.down.delay).min().unwrap();
                assert!(messages.deadline > shortest, "{workload}");
            }
            _ => {}
        }
    }
    assert_eq!(sizes.iter().min(), Some(&64_000));
    assert_eq!(sizes.iter().max(), Some(&20_000_000));
}
