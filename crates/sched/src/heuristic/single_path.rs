//! One path only; does not use a second one for speed.

use serde::{Deserialize, Serialize};

use crate::{Context, Decision, PathId, PathView, Scheduler};

/// Sends on one path, whatever the others offer.
///
/// **Rule.** The path with the configured path ID (default 0, the handshake's path) while it is
/// open; otherwise the open path with the lowest path ID. If that path has no room, wait for it.
/// Its status and whether it is suspect are not looked at: this is the single-path yardstick by
/// which the other schedulers are measured, and it shall not be saved by a second path. If
/// the path falls silent, the transport's own liveness rule steps in after one PTO, and nothing
/// else.
///
/// The handshake is not the scheduler's: it goes on path 0, and a connection over one path alone has no other. The lab
/// makes the handshake on the path that is configured, which is path 0 then. Whoever connects over real sockets does the
/// same by where the connection begins.
///
/// **Source.** Ours.
///
/// **Cost.** One walk over the slots for all packets of a batch; no state.
///
/// ```
/// use std::time::{Duration, Instant};
/// use mpquic_sched::{PathId,
///     Context, Decision, PathView, QueueView, Scheduler, SinglePath, SinglePathConfig,
/// };
///
/// let mut paths = [0, 1].map(|slot| PathView::of(slot, Duration::ZERO));
/// let queue = QueueView::default();
///
/// let mut scheduler = SinglePath::new(&SinglePathConfig { path: PathId(1) });
/// let decision = scheduler.decide(&Context::new(Instant::now(), &paths, &queue, 0));
/// assert_eq!(decision, Decision::send(paths[1].index));
///
/// paths[1].can_send = false;
/// let decision = scheduler.decide(&Context::new(Instant::now(), &paths, &queue, 1));
/// assert_eq!(decision, Decision::Wait { until: None });
///
/// paths[1].open = false;
/// let decision = scheduler.decide(&Context::new(Instant::now(), &paths, &queue, 2));
/// assert_eq!(decision, Decision::send(paths[0].index));
/// ```
#[derive(Debug, Clone, Default)]
pub struct SinglePath {
    config: SinglePathConfig,
}

/// Settings of [`SinglePath`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SinglePathConfig {
    /// The path ID (RFC 10069) of the path to use. Default 0.
    pub path: PathId,
}

impl SinglePath {
    /// A scheduler with these settings.
    pub fn new(config: &SinglePathConfig) -> Self {
        Self {
            config: config.clone(),
        }
    }
}

impl Scheduler for SinglePath {
    fn decide(&mut self, cx: &Context<'_>) -> Decision {
        let rank = |path: &&PathView| (path.id != self.config.path, path.id);
        match cx.open().min_by_key(rank) {
            Some(path) if path.can_send => Decision::send(path.index),
            _ => Decision::Wait { until: None },
        }
    }

    fn run(&self) -> u32 {
        u32::MAX
    }
}
