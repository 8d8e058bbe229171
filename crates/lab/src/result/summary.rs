//! Groups runs into cells and summarises each cell.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::Hasher as _;

use rayon::iter::{IntoParallelRefIterator as _, ParallelIterator as _};
use serde::Serialize;
use siphasher::sip128::{Hasher128 as _, SipHasher13};

use crate::plan::CellId;
use crate::result::record::{Heading, NetworkInfo, Record, WorkloadInfo};
use crate::result::statistics;
use crate::result::store::Results;
use crate::run::metrics::MetricInfo;

/// The seed of all bootstraps. Any number would do.
pub(crate) const BOOTSTRAP_SEED: u64 = 1;

/// The results that are compared with each other: one network, workload and congestion control,
/// with all its schedulers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Group<'a> {
    /// The network.
    pub network: &'a NetworkInfo,
    /// The workload.
    pub workload: &'a WorkloadInfo,
    /// The congestion control's name.
    pub congestion: &'a str,
}

impl Group<'_> {
    /// The group's cell for this scheduler.
    pub fn cell(&self, scheduler: &str) -> CellId {
        CellId {
            network: self.network.name.clone(),
            workload: self.workload.name.clone(),
            congestion: self.congestion.to_owned(),
            scheduler: scheduler.to_owned(),
        }
    }

    /// The group's names, without those that are the same in all groups.
    pub fn title(&self, heading: &Heading) -> String {
        let mut title = self.network.name.clone();
        if heading.workloads.len() > 1 {
            title += &format!(", {}", self.workload.name);
        }
        if heading.congestion.len() > 1 {
            title += &format!(", {}", self.congestion);
        }
        title
    }
}

/// The runs of an experiment, by cell.
#[derive(Debug)]
pub struct Board<'a> {
    /// The experiment.
    pub heading: &'a Heading,
    /// Sorted by seed.
    cells: BTreeMap<CellId, Vec<&'a Record>>,
}

impl<'a> Board<'a> {
    /// The board of all results.
    pub fn new(results: &'a Results) -> Self {
        Self::of(results, |_| true)
    }

    /// The board of the results for which `wanted` returns true.
    pub fn of(results: &'a Results, wanted: impl Fn(&Record) -> bool) -> Self {
        let mut cells: BTreeMap<CellId, Vec<&Record>> = BTreeMap::new();
        for record in results.records.iter().filter(|record| wanted(record)) {
            cells.entry(record.id()).or_default().push(record);
        }
        for records in cells.values_mut() {
            records.sort_by_key(|record| record.seed);
        }
        Self {
            heading: &results.heading,
            cells,
        }
    }

    /// The number of different seeds in the results.
    pub fn seeds(&self) -> usize {
        let records = self.cells.values().flatten();
        let seeds: BTreeSet<_> = records.map(|record| record.seed).collect();
        seeds.len()
    }

    /// The groups with results, in the order of the experiment.
    pub fn groups(&self) -> Vec<Group<'a>> {
        let heading = self.heading;
        let mut groups = Vec::new();
        for network in &heading.networks {
            for workload in &heading.workloads {
                for congestion in &heading.congestion {
                    let group = Group {
                        network,
                        workload,
                        congestion,
                    };
                    if !self.schedulers(&group).is_empty() {
                        groups.push(group);
                    }
                }
            }
        }
        groups
    }

    /// The labels of a group's schedulers with results, in the order of the experiment.
    pub fn schedulers(&self, group: &Group<'_>) -> Vec<&'a str> {
        let labels = self.heading.schedulers.iter().map(|spec| &*spec.label);
        labels
            .filter(|label| self.cells.contains_key(&group.cell(label)))
            .collect()
    }

    /// The runs of a cell.
    pub fn records(&self, cell: &CellId) -> &[&'a Record] {
        self.cells.get(cell).map_or(&[], Vec::as_slice)
    }

    /// The values of a metric in a cell, with their seeds. Failed runs have no value.
    pub fn values(&self, cell: &CellId, metric: &str) -> Vec<(u64, f64)> {
        let records = self.records(cell).iter();
        records
            .filter_map(|record| Some((record.seed, *record.measured()?.values.get(metric)?)))
            .collect()
    }

    /// The same as [`values`](Self::values) without the seeds.
    pub fn plain_values(&self, cell: &CellId, metric: &str) -> Vec<f64> {
        let values = self.values(cell, metric).into_iter();
        values.map(|(_, value)| value).collect()
    }

    /// All failed runs: cell, seed and error.
    pub fn failures(&self) -> impl Iterator<Item = (&CellId, u64, &str)> {
        self.cells.iter().flat_map(|(id, records)| {
            records
                .iter()
                .filter_map(move |record| match &record.outcome {
                    crate::result::record::Outcome::Failed { error } => {
                        Some((id, record.seed, &**error))
                    }
                    crate::result::record::Outcome::Done(_) => None,
                })
        })
    }

    /// The summaries of all cells, in the order of the experiment, for the workload's metrics to
    /// show.
    pub fn summaries(&self, headline_only: bool) -> Vec<Summary> {
        let mut wanted = Vec::new();
        for group in self.groups() {
            let mut metrics = self.heading.metrics_of(group.workload);
            if headline_only {
                metrics.truncate(1);
            }
            for scheduler in self.schedulers(&group) {
                for metric in &metrics {
                    wanted.push((group.cell(scheduler), group, metric.clone()));
                }
            }
        }
        let summaries = wanted
            .par_iter()
            .map(|(cell, group, metric)| self.summary(cell, group, metric));
        summaries.collect()
    }

    fn summary(&self, cell: &CellId, group: &Group<'_>, metric: &MetricInfo) -> Summary {
        let values = self.plain_values(cell, &metric.name);
        let records = self.records(cell);
        let ratios: Vec<_> = records
            .iter()
            .filter_map(|record| record.measured())
            .filter_map(|run| {
                let bound = run.bounds.get(&metric.name)?;
                (*bound > 0.0).then_some(run.values.get(&metric.name)? / bound)
            })
            .collect();
        Summary {
            scenario: cell.network.clone(),
            workload: cell.workload.clone(),
            scheduler: cell.scheduler.clone(),
            congestion: cell.congestion.clone(),
            metric: metric.name.clone(),
            unit: metric.unit.clone(),
            median: known(statistics::median(&values)),
            mean: known(statistics::mean(&values)),
            p95: known(statistics::quantile(&values, 0.95)),
            ci95: statistics::median_interval(&values, BOOTSTRAP_SEED).map(known),
            bound_ratio: known(statistics::median(&ratios)),
            seeds: values.len(),
            failed: records
                .iter()
                .filter(|record| record.measured().is_none())
                .count(),
            trace_hash: combined_hash(records),
            paper: self.paper(group, &cell.scheduler, &metric.name),
        }
    }

    /// A paper's number for a cell.
    pub(crate) fn paper(
        &self,
        group: &Group<'_>,
        scheduler: &str,
        metric: &str,
    ) -> Option<PaperValue> {
        let number = self.heading.paper.iter().find(|number| {
            let of = if number.metric.is_empty() {
                // The headline metric.
                self.heading
                    .metrics_of(group.workload)
                    .first()
                    .is_some_and(|first| first.name == metric)
            } else {
                number.metric == metric
            };
            of && number.scheduler == scheduler && number.cells.selects(group)
        })?;
        Some(PaperValue {
            value: number.value,
            source: number.source.clone(),
        })
    }
}

impl crate::file::experiment::Selector {
    /// Whether the selector matches a group.
    pub fn selects(&self, group: &Group<'_>) -> bool {
        self.matches(&group.network.name, &group.workload.name, group.congestion)
    }

    /// Whether the selector matches these names.
    pub(crate) fn matches(&self, network: &str, workload: &str, congestion: &str) -> bool {
        let matches = |pattern: &str, name: &str| {
            // The pattern was checked when the experiment was read.
            pattern
                .parse::<crate::Pattern>()
                .is_ok_and(|pattern| pattern.matches(name))
        };
        matches(&self.network, network)
            && matches(&self.workload, workload)
            && matches(&self.congestion, congestion)
    }
}

/// JSON cannot represent NaN or infinity.
fn known(value: f64) -> Option<f64> {
    value.is_finite().then_some(value)
}

/// One hash over all runs of a cell. It does not depend on the order in which they ended.
fn combined_hash(records: &[&Record]) -> String {
    let mut hasher = SipHasher13::new();
    for record in records {
        hasher.write_u64(record.seed);
        if let Some(run) = record.measured() {
            hasher.write(run.trace_hash.as_bytes());
        }
    }
    let hash = hasher.finish128();
    format!("{:016x}{:016x}", hash.h1, hash.h2)
}

/// The summary of a cell over its seeds.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Summary {
    /// The network's name.
    pub scenario: String,
    /// The workload's short form.
    pub workload: String,
    /// The scheduler's label.
    pub scheduler: String,
    /// The congestion control's name.
    pub congestion: String,
    /// The metric.
    pub metric: String,
    /// Its unit.
    pub unit: String,
    /// The median; `None` if all runs failed.
    pub median: Option<f64>,
    /// The mean.
    pub mean: Option<f64>,
    /// The 95th percentile.
    pub p95: Option<f64>,
    /// The 95 % bootstrap interval of the median.
    pub ci95: [Option<f64>; 2],
    /// The median of value divided by fluid bound. At least 1 if less is better, at most 1 if more
    /// is better.
    pub bound_ratio: Option<f64>,
    /// The number of runs that succeeded.
    pub seeds: usize,
    /// The number of runs that failed.
    pub failed: usize,
    /// A hash over all its runs.
    pub trace_hash: String,
    /// The number of a paper.
    pub paper: Option<PaperValue>,
}

/// A paper's number for a cell.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PaperValue {
    /// The number.
    pub value: f64,
    /// Where the paper gives it.
    pub source: String,
}
