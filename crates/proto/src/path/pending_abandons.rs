//! PATH_ABANDON frames that the peer does not have for certain: each is repeated until it is acknowledged, also when
//! nothing else is kept of its path; abandons no path.

use std::collections::VecDeque;

use crate::{PathErrorCode, PathId, limits};

#[derive(Debug, Clone, Copy)]
struct Abandon {
    id: PathId,
    error_code: PathErrorCode,
    /// To be sent (again).
    pending: bool,
}

/// The frames, oldest first.
#[derive(Debug, Default)]
pub(crate) struct PendingAbandons {
    frames: VecDeque<Abandon>,
    pending: usize,
}

impl PendingAbandons {
    /// A path was abandoned: the peer is to be told. Over the cap, the oldest frame goes.
    //= specs/rfc10069-draft.md#path-close
    //# When an endpoint receives a PATH_ABANDON frame, it MUST send a corresponding PATH_ABANDON
    //# frame, if it has not already done so, and respectively treat all connection IDs received
    //# from the peer for that path as immediately retired.
    pub(super) fn push(&mut self, id: PathId, error_code: PathErrorCode) {
        self.frames.push_back(Abandon {
            id,
            error_code,
            pending: true,
        });
        self.pending += 1;
        if self.frames.len() > limits::MAX_PENDING_ABANDONS
            && let Some(dropped) = self.frames.pop_front()
        {
            self.pending -= usize::from(dropped.pending);
        }
    }

    /// How many are kept.
    pub(crate) fn len(&self) -> usize {
        self.frames.len()
    }

    /// The oldest frame that is to be sent.
    pub(crate) fn pending(&self) -> Option<(PathId, PathErrorCode)> {
        if self.pending == 0 {
            return None;
        }
        let frame = self.frames.iter().find(|frame| frame.pending)?;
        Some((frame.id, frame.error_code))
    }

    /// It left.
    pub(crate) fn on_sent(&mut self, id: PathId) {
        self.mark(id, false);
    }

    /// A packet with it was lost.
    pub(crate) fn on_lost(&mut self, id: PathId) {
        self.mark(id, true);
    }

    /// The peer has it.
    pub(crate) fn on_acked(&mut self, id: PathId) {
        self.mark(id, false);
        self.frames.retain(|frame| frame.id != id);
    }

    fn mark(&mut self, id: PathId, pending: bool) {
        if let Some(frame) = self.frames.iter_mut().find(|frame| frame.id == id) {
            match (frame.pending, pending) {
                (false, true) => self.pending += 1,
                (true, false) => self.pending -= 1,
                (true, true) | (false, false) => {}
            }
            frame.pending = pending;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_stay_until_they_are_acknowledged() {
        let mut abandons = PendingAbandons::default();
        let code = PathErrorCode::NO_ERROR;
        (1..=3).for_each(|id| abandons.push(PathId(id), code));
        for id in 1..=3 {
            assert_eq!(abandons.pending(), Some((PathId(id), code)));
            abandons.on_sent(PathId(id));
        }
        assert_eq!(abandons.pending(), None);
        abandons.on_lost(PathId(2));
        abandons.on_lost(PathId(2));
        assert_eq!(abandons.pending(), Some((PathId(2), code)));
        abandons.on_sent(PathId(2));
        (1..=3).for_each(|id| abandons.on_acked(PathId(id)));
        abandons.on_lost(PathId(2));
        assert_eq!((abandons.len(), abandons.pending()), (0, None));
    }

    #[test]
    fn a_peer_that_acknowledges_nothing_costs_no_memory() {
        let mut abandons = PendingAbandons::default();
        (0..10_000).for_each(|id| abandons.push(PathId(id), PathErrorCode::NO_ERROR));
        assert_eq!(abandons.len(), limits::MAX_PENDING_ABANDONS);
        for _ in 0..limits::MAX_PENDING_ABANDONS {
            let (id, _) = abandons.pending().unwrap();
            abandons.on_sent(id);
        }
        assert_eq!(abandons.pending(), None);
    }
}
