//! What both ends set of TLS and the transport.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use mpquic::TransportConfig;
use mpquic_peer::{ClientTls, Identity, KeyLog, Transport, Trust};

use crate::error::Error;
use crate::wire::ALPN;

/// Files that a client transfers at a time, with room for listings.
pub(crate) const STREAMS: u32 = 64;
/// A connection without an answer for so long is over.
pub(crate) const IDLE: Duration = Duration::from_secs(30);
/// How often it asks for one.
const KEEP_ALIVE: Duration = Duration::from_secs(8);

/// The transport of either end.
pub(crate) fn transport(named: &Transport) -> Result<TransportConfig, Error> {
    let mut config = TransportConfig::default();
    config
        .max_concurrent_bidi_streams(STREAMS.into())
        .max_concurrent_uni_streams(0)
        .max_idle_timeout(Some(IDLE))
        .keep_alive_interval(Some(KEEP_ALIVE));
    named.apply(&mut config)?;
    Ok(config)
}

/// TLS of a server; with `client_ca`, for clients with a certificate of that authority only.
///
/// # Errors
///
/// If a file cannot be read or written, or key and certificate do not belong together.
pub fn server_tls(
    identity: Identity,
    client_ca: Option<&Path>,
    key_log: Option<&Path>,
) -> Result<rustls::ServerConfig, Error> {
    let mut tls = mpquic_peer::server_tls(identity, client_ca, ALPN)?;
    if let Some(path) = key_log {
        tls.key_log = Arc::new(KeyLog::open(path)?);
    }
    Ok(tls)
}

/// TLS of a client, with a certificate of its own if the server asks for one.
///
/// # Errors
///
/// If a file cannot be read or written, key and certificate do not belong together, or the system has no authorities to tell.
pub fn client_tls(
    trust: &Trust,
    identity: Option<Identity>,
    key_log: Option<&Path>,
) -> Result<ClientTls, Error> {
    let mut tls = mpquic_peer::client_tls(trust, identity, ALPN)?;
    if let Some(path) = key_log {
        tls.config.key_log = Arc::new(KeyLog::open(path)?);
    }
    Ok(tls)
}

pub(crate) fn tls(error: impl std::fmt::Display) -> Error {
    Error::Argument(format!("TLS: {error}"))
}
