//! What is written of an experiment and of each of its runs: the lines of a results file; neither reads nor writes files.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::experiment::{Claim, Experiment, PaperNumber, SchedulerSpec, Seeds, TimelineSpec};
use super::metrics::{self, MetricInfo};
use super::network::Parameter;
use super::plan::{CellId, FORMAT};

/// The first line: the experiment, as far as tables and reports need it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Heading {
    /// The version of the lines.
    pub format: u32,
    /// A fingerprint of the program that made the results.
    pub build: String,
    /// See [`Experiment`], and so on.
    pub name: String,
    /// One line.
    pub title: String,
    /// What it is about.
    pub about: String,
    /// Where it comes from.
    pub source: String,
    /// What should come out.
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
    /// The short form of what schedulers that learn are trained with; empty: what is measured.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub training_workload: String,
    /// The label of the one to compare with.
    pub baseline: String,
    /// The metrics to show, the headline's first; empty: the workload's primary one.
    pub metrics: Vec<String>,
    /// The papers' numbers.
    pub paper: Vec<PaperNumber>,
    /// The papers' statements.
    pub claims: Vec<Claim>,
    /// The runs whose time lines were kept.
    pub timeline: Option<TimelineSpec>,
}

/// A network as far as reports need it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NetworkInfo {
    /// Its name.
    pub name: String,
    /// The description that it came from.
    pub set: String,
    /// What sets it apart from its siblings.
    pub parameters: Vec<Parameter>,
    /// Its paths in words.
    pub description: String,
}

/// A workload as far as reports need it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WorkloadInfo {
    /// Its short form.
    pub name: String,
    /// The name of the metric that it is about.
    pub primary: String,
    /// All its metrics.
    pub metrics: Vec<MetricInfo>,
}

impl Heading {
    /// Of an experiment.
    pub fn new(experiment: &Experiment, build: &str) -> Self {
        let networks = experiment.networks.iter().map(|network| NetworkInfo {
            name: network.name.clone(),
            set: network.set.clone(),
            parameters: network.parameters.clone(),
            description: network.describe(),
        });
        let workloads = experiment.workloads.iter().map(|workload| WorkloadInfo {
            name: workload.to_string(),
            primary: workload.primary().name.to_owned(),
            metrics: workload.metrics().iter().map(MetricInfo::from).collect(),
        });
        Self {
            format: FORMAT,
            build: build.to_owned(),
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

    /// The metrics to show of a workload, the headline's first.
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
    /// What came out.
    #[serde(flatten)]
    pub outcome: Outcome,
}

impl Record {
    /// The names of its cell.
    pub fn id(&self) -> CellId {
        CellId {
            network: self.network.clone(),
            workload: self.workload.clone(),
            congestion: self.congestion.clone(),
            scheduler: self.scheduler.clone(),
        }
    }

    /// What was measured, if it did not fail.
    pub const fn measured(&self) -> Option<&Measured> {
        match &self.outcome {
            Outcome::Done(measured) => Some(measured),
            Outcome::Failed { .. } => None,
        }
    }
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Outcome {
    /// Well.
    Done(Measured),
    /// Not at all.
    Failed {
        /// Why.
        error: String,
    },
}

/// What was measured of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// The workload's primary metric.
    pub value: f64,
    /// What metrics could be at best, by name: the fluid bounds.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub bounds: BTreeMap<String, f64>,
    /// All metrics by name.
    pub values: BTreeMap<String, f64>,
    /// What they were made of.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub series: BTreeMap<String, Vec<f64>>,
    /// Of the whole run, hexadecimal.
    pub trace_hash: String,
}
