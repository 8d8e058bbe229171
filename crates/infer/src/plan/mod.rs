//! The compiled plan: a flat list of kernels over one arena that was sized at load. Owns what a run touches; `lower`
//! makes it from tract's graph, `step` runs it.

mod kernel;
mod lanes;
mod lower;
mod memory;
mod step;
mod view;

use std::{ops::Range, sync::Arc};

use tract_onnx::prelude::TypedModel;

use self::{memory::Aligned, step::Step};
use crate::Vectors;

pub(crate) use lanes::available;

/// Why a graph has no compiled plan. It still runs, through tract.
#[derive(Debug, Clone, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
#[error("{node}: no kernel for {what}")]
pub struct Unplanned {
    /// The node, as tract names it.
    pub node: String,
    /// What there is no kernel for.
    pub what: String,
}

/// A graph as a list of kernel calls, and the memory that they work in.
#[derive(Clone)]
pub(crate) struct Plan {
    code: Arc<Code>,
    arena: Aligned,
}

/// What instances of a plan share.
struct Code {
    vectors: Vectors,
    steps: Vec<Step>,
    weights: Aligned,
    inputs: Range<usize>,
    outputs: Range<usize>,
}

impl Plan {
    /// `vectors` as `available` gives them.
    pub(crate) fn compile(graph: &TypedModel, vectors: Vectors) -> Result<Self, Unplanned> {
        let lowered = lower::lower(graph, vectors)?;
        Ok(Self {
            code: Arc::new(Code {
                vectors,
                steps: lowered.steps,
                weights: Aligned::new(&lowered.weights),
                inputs: lowered.inputs,
                outputs: lowered.outputs,
            }),
            arena: Aligned::new(&lowered.arena),
        })
    }

    pub(crate) fn vectors(&self) -> Vectors {
        self.code.vectors
    }

    /// Where the inputs go, one after another.
    pub(crate) fn inputs(&mut self) -> &mut [f32] {
        &mut self.arena[self.code.inputs.clone()]
    }

    /// The outputs for the inputs that are in place, one after another.
    pub(crate) fn run(&mut self) -> &[f32] {
        let code = &*self.code;
        lanes::execute(code.vectors, &code.steps, &code.weights, &mut self.arena);
        &self.arena[code.outputs.clone()]
    }
}
