//! Settings of one direction of a link, as experiment files write them; checked here, acted on elsewhere.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::gilbert_elliott::GilbertElliott;
use super::mahimahi::{MahimahiTrace, TraceError};
use super::millis;

/// The packet size by which [`QueueLimit::Auto`] turns a bandwidth-delay product into packets.
const AUTO_PACKET: u128 = 1350;
/// The smallest automatic queue, packets.
const AUTO_MIN_PACKETS: u64 = 100;

/// One direction of a link.
///
/// ```
/// use std::time::Duration;
/// use mpquic_sim::LinkConfig;
///
/// let slow = LinkConfig::new(2_000_000, Duration::from_millis(100)).with_loss(0.015);
/// assert!(slow.validate().is_ok());
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LinkConfig {
    /// Bits per second, counted with [`overhead`](Self::overhead); `None` serialises in no time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<u64>,
    /// Rates from given times on; before the first, [`rate`](Self::rate) holds.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rate_steps: Vec<RateStep>,
    /// After this time, `rate_steps` start over, and so on; the last rate holds until the first step
    /// of the next round. `None` goes through them once. In files: `rate_period_ms`.
    #[serde(
        rename = "rate_period_ms",
        with = "millis::option",
        skip_serializing_if = "Option::is_none"
    )]
    pub rate_period: Option<Duration>,
    /// Opportunities to deliver, in place of a rate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace: Option<MahimahiTrace>,
    /// A file of Mahimahi's that [`load`](Self::load) reads into `trace`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace_file: Option<PathBuf>,
    /// Propagation delay of this direction. In files: `delay_ms`.
    #[serde(rename = "delay_ms", with = "millis")]
    pub delay: Duration,
    /// Standard deviation of the delay, drawn per packet; order is kept. In files: `delay_sd_ms`.
    ///
    /// Drawn as a sum of twelve uniform variates, so that it is integer arithmetic and the same
    /// on every platform, near to normal, and never further than six standard deviations off.
    /// A delay below zero counts as zero. Keeping order makes late packets delay those behind
    /// them, as on a real link: on a busy link the mean delay is above `delay`.
    #[serde(rename = "delay_sd_ms", with = "millis")]
    pub delay_sd: Duration,
    /// Probability that a packet is lost after it was serialised, independent of all others.
    pub loss: f64,
    /// Loss in bursts, beside `loss` and independent of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gilbert_elliott: Option<GilbertElliott>,
    /// What may wait while another packet is serialised; the rest is dropped at the tail.
    pub queue: QueueLimit,
    /// When the link is dark, from the start of the run.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub outages: Vec<Outage>,
    /// Settings that become others, from the start of the run.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<PlannedChange>,
    /// Probability that a packet is held back by [`reordering_delay`](Self::reordering_delay),
    /// while those behind it may overtake.
    pub reordering: f64,
    /// How long a reordered packet is held back. In files: `reordering_delay_ms`.
    #[serde(rename = "reordering_delay_ms", with = "millis")]
    pub reordering_delay: Duration,
    /// Probability that a packet arrives twice.
    pub duplication: f64,
    /// Probability that one bit of a packet is flipped.
    pub corruption: f64,
    /// Bytes of headers per packet that the link carries beside what it is given. Default 28, an
    /// IPv4 and a UDP header.
    pub overhead: u32,
}

impl Default for LinkConfig {
    fn default() -> Self {
        Self {
            rate: None,
            rate_steps: Vec::new(),
            rate_period: None,
            trace: None,
            trace_file: None,
            delay: Duration::ZERO,
            delay_sd: Duration::ZERO,
            loss: 0.0,
            gilbert_elliott: None,
            queue: QueueLimit::Auto,
            outages: Vec::new(),
            changes: Vec::new(),
            reordering: 0.0,
            reordering_delay: Duration::from_millis(5),
            duplication: 0.0,
            corruption: 0.0,
            overhead: 28,
        }
    }
}

impl LinkConfig {
    /// A clean link of this rate (bit/s) and propagation delay.
    pub fn new(rate: u64, delay: Duration) -> Self {
        Self {
            rate: Some(rate),
            delay,
            ..Self::default()
        }
    }

    /// A clean link that delivers as a trace says, with this propagation delay.
    pub fn from_trace(trace: MahimahiTrace, delay: Duration) -> Self {
        Self {
            trace: Some(trace),
            delay,
            ..Self::default()
        }
    }

    /// With rates (bit/s) from given times on; over and over if there is a period.
    #[must_use]
    pub fn with_rate_steps(
        mut self,
        steps: impl IntoIterator<Item = (Duration, u64)>,
        period: Option<Duration>,
    ) -> Self {
        self.rate_steps = steps
            .into_iter()
            .map(|(at, rate)| RateStep { at, rate })
            .collect();
        self.rate_period = period;
        self
    }

    /// With loss in bursts.
    #[must_use]
    pub fn with_gilbert_elliott(mut self, chain: GilbertElliott) -> Self {
        self.gilbert_elliott = Some(chain);
        self
    }

    /// With other settings from a time on.
    #[must_use]
    pub fn with_change(mut self, change: PlannedChange) -> Self {
        self.changes.push(change);
        self
    }

    /// With this probability of loss.
    #[must_use]
    pub fn with_loss(mut self, probability: f64) -> Self {
        self.loss = probability;
        self
    }

    /// With this queue.
    #[must_use]
    pub fn with_queue(mut self, queue: QueueLimit) -> Self {
        self.queue = queue;
        self
    }

    /// Dark for a while.
    #[must_use]
    pub fn with_outage(mut self, at: Duration, lasting: Duration) -> Self {
        self.outages.push(Outage { at, lasting });
        self
    }

    /// With the delay variation of the papers' tables: percent of the base RTT (twice the one-way
    /// delay) as the RTT's standard deviation, given that the other direction has the same.
    ///
    /// Variances of independent directions add, so each gets 1/sqrt(2) of the RTT's deviation.
    #[must_use]
    pub fn with_rtt_variation(mut self, percent: f64) -> Self {
        let factor = percent / 100.0 * std::f64::consts::SQRT_2;
        let nanos = self.delay.as_nanos() as f64 * factor;
        // The cast saturates: a negative or absurd percentage is left to `validate`.
        self.delay_sd = Duration::from_nanos(nanos.round() as u64);
        self
    }

    /// Reads [`trace_file`](Self::trace_file), if there is one, into `trace`; a relative name counts
    /// from `directory`, the one of the file that the settings stand in.
    ///
    /// # Errors
    ///
    /// What is wrong with the file.
    pub fn load(&mut self, directory: &Path) -> Result<(), TraceError> {
        if let Some(file) = &self.trace_file {
            self.trace = Some(MahimahiTrace::read(&directory.join(file))?);
            self.trace_file = None;
        }
        Ok(())
    }

    /// The highest rate that it ever has, of a trace the mean, bit/s; `None` if it serialises in no
    /// time at some time.
    pub fn peak_rate(&self) -> Option<u64> {
        if let Some(trace) = &self.trace {
            return Some(trace.mean_rate());
        }
        // A step at the start leaves no time to the rate before it.
        let first = match self.rate_steps.first() {
            Some(step) if step.at.is_zero() => step.rate,
            _ => self.rate?,
        };
        let steps = self.rate_steps.iter().map(|step| step.rate);
        let changes = self.changes.iter().filter_map(|change| change.rate);
        Some(steps.chain(changes).fold(first, u64::max))
    }

    /// The queue in numbers: `Auto` worked out.
    pub fn queue_limit(&self) -> QueueLimit {
        match (self.queue, self.peak_rate()) {
            (QueueLimit::Auto, Some(rate)) => {
                let delays = self.changes.iter().filter_map(|change| change.delay);
                let delay = delays.fold(self.delay, Duration::max);
                // One bandwidth-delay product of the base RTT, the other direction being alike.
                let bits = u128::from(rate) * delay.as_nanos() * 2 / 1_000_000_000;
                let packets = (bits / 8).div_ceil(AUTO_PACKET);
                let packets = u64::try_from(packets).unwrap_or(u64::MAX);
                QueueLimit::Packets(packets.max(AUTO_MIN_PACKETS))
            }
            // An infinitely fast link has nothing waiting.
            (QueueLimit::Auto, None) => QueueLimit::Packets(AUTO_MIN_PACKETS),
            (limit, _) => limit,
        }
    }
}

/// How much may wait. The packet being serialised does not count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum QueueLimit {
    /// The larger of 100 packets and one bandwidth-delay product in packets of 1350 bytes, for
    /// the highest rate and the longest delay that the link ever has (of a trace, the mean rate).
    #[default]
    Auto,
    /// So many packets.
    Packets(u64),
    /// So many bytes, with the overhead.
    Bytes(u64),
}

/// A time in which a link is dark.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Outage {
    /// From when. In files: `at_ms`.
    #[serde(rename = "at_ms", with = "millis")]
    pub at: Duration,
    /// For how long. In files: `lasting_ms`.
    #[serde(rename = "lasting_ms", with = "millis")]
    pub lasting: Duration,
}

/// A rate from a time on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RateStep {
    /// From when, counted from the start of the round. In files: `at_ms`.
    #[serde(rename = "at_ms", with = "millis")]
    pub at: Duration,
    /// Bit/s; at 0, packets wait.
    pub rate: u64,
}

/// What becomes different at a time; the rest stays.
///
/// ```
/// use std::time::Duration;
/// use mpquic_sim::{PlannedChange, LinkConfig};
///
/// let seconds = Duration::from_secs;
/// let config = LinkConfig::new(50_000_000, Duration::from_millis(20)).with_change(PlannedChange {
///     loss: Some(0.03),
///     ..PlannedChange::at(seconds(60))
/// });
/// assert!(config.validate().is_ok());
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlannedChange {
    /// When, from the start of the run. In files: `at_ms`.
    #[serde(rename = "at_ms", with = "millis")]
    pub at: Duration,
    /// The rate, bit/s; what is being serialised goes on at the new one. At 0, packets wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<u64>,
    /// The propagation delay of what is not on its way yet. In files: `delay_ms`.
    #[serde(
        rename = "delay_ms",
        default,
        with = "millis::option",
        skip_serializing_if = "Option::is_none"
    )]
    pub delay: Option<Duration>,
    /// The standard deviation of the delay. In files: `delay_sd_ms`.
    #[serde(
        rename = "delay_sd_ms",
        default,
        with = "millis::option",
        skip_serializing_if = "Option::is_none"
    )]
    pub delay_sd: Option<Duration>,
    /// The probability of independent loss.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss: Option<f64>,
    /// The chain of loss in bursts; its state stays.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gilbert_elliott: Option<GilbertElliott>,
}

impl PlannedChange {
    /// Nothing changes yet at this time.
    pub fn at(at: Duration) -> Self {
        Self {
            at,
            ..Self::default()
        }
    }
}
