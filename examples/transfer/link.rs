//! Emulated links in the form of the command line.

use std::str::FromStr;
use std::time::Duration;

use mpquic_sim::{LinkConfig, LinkConfigError, QueueLimit};
use thiserror::Error;

/// A path: both directions of a link.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct LinkArgument {
    pub(crate) name: String,
    pub(crate) rate_mbps: f64,
    /// The settings of each direction.
    pub(crate) config: LinkConfig,
}

/// Why a path is invalid.
#[derive(Debug, Error)]
pub(crate) enum LinkError {
    #[error(
        "expected NAME:RATE_MBPS:OWD_MS[:LOSS_PERCENT[:QUEUE_PACKETS]], as in wifi:50:10 or lte:20:35:0.5"
    )]
    Malformed,
    #[error("the rate is {0}, expected Mbit/s from 0.001 to 100000")]
    Rate(String),
    #[error("the delay is {0}, expected milliseconds from 0 to 60000")]
    Delay(String),
    #[error("the loss is {0}, expected percent from 0 to 100")]
    Loss(String),
    #[error("the queue is {0}, expected a number of packets from 1 to 1000000")]
    Queue(String),
    #[error(transparent)]
    Config(#[from] LinkConfigError),
}

impl FromStr for LinkArgument {
    type Err = LinkError;

    fn from_str(text: &str) -> Result<Self, LinkError> {
        let fields: Vec<_> = text.split(':').collect();
        let (name, rate, delay, more) = match fields[..] {
            [name, rate, delay] => (name, rate, delay, &[][..]),
            [name, rate, delay, ..] if fields.len() <= 5 => (name, rate, delay, &fields[3..]),
            _ => return Err(LinkError::Malformed),
        };
        if name.is_empty() {
            return Err(LinkError::Malformed);
        }
        let number = |text: &str| text.parse::<f64>().ok();
        let rate_mbps = number(rate)
            .filter(|rate| (0.001..=100_000.0).contains(rate))
            .ok_or_else(|| LinkError::Rate(rate.to_owned()))?;
        let delay_ms = number(delay)
            .filter(|delay| (0.0..=60_000.0).contains(delay))
            .ok_or_else(|| LinkError::Delay(delay.to_owned()))?;
        let delay = Duration::from_secs_f64(delay_ms / 1e3);
        // By default, the link has a drop-tail queue, as routers do.
        let mut config = LinkConfig::new((rate_mbps * 1e6).round() as u64, delay);
        if let Some(loss) = more.first() {
            let percent = number(loss).filter(|percent| (0.0..=100.0).contains(percent));
            config.loss = percent.ok_or_else(|| LinkError::Loss((*loss).to_owned()))? / 100.0;
        }
        if let Some(queue) = more.get(1) {
            let packets = queue.parse().ok();
            let packets = packets.filter(|packets| (1..=1_000_000).contains(packets));
            let packets = packets.ok_or_else(|| LinkError::Queue((*queue).to_owned()))?;
            config.queue = QueueLimit::Packets(packets);
        }
        config.validate()?;
        Ok(Self {
            name: name.to_owned(),
            rate_mbps,
            config,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links() {
        let wifi: LinkArgument = "wifi:50:10".parse().unwrap();
        assert_eq!((wifi.name.as_str(), wifi.rate_mbps), ("wifi", 50.0));
        assert_eq!(wifi.config.rate, Some(50_000_000));
        assert_eq!(wifi.config.delay, Duration::from_millis(10));
        assert_eq!(wifi.config.queue_limit(), QueueLimit::Packets(100));

        let fraction: LinkArgument = "a b:0.5:2.5".parse().unwrap();
        assert_eq!(fraction.config.rate, Some(500_000));
        assert_eq!(fraction.config.delay, Duration::from_micros(2500));
        assert_eq!(fraction.config.loss, 0.0);

        let lossy: LinkArgument = "lte:20:35:0.5".parse().unwrap();
        assert_eq!(lossy.config.loss, 0.005);
        assert_eq!(lossy.config.queue, QueueLimit::Auto);
        let shallow: LinkArgument = "far:9:450:0:50".parse().unwrap();
        assert_eq!(shallow.config.loss, 0.0);
        assert_eq!(shallow.config.queue, QueueLimit::Packets(50));
    }

    #[test]
    fn mistakes() {
        for (text, expected) in [
            ("wifi", "expected NAME"),
            ("wifi:50", "expected NAME"),
            ("wifi:50:10:1:50:", "expected NAME"),
            ("wifi:50:10:", "the loss is "),
            ("wifi:50:10:101", "the loss is 101"),
            ("wifi:50:10:-1", "the loss is -1"),
            ("wifi:50:10:0:0", "the queue is 0"),
            ("wifi:50:10:0:1.5", "the queue is 1.5"),
            (":50:10", "expected NAME"),
            ("wifi:fast:10", "the rate is fast"),
            ("wifi:0:10", "the rate is 0"),
            ("wifi:-1:10", "the rate is -1"),
            ("wifi:NaN:10", "the rate is NaN"),
            ("wifi:inf:10", "the rate is inf"),
            ("wifi:50:-1", "the delay is -1"),
            ("wifi:50:1e9", "the delay is 1e9"),
        ] {
            let error = text.parse::<LinkArgument>().unwrap_err().to_string();
            assert!(error.starts_with(expected), "{text}: {error}");
        }
    }
}
