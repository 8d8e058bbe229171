//! The settings of one direction of a link, as experiment files write them.

use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::gilbert_elliott::GilbertElliott;
use super::mahimahi::{MahimahiTrace, TraceError};
use super::millis;

/// The packet size with which [`QueueLimit::Auto`] converts a bandwidth-delay product to packets.
const AUTO_PACKET: u128 = 1350;
/// The smallest automatic queue, in packets.
const AUTO_MIN_PACKETS: u64 = 100;

/// The settings of one direction of a link.
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
    /// Bits per second, [`overhead`](Self::overhead) included. With `None`, serialisation takes no
    /// time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<u64>,
    /// Rates that apply from given times on. [`rate`](Self::rate) applies before the first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rate_steps: Vec<RateStep>,
    /// The period after which `rate_steps` start again. The last rate applies until the first step
    /// of the next round. With `None`, the steps run once. In files: `rate_period_ms`.
    #[serde(
        rename = "rate_period_ms",
        with = "millis::option",
        skip_serializing_if = "Option::is_none"
    )]
    pub rate_period: Option<Duration>,
    /// Delivery opportunities that replace the rate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace: Option<MahimahiTrace>,
    /// A Mahimahi trace file, which [`load`](Self::load) reads into `trace`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace_file: Option<PathBuf>,
    /// The propagation delay of this direction. In files: `delay_ms`.
    #[serde(rename = "delay_ms", with = "millis")]
    pub delay: Duration,
    /// The standard deviation of the delay, which is drawn per packet. Packets stay in order, unless
    /// [`delay_reorders`](Self::delay_reorders) is set. In files: `delay_sd_ms`.
    ///
    /// The variation is a sum of twelve uniform variates. This needs only integer arithmetic, which
    /// is the same on every platform. The result is close to normal and within six standard
    /// deviations. A negative delay counts as zero. Because packets stay in order, a late packet
    /// delays those behind it, as on a real link. On a busy link, the mean delay is therefore above
    /// `delay`.
    #[serde(rename = "delay_sd_ms", with = "millis")]
    pub delay_sd: Duration,
    /// Whether the variation of the delay may change the order of packets, as that of Linux netem does unless it is told
    /// otherwise. Default: packets stay in order.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub delay_reorders: bool,
    /// The probability that a packet is lost after serialisation, independent of all other packets.
    pub loss: f64,
    /// Loss in bursts, in addition to `loss` and independent of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gilbert_elliott: Option<GilbertElliott>,
    /// The most packets in a row that chance may lose or corrupt: the next one passes, so that a little less is lost
    /// than `loss` says. Default: no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_burst: Option<NonZeroU32>,
    /// The limit of the queue behind the packet that is being serialised. Packets beyond it are
    /// dropped (drop-tail).
    pub queue: QueueLimit,
    /// The times when the link is down, from the start of the run.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub outages: Vec<Outage>,
    /// Planned changes of these settings, from the start of the run.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<PlannedChange>,
    /// The probability that a packet is held back by [`reordering_delay`](Self::reordering_delay).
    /// Packets behind it may overtake it.
    pub reordering: f64,
    /// How long a reordered packet is held back. In files: `reordering_delay_ms`.
    #[serde(rename = "reordering_delay_ms", with = "millis")]
    pub reordering_delay: Duration,
    /// The probability that a packet arrives twice.
    pub duplication: f64,
    /// The probability that one bit of a packet is flipped.
    pub corruption: f64,
    /// Header bytes per packet that the link carries in addition to the packet's size. Default: 28,
    /// an IPv4 and a UDP header.
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
            delay_reorders: false,
            loss: 0.0,
            gilbert_elliott: None,
            max_burst: None,
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
    /// A link of this rate (bit/s) and propagation delay without impairments.
    pub fn new(rate: u64, delay: Duration) -> Self {
        Self {
            rate: Some(rate),
            delay,
            ..Self::default()
        }
    }

    /// A link that delivers according to a trace, with this propagation delay and without
    /// impairments.
    pub fn from_trace(trace: MahimahiTrace, delay: Duration) -> Self {
        Self {
            trace: Some(trace),
            delay,
            ..Self::default()
        }
    }

    /// Sets rates (bit/s) that apply from given times on, repeated if there is a period.
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

    /// Sets loss in bursts.
    #[must_use]
    pub fn with_gilbert_elliott(mut self, chain: GilbertElliott) -> Self {
        self.gilbert_elliott = Some(chain);
        self
    }

    /// Adds a planned change.
    #[must_use]
    pub fn with_change(mut self, change: PlannedChange) -> Self {
        self.changes.push(change);
        self
    }

    /// Sets the probability of independent loss.
    #[must_use]
    pub fn with_loss(mut self, probability: f64) -> Self {
        self.loss = probability;
        self
    }

    /// Sets the most packets in a row that chance may lose or corrupt.
    #[must_use]
    pub fn with_max_burst(mut self, packets: NonZeroU32) -> Self {
        self.max_burst = Some(packets);
        self
    }

    /// Sets the queue limit.
    #[must_use]
    pub fn with_queue(mut self, queue: QueueLimit) -> Self {
        self.queue = queue;
        self
    }

    /// Adds an outage.
    #[must_use]
    pub fn with_outage(mut self, at: Duration, lasting: Duration) -> Self {
        self.outages.push(Outage { at, lasting });
        self
    }

    /// Sets the delay variation as the papers' tables give it: the standard deviation of the RTT,
    /// in percent of the base RTT (twice the one-way delay). The other direction must have the same
    /// variation.
    ///
    /// The variances of independent directions add up, so each direction gets 1/sqrt(2) of the
    /// RTT's deviation.
    #[must_use]
    pub fn with_rtt_variation(mut self, percent: f64) -> Self {
        let factor = percent / 100.0 * std::f64::consts::SQRT_2;
        let nanos = self.delay.as_nanos() as f64 * factor;
        // The cast saturates. `validate` rejects a negative or absurd percentage.
        self.delay_sd = Duration::from_nanos(nanos.round() as u64);
        self
    }

    /// Reads [`trace_file`](Self::trace_file), if set, into `trace`. A relative path is relative to
    /// `directory`, which should be the folder of the file with these settings.
    ///
    /// # Errors
    ///
    /// If the file cannot be read or is not a trace.
    pub fn load(&mut self, directory: &Path) -> Result<(), TraceError> {
        if let Some(file) = &self.trace_file {
            self.trace = Some(MahimahiTrace::read(&directory.join(file))?);
            self.trace_file = None;
        }
        Ok(())
    }

    /// The highest rate in bit/s that the link ever has; the mean rate of a trace. `None` if
    /// serialisation takes no time at some point.
    pub fn peak_rate(&self) -> Option<u64> {
        if let Some(trace) = &self.trace {
            return Some(trace.mean_rate());
        }
        // A step at the start leaves no time for the rate before it.
        let first = match self.rate_steps.first() {
            Some(step) if step.at.is_zero() => step.rate,
            _ => self.rate?,
        };
        let steps = self.rate_steps.iter().map(|step| step.rate);
        let changes = self.changes.iter().filter_map(|change| change.rate);
        Some(steps.chain(changes).fold(first, u64::max))
    }

    /// The queue limit with `Auto` resolved to a number.
    pub fn queue_limit(&self) -> QueueLimit {
        match (self.queue, self.peak_rate()) {
            (QueueLimit::Auto, Some(rate)) => {
                let delays = self.changes.iter().filter_map(|change| change.delay);
                let delay = delays.fold(self.delay, Duration::max);
                // One bandwidth-delay product of the base RTT, assuming that the other direction is
                // alike.
                let bits = u128::from(rate) * delay.as_nanos() * 2 / 1_000_000_000;
                let packets = (bits / 8).div_ceil(AUTO_PACKET);
                let packets = u64::try_from(packets).unwrap_or(u64::MAX);
                QueueLimit::Packets(packets.max(AUTO_MIN_PACKETS))
            }
            // Nothing waits on an infinitely fast link.
            (QueueLimit::Auto, None) => QueueLimit::Packets(AUTO_MIN_PACKETS),
            (limit, _) => limit,
        }
    }
}

/// The limit of a queue. The packet that is being serialised does not count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum QueueLimit {
    /// The larger of 100 packets and one bandwidth-delay product in packets of 1350 bytes, for the
    /// highest rate and the longest delay that the link ever has. For a trace, the mean rate
    /// counts.
    #[default]
    Auto,
    /// This many packets.
    Packets(u64),
    /// This many bytes, overhead included.
    Bytes(u64),
}

/// A time when a link is down.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Outage {
    /// The start. In files: `at_ms`.
    #[serde(rename = "at_ms", with = "millis")]
    pub at: Duration,
    /// The duration. In files: `lasting_ms`.
    #[serde(rename = "lasting_ms", with = "millis")]
    pub lasting: Duration,
}

/// A rate that applies from a time on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RateStep {
    /// The start, counted from the start of the round. In files: `at_ms`.
    #[serde(rename = "at_ms", with = "millis")]
    pub at: Duration,
    /// Bit/s. At 0, packets wait.
    pub rate: u64,
}

/// A change of settings at a time. Settings that are `None` stay.
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
    /// The time, from the start of the run. In files: `at_ms`.
    #[serde(rename = "at_ms", with = "millis")]
    pub at: Duration,
    /// The rate in bit/s. The packet that is being serialised continues at the new rate. At 0,
    /// packets wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<u64>,
    /// The propagation delay of packets that are not propagating yet. In files: `delay_ms`.
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
    /// The chain for loss in bursts. Its state stays.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gilbert_elliott: Option<GilbertElliott>,
}

impl PlannedChange {
    /// A change at this time that changes no setting yet.
    pub fn at(at: Duration) -> Self {
        Self {
            at,
            ..Self::default()
        }
    }
}
