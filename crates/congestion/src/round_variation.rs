//! What round trips vary by within a round, and from which rise on slow start takes them for a queue.

use std::time::Duration;

/// RFC 9406 section 4.3: MIN_RTT_DIVISOR, and MAX_RTT_THRESH.
const DIVISOR: u32 = 8;
const MAX_RISE: Duration = Duration::from_millis(16);

/// The samples of the round under way, and what those of the round before varied by.
///
/// RFC 9406 takes an eighth of the round trip for a queue, and 16 ms of any: the more a path delays, the smaller the part of
/// its round trip that is. Three per cent of a geostationary satellite's are more than that, and chance alone ends slow start
/// there. So the cap follows what the round before has shown. A queue that grows in the round under way is not part of
/// that, and one that grew before has raised it by less than the cap, or slow start would be over.
#[derive(Debug, Clone, Default)]
pub(super) struct RoundVariation {
    /// All times are nanoseconds.
    sum: u64,
    min: u64,
    last: u64,
    samples: u32,
}

impl RoundVariation {
    pub(super) fn on_sample(&mut self, rtt: Duration) {
        let rtt = u64::try_from(rtt.as_nanos()).unwrap_or(u64::MAX);
        self.min = match self.samples {
            0 => rtt,
            _ => self.min.min(rtt),
        };
        self.sum = self.sum.saturating_add(rtt);
        self.samples = self.samples.saturating_add(1);
    }

    /// Samples of the round under way.
    pub(super) const fn samples(&self) -> u32 {
        self.samples
    }

    /// The shortest of them.
    pub(super) fn shortest(&self) -> Option<Duration> {
        (self.samples > 0).then(|| Duration::from_nanos(self.min))
    }

    /// The next round begins.
    pub(super) fn end_round(&mut self) {
        if self.samples > 0 {
            self.last = (self.sum / u64::from(self.samples)).saturating_sub(self.min);
        }
        self.sum = 0;
        self.samples = 0;
    }

    /// A queue raises the round trip by at least this: an eighth of `rtt`, no less than `least`, and no more than 16 ms or
    /// by how much the samples of the round before were above their shortest in the mean.
    pub(super) fn rise(&self, rtt: Duration, least: Duration) -> Duration {
        let most = MAX_RISE.max(Duration::from_nanos(self.last));
        (rtt / DIVISOR).max(least).min(most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn after(rtts: &[u64]) -> RoundVariation {
        let mut variation = RoundVariation::default();
        for rtt in rtts {
            variation.on_sample(ms(*rtt));
        }
        variation.end_round();
        variation
    }

    #[test]
    fn without_variation_it_is_that_of_the_rfc() {
        let variation = after(&[560; 20]);
        for (rtt, rise) in [(8, 4), (64, 8), (128, 16), (560, 16)] {
            assert_eq!(variation.rise(ms(rtt), ms(4)), ms(rise), "{rtt}");
        }
    }

    #[test]
    fn the_cap_follows_the_variation_of_the_round_before_up_to_an_eighth() {
        // 30 ms above the shortest in the mean.
        let mut variation = after(&[560, 580, 590, 600, 620]);
        assert_eq!(variation.rise(ms(560), ms(4)), ms(30));
        assert_eq!(variation.rise(ms(160), ms(4)), ms(20), "an eighth");
        assert_eq!(variation.rise(ms(80), ms(4)), ms(10), "an eighth");
        // What the round under way does is no part of it.
        variation.on_sample(ms(560));
        variation.on_sample(ms(900));
        assert_eq!(variation.rise(ms(560), ms(4)), ms(30));
        // A round without samples tells nothing.
        let mut variation = after(&[560, 620]);
        variation.end_round();
        assert_eq!(variation.rise(ms(560), ms(4)), ms(30));
    }

    #[test]
    fn absurd_samples_do_no_harm() {
        let mut variation = RoundVariation::default();
        for _ in 0..3 {
            variation.on_sample(Duration::MAX);
        }
        variation.on_sample(Duration::ZERO);
        variation.end_round();
        assert!(variation.rise(Duration::MAX, ms(1)) >= ms(16));
    }
}
