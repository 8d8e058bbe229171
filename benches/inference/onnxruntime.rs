//! onnxruntime beside ours, where a shared library of it is at hand: the variable `ORT_DYLIB_PATH` names it. Measures
//! nothing itself.

use std::env;

use mpquic_infer::Card;
use ort::memory::Allocator;
use ort::session::builder::GraphOptimizationLevel;
use ort::session::{IoBinding, Session};
use ort::value::Tensor;

/// A session with its inputs and its output prepared: the fastest use of it that its Rust binding documents.
pub(crate) struct OnnxRuntime {
    session: Session,
    binding: IoBinding,
    input: String,
    output: String,
    states: Vec<Tensor<f32>>,
}

impl OnnxRuntime {
    /// `None`, with a line that says how to have it, if no library is named.
    ///
    /// # Panics
    ///
    /// If one is named and cannot be loaded, or refuses the network.
    pub(crate) fn load(onnx: &[u8], card: &Card, states: &[Vec<f32>]) -> Option<Self> {
        let Some(library) = env::var_os("ORT_DYLIB_PATH") else {
            println!(
                "no onnxruntime: name its shared library in ORT_DYLIB_PATH to compare with it"
            );
            return None;
        };
        ort::init_from(&library)
            .unwrap_or_else(|error| panic!("ORT_DYLIB_PATH: {error}"))
            .commit();
        // One thread: a batch of one is what a decision is, and threads that spin would take the other core.
        let session = Session::builder()
            .unwrap()
            .with_optimization_level(GraphOptimizationLevel::All)
            .unwrap()
            .with_intra_threads(1)
            .unwrap()
            .with_inter_threads(1)
            .unwrap()
            .commit_from_memory(onnx)
            .unwrap();
        let (input, output) = (card.inputs[0].name.clone(), card.outputs[0].name.clone());
        let shape = |dims: &[usize]| dims.iter().map(|&dim| dim as i64).collect::<Vec<_>>();
        let states = states
            .iter()
            .map(|state| {
                let parts = (shape(&card.inputs[0].shape), state.clone());
                Tensor::from_array(parts).unwrap()
            })
            .collect();
        let mut binding = session.create_binding().unwrap();
        let answer = Tensor::<f32>::new(&Allocator::default(), shape(&card.outputs[0].shape));
        binding.bind_output(&*output, answer.unwrap()).unwrap();
        Some(Self {
            session,
            binding,
            input,
            output,
            states,
        })
    }

    /// The first number of the answer to a state.
    pub(crate) fn run(&mut self, state: usize) -> f32 {
        self.binding
            .bind_input(&*self.input, &self.states[state])
            .unwrap();
        let outputs = self.session.run_binding(&self.binding).unwrap();
        let (_, numbers) = outputs[&*self.output].try_extract_tensor::<f32>().unwrap();
        numbers[0]
    }
}
