//! The server of video: answers requests for chunks, one task per request; does not know who plays them.

use std::sync::Arc;

use mpquic::{Connection, RecvStream, SendStream, StreamHints, VarInt, WriteError};
use sha2::{Digest, Sha256};

use crate::protocol::{
    BAD_REQUEST, BadRequest, DIGEST_LEN, MAX_REQUEST, NO_SUCH_CHUNK, Request, Video,
};

/// Bytes that are made, hashed and written at a time.
const PIECE: usize = 64 * 1024;

/// A video whose content is made as it is asked for, and its seed.
#[derive(Debug, Clone)]
pub(crate) struct Source {
    pub(crate) video: Video,
    pub(crate) seed: u64,
}

/// Answers requests, several at a time, until the connection ends.
pub(crate) async fn serve(connection: Connection, source: Arc<Source>) {
    // Why it ended is for the client to say.
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
    // If the client is gone or wants it no more, nobody minds.
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

/// Tells the client, by this code, that it gets nothing, and to send nothing more.
fn refuse(code: VarInt, send: &mut SendStream, recv: &mut RecvStream) {
    // Either may be over already.
    let _ = send.reset(code);
    let _ = recv.stop(code);
}

async fn send_chunk(
    source: &Source,
    request: Request,
    send: &mut SendStream,
) -> Result<(), WriteError> {
    let size = source.video.chunk_bytes(request.bitrate);
    // What a scheduler of video lives on: which chunk it is, and where it ends. One that does not
    // listen is no reason to fail.
    let _ = send.set_hints(StreamHints {
        size: Some(size + DIGEST_LEN as u64),
        chunk: Some(request.number),
        ..StreamHints::default()
    });
    let mut hasher = Sha256::new();
    hasher.update(request.to_string());
    let mut piece = vec![0; PIECE];
    // Another content for each chunk and each bitrate.
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
    // It is open: nobody else has it.
    let _ = send.finish();
    Ok(())
}
