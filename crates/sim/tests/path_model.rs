//! What the default scheduler sees of its paths beyond its own bytes, end to end: rates that fell while the application was idle,
//! the queues of others; and what it may send twice to find out.

use std::time::Duration;

use mpquic_proto::{CongestionControl, CopyStats, Side, TransportConfig};
use mpquic_sched::MinRtt;
use mpquic_sim::workload::{Workload, WorkloadResult};
use mpquic_sim::{CrossTraffic, LinkConfig, Network, PlannedChange, Report};

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// A run of a workload over these paths, with the library's defaults unless `transport` says otherwise.
struct Run<'a> {
    links: &'a [LinkConfig],
    flows: &'a [CrossTraffic],
    workload: &'a str,
    transport: TransportConfig,
    seed: u64,
}

impl<'a> Run<'a> {
    fn of(workload: &'a str, links: &'a [LinkConfig]) -> Self {
        Self {
            links,
            flows: &[],
            workload,
            transport: TransportConfig::default(),
            seed: 1,
        }
    }

    fn run(&self) -> (WorkloadResult, Report) {
        let workload: Workload = self.workload.parse().unwrap();
        let mut builder = Network::builder(self.seed)
            .transport(self.transport.clone())
            .client_boxed(workload.client(self.seed))
            .server_boxed(workload.server(self.seed))
            .open_all_paths();
        for link in self.links {
            builder = builder.symmetric_path(link.clone());
        }
        for flow in self.flows {
            builder = builder.cross_traffic(*flow);
        }
        let mut network = builder.build().unwrap();
        let report = network.run_to_completion(workload.time_limit()).unwrap();
        (workload.result(&network).unwrap(), report)
    }

    /// A figure of the result with the default scheduler, and with minRTT.
    fn both(&self, figure: &str) -> [f64; 2] {
        let mut transport = self.transport.clone();
        transport.scheduler(|| Box::new(MinRtt::default()));
        let other = Run { transport, ..*self };
        [self, &other].map(|run| run.run().0.values[figure])
    }
}

/// What came out of the purse.
fn copied(copies: &CopyStats) -> u64 {
    copies.deadlines + copies.probes + copies.least + copies.late + copies.tails
}

/// Answers that fit in a window never fill the path, so that no sample of the delivery rate may lower the estimate. The faster
/// path is one of 5 Mbit/s soon: 64 kB take 102 ms there, and 46 on the other one.
#[test]
fn requests_leave_a_path_whose_rate_fell_between_them() {
    let fallen = PlannedChange {
        rate: Some(5_000_000),
        ..PlannedChange::at(ms(300))
    };
    let links = [
        LinkConfig::new(80_000_000, ms(10)).with_change(fallen),
        LinkConfig::new(20_000_000, ms(20)),
    ];
    let run = Run::of("requests:100:64kB:20ms", &links);
    let [arrival, min_rtt] = run.both("latency_p50");
    assert!(arrival <= 1.03 * min_rtt, "{arrival} s, minRTT {min_rtt} s");
}

#[test]
fn what_stands_in_the_queue_of_others_is_no_place_for_messages() {
    let links = [
        LinkConfig::new(20_000_000, ms(10)),
        LinkConfig::new(20_000_000, ms(16)),
    ];
    for control in [CongestionControl::Cubic, CongestionControl::NewReno] {
        let flows = [CrossTraffic::new(0, Side::Server, control)];
        let run = Run {
            flows: &flows,
            ..Run::of("messages:1Mbit/s:10s:per_message:deadline=50ms", &links)
        };
        let (result, report) = run.run();
        let in_time = result.values["in_time"];
        assert!(in_time >= 99.0, "{in_time} % beside {control}");
        assert!(
            report.server.copies.probes > 0,
            "{:?}",
            report.server.copies
        );
        let twice = copied(&report.server.copies) as f64 / report.delivered[0] as f64;
        assert!(
            twice <= 0.04,
            "{twice} beside {control}: {:?}",
            report.server.copies
        );
        let run = Run {
            workload: "requests:100:16kB:20ms",
            ..run
        };
        let [arrival, min_rtt] = run.both("latency_p50");
        assert!(arrival <= 1.03 * min_rtt, "{arrival} s, minRTT {min_rtt} s");
    }
}

/// An upload of somebody else stands in the way of requests, not of answers. The client does not know the direction: its requests
/// go on both paths.
#[test]
fn requests_go_twice_where_a_queue_may_be_gone() {
    let links = [
        LinkConfig::new(20_000_000, ms(10)),
        LinkConfig::new(20_000_000, ms(16)),
    ];
    let flows = [CrossTraffic::new(0, Side::Client, CongestionControl::Cubic)];
    let run = Run {
        flows: &flows,
        ..Run::of("requests:100:16kB:20ms", &links)
    };
    let (_, report) = run.run();
    assert!(report.client.copies.least > 0, "{:?}", report.client.copies);
    let [arrival, min_rtt] = run.both("latency_p50");
    assert!(arrival <= 1.03 * min_rtt, "{arrival} s, minRTT {min_rtt} s");
}

/// 60 seeds, or those of `SEEDS`, as 0..10000.
fn seeds() -> std::ops::Range<u64> {
    let asked = std::env::var("SEEDS").unwrap_or_default();
    let range = asked
        .split_once("..")
        .and_then(|(from, to)| Some(from.parse().ok()?..to.parse().ok()?));
    range.unwrap_or(0..60)
}

/// On networks drawn at random, with and without losses, flows of others and deadlines: whatever is sent twice comes out of one purse.
#[test]
fn the_purse_for_copies_holds() {
    const WORKLOADS: [&str; 5] = [
        "messages:2Mbit/s:3s:per_message:deadline=75ms",
        "requests:30:16kB:20ms",
        "requests:20:64kB:20ms:parallel=4",
        "file:1MB",
        "page:google:two_wave",
    ];
    let mut spent = CopyStats::default();
    let (mut runs, mut fullest) = (0, 0.0_f64);
    for seed in seeds() {
        let mut state = seed;
        let mut below = |limit: u64| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % limit
        };
        let links: Vec<_> = (0..2 + below(2))
            .map(|_| {
                let link = LinkConfig::new(2_000_000 + below(40_000_000), ms(2 + below(60)));
                link.with_loss([0.0, 0.01, 0.03][below(3) as usize])
            })
            .collect();
        let flows = [CrossTraffic::new(0, Side::Server, CongestionControl::Cubic)];
        let mut transport = TransportConfig::default();
        let (bytes, percent) = [(64 * 1024, 5), (4_000, 1), (0, 0)][below(3) as usize];
        transport.copy_budget(bytes, percent);
        let run = Run {
            flows: &flows[..below(2) as usize],
            transport,
            seed,
            ..Run::of(WORKLOADS[seed as usize % WORKLOADS.len()], &links)
        };
        let (_, report) = run.run();
        for (stats, delivered) in [
            (report.server, report.delivered[0]),
            (report.client, report.delivered[1]),
        ] {
            let most = bytes + delivered * u64::from(percent) / 100;
            assert!(
                copied(&stats.copies) <= most,
                "seed {seed}: {:?}, {most}",
                stats.copies
            );
            if most > 0 {
                fullest = fullest.max(copied(&stats.copies) as f64 / most as f64);
            }
            assert_eq!(stats.copies.asked, 0);
            assert_eq!(stats.reinjected_bytes, copied(&stats.copies), "seed {seed}");
            spent.deadlines += stats.copies.deadlines;
            spent.late += stats.copies.late;
            spent.tails += stats.copies.tails;
            spent.least += stats.copies.least;
        }
        runs += 1;
    }
    println!("{runs} runs, the purse spent to {fullest:.4} at most: {spent:?}");
    // Each of them was tried, but for probes, which need a path behind others' queue all the time: see the messages above.
    let causes = [spent.deadlines, spent.late, spent.tails, spent.least];
    assert!(causes.iter().all(|bytes| *bytes > 0), "{spent:?}");
}
