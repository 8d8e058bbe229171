//! The first slow start of a path, by the chosen algorithm.

use std::fmt;
use std::str::FromStr;
use std::time::{Duration, Instant};

use thiserror::Error;

use super::hystart::HyStart;
use super::rapid_start::RapidStart;

/// How the window of a path grows until its first congestion event, and what ends that growth. BBR has a Startup of its own,
/// which [`Rapid`](Self::Rapid) changes: the packets of the initial window tell the rate of the path, and Startup goes there at
/// once.
///
/// ```
/// use mpquic_congestion::SlowStart;
///
/// assert_eq!("hystart++".parse(), Ok(SlowStart::HyStartPlusPlus));
/// ```
///
/// Slow start after persistent congestion doubles the window up to the threshold whatever is set here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
#[non_exhaustive]
pub enum SlowStart {
    /// The window doubles per round trip until a packet is lost (RFC 9002 section 7.3.1).
    Classic,
    /// The same, but growth slows and then ends when the shortest round trip of a round has risen (RFC 9406).
    HyStartPlusPlus,
    /// Rapid Start (draft-kazuho-ccwg-rapid-start): the window triples per round trip while there is no queue, and doubles
    /// beside a short one. After a loss it converges to what the path delivers instead of being cut at once. Growth ends
    /// as soon as a queue grows within a round, and not one round later.
    #[default]
    Rapid,
}

impl SlowStart {
    /// All of them.
    pub const ALL: &[Self] = &[Self::Classic, Self::HyStartPlusPlus, Self::Rapid];

    /// Its name, as it is parsed.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Classic => "classic",
            Self::HyStartPlusPlus => "hystart++",
            Self::Rapid => "rapid",
        }
    }
}

impl fmt::Display for SlowStart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for SlowStart {
    type Err = UnknownSlowStart;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let named = Self::ALL.iter().find(|known| known.name() == name);
        named
            .copied()
            .ok_or_else(|| UnknownSlowStart { name: name.into() })
    }
}

/// No slow start has this name.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("unknown slow start {name:?}, expected one of {}", known_names())]
#[non_exhaustive]
pub struct UnknownSlowStart {
    /// What was asked for.
    pub name: String,
}

fn known_names() -> String {
    let names: Vec<_> = SlowStart::ALL.iter().map(|known| known.name()).collect();
    names.join(", ")
}

/// What the window does with an acknowledgement in the first slow start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Growth {
    /// Grows by so many bytes.
    By(u64),
    /// The path is full: congestion avoidance begins.
    Exit,
}

/// The first slow start of one path.
#[derive(Debug, Clone)]
pub(super) enum FirstSlowStart {
    Classic,
    HyStart(HyStart),
    Rapid(RapidStart),
}

impl FirstSlowStart {
    pub(super) fn new(algorithm: SlowStart) -> Self {
        match algorithm {
            SlowStart::Classic => Self::Classic,
            SlowStart::HyStartPlusPlus => Self::HyStart(HyStart::default()),
            SlowStart::Rapid => Self::Rapid(RapidStart::default()),
        }
    }

    /// A packet sent at `sent` was acknowledged; `rtt` is the newest sample.
    pub(super) fn on_ack(
        &mut self,
        now: Instant,
        sent: Instant,
        bytes: u64,
        rtt: Duration,
    ) -> Growth {
        match self {
            Self::Classic => Growth::By(bytes),
            Self::HyStart(hystart) => hystart.on_ack(now, sent, bytes, rtt),
            Self::Rapid(rapid) => rapid.on_ack(now, sent, bytes, rtt),
        }
    }

    /// Whether the window converges after the loss that ends it, instead of being cut at once.
    pub(super) const fn converges(&self) -> bool {
        matches!(self, Self::Rapid(_))
    }
}
