//! LinUCB: learns from what arrives in order whether to wait for the fast path or to use the slow one.

mod config;
mod pair_model;

pub use config::LinucbConfig;
pub(crate) use config::{check_probability, is_default};
pub(crate) use pair_model::Bandit;
use pair_model::PairModel;

use std::time::Instant;

use mpquic_bandit::{Draw, Refused};

use super::features::Features;
use super::wait::{Choice, Common, LearnedWait, WaitRule};
use crate::{Arm, LearnedPair, PathIndex};

/// The deterministic part of Peekaboo: a linear bandit decides whether to wait.
///
/// **Rule.** `f` is the path with the smallest smoothed RTT, `s` the one with the smallest among
/// those with room ([`sendable`](crate::Context::sendable)). If they are the same, send. Otherwise one of two arms is
/// chosen: `tx`, send one packet on `s`, or `wt`, wait until `f` has room. The context is
///
/// ```text
/// x = [W_f/R_f, I_f/R_f, C/R_f, W_s/R_s, I_s/R_s, C/R_s] / scale
/// ```
///
/// with W the congestion windows, I the bytes in flight, R the smoothed RTTs, C what the
/// peer's flow control leaves ([`QueueView::flow_control_window`](crate::QueueView::flow_control_window), taken as 1 GiB at most);
/// bytes per millisecond, over 1000 by default. The arm with the larger θ·x + α sqrt(x' A⁻¹ x)
/// is chosen ([`LinUcb`](mpquic_bandit::LinUcb)), `tx` if they are equal, as they are before any reward. It is then
/// kept with the probability `p_tx` or `p_wt` of that arm, 1 by default, else the other one is
/// taken. With `with_room`, the same is asked while `f` has room and another path, `s`, has it too: `tx` is then to send on
/// `s`, `wt` to send on `f`, which has what waiting would bring. There is one model for each ordered pair (`f`, `s`), so that any number of paths works; a
/// new pair's starts from the mean of the others.
///
/// **Reward.** What the packets sent from the decision on bring, as they are released in order over
/// all paths: [`Reward`](crate::Reward), by default the discounted rates of
/// [`DiscountedReward`](mpquic_bandit::DiscountedReward) with T_ref = max(2 · (R_f + s_f), R_s + s_s),
/// s being the RTT variations. It is complete after 66 packets or 3 T_ref, and learned by
/// the arm that was taken, strictly in the order of the decisions. Lost data
/// counts when what was sent in its place fills the hole; a silent path brings rewards of 0 for
/// as long as decisions are made, and no more than that. Data of several streams counts as if it were
/// one sequence: with streams of different priority that is an approximation. Datagrams count
/// for nothing. Decisions that are open when the connection ends are settled then, if all that was sent
/// has arrived: they are those about the end of the data.
///
/// **When it waits** for `f`, that stands until `f` has room, another path is the fast one, or the
/// wait has lasted `f`'s probe timeout: then one packet goes on `s`, and the next decision is a new
/// one. All else, lost data, control frames, datagrams, pacers, paths in trouble or without a
/// sample, is as with [`Ecf`](crate::Ecf).
///
/// **What is forgotten.** When a path ends or moves, what its pairs have learned, unless there is a
/// [memory](crate::memory), and the open decisions that it was part of; when a stream is reset, all open decisions. Open
/// decisions are also dropped, oldest first, beyond 1024 or once 4096 packets of new data were sent
/// since. With `discount` below 1, samples fade.
///
/// **Source.** Wu, Alay, Brunstrom, Ferlin, Caso: *Peekaboo*, IEEE JSAC 2020, section III-A and
/// Algorithm 1; Li, Chu, Langford, Schapire, WWW 2010. Ours: the scale (the paper's features are
/// bytes per millisecond, its public code's bytes per nanosecond, and only the scale makes either
/// explore to some extent); the first packet's time counts from the decision; the models
/// per pair; the bound on waiting.
///
/// **Cost.** A decision: one walk over the slots, the two scores (some 200 flops), 150 bytes
/// written. A packet sent or acknowledged: O(1). A reward: 66 multiplications and one update, 300
/// flops; they are put off from the acknowledgement that completes it until the next decision between two paths, which
/// is the first to depend on it, or until something else shows it. Memory, once there is a second path: 200 KiB (`own_ack`: 96 KiB more), and 4 KiB a pair.
///
/// ```
/// use mpquic_sched::{Linucb, LinucbConfig, Registry};
/// use serde_json::json;
///
/// let config: LinucbConfig = serde_json::from_value(json!({"p_wt": 0.5, "reward": "packet"}))?;
/// assert_eq!((config.alpha, config.scale), (0.8, 1000.0));
/// let one = Linucb::new(&config);
///
/// let wrong = Registry::new().build("linucb", &json!({"alpha": -1})).err().unwrap();
/// assert_eq!(
///     wrong.to_string(),
///     "scheduler `linucb`, field `alpha`: expected 0 to 1000, got -1",
/// );
/// # drop(one);
/// # Ok::<(), serde_json::Error>(())
/// ```
pub type Linucb = LearnedWait<LinucbRule>;

/// The rule of [`Linucb`].
pub struct LinucbRule {
    config: LinucbConfig,
    /// For pairs to start with.
    fresh: Bandit,
}

impl WaitRule for LinucbRule {
    const NAME: &'static str = "linucb";

    type Config = LinucbConfig;
    type Pair = PairModel;
    type Mark = ();

    const PUTS_OFF: bool = true;

    fn new(config: &LinucbConfig) -> Self {
        Self {
            config: config.clone(),
            fresh: Bandit::new(config),
        }
    }

    fn config(&self) -> &LinucbConfig {
        &self.config
    }

    fn common(config: &LinucbConfig) -> Common {
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
        PairModel::new(self.fresh.clone())
    }

    #[inline]
    fn choose(
        &self,
        pair: &mut PairModel,
        context: &Features,
        _now: Instant,
        draw: &mut Draw,
    ) -> Choice<()> {
        let scores = pair.scores(self.config.alpha, context);
        let chosen = Arm::largest(scores);
        let kept = draw.chance(match chosen {
            Arm::Send => self.config.p_tx,
            Arm::Wait => self.config.p_wt,
        });
        let arm = if kept { chosen } else { chosen.other() };
        pair.did(arm);
        Choice {
            scores,
            chosen,
            arm,
            mark: Some(()),
        }
    }

    #[inline]
    fn learn(
        &self,
        pair: &mut PairModel,
        _mark: (),
        arm: Arm,
        context: &Features,
        reward: f64,
        _now: Instant,
    ) -> Result<(), Refused> {
        pair.learn(arm, context, reward)
    }

    fn report(&self, pair: &PairModel, fast: PathIndex, slow: PathIndex) -> LearnedPair {
        let mut report = pair.report(fast, slow);
        report.alpha = Some(self.config.alpha);
        (report.p_tx, report.p_wt) = (Some(self.config.p_tx), Some(self.config.p_wt));
        report
    }
}
