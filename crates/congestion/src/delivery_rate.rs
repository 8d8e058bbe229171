//! How fast a path delivers (draft-ietf-ccwg-bbr section 4.1).

use std::time::{Duration, Instant};

use super::RttEstimator;

/// The state of delivery when a packet left: kept with the packet (section 4.1.2.1.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeliverySnapshot {
    /// Bytes delivered before it left.
    pub delivered: u64,
    /// Bytes declared lost before it left.
    pub lost: u64,
    /// Bytes in flight once it had left, itself included.
    pub tx_in_flight: u64,
    delivered_at: Instant,
    first_sent: Instant,
    /// The application, the scheduler or flow control gave less than the path would have taken.
    pub app_limited: bool,
}

/// A sample of a path's delivery rate (draft-ietf-ccwg-bbr section 4.1). An ACK frame gives one,
/// measured over the flight of the newest packet that it newly acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
#[non_exhaustive]
pub struct RateSample {
    /// Bytes per second; 0 if the interval is too short to tell.
    pub rate: f64,
    /// Bytes delivered from when that packet was sent until now.
    pub delivered: u64,
    /// Bytes delivered before it was sent.
    pub prior_delivered: u64,
    /// Bytes in flight when it had been sent.
    pub tx_in_flight: u64,
    /// Bytes declared lost since it was sent.
    pub lost: u64,
    /// Bytes that the frame newly acknowledged.
    pub newly_acked: u64,
    /// Bytes declared lost since the sample before this one.
    pub newly_lost: u64,
    /// Bytes delivered so far.
    pub total_delivered: u64,
    /// Whether the sample was limited by what there was to send rather than by the path.
    pub app_limited: bool,
}

/// So many packets at least tell how fast a bottleneck lets a train of them through.
const TRAIN_PACKETS: u32 = 8;

/// And they arrive over so long a time at least: below that, timers and aggregation of frames decide.
const TRAIN_SPAN: Duration = Duration::from_millis(2);

/// A packet that leaves by so much, and by an eighth of the smallest RTT, after the one before it has passed the bottleneck may
/// still have met it busy: acknowledgements tell of every other packet only.
const TRAIN_GAP: Duration = Duration::from_millis(1);

/// Of shorter trains, so many in a row must have been stretched
const AGREEING: u8 = 4;
/// and be as fast as each other within this factor: delay that varies stretches some and not others.
const AGREEMENT: f32 = 1.5;
/// So many times longer than it left does a short train arrive that counts as stretched,
const SHORT_STRETCH: u32 = 2;
/// and so many bytes it has at least behind the first acknowledgement: fewer fill no packet.
const SHORT_BYTES: u64 = 1000;

/// A slower stretched train takes the bottleneck's rate down by this part of the difference.
const STRETCHED_FALL: u64 = 8;

/// Packets that left so soon one after the other that the bottleneck was busy with them all along: how far apart they arrive
/// is how fast it is, whoever limited how many there were.
#[derive(Debug, Clone, Copy)]
struct Train {
    /// When the first packet left and arrived, the latter on the sender's clock, a way back later.
    sent: Instant,
    arrived: Instant,
    /// What was delivered up to it, bytes and packets.
    delivered: u64,
    packets: u32,
    /// Whether the newest packet arrived so much later after it than it left that a short train is stretched.
    stretched: bool,
    /// How long after it the newest packet arrived, nanoseconds: half of what a `Duration` takes, on each path of each connection.
    arriving: u64,
}

impl Train {
    const fn arriving(&self) -> Duration {
        Duration::from_nanos(self.arriving)
    }
}

/// The trains in a row that were stretched, however short.
#[derive(Debug, Clone, Copy, Default)]
struct ShortTrains {
    /// Bytes per second.
    fastest: f32,
    slowest: f32,
    count: u8,
}

impl ShortTrains {
    /// One more. What the fastest of enough agreeing ones showed, bytes per second.
    fn agree(&mut self, rate: f32) -> Option<u64> {
        let (fastest, slowest) = (self.fastest.max(rate), self.slowest.min(rate));
        if self.count == 0 || fastest > AGREEMENT * slowest {
            *self = Self {
                fastest: rate,
                slowest: rate,
                count: 1,
            };
            return None;
        }
        let count = self.count + 1;
        *self = Self {
            fastest,
            slowest,
            count: count % AGREEING,
        };
        (count == AGREEING).then_some(fastest as u64)
    }
}

/// An acknowledged packet: the state when it left, and when that was.
#[derive(Debug, Clone, Copy)]
pub struct Acknowledged<'a> {
    snapshot: &'a DeliverySnapshot,
    sent: Instant,
}

/// The estimator of one path.
#[derive(Debug, Default)]
pub struct DeliveryRate {
    /// Bytes acknowledged so far, and when the newest of them was.
    delivered: u64,
    delivered_at: Option<Instant>,
    /// Bytes declared lost so far.
    lost: u64,
    /// When the packet was sent with which the current sample's send interval begins.
    first_sent: Option<Instant>,
    /// Samples are limited by the application until so many bytes are delivered; 0: they are not.
    app_limited_until: u64,
    /// Bytes delivered and lost at the sample before this one.
    sampled: (u64, u64),
    rate: u64,
    /// Packets acknowledged so far; it wraps around.
    packets: u32,
    train: Option<Train>,
    short: ShortTrains,
    /// What the estimate was before trains lowered it; 0 if none did since the last sample that nobody limited.
    before_fall: u64,
    /// How fast the newest stretched trains arrived, bytes per second; 0 before the first.
    stretched: u64,
    /// The fastest train that was not stretched: the bottleneck is no slower.
    unstretched: u64,
}

impl DeliveryRate {
    /// A packet of `size` bytes that counts as in flight leaves; `in_flight` is the number of bytes
    /// before it.
    #[inline]
    pub fn on_sent(&mut self, now: Instant, in_flight: u64, size: u16) -> DeliverySnapshot {
        if in_flight == 0 {
            self.first_sent = Some(now);
            self.delivered_at = Some(now);
        }
        DeliverySnapshot {
            delivered: self.delivered,
            lost: self.lost,
            tx_in_flight: in_flight + u64::from(size),
            delivered_at: *self.delivered_at.get_or_insert(now),
            first_sent: *self.first_sent.get_or_insert(now),
            app_limited: self.is_app_limited(),
        }
    }

    /// Nothing more is there to be sent, though the window would allow it: until what is in flight
    /// now is acknowledged, samples tell of the application rather than of the path.
    #[inline]
    pub const fn on_app_limited(&mut self, in_flight: u64) {
        let until = self.delivered.saturating_add(in_flight);
        self.app_limited_until = if until == 0 { 1 } else { until };
    }

    /// Whether packets that leave now give samples limited by the application.
    #[inline]
    pub const fn is_app_limited(&self) -> bool {
        self.app_limited_until != 0
    }

    /// A packet was newly acknowledged; one call for each packet of an ACK frame. `newest` becomes the one of them that
    /// was sent last.
    #[inline]
    pub fn on_acked<'a>(
        &mut self,
        now: Instant,
        sent: Instant,
        size: u16,
        snapshot: &'a DeliverySnapshot,
        newest: &mut Option<Acknowledged<'a>>,
    ) {
        self.delivered += u64::from(size);
        self.delivered_at = Some(now);
        self.packets = self.packets.wrapping_add(1);
        let newer = match newest {
            None => true,
            Some(best) => (snapshot.delivered, sent) >= (best.snapshot.delivered, best.sent),
        };
        if newer {
            *newest = Some(Acknowledged { snapshot, sent });
            self.first_sent = Some(sent);
        }
    }

    /// A packet that counts as in flight was declared lost. Bytes declared lost since it left,
    /// itself included.
    #[inline]
    pub const fn on_lost(&mut self, size: u16, snapshot: &DeliverySnapshot) -> u64 {
        self.lost += size as u64;
        self.lost - snapshot.lost
    }

    /// Packets declared lost arrived after all: the path did deliver them.
    #[inline]
    pub const fn on_spurious(&mut self, bytes: u64) {
        self.delivered += bytes;
    }

    /// The packets of an ACK frame, and those lost by it, have been told: makes the sample.
    /// `None` if the frame acknowledged nothing new. `ack_delay`: how long the peer says that it held the frame back.
    #[inline]
    pub fn on_ack_end(
        &mut self,
        now: Instant,
        ack_delay: Duration,
        rtt: &RttEstimator,
        newest: Option<Acknowledged<'_>>,
    ) -> Option<RateSample> {
        let Acknowledged { snapshot, sent } = newest?;
        if self.is_app_limited() && self.delivered > self.app_limited_until {
            self.app_limited_until = 0;
        }
        // The slower of sending and acknowledging: compressed ACKs must not feign a fast path.
        let send_elapsed = sent.saturating_duration_since(snapshot.first_sent);
        let ack_elapsed = now.saturating_duration_since(snapshot.delivered_at);
        let interval = send_elapsed.max(ack_elapsed);
        let delivered = self.delivered - snapshot.delivered;
        let mut rate = 0.0;
        if interval >= rtt.min() && interval > Duration::ZERO {
            rate = delivered as f64 / interval.as_secs_f64();
            // A sample limited by the application only shows that the path can do at least that.
            if !snapshot.app_limited || rate as u64 >= self.rate {
                self.rate = rate as u64;
                self.before_fall = 0;
            }
        }
        self.on_train(now, ack_delay, rtt, sent);
        let (acked_before, lost_before) =
            std::mem::replace(&mut self.sampled, (self.delivered, self.lost));
        Some(RateSample {
            rate,
            delivered,
            prior_delivered: snapshot.delivered,
            tx_in_flight: snapshot.tx_in_flight,
            lost: self.lost - snapshot.lost,
            newly_acked: self.delivered - acked_before,
            newly_lost: self.lost - lost_before,
            total_delivered: self.delivered,
            app_limited: snapshot.app_limited,
        })
    }

    /// The newest packet that a frame acknowledged left at `sent`.
    ///
    /// An application that sends little at a time never fills the path, and none of its samples may lower the estimate. But a
    /// train of its packets that arrives stretched shows the bottleneck: it may. What a train has lowered, trains may raise
    /// again, up to what it was.
    #[inline(never)]
    fn on_train(&mut self, now: Instant, ack_delay: Duration, rtt: &RttEstimator, sent: Instant) {
        // What the peer held back is no time on the way: the last packet of a train often waits for another one.
        let arrived = now
            .checked_sub(ack_delay)
            .map_or(now, |arrived| arrived.max(sent));
        let begins = Train {
            sent,
            arrived,
            delivered: self.delivered,
            packets: self.packets,
            arriving: 0,
            stretched: false,
        };
        let Some(train) = &mut self.train else {
            self.train = Some(begins);
            return;
        };
        let sending = sent.saturating_duration_since(train.sent);
        if sending > train.arriving() + TRAIN_GAP + rtt.min() / 8 {
            let ended = std::mem::replace(train, begins);
            self.on_train_end(&ended);
            return;
        }
        let arriving = arrived.saturating_duration_since(train.arrived);
        let arriving = train.arriving().max(arriving);
        train.arriving = arriving.as_nanos() as u64;
        train.stretched = arriving >= TRAIN_SPAN && arriving >= SHORT_STRETCH * sending;
        let bytes = (self.delivered - train.delivered) as f64;
        if self.packets.wrapping_sub(train.packets) < TRAIN_PACKETS {
            // Too few to tell by how far apart they arrive, which delay that varies shortens, too. But the bottleneck was not busy
            // with them for longer than the newest took above the smallest RTT: it is no slower than that.
            let first = train.arrived.saturating_duration_since(train.sent);
            let above = (first + arriving)
                .saturating_sub(rtt.min())
                .max(sending)
                .max(TRAIN_SPAN);
            self.is_no_slower((bytes / above.as_secs_f64()) as u64);
            return;
        }
        if arriving >= TRAIN_SPAN && arriving.as_secs_f64() >= 1.25 * sending.as_secs_f64() {
            let rate = (bytes / arriving.as_secs_f64()) as u64;
            self.is_as_fast(rate);
            if rate < self.rate {
                self.before_fall = self.before_fall.max(self.rate);
                self.rate = rate;
                return;
            }
        }
        // However short: it delivers that at least.
        let span = arriving.max(sending).max(TRAIN_SPAN);
        let least = (bytes / span.as_secs_f64()) as u64;
        self.is_no_slower(least);
        self.rate = self.rate.max(least.min(self.before_fall));
    }

    /// A packet begins the next train. Messages of few packets make no train that tells by itself, but if a row of them arrives
    /// stretched alike, delay that varies is not what stretches them.
    fn on_train_end(&mut self, train: &Train) {
        let bytes = self.sampled.0.saturating_sub(train.delivered);
        if bytes < SHORT_BYTES {
            return;
        }
        if !train.stretched {
            self.short.count = 0;
            return;
        }
        let rate = bytes as f64 / train.arriving().as_secs_f64();
        if let Some(rate) = self.short.agree(rate as f32) {
            self.is_as_fast(rate);
        }
    }

    /// Stretched trains show that the bottleneck lets so much through, bytes per second. Delay that varies stretches trains, too, and
    /// shortens none so often: of the newest, the fastest is the nearest.
    fn is_as_fast(&mut self, rate: u64) {
        let before = self.stretched;
        self.stretched = rate.max(before - before.saturating_sub(rate) / STRETCHED_FALL);
    }

    /// A train showed that the bottleneck lets so much through at least, bytes per second.
    fn is_no_slower(&mut self, rate: u64) {
        self.unstretched = self.unstretched.max(rate);
        if self.stretched > 0 {
            self.stretched = self.stretched.max(rate);
        }
    }

    /// The newest estimate, bytes per second; 0 before the first.
    #[inline]
    pub const fn rate(&self) -> u64 {
        self.rate
    }

    /// What the bottleneck lets through, bytes per second: how fast trains arrived that left faster. Before there was one, what
    /// was `known` of it from elsewhere, unless a train has arrived faster than that; 0 if nothing was.
    #[inline]
    pub fn bottleneck(&self, known: u64) -> u64 {
        match (self.stretched, known) {
            (0, 0) => 0,
            (0, known) => known.max(self.unstretched),
            (seen, _) => seen,
        }
    }

    /// Bytes delivered so far.
    #[inline]
    pub const fn delivered(&self) -> u64 {
        self.delivered
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;

    const NO_DELAY: Duration = Duration::ZERO;

    fn rtt(ms: u64) -> RttEstimator {
        let mut rtt = RttEstimator::new(Duration::from_millis(333));
        rtt.update(Instant::now(), Duration::from_millis(ms), Duration::ZERO);
        rtt
    }

    /// A window of 20 packets over a path that delivers one per millisecond, 10 ms away.
    #[test]
    fn finds_the_bottleneck() {
        let mut now = Instant::now();
        let rtt = rtt(10);
        let mut rate = DeliveryRate::default();
        let mut flight: VecDeque<(Instant, DeliverySnapshot)> = VecDeque::new();
        for _ in 0..20 {
            let in_flight = flight.len() as u64 * 1000;
            flight.push_back((now, rate.on_sent(now, in_flight, 1000)));
        }
        now += Duration::from_millis(10);
        for _ in 0..200 {
            let (sent, snapshot) = flight.pop_front().unwrap();
            let mut newest = None;
            rate.on_acked(now, sent, 1000, &snapshot, &mut newest);
            rate.on_ack_end(now, NO_DELAY, &rtt, newest);
            flight.push_back((now, rate.on_sent(now, flight.len() as u64 * 1000, 1000)));
            now += Duration::from_millis(1);
        }
        assert!(
            (950_000..=1_050_000).contains(&rate.rate()),
            "{}",
            rate.rate()
        );
        assert_eq!(rate.delivered(), 200_000);
    }

    #[test]
    fn an_idle_application_does_not_lower_the_estimate() {
        let t0 = Instant::now();
        let rtt = rtt(10);
        let (mut rate, mut newest) = (DeliveryRate::default(), None);
        let first: Vec<_> = (0..10).map(|i| rate.on_sent(t0, i * 1000, 1000)).collect();
        let t1 = t0 + Duration::from_millis(10);
        for snapshot in &first {
            rate.on_acked(t1, t0, 1000, snapshot, &mut newest);
        }
        assert_eq!(
            rate.on_ack_end(t1, NO_DELAY, &rtt, newest.take())
                .unwrap()
                .rate,
            1e6
        );
        rate.on_app_limited(0);
        let snapshot = rate.on_sent(t1, 0, 1000);
        let t2 = t1 + Duration::from_millis(10);
        rate.on_acked(t2, t1, 1000, &snapshot, &mut newest);
        let sample = rate.on_ack_end(t2, NO_DELAY, &rtt, newest.take()).unwrap();
        assert_eq!((sample.rate, sample.app_limited), (1e5, true));
        assert_eq!(rate.rate(), 1_000_000);
        assert_eq!(
            rate.on_ack_end(t2, NO_DELAY, &rtt, None),
            None,
            "nothing new"
        );
    }

    /// Ten packets; the third is lost, and the loss is seen with the fifth.
    #[test]
    fn a_sample_tells_what_was_in_flight_and_lost() {
        let t0 = Instant::now();
        let rtt = rtt(10);
        let (mut rate, mut newest) = (DeliveryRate::default(), None);
        let sent: Vec<_> = (0..10).map(|i| rate.on_sent(t0, i * 1000, 1000)).collect();
        let t1 = t0 + Duration::from_millis(10);
        for i in [0, 1, 3, 4] {
            rate.on_acked(t1, t0, 1000, &sent[i], &mut newest);
        }
        assert_eq!(rate.on_lost(1000, &sent[2]), 1000);
        let sample = rate.on_ack_end(t1, NO_DELAY, &rtt, newest.take()).unwrap();
        let expected = RateSample {
            rate: 4000.0 / 0.01,
            delivered: 4000,
            prior_delivered: 0,
            tx_in_flight: 5000,
            lost: 1000,
            newly_acked: 4000,
            newly_lost: 1000,
            total_delivered: 4000,
            app_limited: false,
        };
        assert_eq!(sample, expected);
        // Sent after the loss: nothing was lost since.
        let later = rate.on_sent(t1, 5000, 1000);
        assert_eq!((later.delivered, later.tx_in_flight), (4000, 6000));
        rate.on_spurious(1000);
        let t2 = t1 + Duration::from_millis(10);
        rate.on_acked(t2, t1, 1000, &later, &mut newest);
        let sample = rate.on_ack_end(t2, NO_DELAY, &rtt, newest.take()).unwrap();
        assert_eq!((sample.lost, sample.newly_lost), (0, 0));
        assert_eq!((sample.delivered, sample.newly_acked), (2000, 2000));
        // A sample over less than the shortest RTT tells no rate.
        let quick = rate.on_sent(t2, 0, 1000);
        let t3 = t2 + Duration::from_millis(9);
        rate.on_acked(t3, t2, 1000, &quick, &mut newest);
        assert_eq!(
            rate.on_ack_end(t3, NO_DELAY, &rtt, newest.take())
                .unwrap()
                .rate,
            0.0
        );
    }

    /// An application that sends trains of packets over a path of 20 ms, one at a time.
    struct Trains {
        now: Instant,
        rate: DeliveryRate,
        rtt: RttEstimator,
    }

    impl Trains {
        /// The path has delivered 10 kB per ms before.
        fn new() -> Self {
            let mut this = Self {
                now: Instant::now(),
                rate: DeliveryRate::default(),
                rtt: rtt(20),
            };
            this.rate.rate = 10_000_000;
            this
        }

        /// So many packets of 1000 bytes that leave at once and arrive one per `apart`, two of them per acknowledgement; that of
        /// the last one comes `held` later, and says so. What the estimate is then, in bytes per ms.
        fn send(&mut self, packets: u32, apart: Duration, held: Duration) -> u64 {
            self.now += Duration::from_millis(200);
            self.rate.on_app_limited(0);
            let sent = (0..packets).map(|i| self.rate.on_sent(self.now, u64::from(i) * 1000, 1000));
            let sent: Vec<_> = sent.collect();
            self.rate.on_app_limited(u64::from(packets) * 1000);
            for (pair, snapshots) in sent.chunks(2).enumerate() {
                let last = 2 * (pair + 1) >= packets as usize;
                let delay = if last { held } else { NO_DELAY };
                let at =
                    self.now + Duration::from_millis(20) + apart * (2 * pair as u32 + 1) + delay;
                let mut newest = None;
                for snapshot in snapshots {
                    self.rate
                        .on_acked(at, self.now, 1000, snapshot, &mut newest);
                }
                self.rate.on_ack_end(at, delay, &self.rtt, newest);
            }
            self.rate.rate() / 1000
        }
    }

    #[test]
    fn a_train_that_arrives_stretched_lowers_the_estimate() {
        let mut trains = Trains::new();
        let (fast, slow) = (Duration::from_micros(100), Duration::from_millis(1));
        assert_eq!(trains.send(40, fast, NO_DELAY), 10_000);
        assert_eq!(trains.send(40, slow, NO_DELAY), 1000);
        // Eight packets after the first two.
        let mut trains = Trains::new();
        assert_eq!(trains.send(8, slow, NO_DELAY), 10_000);
        assert_eq!(trains.send(10, slow, NO_DELAY), 1000);
        // And it may rise again, to what it was: 38 packets arrive within 3.8 ms.
        assert_eq!(trains.send(40, fast, NO_DELAY), 10_000);
        assert_eq!(trains.send(40, Duration::from_micros(50), NO_DELAY), 10_000);
    }

    #[test]
    fn a_stretched_train_shows_the_bottleneck_and_a_faster_one_refutes_what_was_known() {
        let (fast, slow) = (Duration::from_micros(100), Duration::from_millis(1));
        // Known from elsewhere: 300 bytes per ms. 38 packets within 3.8 ms arrive stretched, as they left at once.
        let mut trains = Trains::new();
        assert_eq!(trains.rate.bottleneck(0), 0);
        assert_eq!(trains.rate.bottleneck(300_000), 300_000);
        trains.send(40, fast, NO_DELAY);
        assert_eq!(trains.rate.bottleneck(300_000) / 1000, 10_000);
        // Slower ones take it down little by little: seven eighths of the way are left after the first.
        trains.send(10, slow, NO_DELAY);
        let after_one = trains.rate.bottleneck(0) / 1000;
        assert!((7000..10_000).contains(&after_one), "{after_one}");
        for _ in 0..20 {
            trains.send(40, slow, NO_DELAY);
        }
        assert_eq!(trains.rate.bottleneck(0) / 1000, 1000);
        // Ten packets that arrive within less than 2 ms are not told to be stretched, but come through faster than what was known.
        let mut trains = Trains::new();
        trains.send(12, fast, NO_DELAY);
        assert_eq!(trains.rate.bottleneck(0), 0);
        assert_eq!(trains.rate.bottleneck(300_000), 5_000_000);
        assert_eq!(trains.rate.bottleneck(8_000_000), 8_000_000);
    }

    /// Messages of four packets: two of them behind the first pair.
    #[test]
    fn short_trains_show_the_bottleneck_if_a_row_of_them_agrees() {
        let (slow, slower) = (Duration::from_millis(4), Duration::from_millis(9));
        let mut trains = Trains::new();
        let mut after = |apart| {
            trains.send(4, apart, NO_DELAY);
            trains.rate.bottleneck(0) / 1000
        };
        // The end of a train shows with the next one.
        assert_eq!([slow; 4].map(&mut after), [0; 4]);
        assert_eq!(after(slower), 250);
        // One that arrives as it left ends a row.
        let mut trains = Trains::new();
        let fast = Duration::from_micros(100);
        for apart in [slow, slow, slow, fast, slow, slow, slow, slow] {
            trains.send(4, apart, NO_DELAY);
            assert_eq!(trains.rate.bottleneck(0), 0);
        }
        trains.send(4, slow, NO_DELAY);
        assert_eq!(trains.rate.bottleneck(0) / 1000, 250);
        // Each more than half as slow again as the one before it, or the other way round: no row.
        let mut trains = Trains::new();
        (0..9).for_each(|i| _ = trains.send(4, [slow, slower][i % 2], NO_DELAY));
        assert_eq!(trains.rate.bottleneck(0), 0);
        // Two packets make no train: nothing is behind the first acknowledgement.
        let mut trains = Trains::new();
        (0..9).for_each(|_| _ = trains.send(2, slow, NO_DELAY));
        assert_eq!(trains.rate.bottleneck(0), 0);
    }

    /// A path that has become fast again gets few packets as long as it is taken for slow.
    #[test]
    fn a_short_train_raises_the_bottleneck_by_what_its_delay_proves() {
        let slow_path = || {
            let mut trains = Trains::new();
            (0..60).for_each(|_| _ = trains.send(40, Duration::from_millis(4), NO_DELAY));
            assert_eq!(trains.rate.bottleneck(0) / 1000, 250);
            trains
        };
        // The two packets behind the first pair arrive 0.3 ms after the smallest RTT at the latest: that counts as 2 ms.
        let mut trains = slow_path();
        trains.send(4, Duration::from_micros(100), NO_DELAY);
        assert_eq!(trains.rate.bottleneck(0) / 1000, 1000);
        // One packet behind another one proves as much.
        let mut trains = slow_path();
        trains.send(3, Duration::from_micros(100), NO_DELAY);
        assert_eq!(trains.rate.bottleneck(0) / 1000, 500);
        // Packets that arrive at the same time, but 12 ms late, may have met a bottleneck of 2000 bytes per 12 ms.
        let mut trains = slow_path();
        let sent = trains.now + Duration::from_millis(200);
        let snapshots: Vec<_> = (0..4)
            .map(|i| trains.rate.on_sent(sent, i * 1000, 1000))
            .collect();
        for pair in snapshots.chunks(2) {
            let at = sent + Duration::from_millis(32);
            let mut newest = None;
            for snapshot in pair {
                trains.rate.on_acked(at, sent, 1000, snapshot, &mut newest);
            }
            trains.rate.on_ack_end(at, NO_DELAY, &trains.rtt, newest);
        }
        assert_eq!(trains.rate.bottleneck(0) / 1000, 250);
    }

    #[test]
    fn a_train_that_leaves_within_a_tick_shows_at_least_that_much() {
        let mut trains = Trains::new();
        assert_eq!(trains.send(40, Duration::from_millis(1), NO_DELAY), 1000);
        // 10 packets within 1 ms count as within 2.
        assert_eq!(trains.send(12, Duration::from_micros(100), NO_DELAY), 5000);
    }

    /// The last packet of a message waits for another one at the receiver: that is no slow path.
    #[test]
    fn what_the_peer_held_back_is_no_time_on_the_way() {
        let held = Duration::from_millis(25);
        let mut trains = Trains::new();
        assert_eq!(trains.send(11, Duration::from_micros(100), held), 10_000);
        // What it does not tell is taken for the path.
        let mut newest = None;
        let snapshot = trains.rate.on_sent(trains.now, 0, 1000);
        let at = trains.now + Duration::from_millis(20);
        trains
            .rate
            .on_acked(at, trains.now, 1000, &snapshot, &mut newest);
        trains
            .rate
            .on_ack_end(at, Duration::MAX, &trains.rtt, newest);
        assert_eq!(trains.rate.rate(), 10_000_000);
    }

    /// Messages that leave before the one before them has arrived, but with the path idle between them, are no train.
    #[test]
    fn packets_with_pauses_between_them_are_no_train() {
        let mut trains = Trains::new();
        let (rate, start) = (&mut trains.rate, trains.now);
        rate.on_app_limited(4000);
        let mut flight = VecDeque::new();
        for i in 0..20_u32 {
            let at = start + Duration::from_millis(5) * i;
            flight.push_back((at, rate.on_sent(at, 4000, 1000)));
            rate.on_app_limited(4000);
        }
        for (i, (sent, snapshot)) in flight.iter().enumerate() {
            // Each comes a little later than the one before.
            let at = *sent + Duration::from_millis(20 + 2 * i as u64);
            let mut newest = None;
            rate.on_acked(at, *sent, 1000, snapshot, &mut newest);
            rate.on_ack_end(at, NO_DELAY, &trains.rtt, newest);
        }
        assert_eq!(rate.rate(), 10_000_000);
    }
}
