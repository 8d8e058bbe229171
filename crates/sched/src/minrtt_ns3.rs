//! minRTT as ns-3's MPQUIC model has it: the newest RTT decides, and a full path is not left for another.

use serde::{Deserialize, Serialize};

use crate::opportunity::Opportunity;
use crate::ranking::{comes_back, usable};
use crate::{Acked, Context, Decision, Lost, PathEvent, PathIndex, Scheduler, StreamEvent};

/// minRTT with a fault: the path with the smallest newest RTT gets every opportunity, full or not.
///
/// **Why it exists.** It is the "Min-RTT" that loses to round robin on equal paths in the CSC579
/// report. To see its bars, one needs it. Draw conclusions about minRTT from
/// [`MinRtt`](crate::MinRtt) only.
///
/// **Rule.** Once per send opportunity: of the open paths with the best
/// [standing](crate::PathView::standing), the one with the smallest
/// [`latest_rtt`](crate::PathView::latest_rtt), whether or not it has room; of equals the one with
/// the lowest slot, and one without a sample last. The chosen path then sends until it is full. Full
/// at the start: nothing is sent at this opportunity. A second path carries data only when queueing
/// turns the order of the RTTs round. An opportunity begins with an acknowledgement, a loss, a
/// write, a path event or a timer. What makes the next one is always on its way: a path that is neither able
/// to send nor has data in flight or a pacer's release ahead of it is not chosen.
///
/// **Source.** The CSC579 report's code (branch `msab` of its fork of the ns-3 model of MPQUIC, at
/// the commit of its figures), `mp-quic-scheduler.cc`.
///
/// **Cost.** Two walks over the slots; 40 bytes of state.
///
/// ```
/// use std::time::{Duration, Instant};
/// use mpquic_sched::{Context, Decision, MinRttNs3, PathIndex, PathView, QueueView, Scheduler};
///
/// let mut paths = [0, 1].map(|slot| {
///     let mut view = PathView::closed(PathIndex::new(slot).unwrap());
///     (view.open, view.can_send) = (true, slot == 1); // the faster one is full
///     view.in_flight = 12_000;
///     view.latest_rtt = Duration::from_millis(20 + slot as u64);
///     view
/// });
/// let queue = QueueView::default();
/// let start = Instant::now();
///
/// let mut scheduler = MinRttNs3::default();
/// let decision = scheduler.decide(&Context::new(start, &paths, &queue, 0));
/// assert_eq!(decision, Decision::Wait { until: None });
///
/// paths[0].latest_rtt = Duration::from_millis(25); // its queue has grown
/// let now = start + Duration::from_millis(1);
/// let decision = scheduler.decide(&Context::new(now, &paths, &queue, 1));
/// assert_eq!(decision, Decision::send(paths[1].index));
/// ```
#[derive(Debug, Clone, Default)]
pub struct MinRttNs3 {
    opportunity: Opportunity,
    chosen: Option<PathIndex>,
}

/// Settings of [`MinRttNs3`]: none.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MinRttNs3Config {}

impl MinRttNs3 {
    /// A scheduler with these settings.
    pub fn new(_config: &MinRttNs3Config) -> Self {
        Self::default()
    }
}

impl Scheduler for MinRttNs3 {
    fn decide(&mut self, cx: &Context<'_>) -> Decision {
        let paths = || usable(cx).filter(|path| comes_back(path));
        let gone = |chosen| paths().all(|path| path.index != chosen);
        if self.opportunity.begins(cx.now) || self.chosen.is_none_or(gone) {
            let chosen = paths().min_by_key(|path| (path.latest_rtt.is_zero(), path.latest_rtt));
            self.chosen = chosen.map(|path| path.index);
        }
        match self.chosen.and_then(|chosen| cx.path(chosen)) {
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
