//! The plots of the report over the networks of a set: gains over sampled networks, lines over one
//! parameter, heat maps over two.

use std::fmt::Write as _;

use super::colour;
use super::plots::{self, Colours, HeatMap, Series, Trend};
use super::svg::escape;
use crate::result::compare::Comparison;
use crate::result::record::NetworkInfo;
use crate::result::statistics;
use crate::result::summary::{BOOTSTRAP_SEED, Board, Group};
use crate::run::metrics::MetricInfo;
use crate::view::output::with_unit;
use crate::view::text::significant;

/// The networks of one description, with one workload and congestion control.
struct Set<'a> {
    groups: Vec<Group<'a>>,
    metric: MetricInfo,
    /// The grid's parameters with their values, in the order of the grid.
    grid: Vec<(&'a str, Vec<&'a str>)>,
    /// Whether other parameters were sampled.
    drawn: bool,
}

/// All plots over sets.
pub(super) fn section(board: &Board<'_>) -> String {
    let mut text = String::new();
    for set in sets(board) {
        let Some(first) = set.groups.first() else {
            continue;
        };
        let mut title = first.network.set.clone();
        if board.heading.workloads.len() > 1 {
            title += &format!(", {}", first.workload.name);
        }
        if board.heading.congestion.len() > 1 {
            title += &format!(", {}", first.congestion);
        }
        let _ = writeln!(
            text,
            "<div class=\"card\">\n<h3>{}</h3>\n<div class=\"plots\">",
            escape(&title)
        );
        let over = set.grid.first();
        if let (1, Some((name, values))) = (set.grid.len(), over) {
            for metric in board.heading.metrics_of(first.workload) {
                text += &trend_plot(board, &set, name, values, &metric);
            }
        }
        if set.grid.len() >= 2 {
            text += &heat_maps(board, &set);
        }
        if set.drawn || set.grid.is_empty() {
            text += &gain_plot(board, &set);
        }
        text += "</div>\n</div>\n";
    }
    text
}

fn sets<'a>(board: &Board<'a>) -> Vec<Set<'a>> {
    let mut sets: Vec<Set<'a>> = Vec::new();
    for group in board.groups() {
        if group.network.parameters.is_empty() {
            continue;
        }
        let same = |set: &&mut Set<'_>| {
            set.groups.first().is_some_and(|first| {
                first.network.set == group.network.set
                    && first.workload.name == group.workload.name
                    && first.congestion == group.congestion
            })
        };
        if let Some(set) = sets.iter_mut().find(same) {
            set.groups.push(group);
        } else if let Some(metric) = board.heading.metrics_of(group.workload).into_iter().next() {
            sets.push(Set {
                groups: vec![group],
                metric,
                grid: Vec::new(),
                drawn: false,
            });
        }
    }
    sets.retain(|set| set.groups.len() > 1);
    for set in &mut sets {
        for group in &set.groups {
            for parameter in &group.network.parameters {
                if parameter.drawn {
                    set.drawn = true;
                    continue;
                }
                let name = &*parameter.name;
                let at = set.grid.iter().position(|known| known.0 == name);
                let at = at.unwrap_or_else(|| {
                    set.grid.push((name, Vec::new()));
                    set.grid.len() - 1
                });
                if !set.grid[at].1.contains(&&*parameter.value) {
                    set.grid[at].1.push(&parameter.value);
                }
            }
        }
        set.grid.retain(|parameter| parameter.1.len() > 1);
    }
    sets
}

fn value<'a>(network: &'a NetworkInfo, name: &str) -> Option<&'a str> {
    let mut parameters = network.parameters.iter();
    let parameter = parameters.find(|parameter| parameter.name == name)?;
    Some(&parameter.value)
}

/// The labels of all schedulers with results in a set.
fn labels<'a>(board: &Board<'a>, set: &Set<'_>) -> Vec<&'a str> {
    let all = board.heading.schedulers.iter().map(|spec| &*spec.label);
    all.filter(|label| {
        let mut groups = set.groups.iter();
        groups.any(|group| !board.records(&group.cell(label)).is_empty())
    })
    .collect()
}

fn trend_plot(
    board: &Board<'_>,
    set: &Set<'_>,
    name: &str,
    values: &[&str],
    metric: &MetricInfo,
) -> String {
    // A value that is not a number is placed by its position in the list.
    let number = |at: usize, value: &str| value.parse().unwrap_or(at as f64);
    let trends: Vec<_> = labels(board, set)
        .into_iter()
        .map(|label| {
            let points = values.iter().enumerate().filter_map(|(at, wanted)| {
                let networks: Vec<_> = set
                    .groups
                    .iter()
                    .filter(|group| value(group.network, name) == Some(wanted))
                    .map(|group| board.plain_values(&group.cell(label), &metric.name))
                    .filter(|values| !values.is_empty())
                    .collect();
                let (middle, interval) = match &*networks {
                    [] => return None,
                    // One network: the interval over its seeds.
                    [values] => (
                        statistics::median(values),
                        statistics::median_interval(values, BOOTSTRAP_SEED),
                    ),
                    // Several networks: the interval over the networks.
                    networks => {
                        let medians = networks.iter().map(|values| statistics::median(values));
                        let medians: Vec<_> = medians.collect();
                        (
                            statistics::median(&medians),
                            statistics::median_interval(&medians, BOOTSTRAP_SEED),
                        )
                    }
                };
                Some([number(at, wanted), middle, interval[0], interval[1]])
            });
            Trend {
                name: label.to_owned(),
                colour: colour(board, label),
                points: points.collect(),
            }
        })
        .collect();
    let label = with_unit(metric);
    plots::trends(&trends, name, &label)
}

/// The gain of each scheduler over the baseline, for all networks of the set.
fn gain_plot(board: &Board<'_>, set: &Set<'_>) -> String {
    let baseline = &board.heading.baseline;
    let mut lines = String::new();
    let series: Vec<_> = labels(board, set)
        .into_iter()
        .filter(|label| label != baseline)
        .map(|label| {
            let gains: Vec<_> = set
                .groups
                .iter()
                .filter_map(|group| {
                    Comparison::of_schedulers(board, group, &set.metric, label, baseline).gain()
                })
                .collect();
            let above = |percent: f64| gains.iter().filter(|gain| **gain > percent).count();
            let _ = writeln!(
                lines,
                "<li>{}: median gain {} %, best {} %; above 0 % on {} of {} networks, above 20 % on {}</li>",
                escape(label),
                significant(statistics::median(&gains), 3),
                significant(statistics::quantile(&gains, 1.0), 3),
                above(0.0),
                gains.len(),
                above(20.0)
            );
            Series {
                name: label.to_owned(),
                colour: colour(board, label),
                values: gains,
                paper: None,
            }
        })
        .collect();
    if series.iter().all(|series| series.values.is_empty()) {
        return String::new();
    }
    let label = format!("gain against {baseline} [%], one value per network");
    format!(
        "{}{}<ul>\n{lines}</ul>\n",
        plots::ecdf(&series, &label, true),
        plots::boxes(&series, &label)
    )
}

/// The gain of each scheduler over the two parameters with the most values. There is one map per
/// combination of the others.
fn heat_maps(board: &Board<'_>, set: &Set<'_>) -> String {
    let mut order: Vec<_> = (0..set.grid.len()).collect();
    // A stable sort: parameters with equally many values keep the order of the file.
    order.sort_by_key(|&at| std::cmp::Reverse(set.grid[at].1.len()));
    let (mut x, mut y) = (order[0], order[1]);
    if x > y {
        std::mem::swap(&mut x, &mut y);
    }
    let (x, y) = (&set.grid[x], &set.grid[y]);
    let others: Vec<_> = set
        .grid
        .iter()
        .filter(|parameter| parameter.0 != x.0 && parameter.0 != y.0)
        .collect();
    let mut facets = vec![Vec::new()];
    for (name, values) in &others {
        facets = facets
            .into_iter()
            .flat_map(|facet: Vec<(&str, &str)>| {
                values.iter().map(move |value| {
                    let mut facet = facet.clone();
                    facet.push((*name, *value));
                    facet
                })
            })
            .collect();
    }
    let mut text = String::new();
    // With more parameters, there would be too many maps.
    if others.is_empty() {
        text += &value_maps(board, set, [x, y]);
    }
    let baseline = &board.heading.baseline;
    for label in labels(board, set) {
        if label == baseline {
            continue;
        }
        let maps: Vec<_> = facets
            .iter()
            .map(|facet| heat_map(board, set, label, [x, y], facet))
            .collect();
        let all: Vec<f64> = maps
            .iter()
            .flat_map(|map| map.values.iter().flatten().flatten())
            .map(|cell| cell.0)
            .collect();
        if all.is_empty() {
            continue;
        }
        let better = all.iter().filter(|gain| **gain > 0.0).count();
        let _ = writeln!(
            text,
            "<div style=\"flex-basis:100%\"><h3>{} against {}: gain in {} [%]</h3>\n\
             <p class=\"facts\">Above 0 on {better} of {} networks ({} %); median {} %, best {} %.</p>\n<div class=\"plots\">",
            escape(label),
            escape(baseline),
            escape(&set.metric.name),
            all.len(),
            significant(100.0 * better as f64 / all.len() as f64, 3),
            significant(statistics::median(&all), 3),
            significant(statistics::quantile(&all, 1.0), 3)
        );
        for map in &maps {
            text += &plots::heat_map(map);
        }
        text += "</div></div>\n";
    }
    text
}

/// The medians of each scheduler over two parameters.
fn value_maps(board: &Board<'_>, set: &Set<'_>, [x, y]: [&(&str, Vec<&str>); 2]) -> String {
    let median = |label: &str, column: &str, row: &str| {
        let medians: Vec<_> = set
            .groups
            .iter()
            .filter(|group| {
                value(group.network, x.0) == Some(column) && value(group.network, y.0) == Some(row)
            })
            .map(|group| board.plain_values(&group.cell(label), &set.metric.name))
            .map(|values| statistics::median(&values))
            .filter(|median| median.is_finite())
            .collect();
        let median = statistics::median(&medians);
        median.is_finite().then(|| (median, String::new()))
    };
    let mut maps: Vec<_> = labels(board, set)
        .into_iter()
        .map(|label| HeatMap {
            title: label.to_owned(),
            colours: Colours::Gain,
            axes: [x.0.to_owned(), y.0.to_owned()],
            columns: x.1.iter().map(ToString::to_string).collect(),
            rows: y.1.iter().map(ToString::to_string).collect(),
            values: y
                .1
                .iter()
                .map(|row| {
                    x.1.iter()
                        .map(|column| median(label, column, row))
                        .collect()
                })
                .collect(),
        })
        .collect();
    let all = || {
        maps.iter()
            .flat_map(|map| map.values.iter().flatten().flatten())
    };
    let low = all().map(|cell| cell.0).fold(f64::INFINITY, f64::min);
    let high = all().map(|cell| cell.0).fold(f64::NEG_INFINITY, f64::max);
    let mut text = format!(
        "<div style=\"flex-basis:100%\"><h3>medians of {} [{}]</h3>\n<div class=\"plots\">",
        escape(&set.metric.name),
        escape(&set.metric.unit)
    );
    for map in &mut maps {
        map.colours = Colours::Between(low, high);
        text += &plots::heat_map(map);
    }
    text + "</div></div>\n"
}

fn heat_map(
    board: &Board<'_>,
    set: &Set<'_>,
    label: &str,
    [x, y]: [&(&str, Vec<&str>); 2],
    facet: &[(&str, &str)],
) -> HeatMap {
    let cell = |column: &str, row: &str| {
        // Sampled networks share a cell, which shows the median of their gains.
        let mut gains = Vec::new();
        let mut sentence = String::new();
        for group in &set.groups {
            let is = |name: &str, wanted: &str| value(group.network, name) == Some(wanted);
            if !is(x.0, column)
                || !is(y.0, row)
                || !facet.iter().all(|(name, value)| is(name, value))
            {
                continue;
            }
            let baseline = &board.heading.baseline;
            let comparison = Comparison::of_schedulers(board, group, &set.metric, label, baseline);
            gains.extend(comparison.gain());
            sentence = format!("{}: {}", group.network.name, comparison.sentence());
        }
        if gains.is_empty() {
            return None;
        }
        if gains.len() > 1 {
            sentence = format!("{} networks", gains.len());
        }
        Some((statistics::median(&gains), sentence))
    };
    let title: Vec<_> = facet
        .iter()
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    HeatMap {
        title: title.join(", "),
        colours: Colours::Gain,
        axes: [x.0.to_owned(), y.0.to_owned()],
        columns: x.1.iter().map(ToString::to_string).collect(),
        rows: y.1.iter().map(ToString::to_string).collect(),
        values: y
            .1
            .iter()
            .map(|row| x.1.iter().map(|column| cell(column, row)).collect())
            .collect(),
    }
}
