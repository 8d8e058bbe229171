//! Why the proxy could not do what it was asked for.

use std::io;

use mpquic::{ConnectError, ConnectionError, ReadError, ReadExactError, WriteError};
use thiserror::Error;

use crate::wire::Malformed;

/// Why a proxy does not run, or stopped.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// A file cannot be read, written or understood.
    #[error("{path}: {why}")]
    File {
        /// Which.
        path: String,
        /// What is wrong with it.
        why: String,
    },
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
    /// The name of the server cannot be resolved.
    #[error("cannot resolve {name}: {why}")]
    Resolve {
        /// Which.
        name: String,
        /// Why.
        why: String,
    },
    /// No connection attempt could be started.
    #[error("cannot connect to {name}: {source}")]
    Start {
        /// The server.
        name: String,
        /// Why.
        source: ConnectError,
    },
    /// The server could not be reached, or one side did not trust the other.
    #[error("cannot connect to {name}: {source}")]
    Connect {
        /// The server.
        name: String,
        /// Why.
        source: ConnectionError,
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
    /// TLS cannot be set up.
    #[error("TLS: {0}")]
    Tls(#[from] rustls::Error),
}

impl Error {
    pub(crate) fn file(path: &std::path::Path, why: impl ToString) -> Self {
        Self::File {
            path: path.display().to_string(),
            why: why.to_string(),
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
