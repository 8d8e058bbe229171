//! The request protocol of the streaming example: what goes over a stream; moves no bytes itself.
//!
//! One bidirectional stream per chunk of video. The client sends a line of text and ends the stream:
//!
//! ```text
//! CHUNK <number> <bitrate in bit/s>
//! ```
//!
//! The server answers with the chunk, the SHA-256 of the line and the chunk as 32 bytes, and the end of the stream; or it resets
//! the stream, with [`BAD_REQUEST`] or [`NO_SUCH_CHUNK`].
//!
//! How large a chunk is both sides know, as from a manifest. The line is in the digest so that the
//! right answer to another request is not taken for this one's.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use mpquic::VarInt;
use thiserror::Error;

/// The ALPN protocol name: a client and a server of something else must not get along.
pub(crate) const ALPN: &[u8] = b"mpquic-video/1";

/// Bytes of the longest request. The other side decides how much it sends.
pub(crate) const MAX_REQUEST: usize = 64;

/// Bytes of the digest.
pub(crate) const DIGEST_LEN: usize = 32;

/// The code with which a client closes the connection when it wants nothing more.
pub(crate) const DONE: VarInt = VarInt::from_u32(1);

/// Stream error code: the request is not one.
pub(crate) const BAD_REQUEST: VarInt = VarInt::from_u32(2);

/// Stream error code: the video has no such chunk, or not at this bitrate.
pub(crate) const NO_SUCH_CHUNK: VarInt = VarInt::from_u32(3);

/// What a manifest says of a video.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Video {
    /// How many.
    pub(crate) chunks: u64,
    /// Playing time of each.
    pub(crate) length: Duration,
    /// To choose from, bit/s; ascending, all different.
    pub(crate) bitrates: Vec<u64>,
}

impl Video {
    /// Bytes of each chunk of this bitrate.
    pub(crate) fn chunk_bytes(&self, bitrate: u64) -> u64 {
        let bits = u128::from(bitrate) * self.length.as_nanos() / 1_000_000_000;
        u64::try_from(bits / 8).unwrap_or(u64::MAX)
    }

    /// Whether there is such a chunk.
    pub(crate) fn has(&self, request: Request) -> bool {
        request.number < self.chunks && self.bitrates.contains(&request.bitrate)
    }
}

/// Which chunk a client wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Request {
    /// From 0.
    pub(crate) number: u64,
    /// Bit/s.
    pub(crate) bitrate: u64,
}

/// A request that is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("expected `CHUNK <number> <bitrate>` and the end of the line")]
pub(crate) struct BadRequest;

/// The line, with its end.
impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "CHUNK {} {}", self.number, self.bitrate)
    }
}

impl FromStr for Request {
    type Err = BadRequest;

    fn from_str(text: &str) -> Result<Self, BadRequest> {
        let line = text.strip_suffix('\n').ok_or(BadRequest)?;
        let fields: Vec<_> = line.split(' ').collect();
        let ["CHUNK", number, bitrate] = fields[..] else {
            return Err(BadRequest);
        };
        // Not what else counts as a number, such as "+1": the digest is over the line.
        let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        if !digits(number) || !digits(bitrate) {
            return Err(BadRequest);
        }
        Ok(Self {
            number: number.parse().map_err(|_| BadRequest)?,
            bitrate: bitrate.parse().map_err(|_| BadRequest)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests() {
        let request = Request {
            number: 7,
            bitrate: 5_000_000,
        };
        let line = request.to_string();
        assert_eq!(line, "CHUNK 7 5000000\n");
        assert_eq!(line.parse(), Ok(request));
        assert!(line.len() <= MAX_REQUEST);
        let longest = Request {
            number: u64::MAX,
            bitrate: u64::MAX,
        };
        assert!(longest.to_string().len() <= MAX_REQUEST);

        for text in [
            "",
            "\n",
            "CHUNK 7 5000000",
            "CHUNK 7\n",
            "CHUNK 7 5000000 \n",
            "CHUNK  7 5000000\n",
            "CHUNK 7 5000000\n\n",
            "chunk 7 5000000\n",
            "CHUNK -7 5000000\n",
            "CHUNK +7 5000000\n",
            "CHUNK 7 5e6\n",
            "CHUNK 7 \n",
            "CHUNK 99999999999999999999 1\n",
        ] {
            assert_eq!(text.parse::<Request>(), Err(BadRequest), "{text:?}");
        }
    }

    #[test]
    fn chunks() {
        let video = Video {
            chunks: 3,
            length: Duration::from_millis(500),
            bitrates: vec![1_000_000, 5_000_000],
        };
        assert_eq!(video.chunk_bytes(5_000_000), 312_500);
        let has = |number, bitrate| video.has(Request { number, bitrate });
        assert!(has(0, 1_000_000) && has(2, 5_000_000));
        assert!(!has(3, 1_000_000) && !has(0, 2_000_000));
    }
}
