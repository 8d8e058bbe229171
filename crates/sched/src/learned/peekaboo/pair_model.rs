//! What `peekaboo` learns of one pair of paths, stage by stage.

use std::time::{Duration, Instant};

use mpquic_bandit::{
    Adjustment, AlphaTuning, Draw, History, Outcome, Refused, RegretWindow, Regrets,
};
use serde::{Deserialize, Serialize};

use super::config::{MOST_JUDGED, PeekabooConfig, Reference, Tuning};
use crate::learned::features::{DIMENSIONS, Features};
use crate::learned::linucb::Bandit;
use crate::learned::pairs::PairState;
use crate::learned::wait::Choice;
use crate::{Arm, LearnedPair, PathIndex};

/// Samples that each arm's history keeps.
const SAMPLES: usize = 128;

/// A stage ends at the latest once so many times its budget were released on the connection, whatever
/// the pair had of it.
const PATIENCE: u64 = 8;

pub(super) type ArmHistory = History<DIMENSIONS, SAMPLES>;

/// What is done with a pair, in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Stage {
    /// Never waits (p_wt = 0), and keeps what transmitting earns.
    #[default]
    NeverWait,
    /// Never uses the slow path (p_tx = 0), and keeps what waiting earns.
    NeverSend,
    /// LinUCB, with one candidate for alpha after the other.
    Tuning,
    /// LinUCB without a bonus, to see how often it is right.
    Estimation,
    /// The same, not always obeyed.
    Deployment,
}

impl Stage {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::NeverWait => "learning: never wait",
            Self::NeverSend => "learning: never use the slow path",
            Self::Tuning => "learning: tuning of alpha",
            Self::Estimation => "learning: estimation of q",
            Self::Deployment => "deployment",
        }
    }
}

/// When a decision was made, as far as its reward is concerned.
#[derive(Debug, Clone, Copy, Default)]
pub struct Mark {
    /// What the arm that was not done has earned in the nearest context: what the reward is judged against. Not a number
    /// if the decision is not to be judged, or if there is nothing to judge it against.
    other: f32,
    round: u16,
    stage: Stage,
    candidate: u8,
    /// What the model chose; what was done may be the other one.
    chosen: Arm,
}

impl Mark {
    /// By how much what the model chose is better than the other arm, if that is to be known: one of them was done and
    /// earned this, and the other one's history tells what it would have earned.
    #[inline]
    fn judge(&self, arm: Arm, reward: f64) -> Option<Outcome> {
        let other = f64::from(self.other);
        if other.is_nan() {
            return None;
        }
        let margin = if self.chosen == arm {
            reward - other
        } else {
            other - reward
        };
        Some(Outcome::new(self.chosen.index(), margin))
    }
}

/// The state of one ordered pair (f, s).
#[derive(Debug, Clone)]
pub struct PairModel {
    pub(super) bandit: Bandit,
    /// One that has learned nothing.
    fresh: Bandit,
    /// How often it has begun to learn: what earlier rounds' decisions earn says nothing any more.
    round: u16,
    pub(super) stage: Stage,
    /// Bytes of the stage's budget that are used up.
    pub(super) bytes: u64,
    /// What the connection had released at the stage's first decision.
    begun: Option<u64>,
    pub(super) histories: Box<[ArmHistory; 2]>,
    pub(super) tuning: AlphaTuning,
    pub(super) alpha: f64,
    /// The decisions of the candidate, or of the estimation.
    pub(super) judged: Regrets,
    pub(super) adjustment: Adjustment,
    /// What q was in the beginning of deployment; `None` before, and of an arm hardly ever chosen.
    pub(super) reference: [Option<f64>; 2],
    pub(super) window: Box<RegretWindow<MOST_JUDGED>>,
    /// When this deployment began, in this connection.
    deployed: Option<Instant>,
    /// Until the next decision in deployment that is judged.
    skip: u32,
    decisions: u64,
    waits: u64,
    pub(super) settled: u64,
    relearned: u64,
    pub(super) recalled: bool,
}

impl PairModel {
    pub(super) fn new(fresh: Bandit, config: &PeekabooConfig) -> Self {
        // Two streams of numbers of their own, apart from that of the adjustment.
        let history = |arm: u64| History::new(config.seed ^ ((arm + 1) << 62));
        let mut model = Self {
            bandit: fresh.clone(),
            fresh,
            round: 0,
            stage: Stage::default(),
            bytes: 0,
            begun: None,
            histories: Box::new([history(0), history(1)]),
            tuning: search(config),
            alpha: 0.0,
            judged: Regrets::default(),
            adjustment: Adjustment::KEEP,
            reference: [None; 2],
            window: Box::new(RegretWindow::of(config.window as usize)),
            deployed: None,
            skip: 0,
            decisions: 0,
            waits: 0,
            settled: 0,
            relearned: 0,
            recalled: false,
        };
        model.start_over();
        model
    }

    /// Learning begins, with whatever model there is.
    fn start_over(&mut self) {
        self.round = self.round.wrapping_add(1);
        self.stage = Stage::NeverWait;
        (self.bytes, self.begun, self.deployed) = (0, None, None);
        self.histories.iter_mut().for_each(History::clear);
        self.tuning = self.tuning.restarted();
        self.alpha = self.tuning.best();
        self.judged = Regrets::default();
        self.adjustment = Adjustment::KEEP;
        self.reference = [None; 2];
        self.window.clear();
    }

    /// The decision in this context; the connection has released so many bytes by now.
    #[inline]
    pub(super) fn choose(
        &mut self,
        x: &Features,
        now: Instant,
        released: u64,
        config: &PeekabooConfig,
        draw: &mut Draw,
    ) -> Choice<Mark> {
        if self.stage == Stage::Deployment {
            // Of a model that was recalled from memory.
            self.deployed.get_or_insert(now);
        } else {
            self.be_on_time(now, released, config);
        }
        let scores = match self.stage {
            Stage::Tuning => self.bandit.scores(self.alpha, x),
            _ => self.bandit.means(x),
        };
        let chosen = Arm::largest(scores);
        let arm = match self.stage {
            Stage::NeverWait => Arm::Send,
            Stage::NeverSend => Arm::Wait,
            Stage::Tuning | Stage::Estimation => chosen,
            Stage::Deployment => match self.adjustment.select(chosen.index(), draw) {
                0 => Arm::Send,
                _ => Arm::Wait,
            },
        };
        self.decisions += 1;
        self.waits += u64::from(arm == Arm::Wait);
        let deployed = self.stage == Stage::Deployment;
        let judged = deployed && self.skip == 0;
        self.skip = match (deployed, self.skip) {
            (true, 0) => config.judge_every - 1,
            (_, skip) => skip.saturating_sub(1),
        };
        let wanted = !deployed || judged || config.discount < 1.0;
        Choice {
            scores,
            chosen,
            arm,
            mark: wanted.then(|| self.mark(x, chosen, arm, judged)),
        }
    }

    /// For a decision of the model that is to be learned from or, in deployment, judged.
    #[inline(never)]
    fn mark(&self, x: &Features, chosen: Arm, arm: Arm, judged: bool) -> Mark {
        let judged = match self.stage {
            Stage::NeverWait | Stage::NeverSend => false,
            Stage::Tuning | Stage::Estimation => true,
            Stage::Deployment => judged,
        };
        // When the reward is complete, the answer would still be the same: what is judged in this round is decided after
        // the histories were frozen. But the context would have left the cache by then, and an acknowledgement that
        // completes several rewards would take so many times longer.
        let other = match judged {
            true => self.histories[arm.other().index()].nearest(x),
            false => None,
        };
        Mark {
            // Histories keep rewards in this precision.
            other: other.map_or(f32::NAN, |other| other as f32),
            round: self.round,
            stage: self.stage,
            candidate: self.tuning.tried() as u8,
            chosen,
        }
    }

    /// Leaves stages that have no budget, and one that has taken too long.
    fn be_on_time(&mut self, now: Instant, released: u64, config: &PeekabooConfig) {
        let begun = *self.begun.get_or_insert(released);
        if self.budget(config).is_some_and(|budget| {
            budget == 0 || released.saturating_sub(begun) >= budget.saturating_mul(PATIENCE)
        }) {
            self.next_stage(now, config);
        }
        while self.budget(config) == Some(0) {
            self.next_stage(now, config);
        }
        self.begun.get_or_insert(released);
    }

    /// Whether bytes are counted at all: the last stage has no end.
    #[inline]
    pub(super) const fn counts(&self, config: &PeekabooConfig) -> bool {
        self.budget(config).is_some()
    }

    /// So many bytes were released in order while the pair was in question.
    #[inline]
    pub(super) fn count(&mut self, bytes: u64, now: Instant, config: &PeekabooConfig) {
        if let Some(budget) = self.budget(config) {
            self.bytes = self.bytes.saturating_add(bytes);
            if self.bytes >= budget && self.samples() >= u64::from(config.samples) {
                self.next_stage(now, config);
            }
        }
    }

    /// How many of the decisions of the stage, or of the candidate, have told something.
    ///
    /// Rewards come three T_ref late: over fast paths with long RTTs, the whole budget of a stage may be
    /// gone before the first.
    fn samples(&self) -> u64 {
        match self.stage {
            Stage::NeverWait => self.histories[Arm::Send.index()].seen(),
            Stage::NeverSend => self.histories[Arm::Wait.index()].seen(),
            Stage::Tuning | Stage::Estimation | Stage::Deployment => {
                u64::from(self.judged.chosen(0)) + u64::from(self.judged.chosen(1))
            }
        }
    }

    /// That of the stage, or of the candidate; `None` for the last, which has no end.
    const fn budget(&self, config: &PeekabooConfig) -> Option<u64> {
        match self.stage {
            Stage::NeverWait => Some(config.tx_bytes),
            Stage::NeverSend => Some(config.wt_bytes),
            Stage::Tuning => Some(config.candidate_bytes),
            Stage::Estimation => Some(config.estimate_bytes),
            Stage::Deployment => None,
        }
    }

    fn next_stage(&mut self, now: Instant, config: &PeekabooConfig) {
        (self.bytes, self.begun) = (0, None);
        match self.stage {
            Stage::NeverWait => self.stage = Stage::NeverSend,
            Stage::NeverSend => {
                self.histories.iter_mut().for_each(History::freeze);
                self.judged = Regrets::default();
                self.stage = Stage::Tuning;
            }
            Stage::Tuning => {
                let over = config.candidate_bytes == 0 || {
                    self.tuning
                        .score(self.judged.q_of_all().unwrap_or(f64::NAN));
                    self.tuning.candidate().is_none()
                };
                self.judged = Regrets::default();
                self.alpha = self.tuning.best();
                if over {
                    self.stage = Stage::Estimation;
                }
            }
            Stage::Estimation => {
                let least = config.least;
                self.adjustment = Adjustment::of(&self.judged, &config.boundaries, least);
                if config.reference == Reference::Learning {
                    let known = |arm| {
                        self.judged
                            .q(arm)
                            .filter(|_| self.judged.chosen(arm) >= least)
                    };
                    self.reference = [known(0), known(1)];
                }
                self.deployed = Some(now);
                self.stage = Stage::Deployment;
            }
            Stage::Deployment => {}
        }
        if self.stage == Stage::Tuning {
            self.alpha = self
                .tuning
                .candidate()
                .unwrap_or_else(|| self.tuning.best());
        }
    }

    /// A decision's reward is complete. Whether that was something to learn from.
    ///
    /// # Errors
    ///
    /// What the model refuses.
    #[inline]
    pub(super) fn settle(
        &mut self,
        mark: Mark,
        arm: Arm,
        x: &Features,
        reward: f64,
        now: Instant,
        config: &PeekabooConfig,
    ) -> Result<(), Refused> {
        if mark.round != self.round {
            return Ok(());
        }
        self.settled += 1;
        if mark.stage != Stage::Deployment || config.discount < 1.0 {
            self.bandit.update(arm, x, reward)?;
        }
        match mark.stage {
            Stage::NeverWait | Stage::NeverSend => self.keep(mark.stage, x, reward),
            Stage::Tuning | Stage::Estimation => {
                if (mark.stage, mark.candidate) == (self.stage, self.tuning.tried() as u8)
                    && let Some(outcome) = mark.judge(arm, reward)
                {
                    self.judged.add(outcome);
                }
            }
            Stage::Deployment => {
                if let Some(outcome) = mark.judge(arm, reward) {
                    self.window.push(outcome);
                    self.watch(now, config);
                }
            }
        }
        Ok(())
    }

    /// What the arm of this stage, one of the first two, has earned.
    #[inline(never)]
    fn keep(&mut self, stage: Stage, x: &Features, reward: f64) {
        let arm = match stage {
            Stage::NeverWait => Arm::Send,
            _ => Arm::Wait,
        };
        self.histories[arm.index()].push(x, reward);
    }

    /// In deployment, q of the window against what it was.
    ///
    /// By default not against what it was in estimation: that every tenth choice is not kept changes what the
    /// other nine earn, all data being released in order, and with it q.
    fn watch(&mut self, now: Instant, config: &PeekabooConfig) {
        let full = self.window.len() >= config.window as usize;
        let watched = config.reference == Reference::Deployment && self.reference != [None; 2];
        if !full && !watched {
            return;
        }
        for arm in 0..2 {
            let Some(q) = self.window.regrets().q(arm) else {
                continue;
            };
            if self.window.regrets().chosen(arm) < config.least {
                continue;
            }
            match self.reference[arm] {
                None => self.adopt(arm, q, config),
                Some(before) if (q - before).abs() <= config.threshold => {}
                Some(_) => {
                    if self.may_learn_anew(now, config) {
                        self.learn_anew();
                        return;
                    }
                }
            }
        }
    }

    /// Whether it is allowed to, and has deployed for long enough.
    #[inline(never)]
    fn may_learn_anew(&self, now: Instant, config: &PeekabooConfig) -> bool {
        let pause = Duration::from_millis(config.pause_ms);
        let rested = |since: Instant| now.saturating_duration_since(since) >= pause;
        config.learns_anew() && self.deployed.is_some_and(rested)
    }

    /// From now on, q of this arm is to be what it is. If it could not be estimated before, p follows
    /// from it.
    fn adopt(&mut self, arm: usize, q: f64, config: &PeekabooConfig) {
        self.reference[arm] = Some(q);
        if self.judged.chosen(arm) < config.least {
            let of_window = Adjustment::of(self.window.regrets(), &config.boundaries, config.least);
            let mut keep: [f64; 2] = self.adjustment.into();
            keep[arm] = of_window.keep(arm);
            self.adjustment = Adjustment::fixed(keep).unwrap_or(self.adjustment);
        }
    }

    #[cold]
    fn learn_anew(&mut self) {
        self.bandit.clone_from(&self.fresh);
        self.start_over();
        self.relearned += 1;
    }

    pub(super) fn report(&self, fast: PathIndex, slow: PathIndex) -> LearnedPair {
        let mut pair = LearnedPair::new(fast, slow);
        pair.stage = Some(self.stage.name().into());
        (pair.decisions, pair.waits) = (self.decisions, self.waits);
        (pair.settled, pair.relearned) = (self.settled, self.relearned);
        pair.recalled = self.recalled;
        pair.alpha = Some(self.alpha);
        if self.stage == Stage::Deployment {
            pair.p_tx = Some(self.adjustment.keep(0));
            pair.p_wt = Some(self.adjustment.keep(1));
        }
        let known = |arm| self.judged.q(arm);
        (pair.q_tx, pair.q_wt) = (known(0), known(1));
        if self.judged.q_of_all().is_some() {
            (pair.f, pair.e) = (Some(self.judged.regret(0)), Some(self.judged.regret(1)));
        }
        pair
    }
}

/// The search for alpha that the configuration asks for.
fn search(config: &PeekabooConfig) -> AlphaTuning {
    match config.tuning {
        Tuning::Fast => AlphaTuning::fast(),
        Tuning::Full => AlphaTuning::full(),
    }
}

impl PairState for PairModel {
    type Memory = super::memory::Memory;

    fn start<'a>(&mut self, others: impl Iterator<Item = &'a Self> + Clone) {
        let mean = Bandit::mean_of(others.map(|other| &other.bandit));
        self.bandit = mean.unwrap_or_else(|| self.fresh.clone());
        self.start_over();
        (self.decisions, self.waits, self.settled) = (0, 0, 0);
        (self.relearned, self.recalled) = (0, false);
    }

    fn memory(&self) -> Option<Self::Memory> {
        (self.settled > 0).then(|| Self::Memory::of(self))
    }

    fn recall(&mut self, memory: Self::Memory) {
        self.start_over();
        memory.restore(self);
        (self.decisions, self.waits, self.relearned) = (0, 0, 0);
        self.recalled = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pair_takes_what_the_documentation_says() {
        let histories = size_of::<[ArmHistory; 2]>();
        let window = size_of::<RegretWindow<MOST_JUDGED>>();
        let bytes = size_of::<PairModel>() + histories + window;
        assert!(
            (14_000..16_384).contains(&bytes),
            "{bytes} {histories} {window}"
        );
    }
}
