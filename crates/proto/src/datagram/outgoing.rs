//! Datagrams that wait to be sent: in one queue those that any path may carry, in one per path those for that path.
//! Neither limits them nor builds packets.

use std::time::Instant;

use bytes::Bytes;
use mpquic_sched_core::{PathIndex, PathSet};

use super::queue::Queue;
use crate::sent_frame::Tag;

/// A datagram that waits to be sent.
#[derive(Debug)]
pub(super) struct Unsent {
    pub(super) data: Bytes,
    pub(super) deadline: Option<Instant>,
    /// If its fate is followed.
    pub(super) tag: Option<Tag>,
}

impl AsRef<[u8]> for Unsent {
    fn as_ref(&self) -> &[u8] {
        &self.data
    }
}

/// All that waits. A queue is named by its path; `None` is that of any path.
#[derive(Debug, Default)]
pub(super) struct Outgoing {
    any: Queue<Unsent>,
    /// By slot: as many as were ever named.
    lanes: Vec<Queue<Unsent>>,
    /// The paths whose queues are not empty.
    steered: PathSet,
    /// What all of them count.
    size: usize,
    /// Dropped because their deadline passed.
    expired: u64,
    /// Dropped because their path ended.
    stranded: u64,
}

impl Outgoing {
    pub(super) fn size(&self) -> usize {
        self.size
    }

    pub(super) fn is_empty(&self) -> bool {
        self.size == 0
    }

    /// The paths for which datagrams wait.
    pub(super) fn steered(&self) -> PathSet {
        self.steered
    }

    pub(super) fn expired(&self) -> u64 {
        self.expired
    }

    pub(super) fn stranded(&self) -> u64 {
        self.stranded
    }

    fn queue(&mut self, lane: Option<PathIndex>) -> Option<&mut Queue<Unsent>> {
        match lane {
            None => Some(&mut self.any),
            Some(path) => self.lanes.get_mut(path.get()),
        }
    }

    pub(super) fn push(&mut self, lane: Option<PathIndex>, unsent: Unsent) {
        if let Some(path) = lane {
            if self.lanes.len() <= path.get() {
                self.lanes.resize_with(path.get() + 1, Queue::default);
            }
            self.steered.insert(path);
        }
        if let Some(queue) = self.queue(lane) {
            let before = queue.size();
            queue.push(unsent);
            let more = queue.size() - before;
            self.size += more;
        }
    }

    pub(super) fn front(&self, lane: Option<PathIndex>) -> Option<&Unsent> {
        match lane {
            None => self.any.front(),
            Some(path) => self.lanes.get(path.get())?.front(),
        }
    }

    pub(super) fn pop(&mut self, lane: Option<PathIndex>) -> Option<Unsent> {
        let queue = self.queue(lane)?;
        let before = queue.size();
        let unsent = queue.pop();
        let after = queue.size();
        self.size -= before - after;
        if let Some(path) = lane.filter(|_| after == 0) {
            self.steered.remove(path);
        }
        unsent
    }

    /// Drops the oldest datagram of the queue that holds most; `None` if nothing waits. A path that takes nothing does
    /// not push out what the others would send.
    pub(super) fn drop_oldest(&mut self) -> Option<Unsent> {
        let lanes = self.steered.iter().map(Some);
        let size = |lane: &Option<PathIndex>| match lane {
            None => self.any.size(),
            Some(path) => self.lanes.get(path.get()).map_or(0, Queue::size),
        };
        let fullest = std::iter::once(None).chain(lanes).max_by_key(size);
        self.pop(fullest?)
    }

    /// Drops the datagram in front of a queue if it is too late.
    pub(super) fn drop_expired(&mut self, lane: Option<PathIndex>, now: Instant) -> Option<Unsent> {
        let late = |unsent: &Unsent| unsent.deadline.is_some_and(|deadline| deadline <= now);
        let expired = match self.front(lane).is_some_and(late) {
            true => self.pop(lane),
            false => None,
        };
        self.expired += u64::from(expired.is_some());
        expired
    }

    /// A path ended, and so does this one of the datagrams that only it may carry.
    pub(super) fn drop_stranded(&mut self, path: PathIndex) -> Option<Unsent> {
        let stranded = self.pop(Some(path));
        self.stranded += u64::from(stranded.is_some());
        stranded
    }

    /// Drops all that waits.
    pub(super) fn clear(&mut self) {
        self.any = Queue::default();
        self.lanes = Vec::new();
        self.steered = PathSet::EMPTY;
        self.size = 0;
    }

    /// Gives back what the queues of paths hold, if nothing waits in them.
    pub(super) fn shrink(&mut self) {
        if self.steered.is_empty() {
            self.lanes = Vec::new();
        }
    }
}
