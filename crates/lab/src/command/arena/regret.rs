//! The regret to the best scheduler in hindsight, without the winner's curse; and what several seeds say about it.
//!
//! The best of many noisy schedulers looks better than it is: the smallest of twenty averages lies
//! below every true mean, even if all schedulers are equal. A regret to it would be too large for all.
//! Therefore the best is chosen on one half of the seeds and measured on the other half
//! (cross-fitting). This is done for every way to halve the seeds, and averaged.
//!
//! On the half where it is measured, the chosen one has no reason to be lucky. It may however not be the
//! truly best one, so this regret errs to the other side: it is too small by as much as the chosen one
//! is worse than the best. [`naive`] is the regret with the curse. The truth is between the two.

use crate::networks::sampling::Draws;
use crate::result::statistics::{mean, mean_interval};

/// Up to this many seeds, all ways to halve them are used: at most 924.
const ALL_HALVES: usize = 12;
/// With more seeds, this many random halves.
const RANDOM_HALVES: usize = 500;
/// The seed of everything random here. Any number would do.
const SEED: u64 = 1;

/// Quantiles 0.975 of Student's t distribution with 1 to 30 degrees of freedom.
const T: [f64; 30] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
    2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056,
    2.052, 2.048, 2.045, 2.042,
];

/// A mean over seeds, and its 95 % interval by Student's t distribution. All numbers are logarithms
/// of ratios.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Estimate {
    pub(super) mean: f64,
    pub(super) low: f64,
    pub(super) high: f64,
}

impl Estimate {
    /// Of one value, nothing is known about the noise: its interval is everything.
    pub(super) fn new(values: &[f64]) -> Self {
        let n = values.len();
        let average = mean(values);
        if n < 2 {
            return Self {
                mean: average,
                low: f64::NEG_INFINITY,
                high: f64::INFINITY,
            };
        }
        let squares: f64 = values.iter().map(|value| (value - average).powi(2)).sum();
        let deviation = (squares / (n - 1) as f64).sqrt();
        let t = T.get(n - 2).copied().unwrap_or(1.96);
        let half = t * deviation / (n as f64).sqrt();
        Self {
            mean: average,
            low: average - half,
            high: average + half,
        }
    }

    /// Whether the value is at most `limit`, beyond its noise.
    pub(super) fn at_most(&self, limit: f64) -> Verdict {
        if self.high <= limit {
            Verdict::Within
        } else if self.low > limit {
            Verdict::Behind
        } else {
            Verdict::CannotTell
        }
    }
}

/// Whether a regret is within a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The whole interval is.
    Within,
    /// The whole interval is not.
    Behind,
    /// The interval contains the limit.
    CannotTell,
}

/// The halves of seeds on which the best is chosen: for each one, whether a seed belongs to it.
fn halves(seeds: usize) -> Vec<Vec<bool>> {
    let half = seeds / 2;
    if half == 0 {
        return Vec::new();
    }
    if seeds <= ALL_HALVES {
        let all = 0..1_u32 << seeds;
        return all
            .filter(|set| set.count_ones() as usize == half)
            .map(|set| (0..seeds).map(|seed| set >> seed & 1 == 1).collect())
            .collect();
    }
    let mut draws = Draws::new(SEED);
    let mut order: Vec<_> = (0..seeds).collect();
    let mut one = || {
        for at in 0..half {
            order.swap(at, at + draws.below(seeds - at));
        }
        let mut chosen = vec![false; seeds];
        for &seed in &order[..half] {
            chosen[seed] = true;
        }
        chosen
    };
    (0..RANDOM_HALVES).map(|_| one()).collect()
}

/// The regret of each scheduler on each seed to the best of the candidates in hindsight.
///
/// `costs[scheduler][seed]` are logarithms of times, all with the same number of seeds. With a single
/// seed there is no other half, and the result is that of [`naive`].
pub(super) fn cross_fitted(costs: &[Vec<f64>], candidates: &[usize]) -> Vec<Vec<f64>> {
    let seeds = costs.first().map_or(0, Vec::len);
    let halves = halves(seeds);
    let mut best = vec![(0.0, 0_u32); seeds];
    for half in &halves {
        let total = |scheduler: usize| -> f64 {
            let seeds = costs[scheduler].iter().zip(half);
            seeds.filter(|(_, on)| **on).map(|(cost, _)| cost).sum()
        };
        let Some(chosen) = lowest(candidates, total) else {
            continue;
        };
        for (seed, _) in half.iter().enumerate().filter(|(_, on)| !**on) {
            best[seed].0 += costs[chosen][seed];
            best[seed].1 += 1;
        }
    }
    if halves.is_empty() {
        let least = candidates.iter().filter_map(|&at| costs[at].first());
        let least = least.copied().fold(f64::INFINITY, f64::min);
        best.fill((least, 1));
    }
    let regret = |costs: &Vec<f64>| {
        let seeds = costs.iter().zip(&best);
        seeds
            .map(|(cost, (sum, count))| cost - sum / f64::from(*count))
            .collect()
    };
    costs.iter().map(regret).collect()
}

/// The regret of each scheduler to the candidate with the smallest mean over all seeds.
pub(super) fn naive(costs: &[Vec<f64>], candidates: &[usize]) -> Vec<f64> {
    let least = lowest(candidates, |at| mean(&costs[at])).map_or(0.0, |at| mean(&costs[at]));
    costs.iter().map(|costs| mean(costs) - least).collect()
}

/// The candidate of the lowest value; of equal ones, the first.
pub(super) fn lowest(candidates: &[usize], value: impl Fn(usize) -> f64) -> Option<usize> {
    let all = candidates.iter().copied();
    all.min_by(|a, b| value(*a).total_cmp(&value(*b)))
}

/// A geometric mean of ratios over scenarios.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Ratio {
    /// The ratio.
    pub(super) ratio: f64,
    /// Its 95 % bootstrap interval over scenarios.
    pub(super) interval: [f64; 2],
    /// How likely such a difference from 1 is if there is none: a paired t test on the logarithms.
    pub(super) p: f64,
    /// The number of scenarios.
    pub(super) scenarios: usize,
}

impl Ratio {
    /// The mean of these logarithms of ratios, one per independent scenario; `None` without any.
    pub(super) fn new(logs: &[f64]) -> Option<Self> {
        if logs.is_empty() {
            return None;
        }
        Some(Self {
            ratio: mean(logs).exp(),
            interval: mean_interval(logs, SEED).map(f64::exp),
            p: p_value(logs),
            scenarios: logs.len(),
        })
    }
}

/// The two-sided probability of a mean this far from 0 in a paired t test.
fn p_value(values: &[f64]) -> f64 {
    let n = values.len() as f64;
    let average = mean(values);
    let squares: f64 = values.iter().map(|value| (value - average).powi(2)).sum();
    if values.len() < 2 {
        return 1.0;
    }
    let error = (squares / (n - 1.0) / n).sqrt();
    if error == 0.0 {
        return if average == 0.0 { 1.0 } else { 0.0 };
    }
    let (t, df) = ((average / error).abs(), n - 1.0);
    // The normal quantile that belongs to t (Wallace 1959, Annals of Mathematical Statistics 30).
    let z = (8.0 * df + 1.0) / (8.0 * df + 3.0) * (df * (1.0 + t * t / df).ln()).sqrt();
    2.0 * upper_tail(z)
}

/// The probability that a normal variable is above z >= 0: Abramowitz and Stegun 26.2.17, with an
/// error below 7.5e-8.
fn upper_tail(z: f64) -> f64 {
    let t = 1.0 / (1.0 + 0.231_641_9 * z);
    let factors = [
        0.319_381_530,
        -0.356_563_782,
        1.781_477_937,
        -1.821_255_978,
        1.330_274_429,
    ];
    let sum = factors.iter().rev().fold(0.0, |sum, f| (sum + f) * t);
    (sum * (-z * z / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt()).clamp(0.0, 0.5)
}

/// Which of several tests hold at 5 % together (Holm 1979).
pub(super) fn holm(p: &[f64]) -> Vec<bool> {
    let mut order: Vec<_> = (0..p.len()).collect();
    order.sort_by(|a, b| p[*a].total_cmp(&p[*b]));
    let mut holds = vec![false; p.len()];
    for (rank, &at) in order.iter().enumerate() {
        if p[at] > 0.05 / (p.len() - rank) as f64 {
            break;
        }
        holds[at] = true;
    }
    holds
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A normal number of deviation 1, by the sum of twelve even ones.
    fn normal(draws: &mut Draws) -> f64 {
        (0..12).map(|_| draws.unit()).sum::<f64>() - 6.0
    }

    /// Made-up logarithms of times: schedulers with known means, over noisy seeds that all share.
    fn made_up(means: &[f64], noise: f64, seeds: usize, draws: &mut Draws) -> Vec<Vec<f64>> {
        let shared: Vec<_> = (0..seeds).map(|_| normal(draws)).collect();
        means
            .iter()
            .map(|mean| {
                let seeds = shared.iter();
                seeds
                    .map(|seed| mean + seed + noise * normal(draws))
                    .collect()
            })
            .collect()
    }

    #[test]
    fn equal_schedulers_have_no_regret_although_the_luckiest_one_is_far_below() {
        let mut draws = Draws::new(7);
        let all: Vec<_> = (0..20).collect();
        let (mut fitted, mut cursed) = (Vec::new(), Vec::new());
        for _ in 0..200 {
            let costs = made_up(&[0.0; 20], 0.05, 6, &mut draws);
            fitted.extend(cross_fitted(&costs, &all).into_iter().flatten());
            cursed.extend(naive(&costs, &all));
        }
        // 24 000 values of deviation 0.05, which 200 networks make dependent: 0.05 / sqrt(1200).
        assert!(mean(&fitted).abs() < 0.005, "{}", mean(&fitted));
        // The expected smallest of 20 normal numbers is 1.87 below the mean: 0.05 / sqrt(6) * 1.87.
        assert!((0.033..0.043).contains(&mean(&cursed)), "{}", mean(&cursed));
    }

    #[test]
    fn a_true_regret_is_found_between_the_two_estimates() {
        let mut draws = Draws::new(8);
        let all: Vec<_> = (0..8).collect();
        let mut means = [0.08; 8];
        means[3] = 0.0;
        let (mut fitted, mut cursed, mut best) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..300 {
            let costs = made_up(&means, 0.05, 6, &mut draws);
            let regrets = cross_fitted(&costs, &all);
            fitted.push(mean(&regrets[0]));
            best.push(mean(&regrets[3]));
            cursed.push(naive(&costs, &all)[0]);
        }
        let (fitted, cursed, best) = (mean(&fitted), mean(&cursed), mean(&best));
        // 0.08, with a standard error of 0.0017.
        assert!((0.06..0.08).contains(&fitted), "{fitted}");
        assert!((0.076..0.09).contains(&cursed), "{cursed}");
        assert!(fitted < cursed);
        // The truly best one is measured against itself, and against others where they were chosen.
        assert!((-0.015..0.003).contains(&best), "{best}");
    }

    #[test]
    fn verdicts_err_as_seldom_as_they_say() {
        let mut draws = Draws::new(9);
        let all: Vec<_> = (0..5).collect();
        let (mut wrong, mut right, mut found) = (0, 0, 0);
        for _ in 0..400 {
            // All are equal: nobody is behind.
            let costs = made_up(&[0.0; 5], 0.03, 6, &mut draws);
            let regrets = cross_fitted(&costs, &all);
            let verdict = Estimate::new(&regrets[0]).at_most(0.02);
            wrong += usize::from(verdict == Verdict::Behind);
            right += usize::from(verdict == Verdict::Within);
            // One is 20 % behind, which is far more than the noise.
            let costs = made_up(&[0.2, 0.0, 0.0, 0.0, 0.0], 0.03, 6, &mut draws);
            let regrets = cross_fitted(&costs, &all);
            let verdict = Estimate::new(&regrets[0]).at_most(0.02);
            found += usize::from(verdict == Verdict::Behind);
        }
        assert!(wrong <= 12, "{wrong}");
        assert!(found >= 396, "{found}");
        // With this noise, six seeds seldom prove that a regret is below 2 %.
        assert!(right < 200, "{right}");
    }

    #[test]
    fn without_noise_there_is_nothing_to_correct() {
        let costs = vec![vec![1.0; 6], vec![1.1; 6], vec![1.3; 6]];
        let all = [0, 1, 2];
        let regrets = cross_fitted(&costs, &all);
        for (regrets, expected) in regrets.iter().zip([0.0, 0.1, 0.3]) {
            let estimate = Estimate::new(regrets);
            assert!((estimate.mean - expected).abs() < 1e-12);
            assert!(estimate.high - estimate.low < 1e-9);
        }
        // The best of others only.
        let others = cross_fitted(&costs, &[1, 2]);
        assert!((mean(&others[0]) + 0.1).abs() < 1e-12);
        let single = cross_fitted(&[vec![1.0], vec![1.5]], &[0, 1]);
        assert_eq!(single, [[0.0], [0.5]]);
        assert_eq!(Estimate::new(&single[1]).at_most(0.02), Verdict::CannotTell);
    }

    #[test]
    fn many_seeds_are_halved_at_random() {
        for seeds in [2, 5, 6, 12, 13, 40] {
            let halves = halves(seeds);
            assert!(!halves.is_empty());
            for half in &halves {
                assert_eq!(half.iter().filter(|on| **on).count(), seeds / 2);
            }
            // Each seed is measured at some time.
            assert!((0..seeds).all(|seed| halves.iter().any(|half| !half[seed])));
        }
        assert_eq!(halves(6).len(), 20);
    }

    #[test]
    fn p_values_are_those_of_tables() {
        // t = 2.571 with 5 degrees of freedom, 1.984 with 99.
        for (t, n) in [(2.571, 6_u32), (1.984, 100)] {
            let n_f = f64::from(n);
            // Two values a and b in equal numbers: mean m, deviation d * sqrt(n / (n - 1)).
            let d = 1.0;
            let m = t * d * (n_f / (n_f - 1.0)).sqrt() / n_f.sqrt();
            let values: Vec<_> = (0..n)
                .map(|i| m + if i % 2 == 0 { d } else { -d })
                .collect();
            let p = p_value(&values);
            assert!((0.047..0.053).contains(&p), "{t}: {p}");
        }
        assert_eq!(p_value(&[0.0, 0.0]), 1.0);
        assert_eq!(p_value(&[1.0, 1.0]), 0.0);
        assert!((upper_tail(1.959_964) - 0.025).abs() < 1e-6);
    }

    #[test]
    fn holm_corrects_for_the_number_of_tests() {
        // 0.05 / 4, 0.05 / 3, 0.05 / 2, 0.05 in turn.
        assert_eq!(holm(&[0.04, 0.01, 0.03, 0.016]), [false, true, false, true]);
        assert_eq!(holm(&[0.01, 0.02, 0.04]), [true; 3]);
        assert_eq!(holm(&[0.02; 3]), [false; 3]);
        assert_eq!(holm(&[]), Vec::<bool>::new());
    }

    #[test]
    fn ratios_are_geometric_means() {
        let ratio = Ratio::new(&[2.0_f64.ln(), 0.5_f64.ln()]).unwrap();
        assert!((ratio.ratio - 1.0).abs() < 1e-12);
        assert!(ratio.interval[0] <= 0.5 + 1e-9 && ratio.interval[1] >= 2.0 - 1e-9);
        assert_eq!(Ratio::new(&[]), None);
    }
}
