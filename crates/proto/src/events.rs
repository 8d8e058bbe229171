//! What endpoints and connections tell each other, and what is known of a datagram that came.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Instant;

use bytes::BytesMut;
use mpquic_sched_core::{ConnectionId, EcnCodepoint};

use crate::FourTuple;

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

/// What the endpoint is still to be told.
pub(crate) type EndpointEvents = VecDeque<EndpointEvent>;

/// Where a datagram came from, and when.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DatagramMeta {
    pub(crate) now: Instant,
    /// When it came: before `now` if it had to wait for keys.
    pub(crate) received: Instant,
    pub(crate) tuple: FourTuple,
    pub(crate) ecn: Option<EcnCodepoint>,
    /// UDP payload bytes.
    pub(crate) bytes: usize,
}

impl DatagramMeta {
    /// Of datagrams that are here now; their sizes are to be filled in.
    pub(crate) const fn new(now: Instant, tuple: FourTuple, ecn: Option<EcnCodepoint>) -> Self {
        Self {
            now,
            received: now,
            tuple,
            ecn,
            bytes: 0,
        }
    }
}
