//! Linear Thompson sampling over the models of `LinUcb`.

use num_traits::{Float, FloatConst};

use crate::linucb::{LinUcb, LinUcbConfig, Real, largest};
use crate::{Draw, Refused};

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
