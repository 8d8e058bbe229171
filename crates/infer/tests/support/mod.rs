//! ONNX files and cards made on the spot, with seeded random weights: what the tests and the `inference` bench run.
//! The networks are the papers' shapes in the patterns that PyTorch's exporter writes; nothing here is trained.
#![allow(
    dead_code,
    unused_imports,
    reason = "shared by tests and a bench, none of which uses all of it"
)]

mod networks;

use mpquic_infer::{Card, Feature, Input, Normalisation, Output, Provenance};
use prost::Message;
use sha2::{Digest, Sha256};
use tract_onnx::pb::{
    AttributeProto, GraphProto, ModelProto, NodeProto, OperatorSetIdProto, TensorProto,
    TensorShapeProto, TypeProto, ValueInfoProto, attribute_proto::AttributeType,
    tensor_proto::DataType, tensor_shape_proto, type_proto,
};

pub(crate) use networks::{dqn, gaps, gaps_compact, gaps_paper, sailfish, sailfish_full};

/// A stream of seeded numbers: SplitMix64.
#[derive(Clone)]
pub(crate) struct Seeded(pub u64);

impl Seeded {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Below `n`.
    pub(crate) fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }

    /// Uniform in [-1, 1).
    pub(crate) fn signed(&mut self) -> f32 {
        (self.next() >> 40) as f32 / (1_u64 << 23) as f32 - 1.0
    }

    /// `n` of them, times `scale`.
    pub(crate) fn numbers(&mut self, n: usize, scale: f32) -> Vec<f32> {
        (0..n).map(|_| self.signed() * scale).collect()
    }
}

/// A graph under construction.
pub(crate) struct Builder {
    pub(crate) graph: GraphProto,
    pub(crate) draw: Seeded,
    pub(crate) opset: i64,
}

/// A file and its card.
#[derive(Clone)]
pub(crate) struct Files {
    pub(crate) onnx: Vec<u8>,
    pub(crate) card: Card,
}

impl Builder {
    pub(crate) fn new(name: &str, seed: u64) -> Self {
        let graph = GraphProto {
            name: name.into(),
            ..Default::default()
        };
        Self {
            graph,
            draw: Seeded(seed),
            opset: 17,
        }
    }

    pub(crate) fn input(&mut self, name: &str, shape: &[usize]) -> String {
        self.graph.input.push(value(name, shape));
        name.into()
    }

    pub(crate) fn output(&mut self, name: &str, shape: &[usize]) {
        self.graph.output.push(value(name, shape));
    }

    /// A node with one output, which has its name.
    pub(crate) fn node(
        &mut self,
        op: &str,
        inputs: &[&str],
        attributes: Vec<AttributeProto>,
    ) -> String {
        let name = format!("{op}_{}", self.graph.node.len());
        self.named(op, inputs, attributes, &name)
    }

    pub(crate) fn named(
        &mut self,
        op: &str,
        inputs: &[&str],
        attribute: Vec<AttributeProto>,
        output: &str,
    ) -> String {
        self.graph.node.push(NodeProto {
            op_type: op.into(),
            name: format!("/{output}"),
            input: inputs.iter().map(|&it| it.into()).collect(),
            output: vec![output.into()],
            attribute,
            ..Default::default()
        });
        output.into()
    }

    /// Weights in `[-scale, scale)`.
    pub(crate) fn weights(&mut self, dims: &[usize], scale: f32) -> String {
        let numbers = self.draw.numbers(dims.iter().product(), scale);
        self.constant(dims, &numbers)
    }

    pub(crate) fn constant(&mut self, dims: &[usize], numbers: &[f32]) -> String {
        let name = format!("weights_{}", self.graph.initializer.len());
        self.graph.initializer.push(TensorProto {
            name: name.clone(),
            dims: dims.iter().map(|&dim| dim as i64).collect(),
            data_type: DataType::Float as i32,
            raw_data: numbers.iter().flat_map(|x| x.to_le_bytes()).collect(),
            ..Default::default()
        });
        name
    }

    pub(crate) fn integers(&mut self, numbers: &[i64]) -> String {
        let name = format!("integers_{}", self.graph.initializer.len());
        self.graph.initializer.push(TensorProto {
            name: name.clone(),
            dims: vec![numbers.len() as i64],
            data_type: DataType::Int64 as i32,
            raw_data: numbers.iter().flat_map(|x| x.to_le_bytes()).collect(),
            ..Default::default()
        });
        name
    }

    /// A fully connected layer as PyTorch exports it: weights [outputs, inputs], transposed by Gemm.
    pub(crate) fn gemm(&mut self, x: &str, inputs: usize, outputs: usize) -> String {
        let scale = (3.0 / inputs as f32).sqrt();
        let w = self.weights(&[outputs, inputs], scale);
        let b = self.weights(&[outputs], 0.1);
        self.node(
            "Gemm",
            &[x, &w, &b],
            vec![int("transB", 1), float("alpha", 1.0), float("beta", 1.0)],
        )
    }

    /// A fully connected layer over the last axis, as PyTorch exports it for more than two dimensions.
    pub(crate) fn linear(&mut self, x: &str, inputs: usize, outputs: usize) -> String {
        let scale = (3.0 / inputs as f32).sqrt();
        let w = self.weights(&[inputs, outputs], scale);
        let b = self.weights(&[outputs], 0.1);
        let product = self.node("MatMul", &[x, &w], vec![]);
        self.node("Add", &[&b, &product], vec![])
    }

    /// Gives the node that made `value` the graph's output name.
    pub(crate) fn rename(&mut self, value: &str, to: &str) {
        for node in &mut self.graph.node {
            for name in node.input.iter_mut().chain(&mut node.output) {
                if name == value {
                    *name = to.into();
                }
            }
        }
    }

    pub(crate) fn proto(&self) -> ModelProto {
        ModelProto {
            ir_version: 8,
            opset_import: vec![OperatorSetIdProto {
                domain: String::new(),
                version: self.opset,
            }],
            producer_name: "test".into(),
            graph: Some(self.graph.clone()),
            ..Default::default()
        }
    }

    pub(crate) fn files(&self) -> Files {
        files_of(&self.proto())
    }
}

/// Encodes a model and describes it as it is.
pub(crate) fn files_of(model: &ModelProto) -> Files {
    let onnx = model.encode_to_vec();
    let graph = model.graph.as_ref().unwrap();
    let constants: Vec<&str> = graph
        .initializer
        .iter()
        .map(|it| it.name.as_str())
        .collect();
    let inputs = graph
        .input
        .iter()
        .filter(|it| !constants.contains(&it.name.as_str()));
    let card = Card {
        format: 1,
        name: graph.name.clone(),
        onnx_sha256: sha256(&onnx),
        inputs: inputs
            .map(|value| {
                let shape = shape_of(value);
                let axis = shape.len() - 1;
                let features = (0..shape[axis])
                    .map(|i| Feature {
                        name: format!("feature {i}"),
                        unit: "1".into(),
                        normalisation: Normalisation::default(),
                    })
                    .collect();
                Input {
                    name: value.name.clone(),
                    shape,
                    axis,
                    features,
                }
            })
            .collect(),
        outputs: graph
            .output
            .iter()
            .map(|value| Output {
                name: value.name.clone(),
                shape: shape_of(value),
                meaning: vec!["a number".into()],
            })
            .collect(),
        provenance: Provenance {
            source: "test".into(),
            training: "none: random weights".into(),
            seed: 0,
            ..Provenance::default()
        },
    };
    Files { onnx, card }
}

pub(crate) fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

pub(crate) fn value(name: &str, shape: &[usize]) -> ValueInfoProto {
    let dim = shape
        .iter()
        .map(|&dim| tensor_shape_proto::Dimension {
            denotation: String::new(),
            value: Some(tensor_shape_proto::dimension::Value::DimValue(dim as i64)),
        })
        .collect();
    ValueInfoProto {
        name: name.into(),
        r#type: Some(TypeProto {
            denotation: String::new(),
            value: Some(type_proto::Value::TensorType(type_proto::Tensor {
                elem_type: DataType::Float as i32,
                shape: Some(TensorShapeProto { dim }),
            })),
        }),
        doc_string: String::new(),
    }
}

fn shape_of(value: &ValueInfoProto) -> Vec<usize> {
    let type_proto::Value::TensorType(tensor) =
        value.r#type.as_ref().unwrap().value.as_ref().unwrap();
    let dims = &tensor.shape.as_ref().unwrap().dim;
    dims.iter()
        .map(|dim| match dim.value {
            Some(tensor_shape_proto::dimension::Value::DimValue(dim)) => dim as usize,
            _ => 1,
        })
        .collect()
}

pub(crate) fn int(name: &str, i: i64) -> AttributeProto {
    AttributeProto {
        name: name.into(),
        r#type: AttributeType::Int as i32,
        i,
        ..Default::default()
    }
}

pub(crate) fn float(name: &str, f: f32) -> AttributeProto {
    AttributeProto {
        name: name.into(),
        r#type: AttributeType::Float as i32,
        f,
        ..Default::default()
    }
}

pub(crate) fn ints(name: &str, ints: &[i64]) -> AttributeProto {
    AttributeProto {
        name: name.into(),
        r#type: AttributeType::Ints as i32,
        ints: ints.to_vec(),
        ..Default::default()
    }
}

/// Whether two engines' outputs agree within `1e-5` of the larger, or of 1 where both are smaller.
pub(crate) fn agree(a: &[f32], b: &[f32]) -> bool {
    a.len() == b.len()
        && a.iter()
            .zip(b)
            .all(|(&a, &b)| (a - b).abs() <= 1e-5 * a.abs().max(b.abs()).max(1.0))
}
