//! Plays a video in real time over a connection: what is requested, when, and with what result.

use std::future::{Future, pending};
use std::pin::{Pin, pin};
use std::time::Duration;

use mpquic_sim::workload::{Player, RateRule};
use serde::Serialize;
use thiserror::Error;
use tokio::time::{Instant, interval, sleep_until};

use crate::fetch::{FetchError, fetch};
use crate::protocol::{DONE, Request, Video};
use crate::screen::Screen;
use crate::session::{Client, Session, SessionError};

/// How often the screen is updated.
const TICK: Duration = Duration::from_millis(100);

/// A chunk that has been played or waits for playback.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Chunk {
    /// Counted from 0.
    pub(crate) number: u64,
    pub(crate) bitrate_mbps: f64,
    pub(crate) bytes: u64,
    /// When it was complete, in seconds from the start.
    pub(crate) at: f64,
    /// The time from the first byte of the request to the last byte of the chunk.
    pub(crate) seconds: f64,
    /// Seconds of buffered video, this chunk included.
    pub(crate) buffer: f64,
    /// Stream bytes received on each path since the previous chunk.
    pub(crate) paths: Vec<u64>,
    pub(crate) sha256_ok: bool,
}

/// How the playback ended.
#[derive(Debug)]
pub(crate) enum End {
    /// The video was played to its end.
    Played,
    /// The user stopped it.
    Stopped,
    /// It failed.
    Failed(Failure),
}

/// Why the playback failed.
#[derive(Debug, Error)]
pub(crate) enum Failure {
    /// The connection, or one of its paths, could not be opened.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// A chunk could not be fetched.
    #[error("chunk {number} at {} Mbit/s: {source}", *.bitrate as f64 / 1e6)]
    Fetch {
        number: u64,
        bitrate: u64,
        source: FetchError,
    },
}

/// A chunk that is being fetched.
struct Fetching<'a> {
    request: Request,
    /// The time of the request.
    since: Duration,
    result: Pin<Box<dyn Future<Output = Result<bool, FetchError>> + Send + 'a>>,
}

/// The playback so far. Times count from the start of the handshake.
pub(crate) struct Playback<'a> {
    video: &'a Video,
    /// The most chunks that may wait for playback when the player requests the next one.
    buffer: u64,
    start: Instant,
    /// When it ended, if it has.
    over: Option<Duration>,
    rule: RateRule,
    pub(crate) player: Player,
    pub(crate) chunks: Vec<Chunk>,
    /// Stream bytes received on each path.
    pub(crate) received: Vec<u64>,
    /// The same when the last chunk was complete.
    at_chunk: Vec<u64>,
}

impl<'a> Playback<'a> {
    /// Starts the clock.
    pub(crate) fn new(video: &'a Video, buffer: u64, paths: usize) -> Self {
        Self {
            video,
            buffer,
            start: Instant::now(),
            over: None,
            rule: RateRule::new(&video.bitrates),
            player: Player::new(video.length, Duration::ZERO),
            chunks: Vec::new(),
            received: vec![0; paths],
            at_chunk: vec![0; paths],
        }
    }

    /// The time from the start to now or to the end.
    pub(crate) fn elapsed(&self) -> Duration {
        self.over.unwrap_or_else(|| self.start.elapsed())
    }

    /// How much of the video has been played.
    pub(crate) fn seen(&self) -> Duration {
        let chunks = u32::try_from(self.chunks.len()).unwrap_or(u32::MAX);
        let there = self.video.length.saturating_mul(chunks);
        there.saturating_sub(self.player.left(self.elapsed()))
    }

    /// The bitrate of the next chunk in bit/s.
    pub(crate) fn bitrate(&self) -> u64 {
        self.rule.bitrate()
    }

    /// Connects and plays to the end, or until `stop` is ready. A path that cannot be opened is an
    /// error, even if the other paths work: the playback is meant to use all of them.
    pub(crate) async fn run(
        &mut self,
        client: &Client,
        screen: &Screen,
        stop: impl Future<Output = ()>,
    ) -> End {
        let mut stop = pin!(stop);
        let session = tokio::select! {
            session = Session::connect(client) => session,
            () = &mut stop => return End::Stopped,
        };
        let session = match session {
            Ok(session) => session,
            Err(error) => return End::Failed(error.into()),
        };
        let end = tokio::select! {
            result = self.play(&session, screen) => match result {
                Ok(()) => End::Played,
                Err(failure) => End::Failed(failure),
            },
            () = stop => End::Stopped,
        };
        self.received = session.received();
        let now = self.elapsed();
        self.player.advance(now);
        self.over = Some(now);
        screen.show(self);
        session.close(DONE, b"").await;
        end
    }

    async fn play(&mut self, session: &Session, screen: &Screen) -> Result<(), Failure> {
        // The first path can carry data while the others open.
        let mut opening = pin!(session.open_paths());
        let mut open = false;
        let mut fetching: Option<Fetching<'_>> = None;
        let mut tick = interval(TICK);
        loop {
            let now = self.elapsed();
            self.player.advance(now);
            if fetching.is_none() {
                fetching = self.next().map(|request| Fetching {
                    request,
                    since: now,
                    result: Box::pin(fetch(&session.connection, self.video, request)),
                });
            }
            let change = self.player.next_change();
            if fetching.is_none() && change.is_none() {
                return Ok(());
            }
            let (start, next) = (self.start, &mut fetching);
            tokio::select! {
                result = async {
                    match next {
                        Some(fetching) => fetching.result.as_mut().await,
                        None => pending().await,
                    }
                } => if let Some(Fetching { request, since, .. }) = fetching.take() {
                    let sha256_ok = result.map_err(|source| Failure::Fetch {
                        number: request.number,
                        bitrate: request.bitrate,
                        source,
                    })?;
                    self.on_chunk(request, since, sha256_ok, session.received());
                    screen.on_chunk(self);
                },
                // A chunk has ended, so the buffer may have room for another one.
                () = async {
                    match change {
                        Some(change) => sleep_until(start + change).await,
                        None => pending().await,
                    }
                } => {}
                result = &mut opening, if !open => {
                    result?;
                    open = true;
                }
                _ = tick.tick() => {
                    self.received = session.received();
                    screen.show(self);
                }
            }
        }
    }

    /// What to request now, if a request is due.
    fn next(&self) -> Option<Request> {
        let number = self.chunks.len() as u64;
        let wanted = number < self.video.chunks && self.player.buffered() <= self.buffer;
        wanted.then(|| Request {
            number,
            bitrate: self.rule.bitrate(),
        })
    }

    fn on_chunk(&mut self, request: Request, since: Duration, sha256_ok: bool, received: Vec<u64>) {
        let now = self.elapsed();
        let took = (now - since).as_secs_f64();
        self.rule.on_chunk(self.video.length.as_secs_f64(), took);
        self.player.on_chunk(now);
        let before = std::mem::replace(&mut self.at_chunk, received.clone());
        let paths = received.iter().zip(before);
        let paths = paths.map(|(bytes, before)| bytes.saturating_sub(before));
        let paths = paths.collect();
        self.received = received;
        self.chunks.push(Chunk {
            number: request.number,
            bitrate_mbps: request.bitrate as f64 / 1e6,
            bytes: self.video.chunk_bytes(request.bitrate),
            at: now.as_secs_f64(),
            seconds: took,
            buffer: self.player.left(now).as_secs_f64(),
            paths,
            sha256_ok,
        });
    }
}
