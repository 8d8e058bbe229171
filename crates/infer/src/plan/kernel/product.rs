//! Matrix products: rows by packed weights, and rows by other values. What dominates every policy's run.
//!
//! Weights lie in panels: some vectors of columns wide, all their depth after each other, so that a run reads memory
//! from front to back. A single row (a dense layer at batch one) takes wide panels, which is `row`'s; several
//! rows (tokens) take narrow panels, each used for a block of rows.

use std::array;

use super::{row, split};
use crate::plan::{
    lanes::Lanes,
    step::{Inner, NONE, Product},
};

/// Most vectors of a panel for several rows: two by eight rows (AVX-512), two by four (otherwise) fill the registers.
const BLOCK_VECTORS: usize = 2;
/// The widest vector, in lanes: bounds a panel for stack space.
const WIDEST: usize = 16;

/// How many vectors wide the next panel is, with `left` columns to go.
#[inline(always)]
fn panel<L: Lanes>(left: usize, rows: usize) -> usize {
    if rows == 1 {
        return row::panel::<L>(left);
    }
    let mut vectors = BLOCK_VECTORS;
    while vectors > 1 && (vectors - 1) * L::WIDTH >= left {
        vectors /= 2;
    }
    vectors
}

/// Columns rounded up to whole panels.
#[inline(always)]
pub(in crate::plan) fn padded<L: Lanes>(columns: usize, rows: usize) -> usize {
    let mut done = 0;
    while done < columns {
        done += panel::<L>(columns - done, rows) * L::WIDTH;
    }
    done
}

/// Weights in panels, filled up with zeros.
pub(in crate::plan) fn pack<L: Lanes>(
    rows: usize,
    depth: usize,
    columns: usize,
    weight: impl Fn(usize, usize) -> f32,
) -> Vec<f32> {
    let mut packed = Vec::with_capacity(depth * padded::<L>(columns, rows));
    let mut from = 0;
    while from < columns {
        let width = panel::<L>(columns - from, rows) * L::WIDTH;
        for l in 0..depth {
            packed
                .extend((from..from + width).map(|j| if j < columns { weight(l, j) } else { 0.0 }));
        }
        from += width;
    }
    packed
}

/// What a block of rows needs beside the rows and the panel.
struct Epilogue<'a> {
    /// A panel wide.
    bias: Option<&'a [f32]>,
    /// The block's rows to add, and from one to the next.
    add: Option<(&'a [f32], usize)>,
    scale: f32,
    relu: bool,
    /// Columns of the panel that exist.
    columns: usize,
}

#[inline(always)]
pub(in crate::plan) fn product<L: Lanes>(product: &Product, weights: &[f32], arena: &mut [f32]) {
    let &Product {
        rows,
        depth,
        columns,
        a_row,
        ..
    } = product;
    let (c, around) = split(arena, product.c..product.c + rows * columns);
    let a = around.read(product.a..product.a + (rows - 1) * a_row + depth);
    let add = (product.add != NONE).then(|| around.read(product.add..product.add + rows * columns));
    let mut panels = &weights[product.weights..];
    let mut bias = (product.bias != NONE).then(|| &weights[product.bias..]);
    let mut from = 0;
    while from < columns {
        let vectors = panel::<L>(columns - from, rows);
        let width = vectors * L::WIDTH;
        let (panel, others) = panels.split_at(depth * width);
        panels = others;
        let epilogue = Epilogue {
            bias: bias.map(|bias| &bias[..width]),
            add: add.map(|add| (&add[from..], columns)),
            scale: 1.0,
            relu: product.relu,
            columns: width.min(columns - from),
        };
        bias = bias.map(|bias| &bias[width..]);
        let c = (&mut c[from..], columns);
        let panel = (panel, width);
        blocks::<L, true>(vectors, (a, a_row), depth, panel, c, rows, epilogue);
        from += width;
    }
}

/// All rows by one panel, of which the rows lie so far apart: a panel's width where it is packed.
#[inline(always)]
fn blocks<L: Lanes, const PACKED: bool>(
    vectors: usize,
    (a, a_row): (&[f32], usize),
    depth: usize,
    panel: (&[f32], usize),
    (c, c_row): (&mut [f32], usize),
    rows: usize,
    mut epilogue: Epilogue<'_>,
) {
    let mut done = 0;
    while done < rows {
        let left = rows - done;
        let a = &a[done * a_row..];
        let c = &mut c[done * c_row..];
        let taken = match vectors {
            2 => some_rows::<L, 2, PACKED>(left, (a, a_row), depth, panel, (c, c_row), &epilogue),
            _ => some_rows::<L, 1, PACKED>(left, (a, a_row), depth, panel, (c, c_row), &epilogue),
        };
        done += taken;
        epilogue.add = epilogue
            .add
            .map(|(add, row)| (add.get(taken * row..).unwrap_or_default(), row));
    }
}

#[inline(always)]
fn some_rows<L: Lanes, const V: usize, const PACKED: bool>(
    left: usize,
    a: (&[f32], usize),
    depth: usize,
    panel: (&[f32], usize),
    c: (&mut [f32], usize),
    epilogue: &Epilogue<'_>,
) -> usize {
    // Eight sums of one vector fit into sixteen registers, too.
    if left >= 8 && (L::BLOCK_ROWS >= 8 || V == 1) {
        block::<L, 8, V, PACKED>(a, depth, panel, c, epilogue);
        8
    } else if left >= 4 {
        block::<L, 4, V, PACKED>(a, depth, panel, c, epilogue);
        4
    } else if left >= 2 {
        block::<L, 2, V, PACKED>(a, depth, panel, c, epilogue);
        2
    } else {
        block::<L, 1, V, PACKED>(a, depth, panel, c, epilogue);
        1
    }
}

#[inline(always)]
fn block<L: Lanes, const R: usize, const V: usize, const PACKED: bool>(
    (a, a_row): (&[f32], usize),
    depth: usize,
    (panel, panel_row): (&[f32], usize),
    (c, c_row): (&mut [f32], usize),
    epilogue: &Epilogue<'_>,
) {
    let width = V * L::WIDTH;
    let rows: [&[f32]; R] = array::from_fn(|r| &a[r * a_row..][..depth]);
    let mut sums = [[L::splat(0.0); V]; R];
    if PACKED {
        for (l, panel) in panel.chunks_exact(width).enumerate().take(depth) {
            deepen(&mut sums, &rows, l, panel);
        }
    } else {
        for (l, panel) in panel.chunks(panel_row).enumerate().take(depth) {
            deepen(&mut sums, &rows, l, panel);
        }
    }
    for (r, sums) in sums.into_iter().enumerate() {
        finish::<L, V>(sums, r, &mut c[r * c_row..], epilogue);
    }
}

/// Adds number `l` of each row times a row of the panel.
#[inline(always)]
fn deepen<L: Lanes, const R: usize, const V: usize>(
    sums: &mut [[L; V]; R],
    rows: &[&[f32]; R],
    l: usize,
    panel: &[f32],
) {
    let weights: [L; V] = array::from_fn(|v| L::load(&panel[v * L::WIDTH..][..L::WIDTH]));
    for r in 0..R {
        let x = L::splat(rows[r][l]);
        for v in 0..V {
            sums[r][v] = x.mul_add(weights[v], sums[r][v]);
        }
    }
}

/// Scale, bias, addition and ReLU of one row's sums; writes the columns that exist.
#[inline(always)]
fn finish<L: Lanes, const V: usize>(
    mut sums: [L; V],
    r: usize,
    c: &mut [f32],
    epilogue: &Epilogue<'_>,
) {
    let width = V * L::WIDTH;
    if epilogue.scale != 1.0 {
        let scale = L::splat(epilogue.scale);
        for sum in &mut sums {
            *sum = sum.mul(scale);
        }
    }
    if let Some(bias) = epilogue.bias {
        for v in 0..V {
            sums[v] = sums[v].add(L::load(&bias[v * L::WIDTH..][..L::WIDTH]));
        }
    }
    if epilogue.columns == width {
        if let Some((add, row)) = epilogue.add {
            let add = &add[r * row..][..width];
            for v in 0..V {
                sums[v] = sums[v].add(L::load(&add[v * L::WIDTH..][..L::WIDTH]));
            }
        }
        let c = &mut c[..width];
        for v in 0..V {
            let sum = if epilogue.relu {
                sums[v].relu()
            } else {
                sums[v]
            };
            sum.store(&mut c[v * L::WIDTH..][..L::WIDTH]);
        }
        return;
    }
    // The last panel is wider than what is left of the columns.
    let mut spill = [0.0; BLOCK_VECTORS * WIDEST];
    for v in 0..V {
        sums[v].store(&mut spill[v * L::WIDTH..][..L::WIDTH]);
    }
    let spill = &mut spill[..epilogue.columns];
    if let Some((add, row)) = epilogue.add {
        for (x, add) in spill.iter_mut().zip(&add[r * row..]) {
            *x += add;
        }
    }
    if epilogue.relu {
        for x in spill.iter_mut() {
            *x = if *x < 0.0 { 0.0 } else { *x };
        }
    }
    c[..spill.len()].copy_from_slice(spill);
}

/// The second operand is packed as weights are, unless it lies so that it can be read as it is; then it is the same
/// product.
#[inline(always)]
pub(in crate::plan) fn inner<L: Lanes>(inner: &Inner, arena: &mut [f32]) {
    if inner.columns <= L::Narrow::WIDTH {
        inner_by::<L::Narrow>(inner, arena);
    } else {
        inner_by::<L>(inner, arena);
    }
}

#[inline(always)]
fn inner_by<L: Lanes>(inner: &Inner, arena: &mut [f32]) {
    let &Inner {
        rows,
        depth,
        columns,
        a_row,
        b_strides: (b_depth, b_column),
        c_row,
        ..
    } = inner;
    let b_span = (depth - 1) * b_depth + (columns - 1) * b_column + 1;
    for &(a, b, c) in &inner.offsets {
        let b = b..b + b_span;
        let mut from = 0;
        while from < columns {
            let vectors = panel::<L>(columns - from, 2);
            let width = vectors * L::WIDTH;
            let real = width.min(columns - from);
            let packed = inner.scratch..inner.scratch + depth * width;
            let straight = b_column == 1 && real == width && (b_depth >= width || depth == 1);
            if !straight {
                let (packed, around) = split(arena, packed.clone());
                let b = &around.read(b.clone())[from * b_column..];
                pack_values::<L>(b, inner.b_strides, packed, width, real);
            }
            let epilogue = Epilogue {
                bias: None,
                add: None,
                scale: inner.scale,
                relu: false,
                columns: real,
            };
            let (c, around) = split(arena, c..c + (rows - 1) * c_row + columns);
            let a = (around.read(a..a + (rows - 1) * a_row + depth), a_row);
            let c = (&mut c[from..], c_row);
            if straight {
                let panel = (&around.read(b.clone())[from..], b_depth.max(width));
                blocks::<L, false>(vectors, a, depth, panel, c, rows, epilogue);
            } else {
                let panel = (around.read(packed), width);
                blocks::<L, true>(vectors, a, depth, panel, c, rows, epilogue);
            }
            from += width;
        }
    }
}

/// Packs a panel, `width` wide, of which `real` columns exist; the others are whatever they are, and so is what comes of
/// them.
#[inline(always)]
fn pack_values<L: Lanes>(
    b: &[f32],
    (b_depth, b_column): (usize, usize),
    packed: &mut [f32],
    width: usize,
    real: usize,
) {
    if b_depth == 1 && (width, real) == (8, 8) {
        let mut eights = packed.chunks_exact_mut(64);
        let mut l = 0;
        for packed in &mut eights {
            let mut columns = [b; 8];
            for (j, column) in columns.iter_mut().enumerate() {
                *column = &b[j * b_column + l..][..8];
            }
            L::turn(columns, packed);
            l += 8;
        }
        for (l, packed) in (l..).zip(eights.into_remainder().chunks_exact_mut(8)) {
            for (j, packed) in packed.iter_mut().enumerate() {
                *packed = b[j * b_column + l];
            }
        }
        return;
    }
    for (l, packed) in packed.chunks_exact_mut(width).enumerate() {
        let b = &b[l * b_depth..];
        if b_column == 1 {
            packed[..real].copy_from_slice(&b[..real]);
        } else {
            for (j, packed) in packed[..real].iter_mut().enumerate() {
                *packed = b[j * b_column];
            }
        }
    }
}
