//! The lab: runs experiment files over simulated networks, in parallel and resumable, with
//! statistics, comparisons and reports. The networks themselves are `mpquic-sim`'s.
//!
//! An [`Experiment`] is read from a file, a [`Plan`] is all of its runs, [`runner::run`] executes them, [`Results`] reads what
//! they left, and a [`Board`] and [`check_claims`] say what came of it. [`cli`] is the program `mpquic-lab`, for a program with
//! [`Schedulers`] of its own, too.
#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]

mod command;
mod file;
mod networks;
pub mod own;
mod plan;
pub mod replica;
mod result;
mod run;
mod view;

pub use command::cli;
pub use file::experiment::{
    AddError, Claim, Experiment, FileError, PaperNumber, SchedulerSpec, Seeds, Selector,
    TimelineSpec,
};
pub use file::network::{Earlier, NetworkSpec, Parameter, PathSpec, SharedSpec};
pub use file::pattern::{Pattern, PatternError};
pub use file::scheduler_set::Schedulers;
pub use networks::mobile;
pub use plan::shard::{Shard, ShardError, Share};
pub use plan::sweep::Sweep;
pub use plan::{Cell, CellId, Plan};
pub use result::compare::{
    Case, Checked, Comparison, Finding, Outcome as ClaimOutcome, check_claims,
};
pub use result::merge::{MergeError, merge};
pub use result::record::{Heading, Measured, NetworkInfo, Outcome, Record, WorkloadInfo};
pub use result::store::{Found, Results, Store};
pub use result::summary::{Board, Group, PaperValue, Summary};
pub use result::{statistics, store};
pub use run::metrics::MetricInfo;
pub use run::runner;
pub use view::output::{summary_table, write_csv};
