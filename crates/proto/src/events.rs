//! What endpoints, connections and applications tell each other, and what is known of a datagram that came.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use mpquic_sched_core::{ConnectionId, EcnCodepoint, PathStatus};

use crate::{ConnectionError, FourTuple, PathErrorCode, PathId, StreamEvent};

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

/// What a connection tells its application, by [`Connection::poll`](crate::Connection::poll).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// ALPN and, on a server, the server name are known.
    HandshakeDataReady,
    /// The handshake is complete: streams can be opened.
    Connected,
    /// The handshake is confirmed (RFC 9001 section 4.1.2): paths can be opened.
    HandshakeConfirmed,
    /// The connection is over.
    ConnectionLost {
        /// Why.
        reason: ConnectionError,
    },
    /// An event of a stream.
    Stream(StreamEvent),
    /// A datagram can be received.
    DatagramReceived,
    /// A blocked datagram can be sent.
    DatagramsUnblocked,
    /// There are news of datagrams that were sent with a tag, and there were none before: see
    /// [`Datagrams::fate`](crate::Datagrams::fate).
    DatagramFates,
    /// An event of a path.
    Path(PathEvent),
}

/// What happened to a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum PathEvent {
    /// The peer's address was validated: the path can carry data. Path 0 is open when the handshake
    /// is complete.
    Opened {
        /// The path.
        id: PathId,
    },
    /// One side abandoned the path, or it could not be validated.
    Abandoned {
        /// The path.
        id: PathId,
        /// The code of the first PATH_ABANDON frame, sent or received.
        error_code: PathErrorCode,
        /// Whether the peer abandoned the path first.
        by_peer: bool,
    },
    /// The state of the path was discarded, three PTOs after it was abandoned.
    Discarded {
        /// The path.
        id: PathId,
    },
    /// The peer's address changed and was validated: see
    /// [`PathRef::network_path`](crate::PathRef::network_path).
    Moved {
        /// The path.
        id: PathId,
    },
    /// The peer changed its status for the path (PATH_STATUS_AVAILABLE, PATH_STATUS_BACKUP).
    RemoteStatus {
        /// The path.
        id: PathId,
        /// The new status.
        status: PathStatus,
    },
    /// The path does not deliver any more; its data goes to other paths.
    Suspect {
        /// The path.
        id: PathId,
    },
    /// The path delivers again.
    Recovered {
        /// The path.
        id: PathId,
    },
    /// The path is silent for longer than its application wanted
    /// ([`PathMut::watch_silence`](crate::PathMut::watch_silence)). The transport may not draw any conclusions yet, as it does with
    /// [`Suspect`](Self::Suspect).
    Silent {
        /// The path.
        id: PathId,
        /// How long ago the oldest packet left that is waited for, of those after the newest acknowledged one.
        after: Duration,
    },
    /// A packet of a path that was [`Silent`](Self::Silent) is acknowledged after all, or one that left later.
    Heard {
        /// The path.
        id: PathId,
    },
    /// The address of ours that the path uses is gone, and no other takes its place: nothing leaves or comes on the path until
    /// one does. Then [`Moved`](Self::Moved) follows, or nothing if it is the same address.
    Stranded {
        /// The path.
        id: PathId,
    },
    /// A path can be opened that could not be before: the peer raised the limit or issued connection
    /// IDs.
    Available {
        /// The path ID that would be next.
        next: PathId,
    },
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
