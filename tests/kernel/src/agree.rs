//! Runs the cells of an experiment file in the lab and over kernel links.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use mpquic_lab::{Cell, Experiment, NetworkSpec, Pattern, Plan, SchedulerSpec, runner};
use mpquic_sched::Registry;
use mpquic_sim::workload::Workload;

use crate::Fault;
use crate::ours;
use crate::place::{Place, PlaceError};
use crate::report::{Kind, Report, Row};
use crate::tcp::{self, Kernel};

/// What is run.
#[derive(Debug, Clone)]
pub struct Options {
    /// Only cells whose names match.
    pub only: Option<Pattern>,
    /// The number of downloads per cell over kernel links.
    pub runs: u32,
    /// Whether TCP and MPTCP run, too.
    pub tcp: bool,
    /// The time at a link's rate that its token bucket holds; it holds two packets at least.
    pub bucket: Duration,
    /// The largest relative difference of the medians that counts as agreement.
    pub tolerance: f64,
}

/// Who downloads.
enum Who {
    Ours(Box<mpquic::TransportConfig>),
    Kernel(Kernel),
}

/// Runs an experiment, and tells of each download as it ends: who, and the seconds. Schedulers named `single` stand for TCP on that
/// path.
///
/// # Errors
///
/// If the file has what this cannot do, if the machine cannot have such a network, or if a download fails.
pub fn agree(
    file: &Path,
    options: &Options,
    mut tell: impl FnMut(&Row, f64),
) -> Result<Report, Fault> {
    let experiment = Experiment::load(file)?;
    let plan = Plan::new(&experiment, options.only.as_ref());
    if plan.is_empty() {
        return Err(Fault::Cell(
            file.display().to_string(),
            "nothing of it is selected".to_owned(),
        ));
    }
    let predicted = predictions(&plan)?;
    let mut rows = Vec::new();
    let mut no_mptcp = None;
    for network in &experiment.networks {
        let cells: Vec<_> = plan
            .cells
            .iter()
            .filter(|cell| cell.id.network == network.name)
            .collect();
        if cells.is_empty() {
            continue;
        }
        let links: Vec<_> = network
            .paths
            .iter()
            .map(|path| (path.up.clone(), path.down.clone()))
            .collect();
        let place = Place::new(std::process::id(), options.bucket, &links)?;
        let mut runs = Vec::new();
        for cell in cells {
            let predicted = &predicted[&cell.id];
            for (kind, who) in contestants(&experiment, network, cell, options, &place)? {
                let row = Row {
                    network: network.name.clone(),
                    paths: network.describe(),
                    workload: cell.id.workload.clone(),
                    congestion: cell.id.congestion.clone(),
                    scheduler: cell.id.scheduler.clone(),
                    kind,
                    predicted: predicted.clone(),
                    measured: Vec::new(),
                };
                runs.push((row, who, size(&experiment, cell)?));
            }
        }
        no_mptcp = place.no_mptcp().map(PlaceError::to_string);
        // In turns, so that other load on the machine affects all of them equally.
        for _ in 0..options.runs {
            for (row, who, bytes) in &mut runs {
                let took = match who {
                    Who::Ours(transport) => ours::download(&place, transport, *bytes)?,
                    Who::Kernel(kernel) => tcp::download(&place, *kernel, *bytes)?,
                };
                row.measured.push(took.as_secs_f64());
                tell(row, took.as_secs_f64());
            }
        }
        rows.extend(runs.into_iter().map(|(row, ..)| row));
    }
    Ok(Report {
        rows,
        tolerance: options.tolerance,
        no_mptcp,
    })
}

type Predictions = BTreeMap<mpquic_lab::CellId, Vec<f64>>;

/// The lab's seconds for each cell, one per seed.
fn predictions(plan: &Plan<'_>) -> Result<Predictions, Fault> {
    let mut predicted = Predictions::new();
    let mut failed = None;
    runner::run(
        plan,
        runner::Options::default(),
        |_, _| false,
        |record| {
            match record.measured() {
                Some(measured) => predicted
                    .entry(record.id())
                    .or_default()
                    .push(measured.value),
                None => failed = Some((record.id().to_string(), format!("{:?}", record.outcome))),
            }
            Ok(())
        },
    )?;
    match failed {
        None => Ok(predicted),
        Some((cell, why)) => Err(Fault::Cell(cell, why)),
    }
}

fn unsupported(cell: &Cell<'_>, why: &str) -> Fault {
    Fault::Cell(cell.id.to_string(), why.to_owned())
}

fn size(experiment: &Experiment, cell: &Cell<'_>) -> Result<u64, Fault> {
    let mut workloads = experiment.workloads.iter();
    let workload = workloads.find(|workload| workload.to_string() == cell.id.workload);
    match workload {
        Some(Workload::File(file)) if !file.warm => Ok(file.size),
        _ => Err(unsupported(cell, "only downloads of files can be run")),
    }
}

/// Who runs this cell over kernel links.
fn contestants(
    experiment: &Experiment,
    network: &NetworkSpec,
    cell: &Cell<'_>,
    options: &Options,
    place: &Place,
) -> Result<Vec<(Kind, Who)>, Fault> {
    if network.race || network.handshake != 0 || network.memory {
        return Err(unsupported(
            cell,
            "the handshake must be on the first path, without a race and without memory",
        ));
    }
    let is_tcp = options.tcp && cell.id.congestion == tcp::CONGESTION;
    let of = |spec: &&SchedulerSpec| spec.label == cell.id.scheduler;
    let Some(scheduler) = experiment.schedulers.iter().find(of) else {
        return Err(unsupported(cell, "no such scheduler"));
    };
    if scheduler.name == "single" {
        let path = scheduler.config["path"]
            .as_u64()
            .and_then(|path| usize::try_from(path).ok());
        let Some(path) = path.filter(|&path| path < place.paths()) else {
            return Err(unsupported(cell, "the path must be a number"));
        };
        let tcp = (Kind::Tcp, Who::Kernel(Kernel::Tcp(path)));
        return Ok(Vec::from_iter(is_tcp.then_some(tcp)));
    }
    let factory = Registry::new().factory(&scheduler.name, &scheduler.config)?;
    let congestion = experiment
        .congestion
        .iter()
        .find(|control| control.to_string() == cell.id.congestion);
    let Some(&congestion) = congestion else {
        return Err(unsupported(cell, "no such congestion control"));
    };
    let transport = network.transport(congestion, factory)?;
    let mut contestants = vec![(Kind::Ours, Who::Ours(Box::new(transport)))];
    if is_tcp && place.no_mptcp().is_none() {
        contestants.push((Kind::Mptcp, Who::Kernel(Kernel::Mptcp)));
    }
    Ok(contestants)
}
