//! How much a path may ask and answer beyond its congestion window: one datagram for each probe timeout, whatever the
//! addresses are that it goes to. It sends nothing.

use std::time::Instant;

/// Follows one path. A challenge is worth an answer, however full the window is, and so is the question to an address
/// that the peer has moved to: a peer that validates the path waits for both. But there is no more than one datagram for
/// each probe timeout beyond the window. Otherwise, challenges of 40 bytes would draw answers of 1200 from a sender that
/// should be silent (RFC 9002 section 7). The peer chooses the addresses, so that nothing here may count by address.
#[derive(Debug, Default)]
pub(super) struct ProbeBudget {
    /// A datagram left though there was no room: the next one waits until then.
    again: Option<Instant>,
}

impl ProbeBudget {
    /// Whether a datagram may leave now though there is no room for it.
    pub(super) fn may_send(&self, now: Instant) -> bool {
        self.again.is_none_or(|again| again <= now)
    }

    /// One leaves; the next one waits until `again`.
    pub(super) const fn on_sent(&mut self, again: Instant) {
        self.again = Some(again);
    }

    /// When the next one may leave, if that is to be waited for.
    pub(super) const fn timer(&self) -> Option<Instant> {
        self.again
    }

    /// Time has passed.
    pub(super) fn on_timeout(&mut self, now: Instant) {
        self.again.take_if(|again| *again <= now);
    }
}
