//! Redundant: everything on every path.

use serde::{Deserialize, Serialize};

use crate::support::Fastest;
use crate::{Context, Data, Decision, Scheduler};

/// Sends all data on all paths; each byte counts once, by whichever path is the first.
///
/// **Rule.** Each path has its own place in the order of the connection's data. A path of
/// [`Context::sendable`], the fastest of them first, sends the oldest data that it has not carried
/// and that nobody has acknowledged ([`Data::Redundant`]): what it has lost itself or what no
/// copy of is left on its way, then what other paths have in flight, then new data. New data is
/// thus sent by the path that has caught up with all others, at its pace. A slower path falls
/// behind, and what is acknowledged in the meantime it skips. Each path repeats its own losses, though others have
/// copies in flight: these may be stuck in a queue. No path has anything left to send: wait for the next event.
///
/// **Source.** Linux MPTCP, `mptcp_redundant.c`, in its form with a place in the data for each
/// subflow. An earlier form of it copies each packet, as it is sent, to the subflows that take it
/// at once, and forgets about the others.
///
/// **Cost.** Two walks over the slots; no state. The transport looks for what to copy with a
/// cursor for each pair of paths, so that nothing is looked at twice.
///
/// ```
/// use std::time::{Duration, Instant};
/// use mpquic_sched::{
///     Context, Data, Decision, PathView, QueueView, Redundant, Scheduler,
/// };
///
/// let view = |slot, rtt| PathView::of(slot, Duration::from_millis(rtt));
/// let mut paths = [view(0, 40), view(1, 15)];
/// let queue = QueueView::default();
///
/// let mut scheduler = Redundant::default();
/// let decision = scheduler.decide(&Context::new(Instant::now(), &paths, &queue, 0));
/// let Decision::Send { path, data, .. } = decision else { unreachable!() };
/// assert_eq!((path, data), (paths[1].index, Data::Redundant));
///
/// paths[1].can_send = false; // full, or it has carried everything
/// let decision = scheduler.decide(&Context::new(Instant::now(), &paths, &queue, 1));
/// let Decision::Send { path, data, .. } = decision else { unreachable!() };
/// assert_eq!((path, data), (paths[0].index, Data::Redundant));
/// ```
#[derive(Debug, Clone, Default)]
pub struct Redundant {}

/// Settings of [`Redundant`]: none.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RedundantConfig {}

impl Redundant {
    /// A scheduler with these settings.
    pub const fn new(_config: &RedundantConfig) -> Self {
        Self {}
    }
}

impl Scheduler for Redundant {
    fn decide(&mut self, cx: &Context<'_>) -> Decision {
        match Fastest::of(cx).and_then(|fastest| fastest.sendable) {
            Some(path) => Decision::send_data(path.index, Data::Redundant),
            None => Decision::Wait { until: None },
        }
    }
}
