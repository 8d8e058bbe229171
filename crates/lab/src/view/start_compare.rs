//! Networks that differ only in how a connection opens its paths, compared seed by seed with the start of before.

use serde::Serialize;

use crate::result::record::NetworkInfo;
use crate::result::statistics;
use crate::result::summary::{Board, Group};
use crate::view::text::{Align, significant, table};

/// A network counts as slower from this ratio on.
const SLOWER: f64 = 1.02;

/// One way of opening paths over a set's networks in one order, against [`NetworkInfo::start`] `confirmed`, for one
/// scheduler.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Gain {
    /// The set of networks.
    pub(crate) set: String,
    /// The number of the path that carries the handshake, from 1.
    pub(crate) handshake: usize,
    pub(crate) workload: String,
    pub(crate) congestion: String,
    pub(crate) scheduler: String,
    pub(crate) start: String,
    /// Networks that were run with both.
    pub(crate) networks: usize,
    /// The geometric mean over the networks of new to old. A network's ratio is the geometric mean over its seeds.
    pub(crate) mean: f64,
    /// The 95 % bootstrap interval of that mean: over networks, over seeds if there is one network only.
    pub(crate) interval: [f64; 2],
    /// The median over the networks.
    pub(crate) median: f64,
    /// Networks of which the ratio is above 1.02.
    pub(crate) slower: usize,
    /// Those of them where the whole interval over the seeds is.
    pub(crate) surely_slower: usize,
    /// The largest ratio.
    pub(crate) worst: f64,
    /// The network that has it.
    pub(crate) worst_network: String,
    /// The median over the networks of this start, with this path for the handshake, to the start of before with the
    /// first path for it.
    pub(crate) of_first: Option<f64>,
}

/// The logarithms of the ratios of pairs, by seed.
fn logs(new: &[(u64, f64)], old: &[(u64, f64)]) -> Vec<f64> {
    let pairs = new.iter().filter_map(|(seed, new)| {
        let (_, old) = old.iter().find(|(other, _)| other == seed)?;
        (*new > 0.0 && *old > 0.0).then(|| (new / old).ln())
    });
    pairs.collect()
}

/// What is gathered for one row.
struct Gathered {
    gain: Gain,
    /// The mean logarithm of each network.
    networks: Vec<f64>,
    /// The logarithms of the last network's seeds.
    seeds: Vec<f64>,
    of_first: Vec<f64>,
}

/// The gains of all sets whose networks were run with several starts.
pub(crate) fn gains(board: &Board<'_>) -> Vec<Gain> {
    let groups = board.groups();
    let of = |group: &Group<'_>, start: &str, handshake: Option<usize>| {
        groups.iter().copied().find(|other| {
            let same = |network: &NetworkInfo| (network.set.clone(), network.twin.clone());
            same(other.network) == same(group.network)
                && other.network.start == start
                && handshake.is_none_or(|handshake| other.network.handshake == handshake)
                && other.workload.name == group.workload.name
                && other.congestion == group.congestion
        })
    };
    let mut rows: Vec<Gathered> = Vec::new();
    for group in groups
        .iter()
        .filter(|group| !group.network.start.is_empty())
    {
        let network = group.network;
        let old = of(group, "", Some(network.handshake));
        let metric = board.heading.metrics_of(group.workload).into_iter().next();
        let (Some(old), Some(metric)) = (old.filter(|_| !network.twin.is_empty()), metric) else {
            continue;
        };
        // 0 stands for 1.
        let first = of(group, "", Some(0)).or_else(|| of(group, "", Some(1)));
        for scheduler in board.schedulers(group) {
            let values = |group: &Group<'_>| board.values(&group.cell(scheduler), &metric.name);
            let new = values(group);
            let seeds = logs(&new, &values(&old));
            if seeds.is_empty() {
                continue;
            }
            let same = |row: &Gathered| {
                let gain = &row.gain;
                gain.set == network.set
                    && gain.handshake == network.handshake.max(1)
                    && gain.workload == group.workload.name
                    && gain.congestion == group.congestion
                    && gain.scheduler == scheduler
                    && gain.start == network.start
            };
            let position = match rows.iter().position(same) {
                Some(position) => position,
                None => {
                    rows.push(Gathered {
                        gain: Gain {
                            set: network.set.clone(),
                            handshake: network.handshake.max(1),
                            workload: group.workload.name.clone(),
                            congestion: group.congestion.to_owned(),
                            scheduler: scheduler.to_owned(),
                            start: network.start.clone(),
                            networks: 0,
                            mean: 1.0,
                            interval: [1.0; 2],
                            median: 1.0,
                            slower: 0,
                            surely_slower: 0,
                            worst: 0.0,
                            worst_network: String::new(),
                            of_first: None,
                        },
                        networks: Vec::new(),
                        seeds: Vec::new(),
                        of_first: Vec::new(),
                    });
                    rows.len() - 1
                }
            };
            let row = &mut rows[position];
            let mean = statistics::mean(&seeds);
            let ratio = mean.exp();
            let [low, _] = statistics::mean_interval(&seeds, 1);
            row.gain.slower += usize::from(ratio > SLOWER);
            let enough = seeds.len() >= statistics::MIN_PAIRS;
            row.gain.surely_slower += usize::from(enough && low.exp() > SLOWER);
            if ratio > row.gain.worst {
                row.gain.worst = ratio;
                row.gain.worst_network.clone_from(&network.twin);
            }
            row.networks.push(mean);
            row.seeds = seeds;
            let to_first = first.map(|first| logs(&new, &values(&first)));
            let to_first = to_first.filter(|logs| !logs.is_empty());
            row.of_first
                .extend(to_first.map(|logs| statistics::mean(&logs).exp()));
        }
    }
    let finished = rows.into_iter().map(|row| {
        let mut gain = row.gain;
        gain.networks = row.networks.len();
        gain.mean = statistics::mean(&row.networks).exp();
        gain.median = statistics::median(&row.networks).exp();
        let sample = if row.networks.len() > 1 {
            &row.networks
        } else {
            &row.seeds
        };
        gain.interval = statistics::mean_interval(sample, 1).map(f64::exp);
        gain.of_first = (!row.of_first.is_empty()).then(|| statistics::median(&row.of_first));
        gain
    });
    finished.collect()
}

/// What the columns mean.
pub(crate) const LEGEND: &str = "Ratios of a run to the one that differs only in opening paths when the handshake is \
     confirmed (less is faster), paired by seed. `mean`: the geometric mean over the networks of a set, with its 95 % \
     interval; `slower`: networks above 1.02, of them those where the whole interval over the seeds is; `of first`: \
     the median ratio to the start of before with the handshake on path 1.";

/// The heads and cells of a table of gains.
pub(crate) fn cells(board: &Board<'_>, gains: &[Gain]) -> (Vec<String>, Vec<Vec<String>>) {
    let heading = board.heading;
    let (workload, controller) = (heading.workloads.len() > 1, heading.congestion.len() > 1);
    let mut heads = vec!["networks".to_owned(), "handshake".to_owned()];
    heads.extend(workload.then(|| "workload".to_owned()));
    heads.extend(controller.then(|| "controller".to_owned()));
    let more = [
        "scheduler",
        "start",
        "mean",
        "interval",
        "median",
        "slower",
        "surely",
        "worst",
        "worst network",
        "of first",
    ];
    heads.extend(more.map(str::to_owned));
    let lines = gains.iter().map(|gain| {
        let mut line = vec![
            format!("{} ({})", gain.set, gain.networks),
            gain.handshake.to_string(),
        ];
        line.extend(workload.then(|| gain.workload.clone()));
        line.extend(controller.then(|| gain.congestion.clone()));
        let [low, high] = gain.interval.map(|end| format!("{end:.3}"));
        line.extend([
            gain.scheduler.clone(),
            gain.start.clone(),
            format!("{:.3}", gain.mean),
            format!("{low} .. {high}"),
            format!("{:.3}", gain.median),
            gain.slower.to_string(),
            gain.surely_slower.to_string(),
            significant(gain.worst, 4),
            gain.worst_network.clone(),
            gain.of_first
                .map_or_else(|| "-".into(), |ratio| format!("{ratio:.3}")),
        ]);
        line
    });
    (heads, lines.collect())
}

/// The table for the terminal; empty if no network was run with several starts.
pub(crate) fn text(board: &Board<'_>) -> String {
    let gains = gains(board);
    if gains.is_empty() {
        return String::new();
    }
    let (heads, lines) = cells(board, &gains);
    let heads: Vec<_> = heads.iter().map(|head| (&**head, Align::Left)).collect();
    format!("How paths are opened. {LEGEND}\n{}", table(&heads, &lines))
}
