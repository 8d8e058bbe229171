//! Draws the networks of a broad prior, each with a workload and a congestion control.
//!
//! The networks differ in more than the papers' do: two to four paths, rates from 1 to 200 Mbit/s,
//! one-way delays from 1 to 300 ms, losses up to 3 % by chance and in bursts, jitter up to 30 %,
//! queues of 0.25 to 4 bandwidth-delay products, rates that vary as those of mobile links, outages,
//! paths that get stuck, and shared bottlenecks. Rates, delays and queues are drawn evenly over their
//! logarithms.
//!
//! The number of a network decides its kind, its number of paths, its workload's kind and its
//! congestion control, in turns whose lengths have no common divisor. Every part of the networks is
//! therefore nearly balanced, and the first networks are the same whatever the count is.

mod links;
mod work;
mod world;

use std::time::Duration;

use mpquic_proto::congestion::SlowStart;
use mpquic_proto::{CongestionControl, PathStart};
use mpquic_sim::LinkConfig;
use mpquic_sim::workload::Workload;

use crate::file::network::{NetworkSpec, PathSpec, SharedSpec};
use crate::networks::sampling::Draws;

pub(crate) use world::draw as draw_world;

/// The networks' MTU, as in all experiments: UDP payload bytes per datagram.
pub(crate) const MTU: u16 = 1350;
/// The packets of the first window: the library's default.
pub(crate) const INITIAL_WINDOW: u32 = 10;
/// The windows of the connection and of each stream, as in all experiments.
const WINDOW: u64 = 6_000_000;

/// What is special about a network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Feature {
    /// Nothing.
    Plain,
    /// Independent losses on every path.
    Loss,
    /// Losses in bursts on every path.
    Bursts,
    /// The rates of one path at least vary as those of mobile links.
    Mobile,
    /// One path is down for some time.
    Outage,
    /// Two paths share a bottleneck.
    Shared,
    /// The rate of one path falls to a small part, and its delay grows.
    Stuck,
}

impl Feature {
    const ALL: [Self; 7] = [
        Self::Plain,
        Self::Loss,
        Self::Bursts,
        Self::Mobile,
        Self::Outage,
        Self::Shared,
        Self::Stuck,
    ];

    const fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Loss => "loss",
            Self::Bursts => "bursts",
            Self::Mobile => "mobile",
            Self::Outage => "outage",
            Self::Shared => "shared",
            Self::Stuck => "stuck",
        }
    }
}

/// The numbers of paths, in turn: half of the networks and more have two.
const PATHS: [usize; 5] = [2, 3, 2, 4, 2];

/// The congestion controls, in turn.
pub(crate) const CONTROLS: [CongestionControl; 3] = [
    CongestionControl::Cubic,
    CongestionControl::Olia,
    CongestionControl::Bbr,
];

/// A network of the prior with what runs on it.
#[derive(Debug, Clone)]
pub(crate) struct Drawn {
    pub(crate) network: NetworkSpec,
    pub(crate) workload: Workload,
}

/// The networks of a seed. `set` names them.
pub(crate) fn draw(set: &str, count: usize, seed: u64) -> Vec<Drawn> {
    (0..count).map(|number| one(set, number, seed)).collect()
}

fn one(set: &str, number: usize, seed: u64) -> Drawn {
    let mut draws = Draws::new(Draws::new(seed ^ (number as u64) << 32).word());
    let feature = Feature::ALL[number % Feature::ALL.len()];
    let control = CONTROLS[number % CONTROLS.len()];
    let count = PATHS[number % PATHS.len()];
    let mut paths: Vec<_> = (0..count).map(|_| links::path(&mut draws)).collect();
    let mut shared = Vec::new();
    let chosen = draws.below(count);
    match feature {
        Feature::Plain => {}
        Feature::Loss => {
            for path in &mut paths {
                links::lossy(path, &mut draws);
            }
        }
        Feature::Bursts => {
            for path in &mut paths {
                links::bursts(path, &mut draws);
            }
        }
        Feature::Mobile => {
            for (at, path) in paths.iter_mut().enumerate() {
                if at == chosen || draws.unit() < 0.5 {
                    links::mobile(path, &mut draws);
                }
            }
        }
        Feature::Outage => links::outage(&mut paths[chosen], &mut draws),
        Feature::Shared => shared.push(bottleneck(&mut paths, chosen, &mut draws)),
        Feature::Stuck => links::stuck(&mut paths[chosen], &mut draws),
    }
    let workload = work::draw(number / CONTROLS.len(), &paths, &mut draws);
    let mut network = network(set, number, feature.name(), paths, &workload, control);
    network.shared = shared;
    Drawn { network, workload }
}

/// The network of these paths, as the library starts there.
fn network(
    set: &str,
    number: usize,
    kind: &str,
    paths: Vec<PathSpec>,
    workload: &Workload,
    control: CongestionControl,
) -> NetworkSpec {
    let name = format!("{set}/{:03} {kind}", number + 1);
    NetworkSpec {
        twin: name.clone(),
        name,
        set: format!("{set} {kind}"),
        parameters: Vec::new(),
        paths,
        handshake: 0,
        start: PathStart::default(),
        race: true,
        early_path_data: false,
        shared: Vec::new(),
        cross_traffic: Vec::new(),
        receive_window: WINDOW,
        send_window: WINDOW,
        initial_window: INITIAL_WINDOW,
        slow_start: SlowStart::default(),
        tail_copies: true,
        ack_frequency: None,
        pacing: true,
        mtu: MTU,
        schedulers: Vec::new(),
        workloads: vec![workload.to_string()],
        congestion: vec![control.to_string()],
        memory: false,
        connections_before: 1,
        tokens: true,
        earlier: None,
    }
}

/// A link that the chosen path and the next one share, with 0.3 to 1 times their rates together.
fn bottleneck(paths: &mut [PathSpec], chosen: usize, draws: &mut Draws) -> SharedSpec {
    let pair = [chosen, (chosen + 1) % paths.len()];
    let sum: u64 = pair
        .iter()
        .map(|&at| paths[at].down.rate.unwrap_or(0))
        .sum();
    for at in pair {
        paths[at].through = Some("shared".into());
    }
    let rate = (sum as f64 * (0.3 + 0.7 * draws.unit())) as u64;
    let delay = Duration::from_millis(1 + draws.below(10) as u64);
    SharedSpec {
        name: "shared".into(),
        link: LinkConfig::new(links::round(rate as f64), delay),
    }
}

#[cfg(test)]
mod tests;
