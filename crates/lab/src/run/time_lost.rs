//! Where the time of downloads went, as metrics and as tables: the parts of
//! [`LostTime`](mpquic_sim::LostTime), beside the bounds that count how a connection starts.

use std::collections::BTreeMap;

use mpquic_sim::workload::Better;
use mpquic_sim::{LostTime, StartBounds};
use serde::Serialize;

use crate::result::statistics;
use crate::result::summary::{Board, Group};
use crate::run::metrics::MetricInfo;
use crate::view::report::MAX_SINGLE;
use crate::view::text::{Align, significant, table};

/// The metric that all parts add up to.
pub(crate) const TOTAL: &str = "time_total";

/// The metrics of the bounds that count how a connection starts.
const BOUNDS: [&str; 5] = [
    "bound_handshake",
    "bound_fluid",
    "bound_round_trips",
    "bound_all_paths",
    "bound_startup",
];

fn part_metric(part: &str) -> String {
    format!("time_{part}")
}

/// All metrics of time. Less time is better, except where it carries the data, which no run can
/// change.
pub(crate) fn metrics() -> impl Iterator<Item = MetricInfo> {
    let parts = LostTime::NAMES.iter().map(|part| {
        let better = (*part != "carrying").then_some(Better::Lower);
        MetricInfo::new(&part_metric(part), "s", better)
    });
    let bounds = BOUNDS.iter().map(|name| MetricInfo::new(name, "s", None));
    std::iter::once(MetricInfo::new(TOTAL, "s", Some(Better::Lower)))
        .chain(parts)
        .chain(bounds)
}

/// Whether a metric is one of these.
pub(crate) fn is_metric(name: &str) -> bool {
    metrics().any(|metric| metric.name == name)
}

/// The values of the parts.
pub(crate) fn of_parts(lost: &LostTime) -> impl Iterator<Item = (String, f64)> {
    let parts = LostTime::NAMES.iter().zip(lost.parts());
    let parts = parts.map(|(name, value)| (part_metric(name), value));
    std::iter::once((TOTAL.to_owned(), lost.total())).chain(parts)
}

/// The values of the bounds.
pub(crate) fn of_bounds(bounds: &StartBounds) -> impl Iterator<Item = (String, f64)> {
    let values = [
        bounds.handshake,
        bounds.fluid,
        bounds.round_trips,
        bounds.all_paths,
        bounds.startup,
    ];
    let named = BOUNDS.iter().zip(values);
    named.map(|(name, value)| ((*name).to_owned(), value))
}

/// Where the time of a scheduler's runs went: means over the runs of a network, or over the networks
/// of a large set.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct TimeRow {
    /// The network, or the set of networks.
    pub(crate) scenario: String,
    /// The number of networks.
    pub(crate) networks: usize,
    pub(crate) workload: String,
    pub(crate) congestion: String,
    pub(crate) scheduler: String,
    /// The number of runs.
    pub(crate) runs: usize,
    /// The mean time of a download from the client's first packet, in seconds.
    pub(crate) total: f64,
    /// The means of its parts by name. They add up to `total`.
    pub(crate) parts: BTreeMap<&'static str, f64>,
    /// The means of the bounds by name, without `bound_`.
    pub(crate) bounds: BTreeMap<&'static str, f64>,
}

/// The name of a row: the network's, or that of its set if the set is large. The two orders of the
/// paths stay apart.
fn scenario(board: &Board<'_>, group: &Group<'_>) -> String {
    let networks = board.heading.networks.iter();
    let siblings = networks.filter(|network| network.set == group.network.set);
    if siblings.count() <= MAX_SINGLE {
        return group.network.name.clone();
    }
    let mut name = group.network.set.clone();
    if !group.network.twin.is_empty() {
        let number = group.network.handshake.max(1);
        name += &format!(", handshake on path {number}");
    }
    name
}

/// Where the time went, in the order of the experiment. Empty if the results do not say it.
pub(crate) fn rows(board: &Board<'_>) -> Vec<TimeRow> {
    type Values = Vec<BTreeMap<String, f64>>;
    let mut rows: Vec<(TimeRow, Values)> = Vec::new();
    for group in board.groups() {
        let scenario = scenario(board, &group);
        for scheduler in board.schedulers(&group) {
            let records = board.records(&group.cell(scheduler)).iter();
            let measured = records.filter_map(|record| record.measured());
            let values: Vec<_> = measured
                .map(|run| &run.values)
                .filter(|values| values.contains_key(TOTAL))
                .collect();
            if values.is_empty() {
                continue;
            }
            let mean = |name: &str| -> Option<f64> {
                let values = values.iter().map(|values| values.get(name).copied());
                Some(statistics::mean(&values.collect::<Option<Vec<_>>>()?))
            };
            let means = metrics().filter_map(|metric| Some((mean(&metric.name)?, metric.name)));
            let means = means.map(|(mean, name)| (name, mean)).collect();
            let same = |row: &&mut (TimeRow, Values)| {
                row.0.scenario == scenario
                    && row.0.workload == group.workload.name
                    && row.0.congestion == group.congestion
                    && row.0.scheduler == scheduler
            };
            if let Some((row, of_networks)) = rows.iter_mut().find(same) {
                row.networks += 1;
                row.runs += values.len();
                of_networks.push(means);
                continue;
            }
            let row = TimeRow {
                scenario: scenario.clone(),
                networks: 1,
                workload: group.workload.name.clone(),
                congestion: group.congestion.to_owned(),
                scheduler: scheduler.to_owned(),
                runs: values.len(),
                total: 0.0,
                parts: BTreeMap::new(),
                bounds: BTreeMap::new(),
            };
            rows.push((row, vec![means]));
        }
    }
    let finished = rows.into_iter().map(|(mut row, of_networks)| {
        let mean = |name: &str| -> Option<f64> {
            let values = of_networks.iter().map(|values| values.get(name).copied());
            Some(statistics::mean(&values.collect::<Option<Vec<_>>>()?))
        };
        row.total = mean(TOTAL).unwrap_or_default();
        for part in LostTime::NAMES {
            let value = mean(&part_metric(part)).unwrap_or_default();
            row.parts.insert(part, value);
        }
        for name in BOUNDS {
            if let Some(value) = mean(name) {
                row.bounds.insert(name.trim_start_matches("bound_"), value);
            }
        }
        row
    });
    let mut rows: Vec<_> = finished.collect();
    // A large set's rows stand together, in the order of its first network.
    let mut order: Vec<(String, String, String)> = Vec::new();
    for row in &rows {
        let key = (
            row.scenario.clone(),
            row.workload.clone(),
            row.congestion.clone(),
        );
        if !order.contains(&key) {
            order.push(key);
        }
    }
    rows.sort_by_key(|row| {
        let key = (
            row.scenario.clone(),
            row.workload.clone(),
            row.congestion.clone(),
        );
        order.iter().position(|other| *other == key)
    });
    rows
}

/// The heads and cells of a table of rows.
pub(crate) fn cells(board: &Board<'_>, rows: &[TimeRow]) -> (Vec<String>, Vec<Vec<String>>) {
    let heading = board.heading;
    let (workload, controller) = (heading.workloads.len() > 1, heading.congestion.len() > 1);
    let mut heads = vec!["network".to_owned()];
    heads.extend(workload.then(|| "workload".to_owned()));
    heads.extend(controller.then(|| "controller".to_owned()));
    heads.extend(["scheduler", "total"].map(str::to_owned));
    heads.extend(LostTime::NAMES.map(str::to_owned));
    heads.extend(["least", "least, this start"].map(str::to_owned));
    let show = |value: Option<f64>| value.map_or_else(|| "-".into(), |value| format!("{value:.3}"));
    let lines = rows.iter().map(|row| {
        let mut line = vec![match row.networks {
            1 => row.scenario.clone(),
            count => format!("{} ({count})", row.scenario),
        }];
        line.extend(workload.then(|| row.workload.clone()));
        line.extend(controller.then(|| row.congestion.clone()));
        line.extend([row.scheduler.clone(), show(Some(row.total))]);
        line.extend(LostTime::NAMES.map(|part| show(row.parts.get(part).copied())));
        let bound = |name| row.bounds.get(name).copied();
        let startup = bound("handshake").zip(bound("startup"));
        line.push(show(bound("round_trips")));
        line.push(show(
            startup.map(|(handshake, startup)| handshake + startup),
        ));
        line
    });
    (heads, lines.collect())
}

/// What the columns mean.
pub(crate) const LEGEND: &str = "Mean seconds per download, from the client's first packet; the parts add up to the \
     total. Each path counts by its share of all rates. `least`: the fluid bound after the shortest handshake; \
     `least, this start`: with this path for the handshake, this way of opening paths, slow start and no loss.";

/// The table for the terminal; empty if the results do not say where time went.
pub(crate) fn text(board: &Board<'_>) -> String {
    let rows = rows(board);
    if rows.is_empty() {
        return String::new();
    }
    let (heads, lines) = cells(board, &rows);
    let names = heads.iter().position(|head| head == "total").unwrap_or(0);
    let heads: Vec<_> = heads
        .iter()
        .enumerate()
        .map(|(at, head)| {
            let align = if at < names {
                Align::Left
            } else {
                Align::Right
            };
            (&**head, align)
        })
        .collect();
    format!("Where the time went. {LEGEND}\n{}", table(&heads, &lines))
}

/// A part in words, with its share of the total.
pub(crate) fn share(row: &TimeRow, part: &str) -> String {
    let value = row.parts.get(part).copied().unwrap_or_default();
    let percent = 100.0 * value / row.total.max(1e-12);
    format!("{part} {} s, {percent:.1} %", significant(value, 3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_and_bound_is_a_metric() {
        let names: Vec<_> = metrics().map(|metric| metric.name).collect();
        assert_eq!(names.len(), 1 + 10 + 5);
        let mut lost = LostTime::default();
        lost.tail = 1.5;
        let bounds = StartBounds {
            handshake: 1.0,
            fluid: 2.0,
            round_trips: 3.0,
            all_paths: 4.0,
            startup: 5.0,
        };
        let values: BTreeMap<_, _> = of_parts(&lost).chain(of_bounds(&bounds)).collect();
        assert_eq!(values.len(), names.len());
        for name in &names {
            assert!(values.contains_key(name) && is_metric(name), "{name}");
        }
        assert_eq!(values["time_tail"], 1.5);
        assert_eq!(values["time_total"], 1.5);
        assert_eq!(values["bound_startup"], 5.0);
        assert!(!is_metric("completion"));
    }
}
