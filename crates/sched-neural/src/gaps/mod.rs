//! GAPS: a policy corrects, path by path, how far ahead of the data in order slower paths send.

mod config;
mod gap;
mod state;

pub use config::GapsConfig;

use std::fmt;
use std::time::Instant;

use mpquic_sched::neural::{Decider, Experience, Guard, NeuralScheduler, Observer, Policy, Run};
use mpquic_sched::support::{Fastest, Patience, payload};
use mpquic_sched::{
    Acked, Context, Data, Decision, Learned, LearnedGap, MAX_PATHS, PathIndex, PathUpdate,
    PathUpdateKind, Scheduler,
};

use self::gap::Gap;
use self::state::{FEATURES, STATE, State, TOKENS};
use crate::model::Shipped;

/// A change of a gap that the policy wants most, packets (ours).
const MOST_PACKETS: f64 = 8.0;

/// Bytes out of order that cost one unit of reward (ours).
const REWARD_UNIT: f64 = 100_000.0;

/// Sends on the fastest path with room; on slower ones, data that lies a gap ahead, which a policy corrects.
///
/// **Rule.** Paths and gaps as with [`Stms`](mpquic_sched::Stms): the fastest path of all carries what was lost and the lowest
/// data never sent, another path `i` leaves out the next `GAP_i` packets of unsent data for the faster ones
/// ([`Data::Ahead`](mpquic_sched::Data::Ahead)). If no more than the gap is left to send, the fastest path is waited for, a
/// probe timeout of it at most. `GAP_i` starts as STMS's does, at `w_f (R_i - R_f) / (2 R_f)` when the path is first
/// seen to be slower, and stays within 0 and `4 w_f`. `w_f` is what the fastest path `f` carries in an RTT
/// ([`PathView::capacity`](mpquic_sched::PathView::capacity)): under BBR, the window itself says twice that.
///
/// The policy is asked at the first decision after an acknowledgement, but no sooner than 10 ms and one smoothed RTT of
/// `f` after it was asked last ([`GapsConfig`]). Its answer for path `i`, -1 to 1, adds `round(8 a_i)` packets to
/// `GAP_i`; what it says of the fastest path counts for nothing. A path without an RTT sample leaves no gap. With more
/// than 8 usable paths, those with the highest slots keep the gaps that they start with.
///
/// An answer that is no number, out of its range or missing leaves all gaps as they are and hands the packets to
/// [`MinRtt`](mpquic_sched::MinRtt), until the next answer. On a [thread](Run::Thread), the gaps hold until the answer is
/// there, and no other state is handed over before that.
///
/// **State.** `[1, 8, 9]`, a token for each usable path with an RTT sample in ascending order of slots, zeros for those
/// left over ([`FEATURES`](Self::FEATURES)): 1; the smoothed RTT, ms; what the path carries in an RTT, packets; its
/// delivery rate, Mbit/s; the share of its packets that were lost, since it was opened; the peer's receive window,
/// counted from the first byte that is not known to have arrived in order, MB; packets acknowledged on it since
/// the last decision; its gap, packets, 0 for the fastest one; the out-of-order queue that the reward is made of, kB. The
/// last two are ours: an answer changes a gap, and without them nothing tells one that is too long from one that is too
/// short. **Output.** `[1, 8]`, one change for each token.
///
/// **Reward.** For each decision when the next one is made: minus the out-of-order queue that the sender can know of
/// ([`QueueView::out_of_order`](mpquic_sched::QueueView::out_of_order)), on average over the moments after acknowledgements
/// since, in units of 100 kB. No episode ends.
///
/// **Source.** Liao et al., "Precise and Adaptable" (GAPS), sections III to V. It never expands its "PDR": by context, the delivery rate. Units of
/// state and action are ours, since none are given, and so are the bounds. Three of its traps: Algorithm 2, line 11 subtracts
/// Q(s, a) within the target and once more in the loss, and Eq. 6, which does not, lacks the primes of the target
/// networks (what learns takes y = r + γ Q'(s', μ'(s'))); its weight α = 0.5 is never used, nor is it
/// here; and its receivers report the size of their queue in 16 bits, which cannot hold the 0.31 MB in bytes that it measures
/// with STMS. Here nothing is sent for it: what the sender knows is later by the way of an acknowledgement. The
/// paper's 6 encoders with an embedding of 512, on each acknowledgement, take far longer than a packet lasts on the wire.
/// The network that comes with the crate has 2 with an embedding of 32.
///
/// **Cost.** Two walks over the slots for most packets; the policy and four walks for each of its decisions. O(1) for an
/// acknowledgement. 36 bytes of state per slot and 0.3 kB, beside the policy's.
///
/// ```
/// use mpquic_sched_neural::{Gaps, GapsConfig, Policy, Unanswered};
/// use serde_json::json;
///
/// // By name, with the network that comes with the crate.
/// let scheduler = mpquic_sched_neural::registry().build("gaps", &json!({"run": "thread"}))?;
///
/// /// Always content.
/// struct Keep;
///
/// impl Policy for Keep {
///     fn answer(&mut self, _state: &[f32]) -> Result<&[f32], Unanswered> {
///         Ok(&[0.0; Gaps::OUTPUTS])
///     }
/// }
///
/// let scheduler = Gaps::new(&GapsConfig::default(), Box::new(Keep));
/// # drop(scheduler);
/// # Ok::<(), mpquic_sched::RegistryError>(())
/// ```
pub struct Gaps {
    config: GapsConfig,
    gaps: [Gap; MAX_PATHS],
    patience: Patience,
    decider: Decider,
    guard: Guard,
    observer: Option<Observer>,
    /// The last answer could not be followed.
    astray: bool,
    /// What was handed over last.
    state: State,
    /// Whether its answer is still to come.
    awaited: bool,
    /// When that was.
    asked: Option<Instant>,
    /// Decisions of the policy so far.
    decisions: u64,
    /// An acknowledgement came since the last packet, and since the policy was asked.
    fresh: bool,
    due: bool,
    /// Packets acknowledged since the policy was asked.
    acknowledged: [u32; MAX_PATHS],
    queue: OutOfOrder,
}

/// The out-of-order queue since the policy was asked.
#[derive(Debug, Clone, Copy, Default)]
struct OutOfOrder {
    /// Bytes, summed over the moments at which they were read.
    sum: f64,
    count: u32,
}

impl OutOfOrder {
    fn read(&mut self, bytes: u64) {
        self.sum += bytes as f64;
        self.count += 1;
    }

    /// Bytes, on average.
    fn mean(self) -> f64 {
        self.sum / f64::from(self.count.max(1))
    }

    fn reward(self) -> f32 {
        // Zero, and not minus zero, for an empty queue.
        (0.0 - self.mean() / REWARD_UNIT) as f32
    }
}

impl Gaps {
    /// The state's features per path: name and unit, in their order.
    pub const FEATURES: &[(&str, &str)] = FEATURES;
    /// Elements of a state: 8 paths with 9 features each.
    pub const STATE: usize = STATE;
    /// Elements of an answer: one for each of 8 paths.
    pub const OUTPUTS: usize = TOKENS;

    /// The network that comes with the crate.
    pub(crate) const SHIPPED: Shipped = Shipped {
        onnx: include_bytes!("../../models/gaps.onnx"),
        card: include_bytes!("../../models/gaps.json"),
        shape: &[1, TOKENS, FEATURES.len()],
        axis: 2,
        features: FEATURES,
        outputs: TOKENS,
    };

    /// A scheduler with these settings that asks `policy`. [`GapsConfig::model`] has been seen to by then, and counts for
    /// nothing. Settings that do not pass [`GapsConfig::check`] are taken for the defaults.
    pub fn new(config: &GapsConfig, policy: Box<dyn Policy>) -> Self {
        let config = match config.check() {
            Ok(()) => config.clone(),
            Err(_) => GapsConfig::default(),
        };
        // A policy that nobody asks needs no thread.
        let run = match config.fixed_gap {
            Some(_) => Run::Inline,
            None => config.run,
        };
        Self {
            config,
            gaps: [Gap::default(); MAX_PATHS],
            patience: Patience::default(),
            decider: Decider::new(policy, run, STATE, TOKENS),
            guard: Guard::default(),
            observer: None,
            astray: false,
            state: State::EMPTY,
            awaited: false,
            asked: None,
            decisions: 0,
            fresh: false,
            due: false,
            acknowledged: [0; MAX_PATHS],
            queue: OutOfOrder::default(),
        }
    }

    /// The same, watched: `observer` hears of each decision of the policy once its answer was taken, and of its reward.
    #[must_use]
    pub fn with_observer(mut self, observer: Box<dyn FnMut(&Experience<'_>) + Send>) -> Self {
        self.observer = Some(observer);
        self
    }

    /// Hands the state over, if it is time to.
    fn ask(&mut self, cx: &Context<'_>) {
        if !self.due || self.awaited {
            return;
        }
        let Some(Fastest { overall: fast, .. }) = Fastest::of(cx) else {
            return;
        };
        let interval = self.config.interval(fast.smoothed_rtt);
        let too_soon = |asked| cx.now.saturating_duration_since(asked) < interval;
        if self.asked.is_some_and(too_soon) {
            return;
        }
        if let (Some(observer), Some(number)) = (&mut self.observer, self.decisions.checked_sub(1))
        {
            observer(&Experience::rewarded(
                number,
                cx.now,
                self.queue.reward(),
                false,
            ));
        }
        let Self { state, gaps, .. } = self;
        let out_of_order = self.queue.mean();
        state.fill(cx, fast, &self.acknowledged, gaps, out_of_order);
        self.decider.ask(self.decisions, self.state.elements());
        self.decisions += 1;
        (self.asked, self.awaited, self.due) = (Some(cx.now), true, false);
        self.acknowledged = [0; MAX_PATHS];
        self.queue = OutOfOrder::default();
    }

    /// Does what the policy says, if it says something.
    fn follow(&mut self, cx: &Context<'_>) {
        if !self.awaited {
            return;
        }
        let Some(answer) = self.decider.answer() else {
            return;
        };
        self.awaited = false;
        let changes = self.guard.check(answer.outputs, -1.0..=1.0);
        self.astray = changes.is_none();
        if let Some(observer) = &mut self.observer {
            observer(&Experience::decided(
                answer.number,
                cx.now,
                self.state.elements(),
                changes.unwrap_or(&[0.0; TOKENS]),
                self.astray,
            ));
        }
        let (Some(changes), Some(Fastest { overall: fast, .. })) = (changes, Fastest::of(cx))
        else {
            return;
        };
        for (change, place) in changes.iter().zip(self.state.paths()) {
            let path = place.and_then(|index| cx.path(index));
            // It may have ended since, on a thread's answer.
            if let Some(path) = path.filter(|path| path.open && path.index != fast.index) {
                let packets = (MOST_PACKETS * f64::from(*change)).round();
                self.gaps[path.index.get()].changed(fast, path, packets);
            }
        }
    }
}

impl Scheduler for Gaps {
    fn decide(&mut self, cx: &Context<'_>) -> Decision {
        if self.fresh {
            self.fresh = false;
            self.queue.read(cx.queue.out_of_order);
        }
        let fixed = self.config.fixed_gap;
        if fixed.is_none() {
            // What the policy was asked before is over before it is asked again.
            self.follow(cx);
            self.ask(cx);
            self.follow(cx);
        }
        if self.astray {
            return self.guard.decide(cx);
        }
        let gaps = &mut self.gaps;
        let mut gap = 0.0;
        let decision = mpquic_sched::support::gap::decide(cx, &mut self.patience, |fast, path| {
            gap = fixed.unwrap_or_else(|| gaps[path.index.get()].packets(fast, path));
            (gap * payload(fast) as f64).round() as u64
        });
        if let Decision::Send {
            path,
            data: Data::Ahead(_),
            ..
        } = decision
        {
            gaps[path.get()].left(gap);
        }
        decision
    }

    fn on_acked(&mut self, event: &Acked) {
        (self.fresh, self.due) = (true, true);
        let packets = &mut self.acknowledged[event.path.get()];
        *packets = packets.saturating_add(1);
    }

    fn on_path(&mut self, event: &PathUpdate) {
        // Another path's delays, or another network's: the gap says nothing of them.
        if matches!(
            event.kind,
            PathUpdateKind::Abandoned | PathUpdateKind::Moved
        ) {
            self.gaps[event.path.get()] = Gap::default();
            self.acknowledged[event.path.get()] = 0;
            self.state.forget(event.path);
        }
    }

    fn learned(&self) -> Option<Learned> {
        let mut learned = Learned::new("gaps");
        if self.config.fixed_gap.is_some() {
            learned.stage = Some("fixed gap".into());
        } else {
            learned.policy = Some(self.guard.report(self.decider.engine()));
        }
        for (slot, gap) in self.gaps.iter().enumerate() {
            let (sent, mean) = gap.told();
            let now = self
                .config
                .fixed_gap
                .filter(|_| sent > 0)
                .or_else(|| gap.now());
            if let (Some(path), Some(now)) = (PathIndex::new(slot), now) {
                let mut told = LearnedGap::new(path, now);
                (told.sent, told.mean) = (sent, mean);
                learned.gaps.push(told);
            }
        }
        Some(learned)
    }
}

impl NeuralScheduler for Gaps {
    const FEATURES: &'static [(&'static str, &'static str)] = Self::FEATURES;
    const STATE: usize = Self::STATE;

    fn actions() -> Vec<String> {
        (0..Self::OUTPUTS)
            .map(|token| format!("gap_{token}"))
            .collect()
    }

    fn with_observer(self, observer: Observer) -> Self {
        self.with_observer(observer)
    }
}

impl fmt::Debug for Gaps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gaps")
            .field("config", &self.config)
            .field("gaps", &self.gaps)
            .field("decisions", &self.decisions)
            .finish_non_exhaustive()
    }
}
