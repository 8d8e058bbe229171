//! minRTT as ns-3's MPQUIC model has it: the newest RTT decides, and a full path is not left for another.

use serde::{Deserialize, Serialize};

use mpquic_sched::support::Opportunities;
use mpquic_sched::{Acked, Context, Decision, Lost, PathUpdate, Scheduler, StreamUpdate};

/// minRTT with a fault: the path with the smallest newest RTT gets every opportunity, full or not.
///
/// **Why it exists.** It is the "Min-RTT" that loses to round robin on equal paths in the CSC579
/// report. To see its bars, one needs it. Draw conclusions about minRTT from
/// [`MinRtt`](mpquic_sched::MinRtt) only.
///
/// **Rule.** Once per send opportunity: of the open paths with the best
/// [standing](mpquic_sched::PathView::standing), the one with the smallest
/// [`latest_rtt`](mpquic_sched::PathView::latest_rtt), whether or not it has room; of equals the one with
/// the lowest slot, and one without a sample last. The chosen path then sends until its window is
/// full. Full at the start: nothing is sent at this opportunity. A second path carries data only when
/// queueing turns the order of the RTTs round. Opportunities are those of [`RrNs3`](super::RrNs3).
///
/// **Source.** The CSC579 report's code (branch `msab` of its fork of the ns-3 model of MPQUIC, at
/// the commit of its figures), `mp-quic-scheduler.cc`.
///
/// **Cost.** Four walks over the slots; 4 bytes of state.
///
/// ```
/// use std::time::{Duration, Instant};
/// use mpquic_sched::{Context, Decision, Lost, PathView, QueueView, Scheduler};
/// use mpquic_lab::replica::MinRttNs3;
///
/// let mut paths = [0, 1].map(|slot| {
///     let mut view = PathView::of(slot, Duration::ZERO);
///     view.can_send = slot == 1; // the faster one is full
///     view.in_flight = 12_000;
///     view.latest_rtt = Duration::from_millis(20 + slot as u64);
///     view
/// });
/// let mut queue = QueueView::default();
/// queue.unsent = 100_000;
/// let now = Instant::now();
///
/// let mut scheduler = MinRttNs3::default();
/// let decision = scheduler.decide(&Context::new(now, &paths, &queue, 0));
/// assert_eq!(decision, Decision::Wait { until: None });
///
/// paths[0].latest_rtt = Duration::from_millis(25); // its queue has grown
/// scheduler.on_lost(&Lost::new(paths[0].index, now, now, 1200, None)); // the next opportunity
/// let decision = scheduler.decide(&Context::new(now, &paths, &queue, 1));
/// assert_eq!(decision, Decision::send(paths[1].index));
/// ```
#[derive(Debug, Clone, Default)]
pub struct MinRttNs3 {
    opportunities: Opportunities,
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
        self.opportunities.decide(cx, |paths| {
            let paths = paths.iter().filter_map(|path| cx.path(path));
            let best = paths.min_by_key(|path| (path.latest_rtt.is_zero(), path.latest_rtt))?;
            Some(best.index)
        })
    }

    fn on_acked(&mut self, _event: &Acked) {
        self.opportunities.on_event();
    }

    fn on_lost(&mut self, _event: &Lost) {
        self.opportunities.on_event();
    }

    fn on_path(&mut self, _event: &PathUpdate) {
        self.opportunities.on_event();
    }

    fn on_stream(&mut self, _event: &StreamUpdate) {
        self.opportunities.on_event();
    }
}
