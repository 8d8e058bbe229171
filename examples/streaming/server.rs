//! The server of video: answers requests for chunks, with one task per request.

use std::sync::Arc;

use mpquic::{Connection, RecvStream, SendStream, StreamHints, VarInt, WriteError};
use sha2::{Digest, Sha256};

use crate::protocol::{
    BAD_REQUEST, BadRequest, DIGEST_LEN, MAX_REQUEST, NO_SUCH_CHUNK, Request, Video,
};

/// Bytes that are generated, hashed and written at a time.
const PIECE: usize = 64 * 1024;

/// A video and the seed of its content, which is generated on request.
#[derive(Debug, Clone)]
pub(crate) struct Source {
    pub(crate) video: Video,
    pub(crate) seed: u64,
}

/// Answers requests concurrently until the connection ends.
pub(crate) async fn serve(connection: Connection, source: Arc<Source>) {
    // The client reports why the connection ended.
    while let Ok((send, recv)) = connection.accept_bi().await {
        let source = Arc::clone(&source);
        tokio::spawn(async move { answer(&source, send, recv).await });
    }
}

/// Answers one request.
async fn answer(source: &Source, mut send: SendStream, mut recv: RecvStream) {
    let result = match read_request(&mut recv).await {
        Err(BadRequest) => Err(BAD_REQUEST),
        Ok(request) if !source.video.has(request) => Err(NO_SUCH_CHUNK),
        Ok(request) => Ok(request),
    };
    // If the client is gone or has stopped the stream, there is nothing to do.
    match result {
        Ok(request) => {
            let _ = send_chunk(source, request, &mut send).await;
        }
        Err(code) => refuse(code, &mut send, &mut recv),
    }
}

async fn read_request(recv: &mut RecvStream) -> Result<Request, BadRequest> {
    let text = recv.read_to_end(MAX_REQUEST).await;
    let text = String::from_utf8(text.map_err(|_| BadRequest)?);
    text.map_err(|_| BadRequest)?.parse()
}

/// Resets both directions of the stream with this error code.
fn refuse(code: VarInt, send: &mut SendStream, recv: &mut RecvStream) {
    // Either direction may have ended already.
    let _ = send.reset(code);
    let _ = recv.stop(code);
}

async fn send_chunk(
    source: &Source,
    request: Request,
    send: &mut SendStream,
) -> Result<(), WriteError> {
    let size = source.video.chunk_bytes(request.bitrate);
    // A video scheduler needs to know which chunk this is and where it ends. If the hints cannot be
    // set, the transfer still works.
    let _ = send.set_hints(StreamHints {
        size: Some(size + DIGEST_LEN as u64),
        chunk: Some(request.number),
        ..StreamHints::default()
    });
    let mut hasher = Sha256::new();
    hasher.update(request.to_string());
    let mut piece = vec![0; PIECE];
    // Each chunk has different content at each bitrate.
    let (seed, start) = (source.seed ^ request.bitrate, request.number << 32);
    let mut sent = 0;
    while sent < size {
        let count = usize::try_from(size - sent).map_or(PIECE, |left| left.min(PIECE));
        let piece = &mut piece[..count];
        mpquic_sim::content::fill(seed, start.wrapping_add(sent), piece);
        hasher.update(&*piece);
        send.write_all(piece).await?;
        sent += count as u64;
    }
    send.write_all(&hasher.finalize()).await?;
    // The stream is open, since nothing else uses it.
    let _ = send.finish();
    Ok(())
}
