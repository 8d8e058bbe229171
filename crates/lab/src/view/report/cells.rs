//! The tables and distributions of the report, per network.

use std::fmt::Write as _;

use mpquic_sim::workload::Better;

use super::plots::{self, Series};
use super::svg::escape;
use super::{MAX_SINGLE, colour};
use crate::result::compare::{Comparison, Finding};
use crate::result::statistics;
use crate::result::summary::{Board, Group, Summary};
use crate::run::metrics::MetricInfo;
use crate::view::output::{overview, set_lines, with_unit};
use crate::view::text::significant;

fn show(value: Option<f64>) -> String {
    value.map_or_else(|| "\u{2013}".into(), |value| significant(value, 4))
}

/// Above this number of groups, each group is collapsed.
const MAX_OPEN: usize = 24;

/// Whether there are so many groups that each is collapsed.
fn crowded(board: &Board<'_>) -> bool {
    let groups = board.groups();
    groups
        .iter()
        .filter(|group| is_single(board, group))
        .count()
        > MAX_OPEN
}

/// The start and the end of a group's part.
fn card(board: &Board<'_>, group: &Group<'_>) -> (String, &'static str) {
    let title = escape(&group.title(board.heading));
    let facts = format!(
        "<p class=\"facts\">{}; {}; {}</p>",
        escape(&group.network.description),
        escape(&group.workload.name),
        escape(group.congestion)
    );
    if crowded(board) {
        let begin = format!("<details class=\"card\"><summary>{title}</summary>\n{facts}\n");
        return (begin, "</details>\n");
    }
    let begin = format!("<div class=\"card\">\n<h3>{title}</h3>\n{facts}\n");
    (begin, "</div>\n")
}

/// The headline metric of every group in one row, if there are several groups.
fn overview_table(board: &Board<'_>) -> String {
    let rows = overview(board);
    if rows.len() < 2 {
        return String::new();
    }
    let heading = board.heading;
    let mut text = String::new();
    if rows.len() > MAX_OPEN * 2 {
        let _ = writeln!(
            text,
            "<details><summary>all {} scenarios in a table</summary>",
            rows.len()
        );
    }
    let _ = write!(
        text,
        "<p class=\"facts\">Medians. Against {}: <span class=\"better\">better</span>, <span class=\"worse\">worse</span>, \
         others no difference or too few seeds.</p>\n<div class=\"wide\"><table>\n<tr><th class=\"l\">scenario</th><th class=\"l\">metric</th>",
        escape(&heading.baseline)
    );
    for spec in &heading.schedulers {
        let _ = write!(text, "<th>{}</th>", escape(&spec.label));
    }
    text += "</tr>\n";
    for row in &rows {
        let _ = write!(
            text,
            "<tr><td class=\"l\" title=\"{}\">{}</td><td class=\"l\">{}</td>",
            escape(&row.group.network.description),
            escape(&row.group.title(heading)),
            escape(&with_unit(&row.metric))
        );
        for cell in &row.cells {
            let Some((median, finding)) = cell else {
                text += "<td>\u{2013}</td>";
                continue;
            };
            let class = match finding {
                Some(Finding::Better) => " class=\"better\"",
                Some(Finding::Worse) => " class=\"worse\"",
                _ => "",
            };
            let _ = write!(text, "<td{class}>{}</td>", significant(*median, 4));
        }
        text += "</tr>\n";
    }
    text += "</table></div>\n";
    if rows.len() > MAX_OPEN * 2 {
        text += "</details>\n";
    }
    text
}

/// Tables: per network for small sets, per set otherwise.
pub(super) fn tables(board: &Board<'_>) -> String {
    let mut text = overview_table(board);
    if board.groups().iter().any(|group| !is_single(board, group)) {
        text += &set_table(board);
    }
    let summaries = board.summaries(false);
    let single: Vec<_> = board
        .groups()
        .into_iter()
        .filter(|group| is_single(board, group))
        .collect();
    for group in &single {
        let (begin, end) = card(board, group);
        text += &begin;
        for (number, metric) in board.heading.metrics_of(group.workload).iter().enumerate() {
            let rows: Vec<_> = summaries
                .iter()
                .filter(|summary| {
                    summary.scenario == group.network.name
                        && summary.workload == group.workload.name
                        && summary.congestion == group.congestion
                        && summary.metric == metric.name
                })
                .collect();
            if number == 1 {
                text += "<details><summary>more metrics</summary>\n";
            }
            text += &table(board, group, metric, &rows);
        }
        if board.heading.metrics_of(group.workload).len() > 1 {
            text += "</details>\n";
        }
        text += end;
    }
    text
}

/// Whether a group's network belongs to a set that is shown per network.
pub(super) fn is_single(board: &Board<'_>, group: &Group<'_>) -> bool {
    let networks = &board.heading.networks;
    let siblings = networks
        .iter()
        .filter(|network| network.set == group.network.set);
    siblings.count() <= MAX_SINGLE
}

fn table(board: &Board<'_>, group: &Group<'_>, metric: &MetricInfo, rows: &[&Summary]) -> String {
    let heading = board.heading;
    let unit = match &*metric.unit {
        "" => String::new(),
        unit => format!(" [{unit}]"),
    };
    let bound = rows.iter().any(|row| row.bound_ratio.is_some());
    let paper = rows.iter().any(|row| row.paper.is_some());
    let medians = rows.iter().filter_map(|row| row.median);
    let best = match metric.better {
        Some(Better::Lower) => medians.fold(f64::INFINITY, f64::min),
        Some(Better::Higher) => medians.fold(f64::NEG_INFINITY, f64::max),
        None => f64::NAN,
    };
    let mut text = format!(
        "<div class=\"wide\"><table>\n<tr><th class=\"l\">{}{unit}</th><th>median</th><th>95 % interval</th><th>mean</th><th>p95</th>",
        escape(&metric.name)
    );
    if bound {
        text += "<th>of bound</th>";
    }
    if paper {
        text += "<th>paper</th>";
    }
    let _ = writeln!(
        text,
        "<th class=\"l\">against {}</th></tr>",
        escape(&heading.baseline)
    );
    for row in rows {
        let base = row.scheduler == heading.baseline;
        let class = if base { " class=\"base\"" } else { "" };
        let best = if row.median == Some(best) {
            " class=\"best\""
        } else {
            ""
        };
        let failed = match row.failed {
            0 => String::new(),
            failed => format!(" <span class=\"worse\">({failed} failed)</span>"),
        };
        let _ = write!(
            text,
            "<tr{class}><td class=\"l\">{}{failed}</td><td{best}>{}</td><td>{} \u{2026} {}</td><td>{}</td><td>{}</td>",
            escape(&row.scheduler),
            show(row.median),
            show(row.ci95[0]),
            show(row.ci95[1]),
            show(row.mean),
            show(row.p95)
        );
        if bound {
            let ratio = row.bound_ratio.map(|ratio| format!("{ratio:.2}"));
            let _ = write!(
                text,
                "<td>{}</td>",
                ratio.unwrap_or_else(|| "\u{2013}".into())
            );
        }
        if paper {
            let cell = row.paper.as_ref().map(|paper| {
                format!(
                    "<td title=\"{}\">{}</td>",
                    escape(&paper.source),
                    significant(paper.value, 4)
                )
            });
            text += &cell.unwrap_or_else(|| "<td>\u{2013}</td>".into());
        }
        let versus = if base {
            String::new()
        } else {
            let (a, b) = (&row.scheduler, &heading.baseline);
            verdict(&Comparison::of_schedulers(board, group, metric, a, b))
        };
        let _ = writeln!(text, "<td class=\"l\">{versus}</td></tr>");
    }
    text + "</table></div>\n"
}

fn verdict(comparison: &Comparison) -> String {
    let (class, words) = match comparison.finding() {
        Finding::TooFew => return "<span class=\"too_few\">too few seeds to tell</span>".into(),
        Finding::NoDifference => ("no_difference", "no difference:"),
        Finding::Better => ("better", "better:"),
        Finding::Worse => ("worse", "worse:"),
        Finding::Lower => ("differs", "lower:"),
        Finding::Higher => ("differs", "higher:"),
    };
    format!(
        "<span class=\"{class}\">{words} {}</span>",
        escape(&comparison.short())
    )
}

fn set_table(board: &Board<'_>) -> String {
    let baseline = &board.heading.baseline;
    let mut text = format!(
        "<p>Each network's medians, and how many networks differ from {} in their paired intervals.</p>\n\
         <div class=\"wide\"><table>\n<tr><th class=\"l\">networks</th><th class=\"l\">workload</th><th class=\"l\">congestion</th>\
         <th class=\"l\">scheduler</th><th class=\"l\">metric</th><th>median</th><th>better</th><th>worse</th><th>no difference</th><th>cannot tell</th>\
         <th>median gain</th><th>least</th><th>most</th></tr>\n",
        escape(baseline)
    );
    for line in set_lines(board, baseline) {
        let base = if line.scheduler == *baseline {
            " class=\"base\""
        } else {
            ""
        };
        let gain = |q| significant(statistics::quantile(&line.gains, q), 3);
        let _ = writeln!(
            text,
            "<tr{base}><td class=\"l\">{} ({})</td><td class=\"l\">{}</td><td class=\"l\">{}</td><td class=\"l\">{}</td><td class=\"l\">{}</td>\
             <td>{}</td><td class=\"better\">{}</td><td class=\"worse\">{}</td><td>{}</td><td>{}</td><td>{} %</td><td>{} %</td><td>{} %</td></tr>",
            escape(&line.set),
            line.networks,
            escape(&line.workload),
            escape(&line.congestion),
            escape(&line.scheduler),
            escape(&line.metric),
            significant(line.median, 4),
            line.better,
            line.worse,
            line.same,
            line.unknown,
            gain(0.5),
            gain(0.0),
            gain(1.0)
        );
    }
    text + "</table></div>\n"
}

/// Box plots and distribution functions of each group in a small set.
pub(super) fn distributions(board: &Board<'_>) -> String {
    let mut text = String::new();
    for group in board.groups() {
        if !is_single(board, &group) {
            continue;
        }
        let Some(metric) = board.heading.metrics_of(group.workload).into_iter().next() else {
            continue;
        };
        let series: Vec<_> = board
            .schedulers(&group)
            .into_iter()
            .map(|label| Series {
                name: label.to_owned(),
                colour: colour(board, label),
                values: board.plain_values(&group.cell(label), &metric.name),
                paper: paper(board, &group, label, &metric),
            })
            .collect();
        // With one value per scheduler, there is no distribution.
        if series.iter().all(|series| series.values.len() < 2) {
            continue;
        }
        let label = with_unit(&metric);
        let (begin, end) = card(board, &group);
        let _ = writeln!(
            text,
            "{begin}<div class=\"plots\">\n{}{}</div>\n{end}",
            plots::boxes(&series, &label),
            plots::ecdf(&series, &label, false)
        );
    }
    text
}

fn paper(board: &Board<'_>, group: &Group<'_>, label: &str, metric: &MetricInfo) -> Option<f64> {
    board
        .paper(group, label, &metric.name)
        .map(|paper| paper.value)
}
