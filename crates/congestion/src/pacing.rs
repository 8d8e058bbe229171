//! Spreads a path's packets over time (RFC 9002 section 7.7).

use std::time::{Duration, Instant};

use super::RttEstimator;
use crate::InitialWindow;

/// It holds what the path takes in this time: on a busy machine, timers fire as
/// late as this, and what has accrued until then must not be lost.
const BURST_NANOS: f64 = 10e6;

/// But no more than this: two full batches of segmentation offload.
const MAX_BURST: f64 = 128.0 * 1024.0;

/// An empty bucket opens again with what the path takes in this time, so that packets leave in
/// batches and not one by one,
const RELEASE_NANOS: f64 = 1e6;

/// and with no more than this.
const MAX_RELEASE: f64 = 16.0 * 1024.0;

/// On the shortest paths it opens with a full batch, however slow they are: such a path, in a host or a rack, has little
/// to keep in order, and what makes it slow is mostly its ends, which slow down further with each small batch.
const NEAR_RELEASE: u32 = 64 * 1024;

/// That is halved for each such part of the smallest RTT: a path of 3 ms is paced like any other.
const NEAR_RTT: Duration = Duration::from_micros(512);

/// What decides how fast a path sends.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Pace {
    /// A window per smoothed RTT, times N (RFC 9002 section 7.7): `cwnd` in bytes.
    Window {
        /// The congestion window, bytes.
        cwnd: u64,
        /// Whether the path is in slow start.
        slow_start: bool,
    },
    /// Bytes per second, as the congestion controller says.
    Rate(f64),
}

/// A token bucket: filled at the pace, emptied by what is sent.
///
/// ```
/// use std::time::{Duration, Instant};
///
/// use mpquic_congestion::{Pace, Pacer, RttEstimator};
///
/// let start = Instant::now();
/// let mut rtt = RttEstimator::new(Duration::from_millis(333));
/// rtt.update(start, Duration::from_millis(20), Duration::ZERO);
/// let mut pacer = Pacer::new(true);
/// let rate = Pace::Rate(1e6); // 1 MB/s
/// let mut sent = 0;
/// while pacer.is_open(start, rate, &rtt, 1200) {
///     pacer.on_sent(1200);
///     sent += 1200;
/// }
/// assert!(sent < 20_000);
/// assert!(pacer.next_release().unwrap() > start);
/// ```
#[derive(Debug)]
pub struct Pacer {
    /// Bytes that may go; below zero after packets that did not ask (probes).
    tokens: f64,
    /// Bytes per nanosecond; infinite before the first RTT sample.
    rate: f64,
    capacity: f64,
    /// Bytes to gather once the bucket was empty.
    release: f64,
    last: Option<Instant>,
    /// The bucket was empty and has not gathered enough since.
    closed: bool,
    /// What `rate` was computed from.
    inputs: (Pace, i64, u16),
    /// Nothing is held back, but for the limit.
    off: bool,
    /// Bytes per nanosecond, at most; infinite without a limit.
    limit: f64,
}

impl Default for Pacer {
    fn default() -> Self {
        Self {
            tokens: 0.0,
            rate: f64::INFINITY,
            capacity: 0.0,
            release: 0.0,
            last: None,
            closed: false,
            inputs: (Pace::Rate(0.0), 0, 0),
            off: false,
            limit: f64::INFINITY,
        }
    }
}

impl Pacer {
    /// One that is not used if the configuration switches pacing off
    /// (`TransportConfig::pacing`).
    #[inline]
    pub fn new(enabled: bool) -> Self {
        Self {
            off: !enabled,
            ..Self::default()
        }
    }

    /// Sends no faster than so many bytes per second from now on, whatever the pace, and with pacing switched off, too. At least one
    /// byte per second: a pace of nothing would never end.
    pub fn set_limit(&mut self, bytes_per_second: Option<u64>) {
        self.limit = bytes_per_second.map_or(f64::INFINITY, |rate| rate.max(1) as f64 / 1e9);
        // The rate is computed anew.
        self.inputs.2 = 0;
    }

    /// The limit, bytes per second.
    #[inline]
    pub fn limit(&self) -> Option<u64> {
        (self.limit < f64::INFINITY).then(|| (self.limit * 1e9).round() as u64)
    }

    /// Whether a packet of `mtu` bytes may go now. Without an RTT sample there is no rate: only the window limits.
    #[inline]
    pub fn is_open(&mut self, now: Instant, pace: Pace, rtt: &RttEstimator, mtu: u16) -> bool {
        if (self.off && self.limit == f64::INFINITY) || !rtt.has_sample() {
            return true;
        }
        // What has accrued until now did so at the rate until now.
        let fresh = self.last.is_none();
        if let Some(last) = self.last {
            // Mostly not: packets of a batch leave at one time.
            if now > last {
                let elapsed = now.saturating_duration_since(last);
                self.tokens += nanos(elapsed) as f64 * self.rate;
                self.last = Some(now);
            }
            self.tokens = smaller(self.tokens, self.capacity);
        } else {
            self.last = Some(now);
        }

        let smoothed = nanos(rtt.smoothed());
        let inputs = (pace, smoothed, mtu);
        if inputs != self.inputs {
            self.inputs = inputs;
            self.rate = match pace {
                Pace::Window { cwnd, slow_start } => {
                    // Section 7.7: N of 1.25; twice the window per RTT lets slow start double it.
                    let n = if slow_start { 2.0 } else { 1.25 };
                    n * cwnd.max(1) as i64 as f64 / smoothed.max(1_000) as f64
                }
                // Down to a byte per second: a pace of nothing would never end.
                Pace::Rate(rate) => rate.max(1.0) / 1e9,
            };
            self.rate = match self.off {
                true => self.limit,
                false => smaller(self.rate, self.limit),
            };
            let packet = f64::from(mtu);
            // RFC 9002 section 7.7: the initial window.
            let min_burst = InitialWindow::Rfc9002.bytes(mtu) as i64 as f64;
            let burst = smaller(self.rate * BURST_NANOS, larger(MAX_BURST, min_burst));
            self.capacity = larger(burst, min_burst);
            let release = smaller(self.rate * RELEASE_NANOS, larger(MAX_RELEASE, packet));
            let release = larger(release, packet);
            self.release = larger(smaller(release, self.capacity / 2.0), packet);
            let near = near_release(rtt.min());
            if near > self.release {
                self.release = near;
                // And with what accrues while its timer is late.
                self.capacity = smaller(self.capacity + near, MAX_BURST);
            }
        }
        if fresh {
            self.tokens = self.capacity;
        }
        let needed = if self.closed {
            self.release
        } else {
            f64::from(mtu)
        };
        // Floating point: a timer at exactly the release must find the bucket open.
        self.closed = self.tokens + 0.5 < needed;
        !self.closed
    }

    /// Bytes that may go now: 0, or at least one packet of `mtu` bytes.
    #[cfg(test)]
    fn budget(&mut self, now: Instant, pace: Pace, rtt: &RttEstimator, mtu: u16) -> u64 {
        match self.is_open(now, pace, rtt, mtu) {
            true if rtt.has_sample() => (self.tokens.ceil() as u64).max(u64::from(mtu)),
            true => u64::MAX,
            false => 0,
        }
    }

    /// When the bucket opens again, if it was closed when [`is_open`](Self::is_open) was asked last.
    #[inline]
    pub fn next_release(&self) -> Option<Instant> {
        if !self.closed {
            return None;
        }
        let nanos = (self.release - self.tokens) / self.rate;
        Some(crate::later(
            self.last?,
            Duration::from_nanos(nanos.ceil().max(0.0) as u64),
        ))
    }

    /// Bytes in flight were sent, whether or not they had asked.
    #[inline]
    pub fn on_sent(&mut self, bytes: u64) {
        if self.last.is_some() {
            // A debt beyond one full bucket would silence the path for no good.
            //= specs/rfc9002.txt#section-7.7
            //# Senders MUST either use pacing or limit such bursts.
            self.tokens = larger(self.tokens - bytes as i64 as f64, -self.capacity);
        }
    }
}

/// The batch for a path with this smallest RTT, bytes.
fn near_release(min_rtt: Duration) -> f64 {
    let halvings = nanos(min_rtt) / nanos(NEAR_RTT);
    f64::from(NEAR_RELEASE >> halvings.min(31))
}

/// Nanoseconds, at most those of 285 years; signed, since that is one instruction away from a float.
fn nanos(duration: Duration) -> i64 {
    let secs = duration.as_secs().min(9_000_000_000) as i64;
    secs * 1_000_000_000 + i64::from(duration.subsec_nanos())
}

/// The smaller of two numbers. Unlike `f64::min`, which sees to NaN, one instruction.
fn smaller(a: f64, b: f64) -> f64 {
    if a < b { a } else { b }
}

/// The larger of two numbers.
fn larger(a: f64, b: f64) -> f64 {
    if a > b { a } else { b }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn rtt(sample: Duration) -> RttEstimator {
        let mut rtt = RttEstimator::new(Duration::from_millis(333));
        rtt.update(Instant::now(), sample, Duration::ZERO);
        rtt
    }

    #[test]
    fn nothing_is_held_back_without_pacing() {
        for enabled in [true, false] {
            let mut pacer = Pacer::new(enabled);
            let now = Instant::now();
            let rtt = rtt(Duration::from_millis(50));
            let open = pacer.is_open(now, START, &rtt, 1200);
            pacer.on_sent(12_000);
            let still = pacer.is_open(now, START, &rtt, 1200);
            assert_eq!((open, still), (true, !enabled));
            assert_eq!(pacer.next_release().is_some(), enabled);
        }
    }

    const START: Pace = Pace::Window {
        cwnd: 12_000,
        slow_start: true,
    };

    #[test]
    fn no_delay_before_the_first_sample() {
        let now = Instant::now();
        let mut pacer = Pacer::default();
        let unknown = RttEstimator::new(Duration::from_millis(333));
        for _ in 0..100 {
            assert_eq!(pacer.budget(now, START, &unknown, 1200), u64::MAX);
            pacer.on_sent(1200);
        }
        assert_eq!(pacer.next_release(), None);
        assert_eq!(
            pacer.budget(now, START, &rtt(Duration::from_millis(50)), 1200),
            12_000
        );
    }

    //= specs/rfc9002.txt#section-7.7
    //= type=test
    //# Senders MUST either use pacing or limit such bursts.
    #[test]
    fn a_burst_then_the_rate() {
        let mut now = Instant::now();
        let rtt = rtt(Duration::from_millis(100));
        let mut pacer = Pacer::default();
        // 1.25 * 120000 B / 100 ms = 1500 B/ms.
        let pace = Pace::Window {
            cwnd: 120_000,
            slow_start: false,
        };
        let budget = |pacer: &mut Pacer, now| pacer.budget(now, pace, &rtt, 1200);
        assert_eq!(budget(&mut pacer, now), 15_000);
        pacer.on_sent(15_000);
        assert_eq!(budget(&mut pacer, now), 0);
        let release = pacer.next_release().unwrap();
        assert_eq!(release, now + Duration::from_millis(1));
        assert_eq!(
            budget(&mut pacer, now + Duration::from_micros(900)),
            0,
            "gathers a batch"
        );
        now = release;
        assert_eq!(budget(&mut pacer, now), 1500);
        assert_eq!(pacer.next_release(), None);
        // Long silence fills no more than the bucket.
        assert_eq!(budget(&mut pacer, now + Duration::from_secs(9)), 15_000);
    }

    #[test]
    fn a_limit_holds_at_any_pace_and_without_pacing() {
        for enabled in [true, false] {
            let mut now = Instant::now();
            let rtt = rtt(Duration::from_millis(20));
            let mut pacer = Pacer::new(enabled);
            pacer.set_limit(Some(1_000_000));
            assert_eq!(pacer.limit(), Some(1_000_000));
            let mut sent = 0;
            let begun = now;
            while now < begun + Duration::from_secs(1) {
                while pacer.is_open(now, Pace::Rate(1e9), &rtt, 1200) {
                    pacer.on_sent(1200);
                    sent += 1200;
                }
                now = pacer.next_release().unwrap();
            }
            // And what the bucket holds at the start.
            assert!((1_000_000..1_030_000).contains(&sent), "{sent}");
            pacer.set_limit(None);
            assert_eq!(pacer.limit(), None);
            // At the old rate, a batch would take 16 ms to gather.
            now += Duration::from_millis(1);
            if !pacer.is_open(now, Pace::Rate(1e9), &rtt, 1200) {
                assert!(pacer.next_release().unwrap() < now + Duration::from_millis(1));
            }
        }
    }

    #[test]
    fn batches_grow_with_the_rate() {
        let now = Instant::now();
        let mut pacer = Pacer::default();
        // 10 MB in 20 ms: 625 kB/ms.
        let rtt = rtt(Duration::from_millis(20));
        let pace = Pace::Window {
            cwnd: 10 << 20,
            slow_start: false,
        };
        assert_eq!(pacer.budget(now, pace, &rtt, 1452), 128 * 1024);
        pacer.on_sent(128 * 1024);
        assert_eq!(pacer.budget(now, pace, &rtt, 1452), 0);
        let release = pacer.next_release().unwrap();
        assert!(release - now < Duration::from_micros(50));
        assert!(pacer.budget(release, pace, &rtt, 1452) >= 16 * 1024);
    }

    /// A queue makes a path within the host slow, but not long: it is not asked packet by packet. With each half of a
    /// millisecond that it is longer it comes closer to what holds for all others.
    #[test]
    fn short_paths_send_in_batches_however_slow_they_are() {
        let now = Instant::now();
        // 1.25 * 64 kB / 100 ms = 800 B/ms.
        let pace = Pace::Window {
            cwnd: 64_000,
            slow_start: false,
        };
        let gathered = |min: Duration| {
            let mut rtt = rtt(min);
            for _ in 0..100 {
                rtt.update(now, Duration::from_millis(100), Duration::ZERO);
            }
            let mut pacer = Pacer::default();
            while pacer.budget(now, pace, &rtt, 1200) > 0 {
                pacer.on_sent(1200);
            }
            let release = pacer.next_release().unwrap();
            // Timers have whole nanoseconds: the odd byte is of the last one.
            pacer.budget(release, pace, &rtt, 1200) & !1
        };
        let micros = [50, 600, 1100, 2600, 4000, 50_000];
        assert_eq!(
            micros.map(|us| gathered(Duration::from_micros(us))),
            [65_536, 32_768, 16_384, 2_048, 1_200, 1_200]
        );
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]
        /// Whoever sends whenever allowed gets the configured rate, within 2 %.
        #[test]
        fn long_run_rate(cwnd in 2_904u64..50_000_000, rtt_us in 200u64..500_000, slow_start: bool, by_rate: bool, late_us in 0u64..1000) {
            let start = Instant::now();
            let rtt = rtt(Duration::from_micros(rtt_us));
            let rate = if slow_start { 2.0 } else { 1.25 } * cwnd as f64 / (rtt_us as f64 / 1e6);
            // Faster than a full bucket per late timer is a matter of acknowledgements, not of timers.
            prop_assume!(rate * 1e-3 < MAX_BURST - MAX_RELEASE);
            let pace = if by_rate { Pace::Rate(rate) } else { Pace::Window { cwnd, slow_start } };
            let mut pacer = Pacer::default();
            let mut now = start;
            let (mut sent, mut first) = (0u64, None);
            let total = (12_000_000f64).max(rate * 0.2) as u64;
            while sent < total {
                while pacer.budget(now, pace, &rtt, 1452) >= 1452 {
                    pacer.on_sent(1452);
                    // Measured from when the first bucket is spent.
                    if first.is_some() { sent += 1452; }
                }
                first.get_or_insert(now);
                let release = pacer.next_release().unwrap();
                prop_assert!(release > now);
                now = release + Duration::from_micros(late_us);
            }
            let measured = sent as f64 / (now - first.unwrap()).as_secs_f64();
            prop_assert!((measured / rate - 1.0).abs() < 0.02, "{} against {}", measured, rate);
        }

        #[test]
        fn never_panics(steps in prop::collection::vec((any::<u64>(), any::<u64>(), any::<u32>(), any::<u16>(), any::<bool>(), any::<u64>()), 1..30)) {
            let mut now = Instant::now();
            let mut pacer = Pacer::default();
            for (cwnd, sample, gap, mtu, slow_start, bytes) in steps {
                let rtt = rtt(Duration::from_nanos(sample));
                now += Duration::from_micros(u64::from(gap));
                let pace = if slow_start { Pace::Window { cwnd, slow_start } } else { Pace::Rate(cwnd as f64) };
                let budget = pacer.budget(now, pace, &rtt, mtu);
                prop_assert_eq!(budget == 0 && mtu > 0, pacer.next_release().is_some() && mtu > 0);
                pacer.on_sent(bytes);
            }
        }
    }
}
