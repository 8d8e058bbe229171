//! Peekaboo: learns, stage by stage, whether to wait and how far to trust what it learned; its parts are elsewhere.

mod config;
mod memory;
mod pair_model;

pub use config::{BudgetOf, PeekabooConfig, Reference, Tuning};

use std::time::Instant;

use mpquic_bandit::{Draw, Refused};

use super::features::Features;
use super::linucb::Bandit;
use super::wait::{Choice, Common, LearnedWait, WaitRule};
use crate::support::nanos;
use crate::{Arm, LearnedPair, PathIndex};
use pair_model::{Mark, PairModel};

/// The complete Peekaboo: [`Linucb`](crate::Linucb) that tunes its own α, finds out how often it is
/// right, follows its own advice no more often than that, and relearns when its reward drifts.
///
/// **Rule.** Of each two paths, the faster one `f` full and the slower one `s` not, the choice is as
/// in [`Linucb`](crate::Linucb): `tx`, send a packet on `s`, or `wt`, wait until `f` has room; same
/// context x, same reward R, same waits. What decides depends on the stage of the ordered pair
/// (`f`, `s`):
///
/// | stage | decision | what for | budget |
/// |---|---|---|---|
/// | 1, never wait | always `tx` | history of (x, R) of `tx` | `tx_bytes`, 0.75 MB |
/// | 2, never use `s` | always `wt` | history of `wt` | `wt_bytes`, 0.75 MB |
/// | 3, tuning | LinUCB with a candidate for α | the α with the best q | `candidate_bytes`, 7 times 0.35 MB |
/// | 4, estimation | the larger θ·x | q, e, f and with them p | `estimate_bytes`, 0.35 MB |
/// | 5, deployment | the larger θ·x, kept with p_tx or p_wt, else the other arm | | |
///
/// A decision is *judged* against what the other arm earned in the context nearest to its own, by
/// Mahalanobis distance in the other arm's [`History`](mpquic_bandit::History). q_a is the share of
/// the choices of arm a that had more, e and f are the mean [regrets](mpquic_bandit::Regrets) of
/// waiting and of transmitting, and from these [`Adjustment`](mpquic_bandit::Adjustment) makes
/// p_tx and p_wt. α is looked for by [`AlphaTuning`](mpquic_bandit::AlphaTuning), with q over both
/// arms as the score. The model learns in all stages but the last.
///
/// In deployment q is watched over a window of 200 judged decisions. Once it is off by more than
/// 0.175 from what it was in the first full window, for either arm, all of the pair's knowledge is
/// dropped and stage 1 begins again, no earlier than 2 s after deployment did. With `discount` below 1 the pair does not learn
/// anew: the model goes on learning and forgets instead, while p stays as it was estimated.
///
/// **What counts as a byte of a budget.** Bytes that became contiguous at the receiver, on whichever
/// path, while the pair was the last one that a decision was made for, and no longer than T_ref after
/// that decision. Idle times and traffic that never fills `f` use up no budget. With `budget_of` = "released", all
/// bytes count, as in the paper. Rewards come three
/// T_ref late, and over fast paths with long RTTs a budget may be gone by then: a stage, or a candidate,
/// goes on until 32 of its decisions (`samples`) have been settled. But it ends with the first decision
/// after 8 times its budget was released on the connection since its first decision, whatever there is
/// to go by: so does one of a pair that is seldom in question.
///
/// **What learning does to the traffic.** Of a pair's first 4.3 MB (up to 8 times as many where rewards
/// are late), 0.75 MB are sent as with [`MinRtt`](crate::MinRtt), 0.75 MB as if the slow path were not
/// there, the rest as LinUCB has it. Stage 2 is the expensive one: with paths of equal rate its 0.75 MB
/// take twice as long. Nothing is
/// held back for longer than in any other wait: `f`'s probe timeout, after which a packet goes on
/// `s`; and a path in trouble is not waited for, so that if `f` dies the other paths carry on at
/// once when it is found out. With more than two paths, each ordered pair that comes up goes through the stages by itself.
/// Connections too short for all stages learn only if there is a [memory](crate::memory), in which a
/// pair is kept at the point that it has reached.
///
/// **Which decisions are judged.** All in stages 3 and 4, which a scan over 128 contexts (some 130 ns)
/// makes the dearest. What the other arm has earned is looked up with the decision, and not when its reward is complete:
/// by then the answer would be the same. In deployment one in 8 (`judge_every`), and the others' rewards are not even
/// added up: the window spans 1600 decisions, and neighbours share most of their rewards anyway.
/// Histories keep 128 samples for each arm, of more a random choice.
///
/// **Source.** Wu, Alay, Brunstrom, Ferlin, Caso: *Peekaboo*, IEEE JSAC 2020, Algorithm 4 and section
/// III-B. The public code has none of it: its scheduler `peek` is `mpquic_lab::replica::PeekFrozen`,
/// its `lowband` is [`Linucb`](crate::Linucb). Ours, where the paper is silent or breaks down:
///
/// - all that is ours in [`Linucb`](crate::Linucb), the scale of the features in particular;
/// - the split of the paper's 4 MB, and stage 4, so that q is measured of the policy
///   that is deployed and not of one with a bonus;
/// - the score of α counts both arms; p is 1 for an arm that was judged fewer than `least` times,
///   until it has been in deployment, when it follows from the window, and where e + f = 0;
/// - in deployment q judges what the model chose, also where chance took the other arm: what was
///   done then earned R, and the history tells what the choice would have;
/// - q is watched against the beginning of deployment, not against stage 4 (`reference` = "learning"): decisions that are not kept
///   change what all others earn, data being released in order, so that q moves when p begins to
///   apply;
/// - the bounds on windows, pauses, samples and time; the model's part in stages 1 and 2.
///
/// **Cost.** A decision: one walk over the slots, six divisions, some 30 flops in deployment (200 while
/// tuning), a draw; a scan of 1,800 flops and 150 bytes written if it is to be judged. A packet sent or acknowledged: O(1).
/// A settled decision: 66 multiplications; 300 flops to learn. The end of stage
/// 2 factors two covariances, some 12 µs, once. Memory, once there is a second path: 208 KiB (`own_ack`: 96 KiB more), and 16 KiB
/// for each ordered pair (histories 9, models 4, window 2).
///
/// ```
/// use mpquic_sched::{Peekaboo, PeekabooConfig, Registry};
/// use serde_json::json;
///
/// let config: PeekabooConfig =
///     serde_json::from_value(json!({"tuning": "full", "boundaries": {"keep_right": 1.0}}))?;
/// assert_eq!((config.threshold, config.boundaries.low), (0.175, 0.3));
/// let one = Peekaboo::new(&config);
///
/// let wrong = Registry::new().build("peekaboo", &json!({"window": 1000})).err().unwrap();
/// assert_eq!(
///     wrong.to_string(),
///     "scheduler `peekaboo`, field `window`: expected 1 to 256, got 1000",
/// );
/// # drop(one);
/// # Ok::<(), serde_json::Error>(())
/// ```
pub type Peekaboo = LearnedWait<PeekabooRule>;

/// The rule of [`Peekaboo`].
pub struct PeekabooRule {
    config: PeekabooConfig,
    /// For pairs to start with.
    fresh: Bandit,
    /// Bytes that became contiguous on the connection.
    released: u64,
    question: Option<Question>,
    /// Whether its pair may have a budget, which bytes use up: not in deployment, for hours.
    counts: bool,
}

/// The last decision: whose bytes these are.
#[derive(Debug, Clone, Copy)]
struct Question {
    fast: PathIndex,
    slow: PathIndex,
    at: Instant,
    /// T_ref, milliseconds.
    reference: f64,
}

impl WaitRule for PeekabooRule {
    const NAME: &'static str = "peekaboo";

    type Config = PeekabooConfig;
    type Pair = PairModel;
    type Mark = Mark;

    fn new(config: &PeekabooConfig) -> Self {
        Self {
            config: config.clone(),
            fresh: Bandit::new(&config.bandit()),
            released: 0,
            question: None,
            counts: false,
        }
    }

    fn config(&self) -> &PeekabooConfig {
        &self.config
    }

    fn common(config: &PeekabooConfig) -> Common {
        Common {
            reward: config.reward,
            first_packet: config.first_packet,
            scale: config.scale,
            seed: config.seed,
            features: config.features,
            backlog: config.backlog,
            with_room: config.with_room,
        }
    }

    fn pair(&self) -> PairModel {
        PairModel::new(self.fresh.clone(), &self.config)
    }

    #[inline]
    fn choose(
        &self,
        pair: &mut PairModel,
        context: &Features,
        now: Instant,
        draw: &mut Draw,
    ) -> Choice<Mark> {
        pair.choose(context, now, self.released, &self.config, draw)
    }

    #[inline]
    fn learn(
        &self,
        pair: &mut PairModel,
        mark: Mark,
        arm: Arm,
        context: &Features,
        reward: f64,
        now: Instant,
    ) -> Result<(), Refused> {
        pair.settle(mark, arm, context, reward, now, &self.config)
    }

    fn report(&self, pair: &PairModel, fast: PathIndex, slow: PathIndex) -> LearnedPair {
        pair.report(fast, slow)
    }

    #[inline]
    fn on_decided(
        &mut self,
        pair: &PairModel,
        fast: PathIndex,
        slow: PathIndex,
        now: Instant,
        reference: f64,
    ) {
        self.counts = pair.counts(&self.config);
        self.question = Some(Question {
            fast,
            slow,
            at: now,
            reference,
        });
    }

    /// If this is the pair in question, it may have begun to learn anew.
    #[inline]
    fn on_learned(&mut self, pair: &PairModel) {
        self.counts |= pair.counts(&self.config);
    }

    #[inline]
    fn on_released(&mut self, bytes: u64) -> bool {
        self.released = self.released.saturating_add(bytes);
        self.counts
    }

    fn in_question(&self) -> Option<(PathIndex, PathIndex)> {
        let question = self.question?;
        Some((question.fast, question.slow))
    }

    #[inline]
    fn count(&self, pair: &mut PairModel, bytes: u64, now: Instant) {
        // First what is cheaper to find out.
        if pair.counts(&self.config) && self.is_in_question(now) {
            pair.count(bytes, now, &self.config);
        }
    }

    fn forget(&mut self, path: PathIndex) {
        let ended = |question: &Question| question.fast == path || question.slow == path;
        self.question = self.question.filter(|question| !ended(question));
    }
}

impl PeekabooRule {
    /// Whether what is released now is the last decision's.
    fn is_in_question(&self, now: Instant) -> bool {
        self.config.budget_of == BudgetOf::Released
            || self.question.is_some_and(|question| {
                let after = nanos(now.saturating_duration_since(question.at));
                after <= question.reference * 1e6
            })
    }
}
