//! What runs on top of a connection in the simulator: the trait, and what an application may do.

use std::any::Any;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use bytes::Bytes;
use mpquic_proto::{Connection, Event, ReadError, Side, StreamId};

use crate::AppError;
use crate::observe::StallTracker;
use crate::trace::Delivery;

/// An application on one side of the connection. Its state can be looked at after the run with
/// [`Network::app`](crate::Network::app).
pub trait App: Any {
    /// The connection has something to say.
    ///
    /// # Errors
    ///
    /// What it finds wrong ends the run as [`SimError::Integrity`](crate::SimError::Integrity).
    fn on_event(&mut self, cx: &mut AppContext<'_>, event: &Event) -> Result<(), AppError>;

    /// When to call [`on_wakeup`](Self::on_wakeup); only heeded while there is a connection.
    fn next_wakeup(&self) -> Option<Duration> {
        None
    }

    /// The time of [`next_wakeup`](Self::next_wakeup) has come: it must move on.
    ///
    /// # Errors
    ///
    /// As of [`on_event`](Self::on_event).
    fn on_wakeup(&mut self, _cx: &mut AppContext<'_>) -> Result<(), AppError> {
        Ok(())
    }

    /// Whether the run may end, as far as this side is concerned.
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

/// What an application has at hand.
pub struct AppContext<'a> {
    /// Its connection. Read streams with [`read`](AppContext::read) so that the trace sees it.
    pub connection: &'a mut Connection,
    pub(crate) now: Duration,
    pub(crate) instant: Instant,
    pub(crate) paths_expected: usize,
    pub(crate) ledger: &'a mut Ledger,
}

impl AppContext<'_> {
    /// The virtual time.
    pub const fn now(&self) -> Duration {
        self.now
    }

    /// The virtual time as the protocol wants it.
    pub const fn instant(&self) -> Instant {
        self.instant
    }

    /// How many paths this side will have opened, the handshake's included, as far as it was told
    /// before the run; 1 on the server.
    pub const fn paths_expected(&self) -> usize {
        self.paths_expected
    }

    /// Reads from a stream and enters it in the trace; `Ok(None)` is the end.
    ///
    /// # Errors
    ///
    /// The connection's.
    pub fn read(&mut self, stream: StreamId, max: usize) -> Result<Option<Bytes>, ReadError> {
        let chunk = self.connection.read_chunk(stream, max)?;
        let len = chunk.as_ref().map_or(0, Bytes::len);
        self.ledger.enter(self.now, stream, len);
        Ok(chunk)
    }
}

/// What one application has read.
pub(crate) struct Ledger {
    flow: usize,
    side: Side,
    offsets: BTreeMap<StreamId, u64>,
    /// Not yet in the trace.
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
