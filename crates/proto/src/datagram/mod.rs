//! Unreliable datagrams (RFC 9221): two bounded queues; does not choose paths.

mod queue;

pub(crate) use queue::Datagrams;

use bytes::Bytes;
use thiserror::Error;

/// Why a datagram was not queued.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SendDatagramError {
    /// The peer takes no datagrams.
    #[error("the peer does not take datagrams")]
    UnsupportedByPeer,
    /// Datagrams are turned off here.
    #[error("datagrams are turned off")]
    Disabled,
    /// Larger than a packet on this connection, or than the peer takes.
    #[error("the datagram is too large")]
    TooLarge,
    /// The buffer is full; the datagram comes back.
    #[error("the send buffer is full")]
    Blocked(Bytes),
}
