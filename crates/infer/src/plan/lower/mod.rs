//! From tract's decluttered graph to steps: shapes are concrete there, constants folded, Gemm and MatMul alike are
//! sums over named axes. Runs nothing; products are `products`', rows and elements `rows`'.

mod elements;
mod products;
mod rows;

use std::{collections::HashMap, ops::Range};

use tract_onnx::{
    prelude::*,
    tract_core::{
        internal::{AxisOp, DimLike},
        ops::{
            array::{MultiBroadcastTo, Slice, TypedConcat},
            binary::TypedBinOp,
            cnn::Conv,
            downsample::Downsample,
            einsum::EinSum,
            element_wise::ElementWiseOp,
            nn::{Reduce, RmsNorm, Softmax},
            source::TypedSource,
        },
    },
};

use super::{
    Unplanned, Vectors,
    memory::LINE,
    step::{AXES, Extents, Step, Strides},
    view::{Atom, View},
};

/// A plan without its memory.
pub(super) struct Lowered {
    pub(super) steps: Vec<Step>,
    pub(super) weights: Vec<f32>,
    /// The arena as it is before the first run: constants in their places, all else 0.
    pub(super) arena: Vec<f32>,
    pub(super) inputs: Range<usize>,
    pub(super) outputs: Range<usize>,
}

type Result<T> = std::result::Result<T, Unplanned>;

pub(super) fn lower(graph: &TypedModel, vectors: Vectors) -> Result<Lowered> {
    let mut lower = Lower {
        graph,
        vectors,
        values: HashMap::new(),
        makers: HashMap::new(),
        made_at: HashMap::new(),
        absorbed: rows::absorbed(graph),
        steps: Vec::new(),
        weights: Vec::new(),
        arena: Vec::new(),
    };
    let inputs = lower.inputs()?;
    let order = graph.eval_order().map_err(|error| Unplanned {
        node: "graph".into(),
        what: format!("{error:#}"),
    })?;
    for id in order {
        lower.node(graph.node(id))?;
        let made = lower.steps.len();
        lower.made_at.entry(OutletId::new(id, 0)).or_insert(made);
    }
    let outputs = lower.outputs()?;
    Ok(Lowered {
        steps: chained(lower.steps),
        weights: lower.weights,
        arena: lower.arena,
        inputs,
        outputs,
    })
}

/// The same steps, of which products of one row that follow on each other are one.
fn chained(steps: Vec<Step>) -> Vec<Step> {
    let mut chained = Vec::new();
    for step in steps {
        match (step, chained.last_mut()) {
            (Step::Product(product), Some(Step::Layers(layers))) if product.rows == 1 => {
                layers.push(product);
            }
            (Step::Product(product), _) if product.rows == 1 => {
                chained.push(Step::Layers(vec![product]));
            }
            (step, _) => chained.push(step),
        }
    }
    chained
}

struct Lower<'a> {
    graph: &'a TypedModel,
    vectors: Vectors,
    values: HashMap<OutletId, View>,
    /// The step that made a value which nothing else has read, so that what follows may be made part of it.
    makers: HashMap<OutletId, usize>,
    /// How many steps there were when a value was whole.
    made_at: HashMap<OutletId, usize>,
    /// Nodes whose work a later one does: the mean in a layer normalisation.
    absorbed: HashMap<usize, OutletId>,
    steps: Vec<Step>,
    weights: Vec<f32>,
    arena: Vec<f32>,
}

impl<'a> Lower<'a> {
    fn inputs(&mut self) -> Result<Range<usize>> {
        let start = self.reserve(0);
        for &outlet in &self.graph.inputs {
            let shape = self.shape(outlet)?;
            let at = self.arena.len();
            // One after another without gaps: the caller fills them as one.
            self.arena.resize(at + shape.iter().product::<usize>(), 0.0);
            self.values.insert(outlet, View::dense(at, &shape));
        }
        Ok(start..self.arena.len())
    }

    fn outputs(&mut self) -> Result<Range<usize>> {
        if let [outlet] = self.graph.outputs[..] {
            let view = self.view(outlet)?;
            if view.is_dense() {
                return Ok(view.at..view.at + view.volume());
            }
        }
        let mut views = Vec::new();
        for &outlet in &self.graph.outputs {
            views.push((outlet, self.view(outlet)?));
        }
        let len = views.iter().map(|(_, view)| view.volume()).sum();
        let start = self.reserve(len);
        let mut at = start;
        for (outlet, view) in views {
            let to = View::dense(at, &view.shape());
            self.copy(outlet, &view, &to)?;
            at += view.volume();
        }
        Ok(start..start + len)
    }

    fn node(&mut self, node: &'a TypedNode) -> Result<()> {
        let outlet = OutletId::new(node.id, 0);
        let constant = node
            .outputs
            .iter()
            .all(|output| output.fact.konst.is_some());
        if constant || node.op_is::<TypedSource>() || self.absorbed.contains_key(&node.id) {
            return Ok(());
        }
        if node.outputs.len() != 1 {
            return Err(self.no(node, "an operator of several outputs"));
        }
        if let Some(einsum) = node.op_as::<EinSum>() {
            self.einsum(node, einsum)
        } else if let Some(op) = node.op_as::<AxisOp>() {
            self.axis_op(node, op)
        } else if let Some(op) = node.op_as::<TypedBinOp>() {
            self.binary(node, op)
        } else if let Some(op) = node.op_as::<ElementWiseOp>() {
            self.unary(node, op)
        } else if let Some(op) = node.op_as::<Slice>() {
            self.slice(node, op)
        } else if let Some(op) = node.op_as::<Downsample>() {
            self.downsample(node, op)
        } else if let Some(op) = node.op_as::<TypedConcat>() {
            self.concat(node, op)
        } else if let Some(op) = node.op_as::<Softmax>() {
            self.softmax(node, op)
        } else if let Some(op) = node.op_as::<Reduce>() {
            self.reduce(node, op)
        } else if let Some(op) = node.op_as::<RmsNorm>() {
            self.rms_norm(node, op)
        } else if let Some(op) = node.op_as::<Conv>() {
            self.conv(node, op)
        } else if node.op_is::<MultiBroadcastTo>() {
            let from = self.view(node.inputs[0])?;
            let view = broadcast(&from, &self.shape(outlet)?);
            self.values.insert(outlet, view);
            Ok(())
        } else {
            Err(self.no(node, format!("operator {}", node.op.name())))
        }
    }

    fn no(&self, node: &TypedNode, what: impl Into<String>) -> Unplanned {
        Unplanned {
            node: node.name.chars().take(80).collect(),
            what: what.into(),
        }
    }

    fn maker(&self, outlet: OutletId) -> &'a TypedNode {
        self.graph.node(outlet.node)
    }

    fn shape(&self, outlet: OutletId) -> Result<Vec<usize>> {
        let node = self.maker(outlet);
        let fact = &node.outputs[outlet.slot].fact;
        if fact.datum_type != f32::datum_type() {
            return Err(self.no(node, format!("numbers of type {:?}", fact.datum_type)));
        }
        match fact.shape.as_concrete() {
            Some(shape) if !shape.contains(&0) => Ok(shape.to_vec()),
            Some(_) => Err(self.no(node, "a tensor without elements")),
            None => Err(self.no(node, "a shape that is open")),
        }
    }

    /// The numbers of a constant, in row-major order.
    fn constant(&self, outlet: OutletId) -> Option<Vec<f32>> {
        let tensor = self.graph.outlet_fact(outlet).ok()?.konst.as_ref()?;
        let plain = tensor.try_as_plain_ram().ok()?;
        Some(plain.as_slice::<f32>().ok()?.to_vec())
    }

    /// Where a value lies; a constant is given its place at the first call.
    fn view(&mut self, outlet: OutletId) -> Result<View> {
        if let Some(view) = self.values.get(&outlet) {
            return Ok(view.clone());
        }
        let shape = self.shape(outlet)?;
        let Some(numbers) = self.constant(outlet) else {
            return Err(self.no(self.maker(outlet), "a value that another operator absorbed"));
        };
        let at = self.reserve(numbers.len());
        self.arena[at..at + numbers.len()].copy_from_slice(&numbers);
        let view = View::dense(at, &shape);
        self.values.insert(outlet, view.clone());
        Ok(view)
    }

    /// Room in the arena, from the start of a cache line.
    fn reserve(&mut self, len: usize) -> usize {
        let at = self.arena.len().next_multiple_of(LINE);
        self.arena.resize(at + len, 0.0);
        at
    }

    /// Constants beside the panels, from the start of a cache line.
    fn weigh(&mut self, numbers: &[f32]) -> usize {
        let at = self.weights.len().next_multiple_of(LINE);
        self.weights.resize(at, 0.0);
        self.weights.extend_from_slice(numbers);
        at
    }

    /// Whether `outlet` is read once and is not a result.
    fn read_once(&self, outlet: OutletId) -> bool {
        self.graph.outlet_successors(outlet).len() == 1 && !self.graph.outputs.contains(&outlet)
    }

    /// The step that made `outlet`, where what follows may become part of it.
    fn open_maker(&self, outlet: OutletId) -> Option<usize> {
        self.makers
            .get(&outlet)
            .copied()
            .filter(|_| self.read_once(outlet))
    }

    /// `to` is `from` seen otherwise: made by the same step.
    fn alias(&mut self, from: OutletId, to: OutletId, view: View) {
        if let Some(step) = self.open_maker(from) {
            self.makers.insert(to, step);
        }
        if let Some(&made) = self.made_at.get(&from) {
            self.made_at.insert(to, made);
        }
        self.values.insert(to, view);
    }

    /// A dense value of `outlet`'s shape that the next step makes.
    fn fresh(&mut self, outlet: OutletId) -> Result<View> {
        let shape = self.shape(outlet)?;
        let at = self.reserve(shape.iter().product());
        let view = View::dense(at, &shape);
        self.values.insert(outlet, view.clone());
        self.makers.insert(outlet, self.steps.len());
        Ok(view)
    }

    /// The elements of a view in row-major order, copied if they lie otherwise.
    fn dense(&mut self, outlet: OutletId, view: View) -> Result<View> {
        if view.is_dense() {
            return Ok(view);
        }
        let at = self.reserve(view.volume());
        let to = View::dense(at, &view.shape());
        self.copy(outlet, &view, &to)?;
        Ok(to)
    }

    /// A step that copies between views of one shape.
    fn copy(&mut self, outlet: OutletId, from: &View, to: &View) -> Result<()> {
        let from_atoms: Vec<Atom> = from.dims.iter().flatten().copied().collect();
        let to_atoms: Vec<Atom> = to.dims.iter().flatten().copied().collect();
        let Some((extents, [from_strides, to_strides])) =
            paired(&from_atoms, &to_atoms).and_then(|it| looped(&it))
        else {
            return Err(self.no(self.maker(outlet), "so many strides at once"));
        };
        self.steps.push(Step::Copy {
            from: from.at,
            to: to.at,
            extents,
            from_strides,
            to_strides,
        });
        Ok(())
    }

    fn axis_op(&mut self, node: &'a TypedNode, op: &AxisOp) -> Result<()> {
        let input = node.inputs[0];
        let outlet = OutletId::new(node.id, 0);
        let shape = self.shape(outlet)?;
        let from = self.view(input)?;
        let view = if let AxisOp::Move(source, to) = op {
            let mut order: Vec<usize> = (0..shape.len()).collect();
            let axis = order.remove(*source);
            order.insert(*to, axis);
            from.permuted(&order)
        } else if let Some(view) = from.reshaped(&shape) {
            view
        } else {
            let dense = self.dense(input, from)?;
            let at = dense.at;
            self.values.insert(outlet, View::dense(at, &shape));
            return Ok(());
        };
        self.alias(input, outlet, view);
        Ok(())
    }

    fn slice(&mut self, node: &'a TypedNode, op: &Slice) -> Result<()> {
        let outlet = OutletId::new(node.id, 0);
        let (Ok(from), Ok(to)) = (op.start.to_usize(), op.end.to_usize()) else {
            return Err(self.no(node, "a slice between open bounds"));
        };
        let whole = self.view(node.inputs[0])?;
        let view = match whole.sliced(op.axis, from, to) {
            Some(view) => view,
            None => {
                let dense = self.dense(node.inputs[0], whole)?;
                dense
                    .sliced(op.axis, from, to)
                    .ok_or_else(|| self.no(node, "this slice"))?
            }
        };
        self.values.insert(outlet, view);
        Ok(())
    }

    /// Every so many-th along an axis: what tract makes of a convolution's strides.
    fn downsample(&mut self, node: &'a TypedNode, op: &Downsample) -> Result<()> {
        let outlet = OutletId::new(node.id, 0);
        let size = self.shape(outlet)?[op.axis];
        let Ok(stride) = usize::try_from(op.stride) else {
            return Err(self.no(node, "an axis turned around"));
        };
        let whole = self.view(node.inputs[0])?;
        let end = op.modulo + (size - 1) * stride + 1;
        let view = match whole.sliced(op.axis, op.modulo, end) {
            Some(view) => view,
            None => {
                let dense = self.dense(node.inputs[0], whole)?;
                dense
                    .sliced(op.axis, op.modulo, end)
                    .ok_or_else(|| self.no(node, "this selection"))?
            }
        };
        self.values
            .insert(outlet, view.every(op.axis, size, stride));
        Ok(())
    }

    fn concat(&mut self, node: &'a TypedNode, op: &TypedConcat) -> Result<()> {
        let outlet = OutletId::new(node.id, 0);
        let shape = self.shape(outlet)?;
        let at = self.reserve(shape.iter().product());
        let whole = View::dense(at, &shape);
        let mut from = 0;
        for &input in &node.inputs {
            let part = self.view(input)?;
            let len = self.shape(input)?[op.axis];
            let to = whole
                .sliced(op.axis, from, from + len)
                .ok_or_else(|| self.no(node, "this concatenation"))?;
            self.copy(input, &part, &to)?;
            from += len;
        }
        self.values.insert(outlet, whole);
        Ok(())
    }
}

/// A view of a larger shape whose repeated elements are the same one.
fn broadcast(from: &View, shape: &[usize]) -> View {
    let missing = shape.len() - from.dims.len();
    let dims = shape
        .iter()
        .enumerate()
        .map(
            |(i, &size)| match i.checked_sub(missing).map(|i| &from.dims[i]) {
                Some(atoms) if atoms.iter().map(|atom| atom.size).product::<usize>() == size => {
                    atoms.clone()
                }
                _ => vec![Atom { size, stride: 0 }],
            },
        )
        .collect();
    View { at: from.at, dims }
}

/// A size and one stride for each of two operands.
pub(super) type Pair = (usize, [usize; 2]);

/// Two lists of atoms over the same elements as one list of axes; `None` where their sizes do not divide each other.
fn paired(a: &[Atom], b: &[Atom]) -> Option<Vec<Pair>> {
    let reversed = |atoms: &[Atom]| -> Vec<Atom> {
        atoms.iter().copied().filter(|atom| atom.size > 1).collect()
    };
    // Innermost last, so both are taken from the back.
    let (mut a, mut b) = (reversed(a), reversed(b));
    let mut axes = Vec::new();
    while let (Some(x), Some(y)) = (a.pop(), b.pop()) {
        let size = x.size.min(y.size);
        if x.size % size != 0 || y.size % size != 0 {
            return None;
        }
        axes.push((size, [x.stride, y.stride]));
        let rest = |atom: Atom| Atom {
            size: atom.size / size,
            stride: atom.stride * size,
        };
        a.extend((x.size > size).then(|| rest(x)));
        b.extend((y.size > size).then(|| rest(y)));
    }
    axes.reverse();
    (a.is_empty() && b.is_empty()).then_some(axes)
}

/// Axes, outermost first, merged and laid out as a loop; `None` if there are too many.
fn looped(axes: &[Pair]) -> Option<(Extents, [Strides; 2])> {
    let mut merged: Vec<Pair> = Vec::new();
    for &(size, strides) in axes.iter().filter(|(size, _)| *size > 1) {
        match merged.last_mut() {
            Some((outer, outer_strides))
                if (0..2).all(|i| outer_strides[i] == strides[i] * size) =>
            {
                *outer *= size;
                *outer_strides = strides;
            }
            _ => merged.push((size, strides)),
        }
    }
    let missing = AXES.checked_sub(merged.len())?;
    let mut extents = [1; AXES];
    let mut both = [[0; AXES]; 2];
    for (i, (size, strides)) in merged.into_iter().enumerate() {
        extents[missing + i] = size;
        for (side, stride) in both.iter_mut().zip(strides) {
            side[missing + i] = stride;
        }
    }
    Some((extents, both))
}
