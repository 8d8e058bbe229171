//! Meters of a run: stalls of the application, bytes per path over time.

use std::time::Duration;

use mpquic_proto::Connection;

/// The longest time without newly delivered in-order bytes, counted from the first delivery.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StallTracker {
    last: Option<Duration>,
    longest: Duration,
    longest_from: Duration,
}

impl StallTracker {
    pub(crate) const fn new() -> Self {
        Self {
            last: None,
            longest: Duration::ZERO,
            longest_from: Duration::ZERO,
        }
    }

    pub(crate) fn on_delivery(&mut self, now: Duration) {
        let (longest, from) = self.longest(now);
        self.longest = longest;
        self.longest_from = from;
        self.last = Some(now);
    }

    /// The longest stall and its start. A stall that continues at `now` counts.
    pub fn longest(&self, now: Duration) -> (Duration, Duration) {
        match self.last {
            Some(last) if now.saturating_sub(last) > self.longest => (now - last, last),
            _ => (self.longest, self.longest_from),
        }
    }

    /// The time of the last delivery.
    pub const fn last_delivery(&self) -> Option<Duration> {
        self.last
    }
}

/// The most intervals that a series keeps: 27 minutes of 100 ms. Then pairs of intervals are
/// merged.
const MAX_INTERVALS: usize = 1 << 14;

/// Bytes that arrived over each path, per time interval. In a long run, the intervals grow, so that
/// memory stays bounded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ByteSeries {
    interval: Duration,
    paths: Vec<Vec<u64>>,
}

impl ByteSeries {
    pub(crate) fn new(interval: Duration, paths: usize) -> Self {
        Self {
            interval: interval.max(Duration::from_micros(1)),
            paths: vec![Vec::new(); paths],
        }
    }

    pub(crate) fn add(&mut self, path: usize, at: Duration, bytes: u64) {
        while self.slot(at) >= MAX_INTERVALS {
            self.join();
        }
        let slot = self.slot(at);
        let Some(series) = self.paths.get_mut(path) else {
            return;
        };
        if series.len() <= slot {
            series.resize(slot + 1, 0);
        }
        series[slot] += bytes;
    }

    fn slot(&self, at: Duration) -> usize {
        usize::try_from(at.as_nanos() / self.interval.as_nanos()).unwrap_or(usize::MAX)
    }

    /// Doubles the length of the intervals.
    fn join(&mut self) {
        self.interval *= 2;
        for series in &mut self.paths {
            *series = series.chunks(2).map(|pair| pair.iter().sum()).collect();
        }
    }

    /// The length of an interval: the configured one, or a multiple of it in a long run.
    pub const fn interval(&self) -> Duration {
        self.interval
    }

    /// Bytes per interval on one path, up to the last interval with an arrival.
    pub fn path(&self, path: usize) -> &[u64] {
        self.paths.get(path).map_or(&[], Vec::as_slice)
    }

    /// All bytes on one path.
    pub fn total(&self, path: usize) -> u64 {
        self.path(path).iter().sum()
    }
}

/// What a step hook can inspect: both connections, between two events.
pub struct StepView<'a> {
    /// The virtual time.
    pub now: Duration,
    /// The client's connection.
    pub client: Option<&'a Connection>,
    /// The server's connection, once it has accepted one.
    pub server: Option<&'a Connection>,
    /// When each connection needs [`Connection::handle_timeout`]: the client's, the server's.
    pub timers: [Option<Duration>; 2],
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn stalls_are_measured_between_deliveries() {
        let mut stalls = StallTracker::default();
        assert_eq!(stalls.longest(ms(1000)), (ms(0), ms(0)));
        for at in [500, 510, 600, 620] {
            stalls.on_delivery(ms(at));
        }
        assert_eq!(stalls.longest(ms(630)), (ms(90), ms(510)));
        assert_eq!(stalls.longest(ms(800)), (ms(180), ms(620)));
        assert_eq!(stalls.last_delivery(), Some(ms(620)));
    }

    #[test]
    fn bytes_fall_into_intervals() {
        let mut series = ByteSeries::new(ms(100), 2);
        series.add(0, ms(0), 10);
        series.add(0, ms(99), 5);
        series.add(0, ms(250), 1);
        series.add(7, ms(0), 1);
        assert_eq!(series.path(0), [15, 0, 1]);
        assert_eq!(series.total(0), 16);
        assert!(series.path(1).is_empty() && series.path(9).is_empty());
    }

    #[test]
    fn a_long_series_becomes_coarser_and_loses_nothing() {
        let mut series = ByteSeries::new(ms(1), 1);
        for at in 0..100_000 {
            series.add(0, ms(at), at % 7);
        }
        assert_eq!(series.interval(), ms(8));
        assert_eq!(series.path(0).len(), 100_000 / 8);
        for (slot, bytes) in series.path(0).iter().enumerate() {
            let first = 8 * slot as u64;
            let expected: u64 = (first..first + 8).map(|at| at % 7).sum();
            assert_eq!(*bytes, expected);
        }
    }
}
