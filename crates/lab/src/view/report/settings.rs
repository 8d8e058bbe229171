//! The plots of the report over a scheduler's setting: a family as a line, and other schedulers as level lines.

use std::fmt::Write as _;

use super::cells::is_single;
use super::colour;
use super::plots::{self, Trend};
use super::svg::escape;
use crate::file::experiment::SchedulerSpec;
use crate::result::statistics;
use crate::result::summary::{BOOTSTRAP_SEED, Board, Group};
use crate::run::metrics::MetricInfo;
use crate::view::output::with_unit;

/// The plots of all networks in small sets, for each family that differs in one setting.
pub(super) fn section(board: &Board<'_>) -> String {
    let specs = &board.heading.schedulers;
    let mut families: Vec<&str> = Vec::new();
    for spec in specs.iter().filter(|spec| spec.parameters.len() == 1) {
        if !families.contains(&&*spec.family) {
            families.push(&spec.family);
        }
    }
    let mut text = String::new();
    for family in families {
        let of_family = |spec: &&SchedulerSpec| spec.family == family;
        let members: Vec<_> = specs.iter().filter(of_family).collect();
        let others: Vec<_> = specs.iter().filter(|spec| spec.family.is_empty()).collect();
        let mut plots = String::new();
        for group in board.groups() {
            if !is_single(board, &group) {
                continue;
            }
            let Some(metric) = board.heading.metrics_of(group.workload).into_iter().next() else {
                continue;
            };
            plots += &plot(board, &group, &metric, &members, &others);
        }
        if !plots.is_empty() {
            let _ = writeln!(
                text,
                "<div class=\"card\">\n<h3>{}</h3>\n<div class=\"plots\">{plots}</div>\n</div>",
                escape(family)
            );
        }
    }
    text
}

fn plot(
    board: &Board<'_>,
    group: &Group<'_>,
    metric: &MetricInfo,
    members: &[&SchedulerSpec],
    others: &[&SchedulerSpec],
) -> String {
    let figures = |label: &str| {
        let values = board.plain_values(&group.cell(label), &metric.name);
        let [low, high] = statistics::median_interval(&values, BOOTSTRAP_SEED);
        let median = statistics::median(&values);
        median.is_finite().then_some([median, low, high])
    };
    let points = members.iter().enumerate().filter_map(|(at, spec)| {
        let [median, low, high] = figures(&spec.label)?;
        // A value that is not a number is placed by its position in the list.
        let value = spec.parameters.first()?.value.parse().unwrap_or(at as f64);
        Some([value, median, low, high])
    });
    let points: Vec<_> = points.collect();
    let (Some(first), Some(setting)) = (
        members.first(),
        members.first().and_then(|spec| spec.parameters.first()),
    ) else {
        return String::new();
    };
    if points.len() < 2 {
        return String::new();
    }
    let xs = || points.iter().map(|point| point[0]);
    let ends = [
        xs().fold(f64::INFINITY, f64::min),
        xs().fold(f64::NEG_INFINITY, f64::max),
    ];
    let mut trends = Vec::new();
    for spec in others {
        if let Some([median, low, high]) = figures(&spec.label) {
            trends.push(Trend {
                name: spec.label.clone(),
                colour: colour(board, &spec.label),
                points: ends.map(|x| [x, median, low, high]).to_vec(),
            });
        }
    }
    trends.push(Trend {
        name: first.family.clone(),
        colour: colour(board, &first.label),
        points,
    });
    format!(
        "<div class=\"time\"><p class=\"facts\">{}</p>{}</div>",
        escape(&group.title(board.heading)),
        plots::trends(&trends, &setting.name, &with_unit(metric))
    )
}
