//! Tests of schedulers that wait, end to end: downloads complete, the schedulers do wait, and they never get stuck.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use mpquic_proto::congestion::SlowStart;
use mpquic_proto::{CongestionControl, PathStart, TransportConfig};
use mpquic_sched::{
    Acked, Context, Data, Decision, Lost, PathIndex, PathSet, PathUpdate, Registry, Scheduler,
    Sent, StreamUpdate,
};
use mpquic_sim::{Action, LinkConfig, Network, QueueLimit, Report, TransferClient, TransferServer};
use serde_json::{Value, json};

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// What a scheduler was asked and answered.
#[derive(Debug, Default, Clone)]
struct Seen {
    asked: u64,
    waits: u64,
    /// Waits without a deadline.
    endless: u64,
    sent: [u64; 2],
    /// The longest time from the first wait after a packet to the next packet.
    longest_wait: Duration,
    waiting_since: Option<Instant>,
    blocked_by: PathSet,
}

struct Watched {
    inner: Box<dyn Scheduler>,
    seen: Arc<Mutex<Seen>>,
}

impl Scheduler for Watched {
    fn decide(&mut self, cx: &Context<'_>) -> Decision {
        let decision = self.inner.decide(cx);
        let mut seen = self.seen.lock().unwrap();
        if let Some(path) = cx.queue.blocked_by {
            seen.blocked_by.insert(path);
        }
        if cx.queue.unsent == 0 || cx.queue.window_left == 0 || cx.sendable_set().is_empty() {
            return decision;
        }
        seen.asked += 1;
        match decision {
            Decision::Send {
                data: Data::Retransmit,
                ..
            } => {}
            Decision::Send { path, .. } => {
                seen.sent[path.get()] += 1;
                if let Some(since) = seen.waiting_since.take() {
                    seen.longest_wait = seen.longest_wait.max(cx.now - since);
                }
            }
            Decision::Wait { until } => {
                seen.waits += 1;
                seen.endless += u64::from(until.is_none());
                seen.waiting_since.get_or_insert(cx.now);
            }
        }
        decision
    }

    fn on_sent(&mut self, event: &Sent) {
        self.inner.on_sent(event);
    }

    fn on_acked(&mut self, event: &Acked) {
        self.inner.on_acked(event);
    }

    fn on_lost(&mut self, event: &Lost) {
        self.inner.on_lost(event);
    }

    fn on_path(&mut self, event: &PathUpdate) {
        self.inner.on_path(event);
    }

    fn on_stream(&mut self, event: &StreamUpdate) {
        self.inner.on_stream(event);
    }

    fn wants_streams(&self) -> bool {
        self.inner.wants_streams()
    }
}

/// A download over two paths with this scheduler at the server; the first path is the handshake's.
struct Download<'a> {
    seed: u64,
    name: &'a str,
    config: Value,
    links: [LinkConfig; 2],
    bytes: u64,
    /// The client's receive windows in bytes.
    window: u64,
    /// When the first path dies.
    dies: Option<Duration>,
    /// Paths begin with the client's Finished, and the last bytes are copied, as is the default.
    own_start: bool,
}

impl<'a> Download<'a> {
    fn new(seed: u64, name: &'a str, links: [LinkConfig; 2]) -> Self {
        Self {
            seed,
            name,
            config: json!({}),
            links,
            bytes: 2_000_000,
            window: 6 << 20,
            dies: None,
            own_start: false,
        }
    }

    fn run(self) -> (Report, Seen) {
        let seen = Arc::new(Mutex::new(Seen::default()));
        let factory = Registry::new().factory(self.name, &self.config).unwrap();
        let mut server = TransportConfig::default();
        server.congestion(CongestionControl::NewReno);
        server.slow_start(SlowStart::HyStartPlusPlus);
        // What the schedulers' own decisions are worth is looked at.
        server.tail_copies(self.own_start);
        let watched = Arc::clone(&seen);
        server.scheduler(move || {
            Box::new(Watched {
                inner: factory.make(),
                seen: Arc::clone(&watched),
            })
        });
        let mut client = TransportConfig::default();
        // The slow path comes in when the fast one carries much: what these schedulers say then is looked at.
        if !self.own_start {
            client.path_start(PathStart::Confirmed);
        }
        client.receive_window(self.window);
        client.stream_receive_window(self.window);
        let [first, second] = self.links;
        let mut network = Network::builder(self.seed)
            .symmetric_path(first)
            .symmetric_path(second)
            .client_transport(client)
            .server_transport(server)
            .client(TransferClient::download(self.bytes))
            .server(TransferServer::new())
            .open_all_paths()
            .null_aead()
            .build()
            .unwrap();
        if let Some(time) = self.dies {
            let dead = Action::SetLinkUp {
                path: 0,
                from: None,
                up: false,
            };
            network.at(time, dead);
        }
        let report = network.run_to_completion(Duration::from_secs(120));
        let report = report.unwrap_or_else(|error| panic!("{} {}: {error}", self.name, self.seed));
        let seen = seen.lock().unwrap().clone();
        (report, seen)
    }
}

/// 50 Mbit/s with 20 ms one way, and 2 Mbit/s with 100 ms: the papers' pair without dynamicity.
fn clean() -> [LinkConfig; 2] {
    [
        LinkConfig::new(50_000_000, ms(20)),
        LinkConfig::new(2_000_000, ms(100)),
    ]
}

fn all() -> Vec<(&'static str, Value)> {
    vec![
        ("blest", json!({})),
        ("blest", json!({"multi": true})),
        ("ecf", json!({})),
        ("ecf_a", json!({"seed": 5})),
        ("sa_ecf", json!({})),
    ]
}

/// Schedulers that learn when to wait.
fn learners() -> Vec<(&'static str, Value)> {
    vec![
        ("linucb", json!({})),
        ("linucb", json!({"scale": 1e6, "reward": "packet"})),
        (
            "linucb",
            json!({"p_tx": 0.5, "p_wt": 0.5, "discount": 0.95}),
        ),
    ]
}

/// All 2 MB arrive over the fast path before a last packet could arrive over the slow one. With
/// waiting, the download is as fast as without the slow path. Without the floor, it is not.
#[test]
fn ecf_loses_nothing_to_the_slow_path() {
    let mut unfloored_in_all = Duration::ZERO;
    let mut ecf_in_all = Duration::ZERO;
    for seed in 0..24 {
        let run = |name| Download::new(seed, name, clean()).run();
        let (single, _) = run("single");
        for name in ["ecf", "sa_ecf"] {
            let (report, seen) = run(name);
            assert!(
                report.completed <= single.completed + ms(5),
                "{name} {seed}: {:?}, fast path alone {:?}",
                report.completed,
                single.completed
            );
            assert!(
                seen.waits > 0 && seen.endless == 0,
                "{name} {seed} {seen:?}"
            );
            assert_eq!(report.server.overridden_waits, 0, "{name} {seed}");
            if name == "ecf" {
                ecf_in_all += report.completed;
            }
        }
        let unfloored = Download {
            config: json!({"floor": false}),
            ..Download::new(seed, "ecf", clean())
        };
        unfloored_in_all += unfloored.run().0.completed;
    }
    // Not by much: what stays behind on the slow path is soon sent again on the fast one.
    assert!(
        unfloored_in_all > ecf_in_all + 24 * ms(4),
        "{unfloored_in_all:?}, {ecf_in_all:?}"
    );
}

/// A slow path that opens early gets data while the window of the fast one is small. It arrives last, unless copies bring it.
#[test]
fn ecf_loses_nothing_to_a_slow_path_that_opens_early() {
    for seed in 0..8 {
        let [single, ecf] = ["single", "ecf"].map(|name| {
            let download = Download {
                own_start: true,
                ..Download::new(seed, name, clean())
            };
            download.run().0.completed
        });
        assert!(ecf <= single + ms(5), "{seed}: {ecf:?}, alone {single:?}");
    }
}

/// What the fast path lost is on its way in the deep queue of the slow one, too. The fast path repeats it all the same, so
/// that everything twice is hardly slower than the fast path alone.
#[test]
fn redundant_repairs_what_is_stuck_in_the_queue_of_the_other_path() {
    let links = || {
        let lossy = LinkConfig {
            loss: 0.01,
            queue: QueueLimit::Packets(100),
            ..LinkConfig::new(20_000_000, ms(10))
        };
        let deep = LinkConfig {
            queue: QueueLimit::Packets(3000),
            ..LinkConfig::new(4_000_000, ms(20))
        };
        [lossy, deep]
    };
    let [single, redundant] = ["single", "redundant"].map(|name| -> Duration {
        let run = |seed| Download::new(seed, name, links()).run().0.completed;
        (0..8).map(run).sum()
    });
    // 1.04 times as long; 1.15 times if it waits for the copies.
    assert!(
        redundant < single.mul_f64(1.08),
        "{redundant:?}, alone {single:?}"
    );
}

/// On similar paths, no scheduler waits for long: two paths together are faster than one.
#[test]
fn similar_paths_are_both_used() {
    let links = || {
        [
            LinkConfig::new(10_000_000, ms(20)),
            LinkConfig::new(10_000_000, ms(25)),
        ]
    };
    let (single, _) = Download::new(1, "single", links()).run();
    for (name, config) in all() {
        let download = Download {
            config,
            ..Download::new(1, name, links())
        };
        let (report, seen) = download.run();
        assert!(
            report.completed < single.completed * 3 / 4,
            "{name}: {:?}, one path alone {:?}",
            report.completed,
            single.completed
        );
        assert!(seen.sent.iter().all(|sent| *sent > 300), "{name} {seen:?}");
    }
}

/// Networks with losses and jitter, small and large windows, the fast path first or second: all
/// downloads complete in time, and no wait is long.
#[test]
fn never_stuck() {
    for seed in 0..24_u64 {
        // An arbitrary but fixed mix.
        let part = |n: u64, below: u64| (seed * 7919 + n * 104_729) % 1009 * below / 1009;
        let loss = |n| part(n, 30) as f64 / 1000.0;
        let slow = LinkConfig::new(2_000_000 + part(1, 8_000_000), ms(60 + part(2, 60)))
            .with_loss(loss(3))
            .with_rtt_variation(part(4, 16) as f64);
        let fast = LinkConfig::new(20_000_000 + part(5, 30_000_000), ms(10 + part(6, 20)))
            .with_loss(loss(7))
            .with_rtt_variation(part(8, 16) as f64);
        let links = if seed % 2 == 0 {
            [slow, fast]
        } else {
            [fast, slow]
        };
        for (name, config) in all().into_iter().chain(learners()) {
            let download = Download {
                config,
                bytes: 500_000,
                window: [64 << 10, 1 << 20, 6 << 20][seed as usize % 3],
                ..Download::new(seed, name, links.clone())
            };
            let (report, seen) = download.run();
            assert!(report.completed < Duration::from_secs(15), "{name} {seed}");
            assert_eq!(seen.endless, 0, "{name} {seed}");
            // The longest probe timeout is that of a fast path with a full queue.
            assert!(seen.longest_wait < ms(500), "{name} {seed} {seen:?}");
            assert_eq!(report.server.overridden_waits, 0, "{name} {seed}");
        }
    }
}

#[test]
fn a_dead_path_is_not_waited_for() {
    for seed in 0..8 {
        for (name, config) in all().into_iter().chain(learners()) {
            let download = Download {
                config,
                dies: Some(ms(150 + 40 * seed)),
                bytes: 1_000_000,
                ..Download::new(seed, name, clean())
            };
            let (report, seen) = download.run();
            // 1 MB over 2 Mbit/s takes 4 s.
            assert!(report.completed < Duration::from_secs(8), "{name} {seed}");
            assert!(seen.longest_wait < ms(500), "{name} {seed} {seen:?}");
        }
    }
}

#[test]
fn draws_follow_the_seed() {
    let run = |seed: u64| {
        let download = Download {
            config: json!({"p_wait": 0.5, "seed": seed}),
            ..Download::new(3, "ecf_a", clean())
        };
        download.run().0.trace_hash
    };
    assert_eq!(run(1), run(1));
    let hashes: std::collections::BTreeSet<_> = (0..8).map(run).collect();
    assert!(hashes.len() > 1);
}

/// What raises BLEST's lambda: the receive window is exhausted while the slow path has the oldest
/// data.
#[test]
fn a_blocked_sender_is_told_by_which_path() {
    let [first, second] = [0, 1].map(|slot| PathIndex::new(slot).unwrap());
    let blocked_by = |name| {
        let download = Download {
            window: 128 << 10,
            ..Download::new(1, name, clean())
        };
        download.run().1.blocked_by
    };
    assert_eq!(blocked_by("single"), PathSet::only(first));
    assert!(blocked_by("roundrobin").contains(second));
    let roomy = Download {
        bytes: 100_000,
        ..Download::new(1, "minrtt", clean())
    };
    assert_eq!(roomy.run().1.blocked_by, PathSet::EMPTY);
}
