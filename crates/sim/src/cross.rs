//! Cross traffic: its description, its two applications, and its results.

use std::time::Duration;

use bytes::Bytes;
use mpquic_proto::congestion::SlowStart;
use mpquic_proto::{
    CongestionControl, ConnectionStats, Dir, Event, ReadError, Side, StreamEvent, StreamId,
    TransportConfig, VarInt, WriteError,
};

use crate::app::{App, AppContext};
use crate::link::nanos;
use crate::{AppError, SimError};

/// How many bytes the applications write and read at a time.
const CHUNK: usize = 64 * 1024;
/// The send window of a source: more than the bandwidth-delay product of 200 Mbit/s and 300 ms, and
/// less memory than the default.
const SEND_WINDOW: u64 = 8 << 20;
/// Large enough never to limit a source.
const RECEIVE_WINDOW: u64 = 16 << 20;

/// A competing bulk transfer: a connection of its own with its own endpoints, which sends as fast
/// as its congestion controller allows over all links of one path.
///
/// It uses the packet sizes of the connection under test, since both are on the same network. Its
/// acknowledgements return through the path's other direction. It starts with a handshake and ends
/// by closing its connection; data that is in flight then still arrives.
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
    /// The number of the path whose links it uses.
    pub path: usize,
    /// The end of the path that sends the data.
    pub from: Side,
    /// The congestion controller of both ends.
    pub control: CongestionControl,
    /// The start time.
    pub start: Duration,
    /// The end time; `None` if it never ends.
    pub stop: Option<Duration>,
    /// A random delay, uniform and less than this, is added to `start`. It is drawn from the
    /// network's seed. On links without randomness, it is what makes seeds differ.
    pub phase: Duration,
}

impl CrossTraffic {
    /// A flow from the start to the end of the run, with a phase of 100 ms.
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

    /// Sets the start and end times.
    #[must_use]
    pub const fn between(mut self, start: Duration, stop: Duration) -> Self {
        self.start = start;
        self.stop = Some(stop);
        self
    }

    /// Sets the phase.
    #[must_use]
    pub const fn with_phase(mut self, phase: Duration) -> Self {
        self.phase = phase;
        self
    }

    /// Checks the flow against a network with this many paths. `number` is the flow's place among
    /// all flows of cross traffic.
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

    /// The start time, given a random word.
    pub(crate) fn begins(&self, word: u64) -> Duration {
        let delay = (u128::from(nanos(self.phase)) * u128::from(word)) >> 64;
        // This is less than the phase, which fits.
        self.start
            .saturating_add(Duration::from_nanos(delay as u64))
    }

    /// The transport settings. Those that belong to the network (packet sizes, initial RTT, ECN)
    /// are the same as for the connection under test; the others are the flow's own.
    pub(crate) fn transport(
        &self,
        under_test: &TransportConfig,
        slow_start: SlowStart,
    ) -> TransportConfig {
        let mut transport = under_test.clone();
        transport
            .congestion(self.control)
            .scheduler(|| Box::new(mpquic_sched::MinRtt::default()))
            .max_paths(1)
            .stream_receive_window(RECEIVE_WINDOW)
            .receive_window(RECEIVE_WINDOW)
            .send_window(SEND_WINDOW)
            // The flow survives any outage. In a real network, a new connection would replace it.
            .max_idle_timeout(None)
            .keep_alive_interval(None)
            .path_memory(None)
            // It stands for other stacks, kernels' TCP above all: every second packet is acknowledged.
            .ack_frequency_config(None)
            .observer(|_| None);
        if self.control != CongestionControl::Auto {
            transport.slow_start(slow_start);
        }
        transport
    }
}

/// The results of one flow of cross traffic up to a time.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct CrossReport {
    /// The flow's description.
    pub traffic: CrossTraffic,
    /// When it started, its phase included; `None` if it has not started yet.
    pub started: Option<Duration>,
    /// When it ended, if it has.
    pub stopped: Option<Duration>,
    /// Bytes that the receiver has read in order, until the flow ended.
    pub delivered: u64,
    /// The sender's statistics.
    pub sender: ConnectionStats,
    /// When and why the connection was lost, if it was lost before the flow ended.
    pub lost: Option<Duration>,
}

impl CrossReport {
    /// Delivered bits per second from its start to its end, or to `now`. 0 before the start.
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

/// Sends zeros on one stream as long as the connection lasts.
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
            match cx
                .connection
                .send_stream(stream)
                .write_chunk(&mut self.left)
            {
                Ok(_) => {}
                Err(WriteError::Blocked) => return Ok(()),
                Err(WriteError::Stopped(code)) => {
                    return Err(AppError::GivenUp { stream, code });
                }
                // The connection is closing.
                Err(_) => {
                    self.stream = None;
                    return Ok(());
                }
            }
        }
    }
}

impl App for Source {
    fn on_event(&mut self, cx: &mut AppContext<'_>, event: &Event) -> Result<(), AppError> {
        match event {
            Event::Connected => self.stream = cx.connection.streams().open(Dir::Uni),
            Event::Stream(StreamEvent::Available { .. }) if self.stream.is_none() => {
                self.stream = cx.connection.streams().open(Dir::Uni);
            }
            Event::Stream(StreamEvent::Writable { .. }) => {}
            _ => return Ok(()),
        }
        self.pump(cx)
    }
}

/// Reads and discards all data.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Sink;

impl App for Sink {
    fn on_event(&mut self, cx: &mut AppContext<'_>, event: &Event) -> Result<(), AppError> {
        let stream = match *event {
            Event::Stream(StreamEvent::Opened { dir }) => match cx.connection.streams().accept(dir)
            {
                Some(stream) => stream,
                None => return Ok(()),
            },
            Event::Stream(StreamEvent::Readable { id }) => id,
            _ => return Ok(()),
        };
        loop {
            match cx.read(stream, CHUNK) {
                Ok(Some(_)) => {}
                Err(ReadError::Reset(code)) => return Err(AppError::GivenUp { stream, code }),
                Ok(None) | Err(_) => return Ok(()),
            }
        }
    }
}

/// The code with which a flow of cross traffic closes its connection.
pub(crate) const OVER: VarInt = VarInt::from_u32(0);
