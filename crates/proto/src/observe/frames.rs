//! The frames of a packet as an observer sees them: values without the data that they carry. Decodes them a second time,
//! for whoever looks.

use std::fmt;
use std::ops::RangeInclusive;

use mpquic_sched_core::{ConnectionId, Dir, PathStatus, StreamId};
use mpquic_wire::frame::{AckBlocks, AckBlocksIter, Frame, FrameIter};

use super::StreamPiece;
use crate::PathErrorCode;

/// The frames of a packet, in their order. Ends before the first that cannot be decoded.
#[derive(Clone)]
pub struct Frames<'a> {
    payload: &'a [u8],
    iter: FrameIter<'a>,
}

impl<'a> Frames<'a> {
    pub(super) const fn new(payload: &'a [u8]) -> Self {
        Self {
            payload,
            iter: FrameIter::new(payload),
        }
    }
}

impl<'a> Iterator for Frames<'a> {
    type Item = FrameInfo<'a>;

    #[inline]
    fn next(&mut self) -> Option<FrameInfo<'a>> {
        let before = self.iter.remaining();
        let frame = self.iter.next()?.ok()?;
        Some(FrameInfo::of(&frame, before - self.iter.remaining()))
    }
}

impl fmt::Debug for Frames<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(Self::new(self.payload)).finish()
    }
}

/// The packet numbers that an ACK frame acknowledges, in descending order of ranges.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct AckRanges<'a>(AckBlocks<'a>);

impl<'a> AckRanges<'a> {
    /// The ranges, the one with the largest number first.
    pub fn iter(&self) -> impl Iterator<Item = RangeInclusive<u64>> + use<'a> {
        let ranges: AckBlocksIter<'a> = self.0.iter();
        ranges
    }
}

impl fmt::Debug for AckRanges<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A frame (RFC 9000 section 19, RFC 9221, RFC 10069, QUIC Acknowledgment Frequency), without the data in it. Path IDs are
/// as on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum FrameInfo<'a> {
    /// A run of PADDING, of so many bytes.
    Padding {
        /// Bytes.
        length: usize,
    },
    /// PING.
    Ping,
    /// ACK, or PATH_ACK if it names a path.
    Ack {
        /// The path ID; `None` for ACK.
        path: Option<u64>,
        /// As on the wire: before the exponent of its sender is applied.
        delay: u64,
        /// What it acknowledges.
        ranges: AckRanges<'a>,
        /// ECT(0), ECT(1) and CE counts.
        ecn: Option<[u64; 3]>,
    },
    /// RESET_STREAM.
    ResetStream {
        /// The stream.
        id: StreamId,
        /// The application's code.
        error_code: u64,
        /// Bytes.
        final_size: u64,
    },
    /// STOP_SENDING.
    StopSending {
        /// The stream.
        id: StreamId,
        /// The application's code.
        error_code: u64,
    },
    /// CRYPTO.
    Crypto {
        /// The first byte.
        offset: u64,
        /// Bytes.
        length: usize,
    },
    /// NEW_TOKEN.
    NewToken {
        /// Bytes of the token.
        length: usize,
    },
    /// STREAM.
    Stream(StreamPiece),
    /// MAX_DATA.
    MaxData {
        /// Bytes.
        maximum: u64,
    },
    /// MAX_STREAM_DATA.
    MaxStreamData {
        /// The stream.
        id: StreamId,
        /// Bytes.
        maximum: u64,
    },
    /// MAX_STREAMS.
    MaxStreams {
        /// Which streams.
        dir: Dir,
        /// How many.
        maximum: u64,
    },
    /// DATA_BLOCKED.
    DataBlocked {
        /// Bytes.
        limit: u64,
    },
    /// STREAM_DATA_BLOCKED.
    StreamDataBlocked {
        /// The stream.
        id: StreamId,
        /// Bytes.
        limit: u64,
    },
    /// STREAMS_BLOCKED.
    StreamsBlocked {
        /// Which streams.
        dir: Dir,
        /// How many.
        limit: u64,
    },
    /// NEW_CONNECTION_ID, or PATH_NEW_CONNECTION_ID if it names a path.
    NewConnectionId {
        /// The path ID.
        path: Option<u64>,
        /// Its sequence number.
        sequence: u64,
        /// Those below are to be retired.
        retire_prior_to: u64,
        /// The connection ID.
        id: ConnectionId,
    },
    /// RETIRE_CONNECTION_ID, or PATH_RETIRE_CONNECTION_ID if it names a path.
    RetireConnectionId {
        /// The path ID.
        path: Option<u64>,
        /// The sequence number.
        sequence: u64,
    },
    /// PATH_CHALLENGE.
    PathChallenge {
        /// Its data.
        data: u64,
    },
    /// PATH_RESPONSE.
    PathResponse {
        /// Its data.
        data: u64,
    },
    /// CONNECTION_CLOSE.
    ConnectionClose {
        /// Whether it is of the application, and not of the transport.
        application: bool,
        /// The code.
        error_code: u64,
    },
    /// HANDSHAKE_DONE.
    HandshakeDone,
    /// ACK_FREQUENCY.
    AckFrequency {
        /// Its sequence number.
        sequence: u64,
    },
    /// IMMEDIATE_ACK.
    ImmediateAck,
    /// DATAGRAM.
    Datagram {
        /// Bytes.
        length: usize,
    },
    /// PATH_ABANDON.
    PathAbandon {
        /// The path ID.
        path: u64,
        /// Why.
        error_code: PathErrorCode,
    },
    /// PATH_STATUS_AVAILABLE or PATH_STATUS_BACKUP.
    PathStatus {
        /// The path ID.
        path: u64,
        /// Which of the two.
        status: PathStatus,
        /// Its sequence number.
        sequence: u64,
    },
    /// MAX_PATH_ID.
    MaxPathId {
        /// The largest path ID.
        maximum: u64,
    },
    /// PATHS_BLOCKED.
    PathsBlocked {
        /// The largest path ID.
        limit: u64,
    },
    /// PATH_CIDS_BLOCKED.
    PathCidsBlocked {
        /// The path ID.
        path: u64,
        /// The sequence number of the connection ID that is waited for.
        next_sequence: u64,
    },
}

impl<'a> FrameInfo<'a> {
    /// `length`: bytes of the whole frame.
    #[inline]
    fn of(frame: &Frame<'a>, length: usize) -> Self {
        match *frame {
            Frame::Stream(stream) => Self::Stream(StreamPiece {
                id: stream.id,
                start: stream.offset,
                end: stream.offset + stream.data.len() as u64,
                fin: stream.fin,
            }),
            Frame::Ack(ack) => Self::Ack {
                path: ack.path,
                delay: ack.delay,
                ranges: AckRanges(ack.blocks),
                ecn: ack.ecn.map(|ecn| [ecn.ect0, ecn.ect1, ecn.ce]),
            },
            ref frame => Self::of_rare(frame, length),
        }
    }

    fn of_rare(frame: &Frame<'a>, length: usize) -> Self {
        match *frame {
            Frame::Padding | Frame::Stream(_) | Frame::Ack(_) => Self::Padding { length },
            Frame::Ping => Self::Ping,
            Frame::ResetStream(reset) => Self::ResetStream {
                id: reset.id,
                error_code: reset.error_code.into_inner(),
                final_size: reset.final_size,
            },
            Frame::StopSending(stop) => Self::StopSending {
                id: stop.id,
                error_code: stop.error_code.into_inner(),
            },
            Frame::Crypto(crypto) => Self::Crypto {
                offset: crypto.offset,
                length: crypto.data.len(),
            },
            Frame::NewToken(token) => Self::NewToken {
                length: token.len(),
            },
            Frame::MaxData(maximum) => Self::MaxData { maximum },
            Frame::MaxStreamData { id, offset } => Self::MaxStreamData {
                id,
                maximum: offset,
            },
            Frame::MaxStreams { dir, count } => Self::MaxStreams {
                dir,
                maximum: count,
            },
            Frame::DataBlocked { offset } => Self::DataBlocked { limit: offset },
            Frame::StreamDataBlocked { id, offset } => {
                Self::StreamDataBlocked { id, limit: offset }
            }
            Frame::StreamsBlocked { dir, limit } => Self::StreamsBlocked { dir, limit },
            Frame::NewConnectionId(new) => Self::NewConnectionId {
                path: new.path,
                sequence: new.sequence,
                retire_prior_to: new.retire_prior_to,
                id: new.id,
            },
            Frame::RetireConnectionId(retire) => Self::RetireConnectionId {
                path: retire.path,
                sequence: retire.sequence,
            },
            Frame::PathChallenge(data) => Self::PathChallenge { data },
            Frame::PathResponse(data) => Self::PathResponse { data },
            Frame::ConnectionClose(ref close) => Self::ConnectionClose {
                application: false,
                error_code: close.error_code.into(),
            },
            Frame::ApplicationClose(ref close) => Self::ConnectionClose {
                application: true,
                error_code: close.error_code.into_inner(),
            },
            Frame::HandshakeDone => Self::HandshakeDone,
            Frame::AckFrequency(frame) => Self::AckFrequency {
                sequence: frame.sequence,
            },
            Frame::ImmediateAck => Self::ImmediateAck,
            Frame::Datagram(data) => Self::Datagram { length: data.len() },
            Frame::PathAbandon { path, error } => Self::PathAbandon {
                path,
                error_code: error,
            },
            Frame::PathStatusBackup { path, seq } => Self::PathStatus {
                path,
                status: PathStatus::Backup,
                sequence: seq,
            },
            Frame::PathStatusAvailable { path, seq } => Self::PathStatus {
                path,
                status: PathStatus::Available,
                sequence: seq,
            },
            Frame::MaxPathId(maximum) => Self::MaxPathId { maximum },
            Frame::PathsBlocked(limit) => Self::PathsBlocked { limit },
            Frame::PathCidsBlocked { path, next_seq } => Self::PathCidsBlocked {
                path,
                next_sequence: next_seq,
            },
        }
    }
}
