//! What a connection tells of its packets, paths and decisions to whoever asked for it: logs, tests. It watches, and
//! changes nothing.

mod event;
mod frames;
mod observer_hooks;
mod spans;

use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use mpquic_sched_core::{Side, StreamId};

pub use event::{
    AckedPackets, Choice, Decided, Observation, PacketLost, Parameters, PathChange, PathChangeKind,
    PathMetrics, Started,
};
pub use frames::{AckRanges, FrameInfo, Frames};
pub(crate) use observer_hooks::ObserverHooks;
pub(crate) use spans::Trouble;

use crate::PathId;
use crate::space::SpaceId;
use mpquic_wire::packet::TAG_LEN;

/// An observer of a connection, for logs and tests. All methods have empty defaults.
///
/// The methods are called on the hot path, with the connection's locks held: they should be short, and not allocate.
/// What they are given is made up for them alone: a connection without an observer does none of it.
///
/// ```
/// use mpquic_proto::{Observation, Observer, PathChangeKind};
/// use std::time::Instant;
///
/// /// Counts the times that a path fell into trouble.
/// #[derive(Default)]
/// struct Trouble(usize);
///
/// impl Observer for Trouble {
///     fn on_event(&mut self, _now: Instant, event: &Observation<'_>) {
///         if let Observation::Path(change) = event {
///             self.0 += usize::from(change.kind == PathChangeKind::Suspect);
///         }
///     }
/// }
/// ```
pub trait Observer: Send {
    /// A packet was built. Its datagram is part of the same
    /// [`poll_transmit`](crate::Connection::poll_transmit).
    fn on_packet_sent(&mut self, _packet: &PacketSent<'_>) {}

    /// A packet of the peer was decrypted, and it is not a duplicate. Its frames are processed next.
    fn on_packet_received(&mut self, _packet: &PacketReceived<'_>) {}

    /// Anything else.
    fn on_event(&mut self, _now: Instant, _event: &Observation<'_>) {}
}

/// Makes an observer for each new connection; `None` leaves the connection unobserved.
pub type ObserverFactory = Arc<dyn Fn(Side) -> Option<Box<dyn Observer>> + Send + Sync>;

/// The observer that the settings ask for: one for all, if they ask for several.
pub(crate) fn observer<'a>(
    side: Side,
    factories: impl Iterator<Item = &'a ObserverFactory>,
) -> Option<Box<dyn Observer>> {
    let made = factories.filter_map(|make| make(side));
    made.reduce(|one, other| Box::new(Both(one, other)))
}

/// Two observers of one connection.
struct Both(Box<dyn Observer>, Box<dyn Observer>);

impl Observer for Both {
    fn on_packet_sent(&mut self, packet: &PacketSent<'_>) {
        self.0.on_packet_sent(packet);
        self.1.on_packet_sent(packet);
    }

    fn on_packet_received(&mut self, packet: &PacketReceived<'_>) {
        self.0.on_packet_received(packet);
        self.1.on_packet_received(packet);
    }

    fn on_event(&mut self, now: Instant, event: &Observation<'_>) {
        self.0.on_event(now, event);
        self.1.on_event(now, event);
    }
}

/// The number space of a packet (RFC 9000 section 12.3; RFC 10069 section 1 has one per path ID).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NumberSpace {
    /// Initial packets.
    Initial,
    /// Handshake packets.
    Handshake,
    /// 1-RTT packets of a path, and 0-RTT packets on path 0.
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

    pub(crate) const fn on_path(space_id: SpaceId, path: PathId) -> Self {
        match space_id {
            SpaceId::Data => Self::Path(path),
            _ => Self::of_space(space_id),
        }
    }

    /// What people call it.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Initial => "Initial",
            Self::Handshake => "Handshake",
            Self::Path(_) => "1-RTT",
        }
    }

    /// The path that its packets travel on: the handshake takes path 0.
    pub const fn path(self) -> PathId {
        match self {
            Self::Initial | Self::Handshake => PathId::ZERO,
            Self::Path(id) => id,
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
    /// Whether it is a 0-RTT packet.
    pub early: bool,
    /// Whether the peer must acknowledge it.
    pub ack_eliciting: bool,
    /// Whether it carries data that had been sent before.
    pub retransmission: bool,
    /// Whether it probes for a larger MTU.
    pub mtu_probe: bool,
    /// The number of the scheduler's decision that caused it, if one did.
    pub decision: Option<u64>,
    pub(crate) payload: &'a [u8],
}

/// A packet of the peer.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub struct PacketReceived<'a> {
    /// The current time.
    pub now: Instant,
    /// Its number space.
    pub space: NumberSpace,
    /// Its number.
    pub number: u64,
    /// Whether it is a 0-RTT packet.
    pub early: bool,
    pub(crate) header: usize,
    pub(crate) payload: &'a [u8],
}

impl<'a> PacketSent<'a> {
    /// Its frames, in their order in the packet.
    pub const fn frames(&self) -> Frames<'a> {
        Frames::new(self.payload)
    }

    /// The stream data that it carries, in the order of its frames.
    pub fn stream_data(&self) -> impl Iterator<Item = StreamPiece> + 'a {
        self.frames().filter_map(|frame| match frame {
            FrameInfo::Stream(piece) => Some(piece),
            _ => None,
        })
    }
}

impl<'a> PacketReceived<'a> {
    /// Its frames, in their order in the packet. Ends before the first that cannot be decoded.
    pub const fn frames(&self) -> Frames<'a> {
        Frames::new(self.payload)
    }

    /// Its size, bytes, with the AEAD tag.
    pub const fn size(&self) -> usize {
        self.header + self.payload.len() + TAG_LEN
    }
}

impl fmt::Debug for PacketSent<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PacketSent")
            .field("space", &self.space)
            .field("number", &self.number)
            .field("size", &self.size)
            .field("frames", &self.frames())
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for PacketReceived<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PacketReceived")
            .field("space", &self.space)
            .field("number", &self.number)
            .field("frames", &self.frames())
            .finish_non_exhaustive()
    }
}
