//! Settings of one direction of a link, as experiment files write them; checked here, acted on elsewhere.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// The largest propagation delay, and the largest spread of it: an hour. Keeps sums of times far
/// from overflow.
const MAX_DELAY: Duration = Duration::from_secs(3600);
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
    /// What may wait while another packet is serialised; the rest is dropped at the tail.
    pub queue: QueueLimit,
    /// When the link is dark, from the start of the run.
    pub outages: Vec<Outage>,
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
            delay: Duration::ZERO,
            delay_sd: Duration::ZERO,
            loss: 0.0,
            queue: QueueLimit::Auto,
            outages: Vec::new(),
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

    /// Whether it can be.
    ///
    /// # Errors
    ///
    /// The first setting that cannot.
    pub fn validate(&self) -> Result<(), LinkConfigError> {
        if self.rate == Some(0) {
            return Err(out_of_range(
                "rate",
                0,
                "at least 1 bit/s (for a dead link, an outage)",
            ));
        }
        for (field, delay) in [
            ("delay_ms", self.delay),
            ("delay_sd_ms", self.delay_sd),
            ("reordering_delay_ms", self.reordering_delay),
        ] {
            if delay > MAX_DELAY {
                let millis = delay.as_millis();
                return Err(out_of_range(field, millis, "at most 3600000 ms"));
            }
        }
        for (field, probability) in [
            ("loss", self.loss),
            ("reordering", self.reordering),
            ("duplication", self.duplication),
            ("corruption", self.corruption),
        ] {
            if !(0.0..=1.0).contains(&probability) {
                return Err(out_of_range(field, probability, "a probability, 0 to 1"));
            }
        }
        if self.overhead > 1500 {
            return Err(out_of_range(
                "overhead",
                self.overhead,
                "at most 1500 bytes",
            ));
        }
        let mut outages: Vec<_> = self.outages.iter().collect();
        outages.sort_by_key(|outage| outage.at);
        for pair in outages.windows(2) {
            if pair[0].at.saturating_add(pair[0].lasting) > pair[1].at {
                return Err(LinkConfigError::OverlappingOutages {
                    first: pair[0].at,
                    second: pair[1].at,
                });
            }
        }
        Ok(())
    }

    /// The queue in numbers: `Auto` worked out.
    pub fn queue_limit(&self) -> QueueLimit {
        match (self.queue, self.rate) {
            (QueueLimit::Auto, Some(rate)) => {
                // One bandwidth-delay product of the base RTT, the other direction being alike.
                let bits = u128::from(rate) * self.delay.as_nanos() * 2 / 1_000_000_000;
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
    /// The larger of 100 packets and one bandwidth-delay product in packets of 1350 bytes.
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

/// A link that cannot be.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum LinkConfigError {
    /// A number is outside its range.
    #[error("link setting `{field}` is {value}, expected {expected}")]
    OutOfRange {
        /// The setting.
        field: &'static str,
        /// What it was set to.
        value: String,
        /// What would have been right.
        expected: &'static str,
    },
    /// Two outages overlap.
    #[error("the outages at {first:?} and at {second:?} overlap: make them one")]
    OverlappingOutages {
        /// When the first starts.
        first: Duration,
        /// When the second starts.
        second: Duration,
    },
}

fn out_of_range(
    field: &'static str,
    value: impl ToString,
    expected: &'static str,
) -> LinkConfigError {
    LinkConfigError::OutOfRange {
        field,
        value: value.to_string(),
        expected,
    }
}

/// Durations as milliseconds with a fraction: the unit of the papers' tables.
mod millis {
    use std::time::Duration;

    use serde::de::Error as _;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(time: &Duration, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_f64(time.as_nanos() as f64 / 1e6)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<Duration, D::Error> {
        let millis = f64::deserialize(d)?;
        // 1e12 ms are 1e18 ns, which fit a u64.
        if !(0.0..=1e12).contains(&millis) {
            return Err(D::Error::custom(format_args!(
                "{millis} is not a time: expected milliseconds from 0 to 1e12"
            )));
        }
        Ok(Duration::from_nanos((millis * 1e6).round() as u64))
    }
}
