//! What a connection tells its application.

use mpquic_sched_core::PathStatus;

use crate::{ConnectionError, PathErrorCode, PathId, StreamEvent};

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
