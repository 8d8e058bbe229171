//! DQN that learns within the connection: a policy that is told what came of its answers.

mod apart;
mod config;
mod learner;
mod memory;
mod network;
mod replay;

pub use config::{Decay, DqnOnlineConfig, Ninth, Payoff, Train};

use std::borrow::Cow;
use std::time::Instant;

use mpquic_bandit::Draw;

use self::apart::Apart;
use self::learner::Learner;
use self::memory::{Memory, Remembered};
use self::network::{HIDDEN, Network};
use self::replay::Transition;
use super::state::STATE;
use super::{Dqn, DqnConfig};
use crate::memory::Recall;
use crate::neural::{Decider, Experience, NeuralScheduler, Observer, Policy, Run, Unanswered};
use crate::{
    Acked, Context, Decision, Learned, LearnedOnline, Lost, PathUpdate, Scheduler, Sent,
    StreamUpdate,
};

/// What elements of the state are divided by (Lee and Yoo's code).
const SCALE: [f32; STATE] = [100.0, 1e5, 1e5, 100.0, 1e5, 1e5, 1e5, 1e5, 1e5, 1.0];

/// Decisions whose states are kept for rewards to come; a chunk in transfer has one of them.
const RECENT: usize = 128;

/// The most steps of learning at the end of a chunk ([`Train::Chunk`]).
const MOST_STEPS: u128 = 1000;

/// [`Dqn`] as its paper has it: the network starts with random weights and learns while the chunks are in transfer.
///
/// **Rule.** What is done with packets, when it decides, chunks and rewards are those of [`Dqn`]. The values of the
/// actions are those of a network of 10-24-24-24-7 neurons (ReLU; Glorot's weights), of which there are three. One learns:
/// each 10 ms a step of Adam (0.0005) down the squared error of 20 transitions, drawn uniformly from all that came. What
/// the value of an action should be is `r + 0.5 max Q'(s')` with the target network's own maximum (this is no double
/// Q-learning), and `r` for the last decision on a chunk. One is the target, and one decides: after each 50 decisions
/// both become the one that learns. With probability epsilon, a random action is done instead of the best; it is 1 at first
/// and 0.997 times that after each decision, and 0.1 more for chunks that are marked
/// ([`StreamHints::explore`](crate::StreamHints::explore)): the player of the paper marks half of those that it asks for
/// while it holds two chunks or more.
///
/// **State.** As [`Dqn::FEATURES`], but for the ninth element: the bytes of the chunk that have arrived in order
/// ([`Ninth`]).
///
/// **What it does when it cannot know.** As [`Dqn`]. It also learns from what it did then. If learning runs away to
/// what is no number, the network that learns goes back to the target. Without chunk hints, whatever is queued is one chunk;
/// with [`Train::Chunk`], nothing is learned before it has arrived.
///
/// **What is remembered.** With a [memory](crate::memory), the network and epsilon, when the connection ends, by its first two
/// paths; the next connection over these begins with both (ours: the paper's learner begins anew with each video).
///
/// **Source.** Lee, Yoo: *Reinforcement Learning Based Multipath QUIC Scheduler for Multimedia Streaming*, Sensors
/// 22:6333, 2022, algorithm 1 and section 4; from its public code: the hidden layers, the scales of the state, a step
/// each 10 ms. The paper and the code differ in epsilon and in when networks are refreshed: [`Decay`],
/// [`refresh`](DqnOnlineConfig::refresh). Ours: rewards are divided by 100, and the replay has an end.
///
/// **Cost.** A decision of the policy: one pass through the network (1608 multiplications), on the hot path, whatever
/// [`Train`] is. A step of learning takes about as long as 120 passes: apart on a thread, or at the end of a chunk. Networks
/// and replay take 1.5 MB with the defaults, all of it when it is made.
///
/// ```
/// use mpquic_sched::Registry;
/// use serde_json::json;
///
/// let registry = Registry::new();
/// let as_the_paper = registry.build("dqn_online", &json!({"train": "thread"}))?;
/// let to_replay = registry.build("dqn_online", &json!({"seed": 3}))?;
/// # drop((as_the_paper, to_replay));
///
/// let wrong = registry.build("dqn_online", &json!({"gamma": 2})).err().unwrap();
/// assert_eq!(
///     wrong.to_string(),
///     "scheduler `dqn_online`, field `gamma`: expected 0 to 1, got 2",
/// );
/// # Ok::<(), mpquic_sched::RegistryError>(())
/// ```
#[derive(Debug)]
pub struct DqnOnline(Dqn);

impl DqnOnline {
    /// What the elements of a state are, and in which unit; with [`Ninth::Missing`], the ninth is what has not arrived.
    pub const FEATURES: &[(&str, &str)] = &super::state::with_ninth("chunk received in order");
    /// Elements of a state.
    pub const STATE: usize = STATE;

    /// A scheduler with these settings that has learned nothing.
    pub fn new(config: &DqnOnlineConfig) -> Self {
        Self::with_memory(config, Recall::none())
    }

    /// The same, which begins with what an earlier connection over the same two paths has learned, and leaves there what it
    /// learns.
    pub fn with_memory(config: &DqnOnlineConfig, memory: Recall) -> Self {
        let inner = DqnConfig {
            seed: config.seed,
            interval_ms: config.interval_ms,
            ..DqnConfig::default()
        };
        let policy = Box::new(Online::new(config, memory));
        let decider = Decider::new(policy, Run::Inline, STATE, Dqn::OUTPUTS);
        let received = config.ninth == Ninth::Received;
        Self(Dqn::with("dqn_online", inner, received, decider))
    }

    /// The same, and `observer` is told of each decision and of each reward, as they come.
    #[must_use]
    pub fn with_observer(self, observer: Box<dyn FnMut(&Experience<'_>) + Send>) -> Self {
        Self(self.0.with_observer(observer))
    }
}

impl NeuralScheduler for DqnOnline {
    const FEATURES: &'static [(&'static str, &'static str)] = Self::FEATURES;
    const STATE: usize = Self::STATE;

    fn actions() -> Vec<String> {
        vec!["action".into()]
    }

    fn with_observer(self, observer: Observer) -> Self {
        self.with_observer(observer)
    }
}

impl Scheduler for DqnOnline {
    fn decide(&mut self, cx: &Context<'_>) -> Decision {
        self.0.decide(cx)
    }

    fn on_sent(&mut self, event: &Sent) {
        self.0.on_sent(event);
    }

    fn on_acked(&mut self, event: &Acked) {
        self.0.on_acked(event);
    }

    fn on_lost(&mut self, event: &Lost) {
        self.0.on_lost(event);
    }

    fn on_path(&mut self, event: &PathUpdate) {
        self.0.on_path(event);
    }

    fn on_stream(&mut self, event: &StreamUpdate) {
        self.0.on_stream(event);
    }

    fn learned(&self) -> Option<Learned> {
        self.0.learned()
    }
}

/// Where the learner is.
#[derive(Debug)]
enum Place {
    /// Here, and it learns when a chunk has arrived: how long a step is, and up to when all have been taken.
    Here(Box<Learner>, u64, Option<Instant>),
    /// On a thread.
    Apart(Apart),
}

/// A decision, and in which state.
#[derive(Debug, Clone, Copy)]
struct Made {
    number: u64,
    state: [f32; STATE],
    action: u8,
    /// `None` before the first.
    at: Option<Instant>,
}

/// The policy.
#[derive(Debug)]
struct Online {
    network: Box<Network<HIDDEN>>,
    values: [f32; Dqn::OUTPUTS],
    place: Place,
    draw: Draw,
    payoff: Payoff,
    decay: Decay,
    epsilon_decay: f64,
    epsilon_min: f64,
    explore: f64,
    refresh: u64,
    epsilon: f64,
    /// Actions or steps that epsilon has decayed for.
    decayed: u64,
    marked: bool,
    actions: u64,
    explored: u64,
    refreshed: u64,
    /// Rewards that came after more decisions than are kept.
    forgotten: u64,
    /// By their numbers, which begin with 0.
    recent: Box<[Made; RECENT]>,
    /// The decision that is over and its reward, until the next state is known.
    pending: Option<(Made, f32)>,
    memory: Memory,
}

impl Online {
    fn new(config: &DqnOnlineConfig, recall: Recall) -> Self {
        let learner = Learner::new(config);
        let nothing = Made {
            number: u64::MAX,
            state: [0.0; STATE],
            action: 0,
            at: None,
        };
        Self {
            network: Box::new(learner.network().clone()),
            values: [0.0; Dqn::OUTPUTS],
            place: match config.train {
                Train::Chunk => Place::Here(Box::new(learner), config.step_ms, None),
                Train::Thread => Place::Apart(Apart::new(learner, config)),
            },
            draw: Draw::new(config.seed ^ 0x6578_706c_6f72_6521),
            payoff: config.payoff,
            decay: config.decay,
            epsilon_decay: config.epsilon_decay,
            epsilon_min: config.epsilon_min,
            explore: config.explore,
            refresh: config.refresh,
            epsilon: 1.0,
            decayed: 0,
            marked: false,
            actions: 0,
            explored: 0,
            refreshed: 0,
            forgotten: 0,
            recent: Box::new([nothing; RECENT]),
            pending: None,
            memory: Memory::new(recall),
        }
    }

    /// Goes on where an earlier connection has ended.
    fn begin_with(&mut self, remembered: &Remembered) {
        remembered.copy_to(&mut self.network);
        self.epsilon = remembered.epsilon;
        match &mut self.place {
            Place::Here(learner, ..) => learner.begin_with(&self.network),
            Place::Apart(apart) => apart.begin_with(&self.network),
        }
    }

    fn steps(&self) -> u64 {
        match &self.place {
            Place::Here(learner, ..) => learner.steps(),
            Place::Apart(apart) => apart.steps(),
        }
    }

    /// Lets epsilon fall for the actions or steps since.
    fn decay(&mut self) {
        let until = match self.decay {
            Decay::Action => self.actions,
            Decay::Step => self.steps(),
        };
        while self.decayed < until && self.epsilon > f64::MIN_POSITIVE {
            self.epsilon *= self.epsilon_decay;
            self.decayed += 1;
        }
        self.decayed = until;
    }

    fn remember(&mut self, made: &Made, reward: f32, next: Option<[f32; STATE]>) {
        let transition = Transition {
            state: made.state,
            action: made.action,
            reward,
            next,
        };
        match &mut self.place {
            Place::Here(learner, ..) => learner.remember(transition),
            Place::Apart(apart) => apart.remember(transition),
        }
    }

    fn made(&self, number: u64) -> Option<Made> {
        let made = self.recent[number as usize % RECENT];
        (made.number == number).then_some(made)
    }

    /// A chunk has arrived.
    fn train(&mut self, now: Instant) {
        let Place::Here(learner, step_ms, since) = &mut self.place else {
            return;
        };
        let from = *since.get_or_insert(now);
        let due = now.saturating_duration_since(from).as_millis() / u128::from(*step_ms);
        for _ in 0..due.min(MOST_STEPS) {
            learner.step();
        }
        let taken = std::time::Duration::from_millis(*step_ms)
            .saturating_mul(u32::try_from(due).unwrap_or(u32::MAX));
        *since = from.checked_add(taken);
    }

    /// Makes the deciding network the one that learns, if it is time.
    fn renew(&mut self) {
        let due = self.actions - self.refreshed >= self.refresh;
        if due {
            self.refreshed = self.actions;
        }
        match &mut self.place {
            Place::Here(learner, ..) => {
                if due {
                    (*self.network).clone_from(learner.refresh());
                }
            }
            Place::Apart(apart) => {
                if due {
                    apart.ask();
                }
                apart.take(&mut self.network);
            }
        }
    }
}

impl Drop for Online {
    /// The next connection begins with the network that has learned the most, if it is one.
    fn drop(&mut self) {
        if self.steps() == 0 {
            return;
        }
        let network = match &mut self.place {
            Place::Here(learner, ..) => learner.refresh(),
            Place::Apart(apart) => {
                apart.take(&mut self.network);
                &*self.network
            }
        };
        let epsilon = self.epsilon;
        self.memory.remember(|| Remembered::of(network, epsilon));
    }
}

fn scaled(state: &[f32]) -> Option<[f32; STATE]> {
    let state: &[f32; STATE] = state.try_into().ok()?;
    Some(std::array::from_fn(|at| state[at] / SCALE[at]))
}

impl Policy for Online {
    fn answer(&mut self, state: &[f32]) -> Result<&[f32], Unanswered> {
        let state = scaled(state).ok_or(Unanswered)?;
        let more = if self.marked { self.explore } else { 0.0 };
        let epsilon = self.epsilon.max(self.epsilon_min) + more;
        if self.draw.chance(epsilon) {
            self.explored += 1;
            let action = (self.draw.unit() * self.values.len() as f64) as usize;
            self.values = [0.0; Dqn::OUTPUTS];
            self.values[action.min(Dqn::OUTPUTS - 1)] = 1.0;
        } else {
            self.values = self.network.values(&state);
        }
        self.actions += 1;
        self.decay();
        Ok(&self.values)
    }

    fn engine(&self) -> Cow<'static, str> {
        Cow::Borrowed("learning")
    }

    fn learns(&self) -> bool {
        true
    }

    fn mark(&mut self, explore: bool) {
        self.marked = explore;
    }

    fn on_path(&mut self, event: &PathUpdate) {
        // What was learned here already counts more.
        if let Some(remembered) = self.memory.on_path(event)
            && self.steps() == 0
        {
            self.begin_with(&remembered);
        }
    }

    fn experience(&mut self, experience: &Experience<'_>) {
        match *experience {
            Experience::Decided {
                number,
                now,
                state,
                action,
                ..
            } => {
                let (Some(state), Some(&action)) = (scaled(state), action.first()) else {
                    return;
                };
                if let Some((before, reward)) = self.pending.take() {
                    self.remember(&before, reward, Some(state));
                }
                self.recent[number as usize % RECENT] = Made {
                    number,
                    state,
                    action: action as u8,
                    at: Some(now),
                };
            }
            Experience::Rewarded {
                number,
                now,
                reward,
                done,
            } => {
                let made = self.made(number);
                let reward = match (self.payoff, made.and_then(|made| made.at)) {
                    (Payoff::Time, Some(at)) => {
                        -10.0 * now.saturating_duration_since(at).as_secs_f32()
                    }
                    _ => reward,
                };
                match made {
                    Some(made) if done => self.remember(&made, reward, None),
                    Some(made) => self.pending = Some((made, reward)),
                    None => self.forgotten += 1,
                }
                if done {
                    self.train(now);
                }
                self.renew();
            }
        }
    }

    fn online(&self) -> Option<LearnedOnline> {
        let (transitions, lost) = match &self.place {
            Place::Here(learner, ..) => (learner.transitions(), 0),
            Place::Apart(apart) => (apart.transitions(), apart.lost()),
        };
        let mut online = LearnedOnline::new(transitions, self.steps());
        online.lost = lost + self.forgotten;
        online.epsilon = self.epsilon.max(self.epsilon_min);
        online.explored = self.explored;
        Some(online)
    }
}
