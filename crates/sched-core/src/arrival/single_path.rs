//! The decision where one path is in use: nothing is compared, and nothing goes elsewhere. What the path shows is noted all
//! the same, for the decisions once there is another one.

use super::predict::{Prediction, Shown, predict};
use super::reason::{Newest, Reason};
use super::{Arrival, ArrivalConfig, new_data};
use crate::{Context, CopyCause, Decision, PathView};
use std::time::Instant;

impl Arrival {
    /// What [`decide`](crate::Scheduler::decide) says if this is the only path, has room and an RTT sample.
    ///
    /// No wake-up is asked for: it would be for copies of what is late, and these need a second path.
    // Out of the way of `decide`, which only tells this from `decide_among`, and needs no registers for that.
    #[inline(never)]
    pub(super) fn decide_single_path(&mut self, cx: &Context<'_>, path: &PathView) -> Decision {
        let config = &self.config;
        let Some(known) = self.paths.get_mut(path.index.get()) else {
            // Nothing is kept for it yet: that makes room.
            return self.decide_among(cx);
        };
        let shown = known.note(config, cx.now, path);
        if path.in_flight == 0 {
            known.watch.on_idle();
        }
        let queue = cx.queue;
        // Before the peer's window is looked at, too: the end of a stream needs none of it. With nothing of all that, the
        // transport sends nothing by this decision, and nothing need be predicted.
        if queue.unsent > 0 || queue.retransmittable > 0 || queue.control {
            known.prediction = match path.in_flight {
                0 => Prediction::of_idle(path, shown.base),
                _ => predict_busy(config, cx.now, path, &shown),
            };
        }
        // No packet of the batch changes that.
        self.run = match new_data(queue) > 0 || queue.retransmittable > 0 || queue.control {
            true => u32::MAX,
            false => 1,
        };
        self.wakeup = None;
        self.newest = Newest {
            number: cx.decision,
            copies: false,
            cause: CopyCause::Asked,
            reason: Reason::Soonest,
        };
        self.patience.end();
        Decision::send(path.index)
    }
}

/// [`predict`] for a path that has something in flight: out of the way of requests that come one by one.
#[inline(never)]
fn predict_busy(
    config: &ArrivalConfig,
    now: Instant,
    path: &PathView,
    shown: &Shown,
) -> Prediction {
    predict(config, now, path, shown)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{Acked, PathIndex, QueueView, Scheduler, Sent};

    /// An abandoned path leaves a slot, which is no lone path.
    #[test]
    fn a_slot_without_a_path_gets_nothing() {
        let mut view = PathView::of(0, Duration::from_millis(20));
        (view.open, view.can_send) = (false, true);
        let queue = QueueView {
            unsent: 1_000,
            window_left: 1_000,
            ..QueueView::default()
        };
        let paths = [view];
        let cx = Context::new(Instant::now(), &paths, &queue, 0);
        assert_eq!(
            Arrival::default().decide(&cx),
            Decision::Wait { until: None }
        );
    }

    /// Another path may open at any time: until then, the short way notes what the long one does, and says the same.
    #[test]
    fn what_is_noted_of_a_lone_path_is_what_is_noted_of_one_among_several() {
        let start = Instant::now();
        let index = PathIndex::new(0).unwrap();
        let mut seed = 1_u64;
        let mut below = |limit: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (seed >> 33) % limit
        };
        let (mut lone, mut among) = (Arrival::default(), Arrival::default());
        let mut view = PathView::of(0, Duration::from_millis(20));
        view.min_rtt = Duration::from_millis(15);
        let mut queue = QueueView {
            window_left: 100_000,
            ..QueueView::default()
        };
        let (mut now, mut sent_at) = (start, start);
        for number in 0..20_000 {
            now += Duration::from_micros(below(30_000));
            view.bottleneck = [0, 0, 2_000_000][below(3) as usize];
            view.in_flight = below(3) * below(60_000);
            view.delivered_bytes += below(2) * below(5_000);
            view.delivery_rate = below(10_000_000);
            view.latest_rtt = Duration::from_micros(15_000 + below(20_000));
            view.smoothed_rtt = Duration::from_micros(10_000 + below(30_000));
            view.cwnd = 10_000 + below(100_000);
            view.ssthresh = [u64::MAX, 50_000][below(2) as usize];
            queue.unsent = below(3) * below(20_000);
            queue.control = below(4) == 0;
            let views = [view.clone()];
            let cx = Context::new(now, &views, &queue, number);
            assert_eq!(
                lone.decide_single_path(&cx, &views[0]),
                among.decide_among(&cx)
            );
            assert_eq!(lone.run(), among.run());
            if queue.unsent > 0 || queue.control {
                sent_at = now;
                let sent = Sent::new(index, now, 1200, number, false, 1200);
                lone.on_sent(&sent);
                among.on_sent(&sent);
            } else if below(2) == 0 {
                let acked = Acked::new(index, now, sent_at, 1200, None, Some(number), 1200);
                lone.on_acked(&acked);
                among.on_acked(&acked);
            }
            let noted = |arrival: &Arrival| {
                let known = arrival.paths[0];
                format!("{:?} {:?} {:?}", known.rate, known.watch, known.own)
            };
            assert_eq!(noted(&lone), noted(&among));
        }
    }
}
