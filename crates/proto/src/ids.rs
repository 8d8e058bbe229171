//! Identifiers that RFC 10069 adds to QUIC's vocabulary, and the handles of this crate; no state.

use std::fmt;
use std::net::SocketAddr;

use mpquic_sched::PathKey;

/// A path ID (RFC 10069): the same in both directions, generated in ascending order, never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct PathId(pub u32);

impl PathId {
    /// The path of the handshake.
    pub const ZERO: Self = Self(0);
    /// The largest path ID: the nonce has 32 bits for it (RFC 10069, nonce calculation).
    pub const MAX: Self = Self(u32::MAX);

    /// The path ID after this one, or `None` past the largest.
    pub const fn next(self) -> Option<Self> {
        match self.0.checked_add(1) {
            Some(id) => Some(Self(id)),
            None => None,
        }
    }
}

impl fmt::Display for PathId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The addresses of a network path, as this endpoint sees them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FourTuple {
    /// Our address. An unspecified IP (`0.0.0.0`, `::`) means that the system chooses it.
    pub local: SocketAddr,
    /// The peer's address.
    pub remote: SocketAddr,
}

impl FourTuple {
    /// Whether both may be the same network path: equal, or equal but for a local IP that one
    /// side does not know.
    pub fn matches(&self, other: &Self) -> bool {
        self.remote == other.remote
            && self.local.port() == other.local.port()
            && (self.local.ip() == other.local.ip()
                || self.local.ip().is_unspecified()
                || other.local.ip().is_unspecified())
    }

    /// The name under which schedulers store what they learn of this network path.
    pub(crate) fn key(&self) -> PathKey {
        PathKey::of(self.local.ip(), self.remote.ip())
    }
}

impl fmt::Display for FourTuple {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} to {}", self.local, self.remote)
    }
}

/// Names a connection within its [`Endpoint`](crate::Endpoint).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionHandle(pub usize);

/// One UDP payload, or several of equal size for segmentation offload, to be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub struct Transmit {
    /// From where to where. If the local IP is unspecified, the system chooses it.
    pub network_path: FourTuple,
    /// The mark for the IP header.
    pub ecn: Option<quinn_proto::EcnCodepoint>,
    /// Bytes appended to the caller's buffer.
    pub size: usize,
    /// The size of each datagram but the last, which may be shorter; `None` for one datagram.
    pub segment_size: Option<usize>,
}
