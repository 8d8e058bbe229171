//! Why an operation of the async API failed.

use std::io;
use std::net::SocketAddr;

use proto::{ClosedStream, ConnectionError, PathError, PathErrorCode, VarInt};
use thiserror::Error;

use crate::LocalAddr;

/// Why no connection attempt was started.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The endpoint was closed.
    #[error("the endpoint is closed")]
    EndpointClosed,
    /// [`Endpoint::connect`](crate::Endpoint::connect) was called and no default was set.
    #[error("no default client configuration was set on the endpoint")]
    NoDefaultClientConfig,
    /// No socket of the endpoint has the remote's address family.
    #[error("no socket of this endpoint can reach {0}: bind one of its address family")]
    NoSocket(SocketAddr),
    /// No socket of the endpoint can send from the local address asked for.
    #[error("no socket of this endpoint can send from {local} to {remote}")]
    NoLocalSocket {
        /// Where from.
        local: LocalAddr,
        /// Where to.
        remote: SocketAddr,
    },
    /// The server name, the address or the configuration is invalid.
    #[error(transparent)]
    Start(#[from] proto::ConnectError),
}

/// Why a path was not opened.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum OpenPathError {
    /// No socket of the endpoint can send from the local address asked for.
    #[error("no socket of this endpoint can send from {local} to {remote}")]
    NoLocalSocket {
        /// Where from.
        local: LocalAddr,
        /// Where to.
        remote: SocketAddr,
    },
    /// It cannot be opened, or not in time.
    #[error(transparent)]
    Path(#[from] PathError),
    /// It was abandoned before it was validated.
    #[error("the path was abandoned before it was validated: {error_code}{}", if *.by_peer { " (by the peer)" } else { "" })]
    Abandoned {
        /// The code of the PATH_ABANDON frame.
        error_code: PathErrorCode,
        /// Whether the peer abandoned it.
        by_peer: bool,
    },
    /// The connection is over.
    #[error("connection lost: {0}")]
    ConnectionLost(#[from] ConnectionError),
}

/// Why a write failed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum WriteError {
    /// The peer wants no more data, for the reason that its application defines.
    #[error("sending stopped by the peer: code {0}")]
    Stopped(VarInt),
    /// The connection is over.
    #[error("connection lost: {0}")]
    ConnectionLost(#[from] ConnectionError),
    /// The stream was finished or reset here.
    #[error("the stream is closed")]
    ClosedStream,
    /// The stream was opened before the handshake was complete, and the server rejected early data: nothing of the
    /// stream has arrived, nor will it. See [`Connecting::into_0rtt`](crate::Connecting::into_0rtt).
    #[error("the server rejected early data")]
    ZeroRttRejected,
}

/// Why waiting for the peer's stop failed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum StoppedError {
    /// The connection is over.
    #[error("connection lost: {0}")]
    ConnectionLost(#[from] ConnectionError),
    /// The stream was opened before the handshake was complete, and the server rejected early data: nothing of the
    /// stream has arrived, nor will it. See [`Connecting::into_0rtt`](crate::Connecting::into_0rtt).
    #[error("the server rejected early data")]
    ZeroRttRejected,
    /// The stream was reset here.
    #[error("the stream is closed")]
    ClosedStream,
}

/// Why a read failed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The peer reset the stream. Unread data is lost.
    #[error("stream reset by the peer: code {0}")]
    Reset(VarInt),
    /// The connection is over.
    #[error("connection lost: {0}")]
    ConnectionLost(#[from] ConnectionError),
    /// The stream was stopped here.
    #[error("the stream is closed")]
    ClosedStream,
    /// The stream was opened before the handshake was complete, and the server rejected early data: nothing of the
    /// stream has arrived, nor will it. See [`Connecting::into_0rtt`](crate::Connecting::into_0rtt).
    #[error("the server rejected early data")]
    ZeroRttRejected,
    /// The stream was read out of order before ([`RecvStream::read_unordered`](crate::RecvStream::read_unordered)): what
    /// was read then would be missing.
    #[error("ordered read of a stream that was read out of order")]
    IllegalOrderedRead,
}

/// Why a buffer was not filled.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ReadExactError {
    /// The stream ended after so many bytes.
    #[error("the stream ended early: {0} bytes read")]
    FinishedEarly(usize),
    /// A read failed.
    #[error(transparent)]
    ReadError(#[from] ReadError),
}

/// Why a stream was not read to its end.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ReadToEndError {
    /// A read failed.
    #[error("read failed: {0}")]
    Read(#[from] ReadError),
    /// It is longer than allowed.
    #[error("the stream is longer than the limit")]
    TooLong,
}

/// Why waiting for a reset failed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ResetError {
    /// The connection is over.
    #[error("connection lost: {0}")]
    ConnectionLost(#[from] ConnectionError),
    /// The stream was stopped here.
    #[error("the stream is closed")]
    ClosedStream,
    /// The stream was opened before the handshake was complete, and the server rejected early data: nothing of the
    /// stream has arrived, nor will it. See [`Connecting::into_0rtt`](crate::Connecting::into_0rtt).
    #[error("the server rejected early data")]
    ZeroRttRejected,
}

/// Why a datagram was not queued.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SendDatagramError {
    /// The peer takes no datagrams.
    #[error("the peer does not take datagrams")]
    UnsupportedByPeer,
    /// Datagrams are turned off in our configuration.
    #[error("datagrams are turned off")]
    Disabled,
    /// Larger than [`max_datagram_size`](crate::Connection::max_datagram_size).
    #[error("the datagram is too large")]
    TooLarge,
    /// The path that must carry it is not open.
    #[error("the path is not open")]
    PathNotOpen,
    /// The connection is over.
    #[error("connection lost: {0}")]
    ConnectionLost(#[from] ConnectionError),
}

fn lost(error: &ConnectionError) -> io::ErrorKind {
    match error {
        ConnectionError::Reset => io::ErrorKind::ConnectionReset,
        ConnectionError::TimedOut => io::ErrorKind::TimedOut,
        ConnectionError::ConnectionClosed(_) | ConnectionError::ApplicationClosed(_) => {
            io::ErrorKind::ConnectionAborted
        }
        _ => io::ErrorKind::NotConnected,
    }
}

impl From<WriteError> for io::Error {
    fn from(error: WriteError) -> Self {
        let kind = match &error {
            WriteError::Stopped(_) => io::ErrorKind::ConnectionReset,
            WriteError::ConnectionLost(reason) => lost(reason),
            WriteError::ClosedStream => io::ErrorKind::NotConnected,
            WriteError::ZeroRttRejected => io::ErrorKind::ConnectionReset,
        };
        Self::new(kind, error)
    }
}

impl From<ReadError> for io::Error {
    fn from(error: ReadError) -> Self {
        let kind = match &error {
            ReadError::Reset(_) => io::ErrorKind::ConnectionReset,
            ReadError::ConnectionLost(reason) => lost(reason),
            ReadError::ClosedStream => io::ErrorKind::NotConnected,
            ReadError::ZeroRttRejected => io::ErrorKind::ConnectionReset,
            ReadError::IllegalOrderedRead => io::ErrorKind::InvalidInput,
        };
        Self::new(kind, error)
    }
}

impl From<StoppedError> for io::Error {
    fn from(error: StoppedError) -> Self {
        match error {
            StoppedError::ConnectionLost(reason) => Self::new(lost(&reason), reason),
            StoppedError::ZeroRttRejected => Self::new(io::ErrorKind::ConnectionReset, error),
            StoppedError::ClosedStream => Self::new(io::ErrorKind::NotConnected, error),
        }
    }
}

impl From<ClosedStream> for WriteError {
    fn from(ClosedStream: ClosedStream) -> Self {
        Self::ClosedStream
    }
}

impl From<ClosedStream> for ReadError {
    fn from(ClosedStream: ClosedStream) -> Self {
        Self::ClosedStream
    }
}
