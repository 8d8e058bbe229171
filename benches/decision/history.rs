//! What judging a decision costs: the nearest of an arm's earlier contexts, in Mahalanobis distance.

use std::hint::black_box;

use criterion::Criterion;
use mpquic_bandit::{Draw, History};

/// Contexts of six features, as Peekaboo has.
fn context(draw: &mut Draw) -> [f64; 6] {
    std::array::from_fn(|d| draw.unit() * [5.0, 3.0, 40.0, 0.3, 0.2, 9.0][d])
}

fn full<const N: usize>(draw: &mut Draw) -> History<6, N> {
    let mut history = History::new(1);
    for _ in 0..N {
        history.push(&context(draw), draw.unit());
    }
    history
}

fn nearest<const N: usize>(c: &mut Criterion) {
    let mut draw = Draw::new(1);
    let mut history = full::<N>(&mut draw);
    let mut group = c.benchmark_group(format!("history/{N}"));
    group.bench_function("freeze", |b| {
        b.iter_batched_ref(
            || history.clone(),
            History::freeze,
            criterion::BatchSize::SmallInput,
        );
    });
    history.freeze();
    let queries: Vec<_> = (0..64).map(|_| context(&mut draw)).collect();
    let mut number = 0;
    group.bench_function("nearest", |b| {
        b.iter(|| {
            number = (number + 1) % queries.len();
            history.nearest(black_box(&queries[number]))
        });
    });
}

pub(crate) fn history(c: &mut Criterion) {
    nearest::<64>(c);
    nearest::<128>(c);
}
