//! Stores the time lines of the runs that an experiment names, in the folder of its results.

use std::fs;
use std::io;
use std::path::Path;
use std::time::Duration;

use mpquic_sim::Timeline;
use serde::{Deserialize, Serialize};

use crate::file;
use crate::file::experiment::TimelineSpec;
use crate::plan::{Cell, Plan};
use crate::result::record::Record;
use crate::result::store::Results;
use crate::run::scenario;

/// The name of the file in the folder.
const FILE: &str = "timelines.jsonl";
/// The most runs with time lines, so that the report stays readable and small enough for a browser.
const MAX_RUNS: usize = 60;

/// The time lines of one run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct RunTimeline {
    /// The fingerprint of its cell.
    pub(crate) cell: String,
    pub(crate) network: String,
    pub(crate) workload: String,
    pub(crate) congestion: String,
    pub(crate) scheduler: String,
    pub(crate) seed: u64,
    pub(crate) timeline: Timeline,
}

/// Whether the specification names a cell.
fn named(spec: &TimelineSpec, cell: &Cell<'_>) -> bool {
    let network = &cell.id.network;
    let networks = spec
        .networks
        .iter()
        .filter_map(|text| text.parse::<crate::Pattern>().ok());
    let mut networks = networks.peekable();
    (networks.peek().is_none() || networks.any(|pattern| pattern.matches(network)))
        && (spec.schedulers.is_empty() || spec.schedulers.contains(&cell.id.scheduler))
}

/// Repeats the named runs with recording, and writes their time lines. Compares their hashes with
/// the results, which shows whether recording changed a run.
///
/// # Errors
///
/// If a file cannot be written, or if a run gives another result.
pub(crate) fn keep(
    folder: &Path,
    spec: &TimelineSpec,
    plan: &Plan<'_>,
    results: &Results,
) -> io::Result<()> {
    let interval = Duration::from_secs_f64(spec.interval_ms / 1e3);
    let mut lines = String::new();
    let cells = plan.cells.iter().filter(|cell| named(spec, cell));
    for cell in cells.take(MAX_RUNS) {
        let same = |record: &&Record| record.cell == cell.fingerprint && record.seed == spec.seed;
        let record = results.records.iter().find(same);
        let Some(unwatched) = record.and_then(Record::measured) else {
            continue;
        };
        let (timeline, trace_hash) =
            scenario::time_lines(cell, spec.seed, interval).map_err(io::Error::other)?;
        if trace_hash != unwatched.trace_hash {
            let fault = format!(
                "{}, seed {}: recording time lines changed the result",
                cell.id, spec.seed
            );
            return Err(io::Error::other(fault));
        }
        let run = RunTimeline {
            cell: cell.fingerprint.clone(),
            network: cell.id.network.clone(),
            workload: cell.id.workload.clone(),
            congestion: cell.id.congestion.clone(),
            scheduler: cell.id.scheduler.clone(),
            seed: spec.seed,
            timeline,
        };
        lines += &serde_json::to_string(&run)?;
        lines.push('\n');
    }
    fs::write(folder.join(FILE), lines)
}

/// Puts the time lines in several folders together, in the order of the cells, of which these are the fingerprints.
///
/// # Errors
///
/// If a file cannot be read or written, or a line is not a time line.
pub(crate) fn merge<'a>(
    folders: impl Iterator<Item = &'a Path>,
    out: &Path,
    cells: &[String],
) -> io::Result<()> {
    let mut lines = Vec::new();
    for folder in folders {
        let found = match file::lines(&folder.join(FILE), file::RESULTS) {
            Ok(found) => found,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        };
        for line in found {
            let line = line?;
            let run: RunTimeline = serde_json::from_str(&line)?;
            let place = cells.iter().position(|cell| *cell == run.cell);
            lines.push((place, format!("{line}\n")));
        }
    }
    lines.sort_by_key(|(place, _)| *place);
    let text: String = lines.into_iter().map(|(_, line)| line).collect();
    fs::write(out.join(FILE), text)
}

/// The time lines in a folder of results; none if there is no such file.
///
/// # Errors
///
/// If the file cannot be read, or a line is not a time line.
pub(crate) fn read(folder: &Path) -> io::Result<Vec<RunTimeline>> {
    match file::lines(&folder.join(FILE), file::RESULTS) {
        Ok(lines) => lines
            .map(|line| serde_json::from_str(&line?).map_err(io::Error::other))
            .collect(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}
