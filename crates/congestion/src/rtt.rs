//! The round-trip time of one path (RFC 9002 section 5); does not decide which ACK gives a sample.

use std::time::{Duration, Instant};

use mpquic_sched_core::RttHistory;

use crate::{GRANULARITY, STALL};

/// A peer that ever answered sooner is near: in the same host or room. What its round trips are longer by is time in the
/// queues and tasks of the two hosts, and a window that covers it only makes these queues longer, until what is in them no
/// longer fits into the processors' caches. Linux draws the line there, too (`tcp_rcvbuf_low_rtt`).
const NEAR: Duration = Duration::from_millis(1);

/// Round trips beyond this count as this long, nanoseconds: 36 years. No sum of a few of them overflows.
const LONGEST: u64 = 1 << 60;

/// A round trip to a near peer that windows cover, at most: a measured minimum, too, may come from a busy host. Windows
/// cover several round trips, and so still two of the longest to a near peer.
const NEAR_COVERED: Duration = Duration::from_micros(250);

/// What is worth being written ahead of a near peer's acknowledgements, bytes: what is in flight and what the next packets take
/// stay in the processor's cache. Beyond that, writing more only has it fetched from memory when it is sent.
const NEAR_AHEAD: u64 = 1 << 20;

/// The same for each nanosecond of the round trip: 40 Gbit/s, more than one core encrypts.
const NEAR_AHEAD_PER_NANOSECOND: u64 = 5;

/// The round-trip time of one path (RFC 9002 section 5): smoothed RTT, its variation, the minimum and
/// the newest samples.
#[derive(Debug, Clone)]
pub struct RttEstimator {
    latest: Duration,
    /// The ACK Delay that was taken off the newest sample.
    delay: Duration,
    min: Duration,
    smoothed: Duration,
    var: Duration,
    first_sample: Option<Instant>,
    latest_at: Option<Instant>,
    history: RttHistory,
    /// The minimum is of acknowledgements that came over other paths.
    detour: bool,
    // What follows from these: asked for far more often than it changes.
    /// The PTO without max_ack_delay.
    pto: Duration,
    patience: Duration,
    covered: Duration,
}

impl RttEstimator {
    /// No sample yet: all values rest on this initial RTT (RFC 9002 section 5.3).
    #[inline]
    pub const fn new(initial_rtt: Duration) -> Self {
        let mut this = Self {
            latest: initial_rtt,
            delay: Duration::ZERO,
            min: initial_rtt,
            smoothed: initial_rtt,
            var: Duration::ZERO,
            first_sample: None,
            latest_at: None,
            history: RttHistory::new(),
            detour: false,
            pto: Duration::ZERO,
            patience: Duration::ZERO,
            covered: Duration::ZERO,
        };
        let initial = nanos(initial_rtt);
        this.set(initial, initial, initial / 2);
        this
    }

    /// Takes in a sample (RFC 9002 section 5.3). Once the handshake is confirmed, the caller has
    /// limited `ack_delay` to the peer's max_ack_delay.
    #[inline]
    pub fn update(&mut self, now: Instant, sample: Duration, ack_delay: Duration) {
        let shortest = self.first_sample.is_none() || sample < self.min || self.detour;
        self.detour = false;
        self.take(now, sample, ack_delay, shortest);
    }

    /// Takes in a sample whose acknowledgement came over another path. Whether it says how long this one is: once a sample of
    /// its own has, the other way back says nothing of that, and the minimum stays.
    ///
    /// ```
    /// use std::time::{Duration, Instant};
    ///
    /// use mpquic_congestion::RttEstimator;
    ///
    /// let (now, ms) = (Instant::now(), Duration::from_millis);
    /// let mut rtt = RttEstimator::new(ms(333));
    /// rtt.update(now, ms(60), Duration::ZERO);
    /// assert!(!rtt.update_over_other(now, ms(35), Duration::ZERO));
    /// assert_eq!((rtt.latest(), rtt.min()), (ms(35), ms(60)));
    /// ```
    //= specs/rfc10069-draft.md#compute-rtt
    //# Congestion control state as defined in {{QUIC-RECOVERY}} is kept
    //# per path ID. However, depending on which path acknowledgments are
    //# sent, the actual RTT of a path cannot be calculated or might not be
    //# the right value to be used.
    pub fn update_over_other(
        &mut self,
        now: Instant,
        sample: Duration,
        ack_delay: Duration,
    ) -> bool {
        self.detour |= self.first_sample.is_none();
        let shortest = self.detour && (self.first_sample.is_none() || sample < self.min);
        self.take(now, sample, ack_delay, shortest);
        self.detour
    }

    /// `shortest`: the minimum is that of this sample now.
    #[inline]
    fn take(&mut self, now: Instant, sample: Duration, ack_delay: Duration, shortest: bool) {
        self.latest = sample;
        self.latest_at = Some(now);
        self.delay = Duration::ZERO;
        self.history.push(sample);
        let first = self.first_sample.is_none();
        if first {
            self.first_sample = Some(now);
        }
        //= specs/rfc9002.txt#section-5.2
        //# min_rtt MUST be set to the latest_rtt on the first RTT sample.
        //= specs/rfc9002.txt#section-5.2
        //# min_rtt MUST be set to the lesser of min_rtt and latest_rtt (Section 5.1) on all other
        //# samples.
        if shortest {
            self.min = sample;
        }
        // In nanoseconds, of which one word holds enough: durations have two, and a carry between them in each step.
        let (sample, delay) = (nanos(sample), nanos(ack_delay));
        let min = nanos(self.min);
        let (mut smoothed, mut var) = (sample, sample / 2);
        if !first {
            let mut adjusted = sample;
            //= specs/rfc9002.txt#section-5.3
            //# * MUST NOT subtract the acknowledgment delay from the RTT sample if the resulting
            //# value is smaller than the min_rtt.
            if sample >= min + delay {
                self.delay = ack_delay;
                adjusted -= delay;
            }
            let before = (nanos(self.smoothed), nanos(self.var));
            // The text of section 5.3 lists smoothed_rtt first; appendix A.7 computes rttvar with the
            // smoothed RTT before this sample, as RFC 6298 does. The appendix is what peers implement.
            let deviation = before.0.abs_diff(adjusted);
            smoothed = (before.0 * 7 + adjusted) / 8;
            var = (before.1 * 3 + deviation) / 4;
        }
        self.set(min, smoothed, var);
    }

    /// The estimate is this, in nanoseconds, with what follows from it.
    //= specs/rfc9002.txt#section-6.2.1
    //# The PTO period MUST be at least kGranularity to avoid the timer expiring immediately.
    const fn set(&mut self, min: u64, smoothed: u64, var: u64) {
        let spread = var * 4;
        let pto = smoothed + longer(spread, nanos(GRANULARITY));
        let patience = smoothed + longer(spread, nanos(STALL));
        let covered = if min < nanos(NEAR) {
            shorter(smoothed, shorter(min, nanos(NEAR_COVERED)))
        } else {
            smoothed
        };
        self.smoothed = Duration::from_nanos(smoothed);
        self.var = Duration::from_nanos(var);
        self.pto = Duration::from_nanos(pto);
        self.patience = Duration::from_nanos(patience);
        self.covered = Duration::from_nanos(covered);
    }

    /// The round trip that a receive window covers: the smoothed RTT, but to a near peer what it is without queues.
    #[inline]
    pub const fn covered(&self) -> Duration {
        self.covered
    }

    /// The most that is worth being written ahead of acknowledgements, bytes, if the peer is near.
    #[inline]
    pub fn near_ahead(&self) -> Option<u64> {
        let round_trip = self.min.as_nanos() as u64;
        (self.min < NEAR).then(|| NEAR_AHEAD + round_trip * NEAR_AHEAD_PER_NANOSECOND)
    }

    /// The newest sample; the initial RTT before the first.
    #[inline]
    pub const fn latest(&self) -> Duration {
        self.latest
    }

    /// The delay of the peer's acknowledgement that was taken off the newest sample.
    #[inline]
    pub(crate) const fn latest_delay(&self) -> Duration {
        self.delay
    }

    /// The smallest sample; the initial RTT before the first.
    #[inline]
    pub const fn min(&self) -> Duration {
        self.min
    }

    /// The smoothed RTT (`smoothed_rtt` in RFC 9002); the initial RTT before the first sample.
    #[inline]
    pub const fn smoothed(&self) -> Duration {
        self.smoothed
    }

    /// The variation of the RTT (`rttvar` in RFC 9002).
    #[inline]
    pub const fn var(&self) -> Duration {
        self.var
    }

    /// When the first sample came.
    #[inline]
    pub const fn first_sample(&self) -> Option<Instant> {
        self.first_sample
    }

    /// When the newest sample came.
    #[inline]
    pub const fn latest_at(&self) -> Option<Instant> {
        self.latest_at
    }

    /// Whether the values rest on a measurement.
    #[inline]
    pub const fn has_sample(&self) -> bool {
        self.first_sample.is_some()
    }

    /// The newest samples.
    #[inline]
    pub const fn history(&self) -> &RttHistory {
        &self.history
    }

    /// The probe timeout without back-off (RFC 9002 section 6.2.1). `max_ack_delay` is zero for the
    /// Initial and Handshake spaces.
    #[inline]
    pub fn pto_base(&self, max_ack_delay: Duration) -> Duration {
        self.pto.saturating_add(max_ack_delay)
    }

    /// The least that any probe timeout can be.
    #[inline]
    pub const fn least_pto(&self) -> Duration {
        self.pto
    }

    /// How long an acknowledgement is waited for that the peer does not delay: the PTO, but for a larger least slack.
    #[inline]
    pub const fn patience(&self) -> Duration {
        self.patience
    }

    /// How long acknowledgements that came in all the while may stay away: half an RTT and what the RTT varies by.
    #[inline]
    pub fn quiet(&self) -> Duration {
        let slack = self.patience.saturating_sub(self.smoothed);
        slack + self.smoothed / 2
    }

    /// RFC 9002 section 6.1.2: how long after a packet was sent it counts as lost, once a later one
    /// is acknowledged.
    ///
    /// Before the handshake is confirmed, the peer may have waited for keys, or for a datagram that let it answer, for
    /// far longer than its max_ack_delay (section 5.3). The smoothed RTT, and the PTO with it, are free of that delay.
    /// What exceeds max_ack_delay is taken off the newest sample here, too: the PTO is not armed while a loss by time is
    /// awaited (section 6.2.1), so that nothing would be sent again until long after the PTO.
    #[inline]
    pub fn loss_delay(&self, max_ack_delay: Duration) -> Duration {
        let waited = nanos(self.delay).saturating_sub(nanos(max_ack_delay));
        let latest = nanos(self.latest).saturating_sub(waited);
        let longest = nanos(self.smoothed).max(latest);
        //= specs/rfc9002.txt#section-6.1.2
        //# To avoid declaring packets as lost too early, this time threshold MUST be set to at
        //# least the local timer granularity, as indicated by the kGranularity constant.
        Duration::from_nanos(longest + longest / 8).max(GRANULARITY)
    }

    /// Forgets the minimum in favour of the newest sample: RFC 9002 section 5.2 after persistent
    /// congestion; RFC 10069, Computing Path RTT, when the path on which acknowledgements return has changed.
    #[inline]
    pub const fn reset_min(&mut self) {
        //= specs/rfc9002.txt#section-5.2
        //# Endpoints SHOULD set the min_rtt to the newest RTT sample after persistent congestion is
        //# established.
        self.min = self.latest;
    }
}

/// Of a round trip, or of anything that is taken off one.
const fn nanos(duration: Duration) -> u64 {
    let seconds = shorter(duration.as_secs(), LONGEST / 1_000_000_000);
    seconds * 1_000_000_000 + duration.subsec_nanos() as u64
}

const fn longer(a: u64, b: u64) -> u64 {
    if a < b { b } else { a }
}

const fn shorter(a: u64, b: u64) -> u64 {
    if a < b { a } else { b }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    //= specs/rfc9002.txt#section-5.2
    //= type=test
    //# min_rtt MUST be set to the latest_rtt on the first RTT sample.
    #[test]
    fn follows_appendix_a7() {
        let now = Instant::now();
        let mut rtt = RttEstimator::new(ms(333));
        // RFC 9002 section 6.2.2: the handshake starts with a PTO of one second.
        assert_eq!(rtt.pto_base(Duration::ZERO), ms(999));
        assert!(!rtt.has_sample());
        rtt.update(now, ms(100), ms(80));
        assert_eq!(
            (rtt.min(), rtt.smoothed(), rtt.var()),
            (ms(100), ms(100), ms(50))
        );
        // 140 >= 100 + 20: adjusted to 120.
        rtt.update(now, ms(140), ms(20));
        assert_eq!(rtt.smoothed(), Duration::from_micros(102_500));
        assert_eq!(rtt.var(), Duration::from_micros(42_500));
        assert_eq!(
            rtt.pto_base(ms(25)),
            Duration::from_micros(102_500 + 170_000 + 25_000)
        );
    }

    //= specs/rfc9002.txt#section-5.3
    //= type=test
    //# * MUST NOT subtract the acknowledgment delay from the RTT sample if the resulting value is
    //# smaller than the min_rtt.
    #[test]
    fn a_delay_that_leads_below_the_minimum_is_ignored() {
        let now = Instant::now();
        let mut rtt = RttEstimator::new(ms(333));
        rtt.update(now, ms(100), Duration::ZERO);
        rtt.update(now, ms(104), ms(20));
        assert_eq!(rtt.smoothed(), Duration::from_micros(100_500));
        assert_eq!(rtt.min(), ms(100));
    }

    #[test]
    fn samples_over_another_path_leave_the_minimum_alone() {
        let now = Instant::now();
        let mut rtt = RttEstimator::new(ms(333));
        // Without a sample of its own, they say all that is known of the path.
        assert!(rtt.update_over_other(now, ms(50), Duration::ZERO));
        assert!(rtt.update_over_other(now, ms(40), Duration::ZERO));
        assert_eq!(rtt.min(), ms(40));
        rtt.update(now, ms(60), Duration::ZERO);
        assert_eq!(rtt.min(), ms(60));
        assert!(!rtt.update_over_other(now, ms(40), Duration::ZERO));
        assert_eq!((rtt.min(), rtt.latest()), (ms(60), ms(40)));
        // The timers of loss detection go by them nevertheless.
        assert!(rtt.smoothed() < ms(50));
        rtt.update(now, ms(58), Duration::ZERO);
        assert_eq!(rtt.min(), ms(58));
    }

    //= specs/rfc9002.txt#section-6.1.2
    //= type=test
    //# To avoid declaring packets as lost too early, this time threshold MUST be set to at least
    //# the local timer granularity, as indicated by the kGranularity constant.
    #[test]
    fn loss_delay_takes_the_larger_rtt_and_the_granularity() {
        let now = Instant::now();
        let mut rtt = RttEstimator::new(ms(333));
        rtt.update(now, ms(80), Duration::ZERO);
        assert_eq!(rtt.loss_delay(ms(25)), ms(90));
        rtt.update(now, ms(160), Duration::ZERO);
        assert_eq!(rtt.loss_delay(ms(25)), ms(180));
        let mut fast = RttEstimator::new(ms(333));
        fast.update(now, Duration::from_micros(50), Duration::ZERO);
        assert_eq!(fast.loss_delay(ms(25)), ms(1));
        rtt.reset_min();
        assert_eq!(rtt.min(), ms(160));
    }

    /// Windows are for what lies between two hosts, and not for what waits in one of them.
    #[test]
    fn of_the_round_trips_to_a_near_peer_windows_cover_the_least() {
        let us = Duration::from_micros;
        let now = Instant::now();
        let mut near = RttEstimator::new(ms(333));
        assert_eq!(near.covered(), ms(333), "nothing is known");
        for (sample, covered) in [(us(80), us(80)), (ms(3), us(80)), (us(60), us(60))] {
            near.update(now, sample, Duration::ZERO);
            assert_eq!(near.covered(), covered);
        }
        assert_eq!(near.near_ahead(), Some((1 << 20) + 300_000));
        let mut busy = RttEstimator::new(ms(333));
        busy.update(now, us(900), Duration::ZERO);
        assert_eq!(busy.covered(), us(250));
        let mut far = RttEstimator::new(ms(333));
        far.update(now, ms(1), Duration::ZERO);
        far.update(now, ms(9), Duration::ZERO);
        assert_eq!(far.covered(), ms(2));
        assert_eq!(far.near_ahead(), None);
    }

    /// A server could not answer for 13 seconds, for want of datagrams, and says so.
    #[test]
    fn a_long_delay_of_the_peer_does_not_put_losses_off() {
        let now = Instant::now();
        let mut rtt = RttEstimator::new(ms(333));
        rtt.update(now, ms(10), Duration::ZERO);
        rtt.update(now, ms(13_240), ms(13_230));
        assert_eq!(rtt.latest(), ms(13_240));
        assert!(rtt.loss_delay(ms(25)) <= rtt.pto_base(ms(25)));
        // A delay of up to max_ack_delay belongs to the newest RTT, as it does to the PTO.
        rtt.update(now, ms(30), ms(20));
        assert_eq!(rtt.loss_delay(ms(25)), ms(30) * 9 / 8);
        // And one that would lead below the minimum is not believed.
        rtt.update(now, ms(500), ms(499));
        assert_eq!(rtt.loss_delay(ms(25)), ms(500) * 9 / 8);
    }

    proptest! {
        #[test]
        fn any_sample_is_taken_without_panic(samples in prop::collection::vec((any::<u64>(), any::<u64>()), 1..50)) {
            let now = Instant::now();
            let mut rtt = RttEstimator::new(Duration::MAX);
            for (sample, delay) in samples {
                rtt.update(now, Duration::from_micros(sample), Duration::from_micros(delay));
                prop_assert!(rtt.min() <= rtt.latest());
                let _ = (rtt.pto_base(Duration::from_millis(1 << 14)), rtt.loss_delay(ms(25)));
            }
        }
    }
}
