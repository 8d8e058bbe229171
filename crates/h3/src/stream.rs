//! The streams as h3 sees them: data is handed out as it came, and copied once where it is written.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use h3::error::Code;
use h3::quic::{self, ConnectionErrorIncoming, StreamErrorIncoming, StreamId, WriteBuf};

use crate::error::{code, read_error, write_error};
use crate::frames::{FrameTooLarge, Frames};

/// What h3 0.0.8 answers by itself to a request whose fields are too large: HEADERS with the status 431 and nothing else. It leaves
/// that answer without finishing it (`server/request.rs`, `ResolvedRequest::resolve`).
const TOO_LARGE: &[u8] = b"\x01\x08\x00\x00\x5f\x09\x83\x69\x90\xff";

/// How many writes may wait for the one before them: each but the last was given up.
const MOST_WAITING: usize = 8;

/// A stream to send on.
///
/// Only [`finish`](quic::SendStream::poll_finish) ends a message. If the stream is dropped before that, it is reset, so that nobody
/// takes a part for the whole (RFC 9114 section 4.1.1): with `H3_REQUEST_CANCELLED`, or with `H3_INTERNAL_ERROR` if the
/// thread panics.
///
/// A write that is given up (its future is dropped) is no error: what it gave is written before what comes next. If eight that wait for
/// it are given up, too, and data comes still, the stream is reset with `H3_INTERNAL_ERROR`.
pub struct SendStream<B: Buf> {
    stream: mpquic::SendStream,
    /// What is to be written before the next data is taken.
    writing: Option<WriteBuf<B>>,
    /// What was given while that was written: a write was given up.
    waiting: VecDeque<WriteBuf<B>>,
    /// Finished or reset here.
    ended: bool,
    /// How much of [`TOO_LARGE`] was written; `None` if it was something else.
    too_large: Option<usize>,
}

impl<B: Buf> SendStream<B> {
    pub(crate) const fn new(stream: mpquic::SendStream) -> Self {
        Self {
            stream,
            writing: None,
            waiting: VecDeque::new(),
            ended: false,
            too_large: Some(0),
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
        let chunk = data.chunk();
        let written = ready!(self.stream.poll_write(cx, chunk)).map_err(write_error)?;
        if let Some(at) = self.too_large {
            let same = TOO_LARGE[at..].starts_with(&chunk[..written]);
            self.too_large = same.then_some(at + written);
        }
        data.advance(written);
        Poll::Ready(Ok(written))
    }

    /// Nothing more is sent.
    fn reset_with(&mut self, reset_code: Code) {
        self.ended = true;
        self.writing = None;
        self.waiting.clear();
        // A stream that is over needs none.
        let _ = self.stream.reset(code(reset_code.value()));
    }
}

impl<B: Buf> quic::SendStream<B> for SendStream<B> {
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), StreamErrorIncoming>> {
        while let Some(mut data) = self.writing.take() {
            while data.has_remaining() {
                match self.poll_write(cx, &mut data) {
                    Poll::Ready(Ok(_)) => {}
                    Poll::Ready(Err(error)) => {
                        self.waiting.clear();
                        return Poll::Ready(Err(error));
                    }
                    Poll::Pending => {
                        self.writing = Some(data);
                        return Poll::Pending;
                    }
                }
            }
            self.writing = self.waiting.pop_front();
        }
        Poll::Ready(Ok(()))
    }

    fn send_data<T: Into<WriteBuf<B>>>(&mut self, data: T) -> Result<(), StreamErrorIncoming> {
        if self.writing.is_none() {
            self.writing = Some(data.into());
        } else if self.waiting.len() < MOST_WAITING {
            // In the middle of a frame, the only ways on are its rest and a reset.
            self.waiting.push_back(data.into());
        } else {
            // A peer that takes nothing must not make us hold what others keep on giving.
            self.reset_with(Code::H3_INTERNAL_ERROR);
            return Err(StreamErrorIncoming::Unknown(
                "the peer takes nothing, and too many writes were given up: the stream is reset"
                    .into(),
            ));
        }
        Ok(())
    }

    fn poll_finish(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), StreamErrorIncoming>> {
        ready!(self.poll_ready(cx))?;
        let finished = self.stream.finish();
        self.ended = true;
        Poll::Ready(finished.map_err(|error| write_error(error.into())))
    }

    fn reset(&mut self, reset_code: u64) {
        self.reset_with(Code::from(reset_code));
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
        ready!(quic::SendStream::<B>::poll_ready(self, cx))?;
        self.poll_write(cx, buf)
    }
}

impl<B: Buf> Drop for SendStream<B> {
    fn drop(&mut self) {
        // h3's own answer is whole: the transport's stream finishes it.
        let whole = self.too_large == Some(TOO_LARGE.len());
        if !self.ended && !whole {
            self.reset_with(unless_panicking(Code::H3_REQUEST_CANCELLED));
        }
    }
}

/// The code for a stream that is left: a panic is an internal error.
fn unless_panicking(code: Code) -> Code {
    if std::thread::panicking() {
        Code::H3_INTERNAL_ERROR
    } else {
        code
    }
}

/// A stream to receive on.
///
/// If it is dropped before its end was read, it is stopped: a request's with `H3_NO_ERROR`, since the answer may be complete without
/// the rest (RFC 9114 section 4.1.1), an answer's with `H3_REQUEST_CANCELLED`, and a unidirectional one with
/// `H3_STREAM_CREATION_ERROR` (section 6.2); with `H3_INTERNAL_ERROR` if the thread panics.
#[derive(Debug)]
pub struct RecvStream {
    stream: mpquic::RecvStream,
    frames: Frames,
    /// What came, and was not handed out.
    rest: Bytes,
    /// The code for a stream that is left.
    left: Code,
    /// For a control stream: without that, there is no connection.
    connection: Option<mpquic::Connection>,
}

impl RecvStream {
    pub(crate) const fn unidirectional(
        stream: mpquic::RecvStream,
        connection: mpquic::Connection,
        limit: u64,
    ) -> Self {
        Self {
            stream,
            frames: Frames::of_unidirectional(limit),
            rest: Bytes::new(),
            left: Code::H3_STREAM_CREATION_ERROR,
            connection: Some(connection),
        }
    }

    const fn bidirectional(stream: mpquic::RecvStream, left: Code, limit: u64) -> Self {
        Self {
            stream,
            frames: Frames::of_request(limit),
            rest: Bytes::new(),
            left,
            connection: None,
        }
    }

    /// The stream of the transport: whether its data came early ([`mpquic::RecvStream::is_0rtt`]).
    pub const fn transport(&self) -> &mpquic::RecvStream {
        &self.stream
    }

    fn stop_with(&mut self, stop_code: Code) {
        self.rest = Bytes::new();
        // A stream that is over needs none.
        let _ = self.stream.stop(code(stop_code.value()));
    }

    /// A peer that sends such a frame is not heard any further (RFC 9114 section 10.5).
    fn refuse(&mut self, error: FrameTooLarge) -> StreamErrorIncoming {
        self.stop_with(Code::H3_EXCESSIVE_LOAD);
        match &self.connection {
            None => StreamErrorIncoming::Unknown(Box::new(error)),
            Some(connection) => {
                let excessive = code(Code::H3_EXCESSIVE_LOAD.value());
                connection.close(excessive, error.to_string().as_bytes());
                StreamErrorIncoming::ConnectionErrorIncoming {
                    connection_error: ConnectionErrorIncoming::Undefined(Arc::new(error)),
                }
            }
        }
    }
}

impl quic::RecvStream for RecvStream {
    type Buf = Bytes;

    fn poll_data(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Option<Self::Buf>, StreamErrorIncoming>> {
        loop {
            while !self.rest.is_empty() {
                match self.frames.take(&mut self.rest) {
                    Ok(Some(piece)) => return Poll::Ready(Ok(Some(piece))),
                    Ok(None) => {}
                    Err(error) => return Poll::Ready(Err(self.refuse(error))),
                }
            }
            let chunk = ready!(self.stream.poll_read_chunk(cx, usize::MAX)).map_err(read_error)?;
            match chunk {
                Some(chunk) => self.rest = chunk,
                None => return Poll::Ready(Ok(self.frames.unfinished())),
            }
        }
    }

    fn stop_sending(&mut self, error_code: u64) {
        self.stop_with(Code::from(error_code));
    }

    fn recv_id(&self) -> StreamId {
        id(self.stream.id())
    }
}

impl Drop for RecvStream {
    fn drop(&mut self) {
        self.stop_with(unless_panicking(self.left));
    }
}

/// A stream to send and to receive on.
pub struct BidiStream<B: Buf> {
    send: SendStream<B>,
    recv: RecvStream,
}

impl<B: Buf> BidiStream<B> {
    /// Of a server: it reads a request. The answer that it sends may be complete before the request is.
    pub(crate) fn accepted(
        (send, recv): (mpquic::SendStream, mpquic::RecvStream),
        limit: u64,
    ) -> Self {
        Self {
            send: SendStream::new(send),
            recv: RecvStream::bidirectional(recv, Code::H3_NO_ERROR, limit),
        }
    }

    /// Of a client: it reads an answer.
    pub(crate) fn opened(
        (send, recv): (mpquic::SendStream, mpquic::RecvStream),
        limit: u64,
    ) -> Self {
        Self {
            send: SendStream::new(send),
            recv: RecvStream::bidirectional(recv, Code::H3_REQUEST_CANCELLED, limit),
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
        let polled = self.recv.poll_data(cx);
        if let Poll::Ready(Err(StreamErrorIncoming::Unknown(error))) = &polled
            && error.is::<FrameTooLarge>()
        {
            // A message that was not read gets none back.
            self.send.reset_with(Code::H3_EXCESSIVE_LOAD);
        }
        polled
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
