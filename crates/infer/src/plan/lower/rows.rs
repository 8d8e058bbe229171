//! Operators along an axis: softmax, sums, normalisation. The axis is brought to the end, where its elements follow on
//! each other.

use std::collections::HashMap;

use tract_onnx::{
    prelude::*,
    tract_core::ops::{
        binary::TypedBinOp,
        nn::{Reduce, Reducer, RmsNorm, Softmax, SoftmaxKind},
    },
};

use super::{Lower, Result};
use crate::plan::{
    step::{NONE, Norm, Step},
    view::View,
};

/// Rows of `len` elements, dense, and how to see the result as the operator's shape.
struct Rows {
    at: usize,
    rows: usize,
    len: usize,
    /// The input's axes, those along which the operator works last.
    order: Vec<usize>,
    shape: Vec<usize>,
}

impl<'a> Lower<'a> {
    fn rows(&mut self, node: &TypedNode, input: OutletId, axes: &[usize]) -> Result<Rows> {
        let view = self.view(input)?;
        if axes.iter().any(|&axis| axis >= view.dims.len()) {
            return Err(self.no(node, "an axis outside the shape"));
        }
        let mut order: Vec<usize> = (0..view.dims.len())
            .filter(|axis| !axes.contains(axis))
            .collect();
        order.extend(axes);
        let shape = view.shape();
        let len = axes.iter().map(|&axis| shape[axis]).product();
        let shape: Vec<usize> = order.iter().map(|&axis| shape[axis]).collect();
        let dense = self.dense(input, view.permuted(&order))?;
        Ok(Rows {
            at: dense.at,
            rows: shape.iter().product::<usize>() / len,
            len,
            order,
            shape,
        })
    }

    /// Room for rows as the input's, seen in the input's order of axes.
    fn like(&mut self, outlet: OutletId, rows: &Rows) -> usize {
        let at = self.reserve(rows.rows * rows.len);
        let mut back = vec![0; rows.order.len()];
        for (i, &axis) in rows.order.iter().enumerate() {
            back[axis] = i;
        }
        let view = View::dense(at, &rows.shape).permuted(&back);
        self.values.insert(outlet, view);
        self.makers.insert(outlet, self.steps.len());
        at
    }

    pub(super) fn softmax(&mut self, node: &'a TypedNode, op: &Softmax) -> Result<()> {
        if op.kind != SoftmaxKind::Softmax || op.quant_output_dt.is_some() {
            return Err(self.no(node, format!("a softmax of kind {:?}", op.kind)));
        }
        let rows = self.rows(node, node.inputs[0], &op.axes)?;
        let to = self.like(OutletId::new(node.id, 0), &rows);
        self.steps.push(Step::Softmax {
            from: rows.at,
            to,
            rows: rows.rows,
            len: rows.len,
        });
        Ok(())
    }

    pub(super) fn reduce(&mut self, node: &'a TypedNode, op: &Reduce) -> Result<()> {
        if op.reducer != Reducer::Sum {
            return Err(self.no(node, format!("a reduction by {:?}", op.reducer)));
        }
        let rows = self.rows(node, node.inputs[0], &op.axes)?;
        let outlet = OutletId::new(node.id, 0);
        let shape = self.shape(outlet)?;
        let at = self.reserve(rows.rows);
        let others = rows.shape.len() - op.axes.len();
        // What is left of the axes keeps its order, and those that were summed over have one element.
        let view = View::dense(at, &rows.shape[..others]);
        let mut left = view.dims.into_iter();
        let dims = (0..shape.len())
            .map(|axis| {
                if op.axes.contains(&axis) {
                    vec![]
                } else {
                    left.next().unwrap_or_default()
                }
            })
            .collect();
        self.values.insert(outlet, View { at, dims });
        self.steps.push(Step::Sum {
            from: rows.at,
            to: at,
            rows: rows.rows,
            len: rows.len,
        });
        Ok(())
    }

    pub(super) fn rms_norm(&mut self, node: &'a TypedNode, op: &RmsNorm) -> Result<()> {
        let Ok(epsilon) = op.eps.cast_to_scalar::<f32>() else {
            return Err(self.no(node, "a normalisation without a number for epsilon"));
        };
        let absorbed = self.absorbed.get(&node.inputs[0].node).copied();
        let rows = self.rows(node, absorbed.unwrap_or(node.inputs[0]), &[op.axis])?;
        let to = self.like(OutletId::new(node.id, 0), &rows);
        self.steps.push(Step::Norm(Norm {
            from: rows.at,
            to,
            rows: rows.rows,
            len: rows.len,
            centred: absorbed.is_some(),
            epsilon,
            scale: NONE,
            bias: NONE,
        }));
        Ok(())
    }
}

/// Nodes that a normalisation makes unnecessary, each with the value that is normalised: `x - sum(x) / d` becomes part
/// of the normalisation that alone reads it.
pub(super) fn absorbed(graph: &TypedModel) -> HashMap<usize, OutletId> {
    let mut absorbed = HashMap::new();
    for node in graph.nodes() {
        let Some(norm) = node.op_as::<RmsNorm>() else {
            continue;
        };
        if let Some((nodes, x)) = centred(graph, node, norm.axis) {
            absorbed.extend(nodes.map(|id| (id, x)));
        }
    }
    absorbed
}

fn centred(graph: &TypedModel, norm: &TypedNode, axis: usize) -> Option<([usize; 3], OutletId)> {
    let alone = |outlet: OutletId| {
        (graph.outlet_successors(outlet).len() == 1 && !graph.outputs.contains(&outlet))
            .then(|| graph.node(outlet.node))
    };
    let binary = |node: &TypedNode, name| {
        node.op_as::<TypedBinOp>()
            .is_some_and(|op| op.0.name() == name)
    };
    let sub = alone(norm.inputs[0]).filter(|node| binary(node, "Sub"))?;
    let x = sub.inputs[0];
    let mul = alone(sub.inputs[1]).filter(|node| binary(node, "Mul"))?;
    let (sum, over) = if graph.outlet_fact(mul.inputs[1]).ok()?.konst.is_some() {
        (mul.inputs[0], mul.inputs[1])
    } else {
        (mul.inputs[1], mul.inputs[0])
    };
    let len = graph
        .outlet_fact(x)
        .ok()?
        .shape
        .as_concrete()?
        .get(axis)
        .copied()?;
    let over = graph
        .outlet_fact(over)
        .ok()?
        .konst
        .as_ref()?
        .cast_to_scalar::<f32>()
        .ok()?;
    let mean = (over * len as f32 - 1.0).abs() < 1e-6;
    let sum = alone(sum)?;
    let reduce = sum.op_as::<Reduce>()?;
    let matches =
        mean && reduce.reducer == Reducer::Sum && reduce.axes[..] == [axis] && sum.inputs[0] == x;
    matches.then_some(([sub.id, mul.id, sum.id], x))
}
