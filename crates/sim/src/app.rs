//! The `App` trait: what runs on top of a connection in the simulator, and what it may use.

use std::any::Any;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use bytes::Bytes;
use mpquic_proto::{Connection, Event, ReadError, Side, StreamId};

use crate::AppError;
use crate::observe::StallTracker;
use crate::trace::Delivery;

/// An application on one side of the connection. After the run,
/// [`Network::app`](crate::Network::app) gives access to its state.
pub trait App: Any {
    /// Handles an event of the connection.
    ///
    /// # Errors
    ///
    /// An error ends the run with [`SimError::Integrity`](crate::SimError::Integrity).
    fn on_event(&mut self, cx: &mut AppContext<'_>, event: &Event) -> Result<(), AppError>;

    /// The time of the next call of [`on_wakeup`](Self::on_wakeup), if any. The simulator ignores
    /// it while there is no connection.
    fn next_wakeup(&self) -> Option<Duration> {
        None
    }

    /// The time that [`next_wakeup`](Self::next_wakeup) returned has come. The implementation must
    /// set a later time or none, or virtual time stops.
    ///
    /// # Errors
    ///
    /// See [`on_event`](Self::on_event).
    fn on_wakeup(&mut self, _cx: &mut AppContext<'_>) -> Result<(), AppError> {
        Ok(())
    }

    /// Whether this side allows the run to end.
    fn is_complete(&self) -> bool {
        true
    }
}

/// An application that does nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct Idle;

impl App for Idle {
    fn on_event(&mut self, _cx: &mut AppContext<'_>, _event: &Event) -> Result<(), AppError> {
        Ok(())
    }
}

/// What an application can use.
pub struct AppContext<'a> {
    /// The application's connection. Read streams with [`read`](AppContext::read), which records
    /// the data in the trace.
    pub connection: &'a mut Connection,
    pub(crate) now: Duration,
    pub(crate) instant: Instant,
    pub(crate) paths_expected: usize,
    pub(crate) ledger: &'a mut Ledger,
}

impl AppContext<'_> {
    /// The virtual time since the start of the run.
    pub const fn now(&self) -> Duration {
        self.now
    }

    /// The virtual time as an [`Instant`], which the protocol's functions take.
    pub const fn instant(&self) -> Instant {
        self.instant
    }

    /// How many paths this side will open in total, the handshake's included, according to what was
    /// configured before the run. 1 on the server.
    pub const fn paths_expected(&self) -> usize {
        self.paths_expected
    }

    /// Reads from a stream and records the data in the trace. `Ok(None)` is the end of the stream.
    ///
    /// # Errors
    ///
    /// See [`ReadError`].
    pub fn read(&mut self, stream: StreamId, max: usize) -> Result<Option<Bytes>, ReadError> {
        let chunk = self.connection.recv_stream(stream).read_chunk(max)?;
        let len = chunk.as_ref().map_or(0, Bytes::len);
        self.ledger.enter(self.now, stream, len);
        Ok(chunk)
    }
}

/// What one application has read so far.
pub(crate) struct Ledger {
    flow: usize,
    side: Side,
    offsets: BTreeMap<StreamId, u64>,
    /// Not in the trace yet.
    pub(crate) pending: Vec<Delivery>,
    pub(crate) stalls: StallTracker,
    pub(crate) delivered: u64,
}

impl Ledger {
    pub(crate) const fn new(flow: usize, side: Side) -> Self {
        Self {
            flow,
            side,
            offsets: BTreeMap::new(),
            pending: Vec::new(),
            stalls: StallTracker::new(),
            delivered: 0,
        }
    }

    fn enter(&mut self, now: Duration, stream: StreamId, len: usize) {
        let offset = self.offsets.entry(stream).or_default();
        self.pending.push(Delivery {
            at: now,
            flow: self.flow,
            side: self.side,
            stream,
            offset: *offset,
            len,
        });
        *offset += len as u64;
        if len > 0 {
            self.delivered += len as u64;
            self.stalls.on_delivery(now);
        } else {
            self.offsets.remove(&stream);
        }
    }
}
