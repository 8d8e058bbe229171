//! The lab: runs experiment files over simulated networks, in parallel and resumable, with
//! statistics, comparisons and reports. The networks themselves are `mpquic-sim`'s.
//!
//! An [`Experiment`] is read from a file, a [`Plan`] is all of its runs, [`runner::run`] executes them, [`Results`] reads what
//! they left, and a [`Board`] and [`check_claims`] say what came of it. [`cli`] is the program `mpquic-lab`, for a program with
//! [`Schedulers`] of its own, too.
#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]

mod adaptation;
mod arena;
mod build;
pub mod cli;
mod compare;
mod curves;
mod experiment;
mod file;
mod help;
mod learned;
mod listing;
mod look;
mod markdown;
mod merge;
mod metrics;
pub mod mobile;
mod network;
mod oracle;
mod orders;
mod output;
mod pattern;
mod plan;
mod prior;
mod qlogs;
mod record;
mod renamed;
mod report;
mod roster;
pub mod runner;
mod sampling;
mod scaffold;
mod scenario;
mod setup;
mod shard;
mod split;
mod starts;
pub mod statistics;
pub mod store;
mod summary;
mod sweep;
mod terminal;
mod text;
mod time;
mod timelines;
mod trace;
mod training;

pub use compare::{Case, Checked, Comparison, Finding, Outcome as ClaimOutcome, check_claims};
pub use experiment::{
    AddError, Claim, Experiment, FileError, PaperNumber, SchedulerSpec, Seeds, Selector,
    TimelineSpec,
};
pub use merge::{MergeError, merge};
pub use metrics::MetricInfo;
pub use network::{Earlier, NetworkSpec, Parameter, PathSpec, SharedSpec};
pub use output::{summary_table, write_csv};
pub use pattern::{Pattern, PatternError};
pub use plan::{Cell, CellId, Plan};
pub use record::{Heading, Measured, NetworkInfo, Outcome, Record, WorkloadInfo};
pub use roster::Schedulers;
pub use shard::{Shard, ShardError, Share};
pub use store::{Found, Results, Store};
pub use summary::{Board, Group, PaperValue, Summary};
pub use sweep::Sweep;
