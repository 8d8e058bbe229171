//! Settings of `falcon` and their ranges.

use serde::{Deserialize, Serialize};

use crate::{FeatureRtt, InvalidConfig, LinucbConfig, Reward};

/// Settings of [`Falcon`](crate::Falcon).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct FalconConfig {
    /// The weight α of what is not known, in units of the reward, 0 to 1000. Default 0.8.
    pub alpha: f64,
    /// What features and rewards are divided by, bytes per millisecond, 1e-6 to 1e12. Default 1000;
    /// see [`LinucbConfig::scale`] for what it decides.
    pub scale: f64,
    /// The ridge λ of the regressions, in units of a squared feature, 1e-6 to 1e6. Default 1.
    pub ridge: f64,
    /// After how many updates of an arm its inverse is computed anew, 1 to 65,536. Default 256.
    pub reinvert_every: u32,
    /// How much a sample weighs one update later, 0.5 to 1. Default 0.995: what the model of the present condition rests on is
    /// mostly its last 200 rewards.
    pub discount: f64,
    /// How many decisions in a row must meet another condition for it to be the present one, 1 to 65,536. Default 32.
    pub confirm: u32,
    /// The sum of unexpected errors that tells a change within a condition, in mean errors, above 0. Default 100.
    pub threshold: f64,
    /// Where the random numbers begin; it draws none. Default 0.
    pub seed: u64,
    /// What a decision earns: "discounted", the default, "packet", "deadline" or "goodput".
    pub reward: Reward,
    /// Which RTTs the features are made of: "smoothed", the default, or "latest".
    pub features: FeatureRtt,
    /// Whether C in the features is no more than what there is to send. Default false.
    pub backlog: bool,
}

impl Default for FalconConfig {
    fn default() -> Self {
        let LinucbConfig {
            alpha,
            scale,
            ridge,
            reinvert_every,
            ..
        } = LinucbConfig::default();
        Self {
            alpha,
            scale,
            ridge,
            reinvert_every,
            discount: 0.995,
            confirm: 32,
            threshold: 100.0,
            seed: 0,
            reward: Reward::default(),
            features: FeatureRtt::default(),
            backlog: false,
        }
    }
}

impl FalconConfig {
    pub(crate) fn check(&self) -> Result<(), InvalidConfig> {
        self.bandit().check()?;
        if !(1..=65_536).contains(&self.confirm) {
            let expected = format!("expected 1 to 65536, got {}", self.confirm);
            return Err(InvalidConfig::field("confirm", expected));
        }
        if !(self.threshold > 0.0 && self.threshold.is_finite()) {
            let expected = format!("expected a number above 0, got {}", self.threshold);
            return Err(InvalidConfig::field("threshold", expected));
        }
        Ok(())
    }

    /// The settings of the models that `linucb` and this one share.
    pub(super) fn bandit(&self) -> LinucbConfig {
        LinucbConfig {
            alpha: self.alpha,
            scale: self.scale,
            ridge: self.ridge,
            reinvert_every: self.reinvert_every,
            discount: self.discount,
            ..LinucbConfig::default()
        }
    }
}
