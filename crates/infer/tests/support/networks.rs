//! The papers' networks with random weights.

use super::{Builder, Files, float, int, ints};

/// Lee and Yoo's shape, 10 states and 7 actions, two hidden layers.
pub(crate) fn dqn(hidden: usize) -> Files {
    let mut b = Builder::new("dqn", 15);
    let x = b.input("state", &[1, 10]);
    let x = b.gemm(&x, 10, hidden);
    let x = b.node("Relu", &[&x], vec![]);
    let x = b.gemm(&x, hidden, hidden);
    let x = b.node("Relu", &[&x], vec![]);
    let x = b.gemm(&x, hidden, 7);
    b.rename(&x, "q");
    b.output("q", &[1, 7]);
    b.files()
}

/// SAILfish's actor as Pensieve wrote it: a Conv1D of 128 filters, width 4, over each path's history of 8 round-trip
/// times; the last values of 8 scalars; dense 128; softmax over two paths.
pub(crate) fn sailfish() -> Files {
    let mut b = Builder::new("sailfish", 16);
    let x = b.input("state", &[1, 10, 8]);
    let mut parts = Vec::new();
    for row in 0..2 {
        let history = slice(&mut b, &x, 1, row, row + 1);
        parts.push(conv(&mut b, &history, 1));
    }
    let last = slice(&mut b, &x, 2, 7, 8);
    let last = slice(&mut b, &last, 1, 2, 10);
    parts.push(b.node("Flatten", &[&last], vec![int("axis", 1)]));
    actor(b, &parts, 2 * 640 + 8)
}

/// The same with each path's Conv1D over all of its 5 rows, and 5 scalars' histories left to it.
pub(crate) fn sailfish_full() -> Files {
    let mut b = Builder::new("sailfish_full", 17);
    let x = b.input("state", &[1, 10, 28]);
    let mut parts = Vec::new();
    for path in 0..2 {
        let rows = slice(&mut b, &x, 1, 5 * path, 5 * path + 5);
        parts.push(conv(&mut b, &rows, 5));
    }
    actor(b, &parts, 6400)
}

fn slice(b: &mut Builder, x: &str, axis: i64, from: i64, to: i64) -> String {
    let starts = b.integers(&[from]);
    let ends = b.integers(&[to]);
    let axes = b.integers(&[axis]);
    b.node("Slice", &[x, &starts, &ends, &axes], vec![])
}

fn conv(b: &mut Builder, x: &str, channels: usize) -> String {
    let w = b.weights(&[128, channels, 4], (3.0 / (4 * channels) as f32).sqrt());
    let bias = b.weights(&[128], 0.1);
    let attributes = vec![
        ints("dilations", &[1]),
        int("group", 1),
        ints("kernel_shape", &[4]),
        ints("pads", &[0, 0]),
        ints("strides", &[1]),
    ];
    let x = b.node("Conv", &[x, &w, &bias], attributes);
    let x = b.node("Relu", &[&x], vec![]);
    b.node("Flatten", &[&x], vec![int("axis", 1)])
}

fn actor(mut b: Builder, parts: &[String], features: usize) -> Files {
    let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
    let x = b.node("Concat", &parts, vec![int("axis", 1)]);
    let x = b.gemm(&x, features, 128);
    let x = b.node("Relu", &[&x], vec![]);
    let x = b.gemm(&x, 128, 2);
    let x = b.node("Softmax", &[&x], vec![int("axis", 1)]);
    b.rename(&x, "policy");
    b.output("policy", &[1, 2]);
    b.files()
}

/// GAPS small: 8 subflows, embedding 32, 2 encoders of 4 heads.
pub(crate) fn gaps_compact() -> Files {
    gaps(32, 2, 4, 64)
}

/// GAPS at the paper's size: embedding 512, 6 encoders, 8 heads (ours).
pub(crate) fn gaps_paper() -> Files {
    gaps(512, 6, 8, 2048)
}

/// 8 subflows of 6 attributes, embedded; post-norm encoders; an actor of 48-48, tanh.
pub(crate) fn gaps(embedding: usize, layers: usize, heads: usize, forward: usize) -> Files {
    let mut b = Builder::new("gaps", 18);
    let x = b.input("state", &[1, 8, 6]);
    let x = b.linear(&x, 6, embedding);
    let position = b.weights(&[8, embedding], 0.5);
    let mut x = b.node("Add", &[&x, &position], vec![]);
    for _ in 0..layers {
        let attention = attention(&mut b, &x, embedding, heads);
        let sum = b.node("Add", &[&x, &attention], vec![]);
        let normal = layer_norm(&mut b, &sum, embedding);
        let wide = b.linear(&normal, embedding, forward);
        let wide = b.node("Relu", &[&wide], vec![]);
        let narrow = b.linear(&wide, forward, embedding);
        let sum = b.node("Add", &[&normal, &narrow], vec![]);
        x = layer_norm(&mut b, &sum, embedding);
    }
    let x = b.node("Flatten", &[&x], vec![int("axis", 1)]);
    let x = b.gemm(&x, 8 * embedding, 48);
    let x = b.node("Relu", &[&x], vec![]);
    let x = b.gemm(&x, 48, 48);
    let x = b.node("Relu", &[&x], vec![]);
    let x = b.gemm(&x, 48, 2);
    let x = b.node("Tanh", &[&x], vec![]);
    b.rename(&x, "gap_changes");
    b.output("gap_changes", &[1, 2]);
    b.files()
}

fn layer_norm(b: &mut Builder, x: &str, embedding: usize) -> String {
    let scale = b.draw.numbers(embedding, 0.2);
    let scale: Vec<f32> = scale.iter().map(|x| 1.0 + x).collect();
    let scale = b.constant(&[embedding], &scale);
    let bias = b.weights(&[embedding], 0.1);
    b.node(
        "LayerNormalization",
        &[x, &scale, &bias],
        vec![int("axis", -1), float("epsilon", 1e-5)],
    )
}

fn attention(b: &mut Builder, x: &str, embedding: usize, heads: usize) -> String {
    let per_head = embedding / heads;
    let split = b.integers(&[1, 8, heads as i64, per_head as i64]);
    let of = |b: &mut Builder, permutation: &[i64]| {
        let projected = b.linear(x, embedding, embedding);
        let projected = b.node("Reshape", &[&projected, &split], vec![]);
        b.node("Transpose", &[&projected], vec![ints("perm", permutation)])
    };
    let query = of(b, &[0, 2, 1, 3]);
    let key = of(b, &[0, 2, 3, 1]);
    let value = of(b, &[0, 2, 1, 3]);
    let scores = b.node("MatMul", &[&query, &key], vec![]);
    let scale = b.constant(&[], &[1.0 / (per_head as f32).sqrt()]);
    let scores = b.node("Mul", &[&scores, &scale], vec![]);
    let weights = b.node("Softmax", &[&scores], vec![int("axis", -1)]);
    let mixed = b.node("MatMul", &[&weights, &value], vec![]);
    let mixed = b.node("Transpose", &[&mixed], vec![ints("perm", &[0, 2, 1, 3])]);
    let merged = b.integers(&[1, 8, embedding as i64]);
    let mixed = b.node("Reshape", &[&mixed, &merged], vec![]);
    b.linear(&mixed, embedding, embedding)
}
