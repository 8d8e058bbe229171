//! Where frames come from: a synthetic camera with key frames, or standard input.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::time::{Instant, sleep_until};

/// Bytes at the start of a frame on the wire: when it was made, in microseconds since 1970.
pub(crate) const STAMP: usize = 8;

/// The longest frame.
pub(crate) const MAX_FRAME: usize = 1_000_000;

/// How much larger a key frame is, and how often one comes.
const KEY: f64 = 5.0;
const GROUP: Duration = Duration::from_secs(2);

pub(crate) fn since_epoch() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |now| u64::try_from(now.as_micros()).unwrap_or(u64::MAX))
}

/// A frame, behind its stamp.
pub(crate) struct Frame {
    pub(crate) bytes: Vec<u8>,
    pub(crate) key: bool,
}

/// A camera that shows noise.
pub(crate) struct Synthetic {
    interval: Duration,
    group: u64,
    left: u64,
    number: u64,
    next: Instant,
}

impl Synthetic {
    pub(crate) fn new(fps: u32, frames: u64) -> Self {
        let interval = Duration::from_secs(1) / fps;
        let group = (GROUP.as_secs_f64() / interval.as_secs_f64()).round();
        Self {
            interval,
            group: (group as u64).max(1),
            left: frames,
            number: 0,
            next: Instant::now(),
        }
    }

    /// The next frame, when it is time, at this rate in bytes per second.
    pub(crate) async fn frame(&mut self, rate: f64) -> Option<Frame> {
        self.left = self.left.checked_sub(1)?;
        sleep_until(self.next).await;
        self.next += self.interval;
        let key = self.number.is_multiple_of(self.group);
        let usual = rate * self.interval.as_secs_f64() * self.group as f64
            / (self.group as f64 - 1.0 + KEY);
        // From 0.8 to 1.2 of it.
        let draw = mpquic_sim::content::word(7, self.number) >> 11;
        let size = usual * (0.8 + 0.4 * draw as f64 / (1_u64 << 53) as f64);
        let size = if key { KEY * size } else { size } as usize;
        let mut bytes = vec![0; size.clamp(STAMP, MAX_FRAME)];
        mpquic_sim::content::fill(self.number, 0, &mut bytes[STAMP..]);
        bytes[..STAMP].copy_from_slice(&since_epoch().to_be_bytes());
        self.number += 1;
        Some(Frame { bytes, key })
    }
}

/// The next frame of a program; `None` at its end.
pub(crate) async fn piped(input: &mut (impl AsyncRead + Unpin)) -> std::io::Result<Option<Frame>> {
    let length = match input.read_u32().await {
        Ok(length) => length as usize,
        Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => return Ok(None),
        Err(error) => return Err(error),
    };
    if length > MAX_FRAME - STAMP {
        let what = format!(
            "a frame of {length} bytes, at most {} are taken",
            MAX_FRAME - STAMP
        );
        return Err(std::io::Error::other(what));
    }
    let mut bytes = vec![0; STAMP + length];
    input.read_exact(&mut bytes[STAMP..]).await?;
    bytes[..STAMP].copy_from_slice(&since_epoch().to_be_bytes());
    Ok(Some(Frame { bytes, key: false }))
}
