//! The request protocol of the streaming example.
//!
//! Each chunk of video uses one bidirectional stream. The client sends a line of text and ends the
//! stream:
//!
//! ```text
//! CHUNK <number> <bitrate in bit/s>
//! ```
//!
//! The server responds with the chunk, 32 bytes with the SHA-256 of the line and the chunk, and the
//! end of the stream. Alternatively, it resets the stream with [`BAD_REQUEST`] or
//! [`NO_SUCH_CHUNK`].
//!
//! Both sides know the sizes of the chunks, as from a manifest. The digest covers the line, so that
//! a correct response to another request is detected.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use mpquic::VarInt;
use thiserror::Error;

/// The ALPN protocol name. It prevents connections to servers and clients of other protocols.
pub(crate) const ALPN: &[u8] = b"mpquic-video/1";

/// The longest request in bytes. The peer decides how much it sends, so there must be a limit.
pub(crate) const MAX_REQUEST: usize = 64;

/// The length of the digest in bytes.
pub(crate) const DIGEST_LEN: usize = 32;

/// The error code with which a client closes the connection when it is finished.
pub(crate) const DONE: VarInt = VarInt::from_u32(1);

/// Stream error code: the request is malformed.
pub(crate) const BAD_REQUEST: VarInt = VarInt::from_u32(2);

/// Stream error code: there is no such chunk, or not with this bitrate.
pub(crate) const NO_SUCH_CHUNK: VarInt = VarInt::from_u32(3);

/// The contents of a video's manifest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Video {
    /// The number of chunks.
    pub(crate) chunks: u64,
    /// The playing time of each chunk.
    pub(crate) length: Duration,
    /// The available bitrates in bit/s, ascending and distinct.
    pub(crate) bitrates: Vec<u64>,
}

impl Video {
    /// The size in bytes of a chunk of this bitrate.
    pub(crate) fn chunk_bytes(&self, bitrate: u64) -> u64 {
        let bits = u128::from(bitrate) * self.length.as_nanos() / 1_000_000_000;
        u64::try_from(bits / 8).unwrap_or(u64::MAX)
    }

    /// Whether the requested chunk exists.
    pub(crate) fn has(&self, request: Request) -> bool {
        request.number < self.chunks && self.bitrates.contains(&request.bitrate)
    }
}

/// A client's request for a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Request {
    /// Counted from 0.
    pub(crate) number: u64,
    /// Bit/s.
    pub(crate) bitrate: u64,
}

/// The request is malformed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("expected `CHUNK <number> <bitrate>` and the end of the line")]
pub(crate) struct BadRequest;

/// The line, including its end.
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
        // Only digits: other forms of a number, such as "+1", would change the line that the digest
        // covers.
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
