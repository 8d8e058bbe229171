//! minRTT.

use crate::{Context, Decision, Scheduler};

/// Sends on the path with the smallest smoothed RTT that has room.
#[derive(Debug, Clone, Default)]
pub struct MinRtt {}

impl Scheduler for MinRtt {
    fn decide(&mut self, cx: &Context<'_>) -> Decision {
        match cx.sendable().min_by_key(|path| path.smoothed_rtt) {
            Some(path) => Decision::send(path.index),
            None => Decision::Wait { until: None },
        }
    }
}
