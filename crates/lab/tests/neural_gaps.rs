//! Tests of GAPS end to end: transfers complete over any number of paths, runs repeat exactly, and
//! gaps keep data in order.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use mpquic_proto::congestion::SlowStart;
use mpquic_proto::{CongestionControl, TransportConfig};
use mpquic_sched::SchedulerFactory;
use mpquic_sched_neural::{Experience, Gaps, GapsConfig, Policy, Random, Unanswered};
use mpquic_sim::{
    Action, Job, LinkConfig, Measurements, Network, NetworkBuilder, Report, TransferClient,
    TransferServer,
};
use serde_json::{Value, json};

const MEGABYTE: u64 = 1_000_000;

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// A policy that always makes the same change for each path.
struct Always([f32; Gaps::OUTPUTS]);

impl Policy for Always {
    fn answer(&mut self, _state: &[f32]) -> Result<&[f32], Unanswered> {
        Ok(&self.0)
    }
}

fn registered(name: &str, config: &Value) -> SchedulerFactory {
    mpquic_sched_neural::registry()
        .factory(name, config)
        .unwrap()
}

fn asking(policy: impl Fn() -> Box<dyn Policy> + Send + Sync + 'static) -> SchedulerFactory {
    SchedulerFactory::from(move || Box::new(Gaps::new(&GapsConfig::default(), policy())))
}

/// Both sides have this scheduler. The first link carries the handshake.
fn network(seed: u64, links: &[LinkConfig], scheduler: &SchedulerFactory) -> NetworkBuilder {
    let mut transport = TransportConfig::default();
    // All that is sent is what the policy decides.
    transport.tail_copies(false);
    transport.scheduler(scheduler.clone());
    let mut builder = Network::builder(seed)
        .transport(transport)
        .server(TransferServer::new())
        .open_all_paths()
        .null_aead()
        .measure();
    for link in links {
        builder = builder.symmetric_path(link.clone());
    }
    builder
}

fn download(
    seed: u64,
    links: &[LinkConfig],
    bytes: u64,
    scheduler: &SchedulerFactory,
) -> (Report, Measurements) {
    let mut network = network(seed, links, scheduler)
        .client(TransferClient::download(bytes))
        .build()
        .unwrap();
    let report = network.run_to_completion(Duration::from_secs(120)).unwrap();
    assert_eq!(report.delivered[0], bytes);
    (report, network.measurements())
}

fn fast() -> LinkConfig {
    LinkConfig::new(50_000_000, ms(20))
}

fn slow() -> LinkConfig {
    LinkConfig::new(10_000_000, ms(70))
}

/// Five very different paths.
fn five() -> Vec<LinkConfig> {
    [(50, 20), (10, 70), (20, 40), (5, 120), (30, 15)]
        .map(|(rate, delay)| LinkConfig::new(rate * 1_000_000, ms(delay)))
        .to_vec()
}

#[test]
fn transfers_arrive_over_any_number_of_paths() {
    let schedulers = [
        ("shipped", registered("gaps", &json!({}))),
        ("thread", registered("gaps", &json!({"run": "thread"}))),
        ("fixed", registered("gaps", &json!({"fixed_gap": 40}))),
        ("random", asking(|| Box::new(Random::new(Gaps::OUTPUTS, 7)))),
        ("all the way up", asking(|| Box::new(Always([1.0; 8])))),
        ("all the way down", asking(|| Box::new(Always([-1.0; 8])))),
        ("no number", asking(|| Box::new(Always([f32::NAN; 8])))),
    ];
    for (name, scheduler) in &schedulers {
        for count in [1, 2, 5] {
            for loss in [0.0, 0.01] {
                let links: Vec<_> = five().into_iter().take(count).collect();
                let links: Vec<_> = links.into_iter().map(|link| link.with_loss(loss)).collect();
                let (report, _) = download(count as u64, &links, 2 * MEGABYTE, scheduler);
                // Without losses, every wait ends by itself.
                let overridden = report.server.overridden_waits;
                assert!(
                    loss > 0.0 || overridden == 0,
                    "{name}, {count} paths: {report:?}"
                );
                assert!(
                    report.completed < Duration::from_secs(10),
                    "{name}, {count} paths, {loss}"
                );
            }
        }
    }
}

#[test]
fn small_windows_and_several_streams_hold_nothing_up() {
    let policies: [SchedulerFactory; 2] = [
        asking(|| Box::new(Always([1.0; 8]))),
        registered("gaps", &json!({})),
    ];
    for scheduler in &policies {
        let mut transport = TransportConfig::default();
        transport
            .stream_receive_window(100_000)
            .receive_window(150_000)
            .tail_copies(false)
            .scheduler(scheduler.clone());
        let mut network = Network::builder(3)
            .transport(transport)
            .symmetric_path(fast())
            .symmetric_path(slow())
            .server(TransferServer::new())
            .client(TransferClient::new([
                Job::Download {
                    bytes: MEGABYTE,
                    seed: 1,
                },
                Job::Download {
                    bytes: MEGABYTE,
                    seed: 2,
                },
            ]))
            .open_all_paths()
            .null_aead()
            .build()
            .unwrap();
        let report = network.run_to_completion(Duration::from_secs(60)).unwrap();
        assert_eq!(report.server.overridden_waits, 0);
        assert!(report.longest_stall[0] < ms(500), "{report:?}");
    }
}

#[test]
fn a_path_that_dies_takes_nothing_along() {
    let scheduler = registered("gaps", &json!({}));
    for dying in [0, 1] {
        let links = [fast(), slow(), fast()].map(|link| link.with_loss(0.005));
        for count in [2, 3] {
            let mut network = network(dying as u64, &links[..count], &scheduler)
                .client(TransferClient::download(5 * MEGABYTE))
                .build()
                .unwrap();
            let dark = Action::SetLinkUp {
                path: dying,
                from: None,
                up: false,
            };
            network.at(ms(500), dark);
            let report = network.run_to_completion(Duration::from_secs(60)).unwrap();
            assert_eq!(report.delivered[0], 5 * MEGABYTE);
            assert!(
                report.longest_stall[0] < Duration::from_secs(3),
                "{report:?}"
            );
        }
    }
}

#[test]
fn the_same_seed_is_the_same_run() {
    let links = [fast().with_loss(0.01), slow().with_loss(0.01)];
    let random = |seed: u64| asking(move || Box::new(Random::new(Gaps::OUTPUTS, seed)));
    let run = |scheduler| download(9, &links, 4 * MEGABYTE, &scheduler).0.trace_hash;
    let shipped = || registered("gaps", &json!({}));
    assert_eq!(run(shipped()), run(shipped()));
    assert_eq!(run(random(1)), run(random(1)));
    assert_ne!(
        run(random(1)),
        run(random(2)),
        "what the policy says counts"
    );
}

/// The bytes that the receiver held for missing earlier data, as the mean over its arrivals, and
/// the download's time.
fn held_back(links: &[LinkConfig], scheduler: &SchedulerFactory) -> (f64, Duration) {
    let (mut held, mut time) = (0.0, Duration::ZERO);
    for seed in 0..4 {
        let (report, measurements) = download(seed, links, 10 * MEGABYTE, scheduler);
        held += measurements.client.out_of_order.unwrap().by_arrival.mean / 4.0;
        time += report.completed / 4;
    }
    (held, time)
}

/// The initial gaps, without a policy's corrections, keep data in better order than no gaps.
#[test]
fn gaps_that_nobody_corrects_are_better_than_none() {
    let links = [fast(), slow()];
    let (none, time_of_none) = held_back(&links, &registered("minrtt", &json!({})));
    let (kept, time_of_kept) = held_back(&links, &asking(|| Box::new(Always([0.0; 8]))));
    println!(
        "minrtt {none:.0} bytes, {time_of_none:?}; start gaps {kept:.0} bytes, {time_of_kept:?}"
    );
    assert!(kept < none * 0.95, "{kept} {none}");
    assert!(
        time_of_kept < time_of_none * 11 / 10,
        "{time_of_kept:?} {time_of_none:?}"
    );
    // The shipped model is no worse.
    let (shipped, _) = held_back(&links, &registered("gaps", &json!({})));
    println!("shipped {shipped:.0} bytes");
    assert!(shipped < none * 0.95, "{shipped} {none}");
}

#[test]
fn a_search_over_fixed_gaps_finds_a_least_queue() {
    let links = [fast(), slow()];
    let held = |gap: f64| held_back(&links, &registered("gaps", &json!({"fixed_gap": gap}))).0;
    let tried: Vec<_> = [0.0, 50.0, 150.0, 400.0]
        .into_iter()
        .map(|gap| (gap, held(gap)))
        .collect();
    println!("{tried:?}");
    let least = tried.iter().min_by(|a, b| a.1.total_cmp(&b.1)).unwrap();
    assert!(least.0 > 0.0 && least.1 < tried[0].1 * 0.8, "{tried:?}");
}

/// An observer sees rewards that match what the receiver held back, one acknowledgement delay
/// later.
#[test]
fn rewards_tell_of_the_receivers_queue() {
    let rewards = Arc::new(Mutex::new(Vec::new()));
    let heard = Arc::clone(&rewards);
    let scheduler = SchedulerFactory::from(move || {
        let heard = Arc::clone(&heard);
        let gaps = Gaps::new(&GapsConfig::default(), Box::new(Always([0.0; 8])));
        Box::new(gaps.with_observer(Box::new(move |experience| {
            if let Experience::Rewarded { reward, .. } = *experience {
                heard.lock().unwrap().push(f64::from(reward));
            }
        })))
    });
    let mut transport = TransportConfig::default();
    transport.congestion(CongestionControl::Bbr);
    transport.tail_copies(false);
    // What is in flight counts as held back until its acknowledgement comes, whatever the queue is. This start makes a
    // queue that is longer than that.
    transport.slow_start(SlowStart::Classic);
    transport.scheduler(scheduler);
    let mut network = Network::builder(1)
        .server_transport(transport)
        .symmetric_path(fast())
        .symmetric_path(slow())
        .server(TransferServer::new())
        .client(TransferClient::download(10 * MEGABYTE))
        .open_all_paths()
        .null_aead()
        .measure()
        .build()
        .unwrap();
    network.run_to_completion(Duration::from_secs(60)).unwrap();
    let measured = network
        .measurements()
        .client
        .out_of_order
        .unwrap()
        .by_arrival
        .mean;
    let rewards = rewards.lock().unwrap();
    let told = -1e5 * rewards.iter().sum::<f64>() / rewards.len() as f64;
    println!(
        "{} rewards: {told:.0} bytes; measured {measured:.0}",
        rewards.len()
    );
    assert!(rewards.len() > 20 && rewards.iter().all(|reward| *reward <= 0.0));
    assert!((0.5..2.0).contains(&(told / measured)), "{told} {measured}");
}

/// An experiment file can search for the gap that suits a network best.
#[test]
fn an_experiment_varies_a_fixed_gap() {
    const EXPERIMENT: &str = r#"
title = "A test"
workloads = ["file:2MB"]
seeds = 1
schedulers = [
    "minrtt",
    { name = "gaps", config = { fixed_gap = "$gap" }, vary = { gap = { from = 0, to = 100, step = 50 } } },
]
metrics = ["oqs_mean", "learned_gap"]

[[network]]
name = "uneven"
paths = [{ rate = 50, owd = 20 }, { rate = 10, owd = 70 }]
"#;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("test.toml");
    std::fs::write(&file, EXPERIMENT).unwrap();
    let (file, out) = (
        file.display().to_string(),
        folder.path().display().to_string(),
    );
    let arguments = ["mpquic-lab", "run", &file, "--out", &out].map(Into::into);
    let (mut told, mut complained) = (Vec::new(), Vec::new());
    let code = mpquic_lab::cli::main(arguments, &mut told, &mut complained);
    assert_eq!(code, 0, "{}", String::from_utf8_lossy(&complained));
    let results = std::fs::read_to_string(folder.path().join("results.jsonl")).unwrap();
    let records = results.lines().skip(1);
    let records: Vec<Value> = records
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let gaps = records
        .iter()
        .filter(|record| record["scheduler"] != "minrtt");
    let gaps: Vec<_> = gaps
        .map(|record| record["values"]["learned_gap"].as_f64())
        .collect();
    assert_eq!(gaps, [Some(0.0), Some(50.0), Some(100.0)], "{records:?}");
}
