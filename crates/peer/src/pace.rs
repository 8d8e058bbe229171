//! How many lines about a peer a log takes: none of them fills it.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Lines about one peer in a period; what comes beyond is counted.
const LINES: u32 = 200;
const PERIOD: Duration = Duration::from_secs(10);

/// The pace of lines about one peer, or about all that are no clients yet: 200 in ten seconds.
#[derive(Debug)]
pub struct Pace(Mutex<Period>);

#[derive(Debug)]
struct Period {
    begun: Instant,
    lines: u32,
}

impl Default for Pace {
    fn default() -> Self {
        Self(Mutex::new(Period {
            begun: Instant::now(),
            lines: 0,
        }))
    }
}

impl Pace {
    /// One more line: whether it is shown, and how many before it were not, if it is time to tell.
    pub fn step(&self, now: Instant) -> (bool, u32) {
        let mut period = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut left_out = 0;
        if now.duration_since(period.begun) >= PERIOD {
            left_out = period.lines.saturating_sub(LINES);
            *period = Period {
                begun: now,
                lines: 0,
            };
        }
        period.lines = period.lines.saturating_add(1);
        (period.lines <= LINES, left_out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_cannot_fill_the_log() {
        let pace = Pace::default();
        let now = Instant::now();
        let shown = (0..500).filter(|_| pace.step(now).0).count();
        assert_eq!(shown, 200);
        assert_eq!(pace.step(now + PERIOD), (true, 300));
        assert_eq!(pace.step(now + PERIOD), (true, 0));
    }
}
