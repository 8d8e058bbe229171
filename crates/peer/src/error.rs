//! Why one end could not be set up, or the other not be reached.

use std::io;
use std::path::Path;

use mpquic::{AttemptError, ConnectError, ConnectionError, TransportErrorCode};
use thiserror::Error;

/// Why a program has no connection.
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
    /// A setting makes no sense.
    #[error("{0}")]
    Setting(String),
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
    /// The system knows no way to any address of the server.
    #[error("no route to {name}: {source}")]
    NoRoute {
        /// The server.
        name: String,
        /// In the words of the system.
        source: io::Error,
    },
    /// Nothing came from the server in the time for a handshake.
    #[error("cannot connect to {name}: it does not answer")]
    NoAnswer {
        /// The server.
        name: String,
    },
    /// No connection attempt could be started.
    #[error("cannot connect to {name}: {source}")]
    Start {
        /// The server.
        name: String,
        /// Why.
        source: ConnectError,
    },
    /// One side did not trust the other.
    #[error("cannot trust {name}: {why}")]
    Untrusted {
        /// The server.
        name: String,
        /// What is wrong, and what to do.
        why: String,
        /// How the connection ended.
        source: ConnectionError,
    },
    /// The server could not be reached.
    #[error("cannot connect to {name}: {}", why(source))]
    Connect {
        /// The server.
        name: String,
        /// Why.
        source: ConnectionError,
    },
    /// No link of this machine can be used.
    #[error("no link of this machine can be used: {0}")]
    NoLinks(io::Error),
    /// TLS cannot be set up.
    #[error("TLS: {0}")]
    Tls(#[from] rustls::Error),
}

impl Error {
    /// A file, and what is wrong with it.
    pub fn file(path: &Path, why: impl ToString) -> Self {
        Self::File {
            path: path.display().to_string(),
            why: why.to_string(),
        }
    }

    /// Whether one side did not trust the other, as TLS says (RFC 9001 section 4.8), for want of a certificate that is known.
    pub fn is_distrust(&self) -> bool {
        matches!(self, Self::Untrusted { .. })
    }

    pub(crate) fn is_alert_about_trust(error: &ConnectionError) -> bool {
        is_distrust(error)
    }
}

fn is_distrust(error: &ConnectionError) -> bool {
    match error {
        ConnectionError::TransportError(error) => is_alert(error.code),
        ConnectionError::ConnectionClosed(close) => is_alert(close.error_code),
        ConnectionError::Unreachable(attempts) => attempts.iter().any(
            |attempt| matches!(&attempt.reason, AttemptError::Ended(ended) if is_distrust(ended)),
        ),
        _ => false,
    }
}

/// Why there is no connection, in words for a user.
fn why(error: &ConnectionError) -> String {
    if is_refusal(error) {
        // RFC 9000 section 20.2.
        return "it takes no further connection now, or none from this network: try again later"
            .to_owned();
    }
    error.to_string()
}

/// Whether the server has as many connections as it wants.
fn is_refusal(error: &ConnectionError) -> bool {
    match error {
        ConnectionError::ConnectionClosed(close) => {
            close.error_code == TransportErrorCode::CONNECTION_REFUSED
        }
        ConnectionError::Unreachable(attempts) => attempts.iter().any(
            |attempt| matches!(&attempt.reason, AttemptError::Ended(ended) if is_refusal(ended)),
        ),
        _ => false,
    }
}

/// Whether a code is that of an alert about a certificate (RFC 8446 section 6.2): bad_certificate (42) to unknown_ca (48),
/// access_denied (49), certificate_required (116).
fn is_alert(code: TransportErrorCode) -> bool {
    let code = u64::from(code);
    matches!(code.checked_sub(0x100), Some(42..=49 | 116))
}
