//! Cross traffic: what it is to be, its two applications, and what it achieved; moves no datagram.

use std::time::Duration;

use bytes::Bytes;
use mpquic_proto::{
    CongestionControl, ConnectionStats, Dir, Event, ReadError, Side, StreamEvent, StreamId,
    TransportConfig, VarInt, WriteError,
};

use crate::app::{App, AppContext};
use crate::link::nanos;
use crate::{AppError, SimError};

/// Bytes handed over at a time, to and from the transport.
const CHUNK: usize = 64 * 1024;
/// What of its bulk a source keeps with the transport: more than the bandwidth-delay product of
/// 200 Mbit/s and 300 ms, and less memory than the default.
const SEND_WINDOW: u64 = 8 << 20;
/// Never what holds a source back.
const RECEIVE_WINDOW: u64 = 16 << 20;

/// A bulk transfer by somebody else: a connection of its own, of one path, with endpoints of its own,
/// that sends as much as its congestion controller lets it through all links of a path.
///
/// Its packets have the sizes that those of the connection under test may have, as both are on one
/// network. Its acknowledgements come back through the path's other direction. It begins with a handshake, and
/// ends by closing its connection: what its sender has in flight then still arrives.
///
/// ```
/// use std::time::Duration;
/// use mpquic_proto::{CongestionControl, Side};
/// use mpquic_sim::CrossTraffic;
///
/// let flow = CrossTraffic::new(0, Side::Server, CongestionControl::NewReno)
///     .between(Duration::from_secs(2), Duration::from_secs(10));
/// assert_eq!(flow.stop, Some(Duration::from_secs(10)));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CrossTraffic {
    /// The path whose links it takes, by number.
    pub path: usize,
    /// Which end of the path sends the bulk.
    pub from: Side,
    /// The congestion controller of both its ends.
    pub control: CongestionControl,
    /// When it begins.
    pub start: Duration,
    /// When it ends; `None` for never.
    pub stop: Option<Duration>,
    /// It begins later than `start` by a time drawn from the network's seed, uniformly, less than
    /// this. On links without chance, it is what makes one seed differ from another.
    pub phase: Duration,
}

impl CrossTraffic {
    /// From the start to the end of the run, with a phase of 100 ms.
    pub const fn new(path: usize, from: Side, control: CongestionControl) -> Self {
        Self {
            path,
            from,
            control,
            start: Duration::ZERO,
            stop: None,
            phase: Duration::from_millis(100),
        }
    }

    /// With these times of beginning and end.
    #[must_use]
    pub const fn between(mut self, start: Duration, stop: Duration) -> Self {
        self.start = start;
        self.stop = Some(stop);
        self
    }

    /// With this phase.
    #[must_use]
    pub const fn with_phase(mut self, phase: Duration) -> Self {
        self.phase = phase;
        self
    }

    /// Whether it can be, on a network of so many paths; `number` is its place among its likes.
    pub(crate) fn validate(&self, number: usize, paths: usize) -> Result<(), SimError> {
        if self.path >= paths {
            return Err(SimError::Missing {
                what: "path",
                number: self.path,
            });
        }
        match self.stop {
            Some(stop) if stop <= self.start.saturating_add(self.phase) => {
                Err(SimError::CrossTraffic {
                    number,
                    start: self.start,
                    phase: self.phase,
                    stop,
                })
            }
            _ => Ok(()),
        }
    }

    /// When it begins, given a word drawn for it.
    pub(crate) fn begins(&self, word: u64) -> Duration {
        let delay = (u128::from(nanos(self.phase)) * u128::from(word)) >> 64;
        // Less than the phase, which fits.
        self.start
            .saturating_add(Duration::from_nanos(delay as u64))
    }

    /// Settings like those of the connection under test where they belong to the network (packet
    /// sizes, initial RTT, ECN), and its own in all that makes it what it is.
    pub(crate) fn transport(&self, under_test: &TransportConfig) -> TransportConfig {
        let mut transport = under_test.clone();
        transport
            .congestion(self.control)
            .scheduler(|| Box::new(mpquic_sched::MinRtt::default()))
            .max_paths(1)
            .stream_receive_window(RECEIVE_WINDOW)
            .receive_window(RECEIVE_WINDOW)
            .send_window(SEND_WINDOW)
            // It outlasts any outage, as a new connection in its place would.
            .max_idle_timeout(None)
            .keep_alive_interval(None)
            .observer(|_| None);
        transport
    }
}

/// What became of one flow of cross traffic up to a time.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct CrossReport {
    /// What it was to be.
    pub traffic: CrossTraffic,
    /// When it began, its phase included; `None` if it has not yet.
    pub started: Option<Duration>,
    /// When it was ended, if it was.
    pub stopped: Option<Duration>,
    /// Bytes that its receiver has read in order: up to the end, if it was ended.
    pub delivered: u64,
    /// The sender's figures.
    pub sender: ConnectionStats,
    /// When and why its connection was lost, if it was and nobody had ended it.
    pub lost: Option<Duration>,
}

impl CrossReport {
    /// Delivered bits per second from its beginning to its end, or to `now`; 0 before it began.
    pub fn goodput(&self, now: Duration) -> f64 {
        let Some(started) = self.started else {
            return 0.0;
        };
        let time = self.stopped.unwrap_or(now).saturating_sub(started);
        if time.is_zero() {
            return 0.0;
        }
        self.delivered as f64 * 8.0 / time.as_secs_f64()
    }
}

/// Sends zeros on one stream for as long as the connection lasts.
#[derive(Debug, Default)]
pub(crate) struct Source {
    stream: Option<StreamId>,
    left: Bytes,
}

impl Source {
    fn pump(&mut self, cx: &mut AppContext<'_>) -> Result<(), AppError> {
        let Some(stream) = self.stream else {
            return Ok(());
        };
        loop {
            if self.left.is_empty() {
                self.left = Bytes::from_static(&[0; CHUNK]);
            }
            match cx.connection.write_chunk(stream, &mut self.left) {
                Ok(_) => {}
                Err(WriteError::Blocked) => return Ok(()),
                // The connection is closing.
                Err(WriteError::ClosedStream) => {
                    self.stream = None;
                    return Ok(());
                }
                Err(WriteError::Stopped(code)) => {
                    return Err(AppError::GivenUp { stream, code });
                }
            }
        }
    }
}

impl App for Source {
    fn on_event(&mut self, cx: &mut AppContext<'_>, event: &Event) -> Result<(), AppError> {
        match event {
            Event::Connected => self.stream = cx.connection.open(Dir::Uni),
            Event::Stream(StreamEvent::Available { .. }) if self.stream.is_none() => {
                self.stream = cx.connection.open(Dir::Uni);
            }
            Event::Stream(StreamEvent::Writable { .. }) => {}
            _ => return Ok(()),
        }
        self.pump(cx)
    }
}

/// Reads and drops what comes.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Sink;

impl App for Sink {
    fn on_event(&mut self, cx: &mut AppContext<'_>, event: &Event) -> Result<(), AppError> {
        let stream = match *event {
            Event::Stream(StreamEvent::Opened { dir }) => match cx.connection.accept(dir) {
                Some(stream) => stream,
                None => return Ok(()),
            },
            Event::Stream(StreamEvent::Readable { id }) => id,
            _ => return Ok(()),
        };
        loop {
            match cx.read(stream, CHUNK) {
                Ok(Some(_)) => {}
                Ok(None) | Err(ReadError::Blocked | ReadError::ClosedStream) => return Ok(()),
                Err(ReadError::Reset(code)) => return Err(AppError::GivenUp { stream, code }),
            }
        }
    }
}

/// The code with which a flow of cross traffic closes its connection.
pub(crate) const OVER: VarInt = VarInt::from_u32(0);
