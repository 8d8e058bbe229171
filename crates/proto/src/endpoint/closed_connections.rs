//! Connections that are closing or draining and that nobody holds any more: what they have left is kept until their time is
//! over.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::{Duration, Instant};

use crate::closing::Remains;
use crate::{ConnectionHandle, FourTuple, Transmit};

/// How much later than they may, connections are forgotten: many at once, so that they do not cost a timer each.
const TOGETHER: Duration = Duration::from_millis(10);

/// Whose time is over first.
#[derive(Debug, Default)]
pub(super) struct Ends(BinaryHeap<Reverse<(Instant, usize)>>);

impl Ends {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn add(&mut self, handle: ConnectionHandle, until: Instant) {
        self.0.push(Reverse((until, handle.0)));
    }

    /// When some are to be forgotten.
    pub(super) fn next(&self) -> Option<Instant> {
        self.0.peek().map(|Reverse((until, _))| *until + TOGETHER)
    }

    /// Takes the first one, if its time is over or no time is given.
    pub(super) fn take(&mut self, now: Option<Instant>) -> Option<ConnectionHandle> {
        let Reverse((until, handle)) = *self.0.peek()?;
        if now.is_some_and(|now| until > now) {
            return None;
        }
        self.0.pop();
        if self.0.is_empty() {
            // Most of the time there is none.
            self.0 = BinaryHeap::new();
        }
        Some(ConnectionHandle(handle))
    }
}

impl super::Endpoint {
    /// Takes what is left of a connection that is closing or draining, in place of
    /// [`EndpointEvent::Drained`](crate::EndpointEvent::Drained): the connection itself may be dropped, and what still comes for
    /// it goes to [`handle_remains`](Self::handle_remains). Returns whether
    /// [`poll_timeout`](Self::poll_timeout) is earlier now.
    pub fn keep_remains(&mut self, handle: ConnectionHandle, remains: Remains) -> bool {
        let Some(known) = self.connections.get_mut(handle.0) else {
            return false;
        };
        let before = self.ends.next();
        self.ends.add(handle, remains.until);
        known.remains = Some(Box::new(remains));
        before.is_none_or(|before| self.ends.next().is_some_and(|next| next < before))
    }

    /// Takes in what has come for a connection of which only [remains](Self::keep_remains) are left. If it is to be told once
    /// more that the connection is closed, that is appended to `buf`.
    pub fn handle_remains(
        &mut self,
        handle: ConnectionHandle,
        event: &super::ConnectionEvent,
        buf: &mut Vec<u8>,
    ) -> Option<Transmit> {
        let known = self.connections.get_mut(handle.0)?;
        let remains = known.remains.as_mut()?;
        let start = buf.len();
        let answered = remains.answer(event.now, event.size(), buf);
        let path: FourTuple = event.network_path;
        answered.then(|| super::answer_to(path, buf.len() - start))
    }

    /// Forgets the connections of which only remains are left, if their time is over, or all of them without a time. How many:
    /// each counts as drained.
    pub fn forget_remains(&mut self, now: Option<Instant>) -> usize {
        let mut count = 0;
        let waits = |now| self.ends.next().is_none_or(|next| next > now);
        if now.is_some_and(waits) {
            return count;
        }
        while let Some(handle) = self.ends.take(now) {
            self.handle_event(handle, super::EndpointEvent::Drained);
            count += 1;
        }
        count
    }
}
