//! The client's half of a request: asks for a chunk, receives it, checks its digest; keeps nothing of it and knows no player.

use mpquic::{Connection, ConnectionError, ReadError, WriteError};
use sha2::{Digest, Sha256};
use thiserror::Error;

use crate::protocol::{BAD_REQUEST, DIGEST_LEN, NO_SUCH_CHUNK, Request, Video};

/// Bytes received at a time.
const PIECE: usize = 128 * 1024;

/// Why there is no chunk.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(crate) enum FetchError {
    /// The connection is over.
    #[error("connection lost: {0}")]
    Connection(#[from] ConnectionError),
    /// The request could not be sent.
    #[error("cannot send the request: {0}")]
    Send(#[from] WriteError),
    /// The server says that our request is none.
    #[error("the server does not understand the request")]
    BadRequest,
    /// The server says that there is none.
    #[error("the server has no such chunk")]
    NoSuchChunk,
    /// The stream broke.
    #[error("cannot receive the chunk: {0}")]
    Receive(ReadError),
    /// There is less of it than there should be, or more.
    #[error("{got} bytes came, expected {expected}")]
    Size {
        /// So many came before the end, or before there were too many.
        got: u64,
        /// So many it should have been.
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

/// Fetches a chunk; tells whether it is what the server sent.
pub(crate) async fn fetch(
    connection: &Connection,
    video: &Video,
    request: Request,
) -> Result<bool, FetchError> {
    let line = request.to_string();
    let (mut send, mut recv) = connection.open_bi().await?;
    // A server that refuses may stop the request before it has it all: its answer says why.
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
        // Before it is kept: the server decides how much it sends.
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
