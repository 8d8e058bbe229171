//! Draws networks that others use too, whose rates change while the application sends little, whose links are mobile, and that
//! a user meets again.
//!
//! The links have the ranges of the prior, but for their queues, which hold 0.5 to 30 bandwidth-delay products: a flow of
//! somebody else fills them. What a network's kind and its workload's kind are goes by turns without a common divisor.

use std::time::Duration;

use mpquic_proto::{CongestionControl, Side};
use mpquic_sim::{CrossTraffic, LinkConfig, PlannedChange};

use super::links::{self, log_even, round};
use super::work;
use super::{CONTROLS, Drawn, network};
use crate::file::network::{Earlier, PathSpec};
use crate::networks::mobile::{MobileSpec, Model};
use crate::networks::sampling::Draws;

/// What others do, or the path itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// A download of somebody else, all the time.
    Download,
    /// An upload.
    Upload,
    /// A download that begins later.
    Comes,
    /// One that ends.
    Goes,
    /// Short ones, one after the other.
    Blinks,
    /// The rate of a path falls and stays there.
    Falls,
    /// It rises again later.
    Returns,
    /// It goes up and down all the time.
    Drifts,
    /// A download and an upload of somebody else, with different controls.
    Both,
    /// A mobile link beside others.
    Mobile,
    /// The second to fifth connection over the same paths, which may have changed.
    Again,
}

impl Kind {
    const ALL: [Self; 11] = [
        Self::Download,
        Self::Falls,
        Self::Again,
        Self::Upload,
        Self::Comes,
        Self::Mobile,
        Self::Returns,
        Self::Goes,
        Self::Both,
        Self::Blinks,
        Self::Drifts,
    ];

    const fn name(self) -> &'static str {
        match self {
            Self::Download => "download",
            Self::Upload => "upload",
            Self::Comes => "comes",
            Self::Goes => "goes",
            Self::Blinks => "blinks",
            Self::Falls => "falls",
            Self::Returns => "returns",
            Self::Drifts => "drifts",
            Self::Both => "both",
            Self::Mobile => "models",
            Self::Again => "again",
        }
    }
}

/// The controls of others, in turn.
const OTHERS: [CongestionControl; 3] = [
    CongestionControl::Cubic,
    CongestionControl::Bbr,
    CongestionControl::NewReno,
];

/// How long the channel of a mobile link is before its rates start over.
const MOBILE_LENGTH: Duration = Duration::from_mins(2);

/// The numbers of paths, in turn.
const PATHS: [usize; 5] = [2, 3, 2, 4, 2];

/// What runs, in turn: applications that send less than the paths carry, most of the time.
const KINDS: [&str; 7] = [
    "messages", "requests", "page", "requests", "messages", "video", "file",
];

/// The networks of a seed. `set` names them.
pub(crate) fn draw(set: &str, count: usize, seed: u64) -> Vec<Drawn> {
    (0..count).map(|number| one(set, number, seed)).collect()
}

fn one(set: &str, number: usize, seed: u64) -> Drawn {
    // Other networks than the prior's of the same seed.
    let mut draws = Draws::new(Draws::new(!seed ^ (number as u64) << 32).word());
    let kind = Kind::ALL[number % Kind::ALL.len()];
    let count = PATHS[number % PATHS.len()];
    let mut paths: Vec<_> = (0..count).map(|_| path(&mut draws)).collect();
    // Mostly the path that is best without it: there it matters.
    let chosen = match draws.unit() {
        pick if pick < 0.75 => soonest(&paths),
        _ => draws.below(count),
    };
    let others = OTHERS[draws.below(OTHERS.len())];
    let mut flows = Vec::new();
    let flow = |from, start, stop: Option<Duration>| CrossTraffic {
        start,
        stop,
        ..CrossTraffic::new(chosen, from, others)
    };
    let at = millis(log_even(&mut draws, 500.0, 4000.0));
    match kind {
        Kind::Download => flows.push(flow(Side::Server, Duration::ZERO, None)),
        Kind::Upload => flows.push(flow(Side::Client, Duration::ZERO, None)),
        Kind::Comes => flows.push(flow(Side::Server, at, None)),
        Kind::Goes => flows.push(flow(Side::Server, Duration::ZERO, Some(at))),
        Kind::Blinks => {
            let mut start = Duration::ZERO;
            for _ in 0..6 {
                let stop = start + millis(log_even(&mut draws, 400.0, 2000.0));
                flows.push(flow(Side::Server, start, Some(stop)));
                start = stop + millis(log_even(&mut draws, 300.0, 2000.0));
            }
        }
        Kind::Falls => changes(&mut paths[chosen], &[(at, fallen(&mut draws))]),
        Kind::Returns => {
            let back = at + millis(log_even(&mut draws, 500.0, 4000.0));
            changes(&mut paths[chosen], &[(at, fallen(&mut draws)), (back, 1.0)]);
        }
        Kind::Drifts => {
            let (mut at, mut steps) = (Duration::ZERO, Vec::new());
            for _ in 0..40 {
                at += millis(log_even(&mut draws, 200.0, 1500.0));
                steps.push((at, log_even(&mut draws, 0.1, 1.5)));
            }
            changes(&mut paths[chosen], &steps);
        }
        Kind::Both => {
            flows.push(flow(Side::Server, Duration::ZERO, None));
            flows.push(CrossTraffic::new(
                chosen,
                Side::Client,
                OTHERS[draws.below(OTHERS.len())],
            ));
        }
        Kind::Mobile => mobile(&mut paths, number / Kind::ALL.len(), &mut draws),
        Kind::Again => {}
    }
    let workload = work::of_kind(KINDS[number % KINDS.len()], &paths, &mut draws);
    let control = CONTROLS[number % CONTROLS.len()];
    let mut network = network(set, number, kind.name(), paths, &workload, control);
    network.cross_traffic = flows;
    if kind == Kind::Again {
        network.memory = true;
        network.connections_before = 1 + draws.below(4) as u32;
        // Half of the users come back to what they left.
        if draws.unit() < 0.5 {
            network.earlier = Some(Earlier {
                rate: hundredths(log_even(&mut draws, 0.25, 4.0)),
                rtt: hundredths(log_even(&mut draws, 0.5, 2.0)),
                paths: None,
            });
        }
    }
    Drawn { network, workload }
}

/// A path of the prior whose queues may be far longer.
fn path(draws: &mut Draws) -> PathSpec {
    let mut path = links::path(draws);
    let queue = log_even(draws, 0.5, 30.0);
    for link in [&mut path.up, &mut path.down] {
        link.queue = links::queue_of(link, queue);
    }
    path
}

/// The first path is a link of a model, all models in turn; each other one is so by chance.
fn mobile(paths: &mut [PathSpec], turn: usize, draws: &mut Draws) {
    for (at, path) in paths.iter_mut().enumerate() {
        let model = Model::ALL[(turn + at) % Model::ALL.len()];
        if at > 0 && draws.unit() < 0.5 {
            continue;
        }
        let [down, up] = model.mean_rates();
        path.down = LinkConfig::new(down, model.delay());
        path.up = LinkConfig::new(up, model.delay());
        let queue = log_even(draws, 0.5, 30.0);
        for link in [&mut path.up, &mut path.down] {
            link.queue = links::queue_of(link, queue);
        }
        // Each run has a channel of its own.
        path.model = Some(MobileSpec {
            model,
            seed: None,
            length: MOBILE_LENGTH,
            scale: 1.0,
        });
    }
}

fn hundredths(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}

/// The path with the shortest delay, the faster one of equals.
fn soonest(paths: &[PathSpec]) -> usize {
    let delays = paths.iter().map(|path| path.down.delay).enumerate();
    delays
        .min_by_key(|(_, delay)| *delay)
        .map_or(0, |(at, _)| at)
}

fn fallen(draws: &mut Draws) -> f64 {
    log_even(draws, 0.03, 0.4)
}

fn millis(milliseconds: f64) -> Duration {
    Duration::from_millis(round(milliseconds))
}

/// From each of these times on, the rates of both directions are this part of what they were at first.
fn changes(path: &mut PathSpec, steps: &[(Duration, f64)]) {
    for link in [&mut path.up, &mut path.down] {
        let Some(rate) = link.rate else { continue };
        for (at, factor) in steps {
            *link = link.clone().with_change(PlannedChange {
                rate: Some(round((rate as f64 * factor).max(3e4))),
                ..PlannedChange::at(*at)
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_networks_and_each_kind_is_what_it_says() {
        let all = draw("world", 77, 1);
        let networks = |drawn: &[Drawn]| -> Vec<_> {
            drawn.iter().map(|drawn| drawn.network.clone()).collect()
        };
        assert_eq!(networks(&draw("world", 20, 1)), networks(&all)[..20]);
        let (mut workloads, mut counts, mut models) =
            (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        for Drawn { network, workload } in &all {
            for path in &network.paths {
                assert!(path.up.validate().is_ok() && path.down.validate().is_ok());
            }
            let kind = network.set.split(' ').nth(1).unwrap();
            let flows = &network.cross_traffic;
            let changes = network.paths.iter().map(|path| path.down.changes.len());
            let from_client = flows.iter().any(|flow| flow.from == Side::Client);
            let expected = match kind {
                "download" | "comes" | "goes" => (1, 0),
                "upload" => {
                    assert!(from_client);
                    (1, 0)
                }
                "blinks" => (6, 0),
                "falls" => (0, 1),
                "returns" => (0, 2),
                "drifts" => (0, 40),
                "both" => {
                    assert!(from_client && flows.iter().any(|flow| flow.from == Side::Server));
                    (2, 0)
                }
                "models" => {
                    models.insert(network.paths[0].model.unwrap().model.name());
                    (0, 0)
                }
                "again" => {
                    assert!(network.memory && (1..=4).contains(&network.connections_before));
                    (0, 0)
                }
                other => panic!("{other}"),
            };
            assert_eq!((flows.len(), changes.sum::<usize>()), expected, "{kind}");
            assert_eq!(network.memory, kind == "again");
            counts.insert(network.paths.len());
            let form = workload.to_string();
            assert_eq!(
                form.parse::<mpquic_sim::workload::Workload>().as_ref(),
                Ok(workload)
            );
            workloads.insert((kind.to_owned(), form.split(':').next().unwrap().to_owned()));
        }
        // Seven turns of eleven kinds: each meets all five kinds of workloads.
        assert_eq!(workloads.len(), 11 * 5);
        assert_eq!(counts, BTreeSet::from([2, 3, 4]));
        assert_eq!(models.len(), Model::ALL.len());
    }
}
