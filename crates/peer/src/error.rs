//! Why one end could not be set up, or the other not be reached.

use std::io;
use std::path::Path;

use mpquic::{AttemptError, ConnectError, ConnectionError, TransportErrorCode};
use thiserror::Error;

use crate::identity::Fingerprint;

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
        /// The certificate that the server has, if it is the one that is not trusted.
        seen: Option<Box<Fingerprint>>,
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

    /// The fingerprint of a server that nobody vouched for, if it is why there is no connection.
    pub fn unknown_server(&self) -> Option<Fingerprint> {
        match self {
            Self::Untrusted { seen, .. } => seen.as_deref().copied(),
            _ => None,
        }
    }

    /// Why there is no connection, or no more before the server has said anything: that it does not trust this client, it judges when
    /// the client's handshake is complete (RFC 8446 section 4.4.2).
    pub fn ended(name: &str, source: ConnectionError) -> Self {
        let name = name.to_owned();
        if is_coded(&source, is_alert_about_trust) {
            let why = "it does not trust this client: give --cert and --key with a certificate that it knows".to_owned();
            let seen = None;
            return Self::Untrusted {
                name,
                why,
                seen,
                source,
            };
        }
        match source {
            ConnectionError::TimedOut => Self::NoAnswer { name },
            source => Self::Connect { name, source },
        }
    }
}

/// Why there is no connection, in words for a user.
fn why(error: &ConnectionError) -> String {
    // RFC 9000 section 20.2.
    if is_coded(error, |code| code == TransportErrorCode::CONNECTION_REFUSED) {
        return "it takes no further connection now, or none from this network: try again later"
            .to_owned();
    }
    // RFC 7301 section 3.2: no_application_protocol.
    if is_coded(error, |code| alert_of(code) == Some(120)) {
        return "another program answers there, which does not speak the protocol of this one"
            .to_owned();
    }
    error.to_string()
}

/// Whether an end of a connection, or of one of the attempts at it, has such a code.
fn is_coded(error: &ConnectionError, is_such: fn(TransportErrorCode) -> bool) -> bool {
    match error {
        ConnectionError::TransportError(error) => is_such(error.code),
        ConnectionError::ConnectionClosed(close) => is_such(close.error_code),
        ConnectionError::Unreachable(attempts) => attempts.iter().any(|attempt| {
            matches!(&attempt.reason, AttemptError::Ended(ended) if is_coded(ended, is_such))
        }),
        _ => false,
    }
}

/// The alert of TLS that a code stands for (RFC 9001 section 4.8).
fn alert_of(code: TransportErrorCode) -> Option<u64> {
    let alert = u64::from(code).checked_sub(0x100);
    alert.filter(|alert| *alert < 0x100)
}

/// Whether a code is that of an alert about a certificate (RFC 8446 section 6.2): bad_certificate (42) to unknown_ca (48),
/// access_denied (49), certificate_required (116).
fn is_alert_about_trust(code: TransportErrorCode) -> bool {
    matches!(alert_of(code), Some(42..=49 | 116))
}
