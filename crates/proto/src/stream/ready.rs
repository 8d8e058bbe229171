//! Which stream's turn it is: higher priority first, round robin among equals.

use std::collections::VecDeque;

use mpquic_sched_core::{MAX_STREAM_VIEWS, StreamId};

/// Levels beyond this are removed once empty; below it they stay, with their memory.
const KEEP_LEVELS: usize = 8;

/// Streams that are gone are swept out once there are so many of them and they are half of all.
const SWEEP: usize = 32;

#[derive(Debug)]
struct Level {
    priority: i32,
    ids: VecDeque<StreamId>,
}

/// Streams that wait for something, by descending priority.
#[derive(Debug, Default)]
pub(super) struct ReadyQueue {
    levels: Vec<Level>,
    /// In all levels.
    len: usize,
    /// Streams in it that are freed, at most.
    gone: usize,
}

impl ReadyQueue {
    /// Adds a stream behind its equals. The caller keeps it from being here twice.
    pub(super) fn push(&mut self, priority: i32, id: StreamId) {
        self.len += 1;
        let at = self.levels.partition_point(|l| l.priority > priority);
        match self.levels.get_mut(at) {
            Some(level) if level.priority == priority => level.ids.push_back(id),
            _ => self.levels.insert(
                at,
                Level {
                    priority,
                    ids: VecDeque::from([id]),
                },
            ),
        }
    }

    /// Whose turn it is.
    #[inline(never)]
    pub(super) fn front(&self) -> Option<StreamId> {
        for level in &self.levels {
            if let Some(id) = level.ids.front() {
                return Some(*id);
            }
        }
        None
    }

    /// All, in the order of their turns.
    pub(super) fn iter(&self) -> impl Iterator<Item = StreamId> + '_ {
        self.levels.iter().flat_map(|l| l.ids.iter().copied())
    }

    /// Whether there are several, which take turns.
    pub(super) fn has_several(&self) -> bool {
        self.len > 1
    }

    /// The stream in front has had its turn.
    pub(super) fn rotate(&mut self) {
        if !self.has_several() {
            return;
        }
        if let Some(level) = self.levels.iter_mut().find(|l| !l.ids.is_empty()) {
            level.ids.rotate_left(1);
        }
    }

    /// A stream has had its turn out of the order. Streams far from the front keep their place: they
    /// would be looked for too long.
    pub(super) fn take_turn(&mut self, priority: i32, id: StreamId) {
        let Some(level) = self.levels.iter_mut().find(|l| l.priority == priority) else {
            return;
        };
        let at = level
            .ids
            .iter()
            .take(MAX_STREAM_VIEWS)
            .position(|x| *x == id);
        if let Some(id) = at.and_then(|at| level.ids.remove(at)) {
            level.ids.push_back(id);
        }
    }

    /// The stream in front waits no more.
    pub(super) fn pop(&mut self) {
        if let Some(at) = self.levels.iter().position(|l| !l.ids.is_empty()) {
            self.levels[at].ids.pop_front();
            self.len -= 1;
            self.trim(at);
        }
    }

    /// Takes a stream out, wherever it is; linear in the streams of its level.
    pub(super) fn remove(&mut self, priority: i32, id: StreamId) {
        if let Some(at) = self.levels.iter().position(|l| l.priority == priority) {
            let before = self.levels[at].ids.len();
            self.levels[at].ids.retain(|x| *x != id);
            self.len -= before - self.levels[at].ids.len();
            self.trim(at);
        }
    }

    /// A stream in it was freed, and falls out sooner or later. Costs a constant, taken over all calls.
    /// `is_there` tells the others.
    pub(super) fn on_freed(&mut self, is_there: impl Fn(StreamId) -> bool) {
        self.gone += 1;
        if self.gone >= SWEEP && 2 * self.gone >= self.len {
            for level in &mut self.levels {
                level.ids.retain(|id| is_there(*id));
            }
            self.len = self.levels.iter().map(|level| level.ids.len()).sum();
            self.gone = 0;
        }
    }

    /// Gives back memory that is not used.
    pub(super) fn shrink(&mut self) {
        self.levels.retain(|level| !level.ids.is_empty());
        self.levels.shrink_to_fit();
        for level in &mut self.levels {
            level.ids.shrink_to_fit();
        }
    }

    fn trim(&mut self, at: usize) {
        if self.levels.len() > KEEP_LEVELS && self.levels[at].ids.is_empty() {
            self.levels.remove(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use mpquic_sched_core::{Dir, Side};

    use super::*;

    /// A stream that stays in front, and a million that come and go behind it.
    #[test]
    fn streams_that_come_and_go_leave_nothing() {
        let id = |i| StreamId::new(Side::Client, Dir::Uni, i);
        let mut queue = ReadyQueue::default();
        queue.push(0, id(0));
        let looked_up = std::cell::Cell::new(0);
        for index in 1..1_000_000 {
            queue.push(0, id(index));
            if index > 50 {
                queue.on_freed(|other| {
                    looked_up.set(looked_up.get() + 1);
                    other == id(0) || other > id(index - 50)
                });
            }
            assert!(queue.len <= 150, "{} in the queue", queue.len);
        }
        assert!(looked_up.get() <= 5_000_000, "{} look-ups", looked_up.get());
        assert_eq!(queue.iter().count(), queue.len);
        assert_eq!(queue.front(), Some(id(0)));
    }

    #[test]
    fn priority_then_turn() {
        let id = |i| StreamId::new(Side::Client, Dir::Uni, i);
        let mut queue = ReadyQueue::default();
        queue.push(0, id(0));
        queue.push(5, id(1));
        queue.push(5, id(2));
        queue.push(-1, id(3));
        assert_eq!(queue.front(), Some(id(1)));
        queue.rotate();
        assert_eq!(queue.front(), Some(id(2)));
        queue.take_turn(5, id(1));
        queue.take_turn(5, id(7));
        queue.take_turn(6, id(1));
        assert_eq!(queue.front(), Some(id(2)));
        queue.pop();
        queue.remove(5, id(1));
        assert_eq!(queue.iter().collect::<Vec<_>>(), [id(0), id(3)]);
        for priority in 100..200 {
            queue.push(priority, id(9));
            queue.pop();
        }
        assert!(queue.levels.len() <= KEEP_LEVELS);
    }
}
