//! What an endpoint tells its driver of a datagram, and how accepting a connection fails.

use bytes::BytesMut;
use thiserror::Error;

use super::Incoming;
use crate::events::ConnectionEvent;
use crate::{ConnectionError, ConnectionHandle, Transmit};

/// What a caller of [`Endpoint::handle`](crate::Endpoint::handle) must do with a datagram.
#[derive(Debug)]
#[non_exhaustive]
pub enum DatagramEvent {
    /// Pass the event to this connection.
    ConnectionEvent(ConnectionHandle, ConnectionEvent),
    /// A client wants to connect.
    NewConnection(Incoming),
    /// A client wants to connect, and waits in the queue of [`Endpoint::queue_clients`](crate::Endpoint::queue_clients).
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
