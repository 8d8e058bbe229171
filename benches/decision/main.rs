//! What deciding costs: schedulers, asked as a transport asks them, bandits by themselves, and congestion controllers.

mod controllers;
mod history;
mod instructions;
mod learning;
mod linucb;
mod names;
mod online;
mod schedulers;
mod ucb;

use std::env;

use criterion::{Criterion, criterion_group};

use mpquic_sched::Registry;

use crate::names::SCHEDULERS;

/// Where the schedulers come from.
fn registry() -> Registry {
    let mut registry = Registry::new();
    mpquic_lab::replica::register(&mut registry).expect("no built-in one has these names");
    mpquic_lab::own::register(&mut registry).expect("nor these");
    registry
}

fn schedulers(c: &mut Criterion) {
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
    controllers::controllers,
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
