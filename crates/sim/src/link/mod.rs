//! One direction of a link: queue, serialisation, propagation, impairments. It has no clock and does no I/O.

mod config;
mod gilbert_elliott;
mod mahimahi;
mod millis;
mod service;
mod stats;
#[cfg(test)]
mod tests;
mod timeline;
mod validate;

pub use config::{LinkConfig, Outage, PlannedChange, QueueLimit, RateStep};
pub use gilbert_elliott::GilbertElliott;
pub use mahimahi::{MahimahiTrace, TraceError};
pub use stats::LinkStats;
pub use validate::LinkConfigError;

use std::collections::VecDeque;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{Rng, RngExt, SeedableRng};

use gilbert_elliott::Bursts;
use service::Service;
use timeline::{Due, Timeline};

/// What happened to a packet that left a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fate {
    /// It arrived.
    Delivered,
    /// It arrived, as the second copy.
    Duplicate,
    /// It arrived with this bit flipped, counted from the lowest bit of the first byte; see
    /// [`flip_bit`].
    Corrupted {
        /// The bit.
        bit: u64,
    },
    /// It did not arrive.
    Lost(Loss),
}

impl Fate {
    /// Whether the packet reaches the other end.
    pub const fn arrives(self) -> bool {
        !matches!(self, Self::Lost(_))
    }
}

/// Why a packet was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Loss {
    /// The queue was full.
    Queue,
    /// Random loss.
    Random,
    /// The link was down.
    Outage,
}

/// A packet that leaves a link, delivered or lost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exit<T> {
    /// The payload given to [`Link::enqueue`].
    pub payload: T,
    /// The size given to [`Link::enqueue`].
    pub size: usize,
    /// When the packet entered the link.
    pub entered: Duration,
    /// When the packet arrived or was lost.
    pub at: Duration,
    /// What happened to it.
    pub fate: Fate,
}

struct Waiting<T> {
    payload: T,
    size: usize,
    entered: u64,
}

/// One direction of a link. All times count from the start of the run.
///
/// A packet goes through these steps. It is lost if the link is down or the queue is full. It waits
/// for the packets before it. It is serialised at the link's rate or according to its trace. It may
/// be lost at random. It arrives after the propagation delay. When the link goes down, packets that
/// wait or are being serialised are lost; packets that are serialised already still arrive. Packets
/// stay in order unless [`LinkConfig::reordering`] is set.
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
    /// The latest time seen. Time never decreases here.
    now: u64,
    switched_off: bool,
    timeline: Timeline,
    dark_until: u64,
    bursts: Option<Bursts>,
    /// How many packets in a row chance has lost or corrupted.
    harmed: u32,
    /// The front is being serialised, the others wait.
    queue: VecDeque<Waiting<T>>,
    queue_bytes: u64,
    service: Service,
    /// Sorted by time. Simultaneous exits stay in insertion order.
    wire: VecDeque<Exit<T>>,
    /// The latest arrival of a packet that stays in order.
    last_arrival: u64,
    stats: LinkStats,
}

impl<T: Clone> Link<T> {
    /// An idle link. The same seed gives the same random choices.
    ///
    /// # Errors
    ///
    /// If the configuration is invalid.
    pub fn new(config: LinkConfig, seed: u64) -> Result<Self, LinkConfigError> {
        config.validate()?;
        let mut rng = StdRng::seed_from_u64(seed);
        let bursts = config
            .gilbert_elliott
            .map(|chain| Bursts::new(chain, &mut rng));
        Ok(Self {
            limit: config.queue_limit(),
            rng,
            now: 0,
            switched_off: false,
            timeline: Timeline::new(&config),
            dark_until: 0,
            bursts,
            harmed: 0,
            queue: VecDeque::new(),
            queue_bytes: 0,
            service: Service::new(config.rate, config.trace.clone()),
            wire: VecDeque::new(),
            last_arrival: 0,
            stats: LinkStats::default(),
            config,
        })
    }

    /// Adds a packet. A time before the latest one seen counts as the latest one.
    ///
    /// # Errors
    ///
    /// The packet and the reason, if it is lost on entry.
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
                // `queue_limit` has resolved `Auto`. If it had not, nothing would be dropped.
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
            self.service.begin_busy_period(self.now, bytes);
            // Without a rate, serialisation is complete at once.
            self.advance(now);
        } else {
            let (packets, waiting) = self.waiting();
            self.stats.max_queue_packets = self.stats.max_queue_packets.max(packets);
            self.stats.max_queue_bytes = self.stats.max_queue_bytes.max(waiting);
        }
        Ok(())
    }

    /// Removes and returns the next packet that has arrived or was lost by `now`.
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

    /// When to call [`poll`](Self::poll) next. A packet may or may not leave the link then.
    pub fn next_event(&self) -> Option<Duration> {
        let exit = self.wire.front().map(|exit| exit.at);
        let service = match self.queue.is_empty() {
            true => u64::MAX,
            false => self.service.departs().min(self.timeline.next()),
        };
        let service = (service < u64::MAX).then(|| Duration::from_nanos(service));
        match (exit, service) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    /// Takes the link down or up. Planned outages still apply.
    pub fn set_up(&mut self, now: Duration, up: bool) {
        self.advance(now);
        self.switched_off = !up;
        if !up {
            self.lose_queue(self.now);
        }
    }

    /// Changes the rate. The packet that is being serialised continues at the new rate. The queue
    /// limit stays. The new rate replaces rate steps and a trace; planned changes still apply.
    ///
    /// # Errors
    ///
    /// If the rate is 0.
    pub fn set_rate(&mut self, now: Duration, rate: Option<u64>) -> Result<(), LinkConfigError> {
        validate::rate("rate", rate)?;
        self.advance(now);
        self.timeline.end_steps();
        self.change_rate(self.now, rate);
        self.advance(now);
        Ok(())
    }

    /// Changes the propagation delay of packets that are not propagating yet. Packets stay in
    /// order: after a decrease, packets arrive no earlier than those before them.
    ///
    /// # Errors
    ///
    /// If the delay is more than an hour.
    pub fn set_delay(&mut self, now: Duration, delay: Duration) -> Result<(), LinkConfigError> {
        validate::delay("delay_ms", delay)?;
        self.advance(now);
        self.config.delay = delay;
        Ok(())
    }

    /// Changes the standard deviation of the delay.
    ///
    /// # Errors
    ///
    /// If it is more than an hour.
    pub fn set_delay_sd(&mut self, now: Duration, sd: Duration) -> Result<(), LinkConfigError> {
        validate::delay("delay_sd_ms", sd)?;
        self.advance(now);
        self.config.delay_sd = sd;
        Ok(())
    }

    /// Changes the probability of independent loss.
    ///
    /// # Errors
    ///
    /// If it is not a probability.
    pub fn set_loss(&mut self, now: Duration, loss: f64) -> Result<(), LinkConfigError> {
        validate::probability("loss", loss)?;
        self.advance(now);
        self.config.loss = loss;
        Ok(())
    }

    /// Whether a packet that enters at the latest time seen is lost because the link is down.
    pub fn is_dark(&self) -> bool {
        self.switched_off || self.now < self.dark_until
    }

    /// The number of packets on the link that are not lost.
    pub fn in_transit(&self) -> u64 {
        let wire = self.wire.iter().filter(|exit| exit.fate.arrives()).count();
        (self.queue.len() + wire) as u64
    }

    /// The bytes, overhead included, that wait or are being serialised at the latest time seen.
    pub const fn queued_bytes(&self) -> u64 {
        self.queue_bytes
    }

    /// The counters of the link.
    pub const fn stats(&self) -> &LinkStats {
        &self.stats
    }

    /// The current settings.
    pub const fn config(&self) -> &LinkConfig {
        &self.config
    }

    /// Processes departures and planned events up to `now`, in the order of their times.
    fn advance(&mut self, now: Duration) {
        // `u64::MAX` stands for never: it is the departure time of an idle link.
        let target = nanos(now).min(u64::MAX - 1).max(self.now);
        loop {
            let departs = match self.queue.is_empty() {
                true => u64::MAX,
                false => self.service.departs(),
            };
            let due = self.timeline.next();
            // A packet whose serialisation ends at the instant when the link goes down gets
            // through.
            if departs <= target && departs <= due {
                self.depart(departs);
            } else if due <= target {
                self.on_due(due, target);
            } else {
                break;
            }
        }
        self.now = target;
    }

    /// Applies a planned event.
    fn on_due(&mut self, at: u64, target: u64) {
        let idle_until = self.queue.is_empty().then_some(target);
        match self.timeline.take(idle_until) {
            Some(Due::Outage(end)) => {
                self.dark_until = self.dark_until.max(end);
                self.lose_queue(at);
            }
            Some(Due::Rate(rate)) => self.change_rate(at, Some(rate)),
            Some(Due::Change(change)) => self.change(at, change),
            None => {}
        }
    }

    fn change(&mut self, at: u64, change: PlannedChange) {
        if change.rate.is_some() {
            self.change_rate(at, change.rate);
        }
        if let Some(delay) = change.delay {
            self.config.delay = delay;
        }
        if let Some(deviation) = change.delay_sd {
            self.config.delay_sd = deviation;
        }
        if let Some(loss) = change.loss {
            self.config.loss = loss;
        }
        if let Some(chain) = change.gilbert_elliott {
            self.config.gilbert_elliott = Some(chain);
            match &mut self.bursts {
                Some(bursts) => bursts.set(chain),
                None => self.bursts = Some(Bursts::new(chain, &mut self.rng)),
            }
        }
    }

    fn change_rate(&mut self, at: u64, rate: Option<u64>) {
        let front = self.queue.front().map(|front| self.on_link(front.size));
        self.service.set_rate(at, rate, front);
        self.config.rate = rate;
        self.config.trace = None;
    }

    /// The serialisation of the front packet is complete.
    fn depart(&mut self, departed: u64) {
        let Some(packet) = self.queue.pop_front() else {
            return;
        };
        self.queue_bytes -= self.on_link(packet.size);
        self.stats.busy += Duration::from_nanos(departed - self.service.began());
        if let Some(next) = self.queue.front() {
            let bytes = self.on_link(next.size);
            self.service.begin(departed, bytes);
        }

        let Waiting {
            payload,
            size,
            entered,
        } = packet;
        let entered = Duration::from_nanos(entered);
        let spared = self.is_spared();
        if self.lose() && !spared {
            self.harmed = self.harmed.saturating_add(1);
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
        let fate = if size > 0 && self.chance(self.config.corruption) && !spared {
            self.harmed = self.harmed.saturating_add(1);
            self.stats.corrupted += 1;
            Fate::Corrupted {
                bit: self.rng.random_range(0..size as u64 * 8),
            }
        } else {
            self.harmed = 0;
            Fate::Delivered
        };
        let copy = self.chance(self.config.duplication);
        let held_back = self.chance(self.config.reordering);
        let travelled = departed.saturating_add(self.draw_delay());
        let at = if held_back {
            self.stats.reordered += 1;
            travelled.saturating_add(nanos(self.config.reordering_delay))
        } else if self.config.delay_reorders {
            travelled
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
            // The copy of a packet with a flipped bit has the same bit flipped.
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
        // Nearly always at the end: only losses and reordered packets are out of order.
        if self.wire.back().is_none_or(|last| last.at <= exit.at) {
            self.wire.push_back(exit);
            return;
        }
        let place = self.wire.partition_point(|other| other.at <= exit.at);
        self.wire.insert(place, exit);
    }

    fn lose_queue(&mut self, at: u64) {
        if !self.queue.is_empty() {
            self.stats.busy += Duration::from_nanos(at.saturating_sub(self.service.began()));
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

    /// The packets and bytes that wait, without the one that is being serialised.
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

    /// Whether chance has harmed as many packets in a row as it may.
    fn is_spared(&self) -> bool {
        let most = self.config.max_burst;
        most.is_some_and(|most| self.harmed >= most.get())
    }

    /// Whether the departing packet is lost. The chain advances with each packet, lost or not.
    fn lose(&mut self) -> bool {
        let burst = match &mut self.bursts {
            Some(bursts) => bursts.lose(&mut self.rng),
            None => false,
        };
        self.chance(self.config.loss) || burst
    }

    /// Draws a random number only if the outcome is open, which keeps links without impairments
    /// fast.
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

/// Flips one bit of a packet, as in [`Fate::Corrupted`]. Does nothing if the packet has no such
/// bit.
pub fn flip_bit(packet: &mut [u8], bit: u64) {
    let byte = usize::try_from(bit / 8)
        .ok()
        .and_then(|index| packet.get_mut(index));
    if let Some(byte) = byte {
        *byte ^= 1 << (bit % 8);
    }
}

/// A time in nanoseconds, at most 584 years.
pub(crate) fn nanos(time: Duration) -> u64 {
    // Not `as_nanos`, whose u128 costs several times as much.
    time.as_secs()
        .saturating_mul(1_000_000_000)
        .saturating_add(time.subsec_nanos().into())
}
