//! Original connection IDs of handshakes that were just completed: what still comes for them, over slower links, begins no
//! connection.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use mpquic_sched_core::ConnectionId;

use crate::limits;

/// How long one is remembered: three PTOs at the initial RTT of RFC 9002 section 6.2.2.
const KEPT_FOR: Duration = Duration::from_secs(3);

/// The connection IDs, oldest first.
#[derive(Debug, Default)]
pub(super) struct Late {
    entries: VecDeque<(ConnectionId, Instant)>,
}

impl Late {
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
