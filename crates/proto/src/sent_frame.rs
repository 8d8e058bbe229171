//! What a packet carried that must be sent again if it is lost.

use std::num::NonZeroU32;

use mpquic_sched_core::{Dir, PathSet, StreamId};
use smallvec::SmallVec;

use crate::PathId;

/// A piece of a stream in a sent packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StreamRange {
    pub(crate) id: StreamId,
    /// First byte.
    pub(crate) start: u64,
    /// One past the last byte; equal to `start` for a bare FIN.
    pub(crate) end: u64,
    /// Whether the frame carried the FIN.
    pub(crate) fin: bool,
    /// Every path that has carried this piece so far, this packet's path included.
    pub(crate) carried: PathSet,
}

/// Which datagram it is of those whose fates are followed, by its place among them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Tag(NonZeroU32);

impl Tag {
    /// `None` if there are more than that can be counted.
    pub(crate) fn new(place: usize) -> Option<Self> {
        let number = u32::try_from(place).ok()?.checked_add(1)?;
        NonZeroU32::new(number).map(Self)
    }

    /// Its place.
    pub(crate) const fn place(self) -> usize {
        self.0.get() as usize - 1
    }
}

/// One frame of a sent packet. Frames that are never repeated (PADDING, PING) leave no record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SentFrame {
    Stream(StreamRange),
    Crypto {
        start: u64,
        end: u64,
    },
    ResetStream(StreamId),
    StopSending(StreamId),
    MaxData,
    MaxStreamData(StreamId),
    MaxStreams(Dir),
    DataBlocked,
    StreamDataBlocked(StreamId),
    StreamsBlocked(Dir),
    NewConnectionId {
        path: PathId,
        sequence: u64,
    },
    RetireConnectionId {
        path: PathId,
        sequence: u64,
    },
    /// An ACK or PATH_ACK: once it is acknowledged, packet numbers up to `largest` of that space need no more acknowledging.
    Ack {
        path: PathId,
        largest: u64,
    },
    HandshakeDone,
    /// ACK_FREQUENCY with this sequence number.
    AckFrequency(u64),
    /// By the number that its connection gave it.
    NewToken(u32),
    Datagram {
        len: u16,
        /// If its fate is followed.
        tag: Option<Tag>,
    },
    PathChallenge(u64),
    PathAbandon(PathId),
    PathStatus {
        path: PathId,
        sequence: u64,
    },
    MaxPathId(u32),
    PathsBlocked(u32),
    PathCidsBlocked(PathId),
}

/// Who keeps what a frame carried, and so learns what became of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Owner {
    Handshake,
    Streams,
    Paths,
    /// What it carried is not repeated, and nobody waits for it.
    Nobody,
}

impl SentFrame {
    /// Whose frame it is.
    pub(crate) const fn owner(&self) -> Owner {
        match self {
            Self::Crypto { .. } | Self::HandshakeDone | Self::NewToken(_) => Owner::Handshake,
            Self::Stream(_)
            | Self::ResetStream(_)
            | Self::StopSending(_)
            | Self::MaxData
            | Self::MaxStreamData(_)
            | Self::MaxStreams(_)
            | Self::DataBlocked
            | Self::StreamDataBlocked(_)
            | Self::StreamsBlocked(_) => Owner::Streams,
            Self::NewConnectionId { .. }
            | Self::RetireConnectionId { .. }
            | Self::AckFrequency(_)
            | Self::PathChallenge(_)
            | Self::PathAbandon(_)
            | Self::PathStatus { .. }
            | Self::MaxPathId(_)
            | Self::PathsBlocked(_)
            | Self::PathCidsBlocked(_) => Owner::Paths,
            // RFC 9000 section 13.3: newer acknowledgements replace old ones, datagrams are not repeated.
            Self::Ack { .. } | Self::Datagram { .. } => Owner::Nobody,
        }
    }

    /// The piece of a stream that this is.
    pub(crate) fn stream(&self) -> Option<&StreamRange> {
        match self {
            Self::Stream(range) => Some(range),
            _ => None,
        }
    }
}

/// The record of one packet. A bulk packet has a STREAM frame and perhaps an ACK: no allocation.
pub(crate) type SentFrames = SmallVec<[SentFrame; 2]>;
