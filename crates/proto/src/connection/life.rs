//! What the life of a connection and of its paths means for all its planes: the handshake goes on, a path is opened, validated,
//! moved, suspect, abandoned or discarded, the connection ends (RFC 9000 section 10).

use std::time::Instant;

use mpquic_sched_core::{
    ConnectionId, Lost, PathIndex, PathStatus, PathUpdate, PathUpdateKind, Side, TransportErrorCode,
};

use super::Connection;
use crate::closing::CloseFrame;
use crate::config::PathStart;
use crate::events::{DatagramMeta, EndpointEvent, Event};
use crate::handshake::Progress;
use crate::path::{ALL, Path, PeerAbandons, Proof};
use crate::space::SpaceId;
use crate::{
    ConnectionError, Observation, Parameters, PathChange, PathChangeKind, PathErrorCode, PathEvent,
    PathId, TransportError,
};

/// The handshake.
impl Connection {
    /// A CRYPTO frame.
    pub(super) fn on_crypto(
        &mut self,
        now: Instant,
        space_id: SpaceId,
        offset: u64,
        data: &[u8],
    ) -> Result<(), TransportError> {
        let progress = self.handshake.on_crypto(space_id, offset, data)?;
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
                let rejected = path.discard_in_flight();
                if let Some((number, _)) = path.next_number() {
                    self.handshake.reject_early_data_below(number);
                }
                let datagrams = self.data.datagrams_mut();
                datagrams.on_refused(now, PathId::ZERO, &rejected);
            }
            //= specs/rfc9001.txt#section-4.6.2
            //# The client therefore MUST reset the state of all streams, including application state
            //# bound to those streams.
            self.data.start_over(&self.config);
        }
        if parameters {
            let peer = self.handshake.peer();
            self.idle.set_peer(peer.max_idle_timeout_ms);
            self.paths.set_peer(peer, &mut self.endpoint_events)?;
            self.data.set_peer_params(peer);
            let parameters = Parameters::of(peer, true);
            if peer.grease_quic_bit && self.endpoint_config.grease_quic_bit {
                let seed = self.paths.reset_token(&self.handshake.scid());
                self.handshake.grease_quic_bit(seed);
            }
            self.watch.note(now, Observation::Parameters(parameters));
            self.events.push_back(Event::HandshakeDataReady);
        }
        // RFC 10069: used once the handshake is complete, if both sides sent initial_max_path_id. A server that issues
        // connection IDs before that does so in packets that its client cannot read earlier.
        if early_answers
            && self.side == Side::Server
            && self.config.path_start == PathStart::Complete
        {
            let remote_max = self.handshake.peer().initial_max_path_id;
            self.paths.start_multipath(remote_max);
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

    /// TLS is complete (RFC 9001 section 4.1.1).
    fn on_handshake_complete(&mut self, now: Instant) -> Result<(), TransportError> {
        self.handshake.complete()?;
        self.state.establish();
        self.events.push_back(Event::Connected);
        self.watch.note(now, Observation::HandshakeComplete);
        let remote_max = self.handshake.peer().initial_max_path_id;
        self.paths.on_handshake_complete(remote_max);
        if self.side == Side::Server {
            self.endpoint_events
                .push_back(EndpointEvent::HandshakeComplete);
            let proven = self.paths.get(PathId::ZERO).map(Path::tuple);
            self.handshake.on_address_proven(now, &mut self.rng, proven);
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
    pub(super) fn confirm_handshake(&mut self, now: Instant) {
        self.handshake.confirm();
        if let Some(path) = self.paths.get_mut(PathId::ZERO) {
            // RFC 9002 section 6.2.1: the PTO starts afresh.
            path.reset_pto_backoff();
            path.validate();
        }
        self.events.push_back(Event::HandshakeConfirmed);
        self.watch.note(now, Observation::HandshakeConfirmed);
        //= specs/rfc9000.txt#section-9.6.1
        //# Once the handshake is confirmed, the client SHOULD select one of the two addresses
        //# provided by the server and initiate path validation (see Section 8.2).
        self.paths.on_handshake_confirmed(now);
        self.events.extend(self.paths.take_available());
    }

    /// A Retry came for our ID `dcid`.
    pub(super) fn on_retry(
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
        if let Some(tuple) = self.handshake.on_answer(arrival.now, &arrival.tuple) {
            self.paths.begin_on(tuple);
        }
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
        let dropped = path.discard_in_flight();
        let datagrams = self.data.datagrams_mut();
        datagrams.on_refused(arrival.now, PathId::ZERO, &dropped);
        for packet in dropped {
            for frame in &packet.frames {
                self.on_frame_lost(SpaceId::Data, frame, index);
            }
        }
    }
}

/// Paths.
impl Connection {
    pub(super) fn tell_scheduler(&mut self, now: Instant, index: PathIndex, kind: PathUpdateKind) {
        let Some(path) = self.paths.at(index) else {
            return;
        };
        let (id, tuple) = (path.id, path.tuple());
        let event = PathUpdate::new(index, id, now, kind).with_key(tuple.key());
        self.data.on_path(&event);
        if kind == PathUpdateKind::Suspect && self.watch.wants_losses() {
            let trouble = path.trouble(now, self.paths.has_other_usable(index));
            self.watch.on_trouble(now, id, &trouble);
        }
        self.watch.on_path_update(now, id, tuple, kind);
    }

    /// A path is in trouble: what it has in flight becomes sendable on the other paths, and stays in flight here until
    /// acknowledged or lost.
    pub(super) fn on_suspect(&mut self, now: Instant, id: PathId, index: PathIndex) {
        self.data.streams_mut().set_suspects(self.paths.suspects());
        let packets = self.paths.on_suspect(now, index);
        self.offer_in_flight(index, packets);
        self.events
            .push_back(Event::Path(PathEvent::Suspect { id }));
        self.tell_scheduler(now, index, PathUpdateKind::Suspect);
    }

    /// A path can carry data that could not before: what had nowhere to go until now is offered.
    pub(super) fn on_path_usable(
        &mut self,
        now: Instant,
        index: PathIndex,
        event: PathEvent,
        kind: PathUpdateKind,
    ) {
        for stranded in self.paths.stranded(now) {
            self.offer_in_flight(stranded, ALL);
        }
        self.events.push_back(Event::Path(event));
        self.tell_scheduler(now, index, kind);
    }

    /// A PATH_RESPONSE came on this path.
    pub(super) fn on_path_response(&mut self, now: Instant, id: PathId, token: u64) {
        let events = &mut self.endpoint_events;
        let Some((index, proof)) = self.paths.on_path_response(now, id, token, events) else {
            return;
        };
        if proof != Proof::Nothing {
            let proven = self.paths.get(id).map(Path::tuple);
            self.handshake.on_address_proven(now, &mut self.rng, proven);
        }
        match proof {
            Proof::Nothing => {}
            Proof::Opened => {
                let event = PathEvent::Opened { id };
                self.on_path_usable(now, index, event, PathUpdateKind::Validated);
            }
            Proof::Moved => {
                for stranded in self.paths.stranded(now) {
                    self.offer_in_flight(stranded, ALL);
                }
                self.announce_move(now, index);
                self.paths.give_up_elsewhere(index);
                self.on_packets_lost(now, index, SpaceId::Data);
            }
            Proof::Tried => {
                self.data.on_path_moved(index);
                self.announce_move(now, index);
            }
        }
    }

    /// The addresses of a path that was open before are new, and proven if they need to be.
    pub(super) fn announce_move(&mut self, now: Instant, index: PathIndex) {
        let Some((id, key)) = self.paths.settle_move(now, index) else {
            return;
        };
        if self.data.path_key(index) != Some(key) {
            self.tell_scheduler(now, index, PathUpdateKind::Moved);
        }
        self.events.push_back(Event::Path(PathEvent::Moved { id }));
    }

    /// PATH_STATUS_AVAILABLE or PATH_STATUS_BACKUP came.
    pub(super) fn on_path_status(
        &mut self,
        now: Instant,
        id: u64,
        status: PathStatus,
        seq: u64,
    ) -> Result<(), TransportError> {
        if let Some((id, index, effective)) = self.paths.on_status(id, status, seq)? {
            let event = PathEvent::RemoteStatus { id, status };
            self.events.push_back(Event::Path(event));
            self.tell_scheduler(now, index, PathUpdateKind::Status(effective));
        }
        Ok(())
    }

    /// PATH_ABANDON came.
    pub(super) fn on_path_abandon(
        &mut self,
        now: Instant,
        id: u64,
        error_code: PathErrorCode,
    ) -> Result<(), TransportError> {
        match self
            .paths
            .on_peer_abandons(now, id, self.handshake.is_confirmed())?
        {
            PeerAbandons::Nothing => {}
            PeerAbandons::LastPath(id) => {
                // The path stays for as long as CONNECTION_CLOSE has to travel on it.
                self.events.push_back(Event::Path(PathEvent::Abandoned {
                    id,
                    error_code,
                    by_peer: true,
                }));
                //= specs/rfc10069-draft.md#path-close
                //# If a PATH_ABANDON frame is received for the only open path of a QUIC connection,
                //# the receiving peer SHOULD send a CONNECTION_CLOSE frame and enter the closing
                //# state.
                let close = CloseFrame::Transport(TransportError::new(
                    TransportErrorCode::NO_ERROR,
                    "the last path was abandoned",
                ));
                self.start_closing(now, close, true);
            }
            PeerAbandons::Path(id) => {
                self.abandon_path(now, id, error_code, true);
            }
        }
        Ok(())
    }

    /// Ends a path ID, opened or not. Its data in flight goes back to the queues.
    pub(super) fn abandon_path(
        &mut self,
        now: Instant,
        id: PathId,
        error_code: PathErrorCode,
        by_peer: bool,
    ) {
        let (rng, events) = (&mut self.rng, &mut self.endpoint_events);
        let abandoned = self
            .paths
            .abandon(now, id, error_code, by_peer, rng, events);
        if let Some((index, tuple)) = abandoned.last {
            let given_up = self.paths.take_lost();
            self.watch.on_given_up(now, id, &given_up);
            self.data.datagrams_mut().on_lost(now, id, &given_up);
            for (_, packet) in &given_up {
                for frame in &packet.frames {
                    self.on_frame_lost(SpaceId::Data, frame, index);
                }
                let (sent, size) = (packet.time_sent, packet.size);
                self.data
                    .on_lost(&Lost::new(index, now, sent, size, packet.decision));
            }
            self.paths.reuse_lost(given_up);
            let update = PathUpdate::new(index, id, now, PathUpdateKind::Abandoned);
            self.data.on_path_ended(&update.with_key(tuple.key()));
        }
        let tuple = abandoned.last.map(|(_, tuple)| tuple);
        let kind = PathChangeKind::Abandoned {
            error_code,
            by_peer,
        };
        self.watch
            .note(now, Observation::Path(PathChange { id, tuple, kind }));
        if let Some(id) = abandoned.discarded {
            self.watch.on_path_discarded(now, id);
            self.events
                .push_back(Event::Path(PathEvent::Discarded { id }));
        }
        self.events.push_back(Event::Path(PathEvent::Abandoned {
            id,
            error_code,
            by_peer,
        }));
    }
}

/// The end.
impl Connection {
    /// The peer broke the protocol, or we cannot go on: tell it, then wait three PTOs.
    //= specs/rfc9000.txt#section-10.3
    //# An endpoint that wishes to communicate a fatal connection error MUST use a CONNECTION_CLOSE
    //# frame if it is able.
    //= specs/rfc9000.txt#section-11.1
    //# Errors that result in the connection being unusable, such as an obvious violation of
    //# protocol semantics or corruption of state that affects an entire connection, MUST be
    //# signaled using a CONNECTION_CLOSE frame (Section 19.19).
    pub(super) fn fail(&mut self, now: Instant, error: TransportError) {
        self.start_closing(now, CloseFrame::Transport(error), true);
    }

    pub(super) fn start_closing(&mut self, now: Instant, close: CloseFrame, tell: bool) {
        if !self.state.is_alive() {
            return;
        }
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
    pub(super) fn drain(&mut self, now: Instant, reason: ConnectionError) {
        let was_alive = self
            .state
            .drain(now + 3 * self.paths.largest_pto(), &reason);
        self.release_memory();
        if was_alive {
            self.watch.note(now, Observation::Closed(&reason));
            self.events.push_back(Event::ConnectionLost { reason });
        }
        if self.side.is_client() && !self.handshake.is_complete() {
            // Three PTOs are three seconds without a sample of the RTT.
            //= specs/rfc9000.txt#section-10.2
            //# Endpoints that have some alternative means to ensure that late-arriving packets do not induce
            //# a response, such as those that are able to close the UDP socket, MAY end these states earlier
            //# to allow for faster resource recovery.
            self.handshake
                .retire_cid_quietly(now, &mut self.endpoint_events);
            self.end(now, None);
        }
    }

    /// Over at once: idle timeout, or the closing period has passed.
    pub(super) fn end(&mut self, now: Instant, reason: Option<ConnectionError>) {
        if let Some(reason) = reason {
            self.watch.note(now, Observation::Closed(&reason));
            self.state.set_lost_reason(reason.clone());
            self.events.push_back(Event::ConnectionLost { reason });
        }
        self.release_memory();
        if self.state.end() {
            self.endpoint_events.push_back(EndpointEvent::Drained);
        }
    }

    /// Nothing more is sent or decrypted: what was kept for that goes. What was received can still be read.
    fn release_memory(&mut self) {
        self.handshake.on_closed();
        self.data.on_closed();
        self.paths.leave_memory();
    }
}
