//! What UCB1 costs: ours, which keeps what it can between calls, and the textbook's, which keeps
//! counts.
//!
//! Each call's input rests on the result of the one before, so that a figure is a latency: the next
//! bandit to ask is one further by the arm that was chosen.

use std::hint::black_box;

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, Criterion};
use mpquic_bandit::{ArmSet, Draw, Ucb1};

/// How many bandits take turns. A power of two; all fit the first-level cache.
const BANDITS: usize = 16;

/// How many rewards each has seen before.
const AGE: u64 = 10_000;

trait Bandit {
    fn select(&self) -> usize;
    fn update(&mut self, arm: usize, reward: f64);
}

impl<const K: usize> Bandit for Ucb1<K> {
    #[inline]
    fn select(&self) -> usize {
        Self::select(self, black_box(ArmSet::first_of(K))).unwrap_or(0)
    }

    #[inline]
    fn update(&mut self, arm: usize, reward: f64) {
        let _refused = Self::update(self, arm, reward);
    }
}

/// Mean and count of each arm; logarithm, root and division when asked.
struct Textbook {
    mean: Vec<f64>,
    pulls: Vec<f64>,
    choices: u64,
    exploration: f64,
}

impl Textbook {
    fn new(arms: usize, exploration: f64) -> Self {
        Self {
            mean: vec![0.0; arms],
            pulls: vec![0.0; arms],
            choices: 0,
            exploration,
        }
    }
}

impl Bandit for Textbook {
    #[inline]
    fn select(&self) -> usize {
        let t = (self.choices + 1) as f64;
        let f = 1.0 + t * t.ln() * t.ln();
        let (mut best, mut highest) = (0, f64::NEG_INFINITY);
        for arm in 0..self.mean.len() {
            if self.pulls[arm] == 0.0 {
                return arm;
            }
            let bonus = self.exploration * (2.0 * f.ln() / self.pulls[arm]).sqrt();
            if self.mean[arm] + bonus > highest {
                (best, highest) = (arm, self.mean[arm] + bonus);
            }
        }
        best
    }

    #[inline]
    fn update(&mut self, arm: usize, reward: f64) {
        self.choices += 1;
        self.pulls[arm] += 1.0;
        self.mean[arm] += (reward - self.mean[arm]) / self.pulls[arm];
    }
}

/// Grown-up bandits that have not all learned the same.
fn bandits<B: Bandit>(arms: usize, new: impl Fn() -> B) -> Vec<B> {
    (0..BANDITS as u64)
        .map(|seed| {
            let mut draw = Draw::new(seed);
            let means: Vec<f64> = (0..arms).map(|_| draw.unit()).collect();
            let mut bandit = new();
            for _ in 0..AGE {
                let arm = bandit.select();
                bandit.update(arm, means[arm] + draw.unit());
            }
            bandit
        })
        .collect()
}

fn select<B: Bandit>(group: &mut BenchmarkGroup<'_, WallTime>, name: &str, bandits: &[B]) {
    let mut at = 0;
    group.bench_function(name, |b| {
        b.iter(|| {
            let arm = bandits[at % BANDITS].select();
            at = at + arm + 1;
            arm
        });
    });
}

/// Each call finds the means, counts and t as the one before left them; arms take turns.
fn update<const K: usize>(
    group: &mut BenchmarkGroup<'_, WallTime>,
    name: &str,
    bandit: &mut impl Bandit,
) {
    let mut number = 0_usize;
    group.bench_function(name, |b| {
        b.iter(|| {
            number += 1;
            bandit.update(number % K, black_box(0.5));
        });
    });
    black_box(bandit.select());
}

fn group<const K: usize>(c: &mut Criterion) {
    let mut ours = bandits(K, || Ucb1::<K>::new(0.5));
    let mut textbook = bandits(K, || Textbook::new(K, 0.5));
    let mut selects = c.benchmark_group(format!("ucb_select/k{K}"));
    select(&mut selects, "ours", &ours);
    select(&mut selects, "textbook", &textbook);
    selects.finish();
    let mut updates = c.benchmark_group(format!("ucb_update/k{K}"));
    update::<K>(&mut updates, "ours", &mut ours[0]);
    update::<K>(&mut updates, "textbook", &mut textbook[0]);
    updates.finish();
}

pub(crate) fn ucb(c: &mut Criterion) {
    group::<2>(c);
    group::<4>(c);
    group::<8>(c);
}
