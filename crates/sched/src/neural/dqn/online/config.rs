//! Settings of `dqn_online` and their ranges.

use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};

use crate::InvalidConfig;

/// Where and when `dqn_online` learns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Train {
    /// `"chunk"`: when a chunk has arrived, the steps that fell due since the last one, one after the other. The same
    /// seed gives the same decisions. It takes some 20 us a step, in which the connection does nothing else.
    #[default]
    Chunk,
    /// `"thread"`: on a thread of its own, as in the paper. No packet waits for it.
    Thread,
}

/// What the ninth element of the state is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ninth {
    /// `"received"`: the chunk's bytes that have arrived in order, as the paper's text has it.
    #[default]
    Received,
    /// `"missing"`: the chunk's bytes that have not, as its code has it.
    Missing,
}

/// What makes random actions rarer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Decay {
    /// `"action"`: each decision, as the paper's text has it.
    #[default]
    Action,
    /// `"step"`: each step of learning, as its code has it.
    Step,
}

/// What it learns from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Payoff {
    /// `"paper"`: the paper's rewards, those of [`Dqn`](super::Dqn).
    #[default]
    Paper,
    /// `"time"`: minus the time until the next decision or the chunk's end, in tenths of a second (ours). Their sum is what
    /// a chunk takes; the paper's is larger for slower chunks. Belongs with a larger `gamma`.
    Time,
}

/// Settings of [`DqnOnline`](super::DqnOnline).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DqnOnlineConfig {
    /// Where and when it learns. Default "chunk".
    pub train: Train,
    /// Where all random numbers begin: weights, exploration, batches, and the draws of actions 0, 1 and 2. Default 0.
    pub seed: u64,
    /// How long an action holds, and over how long packets are counted for the partial reward, milliseconds, 1 to 10,000.
    /// Default 50, the paper's.
    pub interval_ms: u64,
    /// What the ninth element of the state is. Default "received".
    pub ninth: Ninth,
    /// What it learns from. Default "paper".
    pub payoff: Payoff,
    /// Adam's learning rate, above 0 and up to 1. Default 0.0005, the paper's.
    pub learning_rate: f64,
    /// What a reward one decision later counts, 0 to 1. Default 0.5, the paper's.
    pub gamma: f64,
    /// Transitions of a step of learning, 1 to 1024. Default 20, the paper's. With fewer than that, nothing is learned.
    pub batch: usize,
    /// Transitions that are kept, 1 to 1,000,000, of 88 bytes each; the newest. Default 16,384; the paper's has no end, and
    /// its 300 chunks make 1300.
    pub replay: usize,
    /// A step of learning falls due each so many milliseconds, 1 to 10,000. Default 10, that of the paper's code.
    pub step_ms: u64,
    /// What multiplies the probability of a random action, 0 to 1, from 1 on. Default 0.997, the paper's.
    pub epsilon_decay: f64,
    /// When it does. Default "action".
    pub decay: Decay,
    /// The least probability of a random action, 0 to 1. Default 0, the paper's.
    pub epsilon_min: f64,
    /// What is added to it for chunks marked for exploration, 0 to 1. Default 0.1, the paper's.
    pub explore: f64,
    /// After how many decisions the network that decides and the target network become the one that learns, 1 to
    /// 1,000,000. Default 50, the paper's.
    pub refresh: u64,
}

impl Default for DqnOnlineConfig {
    fn default() -> Self {
        Self {
            train: Train::default(),
            seed: 0,
            interval_ms: 50,
            ninth: Ninth::default(),
            payoff: Payoff::default(),
            learning_rate: 0.0005,
            gamma: 0.5,
            batch: 20,
            replay: 16_384,
            step_ms: 10,
            epsilon_decay: 0.997,
            decay: Decay::default(),
            epsilon_min: 0.0,
            explore: 0.1,
            refresh: 50,
        }
    }
}

impl DqnOnlineConfig {
    pub(crate) fn check(&self) -> Result<(), InvalidConfig> {
        count("interval_ms", self.interval_ms, 1..=10_000)?;
        count("batch", self.batch as u64, 1..=1024)?;
        count("replay", self.replay as u64, 1..=1_000_000)?;
        count("step_ms", self.step_ms, 1..=10_000)?;
        count("refresh", self.refresh, 1..=1_000_000)?;
        share("gamma", self.gamma)?;
        share("epsilon_decay", self.epsilon_decay)?;
        share("epsilon_min", self.epsilon_min)?;
        share("explore", self.explore)?;
        share("learning_rate", self.learning_rate)?;
        if self.learning_rate == 0.0 {
            let expected = "expected above 0 and up to 1, got 0";
            return Err(InvalidConfig::field("learning_rate", expected));
        }
        Ok(())
    }
}

fn count(field: &'static str, value: u64, range: RangeInclusive<u64>) -> Result<(), InvalidConfig> {
    if range.contains(&value) {
        return Ok(());
    }
    let expected = format!("expected {} to {}, got {value}", range.start(), range.end());
    Err(InvalidConfig::field(field, expected))
}

fn share(field: &'static str, value: f64) -> Result<(), InvalidConfig> {
    if (0.0..=1.0).contains(&value) {
        return Ok(());
    }
    Err(InvalidConfig::field(
        field,
        format!("expected 0 to 1, got {value}"),
    ))
}
