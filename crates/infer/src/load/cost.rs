//! What a graph costs, bounded before anything is built: elements of every value, multiplications of every operator.
//!
//! Twenty bytes of ONNX can ask for a tensor of 2^60 elements (two long vectors added crosswise, an `Expand`), and what
//! is constant is evaluated at load. So every operator that is let through has a rule here that bounds its output from
//! its inputs; an operator without a rule is refused. Where the exact shape is not worth following, the rule bounds
//! the number of elements.

use std::collections::HashMap;

use tract_onnx::pb::{AttributeProto, GraphProto, NodeProto};

use super::{Limits, LoadError, axes, structure::place, weights};
use crate::{Card, card::MAX_RANK};

/// What is known of a value's size.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Extent {
    Shape(Vec<u64>),
    AtMost(u64),
}

impl Extent {
    pub(super) fn volume(&self) -> u64 {
        match self {
            Self::Shape(dims) => dims.iter().fold(1, |all, &dim| all.saturating_mul(dim)),
            Self::AtMost(volume) => *volume,
        }
    }

    pub(super) fn shape(&self) -> Option<&[u64]> {
        match self {
            Self::Shape(dims) => Some(dims),
            Self::AtMost(_) => None,
        }
    }
}

/// Refuses a graph whose run, or whose loading, would take more than the limits allow.
pub(super) fn check(graph: &GraphProto, card: &Card, limits: &Limits) -> Result<(), LoadError> {
    let mut ledger = Ledger {
        limits,
        elements: 0,
        multiplications: 0,
        extents: HashMap::new(),
        integers: HashMap::new(),
    };
    for tensor in &graph.initializer {
        let dims = weights::check(tensor, "initializer", limits)?;
        ledger.enter(&tensor.name, Extent::Shape(dims), || {
            format!("initializer {:?}", tensor.name)
        })?;
        if let Some(integers) = weights::integers(tensor) {
            ledger.integers.insert(&tensor.name, integers);
        }
    }
    for input in &card.inputs {
        let shape = input.shape.iter().map(|&dim| dim as u64).collect();
        // The card's names are the graph's by now; take those that live as long as the graph.
        if let Some(value) = graph.input.iter().find(|value| value.name == input.name) {
            ledger.enter(&value.name, Extent::Shape(shape), || {
                format!("input {:?}", input.name)
            })?;
        }
    }
    for node in &graph.node {
        let (extent, multiplications) = ledger.rule(node)?;
        ledger.multiplications = ledger.multiplications.saturating_add(multiplications);
        if ledger.multiplications > limits.multiplications {
            return Err(LoadError::Limit {
                at: place(node),
                what: "multiplications up to here",
                found: ledger.multiplications,
                limit: limits.multiplications,
            });
        }
        for output in node.output.iter().filter(|name| !name.is_empty()) {
            ledger.enter(output, extent.clone(), || place(node))?;
        }
    }
    Ok(())
}

struct Ledger<'a> {
    limits: &'a Limits,
    elements: u64,
    multiplications: u64,
    extents: HashMap<&'a str, Extent>,
    /// Constants that shapes are given by.
    integers: HashMap<&'a str, Vec<i64>>,
}

impl<'a> Ledger<'a> {
    fn enter(
        &mut self,
        name: &'a str,
        extent: Extent,
        at: impl Fn() -> String,
    ) -> Result<(), LoadError> {
        if let Some(dims) = extent.shape() {
            if dims.len() > MAX_RANK {
                return Err(LoadError::Limit {
                    at: at(),
                    what: "dimensions",
                    found: dims.len() as u64,
                    limit: MAX_RANK as u64,
                });
            }
            if let Some(&dim) = dims.iter().find(|&&dim| dim > self.limits.dimension as u64) {
                return Err(LoadError::Limit {
                    at: at(),
                    what: "elements along one dimension",
                    found: dim,
                    limit: self.limits.dimension as u64,
                });
            }
        }
        self.elements = self.elements.saturating_add(extent.volume());
        if self.elements > self.limits.elements {
            return Err(LoadError::Limit {
                at: at(),
                what: "elements up to here",
                found: self.elements,
                limit: self.limits.elements,
            });
        }
        self.extents.insert(name, extent);
        Ok(())
    }

    /// The extent of the node's outputs, each, and its multiplications, about.
    fn rule(&mut self, node: &'a NodeProto) -> Result<(Extent, u64), LoadError> {
        let inputs: Vec<Option<Extent>> = node
            .input
            .iter()
            .map(|name| self.extents.get(name.as_str()).cloned())
            .collect();
        let refused = |what: &str| LoadError::Unsupported {
            at: place(node),
            what: what.to_owned(),
        };
        let first = || {
            inputs
                .first()
                .cloned()
                .flatten()
                .ok_or_else(|| LoadError::Missing {
                    at: place(node),
                    what: "its first input is",
                })
        };
        let second = || {
            inputs
                .get(1)
                .cloned()
                .flatten()
                .ok_or_else(|| LoadError::Missing {
                    at: place(node),
                    what: "its second input is",
                })
        };
        let integers = |i: usize| {
            node.input
                .get(i)
                .and_then(|name| self.integers.get(name.as_str()))
        };
        let light = |extent: Extent| {
            // An exponential is some ten multiplications.
            let cost = extent.volume().saturating_mul(16);
            Ok((extent, cost))
        };
        axes_in_range(node, inputs.first().and_then(Option::as_ref))?;
        match node.op_type.as_str() {
            "Abs"
            | "BatchNormalization"
            | "Cast"
            | "Ceil"
            | "Celu"
            | "Clip"
            | "Dropout"
            | "Elu"
            | "Erf"
            | "Exp"
            | "Floor"
            | "Gelu"
            | "HardSigmoid"
            | "HardSwish"
            | "Identity"
            | "InstanceNormalization"
            | "LayerNormalization"
            | "LeakyRelu"
            | "Log"
            | "LogSoftmax"
            | "Neg"
            | "Not"
            | "Reciprocal"
            | "Relu"
            | "Round"
            | "Selu"
            | "Sigmoid"
            | "Sign"
            | "Softmax"
            | "Softplus"
            | "Softsign"
            | "Sqrt"
            | "Tanh"
            | "ThresholdedRelu" => light(first()?),
            "Add" | "And" | "Div" | "Equal" | "Greater" | "GreaterOrEqual" | "Less"
            | "LessOrEqual" | "Mul" | "Or" | "PRelu" | "Pow" | "Sub" | "Xor" => {
                light(broadcast(node, [first()?, second()?])?)
            }
            "Max" | "Mean" | "Min" | "Sum" | "Where" => {
                first()?;
                light(broadcast(node, inputs.into_iter().flatten())?)
            }
            "ArgMax" | "ArgMin" | "GlobalAveragePool" | "GlobalMaxPool" | "Split" => {
                light(Extent::AtMost(first()?.volume()))
            }
            "ReduceL1" | "ReduceL2" | "ReduceLogSum" | "ReduceLogSumExp" | "ReduceMax"
            | "ReduceMean" | "ReduceMin" | "ReduceProd" | "ReduceSum" | "ReduceSumSquare" => {
                // All of the input is read, whatever is left of it.
                let extent = first()?;
                let left = axes::reduced(node, &extent, integers(1));
                let cost = extent.volume().saturating_mul(16);
                Ok((
                    left.unwrap_or_else(|| Extent::AtMost(extent.volume())),
                    cost,
                ))
            }
            "Squeeze" | "Unsqueeze" => {
                let extent = first()?;
                let shape = match node.op_type.as_str() {
                    "Squeeze" => axes::squeezed(node, &extent, integers(1)),
                    _ => axes::unsqueezed(node, &extent, integers(1)),
                };
                light(shape.unwrap_or_else(|| Extent::AtMost(extent.volume())))
            }
            "Flatten" => light(flattened(node, &first()?)?),
            "Slice" => {
                let extent = first()?;
                let given = [1, 2, 3, 4].map(|i| node.input.get(i).map(|_| integers(i)));
                light(sliced(&extent, given).unwrap_or_else(|| Extent::AtMost(extent.volume())))
            }
            "Size" => light(Extent::Shape(vec![])),
            "Shape" => light(Extent::AtMost(MAX_RANK as u64)),
            "Reshape" => {
                let extent = first()?;
                light(
                    reshaped(node, &extent, integers(1))
                        .unwrap_or_else(|| Extent::AtMost(extent.volume())),
                )
            }
            "Transpose" => light(transposed(node, &first()?)?),
            "Concat" => light(joined(node, &inputs)?),
            "Gather" => light(gathered(node, &first()?, &second()?)),
            "Constant" => light(self.constant(node)?),
            "ConstantOfShape" | "Expand" => {
                let at = if node.op_type == "Expand" { 1 } else { 0 };
                let dims =
                    integers(at).ok_or_else(|| refused("a shape that is not constant is"))?;
                let dims: Option<Vec<u64>> =
                    dims.iter().map(|&dim| u64::try_from(dim).ok()).collect();
                let wanted = Extent::Shape(dims.ok_or_else(|| refused("a negative dimension is"))?);
                if at == 0 {
                    light(wanted)
                } else {
                    light(broadcast(node, [first()?, wanted])?)
                }
            }
            "MatMul" => matmul(node, &first()?, &second()?),
            "Gemm" => gemm(node, &first()?, &second()?),
            "Conv" => convolution(node, &first()?, &second()?),
            _ => Err(refused(
                "this operator, for whose cost there is no bound here, is",
            )),
        }
    }

    fn constant(&mut self, node: &'a NodeProto) -> Result<Extent, LoadError> {
        if node.attribute.len() != 1 {
            return Err(LoadError::Attribute {
                at: place(node),
                name: "value",
                problem: "has to be the only one",
            });
        }
        let attribute = &node.attribute[0];
        match (attribute.name.as_str(), &attribute.t) {
            ("value", Some(tensor)) => {
                let dims = weights::check(tensor, &place(node), self.limits)?;
                if let (Some(integers), Some(name)) =
                    (weights::integers(tensor), node.output.first())
                {
                    self.integers.insert(name, integers);
                }
                Ok(Extent::Shape(dims))
            }
            ("value_float" | "value_int", _) => Ok(Extent::Shape(vec![])),
            ("value_floats", _) => Ok(Extent::Shape(vec![attribute.floats.len() as u64])),
            ("value_ints", _) => Ok(Extent::Shape(vec![attribute.ints.len() as u64])),
            _ => Err(LoadError::Attribute {
                at: place(node),
                name: "value",
                problem: "has to hold a tensor, a number or numbers",
            }),
        }
    }
}

pub(super) fn attribute<'a>(node: &'a NodeProto, name: &str) -> Option<&'a AttributeProto> {
    node.attribute
        .iter()
        .find(|attribute| attribute.name == name)
}

fn mismatch(node: &NodeProto, a: &[u64], expected: String) -> LoadError {
    LoadError::Shape {
        at: place(node),
        found: format!("{a:?}"),
        expected,
    }
}

/// `axis` in `[-rank, rank)`, counted from the front.
fn axis(node: &NodeProto, rank: usize, default: i64) -> Result<usize, LoadError> {
    let axis = attribute(node, "axis").map_or(default, |attribute| attribute.i);
    let from_front = if axis < 0 {
        axis.saturating_add(rank as i64)
    } else {
        axis
    };
    usize::try_from(from_front)
        .ok()
        .filter(|&axis| axis < rank)
        .ok_or_else(|| LoadError::Attribute {
            at: place(node),
            name: "axis",
            problem: "is outside the input's shape",
        })
}

/// Attributes that name axes stay within the first input's shape, as far as that is known: tract takes some of them
/// unseen. One past the last is for operators that put an axis there, and looked at again in their rules.
fn axes_in_range(node: &NodeProto, first: Option<&Extent>) -> Result<(), LoadError> {
    let rank = first.and_then(Extent::shape).map(|dims| dims.len() as i64);
    let slack = match node.op_type.as_str() {
        "Flatten" => 1,
        "Unsqueeze" => MAX_RANK as i64,
        _ => 0,
    };
    let limit = rank.map_or(MAX_RANK as i64, |rank| rank + slack);
    for (name, attribute) in ["axis", "axes", "batch_dims"]
        .into_iter()
        .filter_map(|name| Some((name, attribute(node, name)?)))
    {
        let single = (name != "axes").then_some(&attribute.i);
        if attribute
            .ints
            .iter()
            .chain(single)
            .any(|axis| !(-limit..limit).contains(axis))
        {
            return Err(LoadError::Attribute {
                at: place(node),
                name,
                problem: "is outside the input's shape",
            });
        }
    }
    Ok(())
}

/// ONNX's (numpy's) multidirectional broadcasting.
fn broadcast(
    node: &NodeProto,
    extents: impl IntoIterator<Item = Extent>,
) -> Result<Extent, LoadError> {
    let mut out = Extent::Shape(vec![]);
    for extent in extents {
        out = match (&out, &extent) {
            (Extent::Shape(a), Extent::Shape(b)) => {
                let rank = a.len().max(b.len());
                let dim = |dims: &[u64], i: usize| match (i + dims.len()).checked_sub(rank) {
                    Some(i) => dims[i],
                    None => 1,
                };
                let mut dims = Vec::with_capacity(rank);
                for i in 0..rank {
                    dims.push(match (dim(a, i), dim(b, i)) {
                        (x, y) if x == y || y == 1 => x,
                        (1, y) => y,
                        _ => {
                            return Err(mismatch(
                                node,
                                b,
                                format!("one that broadcasts with {a:?}"),
                            ));
                        }
                    });
                }
                Extent::Shape(dims)
            }
            (a, b) => Extent::AtMost(a.volume().saturating_mul(b.volume())),
        };
    }
    Ok(out)
}

/// The shape that a Reshape asks for, where the file fixes it.
fn reshaped(node: &NodeProto, from: &Extent, wanted: Option<&Vec<i64>>) -> Option<Extent> {
    if attribute(node, "allowzero").is_some_and(|it| it.i != 0) {
        return None;
    }
    let from_dims = from.shape()?;
    let mut dims = Vec::new();
    let mut open = None;
    for (i, &dim) in wanted?.iter().enumerate() {
        match dim {
            -1 => {
                if open.replace(i).is_some() {
                    return None;
                }
                dims.push(1);
            }
            0 => dims.push(*from_dims.get(i)?),
            _ => dims.push(u64::try_from(dim).ok()?),
        }
    }
    let known = Extent::Shape(dims.clone()).volume();
    if let Some(i) = open {
        dims[i] = from.volume().checked_div(known)?;
    }
    let out = Extent::Shape(dims);
    (out.volume() == from.volume()).then_some(out)
}

fn transposed(node: &NodeProto, from: &Extent) -> Result<Extent, LoadError> {
    let Some(dims) = from.shape() else {
        return Ok(from.clone());
    };
    let Some(permutation) = attribute(node, "perm") else {
        return Ok(Extent::Shape(dims.iter().rev().copied().collect()));
    };
    let mut sorted = permutation.ints.clone();
    sorted.sort_unstable();
    if sorted.len() != dims.len() || sorted.iter().enumerate().any(|(i, &axis)| axis != i as i64) {
        return Err(LoadError::Attribute {
            at: place(node),
            name: "perm",
            problem: "is not a permutation of the input's axes",
        });
    }
    Ok(Extent::Shape(
        permutation
            .ints
            .iter()
            .map(|&axis| dims[axis as usize])
            .collect(),
    ))
}

fn flattened(node: &NodeProto, from: &Extent) -> Result<Extent, LoadError> {
    let Some(dims) = from.shape() else {
        return Ok(from.clone());
    };
    // The axis may be the rank itself: all dimensions come before it then.
    let axis = axis(node, dims.len() + 1, 1)?;
    let volume = |dims: &[u64]| Extent::Shape(dims.to_vec()).volume();
    Ok(Extent::Shape(vec![
        volume(&dims[..axis]),
        volume(&dims[axis..]),
    ]))
}

/// The shape of a Slice whose starts, ends, axes and steps the file fixes; steps of 1 only.
fn sliced(
    from: &Extent,
    [starts, ends, axes, steps]: [Option<Option<&Vec<i64>>>; 4],
) -> Option<Extent> {
    let mut dims = from.shape()?.to_vec();
    let (starts, ends) = (starts??, ends??);
    let every: Vec<i64> = (0..dims.len() as i64).collect();
    let axes = axes.map_or(Some(&every), |axes| axes)?;
    if steps.is_some_and(|steps| steps.is_none_or(|steps| steps.iter().any(|&step| step != 1))) {
        return None;
    }
    for ((&start, &end), &axis) in starts.iter().zip(ends).zip(axes) {
        let axis = if axis < 0 {
            axis.checked_add(dims.len() as i64)?
        } else {
            axis
        };
        let dim = dims.get_mut(usize::try_from(axis).ok()?)?;
        let size = i64::try_from(*dim).ok()?;
        let within = |at: i64| (if at < 0 { at.saturating_add(size) } else { at }).clamp(0, size);
        *dim = u64::try_from(within(end) - within(start)).unwrap_or(0);
    }
    Some(Extent::Shape(dims))
}

fn joined(node: &NodeProto, inputs: &[Option<Extent>]) -> Result<Extent, LoadError> {
    let given: Vec<&Extent> = inputs.iter().flatten().collect();
    if given.is_empty() || given.len() < inputs.len() {
        return Err(LoadError::Missing {
            at: place(node),
            what: "an input is",
        });
    }
    let shapes: Option<Vec<&[u64]>> = given.iter().map(|extent| extent.shape()).collect();
    let Some(shapes) = shapes else {
        let volume = given
            .iter()
            .fold(0_u64, |all, extent| all.saturating_add(extent.volume()));
        return Ok(Extent::AtMost(volume));
    };
    let rank = shapes[0].len();
    let axis = axis(node, rank, i64::MAX)?;
    let mut out = shapes[0].to_vec();
    for shape in &shapes[1..] {
        if shape.len() != rank || (0..rank).any(|i| i != axis && shape[i] != out[i]) {
            return Err(mismatch(
                node,
                shape,
                format!("{:?} but for axis {axis}", shapes[0]),
            ));
        }
        out[axis] = out[axis].saturating_add(shape[axis]);
    }
    Ok(Extent::Shape(out))
}

fn gathered(node: &NodeProto, data: &Extent, indices: &Extent) -> Extent {
    let exact = data
        .shape()
        .zip(indices.shape())
        .and_then(|(data, indices)| {
            let axis = axis(node, data.len(), 0).ok()?;
            let mut dims = data[..axis].to_vec();
            dims.extend(indices);
            dims.extend(&data[axis + 1..]);
            (dims.len() <= MAX_RANK).then_some(Extent::Shape(dims))
        });
    exact.unwrap_or_else(|| Extent::AtMost(data.volume().saturating_mul(indices.volume())))
}

type Product = Result<(Extent, u64), LoadError>;

/// Where one shape is not known: every element of the one may meet every one of the other, unless the second is a
/// matrix of depth k, so that the first has a k-th of its elements as rows.
fn product_of_unknown(a: &Extent, b: &Extent, transposed: bool) -> Product {
    if let Some(&[k, n]) = b.shape() {
        let (k, n) = if transposed { (n, k) } else { (k, n) };
        let volume = a.volume().div_ceil(k.max(1)).saturating_mul(n);
        return Ok((Extent::AtMost(volume), volume.saturating_mul(k)));
    }
    let volume = a.volume().saturating_mul(b.volume());
    Ok((Extent::AtMost(volume), volume))
}

fn matmul(node: &NodeProto, a: &Extent, b: &Extent) -> Product {
    let (Some(a_dims), Some(b_dims)) = (a.shape(), b.shape()) else {
        return product_of_unknown(a, b, false);
    };
    if a_dims.is_empty() || b_dims.is_empty() {
        return Err(mismatch(node, &[], "at least one dimension".into()));
    }
    // A vector counts as a matrix of one row (left) or one column (right), whose axis is dropped again.
    let (a_batch, a_matrix) = a_dims.split_at(a_dims.len().saturating_sub(2));
    let (b_batch, b_matrix) = b_dims.split_at(b_dims.len().saturating_sub(2));
    let k = a_matrix[a_matrix.len() - 1];
    if k != b_matrix[0] {
        return Err(mismatch(
            node,
            b_dims,
            format!("one that {a_dims:?} can be multiplied by"),
        ));
    }
    let batch = broadcast(
        node,
        [
            Extent::Shape(a_batch.to_vec()),
            Extent::Shape(b_batch.to_vec()),
        ],
    )?;
    let mut dims = batch.shape().unwrap_or_default().to_vec();
    dims.extend((a_matrix.len() == 2).then(|| a_matrix[0]));
    dims.extend((b_matrix.len() == 2).then(|| b_matrix[1]));
    let out = Extent::Shape(dims);
    let cost = out.volume().saturating_mul(k);
    Ok((out, cost))
}

fn gemm(node: &NodeProto, a: &Extent, b: &Extent) -> Product {
    let flag = |name| attribute(node, name).is_some_and(|it| it.i != 0);
    let (Some(a_dims), Some(b_dims)) = (a.shape(), b.shape()) else {
        return product_of_unknown(a, b, flag("transB"));
    };
    let (&[mut m, mut k], &[mut l, mut n]) = (a_dims, b_dims) else {
        return Err(mismatch(
            node,
            a_dims,
            format!("two dimensions, as of {b_dims:?}"),
        ));
    };
    if flag("transA") {
        (m, k) = (k, m);
    }
    if flag("transB") {
        (l, n) = (n, l);
    }
    if k != l {
        return Err(mismatch(
            node,
            b_dims,
            format!("one that {a_dims:?} can be multiplied by"),
        ));
    }
    let out = Extent::Shape(vec![m, n]);
    let cost = out.volume().saturating_mul(k);
    Ok((out, cost))
}

fn convolution(node: &NodeProto, x: &Extent, w: &Extent) -> Product {
    let at = || place(node);
    let wrong = |name, problem| LoadError::Attribute {
        at: at(),
        name,
        problem,
    };
    let (Some(x), Some(w)) = (x.shape(), w.shape()) else {
        return Err(LoadError::Unsupported {
            at: at(),
            what: "a convolution of a shape that is not known is".into(),
        });
    };
    if x.len() < 3 || x.len() != w.len() {
        return Err(mismatch(
            node,
            w,
            format!("a kernel for {x:?}, of 3 dimensions or more"),
        ));
    }
    let spatial = x.len() - 2;
    if attribute(node, "auto_pad").is_some_and(|it| !it.s.is_empty() && it.s != b"NOTSET") {
        return Err(LoadError::Unsupported {
            at: at(),
            what: "auto_pad is".into(),
        });
    }
    let positive = |name, default: u64, count: usize, least: i64| match attribute(node, name) {
        None => Ok(vec![default; count]),
        Some(it)
            if it.ints.len() == count && it.ints.iter().all(|&x| (least..65_536).contains(&x)) =>
        {
            Ok(it.ints.iter().map(|&x| x as u64).collect::<Vec<_>>())
        }
        Some(_) => Err(wrong(name, "has the wrong count, or an entry out of range")),
    };
    let strides = positive("strides", 1, spatial, 1)?;
    let dilations = positive("dilations", 1, spatial, 1)?;
    let pads = positive("pads", 0, 2 * spatial, 0)?;
    if attribute(node, "kernel_shape").is_some_and(|it| {
        it.ints.len() != spatial || it.ints.iter().zip(&w[2..]).any(|(&a, &b)| a != b as i64)
    }) {
        return Err(wrong("kernel_shape", "differs from the weights'"));
    }
    let group = attribute(node, "group").map_or(1, |it| it.i);
    let fits = u64::try_from(group)
        .is_ok_and(|g| g > 0 && w[0] % g == 0 && w[1].checked_mul(g) == Some(x[1]));
    if !fits {
        return Err(wrong(
            "group",
            "does not divide the channels as the weights do",
        ));
    }
    let mut dims = vec![x[0], w[0]];
    for i in 0..spatial {
        let padded = x[2 + i] + pads[i] + pads[spatial + i];
        let reach = (w[2 + i].saturating_sub(1)) * dilations[i] + 1;
        if w[2 + i] == 0 || padded < reach {
            return Err(mismatch(node, w, format!("a kernel that fits into {x:?}")));
        }
        dims.push((padded - reach) / strides[i] + 1);
    }
    let out = Extent::Shape(dims);
    let kernel = Extent::Shape(w[1..].to_vec()).volume();
    let cost = out.volume().saturating_mul(kernel);
    Ok((out, cost))
}
