//! Streams that wait for their turn with a control frame, in the order in which they came.

use std::collections::VecDeque;

use mpquic_sched_core::StreamId;

/// Streams that are gone are swept out once there are so many of them and they are half of all.
const SWEEP: usize = 32;

/// A queue of streams, each in it once, out of which streams that are freed fall sooner or later: looking
/// for one would cost as much as there are streams.
#[derive(Debug, Default)]
pub(super) struct ControlQueue {
    ids: VecDeque<StreamId>,
    /// Streams in it that are freed.
    gone: usize,
}

impl ControlQueue {
    /// Adds a stream. The caller keeps it from being here twice.
    pub(super) fn push(&mut self, id: StreamId) {
        self.ids.push_back(id);
    }

    /// The stream whose turn it is, freed or not.
    pub(super) fn front(&self) -> Option<StreamId> {
        self.ids.front().copied()
    }

    /// The stream in front has had its turn.
    pub(super) fn pop(&mut self) {
        self.ids.pop_front();
    }

    /// Never true if only freed streams are in it.
    pub(super) fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    /// A stream in it was freed. Costs a constant, taken over all calls. `is_there` tells the others.
    pub(super) fn on_freed(&mut self, is_there: impl Fn(StreamId) -> bool) {
        self.gone += 1;
        if self.gone >= SWEEP && 2 * self.gone >= self.ids.len() {
            self.ids.retain(|id| is_there(*id));
            self.gone = 0;
        }
        while let Some(id) = self.front()
            && !is_there(id)
        {
            self.pop();
            self.gone = self.gone.saturating_sub(1);
        }
        if self.ids.is_empty() {
            self.gone = 0;
        }
    }

    /// Gives back memory that is not used.
    pub(super) fn shrink(&mut self) {
        self.ids.shrink_to_fit();
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.ids.len()
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::collections::BTreeSet;

    use mpquic_sched_core::{Dir, Side};

    use super::*;

    fn id(index: u64) -> StreamId {
        StreamId::new(Side::Client, Dir::Uni, index)
    }

    /// A stream that stays in front, and a million that come and go behind it: a few look-ups each, and
    /// no memory.
    #[test]
    fn streams_that_come_and_go_cost_a_constant() {
        const STREAMS: u64 = 1_000_000;
        let mut queue = ControlQueue::default();
        let mut there = BTreeSet::from([id(0)]);
        queue.push(id(0));
        let (looked_up, mut longest) = (Cell::new(0), 0);
        for index in 1..=STREAMS {
            queue.push(id(index));
            there.insert(id(index));
            longest = longest.max(queue.len());
            if let Some(gone) = index.checked_sub(50).filter(|gone| *gone > 0) {
                there.remove(&id(gone));
                queue.on_freed(|id| {
                    looked_up.set(looked_up.get() + 1);
                    there.contains(&id)
                });
            }
        }
        assert_eq!(queue.front(), Some(id(0)));
        assert!(longest <= 150, "{longest} in the queue");
        assert!(
            looked_up.get() <= 5 * STREAMS,
            "{} look-ups",
            looked_up.get()
        );
        there.clear();
        queue.on_freed(|id| there.contains(&id));
        assert!(queue.is_empty());
    }

    #[test]
    fn the_front_is_never_a_freed_stream() {
        let mut queue = ControlQueue::default();
        for index in 0..3 {
            queue.push(id(index));
        }
        queue.on_freed(|other| other != id(1));
        assert_eq!(queue.len(), 3);
        queue.on_freed(|other| other == id(2));
        assert_eq!(queue.front(), Some(id(2)));
        queue.pop();
        assert!(queue.is_empty());
    }
}
