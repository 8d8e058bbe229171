//! Round robin.

use crate::{Context, Decision, Scheduler};

/// Sends on each path with room in turn.
#[derive(Debug, Clone, Default)]
pub struct RoundRobin {
    next: usize,
}

impl Scheduler for RoundRobin {
    fn decide(&mut self, cx: &Context<'_>) -> Decision {
        let choice = cx
            .sendable()
            .find(|path| path.index.get() >= self.next)
            .or_else(|| cx.sendable().next());
        match choice {
            Some(path) => {
                self.next = path.index.get() + 1;
                Decision::send(path.index)
            }
            None => Decision::Wait { until: None },
        }
    }
}
