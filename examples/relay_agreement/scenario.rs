//! The networks and downloads that are compared.

use std::time::Duration;

use mpquic::{CongestionControl, TransportConfig};
use mpquic_sched::Registry;
use mpquic_sim::LinkConfig;

use crate::Error;

/// So large that the receiver's window is never the limit.
const WINDOW: u64 = 16 << 20;
/// The seed of the content.
pub(crate) const CONTENT_SEED: u64 = 1;

/// A download over two paths.
#[derive(Debug, Clone)]
pub(crate) struct Scenario {
    pub(crate) name: &'static str,
    pub(crate) what: &'static str,
    pub(crate) links: [LinkConfig; 2],
    pub(crate) bytes: u64,
    scheduler: &'static str,
    congestion: CongestionControl,
}

impl Scenario {
    /// The settings of both sides.
    pub(crate) fn transport(&self) -> TransportConfig {
        let factory = Registry::new()
            .factory(self.scheduler, &serde_json::Value::Null)
            .expect("scenarios name schedulers that there are");
        let mut transport = TransportConfig::default();
        transport
            .scheduler(factory)
            .congestion(self.congestion)
            .stream_receive_window(WINDOW)
            .receive_window(WINDOW)
            .send_window(WINDOW);
        transport
    }
}

fn link(mbps: u64, owd_ms: u64) -> LinkConfig {
    LinkConfig::new(mbps * 1_000_000, Duration::from_millis(owd_ms))
}

fn all() -> Vec<Scenario> {
    vec![
        Scenario {
            name: "het",
            what: "50 Mbit/s 10 ms + 10 Mbit/s 70 ms, 20 MB, minrtt, CUBIC",
            links: [link(50, 10), link(10, 70)],
            bytes: 20_000_000,
            scheduler: "minrtt",
            congestion: CongestionControl::Cubic,
        },
        Scenario {
            name: "hom",
            what: "25 Mbit/s 40 ms twice, 10 MB, round robin, CUBIC",
            links: [link(25, 40), link(25, 40)],
            bytes: 10_000_000,
            scheduler: "roundrobin",
            congestion: CongestionControl::Cubic,
        },
        Scenario {
            name: "slow-second",
            what: "50 Mbit/s 20 ms + 2 Mbit/s 100 ms with 1.5 % loss and 8 % jitter, 5 MB, minrtt, NewReno",
            links: [
                link(50, 20),
                link(2, 100).with_loss(0.015).with_rtt_variation(8.0),
            ],
            bytes: 5_000_000,
            scheduler: "minrtt",
            congestion: CongestionControl::NewReno,
        },
        Scenario {
            name: "jitter",
            what: "40 Mbit/s 20 ms + 20 Mbit/s 40 ms, both with 8 % jitter, 10 MB, minrtt, CUBIC",
            links: [
                link(40, 20).with_rtt_variation(8.0),
                link(20, 40).with_rtt_variation(8.0),
            ],
            bytes: 10_000_000,
            scheduler: "minrtt",
            congestion: CongestionControl::Cubic,
        },
        Scenario {
            name: "outage",
            what: "30 Mbit/s 15 ms + 15 Mbit/s 30 ms, the first dark from 1.0 to 2.0 s, 10 MB, minrtt, CUBIC",
            links: [
                link(30, 15).with_outage(Duration::from_secs(1), Duration::from_secs(1)),
                link(15, 30),
            ],
            bytes: 10_000_000,
            scheduler: "minrtt",
            congestion: CongestionControl::Cubic,
        },
    ]
}

/// The scenarios with these names; all if there are no names.
pub(crate) fn chosen(names: &[String]) -> Result<Vec<Scenario>, Error> {
    let all = all();
    for name in names {
        if !all.iter().any(|scenario| scenario.name == name) {
            let there_are: Vec<_> = all.iter().map(|scenario| scenario.name).collect();
            return Err(Error::UnknownScenario(name.clone(), there_are.join(", ")));
        }
    }
    Ok(all
        .into_iter()
        .filter(|scenario| names.is_empty() || names.iter().any(|name| name == scenario.name))
        .collect())
}
