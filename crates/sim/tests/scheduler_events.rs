//! What a scheduler is told about data: it sees each byte once as new and once as contiguous,
//! despite losses and copies.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use mpquic_proto::TransportConfig;
use mpquic_sched::{Acked, Context, Decision, PathUpdate, Registry, Scheduler, Sent};
use mpquic_sim::{LinkConfig, Network, TransferClient, TransferServer};
use serde_json::json;

#[derive(Debug, Default, Clone, Copy)]
struct Told {
    new_bytes: u64,
    contiguous: u64,
    retransmissions: u64,
}

struct Counting {
    inner: Box<dyn Scheduler>,
    told: Arc<Mutex<Told>>,
}

impl Scheduler for Counting {
    fn decide(&mut self, cx: &Context<'_>) -> Decision {
        self.inner.decide(cx)
    }

    fn on_sent(&mut self, event: &Sent) {
        let mut told = self.told.lock().unwrap();
        told.new_bytes += u64::from(event.new_bytes);
        told.retransmissions += u64::from(event.retransmission);
        self.inner.on_sent(event);
    }

    fn on_acked(&mut self, event: &Acked) {
        self.told.lock().unwrap().contiguous += event.contiguous;
        self.inner.on_acked(event);
    }

    fn on_path(&mut self, event: &PathUpdate) {
        self.inner.on_path(event);
    }
}

#[test]
fn bytes_are_new_once_and_contiguous_once() {
    const BYTES: u64 = 1_000_000;
    let link = |rate, delay| LinkConfig::new(rate, Duration::from_millis(delay)).with_loss(0.02);
    for (seed, name) in [(1, "minrtt"), (2, "roundrobin"), (3, "redundant")] {
        let told = Arc::<Mutex<Told>>::default();
        let registry = Registry::new();
        let mut transport = TransportConfig::default();
        let into = Arc::clone(&told);
        transport.scheduler(move || {
            Box::new(Counting {
                inner: registry.build(name, &json!({})).unwrap(),
                told: Arc::clone(&into),
            })
        });
        let mut network = Network::builder(seed)
            .server_transport(transport)
            .symmetric_path(link(20_000_000, 10))
            .symmetric_path(link(5_000_000, 40))
            .client(TransferClient::download(BYTES))
            .server(TransferServer::new())
            .open_all_paths()
            .build()
            .unwrap();
        let done = network.run_to_completion(Duration::from_secs(60)).unwrap();
        // Until everything is acknowledged.
        network
            .run_until(done.completed + Duration::from_secs(5))
            .unwrap();
        let told = *told.lock().unwrap();
        assert!(told.retransmissions > 0, "{name}: {told:?}");
        assert_eq!(told.contiguous, BYTES, "{name}: {told:?}");
        // A loss probe is not scheduled, but may carry new data.
        let unscheduled = BYTES.checked_sub(told.new_bytes);
        assert!(
            unscheduled.is_some_and(|bytes| bytes < 20_000),
            "{name}: {told:?}"
        );
    }
}
