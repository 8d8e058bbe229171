//! Events for the application and for the scheduler, waiting to be polled.

use std::collections::VecDeque;

use mpquic_sched_core::{StreamHints, StreamId, StreamUpdate, StreamUpdateKind as Kind};

/// Scheduler events kept; the oldest go first. The transport drains them before each decision, so
/// that only an application that acts on thousands of streams at once can come near.
const MAX_SCHED_EVENTS: usize = 4096;

/// How far back an event is looked for that a write can be merged into.
const MERGE_WITHIN: usize = 8;

/// What a scheduler is told of the streams that were there before it, oldest first.
impl super::Streams {
    pub(crate) fn story(&self) -> Vec<StreamUpdate> {
        let mut story = Vec::new();
        for (id, stream) in self.sends.iter() {
            if stream.is_reset() {
                continue;
            }
            let mut tell = |kind| story.push(StreamUpdate::new(id, kind));
            tell(Kind::Opened);
            if stream.hints != StreamHints::default() {
                tell(Kind::Hint(stream.hints));
            }
            if stream.written() > 0 {
                tell(Kind::Written(stream.written()));
            }
            if !stream.is_open() {
                tell(Kind::Finished);
            }
        }
        story
    }
}

/// Facts about streams for the scheduler.
#[derive(Debug, Default)]
pub(super) struct SchedEvents {
    pub(super) enabled: bool,
    queue: VecDeque<(StreamId, Kind)>,
}

impl SchedEvents {
    #[inline]
    pub(super) fn push(&mut self, id: StreamId, kind: Kind) {
        if self.enabled {
            self.note(id, kind);
        }
    }

    #[inline(never)]
    fn note(&mut self, id: StreamId, kind: Kind) {
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

    pub(super) fn pop(&mut self) -> Option<StreamUpdate> {
        let (id, kind) = self.queue.pop_front()?;
        Some(StreamUpdate::new(id, kind))
    }
}
