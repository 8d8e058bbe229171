//! Gives decisions to wait or to transmit their late rewards, out of the events of a connection.

use std::time::{Duration, Instant};

use mpquic_bandit::{DecisionSlot, FirstPacket, Horizon, PacketSlot, Settlement};
use serde::{Deserialize, Serialize};

use super::features::{DIMENSIONS, Features, reference_time};
use super::own_packets::OwnPackets;
use crate::support::nanos;
use crate::{Acked, Arm, Context, PathIndex, PathView, Sent, StreamUpdate, StreamUpdateKind};

/// What a decision earns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reward {
    /// The discounted in-order rates of the packets after it
    /// ([`DiscountedReward`](mpquic_bandit::DiscountedReward)): the paper's, Algorithm 1, with the
    /// first packet counted from the decision.
    #[default]
    Discounted,
    /// As [`Discounted`](Self::Discounted), but what counts of each packet is the time until its own acknowledgement
    /// ([`Horizon::OwnAck`](mpquic_bandit::Horizon::OwnAck)), however long its data then waits for what is missing
    /// before it. The other reading of Algorithm 1: r is "from the transmission to the reception of the ACK", and only
    /// when it counts depends on the order. A packet that was lost has no such time; its release counts.
    OwnAck,
    /// The rate of the first packet after it alone, from the decision to its release in order, as
    /// in the public code that goes with the paper. However long that takes: until then,
    /// nothing is learned from the decisions after it.
    Packet,
    /// As [`Discounted`](Self::Discounted), but a packet that comes too late counts for nothing
    /// (ours, beyond the paper; for real-time messages, each of which is a stream of its own with a
    /// deadline hint). A packet's deadline is that of the stream at the head of the queue
    /// ([`StreamHead::deadline`](crate::StreamHead::deadline)) when the packet was decided on;
    /// without one it is never late. It arrived, as far as the sender can know, half way in time
    /// between when the packet that released it, itself or what filled the hole before it, was
    /// sent and when that was acknowledged. Late packets discount those after them all the same.
    Deadline,
    /// The rate of what arrives in order over all paths within 1.5 T_ref of the decision, or until all is
    /// there: [`Horizon::Goodput`](mpquic_bandit::Horizon::Goodput) (ours, beyond the paper). The
    /// other rewards rate packets one by one, and so prefer waiting even where the slow path adds to
    /// what arrives. This one finds when to stop using a slow path at the end of the data; what the
    /// slow path adds to a long transfer is small per packet, and it learns it badly.
    Goodput,
}

/// A decision that waits for its reward. `M` is the scheduler's own: which stage it belongs to, say.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Case<M> {
    pub(crate) fast: PathIndex,
    pub(crate) slow: PathIndex,
    pub(crate) arm: Arm,
    pub(crate) mark: M,
    pub(crate) context: Features,
}

/// A decision and what it earned.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Earned<'a, M> {
    /// The decision's number.
    pub(crate) decision: u64,
    pub(crate) case: &'a Case<M>,
    /// In units of the scale.
    pub(crate) reward: f64,
}

/// Decisions that wait at most; as many as a full log of packets can be for if every fourth packet is
/// one of its own.
const DECISIONS: usize = 1024;
/// Packets of new data, from the oldest open decision on, that are waited for at most: some 6 MB.
const PACKETS: usize = 4096;

type Ledger<M> = Settlement<Case<M>, Box<[DecisionSlot<Case<M>>]>, Box<[PacketSlot]>>;

impl<M: Default> Default for Case<M> {
    /// What is in a slot before there is a decision in it.
    fn default() -> Self {
        const NONE: PathIndex = PathIndex::new(0).unwrap();
        Self {
            fast: NONE,
            slow: NONE,
            arm: Arm::Send,
            mark: M::default(),
            context: [0.0; DIMENSIONS],
        }
    }
}

/// The open decisions of a connection, over all pairs of paths, settled in the order in which they
/// were made.
///
/// Data is taken to be one sequence, in the order in which it was first sent: contiguous bytes are
/// added up over all streams. With streams of different priority this is an approximation: a packet
/// counts as released once as many bytes as were sent up to it are contiguous, whichever stream
/// they are of. Datagrams carry no stream bytes and count for nothing.
///
/// A stream that is reset ends all open decisions without a reward, see [`Settlement::restart`].
///
/// Some 200 KiB (96 KiB more for [`Reward::OwnAck`]), which [`make_room`](Self::make_room) allocates, once there is more than one path.
#[derive(Debug, Clone)]
pub(crate) struct Rewards<M> {
    reward: Reward,
    first: FirstPacket,
    scale: f64,
    ledger: Option<Box<Ledger<M>>>,
    /// Which packets the ledger has, for [`Reward::OwnAck`].
    own: Option<OwnPackets>,
    /// `None` before the first event.
    clock: Option<Clock>,
    /// The deadline of what is sent next, milliseconds.
    due: f64,
    /// Bytes sent and not contiguous yet, while there is no ledger, which counts its own. Unknown, which is infinite, from
    /// when a stream was reset.
    outstanding: f64,
}

/// The time in milliseconds since the first event.
#[derive(Debug, Clone, Copy)]
struct Clock {
    /// The last time that was asked for, and how much that is.
    latest: Instant,
    millis: f64,
    epoch: Instant,
}

impl Clock {
    #[inline(always)]
    fn advance(&mut self, at: Instant) -> f64 {
        // Stored first, so that nothing of it is kept through the subtraction, which is a call.
        self.latest = at;
        self.millis = match self.latest.checked_duration_since(self.epoch) {
            Some(after) => signed_nanos(after) / 1e6,
            None => before(&self.epoch, &self.latest),
        };
        self.millis
    }
}

impl<M: Copy + Default> Rewards<M> {
    /// No decision is open. Rewards are in `scale` bytes per millisecond.
    pub(crate) const fn new(reward: Reward, first: FirstPacket, scale: f64) -> Self {
        Self {
            reward,
            first,
            scale,
            ledger: None,
            own: None,
            clock: None,
            due: f64::INFINITY,
            outstanding: 0.0,
        }
    }

    /// Allocates what it needs, if it has not.
    pub(crate) fn make_room(&mut self) {
        let horizon = match self.reward {
            Reward::Discounted | Reward::Deadline => Horizon::Discounted,
            Reward::OwnAck => Horizon::OwnAck,
            Reward::Packet => Horizon::FirstPacket,
            Reward::Goodput => Horizon::Goodput,
        };
        if self.ledger.is_none() {
            let decisions = vec![DecisionSlot::default(); DECISIONS].into_boxed_slice();
            let packets = vec![PacketSlot::default(); PACKETS].into_boxed_slice();
            let ledger = Settlement::new(horizon, decisions, packets);
            let mut ledger = Box::new(ledger.counting_from(self.first));
            self.own = (self.reward == Reward::OwnAck).then(|| OwnPackets::new(PACKETS));
            // Before any decision it is only summed up, whenever it was.
            if self.outstanding.is_finite() {
                ledger.sent(0.0, self.outstanding);
                self.outstanding = 0.0;
            }
            self.ledger = Some(ledger);
        }
    }

    /// Milliseconds since the first event.
    #[inline]
    pub(crate) fn millis(&mut self, at: Instant) -> f64 {
        match self.clock {
            // Most events share their time with the one before.
            Some(clock) if clock.latest == at => clock.millis,
            _ => self.millis_anew(at),
        }
    }

    /// The same of another time than the last.
    #[inline(never)]
    fn millis_anew(&mut self, at: Instant) -> f64 {
        self.advance(at)
    }

    #[inline(always)]
    fn advance(&mut self, at: Instant) -> f64 {
        match &mut self.clock {
            Some(clock) => clock.advance(at),
            None => self.begin(at),
        }
    }

    #[cold]
    #[inline(never)]
    fn begin(&mut self, at: Instant) -> f64 {
        let clock = self.clock.insert(Clock {
            epoch: at,
            latest: at,
            millis: 0.0,
        });
        clock.millis
    }

    /// The last event's time.
    pub(crate) fn latest(&self) -> Option<Instant> {
        self.clock.map(|clock| clock.latest)
    }

    /// To be called at every decision: what is sent next may have a deadline.
    #[inline]
    pub(crate) fn asked(&mut self, cx: &Context<'_>) {
        if self.reward == Reward::Deadline {
            let deadline = cx.queue.head.and_then(|head| head.deadline);
            self.due = match deadline {
                Some(deadline) => self.millis(deadline),
                None => f64::INFINITY,
            };
        }
    }

    /// A decision between these paths was made. Returns its reference time.
    #[inline]
    pub(crate) fn decided(
        &mut self,
        cx: &Context<'_>,
        fast: &PathView,
        slow: &PathView,
        case: Case<M>,
    ) -> f64 {
        let reference = reference_time(fast, slow);
        let now = self.millis(cx.now);
        if self.ledger.is_none() {
            // Paths that were never announced; a transport announces them.
            self.make_room();
        }
        if let Some(ledger) = &mut self.ledger {
            ledger.open(cx.decision, now, reference, case);
        }
        reference
    }

    #[inline]
    pub(crate) fn on_sent(&mut self, event: &Sent) {
        let (now, due) = (self.millis(event.now), self.due);
        let amount = f64::from(event.new_bytes);
        let Some(ledger) = &mut self.ledger else {
            self.outstanding += amount;
            return;
        };
        let number = ledger.sent_until(now, amount, due);
        if let (Some(own), Some(number)) = (&mut self.own, number) {
            own.push(event.decision, event.path, number);
        }
    }

    /// Returns the [time](Self::millis).
    #[inline]
    pub(crate) fn on_acked(&mut self, event: &Acked) -> f64 {
        let now = match self.clock {
            Some(clock) if clock.latest == event.now => clock.millis,
            // In line: the one that all wait for, and where acknowledgements come one by one, each has its own time.
            _ => self.advance(event.now),
        };
        match self.reward {
            Reward::Deadline | Reward::OwnAck => self.on_packet(event, now),
            _ => self.released(now, now, event.contiguous),
        }
        now
    }

    /// So many bytes are contiguous now that arrived then.
    #[inline(always)]
    fn released(&mut self, now: f64, arrival: f64, bytes: u64) {
        let amount = signed(bytes);
        match &mut self.ledger {
            Some(ledger) => ledger.arrived_at(now, arrival, amount),
            None => self.outstanding = (self.outstanding - amount).max(0.0),
        }
    }

    /// An acknowledgement where the packet that it is for matters by itself.
    #[inline(never)]
    fn on_packet(&mut self, event: &Acked, now: f64) {
        let mut arrival = now;
        if self.reward == Reward::Deadline {
            let sent = self.millis(event.sent);
            // The last event is this one.
            if let Some(clock) = &mut self.clock {
                (clock.latest, clock.millis) = (event.now, now);
            }
            arrival = 0.5 * (now + sent);
        }
        if let (Some(ledger), Some(own), Some(decision)) =
            (&mut self.ledger, &self.own, event.decision)
            && let Some(number) = own.number(decision, event.path)
        {
            ledger.acknowledged(number, now);
        }
        self.released(now, arrival, event.contiguous);
    }

    pub(crate) fn on_stream(&mut self, event: &StreamUpdate) {
        if event.kind == StreamUpdateKind::Reset {
            self.outstanding = f64::INFINITY;
            if let Some(ledger) = &mut self.ledger {
                ledger.restart();
            }
        }
    }

    /// A path ended: decisions that it was part of are not settled.
    pub(crate) fn forget(&mut self, path: PathIndex) {
        if let Some(ledger) = &mut self.ledger {
            ledger.drop_those(|case| case.fast == path || case.slow == path);
        }
    }

    /// Whether a reward may be complete at this time, in [milliseconds](Self::millis).
    #[inline(always)]
    pub(crate) fn may_settle(&self, now: f64) -> bool {
        self.ledger
            .as_ref()
            .is_some_and(|ledger| ledger.may_settle(now))
    }

    /// Hands out each decision whose reward is complete at this time, in [milliseconds](Self::millis), oldest first.
    #[inline(always)]
    pub(crate) fn settle(&mut self, now: f64, mut take: impl FnMut(&Earned<'_, M>)) {
        if let Some(ledger) = &mut self.ledger {
            ledger.settle_each(now, |settled| {
                take(&Earned {
                    decision: settled.key,
                    case: settled.what,
                    reward: settled.reward / self.scale,
                });
            });
        }
    }

    /// The last event's time, if decisions whose time is not over are to be [settled](Self::settle) by what has arrived
    /// at the end of a connection. Not if something is still under way, which they would be blamed for.
    pub(crate) fn last(&self) -> Option<Instant> {
        let of_ledger = self.ledger.as_ref().map_or(0.0, |l| l.under_way());
        let latest = self.latest();
        latest.filter(|_| self.outstanding + of_ledger <= 0.0)
    }

    /// Whether the next packet may cost the oldest decisions their place.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.ledger.as_ref().is_some_and(|ledger| ledger.is_full())
    }

    /// Decisions that were never settled: of paths that ended, at a reset, or for want of room.
    pub(crate) fn dropped(&self) -> u64 {
        self.ledger.as_ref().map_or(0, |ledger| ledger.dropped())
    }
}

/// The number, below 2^63: of any `u64`, it would take six instructions more.
#[inline(always)]
const fn signed(number: u64) -> f64 {
    number.cast_signed() as f64
}

/// [`nanos`] of less than 2^63 seconds.
#[inline(always)]
fn signed_nanos(duration: Duration) -> f64 {
    signed(duration.as_secs()) * 1e9 + f64::from(duration.subsec_nanos())
}

/// Of something that was sent before the first event.
#[cold]
#[inline(never)]
fn before(epoch: &Instant, at: &Instant) -> f64 {
    -nanos(epoch.duration_since(*at)) / 1e6
}
