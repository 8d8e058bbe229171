//! A connection as h3 sees it: it accepts streams and opens them.

use std::task::{Context, Poll};

use bytes::Buf;
use h3::error::Code;
use h3::quic::{self, ConnectionErrorIncoming, StreamErrorIncoming};

use crate::error::{code, connection_error, lost};
use crate::stream::{BidiStream, RecvStream, SendStream};

/// An [`mpquic::Connection`] for [`h3::client::new`] and [`h3::server::Connection::new`].
///
/// h3 accepts all streams of the connection. The application must accept none beside it.
#[derive(Debug, Clone)]
pub struct Connection(pub(crate) mpquic::Connection);

impl Connection {
    /// Takes a handle of the connection; keep another one to ask for paths and figures.
    pub const fn new(connection: mpquic::Connection) -> Self {
        Self(connection)
    }
}

impl From<mpquic::Connection> for Connection {
    fn from(connection: mpquic::Connection) -> Self {
        Self::new(connection)
    }
}

/// Opens streams on a [`Connection`]: what h3 keeps in each handle that sends requests.
#[derive(Debug, Clone)]
pub struct OpenStreams(mpquic::Connection);

impl<B: Buf> quic::Connection<B> for Connection {
    type RecvStream = RecvStream;
    type OpenStreams = OpenStreams;

    fn poll_accept_recv(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Self::RecvStream, ConnectionErrorIncoming>> {
        let accepted = self.0.poll_accept_uni(cx);
        accepted.map_ok(RecvStream::new).map_err(connection_error)
    }

    fn poll_accept_bidi(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Self::BidiStream, ConnectionErrorIncoming>> {
        let accepted = self.0.poll_accept_bi(cx);
        accepted.map_ok(BidiStream::new).map_err(connection_error)
    }

    fn opener(&self) -> Self::OpenStreams {
        OpenStreams(self.0.clone())
    }
}

fn poll_open_bidi<B: Buf>(
    connection: &mpquic::Connection,
    cx: &mut Context<'_>,
) -> Poll<Result<BidiStream<B>, StreamErrorIncoming>> {
    let opened = connection.poll_open_bi(cx);
    opened.map_ok(BidiStream::new).map_err(lost)
}

fn poll_open_send<B: Buf>(
    connection: &mpquic::Connection,
    cx: &mut Context<'_>,
) -> Poll<Result<SendStream<B>, StreamErrorIncoming>> {
    let opened = connection.poll_open_uni(cx);
    opened.map_ok(SendStream::new).map_err(lost)
}

impl<B: Buf> quic::OpenStreams<B> for Connection {
    type BidiStream = BidiStream<B>;
    type SendStream = SendStream<B>;

    fn poll_open_bidi(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Self::BidiStream, StreamErrorIncoming>> {
        poll_open_bidi(&self.0, cx)
    }

    fn poll_open_send(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Self::SendStream, StreamErrorIncoming>> {
        poll_open_send(&self.0, cx)
    }

    fn close(&mut self, reason_code: Code, reason: &[u8]) {
        self.0.close(code(reason_code.value()), reason);
    }
}

impl<B: Buf> quic::OpenStreams<B> for OpenStreams {
    type BidiStream = BidiStream<B>;
    type SendStream = SendStream<B>;

    fn poll_open_bidi(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Self::BidiStream, StreamErrorIncoming>> {
        poll_open_bidi(&self.0, cx)
    }

    fn poll_open_send(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Self::SendStream, StreamErrorIncoming>> {
        poll_open_send(&self.0, cx)
    }

    fn close(&mut self, reason_code: Code, reason: &[u8]) {
        self.0.close(code(reason_code.value()), reason);
    }
}
