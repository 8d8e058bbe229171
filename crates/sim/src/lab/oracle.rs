//! Replaces `rates = "oracle"` in a scheduler's configuration by the rates of the network's links.

use serde_json::Value;

use super::network::NetworkSpec;

/// The rate in Mbit/s of a link without a rate: more than any link in the experiments has.
const UNLIMITED: f64 = 1e5;

/// The rate of each path from the server to the client in Mbit/s, that of the handshake's path
/// first. It is the smaller rate of the path's own link and its shared link. For rates that change,
/// the highest rate counts; for traces, the mean.
pub(crate) fn rates(network: &NetworkSpec) -> Vec<f64> {
    let paths = network.paths.iter().map(|path| {
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

/// The configuration with the rates in the place of `"oracle"`, if it has that value.
pub(crate) fn told(config: &Value, rates: impl FnOnce() -> Vec<f64>) -> Value {
    let mut config = config.clone();
    if let Some(told) = config.get_mut("rates")
        && told == "oracle"
    {
        *told = rates().into();
    }
    config
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;

    use super::*;
    use crate::LinkConfig;
    use crate::lab::Experiment;
    use crate::lab::network::{PathSpec, SharedSpec};

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
        let rates = || vec![15.0, 5.0];
        let config = json!({"rates": "oracle", "seed": 1});
        let expected = json!({"rates": [15.0, 5.0], "seed": 1});
        assert_eq!(told(&config, rates), expected);
        for config in [
            json!({"rates": "estimate"}),
            json!({"rates": [1]}),
            json!({"reward": "oracle"}),
            json!("oracle"),
            Value::Null,
        ] {
            assert_eq!(told(&config, rates), config);
        }
    }
}
