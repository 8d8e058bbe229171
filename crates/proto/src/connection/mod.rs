//! One connection: the struct and its poll methods. Glue: it calls its parts, no part calls back.

mod ack_loss;
mod application;
mod close;
mod event;
mod handshake;
mod path_mut;
mod paths;
mod race;
mod timers;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use mpquic_sched_core::{ConnectionFacts, ConnectionId, Side};
use rand::rngs::StdRng;

pub use event::{Event, PathEvent};
pub use path_mut::PathMut;
pub(crate) use race::{Race, Setup};

use crate::cid::{CidGenerator, ResetKey};
use crate::closing::{IdleTimer, State};
use crate::data::DataPlane;
use crate::datagram::Datagrams;
use crate::events::{ConnectionEvent, DatagramMeta, EndpointEvent};
use crate::forecast::ReceiveRate;
use crate::handshake::{AddressProof, Ends, FirstFlight, Handshake, Session};
use crate::memory::Memory;
use crate::observe::{Started, Watch};
use crate::path::{ACK_DELAY_EXPONENT, AckFrequency, Paths, PathsSetup};
use crate::shards::Counted;
use crate::stream::Streams;
use crate::token::AddressTokens;
use crate::{
    ConnectError, ConnectionStats, EndpointConfig, FourTuple, PathId, ServerConfig,
    TransportConfig, TransportError,
};
use mpquic_wire::packet::Version;
use mpquic_wire::transport_parameters::{Grease, TransportParameters, VersionInformation};

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
    pub(crate) watch: Watch,
    pub(crate) side: Side,
    pub(crate) config: Arc<TransportConfig>,
    pub(crate) endpoint_config: Arc<EndpointConfig>,
    pub(crate) rng: StdRng,
    pub(crate) state: State,
    pub(crate) handshake: Handshake,
    /// On clients with several addresses to begin on, until the handshake is confirmed: the other attempts.
    pub(crate) race: Option<Box<Race>>,
    pub(crate) paths: Paths,
    pub(crate) data: DataPlane,
    pub(crate) peer: TransportParameters,
    pub(crate) idle: IdleTimer,
    /// When the next look at the peer's pace is due, if it has to keep one.
    pub(crate) pace_at: Option<Instant>,
    pub(crate) events: VecDeque<Event>,
    pub(crate) endpoint_events: VecDeque<EndpointEvent>,
    pub(crate) totals: ConnectionStats,
    pub(crate) receive_rate: ReceiveRate,
}

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
        let mut parameters = local_parameters(&config.transport, endpoint, scid, &mut rng);
        // RFC 9368 section 3: what the server may turn this first flight into. TLS is bound to the version that it began
        // with, so that is nothing else.
        parameters.version_information =
            Some(VersionInformation::new(version, [version], &mut rng));
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
        if let Some(remembered) = this.handshake.offer_early_data() {
            this.idle.set_peer(remembered.max_idle_timeout_ms);
            this.peer = remembered;
            this.data.set_peer_params(&this.peer);
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
        let mut parameters = local_parameters(&config.transport, endpoint, scid, &mut rng);
        //= specs/rfc9000.txt#section-7.3
        //# A server includes the Destination Connection ID field from the first Initial packet it
        //# received from the client in the original_destination_connection_id transport parameter; if
        //# the server sent a Retry packet, this refers to the first Initial packet received before
        //# sending the Retry packet.
        parameters.original_destination_connection_id = Some(attempt.dcid);
        if let AddressProof::Retry { original_dcid } = attempt.proof {
            parameters.original_destination_connection_id = Some(original_dcid);
            //= specs/rfc9000.txt#section-7.3
            //# If it sends a Retry packet, a server also includes the Source Connection ID field
            //# from the Retry packet in the retry_source_connection_id transport parameter.
            parameters.retry_source_connection_id = Some(attempt.dcid);
        }
        parameters.stateless_reset_token = Some(reset_key.token(&scid));
        parameters.disable_active_migration = !config.migration;
        let preferred = config.preferred_address(&cid_generator, &reset_key, &mut rng);
        parameters.preferred_address = preferred;
        let version = attempt.version;
        parameters.version_information = Some(VersionInformation::new(
            version,
            endpoint.versions(),
            &mut rng,
        ));
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
        let data = DataPlane::new(side, &config, scheduler, observer.is_some());
        Self {
            watch: Watch::new(now, observer),
            side,
            rng,
            state: State::new(),
            handshake,
            race: None,
            paths,
            data,
            peer: TransportParameters::default(),
            idle: IdleTimer::new(now, config.max_idle_timeout),
            pace_at: config.min_rate.map(|(_, period)| now + period),
            events: VecDeque::new(),
            endpoint_events: VecDeque::from([EndpointEvent::AddCid(scid)]),
            totals: ConnectionStats::default(),
            receive_rate: ReceiveRate::default(),
            endpoint_config: endpoint.clone(),
            config,
        }
    }

    /// What the endpoint must know; drain it before each transmit, so that no connection ID is
    /// told to the peer before it is routed.
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
        let closed = self.is_closed();
        if let Some(event) = self.data.poll_event(closed) {
            return Some(Event::Stream(event));
        }
        (!closed && self.data.poll_unblocked()).then_some(Event::DatagramsUnblocked)
    }

    /// Takes in a datagram from the endpoint, or several that came together.
    pub fn handle_event(&mut self, mut event: ConnectionEvent) {
        if self.handshake.attempt().is_none() {
            return self.on_event(&mut event);
        }
        let cid_len = self.endpoint_config.cids.len();
        let race = self.race.as_deref_mut();
        match race.and_then(|race| race.rival_of(&event.datagrams, cid_len)) {
            Some(rival) => rival.on_event(&mut event),
            None => self.on_event(&mut event),
        }
        self.settle_race(event.now);
    }

    fn on_event(&mut self, event: &mut ConnectionEvent) {
        let segment = event.segment.max(1);
        let mut arrival = DatagramMeta::new(event.now, event.network_path, event.ecn);
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
        self.data.add_stats(&mut stats);
        let keys = self.handshake.one_rtt();
        stats.key_updates = keys.map_or(0, mpquic_wire::crypto::OneRttKeys::updates);
        stats
    }

    /// What the scheduler has learned, on connections whose scheduler learns. Allocates.
    pub fn learned(&self) -> Option<mpquic_sched_core::Learned> {
        self.data.learned()
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

/// What this side says of itself, whichever it is.
fn local_parameters(
    config: &TransportConfig,
    endpoint: &EndpointConfig,
    scid: ConnectionId,
    rng: &mut StdRng,
) -> TransportParameters {
    let streams = Streams::local_params(config);
    TransportParameters {
        max_idle_timeout_ms: config
            .max_idle_timeout
            .map_or(0, |timeout| timeout.as_millis().min(1 << 60) as u64),
        max_udp_payload_size: endpoint.max_udp_payload_size.into(),
        initial_max_data: streams.max_data,
        initial_max_stream_data_bidi_local: streams.max_stream_data_bidi_local,
        initial_max_stream_data_bidi_remote: streams.max_stream_data_bidi_remote,
        initial_max_stream_data_uni: streams.max_stream_data_uni,
        initial_max_streams_bidi: streams.max_streams_bidi,
        initial_max_streams_uni: streams.max_streams_uni,
        ack_delay_exponent: ACK_DELAY_EXPONENT,
        max_ack_delay_ms: config.max_ack_delay.as_millis() as u64,
        active_connection_id_limit: crate::limits::ACTIVE_CONNECTION_ID_LIMIT,
        initial_source_connection_id: Some(scid),
        max_datagram_frame_size: Datagrams::local_max_frame_size(config),
        min_ack_delay_us: Some(AckFrequency::min_ack_delay_us(config.max_ack_delay)),
        initial_max_path_id: (config.max_paths > 1).then(|| config.max_paths - 1),
        grease_quic_bit: endpoint.grease_quic_bit,
        grease: Some(Grease::new(rng)),
        ..TransportParameters::default()
    }
}

/// Apart from the rest: connection IDs come and go seldom, and most of what an application hears of are streams, whose events
/// wait elsewhere.
#[cold]
#[inline(never)]
fn take_event<T>(events: &mut VecDeque<T>) -> Option<T> {
    events.pop_front()
}
