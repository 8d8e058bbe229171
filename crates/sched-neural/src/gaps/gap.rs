//! One path's GAP: where it starts, its bounds, and what it was on average; what changes it is the policy's matter.

use mpquic_sched::PathView;

/// A GAP is no longer than so many windows of the fastest path (ours).
const MOST_WINDOWS: f64 = 4.0;

/// One path's GAP.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Gap {
    /// Packets; `None` before the first use.
    packets: Option<f64>,
    /// Of all packets that left one.
    sum: f64,
    count: u64,
}

impl Gap {
    /// What is left out before data on `path`, packets.
    pub(super) fn packets(&mut self, fast: &PathView, path: &PathView) -> f64 {
        self.changed(fast, path, 0.0)
    }

    /// The same after a change by so many packets. The first time, it starts as STMS does: with what the fastest path
    /// delivers in the difference of one-way delays.
    pub(super) fn changed(&mut self, fast: &PathView, path: &PathView, by: f64) -> f64 {
        let window = fast.capacity() as f64 / f64::from(fast.mtu.max(1));
        let packets = self.packets.unwrap_or_else(|| {
            let ratio = path.smoothed_rtt.as_secs_f64() / fast.smoothed_rtt.as_secs_f64().max(1e-9);
            window * (ratio - 1.0) / 2.0
        });
        let packets = (packets + by).clamp(0.0, MOST_WINDOWS * window);
        self.packets = Some(packets);
        packets
    }

    /// A packet left this gap.
    pub(super) fn left(&mut self, packets: f64) {
        self.sum += packets;
        self.count += 1;
    }

    /// The gap now, packets; `None` if the path never had one.
    pub(super) const fn now(&self) -> Option<f64> {
        self.packets
    }

    /// How many packets left a gap, and how long it was on average, packets.
    pub(super) fn told(&self) -> (u64, Option<f64>) {
        let mean = (self.count > 0).then(|| self.sum / self.count as f64);
        (self.count, mean)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use mpquic_sched::PathIndex;

    fn view(rtt: u64, window: u64) -> PathView {
        changed!(
            PathView::closed(PathIndex::new(0).unwrap()),
            open = true,
            smoothed_rtt = Duration::from_millis(rtt),
            cwnd = window * 1200
        )
    }

    #[test]
    fn starts_with_the_difference_of_delays_and_stays_within_bounds() {
        let (fast, slow) = (view(20, 10), view(60, 10));
        let mut gap = Gap::default();
        assert_eq!(gap.now(), None);
        assert_eq!(gap.packets(&fast, &slow), 10.0);
        assert_eq!(gap.changed(&fast, &slow, -4.0), 6.0);
        assert_eq!(gap.changed(&fast, &slow, -8.0), 0.0);
        for expected in [16.0, 32.0, 40.0, 40.0] {
            assert_eq!(gap.changed(&fast, &slow, 16.0), expected);
        }
        // The fast path's window fell.
        assert_eq!(gap.packets(&view(20, 2), &slow), 8.0);
        // What RTTs do after the start is the policy's to see.
        assert_eq!(gap.packets(&fast, &view(600, 10)), 8.0);
        // It starts within bounds, too.
        assert_eq!(Gap::default().packets(&fast, &view(600, 10)), 40.0);
        assert_eq!(Gap::default().packets(&slow, &fast), 0.0);
    }

    #[test]
    fn the_start_goes_by_what_the_path_carries() {
        let mut fast = view(20, 40);
        fast.pacing_rate = 600_000; // 12,000 bytes in 20 ms, 10 packets
        assert_eq!(Gap::default().packets(&fast, &view(60, 10)), 10.0);
    }

    #[test]
    fn the_mean_is_over_packets() {
        let mut gap = Gap::default();
        assert_eq!(gap.told(), (0, None));
        for packets in [10.0, 10.0, 16.0] {
            gap.left(packets);
        }
        assert_eq!(gap.told(), (3, Some(12.0)));
    }
}
