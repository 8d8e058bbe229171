//! What `falcon` learns of one pair of paths: a model for now, and one per condition to start from.

use std::mem::discriminant;

use mpquic_bandit::Refused;
use serde::{Deserialize, Serialize};

use super::FalconConfig;
use super::condition::{self, CONDITIONS, Change, Drift, Watch};
use crate::learned::features::Features;
use crate::learned::linucb::Bandit;
use crate::learned::pairs::PairState;
use crate::learned::wait::Choice;
use crate::{Arm, LearnedPair, PathIndex};

/// A model of fewer rewards than this is no start for another one.
const LEAST: u64 = 64;

/// For which start of the model a decision was made: what those before earned says nothing of the present condition.
#[derive(Debug, Clone, Copy, Default)]
pub struct Mark {
    round: u16,
}

/// The state of one ordered pair (f, s).
#[derive(Debug, Clone)]
pub struct PairModel {
    model: Bandit,
    /// Rewards that the model has learned since its start.
    learned: u64,
    /// One that has learned nothing.
    fresh: Bandit,
    metas: [Option<Bandit>; CONDITIONS],
    watch: Watch,
    drift: Drift,
    round: u16,
    decisions: u64,
    waits: u64,
    settled: u64,
    relearned: u64,
    recalled: bool,
}

/// What is remembered of a pair: the meta-models by condition.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Memory {
    settled: u64,
    metas: [Option<Bandit>; CONDITIONS],
}

impl PairModel {
    pub(super) fn new(fresh: Bandit) -> Self {
        Self {
            model: fresh.clone(),
            learned: 0,
            fresh,
            metas: [const { None }; CONDITIONS],
            watch: Watch::default(),
            drift: Drift::default(),
            round: 0,
            decisions: 0,
            waits: 0,
            settled: 0,
            relearned: 0,
            recalled: false,
        }
    }

    /// The decision in this context.
    #[inline]
    pub(super) fn choose(&mut self, x: &Features, config: &FalconConfig) -> Choice<Mark> {
        if let Some(condition) = condition::of(x)
            && let Some(change) = self.watch.met(condition, config.confirm)
        {
            self.change(change);
        }
        let scores = self.model.scores(config.alpha, x);
        let arm = Arm::largest(scores);
        self.decisions += 1;
        self.waits += u64::from(arm == Arm::Wait);
        Choice {
            scores,
            chosen: arm,
            arm,
            mark: Some(Mark { round: self.round }),
        }
    }

    /// And this is what it earned.
    ///
    /// # Errors
    ///
    /// What the model refuses.
    #[inline]
    pub(super) fn learn(
        &mut self,
        mark: Mark,
        arm: Arm,
        x: &Features,
        reward: f64,
        config: &FalconConfig,
    ) -> Result<(), Refused> {
        if mark.round != self.round {
            return Ok(());
        }
        let error = (reward - self.model.means(x)[arm.index()]).abs();
        self.model.update(arm, x, reward)?;
        self.settled += 1;
        self.learned += 1;
        if self.drift.add(error, config.threshold) {
            self.relearned += 1;
            let meta = self.present().and_then(|place| self.metas[place].clone());
            self.begin(meta.unwrap_or_else(|| self.fresh.clone()));
        }
        Ok(())
    }

    fn present(&self) -> Option<usize> {
        self.watch.present().map(usize::from)
    }

    /// Another condition: what was learned goes to the meta-model of the one before.
    #[cold]
    fn change(&mut self, Change { left, entered }: Change) {
        if let Some(left) = left {
            self.relearned += 1;
            if let Some(folded) = self.folded(usize::from(left)) {
                self.metas[usize::from(left)] = Some(folded);
            }
        }
        if let Some(meta) = self.metas[usize::from(entered)].clone() {
            self.begin(meta);
        } else {
            self.begin(self.model.clone());
        }
    }

    /// The meta-model of a condition with what the present model has learned; `None` if that is too little.
    fn folded(&self, condition: usize) -> Option<Bandit> {
        if self.learned < LEAST {
            return None;
        }
        let both = self.metas[condition].iter().chain([&self.model]);
        Bandit::mean_of(both)
    }

    fn begin(&mut self, model: Bandit) {
        self.model = model;
        self.learned = 0;
        self.drift = Drift::default();
        self.round = self.round.wrapping_add(1);
    }

    pub(super) fn report(&self, fast: PathIndex, slow: PathIndex) -> LearnedPair {
        let mut pair = LearnedPair::new(fast, slow);
        (pair.decisions, pair.waits) = (self.decisions, self.waits);
        (pair.settled, pair.relearned) = (self.settled, self.relearned);
        pair.recalled = self.recalled;
        pair
    }
}

impl PairState for PairModel {
    type Memory = Memory;

    fn start<'a>(&mut self, others: impl Iterator<Item = &'a Self> + Clone) {
        let mean = Bandit::mean_of(others.map(|other| &other.model));
        self.begin(mean.unwrap_or_else(|| self.fresh.clone()));
        self.metas = [const { None }; CONDITIONS];
        self.watch = Watch::default();
        (self.decisions, self.waits, self.settled) = (0, 0, 0);
        (self.relearned, self.recalled) = (0, false);
    }

    fn memory(&self) -> Option<Memory> {
        let mut metas = self.metas.clone();
        if let Some(place) = self.present()
            && let Some(folded) = self.folded(place)
        {
            metas[place] = Some(folded);
        }
        let worth = metas.iter().any(Option::is_some);
        worth.then_some(Memory {
            settled: self.settled,
            metas,
        })
    }

    fn recall(&mut self, memory: Memory) {
        self.start(std::iter::empty());
        // A store that was tampered with: it is kept by configuration, which says the kind.
        let kind = discriminant(&self.fresh);
        let known = memory.metas.iter().flatten();
        if known.clone().all(|meta| discriminant(meta) == kind) {
            (self.metas, self.settled) = (memory.metas, memory.settled);
            self.recalled = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Conditions 4 (round trips 1 : 2, equal rates) and 0 (equal round trips, the slower path with thrice the rate).
    const HERE: Features = [1.0, 0.5, 2.0, 1.0, 0.0, 1.0];
    const THERE: Features = [1.0, 0.5, 2.0, 3.0, 0.0, 2.0];

    fn model(config: &FalconConfig) -> PairModel {
        PairModel::new(Bandit::new(&config.bandit()))
    }

    /// So many decisions in this context, whose arms earn this.
    fn live(pair: &mut PairModel, x: &Features, rewards: [f64; 2], times: usize) -> usize {
        let config = FalconConfig::default();
        let mut waits = 0;
        for _ in 0..times {
            let choice = pair.choose(x, &config);
            waits += usize::from(choice.arm == Arm::Wait);
            let (mark, arm) = (choice.mark.unwrap(), choice.arm);
            pair.learn(mark, arm, x, rewards[arm.index()], &config)
                .unwrap();
        }
        waits
    }

    #[test]
    fn a_condition_that_comes_back_finds_its_model() {
        let mut pair = model(&FalconConfig::default());
        live(&mut pair, &HERE, [0.0, 1.0], 500);
        live(&mut pair, &THERE, [1.0, 0.0], 500);
        // Half a meta-model's samples are those of another time: it need not explore what it knows.
        let first = live(&mut pair, &HERE, [0.0, 1.0], 33);
        let back = live(&mut pair, &HERE, [0.0, 1.0], 20);
        assert!(back >= 19, "{back} of 20 after {first}");
        assert_eq!(pair.relearned, 2);
        assert_eq!(pair.metas.iter().flatten().count(), 2);
    }

    #[test]
    fn what_was_decided_before_a_change_teaches_nothing_after_it() {
        let config = FalconConfig::default();
        let mut pair = model(&config);
        let before = pair.choose(&HERE, &config).mark.unwrap();
        for _ in 0..config.confirm {
            pair.choose(&THERE, &config);
        }
        pair.learn(before, Arm::Send, &HERE, 1.0, &config).unwrap();
        assert_eq!(pair.settled, 0);
    }

    #[test]
    fn errors_that_grow_start_the_model_over() {
        let mut pair = model(&FalconConfig::default());
        let config = FalconConfig::default();
        for n in 0..4000_u32 {
            let choice = pair.choose(&HERE, &config);
            let noise = f64::from(n % 2);
            let size = if n < 2000 { 0.1 } else { 3.0 };
            let mark = choice.mark.unwrap();
            pair.learn(mark, choice.arm, &HERE, size * noise, &config)
                .unwrap();
        }
        assert!((1..4).contains(&pair.relearned), "{}", pair.relearned);
    }

    #[test]
    fn meta_models_are_remembered() {
        let config = FalconConfig::default();
        let mut pair = model(&config);
        live(&mut pair, &HERE, [0.0, 1.0], 500);
        let text = serde_json::to_string(&pair.memory().unwrap()).unwrap();
        let mut next = model(&config);
        next.recall(serde_json::from_str(&text).unwrap());
        let waits = live(&mut next, &HERE, [0.0, 1.0], 20);
        assert!(waits >= 19, "{waits}");
        assert!(next.recalled);
        // A model of another kind.
        let plain = FalconConfig {
            discount: 1.0,
            ..config
        };
        let mut other = model(&plain);
        other.recall(serde_json::from_str(&text).unwrap());
        assert!(!other.recalled && other.metas.iter().all(Option::is_none));
    }

    #[test]
    fn a_pair_takes_what_the_documentation_says() {
        let bytes = size_of::<PairModel>();
        assert!((20_000..24_000).contains(&bytes), "{bytes}");
    }
}
