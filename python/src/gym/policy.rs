//! A policy from a file, run from Python by the engines that senders run it with.

use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use mpquic_infer::{Options, Prefer, Vectors};
use numpy::{AllowTypeChange, PyArray1, PyArray2, PyArrayLike1, PyArrayLike2, PyArrayMethods};
use pyo3::prelude::*;

use crate::error::value_error;

/// A network and its card, loaded for one engine: "fastest", "plan" (no fallback; "plan:avx2", "plan:portable" with no
/// wider vectors than these) or "tract". Inputs are in the card's units; the card's normalisation is done here.
#[pyclass(module = "mpquic_lab.gym")]
pub(crate) struct Policy(Mutex<mpquic_infer::Policy>);

#[pymethods]
impl Policy {
    #[new]
    #[pyo3(signature = (path, engine = "fastest"))]
    fn new(path: PathBuf, engine: &str) -> PyResult<Self> {
        let prefer = match engine {
            "fastest" => Prefer::Fastest,
            "plan" => Prefer::Plan(Vectors::Avx512),
            "plan:avx2" => Prefer::Plan(Vectors::Avx2),
            "plan:portable" => Prefer::Plan(Vectors::Portable),
            "tract" => Prefer::Tract,
            _ => {
                return Err(value_error(format!(
                    "unknown engine \"{engine}\", expected one of fastest, plan, plan:avx2, plan:portable, tract"
                )));
            }
        };
        let options = Options {
            prefer,
            ..Options::default()
        };
        mpquic_infer::Policy::load_with(&path, &options)
            .map(|policy| Self(Mutex::new(policy)))
            .map_err(|error| value_error(format!("{}: {error}", path.display())))
    }

    /// The outputs for one state, both flat.
    fn run<'py>(
        &self,
        py: Python<'py>,
        state: PyArrayLike1<'py, f32, AllowTypeChange>,
    ) -> PyResult<Bound<'py, PyArray1<f32>>> {
        let state: Vec<f32> = state.as_array().iter().copied().collect();
        let mut policy = self.lock();
        let outputs = policy.run(&state).map_err(value_error)?;
        Ok(PyArray1::from_slice(py, outputs))
    }

    /// The outputs for many states, a row each.
    fn run_batch<'py>(
        &self,
        py: Python<'py>,
        states: PyArrayLike2<'py, f32, AllowTypeChange>,
    ) -> PyResult<Bound<'py, PyArray2<f32>>> {
        let states = states.as_array();
        let mut policy = self.lock();
        let (mut state, mut outputs) = (Vec::new(), Vec::new());
        for row in states.rows() {
            state.clear();
            state.extend(row);
            outputs.extend_from_slice(policy.run(&state).map_err(value_error)?);
        }
        let shape = [states.nrows(), policy.card().output_len()];
        PyArray1::from_vec(py, outputs).reshape(shape)
    }

    /// What runs it, as "plan (AVX-512)".
    #[getter]
    fn engine(&self) -> String {
        self.lock().engine().to_string()
    }

    /// Why tract runs it, if it does and a plan was wanted.
    #[getter]
    fn why_no_plan(&self) -> Option<String> {
        self.lock().why_no_plan().map(ToString::to_string)
    }

    /// Elements of a state.
    #[getter]
    fn inputs(&self) -> usize {
        self.lock().card().input_len()
    }

    /// Elements of an answer.
    #[getter]
    fn outputs(&self) -> usize {
        self.lock().card().output_len()
    }
}

impl Policy {
    fn lock(&self) -> MutexGuard<'_, mpquic_infer::Policy> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
