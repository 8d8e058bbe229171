//! What a scheduler sees when it is asked: the paths, the queue, the time; borrowed, never copied.

use std::time::{Duration, Instant};

use crate::StreamId;

use crate::{MAX_PATHS, PathId, PathIndex, PathKey, PathSet};

/// All that a decision may rest on.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Context<'a> {
    /// The time of the decision.
    pub now: Instant,
    /// One view per slot; the place in the slice is the path's [`PathIndex`]. A slot without a
    /// path has [`open`](PathView::open) false and cannot send.
    pub paths: &'a [PathView],
    /// What there is to send.
    pub queue: &'a QueueView,
    /// The streams with data to send, in the order in which the transport would serve them: first
    /// those with new data, by descending priority and by turns among equals, then those with
    /// nothing but data to be sent again. [`MAX_STREAM_VIEWS`] of them at most.
    ///
    /// Empty unless [`Scheduler::wants_streams`](crate::Scheduler::wants_streams) says otherwise.
    pub streams: &'a [StreamView],
    /// The number of this decision, from 0, counted over the connection's life; events name it.
    pub decision: u64,
}

impl<'a> Context<'a> {
    /// A context of the given parts and of no streams. For transports, and for tests of
    /// schedulers.
    ///
    /// # Panics
    ///
    /// In debug builds, if `paths` has more than [`MAX_PATHS`] entries.
    pub fn new(now: Instant, paths: &'a [PathView], queue: &'a QueueView, decision: u64) -> Self {
        debug_assert!(paths.len() <= MAX_PATHS);
        Self {
            now,
            paths,
            queue,
            streams: &[],
            decision,
        }
    }

    /// The same context with these streams.
    #[inline]
    pub const fn with_streams(mut self, streams: &'a [StreamView]) -> Self {
        self.streams = streams;
        self
    }

    /// The view of a slot, if it lies within [`paths`](Self::paths).
    #[inline]
    pub fn path(&self, index: PathIndex) -> Option<&'a PathView> {
        self.paths.get(index.get())
    }

    /// The open paths, in ascending order of their slots.
    #[inline]
    pub fn open(&self) -> impl Iterator<Item = &'a PathView> + use<'a> {
        self.paths.iter().filter(|path| path.open)
    }

    /// Folds over the usable paths, those open ones with the best
    /// [standing](PathView::standing), with room or without, in ascending order of their slots.
    ///
    /// One walk: where a path turns out to stand better than those before it, what was found is
    /// thrown away and `start` called anew. Standings change rarely, so that this branch is
    /// foreseen.
    #[inline]
    pub fn fold_usable<T>(
        &self,
        start: impl Fn() -> T,
        mut each: impl FnMut(&mut T, &'a PathView),
    ) -> T {
        let mut standing = u8::MAX;
        let mut found = start();
        for path in self.open() {
            if path.standing() != standing {
                if path.standing() > standing {
                    continue;
                }
                standing = path.standing();
                found = start();
            }
            each(&mut found, path);
        }
        found
    }

    /// The paths that can take a packet now and that the preferences allow: those with the best
    /// standing among the open ones, as [`standing`](PathView::standing) ranks them (available
    /// before backup, healthy before suspect; RFC 10069, Path Status Management).
    /// In ascending order of their slots.
    ///
    /// A backup path is thus offered only while no healthy available path is open, and a full
    /// available path is waited for rather than spilled over to a backup.
    #[inline]
    pub fn sendable(&self) -> impl Iterator<Item = &'a PathView> + use<'a> {
        let paths = self.paths;
        self.sendable_set()
            .iter()
            .map(move |path| &paths[path.get()])
    }

    /// The same paths as [`sendable`](Self::sendable), as a set; the cheaper form.
    ///
    /// One walk. Which paths are open and how they stand changes rarely, and branches on it are
    /// foreseen; which have room changes from packet to packet, and is not branched on.
    #[inline]
    pub fn sendable_set(&self) -> PathSet {
        let paths = &self.paths[..self.paths.len().min(MAX_PATHS)];
        let (mut open, mut ready) = (false, 0_u32);
        let mut bit = 1_u32;
        for path in paths {
            if path.open && path.standing() == 0 {
                open = true;
                ready |= if path.can_send { bit } else { 0 };
            }
            bit <<= 1;
        }
        if open {
            return PathSet::from_bits(ready as u16);
        }
        self.sendable_without_best()
    }

    /// [`sendable_set`](Self::sendable_set) where no open path is both available and healthy.
    #[cold]
    fn sendable_without_best(&self) -> PathSet {
        let best = self.open().map(PathView::standing).min();
        let mut set = PathSet::EMPTY;
        for path in self.open() {
            if path.can_send && Some(path.standing()) == best {
                set.insert(path.index);
            }
        }
        set
    }
}

/// How the endpoints prefer to use a path (RFC 10069, PATH_STATUS_AVAILABLE and PATH_STATUS_BACKUP).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Hash)]
pub enum PathStatus {
    /// Used for data.
    #[default]
    Available,
    /// Used for data only if no available path is usable.
    Backup,
}

/// One path as the sender knows it.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct PathView {
    /// The path's slot.
    pub index: PathIndex,
    /// The path ID on the wire (RFC 10069); never reused within a connection.
    pub id: PathId,
    /// Its name across connections, by the hosts at its ends; changes if the peer moves.
    pub key: Option<PathKey>,
    /// Whether the slot holds a path that is validated and not abandoned.
    pub open: bool,
    /// Whether congestion window, pacer and anti-amplification limit allow one full packet now.
    pub can_send: bool,
    /// Whether the path is in trouble: consecutive PTOs, or silence longer than expected.
    pub suspect: bool,
    /// The peer's preference, or ours where the peer has said nothing.
    pub status: PathStatus,
    /// When the pacer lets the next packet go, if the pacer is what holds it back.
    pub next_release: Option<Instant>,
    /// RFC 9002 section 5.3, but zero before the first sample: the assumed initial RTT is no
    /// measurement, and [`has_rtt`](Self::has_rtt) tells by it. A sample of zero is given as 1 ns.
    pub smoothed_rtt: Duration,
    /// The newest RTT sample.
    pub latest_rtt: Duration,
    /// The smallest RTT sample.
    pub min_rtt: Duration,
    /// RFC 9002 section 5.3.
    pub rtt_var: Duration,
    /// The probe timeout now, without back-off (RFC 9002 section 6.2.1).
    pub pto: Duration,
    /// Probe timeouts in a row without an acknowledgement.
    pub pto_count: u32,
    /// Congestion window, bytes.
    pub cwnd: u64,
    /// Slow start threshold, bytes; `u64::MAX` before the first congestion event and before slow
    /// start ended in another way: the path is in its initial slow start then.
    pub ssthresh: u64,
    /// Bytes in flight.
    pub in_flight: u64,
    /// The largest UDP payload that the path takes, bytes.
    pub mtu: u16,
    /// Packets sent.
    pub sent_packets: u64,
    /// Packets declared lost.
    pub lost_packets: u64,
    /// Packets that carried retransmitted or copied data.
    pub retransmitted_packets: u64,
    /// Bytes of acknowledged packets.
    pub delivered_bytes: u64,
    /// The newest estimate of what the path delivers, bytes per second; 0 before the first.
    pub delivery_rate: u64,
    /// The pace that the congestion controller sets by itself, bytes per second; 0 if it goes by the
    /// window. With one of its own (BBR), the window only caps what may be in flight, and may be
    /// twice what the path carries: see [`capacity`](Self::capacity).
    pub pacing_rate: u64,
    /// When a packet of this path was last acknowledged.
    pub last_acked: Option<Instant>,
    /// When an ack-eliciting packet was last sent on this path.
    pub last_sent: Option<Instant>,
    /// The newest RTT samples.
    pub rtt_history: RttHistory,
    /// The round trip without a queue: the smallest RTT sample of the last 5 to 10 s. Zero if nobody keeps it: see
    /// [`base`](Self::base).
    pub base_rtt: Duration,
    /// How long a packet stands in a queue that others have filled, in either direction; zero while none is known of.
    pub others_queue: Duration,
    /// When that was last looked at: a packet was acknowledged that met hardly any of our own bytes.
    pub others_seen: Option<Instant>,
    /// What the path's bottleneck lets through, bytes per second: how fast packets arrived that left faster. Before any did,
    /// what earlier connections saw of that; 0 if nobody did.
    pub bottleneck: u64,
    /// The round trip with which earlier connections began on this path; zero if none is known of.
    pub saved_rtt: Duration,
}

impl PathView {
    /// From here on, [`rtt_rank`](Self::rtt_rank) is that of a path without an RTT sample.
    pub(crate) const UNTESTED: u64 = 1 << 63;

    /// An open path with room and with this smoothed RTT, its path ID the slot's number, all else as
    /// [`closed`](Self::closed) has it; for tests and examples.
    ///
    /// # Panics
    ///
    /// If `slot` is not below [`MAX_PATHS`].
    pub const fn of(slot: usize, smoothed_rtt: Duration) -> Self {
        let Some(index) = PathIndex::new(slot) else {
            panic!("a slot below MAX_PATHS");
        };
        let mut view = Self::closed(index);
        (view.open, view.can_send) = (true, true);
        view.id = PathId(slot as u32);
        view.smoothed_rtt = smoothed_rtt;
        view
    }

    /// A slot without a path.
    pub const fn closed(index: PathIndex) -> Self {
        Self {
            index,
            id: PathId::ZERO,
            key: None,
            open: false,
            can_send: false,
            suspect: false,
            status: PathStatus::Available,
            next_release: None,
            smoothed_rtt: Duration::ZERO,
            latest_rtt: Duration::ZERO,
            min_rtt: Duration::ZERO,
            rtt_var: Duration::ZERO,
            pto: Duration::ZERO,
            pto_count: 0,
            cwnd: 0,
            ssthresh: u64::MAX,
            in_flight: 0,
            mtu: 1200,
            sent_packets: 0,
            lost_packets: 0,
            retransmitted_packets: 0,
            delivered_bytes: 0,
            delivery_rate: 0,
            pacing_rate: 0,
            last_acked: None,
            last_sent: None,
            rtt_history: RttHistory::new(),
            base_rtt: Duration::ZERO,
            others_queue: Duration::ZERO,
            others_seen: None,
            bottleneck: 0,
            saved_rtt: Duration::ZERO,
        }
    }

    /// The round trip without a queue: the smallest RTT sample of the last seconds if it is kept, or else that of all.
    #[inline]
    pub const fn base(&self) -> Duration {
        if self.base_rtt.is_zero() {
            self.min_rtt
        } else {
            self.base_rtt
        }
    }

    /// The smoothed RTT; before the first sample, the round trip with which earlier connections began. Zero if nothing is known.
    #[inline]
    pub const fn known_rtt(&self) -> Duration {
        if self.has_rtt() {
            self.smoothed_rtt
        } else {
            self.saved_rtt
        }
    }

    /// Rank by preference, lowest is best: available and healthy, backup and healthy, available
    /// and suspect, backup and suspect.
    #[inline]
    pub const fn standing(&self) -> u8 {
        (self.suspect as u8) << 1 | matches!(self.status, PathStatus::Backup) as u8
    }

    /// The order of [`MinRtt`](crate::MinRtt)'s choice as one number below `u64::MAX`, lowest
    /// first: the smoothed RTT, or, above all of these, the number of packets sent on a path
    /// without a sample.
    #[inline]
    pub fn rtt_rank(&self) -> u64 {
        let rtt = self.packed_rtt();
        if rtt == 0 {
            Self::UNTESTED | self.sent_packets.min(Self::UNTESTED - 2)
        } else {
            rtt
        }
    }

    /// The smoothed RTT as one number in the order of RTTs; 0 if there is none.
    #[inline]
    pub(crate) const fn packed_rtt(&self) -> u64 {
        // Nanoseconds of a second fit in 30 bits, and 272 years of seconds in the 33 above. Packing
        // costs less than multiplying.
        self.smoothed_rtt.as_secs() << 30 | self.smoothed_rtt.subsec_nanos() as u64
    }

    /// Whether an RTT sample has been taken on this path.
    #[inline]
    pub const fn has_rtt(&self) -> bool {
        !self.smoothed_rtt.is_zero()
    }

    /// What the path carries in a smoothed RTT, bytes, as the congestion controller sees it: the
    /// window, or less where it sets a pace of its own.
    #[inline]
    pub fn capacity(&self) -> u64 {
        if self.pacing_rate == 0 {
            return self.cwnd;
        }
        let paced = self.pacing_rate as f64 * self.smoothed_rtt.as_secs_f64();
        self.cwnd.min(paced as u64)
    }

    /// Room left in the congestion window, bytes.
    #[inline]
    pub const fn window_left(&self) -> u64 {
        self.cwnd.saturating_sub(self.in_flight)
    }
}

/// The newest RTT samples of a path, in microseconds, newest first.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RttHistory {
    samples: [u32; Self::CAPACITY],
    next: u8,
    len: u8,
}

impl RttHistory {
    /// How many samples are kept.
    pub const CAPACITY: usize = 8;

    /// No sample yet.
    pub const fn new() -> Self {
        Self {
            samples: [0; Self::CAPACITY],
            next: 0,
            len: 0,
        }
    }

    /// Takes in a sample; the oldest one goes when full. Beyond 71 minutes it saturates.
    #[inline]
    pub fn push(&mut self, rtt: Duration) {
        self.samples[usize::from(self.next)] = u32::try_from(rtt.as_micros()).unwrap_or(u32::MAX);
        self.next = (self.next + 1) % Self::CAPACITY as u8;
        self.len = (self.len + 1).min(Self::CAPACITY as u8);
    }

    /// The samples in microseconds, newest first.
    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        let newest = usize::from(self.next) + Self::CAPACITY - 1;
        (0..usize::from(self.len)).map(move |age| self.samples[(newest - age) % Self::CAPACITY])
    }
}

/// What there is to send, over all streams.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct QueueView {
    /// Bytes written and not yet sent for the first time, within the stream windows.
    pub unsent: u64,
    /// Bytes declared lost, or in flight on a path in trouble, waiting to be sent again.
    pub retransmittable: u64,
    /// What the peer's connection window still allows of new data, bytes.
    pub window_left: u64,
    /// What the peer's windows, the connection's and the streams', still allow of new data, bytes:
    /// [`window_left`](Self::window_left), or less if the streams that have data or want to write
    /// have less left in their own windows. A stream that is finished fits in its window.
    pub flow_control_window: u64,
    /// The path with the oldest packet in flight, while the peer's windows are all that keeps new
    /// data back: the one that holds the sender up. `None` while new data may go, or there is none.
    pub blocked_by: Option<PathIndex>,
    /// Bytes acknowledged out of order: the receiver's out-of-order queue as the sender can know it.
    pub out_of_order: u64,
    /// Stream bytes in flight and not acknowledged, over all paths.
    pub in_flight: u64,
    /// Whether control frames or datagrams wait.
    pub control: bool,
    /// How many bytes may be sent twice before new data must be: what is left of the connection's purse for copies.
    pub purse: u64,
    /// The stream whose data goes next.
    pub head: Option<StreamHead>,
}

/// The stream whose data goes next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct StreamHead {
    /// Which stream.
    pub id: StreamId,
    /// Its priority; higher goes first.
    pub priority: i32,
    /// Bytes written to it and not yet sent.
    pub remaining: u64,
    /// The application's deadline for it, if it hinted one.
    pub deadline: Option<Instant>,
    /// The application's chunk number for it, if it hinted one.
    pub chunk: Option<u64>,
}

impl StreamHead {
    /// A head of the given parts.
    pub const fn new(
        id: StreamId,
        priority: i32,
        remaining: u64,
        deadline: Option<Instant>,
        chunk: Option<u64>,
    ) -> Self {
        Self {
            id,
            priority,
            remaining,
            deadline,
            chunk,
        }
    }
}

/// How many streams [`Context::streams`] has at most: a decision costs no more with thousands of
/// them. Streams that were served go behind their equals, so that the others come into view.
pub const MAX_STREAM_VIEWS: usize = 64;

/// One stream that has data to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct StreamView {
    /// Which stream.
    pub id: StreamId,
    /// Its priority; higher goes first.
    pub priority: i32,
    /// Bytes written to it and not yet sent for the first time, within its window; the end of the
    /// stream counts as one. The connection's window, [`QueueView::window_left`], may allow less.
    pub unsent: u64,
    /// Its bytes declared lost, or in flight on a path in trouble, waiting to be sent again.
    pub retransmittable: u64,
    /// The highest offset that was sent, bytes.
    pub sent: u64,
    /// How many bytes it will have in all, if the application hinted it.
    pub size: Option<u64>,
    /// By when the receiver should have all of it, if the application hinted it.
    pub deadline: Option<Instant>,
    /// The number of the chunk that it carries, if the application hinted it.
    pub chunk: Option<u64>,
    /// The application's own word to its scheduler, if it hinted one.
    pub tag: Option<u64>,
}

impl StreamView {
    /// A stream with so many bytes never sent, none of it sent before, and without hints.
    pub const fn new(id: StreamId, priority: i32, unsent: u64) -> Self {
        Self {
            id,
            priority,
            unsent,
            retransmittable: 0,
            sent: 0,
            size: None,
            deadline: None,
            chunk: None,
            tag: None,
        }
    }

    /// Whether the first bytes have been sent.
    #[inline]
    pub const fn started(&self) -> bool {
        self.sent > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(slot: usize) -> PathView {
        PathView::of(slot, Duration::ZERO)
    }

    #[test]
    fn the_capacity_is_the_window_or_what_the_pace_puts_in_flight() {
        let mut path = view(0);
        path.cwnd = 30_000;
        path.smoothed_rtt = Duration::from_millis(20);
        assert_eq!(path.capacity(), 30_000);
        path.pacing_rate = 1_000_000;
        assert_eq!(path.capacity(), 20_000);
        path.pacing_rate = 2_000_000;
        assert_eq!(path.capacity(), 30_000);
        path.pacing_rate = u64::MAX;
        path.smoothed_rtt = Duration::MAX;
        assert_eq!(path.capacity(), 30_000);
    }

    #[test]
    fn backup_is_offered_only_when_no_available_path_is_healthy() {
        let mut paths = [view(0), view(1)];
        paths[1].status = PathStatus::Backup;
        let queue = QueueView::default();
        let sendable = |paths: &[PathView]| {
            Context::new(Instant::now(), paths, &queue, 0)
                .sendable()
                .map(|path| path.index.get())
                .collect::<Vec<_>>()
        };
        assert_eq!(sendable(&paths), [0]);
        paths[0].can_send = false;
        assert_eq!(sendable(&paths), Vec::<usize>::new());
        paths[0].suspect = true;
        assert_eq!(sendable(&paths), [1]);
        paths[1].open = false;
        paths[0].can_send = true;
        assert_eq!(sendable(&paths), [0]);
    }

    #[test]
    fn rtt_history_keeps_the_newest() {
        let mut history = RttHistory::new();
        for ms in 1..=10 {
            history.push(Duration::from_millis(ms));
        }
        let samples: Vec<_> = history.iter().collect();
        assert_eq!(
            samples,
            [10_000, 9_000, 8_000, 7_000, 6_000, 5_000, 4_000, 3_000]
        );
    }
}
