//! Pairs rewards that come late with the decisions that earned them, in order.

use core::marker::PhantomData;

use crate::packets::{AMOUNT, DUE_OR_RATE, PacketSlot, Packets, TIME, weighted, weighted_at_once};
use crate::reward::{self, DiscountedReward, MOST_PACKETS};

/// Which packets after a decision make up its reward.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Horizon {
    /// As [`DiscountedReward`] sums them up.
    #[default]
    Discounted,
    /// As `Discounted`, but each packet's rate is over the time until it was [acknowledged
    /// itself](Settlement::acknowledged), which may be long before its release: `r_i = b_i / (k_i - s_i)`. It still
    /// counts only once it is released, and discounts those after it as of then. A packet that was lost has no
    /// acknowledgement of its own: its release counts.
    ///
    /// The other reading of Algorithm 1, which defines r "from the transmission to the reception of the ACK" and
    /// withholds only what is not new in order.
    OwnAck,
    /// The first alone, without a discount or a time limit: amount / (release −
    /// decision). A decision whose first packet is never released blocks all later ones.
    FirstPacket,
    /// No single packets: the rate of all that arrives in order in a window W of one and a half reference
    /// times after the decision, whenever it was sent:
    ///
    /// ```text
    /// R = Σ b_i / min(W, a - t0)     over 0 <= a_i - t0 <= W
    /// ```
    ///
    /// with b_i the amounts that [arrive](Settlement::arrived) at a_i, and a the last of these if all that was
    /// [sent](Settlement::sent) has arrived by then, else no limit. A steady rate ρ has R = ρ for any
    /// delay: data that waits in order for a slower path's data loses nothing while the rate is
    /// steady. What both paths carry together counts. [`Discounted`](Self::Discounted) rates packets
    /// one by one instead, so that a second path that delays the first one's data always looks bad,
    /// even if it adds to the rate. If the data ends within W, an earlier completion is better.
    ///
    /// Ours. Settled after W, by a running sum: O(log n) for a decision with n arrivals after it.
    Goodput,
}

/// From when the first packet after a decision is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
pub enum FirstPacket {
    /// From the decision, so that time spent waiting costs something (ours).
    #[default]
    Decision,
    /// From its transmission, as all others (the letter of Algorithm 1).
    Sending,
}

/// How long [`Horizon::Goodput`] looks, in reference times. Found by trial of 1.5 and 3 with Peekaboo's figure
/// 5: what a slow path's packet holds up is over by then, and what comes later is noise.
const WINDOW: f64 = 1.5;

/// Decisions that wait for their reward, and the packets that it is made of.
///
/// A transport reports the amounts that were [sent](Self::sent) for the first time, and those that
/// [arrived](Self::arrived) with nothing missing before them. Packets are released in the order in
/// which they were sent, as the sum of what arrived passes the sum of what was sent. For a single
/// stream whose data leaves in order, that is each packet's own release. Several streams count as
/// one behind the other. Lost data needs no report: what waits behind the gap is released when the
/// retransmission fills the gap.
///
/// A decision is [opened](Self::open) with a key, a value that is returned with the reward (`X`: the
/// context, the arm), and its reference time. It is settled once its reward cannot change any more:
/// after [`MOST_PACKETS`] packets or three reference times ([`Horizon`]). **Strictly in
/// order:** an incomplete decision blocks those after it. A decision with no packet in its time
/// settles with a reward of 0.
///
/// **Bounds.** The memory is the caller's, two slices (arrays, boxes, vectors), of which the largest
/// power of two is used. A full slice drops the oldest decisions, which are never settled but
/// [counted](Self::dropped). Packets are only kept while a decision is open.
///
/// **Resets.** The data of a stream that is reset never arrives: call [`restart`](Self::restart), or
/// the sums never meet again. It drops the open decisions. Data of other streams that was in flight
/// then releases later data too early, until nothing is in flight; so does data that arrives without
/// a report that it was sent.
///
/// **Cost.** O(1) for each packet and each decision: a packet is written, released and cleared once,
/// which takes a division; a decision sums up at most [`MOST_PACKETS`] packets, once. Nothing
/// is allocated.
///
/// ```
/// use mpquic_bandit::{Horizon, Settlement};
///
/// let mut settlement = Settlement::new(Horizon::Discounted, [Default::default(); 8], [Default::default(); 64]);
/// settlement.open(7, 0.0, 50.0, "wait");
/// settlement.sent(10.0, 1200.0);
/// settlement.sent(11.0, 1200.0);
/// settlement.arrived(60.0, 1200.0);
/// assert!(settlement.settle(60.0).is_none());
/// settlement.arrived(149.0, 1200.0);
///
/// let settled = settlement.settle(150.0).unwrap();
/// assert_eq!((settled.key, settled.what, settled.packets), (7, "wait", 2));
/// // 1200 / (60 - 0), and 0.7 · 1200 / (149 - 11), the first having come in the second T_ref.
/// assert!((settled.reward - (20.0 + 0.7 * 1200.0 / 138.0)).abs() < 1e-9);
/// ```
#[derive(Debug, Clone)]
pub struct Settlement<X, D, P> {
    horizon: Horizon,
    first: FirstPacket,
    decisions: Ring<DecisionSlot<X>, D>,
    packets: Packets<P>,
    /// The first packet that is not released, between the ring's first and one past its last.
    unreleased: u64,
    /// What must still arrive before the first byte of the first packet that is not released, or of
    /// the next one to be sent. Below 0 once some of that packet has arrived.
    behind: f64,
    dropped: u64,
    /// When the oldest decision may be complete.
    oldest: Oldest,
}

/// When the oldest decision may be complete, as far as that is known without a look at it: each acknowledgement asks.
#[derive(Debug, Clone, Copy)]
struct Oldest {
    /// Once the packets before this one are released; with 0, at any time.
    packets: u64,
    /// Or once so many milliseconds have passed since it was made.
    within: f64,
    made: f64,
}

impl Oldest {
    /// There is none.
    const NONE: Self = Self {
        packets: u64::MAX,
        within: f64::INFINITY,
        made: 0.0,
    };
}

/// Room for one decision.
#[derive(Debug, Clone, Copy, Default)]
pub struct DecisionSlot<X> {
    key: u64,
    what: X,
    made: f64,
    reference: f64,
    /// The packet sent next after it.
    first: u64,
    /// How long after it that was, milliseconds.
    pause: f64,
    dropped: bool,
}

/// A decision with its reward.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Settled<X> {
    /// The key that it was opened with.
    pub key: u64,
    /// What it was opened with.
    pub what: X,
    /// When it was made, milliseconds.
    pub made: f64,
    /// Its reward, amount per millisecond.
    pub reward: f64,
    /// How many packets that is made of; of [`Horizon::Goodput`], how many entries of the log, which are
    /// arrivals and decisions.
    pub packets: u32,
}

impl<X> DecisionSlot<X> {
    #[inline(always)]
    fn settled<Y>(&self, what: Y, reward: f64, packets: u32) -> Settled<Y> {
        Settled {
            key: self.key,
            what,
            made: self.made,
            reward,
            packets,
        }
    }
}

/// What a first look at the oldest decision tells.
enum AtOnce<'a, X> {
    /// It has as many packets as count, which earn this.
    Complete(&'a DecisionSlot<X>, f64),
    /// It is not complete, or there is none.
    Not,
    Unknown,
}

impl<X, D, P> Settlement<X, D, P>
where
    X: Copy,
    D: AsRef<[DecisionSlot<X>]> + AsMut<[DecisionSlot<X>]>,
    P: AsRef<[PacketSlot]> + AsMut<[PacketSlot]>,
{
    /// Nothing open, nothing sent.
    ///
    /// # Panics
    ///
    /// If either slice is empty.
    pub fn new(horizon: Horizon, decisions: D, packets: P) -> Self {
        Self {
            horizon,
            first: FirstPacket::default(),
            decisions: Ring::new(decisions),
            packets: Packets::new(packets),
            unreleased: 0,
            behind: 0.0,
            dropped: 0,
            oldest: Oldest::NONE,
        }
    }

    /// The same, with the first packet of each decision counted from there. [`Horizon::Goodput`] has no first
    /// packet.
    #[must_use]
    pub fn counting_from(mut self, first: FirstPacket) -> Self {
        self.first = first;
        self
    }

    /// A decision was made at `now`, in milliseconds, after all that was reported before. Keys are the
    /// caller's own.
    #[inline]
    pub fn open(&mut self, key: u64, now: f64, reference: f64, what: X) {
        if self.decisions.is_full() {
            self.drop_oldest();
        }
        let first = self.packets.end;
        if self.horizon == Horizon::Goodput {
            if self.packets.is_full() {
                self.make_room();
            }
            // Where its sum begins.
            self.log_arrival(now, 0.0);
        }
        let is_oldest = self.decisions.is_empty();
        self.decisions.push(DecisionSlot {
            key,
            what,
            made: now,
            reference,
            first,
            pause: 0.0,
            dropped: false,
        });
        if is_oldest {
            self.look_at_oldest();
        }
    }

    /// This amount was sent for the first time. An amount that is not above 0 and finite is ignored.
    ///
    /// Returns the packet's number, by which it can be [acknowledged](Self::acknowledged), if it counts for a
    /// decision.
    #[inline]
    pub fn sent(&mut self, now: f64, amount: f64) -> Option<u64> {
        self.sent_until(now, amount, f64::INFINITY)
    }

    /// The same, but it earns nothing if it arrives after `due`, milliseconds. It still takes its place
    /// and discounts those after it. [`Horizon::OwnAck`] knows no such time.
    #[inline]
    pub fn sent_until(&mut self, now: f64, amount: f64, due: f64) -> Option<u64> {
        if !is_amount(amount) {
            return None;
        }
        if self.horizon == Horizon::Goodput {
            self.behind += amount;
            return None;
        }
        if self.packets.is_full() {
            self.make_room();
        }
        if self.decisions.is_empty() {
            self.behind += amount;
            return None;
        }
        let number = self.packets.end;
        let due_or_rate = match self.horizon {
            Horizon::OwnAck => {
                self.pause_until(number, now);
                f64::INFINITY
            }
            _ => due,
        };
        self.packets.push(now, amount, due_or_rate);
        Some(number)
    }

    /// The decisions that this packet is the first one of have waited for it until now. Each is written once.
    fn pause_until(&mut self, number: u64, now: f64) {
        for place in (self.decisions.start..self.decisions.end).rev() {
            let decision = self.decisions.get_mut(place);
            if decision.first != number {
                break;
            }
            decision.pause = now - decision.made;
        }
    }

    /// The packet with this number was acknowledged itself, whatever is missing before it. Matters to
    /// [`Horizon::OwnAck`] alone. Call it before [`arrived`](Self::arrived) for what this acknowledgement releases. A
    /// packet that is released already, or forgotten, is ignored.
    #[inline]
    pub fn acknowledged(&mut self, number: u64, now: f64) {
        if self.horizon == Horizon::OwnAck && (self.unreleased..self.packets.end).contains(&number)
        {
            let acknowledged = self.packets.at_mut(DUE_OR_RATE, number);
            *acknowledged = acknowledged.min(now);
        }
    }

    /// This amount more has arrived with nothing missing before it. An amount that is not above 0 and
    /// finite is ignored.
    #[inline]
    pub fn arrived(&mut self, now: f64, amount: f64) {
        self.arrived_at(now, now, amount);
    }

    /// The same, with an estimate of the arrival time, which is compared with
    /// [`due`](Self::sent_until).
    #[inline]
    pub fn arrived_at(&mut self, now: f64, arrival: f64, amount: f64) {
        // Said so that of a number that the caller made of an integer, and knows to be above 0, nothing is left to check.
        let is_amount = amount > 0.0 && amount < f64::INFINITY;
        if !is_amount {
            return;
        }
        if matches!(self.horizon, Horizon::Discounted | Horizon::FirstPacket) {
            self.release::<false>(now, arrival, amount);
        } else {
            self.arrived_otherwise(now, arrival, amount);
        }
    }

    /// [`arrived_at`](Self::arrived_at) where that is not what each acknowledgement does.
    #[inline(never)]
    fn arrived_otherwise(&mut self, now: f64, arrival: f64, amount: f64) {
        if self.horizon == Horizon::Goodput {
            self.arrived_in_window(now, amount);
        } else {
            self.release::<true>(now, arrival, amount);
        }
    }

    /// Releases the packets that are complete with this amount, of which it matters when they were acknowledged
    /// themselves, or when they were due.
    #[inline(always)]
    fn release<const OWN: bool>(&mut self, now: f64, arrival: f64, amount: f64) {
        let mut behind = self.behind - amount;
        // Amounts are above 0: while no more has arrived than all that is released, the next packet is not complete.
        if behind < 0.0 {
            let (mut number, end) = (self.unreleased, self.packets.end);
            let mut columns = self.packets.columns();
            while behind < 0.0 {
                if number == end {
                    // More than was sent.
                    behind = 0.0;
                    break;
                }
                let mut amount = *columns.at(AMOUNT, number);
                if behind + amount > 0.0 {
                    break;
                }
                behind += amount;
                let sent = core::mem::replace(columns.at(TIME, number), now);
                let due = *columns.at(DUE_OR_RATE, number);
                let until = if OWN { due.min(now) } else { now };
                if !OWN && arrival > due {
                    amount = 0.0;
                    *columns.at(AMOUNT, number) = amount;
                }
                *columns.at(DUE_OR_RATE, number) = reward::rate(amount, until - sent);
                number += 1;
            }
            self.unreleased = number;
        }
        self.behind = behind;
    }

    /// [`arrived`](Self::arrived) for [`Horizon::Goodput`].
    fn arrived_in_window(&mut self, now: f64, amount: f64) {
        self.behind = (self.behind - amount).max(0.0);
        if self.packets.is_full() {
            self.make_room();
        }
        if !self.decisions.is_empty() {
            self.log_arrival(now, amount);
        }
    }

    /// Whether [`settle`](Self::settle) may have something to return at this time. If not, it has nothing.
    #[inline(always)]
    pub fn may_settle(&self, now: f64) -> bool {
        let Oldest {
            packets,
            within,
            made,
        } = self.oldest;
        // In this sense, so that a reference time that is no number is over.
        let waits = self.unreleased < packets && now - made < within;
        !waits
    }

    /// Takes down when the oldest decision may be complete: to be called when it becomes another one or is dropped. The
    /// first packet that matters to it, or else the next one.
    #[inline]
    fn look_at_oldest(&mut self) -> u64 {
        if self.decisions.is_empty() {
            self.oldest = Oldest::NONE;
            return self.packets.end;
        }
        let oldest = self.decisions.get(self.decisions.start);
        let discounted = matches!(self.horizon, Horizon::Discounted | Horizon::OwnAck);
        let packets = match discounted && !oldest.dropped {
            true => oldest.first + MOST_PACKETS as u64,
            false => 0,
        };
        self.oldest = Oldest {
            packets,
            within: reward::OVER_AFTER * oldest.reference,
            made: oldest.made,
        };
        oldest.first
    }

    /// The oldest decision with its reward, if that is complete. Call it until it returns `None`, at
    /// any time: the time of the call does not change the reward.
    #[inline]
    pub fn settle(&mut self, now: f64) -> Option<Settled<X>> {
        let (reward, packets) = match self.at_once(now) {
            AtOnce::Complete(_, reward) => (reward, MOST_PACKETS as u32),
            AtOnce::Not => return None,
            AtOnce::Unknown => self.reward_otherwise(now)?,
        };
        let oldest = self.decisions.get(self.decisions.start);
        let settled = oldest.settled(oldest.what, reward, packets);
        self.pop();
        Some(settled)
    }

    /// [`settle`](Self::settle) until it returns `None`, without copies of what the decisions were opened with.
    #[inline(always)]
    pub fn settle_each(&mut self, now: f64, mut take: impl FnMut(Settled<&X>)) {
        loop {
            let (oldest, reward, packets) = match self.at_once(now) {
                AtOnce::Complete(oldest, reward) => (oldest, reward, MOST_PACKETS as u32),
                AtOnce::Not => return,
                AtOnce::Unknown => {
                    let Some((reward, packets)) = self.reward_otherwise(now) else {
                        return;
                    };
                    let oldest = self.decisions.get(self.decisions.start);
                    (oldest, reward, packets)
                }
            };
            take(oldest.settled(&oldest.what, reward, packets));
            self.pop();
        }
    }

    /// The oldest decision's reward, where that is quickly found out.
    #[inline(always)]
    fn at_once(&self, now: f64) -> AtOnce<'_, X> {
        // Nearly all calls: the oldest decision is not complete, or has as many packets as count, all of them in its first
        // reference time and next to each other in memory. Whatever else there may be is out of line.
        if !self.may_settle(now) {
            return AtOnce::Not;
        }
        if self.oldest.packets > 0 && self.unreleased >= self.oldest.packets {
            let oldest = self.decisions.get(self.decisions.start);
            if let Some(reward) = self.sum_up_at_once(oldest) {
                return AtOnce::Complete(oldest, reward);
            }
        }
        AtOnce::Unknown
    }

    /// The reward of the oldest decision that was not dropped, if it is complete, and of how many packets it is made,
    /// whatever there is.
    #[inline(never)]
    fn reward_otherwise(&mut self, now: f64) -> Option<(f64, u32)> {
        while !self.decisions.is_empty() {
            let oldest = self.decisions.get(self.decisions.start);
            let (dropped, first) = (oldest.dropped, oldest.first);
            if dropped {
                self.pop();
                continue;
            }
            let released = self.unreleased.saturating_sub(first);
            let complete = match self.horizon {
                Horizon::FirstPacket => released > 0,
                Horizon::Goodput => {
                    let within = now - oldest.made < WINDOW * oldest.reference;
                    // In this sense, so that a reference time that is no number is over.
                    !within
                }
                Horizon::Discounted | Horizon::OwnAck => {
                    released >= MOST_PACKETS as u64
                        || reward::is_over(oldest.made, oldest.reference, now)
                }
            };
            return complete.then(|| match self.horizon {
                Horizon::Goodput => self.goodput(oldest),
                _ => self.sum_up(oldest, released),
            });
        }
        None
    }

    /// Writes down the sum over all arrivals so far, and whether the last of them, and when, left
    /// nothing under way. The sum begins anew whenever no decision is open, so that it stays small.
    fn log_arrival(&mut self, now: f64, amount: f64) {
        let (so_far, before) = if self.packets.is_empty() {
            (0.0, f64::INFINITY)
        } else {
            let last = self.packets.end - 1;
            (
                self.packets.at(AMOUNT, last),
                self.packets.at(DUE_OR_RATE, last),
            )
        };
        let complete = match amount {
            0.0 => before,
            _ if self.behind > 0.0 => f64::INFINITY,
            _ => now,
        };
        self.packets.push(now, so_far + amount, complete);
        self.unreleased = self.packets.end;
    }

    /// The reward of a decision by what arrived in its window, and how many entries that were.
    fn goodput(&self, decision: &DecisionSlot<X>) -> (f64, u32) {
        let DecisionSlot { made, first, .. } = *decision;
        let window = WINDOW * decision.reference;
        // The last one within the window; the first is the decision's own, of no amount.
        let (mut last, mut beyond) = (first, self.packets.end);
        while last + 1 < beyond {
            let middle = last + (beyond - last) / 2;
            if self.packets.at(TIME, middle) - made <= window {
                last = middle;
            } else {
                beyond = middle;
            }
        }
        let amount = self.packets.at(AMOUNT, last) - self.packets.at(AMOUNT, first);
        let complete = self.packets.at(DUE_OR_RATE, last) - made;
        let reward = reward::rate(amount, window.min(complete));
        (reward, (last - first) as u32)
    }

    /// What the first packet after a decision counts for.
    #[inline(always)]
    fn rate_of_first(&self, decision: &DecisionSlot<X>) -> f64 {
        let of_first = |column| self.packets.at(column, decision.first);
        match (self.first, self.horizon) {
            (FirstPacket::Sending, _) => of_first(DUE_OR_RATE),
            (FirstPacket::Decision, Horizon::OwnAck) => {
                let under_way = of_first(AMOUNT) / of_first(DUE_OR_RATE);
                reward::rate(of_first(AMOUNT), under_way + decision.pause)
            }
            (FirstPacket::Decision, _) => {
                reward::rate(of_first(AMOUNT), of_first(TIME) - decision.made)
            }
        }
    }

    /// The reward of a decision after which as many packets are released as count, if all are in its first reference
    /// time, the common case where packets come thick and fast, and those after the first are next to each other.
    #[inline(always)]
    fn sum_up_at_once(&self, decision: &DecisionSlot<X>) -> Option<f64> {
        const OTHERS: usize = MOST_PACKETS - 1;
        let last = self.packets.at(TIME, decision.first + OTHERS as u64);
        let rates = self.packets.in_one_part::<OTHERS>(decision.first + 1)?;
        // In this sense, so that a reference time that is no number is over.
        let within = last - decision.made < decision.reference;
        within.then(|| self.rate_of_first(decision) + weighted_at_once(rates))
    }

    /// The reward of a decision after which so many packets are released, and how many count.
    fn sum_up(&self, decision: &DecisionSlot<X>, released: u64) -> (f64, u32) {
        let DecisionSlot { made, first, .. } = *decision;
        let time = |nth: usize| self.packets.at(TIME, first + nth as u64);
        let last = MOST_PACKETS - 1;
        if self.horizon == Horizon::FirstPacket {
            (self.rate_of_first(decision), 1)
        } else if released > last as u64 && time(last) - made < decision.reference {
            let sum = weighted(self.packets.two_parts(first + 1, last));
            (self.rate_of_first(decision) + sum, MOST_PACKETS as u32)
        } else {
            let mut sum = DiscountedReward::new(made, decision.reference);
            for nth in 0..MOST_PACKETS.min(released as usize) {
                let rate = match nth {
                    0 => self.rate_of_first(decision),
                    _ => self.packets.at(DUE_OR_RATE, first + nth as u64),
                };
                sum.add(rate, time(nth));
            }
            (sum.value(), sum.packets())
        }
    }

    /// Drops the open decisions of which this holds: they are not settled, but counted.
    pub fn drop_those(&mut self, mut condition: impl FnMut(&X) -> bool) {
        for place in self.decisions.start..self.decisions.end {
            let decision = self.decisions.get_mut(place);
            if !decision.dropped && condition(&decision.what) {
                decision.dropped = true;
                self.dropped += 1;
            }
        }
        self.look_at_oldest();
    }

    /// Drops all open decisions and resets both sums, as if nothing were in flight.
    pub fn restart(&mut self) {
        self.drop_those(|_| true);
        self.decisions.start = self.decisions.end;
        self.packets.start = self.packets.end;
        self.unreleased = self.packets.end;
        self.behind = 0.0;
        self.look_at_oldest();
    }

    /// Whether the next decision or the next packet may find no room, for which the oldest decisions would go.
    #[inline]
    pub const fn is_full(&self) -> bool {
        self.decisions.is_full() || self.packets.is_full()
    }

    /// How many decisions wait for their reward.
    pub fn open_decisions(&self) -> usize {
        let places = self.decisions.start..self.decisions.end;
        places
            .filter(|place| !self.decisions.get(*place).dropped)
            .count()
    }

    /// How many decisions were dropped and will never be settled.
    pub const fn dropped(&self) -> u64 {
        self.dropped
    }

    /// How much was sent and has not arrived, since the last [restart](Self::restart). Adds it up, packet by packet.
    pub fn under_way(&self) -> f64 {
        let packets = self.unreleased..self.packets.end;
        packets.fold(self.behind, |sum, packet| {
            sum + self.packets.at(AMOUNT, packet)
        })
    }

    fn drop_oldest(&mut self) {
        let oldest = self.decisions.get(self.decisions.start);
        self.dropped += u64::from(!oldest.dropped);
        self.pop();
    }

    /// Every slot has a packet: the decisions go that the oldest one matters to.
    #[cold]
    fn make_room(&mut self) {
        let start = self.packets.start;
        while self.packets.start == start && !self.decisions.is_empty() {
            self.drop_oldest();
        }
    }

    /// The oldest decision goes, and the packets that mattered to it alone.
    #[inline]
    fn pop(&mut self) {
        self.decisions.start += 1;
        let needed = self.look_at_oldest();
        while self.unreleased < needed {
            self.behind += self.packets.at(AMOUNT, self.unreleased);
            self.unreleased += 1;
        }
        self.packets.start = needed;
    }
}

#[inline]
const fn is_amount(amount: f64) -> bool {
    // Positive numbers are in the order of their bits, from the smallest one to infinity; all else is beyond.
    amount.to_bits().wrapping_sub(1) < f64::INFINITY.to_bits() - 1
}

/// A queue in a slice; places are counted through and never reused.
#[derive(Debug, Clone)]
struct Ring<T, S> {
    slots: S,
    mask: u64,
    start: u64,
    end: u64,
    holds: PhantomData<T>,
}

impl<T, S: AsRef<[T]> + AsMut<[T]>> Ring<T, S> {
    fn new(slots: S) -> Self {
        let len = slots.as_ref().len();
        assert!(len > 0, "expected at least one slot");
        Self {
            slots,
            mask: (1 << len.ilog2()) - 1,
            start: 0,
            end: 0,
            holds: PhantomData,
        }
    }

    const fn is_empty(&self) -> bool {
        self.start == self.end
    }

    const fn is_full(&self) -> bool {
        self.end - self.start > self.mask
    }

    #[inline]
    fn get(&self, place: u64) -> &T {
        &self.slots.as_ref()[(place & self.mask) as usize]
    }

    #[inline]
    fn get_mut(&mut self, place: u64) -> &mut T {
        &mut self.slots.as_mut()[(place & self.mask) as usize]
    }

    #[inline]
    fn push(&mut self, slot: T) {
        *self.get_mut(self.end) = slot;
        self.end += 1;
    }
}
