//! Sorts runs into cells and boils each cell down to its figures; compares nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::Hasher as _;

use rayon::iter::{IntoParallelRefIterator as _, ParallelIterator as _};
use serde::Serialize;
use siphasher::sip128::{Hasher128 as _, SipHasher13};

use super::metrics::MetricInfo;
use super::plan::CellId;
use super::record::{Heading, NetworkInfo, Record, WorkloadInfo};
use super::statistics;
use super::store::Results;

/// The seed of all bootstraps: ours, any would do.
pub(crate) const BOOTSTRAP_SEED: u64 = 1;

/// What is compared with each other: one network, workload and congestion control, with all its
/// schedulers.
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
    /// One of its cells.
    pub fn cell(&self, scheduler: &str) -> CellId {
        CellId {
            network: self.network.name.clone(),
            workload: self.workload.name.clone(),
            congestion: self.congestion.to_owned(),
            scheduler: scheduler.to_owned(),
        }
    }

    /// Its names, without those that all groups have in common.
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

/// Runs by cell.
#[derive(Debug)]
pub struct Board<'a> {
    /// The experiment.
    pub heading: &'a Heading,
    /// In ascending order of seeds.
    cells: BTreeMap<CellId, Vec<&'a Record>>,
}

impl<'a> Board<'a> {
    /// Of all results.
    pub fn new(results: &'a Results) -> Self {
        Self::of(results, |_| true)
    }

    /// Of the results that `wanted` wants.
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

    /// How many different seeds there are results of.
    pub fn seeds(&self) -> usize {
        let records = self.cells.values().flatten();
        let seeds: BTreeSet<_> = records.map(|record| record.seed).collect();
        seeds.len()
    }

    /// The groups that have results, in the order of the experiment.
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

    /// The labels of a group's schedulers that have results, in the order of the experiment.
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

    /// A metric's values of a cell, with their seeds; runs that failed have none.
    pub fn values(&self, cell: &CellId, metric: &str) -> Vec<(u64, f64)> {
        let records = self.records(cell).iter();
        records
            .filter_map(|record| Some((record.seed, *record.measured()?.values.get(metric)?)))
            .collect()
    }

    /// As [`values`](Self::values), without the seeds.
    pub fn plain_values(&self, cell: &CellId, metric: &str) -> Vec<f64> {
        let values = self.values(cell, metric).into_iter();
        values.map(|(_, value)| value).collect()
    }

    /// All failed runs: their cell, seed and fault.
    pub fn failures(&self) -> impl Iterator<Item = (&CellId, u64, &str)> {
        self.cells.iter().flat_map(|(id, records)| {
            records
                .iter()
                .filter_map(move |record| match &record.outcome {
                    super::record::Outcome::Failed { error } => Some((id, record.seed, &**error)),
                    super::record::Outcome::Done(_) => None,
                })
        })
    }

    /// The figures of all cells, in the order of the experiment, for each cell the workload's metrics
    /// that are to be shown.
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

    /// What a paper gives for a cell.
    pub(crate) fn paper(
        &self,
        group: &Group<'_>,
        scheduler: &str,
        metric: &str,
    ) -> Option<PaperValue> {
        let number = self.heading.paper.iter().find(|number| {
            let of = if number.metric.is_empty() {
                // The headline.
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

impl super::experiment::Selector {
    /// Whether it selects a group.
    pub fn selects(&self, group: &Group<'_>) -> bool {
        let matches = |pattern: &str, name: &str| {
            // Checked when the experiment was read.
            pattern
                .parse::<super::Pattern>()
                .is_ok_and(|pattern| pattern.matches(name))
        };
        matches(&self.network, &group.network.name)
            && matches(&self.workload, &group.workload.name)
            && matches(&self.congestion, group.congestion)
    }
}

/// JSON has no word for what is not a number.
fn known(value: f64) -> Option<f64> {
    value.is_finite().then_some(value)
}

/// One hash of all runs of a cell, whatever the order in which they ended.
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

/// The figures of a cell over its seeds.
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
    /// What is measured.
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
    /// The median of value over fluid bound; at least 1 where less is better, at most 1 where more is.
    pub bound_ratio: Option<f64>,
    /// Runs that ended well.
    pub seeds: usize,
    /// Runs that did not.
    pub failed: usize,
    /// Over all its runs.
    pub trace_hash: String,
    /// What a paper gives.
    pub paper: Option<PaperValue>,
}

/// A paper's number for a cell.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PaperValue {
    /// The number.
    pub value: f64,
    /// Where it stands.
    pub source: String,
}
