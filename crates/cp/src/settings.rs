//! What both ends set of TLS and the transport.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use mpquic::{Connection, TransportConfig};
use mpquic_peer::{ClientTls, Identity, KeyLog, Transport, Trust};

use crate::error::Error;
use crate::limits::STREAMS;
use crate::server::ServerSettings;
use crate::wire::ALPN;

/// A connection without an answer for so long is over.
pub(crate) const IDLE: Duration = Duration::from_secs(30);
/// How often a client asks for one.
const KEEP_ALIVE: Duration = Duration::from_secs(8);
/// What a server keeps of a client that has not greeted yet, bytes.
const UNGREETED: u64 = 64 * 1024;
/// What a server receives and has not read of one that has greeted, bytes.
const RECEIVE_WINDOW: u64 = 24 << 20;
/// The least that a client takes of what it asked for, bytes per second: less than a link of the slowest kind carries.
const LEAST: u64 = 500;

/// The transport of a client.
pub(crate) fn client_transport(named: &Transport) -> Result<TransportConfig, Error> {
    let mut config = TransportConfig::default();
    config
        .max_concurrent_bidi_streams(0)
        .max_concurrent_uni_streams(0)
        .max_idle_timeout(Some(IDLE))
        .keep_alive_interval(Some(KEEP_ALIVE));
    named.apply(&mut config)?;
    Ok(config)
}

/// The transport of a server: for the greeting, until [`greeted`]. Clients that are gone, or ask and read nothing, do not stay.
pub(crate) fn server_transport(settings: &ServerSettings) -> Result<TransportConfig, Error> {
    let mut config = TransportConfig::default();
    config
        .max_concurrent_bidi_streams(1)
        .max_concurrent_uni_streams(0)
        .receive_window(UNGREETED)
        .min_peer_rate(LEAST, settings.patience)
        .max_idle_timeout(Some(IDLE));
    settings.transport.apply(&mut config)?;
    Ok(config)
}

/// Gives a client that has greeted what it needs.
pub(crate) fn greeted(connection: &Connection) {
    connection.set_receive_window(RECEIVE_WINDOW);
    connection.set_max_concurrent_bidi_streams(STREAMS.into());
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
