//! The shortest round trip of a path, and when it is due to be measured anew (section 5.3.4.3);
//! drains no queue itself.

use std::time::{Duration, Instant};

/// BBR.MinRTTFilterLen.
const FILTER_LENGTH: Duration = Duration::from_secs(10);
/// BBR.ProbeRTTInterval.
const PROBE_INTERVAL: Duration = Duration::from_secs(5);

/// BBR.min_rtt with its filter, and BBR.probe_rtt_min_delay with its own.
#[derive(Debug)]
pub(super) struct MinRtt {
    min: Option<Duration>,
    stamp: Instant,
    probe_min: Option<Duration>,
    probe_stamp: Instant,
    /// BBR.probe_rtt_expired.
    pub(super) probe_due: bool,
}

impl MinRtt {
    pub(super) const fn new(now: Instant) -> Self {
        Self {
            min: None,
            stamp: now,
            probe_min: None,
            probe_stamp: now,
            probe_due: false,
        }
    }

    /// UpdateMinRTT().
    pub(super) fn update(&mut self, now: Instant, sample: Option<Duration>) {
        self.probe_due = now > self.probe_stamp + PROBE_INTERVAL;
        if let Some(rtt) = sample
            && (self.probe_due || self.probe_min.is_none_or(|min| rtt < min))
        {
            self.probe_min = Some(rtt);
            self.probe_stamp = now;
        }
        let expired = now > self.stamp + FILTER_LENGTH;
        if let Some(probed) = self.probe_min
            && (expired || self.min.is_none_or(|min| probed < min))
        {
            self.min = Some(probed);
            self.stamp = self.probe_stamp;
        }
    }

    /// It was just measured: the next time is an interval away.
    pub(super) const fn on_probed(&mut self, now: Instant) {
        self.probe_stamp = now;
    }

    /// BBR.min_rtt; `None` before the first sample.
    pub(super) const fn get(&self) -> Option<Duration> {
        self.min
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn the_minimum_lasts_ten_seconds_and_is_due_after_five() {
        let t0 = Instant::now();
        let mut rtt = MinRtt::new(t0);
        let mut update = |at, sample| {
            rtt.update(t0 + ms(at), Some(ms(sample)));
            (rtt.get(), rtt.probe_due)
        };
        assert_eq!(update(100, 50), (Some(ms(50)), false));
        assert_eq!(update(200, 40), (Some(ms(40)), false));
        assert_eq!(update(5_200, 45), (Some(ms(40)), false));
        // 5 s after the sample at 200 ms; the new one is the smallest of the next interval.
        assert_eq!(update(5_201, 45), (Some(ms(40)), true));
        assert_eq!(update(5_300, 47), (Some(ms(40)), false));
        assert_eq!(update(10_200, 48), (Some(ms(40)), false));
        // 10 s after it: what the interval since then has.
        assert_eq!(update(10_201, 48), (Some(ms(45)), false));
        // A smaller one counts at once. The 5 s since 5201 ms are over, too.
        assert_eq!(update(10_300, 30), (Some(ms(30)), true));
    }

    #[test]
    fn without_samples_there_is_no_minimum() {
        let t0 = Instant::now();
        let mut rtt = MinRtt::new(t0);
        rtt.update(t0 + ms(20_000), None);
        assert_eq!((rtt.get(), rtt.probe_due), (None, true));
        rtt.on_probed(t0 + ms(20_000));
        rtt.update(t0 + ms(25_000), None);
        assert!(!rtt.probe_due);
    }
}
