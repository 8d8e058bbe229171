//! Matrix products in all their forms: sums over named axes with a constant (dense layers) or with other values
//! (attention), and one-dimensional convolutions. Each becomes rows by columns with one stride each.

use std::collections::HashMap;

use tract_onnx::{
    prelude::*,
    tract_core::ops::{
        cnn::{Conv, KernelFormat},
        einsum::EinSum,
    },
};

use super::{Lower, Result, paired};
use crate::{
    Vectors,
    plan::{
        kernel, lanes,
        step::{Inner, NONE, Product, Step},
        view::{Atom, View, merged},
    },
};

/// Most pairs of matrices of one step: heads times batch.
const MAX_PAIRS: usize = 4096;

/// Columns rounded up to whole panels.
pub(super) fn padded(vectors: Vectors, columns: usize, rows: usize) -> usize {
    lanes::with(vectors, Padded { columns, rows })
}

struct Padded {
    columns: usize,
    rows: usize,
}

impl lanes::Task for Padded {
    type Output = usize;

    fn with<L: lanes::Lanes>(self) -> usize {
        kernel::padded::<L>(self.columns, self.rows)
    }
}

struct Pack<W> {
    rows: usize,
    depth: usize,
    columns: usize,
    weight: W,
}

impl<W: Fn(usize, usize) -> f32> lanes::Task for Pack<W> {
    type Output = Vec<f32>;

    fn with<L: lanes::Lanes>(self) -> Vec<f32> {
        kernel::pack::<L>(self.rows, self.depth, self.columns, self.weight)
    }
}

/// An axis of a product: its size and its stride in each operand and the result; 0 where it does not occur.
#[derive(Debug, Clone, Copy)]
struct Axis {
    size: usize,
    a: usize,
    b: usize,
    c: usize,
}

/// Axes by what they do.
#[derive(Default)]
struct Roles {
    /// In both operands and the result.
    batch: Vec<Axis>,
    /// In the first operand and the result.
    rows: Vec<Axis>,
    /// In the second operand and the result.
    columns: Vec<Axis>,
    /// In both operands: summed over.
    depth: Vec<Axis>,
}

impl Roles {
    /// How a product without a batch lies: as rows, then columns, each in the order of the result's axes.
    fn lying(&self) -> Vec<(usize, Atom)> {
        let axes = || self.rows.iter().chain(&self.columns);
        let mut stride: usize = axes().map(|axis| axis.size).product();
        axes()
            .map(|axis| {
                stride /= axis.size;
                let size = axis.size;
                (axis.c, Atom { size, stride })
            })
            .collect()
    }
}

impl<'a> Lower<'a> {
    pub(super) fn einsum(&mut self, node: &'a TypedNode, einsum: &EinSum) -> Result<()> {
        if node.inputs.len() != 2 || einsum.q_params.is_some() {
            return Err(self.no(node, "a sum over other than two operands"));
        }
        let outlet = OutletId::new(node.id, 0);
        let mut sides = [0, 1];
        let constant = [
            self.constant(node.inputs[0]).is_some(),
            self.constant(node.inputs[1]).is_some(),
        ];
        if constant[0] && !constant[1] {
            sides = [1, 0];
        }
        let shape = self.shape(outlet)?;
        if !constant[0] && !constant[1] && !self.ends_in_columns(node, einsum, &shape, sides)? {
            sides = [1, 0];
        }
        if constant[sides[1]] && self.by_constant(node, einsum, &shape, sides)? {
            return Ok(());
        }
        self.by_values(node, einsum, &shape, sides)
    }

    /// Whether the result's innermost axis is one of the second operand alone.
    fn ends_in_columns(
        &self,
        node: &TypedNode,
        einsum: &EinSum,
        shape: &[usize],
        sides: [usize; 2],
    ) -> Result<bool> {
        let shapes = [
            self.shape(node.inputs[sides[0]])?,
            self.shape(node.inputs[sides[1]])?,
        ];
        let Some(innermost) = shape.iter().rposition(|&size| size > 1) else {
            return Ok(true);
        };
        for axis in einsum.axes.iter_all_axes() {
            if axis.outputs[0].contains(&innermost) {
                let within = |side: usize| {
                    axis.inputs[sides[side]]
                        .iter()
                        .any(|&at| shapes[side][at] > 1)
                };
                return Ok(within(1) && !within(0));
            }
        }
        Ok(true)
    }

    /// The axes by role. Operands are given as views; the result is taken as dense.
    fn roles(
        &self,
        node: &TypedNode,
        einsum: &EinSum,
        shape: &[usize],
        sides: [usize; 2],
        views: [&View; 2],
    ) -> Result<Option<Roles>> {
        let mut roles = Roles::default();
        let strides = strides(shape);
        for axis in einsum.axes.iter_all_axes() {
            let (ins, outs) = (&axis.inputs, &axis.outputs[0]);
            if ins.iter().any(|at| at.len() > 1) || outs.len() > 1 {
                return Err(self.no(node, "a diagonal"));
            }
            let atoms = |side: usize| -> Vec<Atom> {
                let at = ins[sides[side]].first();
                let atoms = at.map_or(&[][..], |&at| &views[side].dims[at]);
                merged(atoms.iter().copied())
            };
            let (a, b) = (atoms(0), atoms(1));
            let c = outs.first().map_or(0, |&at| strides[at]);
            let in_result = outs.first().is_some_and(|&at| shape[at] > 1);
            // An operand of one element along the axis is as good as without it: it is repeated.
            let role = match (a.is_empty(), b.is_empty(), in_result) {
                (true, true, false) => continue,
                (true, true, true) => return Err(self.no(node, "a repetition within a sum")),
                (false, false, true) => &mut roles.batch,
                (false, false, false) => &mut roles.depth,
                (false, true, true) => &mut roles.rows,
                (true, false, true) => &mut roles.columns,
                _ => return Err(self.no(node, "a sum over an axis of one operand")),
            };
            let pairs = match (a.is_empty(), b.is_empty()) {
                (false, false) => match paired(&a, &b) {
                    Some(pairs) => pairs,
                    None => return Ok(None),
                },
                (false, true) => a.iter().map(|atom| (atom.size, [atom.stride, 0])).collect(),
                _ => b.iter().map(|atom| (atom.size, [0, atom.stride])).collect(),
            };
            let mut inner: usize = pairs.iter().map(|(size, _)| size).product();
            for (size, [a, b]) in pairs {
                inner /= size;
                role.push(Axis {
                    size,
                    a,
                    b,
                    c: c * inner,
                });
            }
        }
        for role in [&mut roles.batch, &mut roles.rows, &mut roles.columns] {
            role.sort_by_key(|axis| std::cmp::Reverse(axis.c));
        }
        roles.depth.sort_by_key(|axis| std::cmp::Reverse(axis.a));
        Ok(Some(roles))
    }

    /// A product with a constant: its weights are packed now. False if the constant takes part in the batch.
    fn by_constant(
        &mut self,
        node: &'a TypedNode,
        einsum: &EinSum,
        shape: &[usize],
        sides: [usize; 2],
    ) -> Result<bool> {
        let weights = node.inputs[sides[1]];
        let Some(numbers) = self.constant(weights) else {
            return Ok(false);
        };
        let a = self.view(node.inputs[sides[0]])?;
        let b = View::dense(0, &self.shape(weights)?);
        let Some(roles) = self.roles(node, einsum, shape, sides, [&a, &b])? else {
            return Ok(false);
        };
        if !roles.batch.is_empty() {
            return Ok(false);
        }
        let outlet = OutletId::new(node.id, 0);
        let input = node.inputs[sides[0]];
        let c = self.product(node, (input, a.at), &roles, &numbers, NONE)?;
        self.result(outlet, shape, c, roles.lying());
        Ok(true)
    }

    /// Gives `outlet` its view, from atoms with the strides that they would have if the result were dense.
    fn result(
        &mut self,
        outlet: OutletId,
        shape: &[usize],
        at: usize,
        mut lying: Vec<(usize, Atom)>,
    ) {
        lying.sort_by_key(|(c, _)| std::cmp::Reverse(*c));
        let mut lying = lying.into_iter().map(|(_, atom)| atom).peekable();
        let dims = shape
            .iter()
            .map(|&size| {
                let mut left = size;
                let mut atoms = Vec::new();
                while left > 1 {
                    let Some(atom) = lying.next() else { break };
                    left /= atom.size;
                    atoms.push(atom);
                }
                atoms
            })
            .collect();
        self.values.insert(outlet, View { at, dims });
        self.makers.insert(outlet, self.steps.len() - 1);
    }

    /// Pushes a product by constant weights; returns where its dense rows by columns lie.
    fn product(
        &mut self,
        node: &TypedNode,
        (input, a): (OutletId, usize),
        roles: &Roles,
        numbers: &[f32],
        bias: usize,
    ) -> Result<usize> {
        if !numbers.iter().all(|x| x.is_finite()) {
            // A kernel may skip what is multiplied by 0.
            return Err(self.no(node, "weights that are not finite numbers"));
        }
        let size = |axes: &[Axis]| axes.iter().map(|axis| axis.size).product::<usize>();
        let (rows, depth, columns) = (size(&roles.rows), size(&roles.depth), size(&roles.columns));
        let in_a = |axes: &[Axis]| {
            merged(axes.iter().map(|axis| Atom {
                size: axis.size,
                stride: axis.a,
            }))
        };
        let (row_atoms, depth_atoms) = (in_a(&roles.rows), in_a(&roles.depth));
        let straight =
            row_atoms.len() <= 1 && matches!(depth_atoms[..], [] | [Atom { stride: 1, .. }]);
        let (a, a_row) = if straight {
            (a, row_atoms.first().map_or(0, |atom| atom.stride))
        } else {
            let from = View {
                at: a,
                dims: vec![row_atoms, depth_atoms],
            };
            let at = self.reserve(rows * depth);
            let to = View::dense(at, &[rows, depth]);
            if !self.made_in_place(input, &from, at) {
                self.copy(OutletId::new(node.id, 0), &from, &to)?;
            }
            (at, depth)
        };
        let of = |axes: &[Axis]| -> Vec<usize> {
            // Where in the constant each index along these axes begins.
            let mut offsets = vec![0];
            for axis in axes {
                offsets = offsets
                    .iter()
                    .flat_map(|&offset| (0..axis.size).map(move |i| offset + i * axis.b))
                    .collect();
            }
            offsets
        };
        let (of_depth, of_column) = (of(&roles.depth), of(&roles.columns));
        let packed = lanes::with(
            self.vectors,
            Pack {
                rows,
                depth,
                columns,
                weight: |l: usize, j: usize| numbers[of_depth[l] + of_column[j]],
            },
        );
        let weights = self.weigh(&packed);
        let c = self.reserve(if rows == 1 {
            // The kernel for one row writes whole panels.
            padded(self.vectors, columns, 1)
        } else {
            rows * columns
        });
        self.steps.push(Step::Product(Product {
            rows,
            depth,
            columns,
            a,
            a_row,
            weights,
            bias,
            add: NONE,
            relu: false,
            c,
        }));
        Ok(c)
    }

    /// A product of two values.
    fn by_values(
        &mut self,
        node: &'a TypedNode,
        einsum: &EinSum,
        shape: &[usize],
        sides: [usize; 2],
    ) -> Result<()> {
        let (left, right) = (node.inputs[sides[0]], node.inputs[sides[1]]);
        let (mut a, mut b) = (self.view(left)?, self.view(right)?);
        let mut roles = self.roles(node, einsum, shape, sides, [&a, &b])?;
        if roles
            .as_ref()
            .is_none_or(|roles| one_depth(roles).is_none())
        {
            a = self.dense(left, a)?;
            b = self.dense(right, b)?;
            roles = self.roles(node, einsum, shape, sides, [&a, &b])?;
        }
        let Some(roles) = roles else {
            return Err(self.no(node, "this product of two values"));
        };
        let Some(mut depth) = one_depth(&roles) else {
            return Err(self.no(node, "a sum of two values over several axes"));
        };
        let mut in_a = roles.rows.clone();
        let mut batch = roles.batch.clone();
        let mut a_at = a.at;
        if depth.size > 1 && depth.a != 1 {
            // Rows whose elements do not follow on each other: copied so that they do.
            let order: Vec<Axis> = batch.iter().chain(&in_a).copied().chain([depth]).collect();
            let sizes: Vec<usize> = order.iter().map(|axis| axis.size).collect();
            let dims = order
                .iter()
                .map(|axis| {
                    vec![Atom {
                        size: axis.size,
                        stride: axis.a,
                    }]
                })
                .collect();
            a_at = self.reserve(sizes.iter().product());
            self.copy(left, &View { at: a.at, dims }, &View::dense(a_at, &sizes))?;
            for (axis, stride) in batch
                .iter_mut()
                .chain(&mut in_a)
                .chain([&mut depth])
                .zip(strides(&sizes))
            {
                axis.a = stride;
            }
        }
        // The result: dense if columns come last there, rows by columns for each pair otherwise.
        let mut columns = roles.columns.clone();
        let natural = columns.last().is_none_or(|axis| axis.c == 1);
        let mut lying = Vec::new();
        {
            let axes: Vec<&mut Axis> = batch
                .iter_mut()
                .chain(&mut in_a)
                .chain(&mut columns)
                .collect();
            let mut stride: usize = axes.iter().map(|axis| axis.size).product();
            for axis in axes {
                stride /= axis.size;
                let own = if natural { axis.c } else { stride };
                lying.push((
                    axis.c,
                    Atom {
                        size: axis.size,
                        stride: own,
                    },
                ));
                axis.c = own;
            }
        }
        let row = merge(&mut in_a, |axis| (axis.a, axis.c)).unwrap_or(Axis {
            size: 1,
            a: 0,
            b: 0,
            c: 0,
        });
        let column = merge(&mut columns, |axis| (axis.b, axis.c)).unwrap_or(Axis {
            size: 1,
            a: 0,
            b: 0,
            c: 1,
        });
        if column.size > 1 && column.c != 1 {
            return Err(self.no(node, "columns that lie apart"));
        }
        let mut offsets = vec![(a_at, b.at, 0)];
        for axis in batch.iter().chain(&in_a).chain(&columns) {
            if offsets.len() * axis.size > MAX_PAIRS {
                return Err(self.no(node, "so many products at once"));
            }
            offsets = offsets
                .iter()
                .flat_map(|&(a, b, c)| {
                    (0..axis.size).map(move |i| (a + i * axis.a, b + i * axis.b, c + i * axis.c))
                })
                .collect();
        }
        let c_at = self.reserve(shape.iter().product());
        for (_, _, c) in &mut offsets {
            *c += c_at;
        }
        let scratch = self.reserve(depth.size * padded(self.vectors, column.size, 2));
        self.steps.push(Step::Inner(Inner {
            offsets,
            rows: row.size,
            depth: depth.size,
            columns: column.size,
            a_row: row.a,
            b_strides: (depth.b, column.b),
            c_row: row.c,
            scale: 1.0,
            scratch,
        }));
        self.result(OutletId::new(node.id, 0), shape, c_at, lying);
        Ok(())
    }

    /// Lets the last step write to `at` on, in row-major order, what `view` sees of its result, if it is a product of two
    /// values and nothing else reads the result: heads of an attention are put beside each other so.
    fn made_in_place(&mut self, outlet: OutletId, view: &View, at: usize) -> bool {
        if self.open_maker(outlet).map(|maker| maker + 1) != Some(self.steps.len()) {
            return false;
        }
        let Some(Step::Inner(inner)) = self.steps.last_mut() else {
            return false;
        };
        let mut places = HashMap::new();
        for place in view.places() {
            places.insert(place, at + places.len());
        }
        // Where each row of the result goes.
        let (rows, columns, c_row) = (inner.rows, inner.columns, inner.c_row);
        let firsts: Option<Vec<usize>> = inner
            .offsets
            .iter()
            .flat_map(|&(_, _, c)| (0..rows).map(move |i| c + i * c_row))
            .map(|row| {
                let first = *places.get(&row)?;
                let follows = |j| places.get(&(row + j)) == Some(&(first + j));
                (1..columns).all(follows).then_some(first)
            })
            .collect();
        let Some(firsts) = firsts else {
            return false;
        };
        let c_row = match firsts[..] {
            [first, second, ..] if rows > 1 => second.wrapping_sub(first),
            _ => 0,
        };
        let even = firsts.chunks(rows).all(|firsts| {
            let apart = |two: &[usize]| two[1].checked_sub(two[0]) == Some(c_row);
            firsts.windows(2).all(apart)
        });
        let all = [firsts.len() * columns, view.volume()] == [places.len(); 2];
        if even && all {
            inner.c_row = c_row;
            for (offset, firsts) in inner.offsets.iter_mut().zip(firsts.chunks(rows)) {
                offset.2 = firsts[0];
            }
        }
        even && all
    }

    pub(super) fn conv(&mut self, node: &'a TypedNode, conv: &Conv) -> Result<()> {
        let pool = &conv.pool_spec;
        let (Some(kernel), Some(bias)) =
            (self.constant(node.inputs[1]), self.constant(node.inputs[2]))
        else {
            return Err(self.no(node, "a convolution by what is not constant"));
        };
        if conv.group != 1 || conv.kernel_fmt != KernelFormat::OIHW || conv.q_params.is_some() {
            return Err(self.no(node, "a convolution but of one group"));
        }
        if pool.kernel_shape.contains(&0) {
            return Err(self.no(node, "a convolution by nothing"));
        }
        let outlet = OutletId::new(node.id, 0);
        let out = self.shape(outlet)?;
        let x = self.view(node.inputs[0])?;
        let shape = x.shape();
        let first = usize::from(pool.data_format.has_n());
        // tract gives a convolution of one dimension further ones of size 1, where a Reshape beside it has them.
        let (channel, space) = if pool.data_format.c_is_last() {
            (first + pool.rank(), first..first + pool.rank())
        } else {
            (first, first + 1..first + 1 + pool.rank())
        };
        let padding = pool.computed_padding(&shape[space.clone()]);
        if padding
            .iter()
            .any(|dim| dim.pad_before != 0 || dim.pad_after != 0)
        {
            return Err(self.no(node, "a convolution with padding"));
        }
        let x = if x.dims.iter().all(|atoms| atoms.len() <= 1) {
            x
        } else {
            self.dense(node.inputs[0], x)?
        };
        let stride = |axis: usize| x.dims[axis].first().map_or(0, |atom| atom.stride);
        let (channels, mut window) = (shape[channel], pool.kernel_shape.iter().product());
        let c = strides(&out);
        let axis = |size, a, b, c| Axis { size, a, b, c };
        let mut roles = Roles {
            batch: vec![],
            rows: vec![],
            columns: vec![axis(out[channel], 0, channels * window, c[channel])],
            depth: vec![axis(channels, stride(channel), window, 0)],
        };
        if first == 1 {
            roles.rows.push(axis(out[0], stride(0), 0, c[0]));
        }
        for (dim, at) in space.enumerate() {
            let (width, stride) = (pool.kernel_shape[dim], stride(at));
            window /= width;
            roles
                .depth
                .push(axis(width, stride * pool.dilation(dim), window, 0));
            roles
                .rows
                .push(axis(out[at], stride * pool.stride(dim), 0, c[at]));
        }
        for role in [&mut roles.rows, &mut roles.columns, &mut roles.depth] {
            role.retain(|axis| axis.size > 1);
        }
        let rows = roles.rows.iter().map(|axis| axis.size).product();
        let mut of_column: Vec<f32> = if bias.len() == 1 {
            vec![bias[0]; out[channel]]
        } else {
            bias
        };
        of_column.resize(padded(self.vectors, out[channel], rows), 0.0);
        let bias = self.weigh(&of_column);
        let at = self.product(node, (node.inputs[0], x.at), &roles, &kernel, bias)?;
        self.result(outlet, &out, at, roles.lying());
        Ok(())
    }
}

/// Strides of a dense tensor.
fn strides(shape: &[usize]) -> Vec<usize> {
    let mut stride = shape.iter().product();
    shape
        .iter()
        .map(|&size: &usize| {
            stride /= size.max(1);
            stride
        })
        .collect()
}

/// The axes that are summed over as one, if they follow on each other in both operands.
fn one_depth(roles: &Roles) -> Option<Axis> {
    let mut axes = roles.depth.clone();
    let all = merge(&mut axes, |axis| (axis.a, axis.b));
    axes.is_empty().then(|| {
        all.unwrap_or(Axis {
            size: 1,
            a: 1,
            b: 0,
            c: 0,
        })
    })
}

/// Takes the innermost axis, with those outside it that follow on it in both strides; others stay.
fn merge(axes: &mut Vec<Axis>, strides: impl Fn(&Axis) -> (usize, usize)) -> Option<Axis> {
    let mut inner = axes.pop()?;
    while let Some(outer) = axes.last() {
        let (inner_strides, outer_strides) = (strides(&inner), strides(outer));
        let follows = outer_strides.0 == inner_strides.0 * inner.size
            && outer_strides.1 == inner_strides.1 * inner.size;
        if !follows {
            break;
        }
        inner.size *= outer.size;
        axes.pop();
    }
    Some(inner)
}
