//! How often the choices of a two-armed policy were right, and what the wrong ones cost.

/// A decision, judged: which arm was chosen, and by how much it beat the other one.
#[derive(Debug, Clone, Copy, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(
    feature = "serde",
    serde(try_from = "(usize, f32)", into = "(usize, f32)")
)]
pub struct Outcome {
    /// The arm that was chosen, 0 or 1.
    arm: u8,
    /// Its reward less that of the other arm, in the unit of the rewards.
    margin: f32,
}

impl Outcome {
    /// A choice of this arm, whose reward exceeded the other arm's by `margin`.
    ///
    /// # Panics
    ///
    /// If there is no such arm: they are 0 and 1.
    pub const fn new(arm: usize, margin: f64) -> Self {
        assert!(arm < 2, "there are two arms");
        Self {
            arm: arm as u8,
            margin: margin as f32,
        }
    }

    fn checked(arm: usize, margin: f32) -> Option<Self> {
        let sound = arm < 2 && margin.is_finite();
        sound.then(|| Self::new(arm, f64::from(margin)))
    }
}

impl From<Outcome> for (usize, f32) {
    fn from(outcome: Outcome) -> Self {
        (usize::from(outcome.arm), outcome.margin)
    }
}

impl TryFrom<(usize, f32)> for Outcome {
    type Error = &'static str;

    fn try_from((arm, margin): (usize, f32)) -> Result<Self, Self::Error> {
        Self::checked(arm, margin).ok_or("expected arm 0 or 1 and a finite margin")
    }
}

/// Peekaboo's `q`, `e` and `f`, from judged decisions.
///
/// **Formula.** `q(a)` is the share of the choices of arm `a` whose reward was more than the other
/// arm's. `regret(a)` is the mean loss of `a` over all decisions in which the other arm had more,
/// whichever arm was chosen: with arm 0 transmitting and arm 1 waiting, `e = regret(1)`, the mean of
/// `R_0 - R_1` where positive, and `f = regret(0)`. A tie is right for neither arm and no regret.
///
/// **Source.** Wu et al.: *Peekaboo*, IEEE JSAC 2020, section III-B.
///
/// **Before any decision** `q` is `None` and the regrets are 0.
///
/// ```
/// use mpquic_bandit::{Outcome, Regrets};
///
/// let mut regrets = Regrets::default();
/// assert_eq!((regrets.q(0), regrets.regret(0)), (None, 0.0));
/// regrets.add(Outcome::new(0, 1.0)); // arm 0 chosen, had 1 more: right
/// regrets.add(Outcome::new(0, -4.0)); // had 4 less: wrong
/// assert_eq!((regrets.q(0), regrets.q(1)), (Some(0.5), None));
/// assert_eq!((regrets.regret(0), regrets.regret(1)), (4.0, 1.0));
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(try_from = "RegretsSnapshot"))]
pub struct Regrets {
    chosen: [u32; 2],
    right: [u32; 2],
    /// How often the arm had less than the other, chosen or not, and how much in all.
    less: [u32; 2],
    lost: [f64; 2],
}

impl Regrets {
    /// Adds a judged decision; one without a finite margin is ignored.
    pub fn add(&mut self, outcome: Outcome) {
        let Some((better, margin)) = self.count(outcome) else {
            return;
        };
        if let Some(better) = better {
            self.less[1 - better] += 1;
            self.lost[1 - better] += margin;
        }
    }

    /// Counts the choice; which arm was better, and by how much.
    fn count(&mut self, outcome: Outcome) -> Option<(Option<usize>, f64)> {
        let margin = f64::from(outcome.margin);
        if !margin.is_finite() {
            return None;
        }
        let arm = usize::from(outcome.arm);
        self.chosen[arm] = self.chosen[arm].saturating_add(1);
        let better = match margin {
            0.0 => None,
            0.0.. => Some(arm),
            _ => Some(1 - arm),
        };
        self.right[arm] += u32::from(better == Some(arm));
        Some((better, margin.abs()))
    }

    fn remove(&mut self, outcome: Outcome) {
        let arm = usize::from(outcome.arm);
        let margin = f64::from(outcome.margin);
        self.chosen[arm] -= 1;
        let better = if margin > 0.0 { arm } else { 1 - arm };
        self.right[arm] -= u32::from(margin > 0.0);
        if margin != 0.0 {
            self.less[1 - better] -= 1;
            self.lost[1 - better] -= margin.abs();
        }
    }

    /// How many decisions for this arm were added.
    ///
    /// # Panics
    ///
    /// If there is no such arm: they are 0 and 1. The same holds for the other methods.
    pub const fn chosen(&self, arm: usize) -> u32 {
        self.chosen[arm]
    }

    /// The share of the choices of this arm that were right; `None` before the first.
    pub fn q(&self, arm: usize) -> Option<f64> {
        share(self.right[arm], self.chosen[arm])
    }

    /// The share of all choices that were right; `None` before the first.
    pub fn q_of_all(&self) -> Option<f64> {
        let right = self.right[0] + self.right[1];
        share(right, self.chosen[0].saturating_add(self.chosen[1]))
    }

    /// The mean loss by this arm where the other one had more; 0 if it never had.
    pub fn regret(&self, arm: usize) -> f64 {
        if self.less[arm] == 0 {
            return 0.0;
        }
        // Taking outcomes out again may leave a sum of nothing but rounding.
        (self.lost[arm] / f64::from(self.less[arm])).max(0.0)
    }
}

fn share(part: u32, whole: u32) -> Option<f64> {
    (whole > 0).then(|| f64::from(part) / f64::from(whole))
}

/// What a snapshot of [`Regrets`] must hold to be taken for one.
#[cfg(feature = "serde")]
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct RegretsSnapshot {
    chosen: [u32; 2],
    right: [u32; 2],
    less: [u32; 2],
    lost: [f64; 2],
}

#[cfg(feature = "serde")]
impl TryFrom<RegretsSnapshot> for Regrets {
    type Error = &'static str;

    fn try_from(read: RegretsSnapshot) -> Result<Self, Self::Error> {
        let total = |counts: [u32; 2]| u64::from(counts[0]) + u64::from(counts[1]);
        if (0..2).any(|arm| read.right[arm] > read.chosen[arm])
            || total(read.less) > total(read.chosen)
            || total(read.chosen) > u64::from(u32::MAX)
        {
            return Err("expected no more right or wrong choices than choices");
        }
        if !read
            .lost
            .iter()
            .all(|lost| lost.is_finite() && *lost >= 0.0)
        {
            return Err("expected finite regrets, 0 or more");
        }
        Ok(Self {
            chosen: read.chosen,
            right: read.right,
            less: read.less,
            lost: read.lost,
        })
    }
}

/// [`Regrets`] over the newest judged decisions, `W` of them at most.
///
/// **Cost.** O(1) for each, amortised: sums are updated, and recomputed once per window so that
/// rounding does not add up. `8·W` bytes of state and some 70 more.
///
/// ```
/// use mpquic_bandit::{Outcome, RegretWindow};
///
/// let mut window = RegretWindow::<2>::new();
/// for margin in [-1.0, 2.0, 3.0] {
///     window.push(Outcome::new(1, margin));
/// }
/// assert_eq!((window.len(), window.regrets().q(1)), (2, Some(1.0)));
/// ```
#[derive(Debug, Clone)]
pub struct RegretWindow<const W: usize> {
    outcomes: [Outcome; W],
    /// How many it may hold.
    limit: usize,
    len: usize,
    next: usize,
    sums: Regrets,
}

impl<const W: usize> RegretWindow<W> {
    /// An empty window of `W`.
    pub const fn new() -> Self {
        Self::of(W)
    }

    /// An empty window of `limit` decisions, or of `W` if it is more, or of 1.
    pub const fn of(limit: usize) -> Self {
        const { assert!(W > 0, "a window holds something") };
        let limit = if limit > W { W } else { limit };
        Self {
            outcomes: [Outcome::new(0, 0.0); W],
            limit: if limit == 0 { 1 } else { limit },
            len: 0,
            next: 0,
            sums: Regrets {
                chosen: [0; 2],
                right: [0; 2],
                less: [0; 2],
                lost: [0.0; 2],
            },
        }
    }

    /// Adds a judged decision, which replaces the oldest one if the window is full; one without a finite
    /// margin is ignored.
    pub fn push(&mut self, outcome: Outcome) {
        if !outcome.margin.is_finite() {
            return;
        }
        if self.len == self.limit {
            self.sums.remove(self.outcomes[self.next]);
        } else {
            self.len += 1;
        }
        self.outcomes[self.next] = outcome;
        self.sums.add(outcome);
        self.next += 1;
        if self.next == self.limit {
            self.next = 0;
            self.sums = Regrets::default();
            for outcome in &self.outcomes[..self.limit] {
                self.sums.add(*outcome);
            }
        }
    }

    /// The regrets of the decisions in the window.
    pub const fn regrets(&self) -> &Regrets {
        &self.sums
    }

    /// How many are in it.
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether it is empty.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Empties it.
    pub fn clear(&mut self) {
        (self.len, self.next) = (0, 0);
        self.sums = Regrets::default();
    }
}

impl<const W: usize> Default for RegretWindow<W> {
    /// The same as [`new`](Self::new).
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    /// The definitions, over a list.
    fn naive(outcomes: &[(usize, f64)], arm: usize) -> (Option<f64>, f64) {
        let margins = || outcomes.iter().filter(|o| o.0 == arm).map(|o| o.1);
        let right = margins().filter(|margin| *margin > 0.0).count();
        let q = (margins().count() > 0).then(|| right as f64 / margins().count() as f64);
        let lost: Vec<f64> = outcomes
            .iter()
            .map(|(chosen, margin)| if *chosen == arm { -margin } else { *margin })
            .filter(|lost| *lost > 0.0)
            .collect();
        let mean = lost.iter().sum::<f64>() / lost.len().max(1) as f64;
        (q, mean)
    }

    fn close(a: (Option<f64>, f64), b: (Option<f64>, f64)) -> bool {
        a.0 == b.0 && (a.1 - b.1).abs() <= 1e-9 * b.1.abs().max(1.0)
    }

    proptest! {
        #[test]
        fn sums_and_window_agree_with_the_definitions(
            outcomes in vec((0..2_usize, (-40..40_i32).prop_map(|n| f64::from(n) / 4.0)), 0..60),
        ) {
            let mut all = Regrets::default();
            let mut window = RegretWindow::<20>::of(16);
            for (n, (arm, margin)) in outcomes.iter().enumerate() {
                all.add(Outcome::new(*arm, *margin));
                window.push(Outcome::new(*arm, *margin));
                let from = (n + 1).saturating_sub(16);
                prop_assert_eq!(window.len(), n + 1 - from);
                for arm in 0..2 {
                    let w = window.regrets();
                    let expected = naive(&outcomes[from..=n], arm);
                    prop_assert!(close((w.q(arm), w.regret(arm)), expected));
                }
            }
            for arm in 0..2 {
                prop_assert!(close((all.q(arm), all.regret(arm)), naive(&outcomes, arm)));
            }
            let right = outcomes.iter().filter(|(_, margin)| *margin > 0.0).count();
            let share = (!outcomes.is_empty()).then(|| right as f64 / outcomes.len() as f64);
            prop_assert_eq!(all.q_of_all(), share);
        }
    }

    #[test]
    fn what_is_not_finite_is_passed_over() {
        let mut regrets = Regrets::default();
        let mut window = RegretWindow::<4>::new();
        for margin in [f64::NAN, f64::INFINITY, 1e300, -f64::INFINITY] {
            regrets.add(Outcome::new(0, margin));
            window.push(Outcome::new(0, margin));
        }
        assert_eq!((regrets, window.len()), (Regrets::default(), 0));
        assert_eq!(RegretWindow::<4>::of(9).limit, 4);
        assert_eq!(RegretWindow::<4>::of(0).limit, 1);
        window.push(Outcome::new(1, -1.0));
        assert!(!window.is_empty());
        window.clear();
        assert_eq!((window.len(), *window.regrets()), (0, Regrets::default()));
    }

    #[cfg(feature = "serde")]
    #[test]
    fn a_snapshot_is_checked() {
        let mut regrets = Regrets::default();
        regrets.add(Outcome::new(0, 2.5));
        regrets.add(Outcome::new(1, 1.0));
        let text = serde_json::to_string(&regrets).unwrap();
        assert_eq!(serde_json::from_str::<Regrets>(&text).unwrap(), regrets);
        let of = |right: u32, less: u32, lost: &str| {
            let text = std::format!(
                r#"{{"chosen":[2,1],"right":[{right},0],"less":[{less},0],"lost":[{lost},0]}}"#
            );
            serde_json::from_str::<Regrets>(&text).is_ok()
        };
        assert!(of(2, 3, "0.5"));
        assert!(!of(3, 3, "0.5"));
        assert!(!of(2, 4, "0.5"));
        assert!(!of(2, 3, "-0.5"));
        assert!(!of(2, 3, "null"));

        assert!(serde_json::from_str::<Outcome>("[1,-0.5]").is_ok());
        for wrong in ["[2,0.5]", "[0,1e39]", "[0]"] {
            assert!(serde_json::from_str::<Outcome>(wrong).is_err(), "{wrong}");
        }
    }
}
