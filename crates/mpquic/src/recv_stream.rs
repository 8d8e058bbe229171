//! The receiving half of a stream.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};
use proto::{Chunk, ClosedStream, StreamId, VarInt};
use tokio::io::{AsyncRead, ReadBuf};

use crate::connection_state::ConnectionRef;
use crate::error::{ReadError, ReadExactError, ReadToEndError, ResetError};

/// A stream to receive on.
///
/// If it is dropped before its end was read, it is stopped with code 0: the peer need not send the rest.
///
/// ```
/// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/doc/pair.rs"));
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let Pair { client, server: connection, .. } = pair().await?;
/// # let mut stream = client.open_uni().await?;
/// # stream.write_all(&[7; 1000]).await?;
/// # stream.finish()?;
/// # let mut bytes = 0;
/// let mut stream = connection.accept_uni().await?;
/// while let Some(chunk) = stream.read_chunk(usize::MAX).await? {
///     println!("{} bytes", chunk.len());
/// #   bytes += chunk.len();
/// }
/// # assert_eq!(bytes, 1000);
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct RecvStream {
    connection: ConnectionRef,
    id: StreamId,
    end: Option<End>,
    /// Opened by a client before the handshake was complete.
    early: bool,
    /// On servers, read something that came in 0-RTT packets.
    read_early: bool,
}

/// How the stream ended. The protocol forgets a stream once it has told; this does not.
#[derive(Debug, Clone, Copy)]
enum End {
    Finished,
    Reset(VarInt),
    Stopped,
}

impl End {
    const fn result<T>(self) -> Result<Option<T>, ReadError> {
        match self {
            Self::Finished => Ok(None),
            Self::Reset(code) => Err(ReadError::Reset(code)),
            Self::Stopped => Err(ReadError::ClosedStream),
        }
    }
}

impl RecvStream {
    pub(crate) const fn new(connection: ConnectionRef, id: StreamId, early: bool) -> Self {
        Self {
            connection,
            id,
            end: None,
            early,
            read_early: false,
        }
    }

    /// Whether this is a stream with early data (0-RTT): on clients, one that was opened before the handshake was
    /// complete; on servers, one of which some data came in 0-RTT packets.
    ///
    /// **Early data can be a replay.** Who records a client's first packets can send them again. A server
    /// whose sessions are kept by one process ([`rustls::server::ServerSessionMemoryCache`], the default of
    /// rustls) takes each ticket once, so that the same data is not accepted twice by that process while it
    /// runs; several servers that share sessions, or one that was restarted from a copy, have no such
    /// protection unless the store has it. Whatever a client may write early must therefore be harmless
    /// when it is repeated, and the server's application is responsible for refusing the rest: it should act
    /// on such a stream only if the request is safe, or answer that the client should ask again.
    ///
    /// Ask when the request has been read: data may come later that came early.
    pub fn is_0rtt(&self) -> bool {
        self.early || self.read_early || self.connection.lock().proto.recv_stream(self.id).is_0rtt()
    }

    /// Its ID.
    pub const fn id(&self) -> StreamId {
        self.id
    }

    fn poll<T>(
        &mut self,
        cx: &mut Context<'_>,
        read: impl FnOnce(&mut proto::Connection, StreamId) -> Result<Option<T>, proto::ReadError>,
    ) -> Poll<Result<Option<T>, ReadError>> {
        if let Some(end) = self.end {
            return Poll::Ready(end.result());
        }
        // Many readers in turn keep the tasks of connections, and that of the endpoint, from theirs.
        self.connection.endpoint.read_if_due();
        let (id, early) = (self.id, self.early);
        let read_early = &mut self.read_early;
        let end = self.connection.with(|state| {
            if state.is_rejected(early) {
                return Err(Poll::Ready(Err(match &state.error {
                    Some(error) => error.clone().into(),
                    None => ReadError::ZeroRttRejected,
                })));
            }
            // The protocol forgets it with the stream.
            *read_early |= state.proto.recv_stream(id).is_0rtt();
            match read(&mut state.proto, id) {
                Ok(Some(value)) => {
                    // The peer may be allowed to send more.
                    state.task.touched = true;
                    Err(Poll::Ready(Ok(Some(value))))
                }
                Ok(None) => {
                    state.task.touched = true;
                    Ok(End::Finished)
                }
                Err(proto::ReadError::Reset(code)) => {
                    state.task.touched = true;
                    Ok(End::Reset(code))
                }
                Err(proto::ReadError::Blocked) => Err(match &state.error {
                    Some(error) => Poll::Ready(Err(error.clone().into())),
                    None => {
                        state.readers.insert(id, cx.waker());
                        Poll::Pending
                    }
                }),
                // The stream goes on: it can be read out of order.
                Err(proto::ReadError::IllegalOrderedRead) => {
                    Err(Poll::Ready(Err(ReadError::IllegalOrderedRead)))
                }
                // `ClosedStream` is the only other one.
                Err(_) => Ok(End::Stopped),
            }
        });
        match end {
            Ok(end) => {
                self.end = Some(end);
                Poll::Ready(end.result())
            }
            Err(poll) => poll,
        }
    }

    /// Reads what is there into `buf`; see [`read`](Self::read).
    pub fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        buf: &mut [u8],
    ) -> Poll<Result<Option<usize>, ReadError>> {
        if buf.is_empty() {
            return Poll::Ready(Ok(Some(0)));
        }
        self.poll(cx, |proto, id| proto.recv_stream(id).read(buf))
    }

    /// Reads what is there without copying it; see [`read_chunk`](Self::read_chunk).
    pub fn poll_read_chunk(
        &mut self,
        cx: &mut Context<'_>,
        max: usize,
    ) -> Poll<Result<Option<Bytes>, ReadError>> {
        if max == 0 {
            return Poll::Ready(Ok(Some(Bytes::new())));
        }
        self.poll(cx, |proto, id| proto.recv_stream(id).read_chunk(max))
    }

    /// Reads what is there without copying it; see [`read_chunks`](Self::read_chunks).
    pub fn poll_read_chunks(
        &mut self,
        cx: &mut Context<'_>,
        chunks: &mut [Bytes],
    ) -> Poll<Result<Option<usize>, ReadError>> {
        if chunks.is_empty() {
            return Poll::Ready(Ok(Some(0)));
        }
        let mut end = None;
        let polled = self.poll(cx, |proto, id| {
            let mut count = 0;
            for place in chunks.iter_mut() {
                match proto.recv_stream(id).read_chunk(usize::MAX) {
                    Ok(Some(chunk)) => *place = chunk,
                    other if count == 0 => return other.map(|_| None),
                    // For the next call. The protocol tells it once.
                    Ok(None) => {
                        end = Some(End::Finished);
                        break;
                    }
                    Err(proto::ReadError::Reset(code)) => {
                        end = Some(End::Reset(code));
                        break;
                    }
                    Err(_) => break,
                }
                count += 1;
            }
            Ok(Some(count))
        });
        self.end = self.end.or(end);
        polled
    }

    /// Reads what is there, whatever is missing before it; see [`read_unordered`](Self::read_unordered).
    pub fn poll_read_unordered(
        &mut self,
        cx: &mut Context<'_>,
        max: usize,
    ) -> Poll<Result<Option<Chunk>, ReadError>> {
        self.poll(cx, |proto, id| proto.recv_stream(id).read_unordered(max))
    }

    /// Waits until there is data, then reads it. Returns how many bytes of `buf` were filled, or `None`
    /// at the end.
    ///
    /// # Errors
    ///
    /// If the peer reset the stream, it was stopped here, the server rejected the early data that it was
    /// opened with, or the connection is over. Data that came
    /// before the connection's end can still be read. After a [`read_unordered`](Self::read_unordered), always.
    pub async fn read(&mut self, buf: &mut [u8]) -> Result<Option<usize>, ReadError> {
        poll_fn(|cx| self.poll_read(cx, buf)).await
    }

    /// Fills `buf`. Not cancel-safe: if the future is dropped, what it has read is lost.
    ///
    /// # Errors
    ///
    /// As [`read`](Self::read), and if the stream ends first.
    pub async fn read_exact(&mut self, buf: &mut [u8]) -> Result<(), ReadExactError> {
        let mut filled = 0;
        while filled < buf.len() {
            match self.read(&mut buf[filled..]).await? {
                Some(count) => filled += count,
                None => return Err(ReadExactError::FinishedEarly(filled)),
            }
        }
        Ok(())
    }

    /// Reads what is there without copying it, at most `max` bytes; `None` at the end.
    ///
    /// A chunk is a slice of the receive buffer, whose memory is used again once it is dropped; a short one is copied. One that
    /// is kept holds no more than four times its length.
    ///
    /// # Errors
    ///
    /// As [`read`](Self::read).
    pub async fn read_chunk(&mut self, max: usize) -> Result<Option<Bytes>, ReadError> {
        poll_fn(|cx| self.poll_read_chunk(cx, max)).await
    }

    /// Reads what is there without copying it, into as many of `chunks` as that fills. Returns how many, or `None` at the
    /// end.
    ///
    /// # Errors
    ///
    /// As [`read`](Self::read).
    pub async fn read_chunks(&mut self, chunks: &mut [Bytes]) -> Result<Option<usize>, ReadError> {
        poll_fn(|cx| self.poll_read_chunks(cx, chunks)).await
    }

    /// Reads data as soon as it is here, whatever is missing before it: up to `max` bytes (0 counts as 1) that follow each
    /// other, and where they begin. `None` at the end, when all of it was read.
    ///
    /// Each byte comes once, however often it was sent. Of what is here, the lowest comes first, so that chunks of a stream
    /// without loss are in order. What was read gives its credit back to the sender at once (RFC 9000 section 4.1): a gap
    /// does not stop a stream that is read so. Good for files and other data whose place is known; with unequal paths, much
    /// data is ahead of a gap.
    ///
    /// It may follow ordered reads, which it continues; ordered reads may not follow it.
    ///
    /// ```no_run
    /// # // no_run: needs a stream with a file
    /// # async fn run(mut stream: mpquic::RecvStream, file: &mut [u8]) -> Result<(), mpquic::ReadError> {
    /// while let Some(chunk) = stream.read_unordered(usize::MAX).await? {
    ///     let at = chunk.offset as usize;
    ///     file[at..at + chunk.bytes.len()].copy_from_slice(&chunk.bytes);
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// As [`read`](Self::read).
    #[doc(alias = "read_chunk")]
    pub async fn read_unordered(&mut self, max: usize) -> Result<Option<Chunk>, ReadError> {
        poll_fn(|cx| self.poll_read_unordered(cx, max)).await
    }

    /// Reads up to the end. The limit is required, since the peer decides how much there is.
    ///
    /// # Errors
    ///
    /// As [`read`](Self::read), and if there are more than `limit` bytes; the stream is then
    /// stopped when it is dropped.
    pub async fn read_to_end(&mut self, limit: usize) -> Result<Vec<u8>, ReadToEndError> {
        let mut all = BytesMut::new();
        loop {
            // One byte more than allowed tells a stream that is just long enough from a longer one.
            let max = (limit - all.len()).saturating_add(1);
            let Some(chunk) = self.read_chunk(max).await? else {
                return Ok(all.into());
            };
            if chunk.len() > limit - all.len() {
                return Err(ReadToEndError::TooLong);
            }
            all.extend_from_slice(&chunk);
        }
    }

    /// Asks the peer to send no more. Unread data is dropped.
    ///
    /// # Errors
    ///
    /// If it was stopped before, or read to its end.
    pub fn stop(&mut self, code: VarInt) -> Result<(), ClosedStream> {
        if self.end.is_some() {
            return Err(ClosedStream);
        }
        self.connection.with(|state| {
            if state.is_rejected(self.early) {
                return Err(ClosedStream);
            }
            state.task.touched = true;
            state.proto.recv_stream(self.id).stop(code)
        })?;
        self.end = Some(End::Stopped);
        Ok(())
    }

    /// Waits until the peer resets the stream (`Some` with its code), or has finished it and all
    /// of it was read (`None`). Reads no data.
    ///
    /// # Errors
    ///
    /// If the stream was stopped here, or the connection is over.
    pub async fn received_reset(&mut self) -> Result<Option<VarInt>, ResetError> {
        let end = poll_fn(|cx| {
            // A read of nothing: it tells a reset or the end, and leaves the data alone.
            self.poll(cx, |proto, id| match proto.recv_stream(id).read(&mut []) {
                Ok(Some(_)) => Err(proto::ReadError::Blocked),
                Ok(None) => Ok(None::<()>),
                Err(error) => Err(error),
            })
        });
        match end.await {
            Ok(_) => Ok(None),
            Err(ReadError::Reset(code)) => Ok(Some(code)),
            Err(ReadError::ClosedStream) => Err(ResetError::ClosedStream),
            Err(ReadError::ConnectionLost(reason)) => Err(reason.into()),
            Err(ReadError::ZeroRttRejected) => Err(ResetError::ZeroRttRejected),
            // A read of nothing is of no order.
            Err(ReadError::IllegalOrderedRead) => Err(ResetError::ClosedStream),
        }
    }
}

impl AsyncRead for RecvStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let count = ready!(Self::poll_read(&mut self, cx, buf.initialize_unfilled()))?;
        // Nothing read is how this trait says "end".
        buf.advance(count.unwrap_or(0));
        Poll::Ready(Ok(()))
    }
}

impl Drop for RecvStream {
    fn drop(&mut self) {
        self.connection.with(|state| {
            if state.is_rejected(self.early) {
                return;
            }
            state.readers.remove(self.id);
            if self.end.is_none() && state.error.is_none() {
                // Already over is fine.
                let _ = state.proto.recv_stream(self.id).stop(VarInt::from_u32(0));
                state.task.touched = true;
            }
        });
    }
}
