//! The end of a download over two unlike paths: with copies of its last bytes, the slow path costs nothing.
#![cfg(feature = "lab")]

use std::time::Duration;

use mpquic_proto::congestion::SlowStart;
use mpquic_proto::{PathId, Side, TransportConfig};
use mpquic_sched::{Context, Data, Decision, Scheduler};
use mpquic_sim::lab::runner::{self, Options};
use mpquic_sim::lab::{Experiment, Plan};
use mpquic_sim::{LinkConfig, Network, TransferClient, TransferServer};

/// How long a download of 2 MB takes, with and without copies of its last bytes.
fn download(scheduler: &str, control: &str, tail_copies: bool) -> f64 {
    let network = "50Mbit 20ms | 2Mbit 100ms";
    let [schedulers, controls] = [scheduler, control].map(|name| [name.to_owned()]);
    let experiment = Experiment::of_one_network(network, "file:2MB", &schedulers, &controls);
    let mut experiment = experiment.unwrap();
    experiment.seeds.count = 1;
    experiment.networks[0].slow_start = SlowStart::Rapid;
    experiment.networks[0].tail_copies = tail_copies;
    let plan = Plan::new(&experiment, None);
    let mut completion = None;
    let options = Options {
        jobs: 1,
        ..Options::default()
    };
    runner::run(
        &plan,
        options,
        |_, _| false,
        |record| {
            completion = record.measured().map(|run| run.values["completion"]);
            Ok(())
        },
    )
    .unwrap();
    completion.unwrap()
}

#[test]
fn a_slow_path_costs_nothing_at_the_end() {
    for control in ["cubic", "bbr3"] {
        let alone = download("single", control, true);
        for scheduler in ["minrtt", "ecf", "rr"] {
            let [without, with] = [false, true].map(|tail| download(scheduler, control, tail));
            let context =
                format!("{scheduler} {control}: {without}, {with} with copies, {alone} alone");
            // With BBRv3, the better path's window holds what is left before the slow path is asked.
            let costs = without > 1.02 * alone;
            assert!(costs || control == "bbr3", "{context}");
            assert!(!costs || with < 0.9 * without, "{context}");
            assert!(with < 1.005 * alone, "{context}");
        }
    }
}

/// Sends packet by packet on the paths of `turns` that have room, data of this kind.
#[derive(Clone)]
struct Turns {
    turns: &'static [usize],
    bound: bool,
    next: usize,
}

impl Scheduler for Turns {
    fn decide(&mut self, cx: &Context<'_>) -> Decision {
        for _ in self.turns {
            let slot = self.turns[self.next % self.turns.len()];
            self.next += 1;
            let Some(path) = cx.sendable().find(|path| path.index.get() == slot) else {
                continue;
            };
            return match cx.queue.head.filter(|_| self.bound) {
                Some(head) => Decision::send_data(path.index, Data::Stream(head.id)),
                None => Decision::send(path.index),
            };
        }
        Decision::Wait { until: None }
    }
}

/// The copies of a download of 200 kB: on which path the data was sent, and what a scheduler bound.
fn copies(turns: &'static [usize], bound: bool) -> [u64; 2] {
    let [slow, fast] = [(2_000_000, 100), (50_000_000, 20)]
        .map(|(rate, owd)| LinkConfig::new(rate, Duration::from_millis(owd)));
    let mut server = TransportConfig::default();
    let scheduler = Turns {
        turns,
        bound,
        next: 0,
    };
    server.scheduler(move || Box::new(scheduler.clone()));
    let mut network = Network::builder(1)
        .symmetric_path(slow)
        .symmetric_path(fast)
        .server_transport(server)
        .client(TransferClient::download(200_000))
        .server(TransferServer::new())
        .open_all_paths()
        .null_aead()
        .build()
        .unwrap();
    network.run_to_completion(Duration::from_secs(30)).unwrap();
    let server = network.connection(Side::Server).unwrap();
    [0, 1].map(|path| server.path_stats(PathId(path)).unwrap().copied_packets)
}

/// The scheduler stays master: copies go where it sends data itself, and none goes anywhere once it has said which stream
/// goes where.
#[test]
fn a_path_that_is_left_alone_gets_no_copies() {
    let [to_slow, to_fast] = copies(&[0, 1], false);
    assert!(to_slow == 0 && to_fast > 0, "{to_slow} {to_fast}");
    assert_eq!(copies(&[0], false), [0, 0]);
    assert_eq!(copies(&[0, 1], true), [0, 0]);
}
