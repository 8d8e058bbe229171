//! Settings of `linucb` and their ranges.

use mpquic_bandit::{DiscountedLinUcbConfig, LinUcbConfig};
use serde::{Deserialize, Serialize};

use crate::{FeatureRtt, FirstPacket, InvalidConfig, Reward};

/// Settings of [`Linucb`](crate::Linucb).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LinucbConfig {
    /// The weight α of what is not known, in units of the reward, 0 to 1000. Default 0.8, the
    /// paper's on average; its public code has 0.75.
    pub alpha: f64,
    /// What features and rewards are divided by, bytes per millisecond, above 0. Default 1000, with
    /// which most are 0.1 to 10. **It decides how much is explored**: with 1e6 (bytes per
    /// nanosecond, the public code) all are so small that for thousands of decisions the bonus is all
    /// that counts; with 1, they are so large that the bonus is gone after a handful.
    pub scale: f64,
    /// The ridge λ of the regression, in units of a squared feature, 1e-6 to 1e6. Default 1, the
    /// paper's.
    pub ridge: f64,
    /// After how many updates of an arm its inverse is computed anew, 1 to 65,536. Default 256.
    pub reinvert_every: u32,
    /// How much a sample weighs one update later, 0.5 to 1. Default 1: nothing is forgotten. Below 1,
    /// the bandit is [`DiscountedLinUcb`](mpquic_bandit::DiscountedLinUcb), for paths that change
    /// (ours).
    pub discount: f64,
    /// With which probability a decision to transmit is kept, and not turned into a wait, 0 to 1.
    /// Default 1.
    pub p_tx: f64,
    /// With which probability a decision to wait is kept, 0 to 1. Default 1.
    pub p_wt: f64,
    /// Where the random numbers for these begin. Default 0.
    pub seed: u64,
    /// What a decision earns: "discounted", the default, "own_ack", "packet", "deadline" or "goodput".
    pub reward: Reward,
    /// From when the first packet after a decision counts: the "decision", the default (ours), or its "sending", as
    /// all others.
    #[serde(skip_serializing_if = "is_default")]
    pub first_packet: FirstPacket,
    /// Which RTTs the features are made of: "smoothed", the default, or "latest".
    pub features: FeatureRtt,
    /// Whether C in the features is no more than what there is to send. Default false: it is what the
    /// peer's windows leave, as in the paper, and the end of the data cannot be seen coming (ours).
    pub backlog: bool,
    /// Whether the choice is put to the model while the fast path has room, too: `wt` is then to send on it, `tx` to leave
    /// it the room that it has. Default false. The paper's first extension of its action sets, "Addition 1".
    #[serde(skip_serializing_if = "is_default")]
    pub with_room: bool,
}

impl Default for LinucbConfig {
    fn default() -> Self {
        let LinUcbConfig {
            ridge,
            reinvert_every,
        } = LinUcbConfig::default();
        Self {
            alpha: 0.8,
            scale: 1000.0,
            ridge,
            reinvert_every,
            discount: 1.0,
            p_tx: 1.0,
            p_wt: 1.0,
            seed: 0,
            reward: Reward::default(),
            first_packet: FirstPacket::default(),
            features: FeatureRtt::default(),
            backlog: false,
            with_room: false,
        }
    }
}

impl LinucbConfig {
    pub(crate) fn check(&self) -> Result<(), InvalidConfig> {
        if !(0.0..=1000.0).contains(&self.alpha) {
            let expected = format!("expected 0 to 1000, got {}", self.alpha);
            return Err(InvalidConfig::field("alpha", expected));
        }
        check_scale(self.scale)?;
        if !(0.5..=1.0).contains(&self.discount) {
            let expected = format!("expected 0.5 to 1, got {}", self.discount);
            return Err(InvalidConfig::field("discount", expected));
        }
        check_probability("p_tx", self.p_tx)?;
        check_probability("p_wt", self.p_wt)?;
        self.plain().check().map_err(|wrong| {
            let expected = format!("expected {}, got {}", wrong.expected, wrong.got);
            InvalidConfig::field(wrong.field, expected)
        })
    }

    pub(super) const fn plain(&self) -> LinUcbConfig {
        LinUcbConfig {
            ridge: self.ridge,
            reinvert_every: self.reinvert_every,
        }
    }

    pub(super) const fn discounted(&self) -> DiscountedLinUcbConfig {
        DiscountedLinUcbConfig {
            ridge: self.ridge,
            discount: self.discount,
            reinvert_every: self.reinvert_every,
        }
    }
}

/// Features and rewards must stay within what a regression can sum up, however they are scaled.
fn check_scale(scale: f64) -> Result<(), InvalidConfig> {
    if (1e-6..=1e12).contains(&scale) {
        return Ok(());
    }
    let expected = format!("expected bytes per millisecond, 1e-6 to 1e12, got {scale}");
    Err(InvalidConfig::field("scale", expected))
}

/// Settings that came later and have their defaults are not written down: what was learned without them stays theirs.
pub(crate) fn is_default<T: Default + PartialEq>(setting: &T) -> bool {
    *setting == T::default()
}

pub(crate) fn check_probability(field: &str, p: f64) -> Result<(), InvalidConfig> {
    if (0.0..=1.0).contains(&p) {
        return Ok(());
    }
    let expected = format!("expected a probability, 0 to 1, got {p}");
    Err(InvalidConfig::field(field, expected))
}
