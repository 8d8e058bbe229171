//! The scheduler that learns whether to wait for a faster path, all of it but the rule that learns; that is `linucb`'s or `peekaboo`'s.

use std::fmt;
use std::time::Instant;

use mpquic_bandit::{Draw, FirstPacket, Refused};

use super::arm::Observer;
use super::features::{Features, flow_control_window, reference_time};
use super::pairs::{PairState, Pairs};
use super::rewards::{Case, Earned, Rewards};
use crate::memory::Recall;
use crate::support::{Fastest, StickyWaiting, has_new_data, usable};
use crate::{
    Acked, Arm, Context, Decision, FeatureRtt, Learned, LearnedPair, PathIndex, PathUpdate,
    PathView, Reward, Scheduler, Sent, Step, StreamUpdate,
};

/// How the choice between sending on the slow path and waiting for the fast one is learned.
pub trait WaitRule: Send + 'static {
    /// The scheduler's name, as the registry knows it.
    const NAME: &'static str;

    /// The scheduler's settings.
    type Config: fmt::Debug + Default;

    /// What is learned of one ordered pair of paths.
    type Pair: PairState + Clone + Send;

    /// Whether rewards may wait until something depends on what was learned, which is the next decision: if all that
    /// [learning](Self::learn) does is a matter of the decisions and their rewards, and not of the time at which these
    /// are complete.
    const PUTS_OFF: bool = false;

    /// What the rule wants to know of a decision once its reward is there.
    type Mark: Copy + Default + Send;

    /// A rule with these settings.
    fn new(config: &Self::Config) -> Self;

    /// Its settings.
    fn config(&self) -> &Self::Config;

    /// What [`LearnedWait`] needs of them.
    fn common(config: &Self::Config) -> Common;

    /// The state of a pair of which nothing is known.
    fn pair(&self) -> Self::Pair;

    /// The decision in this context.
    fn choose(
        &self,
        pair: &mut Self::Pair,
        context: &Features,
        now: Instant,
        draw: &mut Draw,
    ) -> Choice<Self::Mark>;

    /// A decision of this pair has earned its reward: learns from it.
    ///
    /// # Errors
    ///
    /// What the model refuses.
    fn learn(
        &self,
        pair: &mut Self::Pair,
        mark: Self::Mark,
        arm: Arm,
        context: &Features,
        reward: f64,
        now: Instant,
    ) -> Result<(), Refused>;

    /// What was learned of a pair.
    fn report(&self, pair: &Self::Pair, fast: PathIndex, slow: PathIndex) -> LearnedPair;

    /// A decision of this pair was made between these paths; its reward counts what comes within `reference`
    /// milliseconds or a few times that.
    fn on_decided(
        &mut self,
        _pair: &Self::Pair,
        _fast: PathIndex,
        _slow: PathIndex,
        _now: Instant,
        _reference: f64,
    ) {
    }

    /// This pair may have [learned](Self::learn) something.
    fn on_learned(&mut self, _pair: &Self::Pair) {}

    /// So many bytes were released in order. Whether there may be a pair that they [count](Self::count) for.
    fn on_released(&mut self, _bytes: u64) -> bool {
        false
    }

    /// The pair that they may count for, if any.
    fn in_question(&self) -> Option<(PathIndex, PathIndex)> {
        None
    }

    /// Counts them for it, if they are its.
    fn count(&self, _pair: &mut Self::Pair, _bytes: u64, _now: Instant) {}

    /// A path ended or moved.
    fn forget(&mut self, _path: PathIndex) {}
}

/// The settings that all rules have.
#[derive(Debug, Clone, Copy)]
pub struct Common {
    /// What a decision earns.
    pub(super) reward: Reward,
    /// From when the first packet after it counts.
    pub(super) first_packet: FirstPacket,
    /// What features and rewards are divided by, bytes per millisecond.
    pub(super) scale: f64,
    /// Where the random numbers begin.
    pub(super) seed: u64,
    /// Which RTTs the features are made of.
    pub(super) features: FeatureRtt,
    /// Whether C in the features is no more than what there is to send.
    pub(super) backlog: bool,
    /// Whether the rule is asked while the fast path has room, too.
    pub(super) with_room: bool,
}

/// A decision.
#[derive(Debug, Clone, Copy)]
pub struct Choice<M> {
    pub(super) scores: [f64; 2],
    /// The arm with the larger score.
    pub(super) chosen: Arm,
    /// What is done: the same, or the other one if chance has it so.
    pub(super) arm: Arm,
    /// `None` if nobody wants to know what it earns.
    pub(super) mark: Option<M>,
}

/// A scheduler that learns whether to wait for a faster path: [`Linucb`](crate::Linucb) or
/// [`Peekaboo`](crate::Peekaboo), which say what the rule is and what it costs.
pub struct LearnedWait<R: WaitRule> {
    rule: R,
    common: Common,
    wait: StickyWaiting,
    pairs: Pairs<R::Pair>,
    rewards: Rewards<R::Mark>,
    draw: Draw,
    refused: u64,
    observer: Option<Observer>,
    /// What is complete by then, in milliseconds, is not learned from yet; negative infinity if nothing was put off.
    put_off: f64,
}

/// Nothing was put off.
const NOTHING: f64 = f64::NEG_INFINITY;

impl<R: WaitRule> LearnedWait<R> {
    /// A scheduler with these settings.
    ///
    /// # Panics
    ///
    /// If ridge, discount or re-inversion are out of their ranges; a [`Registry`](crate::Registry)
    /// checks all settings.
    pub fn new(config: &R::Config) -> Self {
        Self::with_memory(config, Recall::none())
    }

    /// The same, which begins with what is remembered of its paths, and leaves there what it learns.
    ///
    /// # Panics
    ///
    /// As [`new`](Self::new).
    pub fn with_memory(config: &R::Config, memory: Recall) -> Self {
        let common = R::common(config);
        Self {
            rule: R::new(config),
            common,
            wait: StickyWaiting::default(),
            pairs: Pairs::new(memory),
            rewards: Rewards::new(common.reward, common.first_packet, common.scale),
            draw: Draw::new(common.seed),
            refused: 0,
            observer: None,
            put_off: NOTHING,
        }
    }

    /// The same, and `observer` is told of each decision and of each reward that is added up, as they
    /// come. Without one, watching costs nothing.
    #[must_use]
    pub fn with_observer(mut self, observer: Box<dyn FnMut(&Step) + Send>) -> Self {
        self.catch_up();
        self.observer = Some(observer);
        self
    }

    /// Learns from the rewards that are complete by now, which is so many milliseconds.
    #[inline(never)]
    fn learn(&mut self, now: &Instant, millis: f64) {
        let (rule, pairs) = (&mut self.rule, &mut self.pairs);
        let (refused, observer) = (&mut self.refused, &mut self.observer);
        self.rewards.settle(millis, |earned| {
            take_in(rule, pairs, refused, observer, earned, *now);
        });
    }

    /// The same before a decision, which finds what was put off, or else hardly ever one: acknowledgements bring them.
    #[inline]
    fn learn_before(&mut self, now: Instant) {
        let mut millis = self.rewards.millis(now);
        if R::PUTS_OFF {
            millis = millis.max(self.put_off);
            self.put_off = NOTHING;
        }
        if self.rewards.may_settle(millis) {
            self.learn(&now, millis);
        }
    }

    /// Counts what this acknowledgement released for the pair in question.
    #[inline(never)]
    fn count(&mut self, event: &Acked) {
        if let Some((fast, slow)) = self.rule.in_question()
            && let Some(pair) = self.pairs.started(fast, slow)
        {
            self.rule.count(pair, event.contiguous, event.now);
        }
    }

    /// Whether rewards wait for the next decision. Observers are told of them when they are complete, and of
    /// [`Reward::Goodput`], the sums would become others.
    #[inline]
    fn puts_off(&self) -> bool {
        R::PUTS_OFF && self.common.reward != Reward::Goodput && self.observer.is_none()
    }

    /// Learns what was put off, as of the acknowledgements that brought it: to be called before anything but a decision
    /// to which that makes a difference.
    fn catch_up(&mut self) {
        if R::PUTS_OFF && self.put_off > NOTHING {
            self.catch_up_now();
        }
    }

    #[cold]
    #[inline(never)]
    fn catch_up_now(&mut self) {
        let millis = std::mem::replace(&mut self.put_off, NOTHING);
        if let Some(now) = self.rewards.latest() {
            self.learn(&now, millis);
        }
    }

    /// All pairs as if what was put off were learned, and how many rewards were refused.
    fn caught_up(&self) -> (Vec<(PathIndex, PathIndex, R::Pair)>, u64) {
        let pairs = self.pairs.iter();
        let mut pairs: Vec<_> = pairs.map(|(f, s, pair)| (f, s, pair.clone())).collect();
        let mut refused = self.refused;
        if R::PUTS_OFF
            && self.put_off > NOTHING
            && let Some(now) = self.rewards.latest()
        {
            self.rewards.clone().settle(self.put_off, |earned| {
                let case = earned.case;
                let (mark, arm, context) = (case.mark, case.arm, &case.context);
                let mut of_both = pairs.iter_mut();
                let pair = of_both.find(|(f, s, _)| (*f, *s) == (case.fast, case.slow));
                refused += u64::from(pair.is_some_and(|(_, _, pair)| {
                    let learned = self
                        .rule
                        .learn(pair, mark, arm, context, earned.reward, now);
                    learned.is_err()
                }));
            });
        }
        (pairs, refused)
    }

    /// The decision between two paths.
    #[inline]
    fn choose(&mut self, cx: &Context<'_>, fast: &PathView, slow: &PathView) -> Arm {
        self.learn_before(cx.now);
        let common = &self.common;
        let pair = self.pairs.get(fast.index, slow.index, || self.rule.pair());
        let window = flow_control_window(cx.queue, common.backlog);
        let context = common.features.context(fast, slow, window, common.scale);
        let choice = self.rule.choose(pair, &context, cx.now, &mut self.draw);
        let reference = match choice.mark {
            Some(mark) => {
                let case = Case {
                    fast: fast.index,
                    slow: slow.index,
                    arm: choice.arm,
                    mark,
                    context,
                };
                self.rewards.decided(cx, fast, slow, case)
            }
            None => reference_time(fast, slow),
        };
        self.rule
            .on_decided(pair, fast.index, slow.index, cx.now, reference);
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

    /// The decision for new data that goes on the fast path otherwise: the rule may give it to the next one that has room.
    #[cold]
    fn choose_with_room(&mut self, cx: &Context<'_>, decision: Decision) -> Decision {
        let queue = cx.queue;
        if queue.retransmittable > 0 || queue.control || !has_new_data(cx) {
            return decision;
        }
        let Some(Fastest {
            overall: fast,
            sendable: Some(with_room),
        }) = Fastest::of(cx)
        else {
            return decision;
        };
        // The wait has asked if it is full.
        if fast.index != with_room.index || fast.suspect || !fast.has_rtt() {
            return decision;
        }
        let others = usable(cx).filter(|path| path.index != fast.index);
        let ready = others.filter(|path| path.can_send && !path.suspect && path.has_rtt());
        let Some(slow) = ready.min_by_key(|path| path.rtt_rank()) else {
            return decision;
        };
        match self.choose(cx, fast, slow) {
            Arm::Send => Decision::send(slow.index),
            Arm::Wait => decision,
        }
    }
}

impl<R: WaitRule> Drop for LearnedWait<R> {
    /// What the last decisions have earned is known once there is nothing more to come. They are
    /// those about the end of the data, of which little else tells.
    fn drop(&mut self) {
        self.catch_up();
        if let Some(now) = self.rewards.last() {
            self.learn(&now, f64::INFINITY);
        }
    }
}

/// Learns from one reward, if its pair is not gone.
#[inline(always)]
fn take_in<R: WaitRule>(
    rule: &mut R,
    pairs: &mut Pairs<R::Pair>,
    refused: &mut u64,
    observer: &mut Option<Observer>,
    earned: &Earned<'_, R::Mark>,
    now: Instant,
) {
    let case = earned.case;
    let Some(pair) = pairs.started(case.fast, case.slow) else {
        return;
    };
    let (mark, arm, context) = (case.mark, case.arm, &case.context);
    let learned = rule.learn(pair, mark, arm, context, earned.reward, now);
    if learned.is_err() {
        *refused += 1;
    }
    rule.on_learned(pair);
    if let Some(observe) = observer {
        tell(observe, earned, now);
    }
}

#[cold]
#[inline(never)]
fn tell<M: Copy>(observe: &mut Observer, earned: &Earned<'_, M>, now: Instant) {
    let Case {
        fast,
        slow,
        arm,
        context,
        ..
    } = *earned.case;
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

impl<R: WaitRule> Default for LearnedWait<R> {
    fn default() -> Self {
        Self::new(&R::Config::default())
    }
}

impl<R: WaitRule> fmt::Debug for LearnedWait<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct(R::NAME)
            .field("config", self.rule.config())
            .field("wait", &self.wait)
            .field("dropped", &self.rewards.dropped())
            .finish_non_exhaustive()
    }
}

impl<R: WaitRule> Scheduler for LearnedWait<R> {
    fn decide(&mut self, cx: &Context<'_>) -> Decision {
        self.rewards.asked(cx);
        let mut wait = self.wait;
        let decision = wait.decide(cx, |fast, slow| self.choose(cx, fast, slow));
        self.wait = wait;
        if self.common.with_room {
            return self.choose_with_room(cx, decision);
        }
        decision
    }

    fn on_sent(&mut self, event: &Sent) {
        if self.rewards.is_full() {
            self.catch_up();
        }
        self.rewards.on_sent(event);
    }

    fn on_acked(&mut self, event: &Acked) {
        let millis = self.rewards.on_acked(event);
        if self.puts_off() {
            self.put_off = self.put_off.max(millis);
        } else if self.rewards.may_settle(millis) {
            self.learn(&event.now, millis);
        }
        if event.contiguous > 0 && self.rule.on_released(event.contiguous) {
            self.count(event);
        }
    }

    fn on_path(&mut self, event: &PathUpdate) {
        self.catch_up();
        if self.pairs.on_path(event, || self.rule.pair()) {
            self.rewards.forget(event.path);
            self.wait.forget(event.path);
            self.rule.forget(event.path);
        }
        if self.pairs.is_needed() {
            self.rewards.make_room();
        }
    }

    fn on_stream(&mut self, event: &StreamUpdate) {
        self.catch_up();
        self.rewards.on_stream(event);
    }

    fn learned(&self) -> Option<Learned> {
        let mut learned = Learned::new(R::NAME);
        let (pairs, refused) = self.caught_up();
        let pairs = pairs.iter();
        learned.pairs = pairs
            .map(|(fast, slow, pair)| self.rule.report(pair, *fast, *slow))
            .collect();
        (learned.refused, learned.dropped) = (refused, self.rewards.dropped());
        Some(learned)
    }
}
