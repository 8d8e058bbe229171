//! The lab: experiments over simulated networks as files, run in parallel and taken up again, with statistics, comparisons and reports. The rooms below do not know each other's insides.

mod experiment;
mod metrics;
mod network;
mod pattern;
mod plan;
mod record;
pub mod runner;
mod sampling;
mod scenario;
mod setup;
pub mod statistics;
pub mod store;
mod text;

pub use experiment::{
    Claim, Experiment, FileError, PaperNumber, SchedulerSpec, Seeds, Selector, TimelineSpec,
};
pub use metrics::MetricInfo;
pub use network::{
    CrossTrafficSpec, DirectionSpec, NetworkSpec, Parameter, PathSpec, SharedSpec, StepSpec,
};
pub use pattern::{Pattern, PatternError};
pub use plan::{Cell, CellId, Plan};
pub use record::{Heading, Measured, NetworkInfo, Outcome, Record, WorkloadInfo};
