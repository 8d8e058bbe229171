//! Tests of the workloads end to end over modelled paths: they complete, their content is verified,
//! and their metrics are right.

use std::time::Duration;

use mpquic_proto::TransportConfig;
use mpquic_sim::workload::{Better, File, ResultError, Workload, WorkloadResult};
use mpquic_sim::{FluidPath, LinkConfig, Network, NetworkBuilder, fluid_bound, fluid_bounds};
use proptest::prelude::*;

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Peekaboo's two paths. The slow one carries the handshake.
fn two_paths() -> [LinkConfig; 2] {
    [
        LinkConfig::new(2_000_000, ms(100)),
        LinkConfig::new(50_000_000, ms(20)),
    ]
}

fn network(links: &[LinkConfig], workload: &Workload, seed: u64) -> Network {
    network_with(links, workload, seed, TransportConfig::default())
}

fn network_with(
    links: &[LinkConfig],
    workload: &Workload,
    seed: u64,
    server: TransportConfig,
) -> Network {
    let builder = Network::builder(seed)
        .server_transport(server)
        .client_boxed(workload.client(seed))
        .server_boxed(workload.server(seed))
        .open_all_paths();
    let add = |builder: NetworkBuilder, link: &LinkConfig| builder.symmetric_path(link.clone());
    links.iter().fold(builder, add).build().unwrap()
}

/// Runs a workload over links without delay variation. No metric may be better than its bound.
fn run_on(links: &[LinkConfig], workload: &Workload, seed: u64) -> (Network, WorkloadResult) {
    let mut network = network(links, workload, seed);
    network.run_to_completion(workload.time_limit()).unwrap();
    let result = workload.result(&network).unwrap();
    // The largest size that the transport's path MTU discovery reaches.
    let path = |link| FluidPath::new(link, link, 1452);
    let paths: Vec<_> = links.iter().map(path).collect();
    let bounds = fluid_bounds(workload, &paths, seed);
    // The bitrates of an adaptive player in the fluid model are no bounds: a step up that a slower
    // network delays may be followed by fewer steps down.
    let adapts = matches!(workload, Workload::Video(video) if video.encodings.len() > 1);
    for metric in workload.metrics() {
        let value = result.values[metric.name];
        assert!(value.is_finite(), "{workload}: {metric:?}");
        if adapts && metric.name.starts_with("bitrate") {
            continue;
        }
        let better = bounds
            .get(metric.name)
            .is_some_and(|bound| match metric.better {
                Better::Lower => value < bound - 1e-6,
                Better::Higher => value > bound + 1e-6,
            });
        assert!(!better, "{workload}: {metric:?} {value}, {bounds:?}");
    }
    assert_eq!(result.values.len(), workload.metrics().len());
    let primary = workload.primary().name;
    assert_eq!(result.primary.to_bits(), result.values[primary].to_bits());
    let bound = fluid_bound(workload, &paths, seed).unwrap();
    assert_eq!(bound.to_bits(), bounds[primary].to_bits());
    (network, result)
}

fn run(form: &str, seed: u64) -> (Network, WorkloadResult) {
    run_on(&two_paths(), &form.parse().unwrap(), seed)
}

#[test]
fn a_file_comes_and_is_timed_from_its_request() {
    let (network, result) = run("file:200kB", 1);
    // The handshake takes 2 * 100 ms, the request 100 ms, the data at least 20 ms.
    let connected = network.report().connected.unwrap().as_secs_f64();
    assert!((0.2..0.3).contains(&connected), "{connected}");
    let completion = result.values["completion"];
    assert!(completion > 0.12, "{result:?}");
    assert!(connected + completion <= network.now().as_secs_f64() + 1e-9);
    assert_eq!(result.values["goodput"], 1.6 / completion);
}

#[test]
fn a_warm_file_waits_for_all_paths_on_both_sides() {
    let (network, _) = run("file:200kB:warm", 1);
    let received = network.received(mpquic_proto::Side::Client);
    assert!(received.total(1) > received.total(0));
    // With a cold start, the first window uses the slow path, the only open one.
    let cold = run("file:200kB", 1).1.primary;
    let warm = run("file:200kB:warm", 1).1.primary;
    assert!(warm < cold, "{warm} {cold}");
}

#[test]
fn there_is_no_result_of_another_workload_or_of_half_a_one() {
    let workload: Workload = "file:2MB".parse().unwrap();
    let other = network(&two_paths(), &"bulk:1s".parse().unwrap(), 1);
    assert_eq!(workload.result(&other), Err(ResultError::OtherApp));
    let mut network = network(&two_paths(), &workload, 1);
    network.run_until(ms(500)).unwrap();
    assert_eq!(workload.result(&network), Err(ResultError::Incomplete));
}

#[test]
fn bulk_counts_what_came_in_its_time() {
    let (network, result) = run("bulk:4s:1s", 1);
    // At most the links' 52 Mbit/s less headers; at least half of it on clean links.
    assert!((26.0..52.0).contains(&result.primary), "{result:?}");
    let received = result.values["received"];
    assert!((result.primary - received * 8.0 / 3.0).abs() < 1e-9);
    let seconds = &result.series["goodput_per_second"];
    assert_eq!(seconds.len(), 4);
    // The second of the warm-up is in the series, but not in the metric.
    let after: f64 = seconds[1..].iter().sum::<f64>() / 3.0;
    assert!((after - result.primary).abs() < 1e-6, "{seconds:?}");
    assert!(network.now() >= Duration::from_secs(4));
}

#[test]
fn requests_follow_each_other() {
    let (_, result) = run("requests:20:10kB:warm", 1);
    let latencies = &result.series["latency"];
    assert_eq!(latencies.len(), 20);
    // Over the fast path alone: 40 ms of RTT, and under 2 ms for 10 kB.
    assert!((0.04..0.06).contains(&result.primary), "{result:?}");
    assert!(result.values["latency_p99"] >= result.primary);
    let thoughtful = run("requests:20:10kB:500ms:warm", 1).0.now();
    let hasty = run("requests:20:10kB:warm", 1).0.now();
    // There is no think time after the last response.
    let thinking = thoughtful.saturating_sub(hasty).as_secs_f64();
    assert!((9.0..10.0).contains(&thinking), "{thinking}");
    let four = run("requests:20:10kB:warm:parallel=4", 1).1.values["rate"];
    assert!(four > 2.0 * result.values["rate"]);
}

#[test]
fn downloads_are_repeated_to_the_end_of_the_time() {
    let (network, result) = run("repeat:100kB:5s:1s", 1);
    let (begun, took) = (&result.series["begun"], &result.series["completion"]);
    for (i, pair) in begun.windows(2).enumerate() {
        assert!((pair[0] + took[i] - pair[1]).abs() < 1e-9, "back to back");
    }
    assert!(begun.last().unwrap() < &5.0);
    assert!(begun.last().unwrap() + took.last().unwrap() >= 5.0);
    assert!(network.now() > Duration::from_secs(5));
    let counts = &result.series["completions_per_window"];
    assert_eq!(counts.len(), 5);
    // The last one ended after the last window.
    assert_eq!(counts.iter().sum::<f64>() + 1.0, took.len() as f64);
}

#[test]
fn a_fast_network_carries_the_highest_bitrate_and_the_player_waits() {
    let (network, result) = run("video:30:warm", 1);
    let bitrates = &result.series["bitrate"];
    assert_eq!(bitrates[..3], [1.0, 5.0, 10.0]);
    assert_eq!(result.values["bitrate_50"], 10.0);
    assert_eq!(result.values["stalls"], 0.0);
    // 30 s of video. At the last request, at most three chunks are buffered and one plays.
    assert!(network.now() > Duration::from_secs(26), "{result:?}");
    assert!(network.now() < Duration::from_secs(31));
}

#[test]
fn a_slow_network_carries_the_lowest_bitrate_and_stalls() {
    let slow = [LinkConfig::new(900_000, ms(50))];
    let (_, result) = run_on(&slow, &"video:12".parse().unwrap(), 1);
    assert_eq!(result.values["bitrate"], 1.0);
    assert!(result.values["stalls"] >= 10.0, "{result:?}");
    let total: f64 = result.series["chunk_time"].iter().sum();
    // What did not play during the download was a stall or startup: all but the last chunk's
    // second.
    let waited = result.values["stall_time"] + result.values["startup"];
    assert!((total - 11.0 - waited).abs() < 1e-6, "{result:?}");
}

#[test]
fn messages_over_a_good_network_are_in_time() {
    for form in [
        "messages:2Mbit/s:2s:warm",
        "messages:2Mbit/s:2s:per_message:warm",
    ] {
        let good = [LinkConfig::new(50_000_000, ms(10))];
        let (network, result) = run_on(&good, &form.parse().unwrap(), 1);
        assert_eq!(result.primary, 100.0, "{form}: {result:?}");
        assert_eq!(result.values["lateness_p95"], 0.0);
        // 60 messages of 8000 bytes in 2 s: 10 ms of delay, and 1.3 ms of serialisation with the
        // headers.
        assert_eq!(result.series["delay"].len(), 60);
        let delay = result.values["delay_mean"];
        assert!((0.011_28..0.0115).contains(&delay), "{form}: {delay}");
        assert!(network.now() > Duration::from_millis(59 * 33));
    }
}

#[test]
fn messages_over_a_slow_network_are_late_and_none_is_missing() {
    for form in [
        "messages:2Mbit/s:100kB:deadline=100ms",
        "messages:2Mbit/s:100kB:per_message:deadline=100ms",
    ] {
        let slow = [LinkConfig::new(1_000_000, ms(50))];
        let (_, result) = run_on(&slow, &form.parse().unwrap(), 1);
        let late = &result.series["lateness"];
        assert_eq!(late.len(), 13);
        assert!(result.primary < 20.0, "{form}: {result:?}");
        // 104 kB take at least 0.83 s, and the last message was created after 0.396 s.
        let longest = late.iter().fold(0.0_f64, |a, b| a.max(*b));
        assert!((0.43..1.5).contains(&longest), "{form}: {result:?}");
        for (delay, late) in result.series["delay"].iter().zip(late) {
            assert!((delay - 0.1).max(0.0) - late < 1e-9);
        }
    }
}

#[test]
fn a_page_comes_in_two_waves() {
    let (network, result) = run("page:dropbox", 1);
    let (requested, took) = (&result.series["requested"], &result.series["stream"]);
    assert_eq!((requested.len(), took.len()), (35, 35));
    // 4 CSS, 6 scripts and 3 fonts at once, the other 22 together and later.
    let first = requested.iter().filter(|at| **at == 0.0).count();
    let second: Vec<_> = requested.iter().filter(|at| **at > 0.0).collect();
    assert_eq!((first, second.len()), (13, 22));
    assert!(second.iter().all(|at| *at == second[0]));
    // The page ends with its last object.
    let ends = requested.iter().zip(took).map(|(at, took)| at + took);
    let last = ends.fold(0.0, f64::max);
    assert!((last - result.values["page_load"]).abs() < 1e-9);
    assert!(result.values["first_byte_mean"] < result.primary);
    // Drawn when the page itself is there, which comes in the second wave, the first object of all.
    let first_render = result.values["first_render"];
    assert!((first_render - requested[0] - took[0]).abs() < 1e-9);
    assert!(requested[0] > 0.0 && first_render < last);
    assert_eq!(network.report().delivered[0], 771_038);
}

#[test]
fn a_page_is_replayed_with_its_dependencies() {
    let (network, result) = run("page:google:full", 1);
    let requested = &result.series["requested"];
    // The root first; its computation begins with its first bytes, and what waits for that was
    // recorded to start 150.9 and 151.5 ms later.
    assert_eq!(requested[0], 0.0);
    assert!(requested[2] > 0.15 && (requested[1] - requested[2] - 0.0006).abs() < 1e-9);
    // The root's computation alone takes 1021.2 ms.
    assert!(result.values["page_load"] > 1.02, "{result:?}");
    assert_eq!(network.report().delivered[0], 133_391);
}

#[test]
fn every_page_is_loaded_in_both_modes() {
    for site in [
        "twitter",
        "facebook",
        "youtube",
        "renren",
        "alipay",
        "aws.amazon",
    ] {
        for mode in ["two_wave", "full"] {
            run(&format!("page:{site}:{mode}"), 2);
        }
    }
}

#[test]
fn one_encoding_is_about_chunk_times() {
    let workload: Workload = "video:20:5Mbit/s:warm".parse().unwrap();
    let mut server = TransportConfig::default();
    // The last bytes of a chunk stay on the path that they were sent on.
    server.tail_copies(false);
    let mut network = network_with(&two_paths(), &workload, 1, server);
    network.run_to_completion(workload.time_limit()).unwrap();
    let result = workload.result(&network).unwrap();
    assert_eq!(result.primary, result.values["chunk_time"]);
    assert_eq!(result.values["bitrate"], 5.0);
    // 625 kB over 52 Mbit/s: 96 ms; there and back over the faster path: 40 ms; and windows that grow from ten packets.
    assert!((0.136..0.5).contains(&result.primary), "{result:?}");
}

#[test]
fn equal_seeds_are_equal_runs_of_every_workload() {
    for form in [
        "file:300kB",
        "bulk:1s",
        "messages:2Mbit/s:1s",
        "messages:2Mbit/s:1s:per_message",
        "page:twitter:two_wave",
        "page:twitter:full",
        "requests:10:10kB:10ms:parallel=3",
        "repeat:100kB:1s",
        "video:5:5Mbit/s",
    ] {
        let lossy = two_paths().map(|link| link.with_loss(0.01).with_rtt_variation(8.0));
        let workload: Workload = form.parse().unwrap();
        let run = |seed| {
            let mut network = network(&lossy, &workload, seed);
            network.run_to_completion(workload.time_limit()).unwrap();
            (workload.result(&network).unwrap(), network.trace_hash())
        };
        assert_eq!(run(7), run(7), "{form}");
        assert_ne!(run(7).1, run(8).1, "{form}");
    }
}

/// Networks of one to three clean links.
fn networks() -> impl Strategy<Value = Vec<LinkConfig>> {
    let link = (500_000_u64..100_000_000, 0_u64..150);
    prop::collection::vec(link, 1..4).prop_map(|links| {
        let link = |(rate, delay)| LinkConfig::new(rate, ms(delay));
        links.into_iter().map(link).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(30))]

    #[test]
    fn no_file_comes_sooner_than_over_the_fluid(
        links in networks(),
        size in 1_u64..1_000_000,
        warm: bool,
        seed: u64,
    ) {
        run_on(&links, &Workload::File(File { size, warm }), seed);
    }

    #[test]
    fn nothing_is_better_than_over_the_fluid(
        links in networks(),
        form in prop::sample::select(vec![
            "bulk:2s",
            "messages:1Mbit/s:3s:deadline=100ms",
            "messages:2Mbit/s:3s:per_message:deadline=100ms",
            "page:google:two_wave",
            "page:youtube:full",
            "requests:10:20kB:10ms:parallel=2",
            "repeat:50kB:3s:1s",
            "video:6:1Mbit/s",
            "video:30",
        ]),
        seed: u64,
    ) {
        run_on(&links, &form.parse().unwrap(), seed);
    }
}

#[test]
fn a_long_bulk_comes_close_to_its_bound() {
    // One link that needs no window beyond its queue: the bound is tight, and so it is no accident
    // that no run beats it.
    let link = [LinkConfig::new(10_000_000, ms(10))];
    let workload = "bulk:20s:5s".parse().unwrap();
    let (_, result) = run_on(&link, &workload, 1);
    let paths = [FluidPath::new(&link[0], &link[0], 1452)];
    let bound = fluid_bound(&workload, &paths, 1).unwrap();
    assert!(result.primary > 0.99 * bound, "{} {bound}", result.primary);
}
