//! How a connection ends (RFC 9000 section 10): what closing means for its parts.

use std::time::Instant;

use super::{Connection, Event};
use crate::closing::{CloseFrame, Remains};
use crate::events::EndpointEvent;
use crate::path::Path;
use crate::{ConnectionError, Observation, TransportError};

impl Connection {
    /// The peer broke the protocol, or we cannot go on: tell it, then wait three PTOs.
    //= specs/rfc9000.txt#section-10.3
    //# An endpoint that wishes to communicate a fatal connection error MUST use a CONNECTION_CLOSE
    //# frame if it is able.
    pub(crate) fn fail(&mut self, now: Instant, error: TransportError) {
        self.start_closing(now, CloseFrame::Transport(error), true);
    }

    pub(crate) fn start_closing(&mut self, now: Instant, close: CloseFrame, tell: bool) {
        if !self.state.is_alive() {
            return;
        }
        self.data.end_scheduling();
        //= specs/rfc10069-draft.md#connection-closure
        //# When this specification is used, these states SHOULD instead persist for at least three
        //# times the largest PTO among all paths.
        //= specs/rfc10069-draft.md#connection-closure
        //# {{Section 10.2 of QUIC-TRANSPORT}} specifies that the closing and draining connection
        //# states "SHOULD persist for at least three times the current PTO".
        //= specs/rfc9000.txt#section-10.2
        //# These states SHOULD persist for at least three times the current PTO interval as defined
        //# in [QUIC-RECOVERY].
        let until = now + 3 * self.paths.largest_pto();
        let told = |path: &&Path| path.is_validated() || path.send_limit() > 0;
        let due = self.paths.iter().filter(told).map(|path| path.index);
        let due = due.collect();
        let reason = close.reason();
        self.state.close(close, until, due);
        self.release_memory();
        self.watch.note(now, Observation::Closed(&reason));
        if tell {
            self.events.push_back(Event::ConnectionLost { reason });
        }
    }

    /// The peer closed, or lost its state (RFC 9000 section 10.2.2): nothing is sent any more; datagrams on their way still
    /// find us for three PTOs.
    pub(crate) fn drain(&mut self, now: Instant, reason: ConnectionError) {
        let was_alive = self
            .state
            .drain(now + 3 * self.paths.largest_pto(), &reason);
        self.data.end_scheduling();
        self.release_memory();
        if was_alive {
            self.watch.note(now, Observation::Closed(&reason));
            self.events.push_back(Event::ConnectionLost { reason });
        }
        if self.side.is_client() && !self.handshake.is_complete() {
            self.end_quietly(now);
        }
    }

    /// The connection is over before three PTOs have passed, which are three seconds without a sample of the RTT. Its endpoint
    /// drops what still comes for it.
    //= specs/rfc9000.txt#section-10.2
    //# Endpoints that have some alternative means to ensure that late-arriving packets do not induce
    //# a response, such as those that are able to close the UDP socket, MAY end these states earlier
    //# to allow for faster resource recovery.
    pub(crate) fn end_quietly(&mut self, now: Instant) {
        let cid = self.handshake.scid();
        // A connection with an ID of length zero has the endpoint to itself, and its next one has the same ID.
        if !cid.is_empty() {
            self.endpoint_events
                .push_back(EndpointEvent::RetireCidQuietly(cid, now));
        }
        self.end(now, None);
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

    /// What the connection's scheduler is called ([`Scheduler::name`](mpquic_sched_core::Scheduler::name)).
    pub fn scheduler_name(&self) -> &'static str {
        self.data.scheduler_name()
    }

    /// Over at once: idle timeout, or the closing period has passed.
    pub(crate) fn end(&mut self, now: Instant, reason: Option<ConnectionError>) {
        if let Some(reason) = reason {
            self.watch.note(now, Observation::Closed(&reason));
            self.state.set_lost_reason(reason.clone());
            self.events.push_back(Event::ConnectionLost { reason });
        }
        self.data.end_scheduling();
        self.release_memory();
        if self.state.end() {
            self.endpoint_events.push_back(EndpointEvent::Drained);
        }
    }

    /// Nothing more is sent or decrypted: what was kept for that goes. What was received can still be read.
    fn release_memory(&mut self) {
        self.handshake.on_closed();
        self.data.streams_mut().on_closed();
        for path in self.paths.iter_mut() {
            path.leave_memory();
        }
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
