//! Streams: their set, their buffers, their flow control.

mod assembler;
mod block;
mod control;
mod control_queue;
mod counters;
mod events;
mod flow;
#[cfg(any(test, feature = "__fuzzing"))]
pub(crate) mod fuzzing;
mod ids;
mod incoming;
mod limits;
mod min_peer_rate;
mod outgoing;
mod range_map;
mod ready;
mod recv;
mod send;
mod send_buffer;
mod set;
mod spare;
mod stream_map;
mod unordered;

#[cfg(test)]
mod tests;

pub(crate) use outgoing::MIN_COPY_ROOM;
pub(crate) use set::{PeerStreamParams, Streams};

use bytes::Bytes;
use mpquic_sched_core::{Dir, StreamId, VarInt};
use thiserror::Error;

/// What happened to a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum StreamEvent {
    /// The peer opened streams; [`Streams::accept`](crate::Streams::accept) returns them.
    Opened {
        /// The direction of the streams.
        dir: Dir,
    },
    /// A read returns data, the end of the stream or a reset.
    Readable {
        /// The stream.
        id: StreamId,
    },
    /// A write that was blocked can continue.
    Writable {
        /// The stream.
        id: StreamId,
    },
    /// The peer has received all data and the end of the stream.
    Finished {
        /// The stream.
        id: StreamId,
    },
    /// The peer asked to stop sending, and the stream was reset (RFC 9000 section 3.5). If the
    /// application has not finished it, the stream counts as open until a write, finish or reset
    /// by the application returns the error.
    Stopped {
        /// The stream.
        id: StreamId,
        /// The code that the peer sent.
        error_code: VarInt,
    },
    /// An open that was blocked by the stream limit can be tried again.
    Available {
        /// The direction of the streams.
        dir: Dir,
    },
}

/// A piece of a stream's data, and where it belongs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chunk {
    /// Where it begins, in bytes from the start of the stream.
    pub offset: u64,
    /// The data. Never empty.
    pub bytes: Bytes,
}

/// Why a read returned no data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ReadError {
    /// There is no data yet.
    #[error("no data yet")]
    Blocked,
    /// The peer reset the stream.
    #[error("reset by the peer: code {0}")]
    Reset(VarInt),
    /// The stream is unknown, was stopped, or was read to its end.
    #[error("the stream is closed")]
    ClosedStream,
    /// It was read out of order before.
    #[error("ordered read of a stream that was read out of order")]
    IllegalOrderedRead,
}

/// Why nothing was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum WriteError {
    /// Flow control or the send buffer leave no room now.
    #[error("no room now")]
    Blocked,
    /// The peer asked to stop sending.
    #[error("stopped by the peer: code {0}")]
    Stopped(VarInt),
    /// The stream is unknown, finished or reset.
    #[error("the stream is closed")]
    ClosedStream,
}

/// Why a stream could not be finished.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum FinishError {
    /// The peer asked to stop sending.
    #[error("stopped by the peer: code {0}")]
    Stopped(VarInt),
    /// The stream is unknown, finished or reset.
    #[error("the stream is closed")]
    ClosedStream,
}

/// The stream is unknown, or over in this direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("the stream is closed")]
pub struct ClosedStream;
