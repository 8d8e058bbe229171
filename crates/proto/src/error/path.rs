//! Why a path ends or cannot be opened (RFC 10069, Error Codes).

use thiserror::Error;

use crate::PathId;

/// Why a call about a path failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum PathError {
    /// The handshake is not complete yet.
    #[error("the handshake is not complete: paths can be opened after it")]
    HandshakeIncomplete,
    /// One of the endpoints does not support multipath.
    #[error("multipath was not negotiated with this peer")]
    MultipathNotNegotiated,
    /// Only clients open paths (RFC 10069, Path Management).
    #[error("only the client of a connection can open paths")]
    ServerSide,
    /// The peer's MAX_PATH_ID, or our own, allows no further path ID; PATHS_BLOCKED was sent.
    #[error("no path ID left: the largest that both sides allow is {limit}")]
    NoPathIdLeft {
        /// The largest path ID that both sides allow.
        limit: PathId,
    },
    /// The peer has not issued a connection ID for the next path ID yet; PATH_CIDS_BLOCKED was sent.
    #[error("the peer has issued no connection ID for path {path} yet")]
    NoCidAvailable {
        /// The path ID that would be next.
        path: PathId,
    },
    /// The server forbids other addresses of the client at the address of its handshake
    /// (disable_active_migration, RFC 9000 section 18.2).
    #[error("the server forbids to move, or to open paths, at the address of its handshake")]
    MigrationDisabled,
    /// As many paths are open as [`limits`](crate::limits) allow.
    #[error("{0} paths are open, and no more are allowed: see TransportConfig::max_paths")]
    TooManyPaths(usize),
    /// No open path has this ID.
    #[error("path {0} is not open")]
    NotOpen(PathId),
    /// The path is the last one and cannot be abandoned; close the connection instead.
    #[error("path {0} is the last one: close the connection instead")]
    LastPath(PathId),
    /// The endpoint has no socket left, and nobody has a handle of it to add one.
    #[error("the endpoint has no socket left")]
    NoSocketLeft,
    /// The connection is closed.
    #[error("the connection is closed")]
    Closed,
}
