//! The frames of RFC 9000, 9221, 10069 and of QUIC Acknowledgment Frequency as values.

mod ack;
mod ack_frequency;
mod cid;
mod close;
mod decode;
mod encode;
mod flow;
mod path_control;
mod path_limit;
mod sent;
mod stream;
#[cfg(test)]
mod tests;
pub(crate) mod types;
pub(crate) mod writer;

use mpquic_sched_core::{Dir, StreamId};

pub(crate) use self::{
    ack::{AckBlocks, AckBlocksIter, AckFrame, EcnCounts, encode_ack},
    ack_frequency::AckFrequencyFrame,
    cid::{NewConnectionId, RetireConnectionId},
    decode::FrameIter,
    encode::{datagram_header_size, encode_datagram_header},
    flow::MAX_STREAM_COUNT,
    sent::{SentFrame, SentFrames, StreamRange},
    stream::{
        Crypto, ResetStream, StopSending, Stream, crypto_header_size, encode_crypto_header,
        encode_stream_header, stream_header_size,
    },
};

use crate::{ApplicationClose, ConnectionClose, PathErrorCode};

/// One frame as received. Borrows from the decrypted packet: decoding allocates nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Frame<'a> {
    Padding,
    Ping,
    /// ACK or PATH_ACK; `path` is `None` for ACK.
    Ack(AckFrame<'a>),
    ResetStream(ResetStream),
    StopSending(StopSending),
    Crypto(Crypto<'a>),
    NewToken(&'a [u8]),
    Stream(Stream<'a>),
    MaxData(u64),
    MaxStreamData {
        id: StreamId,
        offset: u64,
    },
    MaxStreams {
        dir: Dir,
        count: u64,
    },
    DataBlocked {
        offset: u64,
    },
    StreamDataBlocked {
        id: StreamId,
        offset: u64,
    },
    StreamsBlocked {
        dir: Dir,
        limit: u64,
    },
    /// NEW_CONNECTION_ID (`path` is `None`) or PATH_NEW_CONNECTION_ID.
    NewConnectionId(NewConnectionId),
    /// RETIRE_CONNECTION_ID (`path` is `None`) or PATH_RETIRE_CONNECTION_ID.
    RetireConnectionId(RetireConnectionId),
    PathChallenge(u64),
    PathResponse(u64),
    ConnectionClose(ConnectionClose),
    ApplicationClose(ApplicationClose),
    HandshakeDone,
    AckFrequency(AckFrequencyFrame),
    ImmediateAck,
    Datagram(&'a [u8]),
    PathAbandon {
        path: u64,
        error: PathErrorCode,
    },
    PathStatusBackup {
        path: u64,
        seq: u64,
    },
    PathStatusAvailable {
        path: u64,
        seq: u64,
    },
    MaxPathId(u64),
    PathsBlocked(u64),
    PathCidsBlocked {
        path: u64,
        next_seq: u64,
    },
}
