//! The scenarios of an arena: what each scheduler's runs cost on the same seeds.

use std::collections::{BTreeMap, BTreeSet};

use mpquic_sim::workload::Better;

use crate::result::record::{NetworkInfo, Record, WorkloadInfo};
use crate::result::summary::{Board, Group};

/// A run that failed costs this many times as much as the worst one on the same seed.
const FAILED: f64 = 2.0;
/// How long the connection took until the request, where that is known: in files and pages.
const CONNECTED: &str = "connected";
/// Files from this size on count as bulk: what fills a receiver's buffer.
const BULK: u64 = 4_000_000;

/// One network with one workload and one congestion control.
#[derive(Debug, Clone)]
pub(super) struct Scenario {
    /// The network's name, the workload and the congestion control.
    pub(super) name: String,
    /// The paths in words.
    pub(super) paths: String,
    /// Where the network comes from: the part of its name before the first slash.
    pub(super) source: String,
    /// What is special about the network, as its source says.
    pub(super) group: String,
    /// The kind of its workload.
    pub(super) kind: String,
    /// The congestion control.
    pub(super) congestion: String,
    /// The same for scenarios that are not independent: both orders of the paths.
    pub(super) twin: String,
    /// The logarithm of the cost on each seed, by the scheduler's label.
    pub(super) costs: BTreeMap<String, Vec<f64>>,
    /// The logarithm of what each of these costs grows by if the time until the request counts, too: what a file or a page takes
    /// from the connection's first packet on. A single path's handshake is on that path, and several paths' on the fastest one.
    pub(super) with_handshake: BTreeMap<String, Vec<f64>>,
    /// The mean out-of-order queue on each seed, in kB, if the workload is bulk.
    pub(super) queues: BTreeMap<String, Vec<f64>>,
    /// The share of the bytes that were sent twice on each seed, in percent.
    pub(super) twice: BTreeMap<String, Vec<f64>>,
    /// The number of failed runs by label.
    pub(super) failed: BTreeMap<String, usize>,
}

impl Scenario {
    /// The costs in the order of `costs`, with the handshake.
    pub(super) fn costs_with_handshake(&self) -> Vec<Vec<f64>> {
        let growth = |label| self.with_handshake.get(label).into_iter().flatten();
        let of_all = self.costs.iter();
        of_all
            .map(|(label, costs)| {
                let growth = growth(label).copied().chain(std::iter::repeat(0.0));
                costs.iter().zip(growth).map(|(a, b)| a + b).collect()
            })
            .collect()
    }
}

/// What a run costs: less is better, and a cost of 1.02 is a regret of 2 % to one of 1.
///
/// For times, the cost is the time; for rates, its inverse. For messages and frames with deadlines it is 1 and the
/// share of them that came too late, so that a message of a hundred is 1 %: a ratio of small shares
/// would let two lost messages decide. For requests it is the mean latency: the median does not see
/// what a scheduler does to one request of ten.
pub(super) fn cost(kind: &str, workload: &WorkloadInfo, record: &Record) -> Option<f64> {
    let measured = record.measured()?;
    let cost = match kind {
        "messages" | "live" => 2.0 - measured.value / 100.0,
        "requests" => *measured.values.get("latency_mean")?,
        _ => {
            let primary = workload
                .metrics
                .iter()
                .find(|metric| metric.name == workload.primary);
            match primary?.better? {
                Better::Lower => measured.value,
                Better::Higher => 1.0 / measured.value,
            }
        }
    };
    (cost.is_finite() && cost > 0.0).then_some(cost)
}

/// The scenarios of results, without those where fewer than two schedulers have runs.
pub(super) fn all(board: &Board<'_>) -> Vec<Scenario> {
    let groups = board.groups();
    let scenarios = groups.iter().map(|group| of_group(board, group));
    scenarios
        .filter(|scenario| scenario.costs.len() > 1)
        .collect()
}

fn of_group(board: &Board<'_>, group: &Group<'_>) -> Scenario {
    let kind = kind_of(&group.workload.name);
    let labels = board.schedulers(group);
    let records = |label: &str| board.records(&group.cell(label));
    // Only seeds that all have.
    let mut seeds: Option<BTreeSet<u64>> = None;
    for label in &labels {
        let own: BTreeSet<_> = records(label).iter().map(|record| record.seed).collect();
        seeds = Some(match seeds {
            None => own,
            Some(seeds) => seeds.intersection(&own).copied().collect(),
        });
    }
    let seeds: Vec<_> = seeds.unwrap_or_default().into_iter().collect();
    let on = |label: &str, seed: u64| {
        let all = records(label);
        all.iter().copied().find(|record| record.seed == seed)
    };
    let mut scenario = Scenario {
        name: format!(
            "{}, {}, {}",
            group.network.name, group.workload.name, group.congestion
        ),
        paths: paths_of(&group.network.description),
        source: source_of(group.network),
        group: group_of(group.network),
        kind: kind.to_owned(),
        congestion: group.congestion.to_owned(),
        twin: format!(
            "{}, {}, {}",
            match group.network.twin.is_empty() {
                true => &group.network.name,
                false => &group.network.twin,
            },
            group.workload.name,
            group.congestion
        ),
        costs: BTreeMap::new(),
        with_handshake: BTreeMap::new(),
        queues: BTreeMap::new(),
        twice: BTreeMap::new(),
        failed: BTreeMap::new(),
    };
    let bulk = is_bulk(kind, &group.workload.name);
    let mut worst = vec![f64::NEG_INFINITY; seeds.len()];
    let mut costs = BTreeMap::new();
    for label in labels {
        let of_seeds: Vec<_> = seeds
            .iter()
            .map(|&seed| cost(kind, group.workload, on(label, seed)?))
            .collect();
        let handshakes: Vec<_> = seeds
            .iter()
            .map(|&seed| on(label, seed)?.measured()?.values.get(CONNECTED).copied())
            .collect();
        for (worst, cost) in worst.iter_mut().zip(&of_seeds) {
            *worst = cost.map_or(*worst, |cost| worst.max(cost));
        }
        let twice = seeds.iter().filter_map(|&seed| {
            let measured = on(label, seed)?.measured()?;
            measured.values.get("copied").copied()
        });
        scenario.twice.insert(label.to_owned(), twice.collect());
        if bulk {
            let queues = seeds.iter().filter_map(|&seed| {
                let measured = on(label, seed)?.measured()?;
                measured.values.get("oqs_mean").copied()
            });
            scenario.queues.insert(label.to_owned(), queues.collect());
        }
        costs.insert(label.to_owned(), (of_seeds, handshakes));
    }
    // A seed on which every run failed says nothing.
    let kept: Vec<_> = worst.iter().map(|worst| worst.is_finite()).collect();
    for (label, (of_seeds, handshakes)) in costs {
        let failed = of_seeds.iter().filter(|cost| cost.is_none()).count();
        if failed > 0 {
            scenario.failed.insert(label.clone(), failed);
        }
        let seeds = of_seeds.iter().zip(&worst).zip(&kept);
        let logs = seeds
            .filter(|(_, kept)| **kept)
            .map(|((cost, worst), _)| cost.unwrap_or(worst * FAILED).ln());
        let logs: Vec<_> = logs.collect();
        let growth = of_seeds.iter().zip(&handshakes).zip(&kept);
        let growth = growth
            .filter(|(_, kept)| **kept)
            .map(|((cost, handshake), _)| match (cost, handshake) {
                (Some(cost), Some(handshake)) => (1.0 + handshake / cost).ln(),
                _ => 0.0,
            });
        scenario
            .with_handshake
            .insert(label.clone(), growth.collect());
        if !logs.is_empty() {
            scenario.costs.insert(label, logs);
        }
    }
    scenario
}

/// The kind of a workload: the first part of its short form.
fn kind_of(workload: &str) -> &str {
    workload.split(':').next().unwrap_or(workload)
}

/// The paths of a network's description, without how its connection starts: that is the same for all
/// networks of a source.
fn paths_of(description: &str) -> String {
    let paths = description.split(", start ").next();
    paths.unwrap_or(description).to_owned()
}

fn source_of(network: &NetworkInfo) -> String {
    let name = network.name.split('/').next();
    name.unwrap_or(&network.name).to_owned()
}

/// The kind of the network in both halves of a prior (`world falls`, `world-release falls`): the part that changes with each
/// release is of the same kind. What is taken from another file is a kind of its own.
fn group_of(network: &NetworkInfo) -> String {
    let Some((source, kind)) = network.set.split_once(' ') else {
        return network.set.clone();
    };
    match source {
        "prior" | "release" => format!("prior {kind}"),
        "world" | "world-release" => format!("world {kind}"),
        _ => network.set.clone(),
    }
}

fn is_bulk(kind: &str, workload: &str) -> bool {
    let size = || {
        let text = workload.split(':').nth(1)?;
        mpquic_sim::units::size::parse(text).ok()
    };
    kind == "bulk" || kind == "file" && size().is_some_and(|size| size >= BULK)
}
