//! What the progress of the handshake means for the rest of the connection: parameters, confirmation, the extension
//! negotiated, early data taken or not; and a client's race over several addresses.

use std::time::Instant;

use mpquic_sched_core::{ConnectionId, PathUpdateKind, Side};
use rand::rngs::StdRng;

use super::race::{Race, Setup, by_memory};
use super::{Connection, Event};
use crate::config::PathStart;
use crate::events::{DatagramMeta, EndpointEvent};
use crate::handshake::{Attempt, Progress, Refused, Tries};
use crate::ids::Transmit;
use crate::path::Path;
use crate::space::SpaceId;
use crate::{
    ConnectError, ConnectionError, FourTuple, Observation, Parameters, PathEvent, PathId,
    TransportError,
};

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
            //= specs/rfc9000.txt#section-7.4.1
            //# The client MUST use the server's new values in the handshake instead; if the server does
            //# not provide new values, the default values are used.
            self.peer = *peer;
            self.idle.set_peer(self.peer.max_idle_timeout_ms);
            self.paths.set_peer(&self.peer, &mut self.endpoint_events)?;
            self.data.set_peer_params(&self.peer);
            if self.peer.grease_quic_bit && self.endpoint_config.grease_quic_bit {
                let seed = self.paths.reset_token(&self.handshake.scid());
                self.handshake.grease_quic_bit(seed);
            }
            let parameters = Parameters::of(&self.peer, true);
            self.watch.note(now, Observation::Parameters(parameters));
            self.events.push_back(Event::HandshakeDataReady);
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

    /// TLS is complete (RFC 9001 section 4.1.1).
    fn on_handshake_complete(&mut self, now: Instant) -> Result<(), TransportError> {
        self.handshake.complete()?;
        self.state.establish();
        self.events.push_back(Event::Connected);
        self.watch.note(now, Observation::HandshakeComplete);
        self.paths.start_multipath(self.peer.initial_max_path_id);
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
        self.paths.on_handshake_confirmed(now);
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
        for packet in path.discard_in_flight() {
            for frame in &packet.frames {
                self.on_frame_lost(SpaceId::Data, frame, index);
            }
        }
    }
}

/// A client's race.
impl Connection {
    /// Starts a connection from the first local to the first remote address of `tuples`, and races the others against it.
    pub(crate) fn connect(
        setup: Setup<'_>,
        tuples: &[FourTuple],
        rng: StdRng,
    ) -> Result<Self, ConnectError> {
        let tuples = by_memory(&setup, tuples);
        let mut tries = Tries::new(&tuples);
        let first = tries.take().ok_or(ConnectError::NoAddress)?;
        let mut this = Self::new_client(&setup, first[0], rng)?;
        if let Some(race) = setup.config.race.filter(|_| tuples.len() > 1) {
            let attempt = Attempt::new(setup.now, &first, &race);
            this.handshake.set_attempt(Some(Box::new(attempt)));
            this.race = Some(Box::new(Race::new(setup, tries, &race)));
        }
        Ok(this)
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

    /// Copies that are due, and what the other attempts have to send.
    #[inline(never)]
    pub(crate) fn transmit_race(
        &mut self,
        now: Instant,
        max_datagrams: usize,
        buf: &mut Vec<u8>,
    ) -> Option<Transmit> {
        let race = self.race.as_mut();
        if let Some(farewell) = race.and_then(|race| race.next_farewell(buf)) {
            return Some(farewell);
        }
        let attempt = self.handshake.attempt_mut();
        if let Some(attempt) = attempt.filter(|_| self.state.is_alive())
            && let Some(copy) = attempt.poll_transmit(now, buf)
        {
            self.totals.sent_datagrams += 1;
            self.totals.sent_bytes += copy.size as u64;
            return Some(copy);
        }
        self.with_race(|race, own| race.poll_transmit(own, now, max_datagrams, buf))?
    }

    /// Something may have happened to one of the attempts.
    pub(super) fn settle_race(&mut self, now: Instant) {
        self.with_race(|race, own| race.settle(own, now));
        // Until then, the other addresses may be needed.
        if self.handshake.is_confirmed() {
            self.race = self.race.take().filter(|race| race.has_farewells());
            if self.race.is_none() {
                self.handshake.set_attempt(None);
            }
        }
    }

    /// The race, and the attempt that the connection is: another one may take its place.
    pub(super) fn with_race<T>(
        &mut self,
        step: impl FnOnce(&mut Race, &mut Self) -> T,
    ) -> Option<T> {
        let mut race = self.race.take()?;
        let outcome = step(&mut race, self);
        self.race = Some(race);
        Some(outcome)
    }
}
