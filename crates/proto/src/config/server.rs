//! Settings of incoming connections: TLS, transport, how many may wait; accepts nothing.

use std::sync::Arc;

use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::{ConfigError, TransportConfig};
use crate::limits;

/// Settings of incoming connections: TLS, transport, and how many may wait.
#[derive(Debug, Clone)]
pub struct ServerConfig {
    pub(crate) tls: Arc<rustls::ServerConfig>,
    pub(crate) transport: Arc<TransportConfig>,
    pub(crate) max_incoming: usize,
}

impl ServerConfig {
    /// Connections with this TLS configuration.
    ///
    /// # Errors
    ///
    /// If the configuration has no TLS 1.3 cipher suite for QUIC
    /// (TLS13_AES_128_GCM_SHA256 protects Initial packets, RFC 9001 section 5.2).
    pub fn new(tls: Arc<rustls::ServerConfig>) -> Result<Self, ConfigError> {
        crate::handshake::check_suites(tls.crypto_provider())?;
        Ok(Self {
            tls,
            transport: Arc::new(TransportConfig::default()),
            max_incoming: limits::MAX_INCOMING,
        })
    }

    /// Connections that present this certificate chain, leaf first.
    ///
    /// # Errors
    ///
    /// If rustls refuses the chain or the key.
    pub fn with_single_cert(
        chain: Vec<CertificateDer<'static>>,
        key: PrivateKeyDer<'static>,
    ) -> Result<Self, ConfigError> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let tls = rustls::ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(|error| ConfigError::Tls(error.to_string()))?
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .map_err(|error| ConfigError::Tls(error.to_string()))?;
        Self::new(Arc::new(tls))
    }

    /// Sets the settings of the transport. The default is [`TransportConfig::default`].
    pub fn transport(&mut self, transport: Arc<TransportConfig>) -> &mut Self {
        self.transport = transport;
        self
    }

    /// How many connections may wait to be accepted. Initial packets beyond that are dropped.
    /// Default [`limits::MAX_INCOMING`].
    pub const fn max_incoming(&mut self, count: usize) -> &mut Self {
        self.max_incoming = count;
        self
    }
}
