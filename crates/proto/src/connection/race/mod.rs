//! A client begins a connection over several addresses, its own and the server's (RFC 8305): which attempts are under way,
//! which one becomes the connection, and what is said if none does.
//!
//! The connection that the application has is one of the attempts. The others are connections within it, which nobody
//! sees: when one of them completes its handshake first, it takes the place of the first one.

mod copies;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mpquic_sched_core::{ConnectionId, EcnCodepoint, Side, TransportErrorCode};
use rand::SeedableRng;
use rand::rngs::StdRng;

use self::copies::Copies;
use super::{Connection, Event};
use crate::cid::ResetKey;
use crate::closing::CloseFrame;
use crate::events::{ConnectionEvent, EndpointEvent};
use crate::memory::Memory;
use crate::packet::{Invariant, parse_invariant};
use crate::path::{Epoch, Path, memory_key};
use crate::space::SpaceId;
use crate::{
    AttemptError, ClientConfig, ConnectError, ConnectionError, EndpointConfig, FailedAttempt,
    FourTuple, PathId, RaceConfig, Transmit, TransportError, limits,
};

/// What a client connection has until its handshake is confirmed, if it has several addresses to begin on.
pub(crate) struct Race {
    /// Of this attempt.
    copies: Copies,
    /// When something was last heard in this attempt, or when it began.
    heard: Instant,
    /// Further attempts from single addresses were made, or would be of no use.
    split: bool,
    /// Nothing is copied any more.
    ended: bool,
    /// Not on connections that are attempts of another one.
    field: Option<Box<Field>>,
    /// What is still to be sent for attempts that were given up.
    farewells: VecDeque<(Transmit, Vec<u8>)>,
}

/// All attempts but the connection's own.
struct Field {
    config: ClientConfig,
    server_name: String,
    reset_key: Arc<ResetKey>,
    memory: Option<Arc<Memory>>,
    delay: Duration,
    /// Addresses of the server that were not tried yet, each with ours.
    waiting: VecDeque<Vec<FourTuple>>,
    rivals: Vec<Connection>,
    failed: Vec<FailedAttempt>,
    /// All pairs of addresses, in the order in which they were given.
    order: Vec<FourTuple>,
}

/// A client's attempt to connect.
pub(crate) struct Setup<'a> {
    pub(crate) now: Instant,
    pub(crate) config: ClientConfig,
    pub(crate) endpoint: &'a Arc<EndpointConfig>,
    pub(crate) server_name: &'a str,
    pub(crate) reset_key: &'a Arc<ResetKey>,
}

impl Race {
    fn new(now: Instant, tuples: &[FourTuple], config: &RaceConfig) -> Self {
        Self {
            copies: Copies::new(now, tuples, config.stagger),
            heard: now,
            split: tuples.len() < 2,
            ended: false,
            field: None,
            farewells: VecDeque::new(),
        }
    }
}

/// The pairs of addresses in the order in which they are tried. RFC 8305 section 4: those with the shortest round trips of
/// earlier connections first, then those of which none is known, in the application's order. Without a race, that alone
/// counts.
fn by_memory(setup: &Setup<'_>, tuples: &[FourTuple]) -> Vec<FourTuple> {
    let mut ordered = tuples.to_vec();
    let memory = setup.config.transport.path_memory.as_ref();
    if let Some(memory) = memory.filter(|_| setup.config.race.is_some() && tuples.len() > 1) {
        let now = Epoch::new(setup.endpoint).at(setup.now);
        ordered.sort_by_cached_key(|tuple| {
            let saved = memory.look_up(memory_key(Side::Client, *tuple), now);
            saved.map_or(Duration::MAX, |saved| saved.min_rtt)
        });
    }
    ordered
}

impl Connection {
    /// Starts a connection from the first local to the first remote address of `tuples`, and races the others against it.
    pub(crate) fn connect(
        setup: Setup<'_>,
        tuples: &[FourTuple],
        rng: StdRng,
        memory: &Arc<Memory>,
    ) -> Result<Self, ConnectError> {
        let (now, race) = (setup.now, setup.config.race);
        let ordered = by_memory(&setup, tuples);
        let tuples = &ordered[..];
        let config = setup.config.clone();
        let mut servers = by_server(tuples);
        // Packets of several attempts are told apart by connection ID.
        let alone = setup.endpoint.cids.len() == 0;
        let Some(first) = servers.pop_front() else {
            return Err(ConnectError::NoAddress);
        };
        let (server_name, reset_key) = (setup.server_name, Arc::clone(setup.reset_key));
        let mut this = Self::new_client(&setup, first[0], rng)?;
        this.share(memory);
        if let Some(race) = race.filter(|_| tuples.len() > 1) {
            let mut state = Race::new(now, &first, &race);
            state.field = (!alone).then(|| {
                Box::new(Field {
                    config,
                    server_name: server_name.to_owned(),
                    reset_key,
                    memory: Some(Arc::clone(memory)),
                    delay: race.attempt_delay,
                    waiting: servers,
                    rivals: Vec::new(),
                    failed: Vec::new(),
                    order: tuples.to_vec(),
                })
            });
            this.race = Some(Box::new(state));
        }
        Ok(this)
    }

    /// Ends the race before it is decided: the connection goes on from the address that it began on, and no further
    /// attempts are made. For applications that are about to send early data, which belongs to one attempt.
    pub fn end_race(&mut self) {
        if let Some(race) = &mut self.race {
            race.copies.stop();
            race.ended = true;
            race.split = true;
            race.field = None;
        }
    }

    /// The system refuses to send from this address to that one, for a reason that will not pass at once, such as an
    /// unreachable network. `why` is the reason in words. Matters only while the connection begins: it does so on the other
    /// addresses then.
    pub fn handle_send_error(&mut self, now: Instant, network_path: FourTuple, why: &str) {
        if self.race.is_none() {
            return;
        }
        self.refuse_address(now, &network_path, why);
        let field = self.race.as_mut().and_then(|race| race.field.as_mut());
        for rival in field.into_iter().flat_map(|field| &mut field.rivals) {
            rival.refuse_address(now, &network_path, why);
        }
        self.settle_race(now);
    }

    fn refuse_address(&mut self, now: Instant, tuple: &FourTuple, why: &str) {
        let Some(race) = self.race.as_mut().filter(|_| self.state.is_handshaking()) else {
            return;
        };
        if let Some(next) = race.copies.refuse(tuple, why) {
            self.paths.begin_on(next);
        } else if race.copies.all_refused() {
            self.end(now, Some(ConnectionError::TimedOut));
        }
    }

    /// The server's first answer, or one of its later ones, came to this address.
    //= specs/rfc9000.txt#section-9
    //# The design of QUIC relies on endpoints retaining a stable address for the duration of the
    //# handshake.
    pub(crate) fn on_server_heard(&mut self, now: Instant, to: &FourTuple) {
        let Some(race) = &mut self.race else {
            return;
        };
        race.heard = now;
        let Some(answered) = race.copies.answer(to) else {
            return;
        };
        tracing::debug!(path = %answered.tuple, "the server's first answer");
        self.paths.begin_on(answered.tuple);
        if let Some(space) = self.spaces.get_mut(SpaceId::Initial) {
            // What is measured counts from when the copy left that was answered.
            for (number, at) in answered.sent {
                space.on_left_later(number, at);
            }
        }
    }

    /// A datagram with an Initial or Handshake packet leaves from the address of the path: whether the others are to send
    /// it, too.
    fn wants_copies(&self) -> bool {
        let Some(race) = self.race.as_ref().filter(|race| !race.ended) else {
            return false;
        };
        if !race.copies.is_answered() {
            return true;
        }
        // The server has fallen silent. The end of the handshake may reach it another way.
        let silent = self.paths.get(PathId::ZERO).map_or(0, Path::pto_count) > 0;
        //= specs/rfc9000.txt#section-18.2
        //# An endpoint that receives this transport parameter MUST NOT use a new local address when
        //# sending to the address that the peer used during the handshake.
        silent && !self.confirmed && !self.peer.disable_active_migration
    }

    /// A datagram with this Initial or Handshake packet leaves.
    pub(crate) fn copy_to_others(
        &mut self,
        now: Instant,
        packet: u64,
        ecn: Option<EcnCodepoint>,
        datagram: &[u8],
    ) {
        if self.wants_copies()
            && let Some(race) = &mut self.race
        {
            race.copies.push(now, packet, ecn, datagram);
        }
    }

    /// Copies that are due, and what the other attempts have to send.
    #[inline(never)]
    pub(crate) fn transmit_race(
        &mut self,
        now: Instant,
        max_datagrams: usize,
        buf: &mut Vec<u8>,
    ) -> Option<Transmit> {
        let race = self.race.as_mut()?;
        if let Some((transmit, datagram)) = race.farewells.pop_front() {
            buf.extend_from_slice(&datagram);
            return Some(transmit);
        }
        if self.state.is_alive()
            && let Some(copy) = race.copies.poll_transmit(now, buf)
        {
            self.totals.sent_datagrams += 1;
            self.totals.sent_bytes += copy.size as u64;
            return Some(copy);
        }
        let field = race.field.as_mut()?;
        let mut rivals = field.rivals.iter_mut();
        let transmit = rivals.find_map(|rival| rival.poll_transmit(now, max_datagrams, buf));
        self.take_rival_events();
        transmit
    }

    /// When the race has something to do.
    pub(crate) fn race_timer(&mut self) -> Option<Instant> {
        let alive = self.state.is_alive();
        let step = self.next_step();
        let race = self.race.as_mut()?;
        let copy = race.copies.timer().filter(|_| alive);
        let field = race.field.as_mut();
        let rivals = field.into_iter().flat_map(|field| &mut field.rivals);
        let rivals = rivals.filter_map(Self::poll_timeout);
        [copy, step].into_iter().flatten().chain(rivals).min()
    }

    /// When the next attempt is due, if there is one to be made and nothing more is heard.
    fn next_step(&self) -> Option<Instant> {
        let race = self.race.as_ref()?;
        let field = race.field.as_ref()?;
        if !self.state.is_handshaking() || field.rivals.len() >= limits::MAX_RACE_ATTEMPTS {
            return None;
        }
        let attempts = || std::iter::once(self).chain(&field.rivals);
        let any = !field.waiting.is_empty() || attempts().any(Self::may_split);
        any.then(|| {
            attempts()
                .filter_map(|one| one.silent_at(field.delay))
                .max()
        })?
    }

    /// Whether further attempts from single addresses of this attempt may be worth it.
    fn may_split(&self) -> bool {
        let race = self.race.as_ref().filter(|race| !race.split);
        race.is_some_and(|race| !race.copies.others().is_empty())
    }

    /// When this attempt counts as silent. A server that has answered may need a round trip for its next answer.
    fn silent_at(&self, delay: Duration) -> Option<Instant> {
        let race = self.race.as_ref()?;
        let path = self.paths.get(PathId::ZERO);
        let measured = path.filter(|_| race.copies.is_answered());
        let answer = measured.map(|path| path.rtt().smoothed().mul_f64(1.5));
        Some(race.heard + delay.max(answer.unwrap_or_default()))
    }

    /// Time has passed.
    pub(crate) fn on_race_timeout(&mut self, now: Instant) {
        let due = self.next_step().is_some_and(|at| at <= now);
        if due {
            self.take_step(now);
        }
        let field = self.race.as_mut().and_then(|race| race.field.as_mut());
        for rival in field.into_iter().flat_map(|field| &mut field.rivals) {
            if rival.poll_timeout().is_some_and(|at| at <= now) {
                rival.handle_timeout(now);
            }
        }
        self.settle_race(now);
    }

    /// Nothing was heard for a while: tries each address by itself, if several have shared an attempt, and the next address
    /// of the server. The server may have taken the first packets from a link that does not bring its answer back, and it
    /// stays with that for this attempt (RFC 9000 section 9).
    fn take_step(&mut self, now: Instant) {
        let mut attempts: Vec<Vec<FourTuple>> = Vec::new();
        let field = self.race.as_ref().and_then(|race| race.field.as_ref());
        let rivals = field.into_iter().flat_map(|field| &field.rivals);
        for attempt in std::iter::once(&*self).chain(rivals) {
            if let Some(race) = attempt.race.as_ref().filter(|_| attempt.may_split()) {
                attempts.extend(race.copies.others().iter().map(|tuple| vec![*tuple]));
            }
        }
        let Some(race) = &mut self.race else {
            return;
        };
        race.split = true;
        let Some(field) = &mut race.field else {
            return;
        };
        for rival in &mut field.rivals {
            if let Some(race) = &mut rival.race {
                race.split = true;
            }
        }
        attempts.extend(field.waiting.pop_front());
        for tuples in attempts {
            self.start_rival(now, &tuples);
        }
    }

    /// One more attempt, from these addresses to one of the server's.
    fn start_rival(&mut self, now: Instant, tuples: &[FourTuple]) {
        let rng = StdRng::from_rng(&mut self.rng);
        let Some(field) = self.race.as_mut().and_then(|race| race.field.as_mut()) else {
            return;
        };
        if field.rivals.len() >= limits::MAX_RACE_ATTEMPTS {
            field.waiting.push_front(tuples.to_vec());
            return;
        }
        let setup = Setup {
            now,
            config: field.config.clone(),
            endpoint: &self.endpoint_config,
            server_name: &field.server_name,
            reset_key: &field.reset_key,
        };
        let race = field.config.race.unwrap_or_default();
        tracing::debug!(path = %tuples[0], addresses = tuples.len(), "one more attempt to connect");
        match Self::new_client(&setup, tuples[0], rng) {
            Ok(mut rival) => {
                if let Some(memory) = &field.memory {
                    rival.share(memory);
                }
                rival.race = Some(Box::new(Race::new(now, tuples, &race)));
                // It counts from the first attempt.
                rival.handshake_deadline = self.handshake_deadline;
                field.rivals.push(rival);
            }
            // It could be started once, so that this does not happen.
            Err(error) => tracing::debug!(%error, "no further attempt"),
        }
        self.take_rival_events();
    }

    /// What the other attempts have to tell the endpoint.
    fn take_rival_events(&mut self) {
        let field = self.race.as_mut().and_then(|race| race.field.as_mut());
        for rival in field.into_iter().flat_map(|field| &mut field.rivals) {
            let events = rival.endpoint_events.drain(..);
            let events = events.filter(|event| *event != EndpointEvent::Drained);
            self.endpoint_events.extend(events);
        }
    }

    /// Takes in a datagram while several attempts may be under way.
    pub(super) fn handle_racing_event(&mut self, event: &mut ConnectionEvent) {
        let (now, cid_len) = (event.now, self.endpoint_config.cids.len());
        let dcid = parse_invariant(&event.datagrams, cid_len).ok();
        let dcid = dcid.map(
            |(Invariant::Long { dcid, .. } | Invariant::Short { dcid, .. })| {
                // `ConnectionId` holds no more, and ours are not longer.
                ConnectionId::new(&dcid[..dcid.len().min(crate::packet::MAX_CID_LEN)])
            },
        );
        let field = self.race.as_mut().and_then(|race| race.field.as_mut());
        let mut rivals = field.into_iter().flat_map(|field| &mut field.rivals);
        match rivals.find(|rival| Some(rival.handshake_scid) == dcid) {
            Some(rival) => rival.on_event(event),
            None => self.on_event(event),
        }
        self.settle_race(now);
    }

    /// Something has happened to one of the attempts.
    pub(super) fn settle_race(&mut self, now: Instant) {
        self.take_rival_events();
        self.settle_attempts(now);
        if self.confirmed {
            // Until then, the other addresses may be needed.
            self.race = self.race.take().filter(|race| !race.farewells.is_empty());
        }
    }

    fn settle_attempts(&mut self, now: Instant) {
        if self.race.as_ref().is_none_or(|race| race.field.is_none()) {
            return;
        }
        self.drop_failed_rivals(now);
        let complete = |one: &Self| one.state.is_established();
        if !complete(self) {
            let field = self.race.as_mut().and_then(|race| race.field.as_mut());
            let first = field.and_then(|field| {
                let winner = field.rivals.iter().position(complete)?;
                Some(field.rivals.swap_remove(winner))
            });
            if let Some(winner) = first {
                self.replace(now, winner);
            }
        }
        if complete(self) {
            self.give_up_rivals(now);
            return;
        }
        while !self.state.is_alive() && self.go_on_with_another(now) {}
    }

    /// The connection's own attempt has failed. Goes on with another one; false if there is none.
    fn go_on_with_another(&mut self, now: Instant) -> bool {
        let failed = self.failed_addresses();
        let lost = |event: &Event| matches!(event, Event::ConnectionLost { .. });
        if !self.events.iter().any(lost) {
            // The application knows: it has closed the connection, or has been told.
            self.give_up_rivals(now);
            return false;
        }
        let Some(field) = self.race.as_mut().and_then(|race| race.field.as_mut()) else {
            return false;
        };
        field.failed.extend(failed);
        if field.rivals.is_empty()
            && let Some(next) = field.waiting.pop_front()
        {
            self.start_rival(now, &next);
        }
        let field = self.race.as_mut().and_then(|race| race.field.as_mut());
        let next =
            field.and_then(|field| (!field.rivals.is_empty()).then(|| field.rivals.remove(0)));
        match next {
            Some(next) => {
                self.replace(now, next);
                true
            }
            None => {
                self.explain_failure();
                false
            }
        }
    }

    /// Another attempt takes the place of this one.
    fn replace(&mut self, now: Instant, next: Self) {
        let mut old = std::mem::replace(self, next);
        let mut race = old.race.take();
        // What the endpoint was not told yet comes first.
        let told = old.endpoint_events.drain(..);
        let told = told.filter(|event| *event != EndpointEvent::Drained);
        let newer = std::mem::take(&mut self.endpoint_events);
        self.endpoint_events = told.chain(newer).collect();
        self.totals.sent_datagrams += old.totals.sent_datagrams;
        self.totals.sent_bytes += old.totals.sent_bytes;
        let own = self.race.take();
        if let (Some(race), Some(own)) = (&mut race, own) {
            race.copies = own.copies;
            race.heard = own.heard;
            race.split = own.split;
        }
        self.race = race;
        self.part_with(now, old);
    }

    /// The handshake is complete, or the application wants no connection any more: the other attempts are over.
    pub(super) fn give_up_rivals(&mut self, now: Instant) {
        let field = self.race.as_mut().and_then(|race| race.field.take());
        for rival in field.into_iter().flat_map(|field| field.rivals) {
            self.part_with(now, rival);
        }
    }

    /// An attempt is over: the endpoint forgets it, and its server is told in one packet, unless it ended the attempt
    /// itself.
    fn part_with(&mut self, now: Instant, mut old: Self) {
        old.race = None;
        // The server does not know yet: a stateless reset for each of its packets would be more than one packet.
        let cid = old.handshake_scid;
        self.endpoint_events
            .push_back(EndpointEvent::RetireCidQuietly(cid, now));
        let remote = old.paths.handshake_tuple().remote;
        if let Some(token) = old.paths.remote_cids().active_token(PathId::ZERO) {
            self.endpoint_events
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
        if let Some(transmit) = old.poll_transmit(now, 1, &mut datagram)
            && let Some(race) = &mut self.race
        {
            race.farewells.push_back((transmit, datagram));
        }
    }

    /// Other attempts that have failed are over.
    fn drop_failed_rivals(&mut self, now: Instant) {
        let Some(field) = self.race.as_mut().and_then(|race| race.field.as_mut()) else {
            return;
        };
        let mut gone = Vec::new();
        let mut place = 0;
        while let Some(rival) = field.rivals.get(place) {
            if rival.state.is_alive() {
                place += 1;
            } else {
                gone.push(field.rivals.remove(place));
            }
        }
        for rival in gone {
            let failed = rival.failed_addresses();
            if let Some(field) = self.race.as_mut().and_then(|race| race.field.as_mut()) {
                field.failed.extend(failed);
            }
            self.part_with(now, rival);
        }
    }

    /// The addresses of an attempt that has failed, and why.
    fn failed_addresses(&self) -> Vec<FailedAttempt> {
        let Some(race) = &self.race else {
            return Vec::new();
        };
        let reason = self.state.lost_reason();
        let outcome = race.copies.outcome();
        let failed = outcome.map(|(network_path, answered, refused)| {
            let reason = match (refused, reason) {
                (Some(why), _) => AttemptError::NotSent(why.to_owned()),
                (None, Some(ConnectionError::TimedOut) | None) if answered => {
                    AttemptError::FellSilent
                }
                (None, Some(ConnectionError::TimedOut) | None) => AttemptError::NoAnswer,
                // Version negotiation and a Retry are of no one address.
                (None, Some(_)) if !answered && race.copies.is_answered() => AttemptError::NoAnswer,
                (None, Some(reason)) => AttemptError::Ended(Box::new(reason.clone())),
            };
            FailedAttempt {
                network_path,
                reason,
            }
        });
        failed.collect()
    }

    /// The time for the handshake is over, for all attempts.
    pub(super) fn on_handshake_deadline(&mut self, now: Instant) {
        let field = self.race.as_mut().and_then(|race| race.field.as_mut());
        if let Some(field) = field {
            for rival in &mut field.rivals {
                rival.end(now, Some(ConnectionError::TimedOut));
            }
            let waiting = field.waiting.drain(..).flatten();
            field
                .failed
                .extend(waiting.map(|network_path| FailedAttempt {
                    network_path,
                    reason: AttemptError::NotTried,
                }));
        }
        self.end(now, Some(ConnectionError::TimedOut));
    }

    /// No attempt is left: the application learns why of each.
    fn explain_failure(&mut self) {
        let Some(field) = self.race.as_mut().and_then(|race| race.field.take()) else {
            return;
        };
        let Some(reason) = summary(&field) else {
            return;
        };
        self.state.set_lost_reason(reason.clone());
        for event in &mut self.events {
            if let Event::ConnectionLost { reason: said } = event {
                *said = reason.clone();
            }
        }
    }
}

/// What is said of attempts that have all failed. `None`: what the last one said.
fn summary(field: &Field) -> Option<ConnectionError> {
    let mut failed = Vec::new();
    for tuple in &field.order {
        let all = field.failed.iter();
        // An address may have been in several attempts: the one that tells the most counts.
        let most = all
            .filter(|one| one.network_path == *tuple)
            .max_by_key(|one| match one.reason {
                AttemptError::NotTried => 0,
                AttemptError::NoAnswer => 1,
                AttemptError::NotSent(_) => 2,
                AttemptError::FellSilent => 3,
                AttemptError::Ended(_) => 4,
            });
        failed.extend(most.cloned());
    }
    let ended = failed.iter().find_map(|one| match &one.reason {
        AttemptError::Ended(reason) => Some(&**reason),
        _ => None,
    });
    let servers = by_server(&field.order).len();
    match ended {
        // The one server there is has spoken.
        Some(reason) if servers == 1 => Some(reason.clone()),
        _ if failed.is_empty() => None,
        _ => Some(ConnectionError::Unreachable(failed.into())),
    }
}

/// The pairs of addresses by the server's, in the order in which each comes first.
fn by_server(tuples: &[FourTuple]) -> VecDeque<Vec<FourTuple>> {
    let mut servers: VecDeque<Vec<FourTuple>> = VecDeque::new();
    for tuple in tuples {
        let known = servers
            .iter_mut()
            .find(|server| server[0].remote == tuple.remote);
        match known {
            Some(server) if server.contains(tuple) => {}
            Some(server) => server.push(*tuple),
            None => servers.push_back(vec![*tuple]),
        }
    }
    servers
}
