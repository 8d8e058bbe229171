//! One program behind the links: from the namespace to the report.

use std::ffi::OsString;
use std::io::Write;
use std::net::Ipv4Addr;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Command, ExitStatus};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use mpquic_sim::LinkStats;
use serde::Serialize;
use signal_hook::consts::signal::{SIGINT, SIGQUIT};

use super::flows::{self, Flow};
use super::namespace::{Namespace, NamespaceError, inside_name};
use super::relay::{Direction, Lateness, clock};
use crate::command::cli::Failure;
use crate::file::network::NetworkSpec;

/// What a direction of a link carried, packets and bytes of IP.
#[derive(Debug, Serialize)]
struct Carried {
    packets: u64,
    bytes: u64,
    /// Of those that came, lost by a full queue, by chance, by an outage.
    dropped_queue: u64,
    dropped_loss: u64,
    dropped_outage: u64,
    /// The most that waited.
    queue_bytes: u64,
    /// The mean rate over the whole run.
    bits_per_second: f64,
}

impl Carried {
    fn new(stats: &LinkStats, seconds: f64) -> Self {
        Self {
            packets: stats.delivered,
            bytes: stats.bytes_delivered,
            dropped_queue: stats.dropped_queue,
            dropped_loss: stats.dropped_loss,
            dropped_outage: stats.dropped_outage,
            queue_bytes: stats.max_queue_bytes,
            bits_per_second: stats.bytes_delivered as f64 * 8.0 / seconds,
        }
    }
}

#[derive(Debug, Serialize)]
struct Interface {
    name: String,
    address: Option<Ipv4Addr>,
    /// What the program sent.
    up: Carried,
    /// What it received.
    down: Carried,
}

#[derive(Debug, Serialize)]
struct Late {
    p50_us: Option<u128>,
    p99_us: Option<u128>,
    most_us: u128,
}

#[derive(Debug, Serialize)]
struct Report {
    network: String,
    seconds: f64,
    status: u8,
    links: Vec<Interface>,
    /// The flows of others.
    flows: Vec<flows::Carried>,
    /// How long after the model's time packets left.
    late: Late,
    /// Packets that the system did not take.
    refused: u64,
}

/// Both directions of all links.
struct Links {
    up: Arc<Direction>,
    down: Arc<Direction>,
}

impl Links {
    /// The links of a network, of the paths first when the program sends, last when it receives.
    fn new(network: &NetworkSpec, seed: u64) -> Result<Self, mpquic_sim::LinkConfigError> {
        let own = network.paths.len();
        let through = |path: usize| {
            let name = network.paths[path].through.as_ref()?;
            network
                .shared
                .iter()
                .position(|shared| shared.name == *name)
        };
        let shared = || network.shared.iter().map(|shared| shared.link.clone());
        let up = network.paths.iter().map(|path| path.up.clone());
        let down = network.paths.iter().map(|path| path.down.clone());
        let up_routes = (0..own).map(|path| {
            let shared = through(path).map(|shared| own + shared);
            std::iter::once(path).chain(shared).collect()
        });
        let before = network.shared.len();
        let down_routes = (0..own).map(|path| {
            let own = std::iter::once(before + path);
            through(path).into_iter().chain(own).collect()
        });
        // The program starts now, and with it the time of all that is planned.
        let origin = clock();
        Ok(Self {
            up: Direction::new(
                origin,
                up.chain(shared()).collect(),
                up_routes.collect(),
                seed,
            )?,
            down: Direction::new(
                origin,
                shared().chain(down).collect(),
                down_routes.collect(),
                !seed,
            )?,
        })
    }

    fn report(&self, network: &NetworkSpec, namespace: &Namespace, seconds: f64) -> Report {
        let (up, late_up, refused_up) = self.up.figures();
        let (down, late_down, refused_down) = self.down.figures();
        let (paths, shared) = (network.paths.len(), network.shared.len());
        let carried = |stats: &LinkStats| Carried::new(stats, seconds);
        let own = (0..paths).map(|path| Interface {
            name: inside_name(path),
            address: Some(namespace.addresses(path)[1]),
            up: carried(&up[path]),
            down: carried(&down[shared + path]),
        });
        let between = network
            .shared
            .iter()
            .enumerate()
            .map(|(number, link)| Interface {
                name: link.name.clone(),
                address: None,
                up: carried(&up[paths + number]),
                down: carried(&down[number]),
            });
        let late: Lateness = late_up.with(&late_down);
        let us = |share| late.quantile(share).map(|late| late.as_micros());
        Report {
            network: network.name.clone(),
            seconds,
            status: 0,
            links: own.chain(between).collect(),
            flows: Vec::new(),
            late: Late {
                p50_us: us(0.5),
                p99_us: us(0.99),
                most_us: late.most().as_micros(),
            },
            refused: refused_up + refused_down,
        }
    }
}

/// Runs a program behind a network. Returns its exit status.
pub(super) fn run(
    network: &NetworkSpec,
    seed: u64,
    program: &[OsString],
    json: bool,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> Result<u8, Failure> {
    let namespace = Namespace::new(network.paths.len()).map_err(explain)?;
    let outside = namespace.addresses(0)[0];
    for (path, spec) in network.paths.iter().enumerate() {
        let [there, here] = namespace.addresses(path);
        let words = spec.describe();
        let name = inside_name(path);
        writeln!(err, "{name}  {here} to {there}  {words}")?;
    }
    writeln!(
        err,
        "Programs outside are at {outside} by every link, if they listen on all addresses."
    )?;
    let links = Links::new(network, seed).map_err(Failure::usage)?;
    links.up.start(&namespace.inside, &namespace.outside)?;
    links.down.start(&namespace.outside, &namespace.inside)?;
    let flows = flows::start(&network.cross_traffic, &namespace, seed).map_err(Failure::run)?;
    // A Ctrl-C is for the program, as in a shell: this one goes on to its report.
    for signal in [SIGINT, SIGQUIT] {
        signal_hook::flag::register(signal, Arc::new(AtomicBool::new(false)))?;
    }
    let [name, arguments @ ..] = program else {
        return Err(Failure::usage("expected a program"));
    };
    let addresses: Vec<_> = (0..network.paths.len())
        .map(|path| namespace.addresses(path)[1].to_string())
        .collect();
    out.flush()?;
    let begun = clock();
    let ended = namespace
        .enter(|| {
            let mut command = Command::new(name);
            command.args(arguments);
            command.env("LAB_OUTSIDE", outside.to_string());
            command.env("LAB_ADDRESSES", addresses.join(","));
            command.status()
        })
        .map_err(explain)?;
    let seconds = clock().duration_since(begun).max(Duration::from_micros(1));
    links.up.stop();
    links.down.stop();
    let status =
        ended.map_err(|error| Failure::Usage(format!("{}: {error}", name.to_string_lossy())))?;
    let mut report = links.report(network, &namespace, seconds.as_secs_f64());
    report.status = code(status);
    report.flows = flows.iter().map(Flow::carried).collect();
    if json {
        let line = serde_json::to_string(&report).map_err(Failure::run)?;
        writeln!(out, "{line}")?;
    } else {
        table(&report, err)?;
    }
    Ok(report.status)
}

/// As a shell has it: 128 and the signal that ended it.
fn code(status: ExitStatus) -> u8 {
    let signal = || status.signal().map(|signal| 128 + signal);
    let code = status.code().or_else(signal).unwrap_or(1);
    u8::try_from(code).unwrap_or(1)
}

fn explain(error: NamespaceError) -> Failure {
    let hint = if rustix::process::geteuid().is_root() {
        "it needs `ip` of iproute2, the kernel's TUN devices (/dev/net/tun) and network namespaces"
    } else {
        "network namespaces and TUN devices need root: run it with sudo"
    };
    Failure::Run(format!("the links cannot be made: {error}; {hint}"))
}

fn table(report: &Report, err: &mut dyn Write) -> std::io::Result<()> {
    writeln!(
        err,
        "{:8} {:>4} {:>11} {:>9} {:>9} {:>8} {:>8} {:>8} {:>10}",
        "link", "", "Mbit/s", "packets", "MB", "queue", "chance", "outage", "waited kB"
    )?;
    for link in &report.links {
        for (direction, carried) in [("up", &link.up), ("down", &link.down)] {
            writeln!(
                err,
                "{:8} {direction:>4} {:>11.3} {:>9} {:>9.3} {:>8} {:>8} {:>8} {:>10.1}",
                link.name,
                carried.bits_per_second / 1e6,
                carried.packets,
                carried.bytes as f64 / 1e6,
                carried.dropped_queue,
                carried.dropped_loss,
                carried.dropped_outage,
                carried.queue_bytes as f64 / 1e3,
            )?;
        }
    }
    for flow in &report.flows {
        writeln!(err, "{flow}")?;
    }
    if let (Some(p50), Some(p99)) = (report.late.p50_us, report.late.p99_us) {
        let most = report.late.most_us;
        writeln!(
            err,
            "Packets left {p50} us late in the median, {p99} us in the 99th of 100, {most} us at most."
        )?;
    }
    if report.refused > 0 {
        writeln!(err, "The system refused {} packets.", report.refused)?;
    }
    Ok(())
}
