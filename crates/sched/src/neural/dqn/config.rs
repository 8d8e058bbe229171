//! Settings of `dqn` and their ranges.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::InvalidConfig;
use crate::neural::{Model, Run};

/// Settings of [`Dqn`](super::Dqn).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DqnConfig {
    /// Which policy is asked. Default "shipped".
    pub model: Model,
    /// Where it runs. Default "inline".
    pub run: Run,
    /// Where the random numbers of actions 0, 1 and 2 begin, and those of the model "random". Default 0.
    pub seed: u64,
    /// How long an action holds, and over how long packets are counted for the partial reward, milliseconds, 1 to 10,000.
    /// Default 50, the paper's.
    pub interval_ms: u64,
}

impl Default for DqnConfig {
    fn default() -> Self {
        Self {
            model: Model::default(),
            run: Run::default(),
            seed: 0,
            interval_ms: 50,
        }
    }
}

impl DqnConfig {
    /// Whether the settings make sense.
    ///
    /// # Errors
    ///
    /// What is wrong with which.
    pub fn check(&self) -> Result<(), InvalidConfig> {
        if (1..=10_000).contains(&self.interval_ms) {
            return Ok(());
        }
        let expected = format!("expected 1 to 10000, got {}", self.interval_ms);
        Err(InvalidConfig::field("interval_ms", expected))
    }

    pub(super) const fn interval(&self) -> Duration {
        Duration::from_millis(self.interval_ms)
    }
}
