//! The configuration of a server with a generated certificate, for the program's protocol.

use std::sync::Arc;

use mpquic::rustls::pki_types::PrivateKeyDer;
use mpquic::rustls::{self, crypto::ring};
use mpquic::{ConfigError, ServerConfig, TransportConfig};

use crate::protocol::ALPN;

/// The configuration of a server with this certificate.
pub(crate) fn server_config(
    identity: &rcgen::CertifiedKey<rcgen::KeyPair>,
    transport: TransportConfig,
) -> Result<ServerConfig, ConfigError> {
    let tls_error = |error: rustls::Error| ConfigError::Tls(error.to_string());
    let key = PrivateKeyDer::Pkcs8(identity.signing_key.serialize_der().into());
    let mut tls = rustls::ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(tls_error)?
        .with_no_client_auth()
        .with_single_cert(vec![identity.cert.der().clone()], key)
        .map_err(tls_error)?;
    tls.alpn_protocols = vec![ALPN.to_vec()];
    let mut config = ServerConfig::new(Arc::new(tls))?;
    config.transport(Arc::new(transport));
    Ok(config)
}
