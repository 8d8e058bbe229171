//! What a scheduler says it has learned, for people and programs to read.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use crate::{PathId, PathIndex};

/// What a scheduler that learns has learned so far, as
/// [`Scheduler::learned`](crate::Scheduler::learned) reports it.
///
/// A report, not the state itself: it allocates, and nothing can be resumed from it. Figures that a
/// scheduler does not have stay `None`, and lists that it has no use for stay empty. Paths are told
/// by their slots.
///
/// ```
/// use mpquic_sched_core::{Learned, LearnedPair, PathIndex};
///
/// let slot = |slot| PathIndex::new(slot).unwrap();
/// let mut pair = LearnedPair::new(slot(0), slot(1));
/// (pair.decisions, pair.waits) = (40, 12);
/// (pair.alpha, pair.p_wt, pair.q_wt) = (Some(0.8), Some(0.9), Some(0.75));
///
/// let mut learned = Learned::new("mine");
/// learned.stage = Some("deployment".into());
/// learned.pairs.push(pair);
/// assert_eq!(
///     learned.to_string(),
///     "mine, deployment\n  \
///      path 0 before path 1: 40 decisions, 12 waits, alpha 0.8, p_wt 0.9, q_wt 0.75",
/// );
/// ```
#[derive(Debug, Clone, PartialEq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Learned {
    /// The scheduler's name, as the registry knows it.
    pub scheduler: Cow<'static, str>,
    /// What it does now, where it works in stages that all pairs share.
    pub stage: Option<Cow<'static, str>>,
    /// Per ordered pair of paths, for those who learn when to wait for a faster path.
    pub pairs: Vec<LearnedPair>,
    /// Per path, for those whose arms are the paths.
    pub arms: Vec<LearnedArm>,
    /// Per path, for those who learn how far ahead of the data in order it sends.
    pub gaps: Vec<LearnedGap>,
    /// The policy, for those who ask one that was trained before.
    pub policy: Option<LearnedPolicy>,
    /// How far learning is, for those whose policy learns within the connection.
    pub online: Option<LearnedOnline>,
    /// Rewards and contexts that were not numbers to learn from (infinite, not a number).
    pub refused: u64,
    /// Decisions whose reward was never settled: overflow, paths that ended, streams that were reset.
    pub dropped: u64,
    /// The IDs on the wire of the paths in the slots. Schedulers leave it to the transport.
    pub paths: BTreeMap<PathIndex, PathId>,
}

/// What was learned of waiting for `fast` rather than sending on `slow`.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct LearnedPair {
    /// The path that is waited for.
    pub fast: PathIndex,
    /// The path that could send.
    pub slow: PathIndex,
    /// What the scheduler does for this pair now.
    pub stage: Option<Cow<'static, str>>,
    /// How often it had to decide.
    pub decisions: u64,
    /// How many of these decisions were to wait.
    pub waits: u64,
    /// How many decisions' rewards are known, those of earlier connections included.
    pub settled: u64,
    /// How often it relearned because its reward had drifted.
    pub relearned: u64,
    /// Whether it began with what an earlier connection had learned.
    pub recalled: bool,
    /// The exploration coefficient of LinUCB (Peekaboo, section III-A).
    pub alpha: Option<f64>,
    /// The probability to keep a decision to transmit (Peekaboo, Algorithm 4).
    pub p_tx: Option<f64>,
    /// The probability to keep a decision to wait (Peekaboo, Algorithm 4).
    pub p_wt: Option<f64>,
    /// The share of decisions to transmit that were right, as far as can be told.
    pub q_tx: Option<f64>,
    /// The share of decisions to wait that were right, as far as can be told.
    pub q_wt: Option<f64>,
    /// The mean regret of waiting where transmitting was right, in units of the reward.
    pub e: Option<f64>,
    /// The mean regret of transmitting where waiting was right, in units of the reward.
    pub f: Option<f64>,
}

/// What was learned of a path that is an arm of a bandit.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct LearnedArm {
    /// The path.
    pub path: PathIndex,
    /// How often it was chosen.
    pub pulls: u64,
    /// The mean reward as it is estimated now, in the scheduler's units; `None` before the first.
    pub mean: Option<f64>,
    /// Whether it began with what an earlier connection had learned.
    pub recalled: bool,
}

/// What was learned of how far ahead a path sends.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct LearnedGap {
    /// The path.
    pub path: PathIndex,
    /// What it leaves out for faster paths now, packets.
    pub packets: f64,
    /// How many of its packets left something out.
    pub sent: u64,
    /// What these left out on average, packets; `None` before the first.
    pub mean: Option<f64>,
}

/// A policy that a scheduler asks, and how often its answers could be followed.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct LearnedPolicy {
    /// What runs it.
    pub engine: Cow<'static, str>,
    /// How many answers it gave or owed.
    pub decisions: u64,
    /// How many of these could not be followed, by reason.
    pub fallbacks: Fallbacks,
}

/// A policy that learns within the connection, and how far it is.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct LearnedOnline {
    /// What it has been given to learn from: decisions with what came of them.
    pub transitions: u64,
    /// What else came and was lost, for want of room.
    pub lost: u64,
    /// Steps of learning.
    pub steps: u64,
    /// The probability of a random action now.
    pub epsilon: f64,
    /// Random actions so far.
    pub explored: u64,
    /// Episodes that came to their end (chunks that have arrived).
    pub episodes: u64,
    /// How long these took in all as the scheduler sees it, milliseconds.
    pub episodes_ms: f64,
}

/// How often a policy's answer could not be followed, so that the scheduler did what
/// [`MinRtt`](crate::MinRtt) does instead.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Fallbacks {
    /// There was no answer: its engine failed, the state held something that is no finite number, there were too few or
    /// too many outputs, or a network found its own outputs not to be finite.
    pub unanswered: u64,
    /// An output was not a finite number.
    pub not_finite: u64,
    /// An output was out of its range.
    pub out_of_range: u64,
    /// It named a path that could not be used.
    pub unusable: u64,
}

impl LearnedPolicy {
    /// A policy run by `engine`, with these counts.
    pub const fn new(engine: Cow<'static, str>, decisions: u64, fallbacks: Fallbacks) -> Self {
        Self {
            engine,
            decisions,
            fallbacks,
        }
    }
}

impl LearnedOnline {
    /// So much learned in so many steps; all else 0.
    pub const fn new(transitions: u64, steps: u64) -> Self {
        Self {
            transitions,
            lost: 0,
            steps,
            epsilon: 0.0,
            explored: 0,
            episodes: 0,
            episodes_ms: 0.0,
        }
    }
}

impl Fallbacks {
    /// For whatever reason.
    pub const fn total(&self) -> u64 {
        self.unanswered + self.not_finite + self.out_of_range + self.unusable
    }
}

impl Learned {
    /// Nothing learned yet, by the scheduler of this name.
    pub fn new(scheduler: impl Into<Cow<'static, str>>) -> Self {
        Self {
            scheduler: scheduler.into(),
            ..Self::default()
        }
    }

    /// The same text as [`Display`](fmt::Display) gives, with names for the paths.
    ///
    /// ```
    /// use mpquic_sched_core::{Learned, LearnedArm, PathIndex};
    ///
    /// let mut learned = Learned::new("mine");
    /// learned.arms.push(LearnedArm::new(PathIndex::new(1).unwrap()));
    /// let text = learned.named(|path| ["wifi", "lte"][path.get()].to_owned());
    /// assert_eq!(text.to_string(), "mine\n  lte: chosen 0 times");
    /// ```
    pub fn named(&self, name: impl Fn(PathIndex) -> String) -> impl fmt::Display {
        Named {
            learned: self,
            name,
        }
    }
}

impl LearnedPair {
    /// Nothing learned yet of this pair.
    pub const fn new(fast: PathIndex, slow: PathIndex) -> Self {
        Self {
            fast,
            slow,
            stage: None,
            decisions: 0,
            waits: 0,
            settled: 0,
            relearned: 0,
            recalled: false,
            alpha: None,
            p_tx: None,
            p_wt: None,
            q_tx: None,
            q_wt: None,
            e: None,
            f: None,
        }
    }
}

impl LearnedArm {
    /// A path that was never chosen.
    pub const fn new(path: PathIndex) -> Self {
        Self {
            path,
            pulls: 0,
            mean: None,
            recalled: false,
        }
    }
}

impl LearnedGap {
    /// A path that leaves out so many packets, and has not sent any yet.
    pub const fn new(path: PathIndex, packets: f64) -> Self {
        Self {
            path,
            packets,
            sent: 0,
            mean: None,
        }
    }
}

/// A line for all, and one for each pair, each arm and each gap; paths by their slots.
impl fmt::Display for Learned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(f, &|path| format!("path {path}"))
    }
}

/// [`Learned::named`].
struct Named<'a, N> {
    learned: &'a Learned,
    name: N,
}

impl<N: Fn(PathIndex) -> String> fmt::Display for Named<'_, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.learned.write(f, &self.name)
    }
}

impl Learned {
    fn write(&self, f: &mut fmt::Formatter<'_>, name: &dyn Fn(PathIndex) -> String) -> fmt::Result {
        f.write_str(&self.scheduler)?;
        if let Some(stage) = &self.stage {
            write!(f, ", {stage}")?;
        }
        for (count, what) in [
            (self.refused, "rewards refused"),
            (self.dropped, "decisions dropped"),
        ] {
            if count > 0 {
                write!(f, ", {count} {what}")?;
            }
        }
        if let Some(policy) = &self.policy {
            write!(f, "\n  policy: {policy}")?;
        }
        if let Some(online) = &self.online {
            write!(f, "\n  learning: {online}")?;
        }
        for pair in &self.pairs {
            let (fast, slow) = (name(pair.fast), name(pair.slow));
            write!(f, "\n  {fast} before {slow}: {pair}")?;
        }
        for arm in &self.arms {
            write!(f, "\n  {}: {arm}", name(arm.path))?;
        }
        for gap in &self.gaps {
            write!(f, "\n  {}: {gap}", name(gap.path))?;
        }
        Ok(())
    }
}

/// Without the paths' names.
impl fmt::Display for LearnedPair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(stage) = &self.stage {
            write!(f, "{stage}, ")?;
        }
        write!(f, "{} decisions, {} waits", self.decisions, self.waits)?;
        if self.settled > 0 {
            write!(f, ", {} settled", self.settled)?;
        }
        for (name, value) in [
            ("alpha", self.alpha),
            ("p_tx", self.p_tx),
            ("p_wt", self.p_wt),
            ("q_tx", self.q_tx),
            ("q_wt", self.q_wt),
            ("e", self.e),
            ("f", self.f),
        ] {
            if let Some(value) = value {
                write!(f, ", {name} {}", Short(value))?;
            }
        }
        if self.relearned > 0 {
            write!(f, ", learned anew {} times", self.relearned)?;
        }
        f.write_str(recalled(self.recalled))
    }
}

impl fmt::Display for LearnedOnline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} steps, {} transitions from {} episodes, epsilon {}, {} random actions",
            self.steps,
            self.transitions,
            self.episodes,
            Short(self.epsilon),
            self.explored,
        )?;
        if self.lost > 0 {
            write!(f, ", {} transitions lost", self.lost)?;
        }
        Ok(())
    }
}

impl fmt::Display for LearnedPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {} decisions", self.engine, self.decisions)?;
        let fallbacks = &self.fallbacks;
        for (count, why) in [
            (fallbacks.unanswered, "not answered"),
            (fallbacks.not_finite, "not finite"),
            (fallbacks.out_of_range, "out of range"),
            (fallbacks.unusable, "for a path that could not be used"),
        ] {
            if count > 0 {
                write!(f, ", {count} {why}")?;
            }
        }
        Ok(())
    }
}

/// Without the path's name.
impl fmt::Display for LearnedArm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "chosen {} times", self.pulls)?;
        if let Some(mean) = self.mean {
            write!(f, ", mean {}", Short(mean))?;
        }
        f.write_str(recalled(self.recalled))
    }
}

/// Without the path's name.
impl fmt::Display for LearnedGap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "gap of {} packets", Short(self.packets))?;
        if let Some(mean) = self.mean {
            write!(f, ", {} on average over {} packets", Short(mean), self.sent)?;
        }
        Ok(())
    }
}

const fn recalled(recalled: bool) -> &'static str {
    if recalled { ", from memory" } else { "" }
}

/// A figure with three decimals at most, or none if it is large.
struct Short(f64);

impl fmt::Display for Short {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.abs() >= 1000.0 || !self.0.is_finite() {
            return write!(f, "{:.0}", self.0);
        }
        let text = format!("{:.3}", self.0);
        let text = text.trim_end_matches('0').trim_end_matches('.');
        f.write_str(if text == "-0" { "0" } else { text })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_short() {
        for (value, expected) in [
            (0.0, "0"),
            (-0.0001, "0"),
            (0.8, "0.8"),
            (0.123_456, "0.123"),
            (100.0, "100"),
            (52_428.8, "52429"),
            (f64::NAN, "NaN"),
            (f64::INFINITY, "inf"),
        ] {
            assert_eq!(Short(value).to_string(), expected);
        }
    }

    #[test]
    fn what_there_is_not_is_not_told() {
        let slot = |slot| PathIndex::new(slot).unwrap();
        let mut learned = Learned::new("ucb");
        assert_eq!(learned.to_string(), "ucb");
        learned.arms.push(LearnedArm::new(slot(0)));
        learned.arms.push(LearnedArm {
            pulls: 3,
            mean: Some(52_428.8),
            recalled: true,
            ..LearnedArm::new(slot(2))
        });
        learned.dropped = 1;
        assert_eq!(
            learned.to_string(),
            "ucb, 1 decisions dropped\n  path 0: chosen 0 times\n  \
             path 2: chosen 3 times, mean 52429, from memory"
        );
    }

    #[test]
    fn a_gap_has_a_mean_once_something_was_sent() {
        let slot = |slot| PathIndex::new(slot).unwrap();
        let mut learned = Learned::new("gaps");
        learned.gaps.push(LearnedGap::new(slot(1), 10.0));
        learned.gaps.push(LearnedGap {
            sent: 40,
            mean: Some(12.25),
            ..LearnedGap::new(slot(2), 16.0)
        });
        assert_eq!(
            learned.to_string(),
            "gaps\n  path 1: gap of 10 packets\n  \
             path 2: gap of 16 packets, 12.25 on average over 40 packets"
        );
    }

    #[cfg(feature = "serde")]
    #[test]
    fn json_has_null_for_what_is_not_known_and_for_what_is_no_number() {
        let slot = |slot| PathIndex::new(slot).unwrap();
        let mut pair = LearnedPair::new(slot(1), slot(0));
        pair.alpha = Some(f64::NAN);
        let json = serde_json::to_value(&pair).unwrap();
        assert_eq!((&json["fast"], &json["slow"]), (&1.into(), &0.into()));
        assert!(json["alpha"].is_null() && json["p_tx"].is_null());
        assert_eq!(json["recalled"], false);
    }
}
