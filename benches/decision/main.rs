//! What deciding costs: schedulers, asked as a transport asks them.

mod history;
mod schedulers;

use criterion::{criterion_group, criterion_main};

criterion_group!(
    benches,
    schedulers::decide,
    schedulers::feedback,
    history::history
);
criterion_main!(benches);
