//! One connection: the struct, how it begins, its poll methods and timers. Glue: it calls its parts, no part calls back.

mod api;
mod frames;
mod life;
mod packet;
mod parameters;
mod path_mut;
mod race;
mod receive;
mod transmit;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use mpquic_sched_core::{ConnectionFacts, Side};
use rand::rngs::StdRng;

pub use path_mut::PathMut;
use race::Race;
pub(crate) use race::Setup;

use crate::cid::{CidGenerator, ResetKey};
use crate::closing::{CloseFrame, IdleTimer, State};
use crate::config::MIN_KEEP_ALIVE;
use crate::data::DataPlane;
use crate::events::{ConnectionEvent, DatagramMeta, EndpointEvent, EndpointEvents, Event};
use crate::handshake::{
    AddressProof, Ends, FirstFlight, Handshake, Session, TimerFacts as HandshakeFacts,
};
use crate::memory::Memory;
use crate::observe::{ObserverHooks, Started};
use crate::path::{ALL, ChallengeOutcome, Expected, Paths, PathsSetup, TimerFacts};
use crate::recovery::earlier;
use crate::shards::Counted;
use crate::space::{PacketSpace, SpaceId};
use crate::token::AddressTokens;
use crate::{
    ConnectError, ConnectionError, ConnectionStats, EndpointConfig, FourTuple, PathErrorCode,
    PathEvent, PathId, ServerConfig, TransportConfig, TransportError,
};

/// A connection without I/O. The caller passes datagrams and timeouts in, and takes datagrams and
/// events out.
///
/// After each call that may have changed something, a driver calls, in this order,
/// [`poll_endpoint_events`](Self::poll_endpoint_events), [`poll_transmit`](Self::poll_transmit) and
/// [`poll`](Self::poll), each until it returns `None`, and then [`poll_timeout`](Self::poll_timeout).
///
/// # Determinism
///
/// Time and randomness are arguments. The same calls on connections with the same seed give the
/// same results, except for the bytes of TLS's own random values.
pub struct Connection {
    /// Before what it was made by, so that it ends first.
    watch: ObserverHooks,
    side: Side,
    config: Arc<TransportConfig>,
    endpoint_config: Arc<EndpointConfig>,
    rng: StdRng,
    state: State,
    pub(crate) handshake: Handshake,
    /// On clients with several addresses to begin on, until the handshake is confirmed: the other attempts.
    race: Option<Box<Race>>,
    pub(crate) paths: Paths,
    pub(crate) data: DataPlane,
    idle: IdleTimer,
    events: VecDeque<Event>,
    endpoint_events: EndpointEvents,
    totals: ConnectionStats,
}

/// How it begins.
impl Connection {
    /// A connection that we start; its first datagram is ready to be polled.
    pub(crate) fn new_client(
        setup: &Setup<'_>,
        tuple: FourTuple,
        mut rng: StdRng,
    ) -> Result<Self, ConnectError> {
        let Setup {
            now,
            endpoint,
            server_name,
            ..
        } = *setup;
        let config = setup.config.clone();
        let reset_key = Arc::clone(setup.reset_key);
        let cid_generator = endpoint.cids.clone();
        let scid = cid_generator.generate(&mut rng);
        //= specs/rfc9000.txt#section-7.2
        //# This Destination Connection ID MUST be at least 8 bytes in length.
        let dcid = CidGenerator::new(8.max(endpoint.cids.len())).generate(&mut rng);
        let version = config.version;
        let parameters = parameters::of_client(&config, endpoint, scid, &mut rng);
        let session = Session::client(config.tls, server_name, &parameters, &dcid, version)?;
        let ends = Ends {
            side: Side::Client,
            version,
            scid,
            original_dcid: dcid,
            remote_cid: dcid,
        };
        let transport = config.transport;
        let mut this = Self::new(
            now,
            &ends,
            transport,
            endpoint,
            tuple,
            rng,
            reset_key,
            cid_generator,
            session,
        );
        this.paths.follow_peer_if(config.preferred_address);
        let deadline = now + config.handshake_timeout;
        this.handshake.set_deadline(Some(deadline));
        this.handshake.keep_tokens(config.token_store, server_name);
        let started = Started {
            side: Side::Client,
            version,
            tuple,
            original_dcid: dcid,
            scid,
        };
        this.watch.on_start(now, started, &parameters);
        if this.handshake.offer_early_data() {
            let peer = this.handshake.peer();
            this.idle.set_peer(peer.max_idle_timeout_ms);
            this.data.set_peer_params(peer);
        }
        this.data.share(setup.memory);
        Ok(this)
    }

    /// A connection that a client starts with an Initial packet, which is to be handed over next.
    pub(crate) fn new_server(
        now: Instant,
        config: &Arc<ServerConfig>,
        endpoint: &Arc<EndpointConfig>,
        attempt: &FirstFlight,
        mut rng: StdRng,
        reset_key: Arc<ResetKey>,
        tokens: &Arc<AddressTokens>,
        memory: &Arc<Memory>,
        counted: Counted,
    ) -> Result<Self, TransportError> {
        let cid_generator = endpoint.cids.clone();
        let scid = cid_generator.generate(&mut rng);
        let (cids, key) = (&cid_generator, &reset_key);
        let parameters =
            parameters::of_server(config, endpoint, attempt, scid, cids, key, &mut rng);
        let (preferred, version) = (parameters.preferred_address, attempt.version);
        let tls = config.tls.clone();
        let session = Session::server(tls, &parameters, &attempt.dcid, version)?;
        let ends = Ends {
            side: Side::Server,
            version,
            scid,
            original_dcid: attempt.dcid,
            remote_cid: attempt.scid,
        };
        let mut this = Self::new(
            now,
            &ends,
            config.transport.clone(),
            endpoint,
            attempt.network_path,
            rng,
            reset_key,
            cid_generator,
            session,
        );
        let deadline = now + config.handshake_timeout;
        this.handshake.set_deadline(Some(deadline));
        let first = config.validation_tokens.sent;
        this.handshake.give_tokens(tokens, first);
        this.handshake.count(counted);
        this.data.share(memory);
        if attempt.proof.is_valid()
            && let Some(path) = this.paths.get_mut(PathId::ZERO)
        {
            // RFC 9000 section 8.1: the client has proven its address, so there is no limit on what is sent to it.
            path.validate();
        }
        if let AddressProof::Token { addresses } = &attempt.proof {
            this.paths.know_addresses(addresses);
        }
        this.endpoint_events
            .push_back(EndpointEvent::AddCid(attempt.dcid));
        this.paths.follow_peer_if(config.migration);
        if let Some(preferred) = preferred {
            let (id, token) = (preferred.connection_id, preferred.stateless_reset_token);
            this.paths
                .add_preferred_cid(id, token, &mut this.endpoint_events);
        }
        let original = parameters.original_destination_connection_id;
        let started = Started {
            side: Side::Server,
            version,
            tuple: attempt.network_path,
            original_dcid: original.unwrap_or(attempt.dcid),
            scid,
        };
        this.watch.on_start(now, started, &parameters);
        Ok(this)
    }

    fn new(
        now: Instant,
        ends: &Ends,
        config: Arc<TransportConfig>,
        endpoint: &Arc<EndpointConfig>,
        tuple: FourTuple,
        mut rng: StdRng,
        reset_key: Arc<ResetKey>,
        cid_generator: CidGenerator,
        session: Session,
    ) -> Self {
        let (side, scid) = (ends.side, ends.scid);
        let setup = PathsSetup {
            side,
            tuple,
            local: scid,
            remote: ends.remote_cid,
            cid_generator,
            reset_key,
            config: Arc::clone(&config),
            endpoint: Arc::clone(endpoint),
        };
        let mut paths = Paths::new(setup, &mut rng);
        let handshake = Handshake::new(ends, session, &mut rng);
        paths.begin(now, &mut rng);
        let factories = endpoint.observers.iter().chain(&config.observers);
        let observer = crate::observe::observer(side, factories);
        let facts = ConnectionFacts::new(side, tuple.remote);
        let scheduler = config.scheduler.make_for(&facts);
        let data = DataPlane::new(now, side, &config, scheduler, observer.is_some());
        Self {
            watch: ObserverHooks::new(now, observer),
            side,
            rng,
            state: State::new(),
            handshake,
            race: None,
            paths,
            data,
            idle: IdleTimer::new(now, config.max_idle_timeout),
            events: VecDeque::new(),
            endpoint_events: VecDeque::from([EndpointEvent::AddCid(scid)]),
            totals: ConnectionStats::default(),
            endpoint_config: endpoint.clone(),
            config,
        }
    }
}

/// What a driver calls.
impl Connection {
    /// What the endpoint must know; drain it before each transmit, so that no connection ID is
    /// told to the peer before it is routed.
    #[inline]
    pub fn poll_endpoint_events(&mut self) -> Option<EndpointEvent> {
        if self.endpoint_events.is_empty() {
            return None;
        }
        take_event(&mut self.endpoint_events)
    }

    /// What the application may want to know.
    pub fn poll(&mut self) -> Option<Event> {
        if !self.events.is_empty() {
            return take_event(&mut self.events);
        }
        let state = &self.state;
        if let Some(event) = self.data.poll_event(|| !state.is_alive()) {
            return Some(Event::Stream(event));
        }
        if self.data.poll_fates() {
            return Some(Event::DatagramFates);
        }
        let unblocked = self.data.poll_unblocked(|| !state.is_alive());
        unblocked.then_some(Event::DatagramsUnblocked)
    }

    /// Takes in a datagram from the endpoint, or several that came together.
    pub fn handle_event(&mut self, mut event: ConnectionEvent) {
        let now = event.now;
        let cid_len = self.endpoint_config.cids.len();
        let race = self.race.as_deref_mut();
        if let Some(rival) = race.and_then(|race| race.rival_of(&event.datagrams, cid_len)) {
            rival.handle_event(event);
        } else {
            let segment = event.segment.max(1);
            let mut arrival = DatagramMeta::new(now, event.network_path, event.ecn);
            for datagram in event.datagrams.chunks_mut(segment) {
                arrival.bytes = datagram.len();
                self.on_datagram(&arrival, datagram);
            }
            if self.state.is_handshaking()
                && let Some(bytes) = self.handshake.memory_to_tell()
            {
                self.endpoint_events
                    .push_back(EndpointEvent::HandshakeBytes(bytes));
            }
        }
        if self.race.is_some() {
            self.settle_race(now);
        }
    }

    /// When to call [`handle_timeout`](Self::handle_timeout); `None` for never.
    pub fn poll_timeout(&self) -> Option<Instant> {
        if self.state.is_drained() {
            return None;
        }
        if let Some(until) = self.state.timer() {
            return Some(until);
        }
        let mut next = self.idle.rest_timer();
        if self.handshake.has_timers() {
            let facts = HandshakeFacts::of(self.paths.get(PathId::ZERO), self.idle.since());
            next = earlier(next, self.handshake.next_timeout(facts.as_ref()));
            let race = self.race.as_deref();
            next = earlier(next, race.and_then(|race| race.timer(self)));
        }
        if self.state.is_established() {
            let waits = || self.data.can_send_streams() || self.has_control();
            let pto = || self.paths.smallest_pto();
            next = earlier(next, self.data.next_timeout(&self.paths, waits, pto));
        }
        next = earlier(next, self.data.pace_timer());
        if !self.paths.retired().is_empty() {
            next = earlier(next, self.paths.retired_timeout());
        }
        // After the others: what they say spares a path to work out timers that come later.
        for path in self.paths.iter() {
            // The paths are looked over for others only where it matters.
            let elsewhere = path.is_suspect() && self.paths.has_other_usable(path.index);
            next = path.next_timeout(self.timer_facts(elsewhere), next);
        }
        self.idle.earlier(next, || self.paths.largest_pto())
    }

    /// The time of [`poll_timeout`](Self::poll_timeout) has come. An early call does nothing.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.on_timeout(now);
        if self.handshake.attempt().is_some() {
            self.with_race(|race, own| race.on_timeout(own, now));
            self.settle_race(now);
        }
    }

    /// Whether [`handle_timeout`](Self::handle_timeout) would draw conclusions from what was not acknowledged: packets
    /// lost, a probe timeout, a path that falls suspect. If the task that receives may be late, look first whether
    /// something waits to be received, and hand that in.
    pub fn judges_silence(&self, now: Instant) -> bool {
        self.paths.iter().any(|path| {
            let elsewhere = path.is_suspect() && self.paths.has_other_usable(path.index);
            path.judges_silence(now, self.timer_facts(elsewhere))
        })
    }
}

/// What time brings.
impl Connection {
    fn on_timeout(&mut self, now: Instant) {
        if self.state.is_drained() {
            return;
        }
        let due = self.poll_timeout();
        if let Some(until) = self.state.timer() {
            if until <= now {
                self.end(now, None);
            }
            return;
        }
        if self.handshake.is_late(now) {
            if let Some(race) = &mut self.race {
                race.on_late(now);
            }
            return self.end(now, Some(ConnectionError::TimedOut));
        }
        let idle = self.idle.deadline(|| self.paths.largest_pto());
        if idle.is_some_and(|at| at <= now) {
            // RFC 9000 section 10.1: silently.
            self.end(now, Some(ConnectionError::TimedOut));
            return;
        }
        if self.data.is_too_slow(now) {
            return self.start_closing(now, CloseFrame::TooSlow, true);
        }
        if self.idle.is_at_rest(now) {
            // Gives back the memory that a transfer's buffers are kept for: the next transfer allocates them anew.
            self.data.shrink();
            self.events.shrink_to_fit();
            self.endpoint_events.shrink_to_fit();
            self.handshake.shrink();
            self.paths.shrink();
        }
        self.handshake.on_timeout(now);
        self.on_handshake_timeouts(now);
        let ids: smallvec::SmallVec<[PathId; 16]> = self.paths.iter().map(|path| path.id).collect();
        for id in ids {
            self.on_path_timeout(now, due, id);
        }
        let pto = self.paths.smallest_pto();
        self.data.on_timeout(now, pto);
        for retired in self.paths.retired_mut() {
            retired.on_timeout(now);
        }
        while let Some(id) = self.paths.discard_due(now) {
            let (rng, events) = (&mut self.rng, &mut self.endpoint_events);
            self.paths.discard(id, rng, events);
            self.watch.on_path_discarded(now, id);
            let event = PathEvent::Discarded { id };
            self.events.push_back(Event::Path(event));
        }
    }

    /// Only clients ask for data and credit that do not come: servers have no NAT that forgets them, and know no new
    /// address of their peer to ask at.
    fn timer_facts(&self, elsewhere: bool) -> TimerFacts {
        let idle_timeout = self.idle.timeout();
        let client = self.side == Side::Client;
        let waits = client && self.data.streams().is_limited();
        //= specs/rfc9000.txt#section-4.1
        //# To keep the connection from closing, a sender that is flow control limited SHOULD
        //# periodically send a STREAM_DATA_BLOCKED or DATA_BLOCKED frame when it has no
        //# ack-eliciting packets in flight.
        // Not by servers: the idle timeout is what ends a client that reads nothing of what is kept for it.
        let limited = idle_timeout
            .filter(|_| waits)
            .map(|timeout| (timeout / 3).max(MIN_KEEP_ALIVE));
        let keep_alive = match (self.config.keep_alive_interval, limited) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        TimerFacts {
            max_ack_delay: self.paths.peer_max_ack_delay(),
            ack_threshold: self.paths.ack_frequency().peer_threshold(),
            held_back: self.paths.ack_frequency().held_back(),
            confirmed: self.handshake.is_confirmed(),
            keep_alive: keep_alive.filter(|_| self.state.is_established()),
            elsewhere,
            asks: client && self.state.is_established(),
            expected: Expected {
                streams: self.data.streams().may_receive(),
                credit: waits || (client && self.data.streams().wants_streams()),
                idle_timeout,
            },
        }
    }

    fn on_path_timeout(&mut self, now: Instant, due: Option<Instant>, id: PathId) {
        let facts = self.timer_facts(false);
        let Some((index, outcome)) = self.paths.on_timeout(now, due, id, facts) else {
            return;
        };
        let changed = self.paths.any_lost() || outcome.suspect || outcome.offer;
        if self.paths.any_lost() {
            self.on_packets_lost(now, index, SpaceId::Data);
        }
        if changed {
            self.watch.on_metrics(now, || self.paths.metrics(index));
        }
        if let Some(after) = outcome.silent {
            let event = PathEvent::Silent { id, after };
            self.events.push_back(Event::Path(event));
        }
        let mut asks = outcome.kept_alive;
        if outcome.receive_idle
            && let Some(path) = self.paths.at_mut(index)
        {
            let expected = Expected {
                streams: self.data.streams().expects_data(),
                ..facts.expected
            };
            asks |= path.on_receive_idle(now, expected, facts.max_ack_delay);
        }
        if asks && facts.expected.credit {
            self.data.streams_mut().repeat_blocked();
        }
        if outcome.suspect {
            self.on_suspect(now, id, index);
        }
        if outcome.certain && self.paths.confirm(now, index) {
            self.offer_in_flight(index, ALL);
        }
        if outcome.offer {
            let packets = self.paths.on_suspect_pto(now, index);
            self.offer_in_flight(index, packets);
        }
        if outcome.repeat_control {
            // RFC 9002 section 6.2.4: on the only path there is, a probe carries again what a lost packet may have
            // carried. Control frames are queued again; stream data is copied when the probe is built.
            for frame in &self.paths.frames_in_flight(index, 2) {
                self.repeat_control(SpaceId::Data, frame);
            }
        }
        if self.paths.suspect_early_data(now, index) {
            // Data that was sent ahead of the validation may have gone where nobody is: others carry it, too.
            self.on_suspect(now, id, index);
            if self.paths.fail_over(index) {
                self.offer_in_flight(index, ALL);
            }
        }
        let events = &mut self.endpoint_events;
        match self.paths.on_challenge_timeout(now, index, events) {
            ChallengeOutcome::Waiting => {}
            ChallengeOutcome::WentBack => self.data.on_path_moved(index),
            //= specs/rfc9000.txt#section-9.3.2
            //# If an endpoint has no state about the last validated peer address, it MUST close the
            //# connection silently by discarding all connection state.
            ChallengeOutcome::Failed if self.paths.open_count() == 1 => {
                self.end(now, Some(ConnectionError::NoValidatedPath));
            }
            //= specs/rfc10069-draft.md#path-initiation
            //# If validation fails, the client MUST NOT use the path and can remove any status
            //# associated to the path initiation attempt.
            //= specs/rfc10069-draft.md#path-initiation
            //# As the used path ID is consumed either way, the endpoint MUST explicitly close the
            //# path, as specified in {{path-close}}.
            ChallengeOutcome::Failed => {
                self.abandon_path(now, id, PathErrorCode::PATH_UNSTABLE_OR_POOR, false);
            }
        }
    }

    fn on_handshake_timeouts(&mut self, now: Instant) {
        for space_id in [SpaceId::Initial, SpaceId::Handshake] {
            let space = self.handshake.space_mut(space_id);
            let due = |space: &&mut PacketSpace| space.loss_time.is_some_and(|at| at <= now);
            if let Some(space) = space.filter(due)
                && let Some(index) = self.paths.on_handshake_loss_timeout(now, space, space_id)
            {
                self.on_packets_lost(now, index, space_id);
            }
        }
        let facts = HandshakeFacts::of(self.paths.get(PathId::ZERO), self.idle.since());
        let pto = self.handshake.pto_deadline(facts.as_ref());
        if pto.is_some_and(|at| at <= now)
            && let Some(path) = self.paths.get_mut(PathId::ZERO)
        {
            path.on_handshake_pto();
            // If nothing is in flight, the next deadline counts from what a client sends now.
            if self.handshake.on_pto() {
                self.idle.keep();
            }
        }
    }
}

/// A client's race.
impl Connection {
    /// Something may have happened to one of the attempts.
    fn settle_race(&mut self, now: Instant) {
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
    fn with_race<T>(&mut self, step: impl FnOnce(&mut Race, &mut Self) -> T) -> Option<T> {
        let mut race = self.race.take()?;
        let outcome = step(&mut race, self);
        self.race = Some(race);
        Some(outcome)
    }
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connection")
            .field("side", &self.side)
            .field("scid", &self.handshake.scid())
            .finish_non_exhaustive()
    }
}

/// Apart from the rest: connection IDs come and go seldom, and most of what an application hears of are streams, whose events
/// wait elsewhere.
#[cold]
#[inline(never)]
fn take_event<T>(events: &mut VecDeque<T>) -> Option<T> {
    events.pop_front()
}
