//! What applications do with streams: write content as fast as the transport accepts it, read it and verify it.

use bytes::Bytes;
use mpquic_proto::{FinishError, ReadError, StreamId, WriteError};

use crate::AppError;
use crate::app::AppContext;
use crate::pattern::{self, Pattern};

/// How many bytes are written or read at a time.
const CHUNK: usize = pattern::LONGEST;

/// Checks received content and its length.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Check {
    pattern: Pattern,
    bytes: u64,
    received: u64,
}

impl Check {
    pub(crate) const fn new(bytes: u64, seed: u64) -> Self {
        Self {
            pattern: Pattern::new(seed),
            bytes,
            received: 0,
        }
    }

    pub(crate) const fn received(&self) -> u64 {
        self.received
    }

    pub(crate) fn take(&mut self, stream: StreamId, data: &[u8]) -> Result<(), AppError> {
        self.pattern
            .verify(self.received, data)
            .map_err(|offset| AppError::Mismatch { stream, offset })?;
        self.received += data.len() as u64;
        if self.received > self.bytes {
            return Err(self.wrong_length(stream));
        }
        Ok(())
    }

    pub(crate) const fn end(&self, stream: StreamId) -> Result<(), AppError> {
        if self.received == self.bytes {
            Ok(())
        } else {
            Err(self.wrong_length(stream))
        }
    }

    const fn wrong_length(&self, stream: StreamId) -> AppError {
        AppError::Length {
            stream,
            expected: self.bytes,
            got: self.received,
        }
    }
}

/// Writes content until all is written (`true`) or the transport accepts no more.
#[derive(Debug, Clone)]
pub(crate) struct Source {
    pattern: Pattern,
    bytes: u64,
    made: u64,
    /// Taken from the pattern, and not accepted yet.
    pending: Bytes,
}

impl Source {
    pub(crate) const fn new(bytes: u64, seed: u64) -> Self {
        Self {
            pattern: Pattern::new(seed),
            bytes,
            made: 0,
            pending: Bytes::new(),
        }
    }

    pub(crate) fn pump(
        &mut self,
        cx: &mut AppContext<'_>,
        stream: StreamId,
    ) -> Result<bool, AppError> {
        loop {
            if self.pending.is_empty() {
                if self.made == self.bytes {
                    return Ok(true);
                }
                let len = (self.bytes - self.made).min(CHUNK as u64) as usize;
                self.pending = self.pattern.slice(self.made, len);
                self.made += len as u64;
            }
            if taken(
                cx.connection
                    .send_stream(stream)
                    .write_chunk(&mut self.pending),
                stream,
            )? == 0
            {
                return Ok(false);
            }
        }
    }
}

/// Returns the number of bytes accepted, 0 if blocked.
pub(crate) fn write(
    cx: &mut AppContext<'_>,
    stream: StreamId,
    data: &[u8],
) -> Result<usize, AppError> {
    taken(cx.connection.send_stream(stream).write(data), stream)
}

fn taken(result: Result<usize, WriteError>, stream: StreamId) -> Result<usize, AppError> {
    match result {
        Ok(taken) => Ok(taken),
        Err(WriteError::Blocked) => Ok(0),
        Err(WriteError::Stopped(code)) => Err(AppError::GivenUp { stream, code }),
        Err(_) => Err(AppError::Closed { stream }),
    }
}

/// Writes the front of a small buffer. Returns `true` if all is written.
pub(crate) fn write_all(
    cx: &mut AppContext<'_>,
    stream: StreamId,
    data: &mut Vec<u8>,
) -> Result<bool, AppError> {
    while !data.is_empty() {
        let taken = write(cx, stream, data)?;
        if taken == 0 {
            return Ok(false);
        }
        data.drain(..taken);
    }
    Ok(true)
}

pub(crate) fn finish(cx: &mut AppContext<'_>, stream: StreamId) -> Result<(), AppError> {
    cx.connection
        .send_stream(stream)
        .finish()
        .map_err(|error| match error {
            FinishError::Stopped(code) => AppError::GivenUp { stream, code },
            _ => AppError::Closed { stream },
        })
}

/// The result of a read.
pub(crate) enum Read {
    Data(Bytes),
    End,
    Blocked,
}

pub(crate) fn read(cx: &mut AppContext<'_>, stream: StreamId) -> Result<Read, AppError> {
    match cx.read(stream, CHUNK) {
        Ok(Some(data)) => Ok(Read::Data(data)),
        Ok(None) => Ok(Read::End),
        Err(ReadError::Blocked) => Ok(Read::Blocked),
        Err(ReadError::Reset(code)) => Err(AppError::GivenUp { stream, code }),
        Err(_) => Err(AppError::Closed { stream }),
    }
}

#[cfg(test)]
mod tests {
    use mpquic_proto::VarInt;

    use super::*;

    #[test]
    fn content_is_checked() {
        let stream = StreamId::from(VarInt::from_u32(0));
        let mut data = Pattern::new(5).slice(0, 100).to_vec();
        let mut check = Check::new(100, 5);
        check.take(stream, &data[..40]).unwrap();
        assert!(check.end(stream).is_err());
        check.take(stream, &data[40..]).unwrap();
        check.end(stream).unwrap();
        assert_eq!(
            check.take(stream, b"x").unwrap_err(),
            AppError::Mismatch {
                stream,
                offset: 100
            }
        );
        data[50] ^= 1;
        let wrong = Check::new(100, 5).take(stream, &data).unwrap_err();
        assert_eq!(wrong, AppError::Mismatch { stream, offset: 50 });
        data[50] ^= 1;
        assert!(Check::new(99, 5).take(stream, &data).is_err());
    }
}
