//! A world that is linear in its context, the policies that live in it, and what they miss.

use mpquic_bandit::{
    DiscountedLinUcb, DiscountedLinUcbConfig, Draw, LinThompson, LinUcb, LinUcbConfig,
};

pub(crate) const K: usize = 3;
pub(crate) const SEEDS: u64 = 100;
/// Half the width of the noise, uniform around 0: of the size of what the arms differ by.
const NOISE: f64 = 1.0;

/// Uniform with mean 0 and variance 1.
fn feature(draw: &mut Draw) -> f64 {
    (draw.unit() - 0.5) * 12_f64.sqrt()
}

/// Rewards are θ·x + noise with |θ| = 1 and features of variance 1, so that what an arm brings has
/// variance 1 whatever the number of features.
pub(crate) struct World<const D: usize> {
    theta: [[f64; D]; K],
    draw: Draw,
}

impl<const D: usize> World<D> {
    pub(crate) fn new(seed: u64) -> Self {
        let mut world = Self {
            theta: [[0.0; D]; K],
            draw: Draw::new(seed),
        };
        world.turn();
        world
    }

    /// Other weights from here on.
    pub(crate) fn turn(&mut self) {
        for theta in &mut self.theta {
            *theta = [(); D].map(|()| feature(&mut self.draw));
            let norm = theta.iter().map(|t| t * t).sum::<f64>().sqrt();
            *theta = theta.map(|t| t / norm);
        }
    }

    /// One step; what was missed in it.
    pub(crate) fn step(&mut self, policy: &mut impl Policy<D>) -> f64 {
        let x = [(); D].map(|()| feature(&mut self.draw));
        let noise = NOISE * (2.0 * self.draw.unit() - 1.0);
        let brings = self
            .theta
            .map(|theta| -> f64 { theta.iter().zip(x).map(|(t, x)| t * x).sum() });
        let arm = policy.choose(&x);
        policy.learn(arm, &x, brings[arm] + noise);
        brings.iter().copied().fold(f64::MIN, f64::max) - brings[arm]
    }
}

pub(crate) trait Policy<const D: usize> {
    fn choose(&mut self, x: &[f64; D]) -> usize;
    fn learn(&mut self, arm: usize, x: &[f64; D], reward: f64);
}

pub(crate) struct Ucb<const D: usize>(LinUcb<f64, D, K>);

impl<const D: usize> Ucb<D> {
    pub(crate) fn new() -> Self {
        Self(LinUcb::new(&LinUcbConfig::default()))
    }
}

impl<const D: usize> Policy<D> for Ucb<D> {
    fn choose(&mut self, x: &[f64; D]) -> usize {
        self.0.select(1.0, x)
    }

    fn learn(&mut self, arm: usize, x: &[f64; D], reward: f64) {
        self.0.update(arm, x, reward).unwrap();
    }
}

pub(crate) struct Discounted<const D: usize>(DiscountedLinUcb<f64, D, K>);

impl<const D: usize> Discounted<D> {
    pub(crate) fn new(discount: f64) -> Self {
        Self(DiscountedLinUcb::new(&DiscountedLinUcbConfig {
            discount,
            ..DiscountedLinUcbConfig::default()
        }))
    }
}

impl<const D: usize> Policy<D> for Discounted<D> {
    fn choose(&mut self, x: &[f64; D]) -> usize {
        self.0.select(1.0, x)
    }

    fn learn(&mut self, arm: usize, x: &[f64; D], reward: f64) {
        self.0.update(arm, x, reward).unwrap();
    }
}

pub(crate) struct Thompson<const D: usize>(LinThompson<f64, D, K>, Draw);

impl<const D: usize> Thompson<D> {
    pub(crate) fn new(seed: u64) -> Self {
        let draw = Draw::new(seed ^ 0x7007);
        Self(LinThompson::new(&LinUcbConfig::default()), draw)
    }
}

impl<const D: usize> Policy<D> for Thompson<D> {
    fn choose(&mut self, x: &[f64; D]) -> usize {
        self.0.select(0.6, x, &mut self.1)
    }

    fn learn(&mut self, arm: usize, x: &[f64; D], reward: f64) {
        self.0.update(arm, x, reward).unwrap();
    }
}

/// Does not look at the context.
pub(crate) struct Blind(LinUcb<f64, 1, K>);

impl Blind {
    pub(crate) fn new() -> Self {
        Self(LinUcb::new(&LinUcbConfig::default()))
    }
}

impl<const D: usize> Policy<D> for Blind {
    fn choose(&mut self, _: &[f64; D]) -> usize {
        self.0.select(1.0, &[1.0])
    }

    fn learn(&mut self, arm: usize, _: &[f64; D], reward: f64) {
        self.0.update(arm, &[1.0], reward).unwrap();
    }
}

/// Tries the arms in turn at first, and then does what looked best for good.
pub(crate) struct Frozen<const D: usize> {
    model: LinUcb<f64, D, K>,
    samples: usize,
}

impl<const D: usize> Frozen<D> {
    const TRIALS: usize = 8 * K;

    pub(crate) fn new() -> Self {
        Self {
            model: LinUcb::new(&LinUcbConfig::default()),
            samples: 0,
        }
    }
}

impl<const D: usize> Policy<D> for Frozen<D> {
    fn choose(&mut self, x: &[f64; D]) -> usize {
        if self.samples < Self::TRIALS {
            return self.samples % K;
        }
        self.model.select(0.0, x)
    }

    fn learn(&mut self, arm: usize, x: &[f64; D], reward: f64) {
        if self.samples < Self::TRIALS {
            self.model.update(arm, x, reward).unwrap();
        }
        self.samples += 1;
    }
}
