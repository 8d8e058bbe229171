//! The plan of one run, generated from its seed.

use std::time::Duration;

use mpquic_proto::{CongestionControl, Side, TransportConfig};
use mpquic_sim::workload::{File, Workload};
use mpquic_sim::{
    CrossTraffic, GilbertElliott, Hop, LinkConfig, MahimahiTrace, Network, PlannedChange,
    QueueLimit, RateStep, SimError,
};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use crate::support::ms;

/// The plan of a run. No link is so bad that a connection cannot survive it: at most 20 % loss in
/// total, at most 3 s of outage.
#[derive(Debug)]
pub(crate) struct Plan {
    seed: u64,
    /// By path: client to server, server to client.
    links: Vec<[LinkConfig; 2]>,
    /// The link that several paths share in the direction from the server, and which paths these
    /// are.
    shared: Option<(LinkConfig, Vec<bool>)>,
    pub(crate) cross: Vec<CrossTraffic>,
    pub(crate) workload: Workload,
    scheduler: String,
    congestion: CongestionControl,
    windows: [u64; 3],
    null_aead: bool,
    max_datagrams: usize,
}

/// From `low` to `high`, with the same probability for each order of magnitude.
fn log_uniform(rng: &mut StdRng, low: f64, high: f64) -> f64 {
    low * (high / low).powf(rng.random_range(0.0..1.0))
}

/// A value below `most` with this probability, otherwise zero.
fn sometimes(rng: &mut StdRng, chance: f64, most: f64) -> f64 {
    if rng.random_bool(chance) {
        rng.random_range(0.0..most)
    } else {
        0.0
    }
}

fn rate(rng: &mut StdRng) -> u64 {
    log_uniform(rng, 500_000.0, 100_000_000.0) as u64
}

fn link(rng: &mut StdRng) -> LinkConfig {
    let delay = Duration::from_secs_f64(log_uniform(rng, 0.0005, 0.15));
    let mut link = LinkConfig {
        delay_sd: delay.mul_f64(sometimes(rng, 0.3, 0.2)),
        loss: sometimes(rng, 0.4, 0.05),
        queue: match rng.random_range(0..4) {
            0 => QueueLimit::Packets(rng.random_range(5..200)),
            1 => QueueLimit::Bytes(rng.random_range(10_000..300_000)),
            _ => QueueLimit::Auto,
        },
        reordering: sometimes(rng, 0.2, 0.1),
        reordering_delay: ms(rng.random_range(1..50)),
        duplication: sometimes(rng, 0.2, 0.05),
        corruption: sometimes(rng, 0.2, 0.02),
        ..LinkConfig::new(rate(rng), delay)
    };
    if rng.random_bool(0.1) {
        link.gilbert_elliott =
            // Short bursts: they are counted in packets, and the handshake's few packets are
            // seconds apart.
            GilbertElliott::from_mean(rng.random_range(0.001..0.1), rng.random_range(1.0..2.5))
                .ok();
    }
    match rng.random_range(0..10) {
        0 => {
            let mut at = Duration::ZERO;
            for _ in 0..rng.random_range(1..6) {
                at += ms(rng.random_range(10..1000));
                link.rate_steps.push(RateStep {
                    at,
                    rate: rate(rng),
                });
            }
        }
        1 => {
            // Opportunities of 1500 bytes, with pauses of up to 50 ms.
            let mut at = 0;
            let times: Vec<_> = (0..rng.random_range(5..200))
                .map(|_| {
                    at += rng.random_range(0..50) * u64::from(rng.random_bool(0.2));
                    at + 1
                })
                .collect();
            if let Ok(trace) = MahimahiTrace::from_millis(times) {
                link = LinkConfig {
                    rate: None,
                    trace: Some(trace),
                    ..link
                };
            }
        }
        2 => {
            let mut change = PlannedChange::at(ms(rng.random_range(0..3000)));
            change.delay = Some(ms(rng.random_range(1..200)));
            change.loss = Some(rng.random_range(0.0..0.05));
            link.changes.push(change);
        }
        3 => {
            let at = ms(rng.random_range(0..3000));
            link = link.with_outage(at, ms(rng.random_range(1..3000)));
        }
        _ => {}
    }
    link
}

fn workload(rng: &mut StdRng) -> Workload {
    let size = log_uniform(rng, 100.0, 400_000.0) as u64;
    let text = match rng.random_range(0..10) {
        0 => format!("requests:{}:{}B", rng.random_range(1..20), 1 + size / 10),
        1 => format!("video:{}:300kbit/s", rng.random_range(1..6)),
        2 => "bulk:300ms".to_owned(),
        3 => "page:google:two_wave".to_owned(),
        4 => "page:twitter:full".to_owned(),
        5 => format!(
            "messages:{}kbit/s:{}B",
            rng.random_range(100..1000),
            1 + size / 4
        ),
        _ => {
            return Workload::File(File {
                size,
                warm: rng.random_bool(0.3),
            });
        }
    };
    text.parse()
        .unwrap_or_else(|error| panic!("{text}: {error}"))
}

impl Plan {
    pub(crate) fn new(seed: u64) -> Self {
        let rng = &mut StdRng::seed_from_u64(seed ^ 0x5ce0_a210);
        let count = match rng.random_range(0..10) {
            0 => 1,
            1 => rng.random_range(3..=8),
            _ => 2,
        };
        let names: Vec<_> = mpquic_workspace::schedulers()
            .names()
            .map(str::to_owned)
            .collect();
        let links: Vec<_> = (0..count).map(|_| [link(rng), link(rng)]).collect();
        let shared = rng.random_bool(0.15).then(|| {
            (
                link(rng),
                (0..count).map(|_| rng.random_bool(0.7)).collect(),
            )
        });
        let controls = CongestionControl::ALL;
        let mut cross = Vec::new();
        for path in 0..count {
            if rng.random_bool(0.05) {
                let control = controls[rng.random_range(0..controls.len())];
                let from = if rng.random_bool(0.8) {
                    Side::Server
                } else {
                    Side::Client
                };
                let start = ms(rng.random_range(0..500));
                let flow = CrossTraffic::new(path, from, control);
                cross.push(flow.between(start, start + ms(1000)));
            }
        }
        Self {
            seed,
            links,
            shared,
            cross,
            workload: workload(rng),
            scheduler: names[rng.random_range(0..names.len())].clone(),
            congestion: controls[rng.random_range(0..controls.len())],
            windows: [(); 3].map(|()| log_uniform(rng, 20_000.0, 8_000_000.0) as u64),
            null_aead: rng.random_bool(0.8),
            max_datagrams: rng.random_range(1..=10),
        }
    }

    /// The kind of the workload.
    pub(crate) const fn kind(&self) -> &'static str {
        match self.workload {
            Workload::File(_) => "file",
            Workload::Bulk(_) => "bulk",
            Workload::Requests(_) => "requests",
            Workload::Repeat(_) => "repeat",
            Workload::Video(_) => "video",
            Workload::Page(_) => "page",
            Workload::Messages(_) => "messages",
            _ => "other",
        }
    }

    /// Whether the transfer continues after the workload is complete.
    pub(crate) const fn is_endless(&self) -> bool {
        matches!(self.workload, Workload::Bulk(_)) || !self.cross.is_empty()
    }

    fn transport(&self) -> TransportConfig {
        let factory = mpquic_workspace::schedulers()
            .factory(&self.scheduler, &serde_json::Value::Null)
            .expect("a scheduler without settings");
        let [stream, connection, send] = self.windows;
        let mut transport = TransportConfig::default();
        transport
            .scheduler(factory)
            .congestion(self.congestion)
            // Longer than any silence here. A side that misses the close needs a timeout.
            .max_idle_timeout(Some(Duration::from_secs(120)))
            .stream_receive_window(stream)
            .receive_window(connection)
            .send_window(send);
        transport
    }

    pub(crate) fn build(&self) -> Result<Network, SimError> {
        let mut builder = Network::builder(self.seed)
            .transport(self.transport())
            .client_boxed(self.workload.client(self.seed))
            .server_boxed(self.workload.server(self.seed))
            .max_datagrams(self.max_datagrams)
            // However long it takes until a packet of each side gets through.
            .configure_server(|config| {
                config.handshake_timeout(Duration::from_secs(24 * 3600));
            })
            .configure_client(|config| {
                config.handshake_timeout(Duration::from_secs(24 * 3600));
            })
            .open_all_paths();
        if self.null_aead {
            builder = builder.null_aead();
        }
        let shared = self
            .shared
            .as_ref()
            .map(|(link, through)| (builder.shared_link(link.clone()), through));
        for (number, [up, down]) in self.links.iter().enumerate() {
            builder = match &shared {
                Some((link, through)) if through[number] => {
                    let down = [Hop::from(*link), Hop::from(down.clone())];
                    builder.path_through([up.clone()], down)
                }
                _ => builder.path(up.clone(), down.clone()),
            };
        }
        for traffic in &self.cross {
            builder = builder.cross_traffic(*traffic);
        }
        builder.build()
    }
}
