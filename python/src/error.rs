//! What can go wrong, as Python exceptions with the Rust message.

use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;

pyo3::create_exception!(
    mpquic_lab,
    ExperimentError,
    PyValueError,
    "An experiment, a network, a workload or a scheduler cannot be as described."
);

pyo3::create_exception!(
    mpquic_lab,
    SimulationError,
    PyRuntimeError,
    "A simulation that was set up could not be run to its end."
);

/// What was asked for cannot be.
pub(crate) fn value_error(error: impl ToString) -> PyErr {
    ExperimentError::new_err(error.to_string())
}

/// A run ended badly.
pub(crate) fn simulation_error(error: impl ToString) -> PyErr {
    SimulationError::new_err(error.to_string())
}
