//! What a connection may be expected to carry, for applications that plan ahead.

use std::time::{Duration, Instant};

/// Samples that are kept: the newest four seconds of receiving.
const SAMPLES: usize = 16;

/// Receiving for so long is a sample.
const SAMPLE: Duration = Duration::from_millis(250);

/// A pause counts as time of receiving for at most so many round trips: a path that fades makes longer gaps than one
/// that the peer has nothing for.
const ROUND_TRIPS: u32 = 4;

/// At least so much of a pause counts.
const SHORTEST_PAUSE: Duration = Duration::from_millis(50);

/// What the connection carried lately, over all paths, as a forecast of what it will carry next; for players that choose a
/// bitrate, and everybody else who can ask for more or less (Chorus, MobiCom 2024: players do better by a
/// forecast of the transport than by timing their own downloads).
///
/// Goodput, in bytes per second: stream data, without duplicates and headers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct ThroughputForecast {
    /// The median of the last four seconds of receiving. `None` until there were 250 ms of it.
    pub receive: Option<u64>,
    /// Four of five samples of 250 ms were above this: what to count on if a stall is worse than a lower rate. On a single
    /// bad quarter of a second it does not fall; on a path that fades, it does within a second.
    pub receive_low: Option<u64>,
    /// What the paths that can be used now deliver to the peer, summed: each path's newest estimate of its delivery rate.
    /// What was never filled is not known to carry more, so this is a lower bound for one who sends little. `None` before
    /// the first estimate.
    pub send: Option<u64>,
}

/// Goodput of receiving, sample by sample; pauses in which nothing is on its way are not counted.
#[derive(Debug, Default)]
pub(crate) struct ReceiveRate {
    last: Option<Instant>,
    /// Of the sample that is being taken.
    busy: Duration,
    bytes: u64,
    /// Bytes per second, the oldest overwritten first.
    samples: [u64; SAMPLES],
    next: usize,
    count: usize,
}

impl ReceiveRate {
    /// New stream data came.
    #[inline]
    pub(crate) fn on_received(&mut self, now: Instant, bytes: u64, rtt: impl FnOnce() -> Duration) {
        if self.last == Some(now) {
            // Most of a batch.
            self.bytes += bytes;
        } else {
            self.on_later(now, bytes, rtt());
        }
    }

    #[inline(never)]
    fn on_later(&mut self, now: Instant, bytes: u64, rtt: Duration) {
        let Some(last) = self.last.replace(now) else {
            // What came first says nothing of a rate.
            return;
        };
        let most = (rtt * ROUND_TRIPS).max(SHORTEST_PAUSE);
        self.busy += now.saturating_duration_since(last).min(most);
        self.bytes += bytes;
        if self.busy < SAMPLE {
            return;
        }
        let nanos = u128::from(self.bytes) * 1_000_000_000 / self.busy.as_nanos();
        self.samples[self.next] = u64::try_from(nanos).unwrap_or(u64::MAX);
        self.next = (self.next + 1) % SAMPLES;
        self.count = (self.count + 1).min(SAMPLES);
        (self.busy, self.bytes) = (Duration::ZERO, 0);
    }

    /// The sample below which this part of them is, in hundredths.
    fn quantile(&self, hundredths: usize) -> Option<u64> {
        let mut sorted = self.samples;
        let sorted = &mut sorted[..self.count];
        sorted.sort_unstable();
        sorted.get(self.count * hundredths / 100).copied()
    }

    /// The median, and what four of five samples are above.
    pub(crate) fn forecast(&self) -> (Option<u64>, Option<u64>) {
        (self.quantile(50), self.quantile(20))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// Packets of 1000 bytes, one each millisecond, for so long.
    fn receive(rate: &mut ReceiveRate, from: Instant, ms: u32, bytes: u64) -> Instant {
        let mut now = from;
        for _ in 0..ms {
            now += MS;
            rate.on_received(now, bytes, || 20 * MS);
        }
        now
    }

    #[test]
    fn a_steady_rate_is_its_own_forecast() {
        let mut rate = ReceiveRate::default();
        assert_eq!(rate.forecast(), (None, None));
        let now = receive(&mut rate, Instant::now(), 250, 1000);
        assert_eq!(
            rate.forecast(),
            (None, None),
            "the first packet begins the time"
        );
        receive(&mut rate, now, 5000, 1000);
        assert_eq!(rate.forecast(), (Some(1_000_000), Some(1_000_000)));
    }

    #[test]
    fn a_pause_without_requests_counts_as_four_round_trips() {
        let mut rate = ReceiveRate::default();
        let mut now = Instant::now();
        for _ in 0..20 {
            now = receive(&mut rate, now, 1000, 1000) + 10_000 * MS;
        }
        let (median, low) = rate.forecast();
        assert_eq!(median, Some(1_000_000));
        // One sample in four has the pause in it: 170 packets in 80 and 170 ms.
        assert!((650_000..800_000).contains(&low.unwrap()), "{low:?}");
    }

    #[test]
    fn the_lower_forecast_follows_a_fade_within_a_second_and_the_median_in_two() {
        let mut rate = ReceiveRate::default();
        let now = receive(&mut rate, Instant::now(), 10_000, 1000);
        let now = receive(&mut rate, now, 1001, 100);
        assert_eq!(rate.forecast(), (Some(1_000_000), Some(100_000)));
        let now = receive(&mut rate, now, 900, 100);
        assert_eq!(rate.forecast().0, Some(1_000_000));
        receive(&mut rate, now, 500, 100);
        assert_eq!(rate.forecast().0, Some(100_000));
    }

    #[test]
    fn a_long_life_overwrites_the_oldest_sample() {
        let mut rate = ReceiveRate::default();
        let mut now = Instant::now();
        for bytes in 1..100 {
            now = receive(&mut rate, now, 4000, bytes * 10);
            let (median, _) = rate.forecast();
            assert!(
                median.unwrap().abs_diff(bytes * 10_000) <= bytes * 10_000 / 16,
                "{median:?}"
            );
        }
    }
}
