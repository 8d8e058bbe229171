//! LinUCB: learns from what arrives in order whether to wait for the fast path or to use the slow one; tunes nothing by itself.

mod config;
mod model;

pub use config::LinucbConfig;
pub(crate) use config::check_probability;
pub(crate) use model::Bandit;

use std::fmt;
use std::time::Instant;

use mpquic_bandit::Draw;

use crate::arm::Observer;
use crate::credit::{Case, Credits, Earned};
use crate::features::credit;
use crate::memory::Recall;
use crate::pairs::Pairs;
use crate::sticky::StickyWaiting;
use crate::{
    Acked, Arm, Context, Decision, Learned, PathUpdate, PathView, Scheduler, Sent, Step,
    StreamUpdate,
};
use model::Model;

/// The deterministic part of Peekaboo: a linear bandit decides whether to wait.
///
/// **Rule.** `f` is the path with the smallest smoothed RTT, `s` the one with the smallest among
/// those with room ([`Context::sendable`]). If they are the same, send. Otherwise one of two arms is
/// chosen: `tx`, send one packet on `s`, or `wt`, wait until `f` has room. The context is
///
/// ```text
/// x = [W_f/R_f, I_f/R_f, C/R_f, W_s/R_s, I_s/R_s, C/R_s] / scale
/// ```
///
/// with W the congestion windows, I the bytes in flight, R the smoothed RTTs, C the credit that the
/// peer's windows leave ([`QueueView::credit`](crate::QueueView::credit), taken as 1 GiB at most);
/// bytes per millisecond, over 1000 by default. The arm with the larger θ·x + α sqrt(x' A⁻¹ x)
/// is chosen ([`LinUcb`](mpquic_bandit::LinUcb)), `tx` if they are equal, as they are before any reward. It is then
/// kept with the probability `p_tx` or `p_wt` of that arm, 1 by default, else the other one is
/// taken. There is one model for each ordered pair (`f`, `s`), so that any number of paths works; a
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
/// flops. Memory, once there is a second path: 192 KiB, and 4 KiB a pair.
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
pub struct Linucb {
    config: LinucbConfig,
    wait: StickyWaiting,
    pairs: Pairs<Model>,
    credits: Credits<()>,
    /// For pairs to start with.
    fresh: Bandit,
    draw: Draw,
    refused: u64,
    observer: Option<Observer>,
}

impl Linucb {
    /// A scheduler with these settings.
    ///
    /// # Panics
    ///
    /// If ridge, discount or re-inversion are out of their ranges; a [`Registry`](crate::Registry)
    /// checks all settings.
    pub fn new(config: &LinucbConfig) -> Self {
        Self::with_memory(config, Recall::none())
    }

    /// The same, which begins with what is remembered of its paths, and leaves there what it learns.
    ///
    /// # Panics
    ///
    /// As [`new`](Self::new).
    pub fn with_memory(config: &LinucbConfig, memory: Recall) -> Self {
        Self {
            config: config.clone(),
            wait: StickyWaiting::default(),
            pairs: Pairs::new(memory),
            credits: Credits::new(config.reward, config.scale),
            fresh: Bandit::new(config),
            draw: Draw::new(config.seed),
            refused: 0,
            observer: None,
        }
    }

    /// The same, and `observer` is told of each decision and of each reward, as they come. Without
    /// one, watching costs nothing.
    #[must_use]
    pub fn with_observer(mut self, observer: Box<dyn FnMut(&Step) + Send>) -> Self {
        self.observer = Some(observer);
        self
    }

    /// Takes in the rewards that are complete.
    #[inline]
    fn learn(&mut self, now: Instant) {
        while let Some(earned) = self.credits.settle(now) {
            self.take_in(earned, now);
        }
    }

    /// Learns from one reward.
    #[inline]
    fn take_in(&mut self, earned: Earned<()>, now: Instant) {
        let Case {
            fast,
            slow,
            arm,
            context,
            ..
        } = earned.case;
        let Some(model) = self.pairs.started(fast, slow) else {
            return;
        };
        let learned = model.learn(arm, &context, earned.reward);
        self.refused += u64::from(learned.is_err());
        if let Some(observe) = &mut self.observer {
            observe(&Step::Settled {
                decision: earned.decision,
                now,
                fast,
                slow,
                context,
                arm,
                reward: earned.reward,
            });
        }
    }

    /// The decision between two paths.
    #[inline]
    fn choose(&mut self, cx: &Context<'_>, fast: &PathView, slow: &PathView) -> Arm {
        self.learn(cx.now);
        let config = &self.config;
        let make = || Model::new(self.fresh.clone());
        let model = self.pairs.get(fast.index, slow.index, make);
        let credit = credit(cx.queue, config.backlog);
        let context = config.features.context(fast, slow, credit, config.scale);
        let scores = model.scores(config.alpha, &context);
        let chosen = Arm::largest(scores);
        let kept = self.draw.chance(match chosen {
            Arm::Tx => config.p_tx,
            Arm::Wt => config.p_wt,
        });
        let arm = if kept { chosen } else { chosen.other() };
        model.did(arm);
        let case = Case {
            fast: fast.index,
            slow: slow.index,
            arm,
            mark: (),
            context,
        };
        let reference = self.credits.decided(cx, fast, slow, case);
        if let Some(observe) = &mut self.observer {
            observe(&Step::Decided {
                decision: cx.decision,
                now: cx.now,
                fast: fast.index,
                slow: slow.index,
                context,
                scores,
                chosen,
                arm,
                reference,
            });
        }
        arm
    }
}

impl Drop for Linucb {
    /// What the last decisions have earned is known once there is nothing more to come. They are
    /// those about the end of the data, of which little else tells.
    fn drop(&mut self) {
        while let Some((earned, now)) = self.credits.settle_last() {
            self.take_in(earned, now);
        }
    }
}

impl Default for Linucb {
    fn default() -> Self {
        Self::new(&LinucbConfig::default())
    }
}

impl fmt::Debug for Linucb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Linucb")
            .field("config", &self.config)
            .field("wait", &self.wait)
            .field("dropped", &self.credits.dropped())
            .finish_non_exhaustive()
    }
}

impl Scheduler for Linucb {
    fn decide(&mut self, cx: &Context<'_>) -> Decision {
        self.credits.asked(cx);
        let mut wait = self.wait;
        let decision = wait.decide(cx, |fast, slow| self.choose(cx, fast, slow));
        self.wait = wait;
        decision
    }

    fn on_sent(&mut self, event: &Sent) {
        self.credits.on_sent(event);
    }

    fn on_acked(&mut self, event: &Acked) {
        self.credits.on_acked(event);
        self.learn(event.now);
    }

    fn on_path(&mut self, event: &PathUpdate) {
        let make = || Model::new(self.fresh.clone());
        if self.pairs.on_path(event, make) {
            self.credits.forget(event.path);
            self.wait.forget(event.path);
        }
        if self.pairs.is_needed() {
            self.credits.make_room();
        }
    }

    fn on_stream(&mut self, event: &StreamUpdate) {
        self.credits.on_stream(event);
    }

    fn learned(&self) -> Option<Learned> {
        let mut learned = Learned::new("linucb");
        let pairs = self.pairs.iter();
        learned.pairs = pairs
            .map(|(fast, slow, model)| {
                let mut pair = model.report(fast, slow);
                pair.alpha = Some(self.config.alpha);
                (pair.p_tx, pair.p_wt) = (Some(self.config.p_tx), Some(self.config.p_wt));
                pair
            })
            .collect();
        (learned.refused, learned.dropped) = (self.refused, self.credits.dropped());
        Some(learned)
    }
}
