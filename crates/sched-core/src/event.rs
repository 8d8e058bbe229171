//! What a scheduler is told after it has decided.

use std::time::{Duration, Instant};

use crate::StreamId;

use crate::{PathId, PathIndex, PathKey, PathStatus};

/// A scheduled packet left.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Sent {
    /// The path that carries it.
    pub path: PathIndex,
    /// When.
    pub now: Instant,
    /// The packet's size on the wire, bytes.
    pub size: u16,
    /// The decision that asked for it; a copy has the number of its original.
    pub decision: u64,
    /// Whether it carries data that was sent before.
    pub retransmission: bool,
    /// Stream bytes in it that no packet carried before. Summed over packets, they run ahead of the
    /// sum of [`Acked::contiguous`] by what is not yet contiguous at the receiver.
    pub new_bytes: u16,
}

/// A packet was acknowledged for the first time.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Acked {
    /// The path that carried it.
    pub path: PathIndex,
    /// When the acknowledgement came.
    pub now: Instant,
    /// When the packet left.
    pub sent: Instant,
    /// The packet's size on the wire, bytes.
    pub size: u16,
    /// The RTT sample that this acknowledgement gave, if it gave one.
    pub rtt: Option<Duration>,
    /// The decision that asked for it; `None` for packets that were not scheduled.
    pub decision: Option<u64>,
    /// Stream bytes that became contiguous at the receiver by it, so that a reward can count a
    /// packet only once all before it have arrived (Peekaboo, Algorithm 1).
    pub contiguous: u64,
}

/// A packet was declared lost.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Lost {
    /// The path that carried it.
    pub path: PathIndex,
    /// When it was declared lost.
    pub now: Instant,
    /// When it left.
    pub sent: Instant,
    /// The packet's size on the wire, bytes.
    pub size: u16,
    /// The decision that asked for it; `None` for packets that were not scheduled.
    pub decision: Option<u64>,
}

/// Something happened to a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct PathUpdate {
    /// The path's slot.
    pub path: PathIndex,
    /// The path ID on the wire.
    pub id: PathId,
    /// When.
    pub now: Instant,
    /// What.
    pub kind: PathUpdateKind,
    /// The path's name across connections, by the hosts at its ends as they are known now.
    ///
    /// To store what is learned under: the one of [`Validated`](PathUpdateKind::Validated) or of the
    /// last [`Moved`](PathUpdateKind::Moved). At [`Opened`](PathUpdateKind::Opened), the local address
    /// may not be known yet.
    pub key: Option<PathKey>,
}

/// What happened to a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum PathUpdateKind {
    /// A slot was taken; the path cannot carry data yet.
    Opened,
    /// The peer's address is validated; data may go.
    Validated,
    /// It leads between other hosts now, which its key names: the peer moved to another network, and
    /// what was measured of the path is forgotten. A change of ports is no move.
    Moved,
    /// The preference for its use changed.
    Status(PathStatus),
    /// It fell into trouble: its data in flight became sendable elsewhere.
    Suspect,
    /// A packet was acknowledged again.
    Recovered,
    /// It ended; its slot will be reused.
    Abandoned,
}

/// Something happened to a stream that we send on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct StreamUpdate {
    /// Which stream.
    pub id: StreamId,
    /// What.
    pub kind: StreamUpdateKind,
}

/// What happened to a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum StreamUpdateKind {
    /// It was opened, by us or by the peer.
    Opened,
    /// The application wrote so many bytes.
    Written(u64),
    /// The application will write no more.
    Finished,
    /// All data and the end were acknowledged.
    FullyAcked,
    /// It was reset.
    Reset,
    /// The application told what it knows of it.
    Hint(StreamHints),
}

/// What an application may tell of a stream ahead of sending it.
///
/// ```
/// use mpquic_sched_core::StreamHints;
///
/// let hints = StreamHints { size: Some(4_000_000), chunk: Some(7), ..StreamHints::default() };
/// assert!(hints.deadline.is_none());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StreamHints {
    /// How many bytes it will have in all.
    pub size: Option<u64>,
    /// By when the receiver should have all of it.
    pub deadline: Option<Instant>,
    /// The number of the chunk that it carries (video segments and the like).
    pub chunk: Option<u64>,
    /// How much the receiver holds ahead of what it uses now, in chunks, as it said when it asked for this one.
    pub buffered: Option<u64>,
    /// Its priority, instead of the one that it has: streams of higher priority are sent first.
    pub priority: Option<i32>,
    /// Whatever the application and a scheduler of its own agree on. Nobody else looks at it.
    pub tag: Option<u64>,
    /// Whether the application can afford that this one is used to find out what works: a player that holds enough, and
    /// does not judge the network by it (Lee and Yoo 2022, section 4.4). Schedulers that learn may then explore more.
    pub explore: bool,
}

macro_rules! constructor {
    ($(#[$doc:meta])* $name:ident { $($field:ident: $type:ty),* $(,)? }) => {
        impl $name {
            $(#[$doc])*
            pub const fn new($($field: $type),*) -> Self {
                Self { $($field),* }
            }
        }
    };
}

constructor!(
    /// The event of these parts; for transports, and for tests of schedulers.
    Sent { path: PathIndex, now: Instant, size: u16, decision: u64, retransmission: bool, new_bytes: u16 }
);
constructor!(
    /// The event of these parts; for transports, and for tests of schedulers.
    Acked {
        path: PathIndex,
        now: Instant,
        sent: Instant,
        size: u16,
        rtt: Option<Duration>,
        decision: Option<u64>,
        contiguous: u64,
    }
);
constructor!(
    /// The event of these parts; for transports, and for tests of schedulers.
    Lost { path: PathIndex, now: Instant, sent: Instant, size: u16, decision: Option<u64> }
);

impl PathUpdate {
    /// The event of these parts, without a key; for transports, and for tests of schedulers.
    pub const fn new(path: PathIndex, id: PathId, now: Instant, kind: PathUpdateKind) -> Self {
        Self {
            path,
            id,
            now,
            kind,
            key: None,
        }
    }

    /// The same event of a path with this key.
    #[must_use]
    pub const fn with_key(mut self, key: PathKey) -> Self {
        self.key = Some(key);
        self
    }
}

constructor!(
    /// The event of these parts; for transports, and for tests of schedulers.
    StreamUpdate { id: StreamId, kind: StreamUpdateKind }
);
