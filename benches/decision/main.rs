//! What deciding costs: schedulers, asked as a transport asks them, and bandits by themselves.

mod history;
mod instructions;
mod learning;
mod linucb;
mod online;
mod schedulers;
mod ucb;

use std::env;

use criterion::{Criterion, criterion_group};

use mpquic_sched::Registry;

/// Where the schedulers come from.
fn registry() -> Registry {
    let mut registry = Registry::new();
    mpquic_lab::replica::register(&mut registry).expect("no built-in one has these names");
    mpquic_lab::own::register(&mut registry).expect("nor these");
    registry
}

/// Those that need no trained network; the bench `inference` has the others.
const SCHEDULERS: &[&str] = &[
    "floor",
    "minrtt",
    "roundrobin",
    "arrival",
    "atsss",
    "blest",
    "blest_overflow",
    "ecf",
    "ecf_a",
    "ecf_nowait",
    "sa_ecf",
    "epsilon_greedy",
    "falcon",
    "linucb",
    "peek_frozen",
    "peekaboo",
    "backup",
    "daps",
    "daps_gap",
    "dems",
    "dqn_online",
    "kept",
    "minrtt_ns3",
    "mptcp",
    "otias",
    "raven",
    "redundant",
    "rr_ns3",
    "single",
    "split",
    "stms",
    "stream_minrtt",
    "ucb",
    "ucb_block",
    "xlink",
];

fn schedulers(c: &mut Criterion) {
    let registry = registry();
    let without: Vec<_> = registry
        .names()
        .filter(|name| !SCHEDULERS.contains(name))
        .collect();
    assert!(without.is_empty(), "schedulers without a row: {without:?}");
    schedulers::decide(c, SCHEDULERS);
    learning::sent_and_acked(c);
    learning::acked_and_settled(c);
    online::questions(c);
    online::train(c);
    schedulers::acked(c, SCHEDULERS);
}

criterion_group!(
    benches,
    schedulers,
    history::history,
    linucb::linucb,
    ucb::ucb
);

fn main() {
    if env::args().any(|argument| argument == "--gap") {
        online::gap();
        return;
    }
    if env::args().any(|argument| argument == "--count") {
        instructions::run();
        return;
    }
    benches();
    Criterion::default().configure_from_args().final_summary();
}
