//! FALCON's idea: a learned model per coarse network condition, from which a change makes another start; the models are
//! elsewhere.

mod condition;
mod config;
mod pair_model;

pub use config::FalconConfig;

use std::time::Instant;

use mpquic_bandit::{Draw, FirstPacket, Refused};

use super::features::Features;
use super::linucb::Bandit;
use super::wait::{Choice, Common, LearnedWait, WaitRule};
use crate::{Arm, LearnedPair, PathIndex};
use pair_model::{Mark, PairModel};

/// A few learned models for coarse network conditions; the one for the present condition is the start of what is learned now.
///
/// **Rule.** The decision is [`Linucb`](crate::Linucb)'s: of a faster path that is full and a slower one with room, whether
/// to wait or to send; same context, same reward, same waits. The model that decides is a
/// [`DiscountedLinUcb`](mpquic_bandit::DiscountedLinUcb), which forgets.
///
/// A *condition* is the ratio of the two round trips (below 1.5, below 4, above) with the ratio of the two rates, windows per
/// round trip (below 1/2, below 2, above): nine in all. For each there may be a *meta-model*. When a condition has been
/// met by `confirm` decisions in a row, what was learned in the one before is added to its meta-model (the mean of the two,
/// as [`LinUcb::mean_of`](mpquic_bandit::LinUcb::mean_of) has it, or the model itself if there was none), and learning goes
/// on from the meta-model of the new one; if there is none, from what the present model knows. Within a condition, Page and
/// Hinkley's test watches the size of the errors `|R - θ·x|`: if they have grown, learning starts over from the meta-model, or from
/// nothing.
///
/// With a [memory](crate::memory), meta-models are kept for later connections: learning them is the offline part of
/// the paper.
///
/// **Source.** Wu, Alay, Brunstrom, Ferlin, Caso: *FALCON: Fast and Accurate Multipath Scheduling using Offline and Online
/// Learning*, arXiv 2201.08969, 2022, by its abstract: meta-models of coarse-grained conditions, learned offline, bootstrap a model
/// of the present condition, learned online. Ours: everything else. The paper's models are neural networks;
/// these are linear bandits, whose mean is what a first-order meta-learner would make of them. Conditions are
/// fixed classes and not found by clustering, and loss is not among what tells them apart.
///
/// **Cost.** That of [`Linucb`](crate::Linucb), four comparisons per decision, and one more estimate per reward. 22 KiB a pair.
///
/// ```
/// use mpquic_sched::{Falcon, FalconConfig, Registry};
/// use serde_json::json;
///
/// let config: FalconConfig = serde_json::from_value(json!({"confirm": 100}))?;
/// let one = Falcon::new(&config);
///
/// let wrong = Registry::new().build("falcon", &json!({"confirm": 0})).err().unwrap();
/// assert_eq!(wrong.to_string(), "scheduler `falcon`, field `confirm`: expected 1 to 65536, got 0");
/// # drop(one);
/// # Ok::<(), serde_json::Error>(())
/// ```
pub type Falcon = LearnedWait<FalconRule>;

/// The rule of [`Falcon`].
pub struct FalconRule {
    config: FalconConfig,
    /// For pairs to start with.
    fresh: Bandit,
}

impl WaitRule for FalconRule {
    const NAME: &'static str = "falcon";

    type Config = FalconConfig;
    type Pair = PairModel;
    type Mark = Mark;

    const PUTS_OFF: bool = true;

    fn new(config: &FalconConfig) -> Self {
        Self {
            config: config.clone(),
            fresh: Bandit::new(&config.bandit()),
        }
    }

    fn config(&self) -> &FalconConfig {
        &self.config
    }

    fn common(config: &FalconConfig) -> Common {
        Common {
            reward: config.reward,
            first_packet: FirstPacket::default(),
            scale: config.scale,
            seed: config.seed,
            features: config.features,
            backlog: config.backlog,
            with_room: false,
        }
    }

    fn pair(&self) -> PairModel {
        PairModel::new(self.fresh.clone())
    }

    #[inline]
    fn choose(
        &self,
        pair: &mut PairModel,
        context: &Features,
        _now: Instant,
        _draw: &mut Draw,
    ) -> Choice<Mark> {
        pair.choose(context, &self.config)
    }

    #[inline]
    fn learn(
        &self,
        pair: &mut PairModel,
        mark: Mark,
        arm: Arm,
        context: &Features,
        reward: f64,
        _now: Instant,
    ) -> Result<(), Refused> {
        pair.learn(mark, arm, context, reward, &self.config)
    }

    fn report(&self, pair: &PairModel, fast: PathIndex, slow: PathIndex) -> LearnedPair {
        let mut report = pair.report(fast, slow);
        report.alpha = Some(self.config.alpha);
        report
    }
}
