//! The sending half of a stream.

use std::future::{Future, poll_fn};
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use proto::{ClosedStream, FinishError, StreamHints, StreamId, VarInt};
use tokio::io::AsyncWrite;
use tokio::sync::Notify;

use crate::connection_state::{ConnectionRef, State};
use crate::error::{StoppedError, WriteError};

/// A stream to send on.
///
/// If it is dropped without [`finish`](Self::finish) or [`reset`](Self::reset), it is finished: the
/// written data is still delivered while the connection lives. If more was to come, it is reset with code 0, so
/// that the peer does not take a part for the whole: if a write was given up before all of it was taken
/// (a future of [`write_all`](Self::write_all) that was dropped, a `poll_write` that was pending), or if
/// the thread panics. What is between two writes is not seen: a task that is aborted there has finished its
/// stream, as far as the peer can tell. Where that matters, say in the data how much is to come.
///
/// ```
/// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/doc/pair.rs"));
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let Pair { client: connection, server, .. } = pair().await?;
/// # tokio::spawn(async move {
/// #     let mut stream = server.accept_uni().await.unwrap();
/// #     assert_eq!(stream.read_to_end(1 << 20).await.unwrap().len(), 64_000);
/// #     server.closed().await;
/// # });
/// use std::time::{Duration, Instant};
/// use mpquic::StreamHints;
///
/// let mut stream = connection.open_uni().await?;
/// stream.set_priority(10)?;
/// // For schedulers that use sizes and deadlines.
/// stream.set_hints(StreamHints {
///     size: Some(64_000),
///     deadline: Some(Instant::now() + Duration::from_millis(200)),
///     chunk: Some(7),
///     ..StreamHints::default()
/// })?;
/// stream.write_all(&[0; 64_000]).await?;
/// stream.finish()?;
/// stream.stopped().await?; // all of it arrived
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct SendStream {
    connection: ConnectionRef,
    id: StreamId,
    /// Opened by a client before the handshake was complete.
    early: bool,
    /// Finished or reset here.
    ended: bool,
    /// A write of several steps has begun, and has not come to its end.
    incomplete: bool,
    /// The last step of a write found no room.
    blocked: bool,
    /// Whether it was reset here; there once that matters.
    reset: OnceLock<Arc<AtomicBool>>,
}

impl SendStream {
    pub(crate) const fn new(connection: ConnectionRef, id: StreamId, early: bool) -> Self {
        Self {
            connection,
            id,
            early,
            ended: false,
            incomplete: false,
            blocked: false,
            reset: OnceLock::new(),
        }
    }

    /// Runs `f`, unless the stream is gone with rejected early data.
    fn with<T>(
        &self,
        f: impl FnOnce(&mut State) -> Result<T, ClosedStream>,
    ) -> Result<T, ClosedStream> {
        self.connection.with(|state| {
            if state.is_rejected(self.early) {
                return Err(ClosedStream);
            }
            f(state)
        })
    }

    /// Its ID.
    pub const fn id(&self) -> StreamId {
        self.id
    }

    fn poll(
        &mut self,
        cx: &mut Context<'_>,
        write: impl FnOnce(&mut proto::Connection, StreamId) -> Result<usize, proto::WriteError>,
    ) -> Poll<Result<usize, WriteError>> {
        let (id, early) = (self.id, self.early);
        let result = self.connection.with(|state| {
            if let Some(error) = &state.error {
                return Poll::Ready(Err(error.clone().into()));
            }
            if state.is_rejected(early) {
                return Poll::Ready(Err(WriteError::ZeroRttRejected));
            }
            Poll::Ready(match write(&mut state.proto, id) {
                Ok(count) => {
                    state.task.touched = true;
                    Ok(count)
                }
                Err(proto::WriteError::Blocked) => {
                    state.writers.insert(id, cx.waker());
                    return Poll::Pending;
                }
                Err(proto::WriteError::Stopped(code)) => Err(WriteError::Stopped(code)),
                // `ClosedStream` is the only other one.
                Err(_) => Err(WriteError::ClosedStream),
            })
        });
        self.blocked = result.is_pending();
        result
    }

    /// Writes what there is room for, at least one byte; see [`write`](Self::write).
    pub fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<Result<usize, WriteError>> {
        if data.is_empty() {
            return Poll::Ready(Ok(0));
        }
        self.poll(cx, |proto, id| proto.send_stream(id).write(data))
    }

    /// Waits until there is room, then writes as much as fits. Returns how many bytes of `data` were
    /// written.
    ///
    /// # Errors
    ///
    /// If the peer stopped the stream, the stream was closed, the server rejected the early data that it was
    /// opened with, or the connection is over.
    pub async fn write(&mut self, data: &[u8]) -> Result<usize, WriteError> {
        poll_fn(|cx| self.poll_write(cx, data)).await
    }

    /// Writes all of `data`. Not cancel-safe: if the future is dropped, part of it may have been written.
    ///
    /// # Errors
    ///
    /// As [`write`](Self::write).
    pub async fn write_all(&mut self, mut data: &[u8]) -> Result<(), WriteError> {
        let before = std::mem::replace(&mut self.incomplete, true);
        while !data.is_empty() {
            let count = self.write(data).await?;
            data = &data[count..];
        }
        self.incomplete = before;
        Ok(())
    }

    /// Takes what there is room for from the front of `chunk`, at least one byte, without copying it. Returns how
    /// many bytes were taken; see [`write_chunk`](Self::write_chunk).
    pub fn poll_write_chunk(
        &mut self,
        cx: &mut Context<'_>,
        chunk: &mut Bytes,
    ) -> Poll<Result<usize, WriteError>> {
        if chunk.is_empty() {
            return Poll::Ready(Ok(0));
        }
        self.poll(cx, |proto, id| proto.send_stream(id).write_chunk(chunk))
    }

    /// Writes all of `chunk` without copying it.
    ///
    /// # Errors
    ///
    /// As [`write`](Self::write).
    pub async fn write_chunk(&mut self, mut chunk: Bytes) -> Result<(), WriteError> {
        let before = std::mem::replace(&mut self.incomplete, true);
        while !chunk.is_empty() {
            poll_fn(|cx| self.poll_write_chunk(cx, &mut chunk)).await?;
        }
        self.incomplete = before;
        Ok(())
    }

    /// Writes all of `chunks` without copying them.
    ///
    /// # Errors
    ///
    /// As [`write`](Self::write).
    pub async fn write_all_chunks(&mut self, chunks: &mut [Bytes]) -> Result<(), WriteError> {
        let before = std::mem::replace(&mut self.incomplete, true);
        for chunk in chunks {
            self.write_chunk(std::mem::take(chunk)).await?;
        }
        self.incomplete = before;
        Ok(())
    }

    /// Ends the stream: no more data will be written. Does not wait for the data to arrive; use
    /// [`stopped`](Self::stopped) for that.
    ///
    /// # Errors
    ///
    /// If it was finished or reset before. It is no error if the peer has stopped it.
    pub fn finish(&mut self) -> Result<(), ClosedStream> {
        self.ended = true;
        self.with(|state| match state.proto.send_stream(self.id).finish() {
            Ok(()) => {
                state.task.touched = true;
                Ok(())
            }
            Err(FinishError::Stopped(_)) => Ok(()),
            Err(_) => Err(ClosedStream),
        })
    }

    /// Resets the stream: nothing more is sent or retransmitted, and the peer receives the code.
    ///
    /// # Errors
    ///
    /// If it was reset before, or all data has arrived.
    pub fn reset(&mut self, code: VarInt) -> Result<(), ClosedStream> {
        self.ended = true;
        let waiting = self.with(|state| self.reset_now(state, code))?;
        if let Some(waiting) = waiting {
            waiting.notify_waiters();
        }
        Ok(())
    }

    /// Those who wait for its end are to be told, once the mutex is released.
    fn reset_now(
        &self,
        state: &mut State,
        code: VarInt,
    ) -> Result<Option<Arc<Notify>>, ClosedStream> {
        state.proto.send_stream(self.id).reset(code)?;
        state.task.touched = true;
        let reset = self.reset.get_or_init(Arc::default);
        reset.store(true, Ordering::Relaxed);
        Ok(state.stopped.remove(&self.id))
    }

    /// Sets the priority. Streams of higher priority are sent first. The default is 0.
    ///
    /// # Errors
    ///
    /// If the stream is closed.
    pub fn set_priority(&self, priority: i32) -> Result<(), ClosedStream> {
        self.with(|state| state.proto.send_stream(self.id).set_priority(priority))
    }

    /// Its priority.
    ///
    /// # Errors
    ///
    /// If the stream is closed.
    pub fn priority(&self) -> Result<i32, ClosedStream> {
        self.with(|state| state.proto.send_stream(self.id).priority())
    }

    /// Tells the scheduler what the application knows of the stream: its size, its deadline, its place
    /// in a sequence. Best called before the first write.
    ///
    /// # Errors
    ///
    /// If the stream is closed.
    pub fn set_hints(&self, hints: StreamHints) -> Result<(), ClosedStream> {
        self.with(|state| state.proto.send_stream(self.id).set_hints(hints))
    }

    /// Waits until the peer stops the stream (`Some` with its code) or has received all of it
    /// (`None`).
    ///
    /// # Errors
    ///
    /// If the stream is reset here, or the connection is over first.
    pub fn stopped(
        &self,
    ) -> impl Future<Output = Result<Option<VarInt>, StoppedError>> + Send + Sync + 'static {
        let connection = self.connection.clone();
        let (id, early) = (self.id, self.early);
        let reset = Arc::clone(self.reset.get_or_init(Arc::default));
        async move {
            loop {
                let notify = connection.with(|state| notify_for(state, id));
                // Made before the check: it hears what happens from here on.
                let notified = notify.notified();
                let result = connection.with(|state| {
                    // Under the mutex, as where it is set.
                    if reset.load(Ordering::Relaxed) {
                        state.stopped.remove(&id);
                        return Some(Err(StoppedError::ClosedStream));
                    }
                    outcome(state, id, early)
                });
                if let Some(result) = result {
                    return result;
                }
                notified.await;
            }
        }
    }
}

fn notify_for(state: &mut State, id: StreamId) -> Arc<Notify> {
    let notify = state.stopped.entry(id).or_default();
    Arc::clone(notify)
}

fn outcome(
    state: &mut State,
    id: StreamId,
    early: bool,
) -> Option<Result<Option<VarInt>, StoppedError>> {
    if state.is_rejected(early) {
        return Some(Err(StoppedError::ZeroRttRejected));
    }
    let result = match state.proto.send_stream(id).stopped() {
        Ok(Some(code)) => Ok(Some(code)),
        // Over: all has arrived.
        Err(ClosedStream) => Ok(None),
        Ok(None) => Err(state.error.clone()?.into()),
    };
    state.stopped.remove(&id);
    Some(result)
}

impl AsyncWrite for SendStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<io::Result<usize>> {
        let result = ready!(Self::poll_write(&mut self, cx, data));
        Poll::Ready(result.map_err(Into::into))
    }

    /// Does nothing: written data is sent without a flush.
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    /// Finishes the stream. Does not wait for the data to arrive.
    fn poll_shutdown(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        // Twice is no error here.
        let _ = self.finish();
        Poll::Ready(Ok(()))
    }
}

impl Drop for SendStream {
    fn drop(&mut self) {
        let cut_off = self.incomplete || self.blocked || std::thread::panicking();
        let waiting = self.connection.with(|state| {
            if state.is_rejected(self.early) {
                return None;
            }
            state.writers.remove(self.id);
            if state.error.is_some() || self.ended {
                return None;
            }
            if cut_off {
                return self.reset_now(state, VarInt::from_u32(0)).ok().flatten();
            }
            match state.proto.send_stream(self.id).finish() {
                Ok(()) => {
                    state.task.touched = true;
                    None
                }
                // Finishing is not for a stopped stream: a reset is its end (RFC 9000 section 3.5).
                Err(FinishError::Stopped(code)) => self.reset_now(state, code).ok().flatten(),
                Err(_) => None,
            }
        });
        if let Some(waiting) = waiting {
            waiting.notify_waiters();
        }
    }
}
