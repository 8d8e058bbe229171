//! Replaces words in a scheduler's configuration by what only the lab knows: `rates = "oracle"` by
//! the rates of the network's links, `path = "best"` by the path that is the best one alone.

use mpquic_sim::workload::{Better, Workload};
use mpquic_sim::{FluidPath, fluid_bound};
use serde_json::Value;

use crate::file::network::NetworkSpec;

/// The rate in Mbit/s of a link without a rate: more than any link in the experiments has.
const UNLIMITED: f64 = 1e5;

/// The rate of each path from the server to the client in Mbit/s, in the order of path IDs: that of
/// the handshake's path first. It is the smaller rate of the path's own link and its shared link. For rates that change,
/// the highest rate counts; for traces, the mean.
pub(crate) fn rates(network: &NetworkSpec) -> Vec<f64> {
    let paths = network.opened().into_iter().map(|number| {
        let path = &network.paths[number];
        let through = network
            .shared
            .iter()
            .filter(|shared| path.through.as_ref() == Some(&shared.name))
            .map(|shared| &shared.link);
        through
            .chain([&path.down])
            .filter_map(|link| link.peak_rate())
            .min()
            .map_or(UNLIMITED, |rate| rate as f64 / 1e6)
    });
    paths.collect()
}

/// The path ID of the path on which the workload's bound is the best if no other path is used. Of
/// equal paths, the one that is opened first.
pub(crate) fn best_path(network: &NetworkSpec, workload: &Workload, paths: &[FluidPath]) -> u64 {
    let bound = |number: &usize| {
        let path = paths.get(*number).copied();
        let bound = fluid_bound(workload, path.as_slice(), 0).unwrap_or(f64::INFINITY);
        match workload.primary().better {
            Better::Lower => bound,
            Better::Higher => -bound,
        }
    };
    let opened = network.opened();
    let ids = opened.iter().enumerate();
    let best = ids.min_by(|a, b| bound(a.1).total_cmp(&bound(b.1)));
    best.map_or(0, |(id, _)| id as u64)
}

/// The configuration with what is known in the place of `"oracle"` and `"best"`, if it has these
/// values.
pub(crate) fn told(
    config: &Value,
    rates: impl FnOnce() -> Vec<f64>,
    best: impl FnOnce() -> u64,
) -> Value {
    let mut config = config.clone();
    if let Some(told) = config.get_mut("rates")
        && told == "oracle"
    {
        *told = rates().into();
    }
    if let Some(told) = config.get_mut("path")
        && told == "best"
    {
        *told = best().into();
    }
    config
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;

    use super::*;
    use crate::Experiment;
    use crate::file::network::{PathSpec, SharedSpec};
    use mpquic_sim::LinkConfig;

    #[test]
    fn rates_are_those_of_the_download_direction_and_of_what_it_leads_through() {
        let line = "50Mbit 20ms 0% | 2.5Mbit 100ms 1.5% | 30Mbit 1ms 0%";
        let schedulers = ["minrtt".to_owned()];
        let olia = ["olia".to_owned()];
        let experiment = Experiment::of_one_network(line, "file:2MB", &schedulers, &olia);
        let mut network = experiment.unwrap().networks.remove(0);
        assert_eq!(rates(&network), [50.0, 2.5, 30.0]);

        network.paths[0].up.rate = Some(1);
        network.paths[0].through = Some("bottleneck".to_owned());
        network.paths[1].down.rate = None;
        let shared = |name: &str, rate| SharedSpec {
            name: name.to_owned(),
            link: LinkConfig::new(rate, Duration::ZERO),
        };
        network.shared = vec![shared("other", 1), shared("bottleneck", 40_000_000)];
        let steps = [(Duration::from_secs(1), 35_000_000)];
        let down = LinkConfig::new(30_000_000, Duration::ZERO).with_rate_steps(steps, None);
        network.paths[2] = PathSpec {
            down,
            ..network.paths[2].clone()
        };
        assert_eq!(rates(&network), [40.0, UNLIMITED, 35.0]);
    }

    #[test]
    fn nothing_but_an_oracle_is_told() {
        let told = |config: &Value| told(config, || vec![15.0, 5.0], || 3);
        let config = json!({"rates": "oracle", "seed": 1});
        let expected = json!({"rates": [15.0, 5.0], "seed": 1});
        assert_eq!(told(&config), expected);
        assert_eq!(told(&json!({"path": "best"})), json!({"path": 3}));
        for config in [
            json!({"rates": "estimate"}),
            json!({"rates": [1]}),
            json!({"reward": "oracle", "path": 1}),
            json!("oracle"),
            Value::Null,
        ] {
            assert_eq!(told(&config), config);
        }
    }

    #[test]
    fn the_order_of_opening_decides_about_path_ids() {
        let schedulers = ["minrtt".to_owned()];
        let olia = ["olia".to_owned()];
        let line = "2Mbit 100ms | 50Mbit 20ms | 30Mbit 1ms";
        let experiment = Experiment::of_one_network(line, "file:2MB", &schedulers, &olia).unwrap();
        let workload = &experiment.workloads[0];
        let mut network = experiment.networks[0].clone();
        let paths: Vec<_> = network
            .paths
            .iter()
            .map(|path| FluidPath::new(&path.up, &path.down, network.mtu))
            .collect();
        let best = |network: &NetworkSpec, workload| best_path(network, workload, &paths);
        assert_eq!(
            (network.opened(), best(&network, workload)),
            (vec![0, 1, 2], 1)
        );
        // A small file is the fastest over the shortest path.
        let [small, bulk] = ["file:1kB", "bulk:20s"].map(|form| form.parse().unwrap());
        assert_eq!(best(&network, &small), 2);
        // More goodput is better.
        assert_eq!(best(&network, &bulk), 1);
        network.handshake = 1;
        assert_eq!(
            (network.opened(), best(&network, workload)),
            (vec![1, 0, 2], 0)
        );
        assert_eq!(rates(&network), [50.0, 2.0, 30.0]);
        network.handshake = 2;
        assert_eq!(
            (network.opened(), best(&network, workload)),
            (vec![2, 0, 1], 2)
        );
        assert_eq!(rates(&network), [30.0, 2.0, 50.0]);
    }
}
