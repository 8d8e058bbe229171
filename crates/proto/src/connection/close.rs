//! How a connection ends (RFC 9000 section 10); builds no packets.

use std::time::{Duration, Instant};

use mpquic_sched_core::{PathIndex, PathSet, TransportErrorCode};

use super::state::{CloseFrame, reason};
use super::{Connection, Event};
use crate::endpoint::{EndpointEvent, Remains};
use crate::{ApplicationClose, ConnectionClose, ConnectionError, Observation, TransportError};

impl Connection {
    /// The peer broke the protocol, or we cannot go on: tell it, then wait three PTOs.
    //= specs/rfc9000.txt#section-10.3
    //# An endpoint that wishes to communicate a fatal connection error MUST use a CONNECTION_CLOSE
    //# frame if it is able.
    pub(crate) fn fail(&mut self, now: Instant, error: TransportError) {
        self.start_closing(now, CloseFrame::Transport(error), true);
    }

    pub(crate) fn start_closing(&mut self, now: Instant, close: CloseFrame, tell: bool) {
        let reason = reason(&close);
        self.start_closing_for(now, close, reason, tell);
    }

    /// The peer takes what was written too slowly.
    pub(crate) fn close_too_slow(&mut self, now: Instant) {
        let error = TransportError::new(TransportErrorCode::NO_ERROR, "too slow");
        let close = CloseFrame::Transport(error);
        self.start_closing_for(now, close, ConnectionError::TooSlow, true);
    }

    fn start_closing_for(
        &mut self,
        now: Instant,
        close: CloseFrame,
        reason: ConnectionError,
        tell: bool,
    ) {
        if !self.state.is_alive() {
            return;
        }
        self.schedule.end();
        //= specs/rfc10069-draft.md#connection-closure
        //# When this specification is used, these states SHOULD instead persist for at least three
        //# times the largest PTO among all paths.
        //= specs/rfc10069-draft.md#connection-closure
        //# {{Section 10.2 of QUIC-TRANSPORT}} specifies that the closing and draining connection
        //# states "SHOULD persist for at least three times the current PTO".
        //= specs/rfc9000.txt#section-10.2
        //# These states SHOULD persist for at least three times the current PTO interval as defined
        //# in [QUIC-RECOVERY].
        self.state.close(close, now + 3 * self.largest_pto());
        self.close_due = self
            .paths
            .iter()
            .filter(|path| path.is_validated() || path.send_limit() > 0)
            .map(|path| path.index)
            .collect();
        self.received_since_close = 0;
        self.release_memory();
        self.note(now, Observation::Closed(&reason));
        self.lost_reason = Some(reason.clone());
        if tell {
            self.events.push_back(Event::ConnectionLost { reason });
        }
    }

    /// The peer closed (RFC 9000 section 10.2.2).
    pub(crate) fn on_peer_close(
        &mut self,
        now: Instant,
        close: Result<ApplicationClose, ConnectionClose>,
    ) {
        let reason = match close {
            Ok(close) => ConnectionError::ApplicationClosed(close),
            Err(close) => ConnectionError::ConnectionClosed(close),
        };
        self.drain(now, reason);
    }

    /// Nothing is sent any more; datagrams on their way still find us for three PTOs.
    pub(crate) fn drain(&mut self, now: Instant, reason: ConnectionError) {
        let was_alive = self.state.is_alive();
        self.state.drain(now + 3 * self.largest_pto());
        //= specs/rfc9000.txt#section-10.2.2
        //# While otherwise identical to the closing state, an endpoint in the draining state MUST
        //# NOT send any packets.
        //= specs/rfc9000.txt#section-10.2.2
        //# An endpoint MUST NOT send further packets.
        self.close_due = PathSet::EMPTY;
        self.schedule.end();
        self.release_memory();
        if was_alive {
            self.note(now, Observation::Closed(&reason));
            self.lost_reason = Some(reason.clone());
            self.events.push_back(Event::ConnectionLost { reason });
        }
        if self.side.is_client() && !self.handshake.is_complete() {
            self.end_quietly(now);
        }
    }

    /// The peer is told, if it is there. If it was never heard of, it asks for no repetition.
    pub(crate) fn leave_unheard(&mut self, now: Instant) {
        let unheard = self.side.is_client() && !self.received_any;
        if unheard && self.close_due.is_empty() && self.state.is_closing() {
            self.end_quietly(now);
        }
    }

    /// The connection is over before three PTOs have passed, which are three seconds without a sample of the RTT. Its endpoint
    /// drops what still comes for it.
    //= specs/rfc9000.txt#section-10.2
    //# Endpoints that have some alternative means to ensure that late-arriving packets do not induce
    //# a response, such as those that are able to close the UDP socket, MAY end these states earlier
    //# to allow for faster resource recovery.
    fn end_quietly(&mut self, now: Instant) {
        let cid = self.handshake_scid;
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
        self.schedule.abandon();
        self.race = None;
        // It may be what has failed.
        std::mem::forget(self.observer.take());
        let error = TransportError::internal(reason.to_owned());
        self.fail(now, error.clone());
        error
    }

    /// What the connection's scheduler is called ([`Scheduler::name`](mpquic_sched_core::Scheduler::name)).
    pub fn scheduler_name(&self) -> &'static str {
        self.schedule.name()
    }

    /// Over at once: idle timeout, or the closing period has passed.
    pub(crate) fn end(&mut self, now: Instant, reason: Option<ConnectionError>) {
        if let Some(reason) = reason {
            self.note(now, Observation::Closed(&reason));
            self.lost_reason = Some(reason.clone());
            self.events.push_back(Event::ConnectionLost { reason });
        }
        self.schedule.end();
        self.release_memory();
        if self.state.end() {
            self.endpoint_events.push_back(EndpointEvent::Drained);
        }
    }

    /// Nothing more is sent or decrypted: what was kept for that goes. What was received can still be read.
    fn release_memory(&mut self) {
        self.counted = None;
        self.handshake.undecryptable.clear();
        self.streams.on_closed();
        for path in self.paths.iter_mut() {
            path.leave_memory();
        }
    }

    /// What is enough to keep of a connection that is over for everybody but packets that may still come, so that it can be
    /// dropped: [`Endpoint::keep_remains`](crate::Endpoint::keep_remains) answers them in its place. `None` if it is not that far:
    /// first, all is to be polled. A connection that told its peer on several paths keeps itself, for its answers differ by path.
    pub fn remains(&mut self) -> Option<Remains> {
        let until = self.state.timer()?;
        if self.race.is_some() || !self.close_due.is_empty() || !self.endpoint_events.is_empty() {
            return None;
        }
        let mut remains = Remains {
            until,
            close: Box::default(),
            sent: self.idle_since,
            round_trip: Duration::ZERO,
            received: self.received_since_close,
        };
        if self.state.is_closing() {
            let path = self.paths.iter().next()?;
            if self.paths.open_count() > 1 || self.last_close.is_empty() {
                return None;
            }
            remains.sent = self.close_sent?;
            if path.rtt().has_sample() {
                remains.round_trip = path.rtt().smoothed();
            }
            remains.close = std::mem::take(&mut self.last_close);
        }
        Some(remains)
    }

    /// A packet came while closing: answer it, ever more rarely (RFC 9000 section 10.2.1).
    pub(crate) fn on_received_while_closing(&mut self, path: PathIndex) {
        self.received_since_close += 1;
        //= specs/rfc9000.txt#section-10.2.1
        //# An endpoint SHOULD limit the rate at which it generates packets in the closing state.
        //= specs/rfc9000.txt#section-11.1
        //# An endpoint SHOULD be prepared to retransmit a packet containing a CONNECTION_CLOSE
        //# frame if it receives more packets on a terminated connection.
        if self.received_since_close.is_power_of_two() {
            self.close_due.insert(path);
        }
    }
}
