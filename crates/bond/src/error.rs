//! Why the proxy could not do what it was asked for.

use std::io;

use mpquic::{ConnectionError, ReadError, ReadExactError, WriteError};
use thiserror::Error;

use crate::wire::Malformed;

/// Why a proxy does not run, or stopped.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// An end could not be set up, or the server not be reached.
    #[error(transparent)]
    Peer(#[from] mpquic_peer::Error),
    /// An argument makes no sense.
    #[error("{0}")]
    Argument(String),
    /// A socket cannot be opened.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// Where.
        address: String,
        /// Why.
        source: io::Error,
    },
    /// A local address cannot be used.
    #[error("cannot connect from {address}: {source}")]
    Local {
        /// Which.
        address: String,
        /// Why.
        source: io::Error,
    },
    /// The server does not take this client: the token is wrong or missing.
    #[error("{name} refuses this client: {why}")]
    Unwelcome {
        /// The server.
        name: String,
        /// Why.
        why: String,
    },
    /// The connection broke before the server had greeted.
    #[error("the connection to {name} is lost: {why}")]
    Lost {
        /// The server.
        name: String,
        /// Why.
        why: String,
    },
    /// Something of the system failed.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl Error {
    /// The exit code of the program that tells it: as those of `mpquic-cp`.
    pub fn exit(&self) -> u8 {
        use mpquic_peer::Error as Peer;
        match self {
            Self::Peer(error) if error.is_distrust() => 5,
            Self::Peer(Peer::Resolve { .. }) => 3,
            Self::Peer(
                Peer::NoRoute { .. }
                | Peer::NoAnswer { .. }
                | Peer::Start { .. }
                | Peer::Connect { .. }
                | Peer::NoLinks(_),
            ) => 4,
            Self::Peer(Peer::Setting(_)) | Self::Argument(_) => 2,
            Self::Peer(Peer::File { .. }) => 8,
            Self::Unwelcome { .. } => 6,
            Self::Lost { .. } => 9,
            _ => 1,
        }
    }
}

/// Why a stream between the two ends broke.
#[derive(Debug, Error)]
pub(crate) enum StreamFailure {
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error(transparent)]
    ReadExact(#[from] ReadExactError),
    #[error(transparent)]
    Write(#[from] WriteError),
    #[error(transparent)]
    Connection(#[from] ConnectionError),
    #[error(transparent)]
    Malformed(#[from] Malformed),
    #[error("it did not come in time")]
    Late(#[from] tokio::time::error::Elapsed),
}
