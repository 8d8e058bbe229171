//! Softmax and normalisation of dense rows. Rows are short, a few tokens or a small embedding, so that the order of what
//! is done counts for more than the arithmetic.
//!
//! Sums are taken in eight strands, whatever the vectors' width, so that the order of additions is the same on every CPU.

use super::{each, maths, split};
use crate::plan::{
    lanes::Lanes,
    step::{NONE, Norm},
};

#[inline(always)]
pub(in crate::plan) fn softmax<L: Lanes>(
    from: usize,
    to: usize,
    rows: usize,
    len: usize,
    arena: &mut [f32],
) {
    let (to, around) = split(arena, to..to + rows * len);
    let from = around.read(from..from + rows * len);
    if len == 8 && rows.is_multiple_of(8) && L::Narrow::WIDTH == 8 {
        softmax_of_eights::<L>(from, to);
        return;
    }
    to.copy_from_slice(from);
    if len == 8 {
        // Known to the compiler: rows of a few tokens are so short that counting costs as much as computing.
        softmax_of::<L>(to, 8);
    } else {
        softmax_of::<L>(to, len);
    }
}

/// One pass over all rows after the other, so that exp, the dearest, takes whole vectors however short rows are, and
/// does not wait for each row's sum.
#[inline(always)]
fn softmax_of<L: Lanes>(numbers: &mut [f32], len: usize) {
    for row in numbers.chunks_exact_mut(len) {
        let max = fold(row, f32::NEG_INFINITY, |a, b| if a > b { a } else { b });
        for x in row {
            *x -= max;
        }
    }
    each(numbers, maths::exp::<L>);
    for row in numbers.chunks_exact_mut(len) {
        let by = 1.0 / fold(row, 0.0, |a, b| a + b);
        for x in row {
            *x *= by;
        }
    }
}

/// The same for rows of eight, eight at a time: turned, so that their maxima and sums are taken side by side.
#[inline(always)]
fn softmax_of_eights<L: Lanes>(from: &[f32], to: &mut [f32]) {
    for (from, to) in from.chunks_exact(64).zip(to.chunks_exact_mut(64)) {
        L::Narrow::turn(lines(from), to);
        let mut columns = [L::Narrow::splat(0.0); 8];
        for (column, line) in columns.iter_mut().zip(to.chunks_exact(8)) {
            *column = L::Narrow::load(line);
        }
        let [a, b, c, d, e, f, g, h] = columns;
        let max = (a.max(e).max(c.max(g))).max(b.max(f).max(d.max(h)));
        for (column, to) in columns.into_iter().zip(to.chunks_exact_mut(8)) {
            column.sub(max).store(to);
        }
    }
    each(to, maths::exp::<L>);
    for to in to.chunks_exact_mut(64) {
        let mut columns = [L::Narrow::splat(0.0); 8];
        for (column, line) in columns.iter_mut().zip(to.chunks_exact(8)) {
            *column = L::Narrow::load(line);
        }
        let [a, b, c, d, e, f, g, h] = columns;
        let mut by = [0.0; 8];
        ((a.add(e)).add(c.add(g)))
            .add((b.add(f)).add(d.add(h)))
            .store(&mut by);
        each(&mut by, |sum| 1.0 / sum);
        let by = L::Narrow::load(&by);
        let mut turned = [0.0; 64];
        for (column, turned) in columns.into_iter().zip(turned.chunks_exact_mut(8)) {
            column.mul(by).store(turned);
        }
        L::Narrow::turn(lines(&turned), to);
    }
}

/// The eight rows of a block of 8 by 8.
#[inline(always)]
fn lines(block: &[f32]) -> [&[f32]; 8] {
    let mut lines = [block; 8];
    for (i, line) in lines.iter_mut().enumerate() {
        *line = &block[8 * i..][..8];
    }
    lines
}

#[inline(always)]
pub(in crate::plan) fn sum(from: usize, to: usize, rows: usize, len: usize, arena: &mut [f32]) {
    let (to, around) = split(arena, to..to + rows);
    let from = around.read(from..from + rows * len);
    for (to, row) in to.iter_mut().zip(from.chunks_exact(len)) {
        *to = fold(row, 0.0, |a, b| a + b);
    }
}

#[inline(always)]
pub(in crate::plan) fn norm<L: Lanes>(norm: &Norm, weights: &[f32], arena: &mut [f32]) {
    let len = norm.len;
    let (to, around) = split(arena, norm.to..norm.to + norm.rows * len);
    let from = around.read(norm.from..norm.from + norm.rows * len);
    let constant = |at: usize| (at != NONE).then(|| &weights[at..at + len]);
    let (scale, bias) = (constant(norm.scale), constant(norm.bias));
    if let (Some(scale), Some(bias), true) = (scale, bias, norm.centred)
        && L::Narrow::WIDTH == 8
        && len.is_multiple_of(8)
    {
        for (from, to) in from.chunks_exact(len).zip(to.chunks_exact_mut(len)) {
            norm_of_eights::<L::Narrow>(from, to, norm.epsilon, scale, bias);
        }
        return;
    }
    to.copy_from_slice(from);
    let over = 1.0 / len as f32;
    for row in to.chunks_exact_mut(len) {
        if norm.centred {
            let mean = fold(row, 0.0, |a, b| a + b) * over;
            for x in row.iter_mut() {
                *x -= mean;
            }
        }
        let square = fold_with(
            row,
            |a, x| if L::FUSED { x.mul_add(x, a) } else { a + x * x },
        );
        let by = 1.0 / (square * over + norm.epsilon).sqrt();
        match (scale, bias) {
            (Some(scale), Some(bias)) => {
                for ((x, scale), bias) in row.iter_mut().zip(scale).zip(bias) {
                    *x = *x * by * scale + bias;
                }
            }
            (Some(scale), None) => {
                for (x, scale) in row.iter_mut().zip(scale) {
                    *x = *x * by * scale;
                }
            }
            (None, _) => {
                for x in row.iter_mut() {
                    *x *= by;
                }
            }
        }
    }
}

/// The same for a row of whole eights, with all that a layer normalisation has: a strand for each lane.
#[inline(always)]
fn norm_of_eights<N: Lanes>(
    from: &[f32],
    to: &mut [f32],
    epsilon: f32,
    scale: &[f32],
    bias: &[f32],
) {
    let over = 1.0 / from.len() as f32;
    let mut sum = N::splat(0.0);
    for from in from.chunks_exact(8) {
        sum = sum.add(N::load(from));
    }
    let mean = N::splat(across(sum) * over);
    let mut square = N::splat(0.0);
    for (from, to) in from.chunks_exact(8).zip(to.chunks_exact_mut(8)) {
        let x = N::load(from).sub(mean);
        square = x.mul_add(x, square);
        x.store(to);
    }
    let by = N::splat(1.0 / (across(square) * over + epsilon).sqrt());
    let constants = scale.chunks_exact(8).zip(bias.chunks_exact(8));
    for (to, (scale, bias)) in to.chunks_exact_mut(8).zip(constants) {
        let x = N::load(to).mul(by);
        x.mul(N::load(scale)).add(N::load(bias)).store(to);
    }
}

/// The sum of a vector of eight.
#[inline(always)]
fn across<N: Lanes>(strands: N) -> f32 {
    let mut numbers = [0.0; 8];
    strands.store(&mut numbers);
    joined(numbers, |a, b| a + b)
}

/// In eight strands, so that the compiler may use vectors; the order of additions is the same on every CPU.
#[inline(always)]
fn fold(numbers: &[f32], start: f32, f: impl Fn(f32, f32) -> f32) -> f32 {
    let mut strands = [start; 8];
    let (eights, rest) = numbers.as_chunks::<8>();
    for eight in eights {
        for i in 0..8 {
            strands[i] = f(strands[i], eight[i]);
        }
    }
    for (strand, &x) in strands.iter_mut().zip(rest) {
        *strand = f(*strand, x);
    }
    joined(strands, f)
}

/// `f(sum so far, x)`, sums of strands added.
#[inline(always)]
fn fold_with(numbers: &[f32], f: impl Fn(f32, f32) -> f32) -> f32 {
    let mut strands = [0.0; 8];
    let (eights, rest) = numbers.as_chunks::<8>();
    for eight in eights {
        for i in 0..8 {
            strands[i] = f(strands[i], eight[i]);
        }
    }
    for (strand, &x) in strands.iter_mut().zip(rest) {
        *strand = f(*strand, x);
    }
    joined(strands, |a, b| a + b)
}

#[inline(always)]
fn joined(s: [f32; 8], f: impl Fn(f32, f32) -> f32) -> f32 {
    f(
        f(f(s[0], s[4]), f(s[2], s[6])),
        f(f(s[1], s[5]), f(s[3], s[7])),
    )
}
