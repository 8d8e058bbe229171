//! Schedulers whose decisions stand for several packets: the same datagrams at the same times as if they were asked for each.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use mpquic_proto::{CongestionControl, TransportConfig};
use mpquic_sched::{
    Acked, Context, Decision, Lost, PathUpdate, Registry, Scheduler, Sent, StreamUpdate,
};
use mpquic_sim::{Action, LinkConfig, Network, Report, TransferClient, TransferServer};
use serde_json::json;

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Counts how often it is asked.
struct Asked {
    inner: Box<dyn Scheduler>,
    times: Arc<AtomicU64>,
    /// Whether decisions stand for as many packets as the inner scheduler says, or for one.
    runs: bool,
}

impl Scheduler for Asked {
    fn decide(&mut self, cx: &Context<'_>) -> Decision {
        self.times.fetch_add(1, Ordering::Relaxed);
        self.inner.decide(cx)
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

    fn run(&self) -> u32 {
        if self.runs { self.inner.run() } else { 1 }
    }
}

/// A download, and how often the server's scheduler was asked.
fn download(
    seed: u64,
    name: &'static str,
    congestion: CongestionControl,
    dies: bool,
    runs: bool,
) -> (Report, u64) {
    let times = Arc::new(AtomicU64::new(0));
    let factory = Registry::new().factory(name, &json!({})).unwrap();
    let mut server = TransportConfig::default();
    server.congestion(congestion);
    let asked = Arc::clone(&times);
    server.scheduler(move || {
        Box::new(Asked {
            inner: factory.make(),
            times: Arc::clone(&asked),
            runs,
        })
    });
    let mut network = Network::builder(seed)
        .symmetric_path(LinkConfig::new(50_000_000, ms(10)))
        .symmetric_path(LinkConfig::new(20_000_000, ms(35)).with_loss(0.01))
        .server_transport(server)
        .client(TransferClient::download(4_000_000))
        .server(TransferServer::new())
        .open_all_paths()
        .null_aead()
        .build()
        .unwrap();
    if dies {
        let dead = Action::SetLinkUp {
            path: 0,
            from: None,
            up: false,
        };
        network.at(ms(400), dead);
    }
    let report = network.run_to_completion(Duration::from_secs(120)).unwrap();
    (report, times.load(Ordering::Relaxed))
}

#[test]
fn a_run_sends_what_as_many_decisions_would() {
    for name in ["minrtt", "single"] {
        for congestion in [CongestionControl::Cubic, CongestionControl::Bbr] {
            for (seed, dies) in [(1, false), (2, false), (3, name == "minrtt")] {
                let (alone, each) = download(seed, name, congestion, dies, false);
                let (report, asked) = download(seed, name, congestion, dies, true);
                assert_eq!(report.trace_hash, alone.trace_hash, "{name} {seed}");
                println!("{name} {seed}: asked {asked} times instead of {each}");
                assert!(asked * 20 < each * 19, "{name} {seed}: {asked} of {each}");
            }
        }
    }
}
