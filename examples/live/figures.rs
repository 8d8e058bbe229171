//! What a viewer felt: delays, freezes, frames that did not come.

use std::fmt;

use serde::Serialize;

/// A frame that came, in the order in which they came. Times in microseconds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Came {
    pub(crate) id: u64,
    pub(crate) made: u64,
    pub(crate) at: u64,
    pub(crate) bytes: usize,
    pub(crate) key: bool,
    pub(crate) repaired: bool,
}

/// The figures of one camera.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Figures {
    /// Frames that were sent.
    pub(crate) frames: u64,
    /// Of these, those that never came or came too late to be handed over.
    pub(crate) missing: u64,
    /// Those that repair packets made whole.
    pub(crate) repaired: u64,
    pub(crate) delay_p50_ms: f64,
    pub(crate) delay_p99_ms: f64,
    pub(crate) delay_max_ms: f64,
    /// The longest time between two frames, each newer than all before.
    pub(crate) longest_freeze_ms: f64,
    pub(crate) bytes: u64,
}

/// The delays of frames, in the same order: as they are, if the clocks are one, or above the shortest.
pub(crate) fn delays(came: &[Came], one_clock: bool) -> Vec<f64> {
    let raw: Vec<f64> = came
        .iter()
        .map(|frame| (frame.at as f64 - frame.made as f64) / 1e3)
        .collect();
    let shortest = if one_clock {
        0.0
    } else {
        raw.iter().copied().fold(f64::INFINITY, f64::min)
    };
    raw.iter().map(|delay| delay - shortest).collect()
}

impl Figures {
    pub(crate) fn new(frames: u64, came: &[Came], one_clock: bool) -> Self {
        let mut sorted = delays(came, one_clock);
        sorted.sort_by(f64::total_cmp);
        let quantile = |percent: usize| {
            let rank = (sorted.len() * percent).div_ceil(100).max(1) - 1;
            sorted.get(rank).copied().unwrap_or(0.0)
        };
        let (mut newest, mut last, mut freeze) = (None, None, 0);
        for frame in came {
            if newest < Some(frame.id) {
                freeze = freeze.max(last.map_or(0, |last| frame.at.saturating_sub(last)));
                (newest, last) = (Some(frame.id), Some(frame.at));
            }
        }
        Self {
            frames,
            missing: frames.saturating_sub(came.len() as u64),
            repaired: came.iter().filter(|frame| frame.repaired).count() as u64,
            delay_p50_ms: quantile(50),
            delay_p99_ms: quantile(99),
            delay_max_ms: quantile(100),
            longest_freeze_ms: freeze as f64 / 1e3,
            bytes: came.iter().map(|frame| frame.bytes as u64).sum(),
        }
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} frames, {} missing, {} repaired; delay {:.1} ms (99 % within {:.1}, longest {:.1}); longest freeze {:.0} ms",
            self.frames,
            self.missing,
            self.repaired,
            self.delay_p50_ms,
            self.delay_p99_ms,
            self.delay_max_ms,
            self.longest_freeze_ms,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_by_hand() {
        let came = |id, made: u64, at: u64| Came {
            id,
            made: 1_000 * made,
            at: 1_000 * at,
            bytes: 10,
            key: false,
            repaired: id == 2,
        };
        // Number 1 comes after number 2, so that it does not end the freeze.
        let came = [
            came(0, 0, 20),
            came(2, 100, 150),
            came(1, 50, 160),
            came(4, 200, 230),
        ];
        let figures = Figures::new(6, &came, true);
        assert_eq!(
            (figures.frames, figures.missing, figures.repaired),
            (6, 2, 1)
        );
        assert_eq!((figures.delay_p50_ms, figures.delay_max_ms), (30.0, 110.0));
        assert_eq!(figures.longest_freeze_ms, 130.0);
        assert_eq!(delays(&came, false), [0.0, 30.0, 90.0, 10.0]);
    }
}
