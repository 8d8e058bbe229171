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
    /// The server refused the token, or did not greet.
    #[error("{name} refuses this client: {why}")]
    Unwelcome {
        /// The server.
        name: String,
        /// Why.
        why: String,
    },
    /// Something of the system failed.
    #[error(transparent)]
    Io(#[from] io::Error),
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
