//! Round robin: each path in turn; knows no path's quality and never waits.

use std::num::NonZeroU32;

use serde::{Deserialize, Serialize};

use crate::{
    Context, Decision, MAX_PATHS, PathIndex, PathSet, PathUpdate, PathUpdateKind, Scheduler,
};

/// Sends on each path with room in turn.
///
/// **Rule.** In each round every path may send a burst of `burst` packets (default 1). Among the
/// paths of [`Context::sendable`], one that has begun its burst goes on with it; else the path
/// with the lowest slot that has not had its burst in this round begins. Once all paths with room
/// have had theirs, a new round begins. A path without room is skipped and does not hold the
/// round up. What it missed is not made up for: in a round no path gets more than one burst.
/// No path has room: wait for the next event. Any number of paths.
///
/// **Source.** Linux MPTCP v0.95, `mptcp_rr.c` with `cwnd_limited` = 1 and `num_segments` =
/// `burst`, whose order within a round is that of its list of subflows. Two namesakes differ:
/// mp-quic picks the path with the fewest packets sent since the beginning, so that a path that
/// joins late gets everything until it has caught up; the ns-3 model of MPQUIC takes the next path
/// without asking whether it has room.
///
/// **Cost.** One walk over the slots; 4 bytes of state per slot.
///
/// ```
/// use std::time::{Duration, Instant};
/// use mpquic_sched::{Context, Decision, PathView, QueueView, RoundRobin, Scheduler};
///
/// let paths = [0, 1, 2].map(|slot| {
///     let mut view = PathView::of(slot, Duration::ZERO);
///     view.can_send = slot != 1; // the path in slot 1 is full
///     view
/// });
/// let queue = QueueView::default();
///
/// let mut scheduler = RoundRobin::default();
/// for (number, slot) in [0, 2, 0, 2].into_iter().enumerate() {
///     let cx = Context::new(Instant::now(), &paths, &queue, number as u64);
///     assert_eq!(scheduler.decide(&cx), Decision::send(paths[slot].index));
/// }
/// ```
#[derive(Debug, Clone, Default)]
pub struct RoundRobin {
    config: RoundRobinConfig,
    /// Packets sent in this round, per slot. Only what `begun` names is meaningful.
    sent: [u32; MAX_PATHS],
    /// Paths in the middle of their burst; always empty with bursts of 1.
    begun: PathSet,
    /// Paths that have had their burst in this round.
    spent: PathSet,
}

/// Settings of [`RoundRobin`].
///
/// ```
/// use mpquic_sched::RoundRobinConfig;
///
/// let config: RoundRobinConfig = serde_json::from_str(r#"{"burst": 4}"#)?;
/// assert_eq!(config.burst.get(), 4);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RoundRobinConfig {
    /// Packets that a path sends before it is the next one's turn. Default 1.
    pub burst: NonZeroU32,
}

impl Default for RoundRobinConfig {
    fn default() -> Self {
        Self {
            burst: NonZeroU32::MIN,
        }
    }
}

impl RoundRobin {
    /// A scheduler with these settings.
    pub fn new(config: &RoundRobinConfig) -> Self {
        Self {
            config: config.clone(),
            ..Self::default()
        }
    }

    /// Counts a packet on `path` against its burst of more than one.
    fn count(&mut self, path: PathIndex) {
        let sent = &mut self.sent[path.get()];
        if !self.begun.contains(path) {
            *sent = 0;
            self.begun.insert(path);
        }
        *sent += 1;
        if *sent >= self.config.burst.get() {
            self.begun.remove(path);
            self.spent.insert(path);
        }
    }
}

impl Scheduler for RoundRobin {
    fn decide(&mut self, cx: &Context<'_>) -> Decision {
        let sendable = cx.sendable_set();
        if self.config.burst == NonZeroU32::MIN {
            // Nobody is in the middle of a burst. What `spent` becomes is written once: reading it together with what
            // was written in part would have to wait for the writes.
            let rest = sendable.difference(self.spent);
            let (rest, spent) = if rest.is_empty() {
                (sendable, PathSet::EMPTY)
            } else {
                (rest, self.spent)
            };
            let Some(path) = rest.first() else {
                return Decision::Wait { until: None };
            };
            self.spent = spent.union(PathSet::only(path));
            return Decision::send(path);
        }
        let begun = sendable.intersection(self.begun).first();
        let choice = begun.or_else(|| sendable.difference(self.spent).first());
        let path = match choice {
            Some(path) => path,
            None => {
                let Some(first) = sendable.first() else {
                    return Decision::Wait { until: None };
                };
                // Nobody with room has begun or is still to come: the round is over for all.
                self.begun = PathSet::EMPTY;
                self.spent = PathSet::EMPTY;
                first
            }
        };
        self.count(path);
        Decision::send(path)
    }

    fn on_path(&mut self, event: &PathUpdate) {
        // A slot's next path does not inherit the turns of the one before.
        if event.kind == PathUpdateKind::Abandoned {
            self.begun.remove(event.path);
            self.spent.remove(event.path);
        }
    }
}
