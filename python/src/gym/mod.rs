//! The module `mpquic_lab.gym`: schedulers stepped one decision at a time, whole runs, and policies as the sender runs them.
//!
//! Nothing here is a model of a scheduler: what a trainer steps is the scheduler itself, in the simulator's server, with
//! a policy whose answers come from Python ([`remote`]).

mod description;
mod episode;
mod kind;
mod outcome;
mod policy;
mod remote;
mod run;
mod session;

use pyo3::prelude::*;

/// What `mpquic_lab.gym` takes from here.
pub(crate) fn module<'py>(py: Python<'py>) -> PyResult<Bound<'py, PyModule>> {
    let module = PyModule::new(py, "gym")?;
    module.add("KINDS", kind::Kind::NAMES.to_vec())?;
    module.add_class::<session::Session>()?;
    module.add_class::<policy::Policy>()?;
    module.add_function(wrap_pyfunction!(episode::run_episode, &module)?)?;
    module.add_function(wrap_pyfunction!(kind::describe, &module)?)?;
    Ok(module)
}
