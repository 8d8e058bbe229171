//! Round robin as ns-3's MPQUIC model has it: a turn per send opportunity, lost if the path is full.

use serde::{Deserialize, Serialize};

use mpquic_sched::support::Opportunities;
use mpquic_sched::{
    Acked, Context, Decision, Lost, PathIndex, PathUpdate, Scheduler, StreamUpdate,
};

/// Round robin with a fault: the path whose turn it is gets the whole opportunity, and if it is
/// full, nothing is sent although another one has room.
///
/// **Why it exists.** The CSC579 report compares its bandit scheduler with a round robin that is
/// this one. To see its bars, one needs it. Draw conclusions about round robin from
/// [`RoundRobin`](mpquic_sched::RoundRobin) only.
///
/// **Rule.** `last = (last + 1) mod N` once per send opportunity, over the open paths with the best
/// [standing](mpquic_sched::PathView::standing), without asking whether they have room. The chosen path
/// then sends until its window is full. Full at the start: nothing is sent at this opportunity. An
/// opportunity begins with an acknowledgement, a loss, a write or a path event. ns-3 has no
/// pacing: a path that its pacer holds back goes on, once it may, with the opportunity that it was
/// given. What makes the next one is always on its way: a path that is neither able to send nor has
/// data in flight or a pacer's release ahead of it gets no turn.
///
/// **Source.** The CSC579 report's code (branch `msab` of its fork of the ns-3 model of MPQUIC, at
/// the commit of its figures), `mp-quic-scheduler.cc`.
///
/// **Cost.** Four walks over the slots; 6 bytes of state.
///
/// ```
/// use std::time::{Duration, Instant};
/// use mpquic_sched::{Context, Decision, Lost, PathView, QueueView, Scheduler};
/// use mpquic_lab::replica::RrNs3;
///
/// let paths = [0, 1].map(|slot| {
///     let mut view = PathView::of(slot, Duration::ZERO);
///     view.can_send = slot == 1; // the path in slot 0 is full
///     view.in_flight = 12_000;
///     view
/// });
/// let mut queue = QueueView::default();
/// queue.unsent = 100_000;
/// let now = Instant::now();
///
/// let mut scheduler = RrNs3::default();
/// for sends in [false, true] {
///     for _packet in 0..3 {
///         let decision = scheduler.decide(&Context::new(now, &paths, &queue, 0));
///         assert_eq!(matches!(decision, Decision::Send { .. }), sends);
///     }
///     scheduler.on_lost(&Lost::new(paths[0].index, now, now, 1200, None)); // the next opportunity
/// }
/// ```
#[derive(Debug, Clone, Default)]
pub struct RrNs3 {
    opportunities: Opportunities,
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
        let last = &mut self.last;
        self.opportunities.decide(cx, |paths| {
            let next = paths.iter().find(|path| Some(*path) > *last);
            *last = next.or_else(|| paths.first());
            *last
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
