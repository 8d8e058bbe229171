//! One direction of a link: queue, serialisation, propagation, impairments. Pure: time comes in, packets come out.

mod config;
mod stats;
#[cfg(test)]
mod tests;

pub use config::{LinkConfig, LinkConfigError, Outage, QueueLimit};
pub use stats::LinkStats;

use std::collections::VecDeque;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{Rng, RngExt, SeedableRng};

/// Bit-nanoseconds per bit: work is kept in bit·ns so that dividing by the rate gives nanoseconds.
const NANOS: u128 = 1_000_000_000;

/// What became of a packet that left a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It arrived.
    Delivered,
    /// It arrived, as the second copy.
    Duplicate,
    /// It arrived with this bit (counted from the first byte's lowest) flipped; see [`flip_bit`].
    Corrupted {
        /// The bit.
        bit: u64,
    },
    /// It did not arrive.
    Lost(Loss),
}

impl Fate {
    /// Whether the other end gets it.
    pub const fn arrives(self) -> bool {
        !matches!(self, Self::Lost(_))
    }
}

/// Why a packet was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loss {
    /// No room in the queue.
    Queue,
    /// By chance.
    Random,
    /// The link was dark.
    Outage,
}

/// A packet that leaves a link, arriving or lost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exit<T> {
    /// What was put in.
    pub payload: T,
    /// Its size as it was put in.
    pub size: usize,
    /// When it was put in.
    pub entered: Duration,
    /// When it arrived or was lost.
    pub at: Duration,
    /// What became of it.
    pub fate: Fate,
}

struct Waiting<T> {
    payload: T,
    size: usize,
    entered: u64,
}

/// One direction of a link. All times count from the start of the run.
///
/// The order of things: a packet finds the link dark (lost), or the queue full (lost), or waits
/// for those before it, is serialised at the link's rate, may be lost by chance, and arrives after
/// the propagation delay. When the link goes dark, what waits or is being serialised is lost; what
/// was serialised before is already on its way and arrives. Packets keep their order unless
/// [`LinkConfig::reordering`] says otherwise.
///
/// ```
/// use std::time::Duration;
/// use mpquic_sim::{Link, LinkConfig};
///
/// let ms = Duration::from_millis;
/// let config = LinkConfig { overhead: 0, ..LinkConfig::new(8_000_000, ms(10)) };
/// let mut link = Link::new(config, 1)?;
/// assert!(link.enqueue(ms(0), 1000, "one").is_ok()); // 1 ms to serialise
/// assert_eq!(link.next_event(), Some(ms(1)));
/// assert_eq!(link.poll(ms(11)).map(|exit| (exit.payload, exit.at)), Some(("one", ms(11))));
/// # Ok::<(), mpquic_sim::LinkConfigError>(())
/// ```
pub struct Link<T> {
    config: LinkConfig,
    limit: QueueLimit,
    rng: StdRng,
    /// The latest time seen: time never runs backwards in here.
    now: u64,
    switched_off: bool,
    /// Scheduled outages that have not begun, as (from, to).
    outages: VecDeque<(u64, u64)>,
    dark_until: u64,
    /// The front is being serialised, the rest waits.
    queue: VecDeque<Waiting<T>>,
    queue_bytes: u64,
    /// When the front's serialisation began, for the busy time.
    service_began: u64,
    /// When the front is serialised, in whole ns, and the rest of the division in bit·ns: without
    /// it, rounding would add up over a busy period.
    departs: u64,
    carry: u128,
    /// Ordered by time, ties by entry.
    wire: VecDeque<Exit<T>>,
    /// The latest arrival of a packet that keeps its order.
    last_arrival: u64,
    stats: LinkStats,
}

impl<T: Clone> Link<T> {
    /// An idle link. The same seed makes the same choices.
    ///
    /// # Errors
    ///
    /// If the configuration cannot be.
    pub fn new(config: LinkConfig, seed: u64) -> Result<Self, LinkConfigError> {
        config.validate()?;
        let mut outages: Vec<_> = config
            .outages
            .iter()
            .map(|outage| {
                let start = nanos(outage.at);
                (start, start.saturating_add(nanos(outage.lasting)))
            })
            .collect();
        outages.sort_unstable();
        Ok(Self {
            limit: config.queue_limit(),
            rng: StdRng::seed_from_u64(seed),
            now: 0,
            switched_off: false,
            outages: outages.into(),
            dark_until: 0,
            queue: VecDeque::new(),
            queue_bytes: 0,
            service_began: 0,
            departs: 0,
            carry: 0,
            wire: VecDeque::new(),
            last_arrival: 0,
            stats: LinkStats::default(),
            config,
        })
    }

    /// Puts a packet in. A time before the latest one seen counts as that.
    ///
    /// # Errors
    ///
    /// The packet and the reason, if it was lost at the entrance.
    pub fn enqueue(&mut self, now: Duration, size: usize, payload: T) -> Result<(), (T, Loss)> {
        self.advance(now);
        self.stats.packets_in += 1;
        self.stats.bytes_in += size as u64;
        if self.is_dark() {
            self.stats.dropped_outage += 1;
            return Err((payload, Loss::Outage));
        }
        let bytes = self.on_link(size);
        let idle = self.queue.is_empty();
        if !idle {
            let (packets, waiting) = self.waiting();
            let fits = match self.limit {
                // `queue_limit` has worked out `Auto`; were it not so, nothing would be dropped.
                QueueLimit::Auto => true,
                QueueLimit::Packets(limit) => packets < limit,
                QueueLimit::Bytes(limit) => waiting.saturating_add(bytes) <= limit,
            };
            if !fits {
                self.stats.dropped_queue += 1;
                return Err((payload, Loss::Queue));
            }
        }
        self.queue_bytes += bytes;
        self.queue.push_back(Waiting {
            payload,
            size,
            entered: self.now,
        });
        if idle {
            self.carry = 0;
            self.begin_service(self.now);
            // Without a rate it is through at once.
            self.advance(now);
        } else {
            let (packets, waiting) = self.waiting();
            self.stats.max_queue_packets = self.stats.max_queue_packets.max(packets);
            self.stats.max_queue_bytes = self.stats.max_queue_bytes.max(waiting);
        }
        Ok(())
    }

    /// Takes out the next packet that has arrived or was lost by `now`.
    pub fn poll(&mut self, now: Duration) -> Option<Exit<T>> {
        self.advance(now);
        if nanos(self.wire.front()?.at) > self.now {
            return None;
        }
        let exit = self.wire.pop_front()?;
        if exit.fate.arrives() {
            self.stats.delivered += 1;
            self.stats.bytes_delivered += exit.size as u64;
        }
        Some(exit)
    }

    /// When to call [`poll`](Self::poll) next: something happens then, but perhaps nothing comes out.
    pub fn next_event(&self) -> Option<Duration> {
        let exit = self.wire.front().map(|exit| exit.at);
        let service = (!self.queue.is_empty()).then(|| {
            let outage = self.outages.front().map_or(u64::MAX, |outage| outage.0);
            Duration::from_nanos(self.departs.min(outage))
        });
        match (exit, service) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    /// Switches the link off or on; scheduled outages hold beside it.
    pub fn set_up(&mut self, now: Duration, up: bool) {
        self.advance(now);
        self.switched_off = !up;
        if !up {
            self.lose_queue(self.now);
        }
    }

    /// Changes the rate; what is being serialised goes on at the new one. The queue's limit stays.
    ///
    /// # Errors
    ///
    /// If the rate is 0.
    pub fn set_rate(&mut self, now: Duration, rate: Option<u64>) -> Result<(), LinkConfigError> {
        let changed = LinkConfig {
            rate,
            ..LinkConfig::default()
        };
        changed.validate()?;
        self.advance(now);
        if let (false, Some(old)) = (self.queue.is_empty(), self.config.rate) {
            let left = u128::from(self.departs - self.now) * u128::from(old) + self.carry;
            self.config.rate = rate;
            self.serialise(self.now, left);
        }
        self.config.rate = rate;
        self.advance(now);
        Ok(())
    }

    /// Changes the propagation delay of packets that are not on their way yet. Order is kept: after
    /// a decrease, packets arrive no earlier than those before them.
    ///
    /// # Errors
    ///
    /// If it is beyond an hour.
    pub fn set_delay(&mut self, now: Duration, delay: Duration) -> Result<(), LinkConfigError> {
        let changed = LinkConfig {
            delay,
            ..LinkConfig::default()
        };
        changed.validate()?;
        self.advance(now);
        self.config.delay = delay;
        Ok(())
    }

    /// Changes the probability of loss.
    ///
    /// # Errors
    ///
    /// If it is no probability.
    pub fn set_loss(&mut self, now: Duration, loss: f64) -> Result<(), LinkConfigError> {
        LinkConfig::default().with_loss(loss).validate()?;
        self.advance(now);
        self.config.loss = loss;
        Ok(())
    }

    /// Whether what enters now is lost: as of the latest time seen.
    pub fn is_dark(&self) -> bool {
        self.switched_off || self.now < self.dark_until
    }

    /// Packets inside that are not lost.
    pub fn in_transit(&self) -> u64 {
        let wire = self.wire.iter().filter(|exit| exit.fate.arrives()).count();
        (self.queue.len() + wire) as u64
    }

    /// The counters.
    pub const fn stats(&self) -> &LinkStats {
        &self.stats
    }

    /// The settings, as changed.
    pub const fn config(&self) -> &LinkConfig {
        &self.config
    }

    /// Lets departures and scheduled outages up to `now` happen, in the order of their times.
    fn advance(&mut self, now: Duration) {
        let target = nanos(now).max(self.now);
        loop {
            let departure = (!self.queue.is_empty()).then_some(self.departs);
            let outage = self.outages.front().map(|outage| outage.0);
            match (departure, outage) {
                // Serialised in the last instant before the dark: it is through.
                (Some(departs), outage)
                    if departs <= target && outage.is_none_or(|start| departs <= start) =>
                {
                    self.depart();
                }
                (_, Some(start)) if start <= target => {
                    if let Some((_, end)) = self.outages.pop_front() {
                        self.dark_until = self.dark_until.max(end);
                    }
                    self.lose_queue(start);
                }
                _ => break,
            }
        }
        self.now = target;
    }

    /// The front is serialised.
    fn depart(&mut self) {
        let Some(packet) = self.queue.pop_front() else {
            return;
        };
        let departed = self.departs;
        self.queue_bytes -= self.on_link(packet.size);
        self.stats.busy += Duration::from_nanos(departed - self.service_began);
        if !self.queue.is_empty() {
            self.begin_service(departed);
        }

        let Waiting {
            payload,
            size,
            entered,
        } = packet;
        let entered = Duration::from_nanos(entered);
        if self.chance(self.config.loss) {
            self.stats.dropped_loss += 1;
            self.on_wire(Exit {
                payload,
                size,
                entered,
                at: Duration::from_nanos(departed),
                fate: Fate::Lost(Loss::Random),
            });
            return;
        }
        let fate = if size > 0 && self.chance(self.config.corruption) {
            self.stats.corrupted += 1;
            Fate::Corrupted {
                bit: self.rng.random_range(0..size as u64 * 8),
            }
        } else {
            Fate::Delivered
        };
        let copy = self.chance(self.config.duplication);
        let held_back = self.chance(self.config.reordering);
        let travelled = departed.saturating_add(self.draw_delay());
        let at = if held_back {
            self.stats.reordered += 1;
            travelled.saturating_add(nanos(self.config.reordering_delay))
        } else {
            self.last_arrival = travelled.max(self.last_arrival);
            self.last_arrival
        };
        let exit = Exit {
            payload,
            size,
            entered,
            at: Duration::from_nanos(at),
            fate,
        };
        if copy {
            self.stats.duplicated += 1;
            self.on_wire(exit.clone());
            // A copy of a packet whose bit is flipped has it flipped, too.
            let fate = match fate {
                Fate::Delivered => Fate::Duplicate,
                other => other,
            };
            self.on_wire(Exit { fate, ..exit });
        } else {
            self.on_wire(exit);
        }
    }

    fn on_wire(&mut self, exit: Exit<T>) {
        // Nearly always the end: only losses and reordered packets are out of order.
        let place = self.wire.partition_point(|other| other.at <= exit.at);
        self.wire.insert(place, exit);
    }

    fn begin_service(&mut self, at: u64) {
        let Some(front) = self.queue.front() else {
            return;
        };
        self.service_began = at;
        let work = u128::from(self.on_link(front.size)) * 8 * NANOS + self.carry;
        self.serialise(at, work);
    }

    /// The front has `work` bit·ns to go, at this time.
    fn serialise(&mut self, at: u64, work: u128) {
        match self.config.rate {
            // `validate` refuses a rate of 0; were it not so, a division must still not panic.
            Some(rate) => {
                let rate = u128::from(rate.max(1));
                let time = u64::try_from(work / rate).unwrap_or(u64::MAX);
                self.departs = at.saturating_add(time);
                self.carry = work % rate;
            }
            None => {
                self.departs = at;
                self.carry = 0;
            }
        }
    }

    fn lose_queue(&mut self, at: u64) {
        if !self.queue.is_empty() {
            self.stats.busy += Duration::from_nanos(at.saturating_sub(self.service_began));
        }
        self.queue_bytes = 0;
        while let Some(packet) = self.queue.pop_front() {
            self.stats.dropped_outage += 1;
            self.on_wire(Exit {
                payload: packet.payload,
                size: packet.size,
                entered: Duration::from_nanos(packet.entered),
                at: Duration::from_nanos(at),
                fate: Fate::Lost(Loss::Outage),
            });
        }
    }

    /// Packets and bytes that wait, without the one being serialised.
    fn waiting(&self) -> (u64, u64) {
        match self.queue.front() {
            Some(front) => (
                self.queue.len() as u64 - 1,
                self.queue_bytes - self.on_link(front.size),
            ),
            None => (0, 0),
        }
    }

    fn on_link(&self, size: usize) -> u64 {
        size as u64 + u64::from(self.config.overhead)
    }

    /// Draws only where there is a choice, so that clean links are fast.
    fn chance(&mut self, probability: f64) -> bool {
        probability > 0.0 && self.rng.random_bool(probability.min(1.0))
    }

    fn draw_delay(&mut self) -> u64 {
        let delay = nanos(self.config.delay);
        let deviation = nanos(self.config.delay_sd);
        if deviation == 0 {
            return delay;
        }
        // Twelve uniform variates of 16 bits: the sum's variance is one unit (12 * 1/12) squared.
        let mut sum = 0;
        for _ in 0..3 {
            let word = self.rng.next_u64();
            sum += (0..4)
                .map(|part| i128::from(word >> (16 * part) & 0xffff))
                .sum::<i128>();
        }
        let offset = (sum - 6 * 0xffff) * i128::from(deviation) / 0x1_0000;
        u64::try_from(i128::from(delay) + offset).unwrap_or(0)
    }
}

/// Flips one bit of a packet, as [`Fate::Corrupted`] says; does nothing beyond its end.
pub fn flip_bit(packet: &mut [u8], bit: u64) {
    let byte = usize::try_from(bit / 8)
        .ok()
        .and_then(|index| packet.get_mut(index));
    if let Some(byte) = byte {
        *byte ^= 1 << (bit % 8);
    }
}

/// Nanoseconds of a time, at most 584 years.
pub(crate) fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
