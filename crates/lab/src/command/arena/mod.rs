//! The arena: how far each scheduler is behind the best of all in hindsight, over many scenarios.

pub(crate) mod command;
mod kinds;
mod page;
mod regret;
mod scenario;
mod table;

use std::collections::BTreeMap;

use serde::Serialize;

use kinds::OnKind;
use regret::{Estimate, Ratio, Verdict, cross_fitted, holm, naive};
use scenario::Scenario;

use crate::result::statistics::{mean, median, quantile};
use crate::result::summary::Board;

pub(crate) use page::{document, page};
pub(crate) use table::{json, markdown, text};

/// The limits of regret that the report counts: 2 % and 5 %.
const LIMITS: [f64; 2] = [0.02, 0.05];
/// A queue of less than this many kB is no burden: it is added to both sides of a ratio.
const SMALL_QUEUE: f64 = 1.0;
/// How many of the worst scenarios a scheduler's row names.
const WORST: usize = 3;

/// What an arena's results say.
#[derive(Debug)]
pub(crate) struct Arena {
    /// The number of scenarios.
    scenarios: usize,
    /// The fewest and the most seeds of a scenario.
    seeds: [usize; 2],
    /// The labels of the single paths.
    references: Vec<String>,
    /// The scheduler that comes first in each row's comparisons.
    rivals: Vec<String>,
    /// One row per scheduler, the one that is most often within 2 % first.
    rows: Vec<Row>,
}

/// What is said about one scheduler.
#[derive(Debug, Serialize)]
pub(crate) struct Row {
    /// Its label.
    scheduler: String,
    /// The number of scenarios in which it ran.
    scenarios: usize,
    /// The number of its runs that failed.
    failed: usize,
    /// Its regrets, as ratios to the best in hindsight.
    regret: Regret,
    /// How often its regret is within 2 % and 5 %.
    within: Vec<Share>,
    /// The same for each source of networks, at 2 %.
    by_source: BTreeMap<String, Share>,
    /// Geometric means of its cost over that of the rivals.
    overall: Vec<Compared>,
    /// The same by workload.
    by_workload: BTreeMap<String, Vec<Compared>>,
    /// The same by congestion control.
    by_congestion: BTreeMap<String, Vec<Compared>>,
    /// Compared with the better path alone.
    alone: Option<Alone>,
    /// What holds on each kind of network.
    by_kind: BTreeMap<String, OnKind>,
    /// Its out-of-order queue of bulk over that of the rivals.
    queue: Vec<Compared>,
}

/// The regrets of a scheduler over all scenarios, as ratios: 1.02 is 2 %.
#[derive(Debug, Serialize)]
struct Regret {
    median: f64,
    p95: f64,
    worst: f64,
    /// The scenarios with the largest regrets.
    where_worst: Vec<Worst>,
    /// The geometric mean, to the best chosen on other seeds.
    mean: f64,
    /// The geometric mean to the best of the same seeds, which is too large.
    naive_mean: f64,
    /// All regrets in ascending order, for the plot.
    #[serde(skip)]
    sorted: Vec<f64>,
}

#[derive(Debug, Serialize)]
struct Worst {
    regret: f64,
    /// Its 95 % interval over seeds.
    interval: [f64; 2],
    scenario: String,
    paths: String,
}

/// How often a regret is within a limit, as shares of all scenarios.
#[derive(Debug, Clone, Default, Serialize)]
struct Share {
    limit: f64,
    /// By its estimate.
    estimate: f64,
    /// Beyond the noise.
    shown: f64,
    /// Not within, beyond the noise.
    behind: f64,
    scenarios: usize,
}

/// A geometric mean of ratios to a rival.
#[derive(Debug, Clone, Serialize)]
struct Compared {
    rival: String,
    ratio: f64,
    interval: [f64; 2],
    p: f64,
    /// Whether there is a difference at 5 %, corrected for all comparisons of its table.
    differs: bool,
    scenarios: usize,
}

/// A scheduler compared with the better of all single paths.
#[derive(Debug, Serialize)]
struct Alone {
    /// The geometric mean of its cost over that of the better path.
    ratio: f64,
    interval: [f64; 2],
    /// The share of scenarios where it is slower, beyond the noise.
    slower: f64,
    /// The same for slower by more than 2 %.
    slower_by_2: f64,
    worst: f64,
    where_worst: String,
    scenarios: usize,
}

/// The regrets of all schedulers in one scenario.
struct Judged<'a> {
    scenario: &'a Scenario,
    regrets: BTreeMap<&'a str, Estimate>,
    naive: BTreeMap<&'a str, f64>,
    alone: BTreeMap<&'a str, Estimate>,
}

impl Arena {
    /// What the results say; `None` if there is no scenario with two schedulers.
    pub(crate) fn new(board: &Board<'_>) -> Option<Self> {
        let specs = &board.heading.schedulers;
        let references: Vec<_> = specs
            .iter()
            .filter(|spec| spec.name == "single")
            .map(|spec| spec.label.clone())
            .collect();
        Self::of(scenario::all(board), references)
    }

    fn of(scenarios: Vec<Scenario>, references: Vec<String>) -> Option<Self> {
        let judged: Vec<_> = scenarios
            .iter()
            .filter_map(|scenario| Judged::new(scenario, &references))
            .collect();
        let seeds = judged.iter().filter_map(|judged| {
            let costs = judged.scenario.costs.values().next()?;
            Some(costs.len())
        });
        let seeds: Vec<_> = seeds.collect();
        let seeds = [*seeds.iter().min()?, *seeds.iter().max()?];
        let mut labels: Vec<&str> = Vec::new();
        for label in judged.iter().flat_map(|judged| judged.regrets.keys()) {
            if !labels.contains(label) {
                labels.push(label);
            }
        }
        let rivals = ["minrtt", "ecf"].into_iter();
        let rivals: Vec<_> = rivals.filter(|rival| labels.contains(rival)).collect();
        let mut rows: Vec<_> = labels
            .iter()
            .filter_map(|label| Row::new(label, &judged, &rivals))
            .collect();
        correct(&mut rows);
        rows.sort_by(|a, b| {
            let share = |row: &Row| row.within.first().map_or(0.0, |share| share.estimate);
            share(b).total_cmp(&share(a))
        });
        Some(Self {
            scenarios: judged.len(),
            seeds,
            references,
            rivals: rivals.iter().map(|rival| (*rival).to_owned()).collect(),
            rows,
        })
    }

    /// For each scheduler its name and its regrets in ascending order, as ratios.
    pub(crate) fn curves(&self) -> Vec<(&str, &[f64])> {
        let rows = self.rows.iter();
        rows.map(|row| (&*row.scheduler, &*row.regret.sorted))
            .collect()
    }
}

impl<'a> Judged<'a> {
    fn new(scenario: &'a Scenario, references: &[String]) -> Option<Self> {
        let labels: Vec<&str> = scenario.costs.keys().map(String::as_str).collect();
        let costs: Vec<_> = scenario.costs.values().cloned().collect();
        let (mut single, mut candidates) = (Vec::new(), Vec::new());
        for (at, label) in labels.iter().enumerate() {
            match references.iter().any(|reference| reference == label) {
                true => single.push(at),
                false => candidates.push(at),
            }
        }
        if candidates.len() < 2 {
            return None;
        }
        let estimates = |costs: &[Vec<f64>], candidates_for_best: &[usize]| {
            let regrets = cross_fitted(costs, candidates_for_best);
            let mut estimates = BTreeMap::new();
            for &at in &candidates {
                estimates.insert(labels[at], Estimate::new(&regrets[at]));
            }
            estimates
        };
        let naive = naive(&costs, &candidates);
        Some(Self {
            scenario,
            regrets: estimates(&costs, &candidates),
            naive: candidates
                .iter()
                .map(|&at| (labels[at], naive[at]))
                .collect(),
            alone: match single.is_empty() {
                true => BTreeMap::new(),
                false => estimates(&scenario.costs_with_handshake(), &single),
            },
        })
    }
}

impl Row {
    fn new(label: &str, judged: &[Judged<'_>], rivals: &[&str]) -> Option<Self> {
        let own: Vec<_> = judged
            .iter()
            .filter_map(|judged| Some((judged, *judged.regrets.get(label)?)))
            .collect();
        let mut sorted: Vec<_> = own.iter().map(|(_, regret)| regret.mean.exp()).collect();
        sorted.sort_by(f64::total_cmp);
        let worst = *sorted.last()?;
        let mut by_regret: Vec<_> = own.iter().collect();
        by_regret.sort_by(|a, b| b.1.mean.total_cmp(&a.1.mean));
        let where_worst = by_regret.iter().take(WORST).map(|(judged, regret)| Worst {
            regret: regret.mean.exp(),
            interval: [regret.low.exp(), regret.high.exp()],
            scenario: judged.scenario.name.clone(),
            paths: judged.scenario.paths.clone(),
        });
        let means: Vec<_> = own.iter().map(|(_, regret)| regret.mean).collect();
        let naive: Vec<_> = own
            .iter()
            .filter_map(|(judged, _)| judged.naive.get(label).copied())
            .collect();
        let regrets: Vec<_> = own.iter().map(|(_, regret)| *regret).collect();
        let mut sources: BTreeMap<String, Vec<Estimate>> = BTreeMap::new();
        for (judged, regret) in &own {
            let source = judged.scenario.source.clone();
            sources.entry(source).or_default().push(*regret);
        }
        let scenarios: Vec<_> = own.iter().map(|(judged, _)| judged.scenario).collect();
        let by = |key: fn(&Scenario) -> &str| {
            let mut groups: BTreeMap<String, Vec<&Scenario>> = BTreeMap::new();
            for &scenario in &scenarios {
                let group = groups.entry(key(scenario).to_owned());
                group.or_default().push(scenario);
            }
            let groups = groups.into_iter();
            groups
                .map(|(name, group)| (name, compared(label, &group, rivals, of_costs)))
                .collect()
        };
        Some(Self {
            scheduler: label.to_owned(),
            scenarios: own.len(),
            failed: scenarios
                .iter()
                .filter_map(|scenario| scenario.failed.get(label))
                .sum(),
            regret: Regret {
                median: median(&sorted),
                p95: quantile(&sorted, 0.95),
                worst,
                where_worst: where_worst.collect(),
                mean: mean(&means).exp(),
                naive_mean: mean(&naive).exp(),
                sorted,
            },
            within: LIMITS.map(|limit| Share::new(limit, &regrets)).to_vec(),
            by_source: sources
                .into_iter()
                .map(|(source, regrets)| (source, Share::new(LIMITS[0], &regrets)))
                .collect(),
            overall: compared(label, &scenarios, rivals, of_costs),
            by_workload: by(|scenario| &scenario.kind),
            by_congestion: by(|scenario| &scenario.congestion),
            alone: Alone::new(label, judged),
            by_kind: kinds::of(label, judged),
            queue: compared(label, &scenarios, rivals, of_queues),
        })
    }

    /// All its comparisons, by the table that they are in.
    fn tables(&mut self) -> [Vec<&mut Compared>; 4] {
        [
            self.overall.iter_mut().collect(),
            self.by_workload.values_mut().flatten().collect(),
            self.by_congestion.values_mut().flatten().collect(),
            self.queue.iter_mut().collect(),
        ]
    }
}

impl Share {
    fn new(limit: f64, regrets: &[Estimate]) -> Self {
        let log = (1.0 + limit).ln();
        let share = |wanted: &dyn Fn(&Estimate) -> bool| {
            let count = regrets.iter().filter(|regret| wanted(regret)).count();
            count as f64 / regrets.len().max(1) as f64
        };
        Self {
            limit,
            estimate: share(&|regret| regret.mean <= log),
            shown: share(&|regret| regret.at_most(log) == Verdict::Within),
            behind: share(&|regret| regret.at_most(log) == Verdict::Behind),
            scenarios: regrets.len(),
        }
    }
}

impl Alone {
    fn new(label: &str, judged: &[Judged<'_>]) -> Option<Self> {
        let own: Vec<_> = judged
            .iter()
            .filter_map(|judged| Some((judged.scenario, *judged.alone.get(label)?)))
            .collect();
        let logs = own.iter().map(|(scenario, ratio)| (*scenario, ratio.mean));
        let ratio = Ratio::new(&independent(logs))?;
        let worst = own.iter().max_by(|a, b| a.1.mean.total_cmp(&b.1.mean))?;
        let slower = |by: f64| {
            let slower = own.iter();
            let slower = slower.filter(|(_, ratio)| ratio.low > (1.0 + by).ln());
            slower.count() as f64 / own.len() as f64
        };
        Some(Self {
            ratio: ratio.ratio,
            interval: ratio.interval,
            slower: slower(0.0),
            slower_by_2: slower(0.02),
            worst: worst.1.mean.exp(),
            where_worst: worst.0.name.clone(),
            scenarios: own.len(),
        })
    }
}

/// Twins count once, with their mean: both orders of the same paths are not independent.
fn independent<'a>(logs: impl Iterator<Item = (&'a Scenario, f64)>) -> Vec<f64> {
    let mut twins: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for (scenario, log) in logs {
        twins.entry(&scenario.twin).or_default().push(log);
    }
    twins.values().map(|logs| mean(logs)).collect()
}

/// The mean logarithm of a scheduler's cost over a rival's.
fn of_costs(scenario: &Scenario, label: &str, rival: &str) -> Option<f64> {
    Some(mean(scenario.costs.get(label)?) - mean(scenario.costs.get(rival)?))
}

/// The logarithm of a scheduler's out-of-order queue over a rival's.
fn of_queues(scenario: &Scenario, label: &str, rival: &str) -> Option<f64> {
    let queue = |label| {
        let queues = scenario.queues.get(label)?;
        (!queues.is_empty()).then(|| mean(queues) + SMALL_QUEUE)
    };
    Some((queue(label)? / queue(rival)?).ln())
}

fn compared(
    label: &str,
    scenarios: &[&Scenario],
    rivals: &[&str],
    log: fn(&Scenario, &str, &str) -> Option<f64>,
) -> Vec<Compared> {
    let others = rivals.iter().filter(|rival| **rival != label);
    let compared = others.filter_map(|rival| {
        let logs = scenarios
            .iter()
            .filter_map(|scenario| Some((*scenario, log(scenario, label, rival)?)));
        let ratio = Ratio::new(&independent(logs))?;
        Some(Compared {
            rival: (*rival).to_owned(),
            ratio: ratio.ratio,
            interval: ratio.interval,
            p: ratio.p,
            differs: false,
            scenarios: ratio.scenarios,
        })
    });
    compared.collect()
}

/// Decides which comparisons of each table hold together.
fn correct(rows: &mut [Row]) {
    for number in 0..4 {
        let mut all: Vec<_> = rows
            .iter_mut()
            .flat_map(|row| {
                let [a, b, c, d] = row.tables();
                [a, b, c, d].into_iter().nth(number).unwrap_or_default()
            })
            .collect();
        let p: Vec<_> = all.iter().map(|compared| compared.p).collect();
        for (compared, holds) in all.iter_mut().zip(holm(&p)) {
            compared.differs = holds;
        }
    }
}

#[cfg(test)]
mod tests;
