//! What LinUCB costs, beside the same by other means: an inversion at each decision, ndarray,
//! nalgebra. What a scheduler makes of it is measured in `schedulers.rs`.
//!
//! In `select` the next context depends on the arm just chosen, and an update rests on the state
//! that the last one left: these are latencies, one call cannot hide behind another.

use std::hint::black_box;

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, Criterion};
use mpquic_bandit::{Draw, LinUcb, LinUcbConfig, Real};
use nalgebra::{SMatrix, SVector};
use ndarray::linalg::{general_mat_vec_mul, kron};
use ndarray::{Array1, Array2, aview1};

const ALPHA: f64 = 0.8;
/// A power of two, so that the next context is found by masking.
const CONTEXTS: usize = 256;
const TRAINING: usize = 5_000;

/// LinUCB by some means, with contexts of a kind of its own.
trait Bandit<const D: usize> {
    type Context;
    fn context(x: &[f64; D]) -> Self::Context;
    fn select(&mut self, x: &Self::Context) -> usize;
    fn update(&mut self, arm: usize, x: &Self::Context, reward: f64);
}

/// The published scheduler's way, and the paper's algorithm 1 to the letter: A and b are kept, on the
/// heap, and each decision inverts every A by Gauss and Jordan.
struct Inversion {
    arms: Vec<(Vec<Vec<f64>>, Vec<f64>)>,
}

fn invert(a: &[Vec<f64>]) -> Vec<Vec<f64>> {
    let n = a.len();
    let mut a = a.to_vec();
    let mut inverse: Vec<Vec<f64>> = (0..n).map(|_| vec![0.0; n]).collect();
    for (i, row) in inverse.iter_mut().enumerate() {
        row[i] = 1.0;
    }
    for k in 0..n {
        let scale = 1.0 / a[k][k];
        for j in 0..n {
            a[k][j] *= scale;
            inverse[k][j] *= scale;
        }
        for i in (0..n).filter(|i| *i != k) {
            let factor = a[i][k];
            for j in 0..n {
                a[i][j] -= factor * a[k][j];
                inverse[i][j] -= factor * inverse[k][j];
            }
        }
    }
    inverse
}

fn product(m: &[Vec<f64>], x: &[f64]) -> Vec<f64> {
    m.iter().map(|row| sum_of_products(row, x)).collect()
}

fn sum_of_products(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

impl Inversion {
    fn new(d: usize, k: usize) -> Self {
        let unit = |i| (0..d).map(|j| f64::from(u8::from(i == j))).collect();
        let arm = || ((0..d).map(unit).collect(), vec![0.0; d]);
        Self {
            arms: (0..k).map(|_| arm()).collect(),
        }
    }
}

impl<const D: usize> Bandit<D> for Inversion {
    type Context = Vec<f64>;

    fn context(x: &[f64; D]) -> Vec<f64> {
        x.to_vec()
    }

    fn select(&mut self, x: &Vec<f64>) -> usize {
        largest(self.arms.iter().map(|(a, b)| {
            let inverse = invert(a);
            let theta = product(&inverse, b);
            let variance = sum_of_products(&product(&inverse, x), x);
            sum_of_products(&theta, x) + ALPHA * variance.sqrt()
        }))
    }

    fn update(&mut self, arm: usize, x: &Vec<f64>, reward: f64) {
        let (a, b) = &mut self.arms[arm];
        for (i, row) in a.iter_mut().enumerate() {
            for (value, xj) in row.iter_mut().zip(x) {
                *value += x[i] * xj;
            }
            b[i] += reward * x[i];
        }
    }
}

/// As one writes it with ndarray: A^-1, b and θ, each step an expression.
struct Idiomatic {
    arms: Vec<(Array2<f64>, Array1<f64>, Array1<f64>)>,
}

impl Idiomatic {
    fn new(d: usize, k: usize) -> Self {
        let zeros = Array1::zeros(d);
        Self {
            arms: vec![(Array2::eye(d), zeros.clone(), zeros); k],
        }
    }
}

impl<const D: usize> Bandit<D> for Idiomatic {
    type Context = Array1<f64>;

    fn context(x: &[f64; D]) -> Array1<f64> {
        aview1(x).to_owned()
    }

    fn select(&mut self, x: &Array1<f64>) -> usize {
        largest(
            self.arms
                .iter()
                .map(|(inverse, _, theta)| theta.dot(x) + ALPHA * inverse.dot(x).dot(x).sqrt()),
        )
    }

    fn update(&mut self, arm: usize, x: &Array1<f64>, reward: f64) {
        let (inverse, b, theta) = &mut self.arms[arm];
        let v = inverse.dot(x);
        let gain = 1.0 / (1.0 + v.dot(x));
        let column = v.view().insert_axis(ndarray::Axis(1));
        let row = v.view().insert_axis(ndarray::Axis(0));
        *inverse -= &(kron(&column, &row) * gain);
        b.scaled_add(reward, x);
        *theta = inverse.dot(b);
    }
}

/// ndarray into buffers that are made once.
struct Preallocated {
    arms: Vec<(Array2<f64>, Array1<f64>, Array1<f64>)>,
    v: Array1<f64>,
}

impl Preallocated {
    fn new(d: usize, k: usize) -> Self {
        Self {
            arms: Idiomatic::new(d, k).arms,
            v: Array1::zeros(d),
        }
    }
}

impl<const D: usize> Bandit<D> for Preallocated {
    type Context = Array1<f64>;

    fn context(x: &[f64; D]) -> Array1<f64> {
        aview1(x).to_owned()
    }

    fn select(&mut self, x: &Array1<f64>) -> usize {
        let v = &mut self.v;
        largest(self.arms.iter().map(|(inverse, _, theta)| {
            general_mat_vec_mul(1.0, inverse, x, 0.0, v);
            theta.dot(x) + ALPHA * v.dot(x).sqrt()
        }))
    }

    fn update(&mut self, arm: usize, x: &Array1<f64>, reward: f64) {
        let (inverse, b, theta) = &mut self.arms[arm];
        general_mat_vec_mul(1.0, inverse, x, 0.0, &mut self.v);
        let gain = 1.0 / (1.0 + self.v.dot(x));
        for (mut row, &scale) in inverse.rows_mut().into_iter().zip(&self.v) {
            row.scaled_add(-gain * scale, &self.v);
        }
        b.scaled_add(reward, x);
        general_mat_vec_mul(1.0, inverse, b, 0.0, theta);
    }
}

/// As one writes it with nalgebra's matrices of fixed size.
struct Nalgebra<const D: usize, const K: usize> {
    arms: [(SMatrix<f64, D, D>, SVector<f64, D>, SVector<f64, D>); K],
}

impl<const D: usize, const K: usize> Nalgebra<D, K> {
    fn new() -> Self {
        let zeros = SVector::zeros();
        Self {
            arms: [(SMatrix::identity(), zeros, zeros); K],
        }
    }
}

impl<const D: usize, const K: usize> Bandit<D> for Nalgebra<D, K> {
    type Context = SVector<f64, D>;

    fn context(x: &[f64; D]) -> SVector<f64, D> {
        SVector::from_row_slice(x)
    }

    fn select(&mut self, x: &SVector<f64, D>) -> usize {
        largest(
            self.arms
                .iter()
                .map(|(inverse, _, theta)| theta.dot(x) + ALPHA * (inverse * x).dot(x).sqrt()),
        )
    }

    fn update(&mut self, arm: usize, x: &SVector<f64, D>, reward: f64) {
        let (inverse, b, theta) = &mut self.arms[arm];
        let v = *inverse * x;
        let gain = 1.0 / (1.0 + v.dot(x));
        inverse.ger(-gain, &v, &v, 1.0);
        *b += x * reward;
        *theta = *inverse * *b;
    }
}

impl<T: Real, const D: usize, const K: usize> Bandit<D> for LinUcb<T, D, K> {
    type Context = [T; D];

    fn context(x: &[f64; D]) -> [T; D] {
        x.map(T::of)
    }

    fn select(&mut self, x: &[T; D]) -> usize {
        Self::select(self, T::of(ALPHA), x)
    }

    fn update(&mut self, arm: usize, x: &[T; D], reward: f64) {
        let learned = Self::update(self, arm, x, T::of(reward));
        assert!(learned.is_ok());
    }
}

fn largest(scores: impl Iterator<Item = f64>) -> usize {
    let mut best = (0, f64::NEG_INFINITY);
    for (arm, score) in scores.enumerate() {
        if score > best.1 {
            best = (arm, score);
        }
    }
    best.0
}

/// Contexts, and what they bring: features like a scheduler's, 0 to 1, and rewards linear in them,
/// with other weights for each arm, of both signs.
struct World<const D: usize> {
    contexts: Vec<[f64; D]>,
    rewards: Vec<Vec<f64>>,
}

impl<const D: usize> World<D> {
    fn new(arms: usize) -> Self {
        let mut draw = Draw::new(2020);
        let mut vectors = |count| -> Vec<[f64; D]> {
            (0..count).map(|_| [(); D].map(|()| draw.unit())).collect()
        };
        let (contexts, weights) = (vectors(CONTEXTS), vectors(arms));
        let rewards = contexts
            .iter()
            .map(|x| weights.iter().map(|w| sum_of_products(x, w)).collect())
            .collect();
        Self { contexts, rewards }
    }

    fn contexts<B: Bandit<D>>(&self) -> Vec<B::Context> {
        self.contexts.iter().map(B::context).collect()
    }

    /// Lets it learn from its own choices, and returns these.
    fn train<B: Bandit<D>>(&self, bandit: &mut B) -> Vec<usize> {
        let contexts = self.contexts::<B>();
        let mut step = |t: usize| {
            let x = &contexts[t % CONTEXTS];
            let arm = bandit.select(x);
            bandit.update(arm, x, self.rewards[t % CONTEXTS][arm]);
            arm
        };
        (0..TRAINING).map(&mut step).collect()
    }
}

#[derive(Debug, Clone, Copy)]
enum Operation {
    Select,
    Update,
}

/// One operation, and those who are measured doing it.
struct Contest<'a, const D: usize> {
    operation: Operation,
    world: &'a World<D>,
    /// What all of them choose, or it would not be the same that is compared.
    choices: &'a [usize],
    group: BenchmarkGroup<'a, WallTime>,
}

impl<const D: usize> Contest<'_, D> {
    fn enter<B: Bandit<D>>(&mut self, name: &str, mut bandit: B) {
        let chosen = self.world.train(&mut bandit);
        assert!(chosen == self.choices, "{name} chooses other arms");
        let contexts = self.world.contexts::<B>();
        let mut next = 0;
        match self.operation {
            Operation::Select => self.group.bench_function(name, |b| {
                b.iter(|| {
                    let arm = bandit.select(black_box(&contexts[next % CONTEXTS]));
                    next = next.wrapping_add(1 + arm);
                    arm
                });
            }),
            Operation::Update => self.group.bench_function(name, |b| {
                b.iter(|| {
                    let at = next % CONTEXTS;
                    next = next.wrapping_add(1);
                    bandit.update(0, black_box(&contexts[at]), self.world.rewards[at][0]);
                });
            }),
        };
    }
}

fn compare<const D: usize, const K: usize>(c: &mut Criterion) {
    let world = World::<D>::new(K);
    let config = LinUcbConfig::default();
    let choices = world.train(&mut LinUcb::<f64, D, K>::new(&config));
    // No arm is the best in all contexts.
    let settled = &choices[TRAINING / 2..];
    assert!(settled.iter().any(|arm| *arm != settled[0]));
    for (operation, name) in [
        (Operation::Select, "linucb_select"),
        (Operation::Update, "linucb_update"),
    ] {
        let mut contest = Contest {
            operation,
            world: &world,
            choices: &choices,
            group: c.benchmark_group(format!("{name}/d{D}k{K}")),
        };
        contest.enter("ours", LinUcb::<f64, D, K>::new(&config));
        contest.enter("ours_f32", LinUcb::<f32, D, K>::new(&config));
        contest.enter("nalgebra", Nalgebra::<D, K>::new());
        contest.enter("ndarray", Idiomatic::new(D, K));
        contest.enter("ndarray_preallocated", Preallocated::new(D, K));
        contest.enter("inversion", Inversion::new(D, K));
        contest.group.finish();
    }
}

pub(crate) fn linucb(c: &mut Criterion) {
    compare::<6, 2>(c);
    compare::<12, 4>(c);
}
