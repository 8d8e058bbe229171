//! What both ends set of TLS and the transport.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use mpquic::TransportConfig;
use mpquic_peer::{ClientTls, Identity, Transport, Trust};

use crate::error::Error;
use crate::wire::ALPN;

/// TCP connections and UDP associations of a client at a time.
const STREAMS: u64 = 4096;
/// A connection without an answer for so long is over.
const IDLE: Duration = Duration::from_secs(30);
/// How often it asks for one.
const KEEP_ALIVE: Duration = Duration::from_secs(8);
/// Datagrams that wait in either direction, bytes.
const DATAGRAMS: usize = 4 << 20;

/// The transport of either end.
pub(crate) fn transport(named: &Transport) -> Result<TransportConfig, Error> {
    let mut config = TransportConfig::default();
    config
        .max_concurrent_bidi_streams(STREAMS)
        .max_concurrent_uni_streams(0)
        .max_idle_timeout(Some(IDLE))
        .keep_alive_interval(Some(KEEP_ALIVE))
        .datagram_receive_buffer(Some(DATAGRAMS))
        .datagram_send_buffer(DATAGRAMS);
    named.apply(&mut config)?;
    Ok(config)
}

/// TLS of a server; with `client_ca`, for clients with a certificate of that authority only.
///
/// # Errors
///
/// If a file cannot be read, or key and certificate do not belong together.
pub fn server_tls(
    identity: Identity,
    client_ca: Option<&Path>,
) -> Result<rustls::ServerConfig, Error> {
    Ok(mpquic_peer::server_tls(identity, client_ca, ALPN)?)
}

/// TLS of a client, with a certificate of its own if the server asks for one.
///
/// # Errors
///
/// If a file cannot be read, or key and certificate do not belong together.
pub fn client_tls(trust: &Trust, identity: Option<Identity>) -> Result<ClientTls, Error> {
    Ok(mpquic_peer::client_tls(trust, identity, ALPN)?)
}

pub(crate) fn tls(error: impl std::fmt::Display) -> Error {
    Error::Argument(format!("TLS: {error}"))
}

pub(crate) fn list(addresses: &[SocketAddr]) -> String {
    let texts: Vec<_> = addresses.iter().map(ToString::to_string).collect();
    texts.join(", ")
}
