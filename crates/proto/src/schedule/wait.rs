//! How long a scheduler has made data wait that a path could have sent.

use std::time::{Duration, Instant};

/// Adds up the time from each answer "wait" to the next answer, or to when there is nothing to wait
/// with any more.
#[derive(Debug, Default)]
pub(crate) struct WaitClock {
    /// Since when it runs; what was before is in the total.
    since: Option<Instant>,
    total: Duration,
}

impl WaitClock {
    /// The scheduler waits, from here on or still.
    pub(crate) fn start(&mut self, now: Instant) {
        self.stop(now);
        self.since = Some(now);
    }

    /// The scheduler does not wait, or is not to blame for it.
    pub(crate) fn stop(&mut self, now: Instant) {
        if self.is_running() {
            self.add(now);
        }
    }

    #[cold]
    #[inline(never)]
    fn add(&mut self, now: Instant) {
        if let Some(since) = self.since.take() {
            self.total += now.saturating_duration_since(since);
        }
    }

    pub(crate) fn is_running(&self) -> bool {
        self.since.is_some()
    }

    /// The sum, up to the last start or stop.
    pub(crate) fn total(&self) -> Duration {
        self.total
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_time_between_start_and_stop_counts() {
        let ms = Duration::from_millis;
        let began = Instant::now();
        let mut clock = WaitClock::default();
        clock.stop(began);
        assert_eq!(clock.total(), ms(0));
        clock.start(began + ms(5));
        assert!(clock.is_running());
        // Asked again, and still waiting.
        clock.start(began + ms(7));
        assert_eq!(clock.total(), ms(2));
        clock.stop(began + ms(10));
        clock.stop(began + ms(20));
        assert!(!clock.is_running());
        assert_eq!(clock.total(), ms(5));
    }
}
