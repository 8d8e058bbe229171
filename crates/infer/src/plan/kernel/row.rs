//! A single row by packed weights: dense layers at batch one, which is most of what small networks do.
//!
//! Up to 64 columns are summed up in registers, depth by depth. Inputs that are 0, as a ReLU leaves about half of them,
//! are skipped with their weights. That changes no sum but for the sign of a 0: weights are finite, which `lower` sees
//! to, so that their product with 0 is 0. What is not a number is not 0, and is not skipped.

use super::split;
use crate::plan::{
    lanes::{Kernel, Lanes},
    step::{NONE, Product},
};

/// Inputs that are looked at together: a bit for each.
const CHUNK: usize = 64;

/// How many vectors wide the next panel is, with `left` columns to go: one of those that `layer` has a kernel for.
#[inline(always)]
pub(super) fn panel<L: Lanes>(left: usize) -> usize {
    match left.div_ceil(L::WIDTH).min(L::ROW_VECTORS) {
        5 => 6,
        7 => 8,
        vectors => vectors,
    }
}

/// Products of one row, one after the other.
#[inline(always)]
pub(in crate::plan) fn layers<L: Lanes>(layers: &[Product], weights: &[f32], arena: &mut [f32]) {
    L::apart(Layers {
        layers,
        weights,
        arena,
    });
}

struct Layers<'a> {
    layers: &'a [Product],
    weights: &'a [f32],
    arena: &'a mut [f32],
}

impl Kernel for Layers<'_> {
    #[inline(always)]
    fn run<L: Lanes>(self) {
        let mut known = Known {
            at: NONE,
            nonzero: 0,
        };
        for product in self.layers {
            known = layer::<L>(product, self.weights, self.arena, known);
        }
    }
}

/// Which of the first [`CHUNK`] numbers from `at` on are not 0: those that were written last, while they are in
/// registers still.
struct Known {
    at: usize,
    nonzero: u64,
}

/// [`Product`] of one row. All columns of its panels are written, also those beyond the product's, which are 0 or
/// what a bias makes of 0; there is room for them.
#[inline(always)]
fn layer<L: Lanes>(product: &Product, weights: &[f32], arena: &mut [f32], known: Known) -> Known {
    let &Product { depth, columns, .. } = product;
    let known = (known.at == product.a && depth <= CHUNK).then_some(known.nonzero);
    let mut nonzero = 0;
    let mut from = 0;
    let mut at = product.weights;
    while from < columns {
        let vectors = panel::<L>(columns - from);
        let width = vectors * L::WIDTH;
        let (c, around) = split(arena, product.c + from..product.c + from + width);
        let row = Row {
            a: around.read(product.a..product.a + depth),
            known,
            panel: &weights[at..at + depth * width],
            bias: (product.bias != NONE).then(|| &weights[product.bias + from..][..width]),
            add: (product.add != NONE).then(|| {
                let columns = width.min(columns - from);
                around.read(product.add + from..product.add + from + columns)
            }),
            relu: product.relu,
            c,
        };
        let set = match vectors {
            1 => row.by::<L, 1, 4>(),
            2 => row.by::<L, 2, 4>(),
            3 => row.by::<L, 3, 4>(),
            4 => row.by::<L, 4, 2>(),
            6 => row.by::<L, 6, 1>(),
            _ => row.by::<L, 8, 1>(),
        };
        nonzero |= set.checked_shl(from as u32).unwrap_or(0);
        at += depth * width;
        from += width;
    }
    Known {
        at: product.c,
        nonzero,
    }
}

/// One row by one panel.
struct Row<'a> {
    a: &'a [f32],
    /// Which of `a` are not 0, if that is known.
    known: Option<u64>,
    panel: &'a [f32],
    bias: Option<&'a [f32]>,
    /// What is added to the columns that exist.
    add: Option<&'a [f32]>,
    relu: bool,
    c: &'a mut [f32],
}

impl Row<'_> {
    /// For a panel of `V` vectors, in `U` strands to hide the latency of an addition; which of the results are not 0.
    #[inline(always)]
    fn by<L: Lanes, const V: usize, const U: usize>(self) -> u64 {
        let width = V * L::WIDTH;
        let mut sums = Sums::<L, V, U>::new(self.bias);
        if let Some(set) = self.known {
            sums.add_some(self.a, self.panel, set);
        } else {
            let (chunks, rest) = self.a.as_chunks::<CHUNK>();
            let (panels, panel) = self.panel.split_at(chunks.len() * CHUNK * width);
            for (a, panel) in chunks.iter().zip(panels.chunks_exact(CHUNK * width)) {
                sums.add_some(a, panel, nonzero::<L>(a));
            }
            sums.add_all(rest, panel);
        }
        sums.finish(self.add, self.relu, self.c)
    }
}

/// Bit i is set unless number i is 0.
#[inline(always)]
fn nonzero<L: Lanes>(a: &[f32; CHUNK]) -> u64 {
    let mut set = 0;
    let mut from = 0;
    while from < CHUNK {
        set |= u64::from(L::load(&a[from..]).nonzero()) << from;
        from += L::WIDTH;
    }
    set
}

/// The sums of a panel's columns.
struct Sums<L, const V: usize, const U: usize>([[L; V]; U]);

impl<L: Lanes, const V: usize, const U: usize> Sums<L, V, U> {
    #[inline(always)]
    fn new(bias: Option<&[f32]>) -> Self {
        let mut sums = [[L::splat(0.0); V]; U];
        if let Some(bias) = bias {
            let bias = &bias[..V * L::WIDTH];
            for v in 0..V {
                sums[0][v] = L::load(&bias[v * L::WIDTH..]);
            }
        }
        Self(sums)
    }

    #[inline(always)]
    fn add(&mut self, strand: usize, x: f32, weights: &[f32]) {
        let weights = &weights[..V * L::WIDTH];
        let x = L::splat(x);
        for v in 0..V {
            let weights = L::load(&weights[v * L::WIDTH..]);
            self.0[strand][v] = x.mul_add(weights, self.0[strand][v]);
        }
    }

    #[inline(always)]
    fn add_all(&mut self, a: &[f32], weights: &[f32]) {
        let width = V * L::WIDTH;
        let mut rounds = a.chunks_exact(U);
        let mut panels = weights.chunks_exact(U * width);
        for (a, weights) in (&mut rounds).zip(&mut panels) {
            for u in 0..U {
                self.add(u, a[u], &weights[u * width..]);
            }
        }
        let rest = rounds.remainder().iter();
        for (&a, weights) in rest.zip(panels.remainder().chunks_exact(width)) {
            self.add(0, a, weights);
        }
    }

    /// Up to [`CHUNK`] inputs, of which those are not 0 whose bit is set.
    #[inline(always)]
    fn add_some(&mut self, a: &[f32], weights: &[f32], set: u64) {
        let width = V * L::WIDTH;
        // The first 0, which fills up the last round.
        let zero = set.trailing_ones() as usize;
        if zero >= a.len() {
            self.add_all(a, weights);
        } else if a.len() == CHUNK {
            // With lengths that the compiler knows, no index needs a check.
            self.rounds(&a[..CHUNK], &weights[..CHUNK * width], set, zero);
        } else {
            self.rounds(a, weights, set, zero);
        }
    }

    /// An input for each strand, over and over, until no bit is set.
    #[inline(always)]
    fn rounds(&mut self, a: &[f32], weights: &[f32], mut set: u64, zero: usize) {
        let width = V * L::WIDTH;
        while set != 0 {
            for u in 0..U {
                let next = set.trailing_zeros() as usize;
                let l = if set == 0 { zero } else { next } % CHUNK;
                set &= set.wrapping_sub(1);
                self.add(u, a[l], &weights[l * width..]);
            }
        }
    }

    /// Adds the strands up, adds, and writes; which of the results are not 0.
    #[inline(always)]
    fn finish(self, add: Option<&[f32]>, relu: bool, c: &mut [f32]) -> u64 {
        let mut sums = self.0;
        let mut strands = U;
        while strands > 1 {
            strands /= 2;
            for u in 0..strands {
                let others = sums[u + strands];
                for (sum, other) in sums[u].iter_mut().zip(others) {
                    *sum = sum.add(other);
                }
            }
        }
        let mut total = sums[0];
        let c = &mut c[..V * L::WIDTH];
        if let Some(add) = add {
            for v in 0..V {
                total[v].store(&mut c[v * L::WIDTH..]);
            }
            for (c, add) in c.iter_mut().zip(add) {
                *c += add;
            }
            for v in 0..V {
                total[v] = L::load(&c[v * L::WIDTH..]);
            }
        }
        let mut set = 0;
        for v in 0..V {
            if relu {
                total[v] = total[v].relu();
            }
            total[v].store(&mut c[v * L::WIDTH..]);
            set |= u64::from(total[v].nonzero()) << (v * L::WIDTH);
        }
        set
    }
}
