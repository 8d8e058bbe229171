//! DEMS: the fastest path sends a chunk from its beginning, the others from its end.

use serde::{Deserialize, Serialize};

use crate::support::{Fastest, payload};
use crate::{Context, Data, Decision, Scheduler, Sent};

/// Sends each chunk from both ends, until the paths meet.
///
/// **Rule.** A chunk is all new data that waits, and that the peer's window allows, when the chunk before it has been
/// sent. The path with the smallest smoothed RTT of all usable ones, if it has room, carries the lowest data of
/// the chunk that was never sent. Otherwise the fastest path with room carries the highest, a packet of it
/// ([`Data::Ahead`]). Whoever comes to the last packet between them sends that. The paths thus are
/// through at about the same time, whatever their rates and delays are, and nothing must be known of these
/// in advance. What was lost and control frames go first, on the fastest path with room. A path without an RTT
/// sample carries the lowest data.
///
/// **Source.** Guo, Nikravesh, Mao, Qian, Sen: "Accelerating Multipath Transport Through Balanced Subflow Completion"
/// (DEMS, MobiCom 2017), by its abstract and public summaries of its two-way chunk splitting; no code was found. Read in two ways: the
/// paper's chunks are what the application declares, of hundreds of kilobytes; here a chunk ends where what was
/// written by then ends. The paper has two paths, one for each end; here all slower paths take from the end.
///
/// **What is left out.** The redundancy where the paths meet, which the paper sizes by how well it knows them: the transport's own
/// copies of the last bytes are for that. If both are looked at, leave them on.
///
/// **Defects.** The receiver keeps most of what the slower paths carry until the end, up to the whole chunk, and
/// cannot hand it on: this is for objects that are of no use in part. The receive window must have room for
/// the chunk, or it is cut to that. It never waits, so that a path that is slow by far may have the last word.
///
/// **Cost.** One walk over the slots; 8 bytes of state.
///
/// ```
/// use std::time::{Duration, Instant};
/// use mpquic_sched::{Context, Data, Decision, Dems, PathView, QueueView, Scheduler};
///
/// let view = |slot, rtt| {
///     let mut view = PathView::of(slot, Duration::from_millis(rtt));
///     view.mtu = 1235; // packets of 1200 bytes of data
///     view
/// };
/// let mut paths = [view(0, 20), view(1, 60)];
/// let mut queue = QueueView::default();
/// (queue.unsent, queue.window_left) = (100_000, 1_000_000);
///
/// let mut scheduler = Dems::default();
/// let decision = scheduler.decide(&Context::new(Instant::now(), &paths, &queue, 0));
/// assert_eq!(decision, Decision::send(paths[0].index));
///
/// paths[0].can_send = false;
/// let decision = scheduler.decide(&Context::new(Instant::now(), &paths, &queue, 1));
/// assert!(matches!(decision, Decision::Send { data: Data::Ahead(98_800), .. }));
/// ```
#[derive(Debug, Clone, Default)]
pub struct Dems {
    /// Bytes of the chunk that have not been sent.
    left: u64,
}

/// Settings of [`Dems`]: none.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DemsConfig {}

impl Dems {
    /// A scheduler with these settings.
    pub const fn new(_config: &DemsConfig) -> Self {
        Self { left: 0 }
    }
}

impl Scheduler for Dems {
    fn decide(&mut self, cx: &Context<'_>) -> Decision {
        let queue = cx.queue;
        // Some of it may be gone with its stream.
        self.left = self.left.min(queue.unsent);
        if self.left == 0 {
            self.left = queue.unsent.min(queue.window_left);
        }
        let Some(Fastest {
            overall: fast,
            sendable: Some(path),
        }) = Fastest::of(cx)
        else {
            return Decision::Wait { until: None };
        };
        if self.left > 0 && (queue.retransmittable > 0 || queue.control) {
            return Decision::send_data(path.index, Data::Retransmit);
        }
        // What lies before the last packet of the chunk is left to the fastest path.
        let before = self.left.saturating_sub(payload(path));
        if path.index == fast.index || !path.has_rtt() || before == 0 {
            return Decision::send(path.index);
        }
        Decision::send_data(path.index, Data::Ahead(before))
    }

    fn on_sent(&mut self, event: &Sent) {
        self.left = self.left.saturating_sub(u64::from(event.new_bytes));
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;
    use crate::{PathView, QueueView};

    struct Asked {
        scheduler: Dems,
        paths: Vec<PathView>,
        queue: QueueView,
    }

    impl Asked {
        /// So many bytes over paths with these RTTs; a packet has 1000 bytes.
        fn new(rtts_ms: &[u64], unsent: u64) -> Self {
            let view = |(slot, rtt): (usize, &u64)| {
                let view = PathView::of(slot, Duration::from_millis(*rtt));
                changed!(view, mtu = 1035)
            };
            Self {
                scheduler: Dems::default(),
                paths: rtts_ms.iter().enumerate().map(view).collect(),
                queue: changed!(
                    QueueView::default(),
                    unsent = unsent,
                    window_left = 1_000_000
                ),
            }
        }

        /// The fastest of these paths with room sends.
        fn next(&mut self, with_room: &[usize]) -> Option<(usize, Data)> {
            for path in &mut self.paths {
                path.can_send = with_room.contains(&path.index.get());
            }
            let now = Instant::now();
            let decision = self
                .scheduler
                .decide(&Context::new(now, &self.paths, &self.queue, 0));
            let Decision::Send { path, data, .. } = decision else {
                return None;
            };
            if data != Data::Retransmit {
                let bytes = self.queue.unsent.min(1000) as u16;
                self.queue.unsent -= u64::from(bytes);
                self.scheduler
                    .on_sent(&Sent::new(path, now, bytes + 35, 0, false, bytes));
            }
            Some((path.get(), data))
        }
    }

    #[test]
    fn the_ends_meet() {
        let mut asked = Asked::new(&[60, 20], 5500);
        assert_eq!(asked.next(&[0]), Some((0, Data::Ahead(4500))));
        assert_eq!(asked.next(&[0, 1]), Some((1, Data::Next)));
        assert_eq!(asked.next(&[0]), Some((0, Data::Ahead(2500))));
        assert_eq!(asked.next(&[0]), Some((0, Data::Ahead(1500))));
        assert_eq!(asked.next(&[0]), Some((0, Data::Ahead(500))));
        // The last packet is anybody's.
        assert_eq!(asked.next(&[0]), Some((0, Data::Next)));
        assert_eq!(asked.queue.unsent, 0);
        assert_eq!(asked.next(&[]), None);
    }

    #[test]
    fn all_slower_paths_share_the_end() {
        let mut asked = Asked::new(&[20, 60, 40], 5000);
        assert_eq!(asked.next(&[1, 2]), Some((2, Data::Ahead(4000))));
        assert_eq!(asked.next(&[1]), Some((1, Data::Ahead(3000))));
        assert_eq!(asked.next(&[0, 1, 2]), Some((0, Data::Next)));
        // One without a sample says nothing of when its data comes.
        asked.paths[1].smoothed_rtt = Duration::ZERO;
        assert_eq!(asked.next(&[1]), Some((1, Data::Next)));
    }

    #[test]
    fn what_is_written_later_is_the_next_chunk() {
        let mut asked = Asked::new(&[20, 60], 3000);
        assert_eq!(asked.next(&[1]), Some((1, Data::Ahead(2000))));
        asked.queue.unsent += 10_000;
        assert_eq!(asked.next(&[1]), Some((1, Data::Ahead(1000))));
        assert_eq!(asked.next(&[1]), Some((1, Data::Next)));
        assert_eq!(asked.next(&[1]), Some((1, Data::Ahead(9000))));
        // A stream was reset.
        asked.queue.unsent = 4000;
        assert_eq!(asked.next(&[1]), Some((1, Data::Ahead(3000))));
    }

    #[test]
    fn a_chunk_fits_the_peers_window() {
        let mut asked = Asked::new(&[20, 60], 9000);
        asked.queue.window_left = 4000;
        assert_eq!(asked.next(&[1]), Some((1, Data::Ahead(3000))));
        // The highest offset has been paid for: what lies before it needs no window.
        asked.queue.window_left = 0;
        assert_eq!(asked.next(&[1]), Some((1, Data::Ahead(2000))));
    }

    #[test]
    fn lost_data_goes_first() {
        let mut asked = Asked::new(&[20, 60], 9000);
        asked.queue.retransmittable = 1000;
        assert_eq!(asked.next(&[1]), Some((1, Data::Retransmit)));
        asked.queue.unsent = 0;
        assert_eq!(asked.next(&[1]), Some((1, Data::Next)));
    }
}
