//! Two unequal paths with full windows. Packets alternate between them, so the receiver has
//! thousands of reassembly gaps, and every download must still be complete. A fixed cap on gaps
//! would break these transfers.

use std::time::{Duration, Instant};

use crate::support::real::{Setup, run};
use crate::support::{MEGABYTE, for_seeds, median, ms, seeds_of_today};
use mpquic_proto::{PathId, Side, TransportConfig};
use mpquic_sched::{MinRtt, RoundRobin, Scheduler};
use mpquic_sim::{LinkConfig, Network, QueueLimit, TransferClient, TransferServer};

const WINDOW: u64 = 16 << 20;

fn links() -> [LinkConfig; 2] {
    [
        LinkConfig::new(50_000_000, ms(10)),
        LinkConfig::new(10_000_000, ms(70)),
    ]
}

/// With varying delays, so that each seed interleaves the paths differently.
fn varying() -> [LinkConfig; 2] {
    links().map(|link| link.with_rtt_variation(10.0))
}

/// The slow path has a queue as long as the windows. It falls seconds behind, and the windows are
/// full.
fn bloated() -> [LinkConfig; 2] {
    let [fast, slow] = links();
    [fast, slow.with_queue(QueueLimit::Bytes(WINDOW))]
}

fn min_rtt() -> Box<dyn Scheduler> {
    Box::new(MinRtt::default())
}

fn round_robin() -> Box<dyn Scheduler> {
    Box::new(RoundRobin::default())
}

type Make = fn() -> Box<dyn Scheduler>;

fn transport(scheduler: Make) -> TransportConfig {
    let mut transport = TransportConfig::default();
    transport
        .scheduler(scheduler)
        .stream_receive_window(WINDOW)
        .receive_window(WINDOW)
        .send_window(WINDOW);
    transport
}

/// The time in which both links, busy from the first instant on, could carry all bytes. No transfer
/// can be faster.
fn fluid_bound(bytes: u64) -> Duration {
    let [fast, slow] = links();
    let (fast_rate, slow_rate) = (fast.rate.unwrap() as f64, slow.rate.unwrap() as f64);
    let (head_start, latency) = (
        (slow.delay - fast.delay).as_secs_f64(),
        fast.delay.as_secs_f64(),
    );
    let bits = bytes as f64 * 8.0;
    let alone = bits / fast_rate;
    let serialised = if alone <= head_start {
        alone
    } else {
        (bits + head_start * slow_rate) / (fast_rate + slow_rate)
    };
    Duration::from_secs_f64(latency + serialised)
}

/// One download per seed over these links. Returns the peak number of reassembly gaps.
fn downloads(
    name: &str,
    transport: &TransportConfig,
    links: fn() -> [LinkConfig; 2],
    bytes: u64,
    seeds: std::ops::Range<u64>,
) -> usize {
    let began = Instant::now();
    let results = for_seeds(seeds, |seed| {
        let [fast, slow] = links();
        let mut network = Network::builder(seed)
            .symmetric_path(fast)
            .symmetric_path(slow)
            .transport(transport.clone())
            .client(TransferClient::download(bytes))
            .server(TransferServer::new())
            .open_all_paths()
            .build()
            .unwrap();
        let report = network.run_to_completion(Duration::from_secs(300)).unwrap();
        assert_eq!(report.delivered[0], bytes);
        let slow = network.received(Side::Client).total(1);
        assert!(slow > bytes / 50, "{slow} bytes on the slow path");
        (report.completed, report.client.max_receive_gaps)
    });
    let times: Vec<_> = results.iter().map(|result| result.0).collect();
    let gaps = results.iter().map(|result| result.1).max().unwrap();
    let (typical, bound) = (median(&times), fluid_bound(bytes));
    println!(
        "{name}, {} MB, {} seeds: most gaps {gaps}, median {typical:?}, {:.2} of the bound {bound:?} ({:?})",
        bytes / MEGABYTE,
        results.len(),
        typical.as_secs_f64() / bound.as_secs_f64(),
        began.elapsed(),
    );
    gaps
}

#[test]
fn min_rtt_downloads_end_intact() {
    downloads(
        "minRTT",
        &transport(min_rtt),
        varying,
        20 * MEGABYTE,
        seeds_of_today(0..200),
    );
}

#[test]
fn round_robin_downloads_end_intact() {
    downloads(
        "round robin",
        &transport(round_robin),
        varying,
        20 * MEGABYTE,
        seeds_of_today(0..200),
    );
}

#[test]
fn long_min_rtt_downloads_end_intact() {
    downloads("minRTT", &transport(min_rtt), links, 200 * MEGABYTE, 0..3);
}

#[test]
fn long_round_robin_downloads_end_intact() {
    downloads(
        "round robin",
        &transport(round_robin),
        links,
        200 * MEGABYTE,
        0..3,
    );
}

/// More gaps than the fixed caps of other stacks allow (quinn: 1,024, neqo: 4,096).
#[test]
fn thousands_of_gaps_are_healthy() {
    for (name, scheduler) in [
        ("minRTT, long queues", min_rtt as Make),
        ("round robin, long queues", round_robin),
    ] {
        let gaps = downloads(name, &transport(scheduler), bloated, 200 * MEGABYTE, 0..3);
        assert!(gaps > 1024, "{gaps}");
    }
}

fn on_real_sockets(name: &'static str, scheduler: Make) {
    run(async move {
        let setup = Setup::new(&links(), transport(scheduler)).await;
        let began = Instant::now();
        let mut download = setup.download(20 * MEGABYTE).await;
        while download.more().await {}
        assert_eq!(download.received, 20 * MEGABYTE);
        for path in [0, 1] {
            assert!(setup.received(PathId(path)) > MEGABYTE / 2);
        }
        let gaps = setup.client.stats().max_receive_gaps;
        println!(
            "{name} on real sockets: most gaps {gaps}, {:?}",
            began.elapsed()
        );
        setup.close().await;
    });
}

#[test]
fn a_min_rtt_download_on_real_sockets_ends_intact() {
    on_real_sockets("minRTT", min_rtt);
}

#[test]
fn a_round_robin_download_on_real_sockets_ends_intact() {
    on_real_sockets("round robin", round_robin);
}
