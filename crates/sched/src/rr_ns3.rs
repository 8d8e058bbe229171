//! Round robin as ns-3's MPQUIC model has it: a turn per send opportunity, lost if the path is full.

use serde::{Deserialize, Serialize};

use crate::opportunity::Opportunity;
use crate::ranking::{comes_back, usable};
use crate::{
    Acked, Context, Decision, Lost, PathEvent, PathIndex, PathSet, Scheduler, StreamEvent,
};

/// Round robin with a fault: the path whose turn it is gets the whole opportunity, and if it is
/// full, nothing is sent although another one has room.
///
/// **Why it exists.** The CSC579 report compares its bandit scheduler with a round robin that is
/// this one. To see its bars, one needs it. Draw conclusions about round robin from
/// [`RoundRobin`](crate::RoundRobin) only.
///
/// **Rule.** `last = (last + 1) mod N` once per send opportunity, over the open paths with the best
/// [standing](crate::PathView::standing), without asking whether they have room. The chosen path
/// then sends until it is full. Full at the start: nothing is sent at this opportunity. An
/// opportunity begins with an acknowledgement, a loss, a write, a path event or a timer. What
/// makes the next one is always on its way: a path that is neither able to send nor has data in
/// flight or a pacer's release ahead of it gets no turn.
///
/// **Source.** The CSC579 report's code (branch `msab` of its fork of the ns-3 model of MPQUIC, at
/// the commit of its figures), `mp-quic-scheduler.cc`. ns-3 has no pacing; here a release by the
/// pacer is a timer, and gives the turn to the next path.
///
/// **Cost.** Three walks over the slots; 40 bytes of state.
///
/// ```
/// use std::time::{Duration, Instant};
/// use mpquic_sched::{Context, Decision, PathIndex, PathView, QueueView, RrNs3, Scheduler};
///
/// let paths = [0, 1].map(|slot| {
///     let mut view = PathView::closed(PathIndex::new(slot).unwrap());
///     (view.open, view.can_send) = (true, slot == 0); // the path in slot 1 is full
///     view.in_flight = 12_000;
///     view
/// });
/// let queue = QueueView::default();
/// let start = Instant::now();
///
/// let mut scheduler = RrNs3::default();
/// for (ms, sends) in [(0, true), (0, true), (1, false), (2, true)] {
///     let now = start + Duration::from_millis(ms);
///     let decision = scheduler.decide(&Context::new(now, &paths, &queue, 0));
///     assert_eq!(matches!(decision, Decision::Send { .. }), sends);
/// }
/// ```
#[derive(Debug, Clone, Default)]
pub struct RrNs3 {
    opportunity: Opportunity,
    last: Option<PathIndex>,
}

/// Settings of [`RrNs3`]: none.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RrNs3Config {}

impl RrNs3 {
    /// A scheduler with these settings.
    pub fn new(_config: &RrNs3Config) -> Self {
        Self::default()
    }
}

impl Scheduler for RrNs3 {
    fn decide(&mut self, cx: &Context<'_>) -> Decision {
        let paths: PathSet = usable(cx)
            .filter(|path| comes_back(path))
            .map(|path| path.index)
            .collect();
        // A path that ended in the middle of its turn gives it to the next one.
        let gone = self.last.is_none_or(|last| !paths.contains(last));
        if self.opportunity.begins(cx.now) || gone {
            let next = paths.iter().find(|path| Some(*path) > self.last);
            self.last = next.or_else(|| paths.first());
        }
        match self.last.and_then(|last| cx.path(last)) {
            Some(path) if path.can_send => Decision::send(path.index),
            Some(path) => Decision::Wait {
                until: path.next_release,
            },
            None => Decision::Wait { until: None },
        }
    }

    fn on_acked(&mut self, _event: &Acked) {
        self.opportunity.on_event();
    }

    fn on_lost(&mut self, _event: &Lost) {
        self.opportunity.on_event();
    }

    fn on_path(&mut self, _event: &PathEvent) {
        self.opportunity.on_event();
    }

    fn on_stream(&mut self, _event: &StreamEvent) {
        self.opportunity.on_event();
    }
}
