//! What a plan is made of: steps with every offset and size worked out. What they compute is `kernel`'s, how they come
//! about is `lower`'s.

use super::{
    kernel::{self, Map, Zip},
    lanes::Lanes,
};

/// Axes of a strided loop, after merging. Four cover a batch of attention heads; more have no plan.
pub(super) const AXES: usize = 4;

/// A loop over up to four axes, innermost last; unused ones are 1 at the front.
pub(super) type Extents = [usize; AXES];
/// How far each axis of a loop goes in one operand.
pub(super) type Strides = [usize; AXES];

/// One kernel call. Offsets are into the arena, for weights into the weights.
#[derive(Debug, Clone)]
pub(super) enum Step {
    /// Rows times constant weights.
    Product(Product),
    /// Products of one row, one after the other.
    Layers(Vec<Product>),
    /// Rows times other values, over and over.
    Inner(Inner),
    /// One number at a time.
    Map {
        map: Map,
        from: usize,
        to: usize,
        len: usize,
    },
    /// Two operands, broadcast, into dense memory.
    Zip {
        zip: Zip,
        a: usize,
        b: usize,
        to: usize,
        extents: Extents,
        a_strides: Strides,
        b_strides: Strides,
    },
    /// Moves numbers.
    Copy {
        from: usize,
        to: usize,
        extents: Extents,
        from_strides: Strides,
        to_strides: Strides,
    },
    /// Softmax of dense rows.
    Softmax {
        from: usize,
        to: usize,
        rows: usize,
        len: usize,
    },
    /// Sum of dense rows.
    Sum {
        from: usize,
        to: usize,
        rows: usize,
        len: usize,
    },
    /// Normalises dense rows.
    Norm(Norm),
}

/// `c[i][j] = relu(bias[j] + add[i][j] + sum over l of a[i][l] * weights[l][j])`
#[derive(Debug, Clone)]
pub(super) struct Product {
    pub(super) rows: usize,
    pub(super) depth: usize,
    pub(super) columns: usize,
    pub(super) a: usize,
    /// From a row of `a` to the next; within a row the elements follow on each other.
    pub(super) a_row: usize,
    /// Packed by `kernel::pack`.
    pub(super) weights: usize,
    /// As many as columns, rounded up to whole panels; none if `NONE`.
    pub(super) bias: usize,
    /// Dense rows to add, none if `NONE`.
    pub(super) add: usize,
    pub(super) relu: bool,
    /// Dense rows. A single row has room for whole panels, which are written.
    pub(super) c: usize,
}

/// No operand.
pub(super) const NONE: usize = usize::MAX;

/// `c[i][j] = scale * sum over l of a[i][l] * b[l][j]` for each of a list of `(a, b, c)`.
#[derive(Debug, Clone)]
pub(super) struct Inner {
    pub(super) offsets: Vec<(usize, usize, usize)>,
    pub(super) rows: usize,
    pub(super) depth: usize,
    pub(super) columns: usize,
    pub(super) a_row: usize,
    /// From one `l` to the next in `b`, and from one `j` to the next.
    pub(super) b_strides: (usize, usize),
    pub(super) c_row: usize,
    pub(super) scale: f32,
    /// Where `b` is packed.
    pub(super) scratch: usize,
}

/// `(x - mean) / sqrt(variance + epsilon) * scale + bias`; with `centred` false, the mean is taken as 0.
#[derive(Debug, Clone)]
pub(super) struct Norm {
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) rows: usize,
    pub(super) len: usize,
    pub(super) centred: bool,
    pub(super) epsilon: f32,
    pub(super) scale: usize,
    pub(super) bias: usize,
}

/// Runs the steps.
#[inline(always)]
pub(super) fn execute<L: Lanes>(steps: &[Step], weights: &[f32], arena: &mut [f32]) {
    for step in steps {
        match step {
            Step::Product(product) => kernel::product::<L>(product, weights, arena),
            Step::Layers(layers) => kernel::layers::<L>(layers, weights, arena),
            Step::Inner(inner) => kernel::inner::<L>(inner, arena),
            &Step::Map { map, from, to, len } => kernel::map::<L>(map, from, to, len, arena),
            Step::Zip {
                zip,
                a,
                b,
                to,
                extents,
                a_strides,
                b_strides,
            } => kernel::zip(*zip, (*a, a_strides), (*b, b_strides), *to, extents, arena),
            Step::Copy {
                from,
                to,
                extents,
                from_strides,
                to_strides,
            } => kernel::copy((*from, from_strides), (*to, to_strides), extents, arena),
            &Step::Softmax {
                from,
                to,
                rows,
                len,
            } => kernel::softmax::<L>(from, to, rows, len, arena),
            &Step::Sum {
                from,
                to,
                rows,
                len,
            } => kernel::sum(from, to, rows, len, arena),
            Step::Norm(norm) => kernel::norm::<L>(norm, weights, arena),
        }
    }
}
