//! What `peekaboo` keeps of a pair for later connections, and what of it is believed.

use mpquic_bandit::{Adjustment, AlphaTuning, Regrets};
use serde::{Deserialize, Serialize};

use super::pair_model::{ArmHistory, PairModel, Stage};
use crate::learned::linucb::Bandit;

/// A pair in whatever stage it is: short connections carry the learning on, one after the other.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(try_from = "Read")]
pub struct Memory {
    settled: u64,
    stage: Stage,
    bytes: u64,
    bandit: Bandit,
    histories: Box<[ArmHistory; 2]>,
    tuning: AlphaTuning,
    alpha: f64,
    judged: Regrets,
    adjustment: Adjustment,
    reference: [Option<f64>; 2],
}

impl Memory {
    pub(super) fn of(model: &PairModel) -> Self {
        Self {
            settled: model.settled,
            stage: model.stage,
            bytes: model.bytes,
            bandit: model.bandit.clone(),
            histories: model.histories.clone(),
            tuning: model.tuning.clone(),
            alpha: model.alpha,
            judged: model.judged,
            adjustment: model.adjustment,
            reference: model.reference,
        }
    }

    /// The window of deployment starts empty: it may be another day.
    pub(super) fn restore(self, model: &mut PairModel) {
        model.settled = self.settled;
        model.stage = self.stage;
        model.bytes = self.bytes;
        model.bandit = self.bandit;
        model.histories = self.histories;
        model.tuning = self.tuning;
        model.alpha = self.alpha;
        model.judged = self.judged;
        model.adjustment = self.adjustment;
        model.reference = self.reference;
    }
}

/// A memory of which only the parts have been checked.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Read {
    settled: u64,
    stage: Stage,
    bytes: u64,
    bandit: Bandit,
    histories: Box<[ArmHistory; 2]>,
    tuning: AlphaTuning,
    alpha: f64,
    judged: Regrets,
    adjustment: Adjustment,
    reference: [Option<f64>; 2],
}

impl TryFrom<Read> for Memory {
    type Error = &'static str;

    fn try_from(read: Read) -> Result<Self, Self::Error> {
        let collecting = matches!(read.stage, Stage::NeverWait | Stage::NeverSend);
        if read.histories.iter().any(|h| h.is_frozen() == collecting) {
            return Err("expected histories to be frozen once both are collected");
        }
        // The search tries nothing beyond 3.2.
        if !(0.0..=4.0).contains(&read.alpha) {
            return Err("expected alpha between 0 and 4");
        }
        if read.stage == Stage::Tuning && read.tuning.candidate().is_none() {
            return Err("expected a candidate for alpha");
        }
        let probability = |q: &f64| (0.0..=1.0).contains(q);
        if !read.reference.iter().flatten().all(probability) {
            return Err("expected shares between 0 and 1");
        }
        Ok(Self {
            settled: read.settled,
            stage: read.stage,
            bytes: read.bytes,
            bandit: read.bandit,
            histories: read.histories,
            tuning: read.tuning,
            alpha: read.alpha,
            judged: read.judged,
            adjustment: read.adjustment,
            reference: read.reference,
        })
    }
}
