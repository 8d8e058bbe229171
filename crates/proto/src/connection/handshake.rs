//! What the progress of the handshake means for the rest of the connection: parameters, confirmation, the extension
//! negotiated, early data taken or not.

use std::time::Instant;

use mpquic_sched_core::{ConnectionId, PathUpdateKind, Side, StreamId, TransportErrorCode};

use super::{Connection, Event};
use crate::config::PathStart;
use crate::events::{DatagramMeta, EndpointEvent};
use crate::handshake::Progress;
use crate::space::SpaceId;
use crate::transport_parameters::TransportParameters;
use crate::{FourTuple, Observation, Parameters, PathEvent, PathId, TransportError};

/// What the application may ask.
impl Connection {
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

    /// Whether the TLS session is one of an earlier connection. False until the handshake data is known.
    pub fn is_resumed(&self) -> bool {
        self.handshake.session().is_resumed()
    }
}

/// What came.
impl Connection {
    /// A CRYPTO frame.
    pub(crate) fn on_crypto(
        &mut self,
        now: Instant,
        space_id: SpaceId,
        offset: u64,
        data: &[u8],
    ) -> Result<(), TransportError> {
        let progress = self
            .handshake
            .on_crypto(space_id, offset, data, &self.peer)?;
        let Progress {
            parameters,
            early_data_rejected,
            early_answers,
            complete,
            decryptable,
        } = progress;
        if early_data_rejected {
            //= specs/rfc9002.txt#section-6.4
            //# When 0-RTT is rejected, recovery state for all in-flight 0-RTT packets is discarded.
            if let Some(path) = self.paths.get_mut(PathId::ZERO) {
                path.discard_in_flight();
                if let Some((number, _)) = path.next_number() {
                    self.handshake.reject_early_data_below(number);
                }
            }
            //= specs/rfc9001.txt#section-4.6.2
            //# The client therefore MUST reset the state of all streams, including application state
            //# bound to those streams.
            self.data.start_over(&self.config);
        }
        if let Some(peer) = parameters {
            self.on_parameters(now, *peer)?;
        }
        // RFC 10069: used once the handshake is complete, if both sides sent initial_max_path_id. A server that issues
        // connection IDs before that does so in packets that its client cannot read earlier.
        if early_answers
            && self.side == Side::Server
            && self.config.path_start == PathStart::Complete
        {
            self.paths.start_multipath(self.peer.initial_max_path_id);
            self.paths
                .issue_early_cids(&mut self.rng, &mut self.endpoint_events);
        }
        if complete {
            self.on_handshake_complete(now)?;
        }
        if decryptable {
            self.retry_undecryptable(now);
        }
        Ok(())
    }

    /// The peer's transport parameters are known.
    fn on_parameters(
        &mut self,
        now: Instant,
        peer: TransportParameters,
    ) -> Result<(), TransportError> {
        if peer.grease_quic_bit && self.endpoint_config.grease_quic_bit {
            let seed = self.paths.reset_token(&self.handshake.scid());
            self.quic_bit.start(seed);
        }
        //= specs/rfc9000.txt#section-7.4.1
        //# The client MUST use the server's new values in the handshake instead; if the server does
        //# not provide new values, the default values are used.
        self.peer = peer;
        self.paths.set_peer(&self.peer, &mut self.endpoint_events)?;
        self.data.set_peer_params(&self.peer);
        self.watch.note(
            now,
            Observation::Parameters(Parameters::of(&self.peer, true)),
        );
        self.events.push_back(Event::HandshakeDataReady);
        Ok(())
    }

    /// TLS is complete (RFC 9001 section 4.1.1).
    fn on_handshake_complete(&mut self, now: Instant) -> Result<(), TransportError> {
        if let Some(counted) = &mut self.counted
            && !counted.enter()
        {
            //= specs/rfc9000.txt#section-5.2.2
            //# If a server refuses to accept a new connection, it SHOULD send an Initial packet
            //# containing a CONNECTION_CLOSE frame with error code CONNECTION_REFUSED.
            // Others were faster, while the handshake was under way.
            return Err(TransportError::new(
                TransportErrorCode::CONNECTION_REFUSED,
                "too many connections",
            ));
        }
        self.state.establish();
        self.handshake.complete();
        self.events.push_back(Event::Connected);
        self.watch.note(now, Observation::HandshakeComplete);
        self.paths.start_multipath(self.peer.initial_max_path_id);
        if self.side == Side::Server {
            self.endpoint_events
                .push_back(EndpointEvent::HandshakeComplete);
            self.on_address_proven(now, PathId::ZERO);
            // RFC 9001 section 4.1.2: for a server, complete is confirmed.
            self.confirm_handshake(now);
        }
        self.paths
            .issue_cids(&mut self.rng, &mut self.endpoint_events);
        self.events
            .push_back(Event::Path(PathEvent::Opened { id: PathId::ZERO }));
        if let Some(index) = self.paths.get(PathId::ZERO).map(|path| path.index) {
            self.tell_scheduler(now, index, PathUpdateKind::Opened);
            self.tell_scheduler(now, index, PathUpdateKind::Validated);
        }
        Ok(())
    }

    /// The handshake is confirmed (RFC 9001 section 4.1.2).
    pub(crate) fn confirm_handshake(&mut self, now: Instant) {
        self.handshake.confirm();
        if let Some(path) = self.paths.get_mut(PathId::ZERO) {
            // RFC 9002 section 6.2.1: the PTO starts afresh.
            path.reset_pto_backoff();
            path.validate();
        }
        self.events.push_back(Event::HandshakeConfirmed);
        self.watch.note(now, Observation::HandshakeConfirmed);
        self.announce_available();
        //= specs/rfc9000.txt#section-9.6.1
        //# Once the handshake is confirmed, the client SHOULD select one of the two addresses
        //# provided by the server and initiate path validation (see Section 8.2).
        self.paths.try_preferred_address(now);
    }

    /// The client has proven to receive at the address that this path uses.
    pub(crate) fn on_address_proven(&mut self, now: Instant, id: PathId) {
        if let Some(path) = self.paths.get(id) {
            let ip = path.tuple().remote.ip();
            self.handshake.on_address_proven(now, &mut self.rng, ip);
        }
    }

    /// A Retry came for our ID `dcid`.
    pub(crate) fn on_retry(
        &mut self,
        arrival: &DatagramMeta,
        dcid: &ConnectionId,
        source: ConnectionId,
        token: &[u8],
        packet: &[u8],
    ) {
        if !self.state.is_handshaking()
            || !self.handshake.accepts_retry(dcid, &source, token, packet)
        {
            return;
        }
        // The token proves the address that the Retry came to, and no other one.
        self.on_server_heard(arrival.now, &arrival.tuple);
        //= specs/rfc9000.txt#section-17.2.5.2
        //# The client MUST NOT change the Source Connection ID because the server could include the
        //# connection ID as part of its token validation logic; see Section 8.1.4.
        //= specs/rfc9000.txt#section-17.2.5.1
        //# The client MUST use the value from the Source Connection ID field of the Retry packet in
        //# the Destination Connection ID field of subsequent packets that it sends.
        self.paths.replace_remote_cid(source);
        self.handshake.retry(source, token);
        let Some(path) = self.paths.get_mut(PathId::ZERO) else {
            return;
        };
        path.reset_pto_backoff();
        let index = path.index;
        // The server has dropped what was sent so far.
        //= specs/rfc9000.txt#section-17.2.3
        //# A client SHOULD attempt to resend data in 0-RTT packets after it sends a new Initial
        //# packet.
        for packet in path.discard_in_flight() {
            for frame in &packet.frames {
                self.on_frame_lost(SpaceId::Data, frame, index);
            }
        }
    }

    /// The server's first answer, or one of its later ones, came to this address.
    pub(crate) fn on_server_heard(&mut self, now: Instant, to: &FourTuple) {
        if let Some(tuple) = self.handshake.on_answer(now, to) {
            self.paths.begin_on(tuple);
        }
    }
}
