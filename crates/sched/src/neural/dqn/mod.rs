//! DQN: a policy chooses each 50 ms how the next packets of a chunk are placed; what learns is `online`.

mod action;
mod arrivals;
mod chunk;
mod config;
mod online;
mod state;

pub use config::DqnConfig;
pub use online::{Decay, DqnOnline, DqnOnlineConfig, Ninth, Payoff, Train};

use std::fmt;
use std::time::Instant;

use self::action::{ACTIONS, Actor, MIN_RTT};
use self::arrivals::Arrivals;
use self::chunk::{Chunk, Chunks};
use crate::neural::{Decider, Experience, Guard, NeuralScheduler, Observer, Policy};
use crate::{
    Acked, Context, Decision, Learned, Lost, PathIndex, PathUpdate, Scheduler, Sent, StreamUpdate,
};

/// What rewards are divided by, so that values are of the order of 1 (ours).
const REWARD_SCALE: f64 = 100.0;

/// The chunk scheduler of Lee and Yoo: a deep Q-network chooses, again and again while a chunk is in transfer, how its
/// packets are placed.
///
/// **Rule.** At a chunk's first packet and at the first packet that is 50 ms later or more, as long as it has bytes
/// that were never sent, the policy is shown the state and gives a value for each action; the largest (of equals the
/// one with the lowest number) is done until the next decision.
///
/// | action | what new data does |
/// |---|---|
/// | 0, 1, 2 | each packet on path 1 with probability 0.25, 0.5, 0.75, else on path 2; if that one is full, nothing is sent, and the next event draws anew |
/// | 3, 4 | as [`MinRtt`](crate::MinRtt) for 15 ms, 30 ms, then on path 1 only |
/// | 5 | on path 1 only |
/// | 6 | as [`MinRtt`](crate::MinRtt) |
///
/// Path 1 is the one with the smallest smoothed RTT at the decision among those of the best
/// [standing](crate::PathView::standing); path 2 is all the others together. Of several, the one that a packet goes on is
/// drawn among those with room, in proportion to window over RTT. If path 1 falls into trouble or ends, the fastest one
/// takes its place at once.
///
/// **State** ([`FEATURES`](Self::FEATURES), in this order): of path 1 its smoothed RTT (ms), window and bytes in flight;
/// the same of path 2, windows and bytes in sum, RTTs as the mean weighted by windows; what the peer's
/// flow control leaves, at most 16 MiB; bytes of the chunk that were never sent; bytes of it that are not acknowledged with all
/// before them; seconds since it was asked for.
///
/// **Chunks** are streams that the application gives a chunk number ([`StreamHints::chunk`](crate::StreamHints::chunk)),
/// from the hint to when all of it is acknowledged; with the hint's `size`, what is still to be written is known, too.
/// They are served in the order of their hints, and what is sent and acknowledged is counted for the first that it can
/// belong to: packets do not tell their streams. **Without such hints**, whatever is queued is one chunk, from the first
/// byte written to when all of it has arrived, so that this scheduler works for any download. A stream that is reset
/// ends its chunk without a reward.
///
/// **Reward**, all divided by 100. A decision that another one of the same chunk follows earns the number of packets
/// that were acknowledged in the last 50 ms before the latter, in the order in which they left on their path; the last
/// one of the chunk earns `max(0, 100 + (1000 - D) B / 1e6)` and ends the episode, with B the chunk's bytes and D the
/// milliseconds from when it was asked for to when it arrived: half way in time between when the packet acknowledged
/// last was sent and when that acknowledgement came. The first decision on the next chunk may come before that reward:
/// what is asked for next may be asked for while the last acknowledgements are still under way.
///
/// **What it does when it cannot know.** An answer that is missing, not finite or of the wrong length is minRTT until
/// the next decision, and counted. What is lost, control frames and datagrams wait for no path. A wait for a full path
/// lasts at most its probe timeout and only while something is in flight there or its pacer holds it; then one packet
/// goes to the fastest path with room. A draw for a path that only its pacer holds back stands until that opens.
/// With `run` = "thread", the action before stays until the answer is there, and of an answer that another question has
/// overtaken nothing is told.
///
/// **Source.** Lee, Yoo: *Reinforcement Learning Based Multipath QUIC Scheduler for Multimedia Streaming*, Sensors
/// 22:6333, 2022, and its public code, for the three hidden layers of 24. Defects not taken over: the fast path is set by
/// configuration and never checked; the acknowledged ranges of a chunk lose retransmissions that are cut differently
/// (here a stream's end is the transport's); a path may be chosen that is in trouble. Ours: more than two paths; the
/// bounds on waiting; that a chunk without unsent bytes makes no decision, where the code merely stores none; what half
/// the peer's ACK delay adds to D, which schedulers are not told.
///
/// **Cost.** Between decisions a comparison of times, a draw at most, and one or two walks over the slots. A decision:
/// one walk and the policy's answer. Where somebody watches, a packet acknowledged is O(log n) in the
/// packets in flight on its path, and each slot that was used has 64 KiB.
///
/// ```
/// use mpquic_sched::neural::{Dqn, DqnConfig, Random};
///
/// // The trained policy comes with `mpquic-sched-neural`; this one draws its answers.
/// let policy = Random::new(Dqn::OUTPUTS, 3);
/// let scheduler = Dqn::new(&DqnConfig::default(), Box::new(policy));
/// # drop(scheduler);
/// ```
pub struct Dqn {
    name: &'static str,
    config: DqnConfig,
    /// Whether the state says how much of the chunk has arrived, and not how much has not.
    received: bool,
    decider: Decider,
    guard: Guard,
    actor: Actor,
    chunks: Chunks,
    /// What partial rewards count; nobody needs it whom nobody watches.
    arrivals: Option<Arrivals>,
    /// Until when the action holds.
    holds_until: Option<Instant>,
    /// The number of the next decision.
    next: u64,
    /// The decision asked for last: its state, path 1 in it, and whether it has been answered.
    asked: Asked,
    /// Of the acknowledgement that came last: when, and when the newest packet in it was sent.
    last_ack: Option<(Instant, Instant)>,
    /// Decisions whose chunks came to no end.
    dropped: u64,
    /// Chunks that arrived after a decision, and how long they took in all, ms.
    ended: (u64, f64),
    observer: Option<Observer>,
}

/// What was handed to the policy.
#[derive(Debug, Clone, Copy, Default)]
struct Asked {
    number: u64,
    state: [f32; Dqn::STATE],
    first: Option<PathIndex>,
    /// Whether an answer is owed.
    open: bool,
}

impl Dqn {
    /// What the elements of a state are, and in which unit.
    pub const FEATURES: &[(&str, &str)] = state::FEATURES;
    /// Elements of a state.
    pub const STATE: usize = state::STATE;
    /// Elements of an answer: the value of each action.
    pub const OUTPUTS: usize = ACTIONS.len();

    /// A scheduler with these settings that asks `policy`, whatever the settings' `model` is.
    pub fn new(config: &DqnConfig, policy: Box<dyn Policy>) -> Self {
        let decider = Decider::new(policy, config.run, Self::STATE, Self::OUTPUTS);
        Self::with("dqn", config.clone(), false, decider)
    }

    /// The scheduler of this name, which tells how much of a chunk has arrived (`received`) or has not.
    fn with(name: &'static str, config: DqnConfig, received: bool, decider: Decider) -> Self {
        Self {
            name,
            received,
            guard: Guard::default(),
            actor: Actor::new(config.seed),
            chunks: Chunks::default(),
            arrivals: decider.learns().then(|| Arrivals::new(config.interval())),
            config,
            decider,
            holds_until: None,
            next: 0,
            asked: Asked::default(),
            last_ack: None,
            dropped: 0,
            ended: (0, 0.0),
            observer: None,
        }
    }

    /// The same, and `observer` is told of each decision and of each reward, as they come. Without one, watching costs
    /// nothing.
    #[must_use]
    pub fn with_observer(mut self, observer: Box<dyn FnMut(&Experience<'_>) + Send>) -> Self {
        self.observer = Some(observer);
        self.arrivals = Some(Arrivals::new(self.config.interval()));
        self
    }

    /// Asks the policy, if there is something to ask it about.
    #[cold]
    fn ask(&mut self, cx: &Context<'_>) {
        let (chunk, dropped) = self.chunks.current(cx.now, cx.queue);
        self.dropped += dropped;
        let held = self.holds_until.is_some_and(|until| cx.now < until);
        let Some(chunk) = chunk else {
            // Nothing is sent for the first time, and nobody has a use for another action.
            if !held {
                self.holds_until = cx.now.checked_add(self.config.interval());
            }
            return;
        };
        // Another chunk's turn begins with a decision of its own.
        if held && chunk.asked == Some(self.asked.number) {
            return;
        }
        let Some((state, first)) = state::observe(cx, chunk.progress(cx.now), self.received) else {
            return;
        };
        if let Some(number) = chunk.decided.take()
            && let Some(arrivals) = &mut self.arrivals
        {
            let packets = arrivals.recent(cx.now);
            let reward = rewarded(number, cx.now, packets.into(), false);
            tell(&mut self.observer, &mut self.decider, &reward);
        }
        self.decider.mark(chunk.explore());
        chunk.asked = Some(self.next);
        self.asked = Asked {
            number: self.next,
            state,
            first: Some(first),
            open: true,
        };
        self.next += 1;
        self.holds_until = cx.now.checked_add(self.config.interval());
        self.decider.ask(self.asked.number, &self.asked.state);
    }

    /// Takes up the policy's answer, if there is one.
    fn take(&mut self, now: Instant) {
        let Some(answer) = self.decider.answer() else {
            return;
        };
        let range = f32::MIN..=f32::MAX;
        let answered = answer.number;
        let values = self.guard.check(answer.outputs, range);
        let action = values.map_or(MIN_RTT, largest);
        let fell_back = values.is_none();
        if let Some(first) = self.asked.first {
            self.actor.take_up(now, action, first);
        }
        if answered != self.asked.number {
            return;
        }
        self.asked.open = false;
        // The chunk may have come to its end meanwhile.
        let Some(chunk) = self.chunks.asked(answered) else {
            return;
        };
        chunk.decided = Some(answered);
        let decided = Experience::Decided {
            number: answered,
            now,
            state: &self.asked.state,
            action: &[action as f32],
            fell_back,
        };
        tell(&mut self.observer, &mut self.decider, &decided);
    }

    /// All of a chunk has arrived.
    fn complete(&mut self, chunk: &Chunk) {
        let (Some(number), Some((now, sent))) = (chunk.decided, self.last_ack) else {
            return;
        };
        let way_back = now.saturating_duration_since(sent) / 2;
        let arrived = now.checked_sub(way_back).unwrap_or(now);
        let megabytes = chunk.bytes() as f64 / 1e6;
        let took = chunk.millis(arrived);
        self.ended = (self.ended.0 + 1, self.ended.1 + took);
        let reward = (100.0 + (1000.0 - took) * megabytes).max(0.0);
        let reward = rewarded(number, now, reward, true);
        tell(&mut self.observer, &mut self.decider, &reward);
    }
}

/// The number of the largest value; of equals the lowest.
fn largest(values: &[f32]) -> usize {
    let mut best = 0;
    for (number, value) in values.iter().enumerate() {
        if *value > values[best] {
            best = number;
        }
    }
    best
}

fn rewarded(number: u64, now: Instant, reward: f64, done: bool) -> Experience<'static> {
    Experience::Rewarded {
        number,
        now,
        reward: (reward / REWARD_SCALE) as f32,
        done,
    }
}

/// Tells who watches, and a policy that learns.
fn tell(observer: &mut Option<Observer>, decider: &mut Decider, experience: &Experience<'_>) {
    if let Some(observe) = observer {
        observe(experience);
    }
    decider.experience(experience);
}

impl NeuralScheduler for Dqn {
    const FEATURES: &'static [(&'static str, &'static str)] = Self::FEATURES;
    const STATE: usize = Self::STATE;

    fn actions() -> Vec<String> {
        vec!["action".into()]
    }

    fn with_observer(self, observer: Observer) -> Self {
        self.with_observer(observer)
    }
}

impl fmt::Debug for Dqn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dqn")
            .field("name", &self.name)
            .field("config", &self.config)
            .field("actor", &self.actor)
            .field("dropped", &self.dropped)
            .finish_non_exhaustive()
    }
}

impl Scheduler for Dqn {
    fn decide(&mut self, cx: &Context<'_>) -> Decision {
        let holds = self.holds_until.is_some_and(|until| cx.now < until);
        if !holds || self.chunks.changed() {
            self.ask(cx);
        }
        if self.asked.open {
            self.take(cx.now);
        }
        self.actor.decide(cx, &mut self.guard)
    }

    fn on_sent(&mut self, event: &Sent) {
        if let Some(arrivals) = &mut self.arrivals {
            arrivals.on_sent(event);
        }
        self.chunks.on_sent(event.new_bytes.into());
    }

    fn on_acked(&mut self, event: &Acked) {
        self.chunks.tick(event.now);
        if let Some(arrivals) = &mut self.arrivals {
            arrivals.on_acked(event);
        }
        self.last_ack = match self.last_ack {
            Some((now, sent)) if now == event.now => Some((now, sent.max(event.sent))),
            _ => Some((event.now, event.sent)),
        };
        if event.contiguous > 0
            && let Some(chunk) = self.chunks.on_contiguous(event.contiguous)
        {
            self.complete(&chunk);
        }
    }

    fn on_lost(&mut self, event: &Lost) {
        if let Some(arrivals) = &mut self.arrivals {
            arrivals.on_lost(event);
        }
    }

    fn on_path(&mut self, event: &PathUpdate) {
        if let Some(arrivals) = &mut self.arrivals {
            arrivals.on_path(event);
        }
        self.decider.on_path(event);
    }

    fn on_stream(&mut self, event: &StreamUpdate) {
        match self.chunks.on_stream(event) {
            Some((chunk, true)) => self.complete(&chunk),
            Some((chunk, false)) => self.dropped += u64::from(chunk.decided.is_some()),
            None => {}
        }
    }

    fn learned(&self) -> Option<Learned> {
        let mut learned = Learned::new(self.name);
        learned.online = self.decider.online().map(|mut online| {
            (online.episodes, online.episodes_ms) = self.ended;
            online
        });
        learned.policy = Some(self.guard.report(self.decider.engine()));
        learned.dropped = self.dropped;
        Some(learned)
    }
}
