//! What may be sent twice: how much, and what is likely enough to miss its deadline.

use std::time::{Duration, Instant};

use crate::support::nanos;
use crate::{Context, PathView, QueueView};

/// Data with a deadline is copied at once if it is missed more often than that, and the purse is full; and goes where it is missed
/// less often by as much.
pub(super) const MISSES: f64 = 0.01;

/// What counts as full: the purse that a connection begins with by default. The less of it is left, the likelier must a miss be.
const FULL: f64 = 64.0 * 1024.0;

/// A loss is found a round trip after the packet was sent, and its repair has arrived so many round trips after it.
pub(super) const REPAIR_ROUNDS: f64 = 1.5;

/// The least data: what fits in so many bytes goes twice where that may be sooner. A request is as short, and the end of a message.
const LEAST: u64 = 400;

/// What is believed of a queue of others is tried again after so many round trips,
const PROBE_ROUNDS: u32 = 2;
/// and no sooner than that after the probe before it, on whichever path that went.
const PROBE_PAUSE: Duration = Duration::from_millis(500);

/// What of the purse only copies may take that are due when something is late, or that find out what is not known.
const RESERVE: u64 = 8 * 1024;

/// Whether so little waits that it may always go twice.
pub(super) const fn is_least(waiting: u64) -> bool {
    waiting <= LEAST
}

/// Whether that is all there is, but for some like it: a request, or a few of them. It goes on all paths, as long as it leaves
/// enough for the other kinds: those who send nothing else would spend all of the purse.
pub(super) const fn is_alone(queue: &QueueView) -> bool {
    queue.in_flight <= 4 * LEAST && queue.purse > 2 * RESERVE
}

/// Whether something that is late may be copied.
pub(super) const fn may_copy_late(queue: &QueueView) -> bool {
    queue.purse > 0
}

/// Whether something with a deadline may be copied at once.
pub(super) const fn may_copy_deadline(queue: &QueueView) -> bool {
    queue.purse > RESERVE
}

/// When a path was last tried with a copy.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Probes {
    at: Option<Instant>,
}

impl Probes {
    /// Whether a packet with the next of `waiting` bytes is to go on this path, too, which would be the soonest without the queue
    /// that others are believed to have put there. A packet then does.
    pub(super) fn is_due(&mut self, cx: &Context<'_>, path: &PathView, waiting: u64) -> bool {
        if cx.queue.purse < u64::from(path.mtu) {
            return false;
        }
        if is_least(waiting) {
            return true;
        }
        let past = |at: Option<Instant>, span| {
            at.is_none_or(|at| cx.now.saturating_duration_since(at) >= span)
        };
        let rounds = path.smoothed_rtt.saturating_mul(PROBE_ROUNDS);
        let due =
            path.in_flight == 0 && past(path.others_seen, rounds) && past(self.at, PROBE_PAUSE);
        if due {
            self.at = Some(cx.now);
        }
        due
    }
}

/// The part of its packets that a path loses. Before there were many: a half of a percent.
fn loss(path: &PathView) -> f64 {
    (path.lost_packets as f64 + 0.1) / (path.sent_packets as f64 + 20.0)
}

/// The chance that a packet misses its deadline which is predicted to arrive `slack` nanoseconds before it: by an error of the
/// prediction, which is `deviation` in the mean, as likely early as late, and falls off exponentially; or by a loss that cannot be
/// repaired in time.
pub(super) fn miss(path: &PathView, slack: f64, deviation: f64) -> f64 {
    let lost = if slack < REPAIR_ROUNDS * nanos(path.smoothed_rtt) {
        loss(path)
    } else {
        0.0
    };
    let beyond = 0.5 * (-slack.abs() / deviation.max(1.0)).exp();
    let late = if slack > 0.0 { beyond } else { 1.0 - beyond };
    1.0 - (1.0 - lost) * (1.0 - late)
}

/// Whether a deadline that is missed with this chance is worth a copy. `purse`: what is left for copies. Spent on the likeliest
/// misses, it prevents most of them.
pub(super) fn may_miss(chance: f64, purse: u64) -> bool {
    let scarce = (FULL / purse.max(1) as f64).max(1.0);
    chance > MISSES * scarce * scarce
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(sent: u64, lost: u64) -> PathView {
        changed!(
            PathView::of(0, Duration::from_millis(40)),
            mtu = 1000,
            sent_packets = sent,
            lost_packets = lost,
            delivered_bytes = 1_000_000
        )
    }

    #[test]
    fn a_reserve_is_left_for_what_is_late_and_for_probes() {
        let purse = |purse| changed!(QueueView::default(), purse = purse);
        let may = |queue: QueueView| [may_copy_late(&queue), may_copy_deadline(&queue)];
        assert_eq!(may(purse(RESERVE + 1)), [true, true]);
        assert_eq!(may(purse(RESERVE)), [true, false]);
        assert_eq!(may(purse(0)), [false, false]);
    }

    #[test]
    fn old_evidence_is_tried_again_now_and_then_and_the_least_data_always() {
        let start = Instant::now();
        let ms = Duration::from_millis;
        let queue = changed!(QueueView::default(), purse = 5000);
        let seen = changed!(path(0, 0), others_seen = Some(start));
        let mut probes = Probes::default();
        let mut due = |after, path: &PathView, queue: &QueueView, waiting| {
            let paths = [path.clone()];
            let cx = Context::new(start + ms(after), &paths, queue, 0);
            probes.is_due(&cx, path, waiting)
        };
        // Two round trips of 40 ms.
        assert!(!due(79, &seen, &queue, 9000));
        assert!(!due(
            80,
            &changed!(seen.clone(), in_flight = 1000),
            &queue,
            9000
        ));
        assert!(due(80, &seen, &queue, 9000));
        // The next one half a second later, but of the least data at once.
        assert!(!due(579, &seen, &queue, 9000));
        assert!(due(81, &seen, &queue, 400));
        assert!(!due(81, &seen, &queue, 401));
        assert!(due(580, &seen, &queue, 9000));
        let empty = changed!(queue, purse = 999);
        assert!(!due(900, &seen, &empty, 9000) && !due(900, &seen, &empty, 1));
    }

    #[test]
    fn a_deadline_is_missed_by_an_error_or_by_a_loss() {
        let (clean, lossy) = (path(980, 0), path(980, 20));
        let chance = |path, slack: f64, deviation: f64| miss(path, slack * 1e6, deviation * 1e6);
        let misses = |path, slack, deviation| may_miss(chance(path, slack, deviation), 1 << 20);
        assert!(misses(&clean, 7.0, 2.0));
        assert!(!misses(&clean, 8.0, 2.0));
        assert!(misses(&lossy, 59.0, 2.0));
        assert!(!misses(&lossy, 61.0, 2.0));
        assert!(!misses(&clean, 1.0, 0.0));
        // With half of the purse, 4 %; with a quarter, 16 %.
        let scarce = |slack, purse| may_miss(chance(&clean, slack, 2.0), purse);
        assert!(scarce(5.0, 32 * 1024) && !scarce(5.1, 32 * 1024));
        assert!(scarce(2.2, 16 * 1024) && !scarce(2.3, 16 * 1024));
    }

    /// A prediction that was often wrong leaves a chance that one without error does not.
    #[test]
    fn what_is_predicted_late_may_be_in_time() {
        let clean = path(980, 0);
        let chance = |slack: f64, deviation: f64| miss(&clean, slack * 1e6, deviation * 1e6);
        assert!((chance(0.0, 5.0) - 0.5).abs() < 0.001);
        assert!((chance(-5.0, 5.0) - 0.816).abs() < 0.001);
        assert!(chance(-5.0, 0.1) > 0.999);
    }
}
