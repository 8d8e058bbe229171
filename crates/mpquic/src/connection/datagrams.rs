//! A connection's unreliable datagrams (RFC 9221); the queues are the protocol's.

use std::task::{Context, Poll};

use bytes::Bytes;
use proto::{ConnectionError, DatagramFate, DatagramOptions};

use super::Connection;
use crate::connection_state::{Signal, State};
use crate::error::SendDatagramError;

fn try_read_datagram(state: &mut State) -> Option<Result<Bytes, ConnectionError>> {
    match state.proto.datagrams().recv() {
        Some(data) => Some(Ok(data)),
        None => state.error.clone().map(Err),
    }
}

fn try_fate(state: &mut State) -> Option<Result<DatagramFate, ConnectionError>> {
    match state.proto.datagrams().fate() {
        Some(news) => Some(Ok(news)),
        None => state.error.clone().map(Err),
    }
}

impl Connection {
    fn try_send_datagram(
        state: &mut State,
        data: Bytes,
        options: DatagramOptions,
        drop: bool,
    ) -> Result<Result<(), SendDatagramError>, Bytes> {
        if let Some(error) = &state.error {
            return Ok(Err(error.clone().into()));
        }
        let sent = state.proto.datagrams().send_with(data, options, drop);
        Ok(match sent {
            Ok(()) => {
                state.task.touched = true;
                Ok(())
            }
            Err(proto::SendDatagramError::UnsupportedByPeer) => {
                Err(SendDatagramError::UnsupportedByPeer)
            }
            Err(proto::SendDatagramError::Disabled) => Err(SendDatagramError::Disabled),
            Err(proto::SendDatagramError::PathNotOpen) => Err(SendDatagramError::PathNotOpen),
            Err(proto::SendDatagramError::Blocked(data)) => return Err(data),
            // `TooLarge` is the only other one.
            Err(_) => Err(SendDatagramError::TooLarge),
        })
    }

    /// Sends an unreliable datagram (RFC 9221). If the buffer is full, the oldest unsent
    /// ones are dropped.
    ///
    /// # Errors
    ///
    /// If it is too large, one side does not take datagrams, or the connection is over.
    pub fn send_datagram(&self, data: Bytes) -> Result<(), SendDatagramError> {
        self.send_datagram_with(data, DatagramOptions::new())
    }

    /// Sends an unreliable datagram (RFC 9221) as the options say: on a path, on all paths, until a deadline. If the buffer
    /// is full, the oldest unsent ones are dropped: those of the path, or of the scheduler's queue, that hold most of it.
    ///
    /// Of a datagram for all paths, the peer's application gets each copy that arrives: write a number into it, and drop
    /// what came before. [`expired_datagrams`](proto::ConnectionStats::expired_datagrams) and
    /// [`stranded_datagrams`](proto::ConnectionStats::stranded_datagrams) of the statistics count those that were dropped because their deadline passed, and because their path ended.
    ///
    /// ```no_run
    /// # // no_run: tests/book runs it over two links
    /// use std::time::{Duration, Instant};
    /// use mpquic::{DatagramOptions, PathId, SendDatagramError};
    ///
    /// # fn run(connection: mpquic::Connection, frame: mpquic::Bytes) -> Result<(), SendDatagramError> {
    /// let soon = Instant::now() + Duration::from_millis(20);
    /// connection.send_datagram_with(frame.clone(), DatagramOptions::new().all_paths().deadline(soon))?;
    /// connection.send_datagram_with(frame, DatagramOptions::new().path(PathId(1)))?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// If it is too large, the path is not open, one side does not take datagrams, or the connection is over.
    pub fn send_datagram_with(
        &self,
        data: Bytes,
        options: DatagramOptions,
    ) -> Result<(), SendDatagramError> {
        let sent = self
            .0
            .with(|state| Self::try_send_datagram(state, data, options, true));
        // With leave to drop, it is never blocked.
        sent.unwrap_or(Err(SendDatagramError::TooLarge))
    }

    /// Waits for room in the buffer, then sends an unreliable datagram (RFC 9221).
    ///
    /// # Errors
    ///
    /// If it is too large, one side does not take datagrams, or the connection is over.
    pub async fn send_datagram_wait(&self, data: Bytes) -> Result<(), SendDatagramError> {
        let mut data = Some(data);
        let options = DatagramOptions::new();
        let check = |state: &mut State| match Self::try_send_datagram(
            state,
            data.take()?,
            options,
            false,
        ) {
            Ok(result) => Some(result),
            Err(back) => {
                data = Some(back);
                None
            }
        };
        self.0.wait_for(Signal::DatagramsUnblocked, check).await
    }

    /// The next datagram from the peer.
    ///
    /// On a server that takes early data, a datagram can be a repetition of what another connection brought
    /// before, at least if it came before the handshake was complete: see [`RecvStream::is_0rtt`](crate::RecvStream::is_0rtt).
    ///
    /// # Errors
    ///
    /// If the connection is over.
    pub async fn read_datagram(&self) -> Result<Bytes, ConnectionError> {
        let signal = Signal::DatagramReceived;
        self.0.wait_for(signal, try_read_datagram).await
    }

    /// [`read_datagram`](Self::read_datagram) for code that polls. All tasks that polled are woken by the next datagram.
    pub fn poll_read_datagram(&self, cx: &mut Context<'_>) -> Poll<Result<Bytes, ConnectionError>> {
        self.0
            .poll_for(Signal::DatagramReceived, cx, try_read_datagram)
    }

    /// The next news of datagrams that were sent with a tag ([`DatagramOptions::tag`]): when one left and on which path,
    /// and whether it was acknowledged, lost or never sent. Cancel-safe. If several tasks wait, each news goes to one of them.
    ///
    /// Those that wait when the connection ends come before the error. At most 4,096 wait
    /// ([`MAX_DATAGRAM_FATES`](proto::limits::MAX_DATAGRAM_FATES)); beyond that, the oldest are dropped and counted
    /// ([`dropped_fates`](proto::ConnectionStats::dropped_fates)).
    ///
    /// ```
    /// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/doc/pair.rs"));
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let Pair { client: connection, server, .. } = pair().await?;
    /// use mpquic::{DatagramOptions, Fate};
    ///
    /// connection.send_datagram_with("frame 7".into(), DatagramOptions::new().tag(7))?;
    /// loop {
    ///     let news = connection.datagram_fate().await?;
    ///     assert_eq!(news.tag, 7);
    ///     match news.fate {
    ///         Fate::Sent { path, .. } => println!("it left on path {path}"),
    ///         Fate::Acknowledged { path, sent, at, .. } => {
    ///             println!("it is there, over path {path}: known {:?} after it left", at - sent);
    ///             break;
    ///         }
    ///         lost => println!("it has to be sent again, if it still matters: {lost:?}"),
    ///     }
    /// }
    /// # assert_eq!(server.read_datagram().await?, "frame 7");
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// If the connection is over.
    pub async fn datagram_fate(&self) -> Result<DatagramFate, ConnectionError> {
        self.0.wait_listed(Signal::DatagramFates, try_fate).await
    }

    /// [`datagram_fate`](Self::datagram_fate) for code that polls. All tasks that polled are woken by the next news.
    pub fn poll_datagram_fate(
        &self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<DatagramFate, ConnectionError>> {
        self.0.poll_for(Signal::DatagramFates, cx, try_fate)
    }

    /// The next news if there are any, without waiting.
    pub fn try_datagram_fate(&self) -> Option<DatagramFate> {
        self.0.lock().proto.datagrams().fate()
    }

    /// The largest datagram that can be sent now; changes with the paths. `None` if the peer takes
    /// none.
    pub fn max_datagram_size(&self) -> Option<usize> {
        self.0.lock().proto.datagrams().max_size()
    }

    /// How many bytes of datagrams can be queued now.
    pub fn datagram_send_buffer_space(&self) -> usize {
        self.0.lock().proto.datagrams().send_buffer_space()
    }
}
