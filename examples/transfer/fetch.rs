//! The client's half of a transfer: sends a request, receives the content, verifies its digest.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

use mpquic::{Connection, ConnectionError, WriteError};
use sha2::{Digest, Sha256};
use thiserror::Error;
use tokio::io::{
    AsyncBufRead, AsyncBufReadExt, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader,
};

use crate::protocol::{DIGEST_LEN, MAX_HEADER, Request};

/// Bytes received at a time.
const CHUNK: usize = 128 * 1024;

/// Received content, and whether its digest is right.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Fetched {
    pub(crate) bytes: u64,
    pub(crate) sha256_ok: bool,
}

/// The progress of a fetch, for other tasks.
#[derive(Debug, Default)]
pub(crate) struct Counter {
    /// The size of the content in bytes; 0 until the server has sent it.
    pub(crate) total: AtomicU64,
    /// The bytes of content received so far.
    pub(crate) received: AtomicU64,
}

/// Why a fetch failed.
#[derive(Debug, Error)]
pub(crate) enum FetchError {
    #[error("{0}")]
    Connection(#[from] ConnectionError),
    #[error("cannot send the request: {0}")]
    Request(#[from] WriteError),
    #[error("the server says: {0}")]
    Refused(String),
    #[error("the server's answer makes no sense: {0:?}")]
    Malformed(String),
    #[error("cannot receive: {0}")]
    Receive(io::Error),
    #[error("the content ended after {received} of {total} bytes")]
    EndedEarly { received: u64, total: u64 },
    #[error("cannot write what was received: {0}")]
    Save(io::Error),
}

/// Fetches content into `sink`. The caller must not use the content before the digest is known to
/// be right.
pub(crate) async fn fetch(
    connection: &Connection,
    request: &Request,
    sink: &mut (impl AsyncWrite + Unpin),
    counter: &Counter,
) -> Result<Fetched, FetchError> {
    let (mut send, recv) = connection.open_bi().await?;
    send.write_all(encode_request(request).as_bytes()).await?;
    // This fails only if the stream was finished before.
    let _ = send.finish();

    let mut recv = BufReader::with_capacity(CHUNK, recv);
    let total = read_answer(&mut recv).await?;
    counter.total.store(total, Ordering::Relaxed);

    let mut hasher = Sha256::new();
    let mut received = 0;
    while received < total {
        let chunk = recv.fill_buf().await.map_err(FetchError::Receive)?;
        let left = usize::try_from(total - received).unwrap_or(usize::MAX);
        let chunk = &chunk[..chunk.len().min(left)];
        if chunk.is_empty() {
            return Err(FetchError::EndedEarly { received, total });
        }
        hasher.update(chunk);
        sink.write_all(chunk).await.map_err(FetchError::Save)?;
        let count = chunk.len();
        recv.consume(count);
        received += count as u64;
        counter.received.store(received, Ordering::Relaxed);
    }
    let mut digest = [0; DIGEST_LEN];
    recv.read_exact(&mut digest)
        .await
        .map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => FetchError::EndedEarly { received, total },
            _ => FetchError::Receive(error),
        })?;
    sink.flush().await.map_err(FetchError::Save)?;
    Ok(Fetched {
        bytes: received,
        sha256_ok: hasher.finalize()[..] == digest,
    })
}

/// Formats the lines of a request; see [`crate::protocol`].
fn encode_request(request: &Request) -> String {
    let mut text = format!("GET {}\n", request.name);
    if let Some(choice) = &request.scheduler {
        // serde_json does not insert line breaks.
        text += &format!("SCHEDULER {} {}\n", choice.name(), choice.config());
    }
    text
}

/// Reads the first line of the response: the length of the content, or the server's error.
async fn read_answer(recv: &mut (impl AsyncBufRead + Unpin)) -> Result<u64, FetchError> {
    let mut line = Vec::new();
    recv.take(MAX_HEADER as u64)
        .read_until(b'\n', &mut line)
        .await
        .map_err(FetchError::Receive)?;
    let line = String::from_utf8_lossy(&line);
    let Some(answer) = line.strip_suffix('\n') else {
        return Err(FetchError::Malformed(line.into_owned()));
    };
    match answer.split_once(' ') {
        Some(("OK", length)) => length
            .parse()
            .map_err(|_| FetchError::Malformed(answer.to_owned())),
        Some(("ERROR", reason)) => Err(FetchError::Refused(reason.to_owned())),
        _ => Err(FetchError::Malformed(answer.to_owned())),
    }
}
