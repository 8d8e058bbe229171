//! Settings of outgoing connections: TLS and transport.

use std::sync::Arc;
use std::time::Duration;

use super::provider::{check_suites, provider, refused};
use super::{ConfigError, RaceConfig, TransportConfig};
use crate::Version;
use crate::token::{SharedTokenStore, TokenStore};

/// Settings of an outgoing connection: TLS and transport.
///
/// ```
/// use std::sync::Arc;
/// use mpquic_proto::{ClientConfig, TransportConfig};
///
/// let roots = rustls::RootCertStore::empty(); // the certificate authorities that you trust
/// let mut config = ClientConfig::with_root_certificates(roots)?;
/// config.transport(Arc::new(TransportConfig::default()));
/// # Ok::<(), mpquic_proto::ConfigError>(())
/// ```
#[derive(Debug, Clone)]
pub struct ClientConfig {
    pub(crate) tls: Arc<rustls::ClientConfig>,
    pub(crate) transport: Arc<TransportConfig>,
    pub(crate) token_store: SharedTokenStore,
    pub(crate) version: Version,
    pub(crate) preferred_address: bool,
    pub(crate) race: Option<RaceConfig>,
    pub(crate) handshake_timeout: Duration,
}

impl ClientConfig {
    /// Connections with this TLS configuration.
    ///
    /// Sessions are kept in its `resumption` store (the default of rustls keeps 256 of them in memory): clones of this
    /// `ClientConfig`, and others made from the same `Arc`, resume them, which saves the certificates.
    /// Early data (0-RTT) needs `enable_early_data`, too; the application must then ask for it with each connection.
    ///
    /// # Errors
    ///
    /// If the configuration has no TLS 1.3 cipher suite for QUIC
    /// (TLS13_AES_128_GCM_SHA256 protects Initial packets, RFC 9001 section 5.2).
    pub fn new(tls: Arc<rustls::ClientConfig>) -> Result<Self, ConfigError> {
        check_suites(tls.crypto_provider())?;
        Ok(Self {
            tls,
            transport: Arc::new(TransportConfig::default()),
            token_store: SharedTokenStore::default(),
            version: Version::default(),
            preferred_address: true,
            race: Some(RaceConfig::default()),
            handshake_timeout: Duration::from_secs(10),
        })
    }

    /// Connections that trust servers with certificates signed by these roots. TLS has its cryptography from ring, or,
    /// with the feature `aws-lc-rs`, from AWS-LC.
    ///
    /// # Errors
    ///
    /// If rustls refuses the configuration.
    pub fn with_root_certificates(roots: rustls::RootCertStore) -> Result<Self, ConfigError> {
        let tls = rustls::ClientConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(refused)?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Self::new(Arc::new(tls))
    }

    /// Connections that trust the servers that the operating system trusts, by the verifier of
    /// `rustls-platform-verifier`. On Windows and Apple's systems the system itself judges the certificate; on Linux and
    /// the BSDs its certificate authorities are loaded here, once, from where the system or the environment variables
    /// `SSL_CERT_FILE` and `SSL_CERT_DIR` have them. On Android, that crate must be initialised first.
    ///
    /// # Errors
    ///
    /// If the system has no certificate authorities to tell, or rustls refuses the configuration.
    ///
    /// ```no_run
    /// # // no_run: asks the system for its authorities
    /// let config = mpquic_proto::ClientConfig::with_platform_verifier()?;
    /// # Ok::<(), mpquic_proto::ConfigError>(())
    /// ```
    #[cfg(feature = "platform-verifier")]
    #[cfg_attr(docsrs, doc(cfg(feature = "platform-verifier")))]
    #[doc(alias = "try_with_platform_verifier")]
    pub fn with_platform_verifier() -> Result<Self, ConfigError> {
        let provider = provider();
        let verifier =
            rustls_platform_verifier::Verifier::new(provider.clone()).map_err(refused)?;
        let tls = rustls::ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(refused)?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier))
            .with_no_client_auth();
        Self::new(Arc::new(tls))
    }

    /// The version of QUIC to connect with. Default [`Version::V1`]. A server that does not speak it ends the attempt
    /// with [`ConnectionError::VersionMismatch`](crate::ConnectionError::VersionMismatch): no other version is tried
    /// unasked. Whoever tries one then should know that anybody on the way can forge what ended the attempt, and that
    /// the new connection does not find that out (RFC 9368 section 4). Sessions and address
    /// validation tokens are those of version 1: with another one there is neither resumption nor 0-RTT.
    pub const fn version(&mut self, version: Version) -> &mut Self {
        self.version = version;
        self
    }

    /// Sets the settings of the transport. The default is [`TransportConfig::default`].
    #[doc(alias = "transport_config")]
    pub fn transport(&mut self, transport: Arc<TransportConfig>) -> &mut Self {
        self.transport = transport;
        self
    }

    /// Where tokens are kept that servers give for the next connections. Default: a
    /// [`TokenMemoryStore`](crate::TokenMemoryStore) of this configuration and its clones.
    ///
    /// Connections of different users should not share one: a server can tell from a token that it is the same
    /// client.
    pub fn token_store(&mut self, store: Arc<dyn TokenStore>) -> &mut Self {
        self.token_store = SharedTokenStore(store);
        self
    }

    /// Whether a connection goes on at the address that the server prefers, if it names one (RFC 9000 section 9.6).
    /// Default true. Addresses that can be reached from fewer places than that of the handshake are refused at any rate
    /// (section 21.5): a server out in the network directs nobody to a private address, or to loopback.
    pub const fn preferred_address(&mut self, followed: bool) -> &mut Self {
        self.preferred_address = followed;
        self
    }

    /// How connections begin over several addresses. Default [`RaceConfig::default`]. With `None`, a connection begins
    /// on the first address given, and on no other.
    ///
    /// Whoever sees two of the links can tell by the copies that both belong to one client (RFC 9000 section 9.5). With
    /// multipath, the server and whoever sees its link can in any case.
    pub const fn race(&mut self, race: Option<RaceConfig>) -> &mut Self {
        self.race = race;
        self
    }

    /// How long the handshake may take, over all addresses together. Then the attempt ends: with
    /// [`ConnectionError::Unreachable`](crate::ConnectionError::Unreachable), which lists each pair of addresses and why
    /// it failed, or with [`ConnectionError::TimedOut`](crate::ConnectionError::TimedOut) if there was only one. Default
    /// 10 s, as servers have it ([`ServerConfig::handshake_timeout`](crate::ServerConfig::handshake_timeout)). Zero is no limit
    /// but the idle timeout; less than 10 ms counts as 10 ms, more than a day as a day.
    ///
    /// The idle timeout ([`TransportConfig::max_idle_timeout`]) ends an attempt, too, if nothing is heard for so long. It
    /// alone is no bound: each packet of the server puts it off, and each address of the server has its own.
    pub fn handshake_timeout(&mut self, timeout: Duration) -> &mut Self {
        self.handshake_timeout = super::handshake_time(timeout);
        self
    }
}
