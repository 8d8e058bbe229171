//! The arena's findings as text, as Markdown, and as JSON.

use std::collections::BTreeSet;

use serde_json::json;

use super::{Arena, Compared, Row, Share};
use crate::view::text::{Align, significant, table};

/// A table with its title and what its columns mean.
pub(super) struct Section {
    pub(super) title: &'static str,
    pub(super) note: String,
    pub(super) heads: Vec<String>,
    /// The first column is the scheduler.
    pub(super) rows: Vec<Vec<String>>,
    /// The number of columns of words at the end.
    pub(super) words: usize,
}

/// The tables as plain text.
pub(crate) fn text(arena: &Arena) -> String {
    let mut text = format!("{}\n", summary(arena));
    for section in sections(arena) {
        let last = section.heads.len() - section.words;
        let heads: Vec<_> = section
            .heads
            .iter()
            .enumerate()
            .map(|(at, head)| match at == 0 || at >= last {
                true => (head.as_str(), Align::Left),
                false => (head.as_str(), Align::Right),
            })
            .collect();
        text += &format!(
            "\n{}\n{}\n{}",
            section.title,
            section.note,
            table(&heads, &section.rows)
        );
    }
    text
}

/// The tables as Markdown.
pub(crate) fn markdown(arena: &Arena) -> String {
    let mut text = format!("{}\n", summary(arena));
    for section in sections(arena) {
        let last = section.heads.len() - section.words;
        let rule: Vec<_> = (0..section.heads.len())
            .map(|at| match at == 0 || at >= last {
                true => "---",
                false => "--:",
            })
            .collect();
        text += &format!("\n### {}\n\n{}\n\n", section.title, section.note);
        text += &format!("| {} |\n|{}|\n", section.heads.join(" | "), rule.join("|"));
        for row in section.rows {
            text += &format!("| {} |\n", cells(&row).join(" | "));
        }
    }
    text
}

/// As cells of Markdown: what stands between two paths of a network would end one.
fn cells(row: &[String]) -> Vec<String> {
    row.iter().map(|cell| cell.replace('|', "\\|")).collect()
}

/// One JSON object per line: the arena, then one per scheduler.
pub(crate) fn json(arena: &Arena) -> Vec<serde_json::Value> {
    let first = json!({
        "scenarios": arena.scenarios,
        "seeds": arena.seeds,
        "references": arena.references,
        "rivals": arena.rivals,
        "schedulers": arena.rows.len(),
    });
    let rows = arena.rows.iter();
    // Plain data, whose serialisation cannot fail.
    let rows = rows.map(|row| serde_json::to_value(row).unwrap_or_default());
    std::iter::once(first).chain(rows).collect()
}

pub(super) fn summary(arena: &Arena) -> String {
    let [least, most] = arena.seeds;
    let seeds = match least == most {
        true => format!("{least} seeds"),
        false => format!("{least} to {most} seeds"),
    };
    format!(
        "{} schedulers in {} scenarios, {seeds} each.",
        arena.rows.len(),
        arena.scenarios
    )
}

pub(super) fn sections(arena: &Arena) -> Vec<Section> {
    let all = [
        Some(regrets(arena)),
        Some(worst(arena)),
        by_source(arena),
        super::kinds::section(arena),
        Some(overall(arena)),
        grouped(
            arena,
            "By workload",
            |row| row.by_workload.keys().collect(),
            |row, group| row.by_workload.get(group).map_or(&[], Vec::as_slice),
        ),
        grouped(
            arena,
            "By congestion control",
            |row| row.by_congestion.keys().collect(),
            |row, group| row.by_congestion.get(group).map_or(&[], Vec::as_slice),
        ),
        alone(arena),
        queues(arena),
    ];
    all.into_iter().flatten().collect()
}

pub(super) fn percent(share: f64) -> String {
    format!("{:.0} %", 100.0 * share)
}

/// A ratio's excess over 1: 1.02 is 2.0 %.
pub(super) fn excess(ratio: f64) -> String {
    let excess = 100.0 * (ratio - 1.0);
    match excess.abs() {
        size if !size.is_finite() => "-".into(),
        size if size < 99.95 => format!("{excess:.1} %"),
        _ => format!("{excess:.0} %"),
    }
}

pub(super) fn strings<const N: usize>(heads: [&str; N]) -> Vec<String> {
    heads.map(str::to_owned).to_vec()
}

fn regrets(arena: &Arena) -> Section {
    let rows = arena.rows.iter().map(|row| {
        let regret = &row.regret;
        let mut cells = vec![
            row.scheduler.clone(),
            excess(regret.median),
            excess(regret.p95),
            excess(regret.worst),
            excess(regret.mean),
            excess(regret.naive_mean),
        ];
        for share in &row.within {
            cells.extend(shares(share));
        }
        cells.push(row.failed.to_string());
        cells
    });
    Section {
        title: "Regret to the best in hindsight",
        note: "The best is chosen on half of the seeds and measured on the other half. `naive` chooses and measures it on \
               the same seeds, which is too large by what luck gives the best. `≤ 2 %` counts scenarios by the estimate; \
               of them, `shown` those whose 95 % interval over seeds is below; `behind` those whose interval is above. The rest \
               cannot be told with these seeds."
            .into(),
        heads: strings([
            "scheduler", "median", "p95", "worst", "mean", "naive", "≤ 2 %", "shown", "behind", "≤ 5 %", "shown", "behind",
            "failed runs",
        ]),
        rows: rows.collect(),
        words: 0,
    }
}

fn shares(share: &Share) -> [String; 3] {
    [share.estimate, share.shown, share.behind].map(percent)
}

fn worst(arena: &Arena) -> Section {
    let rows = arena.rows.iter().flat_map(|row| {
        row.regret.where_worst.iter().map(|worst| {
            vec![
                row.scheduler.clone(),
                excess(worst.regret),
                format!(
                    "{} to {}",
                    excess(worst.interval[0]),
                    excess(worst.interval[1])
                ),
                worst.scenario.clone(),
                worst.paths.clone(),
            ]
        })
    });
    Section {
        title: "Where the regret is largest",
        note: "With the 95 % interval over seeds.".into(),
        heads: strings(["scheduler", "regret", "interval", "scenario", "paths"]),
        rows: rows.collect(),
        words: 2,
    }
}

fn by_source(arena: &Arena) -> Option<Section> {
    let sources: BTreeSet<_> = arena
        .rows
        .iter()
        .flat_map(|row| row.by_source.keys())
        .collect();
    if sources.len() < 2 {
        return None;
    }
    let rows = arena.rows.iter().map(|row| {
        let shares = sources
            .iter()
            .map(|source| match row.by_source.get(*source) {
                Some(share) => percent(share.estimate),
                None => "-".into(),
            });
        std::iter::once(row.scheduler.clone())
            .chain(shares)
            .collect()
    });
    let heads = sources.iter().map(|source| {
        let counts = arena.rows.iter();
        let counts = counts.filter_map(|row| Some(row.by_source.get(*source)?.scenarios));
        format!("{source} ({})", counts.max().unwrap_or(0))
    });
    Some(Section {
        title: "Within 2 % by the source of the networks",
        note: "By the estimate; with the number of scenarios. The networks of `release` change with each release.".into(),
        heads: std::iter::once("scheduler".into()).chain(heads).collect(),
        rows: rows.collect(),
        words: 0,
    })
}

/// A ratio with its interval. A tilde says that there is no difference after the correction.
fn ratio(compared: &Compared) -> String {
    let [low, high] = compared.interval;
    let sign = if compared.differs { "" } else { "~" };
    format!("{sign}{:.3} [{low:.3}, {high:.3}]", compared.ratio)
}

const RATIOS: &str = "Geometric means over scenarios, below 1: less time than the rival. In brackets the 95 % bootstrap \
                      interval, paired by scenario. `~`: cannot tell at 5 % after Holm's correction for all comparisons of \
                      the table.";

fn overall(arena: &Arena) -> Section {
    let rows = arena.rows.iter().map(|row| {
        let mut cells = vec![row.scheduler.clone()];
        cells.extend(against(arena, &row.overall));
        cells
    });
    let rivals = arena.rivals.iter().map(|rival| format!("over {rival}"));
    Section {
        title: "Against minRTT and ECF",
        note: RATIOS.into(),
        heads: std::iter::once("scheduler".into()).chain(rivals).collect(),
        rows: rows.collect(),
        words: 0,
    }
}

/// The ratios to each rival, in their order.
fn against<'a>(arena: &'a Arena, all: &'a [Compared]) -> impl Iterator<Item = String> + 'a {
    arena.rivals.iter().map(|rival| {
        let found = all.iter().find(|compared| compared.rival == *rival);
        found.map_or_else(|| "1".into(), ratio)
    })
}

fn grouped(
    arena: &Arena,
    title: &'static str,
    keys: fn(&Row) -> Vec<&String>,
    get: for<'a> fn(&'a Row, &str) -> &'a [Compared],
) -> Option<Section> {
    let groups: BTreeSet<_> = arena.rows.iter().flat_map(keys).collect();
    if groups.len() < 2 {
        return None;
    }
    let mut heads = vec!["scheduler".to_owned()];
    for group in &groups {
        for rival in &arena.rivals {
            heads.push(format!("{group}/{rival}"));
        }
    }
    let rows = arena.rows.iter().map(|row| {
        let mut cells = vec![row.scheduler.clone()];
        for group in &groups {
            cells.extend(against(arena, get(row, group)));
        }
        cells
    });
    Some(Section {
        title,
        note: RATIOS.into(),
        heads,
        rows: rows.collect(),
        words: 0,
    })
}

fn alone(arena: &Arena) -> Option<Section> {
    let rows: Vec<_> = arena
        .rows
        .iter()
        .filter_map(|row| {
            let alone = row.alone.as_ref()?;
            let [low, high] = alone.interval;
            Some(vec![
                row.scheduler.clone(),
                format!("{:.3} [{low:.3}, {high:.3}]", alone.ratio),
                percent(alone.slower),
                percent(alone.slower_by_2),
                excess(alone.worst),
                alone.where_worst.clone(),
            ])
        })
        .collect();
    if rows.is_empty() {
        return None;
    }
    Some(Section {
        title: "Against the better path alone",
        note: "The geometric mean of the cost over that of the better path, which is chosen on half of the seeds and measured \
               on the other half. Files and pages count from the connection's first packet on: a path that is alone carries \
               its handshake, too. The share of scenarios where the scheduler is slower than that beyond its noise, \
               and slower by more than 2 %; the worst one."
            .into(),
        heads: strings(["scheduler", "ratio", "slower", "by 2 %", "worst", "where"]),
        rows,
        words: 1,
    })
}

fn queues(arena: &Arena) -> Option<Section> {
    let rows: Vec<_> = arena
        .rows
        .iter()
        .filter(|row| !row.queue.is_empty())
        .map(|row| {
            let mut cells = vec![row.scheduler.clone()];
            cells.extend(against(arena, &row.queue));
            cells
        })
        .collect();
    if rows.is_empty() {
        return None;
    }
    let rivals = arena.rivals.iter().map(|rival| format!("over {rival}"));
    let scenarios = arena.rows.iter().flat_map(|row| &row.queue);
    let scenarios = scenarios.map(|compared| compared.scenarios).max();
    Some(Section {
        title: "Out-of-order queue of bulk",
        note: format!(
            "The mean queue of files of 4 MB and more, plus {} kB, over that of the rival; {} scenarios.",
            significant(super::SMALL_QUEUE, 2),
            scenarios.unwrap_or(0)
        ),
        heads: std::iter::once("scheduler".into()).chain(rivals).collect(),
        rows,
        words: 0,
    })
}
