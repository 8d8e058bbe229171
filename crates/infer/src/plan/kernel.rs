//! The kernels, one for each kind of step: safe code over slices, generic in the vectors. Nothing here allocates.

mod maths;
mod product;
mod row;
mod rows;

use std::ops::Range;

use super::{
    lanes::Lanes,
    step::{AXES, Extents, Strides},
};

pub(super) use product::{inner, pack, padded, product};
pub(super) use row::layers;
pub(super) use rows::{norm, softmax, sum};

/// A function of one number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Map {
    Relu,
    Tanh,
    Sigmoid,
    Silu,
    Abs,
    Neg,
    Square,
    Sqrt,
    Reciprocal,
    ReciprocalSqrt,
}

/// A function of two numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Zip {
    Add,
    Sub,
    Mul,
    Div,
    Max,
    Min,
}

/// The arena around the range that a kernel writes: what it may read.
struct Around<'a> {
    before: &'a [f32],
    after: &'a [f32],
    after_start: usize,
}

impl Around<'_> {
    #[inline(always)]
    fn read(&self, range: Range<usize>) -> &[f32] {
        if range.end <= self.before.len() {
            &self.before[range]
        } else {
            &self.after[range.start - self.after_start..range.end - self.after_start]
        }
    }
}

#[inline(always)]
fn split(arena: &mut [f32], written: Range<usize>) -> (&mut [f32], Around<'_>) {
    let (before, rest) = arena.split_at_mut(written.start);
    let (written, after) = rest.split_at_mut(written.end - written.start);
    let around = Around {
        after_start: before.len() + written.len(),
        before,
        after,
    };
    (written, around)
}

/// How many elements a strided loop spans.
pub(super) fn span(extents: &Extents, strides: &Strides) -> usize {
    1 + (0..AXES)
        .map(|i| (extents[i] - 1) * strides[i])
        .sum::<usize>()
}

#[inline(always)]
pub(super) fn map<L: Lanes>(map: Map, from: usize, to: usize, len: usize, arena: &mut [f32]) {
    if from != to {
        arena.copy_within(from..from + len, to);
    }
    let numbers = &mut arena[to..to + len];
    match map {
        Map::Relu => each(numbers, |x| if x < 0.0 { 0.0 } else { x }),
        Map::Tanh => each(numbers, maths::tanh::<L>),
        Map::Sigmoid => each(numbers, maths::sigmoid::<L>),
        Map::Silu => each(numbers, |x| x * maths::sigmoid::<L>(x)),
        Map::Abs => each(numbers, f32::abs),
        Map::Neg => each(numbers, |x| -x),
        Map::Square => each(numbers, |x| x * x),
        Map::Sqrt => each(numbers, f32::sqrt),
        Map::Reciprocal => each(numbers, |x| 1.0 / x),
        Map::ReciprocalSqrt => each(numbers, |x| 1.0 / x.sqrt()),
    }
}

#[inline(always)]
fn each(numbers: &mut [f32], f: impl Fn(f32) -> f32) {
    for x in numbers {
        *x = f(*x);
    }
}

#[inline(always)]
pub(super) fn zip(
    zip: Zip,
    a: (usize, &Strides),
    b: (usize, &Strides),
    to: usize,
    extents: &Extents,
    arena: &mut [f32],
) {
    match zip {
        Zip::Add => pairs(a, b, to, extents, arena, |a, b| a + b),
        Zip::Sub => pairs(a, b, to, extents, arena, |a, b| a - b),
        Zip::Mul => pairs(a, b, to, extents, arena, |a, b| a * b),
        Zip::Div => pairs(a, b, to, extents, arena, |a, b| a / b),
        Zip::Max => pairs(a, b, to, extents, arena, |a, b| if a > b { a } else { b }),
        Zip::Min => pairs(a, b, to, extents, arena, |a, b| if a < b { a } else { b }),
    }
}

#[inline(always)]
fn pairs(
    a: (usize, &Strides),
    b: (usize, &Strides),
    to: usize,
    extents: &Extents,
    arena: &mut [f32],
    f: impl Fn(f32, f32) -> f32,
) {
    let len = extents.iter().product::<usize>();
    let (to, around) = split(arena, to..to + len);
    let from_a = around.read(a.0..a.0 + span(extents, a.1));
    let from_b = around.read(b.0..b.0 + span(extents, b.1));
    let (a, b) = (a.1, b.1);
    let inner = extents[3];
    let mut rows = to.chunks_exact_mut(inner);
    for i in 0..extents[0] {
        for j in 0..extents[1] {
            for k in 0..extents[2] {
                let Some(to) = rows.next() else { return };
                let from_a = &from_a[i * a[0] + j * a[1] + k * a[2]..];
                let from_b = &from_b[i * b[0] + j * b[1] + k * b[2]..];
                match (a[3], b[3]) {
                    (1, 1) => {
                        let (from_a, from_b) = (&from_a[..inner], &from_b[..inner]);
                        for l in 0..inner {
                            to[l] = f(from_a[l], from_b[l]);
                        }
                    }
                    (1, 0) => {
                        let (from_a, b) = (&from_a[..inner], from_b[0]);
                        for l in 0..inner {
                            to[l] = f(from_a[l], b);
                        }
                    }
                    (0, 1) => {
                        let (a, from_b) = (from_a[0], &from_b[..inner]);
                        for l in 0..inner {
                            to[l] = f(a, from_b[l]);
                        }
                    }
                    (a, b) => {
                        for l in 0..inner {
                            to[l] = f(from_a[l * a], from_b[l * b]);
                        }
                    }
                }
            }
        }
    }
}

#[inline(always)]
pub(super) fn copy(
    from: (usize, &Strides),
    to: (usize, &Strides),
    extents: &Extents,
    arena: &mut [f32],
) {
    let (written, around) = split(arena, to.0..to.0 + span(extents, to.1));
    let read = around.read(from.0..from.0 + span(extents, from.1));
    let (from, to) = (from.1, to.1);
    let inner = extents[3];
    for i in 0..extents[0] {
        for j in 0..extents[1] {
            for k in 0..extents[2] {
                let read = &read[i * from[0] + j * from[1] + k * from[2]..];
                let written = &mut written[i * to[0] + j * to[1] + k * to[2]..];
                if from[3] == 1 && to[3] == 1 {
                    written[..inner].copy_from_slice(&read[..inner]);
                } else {
                    for l in 0..inner {
                        written[l * to[3]] = read[l * from[3]];
                    }
                }
            }
        }
    }
}
