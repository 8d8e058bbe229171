//! Streams: their set, their buffers, their flow control; does not know packets or paths' state.

mod assembler;
mod control;
mod events;
mod flight;
mod flow;
#[cfg(any(test, feature = "__fuzzing"))]
pub(crate) mod fuzzing;
mod ids;
mod incoming;
mod outgoing;
mod pool;
mod range_map;
mod ready;
mod recv;
mod send;
mod send_buffer;
mod set;

#[cfg(test)]
mod tests;

pub(crate) use set::{PeerStreamParams, Streams};

use mpquic_sched_core::{Dir, StreamId, VarInt};
use thiserror::Error;

/// Something happened to a stream that the application wants to know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum StreamEvent {
    /// The peer opened one or more streams: accept them.
    Opened {
        /// Of this direction.
        dir: Dir,
    },
    /// There is data, an end or a reset to read.
    Readable {
        /// The stream.
        id: StreamId,
    },
    /// A blocked write can go on.
    Writable {
        /// The stream.
        id: StreamId,
    },
    /// All data and the end were acknowledged.
    Finished {
        /// The stream.
        id: StreamId,
    },
    /// The peer asks us to send no more, and the transport has reset the stream (RFC 9000 section
    /// 3.5). Unless it was finished, it counts as open until a write, finish or reset by the
    /// application has found out.
    Stopped {
        /// The stream.
        id: StreamId,
        /// The peer's reason.
        error_code: VarInt,
    },
    /// A blocked open can go on.
    Available {
        /// Of this direction.
        dir: Dir,
    },
}

/// Why a read gave nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ReadError {
    /// No data yet.
    #[error("no data yet")]
    Blocked,
    /// The peer reset the stream.
    #[error("reset by the peer: code {0}")]
    Reset(VarInt),
    /// Unknown, stopped, or read to its end.
    #[error("the stream is closed")]
    ClosedStream,
}

/// Why a write took nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum WriteError {
    /// No window or buffer space now.
    #[error("no room now")]
    Blocked,
    /// The peer asked us to stop.
    #[error("stopped by the peer: code {0}")]
    Stopped(VarInt),
    /// Unknown, finished or reset.
    #[error("the stream is closed")]
    ClosedStream,
}

/// Why a stream could not be finished.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum FinishError {
    /// The peer asked us to stop.
    #[error("stopped by the peer: code {0}")]
    Stopped(VarInt),
    /// Unknown, finished or reset.
    #[error("the stream is closed")]
    ClosedStream,
}

/// The stream is unknown, or over in this direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("the stream is closed")]
pub struct ClosedStream;
