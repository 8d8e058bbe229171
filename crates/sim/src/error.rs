//! Why a simulation could not be set up, or ended badly.

use std::time::Duration;

use mpquic_proto::{ConfigError, ConnectError, ConnectionError, PathError, Side, StreamId, VarInt};
use thiserror::Error;

use crate::link::LinkConfigError;

/// Why a simulation could not be set up, or ended badly.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SimError {
    /// A link cannot be.
    #[error("path {path}: {source}")]
    Link {
        /// Its path.
        path: usize,
        /// Why.
        source: LinkConfigError,
    },
    /// A shared link cannot be.
    #[error("shared link {link}: {source}")]
    SharedLink {
        /// Its number.
        link: usize,
        /// Why.
        source: LinkConfigError,
    },
    /// A direction of a path leads through no link, or through too many.
    #[error("path {path}, {from:?} sending: {hops} links, expected 1 to {most}")]
    Chain {
        /// The path.
        path: usize,
        /// Who sends in this direction.
        from: Side,
        /// How many links were given.
        hops: usize,
        /// How many there can be.
        most: usize,
    },
    /// A flow of cross traffic ends before it is certain to have begun.
    #[error(
        "cross traffic {number} stops at {stop:?}, expected later than its start at {start:?} with \
         its phase of up to {phase:?}"
    )]
    CrossTraffic {
        /// Which, in the order in which they were given.
        number: usize,
        /// When it is to start.
        start: Duration,
        /// How much later it may start.
        phase: Duration,
        /// When it is to stop.
        stop: Duration,
    },
    /// No path was given.
    #[error("a network needs at least one path")]
    NoPath,
    /// A path, link or address with this number was named, and is not there.
    #[error("there is no {what} {number}")]
    Missing {
        /// What it would be.
        what: &'static str,
        /// Its number.
        number: usize,
    },
    /// Two paths join the same addresses, so that a datagram would not know its way.
    #[error(
        "path {path} joins client address {client} and server address {server}, as path {first} does"
    )]
    PathTwice {
        /// The later path.
        path: usize,
        /// The earlier one.
        first: usize,
        /// The client's address, by number.
        client: usize,
        /// The server's address, by number.
        server: usize,
    },
    /// More of something than there can be.
    #[error("{count} {what}, expected at most {most}")]
    TooMany {
        /// What there are too many of.
        what: &'static str,
        /// How many were given.
        count: usize,
        /// How many there can be.
        most: usize,
    },
    /// The TLS settings were refused.
    #[error("TLS: {0}")]
    Tls(#[from] rustls::Error),
    /// The transport's settings were refused.
    #[error("configuration: {0}")]
    Config(#[from] ConfigError),
    /// The client could not start.
    #[error("connect: {0}")]
    Connect(#[from] ConnectError),
    /// The applications were not done at the time limit.
    #[error("not done at {limit:?}: {delivered} bytes delivered, the last at {last_delivery:?}")]
    TimeLimit {
        /// The limit.
        limit: Duration,
        /// Bytes that both applications have read.
        delivered: u64,
        /// When either application read bytes last.
        last_delivery: Option<Duration>,
    },
    /// Nothing is under way, no timer is set, and the applications are not done.
    #[error("stuck at {at:?}: nothing is under way and no timer is set")]
    Stuck {
        /// When.
        at: Duration,
    },
    /// Virtual time does not go on: endless work at one instant.
    #[error("time stands still at {at:?}: endless work at one instant")]
    Livelock {
        /// When.
        at: Duration,
    },
    /// The connection ended before the applications were done.
    #[error("{side:?}'s connection lost at {at:?}: {reason}")]
    ConnectionLost {
        /// Which side noticed.
        side: Side,
        /// When.
        at: Duration,
        /// Why.
        reason: ConnectionError,
    },
    /// An application found fault with what it was given.
    #[error("{side:?}'s application at {at:?}: {source}")]
    Integrity {
        /// Which application.
        side: Side,
        /// When.
        at: Duration,
        /// The fault.
        source: AppError,
    },
    /// A step hook found an invariant broken.
    #[error("invariant broken at {at:?}: {message}")]
    Invariant {
        /// When.
        at: Duration,
        /// The hook's words.
        message: String,
    },
    /// A scripted action was refused.
    #[error("action \"{action}\" at {at:?}: {source}")]
    Action {
        /// When.
        at: Duration,
        /// What.
        action: &'static str,
        /// Why.
        source: PathError,
    },
}

/// What an application found wrong.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum AppError {
    /// A byte differs from what was sent.
    #[error("{stream}: wrong byte at {offset}")]
    Mismatch {
        /// The stream.
        stream: StreamId,
        /// Of the content.
        offset: u64,
    },
    /// More or fewer bytes than announced.
    #[error("{stream}: {got} bytes where {expected} were announced")]
    Length {
        /// The stream.
        stream: StreamId,
        /// Announced.
        expected: u64,
        /// Received so far.
        got: u64,
    },
    /// The peer gave the stream up.
    #[error("{stream}: given up by the peer with code {code}")]
    GivenUp {
        /// The stream.
        stream: StreamId,
        /// The peer's code.
        code: VarInt,
    },
    /// The transport says that a stream in use is closed.
    #[error("{stream}: closed while in use")]
    Closed {
        /// The stream.
        stream: StreamId,
    },
    /// The peer's application does not keep to the protocol.
    #[error("{stream}: {message}")]
    Protocol {
        /// The stream.
        stream: StreamId,
        /// What is wrong.
        message: String,
    },
    /// Anything else.
    #[error("{0}")]
    Other(String),
}
