//! What deciding costs: schedulers, asked as a transport asks them.

mod history;
mod schedulers;
mod ucb;

use criterion::{criterion_group, criterion_main};

criterion_group!(
    benches,
    schedulers::decide,
    schedulers::feedback,
    history::history,
    ucb::ucb
);
criterion_main!(benches);
