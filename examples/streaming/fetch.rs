//! The client's half of a request: requests a chunk, receives it and verifies its digest.

use mpquic::{Connection, ConnectionError, ReadError, WriteError};
use sha2::{Digest, Sha256};
use thiserror::Error;

use crate::protocol::{BAD_REQUEST, DIGEST_LEN, NO_SUCH_CHUNK, Request, Video};

/// Bytes received at a time.
const PIECE: usize = 128 * 1024;

/// Why a chunk could not be fetched.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(crate) enum FetchError {
    /// The connection was lost.
    #[error("connection lost: {0}")]
    Connection(#[from] ConnectionError),
    /// The request could not be sent.
    #[error("cannot send the request: {0}")]
    Send(#[from] WriteError),
    /// The server cannot parse the request.
    #[error("the server does not understand the request")]
    BadRequest,
    /// The server has no such chunk.
    #[error("the server has no such chunk")]
    NoSuchChunk,
    /// The stream failed.
    #[error("cannot receive the chunk: {0}")]
    Receive(ReadError),
    /// The chunk has the wrong size.
    #[error("{got} bytes came, expected {expected}")]
    Size {
        /// The number of bytes received.
        got: u64,
        /// The expected number of bytes.
        expected: u64,
    },
}

impl From<ReadError> for FetchError {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Reset(code) if code == BAD_REQUEST => Self::BadRequest,
            ReadError::Reset(code) if code == NO_SUCH_CHUNK => Self::NoSuchChunk,
            ReadError::ConnectionLost(reason) => Self::Connection(reason),
            error => Self::Receive(error),
        }
    }
}

/// Fetches a chunk. Returns whether its digest is right.
pub(crate) async fn fetch(
    connection: &Connection,
    video: &Video,
    request: Request,
) -> Result<bool, FetchError> {
    let line = request.to_string();
    let (mut send, mut recv) = connection.open_bi().await?;
    // A server that refuses may stop the request before all of it is sent. Its response has the
    // reason.
    let sent = send.write_all(line.as_bytes()).await;
    if let Err(error) = sent
        && !matches!(error, WriteError::Stopped(_))
    {
        return Err(error.into());
    }
    let _ = send.finish();

    let size = video.chunk_bytes(request.bitrate);
    let expected = size + DIGEST_LEN as u64;
    let mut hasher = Sha256::new();
    hasher.update(line);
    let mut digest = Vec::with_capacity(DIGEST_LEN);
    let mut got = 0;
    while let Some(piece) = recv.read_chunk(PIECE).await? {
        let content = usize::try_from(size.saturating_sub(got)).unwrap_or(usize::MAX);
        let (content, rest) = piece.split_at(content.min(piece.len()));
        got += piece.len() as u64;
        // Checked before anything is kept, since the server decides how much it sends.
        if got > expected {
            return Err(FetchError::Size { got, expected });
        }
        hasher.update(content);
        digest.extend_from_slice(rest);
    }
    if got < expected {
        return Err(FetchError::Size { got, expected });
    }
    Ok(digest == hasher.finalize()[..])
}
