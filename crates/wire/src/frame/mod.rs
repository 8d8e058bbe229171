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
mod stream;
#[cfg(test)]
mod tests;
pub mod types;

use mpquic_sched_core::{Dir, StreamId};

pub use self::{
    ack::{AckBlocks, AckBlocksIter, AckFrame, EcnCounts, encode_ack},
    ack_frequency::AckFrequencyFrame,
    cid::{NewConnectionId, RetireConnectionId},
    close::MAX_CLOSE_REASON,
    decode::FrameIter,
    encode::{datagram_header_size, encode_datagram_header},
    flow::MAX_STREAM_COUNT,
    stream::{
        Crypto, ResetStream, StopSending, Stream, crypto_header_size, encode_crypto_header,
        encode_stream_header, stream_header_size,
    },
};

use crate::{ApplicationClose, ConnectionClose, PathErrorCode};

/// One frame as received. Borrows from the decrypted packet: decoding allocates nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Frame<'a> {
    /// PADDING.
    Padding,
    /// PING.
    Ping,
    /// ACK or PATH_ACK; `path` is `None` for ACK.
    Ack(AckFrame<'a>),
    /// RESET_STREAM.
    ResetStream(ResetStream),
    /// STOP_SENDING.
    StopSending(StopSending),
    /// CRYPTO.
    Crypto(Crypto<'a>),
    /// NEW_TOKEN.
    NewToken(&'a [u8]),
    /// STREAM.
    Stream(Stream<'a>),
    /// MAX_DATA: bytes over all streams.
    MaxData(u64),
    /// MAX_STREAM_DATA.
    MaxStreamData {
        /// The stream.
        id: StreamId,
        /// In bytes.
        offset: u64,
    },
    /// MAX_STREAMS.
    MaxStreams {
        /// Of streams in this direction.
        dir: Dir,
        /// How many may ever be opened.
        count: u64,
    },
    /// DATA_BLOCKED.
    DataBlocked {
        /// In bytes.
        offset: u64,
    },
    /// STREAM_DATA_BLOCKED.
    StreamDataBlocked {
        /// The stream.
        id: StreamId,
        /// In bytes.
        offset: u64,
    },
    /// STREAMS_BLOCKED.
    StreamsBlocked {
        /// Of streams in this direction.
        dir: Dir,
        /// The limit that blocks.
        limit: u64,
    },
    /// NEW_CONNECTION_ID (`path` is `None`) or PATH_NEW_CONNECTION_ID.
    NewConnectionId(NewConnectionId),
    /// RETIRE_CONNECTION_ID (`path` is `None`) or PATH_RETIRE_CONNECTION_ID.
    RetireConnectionId(RetireConnectionId),
    /// PATH_CHALLENGE, as a big-endian number.
    PathChallenge(u64),
    /// PATH_RESPONSE, as a big-endian number.
    PathResponse(u64),
    /// CONNECTION_CLOSE of the transport (0x1c).
    ConnectionClose(ConnectionClose),
    /// CONNECTION_CLOSE of the application (0x1d).
    ApplicationClose(ApplicationClose),
    /// HANDSHAKE_DONE.
    HandshakeDone,
    /// ACK_FREQUENCY.
    AckFrequency(AckFrequencyFrame),
    /// IMMEDIATE_ACK.
    ImmediateAck,
    /// DATAGRAM (RFC 9221).
    Datagram(&'a [u8]),
    /// PATH_ABANDON (RFC 10069).
    PathAbandon {
        /// The path ID.
        path: u64,
        /// Why.
        error: PathErrorCode,
    },
    /// PATH_STATUS_BACKUP (RFC 10069).
    PathStatusBackup {
        /// The path ID.
        path: u64,
        /// Path Status Sequence Number.
        seq: u64,
    },
    /// PATH_STATUS_AVAILABLE (RFC 10069).
    PathStatusAvailable {
        /// The path ID.
        path: u64,
        /// Path Status Sequence Number.
        seq: u64,
    },
    /// MAX_PATH_ID (RFC 10069).
    MaxPathId(u64),
    /// PATHS_BLOCKED (RFC 10069): the largest path ID allowed.
    PathsBlocked(u64),
    /// PATH_CIDS_BLOCKED (RFC 10069).
    PathCidsBlocked {
        /// The path ID.
        path: u64,
        /// Sequence number of the connection ID that is missing.
        next_seq: u64,
    },
}
