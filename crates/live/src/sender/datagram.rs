//! What the sender says of datagrams, what it is told of them, and what it counts.

use std::time::Instant;

use super::PathId;

/// Why a datagram is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Cause {
    /// A part of a frame, for the first time.
    Source,
    /// The same again, since the first is overdue or lost.
    Copy,
    /// The same on a path that has fallen silent, or whose window is too small for a frame as yet.
    Hedge,
    /// A combination of packets, ahead of loss.
    Repair,
    /// Nothing, to hear whether a silent path is back.
    Probe,
}

/// A datagram that is to be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transmit {
    /// On which path; `None`: the transport's scheduler decides.
    pub path: Option<PathId>,
    /// By which name [`Sender::fate`](crate::Sender::fate) is to be told of it.
    pub tag: u64,
    /// Of no use if it has not left by then.
    pub deadline: Instant,
    /// Why it is sent.
    pub cause: Cause,
}

/// What happened to a datagram. Each of them is [`Sent`](Self::Sent) at most once, and then acknowledged or lost, or both in turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fate {
    /// A packet with it left.
    Sent {
        /// On this path.
        path: PathId,
        /// When.
        at: Instant,
    },
    /// The peer's transport has it.
    Acknowledged {
        /// The path on which it went.
        path: PathId,
        /// When it left.
        sent: Instant,
        /// When the acknowledgement came.
        at: Instant,
    },
    /// It was declared lost.
    Lost {
        /// The path on which it went.
        path: PathId,
        /// When it was declared lost.
        at: Instant,
    },
    /// It was dropped before it left: its deadline passed, or its path ended.
    Unsent {
        /// When it was dropped.
        at: Instant,
    },
}

/// Something to send. Flows and symbols by number; paths that have ended since are as good as none.
#[derive(Debug, Clone, Copy)]
pub(super) enum Item {
    Source {
        flow: u32,
        symbol: u64,
    },
    Again {
        flow: u32,
        symbol: u64,
        path: PathId,
        cause: Cause,
    },
    Repair {
        flow: u32,
        last: u64,
    },
    Probe(PathId),
}

/// A packet of which a copy is due, on whichever path has room first.
#[derive(Debug, Clone, Copy)]
pub(super) struct Due {
    pub(super) flow: u32,
    pub(super) symbol: u64,
    /// The path that it was sent on.
    pub(super) from: Option<PathId>,
    /// It is known to be lost there.
    pub(super) lost: bool,
}

/// What waits until it is known over which path a frame went: a repair packet, or a look at the windows of the others.
#[derive(Debug, Clone, Copy)]
pub(super) struct Held {
    pub(super) flow: u32,
    /// The last packet of the frame.
    pub(super) last: u64,
    pub(super) until: Instant,
    pub(super) repairs: bool,
}

/// What is known of a datagram that was sent.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sent {
    /// Whose part it is, unless it is a repair packet or a probe.
    pub(super) part: Option<(u32, u64)>,
    pub(super) flow: Option<u32>,
    /// It may still be acknowledged in time: neither overdue, nor is its fate known.
    pub(super) live: bool,
    pub(super) settled: bool,
    /// The transport has it and has not sent it.
    pub(super) waits: bool,
    /// Its bytes.
    pub(super) len: u16,
}

impl Sent {
    /// A part of a frame, which the transport is to have.
    pub(super) const fn of_frame(flow: u32, symbol: u64) -> Self {
        Self {
            part: Some((flow, symbol)),
            live: true,
            ..Self::beside(Some(flow))
        }
    }

    /// A repair packet of a flow, or a probe of none.
    pub(super) const fn beside(flow: Option<u32>) -> Self {
        Self {
            part: None,
            flow,
            live: false,
            settled: false,
            waits: true,
            len: 0,
        }
    }
}

/// Datagrams and their bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Count {
    /// Datagrams.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
}

impl Count {
    pub(super) fn add(&mut self, len: usize) {
        self.packets += 1;
        self.bytes += len as u64;
    }
}

/// What a sender has done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SenderStats {
    /// Frames that were taken.
    pub frames: u64,
    /// Parts of frames.
    pub source: Count,
    /// Parts that were sent again.
    pub copies: Count,
    /// Parts that also went over a path that had fallen silent, or whose window was too small for a frame.
    pub hedge: Count,
    /// Repair packets.
    pub repair: Count,
    /// Probes.
    pub probes: Count,
    /// Parts that were dropped, since they were too late before they left.
    pub dropped: u64,
    /// Repair packets that no path had room for.
    pub repairs_skipped: u64,
    /// Copies that were of use, but no other path had room or would have been in time.
    pub copies_skipped: u64,
}

impl SenderStats {
    /// The bytes beyond those of the frames, as a share of these.
    pub fn overhead(&self) -> f64 {
        let extra = self.copies.bytes + self.hedge.bytes + self.repair.bytes + self.probes.bytes;
        extra as f64 / self.source.bytes.max(1) as f64
    }
}
