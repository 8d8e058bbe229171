//! The copies of published faults: their decisions, and what holds for every scheduler.
#![allow(
    clippy::disallowed_methods,
    reason = "tests take a point to start from off the clock"
)]

mod decisions;
// What holds for every view is said once, in `mpquic-sched`, and holds for these, too. It looks for `registry` in its program's root.
#[path = "../../../sched/tests/builtin/properties.rs"]
mod properties;
#[path = "../../../sched/tests/builtin/support.rs"]
#[allow(dead_code, reason = "the tests here need a part of it")]
mod support;
#[path = "../../../sched/tests/builtin/waiting_properties.rs"]
mod waiting_properties;

use mpquic_lab::replica;
use mpquic_sched::Registry;
use serde_json::json;
use support::{Asked, PACKET, ask, loaded, path, unsent};

/// They, and what they are compared with.
fn registry() -> Registry {
    let mut registry = Registry::new();
    replica::register(&mut registry).expect("no built-in one has these names");
    registry
}

#[test]
fn the_names_are_those_that_are_registered() {
    let (all, built_in) = (registry(), Registry::new());
    let ours = all
        .names()
        .filter(|name| !built_in.names().any(|other| other == *name));
    assert!(ours.eq(replica::NAMES));
}

#[test]
fn settings_that_make_no_sense_are_refused() {
    for (name, config, expected) in [
        (
            "peek_frozen",
            json!({"theta_tx": [1, 2, 3, 4, 5]}),
            "scheduler `peek_frozen`, field `theta_tx`: invalid length 5, expected an array of \
             length 6",
        ),
        (
            "blest_overflow",
            json!({"lambda": 1}),
            "scheduler `blest_overflow`, field `lambda`: unknown field `lambda`, there are no fields",
        ),
        (
            "minrtt_ns3",
            json!({"alpha": 1}),
            "scheduler `minrtt_ns3`, field `alpha`: unknown field `alpha`, there are no fields",
        ),
    ] {
        let refused = registry().build(name, &config).err().unwrap();
        assert_eq!(refused.to_string(), expected);
    }
    let weights = json!({"theta_wt": [1, 1, 1, 1, 1, 1]});
    assert!(registry().build("peek_frozen", &weights).is_ok());
}
