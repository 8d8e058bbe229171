//! Routes datagrams to connections and makes new ones.

mod accept;
mod accept_queue;
#[cfg(test)]
mod accept_tests;
mod admission;
#[cfg(test)]
mod admission_tests;
mod charge;
mod closed_connections;
mod early;
mod event;
mod half_open;
mod incoming;
mod negotiation;
mod refusal;
mod refused;
mod reset;
mod retired_cids;
mod retry;
mod routes;
mod table;
#[cfg(test)]
pub(crate) mod tests;

pub use accept::{AcceptJob, AcceptOutcome, Accepted};
pub use event::{AcceptError, DatagramEvent, RetryError};
pub use half_open::HalfOpen;
pub use incoming::Incoming;

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use mpquic_sched_core::{ConnectionId, EcnCodepoint, TransportErrorCode};
use mpquic_wire::packet::{Invariant, LONG_HEADER_FORM, PacketType, Version, parse_invariant};
use rand::SeedableRng;
use rand::rngs::StdRng;
use rustls::pki_types::ServerName;
use slab::Slab;

use self::accept_queue::AcceptQueue;
use self::admission::FirstPacket;
use self::closed_connections::Ends;
use self::early::Early;
use self::half_open::Share;
use self::incoming::Waiting;
use self::refused::Refused;
use self::reset::AnswerRate;
use self::retired_cids::RetiredCids;
use self::routes::{Route, Routes};
use crate::cid::{self, CidGenerator, ResetKey, ResetToken};
use crate::closing::Remains;
use crate::connection::Setup;
use crate::events::{ConnectionEvent, EndpointEvent};
use crate::memory::{Memory, MemoryUse};
use crate::shards::{Census, Shard};
use crate::token::AddressTokens;
use crate::{
    ClientConfig, ConnectError, Connection, ConnectionHandle, EndpointConfig, FourTuple,
    ServerConfig, Transmit,
};

/// Datagrams with a client's Initial packets have at least this size (RFC 9000 section 14.1).
const MIN_INITIAL_SIZE: usize = 1200;

/// All connections of one or several sockets, without I/O: routes datagrams to connections, starts and
/// accepts connections.
pub struct Endpoint {
    config: Arc<EndpointConfig>,
    server: Option<Arc<ServerConfig>>,
    rng: StdRng,
    generator: CidGenerator,
    reset_key: Arc<ResetKey>,
    reset_rate: AnswerRate,
    tokens: Arc<AddressTokens>,
    invalid_token_rate: AnswerRate,
    refusal_rate: AnswerRate,
    census: Arc<Census>,
    routes: Routes,
    waiting: Waiting,
    /// Of those that wait, for a driver that takes them one by one.
    accept_queue: Option<AcceptQueue>,
    early: Early,
    refused: Refused,
    retired_cids: RetiredCids,
    /// Closed connections that still answer late packets.
    ends: Ends,
    /// Beside those that wait.
    half_open: HalfOpen,
    /// For data of all connections.
    memory: Arc<Memory>,
    connections: Slab<Known>,
    /// When so many are left, their table shrinks.
    shrink_at: usize,
}

// By hand: keys and the generator's state must not end up in logs.
impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint")
            .field("server", &self.server.is_some())
            .field("connections", &self.connections.len())
            .field("incoming", &self.waiting.len())
            .finish_non_exhaustive()
    }
}

/// What the endpoint must forget when a connection is over.
#[derive(Debug, Default)]
struct Known {
    cids: Vec<ConnectionId>,
    tokens: Vec<(SocketAddr, ResetToken)>,
    /// While it is half open.
    half_open: Option<Share>,
    /// Once the connection itself is gone.
    remains: Option<Box<Remains>>,
}

impl Endpoint {
    /// An endpoint. It accepts connections if it has a server configuration.
    pub fn new(config: Arc<EndpointConfig>, server: Option<Arc<ServerConfig>>) -> Self {
        let mut rng = StdRng::from_seed(*config.seed);
        Self {
            server,
            generator: config.cids.clone(),
            reset_key: Arc::new(ResetKey::new(
                config.reset_key.as_ref().unwrap_or(&config.seed),
            )),
            reset_rate: AnswerRate::new(),
            tokens: Arc::new(AddressTokens::new(
                config.token_key.as_ref().unwrap_or(&config.seed),
                config.clock,
            )),
            invalid_token_rate: AnswerRate::new(),
            refusal_rate: AnswerRate::new(),
            census: config.shard.as_ref().map(Shard::census).unwrap_or_default(),
            routes: Routes::new(&mut rng),
            waiting: Waiting::default(),
            accept_queue: None,
            early: Early::default(),
            refused: Refused::default(),
            retired_cids: RetiredCids::default(),
            ends: Ends::default(),
            half_open: HalfOpen::default(),
            memory: Arc::new(Memory::new(config.send_memory, config.receive_memory)),
            connections: Slab::new(),
            shrink_at: 0,
            rng,
            config,
        }
    }

    /// Replaces the server configuration for future connections. With `None`, clients that try to
    /// connect get no answer.
    pub fn set_server_config(&mut self, server: Option<Arc<ServerConfig>>) {
        self.server = server;
    }

    /// Seals address validation tokens with this key from now on; those that the key before it sealed are still
    /// accepted, and no older ones. The rules for the key are those of
    /// [`EndpointConfig::token_key`]. Processes that share keys must all know a new one before the first
    /// rotates twice: rotate at intervals longer than the lifetime of the tokens, and no token is lost.
    ///
    /// A process that starts between two rotations is given the older key in its configuration and the newer
    /// one here.
    ///
    /// ```
    /// # use std::{sync::Arc, time::Instant};
    /// use mpquic_proto::{Endpoint, EndpointConfig};
    ///
    /// # let [seed, old, new] = [[1; 32], [2; 32], [3; 32]]; // 32 random bytes each
    /// let mut config = EndpointConfig::new(seed);
    /// config.token_key(old);
    /// let endpoint = Endpoint::new(Arc::new(config), None);
    /// endpoint.rotate_token_key(new);
    /// ```
    pub fn rotate_token_key(&self, key: [u8; 32]) {
        self.tokens.rotate(&key);
    }

    /// Corrects the clock of [`EndpointConfig::clock`].
    pub fn set_clock(&self, now: Instant, since_epoch: Duration) {
        self.tokens.set_clock(now, since_epoch);
    }

    /// Processes a received datagram. Appends an answer to `buf` if it returns
    /// [`DatagramEvent::Response`].
    pub fn handle(
        &mut self,
        now: Instant,
        network_path: FourTuple,
        ecn: Option<EcnCodepoint>,
        datagram: BytesMut,
        buf: &mut Vec<u8>,
    ) -> Option<DatagramEvent> {
        if let Some(other) = self.other_shard(&datagram) {
            return Some(DatagramEvent::Forward(other, datagram));
        }
        self.handle_own(now, network_path, ecn, datagram, buf)
    }

    /// Processes the first of datagrams that came together: one after the other, of `segment` bytes each, but for the last.
    /// Takes it out of `datagrams`, with those that follow and have the same connection ID, if that is a connection's: they
    /// are one event. To be called until nothing is left. Otherwise as [`handle`](Self::handle).
    ///
    /// It costs less than to handle them one by one: where they belong is looked up once.
    pub fn handle_first(
        &mut self,
        now: Instant,
        network_path: FourTuple,
        ecn: Option<EcnCodepoint>,
        datagrams: &mut BytesMut,
        segment: usize,
        buf: &mut Vec<u8>,
    ) -> Option<DatagramEvent> {
        let whole = datagrams.len();
        let segment = segment.clamp(1, whole.max(1));
        let first = &datagrams[..segment.min(whole)];
        if let Some(other) = self.other_shard(first) {
            let first = take_front(datagrams, segment);
            return Some(DatagramEvent::Forward(other, first));
        }
        self.expire_routes(now);
        let route = self.route_of(first);
        let Some(Route::Connection(handle)) = route else {
            let first = take_front(datagrams, segment);
            return self.handle_unknown(now, network_path, ecn, first, route, buf);
        };
        let run = match whole > segment {
            // At least the first, whatever its header.
            true => {
                let takes = |first| self.config.takes(first);
                same_connection(datagrams, segment, self.generator.len(), takes).max(segment)
            }
            false => whole,
        };
        let event = ConnectionEvent {
            now,
            network_path,
            ecn,
            datagrams: take_front(datagrams, run),
            segment,
        };
        Some(DatagramEvent::ConnectionEvent(handle, event))
    }

    /// The shard that a datagram belongs to, if it is another one.
    fn other_shard(&self, datagram: &[u8]) -> Option<u16> {
        let shard = self.config.shard.as_ref()?;
        shard.other(datagram)
    }

    /// Where the connection ID of a datagram belongs.
    fn route_of(&mut self, datagram: &[u8]) -> Option<Route> {
        let header = parse_invariant(datagram, self.generator.len()).ok()?;
        self.route(&header)
    }

    /// Processes a datagram that another shard has [passed on](DatagramEvent::Forward). It may have to be passed on once
    /// more, if it is a stateless reset: such a datagram has no connection ID of ours.
    pub fn handle_forwarded(
        &mut self,
        now: Instant,
        network_path: FourTuple,
        ecn: Option<EcnCodepoint>,
        datagram: BytesMut,
        buf: &mut Vec<u8>,
    ) -> Option<DatagramEvent> {
        let other = self.config.shard.as_ref();
        if other.and_then(|shard| shard.other(&datagram)).is_none() {
            return self.handle_own(now, network_path, ecn, datagram, buf);
        }
        // Its connection ID leads elsewhere: it has been there, and came for its token. Not on, or it went in circles.
        let token = cid::tail(&datagram)?;
        let handle = self.routes.reset(network_path.remote, token)?;
        Some(to_connection(handle, now, network_path, ecn, datagram))
    }

    fn handle_own(
        &mut self,
        now: Instant,
        network_path: FourTuple,
        ecn: Option<EcnCodepoint>,
        datagram: BytesMut,
        buf: &mut Vec<u8>,
    ) -> Option<DatagramEvent> {
        self.expire_routes(now);
        match self.route_of(&datagram) {
            Some(Route::Connection(handle)) => {
                Some(to_connection(handle, now, network_path, ecn, datagram))
            }
            route => self.handle_unknown(now, network_path, ecn, datagram, route, buf),
        }
    }

    /// A datagram whose connection ID is no connection's. Apart from the rest: a request on a connection does not run
    /// through it.
    #[inline(never)]
    fn handle_unknown(
        &mut self,
        now: Instant,
        network_path: FourTuple,
        ecn: Option<EcnCodepoint>,
        datagram: BytesMut,
        route: Option<Route>,
        buf: &mut Vec<u8>,
    ) -> Option<DatagramEvent> {
        match route {
            Some(Route::Incoming(index)) => {
                self.waiting
                    .buffer(index, now, network_path, ecn, &datagram);
                return None;
            }
            Some(Route::Retired) => return None,
            Some(Route::Refused(number)) => {
                let start = buf.len();
                //= specs/rfc9000.txt#section-10.2.1
                //# An endpoint in the closing state sends a packet containing a CONNECTION_CLOSE frame
                //# in response to any incoming packet that it attributes to the connection.
                let answered = self.refused.answer(number, datagram.len(), buf);
                return answered
                    .then(|| DatagramEvent::Response(answer_to(network_path, buf.len() - start)));
            }
            Some(Route::Connection(_)) | None => {}
        }

        // RFC 9000 section 10.3.1: any datagram that belongs nowhere, whatever its header. The
        // connection finds the token at its end, as it cannot decrypt it either.
        //= specs/rfc9000.txt#section-10.3
        //# However, endpoints MUST treat any packet ending in a valid stateless reset token as a
        //# Stateless Reset, as other QUIC versions might allow the use of a long header.
        let token = cid::tail(&datagram);
        if let Some(handle) = token.and_then(|token| self.routes.reset(network_path.remote, token))
        {
            return Some(to_connection(handle, now, network_path, ecn, datagram));
        }
        if let (Some(shard), Some(token)) = (&self.config.shard, token)
            && let Some(other) = shard.other_reset(network_path.remote, token)
        {
            return Some(DatagramEvent::Forward(other, datagram));
        }

        //= specs/rfc9000.txt#section-11
        //# A stateless reset MUST NOT be used by an endpoint that has the state necessary to send a
        //# frame on the connection.
        match parse_invariant(&datagram, self.generator.len()).ok()? {
            Invariant::Short { first, dcid } => {
                let answer = self.config.takes(first)
                    && reset::answers(datagram.len())
                    && self.reset_rate.take(now);
                answer.then(|| {
                    let token = self.reset_key.token(&ConnectionId::new(dcid));
                    let start = buf.len();
                    reset::write(buf, &mut self.rng, &token, datagram.len());
                    DatagramEvent::Response(answer_to(network_path, buf.len() - start))
                })
            }
            //= specs/rfc9000.txt#section-6.1
            //# An endpoint MUST NOT send a Version Negotiation packet in response to receiving a
            //# Version Negotiation packet.
            Invariant::Long { version: 0, .. } => None,
            Invariant::Long {
                version,
                first,
                dcid,
                scid,
            } if self.config.speaks(version) => {
                let version = Version::of(version)?;
                //= specs/rfc9000.txt#section-5.2.2
                //# Servers MUST drop incoming packets under all other circumstances.
                let packet = FirstPacket {
                    now,
                    network_path,
                    ecn,
                    version,
                    datagram: &datagram,
                    dcid,
                    scid,
                };
                if !self.config.takes(first) {
                    return None;
                }
                match version.packet_type(first) {
                    Some(PacketType::Initial) => {}
                    Some(PacketType::ZeroRtt) if version == Version::V1 => {
                        self.keep_early(&packet);
                        return None;
                    }
                    //= specs/rfc9000.txt#section-5.2.2
                    //# Clients are not able to send Handshake packets prior to receiving a server
                    //# response, so servers SHOULD ignore any such packets.
                    _ => return None,
                }
                self.admit(&packet, buf)
            }
            Invariant::Long { dcid, scid, .. } => {
                // Section 5.2.2: only servers, and only if it could have begun a connection. The
                // packet's version may have longer connection IDs than ours.
                //= specs/rfc9000.txt#section-5.2.2
                //# Servers MUST drop smaller packets that specify unsupported versions.
                if self.server.is_none() || datagram.len() < MIN_INITIAL_SIZE {
                    return None;
                }
                let start = buf.len();
                //= specs/rfc9000.txt#section-17.2.1
                //# A server MUST NOT send more than one Version Negotiation packet in response to a
                //# single UDP datagram.
                //= specs/rfc9000.txt#section-5.2.2
                //# If a server receives a packet that indicates an unsupported version and if the
                //# packet is large enough to initiate a new connection for any supported version,
                //# the server SHOULD send a Version Negotiation packet as described in Section 6.1.
                //= specs/rfc9000.txt#section-17.2.1
                //# Version- specific rules for the connection ID therefore MUST NOT influence a
                //# decision about whether to send a Version Negotiation packet.
                negotiation::write(buf, &mut self.rng, self.config.versions(), dcid, scid);
                let answer = answer_to(network_path, buf.len() - start);
                Some(DatagramEvent::Response(answer))
            }
        }
    }

    /// Starts a connection to `network_path.remote`.
    ///
    /// # Errors
    ///
    /// If the address or the server name cannot be, or TLS refuses.
    pub fn connect(
        &mut self,
        now: Instant,
        config: ClientConfig,
        network_path: FourTuple,
        server_name: &str,
    ) -> Result<(ConnectionHandle, Connection), ConnectError> {
        self.connect_any(now, config, &[network_path], server_name)
    }

    /// Starts a connection over any of these pairs of addresses, in order of preference: from several addresses of ours,
    /// to several of the server's. [`RaceConfig`](crate::RaceConfig) says how. The connection begins on the first pair;
    /// it is on the one that has won once [`Event::Connected`](crate::Event::Connected) comes. With a
    /// [memory of paths](crate::TransportConfig::path_memory), those whose round trips are known come first, the shortest
    /// before the others.
    ///
    /// # Errors
    ///
    /// If there is no address, if one or the server name cannot be, or TLS refuses.
    pub fn connect_any(
        &mut self,
        now: Instant,
        config: ClientConfig,
        network_paths: &[FourTuple],
        server_name: &str,
    ) -> Result<(ConnectionHandle, Connection), ConnectError> {
        for network_path in network_paths {
            check_target(network_path.remote, server_name)?;
        }
        let rng = StdRng::from_rng(&mut self.rng);
        let setup = Setup {
            now,
            config,
            endpoint: &self.config,
            server_name,
            reset_key: &self.reset_key,
            memory: &self.memory,
        };
        let mut connection = setup.connect(network_paths, rng)?;
        let handle = self.register(None);
        self.take_events(handle, &mut connection);
        Ok((handle, connection))
    }

    /// Refuses an incoming connection: CONNECTION_REFUSED, written to `buf`. For three seconds after the
    /// client's first datagram, the answer is sent again to a client that goes on.
    pub fn refuse(&mut self, incoming: Incoming, buf: &mut Vec<u8>) -> Transmit {
        self.forget(&incoming);
        let own = self.generator.generate(&mut self.rng);
        //= specs/rfc9000.txt#section-5.2.2
        //# If a server refuses to accept a new connection, it SHOULD send an Initial packet
        //# containing a CONNECTION_CLOSE frame with error code CONNECTION_REFUSED.
        let code = TransportErrorCode::CONNECTION_REFUSED;
        let size = refusal::write(
            buf,
            incoming.version,
            &incoming.dcid,
            &incoming.scid,
            &own,
            code,
        );
        // It cannot fail: the packet is short. If it did, there is just no answer.
        let size = size.unwrap_or(0);
        let answer = buf[buf.len() - size..].to_vec();
        self.keep_answer(incoming.received, &incoming, answer);
        answer_to(incoming.network_path, size)
    }

    /// Forgets an incoming connection without an answer.
    pub fn ignore(&mut self, incoming: Incoming) {
        self.forget(&incoming);
    }

    /// Takes in what a connection has to say.
    pub fn handle_event(&mut self, handle: ConnectionHandle, event: EndpointEvent) {
        let Some(known) = self.connections.get_mut(handle.0) else {
            return;
        };
        match event {
            EndpointEvent::AddCid(id) => {
                if self.routes.add(id, Route::Connection(handle)) {
                    known.cids.push(id);
                }
            }
            EndpointEvent::RetireCid(id) => {
                if let Some(at) = known.cids.iter().position(|other| *other == id) {
                    known.cids.swap_remove(at);
                    self.routes.remove(&id, Route::Connection(handle));
                }
            }
            EndpointEvent::RetireCidQuietly(id, now) => {
                if let Some(at) = known.cids.iter().position(|other| *other == id) {
                    known.cids.swap_remove(at);
                    self.routes.remove(&id, Route::Connection(handle));
                    if self.routes.add(id, Route::Retired) {
                        self.retired_cids.add(now, id);
                    }
                    self.expire_retired_cids(now);
                }
            }
            EndpointEvent::AddResetToken(remote, token) => {
                if !known.tokens.contains(&(remote, token)) {
                    known.tokens.push((remote, token));
                    self.routes.add_token(remote, &token, handle);
                    if let Some(shard) = &self.config.shard {
                        shard.add_token(remote, &token);
                    }
                }
            }
            EndpointEvent::RemoveResetToken(remote, token) => {
                if let Some(at) = known.tokens.iter().position(|t| *t == (remote, token)) {
                    known.tokens.swap_remove(at);
                    self.routes.remove_token(remote, &token, handle);
                    if let Some(shard) = &self.config.shard {
                        shard.remove_token(remote, &token);
                    }
                }
            }
            EndpointEvent::HandshakeBytes(bytes) => {
                if let Some(share) = &mut known.half_open {
                    self.half_open.resize(share, bytes);
                }
            }
            EndpointEvent::HandshakeComplete => {
                if let Some(share) = known.half_open.take() {
                    self.half_open.remove(&share);
                }
            }
            EndpointEvent::Drained => {
                let known = self.connections.remove(handle.0);
                self.shrink();
                if let Some(share) = known.half_open {
                    self.half_open.remove(&share);
                }
                for id in known.cids {
                    self.routes.remove(&id, Route::Connection(handle));
                }
                for (remote, token) in known.tokens {
                    self.routes.remove_token(remote, &token, handle);
                    if let Some(shard) = &self.config.shard {
                        shard.remove_token(remote, &token);
                    }
                }
            }
        }
    }

    /// Memory that the connections have borrowed for data.
    pub fn memory_use(&self) -> MemoryUse {
        self.memory.in_use()
    }

    /// How many connections are not drained.
    pub fn open_connections(&self) -> usize {
        self.connections.len()
    }

    /// How many connections are half open, and what they hold: clients that wait to be accepted, and
    /// connections whose handshake is not complete. Above [`ServerConfig::max_half_open`] and
    /// [`ServerConfig::half_open_memory`], first Initial packets are dropped.
    pub fn half_open(&self) -> HalfOpen {
        HalfOpen {
            connections: self.half_open.connections + self.waiting.len(),
            bytes: self.half_open.bytes + self.waiting.bytes(),
        }
    }

    /// When to call [`handle_timeout`](Self::handle_timeout); `None` for never. Changes with every
    /// [`Incoming`]. Of [remains](Self::keep_remains), [`forget_remains`](Self::forget_remains) is to be called then.
    pub fn poll_timeout(&self) -> Option<Instant> {
        crate::recovery::earlier(self.waiting.next_expiry(), self.ends.next())
    }

    /// Forgets the clients that have waited to be accepted for too long. An early call does nothing; a late
    /// one does no harm.
    pub fn handle_timeout(&mut self, now: Instant) {
        while let Some((index, dcid)) = self.waiting.expire(now) {
            self.routes.remove(&dcid, Route::Incoming(index));
        }
        if let Some(queue) = &mut self.accept_queue {
            queue.expire(now);
        }
    }

    /// Keeps the packet that ended an incoming connection, for a client that goes on.
    fn keep_answer(&mut self, now: Instant, incoming: &Incoming, answer: Vec<u8>) {
        if !answer.is_empty() {
            let dcid = incoming.dcid;
            let number = self.refused.add(now, dcid, answer.into_boxed_slice());
            self.routes.add(dcid, Route::Refused(number));
        }
        self.expire_refused(now);
    }

    /// Forgets the connection IDs whose time is over. Mostly there are none that will be forgotten.
    fn expire_routes(&mut self, now: Instant) {
        if !self.refused.is_empty() {
            self.expire_refused(now);
        }
        if !self.retired_cids.is_empty() {
            self.expire_retired_cids(now);
        }
    }

    /// Whether nobody waits to be accepted and nothing is left of connections that are over: there is nothing that
    /// [`handle_timeout`](Self::handle_timeout) or [`forget_remains`](Self::forget_remains) would forget, now or later.
    pub fn is_at_rest(&self) -> bool {
        let queue = self.accept_queue.as_ref();
        self.waiting.is_empty() && self.ends.is_empty() && queue.is_none_or(AcceptQueue::is_empty)
    }

    #[cold]
    #[inline(never)]
    fn expire_retired_cids(&mut self, now: Instant) {
        while let Some(dcid) = self.retired_cids.expire(now) {
            self.routes.remove(&dcid, Route::Retired);
        }
    }

    #[cold]
    #[inline(never)]
    fn expire_refused(&mut self, now: Instant) {
        while let Some((number, dcid)) = self.refused.expire(now) {
            self.routes.remove(&dcid, Route::Refused(number));
        }
    }

    /// By connection ID. Versions that are spoken and version negotiation only: packets of others do not
    /// belong to our connections (RFC 9000 section 5.2).
    fn route(&mut self, header: &Invariant<'_>) -> Option<Route> {
        match *header {
            Invariant::Short { first, dcid } if self.config.takes(first) => self.routes.get(dcid),
            Invariant::Long {
                version,
                first,
                dcid,
                ..
            } if Version::of(version).is_some() && self.config.takes(first) => {
                self.routes.get(dcid)
            }
            // No connection that waits, or is a server's, has to do with version negotiation; the
            // connection sees to that.
            Invariant::Long {
                version: 0, dcid, ..
            } => self
                .routes
                .get(dcid)
                .filter(|route| matches!(route, Route::Connection(_))),
            _ => None,
        }
    }

    /// Ends the wait. Its further datagrams; `None` if the wait was over already.
    fn forget(&mut self, incoming: &Incoming) -> Option<Vec<ConnectionEvent>> {
        let datagrams = self.waiting.close(incoming)?;
        let route = Route::Incoming(incoming.index);
        self.routes.remove(&incoming.dcid, route);
        Some(datagrams)
    }

    fn register(&mut self, half_open: Option<Share>) -> ConnectionHandle {
        if let Some(share) = &half_open {
            self.half_open.add(share);
        }
        let before = self.connections.capacity();
        let handle = self.connections.insert(Known {
            half_open,
            ..Known::default()
        });
        if self.connections.capacity() > before {
            self.shrink_at = self.connections.capacity() / 16;
        }
        ConnectionHandle(handle)
    }

    fn take_events(&mut self, handle: ConnectionHandle, connection: &mut Connection) {
        while let Some(event) = connection.poll_endpoint_events() {
            self.handle_event(handle, event);
        }
    }
}

fn check_target(remote: SocketAddr, server_name: &str) -> Result<(), ConnectError> {
    if remote.port() == 0 || remote.ip().is_unspecified() {
        return Err(ConnectError::InvalidRemoteAddress(remote));
    }
    ServerName::try_from(server_name)
        .map(drop)
        .map_err(|_| ConnectError::InvalidServerName(server_name.into()))
}

/// Bytes of the datagrams at the front that belong to the first one's connection: they have short headers, a first byte that
/// is taken, and the same connection ID. Where the QUIC bit is greased, half of them have another one than the first, and
/// belong together all the same. 0 if the first has a long header.
fn same_connection(
    datagrams: &[u8],
    segment: usize,
    cid_len: usize,
    takes: impl Fn(u8) -> bool,
) -> usize {
    let Some((&first, rest)) = datagrams.split_first() else {
        return 0;
    };
    let Some(id) = rest.get(..cid_len) else {
        return 0;
    };
    if first & LONG_HEADER_FORM != 0 {
        return 0;
    }
    let alike = datagrams.chunks(segment).take_while(|next| {
        let fits = next[0] & LONG_HEADER_FORM == 0 && takes(next[0]);
        fits && cid::begins_with(&next[1..], id)
    });
    alike.map(<[u8]>::len).sum()
}

/// The first bytes; without a slice if they are all.
fn take_front(datagrams: &mut BytesMut, bytes: usize) -> BytesMut {
    if bytes >= datagrams.len() {
        std::mem::take(datagrams)
    } else {
        datagrams.split_to(bytes)
    }
}

fn to_connection(
    handle: ConnectionHandle,
    now: Instant,
    network_path: FourTuple,
    ecn: Option<EcnCodepoint>,
    datagram: BytesMut,
) -> DatagramEvent {
    let event = ConnectionEvent::single(now, network_path, ecn, datagram);
    DatagramEvent::ConnectionEvent(handle, event)
}

/// To where a datagram came from, from where it came to.
const fn answer_to(network_path: FourTuple, size: usize) -> Transmit {
    Transmit {
        network_path,
        ecn: None,
        size,
        segment_size: None,
    }
}
