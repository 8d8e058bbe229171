//! An experiment: networks x workloads x schedulers x congestion controls x seeds, as its file says; reads and checks it, runs nothing.

mod network;
mod parse;
mod path;
mod reader;
mod scheduler;
#[cfg(test)]
mod tests;
mod vary;

use mpquic_proto::CongestionControl;
use serde::{Deserialize, Serialize};

pub use reader::FileError;

use crate::lab::network::{NetworkSpec, Parameter};
use crate::workload::Workload;

/// A scheduler with a configuration, under the name by which results call it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SchedulerSpec {
    /// Unique in the experiment; the name unless the file gives another.
    pub label: String,
    /// In the registry.
    pub name: String,
    /// For the registry.
    pub config: serde_json::Value,
    /// How many runs it learns in before each that is measured; 0 for those that do not learn.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub training: u32,
    /// The label of the entry that it came from with others, which differ in `parameters`; empty if
    /// it is on its own.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub family: String,
    /// What sets it apart from the others of its family.
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

/// Which seeds: `first`, `first + 1`, and so on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seeds {
    /// The first.
    pub first: u64,
    /// How many.
    pub count: u64,
}

/// Which cells something is said of. What is empty matches all; otherwise a pattern as of `--only`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Selector {
    /// Of the network's name.
    pub network: String,
    /// Of the workload's name.
    pub workload: String,
    /// Of the congestion control's name.
    pub congestion: String,
}

/// A number that a paper gives for a cell.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PaperNumber {
    /// The cells.
    pub cells: Selector,
    /// The scheduler's label.
    pub scheduler: String,
    /// The metric; the headline's if the file names none.
    pub metric: String,
    /// The number, in the metric's unit.
    pub value: f64,
    /// Where it stands.
    pub source: String,
}

/// Something that a paper says of schedulers, to be held against the results.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Claim {
    /// The paper's statement in short.
    pub text: String,
    /// Where it stands.
    pub source: String,
    /// The cells.
    pub cells: Selector,
    /// The metric; the headline's if the file names none.
    pub metric: String,
    /// Labels of those that are said to be better,
    pub better: Vec<String>,
    /// than these.
    pub worse: Vec<String>,
    /// Labels of those that are said to be equal.
    pub similar: Vec<String>,
    /// By how many percent, if the paper says so.
    pub by_percent: Option<f64>,
}

/// Of which runs time lines are kept.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TimelineSpec {
    /// The seed.
    pub seed: u64,
    /// Patterns of networks; empty: all.
    pub networks: Vec<String>,
    /// Labels of schedulers; empty: all.
    pub schedulers: Vec<String>,
    /// The thinning interval, milliseconds.
    pub interval_ms: f64,
}

/// An experiment, read and checked.
#[derive(Debug, Clone)]
pub struct Experiment {
    /// The file's path below the folder `experiments`, with slashes and without its ending. For a
    /// file elsewhere, its name without the ending.
    pub name: String,
    /// One line.
    pub title: String,
    /// What it is about, and what was chosen where the source is silent.
    pub about: String,
    /// The paper and its figure or table.
    pub source: String,
    /// What should come out, in words.
    pub expect: String,
    /// The seeds; the same for every scheduler.
    pub seeds: Seeds,
    /// All networks, made out of the descriptions.
    pub networks: Vec<NetworkSpec>,
    /// What is carried over them.
    pub workloads: Vec<Workload>,
    /// Who decides.
    pub schedulers: Vec<SchedulerSpec>,
    /// What schedulers that learn are trained with; nothing: the workload that is measured.
    pub training_workload: Option<Workload>,
    /// What bounds the windows.
    pub congestion: Vec<CongestionControl>,
    /// The label of the scheduler that the others are compared with.
    pub baseline: String,
    /// The metrics of tables and plots, the headline's first; empty: the workload's primary.
    pub metrics: Vec<String>,
    /// What the papers give.
    pub paper: Vec<PaperNumber>,
    /// What the papers say.
    pub claims: Vec<Claim>,
    /// Time lines to keep.
    pub timeline: Option<TimelineSpec>,
    /// Whether packets are really encrypted.
    pub real_aead: bool,
}

impl Experiment {
    /// Reads an experiment from a file's text. `file` is what errors call it; traces are looked up
    /// beside it.
    ///
    /// # Errors
    ///
    /// The first fault.
    pub fn parse(file: &str, text: &str) -> Result<Self, FileError> {
        parse::experiment(file, text)
    }

    /// Reads an experiment file.
    ///
    /// # Errors
    ///
    /// The first fault; that it cannot be read counts as one.
    pub fn load(path: &std::path::Path) -> Result<Self, FileError> {
        let file = path.display().to_string();
        match std::fs::read_to_string(path) {
            Ok(text) => Self::parse(&file, &text),
            Err(error) => Err(FileError {
                file,
                line: 0,
                key: String::new(),
                message: format!("cannot be read: {error}"),
            }),
        }
    }

    /// The experiment that a command line describes: one network, a line like
    /// `50Mbit 20ms 0% | 2Mbit 100ms 1.5%`.
    ///
    /// # Errors
    ///
    /// The first fault.
    pub fn of_one_network(
        network: &str,
        workload: &str,
        schedulers: &[String],
        congestion: &[String],
    ) -> Result<Self, FileError> {
        parse::one_network(network, workload, schedulers, congestion)
    }
}
