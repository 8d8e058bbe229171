//! Which engine runs a policy, and the one that hands every graph to tract; the other is `plan`'s.

use std::fmt;

use tract_onnx::prelude::*;

use crate::{Card, card::volume, upper_halves};

/// What runs a policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Engine {
    /// The compiled plan: no allocation, no lock.
    Plan {
        /// The instructions that its kernels use.
        vectors: Vectors,
    },
    /// tract, node by node; it allocates.
    Tract,
}

impl fmt::Display for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Plan { vectors } => write!(f, "plan ({vectors})"),
            Self::Tract => f.write_str("tract"),
        }
    }
}

/// The instructions that a plan's kernels use, narrowest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Vectors {
    /// What every CPU of the target has (SSE2 on x86-64).
    Portable,
    /// AVX2, FMA and BMI1: 8 lanes.
    Avx2,
    /// AVX-512F: 16 lanes.
    Avx512,
}

impl fmt::Display for Vectors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Portable => "portable",
            Self::Avx2 => "AVX2",
            Self::Avx512 => "AVX-512",
        })
    }
}

/// Which engine to load a policy for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Prefer {
    /// The plan with the widest vectors that the CPU has, tract where there is no plan.
    #[default]
    Fastest,
    /// The plan with no wider vectors than these; an error where there is none.
    Plan(Vectors),
    /// tract.
    Tract,
}

/// A graph run by tract.
#[derive(Clone)]
pub(crate) struct Tract {
    state: TypedSimpleState,
    shapes: Vec<Vec<usize>>,
    outputs: Vec<f32>,
}

impl Tract {
    pub(crate) fn new(graph: TypedModel, card: &Card) -> TractResult<Self> {
        let plan = TypedSimplePlan::new(graph.into_optimized()?)?;
        Ok(Self {
            state: plan.spawn()?,
            shapes: card
                .inputs
                .iter()
                .map(|input| input.shape.clone())
                .collect(),
            outputs: vec![0.0; card.output_len()],
        })
    }

    /// `inputs` one after another, as many as the card says.
    pub(crate) fn run(&mut self, inputs: &[f32]) -> TractResult<&[f32]> {
        let result = self.exec(inputs);
        upper_halves::clear();
        result.map(|()| self.outputs.as_slice())
    }

    fn exec(&mut self, inputs: &[f32]) -> TractResult<()> {
        let mut rest = inputs;
        let mut tensors = tvec![];
        for shape in &self.shapes {
            let (own, others) = rest.split_at(volume(shape));
            tensors.push(Tensor::from_shape(shape, own)?.into_tvalue());
            rest = others;
        }
        let results = self.state.run(tensors)?;
        let mut at = 0;
        for result in results {
            let result = result.try_as_plain_ram()?.as_slice::<f32>()?;
            self.outputs[at..at + result.len()].copy_from_slice(result);
            at += result.len();
        }
        Ok(())
    }
}
