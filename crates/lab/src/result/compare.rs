//! Compares two schedulers, or two results of one scheduler: whether there is a difference, and how
//! large. Checks the papers' statements.

use mpquic_sim::workload::Better;
use serde::Serialize;

use crate::file::experiment::Claim;
use crate::plan::CellId;
use crate::result::statistics::{self, MIN_PAIRS, Paired, Verdict};
use crate::result::summary::{BOOTSTRAP_SEED, Board, Group};
use crate::run::metrics::MetricInfo;
use crate::view::text::significant;

/// Up to this difference in percent, two schedulers count as similar. This is our choice: a reader
/// of a bar chart sees no difference.
const SIMILAR_PERCENT: f64 = 10.0;

/// A comparison of two series of values with the same seeds: `a` against `b`.
#[derive(Debug, Clone, PartialEq)]
pub struct Comparison {
    /// The name of the first.
    pub a: String,
    /// The name of the second, the reference.
    pub b: String,
    /// The metric.
    pub metric: MetricInfo,
    /// The median of `a` over the pairs.
    pub median_a: f64,
    /// The median of `b` over the pairs.
    pub median_b: f64,
    /// The differences `a - b` in the metric's unit.
    pub paired: Paired,
}

/// The outcome of a comparison for the first of the two.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Finding {
    /// The first is better.
    Better,
    /// The first is worse.
    Worse,
    /// The first is lower; neither direction is better.
    Lower,
    /// The first is higher; neither direction is better.
    Higher,
    /// There is no significant difference.
    NoDifference,
    /// There are too few pairs.
    TooFew,
}

impl Comparison {
    /// Compares two schedulers in a group.
    pub fn of_schedulers(
        board: &Board<'_>,
        group: &Group<'_>,
        metric: &MetricInfo,
        a: &str,
        b: &str,
    ) -> Self {
        Self::of_cells(
            (board, &group.cell(a), a),
            (board, &group.cell(b), b),
            metric,
        )
    }

    /// Compares two cells. Each has its board and a name for sentences.
    pub fn of_cells(
        a: (&Board<'_>, &CellId, &str),
        b: (&Board<'_>, &CellId, &str),
        metric: &MetricInfo,
    ) -> Self {
        let reference = b.0.values(b.1, &metric.name);
        let pairs: Vec<_> =
            a.0.values(a.1, &metric.name)
                .into_iter()
                .filter_map(|(seed, value)| {
                    let at = reference.binary_search_by_key(&seed, |pair| pair.0).ok()?;
                    Some((value, reference[at].1))
                })
                .collect();
        let firsts: Vec<_> = pairs.iter().map(|pair| pair.0).collect();
        let seconds: Vec<_> = pairs.iter().map(|pair| pair.1).collect();
        Self {
            a: a.2.to_owned(),
            b: b.2.to_owned(),
            metric: metric.clone(),
            median_a: statistics::median(&firsts),
            median_b: statistics::median(&seconds),
            paired: Paired::new(&pairs, BOOTSTRAP_SEED),
        }
    }

    /// The outcome for `a`.
    pub const fn finding(&self) -> Finding {
        match (self.paired.verdict, self.metric.better) {
            (Verdict::TooFew, _) => Finding::TooFew,
            (Verdict::None, _) => Finding::NoDifference,
            (Verdict::Lower, None) => Finding::Lower,
            (Verdict::Higher, None) => Finding::Higher,
            (Verdict::Lower, Some(Better::Lower)) | (Verdict::Higher, Some(Better::Higher)) => {
                Finding::Better
            }
            (Verdict::Lower, Some(Better::Higher)) | (Verdict::Higher, Some(Better::Lower)) => {
                Finding::Worse
            }
        }
    }

    /// The difference and its interval in percent of the reference's median; `None` if that is 0.
    pub fn percent(&self) -> Option<[f64; 3]> {
        if self.median_b == 0.0 || !self.median_b.is_finite() {
            return None;
        }
        let [low, high] = self.paired.interval;
        Some([self.paired.difference, low, high].map(|value| 100.0 * value / self.median_b))
    }

    /// By how many percent `a` is better than the reference, in the metric's better direction.
    /// `None` if neither direction is better, or the reference is 0.
    pub fn gain(&self) -> Option<f64> {
        let [percent, ..] = self.percent()?;
        match self.metric.better? {
            Better::Lower => Some(-percent),
            Better::Higher => Some(percent),
        }
    }

    /// The difference and its interval in short form: `-17.2 % (-19.5 to -15)`.
    pub fn short(&self) -> String {
        let show = |value: f64| {
            let text = significant(value, 3);
            if value > 0.0 {
                format!("+{text}")
            } else {
                text
            }
        };
        match self.percent() {
            Some([percent, low, high]) => {
                format!("{} % ({} to {})", show(percent), show(low), show(high))
            }
            None => {
                let [low, high] = self.paired.interval;
                let unit = &self.metric.unit;
                let difference = show(self.paired.difference);
                format!("{difference} {unit} ({} to {})", show(low), show(high))
            }
        }
    }

    /// The outcome in a sentence.
    pub fn sentence(&self) -> String {
        let (a, b, metric) = (&self.a, &self.b, &self.metric.name);
        let pairs = self.paired.pairs;
        let words = match self.finding() {
            Finding::TooFew => {
                return format!(
                    "{a} and {b}: {pairs} paired seeds are too few to tell, at least {MIN_PAIRS} are needed"
                );
            }
            Finding::NoDifference => format!("{a} and {b}: no difference in {metric}"),
            Finding::Better => format!("{a} is better than {b} in {metric}"),
            Finding::Worse => format!("{a} is worse than {b} in {metric}"),
            Finding::Lower => format!("{a} has less {metric} than {b}"),
            Finding::Higher => format!("{a} has more {metric} than {b}"),
        };
        format!("{words}: {}, {pairs} paired seeds", self.short())
    }
}

/// Whether a paper's statement about two schedulers holds in one group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The statement holds.
    Holds,
    /// There is no significant difference.
    NoDifference,
    /// The opposite holds, or schedulers that should be similar differ.
    Reversed,
    /// There are too few pairs.
    TooFew,
}

impl Outcome {
    /// The outcome in a word or two.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Holds => "holds",
            Self::NoDifference => "no difference",
            Self::Reversed => "does not hold",
            Self::TooFew => "too few seeds",
        }
    }
}

/// A paper's statement and its check against the results.
#[derive(Debug, Clone, PartialEq)]
pub struct Checked<'a> {
    /// The statement.
    pub claim: &'a Claim,
    /// All pairs of schedulers in all groups that the statement is about.
    pub cases: Vec<Case>,
}

/// One pair in one group.
#[derive(Debug, Clone, PartialEq)]
pub struct Case {
    /// The group's title.
    pub group: String,
    /// The comparison.
    pub comparison: Comparison,
    /// Whether the statement holds in this case.
    pub outcome: Outcome,
}

impl Checked<'_> {
    /// The number of cases with this outcome.
    pub fn count(&self, outcome: Outcome) -> usize {
        self.cases
            .iter()
            .filter(|case| case.outcome == outcome)
            .count()
    }

    /// The gains of all cases in percent.
    pub fn gains(&self) -> Vec<f64> {
        self.cases
            .iter()
            .filter_map(|case| case.comparison.gain())
            .collect()
    }

    /// The outcome in a sentence.
    pub fn sentence(&self) -> String {
        let all = self.cases.len();
        let mut text = match &*self.cases {
            [] => return "there are no results to check it against".into(),
            [case] => format!("{}: {}", case.outcome.words(), case.comparison.sentence()),
            cases => {
                let outcomes = [
                    Outcome::Holds,
                    Outcome::NoDifference,
                    Outcome::Reversed,
                    Outcome::TooFew,
                ];
                let counts = outcomes
                    .into_iter()
                    .map(|outcome| (outcome, self.count(outcome)))
                    .filter(|count| count.1 > 0)
                    .map(|(outcome, count)| format!("{} in {count}", outcome.words()));
                let counts: Vec<_> = counts.collect();
                let median = statistics::median(&self.gains());
                format!(
                    "{} of {all} comparisons; median gain {} %",
                    counts.join(", "),
                    significant(median, 3),
                ) + if cases.len() > 12 { "" } else { " (see below)" }
            }
        };
        if let Some(percent) = self.claim.by_percent {
            text += &format!("; the paper says {} %", significant(percent, 3));
        }
        text
    }
}

/// Checks all statements of the experiment against the results.
pub fn check_claims<'a>(board: &Board<'a>) -> Vec<Checked<'a>> {
    let claims = board.heading.claims.iter();
    claims.map(|claim| check(board, claim)).collect()
}

fn check<'a>(board: &Board<'a>, claim: &'a Claim) -> Checked<'a> {
    let mut cases = Vec::new();
    for group in board.groups() {
        if !claim.cells.selects(&group) {
            continue;
        }
        let metrics = board.heading.metrics_of(group.workload);
        let metric = metrics
            .iter()
            .find(|metric| claim.metric.is_empty() || metric.name == claim.metric);
        let Some(metric) = metric else { continue };
        let there = board.schedulers(&group);
        let mut add = |a: &str, b: &str, similar: bool| {
            if !there.contains(&a) || !there.contains(&b) {
                return;
            }
            let comparison = Comparison::of_schedulers(board, &group, metric, a, b);
            let outcome = match (comparison.finding(), similar) {
                (Finding::TooFew, _) => Outcome::TooFew,
                (_, true) => match comparison.percent() {
                    Some([_, low, high]) if low > -SIMILAR_PERCENT && high < SIMILAR_PERCENT => {
                        Outcome::Holds
                    }
                    _ => Outcome::Reversed,
                },
                // If neither direction is better, the "better" scheduler is the one with the higher
                // value.
                (Finding::Better | Finding::Higher, false) => Outcome::Holds,
                (Finding::NoDifference, false) => Outcome::NoDifference,
                (Finding::Worse | Finding::Lower, false) => Outcome::Reversed,
            };
            cases.push(Case {
                group: group.title(board.heading),
                comparison,
                outcome,
            });
        };
        for a in &claim.better {
            for b in &claim.worse {
                add(a, b, false);
            }
        }
        for (at, a) in claim.similar.iter().enumerate() {
            for b in &claim.similar[..at] {
                add(a, b, true);
            }
        }
    }
    Checked { claim, cases }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn comparison(pairs: &[(f64, f64)], better: Option<Better>) -> Comparison {
        let firsts: Vec<_> = pairs.iter().map(|pair| pair.0).collect();
        let seconds: Vec<_> = pairs.iter().map(|pair| pair.1).collect();
        Comparison {
            a: "ecf".into(),
            b: "rr".into(),
            metric: MetricInfo {
                name: "completion".into(),
                unit: "s".into(),
                better,
            },
            median_a: statistics::median(&firsts),
            median_b: statistics::median(&seconds),
            paired: Paired::new(pairs, BOOTSTRAP_SEED),
        }
    }

    #[test]
    fn the_direction_of_the_metric_decides_which_is_better() {
        let lower = [(0.75, 1.0); 10];
        for (better, finding, gain) in [
            (Some(Better::Lower), Finding::Better, Some(25.0)),
            (Some(Better::Higher), Finding::Worse, Some(-25.0)),
            (None, Finding::Lower, None),
        ] {
            let compared = comparison(&lower, better);
            assert_eq!((compared.finding(), compared.gain()), (finding, gain));
        }
        let equal = comparison(&[(1.0, 1.0); 10], Some(Better::Lower));
        assert_eq!(equal.finding(), Finding::NoDifference);
        let few = comparison(&lower[..3], Some(Better::Lower));
        assert_eq!(few.finding(), Finding::TooFew);
        assert_eq!(
            comparison(&[], Some(Better::Lower)).finding(),
            Finding::TooFew
        );
    }

    #[test]
    fn sentences_say_difference_interval_and_pairs() {
        let better = Some(Better::Lower);
        assert_eq!(
            comparison(&[(0.75, 1.0); 10], better).sentence(),
            "ecf is better than rr in completion: -25 % (-25 to -25), 10 paired seeds"
        );
        assert_eq!(
            comparison(&[(1.0, 1.0); 10], better).sentence(),
            "ecf and rr: no difference in completion: 0 % (0 to 0), 10 paired seeds"
        );
        // There is no percentage of zero.
        assert_eq!(
            comparison(&[(0.5, 0.0); 10], better).sentence(),
            "ecf is worse than rr in completion: +0.5 s (+0.5 to +0.5), 10 paired seeds"
        );
        assert_eq!(
            comparison(&[(0.75, 1.0); 3], better).sentence(),
            "ecf and rr: 3 paired seeds are too few to tell, at least 6 are needed"
        );
        assert_eq!(
            comparison(&[(2.0, 1.0); 10], None).sentence(),
            "ecf has more completion than rr: +100 % (+100 to +100), 10 paired seeds"
        );
    }
}
