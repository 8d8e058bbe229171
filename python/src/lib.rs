//! The lab as a Python module: experiments and their results, single runs with time lines, schedulers written in Python.
//!
//! The package `mpquic_lab` beside this has the names that users see; this is its `_native`. Runs happen here, without the
//! interpreter's lock; what is written in Python is asked for with it.
#![forbid(unsafe_code)]

mod error;
mod experiment;
#[cfg(feature = "neural")]
mod gym;
mod look;
mod results;
mod scheduler;
mod views;
mod waiting;

use pyo3::prelude::*;

#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    module.add("ExperimentError", py.get_type::<error::ExperimentError>())?;
    module.add("SimulationError", py.get_type::<error::SimulationError>())?;
    module.add("NEURAL", cfg!(feature = "neural"))?;
    module.add_class::<experiment::Experiment>()?;
    module.add_class::<experiment::Gathering>()?;
    module.add_class::<results::Results>()?;
    module.add_class::<scheduler::SendPacket>()?;
    module.add_class::<scheduler::Wait>()?;
    views::add_to(module)?;
    #[cfg(feature = "neural")]
    module.add_submodule(&gym::module(py)?)?;
    Ok(())
}
