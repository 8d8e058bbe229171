//! What both ends set of TLS and the transport.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use mpquic::{Connection, TransportConfig};
use mpquic_peer::{ClientTls, Identity, Transport, Trust};

use crate::error::Error;
use crate::wire::ALPN;

/// Connections of all clients of a server: one each.
pub(crate) const CLIENTS: usize = 1024;
/// Those from one network.
pub(crate) const CLIENTS_OF_ONE: usize = 128;
/// TCP connections and UDP associations of a client at a time.
const STREAMS: u64 = 4096;
/// A connection without an answer for so long is over.
const IDLE: Duration = Duration::from_secs(30);
/// How often it asks for one.
const KEEP_ALIVE: Duration = Duration::from_secs(8);
/// Datagrams that wait in either direction, bytes.
const DATAGRAMS: usize = 4 << 20;
/// What a client that has not greeted may send, bytes: the greeting has 33.
const BEFORE_GREETING: u64 = 64 << 10;
/// What waits of a client's data for its targets, bytes.
const WINDOW: u64 = 24 << 20;
/// A client that takes fewer bytes per second of what waits for it is given up, after the time that an idle TCP connection has, and
/// not before a minute.
const LEAST_RATE: u64 = 100;
const LEAST_PERIOD: Duration = Duration::from_secs(60);

/// The transport of a client. Its server opens no streams.
pub(crate) fn client_transport(named: &Transport) -> Result<TransportConfig, Error> {
    let mut config = TransportConfig::default();
    config
        .max_concurrent_bidi_streams(0)
        .max_concurrent_uni_streams(0)
        .max_idle_timeout(Some(IDLE))
        .keep_alive_interval(Some(KEEP_ALIVE))
        .datagram_receive_buffer(Some(DATAGRAMS))
        .datagram_send_buffer(DATAGRAMS);
    named.apply(&mut config)?;
    Ok(config)
}

/// Where there is another server, one that is silent is left sooner.
pub(crate) fn fail_over(config: &mut TransportConfig) {
    config
        .max_idle_timeout(Some(IDLE / 2))
        .keep_alive_interval(Some(KEEP_ALIVE / 2));
}

/// The transport of a server: a client has one small stream, until it is [let in](open_up).
pub(crate) fn server_transport(
    named: &Transport,
    idle: Duration,
) -> Result<TransportConfig, Error> {
    let mut config = client_transport(named)?;
    config
        .max_concurrent_bidi_streams(1)
        .receive_window(BEFORE_GREETING)
        .min_peer_rate(LEAST_RATE, idle.max(LEAST_PERIOD));
    Ok(config)
}

/// Gives a client that was welcomed all of its streams.
pub(crate) fn open_up(connection: &Connection) {
    connection.set_receive_window(WINDOW);
    connection.set_max_concurrent_bidi_streams(STREAMS);
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
