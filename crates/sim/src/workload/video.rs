//! The workload `video`: DASH-like video, one chunk after the other. The rule for bitrates and the player are in `abr`.

use std::fmt;
use std::time::Duration;

use mpquic_proto::{Event, Side};
use serde::{Deserialize, Serialize};

use super::abr::{Player, RateRule};
use super::download::{Downloads, Progress};
use super::figures::{mean, quantile};
use super::form::Parts;
use super::object::Request;
use super::start::Start;
use super::{Kind, Metric, ResultError, WorkloadError, WorkloadResult, out_of_range};
use crate::app::{App, AppContext};
use crate::bound::Fluid;
use crate::{AppError, Network, content, units};

/// Video in chunks, requested one after the other over one connection.
///
/// Playback starts with the first chunk. When a chunk is complete, the client requests the next
/// one. If more than [`buffer`](Self::buffer) chunks wait for playback, it first waits until this
/// is no longer so. The server tells the transport each chunk's number and size.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Video {
    /// The number of chunks.
    #[serde(default = "chunks")]
    pub chunks: u64,
    /// The playing time of each chunk. In files: a text; default: "1 s".
    #[serde(default = "second", with = "units::time")]
    pub chunk: Duration,
    /// The available bitrates in bit/s. In files: a list of texts; default: 1, 5 and 10 Mbit/s.
    #[serde(default = "encodings", with = "units::rate::list")]
    pub encodings: Vec<u64>,
    /// The standard deviation of chunk sizes, as a share of the nominal size. In files: a text such
    /// as "10 %". Default: 10 % with a single encoding, otherwise 0.
    #[serde(
        default,
        with = "units::share::optional",
        skip_serializing_if = "Option::is_none"
    )]
    pub variation: Option<f64>,
    /// The most chunks that may wait for playback when the client sends a request. Default: 2.
    #[serde(default = "two")]
    pub buffer: u64,
    /// Whether the client waits with its first request until all paths are in use. By default, it
    /// waits only for the handshake.
    #[serde(default)]
    pub warm: bool,
    /// The probability that the client marks a chunk for exploration that it requests while at least
    /// two chunks wait for playback. If set, each request tells the server the number of these, and the
    /// mark. In files: a text such as "50 %".
    #[serde(
        default,
        with = "units::share::optional",
        skip_serializing_if = "Option::is_none"
    )]
    pub explore: Option<f64>,
    /// Whether the rule for bitrates also uses the download times of marked chunks.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub counted: bool,
}

const fn chunks() -> u64 {
    300
}

const fn two() -> u64 {
    2
}

const fn second() -> Duration {
    Duration::from_secs(1)
}

fn encodings() -> Vec<u64> {
    vec![1_000_000, 5_000_000, 10_000_000]
}

impl Default for Video {
    fn default() -> Self {
        Self {
            chunks: chunks(),
            chunk: second(),
            encodings: encodings(),
            variation: None,
            buffer: two(),
            warm: false,
            explore: None,
            counted: false,
        }
    }
}

const FORM: &str = "video:CHUNKS[:RATE,RATE...][:warm][:counted][:chunk=TIME][:variation=SHARE][:buffer=CHUNKS][:explore=SHARE], \
                    such as video:300 or video:300:5Mbit/s";

const BITRATE: Metric = Metric::higher("bitrate", "Mbit/s");
const CHUNK_TIME: Metric = Metric::lower("chunk_time", "s");
const METRICS: &[Metric] = &[
    BITRATE,
    Metric::higher("bitrate_50", "Mbit/s"),
    Metric::higher("bitrate_100", "Mbit/s"),
    Metric::higher("bitrate_150", "Mbit/s"),
    Metric::higher("bitrate_200", "Mbit/s"),
    Metric::higher("bitrate_250", "Mbit/s"),
    CHUNK_TIME,
    Metric::lower("chunk_time_p50", "s"),
    Metric::lower("chunk_time_p95", "s"),
    Metric::lower("chunk_time_150", "s"),
    // Without the chunks that are marked for exploration.
    Metric::lower("chunk_time_plain", "s"),
    Metric::lower("chunk_time_plain_150", "s"),
    Metric::lower("stalls", ""),
    Metric::lower("stall_time", "s"),
    Metric::lower("startup", "s"),
];
/// The metrics over the chunks from one sixth, two sixths, ... on. The names assume 300 chunks.
const FROM: [&str; 6] = [
    "bitrate",
    "bitrate_50",
    "bitrate_100",
    "bitrate_150",
    "bitrate_200",
    "bitrate_250",
];

/// The chunks that a player must hold to mark the next one (Lee and Yoo 2022, section 4.4).
const HELD: u64 = 2;

/// Keeps the draws of marks apart from those of sizes.
const EXPLORE: u64 = 0x6578_706c_6f72_6521;

/// The smallest chunk, as a share of the nominal size. Without this limit, the normal distribution
/// could give any size.
const MIN_SHARE: f64 = 0.1;

impl Video {
    pub(super) fn parse(parts: &mut Parts<'_>) -> Result<Self, WorkloadError> {
        parts.form(FORM);
        let mut this = Self {
            chunks: parts.number("number of chunks")?,
            ..Self::default()
        };
        if !parts.next_is("warm")
            && !parts.next_is("counted")
            && let Some(rates) = parts.next()
        {
            let rates = rates.split(',').map(|rate| units::rate::parse(rate.trim()));
            this.encodings = parts.unit(rates.collect())?;
        }
        this.warm = parts.flag("warm");
        this.counted = parts.flag("counted");
        this.chunk = parts.named_time("chunk")?.unwrap_or_else(second);
        this.variation = parts.named_share("variation")?;
        this.buffer = parts.named_number("buffer")?.unwrap_or_else(two);
        this.explore = parts.named_share("explore")?;
        Ok(this)
    }

    fn variation(&self) -> f64 {
        let default = if self.encodings.len() == 1 { 0.1 } else { 0.0 };
        self.variation.unwrap_or(default)
    }

    /// The size of a chunk of this bitrate (bit/s). The deviation from the nominal size depends on
    /// the seed and the chunk's number, not on the bitrate.
    fn chunk_bytes(&self, seed: u64, number: u64, bitrate: u64) -> u64 {
        let nominal = bitrate as f64 / 8.0 * self.chunk.as_secs_f64();
        let share = 1.0 + self.variation() * normal(seed, number);
        (nominal * share.max(MIN_SHARE)).round().max(1.0) as u64
    }

    /// The request for a chunk while so many others wait for playback.
    fn request(&self, seed: u64, number: u64, bitrate: u64, buffered: u64) -> Request {
        let bytes = self.chunk_bytes(seed, number, bitrate);
        let marked = |share: f64| {
            let word = content::word(seed ^ EXPLORE, number) as f64 / 2_f64.powi(64);
            (buffered, buffered >= HELD && word < share)
        };
        Request {
            chunk: Some(number),
            held: self.explore.map(marked),
            ..Request::new(bytes, content::word(!seed, number))
        }
    }

    /// The first chunk of each range in [`FROM`]: 0, 50, ... 250 of 300.
    fn ranges(&self) -> [usize; 6] {
        [0, 1, 2, 3, 4, 5].map(|sixth| (self.chunks * sixth / 6) as usize)
    }

    /// Reports the mean bitrates (Mbit/s) and the chunk times (s).
    fn figures(&self, bitrates: &[f64], times: &[f64], mut set: impl FnMut(&'static str, f64)) {
        for (name, from) in FROM.into_iter().zip(self.ranges()) {
            set(name, mean(bitrates.get(from..).unwrap_or(&[])));
        }
        set("chunk_time", mean(times));
        set("chunk_time_p50", quantile(times, 0.5));
        set("chunk_time_p95", quantile(times, 0.95));
        let late = times.get(self.ranges()[3]..).unwrap_or(&[]);
        set("chunk_time_150", mean(late));
    }

    /// The mean times (s) of the chunks that were not marked.
    fn plain_figures(&self, marked: &[f64], times: &[f64], result: &mut WorkloadResult) {
        let plain = |from: usize| {
            let pairs = marked.iter().zip(times).skip(from);
            let plain: Vec<_> = pairs.filter(|pair| *pair.0 == 0.0).collect();
            mean(&plain.into_iter().map(|pair| *pair.1).collect::<Vec<_>>())
        };
        result.set("chunk_time_plain", plain(0));
        result.set("chunk_time_plain_150", plain(self.ranges()[3]));
    }
}

/// A good approximation of a standard normal variate: the sum of twelve uniform variates minus six,
/// as for the links. Never more than six standard deviations from zero.
fn normal(seed: u64, number: u64) -> f64 {
    let uniform = |i| content::word(seed, number * 12 + i) as f64 / 2_f64.powi(64);
    (0..12).map(uniform).sum::<f64>() - 6.0
}

impl fmt::Display for Video {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "video:{}", self.chunks)?;
        if self.encodings != encodings() {
            let rates = self.encodings.iter().map(|rate| super::form::rate(*rate));
            write!(f, ":{}", rates.collect::<Vec<_>>().join(","))?;
        }
        super::form::warm(f, self.warm)?;
        if self.counted {
            write!(f, ":counted")?;
        }
        super::form::named(f, "chunk", self.chunk, second(), super::form::time)?;
        if let Some(variation) = self.variation {
            write!(f, ":variation={}", super::form::share(variation))?;
        }
        super::form::named(f, "buffer", self.buffer, two(), |n| n.to_string())?;
        if let Some(explore) = self.explore {
            write!(f, ":explore={}", super::form::share(explore))?;
        }
        Ok(())
    }
}

impl Kind for Video {
    fn client(&self, seed: u64) -> Box<dyn App> {
        Box::new(VideoClient {
            rule: RateRule::new(&self.encodings),
            workload: self.clone(),
            seed,
            start: Start::new(self.warm),
            downloads: Downloads::default(),
            player: None,
            asked: 0,
            waits: false,
            bitrates: Vec::new(),
            marked: Vec::new(),
            times: Vec::new(),
        })
    }

    fn validate(&self) -> Result<(), WorkloadError> {
        super::at_least_one("chunks", self.chunks)?;
        super::not_zero("chunk", self.chunk)?;
        if self.encodings.is_empty() || self.encodings.contains(&0) {
            let rates = self.encodings.iter().map(|rate| units::rate::show(*rate));
            let value = format!("[{}]", rates.collect::<Vec<_>>().join(", "));
            return Err(out_of_range("encodings", value, "rates above 0"));
        }
        if !(0.0..=1.0).contains(&self.variation()) {
            let value = units::share::show(self.variation());
            return Err(out_of_range("variation", value, "0 % to 100 %"));
        }
        if let Some(explore) = self.explore.filter(|share| !(0.0..=1.0).contains(share)) {
            let value = units::share::show(explore);
            return Err(out_of_range("explore", value, "0 % to 100 %"));
        }
        Ok(())
    }

    fn time_limit(&self) -> Duration {
        // A chunk of the lowest bitrate may take a hundred times its playing time.
        let play = self.chunk.as_secs_f64() * self.chunks as f64 * 100.0;
        let play = Duration::try_from_secs_f64(play).unwrap_or(super::CENTURY);
        play.min(super::CENTURY) + super::PATIENCE
    }

    fn primary(&self) -> Metric {
        // With one encoding, the bitrate is fixed.
        if self.encodings.len() == 1 {
            CHUNK_TIME
        } else {
            BITRATE
        }
    }

    fn metrics(&self) -> &'static [Metric] {
        METRICS
    }

    fn result(&self, network: &Network) -> Result<WorkloadResult, ResultError> {
        let client: &VideoClient = network.app(Side::Client).ok_or(ResultError::OtherApp)?;
        let player = client.player.as_ref().ok_or(ResultError::Incomplete)?;
        if client.times.len() as u64 != self.chunks {
            return Err(ResultError::Incomplete);
        }
        let bitrates: Vec<_> = client
            .bitrates
            .iter()
            .map(|rate| *rate as f64 / 1e6)
            .collect();
        let mut result = WorkloadResult::new(0.0);
        self.figures(&bitrates, &client.times, |name, value| {
            result.set(name, value);
        });
        self.plain_figures(&client.marked, &client.times, &mut result);
        let (stalls, stalled) = player.stalls();
        result.set("stalls", stalls as f64);
        result.set("stall_time", stalled.as_secs_f64());
        result.set("startup", player.startup().as_secs_f64());
        result.primary = result.values[self.primary().name];
        result.series.insert("bitrate", bitrates);
        result.series.insert("chunk_time", client.times.clone());
        if self.explore.is_some() {
            result.series.insert("marked", client.marked.clone());
        }
        Ok(result)
    }

    /// The result of this player over the fluid model. With several encodings, only the bitrates
    /// are bounds, because chunks of a lower bitrate are smaller. The rule alternates between two
    /// encodings at many rates. A run can use the higher one when the fluid model uses the lower
    /// one, and can therefore exceed the bound by the effect on the mean over its chunks.
    fn bounds(&self, fluid: &Fluid, seed: u64) -> Vec<(&'static str, f64)> {
        let mut rule = RateRule::new(&self.encodings);
        let (mut bitrates, mut times) = (Vec::new(), Vec::new());
        for number in 0..self.chunks {
            let bitrate = rule.bitrate();
            let request = self.request(seed, number, bitrate, 0);
            let bytes = request.bytes.unwrap_or(0);
            let took = fluid.object(request.line().len(), bytes);
            rule.on_chunk(self.chunk.as_secs_f64(), took);
            bitrates.push(bitrate as f64 / 1e6);
            times.push(took);
        }
        let mut bounds = vec![("startup", times.first().copied().unwrap_or(0.0))];
        self.figures(&bitrates, &times, |name, value| {
            if self.encodings.len() == 1 || FROM.contains(&name) {
                bounds.push((name, value));
            }
        });
        bounds
    }
}

#[derive(Debug)]
struct VideoClient {
    workload: Video,
    seed: u64,
    start: Start,
    downloads: Downloads,
    rule: RateRule,
    player: Option<Player>,
    asked: u64,
    /// Waiting for the buffer to drain.
    waits: bool,
    /// Bit/s, by chunk.
    bitrates: Vec<u64>,
    /// 1 for chunks that are marked for exploration, otherwise 0.
    marked: Vec<f64>,
    /// Seconds, by chunk.
    times: Vec<f64>,
}

impl VideoClient {
    /// Requests the next chunk if it is due.
    fn go_on(&mut self, cx: &mut AppContext<'_>) -> Result<(), AppError> {
        let player = self
            .player
            .get_or_insert_with(|| Player::new(self.workload.chunk, cx.now()));
        player.advance(cx.now());
        if self.asked == self.workload.chunks {
            self.waits = false;
            return Ok(());
        }
        self.waits = player.buffered() > self.workload.buffer;
        if self.waits {
            return Ok(());
        }
        let number = self.asked;
        self.asked += 1;
        let bitrate = self.rule.bitrate();
        self.bitrates.push(bitrate);
        let buffered = player.buffered();
        let request = self.workload.request(self.seed, number, bitrate, buffered);
        let marked = request.held.is_some_and(|held| held.1);
        self.marked.push(f64::from(u8::from(marked)));
        self.downloads.start(cx, number as usize, request)
    }
}

impl App for VideoClient {
    fn on_event(&mut self, cx: &mut AppContext<'_>, event: &Event) -> Result<(), AppError> {
        if self.start.on_event(cx, event) {
            self.go_on(cx)?;
        }
        self.downloads.on_event(cx, event)?;
        while let Some(progress) = self.downloads.poll() {
            let Progress::Done { times, .. } = progress else {
                continue;
            };
            let took = times.completion().as_secs_f64();
            let marked = self.marked.get(self.times.len()) == Some(&1.0);
            self.times.push(took);
            if self.workload.counted || !marked {
                let length = self.workload.chunk.as_secs_f64();
                self.rule.on_chunk(length, took);
            }
            if let Some(player) = &mut self.player {
                player.on_chunk(cx.now());
            }
            self.go_on(cx)?;
        }
        Ok(())
    }

    fn next_wakeup(&self) -> Option<Duration> {
        let change = self.player.as_ref().and_then(Player::next_change);
        self.start
            .next_wakeup()
            .or_else(|| change.filter(|_| self.waits))
    }

    fn on_wakeup(&mut self, cx: &mut AppContext<'_>) -> Result<(), AppError> {
        if self.start.on_wakeup(cx.now()) || self.waits {
            self.go_on(cx)?;
        }
        Ok(())
    }

    fn is_complete(&self) -> bool {
        self.times.len() as u64 == self.workload.chunks && self.downloads.is_idle()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunk_sizes_are_as_the_scenarios_say() {
        let several = Video::default();
        for (number, (bitrate, bytes)) in [
            (1_000_000, 125_000),
            (5_000_000, 625_000),
            (10_000_000, 1_250_000),
        ]
        .into_iter()
        .enumerate()
        {
            assert_eq!(several.chunk_bytes(7, number as u64, bitrate), bytes);
        }
        let one = Video {
            encodings: vec![5_000_000],
            ..Video::default()
        };
        let sizes: Vec<_> = (0..300)
            .map(|number| one.chunk_bytes(7, number, 5_000_000) as f64)
            .collect();
        let average = mean(&sizes);
        let variance = sizes
            .iter()
            .map(|size| (size - average).powi(2))
            .sum::<f64>()
            / 299.0;
        let deviation = variance.sqrt();
        // Four standard errors of the mean, 10 % / sqrt(300), and of the deviation, 10 % / sqrt(600).
        assert!((average / 625_000.0 - 1.0).abs() < 0.023, "{average}");
        assert!((deviation / 62_500.0 - 1.0).abs() < 0.163, "{deviation}");
        assert_ne!(
            one.chunk_bytes(7, 0, 5_000_000),
            one.chunk_bytes(8, 0, 5_000_000)
        );
    }

    #[test]
    fn half_of_the_chunks_are_marked_while_two_are_held() {
        let video = Video {
            explore: Some(0.5),
            ..Video::default()
        };
        let marked = |video: &Video, buffered| {
            let held = (0..2000).map(|number| video.request(7, number, 5_000_000, buffered).held);
            held.map(|held| held.map(|held| u64::from(held.1)))
                .sum::<Option<u64>>()
        };
        // Four standard deviations of a binomial of 2000: 89.
        assert!(marked(&video, 2).is_some_and(|count| count.abs_diff(1000) < 89));
        assert_eq!(marked(&video, 1), Some(0));
        assert_eq!(marked(&Video::default(), 2), None);
    }

    #[test]
    fn marked_chunks_are_left_out() {
        let mut result = WorkloadResult::new(0.0);
        let times: Vec<_> = (0..300)
            .map(|chunk| if chunk < 150 { 1.0 } else { 2.0 })
            .collect();
        let mut marked = vec![0.0; 300];
        marked[..75].fill(1.0);
        Video::default().plain_figures(&marked, &times, &mut result);
        assert!((result.values["chunk_time_plain"] - (75.0 + 300.0) / 225.0).abs() < 1e-12);
        assert_eq!(result.values["chunk_time_plain_150"], 2.0);
    }

    #[test]
    fn ranges_are_the_papers_for_its_number_of_chunks() {
        assert_eq!(Video::default().ranges(), [0, 50, 100, 150, 200, 250]);
        let bitrates: Vec<_> = (0..300).map(|i| if i < 150 { 1.0 } else { 5.0 }).collect();
        let mut figures = std::collections::BTreeMap::new();
        Video::default().figures(&bitrates, &bitrates, |name, value| {
            figures.insert(name, value);
        });
        assert_eq!(figures["bitrate"], 3.0);
        assert_eq!(figures["bitrate_50"], 3.4);
        assert_eq!(figures["bitrate_250"], 5.0);
        assert_eq!(figures["chunk_time_150"], 5.0);
    }
}
