//! Connection IDs that were just retired, and for which packets may still come: those that clients began with, of which
//! copies come over slower links, and those of attempts that were given up. What comes is dropped: it begins no connection
//! and gets no answer.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use mpquic_sched_core::ConnectionId;

use crate::limits;

/// How long one is remembered: three PTOs at the initial RTT of RFC 9002 section 6.2.2.
const KEPT_FOR: Duration = Duration::from_secs(3);

/// The connection IDs, oldest first.
#[derive(Debug, Default)]
pub(super) struct RetiredCids {
    entries: VecDeque<(ConnectionId, Instant)>,
}

impl RetiredCids {
    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// How many are remembered.
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Remembers one.
    pub(super) fn add(&mut self, now: Instant, dcid: ConnectionId) {
        self.entries.push_back((dcid, now + KEPT_FOR));
    }

    /// Forgets one whose time is over, or the oldest while there are too many; call it until there is none.
    pub(super) fn expire(&mut self, now: Instant) -> Option<ConnectionId> {
        let too_many = self.entries.len() > limits::MAX_LATE_KEPT;
        if !too_many && self.entries.front()?.1 > now {
            return None;
        }
        let (dcid, _) = self.entries.pop_front()?;
        if self.entries.is_empty() {
            // Most of the time there is none.
            self.entries = VecDeque::new();
        }
        Some(dcid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_are_forgotten_in_time_and_when_there_are_too_many() {
        let now = Instant::now();
        let mut retired = RetiredCids::default();
        let id = |number: usize| ConnectionId::new(&(number as u64).to_be_bytes());
        let most = limits::MAX_LATE_KEPT;
        for number in 0..most + 2 {
            retired.add(now, id(number));
        }
        assert_eq!(retired.expire(now), Some(id(0)));
        assert_eq!(retired.expire(now), Some(id(1)));
        assert_eq!(retired.expire(now + KEPT_FOR / 2), None);
        for number in 2..most + 2 {
            assert_eq!(retired.expire(now + KEPT_FOR), Some(id(number)));
        }
        assert_eq!(retired.expire(now + KEPT_FOR), None);
        assert_eq!(retired.entries.capacity(), 0);
    }
}
