//! A whole run with a scheduler from the registry, for evaluation: as the lab does it, without Python in between.

use std::panic::{AssertUnwindSafe, catch_unwind};

use mpquic_proto::CongestionControl;
use mpquic_sched::SchedulerFactory;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use serde_json::Value;

use super::description::{NetworkDescription, config_from_python, from_python};
use super::run::{RunError, Setup};
use crate::error::{simulation_error, value_error};

/// Runs a workload with a scheduler of the registry and returns what it came to:
/// `{"primary", "values", "series", "policy", "trace_hash"}`.
///
/// `scheduler` is a name such as "minrtt", `config` its configuration as a dictionary or JSON text. The client has the
/// same scheduler, as in the lab, unless `client` names another one. The GIL is free meanwhile.
#[pyfunction]
#[pyo3(signature = (scheduler, network, workload, congestion = "olia", seed = 0, config = None, client = None))]
#[expect(clippy::too_many_arguments, reason = "they have names in Python")]
pub(crate) fn run_episode<'py>(
    py: Python<'py>,
    scheduler: &str,
    network: &Bound<'py, PyAny>,
    workload: &str,
    congestion: &str,
    seed: u64,
    config: Option<&Bound<'py, PyAny>>,
    client: Option<&str>,
) -> PyResult<Bound<'py, PyDict>> {
    let network: NetworkDescription = from_python("network", network)?;
    let mut config = config_from_python(config)?;
    network.answer_oracle(&mut config);
    let server = registered(scheduler, config, seed)?;
    let setup = Setup {
        workload: workload.parse().map_err(value_error)?,
        congestion: congestion_from(congestion)?,
        seed,
        client: match client {
            Some(name) => registered(name, Value::Object(serde_json::Map::new()), seed)?,
            None => server.clone(),
        },
        server,
        network,
    };
    setup.check().map_err(value_error)?;
    let run = || setup.run(false, Default::default(), |_| {}, |_| {});
    // Nothing of the run outlives a panic.
    let outcome = py.detach(|| catch_unwind(AssertUnwindSafe(run)));
    let outcome = outcome.unwrap_or_else(|panic| Err(RunError::panicked(&*panic)));
    outcome.map_err(simulation_error)?.to_python(py)
}

/// A scheduler of the registry, with the run's seed where it takes one and was not given any.
pub(crate) fn registered(name: &str, config: Value, seed: u64) -> PyResult<SchedulerFactory> {
    let registry = mpquic_sched_neural::registry();
    if let Value::Object(settings) = &config
        && !settings.contains_key("seed")
    {
        let mut seeded = settings.clone();
        seeded.insert("seed".to_owned(), seed.into());
        if let Ok(factory) = registry.factory(name, &Value::Object(seeded)) {
            return Ok(factory);
        }
    }
    registry.factory(name, &config).map_err(value_error)
}

/// A congestion controller by name.
pub(crate) fn congestion_from(name: &str) -> PyResult<CongestionControl> {
    // What it is called everywhere but in files.
    let known = if name == "bbr" { "bbr3" } else { name };
    known.parse().map_err(value_error)
}
