//! Settings of incoming connections: TLS, transport, how many may wait.

use std::net::{SocketAddrV4, SocketAddrV6};
use std::sync::Arc;
use std::time::Duration;

use mpquic_wire::transport_parameters::PreferredAddress;
use rand::rngs::StdRng;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::provider::{check_suites, provider, refused};
use super::{ConfigError, SessionMemory, TransportConfig, ValidationTokenConfig};
use crate::cid::{CidGenerator, ResetKey};
use crate::limits;
use crate::shards::Limits;
use crate::token::Lifetimes;

/// Settings of incoming connections: TLS, transport, and how many may wait.
///
/// ```
/// use rustls::pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject};
/// use mpquic_proto::ServerConfig;
///
/// # fn run() -> Result<ServerConfig, Box<dyn std::error::Error>> {
/// let chain = CertificateDer::pem_file_iter("chain.pem")?.collect::<Result<_, _>>()?;
/// let mut config = ServerConfig::with_single_cert(chain, PrivateKeyDer::from_pem_file("key.pem")?)?;
/// config.max_half_open(1000);
/// # Ok(config) }
/// ```
#[derive(Debug, Clone)]
pub struct ServerConfig {
    pub(crate) tls: Arc<rustls::ServerConfig>,
    pub(crate) transport: Arc<TransportConfig>,
    pub(crate) max_incoming: usize,
    pub(crate) max_half_open: usize,
    pub(crate) half_open_memory: usize,
    pub(crate) max_connections: usize,
    pub(crate) max_connections_per_prefix: usize,
    pub(crate) handshake_timeout: Duration,
    pub(crate) retry_above: usize,
    pub(crate) max_retries_waiting: usize,
    pub(crate) retry_token_lifetime: Duration,
    pub(crate) validation_tokens: ValidationTokenConfig,
    pub(crate) migration: bool,
    pub(crate) preferred_ipv4: Option<SocketAddrV4>,
    pub(crate) preferred_ipv6: Option<SocketAddrV6>,
}

const fn no_limit_if_zero(count: usize) -> usize {
    if count == 0 { usize::MAX } else { count }
}

impl ServerConfig {
    /// Connections with this TLS configuration. If it resumes sessions from memory, have it do so from a
    /// [`SessionMemory`](crate::SessionMemory).
    ///
    /// # Early data (0-RTT)
    ///
    /// Taken only if `max_early_data_size` is `u32::MAX`: the default of rustls is 0, no early data. It needs a
    /// store of sessions (`session_storage`; the default keeps 256 of them in memory); with stateless
    /// tickets (`ticketer`), rustls takes none. **Early data can be replayed**: the application must be prepared
    /// for requests that are repeated. rustls takes each ticket out of the store with its first use, so a
    /// replay to the same store is rejected. So is early data with a ticket whose age differs by more than a
    /// minute from what the client says. Stores that several processes share must take out sessions as one operation, or
    /// each process can be sent a replay.
    ///
    /// Sessions are bound to the transport limits that held when they were made (RFC 9000 section 7.4.1): a
    /// server with smaller ones does not resume them.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use mpquic_proto::{ConfigError, ServerConfig};
    ///
    /// fn with_early_data(mut tls: rustls::ServerConfig) -> Result<ServerConfig, ConfigError> {
    ///     tls.max_early_data_size = u32::MAX;
    ///     ServerConfig::new(Arc::new(tls))
    /// }
    /// ```
    ///
    /// # Errors
    ///
    /// If the configuration has no TLS 1.3 cipher suite for QUIC
    /// (TLS13_AES_128_GCM_SHA256 protects Initial packets, RFC 9001 section 5.2), or a `max_early_data_size`
    /// other than 0 and 2^32-1.
    pub fn new(tls: Arc<rustls::ServerConfig>) -> Result<Self, ConfigError> {
        check_suites(tls.crypto_provider())?;
        //= specs/rfc9001.txt#section-4.6.1
        //# Servers MUST NOT send the early_data extension with a max_early_data_size field set to
        //# any value other than 0xffffffff.
        if ![0, u32::MAX].contains(&tls.max_early_data_size) {
            return Err(ConfigError::OutOfRange {
                name: "max_early_data_size",
                value: tls.max_early_data_size.into(),
                expected: "0 for no early data, or 2^32-1 for early data (RFC 9001 section 4.6.1)",
            });
        }
        Ok(Self {
            tls,
            transport: Arc::new(TransportConfig::default()),
            max_incoming: limits::MAX_INCOMING,
            max_half_open: limits::MAX_HALF_OPEN,
            half_open_memory: limits::MAX_HALF_OPEN_BYTES,
            max_connections: usize::MAX,
            max_connections_per_prefix: usize::MAX,
            handshake_timeout: Duration::from_secs(10),
            retry_above: limits::RETRY_ABOVE,
            max_retries_waiting: limits::MAX_RETRIES_WAITING,
            retry_token_lifetime: Duration::from_secs(15),
            validation_tokens: ValidationTokenConfig::default(),
            migration: true,
            preferred_ipv4: None,
            preferred_ipv6: None,
        })
    }

    /// Connections that present this certificate chain, leaf first. Sessions are resumed from a
    /// [`SessionMemory`](crate::SessionMemory). TLS has its cryptography from ring, or, with the feature `aws-lc-rs`, from
    /// AWS-LC.
    ///
    /// # Errors
    ///
    /// If rustls refuses the chain or the key.
    pub fn with_single_cert(
        chain: Vec<CertificateDer<'static>>,
        key: PrivateKeyDer<'static>,
    ) -> Result<Self, ConfigError> {
        let mut tls = rustls::ServerConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(refused)?
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .map_err(refused)?;
        tls.session_storage = Arc::new(SessionMemory::new());
        Self::new(Arc::new(tls))
    }

    /// Sets the settings of the transport. The default is [`TransportConfig::default`].
    pub fn transport(&mut self, transport: Arc<TransportConfig>) -> &mut Self {
        self.transport = transport;
        self
    }

    /// How many connections may wait to be accepted. Initial packets beyond that are dropped.
    /// Default [`limits::MAX_INCOMING`]; with 0, nobody can connect.
    pub const fn max_incoming(&mut self, count: usize) -> &mut Self {
        self.max_incoming = count;
        self
    }

    /// How many connections may be half open: those that wait to be accepted, and those whose handshake
    /// is not complete. Initial packets beyond that are dropped. Default [`limits::MAX_HALF_OPEN`]; with 0, nobody can connect.
    ///
    /// Anybody can make one half-open connection with one datagram from an address that is not theirs.
    pub const fn max_half_open(&mut self, count: usize) -> &mut Self {
        self.max_half_open = count;
        self
    }

    /// How many bytes all half-open connections may hold together. Initial packets beyond that are
    /// dropped. Default [`limits::MAX_HALF_OPEN_BYTES`]; each takes about [`limits::HALF_OPEN_COST`]. With less than one takes,
    /// nobody can connect.
    pub const fn half_open_memory(&mut self, bytes: usize) -> &mut Self {
        self.half_open_memory = bytes;
        self
    }

    /// How many connections may be complete at a time, over all shards of an endpoint: those that are half open
    /// ([`max_half_open`](Self::max_half_open)) come on top. A client beyond that is refused (CONNECTION_REFUSED, RFC 9000
    /// section 5.2.2), and nothing is kept of it. Default, and with 0: no limit.
    ///
    /// Connections that are open already stay, whatever is set here later. How many were refused is in
    /// [`Endpoint::connection_count`](crate::Endpoint::connection_count).
    ///
    /// Each connection of a client that asks for much and reads nothing holds up to
    /// [`TransportConfig::send_window`](crate::TransportConfig::send_window) bytes and some 250 KiB at the default settings,
    /// for as long as it stays; see also [`TransportConfig::min_peer_rate`](crate::TransportConfig::min_peer_rate).
    ///
    /// ```
    /// # fn configure(config: &mut mpquic_proto::ServerConfig) {
    /// config.max_connections(10_000).max_connections_per_prefix(200);
    /// # }
    /// ```
    pub const fn max_connections(&mut self, count: usize) -> &mut Self {
        self.max_connections = no_limit_if_zero(count);
        self
    }

    /// The same for the clients of one network: 24 bits of an IPv4 address, 56 of an IPv6 address. Whoever has one address of
    /// it may have the others; behind it may also be many clients, as of a mobile carrier. A connection counts for the network
    /// where it began, wherever it moves and whatever paths it opens. Default, and with 0: no limit.
    pub const fn max_connections_per_prefix(&mut self, count: usize) -> &mut Self {
        self.max_connections_per_prefix = no_limit_if_zero(count);
        self
    }

    /// How long a client may wait to be accepted, and how long its handshake may take from there. Then it
    /// is forgotten without an answer. Default 10 s. Zero is no limit but the idle timeout; less than 10 ms counts as 10 ms, more
    /// than a day as a day.
    ///
    /// Without this deadline, one small packet per idle timeout keeps a half-open connection alive.
    pub fn handshake_timeout(&mut self, timeout: Duration) -> &mut Self {
        self.handshake_timeout = super::handshake_time(timeout);
        self
    }

    /// From how many half-open connections on ([`max_half_open`](Self::max_half_open)) a client must prove its
    /// address: the endpoint answers its first packet with a Retry packet, by itself and without keeping anything.
    /// The client's handshake takes a round trip longer then, and the application learns of it when it comes
    /// back. Clients with a token of an earlier connection are spared
    /// ([`validation_tokens`](Self::validation_tokens)). Default [`limits::RETRY_ABOVE`]; 0 is always,
    /// `usize::MAX` never.
    ///
    /// It bounds what somebody can do who sends from addresses of others: that many half-open connections for
    /// [`handshake_timeout`](Self::handshake_timeout), and the work of as many ClientHellos. An honest server
    /// needs the number of handshakes per second times the round trip time of its clients.
    pub const fn retry_above(&mut self, half_open: usize) -> &mut Self {
        self.retry_above = half_open;
        self
    }

    /// How many clients may wait for their Retry packet ([`retry_above`](Self::retry_above)), where a driver first reads
    /// what its sockets hold ([`Endpoint::queue_clients`](crate::Endpoint::queue_clients)). Who has waited longest is
    /// dropped for the newest, and asks again by itself. Default [`limits::MAX_RETRIES_WAITING`]; each takes less
    /// than 450 bytes. 0 counts as 1: without any, nobody could connect under load.
    pub const fn max_retries_waiting(&mut self, count: usize) -> &mut Self {
        self.max_retries_waiting = if count == 0 { 1 } else { count };
        self
    }

    /// How long after a Retry packet its token is accepted. Default 15 s. It covers a round trip and a few
    /// repetitions; a longer time gives more of it to whoever has got hold of a token of another client at the
    /// same address (RFC 9000 section 8.1.4). Less than a second counts as a second: a client whose token is too old when it
    /// comes back could not connect.
    pub fn retry_token_lifetime(&mut self, lifetime: Duration) -> &mut Self {
        self.retry_token_lifetime = lifetime.clamp(Duration::from_secs(1), super::DAY);
        self
    }

    /// Sets the settings of the tokens that clients get for later connections. The default is
    /// [`ValidationTokenConfig::default`].
    pub fn validation_tokens(&mut self, config: ValidationTokenConfig) -> &mut Self {
        self.validation_tokens = config;
        self
    }

    pub(crate) const fn token_lifetimes(&self) -> Lifetimes {
        Lifetimes {
            retry: self.retry_token_lifetime,
            new: self.validation_tokens.lifetime,
        }
    }

    /// Whether clients may move to other addresses, as when they change networks or their NAT forgets them, and open
    /// paths to the address of the handshake. Default true.
    ///
    /// With `false`, clients are told not to (disable_active_migration, RFC 9000 section 18.2), and what comes from other
    /// addresses is dropped, unless it comes to the preferred address. A client whose NAT forgets it is lost then.
    pub const fn migration(&mut self, allowed: bool) -> &mut Self {
        self.migration = allowed;
        self
    }

    /// Where clients that connected over IPv4 should go on once the handshake is complete (RFC 9000 section 9.6): this
    /// endpoint must receive there, too. Default `None`.
    ///
    /// Clients follow to an address that can be reached from no fewer places: nobody follows from a public address to a
    /// private one, or from that to loopback.
    pub const fn preferred_address_v4(&mut self, address: Option<SocketAddrV4>) -> &mut Self {
        self.preferred_ipv4 = address;
        self
    }

    /// The same for clients that connected over IPv6.
    pub const fn preferred_address_v6(&mut self, address: Option<SocketAddrV6>) -> &mut Self {
        self.preferred_ipv6 = address;
        self
    }

    /// The transport parameter for one connection.
    pub(crate) fn preferred_address(
        &self,
        cids: &CidGenerator,
        key: &ResetKey,
        rng: &mut StdRng,
    ) -> Option<PreferredAddress> {
        let any = self.preferred_ipv4.is_some() || self.preferred_ipv6.is_some();
        //= specs/rfc9000.txt#section-18.2
        //# A server that chooses a zero-length connection ID MUST NOT provide a preferred address.
        if !any || cids.len() == 0 {
            return None;
        }
        let connection_id = cids.generate(rng);
        Some(PreferredAddress {
            ipv4: self.preferred_ipv4,
            ipv6: self.preferred_ipv6,
            connection_id,
            stateless_reset_token: key.token(&connection_id),
        })
    }

    /// How many connections may be complete at a time.
    pub(crate) const fn connection_limits(&self) -> Limits {
        Limits {
            all: self.max_connections,
            per_network: self.max_connections_per_prefix,
        }
    }
}
