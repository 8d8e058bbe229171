//! How many seconds of a loaded network one core simulates per second, with null and with real packet protection.
//!
//! The network has two paths: 50 Mbit/s with 20 ms, and 2 Mbit/s with 100 ms one way. A download
//! with minRTT and CUBIC keeps both busy. The bench counts the CPU time of its thread, if the
//! system reports it, so that other processes do not matter.
//!
//! `cargo bench -p mpquic-sim --bench simulator -- [SECONDS [null|real|measured|short]]` sets the
//! simulated seconds per run, and selects one of the four cases. `measured` is `null` with samples
//! of the out-of-order queues, as the lab takes them. `short` is `measured` with downloads of 2 MB
//! over two paths of "medium" dynamicity (Peekaboo, figure 2c) with OLIA. It reports how many of
//! these downloads one core simulates per second.

#![allow(clippy::disallowed_methods, reason = "a bench reads the clock")]

use std::time::{Duration, Instant};

use mpquic_proto::{CongestionControl, TransportConfig};
use mpquic_sched::MinRtt;
use mpquic_sim::{LinkConfig, Network, TransferClient, TransferServer};

const RUNS: usize = 5;

fn network(mode: &str) -> Network {
    let mut transport = TransportConfig::default();
    transport
        .congestion(CongestionControl::Cubic)
        .scheduler(|| Box::new(MinRtt::default()));
    let builder = Network::builder(1)
        .symmetric_path(LinkConfig::new(50_000_000, Duration::from_millis(20)))
        .symmetric_path(LinkConfig::new(2_000_000, Duration::from_millis(100)))
        .transport(transport)
        .open_all_paths()
        .client(TransferClient::download(u64::MAX / 2))
        .server(TransferServer::new());
    let builder = match mode {
        "real" => builder,
        "null" => builder.null_aead(),
        _ => builder.null_aead().measure(),
    };
    builder.build().expect("a valid network")
}

/// Short downloads over lossy paths, with as many seeds.
fn short(origin: Instant) {
    const DOWNLOADS: u32 = 100;
    let start = spent(origin);
    let mut simulated = Duration::ZERO;
    for seed in 0..DOWNLOADS {
        let link = |rate, delay| {
            LinkConfig::new(rate, Duration::from_millis(delay))
                .with_loss(0.015)
                .with_rtt_variation(8.0)
        };
        let mut transport = TransportConfig::default();
        transport
            .congestion(CongestionControl::Olia)
            .scheduler(|| Box::new(MinRtt::default()));
        let mut network = Network::builder(seed.into())
            .symmetric_path(link(2_000_000, 100))
            .symmetric_path(link(50_000_000, 20))
            .transport(transport)
            .open_all_paths()
            .client(TransferClient::download(2_000_000))
            .server(TransferServer::new())
            .null_aead()
            .measure()
            .build()
            .expect("a valid network");
        let report = network.run_to_completion(Duration::from_secs(600));
        simulated += report.expect("a healthy transfer").completed;
    }
    let took = (spent(origin) - start).as_secs_f64();
    println!(
        "short: {:.0} downloads of 2 MB per second, {:.1} simulated seconds per second; {:.2} s each",
        f64::from(DOWNLOADS) / took,
        simulated.as_secs_f64() / took,
        simulated.as_secs_f64() / f64::from(DOWNLOADS),
    );
}

/// The CPU time of this thread, or the elapsed time if the former is unknown.
fn spent(origin: Instant) -> Duration {
    std::fs::read_to_string("/proc/thread-self/schedstat")
        .ok()
        .and_then(|text| text.split(' ').next()?.parse().ok())
        .map_or_else(|| origin.elapsed(), Duration::from_nanos)
}

fn main() {
    // Cargo passes `--bench`.
    let mut arguments = std::env::args()
        .skip(1)
        .filter(|word| !word.starts_with('-'));
    let seconds: u64 = arguments
        .next()
        .map_or(30, |word| word.parse().expect("a number of seconds"));
    let only = arguments.next();
    let origin = Instant::now();
    if only.as_ref().is_none_or(|only| only == "short") {
        short(origin);
    }
    for name in ["null", "real", "measured"] {
        if only.as_ref().is_some_and(|only| only != name) {
            continue;
        }
        let mut speeds = Vec::new();
        let mut goodput = 0.0;
        for _ in 0..RUNS {
            let mut network = network(name);
            let start = spent(origin);
            network
                .run_until(Duration::from_secs(seconds))
                .expect("a healthy transfer");
            let took = spent(origin) - start;
            speeds.push(seconds as f64 / took.as_secs_f64());
            let bytes = network.report().delivered[0];
            goodput = bytes as f64 * 8.0 / 1e6 / seconds as f64;
        }
        speeds.sort_by(f64::total_cmp);
        println!(
            "{name}: {:.1} simulated seconds per second (median of {RUNS}, {:.1} to {:.1}); \
             {seconds} s, goodput {goodput:.1} Mbit/s",
            speeds[RUNS / 2],
            speeds[0],
            speeds[RUNS - 1],
        );
    }
}
