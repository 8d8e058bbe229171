//! Attacks a server over the loopback network, and tells what that does to an honest client and to the server's memory.
//!
//! ```text
//! cargo run --release -p mpquic-hostile -- path-ids --rate 1mbit --seconds 60
//! cargo run --release -p mpquic-hostile -- all --seconds 60
//! ```

use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, Subcommand};
use mpquic_hostile::blackbox::attacker::Attacker;
use mpquic_hostile::blackbox::attacks::{ATTACKS, Attack};
use mpquic_hostile::blackbox::honest::{Honest, Measured};
use mpquic_hostile::blackbox::server::{Error, ServerProcess, serve};

/// What an attack may do to an honest client and to the memory, as ratios to before.
const MAX_LATENCY: f64 = 3.0;
const MIN_RATE: f64 = 0.8;
const MAX_MEMORY: f64 = 1.2;

/// Attacks a server of its own over real sockets.
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
    /// How long the honest client is measured before and after.
    #[arg(long, default_value_t = 20)]
    quiet: u64,
    /// The server's idle timeout in seconds; what the attack has left must be gone after it.
    #[arg(long, default_value_t = 10)]
    idle: u64,
    /// How long it attacks before all of that, so that what the server keeps of any load is there at first.
    #[arg(long, default_value_t = 0)]
    warm: u64,
    /// Has the server's allocator (glibc's) give back freed memory: what is resident afterwards is what is held, and
    /// not what the allocator keeps for later.
    #[arg(long)]
    trim: bool,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Is the server that is attacked.
    Serve {
        #[arg(long, default_value_t = 10)]
        idle: u64,
    },
}

fn list() -> String {
    let lines = ATTACKS
        .iter()
        .map(|(name, what, _)| format!("  {name:<14} {what}\n"));
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
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: &Options) -> Result<bool, Error> {
    if let Some(Command::Serve { idle }) = options.command {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .build()?;
        runtime.block_on(serve(Duration::from_secs(idle)))?;
        return Ok(true);
    }
    let idle: Attack = ("none", "nothing", |attacker| {
        while !attacker.is_over() {
            attacker.pause(Duration::from_secs(1), None);
        }
        Ok(())
    });
    let wanted = options.attack.as_deref().unwrap_or("all");
    let chosen: Vec<Attack> = match wanted {
        "none" => vec![idle],
        "all" => ATTACKS.to_vec(),
        name => ATTACKS
            .iter()
            .filter(|(other, ..)| *other == name)
            .copied()
            .collect(),
    };
    if chosen.is_empty() {
        return Err(format!("there is no attack {wanted:?}\n{}", list()).into());
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()?;
    let mut held = true;
    for attack in chosen {
        held &= runtime.block_on(measure(options, attack))?;
    }
    Ok(held)
}

async fn measure(options: &Options, (name, what, attack): Attack) -> Result<bool, Error> {
    let mut server = ServerProcess::start(options.idle, options.trim)?;
    let mut honest = Honest::start(server.address)?;
    let quiet = Duration::from_secs(options.quiet);
    println!("{name}: {what}");
    println!(
        "  {:<8} {:>10} {:>9} {:>9} {:>9} {:>7} {:>11} {:>7} {:>9} {:>7}",
        "phase",
        "handshakes",
        "p50 ms",
        "p99 ms",
        "max ms",
        "failed",
        "64 KiB/s",
        "failed",
        "RSS MiB",
        "CPU %"
    );
    let (address, rate, seconds) = (server.address, options.rate, options.seconds);
    let run = move |seconds| {
        tokio::task::spawn_blocking(move || {
            let mut attacker = Attacker::new(address, rate, Duration::from_secs(seconds));
            attack(&mut attacker).map(|()| attacker)
        })
    };
    // Three probe timeouts of the closing state come on top of the idle timeout; handshakes have ten seconds.
    let settled = Duration::from_secs(options.idle.max(10) + 5);
    if options.warm > 0 {
        run(options.warm).await??;
        tokio::time::sleep(settled).await;
    }
    // The first requests find caches cold.
    tokio::time::sleep(Duration::from_secs(1)).await;
    honest.take();
    let mut spent = server.processor_time();
    tokio::time::sleep(quiet).await;
    let before = honest.take();
    let memory_before = server.resident();
    tell(
        "before",
        &before,
        memory_before,
        used(&server, &mut spent, &before),
    );

    let attacker = run(seconds).await??;
    let during = honest.take();
    let memory_during = server.resident();
    tell(
        "during",
        &during,
        memory_during,
        used(&server, &mut spent, &during),
    );

    tokio::time::sleep(settled).await;
    honest.take();
    spent = server.processor_time();
    tokio::time::sleep(quiet).await;
    let after = honest.take();
    let memory_after = server.resident();
    tell(
        "after",
        &after,
        memory_after,
        used(&server, &mut spent, &after),
    );

    let latency = during.quantile(0.99) / before.quantile(0.99);
    let throughput = during.rate() / before.rate();
    let memory = memory_after as f64 / memory_before as f64;
    let runs = server.runs();
    let held = latency <= MAX_LATENCY && throughput >= MIN_RATE && memory <= MAX_MEMORY && runs;
    println!(
        "  {} datagrams, {} bytes sent, {} bytes received; p99 x {latency:.2} (at most {MAX_LATENCY}), requests x \
         {throughput:.2} (at least {MIN_RATE}), memory x {memory:.2} (at most {MAX_MEMORY}): {}",
        attacker.datagrams,
        attacker.sent,
        attacker.received,
        if held { "held" } else { "FELL" }
    );
    Ok(held)
}

/// The share of one processor that the server has used in a phase, in percent.
fn used(server: &ServerProcess, spent: &mut u64, phase: &Measured) -> f64 {
    let now = server.processor_time();
    let share = now.saturating_sub(*spent) as f64 / phase.time.as_secs_f64().max(1e-9);
    *spent = now;
    share
}

fn tell(phase: &str, measured: &Measured, memory: u64, processor: f64) {
    println!(
        "  {phase:<8} {:>10} {:>9.2} {:>9.2} {:>9.2} {:>7} {:>11.1} {:>7} {:>9.1} {processor:>7.0}",
        measured.handshakes.len(),
        measured.quantile(0.5),
        measured.quantile(0.99),
        measured.quantile(1.0),
        measured.failed_handshakes,
        measured.rate(),
        measured.failed_requests,
        memory as f64 / f64::from(1 << 20),
    );
}
