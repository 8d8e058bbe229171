//! What a connection tells its application; no state.

use mpquic_sched_core::PathStatus;

use crate::{ConnectionError, PathErrorCode, PathId, StreamEvent};

/// Something that the application may want to know.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// ALPN and, on a server, the server name are known.
    HandshakeDataReady,
    /// The handshake is complete: streams can be opened.
    Connected,
    /// RFC 9001 section 4.1.2: paths can be opened from here on.
    HandshakeConfirmed,
    /// It is over.
    ConnectionLost {
        /// Why.
        reason: ConnectionError,
    },
    /// Of a stream.
    Stream(StreamEvent),
    /// A datagram can be received.
    DatagramReceived,
    /// A blocked datagram can be sent.
    DatagramsUnblocked,
    /// Of a path.
    Path(PathEvent),
}

/// Something happened to a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum PathEvent {
    /// Validated in our direction: it can carry data. (Path 0: at handshake completion.)
    Opened {
        /// The path.
        id: PathId,
    },
    /// Abandoned, by either side, or never validated.
    Abandoned {
        /// The path.
        id: PathId,
        /// The code that was sent or received first.
        error_code: PathErrorCode,
        /// Whether the peer was first.
        by_peer: bool,
    },
    /// Its state is gone, three PTOs after it was abandoned.
    Discarded {
        /// The path.
        id: PathId,
    },
    /// The peer has other addresses now, and has proven them: see
    /// [`Connection::network_path`](crate::Connection::network_path).
    Moved {
        /// The path.
        id: PathId,
    },
    /// The peer's preference changed.
    RemoteStatus {
        /// The path.
        id: PathId,
        /// The preference.
        status: PathStatus,
    },
    /// In trouble: its data goes elsewhere.
    Suspect {
        /// The path.
        id: PathId,
    },
    /// It works again.
    Recovered {
        /// The path.
        id: PathId,
    },
    /// A path can be opened that could not before (new limit, or new connection IDs).
    Available {
        /// The path ID that would be next.
        next: PathId,
    },
}
