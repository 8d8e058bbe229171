//! The settings of the bandit schedulers over paths, and their ranges.

use serde::{Deserialize, Serialize};

use crate::InvalidConfig;

/// The largest window of [`Forgetting::Window`].
pub(super) const LARGEST_WINDOW: usize = 1024;

/// Settings of [`Ucb`](crate::Ucb).
///
/// ```
/// use mpquic_sched::{Forgetting, Registry, UcbConfig};
/// use serde_json::json;
///
/// let config: UcbConfig = serde_json::from_value(json!({"forgetting": {"discount": 0.99}}))?;
/// assert_eq!(config.forgetting, Forgetting::Discount(0.99));
/// assert_eq!(config.exploration, 50_000.0);
///
/// let wrong = Registry::new().build("ucb", &json!({"forgetting": {"window": 0}})).err().unwrap();
/// assert_eq!(
///     wrong.to_string(),
///     "scheduler `ucb`, field `forgetting.window`: expected 1 to 1024 rewards, got 0",
/// );
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct UcbConfig {
    /// The exploration coefficient, bytes per second. Default 50,000, that of the report's
    /// demonstration; 0 takes the largest mean.
    pub exploration: f64,
    /// Whether a path may be chosen whose window is full, so that nothing is sent at this
    /// opportunity. Default false; `ucb_block` is the same scheduler with true, whatever stands
    /// here.
    pub block: bool,
    /// Whether old rewards are forgotten, and how. Default `"none"`.
    pub forgetting: Forgetting,
    /// What a path's reward is. Default `"latest"`.
    pub reward: UcbReward,
}

/// Whether a bandit forgets old rewards, and how.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Forgetting {
    /// All count, for ever: [`Ucb1`](mpquic_bandit::Ucb1).
    #[default]
    None,
    /// A reward counts by so much less with each reward of a choice that follows, above 0 and below
    /// 1: [`DiscountedUcb`](mpquic_bandit::DiscountedUcb).
    Discount(f64),
    /// So many of the newest rewards count, those of all paths taken together, 1 to 1024:
    /// [`SlidingWindowUcb`](mpquic_bandit::SlidingWindowUcb).
    Window(usize),
}

/// What the reward of a path is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UcbReward {
    /// At each opportunity, of each path: a packet over the smoothed RTT, less for losses since the
    /// opportunity before; the report's.
    #[default]
    Latest,
    /// Of the chosen path, once all packets of the opportunity are acknowledged or lost: what each
    /// of them earned. Ours, for the report's future work.
    ///
    /// The bonus of a path does not narrow while its rewards are under way, so that a slow path is
    /// chosen more often than with `latest`; a smaller [`exploration`](UcbConfig::exploration),
    /// 5,000, makes up for it. With [`block`](UcbConfig::block), a choice of a full path sends
    /// nothing, earns nothing and is not counted: waiting costs nothing, and there is much of it.
    Delayed,
    /// As `latest`, with the path's delivery rate in place of a packet over the RTT. Ours: in the
    /// report's reward a path five times as fast is no better.
    Rate,
}

impl Default for UcbConfig {
    fn default() -> Self {
        Self {
            exploration: 50_000.0,
            block: false,
            forgetting: Forgetting::None,
            reward: UcbReward::Latest,
        }
    }
}

impl UcbConfig {
    pub(crate) fn check(&self) -> Result<(), InvalidConfig> {
        if !(0.0..=1e15).contains(&self.exploration) {
            let got = self.exploration;
            let expected = format!("expected bytes per second, 0 to 1e15, got {got}");
            return Err(InvalidConfig::field("exploration", expected));
        }
        match self.forgetting {
            Forgetting::Discount(discount) if !(discount > 0.0 && discount < 1.0) => {
                let expected = format!("expected a factor above 0 and below 1, got {discount}");
                Err(InvalidConfig::field("forgetting.discount", expected))
            }
            Forgetting::Window(window) if !(1..=LARGEST_WINDOW).contains(&window) => {
                let expected = format!("expected 1 to {LARGEST_WINDOW} rewards, got {window}");
                Err(InvalidConfig::field("forgetting.window", expected))
            }
            _ => Ok(()),
        }
    }
}

/// Settings of [`Ucb::epsilon_greedy`](crate::Ucb::epsilon_greedy).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct EpsilonGreedyConfig {
    /// The probability of taking any path, 0 to 1. Default 0.1.
    pub epsilon: f64,
    /// Which share of the way to a reward the value of a path goes, above 0 and at most 1; 0 for the mean of all rewards.
    /// Default 0.1.
    pub step: f64,
    /// As [`UcbConfig::block`].
    pub block: bool,
    /// As [`UcbConfig::reward`].
    pub reward: UcbReward,
    /// Of what is drawn. Default 1.
    pub seed: u64,
}

impl Default for EpsilonGreedyConfig {
    fn default() -> Self {
        Self {
            epsilon: 0.1,
            step: 0.1,
            block: false,
            reward: UcbReward::Latest,
            seed: 1,
        }
    }
}

impl EpsilonGreedyConfig {
    pub(crate) fn check(&self) -> Result<(), InvalidConfig> {
        for (field, share) in [("epsilon", self.epsilon), ("step", self.step)] {
            if !(0.0..=1.0).contains(&share) {
                let expected = format!("expected a share from 0 to 1, got {share}");
                return Err(InvalidConfig::field(field, expected));
            }
        }
        Ok(())
    }
}
