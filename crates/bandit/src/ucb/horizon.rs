//! sqrt(2 ln f(t)), kept while t is counted up.

use num_traits::Float;

/// Up to here every step is computed, beyond it one of every t / `PIECES`.
const PIECES: u64 = 64;

/// By how much the kept root may lie below the true one, relative to it; it never lies above by more
/// than rounding. See [`Horizon`].
#[cfg(test)]
pub(super) const ERROR: f64 = 4e-6;

/// sqrt(2 ln f(t)) with f(t) = 1 + t ln^2 t.
pub(super) fn root(t: f64) -> f64 {
    let ln = Float::ln(t);
    Float::sqrt(2.0 * Float::ln_1p(t * ln * ln))
}

/// The number of the next choice, t, and the root that goes with it.
///
/// The root is concave in t (checked in the tests from t = 8 on), so a chord between two exact
/// values lies below it, by at most (width of the chord)^2 / 8 times the largest second derivative.
/// From t = 128 on each chord spans t / 64 choices, which cost one multiplication and one addition
/// each in place of two logarithms and a root. The relative error is largest at the first chords,
/// and below 4e-6. Nothing is summed up, so that no rounding is either, and the cost does not
/// depend on t.
#[derive(Debug, Clone)]
pub(super) struct Horizon {
    root: f64,
    /// Steps since the chord began.
    since: f64,
    /// The root at the beginning of the chord.
    base: f64,
    slope: f64,
    t: u64,
    /// Where the chord ends.
    end: u64,
}

impl Horizon {
    /// After so many choices.
    pub(super) fn after(choices: u64) -> Self {
        let mut horizon = Self {
            root: 0.0,
            since: 0.0,
            base: 0.0,
            slope: 0.0,
            t: choices.saturating_add(1),
            end: 0,
        };
        horizon.draw_chord();
        horizon
    }

    /// How many choices there were.
    pub(super) const fn choices(&self) -> u64 {
        self.t - 1
    }

    /// sqrt(2 ln f(t)) for the next choice.
    #[inline]
    pub(super) const fn root(&self) -> f64 {
        self.root
    }

    /// There was a choice.
    #[inline]
    pub(super) fn step(&mut self) {
        self.t += 1;
        if self.t >= self.end {
            self.draw_chord();
            return;
        }
        self.since += 1.0;
        self.root = self.base + self.slope * self.since;
    }

    #[inline(never)]
    fn draw_chord(&mut self) {
        let width = (self.t / PIECES).max(1);
        self.end = self.t.saturating_add(width);
        self.since = 0.0;
        self.base = root(self.t as f64);
        self.slope = if width > 1 {
            (root(self.end as f64) - self.base) / width as f64
        } else {
            0.0
        };
        self.root = self.base;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(horizon: &Horizon) -> f64 {
        let exact = root((horizon.choices() + 1) as f64);
        if exact == 0.0 {
            assert_eq!(horizon.root(), 0.0);
            return 0.0;
        }
        let error = (exact - horizon.root()) / exact;
        assert!((-1e-14..ERROR).contains(&error), "{horizon:?}: {error}");
        error
    }

    #[test]
    fn the_kept_root_is_as_exact_as_stated() {
        let mut horizon = Horizon::after(0);
        let mut worst = 0.0_f64;
        for t in 1..200_000_u64 {
            assert_eq!(horizon.choices() + 1, t);
            worst = worst.max(check(&horizon));
            horizon.step();
        }
        // The bound is one: it is nearly reached, not merely kept.
        assert!(worst > ERROR / 4.0, "{worst}");
    }

    #[test]
    fn and_at_any_age() {
        for bits in 18..53 {
            let mut horizon = Horizon::after(1 << bits);
            // Within the chord, and over the end of it.
            for skip in [0.25, 0.5, 0.75] {
                let mut within = horizon.clone();
                let by = ((within.end - within.t) as f64 * skip) as u64;
                (within.t, within.since) = (within.t + by, by as f64 - 1.0);
                within.t -= 1;
                within.step();
                check(&within);
            }
            horizon.t = horizon.end - 1;
            horizon.step();
            assert!(horizon.end > horizon.t);
            check(&horizon);
        }
    }

    #[test]
    fn concave_where_there_are_chords() {
        let mut last = f64::INFINITY;
        for step in 0..2000 {
            let t = 8.0 * 1.0125_f64.powi(step);
            let slope = (root(t * 1.001) - root(t * 0.999)) / (0.002 * t);
            assert!(slope < last, "{t}");
            last = slope;
        }
    }
}
