//! An experiment file: networks x workloads x schedulers x congestion controls x seeds, parsed and checked.

mod network;
mod parse;
mod path;
mod reader;
mod scheduler;
mod sources;
#[cfg(test)]
mod tests;
mod vary;

use mpquic_proto::CongestionControl;
use mpquic_sched::RegistryError;
use serde::{Deserialize, Serialize};
use thiserror::Error;

pub use reader::FileError;

use mpquic_sim::workload::Workload;

use crate::Schedulers;
use crate::file;
use crate::file::network::{NetworkSpec, Parameter};
use crate::run::oracle;

/// A scheduler with its configuration and its label in the results.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SchedulerSpec {
    /// Unique in the experiment. The scheduler's name unless the file gives another label.
    pub label: String,
    /// The name in the registry.
    pub name: String,
    /// The configuration for the registry.
    pub config: serde_json::Value,
    /// The number of training runs before each measured run; 0 for schedulers that do not learn.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub training: u32,
    /// The label of the entry with `vary` that this scheduler comes from; empty if there is none.
    /// The members of a family differ in `parameters`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub family: String,
    /// The values in which it differs from the others of its family.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parameters: Vec<Parameter>,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde hands over a reference"
)]
const fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// The seeds `first`, `first + 1`, and so on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seeds {
    /// The first.
    pub first: u64,
    /// The number of seeds.
    pub count: u64,
}

/// Selects cells. An empty field matches everything; otherwise it is a pattern as for `--only`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Selector {
    /// A pattern for the network's name.
    pub network: String,
    /// A pattern for the workload's name.
    pub workload: String,
    /// A pattern for the congestion control's name.
    pub congestion: String,
}

/// A number that a paper gives for a cell.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PaperNumber {
    /// The cells.
    pub cells: Selector,
    /// The scheduler's label.
    pub scheduler: String,
    /// The metric; empty: the headline's.
    pub metric: String,
    /// The number, in the metric's unit.
    pub value: f64,
    /// Where the paper gives it.
    pub source: String,
}

/// A paper's statement about schedulers, which is checked against the results.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Claim {
    /// The statement in short.
    pub text: String,
    /// Where the paper makes it.
    pub source: String,
    /// The cells.
    pub cells: Selector,
    /// The metric; empty: the headline's.
    pub metric: String,
    /// The labels of the schedulers that should be better.
    pub better: Vec<String>,
    /// The labels of the schedulers that should be worse than those.
    pub worse: Vec<String>,
    /// The labels of the schedulers that should be similar.
    pub similar: Vec<String>,
    /// The difference in percent, if the paper gives one.
    pub by_percent: Option<f64>,
}

/// The runs whose time lines are recorded.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TimelineSpec {
    /// The seed.
    pub seed: u64,
    /// Patterns of network names; empty: all networks.
    pub networks: Vec<String>,
    /// Labels of schedulers; empty: all schedulers.
    pub schedulers: Vec<String>,
    /// The thinning interval in milliseconds.
    pub interval_ms: f64,
}

/// An experiment, parsed and checked.
#[derive(Debug, Clone)]
pub struct Experiment {
    /// The file's path below the folder `experiments`, with slashes and without its ending. For a
    /// file elsewhere, its name without the ending.
    pub name: String,
    /// The title, one line.
    pub title: String,
    /// What the experiment is about, and our choices where the source gives no details.
    pub about: String,
    /// The paper and its figure or table.
    pub source: String,
    /// The expected result in words.
    pub expect: String,
    /// The seeds, the same for every scheduler.
    pub seeds: Seeds,
    /// All networks, made from the descriptions.
    pub networks: Vec<NetworkSpec>,
    /// The workloads.
    pub workloads: Vec<Workload>,
    /// The schedulers.
    pub schedulers: Vec<SchedulerSpec>,
    /// The training workload; `None`: the measured workload.
    pub training_workload: Option<Workload>,
    /// The congestion controls.
    pub congestion: Vec<CongestionControl>,
    /// The label of the scheduler that the others are compared with.
    pub baseline: String,
    /// The metrics of tables and plots, the headline first; empty: the workload's primary metric.
    pub metrics: Vec<String>,
    /// The numbers of the papers.
    pub paper: Vec<PaperNumber>,
    /// The statements of the papers.
    pub claims: Vec<Claim>,
    /// The time lines to record.
    pub timeline: Option<TimelineSpec>,
    /// Whether packets are encrypted.
    pub real_aead: bool,
    /// Whether downloads say where their time went.
    pub time_lost: bool,
    /// Where its schedulers come from.
    pub(crate) roster: Schedulers,
}

/// Why a scheduler could not be added to an experiment.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum AddError {
    /// Its label has characters that separate labels.
    #[error("label `{0}`, expected one without /, | and control characters")]
    Characters(String),
    /// Its label is that of another one.
    #[error("a second scheduler is called `{0}`, expected a `label` that differs")]
    Taken(String),
    /// It cannot be made.
    #[error(transparent)]
    Scheduler(#[from] RegistryError),
}

impl Experiment {
    /// Parses the text of an experiment file. `file` is the name in error messages; paths of traces
    /// are relative to its folder.
    ///
    /// # Errors
    ///
    /// The first error in the text.
    pub fn parse(file: &str, text: &str) -> Result<Self, FileError> {
        Self::parse_with(file, text, &Schedulers::default())
    }

    /// The same with schedulers of the program around the lab.
    ///
    /// # Errors
    ///
    /// The first error in the text.
    pub fn parse_with(file: &str, text: &str, schedulers: &Schedulers) -> Result<Self, FileError> {
        parse::experiment(file, text, schedulers)
    }

    /// Reads an experiment file.
    ///
    /// # Errors
    ///
    /// If the file cannot be read, or the first error in it.
    pub fn load(path: &std::path::Path) -> Result<Self, FileError> {
        Self::load_with(path, &Schedulers::default())
    }

    /// The same with schedulers of the program around the lab.
    ///
    /// # Errors
    ///
    /// If the file cannot be read, or the first error in it.
    pub fn load_with(path: &std::path::Path, schedulers: &Schedulers) -> Result<Self, FileError> {
        let name = path.display().to_string();
        match file::read(path, file::EXPERIMENT) {
            Ok(text) => Self::parse_with(&name, &text, schedulers),
            Err(error) => Err(FileError {
                file: name,
                line: 0,
                key: String::new(),
                message: format!("cannot be read: {error}"),
                feature: None,
            }),
        }
    }

    /// The experiment with one network that a command line describes, such as `50Mbit 20ms 0% |
    /// 2Mbit 100ms 1.5%`.
    ///
    /// # Errors
    ///
    /// The first error.
    pub fn of_one_network(
        network: &str,
        workload: &str,
        schedulers: &[String],
        congestion: &[String],
    ) -> Result<Self, FileError> {
        let known = Schedulers::default();
        Self::of_one_network_with(network, workload, schedulers, congestion, &known)
    }

    /// The same with schedulers of the program around the lab, which `known` has.
    ///
    /// # Errors
    ///
    /// The first error.
    pub fn of_one_network_with(
        network: &str,
        workload: &str,
        schedulers: &[String],
        congestion: &[String],
        known: &Schedulers,
    ) -> Result<Self, FileError> {
        parse::one_network(
            network,
            workload,
            schedulers,
            congestion,
            "confirmed",
            known,
        )
    }

    /// The same with a start as in files: `library`, which is what this library ships (`start`, `race`, `slow_start`,
    /// `tail_copies` and `ack_frequency`), `confirmed` or `complete`. The title says which, and the congestion controls.
    ///
    /// # Errors
    ///
    /// The first error.
    pub fn of_one_network_starting(
        network: &str,
        workload: &str,
        schedulers: &[String],
        congestion: &[String],
        start: &str,
        known: &Schedulers,
    ) -> Result<Self, FileError> {
        let mut experiment =
            parse::one_network(network, workload, schedulers, congestion, start, known)?;
        let start = match start {
            "library" => "started as the library does".to_owned(),
            other => format!("start {other}"),
        };
        let controls: Vec<_> = experiment
            .congestion
            .iter()
            .map(ToString::to_string)
            .collect();
        experiment.title = format!("{network}, {start}, {}", controls.join(", "));
        Ok(experiment)
    }

    /// Adds a scheduler to those of the file, in all networks.
    ///
    /// # Errors
    ///
    /// If the label is taken, or has characters that separate labels; if there is no such scheduler, or if it does not take
    /// this configuration.
    pub fn add_scheduler(&mut self, spec: SchedulerSpec) -> Result<(), AddError> {
        let label = &spec.label;
        if label.contains(['/', '|']) || label.contains(char::is_control) {
            return Err(AddError::Characters(label.clone()));
        }
        if self.schedulers.iter().any(|other| other.label == *label) {
            return Err(AddError::Taken(label.clone()));
        }
        // The rates come from each network.
        let config = oracle::told(&spec.config, || vec![1.0], || 0);
        self.roster.registry().build(&spec.name, &config)?;
        for network in &mut self.networks {
            // An empty list stands for all.
            if !network.schedulers.is_empty() {
                network.schedulers.push(label.clone());
            }
        }
        self.schedulers.push(spec);
        Ok(())
    }
}
