//! What deciding costs: schedulers, asked as a transport asks them, and bandits by themselves.

mod history;
mod linucb;
mod schedulers;
mod ucb;

use criterion::{criterion_group, criterion_main};

criterion_group!(
    benches,
    schedulers::decide,
    schedulers::feedback,
    history::history,
    linucb::linucb,
    ucb::ucb
);
criterion_main!(benches);
