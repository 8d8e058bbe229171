//! The streams as h3 sees them: data is handed out as it came, and copied once where it is written.

use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use h3::quic::{self, ConnectionErrorIncoming, StreamErrorIncoming, StreamId, WriteBuf};

use crate::error::{code, read_error, write_error};

/// A stream to send on.
pub struct SendStream<B: Buf> {
    stream: mpquic::SendStream,
    /// What is to be written before the next data is taken.
    writing: Option<WriteBuf<B>>,
}

impl<B: Buf> SendStream<B> {
    pub(crate) const fn new(stream: mpquic::SendStream) -> Self {
        Self {
            stream,
            writing: None,
        }
    }

    /// The stream of the transport, to give it a priority or hints for the scheduler.
    pub const fn transport(&self) -> &mpquic::SendStream {
        &self.stream
    }

    fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        data: &mut impl Buf,
    ) -> Poll<Result<usize, StreamErrorIncoming>> {
        let written = ready!(self.stream.poll_write(cx, data.chunk())).map_err(write_error)?;
        data.advance(written);
        Poll::Ready(Ok(written))
    }
}

/// h3 gave data before what it gave last was written: it closes the connection with `H3_INTERNAL_ERROR`.
fn not_ready() -> StreamErrorIncoming {
    StreamErrorIncoming::ConnectionErrorIncoming {
        connection_error: ConnectionErrorIncoming::InternalError(
            "data was given to a stream that still writes what it was given before".to_owned(),
        ),
    }
}

impl<B: Buf> quic::SendStream<B> for SendStream<B> {
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), StreamErrorIncoming>> {
        let Some(mut data) = self.writing.take() else {
            return Poll::Ready(Ok(()));
        };
        while data.has_remaining() {
            match self.poll_write(cx, &mut data) {
                Poll::Ready(Ok(_)) => {}
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => {
                    self.writing = Some(data);
                    return Poll::Pending;
                }
            }
        }
        Poll::Ready(Ok(()))
    }

    fn send_data<T: Into<WriteBuf<B>>>(&mut self, data: T) -> Result<(), StreamErrorIncoming> {
        if self.writing.is_some() {
            return Err(not_ready());
        }
        self.writing = Some(data.into());
        Ok(())
    }

    fn poll_finish(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), StreamErrorIncoming>> {
        ready!(self.poll_ready(cx))?;
        let finished = self.stream.finish();
        Poll::Ready(finished.map_err(|error| write_error(error.into())))
    }

    fn reset(&mut self, reset_code: u64) {
        // A stream that is over needs none.
        let _ = self.stream.reset(code(reset_code));
    }

    fn send_id(&self) -> StreamId {
        id(self.stream.id())
    }
}

impl<B: Buf> quic::SendStreamUnframed<B> for SendStream<B> {
    fn poll_send<D: Buf>(
        &mut self,
        cx: &mut Context<'_>,
        buf: &mut D,
    ) -> Poll<Result<usize, StreamErrorIncoming>> {
        if self.writing.is_some() {
            return Poll::Ready(Err(not_ready()));
        }
        self.poll_write(cx, buf)
    }
}

/// A stream to receive on.
#[derive(Debug)]
pub struct RecvStream(mpquic::RecvStream);

impl RecvStream {
    pub(crate) const fn new(stream: mpquic::RecvStream) -> Self {
        Self(stream)
    }

    /// The stream of the transport: whether its data came early ([`mpquic::RecvStream::is_0rtt`]).
    pub const fn transport(&self) -> &mpquic::RecvStream {
        &self.0
    }
}

impl quic::RecvStream for RecvStream {
    type Buf = Bytes;

    fn poll_data(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Option<Self::Buf>, StreamErrorIncoming>> {
        self.0.poll_read_chunk(cx, usize::MAX).map_err(read_error)
    }

    fn stop_sending(&mut self, error_code: u64) {
        // A stream that is over needs none.
        let _ = self.0.stop(code(error_code));
    }

    fn recv_id(&self) -> StreamId {
        id(self.0.id())
    }
}

/// A stream to send and to receive on.
pub struct BidiStream<B: Buf> {
    send: SendStream<B>,
    recv: RecvStream,
}

impl<B: Buf> BidiStream<B> {
    pub(crate) fn new((send, recv): (mpquic::SendStream, mpquic::RecvStream)) -> Self {
        Self {
            send: SendStream::new(send),
            recv: RecvStream::new(recv),
        }
    }
}

impl<B: Buf> quic::BidiStream<B> for BidiStream<B> {
    type SendStream = SendStream<B>;
    type RecvStream = RecvStream;

    fn split(self) -> (Self::SendStream, Self::RecvStream) {
        (self.send, self.recv)
    }
}

impl<B: Buf> quic::SendStream<B> for BidiStream<B> {
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), StreamErrorIncoming>> {
        self.send.poll_ready(cx)
    }

    fn send_data<T: Into<WriteBuf<B>>>(&mut self, data: T) -> Result<(), StreamErrorIncoming> {
        self.send.send_data(data)
    }

    fn poll_finish(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), StreamErrorIncoming>> {
        self.send.poll_finish(cx)
    }

    fn reset(&mut self, reset_code: u64) {
        self.send.reset(reset_code);
    }

    fn send_id(&self) -> StreamId {
        self.send.send_id()
    }
}

impl<B: Buf> quic::SendStreamUnframed<B> for BidiStream<B> {
    fn poll_send<D: Buf>(
        &mut self,
        cx: &mut Context<'_>,
        buf: &mut D,
    ) -> Poll<Result<usize, StreamErrorIncoming>> {
        self.send.poll_send(cx, buf)
    }
}

impl<B: Buf> quic::RecvStream for BidiStream<B> {
    type Buf = Bytes;

    fn poll_data(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Option<Self::Buf>, StreamErrorIncoming>> {
        self.recv.poll_data(cx)
    }

    fn stop_sending(&mut self, error_code: u64) {
        self.recv.stop_sending(error_code);
    }

    fn recv_id(&self) -> StreamId {
        self.recv.recv_id()
    }
}

/// The same number in h3's type.
fn id(id: mpquic::StreamId) -> StreamId {
    StreamId::try_from(u64::from(mpquic::VarInt::from(id))).unwrap_or_else(|_| {
        unreachable!("both types take all stream IDs of RFC 9000, up to 2^62 - 1")
    })
}
