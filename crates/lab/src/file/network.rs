//! A network of an experiment with fixed values: paths, shared links, cross traffic, windows. The
//! parser creates it, `setup` builds it.

use std::time::Duration;

use mpquic_proto::PathStart;
use mpquic_proto::congestion::SlowStart;
use mpquic_sim::content;
use mpquic_sim::handshake_time;
use mpquic_sim::units::size;
use mpquic_sim::{CrossTraffic, FluidLink, FluidPath, LinkConfig, QueueLimit};
use serde::{Deserialize, Serialize};

use crate::file::experiment::SchedulerSpec;
use crate::networks::mobile::MobileSpec;
use crate::view::text::significant;

/// A value in which a network differs from the others of its grid or sample.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parameter {
    /// The key with the path's number, such as `rate1`.
    pub name: String,
    /// The value as the file has it.
    pub value: String,
    /// Whether the value was sampled. If not, it is a step of a grid.
    pub drawn: bool,
}

impl Parameter {
    pub(crate) fn new(name: &str, value: String) -> Self {
        Self {
            name: name.to_owned(),
            value,
            drawn: false,
        }
    }

    pub(crate) fn drawn(name: &str, value: String) -> Self {
        Self {
            drawn: true,
            ..Self::new(name, value)
        }
    }
}

/// One network of an experiment.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct NetworkSpec {
    /// A unique name in the experiment: the name of the set, and the values in which this network
    /// differs.
    pub name: String,
    /// The description that the network comes from.
    pub set: String,
    /// The values in which it differs, in the order of the grid.
    pub parameters: Vec<Parameter>,
    /// The paths, in the order of the file.
    pub paths: Vec<PathSpec>,
    /// The number of the path that carries the handshake, from 0; of the one that comes first, if there is a race.
    #[serde(skip_serializing_if = "is_first")]
    pub handshake: usize,
    /// When the other paths are opened.
    #[serde(skip_serializing_if = "is_confirmed", serialize_with = "by_name")]
    pub start: PathStart,
    /// The handshake begins on all paths at once, and goes on where the first answer comes.
    #[serde(skip_serializing_if = "is_off")]
    pub race: bool,
    /// Whether the server's data may go ahead of the validation of a path.
    #[serde(skip_serializing_if = "is_off")]
    pub early_path_data: bool,
    /// Links that several paths use.
    pub shared: Vec<SharedSpec>,
    /// Competing connections.
    #[serde(serialize_with = "in_words")]
    pub cross_traffic: Vec<CrossTraffic>,
    /// The receive window of the connection and of each stream, bytes.
    pub receive_window: u64,
    /// The most bytes that may be written and unacknowledged.
    pub send_window: u64,
    /// The initial congestion window in packets.
    pub initial_window: u32,
    /// How windows grow until the first congestion event.
    #[serde(skip_serializing_if = "is_hystart", serialize_with = "in_word")]
    pub slow_start: SlowStart,
    /// Whether the last bytes go on a second path too that delivers them sooner.
    #[serde(skip_serializing_if = "is_off")]
    pub tail_copies: bool,
    /// Whether the two ends ask each other for fewer acknowledgements; `None`: as the library does by default.
    #[serde(skip_serializing_if = "not_asked")]
    pub ack_frequency: Option<bool>,
    /// Whether packets are spread over the round trip.
    #[serde(skip_serializing_if = "is_on")]
    pub pacing: bool,
    /// UDP payload bytes per datagram.
    pub mtu: u16,
    /// The labels of the schedulers that run here; empty: all.
    pub schedulers: Vec<String>,
    /// The short forms of the workloads that run here; empty: all.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub workloads: Vec<String>,
    /// The names of the congestion controls that run here; empty: all.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub congestion: Vec<String>,
    /// Whether the server remembers its paths from a connection before the measured one.
    #[serde(skip_serializing_if = "is_false")]
    pub memory: bool,
    /// How many connections the server had before, if it remembers.
    #[serde(skip_serializing_if = "is_one")]
    pub connections_before: u32,
    /// Whether the client then has an address validation token of that connection.
    #[serde(skip_serializing_if = "is_on")]
    pub tokens: bool,
    /// How the network was during the runs before the measured one; `None`: the same.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub earlier: Option<Earlier>,
    /// The name without the values of `handshake`, `start`, `race`, `memory` and `tokens`, if these vary; otherwise the name.
    /// Networks with the same one meet the same randomness, so that their runs are pairs.
    #[serde(skip)]
    pub twin: String,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde hands over a reference"
)]
const fn is_off(flag: &bool) -> bool {
    !*flag
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde hands over a reference"
)]
const fn not_asked(ack_frequency: &Option<bool>) -> bool {
    !matches!(ack_frequency, Some(true))
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde hands over a reference"
)]
const fn is_first(handshake: &usize) -> bool {
    *handshake == 0
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde hands over a reference"
)]
const fn is_false(flag: &bool) -> bool {
    !*flag
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde hands over a reference"
)]
const fn is_one(count: &u32) -> bool {
    *count == 1
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde hands over a reference"
)]
fn is_confirmed(start: &PathStart) -> bool {
    *start == PathStart::Confirmed
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde hands over a reference"
)]
fn is_hystart(slow_start: &SlowStart) -> bool {
    *slow_start == SlowStart::HyStartPlusPlus
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde hands over a reference"
)]
fn in_word<S: serde::Serializer>(slow_start: &SlowStart, s: S) -> Result<S::Ok, S::Error> {
    s.serialize_str(slow_start.name())
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde hands over a reference"
)]
fn by_name<S: serde::Serializer>(start: &PathStart, s: S) -> Result<S::Ok, S::Error> {
    s.serialize_str(start_name(*start))
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde hands over a reference"
)]
const fn is_on(flag: &bool) -> bool {
    *flag
}

/// The starts of paths that files can name. The first one is the default.
const STARTS: [(PathStart, &str); 2] = [
    (PathStart::Confirmed, "confirmed"),
    (PathStart::Complete, "complete"),
];

/// The name of a start of paths in files.
pub(crate) fn start_name(start: PathStart) -> &'static str {
    let found = STARTS.iter().find(|known| known.0 == start);
    found.map_or("unknown", |known| known.1)
}

/// The start of paths with this name.
pub(crate) fn start_of(name: &str) -> Option<PathStart> {
    let found = STARTS.iter().find(|known| known.1 == name);
    found.map(|known| known.0)
}

/// How a network was during the runs before the measured one: other paths, or factors of what these are now.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Earlier {
    /// The factor of all rates: 4 if the network has shrunk to a quarter since.
    pub rate: f64,
    /// The factor of all propagation delays: 0.5 if the RTT has doubled since.
    pub rtt: f64,
    /// The paths of then, as many as there are now; `None`: the same.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paths: Option<Vec<PathSpec>>,
}

impl Earlier {
    /// The link as it was.
    fn link(&self, link: &LinkConfig) -> LinkConfig {
        let rate = |rate: u64| ((rate as f64 * self.rate).round() as u64).max(1);
        let time = |time: Duration| time.mul_f64(self.rtt);
        let mut link = link.clone();
        link.rate = link.rate.map(rate);
        for step in &mut link.rate_steps {
            step.rate = rate(step.rate);
        }
        link.delay = time(link.delay);
        link.delay_sd = time(link.delay_sd);
        for change in &mut link.changes {
            // A rate of 0 stays one: packets wait.
            change.rate = change.rate.map(|now| if now == 0 { 0 } else { rate(now) });
            change.delay = change.delay.map(time);
            change.delay_sd = change.delay_sd.map(time);
        }
        link
    }
}

/// A path: its links from client to server and from server to client.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PathSpec {
    /// From the client to the server.
    pub up: LinkConfig,
    /// From the server to the client.
    pub down: LinkConfig,
    /// The name of the shared link that both directions use in addition.
    pub through: Option<String>,
    /// The model that draws both directions anew for each run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<MobileSpec>,
}

/// A link that several paths use, between their own links and the server. Each direction has its
/// own copy.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SharedSpec {
    /// Its name in the paths' `through`.
    pub name: String,
    /// The link in one direction.
    pub link: LinkConfig,
}

impl NetworkSpec {
    /// When a link changes for the last time by plan: a change of its settings, a step of its rate, an outage that ends. Zero
    /// if none does.
    pub fn last_change(&self) -> Duration {
        let own = self.paths.iter().flat_map(|path| [&path.up, &path.down]);
        let links = own.chain(self.shared.iter().map(|shared| &shared.link));
        let times = links.flat_map(|link| {
            let steps = link.rate_steps.iter().map(|step| step.at);
            let changes = link.changes.iter().map(|change| change.at);
            let outages = link
                .outages
                .iter()
                .map(|outage| outage.at.saturating_add(outage.lasting));
            steps.chain(changes).chain(outages)
        });
        times.max().unwrap_or_default()
    }

    /// The paths in words, for tables and titles.
    pub fn describe(&self) -> String {
        let paths = self.paths.iter().map(PathSpec::describe);
        let mut text = paths.collect::<Vec<_>>().join(" | ");
        if self.handshake > 0 {
            text += &format!(", handshake on path {}", self.handshake + 1);
        }
        if self.start != PathStart::Confirmed {
            text += &format!(", start {}", start_name(self.start));
        }
        if self.race {
            text += ", all paths at once";
        }
        if !is_hystart(&self.slow_start) {
            text += &format!(", slow start {}", self.slow_start);
        }
        if self.memory {
            text += ", remembered";
            if self.connections_before > 1 {
                text += &format!(" from {} connections", self.connections_before);
            }
            if !self.tokens {
                text += ", no tokens";
            }
        }
        if self.early_path_data {
            text += ", early path data";
        }
        if self.tail_copies {
            text += ", tail copies";
        }
        if self.ack_frequency == Some(true) {
            text += ", ACK frequency";
        }
        if !self.pacing {
            text += ", no pacing";
        }
        text
    }

    /// Whether a workload runs here.
    pub(crate) fn has_workload(&self, form: &str) -> bool {
        self.workloads.is_empty() || self.workloads.iter().any(|some| some == form)
    }

    /// Whether a congestion control runs here.
    pub(crate) fn has_congestion(&self, name: &str) -> bool {
        self.congestion.is_empty() || self.congestion.iter().any(|some| some == name)
    }

    /// Whether a scheduler runs here. One that takes a single path by its ID does not, if the network
    /// has fewer paths.
    pub(crate) fn has_scheduler(&self, spec: &SchedulerSpec) -> bool {
        let path = match spec.name.as_str() {
            "single" => spec.config.get("path").and_then(serde_json::Value::as_u64),
            _ => None,
        };
        path.is_none_or(|path| path < self.paths.len() as u64)
            && (self.schedulers.is_empty() || self.schedulers.contains(&spec.label))
    }

    /// The network of a run with this seed, whose models have drawn their links; `None` if it has no models.
    pub(crate) fn drawn(&self, seed: u64) -> Option<Self> {
        self.paths.iter().find(|path| path.model.is_some())?;
        let mut network = self.clone();
        for (number, path) in network.paths.iter_mut().enumerate() {
            if let Some(model) = path.model {
                model.apply(path, content::word(seed, number as u64));
            }
        }
        Some(network)
    }

    /// The network as it was during the runs before the measured one.
    pub(crate) fn before(&self) -> Self {
        let mut network = self.clone();
        let Some(earlier) = network.earlier.take() else {
            return network;
        };
        if let Some(paths) = &earlier.paths {
            network.paths.clone_from(paths);
        }
        for path in &mut network.paths {
            path.up = earlier.link(&path.up);
            path.down = earlier.link(&path.down);
        }
        for shared in &mut network.shared {
            shared.link = earlier.link(&shared.link);
        }
        network
    }

    /// The numbers of the paths in the order in which the client opens them, which is the order of
    /// their path IDs: that of the handshake first.
    pub(crate) fn opened(&self) -> Vec<usize> {
        let first = self.handshake_path();
        // A client that races asks for the others in the order in which it began on them.
        let mut others: Vec<_> = (0..self.paths.len()).collect();
        others.sort_by_key(|number| *number != self.handshake);
        others.retain(|number| *number != first);
        std::iter::once(first).chain(others).collect()
    }

    /// The number of the path that carries the handshake. With a race, that on which it takes the least time, unless
    /// losses or delays that vary decide otherwise.
    pub(crate) fn handshake_path(&self) -> usize {
        if !self.race {
            return self.handshake;
        }
        let time = |number: usize| {
            let path = &self.paths[number];
            let through = self.shared.iter();
            let through = through.filter(|shared| path.through.as_ref() == Some(&shared.name));
            let mut links = FluidPath::new(&path.up, &path.down, self.mtu);
            for shared in through {
                let link = FluidLink::new(&shared.link);
                links.up = links.up.then(&link);
                links.down = links.down.then(&link);
            }
            handshake_time(&links)
        };
        let mut paths: Vec<_> = (0..self.paths.len()).collect();
        // Of equal ones, the first.
        paths.sort_by_key(|number| *number != self.handshake);
        let fastest = paths
            .into_iter()
            .min_by(|a, b| time(*a).total_cmp(&time(*b)));
        fastest.unwrap_or(self.handshake)
    }
}

impl PathSpec {
    pub(crate) fn describe(&self) -> String {
        let mut text = describe(&self.down);
        if let Some(model) = &self.model {
            text = format!("{} {text}", model.model);
        }
        if self.up != self.down && self.model.is_none() {
            // Losses in the data direction only are the usual case. They are not worth an extra
            // text.
            let mut alike = self.up.clone();
            alike.loss = self.down.loss;
            alike.gilbert_elliott = self.down.gilbert_elliott;
            for (change, down) in alike.changes.iter_mut().zip(&self.down.changes) {
                change.loss = down.loss;
            }
            if alike != self.down {
                text = format!("down {text}, up {}", describe(&self.up));
            }
        }
        if let Some(link) = &self.through {
            text += &format!(" through {link}");
        }
        text
    }
}

/// A rate with few digits. The rates of sampled networks have more digits than a reader needs.
fn short_rate(bits: u64) -> String {
    format!("{} Mbit/s", significant(bits as f64 / 1e6, 4))
}

fn short_time(time: Duration) -> String {
    format!("{} ms", significant(time.as_secs_f64() * 1e3, 3))
}

fn describe(link: &LinkConfig) -> String {
    let rate = match (&link.trace, link.rate) {
        (Some(trace), _) => format!("trace of {}", short_rate(trace.mean_rate())),
        (None, Some(rate)) => short_rate(rate),
        (None, None) => "any rate".into(),
    };
    let percent = |share: f64| significant(share * 100.0, 3);
    let mut text = format!("{rate} {}", short_time(link.delay));
    if !link.delay_sd.is_zero() {
        text += &format!(" ±{}", short_time(link.delay_sd));
        if link.delay_reorders {
            text += " out of order";
        }
    }
    if link.loss > 0.0 {
        text += &format!(" {} % loss", percent(link.loss));
    }
    if let Some(bursts) = link.gilbert_elliott {
        text += &format!(" {} % loss in bursts", percent(bursts.mean_loss()));
    }
    match link.queue {
        QueueLimit::Auto => {}
        QueueLimit::Packets(packets) => text += &format!(" queue {packets}"),
        QueueLimit::Bytes(bytes) => text += &format!(" queue {}", size::show(bytes)),
    }
    if !link.changes.is_empty() {
        text += &format!(" {} changes", link.changes.len());
    }
    text
}

/// For fingerprints, which need all fields. Nothing parses this text.
fn in_words<S: serde::Serializer>(flows: &[CrossTraffic], s: S) -> Result<S::Ok, S::Error> {
    s.collect_seq(flows.iter().map(|flow| format!("{flow:?}")))
}
