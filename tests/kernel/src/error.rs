//! What can go wrong with a comparison.

use mpquic_lab::FileError;
use thiserror::Error;

use crate::place::PlaceError;

/// Why a comparison has no result.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Fault {
    /// The machine or the user lacks something.
    #[error(transparent)]
    Place(#[from] PlaceError),
    /// The experiment file.
    #[error(transparent)]
    File(#[from] FileError),
    /// A scheduler of the file.
    #[error(transparent)]
    Scheduler(#[from] mpquic_sched::RegistryError),
    /// Sockets or threads.
    #[error("sockets or threads: {0}")]
    Io(#[from] std::io::Error),
    /// The settings of an endpoint.
    #[error("configuration: {0}")]
    Config(#[from] mpquic::ConfigError),
    /// The certificate.
    #[error("TLS: {0}")]
    Tls(#[from] rustls::Error),
    /// No connection was begun.
    #[error("connecting: {0}")]
    Connect(#[from] mpquic::ConnectError),
    /// The connection was lost.
    #[error(transparent)]
    Connection(#[from] mpquic::ConnectionError),
    /// A path was not opened.
    #[error("opening a path: {0}")]
    Path(#[from] mpquic::OpenPathError),
    /// A stream failed while it was written.
    #[error(transparent)]
    Write(#[from] mpquic::WriteError),
    /// A stream failed while it was read.
    #[error(transparent)]
    Read(#[from] mpquic::ReadError),
    /// The request was not one.
    #[error("the request: {0}")]
    Request(#[from] mpquic::ReadToEndError),
    /// A stream was closed before it was finished.
    #[error(transparent)]
    Closed(#[from] mpquic::ClosedStream),
    /// Bytes that came, and that were asked for.
    #[error("{0} bytes came of {1}")]
    Length(u64, u64),
    /// The server gave up before its client began.
    #[error("the server did not start")]
    NoServer,
    /// It took too long.
    #[error("not complete after {0} s")]
    Late(u64),
    /// A run of the lab failed, or the experiment has something that this cannot do.
    #[error("{0}: {1}")]
    Cell(String, String),
}
