//! What deciding costs: schedulers, asked as a transport asks them, and bandits by themselves.

mod history;
mod linucb;
mod schedulers;

use criterion::{criterion_group, criterion_main};

criterion_group!(
    benches,
    schedulers::decide,
    schedulers::feedback,
    history::history,
    linucb::linucb
);
criterion_main!(benches);
