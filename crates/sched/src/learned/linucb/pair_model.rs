//! The model of one pair of paths, as `linucb` learns it.

use std::mem::discriminant;

use mpquic_bandit::{DiscountedLinUcb, LinUcb, Refused};
use serde::{Deserialize, Serialize};

use super::LinucbConfig;
use crate::learned::features::{DIMENSIONS, Features};
use crate::learned::pairs::PairState;
use crate::{Arm, LearnedPair, PathIndex};

/// One of the two bandits.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(
    clippy::large_enum_variant,
    reason = "a scheduler's are all of one kind, and are copied without allocating"
)]
pub(crate) enum Bandit {
    Plain(LinUcb<f64, DIMENSIONS, 2>),
    Discounted(DiscountedLinUcb<f64, DIMENSIONS, 2>),
}

impl Bandit {
    pub(crate) fn new(config: &LinucbConfig) -> Self {
        if config.discount < 1.0 {
            Self::Discounted(DiscountedLinUcb::new(&config.discounted()))
        } else {
            Self::Plain(LinUcb::new(&config.plain()))
        }
    }

    #[inline]
    pub(crate) fn scores(&self, alpha: f64, x: &Features) -> [f64; 2] {
        match self {
            Self::Plain(bandit) => bandit.scores(alpha, x),
            Self::Discounted(bandit) => bandit.scores(alpha, x),
        }
    }

    #[inline]
    pub(crate) fn means(&self, x: &Features) -> [f64; 2] {
        match self {
            Self::Plain(bandit) => bandit.means(x),
            Self::Discounted(bandit) => bandit.means(x),
        }
    }

    #[inline]
    pub(crate) fn update(&mut self, arm: Arm, x: &Features, reward: f64) -> Result<(), Refused> {
        match self {
            Self::Plain(bandit) => bandit.update(arm.index(), x, reward),
            Self::Discounted(bandit) => update_discounted(bandit, arm, x, reward),
        }
    }

    pub(crate) fn mean_of<'a>(bandits: impl Iterator<Item = &'a Self> + Clone) -> Option<Self> {
        // All of a scheduler's are of one kind.
        let plain = bandits.clone().filter_map(|bandit| match bandit {
            Self::Plain(bandit) => Some(bandit),
            Self::Discounted(_) => None,
        });
        let discounted = bandits.filter_map(|bandit| match bandit {
            Self::Plain(_) => None,
            Self::Discounted(bandit) => Some(bandit),
        });
        let plain = LinUcb::mean_of(plain).map(Self::Plain);
        plain.or_else(|| DiscountedLinUcb::mean_of(discounted).map(Self::Discounted))
    }
}

/// Not inlined: the other one, which is usual, would save and restore the registers that this takes.
#[inline(never)]
fn update_discounted(
    bandit: &mut DiscountedLinUcb<f64, DIMENSIONS, 2>,
    arm: Arm,
    x: &Features,
    reward: f64,
) -> Result<(), Refused> {
    bandit.update(arm.index(), x, reward)
}

/// The bandit of a pair, and what it was used for.
#[derive(Debug, Clone)]
pub struct PairModel {
    bandit: Bandit,
    /// One that has learned nothing.
    fresh: Bandit,
    decisions: u64,
    waits: u64,
    settled: u64,
    recalled: bool,
}

/// What is remembered of a pair.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Memory {
    settled: u64,
    bandit: Bandit,
}

impl PairModel {
    pub(super) fn new(fresh: Bandit) -> Self {
        Self {
            bandit: fresh.clone(),
            fresh,
            decisions: 0,
            waits: 0,
            settled: 0,
            recalled: false,
        }
    }

    #[inline]
    pub(super) fn scores(&self, alpha: f64, x: &Features) -> [f64; 2] {
        self.bandit.scores(alpha, x)
    }

    /// This was done.
    #[inline]
    pub(super) fn did(&mut self, arm: Arm) {
        self.decisions += 1;
        self.waits += u64::from(arm == Arm::Wait);
    }

    /// And this is what it earned.
    #[inline]
    pub(super) fn learn(&mut self, arm: Arm, x: &Features, reward: f64) -> Result<(), Refused> {
        self.bandit.update(arm, x, reward)?;
        self.settled += 1;
        Ok(())
    }

    pub(super) fn report(&self, fast: PathIndex, slow: PathIndex) -> LearnedPair {
        let mut pair = LearnedPair::new(fast, slow);
        (pair.decisions, pair.waits) = (self.decisions, self.waits);
        (pair.settled, pair.recalled) = (self.settled, self.recalled);
        pair
    }
}

impl PairState for PairModel {
    type Memory = Memory;

    fn start<'a>(&mut self, others: impl Iterator<Item = &'a Self> + Clone) {
        let mean = Bandit::mean_of(others.map(|other| &other.bandit));
        self.bandit = mean.unwrap_or_else(|| self.fresh.clone());
        (self.decisions, self.waits, self.settled) = (0, 0, 0);
        self.recalled = false;
    }

    fn memory(&self) -> Option<Memory> {
        (self.settled > 0).then(|| Memory {
            settled: self.settled,
            bandit: self.bandit.clone(),
        })
    }

    fn recall(&mut self, memory: Memory) {
        (self.bandit, self.settled) = (memory.bandit, memory.settled);
        (self.decisions, self.waits, self.recalled) = (0, 0, true);
        // A store that was tampered with: it is kept by configuration, which says the kind.
        if discriminant(&self.bandit) != discriminant(&self.fresh) {
            self.start(std::iter::empty());
        }
    }
}
