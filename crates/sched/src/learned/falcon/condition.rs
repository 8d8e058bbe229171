//! The coarse network conditions that `falcon` has a model for each, and which one is met.

use crate::learned::features::Features;

/// How many conditions there are.
pub(super) const CONDITIONS: usize = 9;

/// The slower path's round trip over the faster one's.
const RTTS: [f64; 2] = [1.5, 4.0];

/// The faster path's rate over the slower one's, both a window per round trip.
const RATES: [f64; 2] = [0.5, 2.0];

/// The condition that a decision's context shows, 0 to 8; `None` if it shows none: without a rate, or without room
/// in the peer's window, from which the round trips' ratio comes.
#[inline]
pub(super) fn of(x: &Features) -> Option<u8> {
    let [fast_rate, _, fast_credit, slow_rate, _, slow_credit] = *x;
    let positive = |value: f64| value > 0.0 && value.is_finite();
    if ![fast_rate, slow_rate, fast_credit, slow_credit]
        .into_iter()
        .all(positive)
    {
        return None;
    }
    let class = |value: f64, bounds: [f64; 2]| {
        bounds
            .into_iter()
            .map(|bound| u8::from(value >= bound))
            .sum::<u8>()
    };
    // C/R_f over C/R_s.
    let rtts = fast_credit / slow_credit;
    Some(3 * class(rtts, RTTS) + class(fast_rate / slow_rate, RATES))
}

/// Tells that the condition has changed once so many decisions in a row have met another one.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Watch {
    /// The condition that models are for now.
    present: Option<u8>,
    /// Decisions in a row that met another one.
    others: u32,
}

impl Watch {
    pub(super) const fn present(&self) -> Option<u8> {
        self.present
    }

    /// A decision met this condition: the one that it left, if it is another one now, or the first.
    #[inline]
    pub(super) fn met(&mut self, condition: u8, confirm: u32) -> Option<Change> {
        if self.present == Some(condition) {
            self.others = 0;
            return None;
        }
        self.others += 1;
        if self.present.is_some() && self.others < confirm {
            return None;
        }
        let left = self.present.replace(condition);
        self.others = 0;
        Some(Change {
            left,
            entered: condition,
        })
    }
}

/// Another condition is the present one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Change {
    pub(super) left: Option<u8>,
    pub(super) entered: u8,
}

/// Page and Hinkley's test for an increase of the mean error (Page, Biometrika 1954): the sum of what errors exceed their mean
/// by, over its smallest value so far.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Drift {
    samples: f64,
    mean: f64,
    sum: f64,
}

/// Errors this much above their mean, as a share of it, are none (the test's δ).
const TOLERATED: f64 = 0.1;

/// Errors count for no more than so many mean ones: a single outlier is no change.
const LARGEST: f64 = 4.0;

/// The mean rests on as many errors as this at least before the test says anything.
const LEAST: f64 = 64.0;

impl Drift {
    /// Takes in the size of an error. Whether errors have become larger: then the test starts over.
    #[inline]
    pub(super) fn add(&mut self, error: f64, threshold: f64) -> bool {
        self.samples += 1.0;
        self.mean += (error - self.mean) / self.samples;
        if self.samples < LEAST || self.mean <= 0.0 {
            return false;
        }
        let excess = (error / self.mean).min(LARGEST) - 1.0 - TOLERATED;
        // The sum over its minimum so far is the sum that never falls below zero.
        self.sum = (self.sum + excess).max(0.0);
        let drifted = self.sum > threshold;
        if drifted {
            *self = Self::default();
        }
        drifted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_are_ratios_of_round_trips_and_of_rates() {
        // Rates of 2 and 1, a window of 60: round trips of 20 and 40, a ratio of 2.
        assert_eq!(of(&[2.0, 0.0, 3.0, 1.0, 0.0, 1.5]), Some(5));
        assert_eq!(of(&[1.9, 0.0, 3.0, 1.0, 0.0, 1.5]), Some(4));
        assert_eq!(of(&[0.4, 0.0, 3.0, 1.0, 0.0, 1.5]), Some(3));
        assert_eq!(of(&[0.4, 0.0, 3.0, 1.0, 0.0, 2.9]), Some(0));
        assert_eq!(of(&[9.0, 0.0, 8.0, 1.0, 0.0, 2.0]), Some(8));
        assert_eq!(of(&[0.0; 6]), None);
        assert_eq!(of(&[1.0, 1.0, 0.0, 1.0, 1.0, 0.0]), None);
    }

    #[test]
    fn a_condition_must_last_to_be_the_present_one() {
        let mut watch = Watch::default();
        let first = Change {
            left: None,
            entered: 4,
        };
        assert_eq!(watch.met(4, 3), Some(first));
        assert_eq!([2, 2, 4, 2, 3].map(|c| watch.met(c, 3)), [None; 5]);
        let second = Change {
            left: Some(4),
            entered: 2,
        };
        assert_eq!(watch.met(2, 3), Some(second));
        assert_eq!(watch.present(), Some(2));
    }

    #[test]
    fn errors_that_grow_are_a_drift_and_those_that_do_not_are_none() {
        let mut drift = Drift::default();
        let errors = [0.5, 1.5, 1.0, 1.0];
        let steady = (0..100_000).any(|n| drift.add(errors[n % 4], 100.0));
        assert!(!steady);
        let mut drift = Drift::default();
        let after = (0..2000)
            .position(|n| drift.add(if n < 1000 { 1.0 } else { 3.0 }, 100.0))
            .unwrap();
        assert!((1050..1100).contains(&after), "{after}");
        // One that is a thousand times as large is one of four.
        let mut drift = Drift::default();
        assert!(!(0..1000).any(|n| drift.add(if n % 100 == 0 { 1000.0 } else { 1.0 }, 100.0)));
    }
}
