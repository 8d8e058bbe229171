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
pub struct Connection {
    pub(crate) transport: mpquic::Connection,
    max_frame_size: u64,
}

impl Connection {
    /// Takes a handle of the connection; keep another one to ask for paths and figures.
    pub const fn new(connection: mpquic::Connection) -> Self {
        Self {
            transport: connection,
            max_frame_size: 64 * 1024,
        }
    }

    /// How long a frame of the peer may be, other than DATA, in bytes of its payload. 64 KiB by default; less than 1 KiB
    /// is taken as 1 KiB.
    ///
    /// h3 0.0.8 holds such a frame until all of it is here, whatever its header says, and beyond
    /// [`receive_memory`](mpquic::EndpointConfig::receive_memory). On a request's stream, a longer one
    /// ([`FrameTooLarge`](crate::FrameTooLarge)) ends that request with `H3_EXCESSIVE_LOAD`; on a control stream, the connection.
    /// A long frame of a type that h3 does not know is skipped, as any other. DATA is handed on as it comes, and has no limit.
    /// HEADERS with more than 24,576 fields, for which the map of h3 has no room, are refused likewise, however short they are.
    ///
    /// What the fields of a message may take after they are decoded is a setting of h3's builders, `max_field_section_size`.
    /// It should be much the smaller one: h3 answers 431 to a request that is beyond it, and Huffman's code makes rare characters
    /// up to four times as long.
    ///
    /// ```no_run
    /// # // no_run: it needs a connection from a peer.
    /// # async fn run(connection: mpquic::Connection) -> Result<(), Box<dyn std::error::Error>> {
    /// let transport = mpquic_h3::Connection::new(connection).max_frame_size(32 * 1024);
    /// let mut server = h3::server::builder();
    /// let server = server.max_field_section_size(8 * 1024);
    /// let mut requests = server.build::<_, bytes::Bytes>(transport).await?;
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub const fn max_frame_size(mut self, bytes: usize) -> Self {
        self.max_frame_size = if bytes < 1024 { 1024 } else { bytes as u64 };
        self
    }
}

impl From<mpquic::Connection> for Connection {
    fn from(connection: mpquic::Connection) -> Self {
        Self::new(connection)
    }
}

/// Opens streams on a [`Connection`]: what h3 keeps in each handle that sends requests.
#[derive(Debug, Clone)]
pub struct OpenStreams(Connection);

impl<B: Buf> quic::Connection<B> for Connection {
    type RecvStream = RecvStream;
    type OpenStreams = OpenStreams;

    fn poll_accept_recv(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Self::RecvStream, ConnectionErrorIncoming>> {
        let accepted = self.transport.poll_accept_uni(cx);
        let stream = |stream| {
            RecvStream::unidirectional(stream, self.transport.clone(), self.max_frame_size)
        };
        accepted.map_ok(stream).map_err(connection_error)
    }

    fn poll_accept_bidi(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Self::BidiStream, ConnectionErrorIncoming>> {
        let accepted = self.transport.poll_accept_bi(cx);
        let stream = |halves| BidiStream::accepted(halves, self.max_frame_size);
        accepted.map_ok(stream).map_err(connection_error)
    }

    fn opener(&self) -> Self::OpenStreams {
        OpenStreams(self.clone())
    }
}

impl<B: Buf> quic::OpenStreams<B> for Connection {
    type BidiStream = BidiStream<B>;
    type SendStream = SendStream<B>;

    fn poll_open_bidi(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Self::BidiStream, StreamErrorIncoming>> {
        let opened = self.transport.poll_open_bi(cx);
        let stream = |halves| BidiStream::opened(halves, self.max_frame_size);
        opened.map_ok(stream).map_err(lost)
    }

    fn poll_open_send(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Self::SendStream, StreamErrorIncoming>> {
        let opened = self.transport.poll_open_uni(cx);
        opened.map_ok(SendStream::new).map_err(lost)
    }

    fn close(&mut self, reason_code: Code, reason: &[u8]) {
        self.transport.close(code(reason_code.value()), reason);
    }
}

impl<B: Buf> quic::OpenStreams<B> for OpenStreams {
    type BidiStream = BidiStream<B>;
    type SendStream = SendStream<B>;

    fn poll_open_bidi(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Self::BidiStream, StreamErrorIncoming>> {
        quic::OpenStreams::<B>::poll_open_bidi(&mut self.0, cx)
    }

    fn poll_open_send(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Self::SendStream, StreamErrorIncoming>> {
        quic::OpenStreams::<B>::poll_open_send(&mut self.0, cx)
    }

    fn close(&mut self, reason_code: Code, reason: &[u8]) {
        quic::OpenStreams::<B>::close(&mut self.0, reason_code, reason);
    }
}
