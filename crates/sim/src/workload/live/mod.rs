//! The workload `live`: frames of a camera or messages, each of use until its deadline, sent by `mpquic-live` as an application
//! would, or in other ways to compare with.

mod client;
mod server;

use std::fmt;
use std::time::Duration;

use mpquic_live::Repair;
use mpquic_proto::{Side, TransportConfig};
use serde::{Deserialize, Serialize};

use super::figures::{quantile, seconds};
use super::form::Parts;
use super::{Kind, Metric, ResultError, WorkloadError, WorkloadResult, out_of_range};
use crate::app::App;
use crate::bound::Fluid;
use crate::{Network, content, units};
use client::LiveClient;
use server::LiveServer;

/// Bytes at the start of a frame: its number, and when it was made (virtual time in nanoseconds).
const HEADER: usize = 16;

/// The bytes of a message's packet.
const PACKET: u64 = 1_100;

/// The time between key frames.
const GROUP: Duration = Duration::from_secs(2);

/// How frames are kept from being late.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Protection {
    /// `mpquic-live`: copies, hedge, repair at a learned rate.
    #[default]
    Learned,
    /// The same, with the rate drawn by Hedge.
    Hedge,
    /// The same, with the rate by LinUCB on its own choices.
    LinUcb,
    /// The same, with the rate by a rule from losses and round trips.
    Rule,
    /// The same, with a fixed rate: the setting `repair`, by default none, which leaves copies and hedge.
    Fixed,
    /// Datagrams; what is lost is sent again as long as it can be in time, and that is all.
    Retransmit,
    /// Datagrams, and nothing is sent again.
    Bare,
    /// Datagrams, each on all paths.
    Twice,
    /// A stream for each frame, with its deadline as a hint and reset when that has passed: what the scheduler and the transport
    /// send again is theirs.
    Streams,
}

impl Protection {
    const NAMES: [(&'static str, Self); 8] = [
        ("hedge", Self::Hedge),
        ("lin_ucb", Self::LinUcb),
        ("rule", Self::Rule),
        ("fixed", Self::Fixed),
        ("retransmit", Self::Retransmit),
        ("bare", Self::Bare),
        ("twice", Self::Twice),
        ("streams", Self::Streams),
    ];
}

/// Frames of a camera, or messages, that the server sends at regular intervals.
///
/// A camera's frames are 80 to 120 % of the usual size, and a key frame, `key` times as large, comes each 2 s. Messages have 1 to 4
/// packets of 1,100 bytes, at the interval that the rate needs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Live {
    /// The rate in bit/s. In files: a text such as "4 Mbit/s".
    #[serde(with = "units::rate")]
    pub rate: u64,
    /// For how long frames are made. In files: a text.
    #[serde(with = "units::time")]
    pub duration: Duration,
    /// Messages, not a camera.
    #[serde(default)]
    pub messages: bool,
    /// How frames are kept from being late.
    #[serde(default)]
    pub protection: Protection,
    /// Whether the client waits with its request until all paths are in use.
    #[serde(default)]
    pub warm: bool,
    /// Frames per second of a camera. Default 30.
    #[serde(default = "thirty")]
    pub fps: u64,
    /// For how long a frame is of use. In files: a text; default: "200 ms", for messages "100 ms".
    #[serde(
        default,
        with = "units::time::optional",
        skip_serializing_if = "Option::is_none"
    )]
    pub deadline: Option<Duration>,
    /// How much larger a key frame is. Default 5.
    #[serde(default = "five")]
    pub key: u64,
    /// The rate of repair with [`Protection::Fixed`], as a share of the packets. In files: a text such as "5%"; default: none.
    #[serde(default, with = "units::share")]
    pub repair: f64,
    /// The price of bytes: how large a share of frames as many bytes of repair as of frames are worth. In files: a text; default:
    /// "2%".
    #[serde(default = "two_percent", with = "units::share")]
    pub price: f64,
}

const fn thirty() -> u64 {
    30
}

const fn five() -> u64 {
    5
}

const fn two_percent() -> f64 {
    0.02
}

const FORM: &str = "live:RATE:TIME[:messages][:PROTECTION][:warm][:fps=NUMBER][:deadline=TIME][:key=NUMBER][:repair=SHARE]\
                    [:price=SHARE], such as live:4Mbit/s:60s";

const IN_TIME: Metric = Metric::higher("in_time", "%");
const METRICS: &[Metric] = &[
    IN_TIME,
    Metric::lower("late", "%"),
    Metric::lower("missing", "%"),
    Metric::lower("extra", "%"),
    Metric::lower("freeze_max", "s"),
    Metric::lower("delay_p50", "s"),
    Metric::lower("delay_p99", "s"),
];

impl Live {
    pub(super) fn parse(parts: &mut Parts<'_>) -> Result<Self, WorkloadError> {
        parts.form(FORM);
        let (rate, duration) = (parts.rate("rate")?, parts.time("duration")?);
        let messages = parts.flag("messages");
        let named = Protection::NAMES
            .iter()
            .find(|(name, _)| parts.flag(name))
            .map(|(_, protection)| *protection);
        Ok(Self {
            rate,
            duration,
            messages,
            protection: named.unwrap_or_default(),
            warm: parts.flag("warm"),
            fps: parts.named_number("fps")?.unwrap_or_else(thirty),
            deadline: parts.named_time("deadline")?,
            key: parts.named_number("key")?.unwrap_or_else(five),
            repair: parts.named_share("repair")?.unwrap_or(0.0),
            price: parts.named_share("price")?.unwrap_or_else(two_percent),
        })
    }

    /// The time between frames.
    pub fn interval(&self) -> Duration {
        let seconds = if self.messages {
            // Of 1 to 4 packets, evenly: 2.5 in the mean.
            2.5 * PACKET as f64 * 8.0 / self.rate.max(1) as f64
        } else {
            1.0 / self.fps.max(1) as f64
        };
        Duration::from_secs_f64(seconds).max(Duration::from_micros(1))
    }

    /// For how long a frame is of use.
    pub fn deadline(&self) -> Duration {
        self.deadline
            .unwrap_or_else(|| Duration::from_millis(if self.messages { 100 } else { 200 }))
    }

    /// How many frames there are.
    pub fn count(&self) -> u64 {
        let count = self.duration.as_nanos() / self.interval().as_nanos();
        u64::try_from(count).unwrap_or(u64::MAX).max(1)
    }

    /// How many frames there are from one key frame to the next.
    fn group(&self) -> u64 {
        let count = GROUP.as_nanos() / self.interval().as_nanos();
        u64::try_from(count).unwrap_or(u64::MAX).max(1)
    }

    fn is_key(&self, number: u64) -> bool {
        !self.messages && number.is_multiple_of(self.group())
    }

    /// The bytes of a frame.
    fn bytes(&self, seed: u64, number: u64) -> usize {
        let draw = (content::word(!seed, number) >> 11) as f64 / (1_u64 << 53) as f64;
        let bytes = if self.messages {
            (1 + (4.0 * draw) as u64) as f64 * PACKET as f64
        } else {
            let (group, key) = (self.group() as f64, self.key as f64);
            let mean = self.rate as f64 / 8.0 * self.interval().as_secs_f64();
            let usual = mean * group / (group - 1.0 + key);
            usual * (0.8 + 0.4 * draw) * if self.is_key(number) { key } else { 1.0 }
        };
        (bytes as usize).max(HEADER)
    }

    fn frame(&self, seed: u64, number: u64, made: Duration) -> Vec<u8> {
        let mut frame = vec![0; self.bytes(seed, number)];
        frame[..8].copy_from_slice(&number.to_le_bytes());
        let nanos = u64::try_from(made.as_nanos()).unwrap_or(u64::MAX);
        frame[8..HEADER].copy_from_slice(&nanos.to_le_bytes());
        content::fill(content::word(seed, number), 0, &mut frame[HEADER..]);
        frame
    }

    /// The same frames, without how they are sent.
    pub(super) fn scene(&self) -> Self {
        Self {
            protection: Protection::Learned,
            repair: 0.0,
            price: two_percent(),
            ..self.clone()
        }
    }

    /// What the settings of the transport are to be for it: those of [`mpquic_live::tune`].
    pub(super) fn tune(&self, transport: &mut TransportConfig) {
        mpquic_live::tune(transport);
    }

    /// Of the frames of each second since the start, the share that was not in time, in %.
    fn late_by_second(&self, in_time: impl Iterator<Item = u64>) -> Vec<f64> {
        let second = |number: u64| (number as f64 * self.interval().as_secs_f64()) as usize;
        let mut counts = vec![(0_u32, 0_u32); second(self.count() - 1) + 1];
        for number in 0..self.count() {
            counts[second(number)].0 += 1;
        }
        for number in in_time {
            counts[second(number)].1 += 1;
        }
        let late = |(all, in_time)| 100.0 * (1.0 - f64::from(in_time) / f64::from(all));
        counts
            .into_iter()
            .filter(|(all, _)| *all > 0)
            .map(late)
            .collect()
    }

    fn repair(&self) -> Repair {
        match self.protection {
            Protection::Learned => Repair::Learned,
            Protection::Hedge => Repair::Hedge,
            Protection::LinUcb => Repair::LinUcb,
            Protection::Rule => Repair::Rule,
            Protection::Fixed => Repair::Fixed(self.repair),
            _ => Repair::Fixed(0.0),
        }
    }
}

impl fmt::Display for Live {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use super::form::{named, rate, share, time, warm};

        write!(f, "live:{}:{}", rate(self.rate), time(self.duration))?;
        if self.messages {
            f.write_str(":messages")?;
        }
        let mut names = Protection::NAMES.iter();
        if let Some((name, _)) = names.find(|(_, other)| *other == self.protection) {
            write!(f, ":{name}")?;
        }
        warm(f, self.warm)?;
        named(f, "fps", self.fps, thirty(), |fps| fps.to_string())?;
        if let Some(deadline) = self.deadline {
            write!(f, ":deadline={}", time(deadline))?;
        }
        named(f, "key", self.key, five(), |key| key.to_string())?;
        named(f, "repair", self.repair, 0.0, share)?;
        named(f, "price", self.price, two_percent(), share)
    }
}

impl Kind for Live {
    fn client(&self, seed: u64) -> Box<dyn App> {
        Box::new(LiveClient::new(self.clone(), seed))
    }

    fn server(&self, seed: u64) -> Box<dyn App> {
        Box::new(LiveServer::new(self.clone(), seed))
    }

    fn validate(&self) -> Result<(), WorkloadError> {
        super::at_least_one("rate", self.rate)?;
        super::not_zero("duration", self.duration)?;
        super::at_least_one("fps", self.fps)?;
        super::at_least_one("key", self.key)?;
        super::not_zero("deadline", self.deadline())?;
        if self.deadline() > Duration::from_secs(60) {
            let given = units::time::show(self.deadline());
            return Err(out_of_range("deadline", given, "at most 60 s"));
        }
        // Of 1,024 packets, which is what a flow remembers, with room for their headers.
        let usual = self.rate as f64 / 8.0 * self.interval().as_secs_f64();
        if !self.messages && usual * 1.2 * self.key as f64 > 1_000_000.0 {
            let given = units::rate::show(self.rate);
            return Err(out_of_range("rate", given, "key frames of at most 1 MB"));
        }
        Ok(())
    }

    fn time_limit(&self) -> Duration {
        self.duration.min(super::CENTURY) + super::PATIENCE
    }

    fn primary(&self) -> Metric {
        IN_TIME
    }

    fn metrics(&self) -> &'static [Metric] {
        METRICS
    }

    fn result(&self, network: &Network) -> Result<WorkloadResult, ResultError> {
        let client: &LiveClient = network.app(Side::Client).ok_or(ResultError::OtherApp)?;
        let server: &LiveServer = network.app(Side::Server).ok_or(ResultError::OtherApp)?;
        if !client.is_complete() {
            return Err(ResultError::Incomplete);
        }
        let count = self.count() as f64;
        let share = |frames: usize| 100.0 * frames as f64 / count;
        let frames = client.frames();
        let in_time = frames
            .iter()
            .filter(|(_, delay)| *delay <= self.deadline())
            .count();
        let delays = seconds(frames.iter().map(|(_, delay)| *delay));
        let mut result = WorkloadResult::new(share(in_time));
        result.set("in_time", share(in_time));
        result.set("late", 100.0 - share(in_time));
        result.set("missing", 100.0 - share(frames.len()));
        result.set("extra", 100.0 * server.extra());
        result.set("freeze_max", client.longest_freeze().as_secs_f64());
        result.set("delay_p50", quantile(&delays, 0.5));
        result.set("delay_p99", quantile(&delays, 0.99));
        result.series.insert("delay", delays);
        let numbers = frames
            .iter()
            .filter(|(_, delay)| *delay <= self.deadline())
            .map(|(number, _)| *number);
        result
            .series
            .insert("late_by_second", self.late_by_second(numbers));
        Ok(result)
    }

    /// No more than all.
    fn bounds(&self, _fluid: &Fluid, _seed: u64) -> Vec<(&'static str, f64)> {
        vec![("in_time", 100.0)]
    }
}

#[cfg(test)]
mod tests {
    use super::super::Workload;

    #[test]
    fn frames_have_the_rate_in_the_mean() {
        for form in [
            "live:4Mbit/s:60s",
            "live:1Mbit/s:60s:messages",
            "live:4Mbit/s:60s:fps=20:key=8",
        ] {
            let Ok(Workload::Live(live)) = form.parse() else {
                panic!("{form}");
            };
            let bytes: usize = (0..live.count()).map(|number| live.bytes(7, number)).sum();
            let rate = bytes as f64 * 8.0 / 60.0 / live.rate as f64;
            assert!((0.97..1.03).contains(&rate), "{form}: {rate}");
        }
    }
}
