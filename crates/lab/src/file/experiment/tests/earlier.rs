//! Tests of what a network was like during earlier connections.

use super::*;

#[test]
fn every_scheduler_may_have_earlier_connections_and_another_network_during_them() {
    let train = "earlier = { rate = 4, rtt = 0.5 }\n[train]\nruns = 1\nall = true";
    let experiment = parse(&file(PATHS, train)).unwrap();
    assert!(experiment.schedulers.iter().all(|spec| spec.training == 1));
    let network = &experiment.networks[0];
    let before = network.before();
    assert_eq!(network.paths[0].down.rate, Some(50_000_000));
    assert_eq!(before.paths[0].down.rate, Some(200_000_000));
    assert_eq!(before.paths[0].up.delay, Duration::from_millis(10));
    assert_eq!((before.earlier, &before.name), (None, &network.name));
    let then = "earlier = { paths = [{ rate = { min = 4, max = 6 }, owd = 7 }], rtt = 2 }\n\
                sample = { points = 3, seed = 1 }";
    let drawn = networks(PATHS, then);
    let rates: Vec<_> = drawn
        .iter()
        .map(|network| {
            let before = network.before();
            assert_eq!(before.paths[0].down.delay, Duration::from_millis(14));
            assert_eq!(network.paths[0].down.rate, Some(50_000_000));
            before.paths[0].down.rate.unwrap()
        })
        .collect();
    assert!(
        rates
            .iter()
            .all(|rate| (4_000_000..=6_000_000).contains(rate))
    );
    assert!(rates[0] != rates[1] && rates[1] != rates[2], "{rates:?}");
    let same = networks(PATHS, "").remove(0);
    assert_eq!(same.before(), same);
    for (more, fault) in [
        (
            "earlier = { rate = 0 }",
            "network[1].earlier.rate: found 0, expected a factor from 0.01 to 100",
        ),
        (
            "earlier = { paths = [{ rate = 3, owd = 7 }, { rate = 4, owd = 7 }] }",
            "network[1].earlier.paths: found 2 paths, expected 1 as now",
        ),
        (
            "[train]\nruns = 1\nall = 1",
            "train.all: found 1, expected true or false",
        ),
    ] {
        let error = parse(&file(PATHS, more)).unwrap_err();
        assert!(error.ends_with(fault), "{error}");
    }
}
