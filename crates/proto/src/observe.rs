//! What a connection tells of the packets that it sends, to whoever asked for it: tests, logs. It
//! watches, and changes nothing.

use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use mpquic_sched_core::{Side, StreamId};

use crate::PathId;
use crate::space::{SentFrame, SpaceId};

/// An observer of the packets of a connection, for tests and logs. All methods have empty defaults.
///
/// The methods are called on the hot path, with the connection's locks held: they should be short.
pub trait Observer: Send {
    /// A packet was built. Its datagram is part of the same
    /// [`poll_transmit`](crate::Connection::poll_transmit).
    fn on_packet_sent(&mut self, _packet: &PacketSent<'_>) {}

    /// A packet of the peer was decrypted, and it is not a duplicate. Its frames are processed next.
    fn on_packet_received(&mut self, _packet: &PacketReceived) {}
}

/// Makes an observer for each new connection; `None` leaves the connection unobserved.
pub type ObserverFactory = Arc<dyn Fn(Side) -> Option<Box<dyn Observer>> + Send + Sync>;

/// The number space of a packet (RFC 9000 section 12.3; RFC 10069 section 1 has one per path ID).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NumberSpace {
    /// Initial packets.
    Initial,
    /// Handshake packets.
    Handshake,
    /// 1-RTT packets of a path.
    Path(PathId),
}

impl NumberSpace {
    pub(crate) const fn of_space(space_id: SpaceId) -> Self {
        match space_id {
            SpaceId::Initial => Self::Initial,
            SpaceId::Handshake => Self::Handshake,
            SpaceId::Data => Self::Path(PathId::ZERO),
        }
    }
}

/// A piece of a stream in a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct StreamPiece {
    /// The stream.
    pub id: StreamId,
    /// The first byte.
    pub start: u64,
    /// One past the last byte. Equal to `start` if the frame has no data but the end.
    pub end: u64,
    /// Whether the stream ends here.
    pub fin: bool,
}

/// A packet that was sent.
#[non_exhaustive]
pub struct PacketSent<'a> {
    /// The current time.
    pub now: Instant,
    /// Its number space.
    pub space: NumberSpace,
    /// Its number.
    pub number: u64,
    /// Its size, bytes, with the AEAD tag.
    pub size: u16,
    /// Whether the peer must acknowledge it.
    pub ack_eliciting: bool,
    /// Whether it carries data that had been sent before.
    pub retransmission: bool,
    /// The number of the scheduler's decision that caused it, if one did.
    pub decision: Option<u64>,
    pub(crate) frames: &'a [SentFrame],
}

/// A packet of the peer.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct PacketReceived {
    /// The current time.
    pub now: Instant,
    /// Its number space.
    pub space: NumberSpace,
    /// Its number.
    pub number: u64,
}

impl PacketSent<'_> {
    /// The stream data that it carries, in the order of its frames.
    pub fn stream_data(&self) -> impl Iterator<Item = StreamPiece> + '_ {
        self.frames.iter().filter_map(|frame| match frame {
            SentFrame::Stream(range) => Some(StreamPiece {
                id: range.id,
                start: range.start,
                end: range.end,
                fin: range.fin,
            }),
            _ => None,
        })
    }
}

impl fmt::Debug for PacketSent<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PacketSent")
            .field("space", &self.space)
            .field("number", &self.number)
            .field("size", &self.size)
            .field("frames", &self.frames)
            .finish_non_exhaustive()
    }
}
