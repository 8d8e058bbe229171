//! What the two programs tell while they run: lines with the time of day, of which no peer can make too many.

use std::collections::VecDeque;
use std::fmt::{Arguments, Display};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use mpquic_peer::Pace;

/// Lines that the screen shows.
const SHOWN: usize = 5;

/// The log of a server about one client, or about all that are no clients yet.
#[derive(Debug)]
pub(crate) struct PeerLog {
    about: String,
    pace: Pace,
}

impl PeerLog {
    /// Each line begins with what it is about.
    pub(crate) fn new(about: impl Display) -> Self {
        Self {
            about: about.to_string(),
            pace: Pace::default(),
        }
    }

    pub(crate) fn line(&self, text: Arguments<'_>) {
        let (shown, left_out) = self.pace.step(Instant::now());
        if left_out > 0 {
            mpquic_peer::log!("{}: {left_out} lines are left out", self.about);
        }
        if shown {
            mpquic_peer::log!("{}: {text}", self.about);
        }
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
