//! Formats results as a section of a Markdown page: what was run, verdicts, tables per network or per set.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use mpquic_sim::workload::Better;

use crate::file::experiment::SchedulerSpec;
use crate::result::compare::{Comparison, Finding, check_claims};
use crate::result::record::Heading;
use crate::result::statistics;
use crate::result::summary::{Board, Group, Summary};
use crate::run::metrics::MetricInfo;
use crate::run::time_lost;
use crate::view::handshake_path;
use crate::view::output::{set_lines, with_unit};
use crate::view::report::MAX_SINGLE;
use crate::view::start_compare;
use crate::view::text::significant;

/// The gain, in percent, from which the papers count networks.
const LARGE_GAIN: f64 = 20.0;

/// The section of one experiment.
pub(crate) fn section(board: &Board<'_>) -> String {
    let heading = board.heading;
    let mut text = String::new();
    let (name, rest) = match heading.title.split_once(": ") {
        Some((name, rest)) => (name, rest),
        None => (&*heading.title, ""),
    };
    let _ = writeln!(text, "## {name}\n");
    let _ = writeln!(text, "`mpquic-lab run experiments/{}.toml`\n", heading.name);
    for (lead, paragraph) in [
        ("", rest),
        ("", &*heading.about),
        ("Source: ", &*heading.source),
        ("Expected: ", &*heading.expect),
        ("", &*facts(board)),
    ] {
        if !paragraph.is_empty() {
            let mut letters = paragraph.chars();
            let first: String = letters.next().into_iter().collect();
            // The second half of a title starts with a small letter.
            let first = if lead.is_empty() {
                first.to_uppercase()
            } else {
                first
            };
            let end = if paragraph.ends_with('.') { "" } else { "." };
            let _ = writeln!(text, "{lead}{first}{}{end}\n", letters.as_str());
        }
    }
    text += &verdicts(board);
    text += &single_tables(board);
    text += &set_table(board);
    text += &spent_table(board);
    text += &starts_table(board);
    text += &orders_table(board);
    text
}

/// Where the time of downloads went.
fn spent_table(board: &Board<'_>) -> String {
    let rows = time_lost::rows(board);
    if rows.is_empty() {
        return String::new();
    }
    let (heads, cells) = time_lost::cells(board, &rows);
    format!(
        "Where the time went. {}\n\n{}",
        time_lost::LEGEND,
        table(&heads, &cells)
    )
}

/// What it brings to open paths otherwise.
fn starts_table(board: &Board<'_>) -> String {
    let gains = start_compare::gains(board);
    if gains.is_empty() {
        return String::new();
    }
    let (heads, cells) = start_compare::cells(board, &gains);
    format!(
        "How paths are opened. {}\n\n{}",
        start_compare::LEGEND,
        table(&heads, &cells)
    )
}

/// How much the order of the paths matters.
fn orders_table(board: &Board<'_>) -> String {
    let spreads = handshake_path::spreads(board);
    if spreads.is_empty() {
        return String::new();
    }
    let (heads, cells) = handshake_path::cells(board, &spreads);
    format!(
        "Which path carries the handshake. {}\n\n{}",
        handshake_path::LEGEND,
        table(&heads, &cells)
    )
}

/// Seeds, training, parts that were not run, and failed runs.
fn facts(board: &Board<'_>) -> String {
    let heading = board.heading;
    let mut counts = BTreeSet::new();
    let mut cells = 0;
    for group in board.groups() {
        for scheduler in board.schedulers(&group) {
            counts.insert(board.records(&group.cell(scheduler)).len());
            cells += 1;
        }
    }
    let mut facts = match (counts.first(), counts.last()) {
        (Some(1), Some(1)) => "one seed".into(),
        (Some(least), Some(most)) if least == most => format!("{most} seeds"),
        (Some(least), Some(most)) => format!("{least} to {most} seeds"),
        _ => "no runs".into(),
    };
    let all = heading.workloads.len() * heading.schedulers.len();
    let networks = heading.networks.iter();
    let of_networks: usize = networks
        .map(|network| match network.cells {
            0 => all,
            cells => cells,
        })
        .sum();
    let whole = of_networks * heading.congestion.len();
    if cells < whole {
        let _ = write!(
            facts,
            "; {cells} of the {whole} combinations of network, workload, controller and scheduler"
        );
    }
    let mut trained: Vec<(u32, Vec<String>)> = Vec::new();
    for spec in heading.schedulers.iter().filter(|spec| spec.training > 0) {
        let name = match &*spec.family {
            "" => format!("`{}`", spec.label),
            family => format!("`{family}`"),
        };
        match trained.iter_mut().find(|other| other.0 == spec.training) {
            Some((_, names)) if names.contains(&name) => {}
            Some((_, names)) => names.push(name),
            None => trained.push((spec.training, vec![name])),
        }
    }
    for (runs, names) in trained {
        let of = match &*heading.training_workload {
            "" => "what is measured".to_owned(),
            workload => format!("`{workload}`"),
        };
        let runs = if runs == 1 {
            "one run".to_owned()
        } else {
            format!("{runs} runs")
        };
        let names = names.join(", ");
        let _ = write!(
            facts,
            "; before each measured run, {names} learned in {runs} of {of}"
        );
    }
    let failed = board.failures().count();
    if failed > 0 {
        let _ = write!(facts, "; {failed} runs failed");
    }
    facts + "."
}

fn verdicts(board: &Board<'_>) -> String {
    let checked = check_claims(board);
    if checked.is_empty() {
        return String::new();
    }
    let mut text = "Verdicts over paired seeds:\n\n".to_owned();
    for checked in checked {
        let claim = checked.claim;
        let source = match &*claim.source {
            "" => String::new(),
            source => format!(" ({source})"),
        };
        let sentence = checked.sentence().replace(" (see below)", "");
        let _ = writeln!(text, "- \"{}\"{source}: **{sentence}**", claim.text);
    }
    text + "\n"
}

/// Whether a group's set is small enough for one row per network.
fn is_single(heading: &Heading, group: &Group<'_>) -> bool {
    let networks = heading.networks.iter();
    networks
        .filter(|network| network.set == group.network.set)
        .count()
        <= MAX_SINGLE
}

/// Whether the columns for workload and congestion control would differ between rows.
fn columns(heading: &Heading) -> (bool, bool) {
    (heading.workloads.len() > 1, heading.congestion.len() > 1)
}

/// A group's names, which are the first cells of its rows.
fn names(heading: &Heading, group: &Group<'_>) -> Vec<String> {
    let (workload, controller) = columns(heading);
    let mut names = vec![group.network.name.clone()];
    names.extend(workload.then(|| group.workload.name.clone()));
    names.extend(controller.then(|| group.congestion.to_owned()));
    names
}

fn name_heads(heading: &Heading, first: &str) -> Vec<String> {
    let (workload, controller) = columns(heading);
    let mut heads = vec![first.to_owned()];
    heads.extend(workload.then(|| "workload".to_owned()));
    heads.extend(controller.then(|| "controller".to_owned()));
    heads
}

fn table(heads: &[String], rows: &[Vec<String>]) -> String {
    let line = |cells: &[String]| {
        let cells: Vec<_> = cells.iter().map(|cell| cell.replace('|', "\\|")).collect();
        format!("| {} |\n", cells.join(" | "))
    };
    let mut text = line(heads);
    let _ = writeln!(text, "|{}", "---|".repeat(heads.len()));
    for row in rows {
        text += &line(row);
    }
    text + "\n"
}

/// A number with this many digits, including trailing zeros, so that a column has one precision.
fn figure(value: f64, digits: i32) -> String {
    if value == 0.0 {
        return "0".into();
    }
    let decimals = digits - 1 - value.abs().log10().floor() as i32;
    format!("{value:.0$}", decimals.clamp(0, 12) as usize)
}

fn show(value: Option<f64>, digits: i32) -> String {
    value.map_or_else(|| "-".into(), |value| figure(value, digits))
}

/// Tables of small sets: one per metric, and one more per family of schedulers.
fn single_tables(board: &Board<'_>) -> String {
    let heading = board.heading;
    let mut groups = board.groups();
    groups.retain(|group| is_single(heading, group));
    let summaries = board.summaries(false);
    let mut metrics: Vec<(MetricInfo, bool)> = Vec::new();
    for group in &groups {
        for (number, metric) in heading.metrics_of(group.workload).into_iter().enumerate() {
            if !metrics.iter().any(|known| known.0 == metric) {
                metrics.push((metric, number == 0));
            }
        }
    }
    let (alone, families) = families(heading);
    let mut text = String::new();
    for (metric, headline) in &metrics {
        let of = |group: &Group<'_>, label: &str| {
            summaries.iter().find(|summary| {
                summary.metric == metric.name
                    && summary.scenario == group.network.name
                    && summary.workload == group.workload.name
                    && summary.congestion == group.congestion
                    && summary.scheduler == label
            })
        };
        // Leaves out schedulers that were not run, and those without a metric that only learners
        // have.
        let columns: Vec<_> = alone
            .iter()
            .filter(|spec| {
                let figures = groups.iter().filter_map(|group| of(group, &spec.label));
                figures
                    .filter_map(|summary| summary.median)
                    .next()
                    .is_some()
            })
            .collect();
        let rows: Vec<_> = groups
            .iter()
            .filter_map(|group| {
                let summaries = columns.iter().map(|spec| of(group, &spec.label));
                let cells: Vec<_> = summaries
                    .map(|summary| match summary {
                        None => "-".into(),
                        Some(summary) if *headline => headline_cell(board, group, metric, summary),
                        Some(summary) => plain_cell(summary),
                    })
                    .collect();
                let any = cells.iter().any(|cell| cell != "-");
                any.then(|| [names(heading, group), cells].concat())
            })
            .collect();
        if !rows.is_empty() {
            let what = if *headline {
                format!(
                    "median (95 % interval), ratio to the fluid bound where there is one [paper]; \
                     + better, - worse than `{}`, = no difference, ? too few seeds",
                    heading.baseline
                )
            } else {
                "median".into()
            };
            let _ = writeln!(text, "{}, {what}:\n", with_unit(metric).replace('_', " "));
            let mut heads = name_heads(heading, "network");
            heads.extend(columns.iter().map(|spec| format!("`{}`", spec.label)));
            text += &table(&heads, &rows);
        }
        for family in &families {
            text += &family_table(heading, &groups, metric, family, &of);
        }
    }
    text
}

/// The schedulers without a family, and the families.
fn families(heading: &Heading) -> (Vec<&SchedulerSpec>, Vec<Vec<&SchedulerSpec>>) {
    let mut alone = Vec::new();
    let mut families: Vec<Vec<&SchedulerSpec>> = Vec::new();
    for spec in &heading.schedulers {
        if spec.family.is_empty() {
            alone.push(spec);
            continue;
        }
        let family = families
            .iter_mut()
            .find(|family| family[0].family == spec.family);
        match family {
            Some(family) => family.push(spec),
            None => families.push(vec![spec]),
        }
    }
    (alone, families)
}

fn family_table<'a>(
    heading: &Heading,
    groups: &[Group<'_>],
    metric: &MetricInfo,
    family: &[&SchedulerSpec],
    of: &impl Fn(&Group<'_>, &str) -> Option<&'a Summary>,
) -> String {
    let rows: Vec<_> = groups
        .iter()
        .filter_map(|group| {
            let medians = family.iter().map(|spec| of(group, &spec.label)?.median);
            let medians: Vec<_> = medians.collect();
            let known = medians.iter().flatten().copied();
            let best = match metric.better {
                Some(Better::Lower) => known.reduce(f64::min),
                Some(Better::Higher) => known.reduce(f64::max),
                None => None,
            };
            medians.iter().flatten().next()?;
            let cells = medians.iter().map(|median| match show(*median, 4) {
                cell if median.is_some() && *median == best => format!("**{cell}**"),
                cell => cell,
            });
            Some(names(heading, group).into_iter().chain(cells).collect())
        })
        .collect();
    let Some(first) = family.first().filter(|_| !rows.is_empty()) else {
        return String::new();
    };
    let settings = first.parameters.iter();
    let settings: Vec<_> = settings.map(|one| format!("`{}`", one.name)).collect();
    let mut heads = name_heads(heading, "network");
    heads.extend(family.iter().map(|spec| {
        let values = spec.parameters.iter();
        let values: Vec<_> = values.map(|one| one.value.as_str()).collect();
        values.join(", ")
    }));
    format!(
        "{} of `{}` over {}, median{}:\n\n{}",
        with_unit(metric).replace('_', " "),
        first.family,
        settings.join(", "),
        if metric.better.is_some() {
            ", the best in bold"
        } else {
            ""
        },
        table(&heads, &rows)
    )
}

fn headline_cell(
    board: &Board<'_>,
    group: &Group<'_>,
    metric: &MetricInfo,
    summary: &Summary,
) -> String {
    let [low, high] = summary.ci95.map(|end| show(end, 3));
    let mut cell = format!("{} ({low} .. {high})", show(summary.median, 4));
    if let Some(ratio) = summary.bound_ratio {
        let _ = write!(cell, ", {ratio:.2}");
    }
    if let Some(paper) = &summary.paper {
        let _ = write!(cell, " [{}]", significant(paper.value, 4));
    }
    let baseline = &board.heading.baseline;
    let there = board.schedulers(group).contains(&&**baseline);
    if there && summary.scheduler != *baseline {
        let scheduler = &summary.scheduler;
        let comparison = Comparison::of_schedulers(board, group, metric, scheduler, baseline);
        cell += match comparison.finding() {
            Finding::Better | Finding::Higher => " +",
            Finding::Worse | Finding::Lower => " -",
            Finding::NoDifference => " =",
            Finding::TooFew => " ?",
        };
    }
    cell
}

fn plain_cell(summary: &Summary) -> String {
    let mut cell = show(summary.median, 4);
    if let Some(paper) = &summary.paper {
        let _ = write!(cell, " [{}]", significant(paper.value, 4));
    }
    cell
}

/// Tables of sets of many networks: one row per scheduler.
fn set_table(board: &Board<'_>) -> String {
    let heading = board.heading;
    let large = |set: &str| {
        let networks = heading.networks.iter();
        networks.filter(|network| network.set == set).count() > MAX_SINGLE
    };
    if !heading.networks.iter().any(|network| large(&network.set)) {
        return String::new();
    }
    let (workload, controller) = columns(heading);
    let baseline = &heading.baseline;
    let rows: Vec<_> = set_lines(board, baseline)
        .into_iter()
        .filter(|line| large(&line.set))
        .map(|line| {
            let gain = |q| format!("{} %", significant(statistics::quantile(&line.gains, q), 3));
            let above = |percent: f64| line.gains.iter().filter(|gain| **gain > percent).count();
            let mut row = vec![format!("{} ({})", line.set, line.networks)];
            row.extend(workload.then(|| line.workload.clone()));
            row.extend(controller.then(|| line.congestion.clone()));
            row.extend([format!("`{}`", line.scheduler), figure(line.median, 4)]);
            if line.scheduler == *baseline {
                row.resize(row.len() + 8, String::new());
                return row;
            }
            row.extend([line.better, line.worse, line.same, line.unknown].map(|n| n.to_string()));
            row.extend([gain(0.5), gain(1.0)]);
            row.extend([0.0, LARGE_GAIN].map(|percent| above(percent).to_string()));
            row
        })
        .collect();
    if rows.is_empty() {
        return String::new();
    }
    let mut heads = name_heads(heading, "networks");
    let more = [
        "scheduler",
        "median",
        "better",
        "worse",
        "no difference",
        "cannot tell",
        "median gain",
        "best gain",
        "gain above 0 %",
        "above 20 %",
    ];
    heads.extend(more.map(str::to_owned));
    let metrics: BTreeSet<_> = board
        .groups()
        .iter()
        .filter_map(|group| heading.metrics_of(group.workload).into_iter().next())
        .map(|metric| with_unit(&metric).replace('_', " "))
        .collect();
    let metrics: Vec<_> = metrics.into_iter().collect();
    format!(
        "{} over all networks of a set, each network against `{baseline}` (numbers of networks, and gains in \
         percent of its median):\n\n{}",
        metrics.join(", "),
        table(&heads, &rows)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_keep_their_precision() {
        for (value, digits, expected) in [
            (0.0, 4, "0"),
            (0.86, 4, "0.8600"),
            (4.85, 4, "4.850"),
            (109.84, 4, "109.8"),
            (12_345.6, 4, "12346"),
            (-2.5, 3, "-2.50"),
        ] {
            assert_eq!(figure(value, digits), expected);
        }
    }

    #[test]
    fn cells_do_not_break_tables() {
        let cells = ["a|b", "c"].map(str::to_owned);
        assert_eq!(
            table(&cells, &[cells.to_vec()]),
            "| a\\|b | c |\n|---|---|\n| a\\|b | c |\n\n"
        );
    }
}
