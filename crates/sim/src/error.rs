//! Why a simulation could not be set up, or why it failed.

use std::time::Duration;

use mpquic_proto::{ConfigError, ConnectError, ConnectionError, PathError, Side, StreamId, VarInt};
use thiserror::Error;

use crate::link::LinkConfigError;

/// Why a simulation could not be set up, or why it failed.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SimError {
    /// The configuration of a link is invalid.
    #[error("path {path}: {source}")]
    Link {
        /// The link's path.
        path: usize,
        /// What is invalid.
        source: LinkConfigError,
    },
    /// The configuration of a shared link is invalid.
    #[error("shared link {link}: {source}")]
    SharedLink {
        /// The link's number.
        link: usize,
        /// What is invalid.
        source: LinkConfigError,
    },
    /// A direction of a path has no link, or too many.
    #[error("path {path}, {from:?} sending: {hops} links, expected 1 to {most}")]
    Chain {
        /// The path.
        path: usize,
        /// The side that sends in this direction.
        from: Side,
        /// The number of links given.
        hops: usize,
        /// The largest number allowed.
        most: usize,
    },
    /// A flow of cross traffic might end before it starts.
    #[error(
        "cross traffic {number} stops at {stop:?}, expected later than its start at {start:?} with \
         its phase of up to {phase:?}"
    )]
    CrossTraffic {
        /// The flow, in the order in which they were given.
        number: usize,
        /// The start time.
        start: Duration,
        /// The largest random delay of the start.
        phase: Duration,
        /// The end time.
        stop: Duration,
    },
    /// No path was given.
    #[error("a network needs at least one path")]
    NoPath,
    /// A path, link or address with this number does not exist.
    #[error("there is no {what} {number}")]
    Missing {
        /// What it would be.
        what: &'static str,
        /// Its number.
        number: usize,
    },
    /// Two paths join the same addresses. A datagram could not tell them apart.
    #[error(
        "path {path} joins client address {client} and server address {server}, as path {first} does"
    )]
    PathTwice {
        /// The later path.
        path: usize,
        /// The earlier one.
        first: usize,
        /// The number of the client's address.
        client: usize,
        /// The number of the server's address.
        server: usize,
    },
    /// There are too many of something.
    #[error("{count} {what}, expected at most {most}")]
    TooMany {
        /// What there are too many of.
        what: &'static str,
        /// The number given.
        count: usize,
        /// The largest number allowed.
        most: usize,
    },
    /// TLS refused its settings.
    #[error("TLS: {0}")]
    Tls(#[from] rustls::Error),
    /// The transport refused its settings.
    #[error("configuration: {0}")]
    Config(#[from] ConfigError),
    /// The client could not connect.
    #[error("connect: {0}")]
    Connect(#[from] ConnectError),
    /// The applications were not complete at the time limit.
    #[error("not done at {limit:?}: {delivered} bytes delivered, the last at {last_delivery:?}")]
    TimeLimit {
        /// The limit.
        limit: Duration,
        /// Bytes that both applications have read.
        delivered: u64,
        /// When either application last read data.
        last_delivery: Option<Duration>,
    },
    /// No datagram is in flight, no timer is set, and the applications are not complete.
    #[error("stuck at {at:?}: nothing is under way and no timer is set")]
    Stuck {
        /// When.
        at: Duration,
    },
    /// What [`NetworkBuilder::stop_when`](crate::NetworkBuilder::stop_when) was given has been set.
    #[error("stopped at {at:?}")]
    Stopped {
        /// The virtual time.
        at: Duration,
    },
    /// Virtual time does not advance: the work at one instant never ends.
    #[error("time stands still at {at:?}: endless work at one instant")]
    Livelock {
        /// When.
        at: Duration,
    },
    /// The connection ended before the applications were complete.
    #[error("{side:?}'s connection lost at {at:?}: {reason}")]
    ConnectionLost {
        /// The side that noticed.
        side: Side,
        /// When.
        at: Duration,
        /// Why.
        reason: ConnectionError,
    },
    /// An application received wrong data.
    #[error("{side:?}'s application at {at:?}: {source}")]
    Integrity {
        /// The side of the application.
        side: Side,
        /// When.
        at: Duration,
        /// The fault.
        source: AppError,
    },
    /// A step hook found a violated invariant.
    #[error("invariant broken at {at:?}: {message}")]
    Invariant {
        /// When.
        at: Duration,
        /// The message of the hook.
        message: String,
    },
    /// The connection refused a scripted action.
    #[error("action \"{action}\" at {at:?}: {source}")]
    Action {
        /// When.
        at: Duration,
        /// The action.
        action: &'static str,
        /// Why.
        source: PathError,
    },
}

/// What an application found wrong with the data that it received.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum AppError {
    /// A byte differs from the one that was sent.
    #[error("{stream}: wrong byte at {offset}")]
    Mismatch {
        /// The stream.
        stream: StreamId,
        /// The offset in the content.
        offset: u64,
    },
    /// The length of the data differs from the announced length.
    #[error("{stream}: {got} bytes where {expected} were announced")]
    Length {
        /// The stream.
        stream: StreamId,
        /// The announced length.
        expected: u64,
        /// The length received so far.
        got: u64,
    },
    /// The peer reset the stream or stopped reading it.
    #[error("{stream}: given up by the peer with code {code}")]
    GivenUp {
        /// The stream.
        stream: StreamId,
        /// The peer's code.
        code: VarInt,
    },
    /// The transport reports that a stream in use is closed.
    #[error("{stream}: closed while in use")]
    Closed {
        /// The stream.
        stream: StreamId,
    },
    /// The peer's application violates the protocol.
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
