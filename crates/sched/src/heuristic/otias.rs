//! OTIAS: each packet on the path where it would arrive first, in the queue of a full one too.

use serde::{Deserialize, Serialize};

use crate::support::{Patience, comes_back, gap, nanos, usable};
use crate::{Context, Decision, PathView, Scheduler};

/// Plans each packet for the path on which it arrives first, full paths with what they send later included.
///
/// **Rule.** With the window `W`, the bytes in flight `F` and the smoothed RTT `R` of a path, a packet that is queued there
/// behind `q` bytes not yet sent arrives in
///
/// ```text
/// T = (max(0, q - (W - F)) / W + 1/2) R
/// ```
///
/// a round trip for each window that leaves before it, and half a round trip on the way. Packets go in their order to the
/// path with the smallest `T`. A path with room sends at `T = R / 2`; a full one takes
///
/// ```text
/// q = W (R_s / R - 1) / 2 + W - F
/// ```
///
/// bytes before that is better, `s` being the path with room and the smallest `R`. That path thus carries what lies the sum
/// of these `q` over all full paths ahead ([`Data::Ahead`](crate::Data::Ahead)), and if no more than that is left to
/// send, the full paths are waited for, for a probe timeout of the fastest one at most. What was lost goes at once; a path
/// without an RTT sample leaves nothing out.
///
/// **Source.** Yang, Wang, Amer: *Out-of-order transmission for in-order arrival scheduling for multipath TCP* (WAINA
/// 2014). EDPF (Chebrolu, Rao: *Bandwidth aggregation for real-time applications in heterogeneous wireless networks*, 2006)
/// is the same idea with rates that a base station knows. Read in one way: there a packet stays with the path that it was
/// queued for; here queues are planned anew with each packet, so that a change of windows or round trips
/// changes what each path gets. Whole round trips are not rounded.
///
/// **Defects.** A window of bytes per smoothed RTT is what a path is taken to carry: with a controller that
/// sets a pace of its own, that may be twice as much as it does, and a queue counts twice, in `F` and in `R`.
///
/// **Cost.** Three walks over the slots, a division per full path; 16 bytes of state.
///
/// ```
/// use std::time::{Duration, Instant};
/// use mpquic_sched::{Context, Data, Decision, Otias, PathView, QueueView, Scheduler};
///
/// let view = |slot, rtt_ms| {
///     let mut view = PathView::of(slot, Duration::from_millis(rtt_ms));
///     view.cwnd = 10_000;
///     view
/// };
/// let mut paths = [view(0, 20), view(1, 60)];
/// (paths[0].can_send, paths[0].in_flight) = (false, 10_000);
/// let mut queue = QueueView::default();
/// queue.unsent = 100_000;
/// // The full path sends another window before a packet of the other one arrives.
/// let decision = Otias::default().decide(&Context::new(Instant::now(), &paths, &queue, 0));
/// assert!(matches!(decision, Decision::Send { path, data: Data::Ahead(10_000), .. } if path == paths[1].index));
/// ```
#[derive(Debug, Clone, Default)]
pub struct Otias {
    patience: Patience,
}

/// Settings of [`Otias`]: none.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OtiasConfig {}

impl Otias {
    /// A scheduler with these settings.
    pub fn new(_config: &OtiasConfig) -> Self {
        Self::default()
    }
}

/// How many bytes a full path takes before the next one had better go on `other`.
fn takes(path: &PathView, other: &PathView) -> f64 {
    let (window, in_flight) = (path.cwnd as f64, path.in_flight as f64);
    let windows = (nanos(other.smoothed_rtt) / nanos(path.smoothed_rtt) - 1.0) / 2.0;
    if windows <= 0.0 {
        return 0.0;
    }
    (window * windows + window - in_flight).max(0.0)
}

impl Scheduler for Otias {
    fn decide(&mut self, cx: &Context<'_>) -> Decision {
        gap::decide(cx, &mut self.patience, |_, other| {
            let full = usable(cx).filter(|path| !path.can_send && path.has_rtt());
            let bytes: f64 = full
                .filter(|path| comes_back(path))
                .map(|path| takes(path, other))
                .sum();
            bytes.round() as u64
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;
    use crate::{Data, QueueView};

    /// With a window of 10 kB.
    fn path(slot: usize, rtt_ms: u64, in_flight: u64) -> PathView {
        changed!(
            PathView::of(slot, Duration::from_millis(rtt_ms)),
            pto = Duration::from_millis(rtt_ms + 25),
            cwnd = 10_000,
            in_flight = in_flight,
            can_send = in_flight < 10_000
        )
    }

    fn decide(paths: &[PathView], unsent: u64) -> Decision {
        let queue = changed!(
            QueueView::default(),
            unsent = unsent,
            window_left = 1_000_000
        );
        Otias::default().decide(&Context::new(Instant::now(), paths, &queue, 0))
    }

    fn ahead(paths: &[PathView]) -> Option<(usize, u64)> {
        match decide(paths, 100_000) {
            Decision::Send { path, data, .. } => match data {
                Data::Next => Some((path.get(), 0)),
                Data::Ahead(bytes) => Some((path.get(), bytes)),
                data => panic!("{data:?}"),
            },
            Decision::Wait { .. } => None,
        }
    }

    #[test]
    fn the_path_with_room_and_the_smallest_round_trip() {
        assert_eq!(ahead(&[path(0, 60, 0), path(1, 20, 0)]), Some((1, 0)));
    }

    #[test]
    fn a_full_path_takes_what_it_delivers_before() {
        // (100 / 20 - 1) / 2 windows, less what its window is exceeded by.
        let slow = path(1, 100, 0);
        assert_eq!(
            ahead(&[path(0, 20, 10_000), slow.clone()]),
            Some((1, 20_000))
        );
        assert_eq!(
            ahead(&[path(0, 20, 13_000), slow.clone()]),
            Some((1, 17_000))
        );
        // Two of them together; one that is slower takes nothing.
        let others = [path(0, 20, 10_000), slow, path(2, 50, 10_000)];
        assert_eq!(ahead(&others), Some((1, 25_000)));
        let slower = [path(0, 20, 10_000), path(1, 100, 0), path(2, 200, 10_000)];
        assert_eq!(ahead(&slower), Some((1, 20_000)));
        // Nothing that nothing would ever wake up.
        let dead = changed!(path(0, 20, 0), can_send = false);
        assert_eq!(ahead(&[dead, path(1, 100, 0)]), Some((1, 0)));
    }

    #[test]
    fn a_window_that_only_the_pacer_closes_counts_with_its_room() {
        let held = changed!(
            path(0, 20, 4_000),
            can_send = false,
            next_release = Some(Instant::now())
        );
        assert_eq!(ahead(&[held, path(1, 40, 0)]), Some((1, 11_000)));
    }

    #[test]
    fn what_the_full_paths_take_is_waited_for() {
        let paths = [path(0, 20, 10_000), path(1, 100, 0)];
        assert!(matches!(
            decide(&paths, 20_000),
            Decision::Wait { until: Some(_) }
        ));
        assert!(matches!(decide(&paths, 20_001), Decision::Send { .. }));
    }
}
