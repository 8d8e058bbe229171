//! Learners that are told after each round what every arm would have brought: discounted means, and Hedge.

use num_traits::Float;

use crate::{Choice, Draw, Refused};

/// No weight grows beyond it with a discount of 1: sums stay exact enough.
const MOST_WEIGHT: f64 = 1e12;

/// Checks what every arm would have brought: each from 0 to 1.
fn check<const K: usize>(rewards: &[f64; K]) -> Result<(), Refused> {
    // Not so for NaN either.
    if rewards.iter().all(|reward| (0.0..=1.0).contains(reward)) {
        Ok(())
    } else {
        Err(Refused::Reward)
    }
}

/// The mean of what each arm would have brought, in which a round counts discount^k after k more of them; and the arm with the
/// largest mean less the price of what it costs.
///
/// **When.** If the outcome of a round tells what every arm would have brought, nothing need be tried: there is no exploration, and
/// all arms are known equally well after as many rounds. A bandit spends rounds on each arm for that.
///
/// **Bound.** None against an adversary, who can make any rule lose that always takes the leader. Where rewards in [0, 1] are
/// independent with constant means, discount 1 and no price: an arm that is worse by d is taken after n rounds with a probability of
/// at most exp(-n d²/2) (Hoeffding), so that it costs no more than 3/d in all, whatever the number of rounds. With a
/// discount g the mean is that of about 1/(1 - g) rounds, and follows changes as fast. [`Hedge`] has a bound for every sequence.
///
/// **Cost.** An update: 2 K flops, a choice: 2 K. Nothing is allocated.
///
/// ```
/// use mpquic_bandit::{DiscountedMeans, Refused};
///
/// let mut means = DiscountedMeans::<3>::new(0.998);
/// let costs = [0.0, 0.1, 0.5];
/// assert_eq!(means.select(0.1, &costs), 0); // Nothing is known: the cheapest.
/// for _ in 0..10 {
///     means.update(&[0.5, 0.98, 1.0])?;
/// }
/// assert_eq!(means.select(0.1, &costs), 1); // 0.02 more is not worth 0.1 times 0.4.
/// assert_eq!(means.select(0.01, &costs), 2);
/// # Ok::<(), Refused>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct DiscountedMeans<const K: usize> {
    discount: f64,
    weight: f64,
    sums: [f64; K],
    refused: u64,
}

impl<const K: usize> DiscountedMeans<K> {
    /// Knows nothing. A discount outside of 0 to 1, or NaN, counts as 1.
    pub const fn new(discount: f64) -> Self {
        const { assert!(K > 0) };
        let discount = if discount >= 0.0 && discount <= 1.0 {
            discount
        } else {
            1.0
        };
        Self {
            discount,
            weight: 0.0,
            sums: [0.0; K],
            refused: 0,
        }
    }

    /// Goes on from the [means](Self::means) and the [weight](Self::weight) of another; the weight counts for `most` at most, so
    /// that what is old yields.
    ///
    /// # Errors
    ///
    /// If a mean is not from 0 to 1, or the weight not a number from 0 on.
    pub fn restore(
        discount: f64,
        means: &[f64; K],
        weight: f64,
        most: f64,
    ) -> Result<Self, Refused> {
        check(means)?;
        if !(0.0..=MOST_WEIGHT).contains(&weight) {
            return Err(Refused::Reward);
        }
        let weight = weight.min(most.max(0.0));
        Ok(Self {
            weight,
            sums: means.map(|mean| mean * weight),
            ..Self::new(discount)
        })
    }

    /// Learns what each arm would have brought.
    ///
    /// # Errors
    ///
    /// If one of them is not from 0 to 1: counted, and nothing is learned.
    pub fn update(&mut self, rewards: &[f64; K]) -> Result<(), Refused> {
        if let Err(why) = check(rewards) {
            self.refused += 1;
            return Err(why);
        }
        if self.weight < MOST_WEIGHT {
            self.weight = self.weight * self.discount + 1.0;
            for (sum, reward) in self.sums.iter_mut().zip(rewards) {
                *sum = *sum * self.discount + reward;
            }
        }
        Ok(())
    }

    /// The mean of each arm; 0 before the first round.
    pub fn means(&self) -> [f64; K] {
        // A rounding error must not make a mean that `restore` refuses.
        self.sums.map(|sum| {
            if self.weight > 0.0 {
                (sum / self.weight).clamp(0.0, 1.0)
            } else {
                0.0
            }
        })
    }

    /// How many rounds count, those that are long past less.
    pub const fn weight(&self) -> f64 {
        self.weight
    }

    /// The arm with the largest mean less `price` times its cost; of equals the lowest.
    pub fn select(&self, price: f64, costs: &[f64; K]) -> usize {
        let means = self.means();
        let mut best = 0;
        for arm in 1..K {
            if means[arm] - price * costs[arm] > means[best] - price * costs[best] {
                best = arm;
            }
        }
        best
    }

    /// How many updates were refused.
    pub const fn refused(&self) -> u64 {
        self.refused
    }
}

/// Hedge, which is exponential weights: draws an arm with a probability that grows with what it would have brought so far.
///
/// **Rule.** Before round t, arm i has the probability exp(eta_t G_i) over the sum of all, where G_i is the sum of its rewards so far
/// and eta_t = sqrt(8 ln K / t).
///
/// **Bound.** For every sequence of rewards in [0, 1], an adversary's too that knows the probabilities: after T rounds the expected
/// sum is behind that of the best arm in hindsight by at most
///
/// ```text
/// 2 sqrt(T ln K / 2) + sqrt(ln K / 8)
/// ```
///
/// **Source.** Freund, Schapire: *A Decision-Theoretic Generalization of On-Line Learning and an Application to Boosting*, JCSS 1997;
/// rates and bound as in Cesa-Bianchi, Lugosi: *Prediction, Learning, and Games*, 2006, theorem 2.3.
///
/// **Cost.** A choice: K exponentials. Nothing is allocated. It does not forget: where the best arm changes, [`DiscountedMeans`]
/// follows sooner.
///
/// ```
/// use mpquic_bandit::{Draw, Hedge, Refused};
///
/// let mut hedge = Hedge::<2>::new();
/// assert_eq!(hedge.probabilities(), [0.5, 0.5]);
/// for _ in 0..200 {
///     hedge.update(&[0.2, 0.9])?;
/// }
/// assert!(hedge.probabilities()[1] > 0.99);
/// assert_eq!(hedge.select(&mut Draw::new(1)), 1);
/// # Ok::<(), Refused>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Hedge<const K: usize> {
    gains: [f64; K],
    rounds: u64,
    refused: u64,
}

impl<const K: usize> Hedge<K> {
    /// Knows nothing.
    pub const fn new() -> Self {
        const { assert!(K > 0) };
        Self {
            gains: [0.0; K],
            rounds: 0,
            refused: 0,
        }
    }

    /// Learns what each arm would have brought.
    ///
    /// # Errors
    ///
    /// If one of them is not from 0 to 1: counted, and nothing is learned.
    pub fn update(&mut self, rewards: &[f64; K]) -> Result<(), Refused> {
        if let Err(why) = check(rewards) {
            self.refused += 1;
            return Err(why);
        }
        self.rounds += 1;
        for (gain, reward) in self.gains.iter_mut().zip(rewards) {
            *gain += reward;
        }
        Ok(())
    }

    /// With which probability each arm is drawn.
    pub fn probabilities(&self) -> [f64; K] {
        let rate = Float::sqrt(8.0 * Float::ln(K as f64) / (self.rounds as f64 + 1.0));
        let best = self.gains.iter().copied().fold(f64::MIN, f64::max);
        let weights = self.gains.map(|gain| Float::exp(rate * (gain - best)));
        let sum: f64 = weights.iter().sum();
        weights.map(|weight| weight / sum)
    }

    /// Draws an arm.
    pub fn choose(&self, draw: &mut Draw) -> Choice {
        let (probabilities, mut rest) = (self.probabilities(), draw.unit());
        let arm = probabilities.iter().position(|probability| {
            rest -= probability;
            rest < 0.0
        });
        let arm = arm.unwrap_or(K - 1);
        Choice {
            arm,
            probability: probabilities[arm],
        }
    }

    /// Draws an arm, as [`choose`](Self::choose) does.
    pub fn select(&self, draw: &mut Draw) -> usize {
        self.choose(draw).arm
    }

    /// The most by which the expected sum of rewards is behind that of the best arm after so many rounds.
    pub fn regret_bound(rounds: u64) -> f64 {
        let ln = Float::ln(K as f64);
        2.0 * Float::sqrt(rounds as f64 * ln / 2.0) + Float::sqrt(ln / 8.0)
    }

    /// How many updates were refused.
    pub const fn refused(&self) -> u64 {
        self.refused
    }
}

impl<const K: usize> Default for Hedge<K> {
    fn default() -> Self {
        Self::new()
    }
}
