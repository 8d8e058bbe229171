//! What SAILfish's policy is shown of the paths and of the stream that is to be bound, in raw units.

use std::time::Duration;

use mpquic_sched::{Context, PathIndex, PathSet, PathView};

use super::config::Rates;

/// The most paths that the policy sees: those in the slots below.
pub(super) const MOST_PATHS: usize = 4;

/// How many decisions the RTTs reach back: SAILfish's history.
const HISTORY: usize = 8;

/// What the policy is shown of each path: name and unit.
pub(super) const FEATURES: [(&str, &str); 5 + HISTORY] = [
    ("present", "0 or 1"),
    ("rate", "Mbit/s"),
    ("retransmitted or lost", "packets"),
    ("smoothed RTT", "ms"),
    ("smoothed RTT 1 before", "ms"),
    ("smoothed RTT 2 before", "ms"),
    ("smoothed RTT 3 before", "ms"),
    ("smoothed RTT 4 before", "ms"),
    ("smoothed RTT 5 before", "ms"),
    ("smoothed RTT 6 before", "ms"),
    ("smoothed RTT 7 before", "ms"),
    ("bound and not acknowledged", "kB"),
    ("size of the stream", "kB"),
];

/// Where they are.
const PRESENT: usize = 0;
const RATE: usize = 1;
const AGAIN: usize = 2;
const RTT: usize = 3;
const LOAD: usize = RTT + HISTORY;
const SIZE: usize = LOAD + 1;

/// Elements of a state.
pub(super) const STATE: usize = MOST_PATHS * FEATURES.len();

/// The state shown last, and what the next one needs beyond what a transport tells.
#[derive(Debug)]
pub(super) struct State {
    values: [f32; STATE],
    /// Of each path at the last decisions, newest first, ms; 0 where there was none.
    rtts: [[f32; HISTORY]; MOST_PATHS],
    rates: Rates,
}

impl State {
    /// No decision was made yet.
    pub(super) const fn new(rates: Rates) -> Self {
        Self {
            values: [0.0; STATE],
            rtts: [[0.0; HISTORY]; MOST_PATHS],
            rates,
        }
    }

    /// The state of a decision about a stream of this size between these paths, which begin with so many bytes to send
    /// and not acknowledged.
    pub(super) fn next(
        &mut self,
        cx: &Context<'_>,
        candidates: PathSet,
        load: &[u64; MOST_PATHS],
        size: Option<u64>,
    ) -> &[f32; STATE] {
        self.values = [0.0; STATE];
        let rows = self.values.chunks_exact_mut(FEATURES.len());
        for (slot, (row, rtts)) in rows.zip(&mut self.rtts).enumerate() {
            let view = cx.paths.get(slot).filter(|view| view.open);
            rtts.rotate_right(1);
            rtts[0] = view.map_or(0.0, |view| ms(view.smoothed_rtt));
            let Some(view) = view.filter(|view| candidates.contains(view.index)) else {
                continue;
            };
            row[PRESENT] = 1.0;
            row[RATE] = rate(&self.rates, view);
            row[AGAIN] = (view.retransmitted_packets + view.lost_packets) as f32;
            row[RTT..RTT + HISTORY].copy_from_slice(rtts);
            row[LOAD] = kilobytes(load[slot]);
            row[SIZE] = kilobytes(size.unwrap_or(0));
        }
        &self.values
    }

    /// The state shown last.
    pub(super) const fn values(&self) -> &[f32; STATE] {
        &self.values
    }

    /// What the reward of a stream is that is bound to `chosen` in this state, before its completion time is taken off.
    pub(super) fn merit(&self, chosen: PathIndex, loss_weight: f64) -> f64 {
        let mut merit = 0.0;
        for (slot, row) in self.values.chunks_exact(FEATURES.len()).enumerate() {
            let value = |feature: usize| f64::from(row[feature]);
            if slot == chosen.get() {
                // The norms are the reference code's.
                merit += (value(RATE) - 1.0) / 99.0;
            }
            if row[RTT] > 0.0 {
                merit -= 0.8 * (value(RTT) - 1.0) / 120.0;
            }
            merit -= loss_weight * value(AGAIN) / 20.0;
        }
        merit
    }

    /// What was measured of the path in this slot is that of another path from now on.
    pub(super) fn forget(&mut self, path: PathIndex) {
        if let Some(rtts) = self.rtts.get_mut(path.get()) {
            *rtts = [0.0; HISTORY];
        }
    }
}

fn rate(rates: &Rates, view: &PathView) -> f32 {
    let known = match rates {
        Rates::Estimate => None,
        Rates::Oracle(rates) => rates.get(view.index.get()),
    };
    match known {
        Some(rate) => *rate as f32,
        None => (view.delivery_rate as f64 * 8e-6) as f32,
    }
}

fn ms(time: Duration) -> f32 {
    (time.as_secs_f64() * 1e3) as f32
}

fn kilobytes(bytes: u64) -> f32 {
    (bytes as f64 / 1e3) as f32
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;
    use mpquic_sched::QueueView;

    fn slot(slot: usize) -> PathIndex {
        PathIndex::new(slot).unwrap()
    }

    fn view(index: usize, rtt: u64) -> PathView {
        let mut view = PathView::closed(slot(index));
        view.open = true;
        view.smoothed_rtt = Duration::from_millis(rtt);
        view.delivery_rate = 1_250_000;
        (view.retransmitted_packets, view.lost_packets) = (3, 4);
        view
    }

    fn next(state: &mut State, paths: &[PathView], size: Option<u64>) -> Vec<Vec<f32>> {
        let queue = QueueView::default();
        let cx = Context::new(Instant::now(), paths, &queue, 0);
        let open = cx.open().map(|path| path.index).collect();
        let load = [1000, 2000, 3000, 4000];
        let values = state.next(&cx, open, &load, size);
        values.chunks(FEATURES.len()).map(<[f32]>::to_vec).collect()
    }

    #[test]
    fn a_row_for_each_path_in_the_order_of_the_features() {
        let mut state = State::new(Rates::Oracle(vec![50.0]));
        let rows = next(&mut state, &[view(0, 20), view(1, 60)], Some(7000));
        let row = |rate, rtt, load| {
            let mut row = vec![1.0, rate, 7.0, rtt];
            row.extend([0.0; 7]);
            row.extend([load, 7.0]);
            row
        };
        assert_eq!(rows[..2], [row(50.0, 20.0, 1.0), row(10.0, 60.0, 2.0)]);
        assert_eq!(rows[2..], [[0.0; 13], [0.0; 13]]);
    }

    #[test]
    fn round_trip_times_reach_back_eight_decisions() {
        let mut state = State::new(Rates::Estimate);
        let mut rows = Vec::new();
        for rtt in 1..=10 {
            // The other path is there now and then.
            let other = if rtt % 2 == 0 {
                view(1, rtt)
            } else {
                PathView::closed(slot(1))
            };
            rows = next(&mut state, &[view(0, rtt), other], None);
        }
        let rtts = |rows: &[Vec<f32>], path: usize| rows[path][RTT..LOAD].to_vec();
        assert_eq!(rtts(&rows, 0), [10.0, 9.0, 8.0, 7.0, 6.0, 5.0, 4.0, 3.0]);
        assert_eq!(rtts(&rows, 1), [10.0, 0.0, 8.0, 0.0, 6.0, 0.0, 4.0, 0.0]);
        assert_eq!(rows[0][SIZE], 0.0);
        state.forget(slot(0));
        state.forget(slot(9));
        rows = next(&mut state, &[view(0, 11), view(1, 11)], None);
        assert_eq!(rtts(&rows, 0), [11.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]);
        assert_eq!(rtts(&rows, 1), [11.0, 10.0, 0.0, 8.0, 0.0, 6.0, 0.0, 4.0]);
    }

    #[test]
    fn more_paths_than_the_policy_sees_are_left_out() {
        let mut state = State::new(Rates::Estimate);
        let paths: Vec<_> = (0..6).map(|index| view(index, 5)).collect();
        let rows = next(&mut state, &paths, None);
        assert_eq!(rows.len(), MOST_PATHS);
        assert!(rows.iter().all(|row| row[PRESENT] == 1.0));
    }

    #[test]
    fn the_merit_is_the_thesis_s_reward_before_the_time() {
        let mut state = State::new(Rates::Oracle(vec![100.0, 1.0]));
        let mut paths = [view(0, 121), view(1, 61)];
        (paths[1].lost_packets, paths[1].retransmitted_packets) = (10, 0);
        next(&mut state, &paths, None);
        // 1 - 0.8 * (1 + 0.5) - 0.6 * (7 + 10) / 20
        assert!((state.merit(slot(0), 0.6) - (1.0 - 1.2 - 0.51)).abs() < 1e-9);
        assert!((state.merit(slot(1), 1.0) - (0.0 - 1.2 - 0.85)).abs() < 1e-9);
        // A path without a sample has no round-trip time to count.
        paths[1].smoothed_rtt = Duration::ZERO;
        next(&mut state, &paths, None);
        assert!((state.merit(slot(0), 0.0) - (1.0 - 0.8)).abs() < 1e-9);
    }
}
