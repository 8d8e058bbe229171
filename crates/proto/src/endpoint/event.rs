//! What an endpoint tells its driver of a datagram, and how starting a connection fails.

use std::net::SocketAddr;

use bytes::BytesMut;
use thiserror::Error;

use super::Incoming;
use crate::events::ConnectionEvent;
use crate::{ConfigError, ConnectionError, ConnectionHandle, Escaped, Transmit};

/// What a caller of [`Endpoint::handle`](crate::Endpoint::handle) must do with a datagram.
#[derive(Debug)]
#[non_exhaustive]
pub enum DatagramEvent {
    /// Pass the event to this connection.
    ConnectionEvent(ConnectionHandle, ConnectionEvent),
    /// A client wants to connect.
    NewConnection(Incoming),
    /// A client wants to connect, and waits in the line of [`Endpoint::queue_clients`](crate::Endpoint::queue_clients).
    Queued,
    /// Send this answer, which is in the buffer (Version Negotiation, stateless reset, Retry, or a close of what
    /// cannot begin).
    Response(Transmit),
    /// The datagram belongs to another shard of the endpoint: pass it to
    /// [`Endpoint::handle_forwarded`](crate::Endpoint::handle_forwarded) of the one with this number. Comes only from
    /// endpoints of [`EndpointConfig::into_shards`](crate::EndpointConfig::into_shards).
    Forward(u16, BytesMut),
}

/// Why an incoming connection could not be accepted.
#[derive(Debug, Error)]
#[error("{cause}")]
#[non_exhaustive]
pub struct AcceptError {
    /// The reason.
    #[source]
    pub cause: ConnectionError,
    /// An answer for the client, written to the buffer.
    pub response: Option<Transmit>,
}

/// The client was sent a Retry packet already: it takes no second one (RFC 9000 section 17.2.5.2). The incoming
/// connection is as before.
#[derive(Debug, Error)]
#[error("the client has answered a Retry packet already, accept, refuse or ignore it")]
pub struct RetryError(pub(super) Box<Incoming>);

impl RetryError {
    /// The incoming connection.
    pub fn into_incoming(self) -> Incoming {
        *self.0
    }
}

/// Why no connection could be started.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// There is no address to connect to.
    #[error("no address to connect to")]
    NoAddress,
    /// The server name is neither a DNS name nor an IP address.
    #[error("invalid server name \"{}\", expected a DNS name or an IP address", Escaped::new(.0))]
    InvalidServerName(String),
    /// The remote address has port 0 or an unspecified IP.
    #[error("invalid remote address {0}, expected a specified IP and a port other than 0")]
    InvalidRemoteAddress(SocketAddr),
    /// rustls refused to start a handshake.
    #[error("TLS: {}", Escaped::new(.0))]
    Tls(String),
    /// The configuration is invalid.
    #[error("{0}")]
    Config(#[from] ConfigError),
}
