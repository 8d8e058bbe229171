//! A round trip from a point in time on; whose, each scheduler knows.

use std::time::{Duration, Instant};

/// A span of time. Its end is kept: a decision compares two times far sooner than it takes one from the other.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Round {
    since: Instant,
    length: Duration,
    /// `None` if time ends before.
    ends: Option<Instant>,
}

impl Round {
    pub(crate) fn new(since: Instant, length: Duration) -> Self {
        Self {
            since,
            length,
            ends: since.checked_add(length),
        }
    }

    /// Whether it is over, if this is how long it is now.
    #[inline]
    pub(crate) fn is_over(&mut self, now: Instant, length: Duration) -> bool {
        if length != self.length {
            *self = Self::new(self.since, length);
        }
        self.ends.is_some_and(|ends| now >= ends)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_over_after_its_newest_length() {
        let start = Instant::now();
        let ms = Duration::from_millis;
        let mut round = Round::new(start, ms(10));
        for (at, length, over) in [
            (9, 10, false),
            (10, 10, true),
            (10, 11, false),
            (11, 11, true),
            (5, 5, true),
            (4, 5, false),
        ] {
            assert_eq!(
                round.is_over(start + ms(at), ms(length)),
                over,
                "{at} of {length} ms"
            );
        }
        assert!(!round.is_over(start + ms(1_000_000), Duration::MAX));
        assert!(round.is_over(start + ms(1_000_000), ms(1)));
    }
}
