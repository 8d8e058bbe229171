//! Attacks a server over the loopback network, and tells what that does to an honest client and to the server's memory.
//!
//! ```text
//! cargo run --release -p mpquic-hostile -- path-ids --rate 1mbit --seconds 60
//! cargo run --release -p mpquic-hostile -- all --seconds 60
//! cargo run --release -p mpquic-hostile -- idle --connections 10000
//! cargo run --release -p mpquic-hostile -- beside connections --rate 1mbit
//! cargo run --release -p mpquic-hostile -- unproven --server localhost:4433 --alpn h3 --seconds 20
//! ```

use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, Subcommand};
use mpquic_hostile::blackbox::attacker::Attacker;
use mpquic_hostile::blackbox::attacks::{ATTACKS, Attack};
use mpquic_hostile::blackbox::beside::{self, Beside};
use mpquic_hostile::blackbox::foreign::{self, Target};
use mpquic_hostile::blackbox::heap::HEAP;
use mpquic_hostile::blackbox::honest::Honest;
use mpquic_hostile::blackbox::idle;
use mpquic_hostile::blackbox::paths::PATH_ATTACKS;
use mpquic_hostile::blackbox::report::{Phase, Report};
use mpquic_hostile::blackbox::server::{Error, ServerProcess, serve};
use mpquic_test_support::allocator::Counting;

#[global_allocator]
static ALLOCATOR: Counting = HEAP;

/// What an idle connection may hold beside its paths, and for each path, in bytes.
const CONNECTION: f64 = 30_000.0;
const PATH: f64 = 4_000.0;

/// How many times longer the 99th of a hundred handshakes may take beside an attack.
const BESIDE: f64 = 2.0;

/// Attacks a server of its own over real sockets, or one that you run (`--server`).
///
/// Exit status: 0 all limits held; 1 one did not, or something went wrong; 2 wrong arguments.
#[derive(Debug, Parser)]
#[command(args_conflicts_with_subcommands = true, after_help = list())]
struct Options {
    #[command(subcommand)]
    command: Option<Command>,
    /// The attack, or "all"; "none" sends nothing, and shows what the machine itself does.
    attack: Option<String>,
    /// How fast the attacker sends, IP and UDP headers included.
    #[arg(long, default_value = "1mbit", value_parser = rate)]
    rate: f64,
    /// How long it attacks.
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// How long the honest client is measured before: 25 seconds are a thousand handshakes.
    #[arg(long, default_value_t = 25)]
    before: u64,
    /// How long it is measured after.
    #[arg(long, default_value_t = 10)]
    after: u64,
    /// The server's idle timeout in seconds; what the attack has left must be gone after it.
    #[arg(long, default_value_t = 10)]
    idle: u64,
    /// A shared library with the server's allocator, in place of the system's. glibc's gives back only what lies above all
    /// blocks that are in use, so that memory stays resident that nobody holds.
    #[arg(long, value_name = "LIBRARY")]
    allocator: Option<String>,
    /// Prints a line of JSON for each attack.
    #[arg(long)]
    json: bool,
    /// Attacks this server, of which only the outside is seen: HOST:PORT. Only ever one that is yours.
    #[arg(long, value_name = "HOST:PORT")]
    server: Option<String>,
    /// The server's name in TLS, if it is not the host.
    #[arg(long, requires = "server")]
    name: Option<String>,
    /// The protocol that the server wants, such as h3.
    #[arg(long, requires = "server")]
    alpn: Option<String>,
    /// Tells of which sizes there are more blocks than before.
    #[arg(long)]
    heap: bool,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Is the server that is attacked.
    Serve {
        /// Its idle timeout in seconds.
        #[arg(long, default_value_t = 10)]
        idle: u64,
    },
    /// Measures an honest client's handshakes without an attack and beside it, by turns over one server.
    Beside {
        /// The attack.
        #[arg(default_value = "connections")]
        attack: String,
        /// How fast the attacker sends, IP and UDP headers included.
        #[arg(long, default_value = "1mbit", value_parser = rate)]
        rate: f64,
        /// How many turns there are of each.
        #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..))]
        rounds: u32,
        /// How long a turn is.
        #[arg(long, default_value_t = 20)]
        seconds: u64,
        /// A shared library with the server's allocator, in place of the system's.
        #[arg(long, value_name = "LIBRARY")]
        allocator: Option<String>,
    },
    /// Opens many connections that do nothing, and tells what the server holds for each.
    Idle {
        /// How many.
        #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..))]
        connections: u64,
        /// Paths of each; both one and two unless given.
        #[arg(long, value_parser = clap::value_parser!(u64).range(1..=4))]
        paths: Option<u64>,
        /// A shared library with the server's allocator, in place of the system's.
        #[arg(long, value_name = "LIBRARY")]
        allocator: Option<String>,
        /// Tells how many blocks of which size those are.
        #[arg(long)]
        heap: bool,
    },
}

/// All attacks.
fn attacks() -> impl Iterator<Item = &'static Attack> {
    ATTACKS.iter().chain(PATH_ATTACKS)
}

fn list() -> String {
    let lines = attacks().map(|(name, what, _)| format!("  {name:<14} {what}\n"));
    format!("Attacks:\n{}", lines.collect::<String>())
}

fn rate(text: &str) -> Result<f64, String> {
    let number = |text: &str, unit: f64| text.trim().parse::<f64>().map(|value| value * unit);
    let rate = if let Some(text) = text.strip_suffix("gbit") {
        number(text, 1e9)
    } else if let Some(text) = text.strip_suffix("mbit") {
        number(text, 1e6)
    } else if let Some(text) = text.strip_suffix("kbit") {
        number(text, 1e3)
    } else {
        number(text, 1.0)
    };
    rate.ok()
        .filter(|rate| *rate >= 1000.0)
        .ok_or_else(|| "a rate like 1mbit or 500kbit, at least 1kbit".into())
}

fn main() -> ExitCode {
    let options = Options::parse();
    match run(&options) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: &Options) -> Result<bool, Error> {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.enable_all();
    match &options.command {
        Some(Command::Serve { idle }) => {
            builder
                .build()?
                .block_on(serve(Duration::from_secs(*idle)))?;
            return Ok(true);
        }
        Some(Command::Beside {
            attack,
            rate,
            rounds,
            seconds,
            allocator,
        }) => {
            let chosen = chosen(attack)?;
            let runtime = builder.worker_threads(1).build()?;
            let mut held = true;
            for attack in chosen {
                let (turn, allocator) = (Duration::from_secs(*seconds), allocator.as_deref());
                let beside = beside::measure(attack, *rate, *rounds, turn, allocator);
                held &= tell(attack.0, &runtime.block_on(beside)?);
            }
            return Ok(held);
        }
        Some(Command::Idle {
            connections,
            paths,
            allocator,
            heap,
        }) => {
            let runtime = builder.worker_threads(1).build()?;
            let mut held = true;
            let counts = paths.map_or(1..=2, |paths| paths..=paths);
            for paths in counts {
                let allocator = allocator.as_deref();
                let measured = idle::measure(allocator, *connections as usize, paths as usize);
                let cost = runtime.block_on(measured)?;
                let limit = CONNECTION + paths as f64 * PATH;
                println!(
                    "{connections} idle connections, {paths} path(s): {:.0} bytes held for each, {:.0} resident (at \
                     most {limit:.0} held): {}",
                    cost.held,
                    cost.resident,
                    if cost.held <= limit { "held" } else { "FELL" }
                );
                if *heap {
                    for (size, count) in cost.blocks.iter().take(40) {
                        println!("    {count:.2} of {size} bytes");
                    }
                }
                held &= cost.held <= limit;
            }
            return Ok(held);
        }
        None => {}
    }
    let chosen = chosen(options.attack.as_deref().unwrap_or("all"))?;
    if let Some(server) = &options.server {
        let target = Target::new(server, options.name.as_deref(), options.alpn.as_deref())?;
        let mut answers = true;
        for attack in chosen {
            let time = Duration::from_secs(options.seconds);
            let seen = foreign::attack(&target, attack, options.rate, time)?;
            print!("{seen}");
            answers &= seen.answers();
        }
        return Ok(answers);
    }
    let runtime = builder.worker_threads(1).build()?;
    let mut fell = Vec::new();
    for attack in chosen {
        let report = runtime.block_on(measure(options, attack))?;
        if options.json {
            println!("{}", report.to_json());
        } else {
            print!("{report}");
            if options.heap {
                print!("{}", report.growth());
            }
        }
        fell.extend(
            report
                .failures()
                .map(|line| format!("{}: {line}", attack.0)),
        );
    }
    for line in &fell {
        eprintln!("FELL {line}");
    }
    Ok(fell.is_empty())
}

/// The attacks of this name.
fn chosen(wanted: &str) -> Result<Vec<Attack>, Error> {
    let idle: Attack = ("none", "nothing", |attacker| {
        while !attacker.is_over() {
            attacker.pause(Duration::from_secs(1), None);
        }
        Ok(())
    });
    let chosen: Vec<Attack> = match wanted {
        "none" => vec![idle],
        "all" => attacks().copied().collect(),
        name => attacks()
            .filter(|(other, ..)| *other == name)
            .copied()
            .collect(),
    };
    if chosen.is_empty() {
        return Err(format!("there is no attack {wanted:?}\n{}", list()).into());
    }
    Ok(chosen)
}

/// Prints what came of a measurement by turns. Whether its limit held.
fn tell(attack: &str, beside: &Beside) -> bool {
    let ratio = beside.ratio();
    let held = ratio <= BESIDE;
    println!(
        "{attack}: p99 {:.2} ms of {} handshakes quiet, {:.2} ms of {} attacked ({} failed): {ratio:.2} times (at most \
         {BESIDE}): {}; the server holds {} bytes, {} at the end of the last attack",
        beside.quiet.quantile(0.99),
        beside.quiet.handshakes.len(),
        beside.attacked.quantile(0.99),
        beside.attacked.handshakes.len(),
        beside.attacked.failed_handshakes,
        if held { "held" } else { "FELL" },
        beside.held[0],
        beside.held[1],
    );
    held
}

async fn measure(options: &Options, (name, what, attack): Attack) -> Result<Report, Error> {
    let mut server = ServerProcess::start(options.idle, options.allocator.as_deref())?;
    let mut honest = Honest::start(server.address)?;
    // The first requests find caches cold.
    tokio::time::sleep(Duration::from_secs(1)).await;
    honest.take();
    let mut spent = server.processor_time();
    tokio::time::sleep(Duration::from_secs(options.before)).await;
    let before = Phase::new(honest.take(), &mut server, &mut spent)?;

    let (address, rate, seconds) = (server.address, options.rate, options.seconds);
    let attacking = tokio::task::spawn_blocking(move || {
        let mut attacker = Attacker::new(address, rate, Duration::from_secs(seconds));
        attack(&mut attacker).map(|()| attacker)
    });
    let attacker = attacking.await??;
    let attacked = attacker.elapsed();
    let during = Phase::new(honest.take(), &mut server, &mut spent)?;

    // Three probe timeouts of the closing state come on top of the idle timeout; handshakes have ten seconds.
    let settled = Duration::from_secs(options.idle.max(10) + 5);
    tokio::time::sleep(settled).await;
    honest.take();
    spent = server.processor_time();
    tokio::time::sleep(Duration::from_secs(options.after)).await;
    let after = Phase::new(honest.take(), &mut server, &mut spent)?;
    Ok(Report {
        name,
        what,
        phases: [before, during, after],
        datagrams: attacker.datagrams,
        sent: attacker.sent,
        received: attacker.received,
        seconds: attacked.as_secs_f64(),
        runs: server.runs(),
    })
}
