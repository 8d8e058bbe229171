//! Events for the application and for the scheduler, waiting to be polled; decides nothing.

use std::collections::VecDeque;

use mpquic_sched_core::{StreamId, StreamUpdateKind as Kind};

/// Scheduler events kept; the oldest go first. The transport drains them before each decision, so
/// that only an application that acts on thousands of streams at once can come near.
const MAX_SCHED_EVENTS: usize = 4096;

/// How far back an event is looked for that a write can be merged into.
const MERGE_WITHIN: usize = 8;

/// Facts about streams for the scheduler.
#[derive(Debug, Default)]
pub(super) struct SchedEvents {
    pub(super) enabled: bool,
    queue: VecDeque<(StreamId, Kind)>,
}

impl SchedEvents {
    pub(super) fn push(&mut self, id: StreamId, kind: Kind) {
        if !self.enabled {
            return;
        }
        if let Kind::Written(more) = kind {
            let recent = self.queue.iter_mut().rev().take(MERGE_WITHIN);
            for (other, kind) in recent {
                if *other == id {
                    if let Kind::Written(bytes) = kind {
                        *bytes += more;
                        return;
                    }
                    break;
                }
            }
        }
        if self.queue.len() == MAX_SCHED_EVENTS {
            self.queue.pop_front();
        }
        self.queue.push_back((id, kind));
    }

    /// Gives back memory that is not used.
    pub(super) fn shrink(&mut self) {
        self.queue.shrink_to_fit();
    }

    pub(super) fn pop(&mut self) -> Option<mpquic_sched_core::StreamUpdate> {
        let (id, kind) = self.queue.pop_front()?;
        Some(mpquic_sched_core::StreamUpdate::new(id, kind))
    }
}
