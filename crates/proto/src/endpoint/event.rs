//! What goes between endpoint, connections and the driver of both, and how starting one fails; no logic.

use std::net::SocketAddr;
use std::time::Instant;

use bytes::BytesMut;
use mpquic_sched_core::{ConnectionId, EcnCodepoint};
use thiserror::Error;

use super::Incoming;
use crate::{ConfigError, ConnectionError, ConnectionHandle, FourTuple, Transmit};

/// What a datagram meant.
#[derive(Debug)]
#[non_exhaustive]
pub enum DatagramEvent {
    /// It belongs to this connection: hand the event to it.
    ConnectionEvent(ConnectionHandle, ConnectionEvent),
    /// A client wants to connect.
    NewConnection(Incoming),
    /// Answer it with this, written to the buffer (version negotiation, stateless reset).
    Response(Transmit),
}

/// A datagram on its way from the endpoint to a connection.
#[derive(Debug)]
pub struct ConnectionEvent {
    pub(crate) now: Instant,
    pub(crate) network_path: FourTuple,
    pub(crate) ecn: Option<EcnCodepoint>,
    pub(crate) datagram: BytesMut,
}

/// What a connection tells its endpoint. Hand it over before the connection's next transmit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum EndpointEvent {
    /// Route datagrams with this connection ID here.
    AddCid(ConnectionId),
    /// Route them here no longer.
    RetireCid(ConnectionId),
    /// A datagram from this address that ends in this token is a stateless reset of this connection.
    AddResetToken(SocketAddr, [u8; 16]),
    /// It is so no longer.
    RemoveResetToken(SocketAddr, [u8; 16]),
    /// The connection is over: forget it. The last event of a connection: its handle may be given
    /// to another one afterwards.
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

/// Why no connection could be started.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The server name is no DNS name and no IP address.
    #[error("invalid server name: {0:?}")]
    InvalidServerName(String),
    /// The remote address cannot be: port 0 or an unspecified IP.
    #[error("invalid remote address: {0}")]
    InvalidRemoteAddress(SocketAddr),
    /// TLS refused to start.
    #[error("TLS: {0}")]
    Tls(String),
    /// The configuration cannot be.
    #[error("{0}")]
    Config(#[from] ConfigError),
}
