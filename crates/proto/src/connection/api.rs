//! The application's calls: about the connection, its addresses and its scheduler, and handles for streams, datagrams and paths.

use std::time::Instant;

use bytes::Bytes;
use mpquic_sched_core::{MAX_PATHS, PathUpdateKind, Scheduler, Side, StreamId, VarInt};
use mpquic_wire::packet::Version;
use smallvec::SmallVec;

use super::{Connection, PathMut};
use crate::closing::{CloseFrame, Remains};
use crate::data::{Datagrams, RecvStream, SchedulerRef, SendStream, SpareBuffers, Streams};
use crate::handshake::Refused;
use crate::path::Path;
use crate::{
    ApplicationClose, ConnectionError, ConnectionStats, FourTuple, PathError, PathId, PathRef,
    PathsRef, Session, ThroughputForecast, TransportError,
};

/// The connection.
impl Connection {
    /// Closes the connection with the application's code and reason (RFC 9000 section 10.2). Does
    /// nothing if it is closed already.
    pub fn close(&mut self, now: Instant, code: VarInt, reason: Bytes) {
        let close = CloseFrame::Application(ApplicationClose {
            error_code: code,
            reason,
        });
        self.with_race(|race, own| race.give_up(own, now));
        self.start_closing(now, close, false);
    }

    /// The program has failed at its work for this connection, as by a panic of a scheduler: it cannot go on. Closes with
    /// INTERNAL_ERROR and this reason, and calls nothing of the application's any more. Returns the error.
    pub fn abort(&mut self, now: Instant, reason: &str) -> TransportError {
        self.data.abandon_scheduler();
        self.race = None;
        self.handshake.set_attempt(None);
        self.watch.abandon_observer();
        let error = TransportError::internal(reason.to_owned());
        self.fail(now, error.clone());
        error
    }

    /// Whether the connection is closing, draining or drained.
    pub fn is_closed(&self) -> bool {
        !self.state.is_alive()
    }

    /// Whether the connection is over: it has nothing to send and nothing to wait for.
    pub fn is_drained(&self) -> bool {
        self.state.is_drained()
    }

    /// Whether the TLS handshake is incomplete.
    pub fn is_handshaking(&self) -> bool {
        self.state.is_handshaking()
    }

    /// Whether the handshake is confirmed (RFC 9001 section 4.1.2).
    pub fn is_handshake_confirmed(&self) -> bool {
        self.handshake.is_confirmed()
    }

    /// Why the connection ended, if it has.
    pub fn lost_reason(&self) -> Option<&ConnectionError> {
        self.state.lost_reason()
    }

    /// The TLS session: what the handshake agreed on, and keys for the application.
    pub fn session(&self) -> &Session {
        self.handshake.session()
    }

    /// The version of QUIC.
    pub fn version(&self) -> Version {
        self.handshake.version()
    }

    /// The span in which the connection's `tracing` events are: those who log of it may enter it. Disabled if nobody read
    /// at `debug` when the connection began.
    pub fn span(&self) -> &tracing::Span {
        self.watch.span()
    }

    /// Client or server.
    pub fn side(&self) -> Side {
        self.side
    }

    /// Figures of the whole connection.
    pub fn stats(&self) -> ConnectionStats {
        let mut stats = self.totals;
        self.paths.add_stats(&mut stats);
        self.data.add_stats(&mut stats);
        stats.key_updates = self.handshake.key_updates();
        stats
    }

    /// Starts a key update (RFC 9001 section 6). Does nothing if one is in progress or if it is too
    /// early.
    pub fn force_key_update(&mut self, now: Instant) {
        self.handshake.update_keys(now);
    }

    /// Sends a PING on every open path.
    pub fn ping(&mut self) {
        for path in self.paths.iter_mut() {
            path.request_ping();
        }
    }

    /// What the connection may be expected to carry: by what it carried lately.
    pub fn forecast(&self) -> ThroughputForecast {
        self.data.forecast(self.paths.delivery_rate())
    }

    /// Exchanges the free buffers in which batches for further paths are built, before and after
    /// [`poll_transmit`](Self::poll_transmit): the connection uses those that it is lent, and holds none in between.
    ///
    /// Drivers need not call it. A connection then keeps buffers of its own until it is at rest.
    pub fn swap_spare_buffers(&mut self, buffers: &mut SpareBuffers) {
        self.data.swap_spare(buffers);
    }

    /// What is enough to keep of a connection that is over for everybody but packets that may still come, so that it can be
    /// dropped: [`Endpoint::keep_remains`](crate::Endpoint::keep_remains) answers them in its place. `None` if it is not that far:
    /// first, all is to be polled. A connection that told its peer on several paths keeps itself, for its answers differ by path.
    pub fn remains(&mut self) -> Option<Remains> {
        if self.handshake.attempt().is_some() || !self.endpoint_events.is_empty() {
            return None;
        }
        let alone = self.paths.open_count() == 1;
        let only = self.paths.iter().next().filter(|_| alone);
        self.state.remains(self.idle.since(), only.map(Path::rtt))
    }
}

/// Streams and datagrams.
impl Connection {
    /// The streams as a whole: opens and accepts them, and sets their limits.
    ///
    /// ```
    /// use mpquic_proto::{Connection, Dir};
    ///
    /// fn greet(connection: &mut Connection) {
    ///     if let Some(id) = connection.streams().open(Dir::Uni) {
    ///         let mut stream = connection.send_stream(id);
    ///         assert_eq!(stream.write(b"hello"), Ok(5));
    ///         assert_eq!(stream.finish(), Ok(()));
    ///     }
    /// }
    /// ```
    pub fn streams(&mut self) -> Streams<'_> {
        let closed = self.is_closed();
        self.data.streams_handle(closed)
    }

    /// The half of a stream that we write. Its methods tell if there is none.
    #[inline]
    pub fn send_stream(&mut self, id: StreamId) -> SendStream<'_> {
        let closed = self.is_closed();
        self.data.send_stream(id, closed)
    }

    /// The half of a stream that we read. Its methods tell if there is none.
    #[inline]
    pub fn recv_stream(&mut self, id: StreamId) -> RecvStream<'_> {
        self.data.recv_stream(id)
    }

    /// The datagrams: sends and receives them.
    pub fn datagrams(&mut self) -> Datagrams<'_> {
        let early =
            self.side.is_client() && self.state.is_handshaking() && self.handshake.has_early_keys();
        self.data.datagrams_handle(&self.paths, early)
    }
}

/// Paths and addresses.
impl Connection {
    /// Opens a path. Only clients can, after the handshake
    /// ([`TransportConfig::path_start`](crate::TransportConfig::path_start)).
    /// [`PathEvent::Opened`](crate::PathEvent::Opened) follows when the peer's address is validated,
    /// [`PathEvent::Abandoned`](crate::PathEvent::Abandoned) if it cannot be.
    ///
    /// # Errors
    ///
    /// See [`PathError`]. If the peer's path limit is reached or it has issued no connection IDs, the
    /// peer is told, and [`PathEvent::Available`](crate::PathEvent::Available) is emitted when the path can be opened.
    pub fn open_path(&mut self, now: Instant, tuple: FourTuple) -> Result<PathId, PathError> {
        if self.is_closed() {
            return Err(PathError::Closed);
        }
        let (rng, events) = (&mut self.rng, &mut self.endpoint_events);
        let (id, index) = self.paths.open(now, tuple, rng, events)?;
        self.data.on_new_path(index);
        self.tell_scheduler(now, index, PathUpdateKind::Opened);
        Ok(id)
    }

    /// An open path, to be read.
    ///
    /// # Errors
    ///
    /// If the path is not open.
    pub fn path(&self, id: PathId) -> Result<PathRef<'_>, PathError> {
        self.paths.path_handle(id)
    }

    /// A path, to be changed. Its methods tell if it is not open.
    pub fn path_mut(&mut self, id: PathId) -> PathMut<'_> {
        PathMut::new(self, id)
    }

    /// The paths as a whole: which are open, and what concerns all of them.
    pub fn paths(&self) -> PathsRef<'_> {
        self.paths.handle()
    }

    /// Issues new connection IDs for all paths, and asks the peer to retire those that it has. For when the
    /// [generator](crate::ConnectionIdGenerator) makes other ones from now on. Does nothing before the connection is
    /// established, nor for paths of which the peer has not retired those of the last time.
    pub fn replace_connection_ids(&mut self) {
        if self.state.is_established() {
            let (rng, events) = (&mut self.rng, &mut self.endpoint_events);
            self.paths.replace_cids(rng, events);
        }
    }

    /// No socket can send from the address of the last path, nor will one: the connection is over, and `reason` is why it
    /// cannot go on from another address. The peer cannot be told. A connection that is closed already is over, too: nobody can
    /// be told again. One that begins on several addresses goes on with the others.
    pub fn lose_address(&mut self, now: Instant, network_path: FourTuple, reason: PathError) {
        if self.handshake.attempt().is_some() && self.state.is_handshaking() {
            return self.handle_send_error(now, network_path, "its socket is closed");
        }
        let local = network_path.local;
        let lost = ConnectionError::LocalAddressLost { local, reason };
        self.end(now, Some(lost).filter(|_| self.state.is_alive()));
    }

    /// Ends the race before it is decided: the connection goes on from the address that it began on, and no further
    /// attempts are made. For applications that are about to send early data, which belongs to one attempt.
    pub fn end_race(&mut self) {
        if let Some(attempt) = self.handshake.attempt_mut() {
            attempt.end();
        }
        if let Some(race) = &mut self.race {
            race.end();
        }
    }

    /// The system refuses to send from this address to that one, for a reason that will not pass at once, such as an
    /// unreachable network. `why` is the reason in words. Matters only while the connection begins: it does so on the other
    /// addresses then.
    pub fn handle_send_error(&mut self, now: Instant, network_path: FourTuple, why: &str) {
        let attempt = self.handshake.attempt_mut();
        let Some(attempt) = attempt.filter(|_| self.state.is_handshaking()) else {
            return self.settle_race(now);
        };
        match attempt.refuse(&network_path, why) {
            Refused::Nothing => {}
            Refused::GoOn(next) => self.paths.begin_on(next),
            Refused::All => self.end(now, Some(ConnectionError::TimedOut)),
        }
        if let Some(race) = &mut self.race {
            race.handle_send_error(now, network_path, why);
        }
        self.settle_race(now);
    }
}

/// The scheduler.
impl Connection {
    /// The scheduler: what it is called, and what it has learned.
    pub fn scheduler(&self) -> SchedulerRef<'_> {
        self.data.scheduler_handle(&self.paths)
    }

    /// Schedules by this one from now on. It is told of the open paths and of the streams that are not delivered as if they had just come: `Opened`,
    /// `Validated`, `Status` and `Suspect` of paths; `Opened`, `Hint`, `Written` (all that was written so far) and `Finished` of streams.
    /// What was sent before stays as it is: nothing is lost or sent twice for it. Acknowledgements of it reach the new scheduler, with
    /// numbers of decisions that it did not make.
    ///
    /// What the old one has learned goes with it, but for what it leaves in a memory. Does nothing once the connection is over.
    pub fn set_scheduler(&mut self, now: Instant, scheduler: Box<dyn Scheduler>) {
        if self.is_closed() {
            return;
        }
        self.data.replace_scheduler(now, scheduler);
        let paths = self.paths.iter().map(|path| {
            let status = path.status().effective();
            (path.index, path.is_validated(), status, path.is_suspect())
        });
        let paths: SmallVec<[_; MAX_PATHS]> = paths.collect();
        for (index, validated, status, suspect) in paths {
            self.tell_scheduler(now, index, PathUpdateKind::Opened);
            if validated {
                self.tell_scheduler(now, index, PathUpdateKind::Validated);
            }
            self.tell_scheduler(now, index, PathUpdateKind::Status(status));
            if suspect {
                self.tell_scheduler(now, index, PathUpdateKind::Suspect);
            }
        }
        self.data.tell_of_streams();
    }
}
