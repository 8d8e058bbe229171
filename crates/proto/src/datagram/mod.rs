//! Unreliable datagrams (RFC 9221) in bounded queues.

mod fate;
mod options;
mod outgoing;
mod queue;

pub use fate::{DatagramFate, Fate, Unsendable};
pub use options::DatagramOptions;
pub(crate) use options::Route;
pub(crate) use queue::Datagrams;

use bytes::Bytes;
use thiserror::Error;

/// Why a datagram was not queued.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SendDatagramError {
    /// The peer does not accept datagrams.
    #[error("the peer does not take datagrams")]
    UnsupportedByPeer,
    /// Datagrams are turned off here.
    #[error("datagrams are turned off")]
    Disabled,
    /// The datagram is larger than
    /// [`Datagrams::max_size`](crate::Datagrams::max_size).
    #[error("the datagram is larger than max_datagram_size")]
    TooLarge,
    /// The path that must carry it is not open.
    #[error("the path is not open")]
    PathNotOpen,
    /// The buffer is full. This is the datagram.
    #[error("the send buffer is full")]
    Blocked(Bytes),
}
