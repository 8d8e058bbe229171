//! What each scheduler's regret is on each kind of network, whether it harms there, and what it sends twice.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::table::{Section, excess, percent, strings};
use super::{Arena, Judged, LIMITS};
use crate::result::statistics::{mean, quantile};

/// A scheduler on one kind of network.
#[derive(Debug, Serialize)]
pub(super) struct OnKind {
    pub(super) scenarios: usize,
    /// The geometric mean of its regrets, a ratio.
    pub(super) regret: f64,
    /// The 95th percentile of its regrets.
    pub(super) p95: f64,
    /// The shares of scenarios within 2 % and 5 % of the best, by the estimate.
    pub(super) within: [f64; 2],
    /// The share of scenarios where it is at most 2 % slower than the better path alone, by the estimate; `None` without single
    /// paths.
    pub(super) never_slower: Option<f64>,
    /// The mean share of the bytes that it sent twice, percent.
    pub(super) twice: f64,
}

/// A scheduler's row, by kind.
pub(super) fn of(label: &str, judged: &[Judged<'_>]) -> BTreeMap<String, OnKind> {
    let mut kinds: BTreeMap<&str, Vec<&Judged<'_>>> = BTreeMap::new();
    for one in judged.iter().filter(|one| one.regrets.contains_key(label)) {
        kinds.entry(&one.scenario.group).or_default().push(one);
    }
    let kinds = kinds.into_iter();
    kinds
        .map(|(kind, all)| (kind.to_owned(), one(label, &all)))
        .collect()
}

fn one(label: &str, all: &[&Judged<'_>]) -> OnKind {
    let share = |logs: &[f64], limit: f64| {
        let count = logs.iter().filter(|log| **log <= (1.0 + limit).ln());
        count.count() as f64 / logs.len().max(1) as f64
    };
    let regrets = all.iter().filter_map(|one| one.regrets.get(label));
    let mut logs: Vec<_> = regrets.map(|regret| regret.mean).collect();
    logs.sort_by(f64::total_cmp);
    let alone = all.iter().filter_map(|one| one.alone.get(label));
    let alone: Vec<_> = alone.map(|ratio| ratio.mean).collect();
    let twice = all.iter().filter_map(|one| one.scenario.twice.get(label));
    let twice: Vec<_> = twice.flatten().copied().collect();
    OnKind {
        scenarios: all.len(),
        regret: mean(&logs).exp(),
        p95: quantile(&logs, 0.95).exp(),
        within: LIMITS.map(|limit| share(&logs, limit)),
        never_slower: (!alone.is_empty()).then(|| share(&alone, LIMITS[0])),
        twice: match twice.is_empty() {
            true => 0.0,
            false => mean(&twice),
        },
    }
}

/// The table: one row per kind and scheduler; `None` if all networks are of one kind.
pub(super) fn section(arena: &Arena) -> Option<Section> {
    let rows = || arena.rows.iter();
    let kinds: BTreeSet<_> = rows().flat_map(|row| row.by_kind.keys()).collect();
    if kinds.len() < 2 {
        return None;
    }
    let mut lines = Vec::new();
    for kind in kinds {
        for row in rows() {
            let Some(on) = row.by_kind.get(kind) else {
                continue;
            };
            lines.push(vec![
                row.scheduler.clone(),
                kind.clone(),
                on.scenarios.to_string(),
                excess(on.regret),
                excess(on.p95),
                percent(on.within[0]),
                percent(on.within[1]),
                on.never_slower.map_or_else(|| "-".into(), percent),
                format!("{:.1} %", on.twice),
            ]);
        }
    }
    Some(Section {
        title: "By the kind of the network",
        note: "The geometric mean of the regrets and their 95th percentile, the shares of scenarios within 2 % and 5 % of the \
               best, and at most 2 % slower than the better path alone, all by the estimate; the mean share of the bytes that \
               were sent twice, of those that were sent once."
            .into(),
        heads: strings([
            "scheduler",
            "kind",
            "scenarios",
            "regret",
            "p95",
            "≤ 2 %",
            "≤ 5 %",
            "never slower",
            "sent twice",
        ]),
        rows: lines,
        words: 0,
    })
}
