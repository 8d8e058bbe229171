//! The registry: what it makes, and what it says when it cannot.

use mpquic_sched::{
    Context, Decision, InvalidConfig, NoConfig, PathIndex, Registry, RegistryError, RoundRobin,
    RoundRobinConfig, Scheduler,
};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{ask_times, path};

fn message(registry: &Registry, name: &str, config: Value) -> String {
    registry
        .build(name, &config)
        .err()
        .expect("should be refused")
        .to_string()
}

#[test]
fn makes_the_built_in_schedulers() {
    let registry = Registry::new();
    let paths = [path(0, 90), path(1, 10)];
    for (name, config, expected) in [
        (
            "atsss",
            json!({"mode": "priority", "paths": [0, 1]}),
            [0, 0, 0],
        ),
        ("blest", json!({"multi": true}), [1, 1, 1]),
        ("ecf", json!({"beta": 10, "floor": false}), [1, 1, 1]),
        ("ecf_a", json!({"seed": 3, "ecf": {"beta": 1}}), [1, 1, 1]),
        ("epsilon_greedy", json!({"epsilon": 0}), [1, 1, 1]),
        ("falcon", json!({"confirm": 7}), [1, 1, 1]),
        ("otias", json!({}), [1, 1, 1]),
        (
            "linucb",
            json!({"alpha": 0.75, "scale": 1e6, "seed": 2}),
            [1, 1, 1],
        ),
        (
            "linucb",
            json!({"discount": 0.99, "features": "latest"}),
            [1, 1, 1],
        ),
        ("minrtt", json!({}), [1, 1, 1]),
        ("minrtt", Value::Null, [1, 1, 1]),
        ("peekaboo", json!({"tx_bytes": 0}), [1, 1, 1]),
        ("roundrobin", json!({}), [0, 1, 0]),
        ("rr", json!({"burst": 2}), [0, 0, 1]),
        ("sa_ecf", json!({"sharing": "exclusive"}), [1, 1, 1]),
        ("single", json!({}), [0, 0, 0]),
        ("single", json!({"path": 1}), [1, 1, 1]),
    ] {
        let mut scheduler = registry.build(name, &config).unwrap();
        assert_eq!(
            ask_times(&mut *scheduler, &paths, 3),
            expected,
            "{name} {config}"
        );
    }
}

#[test]
fn a_factory_makes_independent_schedulers() {
    let factory = Registry::default().factory("rr", &json!({})).unwrap();
    let paths = [path(0, 1), path(1, 1)];
    let (mut one, mut other) = (factory.make(), factory.make());
    assert_eq!(ask_times(&mut *one, &paths, 3), [0, 1, 0]);
    assert_eq!(ask_times(&mut *other, &paths, 3), [0, 1, 0]);
}

#[test]
fn an_unknown_name_gets_the_list_and_the_nearest() {
    let registry = Registry::new();
    let names = registry.names().map(|name| match name {
        "arrival" => "arrival (or default)",
        "roundrobin" => "roundrobin (or rr)",
        name => name,
    });
    let known = format!("Known: {}", names.collect::<Vec<_>>().join(", "));
    for (name, hint) in [
        ("MinRTT", ", did you mean `minrtt`?"),
        ("round_robin", ", did you mean `roundrobin`?"),
        ("r", ", did you mean `rr`?"),
        ("signle", ", did you mean `single`?"),
        ("hopscotch", "."),
        ("", "."),
    ] {
        let expected = format!("unknown scheduler `{name}`{hint} {known}");
        assert_eq!(message(&registry, name, json!({})), expected);
    }
    let all = registry.names().count();
    let error = registry.build("hopscotch", &json!({})).err().unwrap();
    assert!(matches!(
        error,
        RegistryError::UnknownName { name, nearest: None, known }
            if name == "hopscotch" && known.len() == all
    ));
}

#[test]
fn a_wrong_configuration_names_scheduler_field_and_expectation() {
    let registry = Registry::new();
    for (name, config, expected) in [
        (
            "ecf",
            json!({"beta": -0.25}),
            "scheduler `ecf`, field `beta`: expected 0 to 100, got -0.25",
        ),
        (
            "ecf_a",
            json!({"p_send": 1.5}),
            "scheduler `ecf_a`, field `p_send`: expected a probability, 0 to 1, got 1.5",
        ),
        (
            "ecf_a",
            json!({"ecf": {"beta": 101}}),
            "scheduler `ecf_a`, field `ecf.beta`: expected 0 to 100, got 101",
        ),
        (
            "epsilon_greedy",
            json!({"step": -0.5}),
            "scheduler `epsilon_greedy`, field `step`: expected a share from 0 to 1, got -0.5",
        ),
        (
            "linucb",
            json!({"alpha": 1001}),
            "scheduler `linucb`, field `alpha`: expected 0 to 1000, got 1001",
        ),
        (
            "linucb",
            json!({"scale": 0}),
            "scheduler `linucb`, field `scale`: expected bytes per millisecond, 1e-6 to 1e12, got 0",
        ),
        (
            "linucb",
            json!({"ridge": 0}),
            "scheduler `linucb`, field `ridge`: expected 1e-6 to 1e6, got 0",
        ),
        (
            "linucb",
            json!({"discount": 1.01}),
            "scheduler `linucb`, field `discount`: expected 0.5 to 1, got 1.01",
        ),
        (
            "linucb",
            json!({"p_wt": -0.1}),
            "scheduler `linucb`, field `p_wt`: expected a probability, 0 to 1, got -0.1",
        ),
        (
            "linucb",
            json!({"reward": "loss"}),
            "scheduler `linucb`, field `reward`: unknown variant `loss`, expected one of \
             `discounted`, `own_ack`, `packet`, `deadline`, `goodput`",
        ),
        (
            "linucb",
            json!({"features": "min"}),
            "scheduler `linucb`, field `features`: unknown variant `min`, expected `smoothed` or \
             `latest`",
        ),
        (
            "peekaboo",
            json!({"tuning": "slow"}),
            "scheduler `peekaboo`, field `tuning`: unknown variant `slow`, expected `fast` or `full`",
        ),
        (
            "peekaboo",
            json!({"boundaries": {"keep_wrong": -1}}),
            "scheduler `peekaboo`, field `boundaries.keep_wrong`: expected a probability, 0 to 1, \
             got -1",
        ),
        (
            "peekaboo",
            json!({"boundaries": {"low": 0.8}}),
            "scheduler `peekaboo`, field `boundaries.high`: expected no less than `low`, 0.8, got 0.7",
        ),
        (
            "peekaboo",
            json!({"least": 51, "window": 50}),
            "scheduler `peekaboo`, field `least`: expected 1 to 50, got 51",
        ),
        (
            "peekaboo",
            json!({"judge_every": 0}),
            "scheduler `peekaboo`, field `judge_every`: expected 1 to 1024, got 0",
        ),
        (
            "peekaboo",
            json!({"threshold": 2}),
            "scheduler `peekaboo`, field `threshold`: expected 0 to 1, got 2",
        ),
        (
            "peekaboo",
            json!({"scale": 0}),
            "scheduler `peekaboo`, field `scale`: expected bytes per millisecond, 1e-6 to 1e12, got 0",
        ),
        (
            "peekaboo",
            json!({"tx_bytes": -1}),
            "scheduler `peekaboo`, field `tx_bytes`: invalid value: integer `-1`, expected u64",
        ),
        (
            "mptcp",
            json!({"burst": 0}),
            "scheduler `mptcp`, field `burst`: expected 1 to 2^32, got 0",
        ),
        (
            "mptcp",
            json!({"send_buffer": 0.5}),
            "scheduler `mptcp`, field `send_buffer`: expected 1 to 100, got 0.5",
        ),
        (
            "arrival",
            json!({"margin": -1}),
            "scheduler `arrival`, field `margin`: expected 0 to 100, got -1",
        ),
        (
            "raven",
            json!({"width": -1}),
            "scheduler `raven`, field `width`: expected 0 to 100, got -1",
        ),
        (
            "raven",
            json!({"half_life_ms": 0}),
            "scheduler `raven`, field `half_life_ms`: expected 1 to 3600000, got 0",
        ),
        (
            "xlink",
            json!({"never_above_ms": 499}),
            "scheduler `xlink`, field `never_above_ms`: expected 500 to 3600000, got 499",
        ),
        (
            "xlink",
            json!({"always_below_ms": 3_600_001}),
            "scheduler `xlink`, field `always_below_ms`: expected 0 to 3600000, got 3600001",
        ),
        (
            "sa_ecf",
            json!({"ecf": {"beta": -1}}),
            "scheduler `sa_ecf`, field `ecf.beta`: expected 0 to 100, got -1",
        ),
        (
            "sa_ecf",
            json!({"sharing": "fair"}),
            "scheduler `sa_ecf`, field `sharing`: unknown variant `fair`, expected one of \
             `by_turns`, `exclusive`, `weighted`",
        ),
        (
            "blest",
            json!({"lambda": 0.9}),
            "scheduler `blest`, field `lambda`: expected 1 to 1.3, got 0.9",
        ),
        (
            "blest",
            json!({"lambda_min": 1.4}),
            "scheduler `blest`, field `lambda_min`: expected 0 to 1.3, got 1.4",
        ),
        (
            "blest",
            json!({"lambda_raise": 4}),
            "scheduler `blest`, field `lambda_raise`: expected 0 to 1, got 4",
        ),
        (
            "minrtt",
            json!({"alpha": 1}),
            "scheduler `minrtt`, field `alpha`: unknown field `alpha`, expected `wait_for_pacer`",
        ),
        (
            "rr",
            json!({"burst": 0}),
            "scheduler `roundrobin`, field `burst`: invalid value: integer `0`, expected a nonzero u32",
        ),
        (
            "rr",
            json!({"bursts": 1}),
            "scheduler `roundrobin`, field `bursts`: unknown field `bursts`, expected `burst`",
        ),
        (
            "single",
            json!({"path": -1}),
            "scheduler `single`, field `path`: invalid value: integer `-1`, expected u32",
        ),
        (
            "single",
            json!({"path": 1, "zeal": true}),
            "scheduler `single`, field `zeal`: unknown field `zeal`, expected `path`",
        ),
        (
            "daps",
            json!({"unit_ms": 0}),
            "scheduler `daps`, field `unit_ms`: expected milliseconds above 0, got 0",
        ),
        (
            "backup",
            json!({"primary": "wifi"}),
            "scheduler `backup`, field `primary`: invalid type: string \"wifi\", expected u32",
        ),
        (
            "single",
            json!([1]),
            "scheduler `single`, expected an object of settings, got [1]",
        ),
    ] {
        assert_eq!(message(&registry, name, config), expected);
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Weights {
    first: u32,
    second: u32,
}

/// Sends on one path, which it is told when it is made.
struct Fixed(PathIndex);

impl Scheduler for Fixed {
    fn decide(&mut self, _cx: &Context<'_>) -> Decision {
        Decision::send(self.0)
    }
}

#[test]
fn users_register_their_own() {
    let mut registry = Registry::empty();
    let slot = |config: &Weights| usize::from(config.second > config.first);
    registry
        .register("fixed", |_: &NoConfig| Fixed(PathIndex::new(7).unwrap()))
        .unwrap()
        .register_checked(
            "weights",
            |config: &Weights| match config.first.checked_add(config.second) {
                Some(0) => Err(InvalidConfig::whole("expected a weight above 0")),
                None => Err(InvalidConfig::field("second", "expected a smaller one")),
                Some(_) => Ok(()),
            },
            move |config| Fixed(PathIndex::new(slot(config)).unwrap()),
        )
        .unwrap();
    assert_eq!(registry.names().collect::<Vec<_>>(), ["fixed", "weights"]);
    let config = json!({"first": 1, "second": 2});
    let mut scheduler = registry.build("weights", &config).unwrap();
    assert_eq!(ask_times(&mut *scheduler, &[], 1), [1]);
    for (config, expected) in [
        (
            json!({"first": 0, "second": 0}),
            "scheduler `weights`, expected a weight above 0",
        ),
        (
            json!({"first": u32::MAX, "second": 1}),
            "scheduler `weights`, field `second`: expected a smaller one",
        ),
        (
            json!({"first": 1}),
            "scheduler `weights`, missing field `second`",
        ),
    ] {
        assert_eq!(message(&registry, "weights", config), expected);
    }
}

#[test]
fn a_name_is_given_once() {
    let mut registry = Registry::new();
    for name in ["minrtt", "rr"] {
        let make = |config: &RoundRobinConfig| RoundRobin::new(config);
        let error = registry.register(name, make).err().unwrap();
        assert_eq!(error, RegistryError::NameTaken(name.to_owned()));
    }
    let names: std::collections::BTreeSet<_> = registry.names().collect();
    assert_eq!(format!("{registry:?}"), format!("{names:?}"));
}

/// Who asks for one of those that another crate has learns which.
#[test]
fn what_was_not_built_says_so() {
    let registry = Registry::new();
    for name in ["dqn", "sailfish", "gaps"] {
        assert_eq!(
            message(&registry, name, json!({})),
            format!(
                "scheduler `{name}` is in the crate `mpquic-sched-neural`, which this program was built without: \
                 mpquic's own programs have it with `--features neural`"
            ),
        );
    }
}
