//! What may be sent twice: how much, and what is likely enough to miss its deadline.

use crate::{Context, PathView};

/// Bytes that may be copied in any case.
const BUDGET: u64 = 64 * 1024;

/// And this part of all that paths have delivered.
const BUDGET_DIVISOR: u64 = 50;

/// The same for what has a deadline: who hints deadlines would rather pay than miss them.
const DEADLINE_DIVISOR: u64 = 5;

/// Data with a deadline is copied at once if it is missed more often than that.
const MISSES: f64 = 0.01;

/// A loss is found a round trip after the packet was sent, and its repair has arrived so many round trips after it.
pub(super) const REPAIR_ROUNDS: f64 = 1.5;

/// What was copied so far.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Copies {
    spent: u64,
}

impl Copies {
    pub(super) fn on_copied(&mut self, bytes: u64) {
        self.spent = self.spent.saturating_add(bytes);
    }

    /// Whether something that is late may be copied.
    pub(super) fn left_for_late(&self, cx: &Context<'_>) -> bool {
        self.left_of(cx, BUDGET_DIVISOR) > 0
    }

    /// Whether something with a deadline may be copied.
    pub(super) fn left_for_deadlines(&self, cx: &Context<'_>) -> bool {
        self.left_of(cx, DEADLINE_DIVISOR) > 0
    }

    fn left_of(&self, cx: &Context<'_>, divisor: u64) -> u64 {
        let paths = cx.open().map(|path| path.delivered_bytes);
        let delivered = paths.fold(0_u64, u64::saturating_add);
        (BUDGET + delivered / divisor).saturating_sub(self.spent)
    }
}

/// The part of its packets that a path loses. Before there were many: a half of a percent.
fn loss(path: &PathView) -> f64 {
    (path.lost_packets as f64 + 0.1) / (path.sent_packets as f64 + 20.0)
}

/// Whether a packet that arrives `slack` nanoseconds before its deadline is too likely to miss it: by an error of the
/// prediction, which is `deviation` in the mean and falls off exponentially, or by a loss that cannot be repaired in time.
pub(super) fn may_miss(path: &PathView, round_trip: f64, slack: f64, deviation: f64) -> bool {
    let lost = if slack < REPAIR_ROUNDS * round_trip {
        loss(path)
    } else {
        0.0
    };
    lost + 0.5 * (-slack / deviation.max(1.0)).exp() > MISSES
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;
    use crate::QueueView;

    fn path(sent: u64, lost: u64) -> PathView {
        changed!(
            PathView::of(0, Duration::from_millis(40)),
            mtu = 1000,
            sent_packets = sent,
            lost_packets = lost,
            delivered_bytes = 1_000_000
        )
    }

    #[test]
    fn a_fiftieth_may_be_copied_and_a_fifth_for_deadlines() {
        let paths = [path(0, 0)];
        let queue = QueueView::default();
        let cx = Context::new(Instant::now(), &paths, &queue, 0);
        let mut copies = Copies::default();
        copies.on_copied(BUDGET + 19_999);
        assert!(copies.left_for_late(&cx));
        copies.on_copied(1);
        assert!(!copies.left_for_late(&cx));
        assert!(copies.left_for_deadlines(&cx));
        copies.on_copied(180_000);
        assert!(!copies.left_for_deadlines(&cx));
    }

    #[test]
    fn a_deadline_is_missed_by_an_error_or_by_a_loss() {
        let (clean, lossy) = (path(980, 0), path(980, 20));
        let miss =
            |path, slack: f64, deviation: f64| may_miss(path, 40e6, slack * 1e6, deviation * 1e6);
        assert!(miss(&clean, 7.0, 2.0));
        assert!(!miss(&clean, 8.0, 2.0));
        assert!(miss(&lossy, 59.0, 2.0));
        assert!(!miss(&lossy, 61.0, 2.0));
        assert!(!miss(&clean, 1.0, 0.0));
    }
}
