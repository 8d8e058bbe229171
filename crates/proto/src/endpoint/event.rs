//! What goes between endpoint, connections and the driver of both, and how starting one fails; no logic.

use std::net::SocketAddr;
use std::time::Instant;

use bytes::BytesMut;
use mpquic_sched_core::{ConnectionId, EcnCodepoint};
use thiserror::Error;

use super::Incoming;
use crate::{ConfigError, ConnectionError, ConnectionHandle, Escaped, FourTuple, Transmit};

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

/// A datagram that an endpoint passes to a connection, or several that came together.
#[derive(Debug)]
pub struct ConnectionEvent {
    pub(crate) now: Instant,
    pub(crate) network_path: FourTuple,
    pub(crate) ecn: Option<EcnCodepoint>,
    /// One after the other.
    pub(crate) datagrams: BytesMut,
    /// Bytes of each, but for the last.
    pub(crate) segment: usize,
}

impl ConnectionEvent {
    /// Of one datagram.
    pub(crate) const fn single(
        now: Instant,
        network_path: FourTuple,
        ecn: Option<EcnCodepoint>,
        datagram: BytesMut,
    ) -> Self {
        Self {
            now,
            network_path,
            ecn,
            datagrams: datagram,
            segment: usize::MAX,
        }
    }

    /// Bytes of all its datagrams.
    pub fn size(&self) -> usize {
        self.datagrams.len()
    }

    /// How many datagrams there are, at least 1.
    pub fn count(&self) -> usize {
        self.datagrams.len().div_ceil(self.segment).max(1)
    }

    /// The same with datagrams in memory of their own, if they were a slice of a larger buffer: a slice that
    /// waits keeps all of the buffer.
    #[must_use]
    pub fn into_owned(self) -> Self {
        Self {
            datagrams: BytesMut::from(&self.datagrams[..]),
            ..self
        }
    }
}

/// What a connection tells its endpoint. Pass it on before the connection's next transmit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum EndpointEvent {
    /// Datagrams with this connection ID belong to the connection.
    AddCid(ConnectionId),
    /// Datagrams with this connection ID no longer belong to it.
    RetireCid(ConnectionId),
    /// The same, and what still comes for it within the next seconds is dropped without an answer.
    RetireCidQuietly(ConnectionId, Instant),
    /// A datagram from this address that ends in this token is a stateless reset of this connection.
    AddResetToken(SocketAddr, [u8; 16]),
    /// Such a datagram is no longer a stateless reset of this connection.
    RemoveResetToken(SocketAddr, [u8; 16]),
    /// The handshake data that a connection keeps has so many bytes now.
    HandshakeBytes(usize),
    /// The handshake is complete: the connection is not half open any more.
    HandshakeComplete,
    /// The connection is over. This is its last event: another connection may get its handle
    /// afterwards.
    Drained,
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
