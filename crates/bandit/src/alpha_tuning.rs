//! Peekaboo's search for LinUCB's alpha: which candidate to try next, given the scores so far.

/// How many candidates a search tries at most.
const MOST: usize = 12;
/// The first step.
const TAU: f64 = 0.8;
/// Steps no longer than this are not taken.
const FINEST: f64 = 0.05;
/// Where the fast form begins: the best alpha on average in the paper.
const AVERAGE: f64 = 0.8;

/// A search for the alpha with the best score. It gives candidates and is told their scores.
///
/// **Rule.** In the full form, a growth phase, then a refinement:
///
/// ```text
/// alpha = 0, tau = 0.8
/// for n = 1, 2, ..:  c = alpha + n·tau
///     if score(c) > score(alpha):  alpha = c, tau = tau/2
///     else:                        stop
/// while tau > 0.05:
///     alpha = the best of alpha - tau, alpha, alpha + tau
///     tau = tau/2
/// ```
///
/// The fast form is the refinement alone, from alpha = 0.8 and tau = 0.4: seven candidates, 0.8 and
/// three pairs around the best so far.
///
/// **Source.** Wu et al.: *Peekaboo*, IEEE JSAC 2020, section III-A. Ours: of equal
/// scores the present alpha wins, then the smaller one. A candidate below 0 is left out, since a
/// negative bonus avoids what is unknown. A candidate that was scored before keeps its score. NaN
/// counts as the worst score. The growth also ends when its step `n·tau` falls below 0.05; otherwise
/// it would approach 3.2 for ever.
///
/// **What it finds.** If the score has a single peak, the fast form ends within 0.1 of it for a
/// peak between 0 and 1.6, and at 0.1 or 1.5 for one outside. The full form ends within 0.1 of
/// a peak below 0.8. Beyond, the growth leaves a wide bracket and a short step to search it with: for
/// a symmetric peak it ends within 0.2 up to alpha = 3.
///
/// **Cost.** A dozen comparisons a candidate; at most 12 candidates; 224 bytes of state.
///
/// ```
/// use mpquic_bandit::AlphaTuning;
///
/// let mut tuning = AlphaTuning::fast();
/// let mut tried = Vec::new();
/// while let Some(alpha) = tuning.candidate() {
///     tuning.score(-(alpha - 1.13_f64).abs()); // a world whose best alpha is 1.13
///     tried.push((alpha * 10.0).round() / 10.0);
/// }
/// assert_eq!(tried, [0.8, 0.4, 1.2, 1.0, 1.4, 1.1, 1.3]);
/// assert!((tuning.best() - 1.1).abs() < 1e-12);
/// ```
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(try_from = "Snapshot", into = "Snapshot"))]
pub struct AlphaTuning {
    full: bool,
    /// What was tried and its score, in that order.
    scored: [(f64, f64); MOST],
    len: usize,
    alpha: f64,
    tau: f64,
    stage: Stage,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Stage {
    /// The one to start from.
    First,
    Growth {
        n: u32,
    },
    Lower,
    /// Knows the winner of the lower candidate and the present alpha.
    Upper {
        best: f64,
    },
    Done,
}

impl AlphaTuning {
    /// The most candidates that any search tries.
    pub const MOST_CANDIDATES: usize = MOST;

    /// Growth, then refinement: starts with alpha = 0.
    pub const fn full() -> Self {
        Self::from(true, 0.0, TAU)
    }

    /// Refinement only, around 0.8: seven candidates.
    pub const fn fast() -> Self {
        Self::from(false, AVERAGE, TAU / 2.0)
    }

    /// Restarts a search of the same form.
    #[must_use]
    pub const fn restarted(&self) -> Self {
        if self.full {
            Self::full()
        } else {
            Self::fast()
        }
    }

    const fn from(full: bool, alpha: f64, tau: f64) -> Self {
        Self {
            full,
            scored: [(0.0, 0.0); MOST],
            len: 0,
            alpha,
            tau,
            stage: Stage::First,
        }
    }

    /// The alpha to try next; `None` once the search is over.
    pub fn candidate(&self) -> Option<f64> {
        match self.stage {
            Stage::First => Some(self.alpha),
            Stage::Growth { n } => Some(self.alpha + f64::from(n) * self.tau),
            Stage::Lower => Some(self.alpha - self.tau),
            Stage::Upper { .. } => Some(self.alpha + self.tau),
            Stage::Done => None,
        }
    }

    /// The best alpha so far; before the first score, the one where the search starts.
    pub const fn best(&self) -> f64 {
        match self.stage {
            Stage::Upper { best } => best,
            _ => self.alpha,
        }
    }

    /// How many candidates were scored.
    pub const fn tried(&self) -> usize {
        self.len
    }

    /// The score of the [`candidate`](Self::candidate), larger is better; ignored once the search is
    /// over.
    pub fn score(&mut self, score: f64) {
        let Some(candidate) = self.candidate() else {
            return;
        };
        let score = if score.is_nan() {
            f64::NEG_INFINITY
        } else {
            // Finite, so that it can be written down.
            score.clamp(f64::MIN, f64::MAX)
        };
        self.scored[self.len] = (candidate, score);
        self.len += 1;
        self.step(candidate, score);
        // No two steps try the same one.
        while let Some(candidate) = self.candidate() {
            let known = if candidate < 0.0 {
                f64::NEG_INFINITY
            } else if let Some(score) = self.score_of(candidate) {
                score
            } else if self.len == MOST {
                // Cannot be, by the count in the tests.
                self.alpha = self.best();
                self.stage = Stage::Done;
                return;
            } else {
                return;
            };
            self.step(candidate, known);
        }
    }

    fn score_of(&self, alpha: f64) -> Option<f64> {
        let same = |scored: &&(f64, f64)| (scored.0 - alpha).abs() < 1e-9;
        self.scored[..self.len]
            .iter()
            .find(same)
            .map(|scored| scored.1)
    }

    fn known(&self, alpha: f64) -> f64 {
        self.score_of(alpha).unwrap_or(f64::NEG_INFINITY)
    }

    fn step(&mut self, candidate: f64, score: f64) {
        match self.stage {
            Stage::First if self.full => self.stage = Stage::Growth { n: 1 },
            Stage::First => self.refine(),
            Stage::Growth { n } => {
                if score > self.known(self.alpha) {
                    self.alpha = candidate;
                    self.tau /= 2.0;
                    self.stage = Stage::Growth { n: n + 1 };
                    if f64::from(n + 1) * self.tau >= FINEST {
                        return;
                    }
                }
                self.refine();
            }
            Stage::Lower => {
                let best = if score > self.known(self.alpha) {
                    candidate
                } else {
                    self.alpha
                };
                self.stage = Stage::Upper { best };
            }
            Stage::Upper { best } => {
                self.alpha = if score > self.known(best) {
                    candidate
                } else {
                    best
                };
                self.tau /= 2.0;
                self.refine();
            }
            Stage::Done => {}
        }
    }

    /// The next round of the refinement, if there is one.
    fn refine(&mut self) {
        self.stage = if self.tau > FINEST {
            Stage::Lower
        } else {
            Stage::Done
        };
    }
}

/// A search as it is written down: its form and the scores so far, from which the rest follows.
#[cfg(feature = "serde")]
#[derive(serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Snapshot {
    full: bool,
    tried: usize,
    /// `None`: the worst.
    scores: [Option<f64>; MOST],
}

#[cfg(feature = "serde")]
impl From<AlphaTuning> for Snapshot {
    fn from(tuning: AlphaTuning) -> Self {
        let mut scores = [None; MOST];
        for (slot, (_, score)) in scores.iter_mut().zip(&tuning.scored[..tuning.len]) {
            *slot = Some(*score).filter(|score| score.is_finite());
        }
        Self {
            full: tuning.full,
            tried: tuning.len,
            scores,
        }
    }
}

#[cfg(feature = "serde")]
impl TryFrom<Snapshot> for AlphaTuning {
    type Error = &'static str;

    fn try_from(read: Snapshot) -> Result<Self, Self::Error> {
        let mut tuning = if read.full {
            Self::full()
        } else {
            Self::fast()
        };
        let scores = read
            .scores
            .get(..read.tried)
            .ok_or("expected at most 12 scores")?;
        for score in scores {
            if tuning.candidate().is_none() {
                return Err("expected no score after the search is over");
            }
            tuning.score(score.unwrap_or(f64::NAN));
        }
        Ok(tuning)
    }
}

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use proptest::prelude::*;

    use super::*;

    fn run(mut tuning: AlphaTuning, score: impl Fn(f64) -> f64) -> (f64, Vec<f64>) {
        let mut tried = Vec::new();
        while let Some(alpha) = tuning.candidate() {
            assert!(tuning.best() >= 0.0);
            tuning.score(score(alpha));
            tried.push(alpha);
            assert_eq!(tuning.tried(), tried.len());
        }
        (tuning.best(), tried)
    }

    proptest! {
        /// Peaks with sides of any steepness, straight or bent.
        #[test]
        fn it_ends_near_the_peak(
            peak in 0.0..4.0_f64,
            steep in (0.1..10.0_f64, 0.1..10.0_f64),
            power in 0.3..3.0_f64,
        ) {
            let score = |alpha: f64| {
                let slope = if alpha < peak { steep.0 } else { steep.1 };
                -slope * (alpha - peak).abs().powf(power)
            };
            let (best, tried) = run(AlphaTuning::fast(), score);
            prop_assert_eq!(tried.len(), 7);
            prop_assert!((best - peak.clamp(0.1, 1.5)).abs() <= 0.1 + 1e-9, "{} {}", best, peak);

            let (best, tried) = run(AlphaTuning::full(), score);
            prop_assert!(tried.len() <= 10);
            if peak <= 0.8 {
                prop_assert!((best - peak).abs() <= 0.1 + 1e-9, "{} {}", best, peak);
            }
            let all_best = tried.iter().copied().map(score).fold(f64::NEG_INFINITY, f64::max);
            prop_assert_eq!(score(best), all_best);

            let even = |alpha: f64| -(alpha - peak).abs().powf(power);
            let (best, _) = run(AlphaTuning::full(), even);
            prop_assert!((best - peak.min(3.0)).abs() <= 0.2 + 1e-9, "{} {}", best, peak);
        }

        /// Whatever the scores are: it ends, tries nothing twice and nothing below zero.
        #[test]
        fn any_scores_end(seed in any::<u64>(), full in any::<bool>()) {
            let mut draw = crate::Draw::new(seed);
            let mut tuning = if full { AlphaTuning::full() } else { AlphaTuning::fast() };
            let mut tried: Vec<f64> = Vec::new();
            while let Some(alpha) = tuning.candidate() {
                prop_assert!(alpha >= 0.0 && tried.iter().all(|t| (t - alpha).abs() > 1e-9));
                tried.push(alpha);
                let score = match (draw.unit() * 8.0) as u32 {
                    0 => f64::NAN,
                    1 => f64::INFINITY,
                    2 => f64::NEG_INFINITY,
                    _ => (draw.unit() * 4.0).round(),
                };
                tuning.score(score);
                // A snapshot goes on where it was taken.
                #[cfg(feature = "serde")]
                {
                    let text = serde_json::to_string(&tuning).unwrap();
                    let read: AlphaTuning = serde_json::from_str(&text).unwrap();
                    prop_assert_eq!(&read, &tuning);
                }
            }
            prop_assert!(tried.len() <= AlphaTuning::MOST_CANDIDATES);
            let best = tuning.best();
            tuning.score(1e9);
            prop_assert_eq!(tuning.best(), best);
            let fresh = if full { AlphaTuning::full() } else { AlphaTuning::fast() };
            prop_assert_eq!(tuning.restarted(), fresh);
        }
    }

    #[test]
    fn the_growth_by_hand() {
        // A score that only rises: 0, then n · tau with tau halved each time.
        let (best, tried) = run(AlphaTuning::full(), |alpha| alpha);
        let mut expected = std::vec![0.0];
        let (mut alpha, mut tau) = (0.0, 0.8);
        for n in 1..=8 {
            alpha += f64::from(n) * tau;
            tau /= 2.0;
            expected.push(alpha);
        }
        assert_eq!(tried, expected);
        assert!(best < 3.2 && best > 3.1, "{best}");
        // One that only falls: the first step fails, and the refinement goes below 0.8 only; -0.8,
        // -0.4 and so on are left out, 0.8 is known.
        let (best, tried) = run(AlphaTuning::full(), |alpha| -alpha);
        assert_eq!((best, tried), (0.0, std::vec![0.0, 0.8, 0.4, 0.2, 0.1]));
    }

    #[test]
    fn of_equals_the_one_that_is_there_stays() {
        assert_eq!(run(AlphaTuning::fast(), |_| 0.5).0, 0.8);
        assert_eq!(run(AlphaTuning::full(), |_| f64::NAN).0, 0.0);
    }

    #[cfg(feature = "serde")]
    #[test]
    fn a_snapshot_is_checked() {
        let nulls = ",null".repeat(11);
        let text = |full: bool, tried: u32| {
            std::format!(r#"{{"full":{full},"tried":{tried},"scores":[0.5{nulls}]}}"#)
        };
        let read = |text: &str| serde_json::from_str::<AlphaTuning>(text);
        assert_eq!(read(&text(false, 1)).unwrap().candidate(), Some(0.4));
        assert!(read(&text(false, 8)).is_err());
        assert!(read(&text(false, 13)).is_err());
        assert!(read(r#"{"full":true,"tried":0,"scores":[]}"#).is_err());
    }
}
