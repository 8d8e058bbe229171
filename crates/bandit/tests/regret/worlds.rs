//! Worlds to play in, and the measuring of regret; no policy of its own but the two that learn
//! nothing.

use std::collections::VecDeque;

use mpquic_bandit::{ArmSet, DiscountedUcb, Draw, SlidingWindowUcb, Ucb1};

/// The arms of every world.
pub(crate) const K: usize = 4;

/// How rewards scatter about their means.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Noise {
    /// 0 or 1, the mean being the probability of 1.
    Bernoulli,
    /// With this standard deviation.
    Gaussian(f64),
}

/// Means that stay, or two of them by turns.
#[derive(Debug, Clone)]
pub(crate) struct World {
    pub(crate) means: [f64; K],
    pub(crate) noise: Noise,
    /// Other means, which take turns with these after so many choices.
    pub(crate) other: Option<([f64; K], u64)>,
    /// So many choices later comes the reward.
    pub(crate) delay: usize,
}

impl World {
    pub(crate) const fn new(means: [f64; K], noise: Noise) -> Self {
        Self {
            means,
            noise,
            other: None,
            delay: 0,
        }
    }

    const fn means(&self, t: u64) -> &[f64; K] {
        match &self.other {
            Some((other, turn)) if t / *turn % 2 == 1 => other,
            _ => &self.means,
        }
    }

    /// Sum over the arms but the best of `of` the gap.
    pub(crate) fn over_gaps(&self, of: impl Fn(f64) -> f64) -> f64 {
        let gaps = self.means.iter().map(|mean| best(&self.means) - mean);
        gaps.filter(|gap| *gap > 0.0).map(of).sum()
    }
}

fn best(means: &[f64; K]) -> f64 {
    means.iter().copied().fold(f64::MIN, f64::max)
}

/// Whoever chooses.
pub(crate) trait Policy {
    fn select(&mut self) -> usize;
    /// The reward of the choice is to come.
    fn chosen(&mut self, _arm: usize) {}
    fn update(&mut self, arm: usize, reward: f64);
}

macro_rules! policy {
    ($name:ident<$($n:tt),*>) => {
        impl Policy for $name<$($n),*> {
            fn select(&mut self) -> usize {
                $name::select(self, ArmSet::first_of(K)).unwrap()
            }
            fn chosen(&mut self, arm: usize) {
                $name::chosen(self, arm).unwrap();
            }
            fn update(&mut self, arm: usize, reward: f64) {
                $name::update(self, arm, reward).unwrap();
            }
        }
    };
}

policy!(Ucb1<K>);
policy!(DiscountedUcb<K>);
policy!(SlidingWindowUcb<K, 4096>);

/// Learns nothing.
pub(crate) struct Uniform(pub(crate) Draw);

impl Policy for Uniform {
    fn select(&mut self) -> usize {
        (self.0.unit() * K as f64) as usize
    }
    fn update(&mut self, _arm: usize, _reward: f64) {}
}

fn reward(mean: f64, noise: Noise, draw: &mut Draw) -> f64 {
    match noise {
        Noise::Bernoulli => f64::from(u8::from(draw.chance(mean))),
        Noise::Gaussian(deviation) => {
            // Box and Muller.
            let radius = (-2.0 * (1.0 - draw.unit()).ln()).sqrt();
            mean + deviation * radius * (std::f64::consts::TAU * draw.unit()).cos()
        }
    }
}

/// The regret after so many choices each, against whoever knows the means.
pub(crate) fn play(world: &World, policy: &mut impl Policy, after: &[u64], seed: u64) -> Vec<f64> {
    let mut draw = Draw::new(seed);
    let (mut regret, mut regrets) = (0.0, Vec::new());
    let mut coming = VecDeque::new();
    for t in 0..after.last().copied().unwrap_or(0) {
        let arm = policy.select();
        let means = world.means(t);
        regret += best(means) - means[arm];
        let reward = reward(means[arm], world.noise, &mut draw);
        if world.delay == 0 {
            policy.update(arm, reward);
        } else {
            policy.chosen(arm);
            coming.push_back((arm, reward));
            if coming.len() > world.delay
                && let Some((arm, reward)) = coming.pop_front()
            {
                policy.update(arm, reward);
            }
        }
        if after.contains(&(t + 1)) {
            regrets.push(regret);
        }
    }
    regrets
}

/// The mean of [`play`] over seeds 1 to `seeds`, each with a policy of its own.
pub(crate) fn mean_regret<P: Policy>(
    world: &World,
    policy: impl Fn(u64) -> P,
    after: &[u64],
    seeds: u64,
) -> Vec<f64> {
    let mut sums = vec![0.0; after.len()];
    for seed in 1..=seeds {
        let regrets = play(world, &mut policy(seed), after, seed);
        for (sum, regret) in sums.iter_mut().zip(regrets) {
            *sum += regret / seeds as f64;
        }
    }
    sums
}
