//! The networks and downloads that are compared.

use std::time::Duration;

use mpquic::{CongestionControl, TransportConfig};
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
    pub(crate) scheduler: String,
    congestion: CongestionControl,
}

impl Scenario {
    /// The settings of both sides.
    pub(crate) fn transport(&self) -> TransportConfig {
        let factory = mpquic_workspace::schedulers()
            .factory(&self.scheduler, &serde_json::Value::Null)
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

/// A scenario with minRTT and CUBIC.
fn scenario(name: &'static str, what: &'static str, links: [LinkConfig; 2], kb: u64) -> Scenario {
    Scenario {
        name,
        what,
        links,
        bytes: kb * 1000,
        scheduler: "minrtt".into(),
        congestion: CongestionControl::Cubic,
    }
}

fn all() -> Vec<Scenario> {
    let second = Duration::from_secs(1);
    let hom = scenario(
        "hom",
        "25 Mbit/s 40 ms twice, 10 MB, CUBIC",
        [link(25, 40), link(25, 40)],
        10_000,
    );
    let slow = link(2, 100).with_loss(0.015).with_rtt_variation(8.0);
    let slow_second = scenario(
        "slow-second",
        "50 Mbit/s 20 ms + 2 Mbit/s 100 ms with 1.5 % loss and 8 % jitter, 5 MB, NewReno",
        [link(50, 20), slow],
        5000,
    );
    let far = link(8, 100).with_loss(0.01);
    let startup = scenario(
        "startup",
        "50 Mbit/s 20 ms + 8 Mbit/s 100 ms with 1 % loss, 2 MB, BBRv3",
        [link(50, 20), far],
        2000,
    );
    vec![
        scenario(
            "het",
            "50 Mbit/s 10 ms + 10 Mbit/s 70 ms, 20 MB, CUBIC",
            [link(50, 10), link(10, 70)],
            20_000,
        ),
        Scenario {
            scheduler: "roundrobin".into(),
            ..hom
        },
        Scenario {
            congestion: CongestionControl::NewReno,
            ..slow_second
        },
        scenario(
            "jitter",
            "40 Mbit/s 20 ms + 20 Mbit/s 40 ms, both with 8 % jitter, 10 MB, CUBIC",
            [
                link(40, 20).with_rtt_variation(8.0),
                link(20, 40).with_rtt_variation(8.0),
            ],
            10_000,
        ),
        scenario(
            "outage",
            "30 Mbit/s 15 ms + 15 Mbit/s 30 ms, the first dark from 1.0 to 2.0 s, 10 MB, CUBIC",
            [link(30, 15).with_outage(second, second), link(15, 30)],
            10_000,
        ),
        scenario(
            "short",
            "20 Mbit/s 15 ms + 20 Mbit/s 30 ms, 1 MB, CUBIC",
            [link(20, 15), link(20, 30)],
            1000,
        ),
        scenario(
            "near-far",
            "8 Mbit/s 5 ms + 30 Mbit/s 60 ms, 4 MB, CUBIC",
            [link(8, 5), link(30, 60)],
            4000,
        ),
        scenario(
            "lossy",
            "30 Mbit/s 20 ms + 30 Mbit/s 40 ms, both with 0.5 % loss, 5 MB, CUBIC",
            [link(30, 20).with_loss(0.005), link(30, 40).with_loss(0.005)],
            5000,
        ),
        Scenario {
            congestion: CongestionControl::Bbr,
            ..startup
        },
        scenario(
            "slow",
            "4 Mbit/s 25 ms + 2 Mbit/s 60 ms, 2 MB, CUBIC",
            [link(4, 25), link(2, 60)],
            2000,
        ),
    ]
}

/// The scenarios with these names, all if there are no names; each with its own scheduler, or with each of these.
pub(crate) fn chosen(names: &[String], schedulers: &[&str]) -> Result<Vec<Vec<Scenario>>, Error> {
    let registry = mpquic_workspace::schedulers();
    for name in schedulers {
        registry.factory(name, &serde_json::Value::Null)?;
    }
    let all = all();
    for name in names {
        if !all.iter().any(|scenario| scenario.name == name) {
            let there_are: Vec<_> = all.iter().map(|scenario| scenario.name).collect();
            return Err(Error::UnknownScenario(name.clone(), there_are.join(", ")));
        }
    }
    let is_chosen =
        |scenario: &Scenario| names.is_empty() || names.iter().any(|name| name == scenario.name);
    let with = |scenario: Scenario| {
        if schedulers.is_empty() {
            return vec![scenario];
        }
        let schedulers = schedulers.iter().map(|scheduler| Scenario {
            scheduler: (*scheduler).to_owned(),
            ..scenario.clone()
        });
        schedulers.collect()
    };
    Ok(all.into_iter().filter(is_chosen).map(with).collect())
}
