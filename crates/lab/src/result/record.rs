//! The lines of a results file: the experiment and its runs.

use std::collections::BTreeMap;

use mpquic_proto::PathStart;
use mpquic_proto::congestion::SlowStart;
use serde::{Deserialize, Serialize};

use crate::file::experiment::{Claim, Experiment, PaperNumber, SchedulerSpec, Seeds, TimelineSpec};
use crate::file::network::{NetworkSpec, Parameter, start_name};
use crate::plan::shard::Share;
use crate::plan::{CellId, FORMAT};
use crate::run::metrics::{self, MetricInfo};

/// The first line: the parts of the experiment that tables and reports need.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Heading {
    /// The version of the format.
    pub format: u32,
    /// The identity of the build that made the results ([`Schedulers::build`]).
    ///
    /// [`Schedulers::build`]: crate::Schedulers::build
    pub build: String,
    /// A hash of the experiment, its traces and what it includes, and of the cells that were asked for; empty in older results.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub experiment: String,
    /// The part of the runs that the file has; `None`: all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shard: Option<Share>,
    /// See [`Experiment`], also for the fields that follow.
    pub name: String,
    /// The title, one line.
    pub title: String,
    /// What the experiment is about.
    pub about: String,
    /// Where the experiment comes from.
    pub source: String,
    /// The expected result.
    pub expect: String,
    /// The seeds.
    pub seeds: Seeds,
    /// The networks.
    pub networks: Vec<NetworkInfo>,
    /// The workloads.
    pub workloads: Vec<WorkloadInfo>,
    /// The congestion controls' names.
    pub congestion: Vec<String>,
    /// The schedulers.
    pub schedulers: Vec<SchedulerSpec>,
    /// The short form of the training workload; empty: the measured workload.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub training_workload: String,
    /// The label of the scheduler that the others are compared with.
    pub baseline: String,
    /// The metrics to show, the headline first; empty: the workload's primary metric.
    pub metrics: Vec<String>,
    /// The numbers of the papers.
    pub paper: Vec<PaperNumber>,
    /// The statements of the papers.
    pub claims: Vec<Claim>,
    /// The runs with time lines.
    pub timeline: Option<TimelineSpec>,
}

/// The parts of a network that reports need.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NetworkInfo {
    /// Its name.
    pub name: String,
    /// The description that the network comes from.
    pub set: String,
    /// The values in which it differs from the others of its set.
    pub parameters: Vec<Parameter>,
    /// Its paths in words.
    pub description: String,
    /// The network without how the connection starts, if several networks differ only in that.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub twin: String,
    /// The combinations of workload and scheduler that run here; 0 stands for all.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cells: usize,
    /// The number of the path that carries the handshake, from 1; 0 stands for 1.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub handshake: usize,
    /// What the handshake must be before the other paths are opened, and whether data goes ahead of the validation; empty
    /// stands for `confirmed`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub start: String,
    /// The handshake begins on all paths at once.
    #[serde(default, skip_serializing_if = "is_off")]
    pub race: bool,
    /// When a link changed for the last time by plan, seconds from the start of the run; 0 if none did.
    #[serde(default, skip_serializing_if = "is_never")]
    pub changed: f64,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde hands over a reference"
)]
fn is_never(seconds: &f64) -> bool {
    *seconds == 0.0
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde hands over a reference"
)]
const fn is_off(flag: &bool) -> bool {
    !*flag
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde hands over a reference"
)]
const fn is_zero(number: &usize) -> bool {
    *number == 0
}

/// The parts of a workload that reports need.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WorkloadInfo {
    /// Its short form.
    pub name: String,
    /// The name of its primary metric.
    pub primary: String,
    /// All its metrics.
    pub metrics: Vec<MetricInfo>,
}

/// How a network's connection starts, for tables; empty for the start of before.
fn start_label(network: &NetworkSpec) -> String {
    let rapid = network.slow_start != SlowStart::HyStartPlusPlus;
    let parts = [
        (network.race, "race"),
        (network.early_path_data, "early data"),
        (rapid, network.slow_start.name()),
        (network.memory, "memory"),
        (network.memory && !network.tokens, "no tokens"),
    ];
    let mut label = start_name(network.start).to_owned();
    for (_, part) in parts.iter().filter(|part| part.0) {
        label += &format!(", {part}");
    }
    if label == start_name(PathStart::Confirmed) {
        label.clear();
    }
    label
}

impl Heading {
    /// The heading of an experiment that a build runs, all of it. What depends on the cells that were asked for is empty.
    pub fn new(experiment: &Experiment, build: &str) -> Self {
        let networks = experiment.networks.iter().map(|network| NetworkInfo {
            name: network.name.clone(),
            set: network.set.clone(),
            parameters: network.parameters.clone(),
            description: network.describe(),
            twin: match network.twin == network.name {
                true => String::new(),
                false => network.twin.clone(),
            },
            cells: {
                let workloads = match network.workloads.len() {
                    0 => experiment.workloads.len(),
                    some => some,
                };
                let schedulers = match network.schedulers.len() {
                    0 => experiment.schedulers.len(),
                    some => some,
                };
                workloads * schedulers
            },
            handshake: match network.handshake {
                0 => 0,
                number => number + 1,
            },
            start: start_label(network),
            race: network.race,
            changed: network.last_change().as_secs_f64(),
        });
        let workloads = experiment.workloads.iter().map(|workload| WorkloadInfo {
            name: workload.to_string(),
            primary: workload.primary().name.to_owned(),
            metrics: workload.metrics().iter().map(MetricInfo::from).collect(),
        });
        Self {
            format: FORMAT,
            build: build.to_owned(),
            experiment: String::new(),
            shard: None,
            name: experiment.name.clone(),
            title: experiment.title.clone(),
            about: experiment.about.clone(),
            source: experiment.source.clone(),
            expect: experiment.expect.clone(),
            seeds: experiment.seeds,
            networks: networks.collect(),
            workloads: workloads.collect(),
            congestion: experiment
                .congestion
                .iter()
                .map(ToString::to_string)
                .collect(),
            schedulers: experiment.schedulers.clone(),
            training_workload: experiment
                .training_workload
                .as_ref()
                .map_or_else(String::new, ToString::to_string),
            baseline: experiment.baseline.clone(),
            metrics: experiment.metrics.clone(),
            paper: experiment.paper.clone(),
            claims: experiment.claims.clone(),
            timeline: experiment.timeline.clone(),
        }
    }

    /// The metrics to show for a workload, the headline first.
    pub fn metrics_of(&self, workload: &WorkloadInfo) -> Vec<MetricInfo> {
        let mut names: Vec<_> = self.metrics.iter().map(String::as_str).collect();
        if !names.contains(&workload.primary.as_str()) {
            names.push(&workload.primary);
        }
        let known = names.into_iter();
        known
            .filter_map(|name| metrics::find(&workload.metrics, name))
            .collect()
    }
}

/// One run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// The fingerprint of its cell.
    pub cell: String,
    /// The network's name.
    pub network: String,
    /// The workload's short form.
    pub workload: String,
    /// The congestion control's name.
    pub congestion: String,
    /// The scheduler's label.
    pub scheduler: String,
    /// The seed.
    pub seed: u64,
    /// The result.
    #[serde(flatten)]
    pub outcome: Outcome,
}

impl Record {
    /// The names of the run's cell.
    pub fn id(&self) -> CellId {
        CellId {
            network: self.network.clone(),
            workload: self.workload.clone(),
            congestion: self.congestion.clone(),
            scheduler: self.scheduler.clone(),
        }
    }

    /// Drops the values behind the metrics.
    pub(crate) fn slim(&mut self) {
        if let Outcome::Done(measured) = &mut self.outcome {
            measured.series.clear();
        }
    }

    /// The measurements, unless the run failed.
    pub const fn measured(&self) -> Option<&Measured> {
        match &self.outcome {
            Outcome::Done(measured) => Some(measured),
            Outcome::Failed { .. } => None,
        }
    }
}

/// The result of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Outcome {
    /// The run succeeded.
    Done(Measured),
    /// The run failed.
    Failed {
        /// Why.
        error: String,
    },
}

/// The measurements of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// The workload's primary metric.
    pub value: f64,
    /// The fluid bounds of metrics, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub bounds: BTreeMap<String, f64>,
    /// All metrics, by name.
    pub values: BTreeMap<String, f64>,
    /// The values behind the metrics.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub series: BTreeMap<String, Vec<f64>>,
    /// The hash of the whole run, hexadecimal.
    pub trace_hash: String,
}
