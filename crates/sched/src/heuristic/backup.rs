//! Backup-only: one path at a time, the others for when it fails.

use serde::{Deserialize, Serialize};

use crate::support::usable;
use crate::{Context, Decision, PathId, PathView, Scheduler};

/// Sends on the best path only, and on another one only if that fails.
///
/// **Rule.** Of the open paths with the best [standing](PathView::standing) (available before
/// backup, healthy before suspect), with room or without: the primary path, if one is
/// configured; else the one with the smallest [`min_rtt`](PathView::min_rtt), which unlike the
/// smoothed RTT does not grow with the queue that the path's own traffic makes, so that traffic
/// does not go to and fro; of equals the one with the lowest slot, and one without a sample last.
/// If it has no room, wait for it: its congestion window is what it offers, and no reason to
/// use a second path. If it falls into trouble or ends, the next one takes over, for what is in flight
/// too; once it has recovered, it is returned to.
///
/// **Source.** Ours; what Linux MPTCP does when all subflows but one are in backup mode, without
/// asking the peer to mark them so.
///
/// **Cost.** Two walks over the slots; no state.
///
/// ```
/// use std::time::{Duration, Instant};
/// use mpquic_sched::{PathId,
///     Backup, BackupConfig, Context, Decision, PathView, QueueView, Scheduler,
/// };
///
/// let view = |slot, rtt| PathView::of(slot, Duration::from_millis(rtt));
/// let mut paths = [view(0, 40), view(1, 15)];
/// let queue = QueueView::default();
///
/// let mut scheduler = Backup::new(&BackupConfig { primary: Some(PathId(0)) });
/// let decision = scheduler.decide(&Context::new(Instant::now(), &paths, &queue, 0));
/// assert_eq!(decision, Decision::send(paths[0].index));
///
/// paths[0].can_send = false; // its window is full
/// let decision = scheduler.decide(&Context::new(Instant::now(), &paths, &queue, 1));
/// assert_eq!(decision, Decision::Wait { until: None });
///
/// paths[0].suspect = true; // it is in trouble
/// let decision = scheduler.decide(&Context::new(Instant::now(), &paths, &queue, 2));
/// assert_eq!(decision, Decision::send(paths[1].index));
/// ```
#[derive(Debug, Clone, Default)]
pub struct Backup {
    config: BackupConfig,
}

/// Settings of [`Backup`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct BackupConfig {
    /// The path ID (RFC 10069) of the path that is preferred. Default none: the one with the
    /// smallest RTT sample.
    pub primary: Option<PathId>,
}

impl Backup {
    /// A scheduler with these settings.
    pub const fn new(config: &BackupConfig) -> Self {
        Self {
            config: BackupConfig {
                primary: config.primary,
            },
        }
    }
}

impl Scheduler for Backup {
    fn decide(&mut self, cx: &Context<'_>) -> Decision {
        let place = |path: &&PathView| {
            let primary = Some(path.id) == self.config.primary;
            (!primary, path.min_rtt.is_zero(), path.min_rtt)
        };
        match usable(cx).min_by_key(place) {
            Some(path) if path.can_send => Decision::send(path.index),
            _ => Decision::Wait { until: None },
        }
    }
}
