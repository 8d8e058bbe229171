//! The `Scheduler` trait and what it answers.

use std::time::Instant;

use crate::StreamId;

use crate::{Acked, Context, Learned, Lost, PathIndex, PathSet, PathUpdate, Sent, StreamUpdate};

/// Decides, packet by packet, which path carries what.
///
/// Asked once per packet on the hot path: nothing in here may allocate, lock, or call the system,
/// and the cost is O(paths). Each direction of a connection schedules for itself.
///
/// Not asked for: ACKs, PATH_CHALLENGE and PATH_RESPONSE, MTU probes, loss probes and
/// CONNECTION_CLOSE, which the transport places itself.
///
/// # Example
///
/// Everything on the path with the lowest slot that has room:
///
/// ```
/// use mpquic_sched_core::{Context, Data, Decision, PathSet, Scheduler};
///
/// struct LowestSlot;
///
/// impl Scheduler for LowestSlot {
///     fn decide(&mut self, cx: &Context<'_>) -> Decision {
///         match cx.sendable().next() {
///             Some(path) => Decision::send(path.index),
///             None => Decision::Wait { until: None },
///         }
///     }
/// }
/// ```
pub trait Scheduler: Send {
    /// Where does the next packet go?
    ///
    /// A decision for a path that cannot send is a bug: the transport closes the connection with
    /// INTERNAL_ERROR and the scheduler's [`name`](Self::name). So it does if the scheduler panics.
    fn decide(&mut self, cx: &Context<'_>) -> Decision;

    /// A packet that `decide` asked for has left.
    fn on_sent(&mut self, _event: &Sent) {}

    /// A packet was acknowledged for the first time.
    fn on_acked(&mut self, _event: &Acked) {}

    /// A packet was declared lost.
    fn on_lost(&mut self, _event: &Lost) {}

    /// A path was opened, validated, changed status, fell into trouble, recovered, or ended.
    fn on_path(&mut self, _event: &PathUpdate) {}

    /// A stream was opened, written, finished, fully acknowledged, reset, or hinted at.
    fn on_stream(&mut self, _event: &StreamUpdate) {}

    /// Whether [`on_stream`](Self::on_stream) is to be called. Asked once, before anything else; those who do not want it
    /// pay nothing for it.
    fn follows_streams(&self) -> bool {
        true
    }

    /// Whether [`Context::streams`] is to be filled. Asked before each batch of packets; those who
    /// do not want it pay nothing for it.
    fn wants_streams(&self) -> bool {
        false
    }

    /// What it is called where something is said of it. By default, the name of its type.
    fn name(&self) -> &'static str {
        let path = std::any::type_name::<Self>();
        let end = path.find('<').unwrap_or(path.len());
        let start = path[..end].rfind("::").map_or(0, |at| at + 2);
        &path[start..]
    }

    /// When [`on_wakeup`](Self::on_wakeup) is to be called, if at all. A time that has come once counts no more: there must be a
    /// later one for another call.
    fn next_wakeup(&self) -> Option<Instant> {
        None
    }

    /// The time of [`next_wakeup`](Self::next_wakeup) has come.
    fn on_wakeup(&mut self, _cx: &Context<'_>) {}

    /// What it has learned so far; `None` from those who do not learn.
    ///
    /// For reports, not for the hot path: it allocates. A scheduler that hands everything to another
    /// one must hand this on, too.
    fn learned(&self) -> Option<Learned> {
        None
    }

    /// For how many packets in a row the last [`decide`](Self::decide) stands, at least 1, which is the default.
    ///
    /// Asked after each decision to send. So many packets leave as that one did, each with a decision number of its own,
    /// and the scheduler is not asked in between: as long as its path [can send](crate::PathView::can_send), something waits
    /// and nothing is to be sent again. It is told of each packet as always. Nothing else happens meanwhile: between two
    /// packets of a run, no time passes, nothing is acknowledged or lost, and of the views that of the path alone changes.
    ///
    /// For schedulers that would say the same each time: the transport then need not bring the queue up to date for each
    /// packet.
    fn run(&self) -> u32 {
        1
    }

    /// Whether the copies that it asks for come out of the connection's purse ([`QueueView::purse`](crate::QueueView::purse)),
    /// and end with it. By default not: what a scheduler asks for is sent. A scheduler that hands everything to another one
    /// must hand this on, too.
    fn heeds_purse(&self) -> bool {
        false
    }

    /// Why the last [`decide`](Self::decide) asked for copies; for the connection's statistics.
    fn copies_for(&self) -> CopyCause {
        CopyCause::Asked
    }

    /// Why the last [`decide`](Self::decide) said what it did, in a word or two: `"fast full, waiting is sooner"`. `None`
    /// from those who do not say.
    ///
    /// Asked after each decision, and only while somebody looks at the connection: what it takes to tell should be there
    /// already, or cost next to nothing to keep. A scheduler that hands everything to another one must hand this on, too.
    fn why(&self) -> Option<&'static str> {
        None
    }
}

/// What copies are for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum CopyCause {
    /// A reason of the scheduler's own.
    #[default]
    Asked,
    /// What they carry might miss its deadline on one path.
    Deadline,
    /// To see whether what is believed of a path still holds.
    Probe,
    /// So little that it costs nothing, and may be sooner.
    Least,
    /// What they carry is late on another path.
    Late,
    /// Nothing is left to send, and they arrive sooner than what they repeat.
    Tail,
}

/// What a scheduler answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// Send one packet.
    Send {
        /// The path that carries it. Its [`can_send`](crate::PathView::can_send) must be true.
        path: PathIndex,
        /// What it carries.
        data: Data,
        /// Paths that carry a copy of its stream data too; those that cannot send, or that have
        /// carried the data before, are left out.
        copies: PathSet,
    },
    /// Send nothing now, although a path could.
    ///
    /// Asked again at the next ack, loss, write or path event, or at `until`. A scheduler that
    /// waits for ever with a usable path and nothing in flight is overridden after one PTO.
    Wait {
        /// When to ask again at the latest.
        until: Option<Instant>,
    },
}

impl Decision {
    /// One packet of the transport's own choice on `path`, no copies.
    #[inline]
    pub const fn send(path: PathIndex) -> Self {
        Self::send_data(path, Data::Next)
    }

    /// One packet of this kind on `path`, no copies.
    #[inline]
    pub const fn send_data(path: PathIndex, data: Data) -> Self {
        Self::Send {
            path,
            data,
            copies: PathSet::EMPTY,
        }
    }
}

/// What a scheduled packet carries.
///
/// Whatever is asked for, control frames that wait go along. If there is nothing of the kind asked
/// for, nothing is sent, and the path counts as one that cannot send until something changes: the
/// scheduler is asked for the others, and may wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Data {
    /// The transport's own order: control frames, datagrams, retransmissions, then new data by
    /// stream priority.
    Next,
    /// The same without new stream data: control frames, datagrams and retransmissions. For
    /// schedulers that hold new data back for another path (BLEST, ECF).
    Retransmit,
    /// Control frames and datagrams only (schedulers that leave each path to certain streams).
    Control,
    /// Data of this stream only, what is to be sent again first (stream-based minRTT, SA-ECF,
    /// SAILfish).
    Stream(StreamId),
    /// New data, leaving a gap of so many unsent bytes before it for a faster path (DAPS, STMS,
    /// GAPS). The gap lies in the order in which new data would be sent: by priority, and streams of
    /// equal priority in step. A gap at or beyond the end of what is written sends nothing.
    Ahead(u64),
    /// A copy of the oldest stream data in flight on other paths that this path has not carried
    /// (opportunistic retransmission, tail loss).
    Reinject,
    /// The oldest data that this path has not carried and that nobody has acknowledged (redundant
    /// sending): what is to be sent again, then copies as [`Reinject`](Self::Reinject) sends them,
    /// then new data. While this is what is sent, each path repeats what it has lost, also if another one has a copy in
    /// flight.
    Redundant,
}

impl Data {
    /// Whether data in flight may be sent once more though nothing waits to be sent.
    #[inline]
    pub const fn is_copy(self) -> bool {
        matches!(self, Self::Reinject | Self::Redundant)
    }
}
