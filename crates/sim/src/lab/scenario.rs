//! Runs one cell with one seed and writes down what came out; does not know of other runs.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::plan::Cell;
use super::record::{Measured, Outcome, Record};
use super::setup;

/// Runs a cell with a seed. A run that fails, or panics, is a record as well.
pub(crate) fn run(cell: &Cell<'_>, seed: u64) -> Record {
    // Nothing of the run outlives a panic.
    let outcome = match catch_unwind(AssertUnwindSafe(|| measure(cell, seed))) {
        Ok(Ok(measured)) => Outcome::Done(measured),
        Ok(Err(error)) => Outcome::Failed { error },
        Err(panic) => {
            let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
            let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
            let text = text.unwrap_or_default();
            Outcome::Failed {
                error: format!("panicked: {text}"),
            }
        }
    };
    Record {
        cell: cell.fingerprint.clone(),
        network: cell.id.network.clone(),
        workload: cell.id.workload.clone(),
        congestion: cell.id.congestion.clone(),
        scheduler: cell.id.scheduler.clone(),
        seed,
        outcome,
    }
}

fn measure(cell: &Cell<'_>, seed: u64) -> Result<Measured, String> {
    let mut network = setup::network(cell, seed).map_err(|error| error.to_string())?;
    let limit = cell.workload.time_limit();
    let report = network
        .run_to_completion(limit)
        .map_err(|error| error.to_string())?;
    let result = cell
        .workload
        .result(&network)
        .map_err(|error| error.to_string())?;
    let mut values: BTreeMap<String, f64> = result
        .values
        .iter()
        .map(|(name, value)| ((*name).to_owned(), *value))
        .collect();
    let server = &report.server;
    let per_decision = |count: u64| count as f64 / server.decisions.max(1) as f64;
    values.insert("waits".into(), 100.0 * per_decision(server.waits));
    // JSON has no infinities.
    values.retain(|_, value| value.is_finite());
    let series = result
        .series
        .into_iter()
        .map(|(name, values)| (name.to_owned(), values));
    Ok(Measured {
        value: result.primary,
        bound: None,
        values,
        series: series.collect(),
        trace_hash: format!("{:032x}", report.trace_hash),
    })
}
