//! What a connection begins with: what a server knows of a client that wants one, and why a client cannot begin one.

use std::net::SocketAddr;

use mpquic_sched_core::{ConnectionId, Side};
use mpquic_wire::packet::Version;
use thiserror::Error;

use crate::token::Addresses;
use crate::{ConfigError, Escaped, FourTuple};

/// Whom a connection is between, and by which names.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ends {
    pub(crate) side: Side,
    pub(crate) version: Version,
    /// Our connection ID of the handshake.
    pub(crate) scid: ConnectionId,
    /// The destination connection ID of the client's first Initial packet; on servers, of the first that was not
    /// answered by a Retry packet.
    pub(crate) original_dcid: ConnectionId,
    /// Where the first packets go.
    pub(crate) remote_cid: ConnectionId,
}

/// What the token of a client's first packet has proven.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum AddressProof {
    /// Nothing, or there was none.
    None,
    /// The client answers a Retry packet. Its very first Initial packet went to this ID.
    Retry { original_dcid: ConnectionId },
    /// The client was at this IP in a connection before, and at these, of which this is one.
    Token { addresses: Addresses },
}

impl AddressProof {
    /// RFC 9000 section 8.1: whether the client has proven that it receives at its address.
    pub(crate) fn is_valid(&self) -> bool {
        *self != Self::None
    }
}

/// What a server's connection begins with.
#[derive(Debug, Clone)]
pub(crate) struct FirstFlight {
    pub(crate) network_path: FourTuple,
    pub(crate) version: Version,
    /// Destination and source connection IDs of the client's first packet that was not answered by a Retry.
    pub(crate) dcid: ConnectionId,
    pub(crate) scid: ConnectionId,
    pub(crate) proof: AddressProof,
}

/// Why no connection could be started.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// There is no address to connect to.
    #[error("no address to connect to")]
    NoAddress,
    /// The server name is neither a DNS name nor an IP address.
    #[error("invalid server name \"{}\", expected a DNS name or an IP address", Escaped::new(.0))]
    InvalidServerName(String),
    /// The remote address has port 0 or an unspecified IP.
    #[error("invalid remote address {0}, expected a specified IP and a port other than 0")]
    InvalidRemoteAddress(SocketAddr),
    /// rustls refused to start a handshake.
    #[error("TLS: {}", Escaped::new(.0))]
    Tls(String),
    /// The configuration is invalid.
    #[error("{0}")]
    Config(#[from] ConfigError),
}
