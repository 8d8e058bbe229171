//! What the two programs tell while they run: lines with the time of day, of which no peer can make too many.

use std::collections::VecDeque;
use std::fmt::{Arguments, Display};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Lines about one peer in a period; what comes beyond is counted.
const LINES: u32 = 200;
const PERIOD: Duration = Duration::from_secs(10);
/// Lines that the screen shows.
const SHOWN: usize = 5;

/// The log of a server about one client, or about all that are no clients yet.
#[derive(Debug)]
pub(crate) struct PeerLog {
    about: String,
    period: Mutex<Period>,
}

#[derive(Debug)]
struct Period {
    begun: Instant,
    lines: u32,
}

impl PeerLog {
    /// Each line begins with what it is about.
    pub(crate) fn new(about: impl Display) -> Self {
        Self {
            about: about.to_string(),
            period: Mutex::new(Period {
                begun: Instant::now(),
                lines: 0,
            }),
        }
    }

    pub(crate) fn line(&self, text: Arguments<'_>) {
        let (shown, left_out) = self.next(Instant::now());
        if left_out > 0 {
            mpquic_peer::log!("{}: {left_out} lines are left out", self.about);
        }
        if shown {
            mpquic_peer::log!("{}: {text}", self.about);
        }
    }

    /// Whether a line is shown, and how many were not, if it is time to tell.
    fn next(&self, now: Instant) -> (bool, u32) {
        let mut period = self.period.lock().unwrap_or_else(PoisonError::into_inner);
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

/// The log of a client, which its screen shows instead of the terminal behind it.
#[derive(Debug, Default)]
pub(crate) struct Journal {
    last: Mutex<VecDeque<(Instant, String)>>,
    on_screen: AtomicBool,
}

impl Journal {
    fn last(&self) -> MutexGuard<'_, VecDeque<(Instant, String)>> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn line(&self, text: Arguments<'_>) {
        {
            let mut last = self.last();
            last.truncate(SHOWN - 1);
            last.push_front((Instant::now(), text.to_string()));
        }
        if !self.on_screen.load(Ordering::Relaxed) {
            mpquic_peer::log!("{text}");
        }
    }

    /// Whether a screen shows them.
    pub(crate) fn set_on_screen(&self, on_screen: bool) {
        self.on_screen.store(on_screen, Ordering::Relaxed);
    }

    /// The last ones with their age, newest first.
    pub(crate) fn shown(&self) -> Vec<(Duration, String)> {
        let last = self.last();
        let aged = last.iter().map(|(at, text)| (at.elapsed(), text.clone()));
        aged.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_cannot_fill_the_log() {
        let log = PeerLog::new("192.0.2.1:1");
        let now = Instant::now();
        let shown = (0..500).filter(|_| log.next(now).0).count();
        assert_eq!(shown, 200);
        assert_eq!(log.next(now + PERIOD), (true, 300));
        assert_eq!(log.next(now + PERIOD), (true, 0));
    }

    #[test]
    fn the_last_lines_are_kept() {
        let journal = Journal::default();
        journal.set_on_screen(true);
        for number in 0..9 {
            journal.line(format_args!("{number}"));
        }
        let texts: Vec<_> = journal.shown().into_iter().map(|(_, text)| text).collect();
        assert_eq!(texts, ["8", "7", "6", "5", "4"]);
    }
}
