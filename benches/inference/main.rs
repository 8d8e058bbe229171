//! What one decision of a neural policy costs at batch one: the compiled plan, tract and, where it is at hand,
//! onnxruntime, hot, over the same network and states. The next state depends on the last answer, so that decisions do
//! not overlap.
//!
//! `shipped/...` are the networks that come with the library, as they come; the others have drawn weights and the sizes of
//! the papers or of what was once planned.
//!
//! `plan` is a whole `Policy::run`: normalisation and the checks for finite numbers included. `tract` is the library
//! itself at its fastest documented use, a reused state that is run on tensors.
//!
//! `scheduler/...` are the schedulers that ask such a policy.

#[path = "../decision/schedulers.rs"]
mod asked;
mod names;
mod onnxruntime;
mod schedulers;
#[path = "../../crates/infer/tests/support/mod.rs"]
mod support;

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use mpquic_infer::{Card, Limits, Options, Policy, Prefer, Vectors};
use onnxruntime::OnnxRuntime;
use support::{Files, Seeded, dqn, gaps_compact, gaps_paper, sailfish, sailfish_full};
use tract_onnx::prelude::*;

use mpquic_sched_neural::registry;

/// States that a decision is asked for.
const STATES: usize = 16;

fn network(c: &mut Criterion, name: &str, files: &Files) {
    let states: Vec<Vec<f32>> = (0..STATES)
        .map(|i| Seeded(i as u64).numbers(files.card.input_len(), 1.0))
        .collect();
    let mut group = c.benchmark_group(name);
    for vectors in [Vectors::Avx512, Vectors::Avx2, Vectors::Portable] {
        let options = Options {
            prefer: Prefer::Plan(vectors),
            limits: Limits {
                file_bytes: 128 << 20,
                elements: 64 << 20,
                multiplications: 1 << 30,
                ..Limits::default()
            },
        };
        let mut policy = Policy::from_bytes(&files.onnx, files.card.clone(), &options).unwrap();
        let id = match vectors {
            Vectors::Avx512 => "plan".to_owned(),
            _ => format!("plan, {vectors} at most"),
        };
        let mut next = 0;
        group.bench_function(id, |b| {
            b.iter(|| {
                let out = policy.run(black_box(&states[next])).unwrap();
                next = (next + 1 + usize::from(out[0] > 1e9)) % STATES;
            });
        });
    }
    // tract leaves the upper halves of the vector registers in use, which would slow down the plans: it runs last, and
    // loading the next network's policy clears them.
    let mut tract = tract(files);
    let shape = &files.card.inputs[0].shape;
    let mut next = 0;
    group.bench_function("tract", |b| {
        b.iter(|| {
            let state = Tensor::from_shape(shape, black_box(&states[next])).unwrap();
            let out = tract.run(tvec![state.into()]).unwrap();
            let first = out[0]
                .try_as_plain_ram()
                .unwrap()
                .as_slice::<f32>()
                .unwrap()[0];
            next = (next + 1 + usize::from(first > 1e9)) % STATES;
        });
    });
    if let Some(mut onnxruntime) = OnnxRuntime::load(&files.onnx, &files.card, &states) {
        let mut next = 0;
        group.bench_function("ort", |b| {
            b.iter(|| {
                let first = onnxruntime.run(black_box(next));
                next = (next + 1 + usize::from(first > 1e9)) % STATES;
            });
        });
    }
    group.finish();
}

fn tract(files: &Files) -> TypedSimpleState {
    let model = onnx()
        .model_for_read(&mut &files.onnx[..])
        .unwrap()
        .into_optimized()
        .unwrap();
    TypedSimplePlan::new(model).unwrap().spawn().unwrap()
}

/// A network of the library, with its card.
fn of_the_library(onnx: &[u8], card: &[u8]) -> Files {
    Files {
        onnx: onnx.to_vec(),
        card: Card::from_json(card).unwrap(),
    }
}

fn shipped(c: &mut Criterion) {
    let dqn = of_the_library(
        include_bytes!("../../models/dqn.onnx"),
        include_bytes!("../../models/dqn.json"),
    );
    network(c, "shipped/dqn", &dqn);
    let sailfish = of_the_library(
        include_bytes!("../../models/sailfish.onnx"),
        include_bytes!("../../models/sailfish.json"),
    );
    network(c, "shipped/sailfish", &sailfish);
    let gaps = of_the_library(
        include_bytes!("../../models/gaps.onnx"),
        include_bytes!("../../models/gaps.json"),
    );
    network(c, "shipped/gaps", &gaps);
}

fn small(c: &mut Criterion) {
    network(c, "dqn", &dqn(64));
    network(c, "dqn128", &dqn(128));
    network(c, "sailfish", &sailfish());
    network(c, "sailfish_full", &sailfish_full());
    network(c, "gaps", &gaps_compact());
}

fn paper(c: &mut Criterion) {
    network(c, "gaps_paper", &gaps_paper());
}

criterion_group!(benches, shipped, small, paper, schedulers::schedulers);
criterion_main!(benches);
