//! Asks the policy for a stream's path, draws from what it says, and pays the rewards.

use mpquic_bandit::Draw;

use mpquic_sched::neural::{Decider, Experience, Guard, Observer, Policy, Unanswered};
use mpquic_sched::support::binding::{Bound, Choice, Paths};
use mpquic_sched::support::usable;
use mpquic_sched::{
    Context, LearnedArm, LearnedPolicy, MAX_PATHS, PathIndex, PathSet, StreamId, StreamView,
};

use super::SailfishConfig;
use super::ledger::{Decided, Ledger};
use super::state::{MOST_PATHS, STATE, State};

/// The policy, what it is shown, and what becomes of its answers.
pub(super) struct PathChoice {
    decider: Decider,
    guard: Guard,
    /// For drawing from the distribution; `None` takes its maximum.
    draw: Option<Draw>,
    all_have_room: bool,
    loss_weight: f64,
    state: State,
    /// The logits of the newest answer, if it could be followed.
    logits: Option<[f32; MOST_PATHS]>,
    /// Bytes bound to each path and not acknowledged, once they are counted for this decision of the transport's.
    load: Option<[u64; MOST_PATHS]>,
    pub(super) ledger: Ledger,
    /// The number of the next decision.
    number: u64,
    observer: Option<Observer>,
    tallies: [Tally; MAX_PATHS],
    dropped: u64,
}

/// What came of a path.
#[derive(Debug, Clone, Copy, Default)]
struct Tally {
    /// Streams that were bound to it.
    streams: u64,
    rewards: u64,
    /// Sum of the rewards.
    earned: f64,
}

impl PathChoice {
    pub(super) fn new(config: &SailfishConfig, policy: Box<dyn Policy>) -> Self {
        Self {
            decider: Decider::new(policy, config.run, STATE, MOST_PATHS),
            guard: Guard::default(),
            draw: config.sample.then(|| Draw::new(config.seed)),
            all_have_room: config.all_have_room,
            loss_weight: config.loss_weight,
            state: State::new(config.rates.clone()),
            logits: None,
            load: None,
            ledger: Ledger::new(),
            number: 0,
            observer: None,
            tallies: [Tally::default(); MAX_PATHS],
            dropped: 0,
        }
    }

    pub(super) fn watch(&mut self, observer: Observer) {
        self.observer = Some(observer);
    }

    /// The transport asks: what was counted for its last question is old.
    pub(super) fn begin(&mut self, cx: &Context<'_>) {
        self.ledger.at(cx.now);
        self.load = None;
    }

    /// A stream is fully acknowledged.
    pub(super) fn pay(&mut self, id: StreamId) {
        let Some(over) = self.ledger.close(id) else {
            return;
        };
        let Some(decided) = over.decided else {
            return;
        };
        // Seconds, as the code has it: in the thesis's milliseconds, nothing else would count.
        let reward = decided.merit - over.took.as_secs_f64();
        let tally = &mut self.tallies[decided.path.get()];
        tally.rewards += 1;
        tally.earned += reward;
        if let Some(observer) = &mut self.observer {
            observer(&Experience::rewarded(
                decided.number,
                over.now,
                reward as f32,
                over.last,
            ));
        }
    }

    /// A stream was reset: what was decided about it earns nothing.
    pub(super) fn drop_stream(&mut self, id: StreamId) {
        if self
            .ledger
            .close(id)
            .is_some_and(|over| over.decided.is_some())
        {
            self.dropped += 1;
        }
    }

    /// Another path is in this slot, or the same between other hosts.
    pub(super) fn forget(&mut self, path: PathIndex) {
        self.state.forget(path);
    }

    /// Another path is in this slot.
    pub(super) fn open(&mut self, path: PathIndex) {
        self.tallies[path.get()] = Tally::default();
        self.state.forget(path);
    }

    /// How many streams were bound to each path, and what they earned.
    pub(super) fn arms(&self) -> Vec<LearnedArm> {
        let slots = (0..MAX_PATHS).filter_map(PathIndex::new);
        let used = slots
            .zip(self.tallies)
            .filter(|(_, tally)| tally.streams > 0);
        used.map(|(slot, tally)| {
            let mut arm = LearnedArm::new(slot);
            arm.pulls = tally.streams;
            arm.mean = (tally.rewards > 0).then(|| tally.earned / tally.rewards as f64);
            arm
        })
        .collect()
    }

    pub(super) fn report(&self) -> LearnedPolicy {
        self.guard.report(self.decider.engine())
    }

    pub(super) const fn dropped(&self) -> u64 {
        self.dropped
    }

    /// The path for a new stream, one of `candidates` if the policy's answer can be followed.
    fn ask(
        &mut self,
        cx: &Context<'_>,
        stream: &StreamView,
        candidates: PathSet,
        instead: PathIndex,
        bound: &Bound,
    ) -> PathIndex {
        let load = *self.load.get_or_insert_with(|| load(cx, bound));
        let size = stream.size.or_else(|| self.ledger.size(stream.id));
        let state = self.state.next(cx, candidates, &load, size);
        self.decider.ask(self.number, state);
        let everything = f32::MIN..=f32::MAX;
        if let Some(answer) = self.decider.answer() {
            let outputs = self.guard.check(answer.outputs, everything);
            self.logits = outputs.and_then(|outputs| outputs.try_into().ok());
        } else if self.logits.is_none() {
            self.guard.check(Err(Unanswered), everything);
        }
        let followed = match &self.logits {
            Some(logits) if is_elsewhere(logits, candidates) => {
                self.guard.unusable();
                None
            }
            Some(logits) => pick(logits, candidates, self.draw.as_mut()),
            None => None,
        };
        let path = followed.unwrap_or(instead);
        let number = self.number;
        self.number += 1;
        let decided = Decided {
            number,
            path,
            merit: self.state.merit(path, self.loss_weight),
        };
        if !self.ledger.decide(stream.id, decided) {
            // Nobody will know when it is over.
            self.dropped += 1;
        }
        if let Some(observer) = &mut self.observer {
            observer(&Experience::decided(
                number,
                cx.now,
                self.state.values(),
                &[path.get() as f32],
                followed.is_none(),
            ));
        }
        path
    }

    fn choose(
        &mut self,
        cx: &Context<'_>,
        stream: &StreamView,
        paths: Paths,
        bound: &Bound,
    ) -> Option<PathIndex> {
        // Begun before there was a choice, or its path ended: there is no hurry to make a bad one.
        if stream.started() || self.ledger.is_decided(stream.id) {
            return fastest(cx, paths.open);
        }
        let candidates = paths.open.intersection(seen());
        if self.all_have_room && !candidates.difference(paths.roomy).is_empty() {
            return None;
        }
        match candidates.len() {
            0 => fastest(cx, paths.roomy),
            1 => candidates.first(),
            _ => {
                let instead = fastest(cx, paths.roomy)?;
                Some(self.ask(cx, stream, candidates, instead, bound))
            }
        }
    }
}

impl Choice for PathChoice {
    fn bind(
        &mut self,
        cx: &Context<'_>,
        stream: &StreamView,
        paths: Paths,
        bound: &Bound,
    ) -> Option<PathIndex> {
        let path = self.choose(cx, stream, paths, bound)?;
        self.tallies[path.get()].streams += 1;
        if let Some(load) = &mut self.load
            && let Some(load) = load.get_mut(path.get())
        {
            *load += waiting(stream);
        }
        Some(path)
    }

    fn detour(&mut self, cx: &Context<'_>, paths: Paths, _bound: &Bound) -> Option<PathIndex> {
        fastest(cx, paths.roomy)
    }
}

/// The slots that the policy sees.
fn seen() -> PathSet {
    PathSet::from_bits((1 << MOST_PATHS) - 1)
}

/// What stream-based minRTT would take of these paths.
fn fastest(cx: &Context<'_>, paths: PathSet) -> Option<PathIndex> {
    usable(cx)
        .filter(|path| paths.contains(path.index))
        .min_by_key(|path| path.rtt_rank())
        .map(|path| path.index)
}

/// What a stream has to send.
const fn waiting(stream: &StreamView) -> u64 {
    stream.unsent.saturating_add(stream.retransmittable)
}

/// What each path carries, and what the streams that are bound to it have to send, as far as they are in view.
fn load(cx: &Context<'_>, bound: &Bound) -> [u64; MOST_PATHS] {
    let mut load = [0; MOST_PATHS];
    for (load, view) in load.iter_mut().zip(cx.paths) {
        *load = view.in_flight;
    }
    for stream in cx.streams {
        if let Some(path) = bound.path_of(stream.id)
            && let Some(load) = load.get_mut(path.get())
        {
            *load = load.saturating_add(waiting(stream));
        }
    }
    load
}

/// Whether the softmax of all slots leaves the paths that may be chosen no probability that an f32 can hold: the policy
/// wants one that cannot be used, and nothing else.
fn is_elsewhere(logits: &[f32; MOST_PATHS], candidates: PathSet) -> bool {
    let largest = |logits: &mut dyn Iterator<Item = f32>| logits.fold(f32::NEG_INFINITY, f32::max);
    let all = largest(&mut logits.iter().copied());
    let of_these = largest(&mut candidates.iter().map(|path| logits[path.get()]));
    (of_these - all).exp() < f32::MIN_POSITIVE
}

/// One of the paths by the softmax of their logits, or the one with the largest; `None` of none.
fn pick(
    logits: &[f32; MOST_PATHS],
    candidates: PathSet,
    draw: Option<&mut Draw>,
) -> Option<PathIndex> {
    let logit = |path: PathIndex| f64::from(logits[path.get()]);
    let best = candidates.iter().reduce(|best, path| {
        if logit(path) > logit(best) {
            path
        } else {
            best
        }
    })?;
    let Some(draw) = draw else {
        return Some(best);
    };
    // Less the largest, so that no exponential overflows.
    let weight = |path| (logit(path) - logit(best)).exp();
    let mut left = draw.unit() * candidates.iter().map(weight).sum::<f64>();
    for path in candidates.iter() {
        left -= weight(path);
        if left < 0.0 {
            return Some(path);
        }
    }
    // Rounding ate the rest.
    Some(best)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slot(slot: usize) -> PathIndex {
        PathIndex::new(slot).unwrap()
    }

    fn set(slots: &[usize]) -> PathSet {
        slots.iter().map(|&path| slot(path)).collect()
    }

    #[test]
    fn the_largest_logit_of_those_that_may_be_chosen() {
        let logits = [1.0, 3.0, 3.0, 9.0];
        let largest = |slots: &[usize]| pick(&logits, set(slots), None);
        assert_eq!(largest(&[0, 1, 2, 3]), Some(slot(3)));
        assert_eq!(largest(&[0, 1, 2]), Some(slot(1)));
        assert_eq!(largest(&[2, 0]), Some(slot(2)));
        assert_eq!(largest(&[]), None);
        assert_eq!(pick(&[f32::MIN; 4], set(&[2]), None), Some(slot(2)));
    }

    #[test]
    fn a_policy_that_wants_only_what_cannot_be_used_is_not_followed() {
        let elsewhere = |logits: &[f32; MOST_PATHS]| is_elsewhere(logits, set(&[0, 1]));
        assert!(!elsewhere(&[0.0; MOST_PATHS]));
        assert!(!elsewhere(&[-80.0, -90.0, 0.0, 0.0]));
        assert!(elsewhere(&[-90.0, -90.0, 0.0, 0.0]));
        assert!(elsewhere(&[f32::MIN, 0.0, f32::MAX, 0.0]));
        assert!(!elsewhere(&[f32::MIN, f32::MAX, f32::MAX, 0.0]));
    }

    #[test]
    fn draws_follow_the_softmax_of_those_that_may_be_chosen() {
        let mut draw = Draw::new(7);
        // e^0 : e^ln3 = 1 : 3; the third may not be chosen, whatever its logit.
        let logits = [0.0, 3_f32.ln(), 80.0, f32::MIN];
        let mut count = [0_u32; MOST_PATHS];
        for _ in 0..10_000 {
            let path = pick(&logits, set(&[0, 1, 3]), Some(&mut draw)).unwrap();
            count[path.get()] += 1;
        }
        assert_eq!(count[2..], [0, 0]);
        assert!((7350..7650).contains(&count[1]), "{count:?}");
        // As large as can be.
        for _ in 0..100 {
            let path = pick(
                &[f32::MIN, f32::MAX, 0.0, 0.0],
                set(&[0, 1]),
                Some(&mut draw),
            );
            assert_eq!(path, Some(slot(1)));
        }
    }
}
