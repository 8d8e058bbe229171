//! A fixed split of each transfer between the fastest path and the others, for the best one with hindsight.

use mpquic_sched::{
    Context, Decision, InvalidConfig, PathIndex, PathView, Scheduler, Sent, StreamUpdate,
    StreamUpdateKind,
};
use serde::Deserialize;

/// Sends a given share of each transfer on other paths than the fastest one, and no more, as early as it can.
///
/// **Rule.** The fastest path, by the smoothed RTT, whenever it has room. If not, the fastest one of those with room, as
/// long as what the slower paths have carried of the transfer is below the share of what was written since the newest
/// stream was opened; otherwise wait for the fastest one. The slower paths so get the first bytes of a transfer, which
/// have the most time.
///
/// It is no scheduler for connections: the share is tuned for a network with hindsight, and the best of all shares says
/// what any split of the transfer can gain there.
#[derive(Debug)]
pub(super) struct Split {
    share: f64,
    /// What the slower paths may still carry, bytes.
    allowed: f64,
    /// The fastest path at the last decision.
    fastest: Option<PathIndex>,
}

/// Settings of [`Split`].
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct SplitConfig {
    /// Of the bytes of a transfer, 0 to 1.
    share: f64,
}

impl SplitConfig {
    pub(super) fn check(&self) -> Result<(), InvalidConfig> {
        match self.share {
            0.0..=1.0 => Ok(()),
            share => Err(InvalidConfig::field(
                "share",
                format!("expected 0 to 1, got {share}"),
            )),
        }
    }
}

impl Split {
    pub(super) const fn new(config: &SplitConfig) -> Self {
        Self {
            share: config.share,
            allowed: 0.0,
            fastest: None,
        }
    }
}

impl Scheduler for Split {
    fn decide(&mut self, cx: &Context<'_>) -> Decision {
        let rank = |path: &&PathView| (path.standing(), path.rtt_rank());
        let Some(fastest) = cx.open().min_by_key(rank) else {
            return Decision::Wait { until: None };
        };
        self.fastest = Some(fastest.index);
        if fastest.can_send {
            return Decision::send(fastest.index);
        }
        let Some(other) = cx.sendable().min_by_key(rank) else {
            return Decision::Wait { until: None };
        };
        let comes_back = fastest.in_flight > 0 || fastest.next_release.is_some();
        if self.allowed > 0.0 || fastest.suspect || !comes_back {
            return Decision::send(other.index);
        }
        Decision::Wait {
            until: fastest.next_release.filter(|release| *release > cx.now),
        }
    }

    fn on_sent(&mut self, event: &Sent) {
        if self.fastest != Some(event.path) {
            self.allowed -= f64::from(event.new_bytes);
        }
    }

    fn on_stream(&mut self, event: &StreamUpdate) {
        match event.kind {
            StreamUpdateKind::Opened => self.allowed = 0.0,
            StreamUpdateKind::Written(bytes) => self.allowed += self.share * bytes as f64,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use mpquic_sched::{QueueView, Registry, StreamId, VarInt};
    use serde_json::json;

    use super::*;

    #[test]
    #[expect(clippy::disallowed_methods, reason = "a point to start from")]
    fn the_slower_path_carries_its_share_of_each_transfer_and_no_more() {
        let now = Instant::now();
        let mut registry = Registry::empty();
        crate::own::register(&mut registry).unwrap();
        let mut split = registry.build("split", &json!({"share": 0.3})).unwrap();
        let mut paths =
            [40, 10].map(|rtt| PathView::of((rtt == 10).into(), Duration::from_millis(rtt)));
        paths[1].in_flight = 12_000;
        let mut queue = QueueView::default();
        queue.unsent = 100_000;
        let stream = |kind| StreamUpdate::new(StreamId::from(VarInt::from_u32(0)), kind);
        for _ in 0..2 {
            split.on_stream(&stream(StreamUpdateKind::Opened));
            split.on_stream(&stream(StreamUpdateKind::Written(10_000)));
            let mut sent = [0; 2];
            for number in 0..10 {
                // The fast one has room every other time.
                paths[1].can_send = number % 2 == 0;
                let cx = Context::new(now, &paths, &queue, number);
                if let Decision::Send { path, .. } = split.decide(&cx) {
                    sent[path.get()] += 1;
                    split.on_sent(&Sent::new(path, now, 1000, number, false, 1000));
                }
            }
            assert_eq!(sent, [3, 5]);
        }
        // Not without end: the fast path has nothing in flight, and no pacer that would let go.
        paths[1].can_send = false;
        let wait = split.decide(&Context::new(now, &paths, &queue, 20));
        assert_eq!(wait, Decision::Wait { until: None });
        paths[1].in_flight = 0;
        let send = split.decide(&Context::new(now, &paths, &queue, 21));
        assert_eq!(send, Decision::send(paths[0].index));
        let wrong = registry.build("split", &json!({"share": 1.5}));
        assert!(
            wrong
                .err()
                .unwrap()
                .to_string()
                .contains("expected 0 to 1, got 1.5")
        );
    }
}
