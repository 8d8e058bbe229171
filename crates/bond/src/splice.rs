//! A TCP connection and a stream as one: data, ends and resets of each side pass to the other.

use std::future::poll_fn;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use mpquic::{RecvStream, SendStream, VarInt};
use mpquic_peer::Admitted;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::time::Instant;

/// The code of a reset that a TCP connection's end caused.
const RESET: VarInt = VarInt::from_u32(1);
/// How much is read from a socket at a time.
const PIECE: usize = 64 * 1024;
/// With less room than this, a new buffer is begun.
const LEAST_ROOM: usize = 4096;

/// When something last moved, in milliseconds since `origin`.
struct Activity {
    origin: Instant,
    last: AtomicU64,
}

impl Activity {
    fn note(&self) {
        let now = self.origin.elapsed().as_millis() as u64;
        self.last.store(now, Ordering::Relaxed);
    }

    /// Waits until nothing has moved for so long.
    async fn idle_for(&self, limit: Duration) {
        loop {
            let last = self.origin + Duration::from_millis(self.last.load(Ordering::Relaxed));
            if last.elapsed() >= limit {
                return;
            }
            tokio::time::sleep_until(last + limit).await;
        }
    }
}

/// What went through, bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Moved {
    /// From the socket to the stream.
    pub(crate) sent: u64,
    /// From the stream to the socket.
    pub(crate) received: u64,
}

/// Passes everything on, until both directions have ended, one is reset, or nothing has moved for `idle`. `first` came from the socket
/// before. How it ended on one side, it ends on the other: an end becomes an end, and a reset becomes a reset. The stream leads to a `user`, if there is one,
/// whose rate is kept.
pub(crate) async fn splice(
    mut socket: TcpStream,
    first: Bytes,
    mut send: SendStream,
    mut recv: RecvStream,
    idle: Duration,
    user: Option<&Admitted>,
) -> io::Result<Moved> {
    let activity = Activity {
        origin: Instant::now(),
        last: AtomicU64::new(0),
    };
    let mut moved = Moved::default();
    let (mut reader, mut writer) = socket.split();
    let both = async {
        let (sent, received) = (&mut moved.sent, &mut moved.received);
        tokio::try_join!(
            up(&mut reader, first, &mut send, sent, &activity, user),
            down(&mut recv, &mut writer, received, &activity, user),
        )
    };
    let ended = tokio::select! {
        ended = both => ended.map(|_| ()),
        () = activity.idle_for(idle) => Err(io::ErrorKind::TimedOut.into()),
    };
    if ended.is_err() {
        // One that is over already needs neither.
        let _ = send.reset(RESET);
        let _ = recv.stop(RESET);
        // The peer of the socket must not take a part for the whole: it gets a reset, too.
        let _ = socket2::SockRef::from(&socket).set_linger(Some(Duration::ZERO));
    }
    ended.map(|()| moved)
}

async fn up(
    reader: &mut ReadHalf<'_>,
    first: Bytes,
    send: &mut SendStream,
    moved: &mut u64,
    activity: &Activity,
    user: Option<&Admitted>,
) -> io::Result<()> {
    let mut buffer = BytesMut::new();
    let mut chunk = first;
    loop {
        while !chunk.is_empty() {
            let written = poll_fn(|cx| send.poll_write_chunk(cx, &mut chunk)).await?;
            *moved += written as u64;
            activity.note();
            if let Some(user) = user {
                user.to().passed(written).await;
            }
        }
        if buffer.capacity() < LEAST_ROOM {
            buffer.reserve(PIECE);
        }
        let piece = tokio::select! {
            read = reader.read_buf(&mut buffer) => read?,
            // A peer that wants no more data is not noticed by reading a silent socket.
            stopped = send.stopped() => match stopped {
                Ok(Some(_)) => return Err(io::ErrorKind::ConnectionReset.into()),
                Ok(None) | Err(_) => return Err(io::ErrorKind::NotConnected.into()),
            },
        };
        if piece == 0 {
            send.finish()
                .map_err(|_| io::Error::from(io::ErrorKind::NotConnected))?;
            return Ok(());
        }
        chunk = buffer.split().freeze();
    }
}

async fn down(
    recv: &mut RecvStream,
    writer: &mut WriteHalf<'_>,
    moved: &mut u64,
    activity: &Activity,
    user: Option<&Admitted>,
) -> io::Result<()> {
    while let Some(mut chunk) = recv.read_chunk(usize::MAX).await? {
        *moved += chunk.len() as u64;
        activity.note();
        if let Some(user) = user {
            user.from().passed(chunk.len()).await;
        }
        writer.write_all_buf(&mut chunk).await?;
        activity.note();
    }
    writer.shutdown().await
}
