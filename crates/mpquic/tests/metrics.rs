//! Figures for monitoring: what is counted agrees with the statistics, which can be written as data and outlive their path.

mod common;

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, Mutex};

use common::{Pair, loopback, run_on_one_thread};
use metrics::{
    Counter, CounterFn, Gauge, GaugeFn, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder,
    SharedString, Unit,
};
use mpquic::metrics::Metrics;
use mpquic::{ConnectionStats, PathErrorCode, PathEvent, PathId, PathStats, VarInt};

/// Keeps everything by name and labels: sums of counters and gauges, numbers of samples.
#[derive(Clone, Default)]
struct Kept(Arc<Mutex<BTreeMap<String, f64>>>);

struct One(Kept, String);

impl Kept {
    fn one(&self, key: &Key) -> Arc<One> {
        let labels = key
            .labels()
            .map(|label| format!("{}={}", label.key(), label.value()));
        let name = format!("{}{{{}}}", key.name(), labels.collect::<Vec<_>>().join(","));
        Arc::new(One(self.clone(), name))
    }

    fn get(&self, name: &str) -> f64 {
        self.0
            .lock()
            .unwrap()
            .get(name)
            .copied()
            .unwrap_or_default()
    }
}

impl One {
    fn change(&self, change: impl FnOnce(&mut f64)) {
        let mut kept = (self.0).0.lock().unwrap();
        change(kept.entry(self.1.clone()).or_default());
    }
}

impl CounterFn for One {
    fn increment(&self, value: u64) {
        self.change(|kept| *kept += value as f64);
    }

    fn absolute(&self, value: u64) {
        self.change(|kept| *kept = value as f64);
    }
}

impl GaugeFn for One {
    fn increment(&self, value: f64) {
        self.change(|kept| *kept += value);
    }

    fn decrement(&self, value: f64) {
        self.change(|kept| *kept -= value);
    }

    fn set(&self, value: f64) {
        self.change(|kept| *kept = value);
    }
}

impl HistogramFn for One {
    fn record(&self, _: f64) {
        self.change(|kept| *kept += 1.0);
    }
}

impl Recorder for Kept {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        Counter::from_arc(self.one(key))
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::from_arc(self.one(key))
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::from_arc(self.one(key))
    }
}

#[test]
fn what_is_counted_agrees_with_the_statistics() {
    let kept = Kept::default();
    metrics::with_local_recorder(&kept, || {
        run_on_one_thread(async {
            let locals = [loopback(1), loopback(2)];
            let pair = Pair::with(&locals, |transport| Metrics::new().attach(transport));
            let (client, server) = pair.connect().await;
            assert_eq!(kept.get("mpquic_connections{side=client}"), 1.0);
            let mut events = client.path_events();
            let second = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2));
            let path = client.open_path(second, pair.server_addr).await.unwrap();
            let data = vec![7; 1 << 20];
            let send = async {
                let mut stream = client.open_uni().await.unwrap();
                stream.write_all(&data).await.unwrap();
                stream.finish().unwrap();
                stream.stopped().await.unwrap();
            };
            let receive = async {
                let mut stream = server.accept_uni().await.unwrap();
                assert_eq!(stream.read_to_end(1 << 20).await.unwrap().len(), data.len());
            };
            tokio::join!(send, receive);
            assert_eq!(kept.get("mpquic_paths{side=client}"), 2.0);
            path.close(PathErrorCode::APPLICATION_ABANDON_PATH).unwrap();
            // Long after it: what was counted is still there for whoever reads of it now.
            loop {
                let event = events.recv().await.unwrap();
                if event == (PathEvent::Discarded { id: PathId(1) }) {
                    break;
                }
            }
            assert!(client.path(PathId(1)).is_err());
            let (tuple, last) = client.closed_path(PathId(1)).unwrap();
            assert_eq!(tuple.local.ip(), second);
            assert_eq!(path.stats().unwrap(), last);
            assert!(last.sent_packets > 0 && last.rtt > std::time::Duration::ZERO);
            let counted = kept.get("mpquic_packets_sent_total{side=client,path=1}");
            assert_eq!(counted, last.sent_packets as f64);
            assert!(kept.get("mpquic_path_rtt_seconds{side=client,path=1}") > 0.0);
            assert_eq!(kept.get("mpquic_paths{side=client}"), 1.0);

            // As data, and back.
            let text = serde_json::to_string(&last).unwrap();
            assert_eq!(serde_json::from_str::<PathStats>(&text).unwrap(), last);
            let all = client.stats();
            let text = serde_json::to_string(&all).unwrap();
            assert_eq!(serde_json::from_str::<ConnectionStats>(&text).unwrap(), all);

            client.close(VarInt::from_u32(0), b"");
            server.closed().await;
            drop((client, server, path, events));
            pair.client.wait_idle().await;
            pair.server.wait_idle().await;
        });
    });
    for side in ["client", "server"] {
        assert_eq!(kept.get(&format!("mpquic_connections{{side={side}}}")), 0.0);
        assert_eq!(
            kept.get(&format!("mpquic_connections_total{{side={side}}}")),
            1.0
        );
        assert_eq!(
            kept.get(&format!("mpquic_handshake_seconds{{side={side}}}")),
            1.0
        );
        assert_eq!(kept.get(&format!("mpquic_paths{{side={side}}}")), 0.0);
    }
}
