//! Tells a scheduler the rates of the links where its configuration asks an oracle for them; measures none.

use serde_json::{Value, json};

use super::network::NetworkSpec;

/// The setting, and what it says in an experiment file.
const SETTING: &str = "rates";
const ORACLE: &str = "oracle";

/// The configuration with these rates, Mbit/s by path, in the place of `rates = "oracle"`; the same one if it does not ask
/// for them.
///
/// A scheduler of real connections has no oracle to ask: this is for figures of schedulers whose authors gave them one
/// (SAILfish).
pub(crate) fn answer(config: &Value, rates: &[f64]) -> Value {
    let mut config = config.clone();
    if let Some(setting) = config.get_mut(SETTING)
        && setting == ORACLE
    {
        *setting = json!(rates);
    }
    config
}

/// The rates of a network's paths towards the client, in the order of the paths; of those that change, the highest. A
/// link that paths share is not looked at.
pub(crate) fn rates(network: &NetworkSpec) -> Vec<f64> {
    // More than any scheduler takes for a rate: none is known.
    const UNLIMITED: f64 = 1e6;
    let down = network.paths.iter().map(|path| path.down.peak_rate());
    down.map(|rate| rate.map_or(UNLIMITED, |bits| (bits as f64 / 1e6).min(UNLIMITED)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_oracle_is_answered() {
        let config = json!({"rates": "oracle", "seed": 1});
        assert_eq!(
            answer(&config, &[15.0, 5.5]),
            json!({"rates": [15.0, 5.5], "seed": 1})
        );
        for config in [
            Value::Null,
            json!({}),
            json!("oracle"),
            json!({"rates": "estimate", "other": "oracle"}),
            json!({"rates": [1.0]}),
        ] {
            assert_eq!(answer(&config, &[15.0]), config);
        }
    }
}
