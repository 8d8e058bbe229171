//! Congestion control: one controller per connection with a state per path; does not detect losses.

mod balia;
mod bbr;
mod coupled;
mod cubic;
mod hystart;
mod initial_window;
mod lia;
mod new_reno;
mod olia;
mod slots;
#[cfg(test)]
mod tests;

use std::fmt;
use std::str::FromStr;
use std::time::{Duration, Instant};

pub use initial_window::InitialWindow;
use mpquic_sched_core::PathIndex;
use rand::rngs::StdRng;
use thiserror::Error;

use crate::recovery::{RateSample, RttEstimator};

/// Which congestion controller a connection uses.
///
/// ```
/// use mpquic_proto::CongestionControl;
///
/// assert_eq!("olia".parse(), Ok(CongestionControl::Olia));
/// assert_eq!(CongestionControl::NewReno.to_string(), "newreno");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
#[non_exhaustive]
pub enum CongestionControl {
    /// RFC 9002 section 7; each path on its own.
    NewReno,
    /// RFC 9438; each path on its own.
    #[default]
    Cubic,
    /// The Linked Increases Algorithm of RFC 6356, over all paths.
    Lia,
    /// The Opportunistic Linked Increases Algorithm (draft-khalili-mptcp-congestion-control), over
    /// all paths.
    Olia,
    /// Balanced Linked Adaptation (draft-walid-mptcp-congestion-control), over all paths.
    Balia,
    /// BBRv3 (draft-ietf-ccwg-bbr): a model of each path on its own.
    Bbr,
}

impl CongestionControl {
    /// All of them.
    pub const ALL: &[Self] = &[
        Self::NewReno,
        Self::Cubic,
        Self::Lia,
        Self::Olia,
        Self::Balia,
        Self::Bbr,
    ];

    /// Its name, as it is parsed.
    pub const fn name(self) -> &'static str {
        match self {
            Self::NewReno => "newreno",
            Self::Cubic => "cubic",
            Self::Lia => "lia",
            Self::Olia => "olia",
            Self::Balia => "balia",
            Self::Bbr => "bbr3",
        }
    }

    /// A controller without paths; chance, where it has a say, comes from the generator.
    pub(crate) fn build(self, initial: InitialWindow, rng: &mut StdRng) -> Box<dyn Controller> {
        match self {
            Self::NewReno => Box::new(new_reno::NewReno::new(initial)),
            Self::Cubic => Box::new(cubic::Cubic::new(initial)),
            Self::Lia => Box::new(coupled::Coupled::<lia::Lia>::new(initial)),
            Self::Olia => Box::new(coupled::Coupled::<olia::Olia>::new(initial)),
            Self::Balia => Box::new(coupled::Coupled::<balia::Balia>::new(initial)),
            Self::Bbr => Box::new(bbr::Bbr::new(initial, rng)),
        }
    }
}

impl fmt::Display for CongestionControl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for CongestionControl {
    type Err = UnknownCongestionControl;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let named = Self::ALL.iter().find(|control| control.name() == name);
        named
            .copied()
            .ok_or_else(|| UnknownCongestionControl { name: name.into() })
    }
}

/// No congestion controller has this name.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "unknown congestion controller {name:?}, expected one of {}",
    known_names()
)]
pub struct UnknownCongestionControl {
    /// What was asked for.
    pub name: String,
}

fn known_names() -> String {
    let names: Vec<_> = CongestionControl::ALL
        .iter()
        .map(|control| control.name())
        .collect();
    names.join(", ")
}

/// A congestion controller of a connection. It sees all paths, so that coupled algorithms fit the
/// same interface. A path that was not added has a window of 0, and what is told of it is ignored.
pub(crate) trait Controller: Send {
    /// A path begins, in slow start.
    fn add_path(&mut self, path: PathIndex, now: Instant, mtu: u16);

    /// A path has ended.
    fn remove_path(&mut self, path: PathIndex);

    /// The path leads over other addresses now: it begins anew (RFC 9000 section 9.4).
    fn on_path_changed(&mut self, path: PathIndex, now: Instant, mtu: u16) {
        self.add_path(path, now, mtu);
    }

    /// A packet that counts as in flight left.
    fn on_sent(&mut self, _path: PathIndex, _now: Instant, _bytes: u16, _in_flight_after: u64) {}

    /// A packet in flight, sent at `sent`, was newly acknowledged. `app_limited`: the window was not
    /// used up, and not because of the pacer (RFC 9002 section 7.8); it must not grow then.
    fn on_ack(
        &mut self,
        path: PathIndex,
        now: Instant,
        sent: Instant,
        bytes: u64,
        app_limited: bool,
        rtt: &RttEstimator,
    );

    /// Packets were lost, the newest sent at `sent`, or (`ecn`) the peer reports new CE marks, the
    /// newest packet acknowledged with the report having been sent at `sent`.
    fn on_congestion_event(
        &mut self,
        path: PathIndex,
        now: Instant,
        sent: Instant,
        persistent: bool,
        lost_bytes: u64,
        ecn: bool,
    );

    /// Packets declared lost, the newest sent at `sent`, were acknowledged after all.
    fn on_spurious_loss(&mut self, _path: PathIndex, _now: Instant, _sent: Instant, _bytes: u64) {}

    /// A packet in flight was declared lost; told before the congestion event.
    fn on_lost(&mut self, _path: PathIndex, _now: Instant, _lost: &LostPacket) {}

    /// The packets of an ACK frame, and those lost by it, have been told. True if what leaves from
    /// now on is held back by the controller's own choice, so that it tells little of the path.
    fn on_ack_end(&mut self, _path: PathIndex, _ack: &AckSummary<'_>) -> bool {
        false
    }

    /// The application has data again after it had none: nothing is in flight, and the next packet
    /// is about to leave.
    fn on_restart(&mut self, _path: PathIndex, _now: Instant) {}

    /// Bytes per second to pace at; `None` to pace by the window (RFC 9002 section 7.7).
    fn pacing_rate(&self, _path: PathIndex, _rtt: &RttEstimator) -> Option<f64> {
        None
    }

    /// The largest datagram that the path takes has changed.
    fn on_mtu_update(&mut self, path: PathIndex, mtu: u16);

    /// The congestion window, bytes.
    fn window(&self, path: PathIndex) -> u64;

    /// The slow start threshold, bytes; `u64::MAX` before the first congestion event.
    fn ssthresh(&self, path: PathIndex) -> u64;

    /// Whether the window grows exponentially.
    fn in_slow_start(&self, path: PathIndex) -> bool {
        self.window(path) < self.ssthresh(path)
    }

    /// Congestion events to which the window gave way, for statistics.
    fn congestion_events(&self, path: PathIndex) -> u64;
}

/// A packet that was declared lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LostPacket {
    /// Its number.
    pub(crate) number: u64,
    /// When it left.
    pub(crate) sent: Instant,
    /// Its size, bytes.
    pub(crate) size: u16,
    /// Bytes in flight once it had left, itself included.
    pub(crate) tx_in_flight: u64,
    /// Bytes declared lost since it left, itself included.
    pub(crate) lost: u64,
    /// Bytes delivered so far.
    pub(crate) total_delivered: u64,
    /// Whether there was less to send than the path would have taken when it left.
    pub(crate) app_limited: bool,
}

/// What an ACK frame tells, all its packets taken together.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AckSummary<'a> {
    pub(crate) now: Instant,
    pub(crate) sample: &'a RateSample,
    /// When the newest of the newly acknowledged packets left.
    pub(crate) newest_sent: Instant,
    /// The RTT sample that the frame gave.
    pub(crate) rtt_sample: Option<Duration>,
    pub(crate) rtt: &'a RttEstimator,
    /// Bytes in flight, what the frame acknowledged and what was lost by it taken off.
    pub(crate) in_flight: u64,
}

/// Upper bound of every window: far beyond any path, far below overflow.
const MAX_WINDOW: u64 = 1 << 40;
