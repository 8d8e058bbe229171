//! The simulator as a Python module: schedulers stepped one decision at a time, whole runs, and policies as the sender runs them; trains nothing.
//!
//! `README.md` says how to build it and how to call it. Nothing here is a model of a scheduler: what a trainer steps is
//! the scheduler itself, in the simulator's server, with a policy whose answers come from Python ([`remote`]).
#![forbid(unsafe_code)]

mod description;
mod episode;
mod error;
mod kind;
mod outcome;
mod policy;
mod remote;
mod run;
mod session;

use pyo3::prelude::*;

/// The mpquic simulator: schedulers stepped one decision at a time, whole runs, and policies as the sender runs them.
#[pymodule]
fn mpquic_gym(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add(
        "SimulationError",
        module.py().get_type::<error::SimulationError>(),
    )?;
    module.add("KINDS", kind::Kind::NAMES.to_vec())?;
    module.add_class::<session::Session>()?;
    module.add_class::<policy::Policy>()?;
    module.add_function(wrap_pyfunction!(episode::run_episode, module)?)?;
    module.add_function(wrap_pyfunction!(kind::describe, module)?)
}
