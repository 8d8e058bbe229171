//! Executes one run: a cell with a seed.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use mpquic_proto::Side;
use mpquic_sim::{Network, Timeline};

use crate::file::network::NetworkSpec;
use crate::plan::Cell;
use crate::result::record::{Measured, Outcome, Record};
use crate::run::learned;
use crate::run::metrics;
use crate::run::setup;
use crate::run::setup::Watch;
use crate::run::time_lost;
use crate::run::training;

/// Executes a cell with a seed. A run that fails or panics gives a record, too, and so does one that `stop` ends.
pub(crate) fn run(cell: &Cell<'_>, seed: u64, stop: Option<&Arc<AtomicBool>>) -> Record {
    let watch = Watch {
        stop,
        ..Watch::default()
    };
    // No state of the run is used after a panic.
    let outcome = match catch_unwind(AssertUnwindSafe(|| measure(cell, seed, watch))) {
        Ok(Ok((measured, _))) => Outcome::Done(measured),
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

/// Executes one run, and returns what is measured of it and the network at its end.
pub(crate) fn measure(
    cell: &Cell<'_>,
    seed: u64,
    watch: Watch<'_>,
) -> Result<(Measured, Network), String> {
    let (mut network, trained, drawn) = prepared(cell, seed, watch)?;
    // The bounds are those of the links as they were drawn.
    let cell = &Cell {
        network: drawn.as_ref().unwrap_or(cell.network),
        ..cell.clone()
    };
    let limit = cell.workload.time_limit();
    let report = network
        .run_to_completion(limit)
        .map_err(|error| error.to_string())?;
    let result = cell
        .workload
        .result(&network)
        .map_err(|error| error.to_string())?;
    let mut values = metrics::of_transport(&network.measurements(), report.completed);
    values.extend(metrics::of_flows(&report));
    let of_workload = result.values.iter();
    values.extend(of_workload.map(|(name, value)| ((*name).to_owned(), *value)));
    if cell.network.memory
        && let Some(server) = network.connection(Side::Server)
    {
        values.extend(metrics::of_resume(server, &cell.network.opened()));
    }
    // The server sends the data.
    if let Some(learned) = network
        .connection(Side::Server)
        .and_then(|connection| connection.scheduler().learned())
    {
        values.extend(learned::figures(&learned, trained));
    }
    let mut bounds = setup::bounds(cell, seed);
    if let Some([requested, completed]) = cell.workload.download_times(&network)
        && let Some(lost) = network.lost_time(requested, completed)
    {
        values.extend(time_lost::of_parts(&lost));
        if let Some(start) = setup::start_bounds(cell) {
            values.extend(time_lost::of_bounds(&start));
            bounds.insert(time_lost::TOTAL, start.round_trips);
        }
    }
    // JSON has no infinities.
    values.retain(|_, value| value.is_finite());
    let bounds = bounds.into_iter();
    let series = result.series.into_iter();
    let measured = Measured {
        value: result.primary,
        bounds: bounds
            .map(|(name, bound)| (name.to_owned(), bound))
            .collect(),
        values,
        series: series
            .map(|(name, values)| (name.to_owned(), values))
            .collect(),
        trace_hash: format!("{:032x}", report.trace_hash),
    };
    Ok((measured, network))
}

/// The network of a measured run, with a trained scheduler if it has training runs, the number of training runs, and the
/// network as its models have drawn it, if it has models.
fn prepared(
    cell: &Cell<'_>,
    seed: u64,
    watch: Watch<'_>,
) -> Result<(Network, u32, Option<NetworkSpec>), String> {
    let trained = training::train(cell, seed, watch.stop)?;
    let network_seed = cell.network_seed(seed);
    let drawn = cell.network.drawn(network_seed);
    let cell = &Cell {
        network: drawn.as_ref().unwrap_or(cell.network),
        ..cell.clone()
    };
    let network = setup::network(cell, cell.workload, network_seed, &trained, watch);
    let network = network.map_err(|error| error.to_string())?;
    Ok((network, trained.runs, drawn))
}

/// Executes a run again and returns its time lines, thinned to an interval. Also returns the trace
/// hash, which must be that of the run without time lines.
pub(crate) fn time_lines(
    cell: &Cell<'_>,
    seed: u64,
    interval: Duration,
) -> Result<(Timeline, String), String> {
    let watch = Watch {
        timeline: Some(interval),
        ..Watch::default()
    };
    let (mut network, ..) = prepared(cell, seed, watch)?;
    let report = network
        .run_to_completion(cell.workload.time_limit())
        .map_err(|error| error.to_string())?;
    let timeline = network.timeline().ok_or("no time lines were kept")?;
    Ok((timeline, format!("{:032x}", report.trace_hash)))
}

/// Executes a run again and writes the qlog of both sides into a folder. Returns the trace hash, which must be that of the
/// run that nobody looked at.
pub(crate) fn write_qlog(cell: &Cell<'_>, seed: u64, folder: &Path) -> Result<String, String> {
    let watch = Watch {
        qlog: Some(folder),
        ..Watch::default()
    };
    let (mut network, ..) = prepared(cell, seed, watch)?;
    let report = network
        .run_to_completion(cell.workload.time_limit())
        .map_err(|error| error.to_string())?;
    Ok(format!("{:032x}", report.trace_hash))
}
