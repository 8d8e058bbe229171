//! Operators that work element by element, and how they become part of the product or normalisation before them.

use tract_onnx::{
    prelude::*,
    tract_core::ops::{binary::TypedBinOp, element_wise::ElementWiseOp},
};

use super::{Lower, Result, broadcast, looped, paired};
use crate::plan::{
    kernel::{Map, Zip},
    step::{NONE, Product, Step},
    view::{Atom, View},
};

impl<'a> Lower<'a> {
    pub(super) fn unary(&mut self, node: &'a TypedNode, op: &ElementWiseOp) -> Result<()> {
        let map = match op.0.name().as_str() {
            "Tanh" => Map::Tanh,
            "Sigmoid" => Map::Sigmoid,
            "Silu" => Map::Silu,
            "Abs" => Map::Abs,
            "Neg" => Map::Neg,
            "Square" => Map::Square,
            "Sqrt" => Map::Sqrt,
            "Recip" => Map::Reciprocal,
            "Rsqrt" => Map::ReciprocalSqrt,
            name => return Err(self.no(node, format!("function {name}"))),
        };
        self.map(node, map)
    }

    fn map(&mut self, node: &'a TypedNode, map: Map) -> Result<()> {
        let outlet = OutletId::new(node.id, 0);
        let input = node.inputs[0];
        self.map_of(input, outlet, map)
    }

    /// A function of every element; a ReLU becomes part of the product before it.
    fn map_of(&mut self, input: OutletId, outlet: OutletId, map: Map) -> Result<()> {
        let from = self.view(input)?;
        if let (Map::Relu, Some(maker)) = (map, self.open_maker(input))
            && let Step::Product(product) = &mut self.steps[maker]
        {
            product.relu = true;
            self.alias(input, outlet, from);
            // What comes after the ReLU cannot move before it.
            self.makers.remove(&outlet);
            return Ok(());
        }
        let from = self.dense(input, from)?;
        let to = self.fresh(outlet)?;
        self.steps.push(Step::Map {
            map,
            from: from.at,
            to: to.at,
            len: to.volume(),
        });
        Ok(())
    }

    pub(super) fn binary(&mut self, node: &'a TypedNode, op: &TypedBinOp) -> Result<()> {
        let (mut a, mut b) = (node.inputs[0], node.inputs[1]);
        let zip = match op.0.name() {
            "Add" => Zip::Add,
            "Sub" => Zip::Sub,
            "Mul" => Zip::Mul,
            "Div" => Zip::Div,
            "Max" => Zip::Max,
            "Min" => Zip::Min,
            "SubF" => {
                (a, b) = (b, a);
                Zip::Sub
            }
            name => return Err(self.no(node, format!("function {name}"))),
        };
        let outlet = OutletId::new(node.id, 0);
        let shape = self.shape(outlet)?;
        let commutes = matches!(zip, Zip::Add | Zip::Mul | Zip::Max | Zip::Min);
        if self.constant(a).is_some() && commutes {
            (a, b) = (b, a);
        }
        if zip == Zip::Max
            && self
                .constant(b)
                .is_some_and(|numbers| numbers.iter().all(|&x| x == 0.0))
            && self.shape(a)? == shape
        {
            return self.map_of(a, outlet, Map::Relu);
        }
        if self.fused(zip, a, b, outlet, &shape)?
            || (commutes && self.fused(zip, b, a, outlet, &shape)?)
        {
            return Ok(());
        }
        let (from_a, from_b) = (self.view(a)?, self.view(b)?);
        let (x, y) = (broadcast(&from_a, &shape), broadcast(&from_b, &shape));
        let atoms = |view: &View| -> Vec<Atom> { view.dims.iter().flatten().copied().collect() };
        let Some((extents, [a_strides, b_strides])) =
            paired(&atoms(&x), &atoms(&y)).and_then(|it| looped(&it))
        else {
            return Err(self.no(node, "so many strides at once"));
        };
        let to = self.fresh(outlet)?;
        self.steps.push(Step::Zip {
            zip,
            a: x.at,
            b: y.at,
            to: to.at,
            extents,
            a_strides,
            b_strides,
        });
        Ok(())
    }

    /// Makes `a zip b` part of the step that made `a`, if that step can do it.
    fn fused(
        &mut self,
        zip: Zip,
        a: OutletId,
        b: OutletId,
        outlet: OutletId,
        shape: &[usize],
    ) -> Result<bool> {
        let Some(maker) = self.open_maker(a) else {
            return Ok(false);
        };
        let view = self.view(a)?;
        if view.shape() != shape {
            return Ok(false);
        }
        let constant = self.constant(b);
        let mut step = self.steps[maker].clone();
        let done = match (&mut step, zip, constant) {
            (Step::Product(product), Zip::Add, constant) => {
                // Element i of the product's memory is element i of what is added.
                let addend = self.view(b)?;
                let addend = broadcast(&addend, shape);
                match constant {
                    Some(numbers) => {
                        let lying = in_memory_order(&view, &addend, &numbers, self.values[&b].at);
                        match lying {
                            Some(numbers) => self.add_constant(product, &numbers),
                            None => false,
                        }
                    }
                    None => {
                        let before = self.made_before(b, maker);
                        let same =
                            view.is_dense() && addend.is_dense() && before && product.add == NONE;
                        if same {
                            product.add = addend.at;
                        }
                        same
                    }
                }
            }
            (Step::Inner(inner), Zip::Mul, Some(numbers)) if numbers.len() == 1 => {
                inner.scale *= numbers[0];
                true
            }
            (Step::Norm(norm), Zip::Mul | Zip::Add, Some(numbers)) => {
                let addend = self.view(b)?;
                let addend = broadcast(&addend, shape);
                let lying = in_memory_order(&view, &addend, &numbers, self.values[&b].at);
                match lying.and_then(|numbers| row_of(&numbers, norm.len)) {
                    Some(row) if zip == Zip::Mul && norm.scale == NONE && norm.bias == NONE => {
                        norm.scale = self.weigh(&row);
                        true
                    }
                    Some(row) if zip == Zip::Add && norm.bias == NONE && norm.scale != NONE => {
                        norm.bias = self.weigh(&row);
                        true
                    }
                    _ => false,
                }
            }
            _ => false,
        };
        if done {
            self.steps[maker] = step;
            self.alias(a, outlet, view);
        }
        Ok(done)
    }

    fn add_constant(&mut self, product: &mut Product, numbers: &[f32]) -> bool {
        if let Some(row) = row_of(numbers, product.columns) {
            let padded = super::products::padded(self.vectors, product.columns, product.rows);
            if product.bias == NONE {
                let mut row = row;
                row.resize(padded, 0.0);
                product.bias = self.weigh(&row);
            } else {
                for (bias, x) in self.weights[product.bias..].iter_mut().zip(row) {
                    *bias += x;
                }
            }
            return true;
        }
        if product.add != NONE {
            return false;
        }
        let at = self.reserve(numbers.len());
        self.arena[at..at + numbers.len()].copy_from_slice(numbers);
        product.add = at;
        true
    }

    /// Whether `outlet`'s value is whole before step `step` runs.
    fn made_before(&self, outlet: OutletId, step: usize) -> bool {
        if self.graph.inputs.contains(&outlet) {
            return true;
        }
        self.made_at.get(&outlet).is_some_and(|&made| made <= step)
    }
}

/// The constant's numbers in the order of the product's memory.
fn in_memory_order(view: &View, constant: &View, numbers: &[f32], at: usize) -> Option<Vec<f32>> {
    let atoms = |view: &View| -> Vec<Atom> { view.dims.iter().flatten().copied().collect() };
    let axes = paired(&atoms(view), &atoms(constant))?;
    let len = view.volume();
    let mut out = vec![0.0; len];
    for i in 0..len {
        let (mut rest, mut to, mut from) = (i, 0, constant.at - at);
        for &(size, [view_stride, constant_stride]) in axes.iter().rev() {
            to += rest % size * view_stride;
            from += rest % size * constant_stride;
            rest /= size;
        }
        // A view with gaps is not all that its step made.
        *out.get_mut(to)? = *numbers.get(from)?;
    }
    Some(out)
}

/// The row that the numbers repeat, if they do.
fn row_of(numbers: &[f32], len: usize) -> Option<Vec<f32>> {
    let row = numbers.get(..len)?;
    numbers
        .chunks(len)
        .all(|other| other == row)
        .then(|| row.to_vec())
}
