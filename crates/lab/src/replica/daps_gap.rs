//! GAPS' rendering of DAPS: a gap from two windows' worth of facts, no schedule; kept for its figures only.

use serde::{Deserialize, Serialize};

use mpquic_sched::support::{Patience, gap, payload};
use mpquic_sched::{Context, Decision, PathView, Scheduler};

/// DAPS as a published comparison has it, which is not [`Daps`](mpquic_sched::Daps).
///
/// **Why it exists.** Liao et al. (GAPS) compare their scheduler with "DAPS" by their Eq. 1, a much
/// cruder rule than the one by Kuhn et al. To see their bars, one needs theirs. Draw conclusions
/// about DAPS from [`Daps`](mpquic_sched::Daps) only.
///
/// **Rule.** Path choice as [`MinRtt`](mpquic_sched::MinRtt). A slower path `s` leaves a gap of
/// `min(floor(R_s / R_f), w_f - unacked_f)` packets before its data, at least none; `f` is the
/// fastest path, `w_f` its window and `unacked_f` what it has in flight, in packets. `s` is asked
/// only once `f` is full, so that the second term is nearly always below one packet: the gap is
/// then none at all, and the rule is minRTT. Only where the pacer holds `f` back does it leave one.
/// What was lost, and the rest of the data if there is no more than the gap, go as in
/// [`Stms`](mpquic_sched::Stms).
///
/// **Source.** Liao et al., "Precise and Adaptable" (GAPS), Eq. 1.
///
/// **Cost.** Two walks over the slots; no state per slot.
///
/// ```
/// use std::time::{Duration, Instant};
/// use mpquic_sched::{Context, Data, Decision, PathView, QueueView, Scheduler};
/// use mpquic_lab::replica::DapsGap;
///
/// let view = |slot, rtt| {
///     let mut view = PathView::of(slot, Duration::from_millis(rtt));
///     (view.mtu, view.cwnd) = (1235, 12_350);
///     view
/// };
/// let mut paths = [view(0, 20), view(1, 70)];
/// paths[0].can_send = false; // held back by its pacer: 10 packets would fit
/// let mut queue = QueueView::default();
/// queue.unsent = 100_000;
///
/// let decision = DapsGap::default().decide(&Context::new(Instant::now(), &paths, &queue, 0));
/// assert!(matches!(decision, Decision::Send { data: Data::Ahead(3_600), .. })); // floor(70 / 20)
/// ```
#[derive(Debug, Clone, Default)]
pub struct DapsGap {
    patience: Patience,
}

/// Settings of [`DapsGap`]: none.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DapsGapConfig {}

impl DapsGap {
    /// A scheduler with these settings.
    pub fn new(_config: &DapsGapConfig) -> Self {
        Self::default()
    }
}

/// The gap of `path` behind `fast`, bytes.
fn gap_bytes(fast: &PathView, path: &PathView) -> u64 {
    let packet = payload(fast);
    // A path in front of another has a sample if the other does.
    let ratio = path.smoothed_rtt.as_nanos() / fast.smoothed_rtt.as_nanos().max(1);
    let room = fast.window_left() / u64::from(fast.mtu.max(1));
    u64::try_from(ratio).unwrap_or(u64::MAX).min(room) * packet
}

impl Scheduler for DapsGap {
    fn decide(&mut self, cx: &Context<'_>) -> Decision {
        gap::decide(cx, &mut self.patience, gap_bytes)
    }
}
