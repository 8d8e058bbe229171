//! What can go wrong with a transfer, and the exit code that says which.

use std::io;
use std::path::Path;

use mpquic::{ConnectionError, Escaped, ReadError, ReadExactError, StoppedError, WriteError};
use thiserror::Error;

use crate::name::{BadName, Name};
use crate::server::UNWELCOME;
use crate::wire::{Omission, Refusal, RefusalKind, Unread};

/// Why a transfer did not take place, or a server does not run.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// An end could not be set up, or the server not be reached.
    #[error(transparent)]
    Peer(#[from] mpquic_peer::Error),
    /// An argument makes no sense.
    #[error("{0}")]
    Argument(String),
    /// A name leads out of the folder.
    #[error(transparent)]
    Name(#[from] BadName),
    /// The server does not take this client.
    #[error("{server} refuses this client: {}", Escaped::new(why))]
    Unwelcome {
        /// The server.
        server: String,
        /// Why.
        why: String,
    },
    /// The server took this client, and does so no longer: the user was revoked, or the user's time is over.
    #[error("the server takes this client no longer: {}", Escaped::new(why))]
    Dismissed {
        /// Why.
        why: String,
    },
    /// A local address cannot be used.
    #[error("cannot send from {address}: {source}")]
    Local {
        /// Which.
        address: String,
        /// Why.
        source: io::Error,
    },
    /// The server takes no files.
    #[error("this server is read-only")]
    ReadOnly,
    /// The server does not do what it was asked for.
    #[error("{name}: {refusal}")]
    Refused {
        /// For which file.
        name: Name,
        /// Why.
        refusal: Refusal,
    },
    /// A file of this side cannot be read or written.
    #[error("{path}: {source}")]
    File {
        /// Which.
        path: String,
        /// Why.
        source: io::Error,
    },
    /// Another transfer writes the same file.
    #[error("{0}: another transfer writes it")]
    Busy(String),
    /// A file of this side was changed after that of the server.
    #[error("{0}: the file here is newer: --overwrite replaces it")]
    Newer(String),
    /// What arrived is not what was sent: its SHA-256 is another one.
    #[error("{0}: damaged on its way: the SHA-256 is wrong; what was there is given up")]
    Damaged(Name),
    /// A file is not any more what was passed on of it.
    #[error("{0}: it was changed meanwhile: what was passed on is the beginning of what it was")]
    Changed(Name),
    /// The connection broke.
    #[error("the connection is lost: {0}")]
    Lost(String),
    /// The other side cannot read a file to its end.
    #[error("{0}: the other side cannot read it to its end")]
    Cut(Name),
    /// A folder of the server has more in it than this side has memory for.
    #[error("{0}: it has more than is listed at a time: copy the folders in it one by one")]
    TooMany(Name),
    /// The peer does not keep to the protocol.
    #[error("the other side makes no sense: {0}")]
    Malformed(String),
}

/// Exit codes of the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
#[non_exhaustive]
pub enum Exit {
    /// Something else.
    Other = 1,
    /// An argument is wrong.
    Usage = 2,
    /// The name of the server is unknown.
    UnknownHost = 3,
    /// The server cannot be reached.
    Unreachable = 4,
    /// The server is not the one that is trusted, or does not trust this client's certificate.
    Distrust = 5,
    /// The server does not take this client, or does so no longer: the token is wrong, missing or revoked.
    Unwelcome = 6,
    /// The server does not have the file, or does not let it be read or written.
    Denied = 7,
    /// A file cannot be read or written, here or there: a full disk, permissions.
    Storage = 8,
    /// The connection broke.
    Lost = 9,
    /// The contents were damaged.
    Damaged = 10,
    /// Something of a folder was left out because of an error or a rule; all else is there. As rsync has it.
    Partial = 23,
    /// Something of a folder was gone before it was copied; all else is there. As rsync has it.
    Vanished = 24,
}

/// Whether there is no room left, on the disk or in what this user may have of it: no other file would fare better.
pub(crate) fn is_full(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
    )
}

impl Error {
    pub(crate) fn file(path: &Path, source: io::Error) -> Self {
        Self::File {
            path: path.display().to_string(),
            source,
        }
    }

    pub(crate) fn refused(name: &Name, refusal: Refusal) -> Self {
        Self::Refused {
            name: name.clone(),
            refusal,
        }
    }

    /// Whether another connection may do better: the server cannot be reached now, or was lost.
    pub fn is_passing(&self) -> bool {
        matches!(self.exit(), Exit::Lost | Exit::Unreachable)
    }

    /// What is left out, if this concerns one file of many: the others are copied all the same.
    pub(crate) fn omission(&self) -> Option<Omission> {
        let omission = |omitted: &dyn std::fmt::Display, why: &dyn std::fmt::Display| {
            Some(Omission::new(omitted, why))
        };
        match self {
            Self::Refused { name, refusal } => match refusal.kind {
                RefusalKind::Full | RefusalKind::Malformed => None,
                RefusalKind::Missing => Some(Omission {
                    vanished: true,
                    ..Omission::new(name.as_str(), refusal)
                }),
                _ => omission(&name.as_str(), refusal),
            },
            Self::File { source, .. } if is_full(source) => None,
            Self::File { path, source } => Some(Omission::by(path, source)),
            Self::Busy(path) => omission(path, &"another transfer writes it"),
            Self::Newer(path) => omission(path, &"the file here is newer: --overwrite replaces it"),
            Self::Damaged(name) => omission(&name.as_str(), &"damaged on its way"),
            Self::Cut(name) => omission(&name.as_str(), &"it cannot be read to its end"),
            _ => None,
        }
    }

    /// The exit code that tells it.
    pub fn exit(&self) -> Exit {
        match self {
            Self::Peer(error) if error.is_distrust() => Exit::Distrust,
            Self::Peer(error) => match error {
                mpquic_peer::Error::Resolve { .. } => Exit::UnknownHost,
                mpquic_peer::Error::NoRoute { .. }
                | mpquic_peer::Error::NoLinks(_)
                | mpquic_peer::Error::NoAnswer { .. }
                | mpquic_peer::Error::Connect { .. }
                | mpquic_peer::Error::Start { .. } => Exit::Unreachable,
                // A token, a certificate or a key, as `mpquic-bond` has it.
                mpquic_peer::Error::File { .. } => Exit::Storage,
                mpquic_peer::Error::Setting(_) => Exit::Usage,
                _ => Exit::Other,
            },
            Self::Local { .. } => Exit::Other,
            Self::Argument(_) | Self::Name(_) => Exit::Usage,
            Self::Unwelcome { .. } | Self::Dismissed { .. } => Exit::Unwelcome,
            Self::Refused { refusal, .. } => match refusal.kind {
                RefusalKind::Missing | RefusalKind::Denied => Exit::Denied,
                RefusalKind::Storage | RefusalKind::Full | RefusalKind::Busy => Exit::Storage,
                RefusalKind::Damaged => Exit::Damaged,
                RefusalKind::Newer => Exit::Partial,
                RefusalKind::Malformed | RefusalKind::Limit | RefusalKind::Present => Exit::Other,
            },
            Self::ReadOnly => Exit::Denied,
            Self::File { .. } | Self::Busy(_) | Self::Cut(_) => Exit::Storage,
            Self::Newer(_) => Exit::Partial,
            Self::Damaged(_) | Self::Changed(_) => Exit::Damaged,
            Self::Lost(_) => Exit::Lost,
            Self::Malformed(_) | Self::TooMany(_) => Exit::Other,
        }
    }
}

impl From<Unread> for Error {
    fn from(error: Unread) -> Self {
        match error {
            Unread::Stream(ReadExactError::ReadError(error)) => error.into(),
            Unread::Stream(_) => Self::Malformed("an answer that ends too soon".to_owned()),
            Unread::Long(_) | Unread::Malformed(_) => Self::Malformed(error.to_string()),
        }
    }
}

impl From<ReadError> for Error {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::ConnectionLost(error) => error.into(),
            error => Self::Malformed(error.to_string()),
        }
    }
}

impl From<ReadExactError> for Error {
    fn from(error: ReadExactError) -> Self {
        Unread::Stream(error).into()
    }
}

impl From<WriteError> for Error {
    fn from(error: WriteError) -> Self {
        match error {
            WriteError::ConnectionLost(error) => error.into(),
            error => Self::Malformed(error.to_string()),
        }
    }
}

impl From<StoppedError> for Error {
    fn from(error: StoppedError) -> Self {
        match error {
            StoppedError::ConnectionLost(error) => error.into(),
            error => Self::Lost(error.to_string()),
        }
    }
}

impl From<ConnectionError> for Error {
    fn from(error: ConnectionError) -> Self {
        match error {
            ConnectionError::ApplicationClosed(close) if close.error_code == UNWELCOME => {
                Self::Dismissed {
                    why: String::from_utf8_lossy(&close.reason).into_owned(),
                }
            }
            error => Self::Lost(error.to_string()),
        }
    }
}
