//! Settings of `peekaboo` and their ranges.

use mpquic_bandit::Boundaries;
use serde::{Deserialize, Serialize};

use crate::learned::{check_probability, is_default};
use crate::{FeatureRtt, FirstPacket, InvalidConfig, LinucbConfig, Reward};

/// How [`Peekaboo`](crate::Peekaboo) looks for α.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Tuning {
    /// Around 0.8: seven candidates ([`AlphaTuning::fast`](mpquic_bandit::AlphaTuning::fast)).
    #[default]
    Fast,
    /// From 0 up, then around the best: at most twelve candidates
    /// ([`AlphaTuning::full`](mpquic_bandit::AlphaTuning::full)).
    Full,
}

/// Which bytes use up the budgets of [`Peekaboo`](crate::Peekaboo)'s stages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BudgetOf {
    /// Those released in order while the pair was in question: no longer than T_ref after its last decision (ours).
    #[default]
    Question,
    /// All that were released in order since its first decision, as the paper counts "4 MB of normal traffic". They
    /// count for the pair of the last decision.
    Released,
}

/// What [`Peekaboo`](crate::Peekaboo) compares q with in deployment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reference {
    /// With q of the first full window in deployment (ours): that decisions are not kept changes what all others earn,
    /// and q with it.
    #[default]
    Deployment,
    /// With q of the learning stage, as in the paper. For an arm that was judged too rarely there, as with
    /// [`Deployment`](Self::Deployment).
    Learning,
}

/// Settings of [`Peekaboo`](crate::Peekaboo).
///
/// The stages' budgets are in bytes that were released in order, [`BudgetOf`] says which; a
/// stage with a budget of 0 is left out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PeekabooConfig {
    /// What features and rewards are divided by, bytes per millisecond, 1e-6 to 1e12. Default 1000;
    /// see [`LinucbConfig::scale`] for what it decides.
    pub scale: f64,
    /// The ridge λ of the regression, in units of a squared feature, 1e-6 to 1e6. Default 1.
    pub ridge: f64,
    /// After how many updates of an arm its inverse is computed anew, 1 to 65,536. Default 256.
    pub reinvert_every: u32,
    /// Where the random numbers begin. Default 0.
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
    /// Which bytes use up a budget: those while the pair was in "question", the default (ours), or all that were
    /// "released".
    #[serde(skip_serializing_if = "is_default")]
    pub budget_of: BudgetOf,
    /// The budget of the first stage, which never waits, bytes. Default 750,000 (ours).
    pub tx_bytes: u64,
    /// The budget of the second stage, which never uses the slow path, bytes. Default 750,000
    /// (ours).
    pub wt_bytes: u64,
    /// How α is looked for: "fast", the default, or "full".
    pub tuning: Tuning,
    /// The budget of each candidate for α, bytes. Default 350,000 (ours). With 0, α is not needed.
    pub candidate_bytes: u64,
    /// The budget of the estimation of q, e and f, bytes. Default 350,000 (ours).
    pub estimate_bytes: u64,
    /// How many rewards a stage, or a candidate, waits for beyond its budget, up to 8 times of it.
    /// Default 32 (ours).
    pub samples: u32,
    /// How many choices of an arm must have been judged for its q to count, in estimation and in
    /// deployment, 1 to `window`. Default 50 (ours).
    pub least: u32,
    /// `low`, `high`, `keep_wrong`, `keep_right` of the stochastic adjustment, each a probability.
    /// Default 0.3, 0.7, 0.1, 0.9.
    pub boundaries: Boundaries,
    /// Over how many judged decisions q is watched in deployment, 1 to 256. Default 200 (ours).
    pub window: u32,
    /// In deployment, every how manyth decision is judged, 1 to 1024. Default 8 (ours).
    pub judge_every: u32,
    /// What q is compared with: that of the beginning of "deployment", the default (ours), or that of "learning".
    #[serde(skip_serializing_if = "is_default")]
    pub reference: Reference,
    /// Whether to relearn when q has changed. Default true.
    pub relearn: bool,
    /// By how much q must have changed for that, 0 to 1. Default 0.175.
    pub threshold: f64,
    /// How long to deploy at least between two learning stages, milliseconds. Default 2000 (ours).
    pub pause_ms: u64,
    /// How much a sample weighs one update later, 0.5 to 1. Default 1: nothing is forgotten. Below 1,
    /// the model goes on learning in deployment and forgets
    /// ([`DiscountedLinUcb`](mpquic_bandit::DiscountedLinUcb)), in place of learning anew, whatever
    /// `relearn` is (ours).
    pub discount: f64,
}

/// The largest window of judged decisions.
pub(super) const MOST_JUDGED: usize = 256;

impl Default for PeekabooConfig {
    fn default() -> Self {
        let LinucbConfig {
            scale,
            ridge,
            reinvert_every,
            ..
        } = LinucbConfig::default();
        Self {
            scale,
            ridge,
            reinvert_every,
            seed: 0,
            reward: Reward::default(),
            first_packet: FirstPacket::default(),
            features: FeatureRtt::default(),
            backlog: false,
            with_room: false,
            budget_of: BudgetOf::default(),
            tx_bytes: 750_000,
            wt_bytes: 750_000,
            tuning: Tuning::default(),
            candidate_bytes: 350_000,
            estimate_bytes: 350_000,
            samples: 32,
            least: 50,
            boundaries: Boundaries::default(),
            window: 200,
            judge_every: 8,
            reference: Reference::default(),
            relearn: true,
            threshold: 0.175,
            pause_ms: 2000,
            discount: 1.0,
        }
    }
}

impl PeekabooConfig {
    pub(crate) fn check(&self) -> Result<(), InvalidConfig> {
        self.bandit().check()?;
        let Boundaries {
            low,
            high,
            keep_wrong,
            keep_right,
        } = self.boundaries;
        for (field, p) in [
            ("low", low),
            ("high", high),
            ("keep_wrong", keep_wrong),
            ("keep_right", keep_right),
        ] {
            check_probability(field, p).map_err(|problem| problem.within("boundaries"))?;
        }
        if high < low {
            let expected = format!("expected no less than `low`, {low}, got {high}");
            return Err(InvalidConfig::field("high", expected).within("boundaries"));
        }
        let most = MOST_JUDGED as u32;
        for (field, value, most) in [
            ("window", self.window, most),
            ("judge_every", self.judge_every, 1024),
            ("least", self.least, self.window),
        ] {
            if !(1..=most).contains(&value) {
                let expected = format!("expected 1 to {most}, got {value}");
                return Err(InvalidConfig::field(field, expected));
            }
        }
        if !(0.0..=1.0).contains(&self.threshold) {
            let expected = format!("expected 0 to 1, got {}", self.threshold);
            return Err(InvalidConfig::field("threshold", expected));
        }
        Ok(())
    }

    /// The settings of the model that `linucb` and this one share.
    pub(super) fn bandit(&self) -> LinucbConfig {
        LinucbConfig {
            scale: self.scale,
            ridge: self.ridge,
            reinvert_every: self.reinvert_every,
            discount: self.discount,
            ..LinucbConfig::default()
        }
    }

    /// Whether to relearn rather than to forget.
    pub(super) fn learns_anew(&self) -> bool {
        self.relearn && self.discount >= 1.0
    }
}
