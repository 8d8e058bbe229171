//! Upper confidence bounds and epsilon-greedy over paths (Shu and Chang); the bandits are the bandit crate's.

mod arms;
mod config;
mod pending;

pub use config::{EpsilonGreedyConfig, Forgetting, UcbConfig, UcbReward};

use self::arms::Arms;
use self::pending::Pending;
use crate::support::{Opportunities, payload, usable};
use crate::{
    Acked, Context, Decision, Learned, LearnedArm, Lost, MAX_PATHS, PathIndex, PathSet, PathUpdate,
    PathUpdateKind, PathView, Scheduler, Sent, StreamUpdate,
};

/// UCB1 over the paths, one choice per send opportunity.
///
/// **Rule.** At each opportunity every usable path i has a reward X_i, bytes per second. Then each
/// path once, in the order of their slots, and after that the one with the largest index:
///
/// ```text
/// X_i = (mss / R_i) / sqrt(1 + u_i)
/// mean of X_i + c sqrt(2 ln f(t) / T_i),   f(t) = 1 + t ln^2 t
/// ```
///
/// with u_i its packets declared lost since the opportunity before, T_i how often it was chosen, t
/// the number of the choice, c [`exploration`](UcbConfig::exploration); of equals the lowest slot.
/// The chosen path sends until its window is full. Paths whose window is full are left out of the
/// choice, unless [`block`](UcbConfig::block) is on: then such a choice sends nothing at this
/// opportunity. A path without an RTT sample gets its reward once it has one. Opportunities are
/// those of `mpquic_lab::replica::RrNs3`.
///
/// **Source.** Shu and Chang's report for CSC579, 2022, section 3 and algorithm 1; c is in their
/// code (branch `msab` of their fork of the ns-3 model of MPQUIC, at the commit of its figures),
/// and without it the bonus, about 1, stands against rewards in the ten thousands. Ours: `1 + u_i`,
/// where the report divides by zero without a loss, and that full paths are left out. The report
/// has no stated way to forget, and names late rewards as future work; for these, see
/// [`Forgetting`] and [`UcbReward`].
///
/// **Late rewards** (ours, [`UcbReward::Delayed`]). The reward of a choice is what its own packets
/// earned: the mean, over them, of size / (time from sending to acknowledgement), 0 for a lost one.
/// It is the same size as `mss / R_i`, and is told once the last of them is acknowledged or lost; a
/// choice counts in t at once, in T_i only then (Joulani, György, Szepesvári: *Online Learning
/// under Delayed Feedback*, ICML 2013). Beyond 128 choices of a path that are not settled, the next
/// is taken for a part of the newest.
///
/// **Cost.** A packet within an opportunity: that of `mpquic_lab::replica::RrNs3`. An opportunity: 20
/// flops for each path, one walk more. Acknowledgements with late rewards: a binary search among at
/// most 128 choices. State: 900 bytes, and 16 kB for a window, 49 kB for late rewards; no
/// allocation once made.
///
/// ```
/// use std::time::{Duration, Instant};
/// use mpquic_sched::{Context, Decision, Lost, PathIndex, PathView, QueueView, Scheduler, Ucb};
///
/// let paths = [0, 1].map(|slot| PathView::of(slot, Duration::from_millis(20 + 60 * slot as u64)));
/// let mut queue = QueueView::default();
/// queue.unsent = 100_000;
/// let now = Instant::now();
///
/// let mut scheduler = Ucb::default();
/// let mut chosen = [0; 2];
/// for number in 0..100 {
///     let cx = Context::new(now, &paths, &queue, number);
///     // The path with the lowest slot that has not filled its window yet: both, from the second on.
///     assert!(matches!(scheduler.decide(&cx), Decision::Send { .. }));
///     scheduler.on_lost(&Lost::new(paths[1].index, now, now, 1200, None)); // the next opportunity
/// }
/// for arm in scheduler.learned().unwrap().arms {
///     chosen[arm.path.get()] = arm.pulls;
/// }
/// assert!(chosen[0] > 60 && chosen[0] + chosen[1] == 100);
/// ```
#[derive(Debug, Clone)]
pub struct Ucb {
    opportunities: Opportunities,
    rounds: Rounds,
}

/// The choices and their rewards.
#[derive(Debug, Clone)]
struct Rounds {
    name: &'static str,
    arms: Arms,
    block: bool,
    rewards: Rewards,
    /// How often each path was chosen.
    chosen: [u64; MAX_PATHS],
    dropped: u64,
}

#[derive(Debug, Clone)]
enum Rewards {
    /// Computed at each opportunity, for all paths, from this figure of theirs.
    AtOnce {
        speed: fn(&PathView) -> Option<f64>,
        /// Packets lost since the last opportunity.
        lost: [u32; MAX_PATHS],
    },
    /// Told by the packets themselves.
    Late(Box<Pending>),
}

/// A packet over the smoothed RTT, bytes per second, if there is one.
fn latest(path: &PathView) -> Option<f64> {
    let sampled = path.has_rtt();
    sampled.then(|| payload(path) as f64 / path.smoothed_rtt.as_secs_f64())
}

/// What the path delivers, or as long as that is unknown what its window allows, bytes per second.
fn rate(path: &PathView) -> Option<f64> {
    match path.delivery_rate {
        0 if path.has_rtt() => Some(path.capacity() as f64 / path.smoothed_rtt.as_secs_f64()),
        0 => None,
        rate => Some(rate as f64),
    }
}

impl Ucb {
    /// A scheduler with these settings.
    pub fn new(config: &UcbConfig) -> Self {
        let name = if config.block { "ucb_block" } else { "ucb" };
        Self::over(name, Arms::new(config), config.block, config.reward)
    }

    /// Epsilon-greedy with a constant step in place of the confidence bound.
    ///
    /// **Rule.** Opportunities, rewards and which paths may be chosen are the same; of the eligible paths, with probability
    /// [`epsilon`](EpsilonGreedyConfig::epsilon) any, else the one with the largest value, the lowest slot of equals. A value
    /// begins at 0 and goes [`step`](EpsilonGreedyConfig::step) of the way to each reward of its path.
    ///
    /// **Source.** Figure 5 of Shu and Chang's report, which has it as the simplest bandit and did not run it; Sutton,
    /// Barto: *Reinforcement Learning*, 2018, sections 2.4 and 2.5. Neither ε nor the step is in the report: both are ours.
    pub fn epsilon_greedy(config: &EpsilonGreedyConfig) -> Self {
        let arms = Arms::greedy(config);
        Self::over("epsilon_greedy", arms, config.block, config.reward)
    }

    fn over(name: &'static str, arms: Arms, block: bool, reward: UcbReward) -> Self {
        let at_once = |speed| Rewards::AtOnce {
            speed,
            lost: [0; MAX_PATHS],
        };
        Self {
            opportunities: Opportunities::default(),
            rounds: Rounds {
                name,
                arms,
                block,
                rewards: match reward {
                    UcbReward::Latest => at_once(latest),
                    UcbReward::Rate => at_once(rate),
                    UcbReward::Delayed => Rewards::Late(Box::default()),
                },
                chosen: [0; MAX_PATHS],
                dropped: 0,
            },
        }
    }

    /// The same with [`block`](UcbConfig::block) on, whatever the settings say.
    pub fn blocking(config: &UcbConfig) -> Self {
        Self::new(&UcbConfig {
            block: true,
            ..config.clone()
        })
    }
}

impl Default for Ucb {
    fn default() -> Self {
        Self::new(&UcbConfig::default())
    }
}

impl Rounds {
    /// A new opportunity, for one of these paths.
    fn begin(&mut self, cx: &Context<'_>, paths: PathSet) -> Option<PathIndex> {
        let eligible = if self.block {
            paths
        } else {
            let with_window = |path: &PathIndex| {
                cx.path(*path)
                    .is_some_and(|path| path.can_send || path.next_release.is_some())
            };
            paths.iter().filter(with_window).collect()
        };
        if eligible.is_empty() {
            // Not an opportunity yet.
            return None;
        }
        if let Rewards::AtOnce { speed, lost } = &mut self.rewards {
            for path in usable(cx) {
                if let Some(speed) = speed(path) {
                    let lost = std::mem::take(&mut lost[path.index.get()]);
                    self.arms
                        .reward(path.index, speed / (1.0 + f64::from(lost)).sqrt());
                }
            }
        }
        let path = self.arms.select(eligible)?;
        self.chosen[path.get()] += 1;
        match &mut self.rewards {
            Rewards::AtOnce { .. } => self.arms.chosen(path),
            Rewards::Late(pending) => pending.begin(path, cx.decision, &mut self.arms),
        }
        Some(path)
    }

    fn forget(&mut self, path: PathIndex) {
        match &mut self.rewards {
            Rewards::AtOnce { lost, .. } => lost[path.get()] = 0,
            Rewards::Late(pending) => self.dropped += pending.forget(path),
        }
        self.arms.reset(path);
        self.chosen[path.get()] = 0;
    }
}

impl Scheduler for Ucb {
    fn decide(&mut self, cx: &Context<'_>) -> Decision {
        let Self {
            opportunities,
            rounds,
        } = self;
        let mut began = false;
        let decision = opportunities.decide(cx, |paths| {
            began = true;
            rounds.begin(cx, paths)
        });
        if began && let Rewards::Late(pending) = &mut rounds.rewards {
            pending.sweep(opportunities.filling(), &mut rounds.arms);
        }
        decision
    }

    fn on_sent(&mut self, event: &Sent) {
        if let Rewards::Late(pending) = &mut self.rounds.rewards {
            pending.sent(event.path, event.decision);
        }
    }

    fn on_acked(&mut self, event: &Acked) {
        self.opportunities.on_event();
        let Rounds { arms, rewards, .. } = &mut self.rounds;
        if let (Rewards::Late(pending), Some(decision)) = (rewards, event.decision) {
            // No packet takes no time: the clock may be coarse.
            let took = event
                .now
                .saturating_duration_since(event.sent)
                .as_secs_f64();
            let earned = f64::from(event.size) / took.max(1e-6);
            let filling = self.opportunities.filling();
            pending.settled(event.path, decision, earned, filling, arms);
        }
    }

    fn on_lost(&mut self, event: &Lost) {
        self.opportunities.on_event();
        let Rounds { arms, rewards, .. } = &mut self.rounds;
        match rewards {
            Rewards::AtOnce { lost, .. } => {
                let lost = &mut lost[event.path.get()];
                *lost = lost.saturating_add(1);
            }
            Rewards::Late(pending) => {
                if let Some(decision) = event.decision {
                    let filling = self.opportunities.filling();
                    pending.settled(event.path, decision, 0.0, filling, arms);
                }
            }
        }
    }

    fn on_path(&mut self, event: &PathUpdate) {
        self.opportunities.on_event();
        if event.kind == PathUpdateKind::Abandoned {
            self.rounds.forget(event.path);
        }
    }

    fn on_stream(&mut self, _event: &StreamUpdate) {
        self.opportunities.on_event();
    }

    fn learned(&self) -> Option<Learned> {
        let Rounds {
            name,
            arms,
            chosen,
            dropped,
            ..
        } = &self.rounds;
        let mut learned = Learned::new(*name);
        for path in (0..MAX_PATHS).filter_map(PathIndex::new) {
            let mut arm = LearnedArm::new(path);
            (arm.pulls, arm.mean) = (chosen[path.get()], arms.mean(path));
            if arm.pulls > 0 || arm.mean.is_some() {
                learned.arms.push(arm);
            }
        }
        (learned.refused, learned.dropped) = (arms.refused(), *dropped);
        Some(learned)
    }
}
