//! Formats results as text for terminals and as CSV for other programs.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;

use mpquic_proto::Escaped;
use rayon::iter::{IntoParallelRefIterator as _, ParallelIterator as _};

use crate::result::compare::{Comparison, Finding};
use crate::result::record::Record;
use crate::result::statistics;
use crate::result::summary::{Board, Group, Summary};
use crate::run::metrics::MetricInfo;
use crate::view::text::{Align, significant, table};

/// Above this number of rows, the table has one row per set of networks.
const MAX_ROWS: usize = 80;

/// The table for the terminal.
pub fn summary_table(board: &Board<'_>) -> String {
    let summaries = board.summaries(false);
    let headlines = |summary: &&Summary| {
        let mut metrics = board.heading.metrics.iter();
        metrics.next().is_none_or(|first| *first == summary.metric)
    };
    if summaries.iter().filter(headlines).count() > MAX_ROWS {
        let sets = set_table(board);
        if sets.lines().count() > MAX_ROWS {
            return overview_table(board);
        }
        return sets;
    }
    let groups = board.groups();
    let tables = groups
        .iter()
        .map(|group| group_table(board, group, &summaries));
    tables.collect::<Vec<_>>().join("\n")
}

fn group_table(board: &Board<'_>, group: &Group<'_>, summaries: &[Summary]) -> String {
    let heading = board.heading;
    let metrics = heading.metrics_of(group.workload);
    let Some((metric, others)) = metrics.split_first() else {
        return String::new();
    };
    let of_group = |summary: &&Summary| {
        summary.scenario == group.network.name
            && summary.workload == group.workload.name
            && summary.congestion == group.congestion
    };
    let all: Vec<_> = summaries.iter().filter(of_group).collect();
    let rows: Vec<_> = all.iter().filter(|row| row.metric == metric.name).collect();
    let bound = rows.iter().any(|row| row.bound_ratio.is_some());
    let paper = rows.iter().any(|row| row.paper.is_some());
    let against = format!("against {}", heading.baseline);
    let mut heads = vec![
        ("  scheduler", Align::Left),
        ("median", Align::Right),
        ("95 % interval", Align::Right),
        ("mean", Align::Right),
        ("p95", Align::Right),
    ];
    if bound {
        heads.push(("of bound", Align::Right));
    }
    if paper {
        heads.push(("paper", Align::Right));
    }
    heads.push((&against, Align::Left));
    let names: Vec<_> = others.iter().map(with_unit).collect();
    heads.extend(names.iter().map(|name| (&**name, Align::Right)));
    let show = |value: Option<f64>| value.map_or_else(|| "-".into(), |value| significant(value, 4));
    let line = |row: &Summary| -> Vec<String> {
        let mut line = vec![
            format!("  {}", row.scheduler),
            show(row.median),
            format!("{} .. {}", show(row.ci95[0]), show(row.ci95[1])),
            show(row.mean),
            show(row.p95),
        ];
        if bound {
            line.push(show(
                row.bound_ratio.map(|ratio| (ratio * 1e3).round() / 1e3),
            ));
        }
        if paper {
            line.push(show(row.paper.as_ref().map(|paper| paper.value)));
        }
        line.push(if row.scheduler == heading.baseline {
            String::new()
        } else {
            let (a, b) = (&row.scheduler, &heading.baseline);
            verdict(&Comparison::of_schedulers(board, group, metric, a, b))
        });
        // The medians of the other metrics.
        line.extend(others.iter().map(|other| {
            let same = |one: &&&Summary| one.metric == other.name && one.scheduler == row.scheduler;
            show(all.iter().find(same).and_then(|one| one.median))
        }));
        line
    };
    let lines: Vec<_> = rows.iter().map(|row| line(row)).collect();
    format!(
        "{}: {}, {}, {}, {}\n{}",
        Escaped::new(&group.network.name),
        Escaped::new(&group.network.description),
        Escaped::new(&group.workload.name),
        Escaped::new(group.congestion),
        with_unit(metric),
        table(&heads, &lines)
    )
}

/// A metric's name with its unit, if any.
pub(crate) fn with_unit(metric: &MetricInfo) -> String {
    match &*metric.unit {
        "" => metric.name.clone(),
        unit => format!("{} [{unit}]", metric.name),
    }
}

fn verdict(comparison: &Comparison) -> String {
    match comparison.finding() {
        Finding::TooFew => "too few seeds".into(),
        Finding::NoDifference => format!("no difference: {}", comparison.short()),
        Finding::Better => format!("better: {}", comparison.short()),
        Finding::Worse => format!("worse: {}", comparison.short()),
        Finding::Lower => format!("lower: {}", comparison.short()),
        Finding::Higher => format!("higher: {}", comparison.short()),
    }
}

/// The results of a scheduler over all networks of a set, against the baseline.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct SetLine {
    pub(crate) set: String,
    pub(crate) workload: String,
    pub(crate) congestion: String,
    pub(crate) scheduler: String,
    pub(crate) metric: String,
    /// Networks with results of both.
    pub(crate) networks: usize,
    /// The median over the networks of the median over the seeds.
    pub(crate) median: f64,
    pub(crate) better: usize,
    pub(crate) worse: usize,
    pub(crate) same: usize,
    /// Too few seeds, or neither direction is better.
    pub(crate) unknown: usize,
    /// The gain over the baseline in percent, per network.
    pub(crate) gains: Vec<f64>,
}

/// One line per set of networks, workload, congestion control and scheduler.
pub(crate) fn set_lines(board: &Board<'_>, against: &str) -> Vec<SetLine> {
    let mut lines: Vec<SetLine> = Vec::new();
    let mut medians: Vec<Vec<f64>> = Vec::new();
    for group in board.groups() {
        let Some(metric) = board.heading.metrics_of(group.workload).into_iter().next() else {
            continue;
        };
        for scheduler in board.schedulers(&group) {
            let comparison = Comparison::of_schedulers(board, &group, &metric, scheduler, against);
            let key = (
                &*group.network.set,
                &*group.workload.name,
                group.congestion,
                scheduler,
            );
            let at = lines.iter().position(|line| {
                (
                    &*line.set,
                    &*line.workload,
                    &*line.congestion,
                    &*line.scheduler,
                ) == key
            });
            let at = at.unwrap_or_else(|| {
                lines.push(SetLine {
                    set: key.0.to_owned(),
                    workload: key.1.to_owned(),
                    congestion: key.2.to_owned(),
                    scheduler: key.3.to_owned(),
                    metric: metric.name.clone(),
                    networks: 0,
                    median: f64::NAN,
                    better: 0,
                    worse: 0,
                    same: 0,
                    unknown: 0,
                    gains: Vec::new(),
                });
                medians.push(Vec::new());
                lines.len() - 1
            });
            let line = &mut lines[at];
            line.networks += 1;
            match comparison.finding() {
                Finding::Better => line.better += 1,
                Finding::Worse => line.worse += 1,
                Finding::NoDifference => line.same += 1,
                Finding::TooFew | Finding::Lower | Finding::Higher => line.unknown += 1,
            }
            line.gains.extend(comparison.gain());
            let values = board.plain_values(&group.cell(scheduler), &metric.name);
            medians[at].push(statistics::median(&values));
        }
    }
    for (line, medians) in lines.iter_mut().zip(&medians) {
        line.median = statistics::median(medians);
    }
    lines
}

/// One group of an overview, with a cell for each scheduler of the experiment.
pub(crate) struct OverviewRow<'a> {
    pub(crate) group: Group<'a>,
    pub(crate) metric: MetricInfo,
    /// The median, and the finding against the baseline; `None` without runs.
    pub(crate) cells: Vec<Option<(f64, Option<Finding>)>>,
}

/// The headline metric of every group in one row.
pub(crate) fn overview<'a>(board: &Board<'a>) -> Vec<OverviewRow<'a>> {
    let heading = board.heading;
    let groups = board.groups();
    let rows = groups.par_iter().filter_map(|group| {
        let metric = heading.metrics_of(group.workload).into_iter().next()?;
        let cell = |label: &str| {
            let values = board.plain_values(&group.cell(label), &metric.name);
            if values.is_empty() {
                return None;
            }
            let baseline = &heading.baseline;
            let finding = (label != baseline).then(|| {
                Comparison::of_schedulers(board, group, &metric, label, baseline).finding()
            });
            Some((statistics::median(&values), finding))
        };
        let cells = heading.schedulers.iter().map(|spec| cell(&spec.label));
        Some(OverviewRow {
            group: *group,
            cells: cells.collect(),
            metric,
        })
    });
    rows.collect()
}

fn overview_table(board: &Board<'_>) -> String {
    let heading = board.heading;
    let mut heads = vec![("scenario", Align::Left)];
    let labels = heading
        .schedulers
        .iter()
        .map(|spec| (&*spec.label, Align::Right));
    heads.extend(labels);
    let rows: Vec<_> = overview(board)
        .into_iter()
        .map(|row| {
            let cells = row.cells.iter().map(|cell| match cell {
                None => "-".into(),
                Some((median, finding)) => {
                    let sign = match finding {
                        Some(Finding::Better | Finding::Higher) => "+",
                        Some(Finding::Worse | Finding::Lower) => "-",
                        Some(Finding::NoDifference) => "=",
                        Some(Finding::TooFew) => "?",
                        None => " ",
                    };
                    format!("{} {sign}", significant(*median, 4))
                }
            });
            let title = row.group.title(heading);
            std::iter::once(title).chain(cells).collect()
        })
        .collect();
    format!(
        "Medians; against {}: + better, - worse, = no difference, ? too few seeds\n{}",
        heading.baseline,
        table(&heads, &rows)
    )
}

fn set_table(board: &Board<'_>) -> String {
    let baseline = &board.heading.baseline;
    let heads = [
        ("networks", Align::Left),
        ("workload", Align::Left),
        ("congestion", Align::Left),
        ("scheduler", Align::Left),
        ("median", Align::Right),
        ("better", Align::Right),
        ("worse", Align::Right),
        ("no difference", Align::Right),
        ("cannot tell", Align::Right),
        ("median gain", Align::Right),
        ("best", Align::Right),
    ];
    let rows: Vec<_> = set_lines(board, baseline)
        .into_iter()
        .map(|line| {
            let gain = |q| format!("{} %", significant(statistics::quantile(&line.gains, q), 3));
            vec![
                format!("{} ({})", line.set, line.networks),
                line.workload.clone(),
                line.congestion.clone(),
                line.scheduler.clone(),
                significant(line.median, 4),
                line.better.to_string(),
                line.worse.to_string(),
                line.same.to_string(),
                line.unknown.to_string(),
                gain(0.5),
                gain(1.0),
            ]
        })
        .collect();
    format!(
        "Over all networks of a set, each against {baseline}:\n{}",
        table(&heads, &rows)
    )
}

/// The name of the primary metric of a run's workload.
fn primary(board: &Board<'_>, record: &Record) -> String {
    let mut workloads = board.heading.workloads.iter();
    let workload = workloads.find(|workload| workload.name == record.workload);
    workload.map_or_else(String::new, |workload| workload.primary.clone())
}

/// Writes `summary.csv` (one line per cell and metric) and `runs.csv` (one line per run) into a
/// folder.
///
/// # Errors
///
/// If a file cannot be written.
pub fn write_csv(board: &Board<'_>, folder: &Path) -> io::Result<()> {
    let mut file = csv::Writer::from_path(folder.join("summary.csv"))?;
    file.write_record([
        "scenario",
        "workload",
        "congestion",
        "scheduler",
        "metric",
        "unit",
        "median",
        "mean",
        "p95",
        "ci95_low",
        "ci95_high",
        "bound_ratio",
        "seeds",
        "failed",
        "paper",
        "trace_hash",
    ])?;
    let show = |value: Option<f64>| value.map_or_else(String::new, |value| value.to_string());
    for summary in board.summaries(false) {
        file.write_record([
            &summary.scenario,
            &summary.workload,
            &summary.congestion,
            &summary.scheduler,
            &summary.metric,
            &summary.unit,
            &show(summary.median),
            &show(summary.mean),
            &show(summary.p95),
            &show(summary.ci95[0]),
            &show(summary.ci95[1]),
            &show(summary.bound_ratio),
            &summary.seeds.to_string(),
            &summary.failed.to_string(),
            &show(summary.paper.map(|paper| paper.value)),
            &summary.trace_hash,
        ])?;
    }
    file.flush()?;

    let cells: Vec<_> = board
        .groups()
        .into_iter()
        .flat_map(|group| {
            let schedulers = board.schedulers(&group).into_iter();
            schedulers.map(move |scheduler| group.cell(scheduler))
        })
        .collect();
    let runs = || cells.iter().flat_map(|cell| board.records(cell));
    let columns: BTreeSet<_> = runs()
        .filter_map(|record| record.measured())
        .flat_map(|run| run.values.keys())
        .collect();
    let mut file = csv::Writer::from_path(folder.join("runs.csv"))?;
    let fixed = [
        "scenario",
        "workload",
        "congestion",
        "scheduler",
        "seed",
        "bound",
    ];
    file.write_record(
        fixed
            .into_iter()
            .chain(columns.iter().map(|name| name.as_str())),
    )?;
    for record in runs() {
        let run = record.measured();
        let mut row = vec![
            record.network.clone(),
            record.workload.clone(),
            record.congestion.clone(),
            record.scheduler.clone(),
            record.seed.to_string(),
            show(run.and_then(|run| run.bounds.get(&primary(board, record)).copied())),
        ];
        row.extend(
            columns
                .iter()
                .map(|name| show(run.and_then(|run| run.values.get(*name).copied()))),
        );
        file.write_record(&row)?;
    }
    file.flush()
}
