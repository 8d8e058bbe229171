//! Peekaboo: learns, stage by stage, whether to wait and how far to trust what it learned; its parts are elsewhere.

mod config;
mod lesson;
mod memory;

pub use config::{PeekabooConfig, Tuning};

use std::fmt;
use std::time::Instant;

use mpquic_bandit::Draw;

use crate::arm::Observer;
use crate::credit::{Case, Credits, Earned};
use crate::features::{credit, reference_time};
use crate::linucb::Bandit;
use crate::memory::Recall;
use crate::pairs::Pairs;
use crate::sticky::StickyWaiting;
use crate::waiting::nanos;
use crate::{
    Acked, Arm, Context, Decision, Learned, PathIndex, PathUpdate, PathView, Scheduler, Sent, Step,
    StreamUpdate,
};
use lesson::{Lesson, Mark};

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
/// dropped and stage 1 begins again, no earlier than 2 s after deployment did. With `discount` below 1 there is no such second
/// lesson: the model goes on learning and forgets instead, while p stays as it was estimated.
///
/// **What counts as a byte of a budget.** Bytes that became contiguous at the receiver, on whichever
/// path, while the pair was the last one that a decision was made for, and no longer than T_ref after
/// that decision. Idle times and traffic that never fills `f` do not use up a lesson. Rewards come three
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
/// once when it is found out. More than two paths have a lesson for each ordered pair that comes up.
/// Connections shorter than a lesson learn only if there is a [memory](crate::memory), in which a
/// pair is kept at the point that it has reached.
///
/// **Which decisions are judged.** All in stages 3 and 4, which a scan over 128 contexts (some 130 ns)
/// makes the dearest. In deployment one in 8 (`judge_every`), and the others' rewards are not even
/// added up: the window spans 1600 decisions, and neighbours share most of their rewards anyway.
/// Histories keep 128 samples for each arm, of more a random choice.
///
/// **Source.** Wu, Alay, Brunstrom, Ferlin, Caso: *Peekaboo*, IEEE JSAC 2020, Algorithm 4 and section
/// III-B. The public code has none of it: its scheduler `peek` is [`PeekFrozen`](crate::PeekFrozen),
/// its `lowband` is [`Linucb`](crate::Linucb). Ours, where the paper is silent or breaks down:
///
/// - all that is ours in [`Linucb`](crate::Linucb), the scale of the features in particular;
/// - the split of the paper's 4 MB, and stage 4, so that q is measured of the policy
///   that is deployed and not of one with a bonus;
/// - the score of α counts both arms; p is 1 for an arm that was judged fewer than `least` times,
///   until it has been in deployment, when it follows from the window, and where e + f = 0;
/// - in deployment q judges what the model chose, also where chance took the other arm: what was
///   done then earned R, and the history tells what the choice would have;
/// - q is watched against the beginning of deployment, not against stage 4: decisions that are not kept
///   change what all others earn, data being released in order, so that q moves when p begins to
///   apply;
/// - the bounds on windows, pauses, samples and time; the model's part in stages 1 and 2.
///
/// **Cost.** A decision: one walk over the slots, six divisions, some 30 flops in deployment (200 while
/// tuning), a draw; 150 bytes written if it is to be judged. A packet sent or acknowledged: O(1). A settled decision: 66
/// multiplications; 300 flops to learn, and a scan of 1,800 flops to judge. The end of stage
/// 2 factors two covariances, some 12 µs, once. Memory, once there is a second path: 200 KiB, and 16 KiB
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
pub struct Peekaboo {
    config: PeekabooConfig,
    wait: StickyWaiting,
    pairs: Pairs<Lesson>,
    credits: Credits<Mark>,
    /// For pairs to start with.
    fresh: Bandit,
    draw: Draw,
    /// Bytes that became contiguous on the connection.
    released: u64,
    question: Option<Question>,
    refused: u64,
    observer: Option<Observer>,
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

impl Peekaboo {
    /// A scheduler with these settings.
    ///
    /// # Panics
    ///
    /// If ridge, discount or re-inversion are out of their ranges; a [`Registry`](crate::Registry)
    /// checks all settings.
    pub fn new(config: &PeekabooConfig) -> Self {
        Self::with_memory(config, Recall::none())
    }

    /// The same, which begins with what is remembered of its paths, and leaves there what it learns.
    ///
    /// # Panics
    ///
    /// As [`new`](Self::new).
    pub fn with_memory(config: &PeekabooConfig, memory: Recall) -> Self {
        Self {
            config: config.clone(),
            wait: StickyWaiting::default(),
            pairs: Pairs::new(memory),
            credits: Credits::new(config.reward, config.scale),
            fresh: Bandit::new(&config.bandit()),
            draw: Draw::new(config.seed),
            released: 0,
            question: None,
            refused: 0,
            observer: None,
        }
    }

    /// The same, and `observer` is told of each decision and of each reward that is added up, as they
    /// come. Without one, watching costs nothing.
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
    fn take_in(&mut self, earned: Earned<Mark>, now: Instant) {
        let Case {
            fast,
            slow,
            arm,
            mark,
            context,
        } = earned.case;
        let reward = earned.reward;
        let Some(lesson) = self.pairs.started(fast, slow) else {
            return;
        };
        let learned = lesson.settle(mark, arm, &context, reward, now, &self.config);
        self.refused += u64::from(learned.is_err());
        if let Some(observe) = &mut self.observer {
            observe(&Step::Settled {
                decision: earned.decision,
                now,
                fast,
                slow,
                context,
                arm,
                reward,
            });
        }
    }

    /// The decision between two paths.
    #[inline]
    fn choose(&mut self, cx: &Context<'_>, fast: &PathView, slow: &PathView) -> Arm {
        self.learn(cx.now);
        let config = &self.config;
        let make = || Lesson::new(self.fresh.clone(), config);
        let lesson = self.pairs.get(fast.index, slow.index, make);
        let credit = credit(cx.queue, config.backlog);
        let context = config.features.context(fast, slow, credit, config.scale);
        let choice = lesson.choose(&context, cx.now, self.released, config, &mut self.draw);
        let reference = match choice.mark {
            Some(mark) => {
                let case = Case {
                    fast: fast.index,
                    slow: slow.index,
                    arm: choice.arm,
                    mark,
                    context,
                };
                self.credits.decided(cx, fast, slow, case)
            }
            None => reference_time(fast, slow),
        };
        self.question = Some(Question {
            fast: fast.index,
            slow: slow.index,
            at: cx.now,
            reference,
        });
        if let Some(observe) = &mut self.observer {
            observe(&Step::Decided {
                decision: cx.decision,
                now: cx.now,
                fast: fast.index,
                slow: slow.index,
                context,
                scores: choice.scores,
                chosen: choice.chosen,
                arm: choice.arm,
                reference,
            });
        }
        choice.arm
    }

    /// So many bytes more were released in order: whose lesson they are part of.
    #[inline]
    fn count(&mut self, bytes: u64, now: Instant) {
        self.released = self.released.saturating_add(bytes);
        if let Some(question) = self.question
            && nanos(now.saturating_duration_since(question.at)) <= question.reference * 1e6
            && let Some(lesson) = self.pairs.started(question.fast, question.slow)
        {
            lesson.count(bytes, now, &self.config);
        }
    }
}

impl Drop for Peekaboo {
    /// What the last decisions have earned is known once there is nothing more to come. They are
    /// those about the end of the data, of which little else tells.
    fn drop(&mut self) {
        while let Some((earned, now)) = self.credits.settle_last() {
            self.take_in(earned, now);
        }
    }
}

impl Default for Peekaboo {
    fn default() -> Self {
        Self::new(&PeekabooConfig::default())
    }
}

impl fmt::Debug for Peekaboo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Peekaboo")
            .field("config", &self.config)
            .field("wait", &self.wait)
            .field("released", &self.released)
            .field("dropped", &self.credits.dropped())
            .finish_non_exhaustive()
    }
}

impl Scheduler for Peekaboo {
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
        if event.contiguous > 0 {
            self.count(event.contiguous, event.now);
        }
    }

    fn on_path(&mut self, event: &PathUpdate) {
        let make = || Lesson::new(self.fresh.clone(), &self.config);
        if self.pairs.on_path(event, make) {
            self.credits.forget(event.path);
            self.wait.forget(event.path);
            let ended = |q: &Question| q.fast == event.path || q.slow == event.path;
            self.question = self.question.filter(|question| !ended(question));
        }
        if self.pairs.is_needed() {
            self.credits.make_room();
        }
    }

    fn on_stream(&mut self, event: &StreamUpdate) {
        self.credits.on_stream(event);
    }

    fn learned(&self) -> Option<Learned> {
        let mut learned = Learned::new("peekaboo");
        let pairs = self.pairs.iter();
        learned.pairs = pairs
            .map(|(fast, slow, lesson)| lesson.report(fast, slow))
            .collect();
        (learned.refused, learned.dropped) = (self.refused, self.credits.dropped());
        Some(learned)
    }
}
