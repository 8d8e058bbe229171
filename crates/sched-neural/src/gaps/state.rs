//! What GAPS' policy is shown: a token of nine features for each path.

use mpquic_sched::support::usable;
use mpquic_sched::{Context, MAX_PATHS, PathIndex, PathView};

use super::gap::Gap;

/// Paths that a policy is told of, at most.
pub(super) const TOKENS: usize = 8;

/// Name and unit of a path's features, in their order.
pub(super) const FEATURES: &[(&str, &str)] = &[
    ("present", "0 or 1"),
    ("d", "ms"),
    ("c", "packets"),
    ("delivery rate", "Mbit/s"),
    ("loss rate", "1"),
    ("receive window", "MB"),
    ("acked since the last decision", "packets"),
    // Ours, as the next one: an answer is a change of this, which no state of one moment could otherwise size.
    ("gap", "packets"),
    ("out of order", "kB"),
];

const WIDTH: usize = FEATURES.len();

/// Elements of a state.
pub(super) const STATE: usize = TOKENS * WIDTH;

/// One state, and whom its tokens stand for.
#[derive(Debug, Clone)]
pub(super) struct State {
    elements: [f32; STATE],
    paths: [Option<PathIndex>; TOKENS],
}

impl State {
    pub(super) const EMPTY: Self = Self {
        elements: [0.0; STATE],
        paths: [None; TOKENS],
    };

    /// The usable paths that have an RTT sample, in ascending order of their slots, each with what was acknowledged on
    /// it, its gap before the `fast` one, and the bytes that were `out_of_order`; zeros for the tokens that are left
    /// over. A ninth path is not told of.
    pub(super) fn fill(
        &mut self,
        cx: &Context<'_>,
        fast: &PathView,
        acknowledged: &[u32; MAX_PATHS],
        gaps: &mut [Gap; MAX_PATHS],
        out_of_order: f64,
    ) {
        *self = Self::EMPTY;
        let queue = cx.queue;
        // TCP's window counts from the first byte that is not acknowledged, ours from the first that was never sent.
        let window = queue
            .window_left
            .saturating_add(queue.in_flight)
            .saturating_add(queue.retransmittable)
            .saturating_add(queue.out_of_order);
        let told = usable(cx).filter(|path| path.has_rtt());
        let tokens = self.elements.chunks_exact_mut(WIDTH);
        for ((path, token), place) in told.zip(tokens).zip(&mut self.paths) {
            *place = Some(path.index);
            let slot = path.index.get();
            let gap = match path.index == fast.index {
                true => 0.0,
                false => gaps[slot].packets(fast, path),
            };
            let lost = path.lost_packets as f64 / path.sent_packets.max(1) as f64;
            token.copy_from_slice(&[
                1.0,
                (path.smoothed_rtt.as_secs_f64() * 1e3) as f32,
                (path.capacity() as f64 / f64::from(path.mtu.max(1))) as f32,
                (path.delivery_rate as f64 * 8.0 / 1e6) as f32,
                lost.min(1.0) as f32,
                (window as f64 / 1e6) as f32,
                acknowledged[slot] as f32,
                gap as f32,
                (out_of_order / 1e3) as f32,
            ]);
        }
    }

    pub(super) const fn elements(&self) -> &[f32] {
        &self.elements
    }

    /// The path of each token.
    pub(super) const fn paths(&self) -> &[Option<PathIndex>; TOKENS] {
        &self.paths
    }

    /// Whatever is said of this path from now on is about another one.
    pub(super) fn forget(&mut self, path: PathIndex) {
        for place in &mut self.paths {
            place.take_if(|place| *place == path);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;
    use mpquic_sched::{PathStatus, QueueView};

    fn view(slot: usize) -> PathView {
        changed!(
            PathView::closed(PathIndex::new(slot).unwrap()),
            open = true,
            smoothed_rtt = Duration::from_millis(10 * (slot as u64 + 1)),
            cwnd = 12_000
        )
    }

    fn filled(paths: &[PathView], queue: &QueueView) -> State {
        let mut acknowledged = [0; MAX_PATHS];
        acknowledged[2] = 7;
        let cx = Context::new(Instant::now(), paths, queue, 0);
        let fast = usable(&cx).min_by_key(|path| path.smoothed_rtt).unwrap();
        let mut state = State::EMPTY;
        let mut gaps = [Gap::default(); MAX_PATHS];
        state.fill(&cx, fast, &acknowledged, &mut gaps, 25_000.0);
        state
    }

    #[test]
    fn a_token_has_the_paths_figures_in_their_units() {
        let mut paths = [view(0), view(1), view(2)];
        paths[0].open = false;
        paths[1].status = PathStatus::Backup;
        paths[2].delivery_rate = 1_250_000;
        (paths[2].sent_packets, paths[2].lost_packets) = (200, 3);
        let queue = changed!(
            QueueView::default(),
            window_left = 1_000_000,
            in_flight = 500_000,
            retransmittable = 200_000,
            out_of_order = 300_000
        );
        let state = filled(&paths, &queue);
        assert_eq!(
            state.elements()[..WIDTH],
            [1.0, 30.0, 10.0, 10.0, 0.015, 2.0, 7.0, 0.0, 25.0]
        );
        assert!(
            state.elements()[WIDTH..]
                .iter()
                .all(|element| *element == 0.0)
        );
        let slots = |state: &State| state.paths().map(|path| path.map(PathIndex::get));
        assert_eq!(slots(&state)[..2], [Some(2), None]);
    }

    #[test]
    fn a_slower_path_tells_its_gap() {
        let paths = [view(0), view(2)];
        // 10 packets in 10 ms; (30 - 10) / 2 ms to make up for.
        let state = filled(&paths, &QueueView::default());
        assert_eq!(state.elements()[7], 0.0);
        assert_eq!(state.elements()[WIDTH + 7], 10.0);
    }

    #[test]
    fn a_pace_of_its_own_says_what_a_path_carries() {
        let mut paths = [view(0)];
        paths[0].pacing_rate = 600_000; // 6000 bytes in 10 ms
        assert_eq!(filled(&paths, &QueueView::default()).elements()[2], 5.0);
    }

    #[test]
    fn tokens_go_by_slots_and_there_are_eight() {
        let mut paths: Vec<_> = (0..12).map(view).collect();
        paths[1].open = false;
        paths[3].smoothed_rtt = Duration::ZERO;
        let mut state = filled(&paths, &QueueView::default());
        let slots = |state: &State| state.paths().map(|path| path.map(PathIndex::get));
        assert_eq!(slots(&state), [0, 2, 4, 5, 6, 7, 8, 9].map(Some));
        state.forget(PathIndex::new(4).unwrap());
        assert_eq!(slots(&state)[..4], [Some(0), Some(2), None, Some(5)]);
    }
}
