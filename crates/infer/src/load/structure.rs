//! What the graph is made of, and that it hangs together: operator sets, names, order, inputs and outputs against the
//! card. What it costs is `cost`'s.

use std::collections::{HashMap, HashSet};

use tract_onnx::pb::{
    AttributeProto, GraphProto, ModelProto, NodeProto, ValueInfoProto, tensor_proto::DataType,
    tensor_shape_proto::dimension, type_proto,
};

use super::{Limits, LoadError, weights};
use crate::{Card, card::MAX_RANK};

/// Operator sets that tract is tested with.
const OLDEST_OPSET: i64 = 9;
const NEWEST_OPSET: i64 = 18;
/// Most attributes of a node; the standard's most talkative operators have about ten.
const MAX_ATTRIBUTES: usize = 32;

/// Checks all but the cost; returns the graph.
pub(super) fn check<'a>(
    model: &'a ModelProto,
    card: &Card,
    limits: &Limits,
) -> Result<&'a GraphProto, LoadError> {
    opset(model)?;
    let graph = model.graph.as_ref().ok_or_else(|| LoadError::Missing {
        at: "model".into(),
        what: "the graph is",
    })?;
    if graph.node.len() > limits.nodes {
        return Err(LoadError::Limit {
            at: "graph".into(),
            what: "nodes",
            found: graph.node.len() as u64,
            limit: limits.nodes as u64,
        });
    }
    let constants = constants(graph, limits)?;
    let inputs: Vec<&ValueInfoProto> = graph
        .input
        .iter()
        .filter(|input| !constants.contains(input.name.as_str()))
        .collect();
    check_values(
        &inputs,
        "input",
        &card_side(&card.inputs, |i| (&i.name, &i.shape)),
        limits,
    )?;
    let outputs: Vec<&ValueInfoProto> = graph.output.iter().collect();
    check_values(
        &outputs,
        "output",
        &card_side(&card.outputs, |o| (&o.name, &o.shape)),
        limits,
    )?;
    check_order(graph, constants)?;
    for node in &graph.node {
        attributes(node, limits)?;
    }
    Ok(graph)
}

/// How a node is called in an error.
pub(super) fn place(node: &NodeProto) -> String {
    let name = [&node.name]
        .into_iter()
        .chain(&node.output)
        .find(|name| !name.is_empty());
    let name: String = name.map_or("?", String::as_str).chars().take(80).collect();
    let op: String = node.op_type.chars().take(80).collect();
    format!("node {name:?} ({op})")
}

fn opset(model: &ModelProto) -> Result<(), LoadError> {
    let wrong = |domain: &str, found| LoadError::Opset {
        domain: domain.chars().take(80).collect(),
        found,
        oldest: OLDEST_OPSET,
        newest: NEWEST_OPSET,
    };
    if model.opset_import.is_empty() {
        return Err(LoadError::Missing {
            at: "model".into(),
            what: "the operator set's version is",
        });
    }
    for import in &model.opset_import {
        let standard = import.domain.is_empty() || import.domain == "ai.onnx";
        if !standard || !(OLDEST_OPSET..=NEWEST_OPSET).contains(&import.version) {
            return Err(wrong(&import.domain, import.version));
        }
    }
    match model
        .graph
        .iter()
        .flat_map(|graph| &graph.node)
        .find(|node| !(node.domain.is_empty() || node.domain == "ai.onnx"))
    {
        Some(node) => Err(LoadError::Unsupported {
            at: place(node),
            what: format!(
                "domain {:?} is",
                node.domain.chars().take(80).collect::<String>()
            ),
        }),
        None => Ok(()),
    }
}

fn constants<'a>(graph: &'a GraphProto, limits: &Limits) -> Result<HashSet<&'a str>, LoadError> {
    let mut names = HashSet::new();
    for (i, tensor) in graph.initializer.iter().enumerate() {
        let name: String = tensor.name.chars().take(80).collect();
        let at = format!("initializer {i} ({name:?})");
        if tensor.name.is_empty() {
            return Err(LoadError::Missing {
                at,
                what: "its name is",
            });
        }
        weights::check(tensor, &at, limits)?;
        if !names.insert(tensor.name.as_str()) {
            return Err(LoadError::Duplicate { at, name });
        }
    }
    Ok(names)
}

type Named<'a> = (&'a str, &'a [usize]);

fn card_side<'a, T>(
    of: &'a [T],
    named: impl Fn(&'a T) -> (&'a String, &'a Vec<usize>),
) -> Vec<Named<'a>> {
    of.iter()
        .map(|it| {
            let (name, shape) = named(it);
            (name.as_str(), shape.as_slice())
        })
        .collect()
}

fn check_values(
    values: &[&ValueInfoProto],
    kind: &str,
    card: &[Named<'_>],
    limits: &Limits,
) -> Result<(), LoadError> {
    if values.len() != card.len() {
        return Err(LoadError::Mismatch {
            at: format!("{kind}s"),
            card: format!("{} of them", card.len()),
            file: values.len().to_string(),
        });
    }
    for (i, (value, &(name, shape))) in values.iter().zip(card).enumerate() {
        let at = format!("{kind} {i}");
        if value.name != name {
            return Err(LoadError::Mismatch {
                at,
                card: format!("{name:?}"),
                file: format!("{:?}", value.name.chars().take(80).collect::<String>()),
            });
        }
        let at = format!("{kind} {i} ({name:?})");
        let described = value.r#type.as_ref().and_then(|it| it.value.as_ref());
        let Some(type_proto::Value::TensorType(tensor)) = described else {
            return Err(LoadError::Missing {
                at,
                what: "its tensor type is",
            });
        };
        if tensor.elem_type != DataType::Float as i32 {
            return Err(LoadError::Unsupported {
                at,
                what: format!("data type {} (only 1, float) is", tensor.elem_type),
            });
        }
        if let Some(&dim) = shape.iter().find(|&&dim| dim > limits.dimension) {
            return Err(LoadError::Limit {
                at,
                what: "elements along one dimension",
                found: dim as u64,
                limit: limits.dimension as u64,
            });
        }
        let Some(declared) = &tensor.shape else {
            continue;
        };
        let agree = declared.dim.len() == shape.len()
            && declared
                .dim
                .iter()
                .zip(shape)
                .all(|(dim, &card)| match &dim.value {
                    Some(dimension::Value::DimValue(size)) => *size == card as i64,
                    // A name for a size that the exporter left open: the card closes it.
                    Some(dimension::Value::DimParam(_)) | None => true,
                });
        if !agree {
            let size = |dim: &Option<dimension::Value>| match dim {
                Some(dimension::Value::DimValue(size)) => size.to_string(),
                Some(dimension::Value::DimParam(name)) => name.chars().take(20).collect(),
                None => "?".into(),
            };
            let dims: Vec<String> = declared
                .dim
                .iter()
                .take(MAX_RANK + 1)
                .map(|dim| size(&dim.value))
                .collect();
            return Err(LoadError::Mismatch {
                at,
                card: format!("{shape:?}"),
                file: format!("[{}]", dims.join(", ")),
            });
        }
    }
    Ok(())
}

/// Every value is made once, before it is read: ONNX wants nodes in topological order, so one pass finds cycles.
fn check_order<'a>(graph: &'a GraphProto, constants: HashSet<&'a str>) -> Result<(), LoadError> {
    let mut known = constants;
    // Apart from the constants, which may be listed among the inputs.
    let mut listed = HashSet::new();
    for (i, input) in graph.input.iter().enumerate() {
        if input.name.is_empty() || !listed.insert(&input.name) {
            return Err(LoadError::Duplicate {
                at: format!("input {i}"),
                name: input.name.chars().take(80).collect(),
            });
        }
        known.insert(&input.name);
    }
    let mut made_by: HashMap<&str, usize> = HashMap::new();
    for (i, node) in graph.node.iter().enumerate() {
        for output in &node.output {
            made_by.entry(output).or_insert(i);
        }
    }
    let dangling = |at: String, name: &str, from: usize| LoadError::Dangling {
        at,
        name: name.chars().take(80).collect(),
        why: match made_by.get(name) {
            Some(&maker) if maker == from => "it makes itself: a cycle",
            Some(_) => "a later node makes: a cycle, or nodes out of order",
            None => "nothing makes",
        },
    };
    for (i, node) in graph.node.iter().enumerate() {
        if let Some(name) = node
            .input
            .iter()
            .find(|name| !name.is_empty() && !known.contains(name.as_str()))
        {
            return Err(dangling(place(node), name, i));
        }
        if node.output.first().is_none_or(String::is_empty) {
            return Err(LoadError::Missing {
                at: format!(
                    "node {i} ({:?})",
                    node.name.chars().take(80).collect::<String>()
                ),
                what: "its first output is",
            });
        }
        for output in node.output.iter().filter(|name| !name.is_empty()) {
            if !known.insert(output) {
                return Err(LoadError::Duplicate {
                    at: place(node),
                    name: output.chars().take(80).collect(),
                });
            }
        }
    }
    match graph
        .output
        .iter()
        .find(|output| !known.contains(output.name.as_str()))
    {
        Some(output) => Err(dangling(
            "the graph's output".into(),
            &output.name,
            usize::MAX,
        )),
        None => Ok(()),
    }
}

fn attributes(node: &NodeProto, limits: &Limits) -> Result<(), LoadError> {
    if node.attribute.len() > MAX_ATTRIBUTES {
        return Err(LoadError::Limit {
            at: place(node),
            what: "attributes",
            found: node.attribute.len() as u64,
            limit: MAX_ATTRIBUTES as u64,
        });
    }
    for (i, attribute) in node.attribute.iter().enumerate() {
        let AttributeProto { name, .. } = attribute;
        let at = || {
            format!(
                "{}, attribute {i} ({:?})",
                place(node),
                name.chars().take(80).collect::<String>()
            )
        };
        if node.attribute[..i].iter().any(|other| other.name == *name) {
            return Err(LoadError::Duplicate {
                at: place(node),
                name: name.chars().take(80).collect(),
            });
        }
        if !attribute.f.is_finite() {
            return Err(LoadError::NotFinite {
                at: at(),
                index: 0,
                found: f64::from(attribute.f),
            });
        }
        if let Some((index, found)) = attribute
            .floats
            .iter()
            .enumerate()
            .find(|(_, x)| !x.is_finite())
        {
            return Err(LoadError::NotFinite {
                at: at(),
                index,
                found: f64::from(*found),
            });
        }
        for tensor in attribute.t.iter().chain(&attribute.tensors) {
            weights::check(tensor, &at(), limits)?;
        }
    }
    Ok(())
}
