//! Settings of an endpoint, shared by all its connections.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mpquic_wire::packet::FIXED_BIT;
use zeroize::Zeroizing;

use crate::cid::CidGenerator;
use crate::shards::Shard;
use crate::{ConnectionIdGenerator, Observer, ObserverFactory, Side, Version, limits};

/// Settings of an endpoint.
#[derive(Clone)]
pub struct EndpointConfig {
    pub(crate) cids: CidGenerator,
    pub(crate) max_udp_payload_size: u16,
    /// Wiped from memory when it is dropped, as the keys are.
    pub(crate) seed: Zeroizing<[u8; 32]>,
    /// Not empty.
    pub(crate) versions: [Option<Version>; 2],
    pub(crate) token_key: Option<Zeroizing<[u8; 32]>>,
    pub(crate) reset_key: Option<Zeroizing<[u8; 32]>>,
    pub(crate) clock: Option<(Instant, Duration)>,
    pub(crate) send_memory: u64,
    pub(crate) receive_memory: u64,
    pub(crate) grease_quic_bit: bool,
    pub(crate) alarm_delay: Duration,
    /// Not 0.
    pub(crate) cipher_block: u16,
    /// Which one it is, if the endpoint has several.
    pub(crate) shard: Option<Shard>,
    pub(crate) observers: Vec<ObserverFactory>,
}

impl EndpointConfig {
    /// The default settings with this seed. The seed determines everything random: connection IDs,
    /// PATH_CHALLENGE data, skipped packet numbers, and the keys that are not given
    /// ([`token_key`](Self::token_key), [`reset_key`](Self::reset_key)). In production it must be secret and
    /// used once, by one endpoint. In a simulation, the same seed gives the same run.
    pub fn new(seed: [u8; 32]) -> Self {
        Self {
            //= specs/rfc9000.txt#section-19.15
            //= type=implication
            //# An endpoint MUST NOT send this frame if it currently requires that its peer send
            //# packets with a zero-length Destination Connection ID.
            //= specs/rfc10069-draft.md#nego
            //= type=implication
            //# When advertising the initial_max_path_id transport parameter, endpoints MUST use
            //# Source and Destination Connection IDs with non-zero lengths.
            cids: CidGenerator::new(8),
            max_udp_payload_size: 65527,
            versions: [Some(Version::V1), Some(Version::V2)],
            seed: Zeroizing::new(seed),
            token_key: None,
            reset_key: None,
            clock: None,
            send_memory: limits::DEFAULT_SEND_MEMORY,
            receive_memory: limits::DEFAULT_RECEIVE_MEMORY,
            grease_quic_bit: true,
            alarm_delay: Duration::ZERO,
            cipher_block: 1,
            shard: None,
            observers: Vec::new(),
        }
    }

    /// The key that seals address validation tokens: those of Retry packets, and those that clients keep for
    /// later connections (RFC 9000 section 8.1). Default: derived from the seed.
    ///
    /// Endpoints with the same key accept each other's tokens: give it to all processes that serve the same
    /// name or the same address, and to a process that replaces another one. It must be 32 random bytes, and
    /// nobody else may know it: who does can pretend to be at any address.
    /// [`Endpoint::rotate_token_key`](crate::Endpoint::rotate_token_key) replaces it while the endpoint runs.
    /// The processes also need a [`clock`](Self::clock).
    pub fn token_key(&mut self, key: [u8; 32]) -> &mut Self {
        self.token_key = Some(Zeroizing::new(key));
        self
    }

    /// The key that makes stateless reset tokens out of connection IDs (RFC 9000 section 10.3.2). Default:
    /// derived from the seed.
    ///
    /// With the same key, an endpoint can end connections of a process that it replaces: their peers notice at
    /// once instead of after their idle timeout. It must be 32 random bytes: who knows it can end every
    /// connection of the endpoint. Processes that share an address must not share the key while both run: packets
    /// that reach the wrong one would end connections of the other (RFC 9000 section 21.11). It cannot be
    /// replaced while the endpoint runs, since the tokens of open connections come from it.
    pub fn reset_key(&mut self, key: [u8; 32]) -> &mut Self {
        self.reset_key = Some(Zeroizing::new(key));
        self
    }

    /// What a clock showed at `now`: the time since the Unix epoch. Tokens carry the time at which they were
    /// issued. Only endpoints with clocks that agree within a minute can accept each other's tokens.
    ///
    /// Without it, the endpoint counts from the first instant that it sees, which is enough for its own tokens. What comes
    /// after the year 9999 counts as its end.
    /// [`Endpoint::set_clock`](crate::Endpoint::set_clock) corrects it later.
    pub const fn clock(&mut self, now: Instant, since_epoch: Duration) -> &mut Self {
        self.clock = Some((now, crate::token::time_of_day(since_epoch)));
        self
    }

    /// Who makes the connection IDs by which peers address this endpoint. Default: 8 random bytes.
    pub fn connection_ids(&mut self, generator: Arc<dyn ConnectionIdGenerator>) -> &mut Self {
        self.cids = CidGenerator::own(generator);
        self
    }

    /// The versions of QUIC that a server on this endpoint speaks. Clients that ask for another one are told these.
    /// Default: all of [`Version`]. Without any, version 1 is spoken.
    ///
    /// ```
    /// use mpquic_proto::{EndpointConfig, Version};
    ///
    /// let mut config = EndpointConfig::new([7; 32]);
    /// config.supported_versions(&[Version::V1]);
    /// ```
    pub fn supported_versions(&mut self, versions: &[Version]) -> &mut Self {
        self.versions = Version::ALL.map(|version| versions.contains(&version).then_some(version));
        if self.versions == [None; 2] {
            self.versions[0] = Some(Version::V1);
        }
        self
    }

    /// The versions that a server speaks.
    pub(crate) fn versions(&self) -> impl Iterator<Item = Version> {
        self.versions.into_iter().flatten()
    }

    /// Whether a server speaks the version with this number.
    pub(crate) fn speaks(&self, number: u32) -> bool {
        self.versions().any(|version| version.number() == number)
    }

    /// Attaches an observer to every connection of the endpoint for which the factory returns one, beside those of
    /// [`TransportConfig::observer`](crate::TransportConfig::observer). Default none, which costs nothing. Each call
    /// attaches one more.
    pub fn observer(
        &mut self,
        factory: impl Fn(Side) -> Option<Box<dyn Observer>> + Send + Sync + 'static,
    ) -> &mut Self {
        self.observers.push(Arc::new(factory));
        self
    }

    /// The largest UDP payload that this endpoint accepts (RFC 9000 section 18.2).
    /// Default 65527; a value below 1200 becomes 1200.
    pub const fn max_udp_payload_size(&mut self, bytes: u16) -> &mut Self {
        self.max_udp_payload_size = if bytes < 1200 { 1200 } else { bytes };
        self
    }

    /// How late this host's timers commonly go off (RFC 9000 section 18.2, max_ack_delay). An acknowledgement that waits is
    /// timed to go out so much earlier, so that it leaves within the delay that the peer was told. The peer's probe timeout of
    /// a short path has no more than a millisecond to spare. Default 0, for a host whose timers are exact, such as a simulated
    /// one. The crate `mpquic` has 2 ms for those of tokio, which count in milliseconds. More than half of the delay that the
    /// peer was told counts as half of it.
    pub const fn alarm_delay(&mut self, delay: Duration) -> &mut Self {
        self.alarm_delay = delay;
        self
    }

    /// Full packets with stream data are made so long that what is encrypted is a multiple of so many bytes: they are up to one
    /// byte less than that shorter than the path would take. Ciphers take whole blocks in one pass, and a rest by itself: with a
    /// rest, AES-GCM takes a tenth longer for a packet of 1,452 bytes. Default 1, which is every length; 0 becomes 1, and more
    /// than 256 becomes 256. The crate `mpquic` has 16, the block of AES and of Poly1305.
    pub const fn cipher_block(&mut self, bytes: u16) -> &mut Self {
        self.cipher_block = match bytes {
            0 => 1,
            1..256 => bytes,
            _ => 256,
        };
        self
    }

    /// Whether the QUIC bit (0x40 of a packet's first byte) may have either value (RFC 9287). Default true.
    ///
    /// If so, peers are told that they may clear it, and packets are accepted with and without it; packets to peers
    /// that say the same have an unpredictable one, so that nothing in the network comes to rely on it. Say `false`
    /// where something in front of the endpoint, or the application itself, tells QUIC by this bit from other
    /// protocols on the same socket (RFC 9443): packets without it are then dropped, and all that are sent have it.
    pub const fn grease_quic_bit(&mut self, greased: bool) -> &mut Self {
        self.grease_quic_bit = greased;
        self
    }

    /// Whether a packet with this first byte may be one of ours. Version Negotiation packets always may (RFC 9000
    /// section 17.2.1).
    #[inline]
    pub(crate) const fn takes(&self, first: u8) -> bool {
        //= specs/rfc9000.txt#section-17.2
        //# Packets containing a zero value for this bit are not valid packets in this version and MUST
        //# be discarded.
        //= specs/rfc9000.txt#section-17.3.1
        //# Packets containing a zero value for this bit are not valid packets in this version and
        //# MUST be discarded.
        // RFC 9287 section 3: who sends grease_quic_bit accepts packets with either value.
        self.grease_quic_bit || first & FIXED_BIT != 0
    }
}

impl EndpointConfig {
    /// How many bytes of written data may be unacknowledged, over all connections, beside the
    /// [`GUARANTEED_MEMORY`](crate::limits::GUARANTEED_MEMORY) bytes that each may always have. Default
    /// 256 MiB, [`DEFAULT_SEND_MEMORY`](crate::limits::DEFAULT_SEND_MEMORY); 0 is nothing beside those.
    ///
    /// No connection may have more of it than it leaves for all others: one alone half of it, and less the
    /// more others have. A write beyond that takes less, or waits, as one beyond
    /// [`TransportConfig::send_window`](crate::TransportConfig::send_window) does.
    pub const fn send_memory(&mut self, bytes: u64) -> &mut Self {
        self.send_memory = bytes;
        self
    }

    /// How many bytes of memory received data that was not read may take, over all connections, beside the
    /// [`GUARANTEED_MEMORY`](crate::limits::GUARANTEED_MEMORY) bytes that each may always have. Default
    /// 256 MiB, [`DEFAULT_RECEIVE_MEMORY`](crate::limits::DEFAULT_RECEIVE_MEMORY); 0 is nothing beside those.
    ///
    /// No connection may have more of it than it leaves for all others: one alone half of it, and less the
    /// more others have. A packet with data beyond that is dropped before it is acknowledged, as if it had been lost on the
    /// way, unless its data comes next on its stream: for that, each connection has as much again. No connection is closed.
    pub const fn receive_memory(&mut self, bytes: u64) -> &mut Self {
        self.receive_memory = bytes;
        self
    }
}

impl fmt::Debug for EndpointConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The seed and the keys are secrets.
        f.debug_struct("EndpointConfig")
            .field("connection_ids", &self.cids)
            .field("max_udp_payload_size", &self.max_udp_payload_size)
            .field("send_memory", &self.send_memory)
            .field("receive_memory", &self.receive_memory)
            .finish_non_exhaustive()
    }
}
