//! Routes datagrams to connections and makes new ones; does not run them.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use bytes::BytesMut;
use quinn_proto::{ConnectionId, EcnCodepoint};
use thiserror::Error;

use crate::{
    ClientConfig, ConfigError, Connection, ConnectionError, ConnectionHandle, EndpointConfig,
    FourTuple, ServerConfig, Transmit,
};

/// All connections of one or several sockets.
pub struct Endpoint {}

/// What a datagram meant.
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
pub enum EndpointEvent {
    /// Route datagrams with this connection ID here.
    AddCid(ConnectionId),
    /// Route them here no longer.
    RetireCid(ConnectionId),
    /// A datagram from this address that ends in this token is a stateless reset of this connection.
    AddResetToken(SocketAddr, [u8; 16]),
    /// It is so no longer.
    RemoveResetToken(SocketAddr, [u8; 16]),
    /// The connection is over: forget it.
    Drained,
}

/// A client that wants to connect: accept, refuse or ignore it.
#[derive(Debug)]
pub struct Incoming {}

impl Incoming {
    /// Where it comes from.
    pub fn network_path(&self) -> FourTuple {
        todo!()
    }
}

/// Why an incoming connection could not be accepted.
#[derive(Debug)]
pub struct AcceptError {
    /// The reason.
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

impl Endpoint {
    /// An endpoint; with a server configuration, one that accepts connections.
    pub fn new(_config: Arc<EndpointConfig>, _server: Option<Arc<ServerConfig>>) -> Self {
        todo!()
    }

    /// Replaces the server configuration for future connections; `None` refuses them.
    pub fn set_server_config(&mut self, _server: Option<Arc<ServerConfig>>) {
        todo!()
    }

    /// Takes in one datagram. An answer, if any, is appended to `buf`.
    pub fn handle(
        &mut self,
        _now: Instant,
        _network_path: FourTuple,
        _ecn: Option<EcnCodepoint>,
        _datagram: BytesMut,
        _buf: &mut Vec<u8>,
    ) -> Option<DatagramEvent> {
        todo!()
    }

    /// Starts a connection to `network_path.remote`.
    pub fn connect(
        &mut self,
        _now: Instant,
        _config: ClientConfig,
        _network_path: FourTuple,
        _server_name: &str,
    ) -> Result<(ConnectionHandle, Connection), ConnectError> {
        todo!()
    }

    /// Accepts an incoming connection, with the endpoint's server configuration or another.
    pub fn accept(
        &mut self,
        _incoming: Incoming,
        _now: Instant,
        _buf: &mut Vec<u8>,
        _server: Option<Arc<ServerConfig>>,
    ) -> Result<(ConnectionHandle, Connection), AcceptError> {
        todo!()
    }

    /// Refuses an incoming connection: CONNECTION_REFUSED, written to `buf`.
    pub fn refuse(&mut self, _incoming: Incoming, _buf: &mut Vec<u8>) -> Transmit {
        todo!()
    }

    /// Forgets an incoming connection without an answer.
    pub fn ignore(&mut self, _incoming: Incoming) {
        todo!()
    }

    /// Takes in what a connection has to say.
    pub fn handle_event(&mut self, _handle: ConnectionHandle, _event: EndpointEvent) {
        todo!()
    }

    /// How many connections are not drained.
    pub fn open_connections(&self) -> usize {
        todo!()
    }
}
