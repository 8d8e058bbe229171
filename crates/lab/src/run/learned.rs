//! What a run's scheduler has learned, as metrics.

use mpquic_sched::{Learned, LearnedArm, LearnedGap, LearnedPair};

use crate::run::metrics::MetricInfo;

/// The metrics of learning schedulers, and their units. Those of pairs are for the pair with the
/// most decisions: with two paths, only one pair matters. Neither direction is better.
const FIGURES: &[(&str, &str)] = &[
    ("training_runs", ""),
    // Of the pair.
    ("learned_decisions", ""),
    ("learned_waits", ""),
    ("learned_settled", ""),
    ("learned_relearned", ""),
    ("learned_recalled", ""),
    ("learned_deployed", ""),
    ("learned_alpha", ""),
    ("learned_p_tx", ""),
    ("learned_p_wt", ""),
    ("learned_q_tx", ""),
    ("learned_q_wt", ""),
    ("learned_e", ""),
    ("learned_f", ""),
    // Of all slower paths, as the mean over their packets.
    ("learned_gap", "packets"),
    // Of the scheduler.
    ("learned_pulls", ""),
    // Of a bandit over paths, in shares of the best path's mean reward.
    ("learned_regret", "%"),
    ("learned_refused", ""),
    ("learned_dropped", ""),
    // Of schedulers that ask a policy.
    ("policy_decisions", ""),
    ("policy_fallbacks", ""),
    // Of schedulers whose policy learns within the connection.
    ("learned_transitions", ""),
    ("learned_steps", ""),
    ("learned_epsilon", ""),
    ("learned_explored", ""),
    // The mean time of an episode as the sender estimates it.
    ("learned_episode_time", "s"),
];

/// All metrics of learning schedulers.
pub(crate) fn all() -> impl Iterator<Item = MetricInfo> {
    let all = FIGURES.iter();
    all.map(|&(name, unit)| MetricInfo::new(name, unit, None))
}

/// The metrics from a scheduler's report after this many training runs.
pub(crate) fn figures(learned: &Learned, training_runs: u32) -> Vec<(String, f64)> {
    let mut figures = vec![
        ("training_runs", f64::from(training_runs)),
        ("learned_refused", learned.refused as f64),
        ("learned_dropped", learned.dropped as f64),
    ];
    if !learned.arms.is_empty() {
        let pulls: u64 = learned.arms.iter().map(|arm| arm.pulls).sum();
        figures.push(("learned_pulls", pulls as f64));
        figures.extend(regret(&learned.arms).map(|regret| ("learned_regret", regret)));
    }
    if let Some(policy) = &learned.policy {
        figures.push(("policy_decisions", policy.decisions as f64));
        figures.push(("policy_fallbacks", policy.fallbacks.total() as f64));
    }
    if let Some(online) = &learned.online {
        figures.extend([
            ("learned_transitions", online.transitions as f64),
            ("learned_steps", online.steps as f64),
            ("learned_epsilon", online.epsilon),
            ("learned_explored", online.explored as f64),
        ]);
        if online.episodes > 0 {
            let mean = online.episodes_ms / online.episodes as f64;
            figures.push(("learned_episode_time", mean / 1e3));
        }
    }
    let sent: u64 = learned.gaps.iter().map(|gap| gap.sent).sum();
    if sent > 0 {
        let left_out = |gap: &LearnedGap| gap.mean.unwrap_or(0.0) * gap.sent as f64;
        let sum: f64 = learned.gaps.iter().map(left_out).sum();
        figures.push(("learned_gap", sum / sent as f64));
    }
    // The first of several pairs with the same number.
    let most = learned.pairs.iter().rev();
    if let Some(pair) = most.max_by_key(|pair| pair.decisions) {
        let stage = pair.stage.as_ref().or(learned.stage.as_ref());
        figures.extend(of_pair(pair));
        figures.extend(stage.map(|stage| {
            let deployed = stage.starts_with("deploy");
            ("learned_deployed", f64::from(u8::from(deployed)))
        }));
    }
    let figures = figures.into_iter();
    figures
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
}

/// What the choices of a bandit cost: n μ* - Σ μ_i T_i (Shu and Chang, equation 4), with μ_i the mean rewards as the bandit
/// has them at the end, μ* the largest of them, T_i how often each path was chosen and n all choices; in percent of n μ*, so
/// that it can be compared between networks.
fn regret(arms: &[LearnedArm]) -> Option<f64> {
    let known = || {
        arms.iter()
            .filter_map(|arm| Some((arm.pulls as f64, arm.mean?)))
    };
    let best = known().map(|(_, mean)| mean).reduce(f64::max)?;
    let (most, earned) = known().fold((0.0, 0.0), |(most, earned), (pulls, mean)| {
        (most + pulls * best, earned + pulls * mean)
    });
    (most > 0.0).then(|| 100.0 * (most - earned) / most)
}

fn of_pair(pair: &LearnedPair) -> impl Iterator<Item = (&'static str, f64)> {
    [
        ("learned_decisions", Some(pair.decisions as f64)),
        ("learned_waits", Some(pair.waits as f64)),
        ("learned_settled", Some(pair.settled as f64)),
        ("learned_relearned", Some(pair.relearned as f64)),
        ("learned_recalled", Some(f64::from(u8::from(pair.recalled)))),
        ("learned_alpha", pair.alpha),
        ("learned_p_tx", pair.p_tx),
        ("learned_p_wt", pair.p_wt),
        ("learned_q_tx", pair.q_tx),
        ("learned_q_wt", pair.q_wt),
        ("learned_e", pair.e),
        ("learned_f", pair.f),
    ]
    .into_iter()
    .filter_map(|(name, value)| Some((name, value?)))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use mpquic_sched::{LearnedOnline, PathIndex};

    use super::*;

    #[test]
    fn the_regret_is_what_the_best_path_would_have_earned_more() {
        let arm = |path, pulls, mean| {
            let mut arm = LearnedArm::new(PathIndex::new(path).unwrap());
            (arm.pulls, arm.mean) = (pulls, mean);
            arm
        };
        // 30 times 10 less, of 40 times 50.
        let arms = [
            arm(0, 10, Some(50.0)),
            arm(1, 30, Some(40.0)),
            arm(2, 0, None),
        ];
        assert_eq!(regret(&arms), Some(15.0));
        assert_eq!(regret(&arms[..1]), Some(0.0));
        assert_eq!(regret(&arms[2..]), None);
        assert_eq!(regret(&[arm(0, 0, Some(9.0))]), None);
        let mut learned = Learned::new("ucb");
        learned.arms = arms.to_vec();
        assert!(figures(&learned, 0).contains(&("learned_regret".into(), 15.0)));
    }

    #[test]
    fn figures_are_those_of_the_pair_with_the_most_decisions() {
        let slot = |slot| PathIndex::new(slot).unwrap();
        let mut learned = Learned::new("mine");
        learned.stage = Some("deployment".into());
        learned.dropped = 4;
        for (decisions, p_tx) in [(3, Some(0.1)), (9, Some(0.7)), (9, Some(0.2)), (0, None)] {
            let mut pair = LearnedPair::new(slot(0), slot(1));
            (pair.decisions, pair.p_tx) = (decisions, p_tx);
            learned.pairs.push(pair);
        }
        let slots = [(0, 0, None), (1, 30, Some(10.0)), (2, 10, Some(50.0))];
        for (path, sent, mean) in slots {
            let mut gap = LearnedGap::new(slot(path), 7.0);
            (gap.sent, gap.mean) = (sent, mean);
            learned.gaps.push(gap);
        }
        let mut online = LearnedOnline::new(1300, 9000);
        (online.episodes, online.episodes_ms) = (300, 90_000.0);
        learned.online = Some(online);
        let figures: BTreeMap<_, _> = figures(&learned, 2).into_iter().collect();
        for (name, value) in [
            ("training_runs", Some(2.0)),
            ("learned_decisions", Some(9.0)),
            ("learned_p_tx", Some(0.7)),
            ("learned_p_wt", None),
            ("learned_deployed", Some(1.0)),
            ("learned_dropped", Some(4.0)),
            ("learned_pulls", None),
            ("learned_gap", Some(20.0)),
            ("learned_transitions", Some(1300.0)),
            ("learned_episode_time", Some(0.3)),
        ] {
            assert_eq!(figures.get(name).copied(), value, "{name}");
        }
        let known: Vec<_> = all().map(|metric| metric.name).collect();
        assert!(figures.keys().all(|name| known.contains(name)));
    }
}
