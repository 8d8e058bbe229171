//! The first slow start of a path, by the chosen algorithm.

use std::fmt;
use std::str::FromStr;
use std::time::{Duration, Instant};

use thiserror::Error;

use super::AckedPacket;
use super::hystart::HyStart;
use super::rapid_start::{End, RapidStart};
use super::train::Train;

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
    Rapid,
    /// Rapid Start that goes where a packet train leads, as BBR's Startup does: packets that left together show by their
    /// arrival what the narrowest link lets through, and the window opens to what the path holds at that rate, eight times its
    /// size at most. The pace stays below 1.35 times that rate for a round trip. Growth ends where the newest round trips are above
    /// all that the round before has shown.
    #[default]
    Train,
}

impl SlowStart {
    /// All of them.
    pub const ALL: &[Self] = &[
        Self::Classic,
        Self::HyStartPlusPlus,
        Self::Rapid,
        Self::Train,
    ];

    /// Its name, as it is parsed.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Classic => "classic",
            Self::HyStartPlusPlus => "hystart++",
            Self::Rapid => "rapid",
            Self::Train => "train",
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

/// A train opens the window to no more than so many times what it was when the round began: acknowledgements that come
/// together feign a fast path.
pub(super) const MAX_GROWTH: f64 = 8.0;

/// The pace goes no further beyond the rate of a train. If the path takes more, packets that arrive at this pace refute the
/// train. If not, a round trip of it fills less than a queue of half a bandwidth-delay product.
pub(super) const PACE_BEYOND_TRAIN: f64 = 1.35;

/// The search for the path's rate in the first slow start of a window: the first packets leave together, and tell the rate of the
/// narrowest link.
#[derive(Debug, Clone, Default)]
pub(super) struct Search {
    train: Train,
    round_start: Option<Instant>,
    /// The window when the round began.
    round_window: f64,
    delivered: u64,
    /// When a train has opened the window, until what left after that is acknowledged.
    opened: Option<Instant>,
}

impl Search {
    fn on_ack(&mut self, packet: &AckedPacket<'_>, window: f64, mtu: u16) {
        let begins = self.round_start.is_none_or(|start| packet.sent >= start);
        if begins {
            self.round_start = Some(packet.now);
            self.round_window = window;
        }
        self.delivered = self.delivered.saturating_add(packet.size);
        self.train
            .on_packet(begins, packet.now, packet.sent, self.delivered, mtu);
        if self.opened.is_some_and(|opened| packet.sent > opened) {
            self.opened = None;
        }
    }

    fn pace(&self) -> Option<f64> {
        self.opened
            .map(|_| PACE_BEYOND_TRAIN * self.train.rate())
            .filter(|pace| *pace > 0.0)
    }

    /// The window to go on with: what a train tells that the path holds, as far as that may be true, if it is more than `window`
    /// and no queue stands.
    fn window(&mut self, packet: &AckedPacket<'_>, window: f64, queue: bool) -> f64 {
        let holds = self.train.rate() * packet.rtt.min().as_secs_f64();
        let opens = holds.min(MAX_GROWTH * self.round_window);
        if queue || opens <= window {
            return window;
        }
        self.opened = Some(packet.now);
        opens
    }
}

/// The first slow start of one path.
#[derive(Debug, Clone)]
pub(super) enum FirstSlowStart {
    Classic,
    HyStart(HyStart),
    Rapid(RapidStart),
    /// In a box: an idle connection with another slow start has no room for it.
    Train(RapidStart, Box<Search>),
}

impl FirstSlowStart {
    pub(super) fn new(algorithm: SlowStart) -> Self {
        match algorithm {
            SlowStart::Classic => Self::Classic,
            SlowStart::HyStartPlusPlus => Self::HyStart(HyStart::default()),
            SlowStart::Rapid => Self::Rapid(RapidStart::default()),
            SlowStart::Train => Self::Train(RapidStart::default(), Box::default()),
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
            Self::Rapid(rapid) => rapid.on_ack(now, sent, bytes, rtt, End::AboveCeiling),
            Self::Train(rapid, _) => rapid.on_ack(now, sent, bytes, rtt, End::AboveTop),
        }
    }

    /// The same packet, for the search of the path's rate: the window to go on with, which would be `window` without it, and was
    /// `before`.
    pub(super) fn search(
        &mut self,
        packet: &AckedPacket<'_>,
        before: f64,
        window: f64,
        mtu: u16,
    ) -> f64 {
        match self {
            Self::Train(rapid, search) => {
                search.on_ack(packet, before, mtu);
                search.window(packet, window, rapid.has_queue())
            }
            Self::Classic | Self::HyStart(_) | Self::Rapid(_) => window,
        }
    }

    /// The most to send at, bytes per second, for a round trip after a train has opened the window.
    pub(super) fn pace(&self) -> Option<f64> {
        match self {
            Self::Train(_, search) => search.pace(),
            Self::Classic | Self::HyStart(_) | Self::Rapid(_) => None,
        }
    }

    /// Whether the window converges after the loss that ends it, instead of being cut at once.
    pub(super) const fn converges(&self) -> bool {
        matches!(self, Self::Rapid(_) | Self::Train(..))
    }
}
