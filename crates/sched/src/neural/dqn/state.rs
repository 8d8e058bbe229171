//! What the policy is shown of paths, windows and the chunk.

use crate::PathView;
use crate::support::usable;
use crate::{Context, PathIndex};

/// Elements of a state.
pub(super) const STATE: usize = 10;

/// Each element's name and unit.
pub(super) const FEATURES: &[(&str, &str)] = &with_ninth("chunk not acknowledged in order");

/// The same with the ninth one of this name, in bytes.
pub(super) const fn with_ninth(ninth: &'static str) -> [(&'static str, &'static str); STATE] {
    [
        ("rtt of path 1", "ms"),
        ("window of path 1", "bytes"),
        ("in flight on path 1", "bytes"),
        ("rtt of path 2", "ms"),
        ("window of path 2", "bytes"),
        ("in flight on path 2", "bytes"),
        ("credit", "bytes"),
        ("chunk not sent", "bytes"),
        (ninth, "bytes"),
        ("time since the chunk was asked for", "s"),
    ]
}

/// The largest flow-control window that is told: what the reference's streams tune up to. Windows without a limit would be as far from
/// anything that a policy was trained on as a window can be.
const MOST_WINDOW: u64 = 16 << 20;

/// What a state says of a chunk.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Progress {
    /// Bytes never sent.
    pub(super) unsent: u64,
    /// Bytes not acknowledged, or acknowledged with a hole before them.
    pub(super) unacked: u64,
    /// Bytes that are acknowledged with all before them.
    pub(super) received: u64,
    /// Seconds since it was asked for.
    pub(super) elapsed: f64,
}

/// The state, and which path is path 1 in it; `None` if no path is open. Its ninth element is what of the chunk has been
/// `received`, or has not.
pub(super) fn observe(
    cx: &Context<'_>,
    chunk: Progress,
    received: bool,
) -> Option<([f32; STATE], PathIndex)> {
    let first = usable(cx).min_by_key(|path| path.rtt_rank())?;
    // Path 2 is all the others together: its windows in sum, its RTT that of a byte of a window.
    let (mut rtt, mut window, mut in_flight) = (0.0, 0.0, 0.0);
    for path in usable(cx).filter(|path| path.index != first.index) {
        rtt += millis(path) * path.cwnd as f64;
        window += path.cwnd as f64;
        in_flight += path.in_flight as f64;
    }
    if window > 0.0 {
        rtt /= window;
    }
    let state = [
        millis(first),
        first.cwnd as f64,
        first.in_flight as f64,
        rtt,
        window,
        in_flight,
        cx.queue.flow_control_window.min(MOST_WINDOW) as f64,
        chunk.unsent as f64,
        if received {
            chunk.received
        } else {
            chunk.unacked
        } as f64,
        chunk.elapsed,
    ];
    Some((state.map(|element| element as f32), first.index))
}

fn millis(path: &PathView) -> f64 {
    path.smoothed_rtt.as_secs_f64() * 1e3
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;
    use crate::{PathStatus, QueueView};

    fn path(slot: usize, rtt: u64, window: u64, in_flight: u64) -> PathView {
        changed!(
            PathView::closed(PathIndex::new(slot).unwrap()),
            open = true,
            smoothed_rtt = Duration::from_millis(rtt),
            cwnd = window,
            in_flight = in_flight
        )
    }

    const CHUNK: Progress = Progress {
        unsent: 500_000,
        unacked: 625_000,
        received: 40_000,
        elapsed: 0.25,
    };

    fn state(paths: &[PathView], flow_window: u64) -> Option<([f32; STATE], usize)> {
        let queue = changed!(QueueView::default(), flow_control_window = flow_window);
        let cx = Context::new(Instant::now(), paths, &queue, 0);
        let [mut state, other] = [false, true].map(|received| observe(&cx, CHUNK, received));
        if let (Some((state, _)), Some((other, _))) = (&mut state, other) {
            assert_eq!((state[8], other[8]), (625_000.0, 40_000.0));
        }
        state.map(|(state, first)| (state, first.get()))
    }

    #[test]
    fn path_1_is_the_fastest_and_path_2_the_others() {
        let mut paths = vec![path(0, 100, 30_000, 10_000), path(1, 20, 50_000, 50_000)];
        let chunk = [500_000.0, 625_000.0, 0.25];
        let expect = |paths: [f32; 6], flow_window: f32, first| {
            let mut state = [0.0; STATE];
            state[..6].copy_from_slice(&paths);
            state[6] = flow_window;
            state[7..].copy_from_slice(&chunk);
            Some((state, first))
        };
        let two = [20.0, 5e4, 5e4, 100.0, 3e4, 1e4];
        assert_eq!(state(&paths, 40_000), expect(two, 4e4, 1));
        // A third: (100 * 30 + 60 * 90) / 120 ms.
        paths.push(path(2, 60, 90_000, 5_000));
        let three = [20.0, 5e4, 5e4, 70.0, 12e4, 15e3];
        assert_eq!(state(&paths, u64::MAX), expect(three, 16_777_216.0, 1));
        // The fastest is in trouble: it is in neither.
        paths[1].suspect = true;
        let others = [60.0, 9e4, 5e3, 100.0, 3e4, 1e4];
        assert_eq!(state(&paths, 0), expect(others, 0.0, 2));
        paths[2].status = PathStatus::Backup;
        let alone = [100.0, 3e4, 1e4, 0.0, 0.0, 0.0];
        assert_eq!(state(&paths, 0), expect(alone, 0.0, 0));
        assert_eq!(state(&[], 0), None);
    }
}
