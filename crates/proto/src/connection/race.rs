//! A client begins a connection over several addresses, its own and the server's (RFC 8305): which attempts are under way,
//! which one becomes the connection, and what is said if none does.
//!
//! The connection that the application has is one of the attempts. The others are connections within it, which nobody
//! sees: when one of them completes its handshake first, it takes the place of the first one.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mpquic_sched_core::{ConnectionId, Side, TransportErrorCode};
use mpquic_wire::packet::{Invariant, MAX_CID_LEN, parse_invariant};
use rand::SeedableRng;
use rand::rngs::StdRng;

use super::Connection;
use crate::cid::ResetKey;
use crate::closing::CloseFrame;
use crate::events::{EndpointEvent, Event};
use crate::handshake::{Attempt, Tries};
use crate::memory::Memory;
use crate::path::{Epoch, lead, memory_key};
use crate::{
    ClientConfig, ConnectError, ConnectionError, EndpointConfig, FailedAttempt, FourTuple, PathId,
    RaceConfig, Transmit, TransportError, limits,
};

/// The attempts of a client beside the one that its connection is.
pub(crate) struct Race {
    /// Until one has won.
    others: Option<Others>,
    /// What is still to be sent for attempts that were given up.
    farewells: VecDeque<(Transmit, Vec<u8>)>,
}

/// All attempts but the connection's own.
struct Others {
    config: ClientConfig,
    server_name: String,
    reset_key: Arc<ResetKey>,
    memory: Arc<Memory>,
    delay: Duration,
    tries: Tries,
    rivals: Vec<Connection>,
}

/// A client's attempt to connect.
pub(crate) struct Setup<'a> {
    pub(crate) now: Instant,
    pub(crate) config: ClientConfig,
    pub(crate) endpoint: &'a Arc<EndpointConfig>,
    pub(crate) server_name: &'a str,
    pub(crate) reset_key: &'a Arc<ResetKey>,
    /// What it holds counts for this memory.
    pub(crate) memory: &'a Arc<Memory>,
}

impl Setup<'_> {
    /// Starts a connection from the first local to the first remote address of `tuples`, and races the others against it.
    pub(crate) fn connect(
        self,
        tuples: &[FourTuple],
        rng: StdRng,
    ) -> Result<Connection, ConnectError> {
        let tuples = self.by_memory(tuples);
        let mut tries = Tries::new(&tuples);
        let mut first = tries.take().ok_or(ConnectError::NoAddress)?;
        let lead = self.lead(&mut first);
        let mut connection = Connection::new_client(&self, first[0], rng)?;
        if let Some(race) = self.config.race.filter(|_| tuples.len() > 1) {
            let attempt = Attempt::new(self.now, &first, lead, &race);
            connection.handshake.set_attempt(Some(Box::new(attempt)));
            connection.race = Some(Box::new(Race::new(self, tries, &race)));
        }
        Ok(connection)
    }

    /// The pairs of addresses in the order in which they are tried. RFC 8305 section 4: those with the shortest round trips of
    /// earlier connections first, then those of which none is known, in the application's order. Without a race, that alone
    /// counts.
    fn by_memory(&self, tuples: &[FourTuple]) -> Vec<FourTuple> {
        let mut ordered = tuples.to_vec();
        let memory = self.config.transport.path_memory.as_ref();
        if let Some(memory) = memory.filter(|_| self.config.race.is_some() && tuples.len() > 1) {
            let now = Epoch::new(self.endpoint).at(self.now);
            ordered.sort_by_cached_key(|tuple| {
                let saved = memory.look_up(memory_key(Side::Client, *tuple), now);
                saved.map_or(Duration::MAX, |saved| saved.min_rtt)
            });
        }
        ordered
    }

    /// Of the pairs of addresses that begin at once, puts the one first that earlier connections say is the best to begin on. Returns
    /// by how much the others begin later.
    fn lead(&self, first: &mut [FourTuple]) -> Duration {
        let memory = self.config.transport.path_memory.as_ref();
        match memory.filter(|_| self.config.race.is_some() && first.len() > 1) {
            Some(memory) => lead(&**memory, Epoch::new(self.endpoint), self.now, first),
            None => Duration::ZERO,
        }
    }
}

/// An attempt that has failed: its addresses, and why.
fn failed(attempt: &Connection) -> Vec<FailedAttempt> {
    let begun = attempt.handshake.attempt();
    begun.map_or_else(Vec::new, |begun| begun.failed(attempt.state.lost_reason()))
}

impl Race {
    /// Of the attempts that a client may make beside its connection's own.
    fn new(setup: Setup<'_>, tries: Tries, race: &RaceConfig) -> Self {
        // Packets of several attempts are told apart by connection ID.
        let alone = setup.endpoint.cids.len() == 0;
        Self {
            others: (!alone).then(|| Others {
                config: setup.config,
                server_name: setup.server_name.to_owned(),
                reset_key: Arc::clone(setup.reset_key),
                memory: Arc::clone(setup.memory),
                delay: race.attempt_delay,
                tries,
                rivals: Vec::new(),
            }),
            farewells: VecDeque::new(),
        }
    }

    /// Ends it: the connection goes on alone.
    pub(super) fn end(&mut self) {
        self.others = None;
    }

    /// Whether something is still to be sent for attempts that were given up.
    pub(super) fn has_farewells(&self) -> bool {
        !self.farewells.is_empty()
    }

    /// The next of it, written to the end of `buf`.
    pub(super) fn next_farewell(&mut self, buf: &mut Vec<u8>) -> Option<Transmit> {
        let (transmit, datagram) = self.farewells.pop_front()?;
        buf.extend_from_slice(&datagram);
        Some(transmit)
    }

    /// The system refuses to send from this address to that one.
    pub(super) fn handle_send_error(&mut self, now: Instant, network_path: FourTuple, why: &str) {
        for rival in self.rivals() {
            rival.handle_send_error(now, network_path, why);
        }
    }

    /// The attempts under way, beside the connection's own.
    fn rivals(&mut self) -> impl Iterator<Item = &mut Connection> {
        self.others.iter_mut().flat_map(|others| &mut others.rivals)
    }

    /// The attempt that datagrams with this connection ID belong to, if it is none of the connection's own.
    pub(super) fn rival_of(&mut self, datagrams: &[u8], cid_len: usize) -> Option<&mut Connection> {
        let (Invariant::Long { dcid, .. } | Invariant::Short { dcid, .. }) =
            parse_invariant(datagrams, cid_len).ok()?;
        // `ConnectionId` holds no more, and ours are not longer.
        let dcid = ConnectionId::new(&dcid[..dcid.len().min(MAX_CID_LEN)]);
        self.rivals().find(|rival| rival.handshake.scid() == dcid)
    }

    /// What the other attempts have to send.
    pub(super) fn poll_transmit(
        &mut self,
        own: &mut Connection,
        now: Instant,
        max_datagrams: usize,
        buf: &mut Vec<u8>,
    ) -> Option<Transmit> {
        let mut rivals = self.rivals();
        let transmit = rivals.find_map(|rival| rival.poll_transmit(now, max_datagrams, buf));
        drop(rivals);
        self.take_events(own);
        transmit
    }

    /// When it has something to do.
    pub(super) fn timer(&self, own: &Connection) -> Option<Instant> {
        let step = self.next_step(own);
        let rivals = self.others.iter().flat_map(|others| &others.rivals);
        let rivals = rivals.filter_map(Connection::poll_timeout);
        step.into_iter().chain(rivals).min()
    }

    /// When the next attempt is due, if there is one to be made and nothing more is heard.
    fn next_step(&self, own: &Connection) -> Option<Instant> {
        let others = self.others.as_ref()?;
        if !own.state.is_handshaking() || others.rivals.len() >= limits::MAX_RACE_ATTEMPTS {
            return None;
        }
        let attempts = || std::iter::once(own).chain(&others.rivals);
        let mut begun = attempts().filter_map(|one| one.handshake.attempt());
        if !others.tries.any_left() && !begun.any(Attempt::may_split) {
            return None;
        }
        let silent = attempts().filter_map(|one| {
            let path = one.paths.get(PathId::ZERO);
            let round_trip = path.map(|path| path.rtt().smoothed());
            let attempt = one.handshake.attempt()?;
            Some(attempt.silent_at(others.delay, round_trip))
        });
        silent.max()
    }

    /// Time has passed.
    pub(super) fn on_timeout(&mut self, own: &mut Connection, now: Instant) {
        if self.next_step(own).is_some_and(|at| at <= now) {
            self.take_step(own, now);
        }
        for rival in self.rivals() {
            if rival.poll_timeout().is_some_and(|at| at <= now) {
                rival.handle_timeout(now);
            }
        }
    }

    /// Nothing was heard for a while: tries each address by itself, if several have shared an attempt, and the next address
    /// of the server. The server may have taken the first packets from a link that does not bring its answer back, and it
    /// stays with that for this attempt (RFC 9000 section 9).
    fn take_step(&mut self, own: &mut Connection, now: Instant) {
        let Some(others) = &mut self.others else {
            return;
        };
        let mut attempts: Vec<Vec<FourTuple>> = Vec::new();
        for attempt in std::iter::once(&mut *own).chain(&mut others.rivals) {
            if let Some(attempt) = attempt.handshake.attempt_mut() {
                attempts.extend(attempt.split().into_iter().map(|tuple| vec![tuple]));
            }
        }
        attempts.extend(others.tries.take());
        for tuples in attempts {
            self.start_rival(own, now, tuples);
        }
    }

    /// One more attempt, from these addresses to one of the server's.
    fn start_rival(&mut self, own: &mut Connection, now: Instant, tuples: Vec<FourTuple>) {
        let rng = StdRng::from_rng(&mut own.rng);
        let Some(others) = &mut self.others else {
            return;
        };
        if others.rivals.len() >= limits::MAX_RACE_ATTEMPTS {
            return others.tries.put_back(tuples);
        }
        let setup = Setup {
            now,
            config: others.config.clone(),
            endpoint: &own.endpoint_config,
            server_name: &others.server_name,
            reset_key: &others.reset_key,
            memory: &others.memory,
        };
        let race = others.config.race.unwrap_or_default();
        tracing::debug!(path = %tuples[0], addresses = tuples.len(), "one more attempt to connect");
        match Connection::new_client(&setup, tuples[0], rng) {
            Ok(mut rival) => {
                let attempt = Attempt::new(now, &tuples, Duration::ZERO, &race);
                rival.handshake.set_attempt(Some(Box::new(attempt)));
                // It counts from the first attempt.
                rival.handshake.set_deadline(own.handshake.deadline());
                others.rivals.push(rival);
            }
            // It could be started once, so that this does not happen.
            Err(error) => tracing::debug!(%error, "no further attempt"),
        }
        self.take_events(own);
    }

    /// What the other attempts have to tell the endpoint.
    fn take_events(&mut self, own: &mut Connection) {
        for rival in self.rivals() {
            let events = rival.endpoint_events.drain(..);
            let events = events.filter(|event| *event != EndpointEvent::Drained);
            own.endpoint_events.extend(events);
        }
    }

    /// Something has happened to one of the attempts.
    pub(super) fn settle(&mut self, own: &mut Connection, now: Instant) {
        self.take_events(own);
        self.drop_failed(own, now);
        let Some(others) = &mut self.others else {
            return;
        };
        let complete = |one: &Connection| one.state.is_established();
        if !complete(own)
            && let Some(winner) = others.rivals.iter().position(complete)
        {
            let winner = others.rivals.swap_remove(winner);
            self.replace(own, now, winner);
        }
        if complete(own) {
            return self.give_up(own, now);
        }
        while !own.state.is_alive() && self.go_on_with_another(own, now) {}
    }

    /// The connection's own attempt has failed. Goes on with another one; false if there is none.
    fn go_on_with_another(&mut self, own: &mut Connection, now: Instant) -> bool {
        let lost = |event: &Event| matches!(event, Event::ConnectionLost { .. });
        if !own.events.iter().any(lost) {
            // The application knows: it has closed the connection, or has been told.
            self.give_up(own, now);
            return false;
        }
        let Some(others) = &mut self.others else {
            return false;
        };
        others.tries.on_failed(failed(own));
        if others.rivals.is_empty()
            && let Some(next) = others.tries.take()
        {
            self.start_rival(own, now, next);
        }
        let others = self.others.as_mut();
        let next = others.filter(|others| !others.rivals.is_empty());
        match next.map(|others| others.rivals.remove(0)) {
            Some(next) => {
                self.replace(own, now, next);
                true
            }
            None => {
                self.explain_failure(own);
                false
            }
        }
    }

    /// Another attempt takes the place of the connection's own.
    fn replace(&mut self, own: &mut Connection, now: Instant, next: Connection) {
        let mut old = std::mem::replace(own, next);
        // What the endpoint was not told yet comes first.
        let told = old.endpoint_events.drain(..);
        let told = told.filter(|event| *event != EndpointEvent::Drained);
        let newer = std::mem::take(&mut own.endpoint_events);
        own.endpoint_events = told.chain(newer).collect();
        own.paths.add_sent_by(&old.paths);
        self.part_with(own, now, old);
    }

    /// The handshake is complete, or the application wants no connection any more: the other attempts are over.
    pub(super) fn give_up(&mut self, own: &mut Connection, now: Instant) {
        let others = self.others.take();
        for rival in others.into_iter().flat_map(|others| others.rivals) {
            self.part_with(own, now, rival);
        }
    }

    /// An attempt is over: the endpoint forgets it, and its server is told in one packet, unless it ended the attempt
    /// itself.
    fn part_with(&mut self, own: &mut Connection, now: Instant, mut old: Connection) {
        old.handshake.set_attempt(None);
        // The server does not know yet: a stateless reset for each of its packets would be more than one packet.
        let cid = old.handshake.scid();
        own.endpoint_events
            .push_back(EndpointEvent::RetireCidQuietly(cid, now));
        let remote = old.paths.handshake_tuple().remote;
        if let Some(token) = old.paths.remote_cids().active_token(PathId::ZERO) {
            own.endpoint_events
                .push_back(EndpointEvent::RemoveResetToken(remote, token));
        }
        if old.totals.sent_packets == 0 {
            return;
        }
        let mut datagram = Vec::new();
        let code = TransportErrorCode::NO_ERROR;
        let over = CloseFrame::Transport(TransportError::new(code, ""));
        // If it is closing already, that is what is said.
        old.start_closing(now, over, false);
        if let Some(transmit) = old.poll_transmit(now, 1, &mut datagram) {
            self.farewells.push_back((transmit, datagram));
        }
    }

    /// Other attempts that have failed are over.
    fn drop_failed(&mut self, own: &mut Connection, now: Instant) {
        let Some(others) = &mut self.others else {
            return;
        };
        let is_over = |rival: &mut Connection| !rival.state.is_alive();
        let gone: Vec<Connection> = others.rivals.extract_if(.., is_over).collect();
        for rival in &gone {
            others.tries.on_failed(failed(rival));
        }
        for rival in gone {
            self.part_with(own, now, rival);
        }
    }

    /// The time for the handshake is over, for all attempts.
    pub(super) fn on_late(&mut self, now: Instant) {
        for rival in self.rivals() {
            rival.end(now, Some(ConnectionError::TimedOut));
        }
        if let Some(others) = &mut self.others {
            others.tries.end();
        }
    }

    /// No attempt is left: the application learns why of each.
    fn explain_failure(&mut self, own: &mut Connection) {
        let others = self.others.take();
        let Some(reason) = others.and_then(|others| others.tries.reason()) else {
            return;
        };
        own.state.set_lost_reason(reason.clone());
        for event in &mut own.events {
            if let Event::ConnectionLost { reason: said } = event {
                *said = reason.clone();
            }
        }
    }
}
