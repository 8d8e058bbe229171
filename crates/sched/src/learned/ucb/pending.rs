//! Choices whose packets are under way, and what these earn.

use super::arms::Arms;
use crate::{MAX_PATHS, PathIndex, PathSet};

/// How many unsettled choices of a path are told apart.
///
/// About one per acknowledgement: so many are needed for a window of some hundred packets.
const CAPACITY: usize = 128;

/// One choice, and what its packets have earned so far.
#[derive(Debug, Clone, Copy, Default)]
struct Choice {
    /// The decision that it began with.
    first: u64,
    sent: u32,
    /// Or [`DONE`](Self::DONE).
    settled: u32,
    /// Sum of the packets' rewards.
    earned: f64,
}

impl Choice {
    /// Its reward was told; it is here only because an older one is.
    const DONE: u32 = u32::MAX;

    const fn is_done(&self) -> bool {
        self.settled == Self::DONE
    }

    /// Tells its reward if no packet of it is under way.
    fn finish(&mut self, path: PathIndex, arms: &mut Arms) {
        if self.is_done() || self.settled < self.sent {
            return;
        }
        self.settled = Self::DONE;
        if self.sent > 0 {
            arms.update(path, self.earned / f64::from(self.sent));
        } else {
            arms.abandon(path);
        }
    }
}

/// A path's choices since the oldest that is not settled, oldest first.
#[derive(Debug, Clone, Copy)]
struct Queue {
    choices: [Choice; CAPACITY],
    oldest: usize,
    len: usize,
}

impl Default for Queue {
    fn default() -> Self {
        Self {
            choices: [Choice::default(); CAPACITY],
            oldest: 0,
            len: 0,
        }
    }
}

impl Queue {
    const fn at(&mut self, place: usize) -> &mut Choice {
        &mut self.choices[(self.oldest + place) % CAPACITY]
    }

    const fn newest(&mut self) -> Option<&mut Choice> {
        match self.len {
            0 => None,
            len => Some(self.at(len - 1)),
        }
    }

    /// The place of the choice that a decision belongs to: the last that did not begin later.
    fn place_of(&mut self, decision: u64) -> Option<usize> {
        let (mut begun, mut later) = (0, self.len);
        while begun < later {
            let middle = begun + (later - begun) / 2;
            if self.at(middle).first <= decision {
                begun = middle + 1;
            } else {
                later = middle;
            }
        }
        begun.checked_sub(1)
    }

    const fn drop_done(&mut self) {
        while self.len > 0 && self.at(0).is_done() {
            self.oldest = (self.oldest + 1) % CAPACITY;
            self.len -= 1;
        }
    }
}

/// The unsettled choices of all paths.
#[derive(Debug, Clone, Default)]
pub(super) struct Pending {
    queues: [Queue; MAX_PATHS],
    /// The paths that have any.
    waiting: PathSet,
}

impl Pending {
    /// The path was chosen; the decisions for it from this one on belong to the choice.
    pub(super) fn begin(&mut self, path: PathIndex, decision: u64, arms: &mut Arms) {
        self.waiting.insert(path);
        let queue = &mut self.queues[path.get()];
        if let Some(newest) = queue.newest() {
            // Nothing has come of it yet: the same choice, made again.
            if newest.sent == 0 && !newest.is_done() {
                return;
            }
            newest.finish(path, arms);
            let full = queue.len == CAPACITY;
            if full && queue.at(CAPACITY - 1).is_done() {
                queue.len -= 1;
            } else if full {
                return;
            }
            queue.drop_done();
        }
        queue.len += 1;
        *queue.at(queue.len - 1) = Choice {
            first: decision,
            ..Choice::default()
        };
        arms.chosen(path);
    }

    /// A packet left.
    pub(super) fn sent(&mut self, path: PathIndex, decision: u64) {
        if let Some(newest) = self.queues[path.get()].newest()
            && newest.first <= decision
            && !newest.is_done()
        {
            newest.sent += 1;
        }
    }

    /// A packet arrived or was lost. What is lost first and arrives after all counts as lost.
    pub(super) fn settled(
        &mut self,
        path: PathIndex,
        decision: u64,
        earned: f64,
        filling: PathSet,
        arms: &mut Arms,
    ) {
        let queue = &mut self.queues[path.get()];
        let Some(place) = queue.place_of(decision) else {
            return;
        };
        let gets_more = place + 1 == queue.len && filling.contains(path);
        let choice = queue.at(place);
        if choice.settled < choice.sent {
            choice.settled += 1;
            choice.earned += earned;
        }
        if !gets_more && choice.sent > 0 {
            choice.finish(path, arms);
            self.tidy(path);
        }
    }

    /// All paths but these have sent all that they were chosen for.
    pub(super) fn sweep(&mut self, filling: PathSet, arms: &mut Arms) {
        for path in self.waiting.difference(filling).iter() {
            if let Some(newest) = self.queues[path.get()].newest() {
                newest.finish(path, arms);
            }
            self.tidy(path);
        }
    }

    fn tidy(&mut self, path: PathIndex) {
        let queue = &mut self.queues[path.get()];
        queue.drop_done();
        if queue.len == 0 {
            self.waiting.remove(path);
        }
    }

    /// The path is gone: how many choices of it will never be settled.
    pub(super) fn forget(&mut self, path: PathIndex) -> u64 {
        let queue = &mut self.queues[path.get()];
        let open = (0..queue.len)
            .filter(|place| !queue.at(*place).is_done())
            .count();
        queue.len = 0;
        self.waiting.remove(path);
        open as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::UcbConfig;

    fn slot(slot: usize) -> PathIndex {
        PathIndex::new(slot).unwrap()
    }

    /// Tells what was told to the bandit by its mean and its pulls.
    fn told(arms: &Arms, path: PathIndex) -> (u64, u32, Option<f64>) {
        let Arms::Plain(bandit) = arms else {
            unreachable!()
        };
        let arm = path.get();
        (bandit.pulls(arm), bandit.outstanding(arm), bandit.mean(arm))
    }

    struct Case {
        pending: Pending,
        arms: Arms,
    }

    impl Case {
        fn new() -> Self {
            Self {
                pending: Pending::default(),
                arms: Arms::new(&UcbConfig::default()),
            }
        }

        fn begin(&mut self, path: PathIndex, decision: u64, packets: u64) {
            self.pending.begin(path, decision, &mut self.arms);
            for packet in 0..packets {
                self.pending.sent(path, decision + packet);
            }
        }

        fn settled(&mut self, path: PathIndex, decision: u64, earned: f64, filling: PathSet) {
            let arms = &mut self.arms;
            self.pending.settled(path, decision, earned, filling, arms);
        }
    }

    #[test]
    fn a_choice_earns_what_its_packets_do_in_the_mean() {
        let (mut case, path) = (Case::new(), slot(3));
        case.begin(path, 10, 3);
        case.begin(path, 20, 1);
        assert_eq!(told(&case.arms, path), (0, 2, None));
        for (decision, earned) in [(12, 3.0), (11, 0.0), (20, 50.0)] {
            case.settled(path, decision, earned, PathSet::EMPTY);
        }
        // The newer one is complete first.
        assert_eq!(told(&case.arms, path), (1, 1, Some(50.0)));
        case.settled(path, 10, 6.0, PathSet::EMPTY);
        assert_eq!(told(&case.arms, path), (2, 0, Some(26.5)));
        assert!(case.pending.waiting.is_empty());
        // Unknown by now, or never known.
        for decision in [10, 20, 5] {
            case.settled(path, decision, 1e9, PathSet::EMPTY);
            case.settled(slot(0), decision, 1e9, PathSet::EMPTY);
        }
        assert_eq!(told(&case.arms, path), (2, 0, Some(26.5)));
    }

    #[test]
    fn a_choice_that_still_sends_is_not_over() {
        let (mut case, path) = (Case::new(), slot(0));
        case.begin(path, 1, 1);
        case.settled(path, 1, 4.0, PathSet::only(path));
        case.pending.sweep(PathSet::only(path), &mut case.arms);
        assert_eq!(told(&case.arms, path), (0, 1, None));
        case.pending.sent(path, 2);
        case.settled(path, 2, 8.0, PathSet::only(path));
        case.pending.sweep(PathSet::EMPTY, &mut case.arms);
        assert_eq!(told(&case.arms, path), (1, 0, Some(6.0)));
        // A packet of none of its choices.
        case.pending.sent(path, 3);
        case.settled(path, 3, 1.0, PathSet::EMPTY);
        assert_eq!(told(&case.arms, path), (1, 0, Some(6.0)));
        // The next choice ends the one before.
        case.begin(path, 4, 1);
        case.settled(path, 4, 9.0, PathSet::only(path));
        case.begin(path, 5, 0);
        assert_eq!(told(&case.arms, path), (2, 1, Some(7.5)));
        // Nothing came of this one; nor of its repetition.
        case.begin(path, 6, 0);
        case.pending.sweep(PathSet::EMPTY, &mut case.arms);
        assert_eq!(told(&case.arms, path), (2, 0, Some(7.5)));
        assert!(case.pending.waiting.is_empty());
    }

    #[test]
    fn more_choices_than_there_is_place_for_are_taken_together() {
        let (mut case, path) = (Case::new(), slot(1));
        let capacity = CAPACITY as u64;
        for decision in 0..2 * capacity {
            case.begin(path, decision, 1);
        }
        assert_eq!(told(&case.arms, path), (0, CAPACITY as u32, None));
        for decision in 0..2 * capacity {
            case.settled(path, decision, decision as f64, PathSet::EMPTY);
        }
        let (pulls, outstanding, mean) = told(&case.arms, path);
        assert_eq!((pulls, outstanding), (capacity, 0));
        // All but the last by themselves, and the rest in the mean, as the last.
        let last = (capacity - 1 + 2 * capacity - 1) as f64 / 2.0;
        let expected = ((0..capacity - 1).sum::<u64>() as f64 + last) / capacity as f64;
        assert!((mean.unwrap() - expected).abs() < 1e-9);
        // A gap at the end of a full queue is filled.
        for decision in 100..100 + capacity {
            case.begin(path, decision, 1);
        }
        case.settled(path, 99 + capacity, 1.0, PathSet::EMPTY);
        case.begin(path, 100 + capacity, 1);
        assert_eq!(told(&case.arms, path).1, CAPACITY as u32);
    }

    #[test]
    fn what_is_lost_and_arrives_after_all_is_lost() {
        let (mut case, path) = (Case::new(), slot(0));
        case.begin(path, 1, 2);
        for (decision, earned) in [(1, 0.0), (2, 10.0), (1, 10.0)] {
            case.settled(path, decision, earned, PathSet::EMPTY);
        }
        assert_eq!(told(&case.arms, path), (1, 0, Some(5.0)));
    }

    #[test]
    fn a_path_that_is_gone_is_owed_nothing() {
        let (mut case, path) = (Case::new(), slot(0));
        for decision in 1..4 {
            case.begin(path, decision, 1);
        }
        case.settled(path, 2, 1.0, PathSet::EMPTY);
        assert_eq!(case.pending.forget(path), 2);
        case.settled(path, 1, 1.0, PathSet::EMPTY);
        assert_eq!(told(&case.arms, path), (1, 2, Some(1.0)));
        assert_eq!(case.pending.forget(path), 0);
    }
}
