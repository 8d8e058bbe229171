//! Networks that differ only in the path of the handshake, compared seed by seed: how much the order
//! of the paths matters.

use serde::Serialize;

use crate::result::record::NetworkInfo;
use crate::result::statistics;
use crate::result::summary::{Board, Group};
use crate::run::metrics::MetricInfo;
use crate::view::text::{Align, significant, table};

/// The orders of the paths of a set's networks, compared for one scheduler.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Spread {
    /// The set of networks.
    pub(crate) set: String,
    pub(crate) workload: String,
    pub(crate) congestion: String,
    pub(crate) scheduler: String,
    /// How paths are opened; empty stands for `confirmed`.
    pub(crate) start: String,
    pub(crate) metric: String,
    /// The number of networks that were run in several orders.
    pub(crate) networks: usize,
    /// The median over the networks of the ratio of the last order to the first one. A network's
    /// ratio is the median over its seeds.
    pub(crate) ratio: f64,
    /// The median over the networks of the spread: the ratio of the worse order to the better one.
    pub(crate) spread: f64,
    /// The largest spread.
    pub(crate) worst: f64,
    /// The network with the largest spread.
    pub(crate) worst_network: String,
}

/// The ratio of the last order to the first one, and the spread, of one network.
fn ratios(
    board: &Board<'_>,
    orders: &[Group<'_>],
    scheduler: &str,
    metric: &str,
) -> Option<[f64; 2]> {
    let values: Vec<_> = orders
        .iter()
        .map(|group| board.values(&group.cell(scheduler), metric))
        .collect();
    let mut last = None;
    let mut spread: f64 = 1.0;
    for (first, a) in values.iter().enumerate() {
        for (second, b) in values.iter().enumerate().skip(first + 1) {
            let pairs: Vec<_> = a
                .iter()
                .filter_map(|(seed, a)| {
                    let (_, b) = b.iter().find(|(other, _)| other == seed)?;
                    (*a > 0.0 && *b > 0.0).then_some(b / a)
                })
                .collect();
            if pairs.is_empty() {
                continue;
            }
            let ratio = statistics::median(&pairs);
            spread = spread.max(ratio).max(1.0 / ratio);
            if first == 0 && second + 1 == values.len() {
                last = Some(ratio);
            }
        }
    }
    Some([last?, spread])
}

/// The spreads of all sets whose networks were run with the handshake on several paths.
pub(crate) fn spreads(board: &Board<'_>) -> Vec<Spread> {
    let groups = board.groups();
    // The orders of one network, workload and congestion control, each with its headline metric.
    let mut twins: Vec<(Vec<Group<'_>>, MetricInfo)> = Vec::new();
    for group in groups.iter().filter(|group| !group.network.twin.is_empty()) {
        let key = |network: &NetworkInfo| {
            (
                network.set.clone(),
                network.twin.clone(),
                network.start.clone(),
                network.race,
            )
        };
        let same = |other: &&mut (Vec<Group<'_>>, MetricInfo)| {
            let first = &other.0[0];
            key(first.network) == key(group.network)
                && first.workload.name == group.workload.name
                && first.congestion == group.congestion
        };
        if let Some(orders) = twins.iter_mut().find(same) {
            orders.0.push(*group);
        } else if let Some(metric) = board.heading.metrics_of(group.workload).into_iter().next() {
            twins.push((vec![*group], metric));
        }
    }
    let mut spreads: Vec<(Spread, Vec<[f64; 2]>)> = Vec::new();
    for (orders, metric) in &mut twins {
        orders.sort_by_key(|group| group.network.handshake);
        let first = orders[0];
        for scheduler in board.schedulers(&first) {
            let Some(of_network) = ratios(board, orders, scheduler, &metric.name) else {
                continue;
            };
            let same = |other: &&mut (Spread, Vec<[f64; 2]>)| {
                other.0.set == first.network.set
                    && other.0.workload == first.workload.name
                    && other.0.congestion == first.congestion
                    && other.0.scheduler == scheduler
                    && other.0.start == first.network.start
            };
            let found = spreads.iter_mut().find(same);
            let (spread, all) = match found {
                Some(found) => found,
                None => {
                    let spread = Spread {
                        set: first.network.set.clone(),
                        workload: first.workload.name.clone(),
                        congestion: first.congestion.to_owned(),
                        scheduler: scheduler.to_owned(),
                        start: first.network.start.clone(),
                        metric: metric.name.clone(),
                        networks: 0,
                        ratio: 1.0,
                        spread: 1.0,
                        worst: 0.0,
                        worst_network: String::new(),
                    };
                    spreads.push((spread, Vec::new()));
                    let Some(last) = spreads.last_mut() else {
                        continue;
                    };
                    last
                }
            };
            all.push(of_network);
            if of_network[1] > spread.worst {
                spread.worst = of_network[1];
                spread.worst_network.clone_from(&first.network.twin);
            }
        }
    }
    let finished = spreads.into_iter().map(|(mut spread, all)| {
        let median =
            |of: usize| statistics::median(&all.iter().map(|one| one[of]).collect::<Vec<_>>());
        spread.networks = all.len();
        (spread.ratio, spread.spread) = (median(0), median(1));
        spread
    });
    finished.collect()
}

/// What the columns mean.
pub(crate) const LEGEND: &str = "Medians over seeds of paired runs that differ only in the path of the handshake. \
     `last / first`: the ratio of the order with the highest path number to that with the lowest; `spread`: the \
     ratio of the worse order to the better one. Both are medians over the networks of a set.";

/// The heads and cells of a table of spreads.
pub(crate) fn cells(board: &Board<'_>, spreads: &[Spread]) -> (Vec<String>, Vec<Vec<String>>) {
    let heading = board.heading;
    let (workload, controller) = (heading.workloads.len() > 1, heading.congestion.len() > 1);
    let mut heads = vec!["networks".to_owned()];
    heads.extend(workload.then(|| "workload".to_owned()));
    heads.extend(controller.then(|| "controller".to_owned()));
    let starts = spreads.iter().any(|spread| !spread.start.is_empty());
    heads.extend(starts.then(|| "start".to_owned()));
    heads.extend(
        [
            "scheduler",
            "metric",
            "last / first",
            "spread",
            "worst",
            "worst network",
        ]
        .map(str::to_owned),
    );
    let lines = spreads.iter().map(|spread| {
        let mut line = vec![format!("{} ({})", spread.set, spread.networks)];
        line.extend(workload.then(|| spread.workload.clone()));
        line.extend(controller.then(|| spread.congestion.clone()));
        line.extend(starts.then(|| match &*spread.start {
            "" => "confirmed".to_owned(),
            start => start.to_owned(),
        }));
        line.extend([spread.scheduler.clone(), spread.metric.clone()]);
        line.extend([spread.ratio, spread.spread, spread.worst].map(|value| significant(value, 4)));
        line.push(spread.worst_network.clone());
        line
    });
    (heads, lines.collect())
}

/// The table for the terminal; empty if no network was run in several orders.
pub(crate) fn text(board: &Board<'_>) -> String {
    let spreads = spreads(board);
    if spreads.is_empty() {
        return String::new();
    }
    let (heads, lines) = cells(board, &spreads);
    let names = heads
        .iter()
        .position(|head| head == "last / first")
        .unwrap_or(0);
    let heads: Vec<_> = heads
        .iter()
        .enumerate()
        .map(|(at, head)| {
            let number = (names..names + 3).contains(&at);
            (&**head, if number { Align::Right } else { Align::Left })
        })
        .collect();
    format!(
        "Which path carries the handshake. {LEGEND}\n{}",
        table(&heads, &lines)
    )
}
