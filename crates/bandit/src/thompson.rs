//! Linear Thompson sampling over the models of `LinUcb`.

use num_traits::{Float, FloatConst};

use crate::linucb::{LinUcb, LinUcbConfig, Real, largest};
use crate::{Choice, Draw, Refused};

/// Thompson sampling with an independent linear model for each arm.
///
/// **Rule.** With A, b and θ = A^-1 b of each arm as in [`LinUcb`], a weight vector is drawn for each
/// arm from the normal distribution with mean θ and covariance v² A^-1, and the arm whose drawn
/// weights predict the largest reward in context x is chosen, the lowest of equals. The models of the
/// arms are independent, so the prediction itself can be drawn: θ·x + v sqrt(x' A^-1 x) z with z
/// standard normal. It has the same distribution and takes D² flops instead of D³/3. Before any
/// reward all arms are equally likely.
///
/// **Source.** Agrawal, Goyal: *Thompson Sampling for Contextual Bandits with Linear Payoffs*, ICML
/// 2013, algorithm 1; one weight vector shared by all arms there, one for each arm here. Their theory
/// takes v = R sqrt(9 D ln(t/δ)) for noise of R; in practice v has the size of the noise. v is in
/// units of the reward.
///
/// **Draws.** Box and Muller (*A Note on the Generation of Random Normal Deviates*, 1958): two uniform
/// numbers u, w make two normal ones, sqrt(-2 ln(1 - u)) times cos and sin of 2πw. A choice takes
/// K uniform numbers, K + 1 if K is odd, for every context, so that streams of draws stay
/// synchronised.
///
/// **Cost.** A choice: as [`LinUcb`]'s, and a logarithm, a root, a sine and a cosine for two arms. An
/// update: as [`LinUcb`]'s. Nothing is allocated.
///
/// ```
/// use mpquic_bandit::{Draw, LinThompson, LinUcbConfig};
///
/// let mut bandit = LinThompson::<f64, 1, 2>::new(&LinUcbConfig::default());
/// let mut draw = Draw::new(7);
/// for _ in 0..500 {
///     let arm = bandit.select(0.5, &[1.0], &mut draw);
///     bandit.update(arm, &[1.0], [0.2, 0.8][arm])?;
/// }
/// let chosen = (0..100).filter(|_| bandit.select(0.5, &[1.0], &mut draw) == 1).count();
/// assert!(chosen > 90);
/// # Ok::<(), mpquic_bandit::Refused>(())
/// ```
#[derive(Debug, Clone)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(
        transparent,
        bound(
            serialize = "T: Real + serde::Serialize",
            deserialize = "T: Real + serde::de::DeserializeOwned"
        )
    )
)]
pub struct LinThompson<T, const D: usize, const K: usize> {
    model: LinUcb<T, D, K>,
}

impl<T: Real, const D: usize, const K: usize> LinThompson<T, D, K> {
    /// A model that has seen nothing.
    ///
    /// # Panics
    ///
    /// As [`LinUcb::new`].
    pub fn new(config: &LinUcbConfig) -> Self {
        Self {
            model: LinUcb::new(config),
        }
    }

    /// A drawn prediction of each arm: θ·x + v sqrt(x' A^-1 x) z.
    #[inline]
    pub fn scores(&self, v: T, x: &[T; D], draw: &mut Draw) -> [T; K] {
        let mut spare = None;
        core::array::from_fn(|arm| {
            let z = spare.take().unwrap_or_else(|| {
                let (z, other) = normal_pair(draw);
                spare = Some(other);
                z
            });
            let estimate = self.model.estimate(arm, x);
            estimate.mean + v * estimate.deviation * T::of(z)
        })
    }

    /// The arm whose drawn prediction is largest, the lowest of equals. Only `draw` changes.
    #[inline]
    pub fn select(&self, v: T, x: &[T; D], draw: &mut Draw) -> usize {
        largest(&self.scores(v, x, draw))
    }

    /// The same, with how likely the arm was.
    pub fn choose(&self, v: T, x: &[T; D], draw: &mut Draw) -> Choice {
        let arm = self.select(v, x, draw);
        Choice {
            arm,
            probability: self.probabilities(v, x)[arm],
        }
    }

    /// With which probability [`select`](Self::select) takes each arm: for two arms Φ of the difference of their means over the
    /// deviation of that difference; for more the integral, over what is drawn for an arm, of the probability that all
    /// others are below, by the trapezoidal rule with 257 points from -8 to 8 deviations. That is exact to 1e-9 where deviations
    /// differ by less than 5 times, and to 0.01 whatever they are. Equal predictions without any deviation share.
    ///
    /// **Cost.** Two arms: one integral Φ. K arms: 257 K² of them, some tens of microseconds: for a log, not for each packet.
    pub fn probabilities(&self, v: T, x: &[T; D]) -> [f64; K] {
        let estimates: [(f64, f64); K] = core::array::from_fn(|arm| {
            let estimate = self.model.estimate(arm, x);
            (estimate.mean.wide(), (v * estimate.deviation).wide())
        });
        let weights: [f64; K] = core::array::from_fn(|arm| beats_all(&estimates, arm));
        // They are 1 in all but for what the rule misses.
        let sum: f64 = weights.iter().sum();
        weights.map(|weight| weight / sum)
    }

    /// Learns that `arm` earned `reward` in context `x`.
    ///
    /// # Errors
    ///
    /// As [`LinUcb::update`].
    #[inline]
    pub fn update(&mut self, arm: usize, x: &[T; D], reward: T) -> Result<(), Refused> {
        self.model.update(arm, x, reward)
    }

    /// How many updates were refused.
    pub fn refused(&self) -> u64 {
        self.model.refused()
    }

    /// The linear models; [`LinUcb::means`] has the predictions without a draw.
    pub fn model(&self) -> &LinUcb<T, D, K> {
        &self.model
    }

    /// As [`LinUcb::mean_of`].
    pub fn mean_of<'a>(models: impl Iterator<Item = &'a Self>) -> Option<Self> {
        let model = LinUcb::mean_of(models.map(|thompson| &thompson.model))?;
        Some(Self { model })
    }
}

/// The probability that an arm's draw is above those of all others, of (mean, deviation) each.
fn beats_all<const K: usize>(arms: &[(f64, f64); K], arm: usize) -> f64 {
    let (mean, deviation) = arms[arm];
    let mut others = arms.iter().enumerate().filter(|(other, _)| *other != arm);
    match (others.next(), others.next()) {
        (None, _) => return 1.0,
        (Some((_, other)), None) => {
            return below(mean - other.0, Float::hypot(deviation, other.1));
        }
        _ => {}
    }
    let at = |z: f64| -> f64 {
        let drawn = mean + z * deviation;
        let others = arms.iter().enumerate().filter(|(other, _)| *other != arm);
        let below: f64 = others.map(|(_, (m, s))| below(drawn - m, *s)).product();
        below * Float::exp(-0.5 * z * z)
    };
    // The density's own sum over the same points is not needed: all arms' are divided by the sum of all.
    (-128..=128).map(|i| at(f64::from(i) / 16.0)).sum()
}

/// Φ(difference / deviation): of no deviation 0, a half or 1.
fn below(difference: f64, deviation: f64) -> f64 {
    if deviation > 0.0 {
        0.5 * libm::erfc(-difference / deviation * f64::FRAC_1_SQRT_2())
    } else if difference == 0.0 {
        0.5
    } else {
        f64::from(u8::from(difference > 0.0))
    }
}

/// Two independent numbers, each normally distributed with mean 0 and variance 1.
fn normal_pair(draw: &mut Draw) -> (f64, f64) {
    // 1 - u is above zero.
    let radius = Float::sqrt(-2.0 * Float::ln(1.0 - draw.unit()));
    let (sin, cos) = Float::sin_cos(f64::TAU() * draw.unit());
    (radius * cos, radius * sin)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn promises_are_drawn_from_the_posterior() {
        let mut bandit = LinThompson::<f64, 2, 2>::new(&LinUcbConfig::default());
        for t in 0..20 {
            let x = [1.0, f64::from(t % 3)];
            bandit.update(0, &x, 0.5).unwrap();
        }
        let x = [0.3, -1.2];
        let (means, deviations) = (bandit.model().means(&x), bandit.model().deviations(&x));
        let n = 100_000_u32;
        let mut draw = Draw::new(4);
        let (mut sum, mut squares, mut product) = ([0.0; 2], [0.0; 2], 0.0);
        for _ in 0..n {
            let scores = bandit.scores(0.7, &x, &mut draw);
            // Standard normal, if the promises are what they should be.
            let z: [f64; 2] =
                core::array::from_fn(|k| (scores[k] - means[k]) / (0.7 * deviations[k]));
            for k in 0..2 {
                sum[k] += z[k] / f64::from(n);
                squares[k] += z[k] * z[k] / f64::from(n);
            }
            product += z[0] * z[1] / f64::from(n);
        }
        // Five standard deviations of each estimate.
        let spread = 5.0 / f64::from(n).sqrt();
        for k in 0..2 {
            assert!(sum[k].abs() < spread && (squares[k] - 1.0).abs() < 1.5 * spread);
        }
        assert!(product.abs() < spread);
    }

    #[test]
    fn probabilities_are_those_of_the_draws() {
        let mut bandit = LinThompson::<f64, 1, 3>::new(&LinUcbConfig::default());
        let mut pair = LinThompson::<f64, 1, 2>::new(&LinUcbConfig::default());
        for (arm, reward) in [(0, 0.5), (0, 0.3), (1, 0.9), (1, 0.1), (1, 0.4), (2, 0.6)] {
            bandit.update(arm, &[1.0], reward).unwrap();
            if arm < 2 {
                pair.update(arm, &[1.0], reward).unwrap();
            }
        }
        let mut draw = Draw::new(11);
        let n = 100_000;
        let (mut three, mut two) = ([0_u32; 3], [0_u32; 2]);
        for _ in 0..n {
            three[bandit.select(0.3, &[1.0], &mut draw)] += 1;
            two[pair.select(0.3, &[1.0], &mut draw)] += 1;
        }
        let counted = three.iter().chain(&two);
        let [a, b, c] = bandit.probabilities(0.3, &[1.0]);
        let [d, e] = pair.probabilities(0.3, &[1.0]);
        for (count, p) in counted.zip([a, b, c, d, e]) {
            // Five standard deviations of a binomial.
            let spread = 5.0 * (p * (1.0 - p) / f64::from(n)).sqrt();
            let share = f64::from(*count) / f64::from(n);
            assert!((share - p).abs() < spread, "{share} for {p}");
        }
        let choice = pair.choose(0.3, &[1.0], &mut draw);
        assert_eq!(choice.probability, [d, e][choice.arm]);
        // Nothing is drawn with v = 0: equals share, and the best has all.
        assert_eq!(pair.probabilities(0.0, &[0.0]), [0.5, 0.5]);
        let sure = bandit.probabilities(0.0, &[1.0]);
        assert_eq!(sure.iter().position(|p| *p == 1.0), Some(1), "{sure:?}");
    }

    #[test]
    fn normal() {
        let mut draw = Draw::new(3);
        let n = 100_000;
        let (mut sums, mut product, mut within) = ([0.0; 4], 0.0, 0);
        for _ in 0..n {
            let (a, b) = normal_pair(&mut draw);
            for (power, sum) in sums.iter_mut().enumerate() {
                *sum += a.powi(power as i32 + 1) + b.powi(power as i32 + 1);
            }
            product += a * b;
            within += u32::from(a.abs() < 1.0) + u32::from(b.abs() < 1.0);
        }
        let moments = sums.map(|sum| sum / f64::from(2 * n));
        // Five standard deviations of the moments' estimates: sqrt(1, 2, 15, 96) / sqrt(2n), and of a
        // binomial.
        for (moment, (expected, spread)) in
            moments
                .iter()
                .zip([(0.0, 1.0), (1.0, 2.0), (0.0, 15.0), (3.0, 96.0_f64)])
        {
            let error = (moment - expected).abs();
            assert!(error < 5.0 * spread.sqrt() / f64::from(2 * n).sqrt());
        }
        assert!((product / f64::from(n)).abs() < 5.0 / f64::from(n).sqrt());
        assert!((f64::from(within) / f64::from(2 * n) - 0.682_69).abs() < 0.0053);
    }
}
