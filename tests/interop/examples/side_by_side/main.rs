//! The same downloads over the same emulated links by this crate, quinn and noq in turn, over real sockets. Run it on
//! a quiet machine.

mod cli;
mod network;

mod ours;
mod peers;

mod report;
mod tls;

use std::error::Error;
use std::io::{IsTerminal, stderr};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Parser;

use cli::Arguments;
use network::{Bottleneck, Network};
use report::{Report, Row, Variant};

/// The initial congestion window of this crate: ten datagrams of 1,200 bytes (RFC 9002 section 7.2).
const INITIAL_WINDOW: u64 = 12_000;
/// A run that takes longer has failed.
const PATIENCE: Duration = Duration::from_secs(60);

type Fault = Box<dyn Error + Send + Sync>;

/// What a download took.
#[derive(Debug, Clone, Copy)]
struct Took {
    /// From the first packet of the handshake to the last byte.
    total: Duration,
    /// From the request to the last byte.
    since_request: Duration,
    /// Datagrams that the emulated links dropped at their queues, towards the client.
    dropped: u64,
}

fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => error.exit(),
    };
    let report = match run(&arguments) {
        Ok(report) => report,
        Err(error) => {
            eprintln!("error: {error}");
            return ExitCode::FAILURE;
        }
    };
    match arguments.json {
        true => println!("{}", report.to_json()),
        false => print!("{report}"),
    }
    ExitCode::SUCCESS
}

fn run(arguments: &Arguments) -> Result<Report, Fault> {
    let networks = Network::all(&arguments.network, &arguments.order)?;
    let variants = Variant::all(&arguments.variant)?;
    let mut report = Report::default();
    let progress = !arguments.json && stderr().is_terminal();
    for network in &networks {
        for &congestion in &arguments.congestion {
            let mut took = vec![Vec::new(); variants.len()];
            for round in 0..arguments.runs {
                // Each round has all, begun at another place, so that the machine's moods are shared.
                for turn in 0..variants.len() {
                    let number = (turn + round) % variants.len();
                    let one = download(network, variants[number], congestion, arguments, round)?;
                    took[number].push(one);
                    if progress {
                        eprint!(
                            "\r\x1b[K{} {congestion}: round {} of {}, {}",
                            network.name,
                            round + 1,
                            arguments.runs,
                            variants[number].name()
                        );
                    }
                }
            }
            let bound = network.bound(arguments.size);
            for (variant, took) in variants.iter().zip(took) {
                report
                    .rows
                    .push(Row::new(network, *variant, congestion, bound, took));
            }
        }
    }
    if progress {
        eprint!("\r\x1b[K");
    }
    Ok(report)
}

fn download(
    network: &Network,
    variant: Variant,
    congestion: cli::Congestion,
    arguments: &Arguments,
    round: usize,
) -> Result<Took, Fault> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let bytes = arguments.size;
        let seed = round as u64;
        let one = async {
            match variant {
                Variant::Ours(options) => {
                    ours::download(network, options, congestion, bytes, seed).await
                }
                Variant::Quinn => {
                    peers::quinn_stack::download(network, congestion, None, bytes, seed).await
                }
                Variant::QuinnTen => {
                    let window = Some(INITIAL_WINDOW);
                    peers::quinn_stack::download(network, congestion, window, bytes, seed).await
                }
                Variant::Noq => {
                    peers::noq_stack::download(network, congestion, None, bytes, seed).await
                }
            }
        };
        let limited = tokio::time::timeout(PATIENCE, one).await;
        limited.map_err(|_| format!("{} on {}: no end", variant.name(), network.name))?
    })
}

/// Times a download: `begin` before the first packet, `asked` at the request.
fn took(begin: Instant, asked: Instant, links: &Bottleneck) -> Took {
    let now = clock();
    Took {
        total: now - begin,
        since_request: now - asked,
        dropped: links.dropped(),
    }
}

/// The clock of these measurements: they are of the real world.
#[allow(
    clippy::disallowed_methods,
    reason = "measures real sockets in real time"
)]
fn clock() -> Instant {
    Instant::now()
}
