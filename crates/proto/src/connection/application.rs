//! The application's calls about the connection, and its handles for streams and datagrams.

use std::time::Instant;

use bytes::Bytes;
use mpquic_sched_core::{StreamId, VarInt};

use super::Connection;
use crate::closing::CloseFrame;
use crate::data::{Datagrams, RecvStream, SendStream, Streams};
use crate::{ApplicationClose, ConnectionError, Session, ThroughputForecast};

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

    /// Whether this connection sends, or has sent, early data (0-RTT): a client that resumes a session,
    /// if its TLS configuration enables early data and the server's ticket allows it. On servers,
    /// whether early data was accepted.
    ///
    /// A client can open streams and write to them from the start then. What it writes before the
    /// handshake is complete can be read by the server twice and more: whoever recorded the packets can
    /// send them again, to the same server or to another one of the same service. Write only what does
    /// no harm when it is repeated (RFC 9001 section 9.2).
    pub fn has_0rtt(&self) -> bool {
        self.handshake.early_data().is_used()
    }

    /// Whether the server has accepted early data. On clients, false until the handshake is complete.
    pub fn accepted_0rtt(&self) -> bool {
        self.handshake.early_data().is_accepted()
    }

    /// Whether the server has rejected this client's early data. Streams that were opened before
    /// [`Event::Connected`](crate::Event::Connected) are gone then, with all that was written to them, and so are
    /// datagrams; their IDs are given to the streams that are opened from then on.
    pub fn rejected_0rtt(&self) -> bool {
        self.handshake.early_data().is_rejected()
    }

    /// On servers, whether data of this stream came in 0-RTT packets, so that it may be a repetition of
    /// what another connection brought before. False once the stream was read to its end.
    pub fn is_0rtt(&self, id: StreamId) -> bool {
        self.has_0rtt() && self.data.streams().is_early(id)
    }

    /// Starts a key update (RFC 9001 section 6). Does nothing if one is in progress or if it is too
    /// early.
    //= specs/rfc9001.txt#section-6.1
    //# An endpoint MUST NOT initiate a key update prior to having confirmed the handshake (Section
    //# 4.1.2).
    pub fn force_key_update(&mut self, now: Instant) {
        if self.handshake.is_confirmed()
            && let Some(keys) = self.handshake.one_rtt_mut()
        {
            keys.initiate_update(now);
        }
    }

    /// Sends a PING on every open path.
    pub fn ping(&mut self) {
        for path in self.paths.iter_mut() {
            path.request_ping();
        }
    }

    /// What the connection may be expected to carry: by what it carried lately.
    pub fn forecast(&self) -> ThroughputForecast {
        let usable = self.paths.iter().filter(|path| !path.is_suspect());
        let rates = usable.map(|path| path.stats(self.paths.controller()).delivery_rate);
        let send: u64 = rates.sum();
        let (receive, receive_low) = self.receive_rate.forecast();
        ThroughputForecast {
            receive,
            receive_low,
            send: (send > 0).then_some(send),
        }
    }

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
