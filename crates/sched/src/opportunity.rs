//! Tells one opportunity to send from the next, for rules that decide once per opportunity; decides nothing.

use std::time::Instant;

/// Where a rule decides once per send opportunity, as the ns-3 model of MPQUIC does: whenever an
/// acknowledgement, a timer or the application makes the transport try to send.
///
/// Here a scheduler is asked for each packet. An opportunity is taken to begin with the first
/// question after an event, or at another time than the one before.
#[derive(Debug, Clone, Default)]
pub(crate) struct Opportunity {
    /// When the one under way began; `None` if the next question begins one.
    began: Option<Instant>,
}

impl Opportunity {
    /// Whether the question asked now is the first one of an opportunity.
    pub(crate) fn begins(&mut self, now: Instant) -> bool {
        let begins = self.began != Some(now);
        self.began = Some(now);
        begins
    }

    /// Something happened that would have made ns-3 try to send.
    pub(crate) fn on_event(&mut self) {
        self.began = None;
    }
}
