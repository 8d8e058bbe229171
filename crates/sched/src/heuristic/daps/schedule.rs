//! The schedule of a period: which packets of the data order belong to which path.

use std::time::Duration;

use crate::{MAX_PATHS, PathIndex, PathSet};

/// Time slots in a period at most.
pub(super) const MAX_SLOTS: u32 = 64;

/// What the schedule is made from: one path.
#[derive(Debug, Clone, Copy)]
pub(super) struct Plan {
    pub(super) path: PathIndex,
    pub(super) rtt: Duration,
    /// Packets in a burst.
    pub(super) burst: u32,
    /// Stream data in a packet, bytes.
    pub(super) payload: u64,
}

/// One path's part of it.
#[derive(Debug, Clone, Copy)]
struct Run {
    plan: Plan,
    /// Forward delay, slots.
    delay: u32,
    /// The slot in which the burst under way arrives; beyond the period when all are sent.
    slot: u32,
    /// Packets left of that burst.
    left: u32,
}

/// A period of so many slots: in each slot that is a multiple of a path's forward delay, a burst of
/// that path arrives, paths with a smaller RTT first. Data is numbered in that order, and each path
/// goes through its own bursts at its own pace.
#[derive(Debug, Clone, Default)]
pub(super) struct Schedule {
    /// By ascending RTT.
    runs: [Option<Run>; MAX_PATHS],
    /// Slots.
    period: u32,
}

impl Schedule {
    /// The schedule for these paths, with forward delays in units of `unit`, or of as much more as
    /// it takes for a period that is not too long. Replaces what was left.
    pub(super) fn build(&mut self, plans: impl Iterator<Item = Plan> + Clone, unit: Duration) {
        self.runs = [None; MAX_PATHS];
        let mut unit = unit.as_nanos().max(1);
        self.period = loop {
            match period(plans.clone().map(|plan| delay(plan.rtt, unit))) {
                Some(period) => break period,
                None => unit += unit.div_ceil(8),
            }
        };
        // Insertion keeps the order of equals: lowest slot first.
        for plan in plans {
            let delay = delay(plan.rtt, unit);
            let run = Run {
                plan,
                delay,
                slot: delay,
                left: plan.burst,
            };
            let runs = self.runs.iter().flatten();
            let at = runs.take_while(|run| run.plan.rtt <= plan.rtt).count();
            self.runs[at..].rotate_right(1);
            self.runs[at] = Some(run);
        }
    }

    /// Paths with packets left to send in this period.
    pub(super) fn pending(&self) -> PathSet {
        let runs = self.runs.iter().flatten();
        runs.filter(|run| run.slot <= self.period)
            .map(|run| run.plan.path)
            .collect()
    }

    /// A packet of this path's part was sent.
    pub(super) fn on_sent(&mut self, path: PathIndex) {
        let period = self.period;
        let run = self.runs.iter_mut().flatten();
        if let Some(run) = run.into_iter().find(|run| run.plan.path == path)
            && run.slot <= period
        {
            run.left -= 1;
            if run.left == 0 {
                run.slot += run.delay;
                run.left = run.plan.burst;
            }
        }
    }

    /// A path ended: nothing of its part will be sent.
    pub(super) fn remove(&mut self, path: PathIndex) {
        for run in &mut self.runs {
            if run.is_some_and(|run| run.plan.path == path) {
                *run = None;
            }
        }
        // No hole among those that are left.
        let mut to = 0;
        for from in 0..MAX_PATHS {
            if self.runs[from].is_some() {
                self.runs.swap(from, to);
                to += 1;
            }
        }
    }

    /// The path among `candidates` whose next packet comes first in the data order, and how much
    /// data comes before it that belongs to `usable` others, bytes.
    pub(super) fn first(&self, candidates: PathSet, usable: PathSet) -> Option<(PathIndex, u64)> {
        let mut first = None;
        for (place, run) in self.runs.iter().flatten().enumerate() {
            let path = run.plan.path;
            if run.slot > self.period || !candidates.contains(path) {
                continue;
            }
            if first.is_none_or(|(_, slot, _)| run.slot < slot) {
                first = Some((place, run.slot, path));
            }
        }
        let (place, slot, path) = first?;
        let before: u64 = self
            .runs
            .iter()
            .flatten()
            .enumerate()
            .filter(|(other, run)| *other != place && usable.contains(run.plan.path))
            // Within a slot, those with smaller RTTs come first.
            .map(|(other, run)| run.until(if other < place { slot } else { slot - 1 }))
            .sum();
        Some((path, before))
    }
}

impl Run {
    /// Stream bytes left to send of bursts that arrive up to a slot.
    fn until(&self, slot: u32) -> u64 {
        if slot < self.slot {
            return 0;
        }
        let bursts = u64::from((slot - self.slot) / self.delay);
        let packets = u64::from(self.left) + bursts * u64::from(self.plan.burst);
        packets * self.plan.payload
    }
}

/// Half an RTT in units, rounded; never 0.
fn delay(rtt: Duration, unit: u128) -> u32 {
    let delay = (rtt.as_nanos() + unit) / (2 * unit);
    u32::try_from(delay).unwrap_or(u32::MAX).max(1)
}

/// The least common multiple, unless it is too large.
fn period(delays: impl Iterator<Item = u32>) -> Option<u32> {
    let mut lcm = 1;
    for delay in delays {
        if delay > MAX_SLOTS {
            return None;
        }
        lcm = lcm / gcd(lcm, delay) * delay;
        if lcm > MAX_SLOTS {
            return None;
        }
    }
    Some(lcm)
}

fn gcd(mut a: u32, mut b: u32) -> u32 {
    while b > 0 {
        (a, b) = (b, a % b);
    }
    a
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const UNIT: Duration = Duration::from_millis(4);

    fn slot(index: usize) -> PathIndex {
        PathIndex::new(index).unwrap()
    }

    fn plan(index: usize, rtt: u64, burst: u32) -> Plan {
        Plan {
            path: slot(index),
            rtt: Duration::from_millis(rtt),
            burst,
            payload: 1000,
        }
    }

    fn schedule(plans: &[Plan]) -> Schedule {
        let mut schedule = Schedule::default();
        schedule.build(plans.iter().copied(), UNIT);
        schedule
    }

    /// The paths in the order of the data.
    fn order(mut schedule: Schedule) -> Vec<usize> {
        let mut order = Vec::new();
        while let Some((path, before)) = schedule.first(schedule.pending(), schedule.pending()) {
            assert_eq!(before, 0, "{order:?}");
            schedule.on_sent(path);
            order.push(path.get());
        }
        order
    }

    #[test]
    fn periods() {
        let ms = Duration::from_millis;
        for (rtts, expected) in [
            (&[8][..], 1),
            (&[8, 16], 2),
            // 24 ms are 3 slots, 80 ms are 10.
            (&[24, 80], 30),
            // 13 and 10 slots make 130: with 4.5 ms, 12 and 9 make 36.
            (&[104, 80], 36),
            (&[], 1),
            (&[0, 1], 1),
        ] {
            let plans: Vec<_> = rtts.iter().map(|rtt| plan(0, *rtt, 1)).collect();
            assert_eq!(schedule(&plans).period, expected, "{rtts:?}");
        }
        // Half a slot is rounded up.
        assert_eq!(delay(ms(20), UNIT.as_nanos()), 3);
        assert_eq!(delay(ms(19), UNIT.as_nanos()), 2);
        assert_eq!(delay(ms(70), UNIT.as_nanos()), 9);
    }

    #[test]
    fn data_is_numbered_in_the_order_of_arrival() {
        // Delays 1 and 3: the slow path's burst arrives with the fast one's third.
        assert_eq!(
            order(schedule(&[plan(0, 8, 2), plan(1, 24, 3)])),
            [0, 0, 0, 0, 0, 0, 1, 1, 1]
        );
        // Delays 2 and 3, six slots: 2, 3, 4, 6 (the faster one first), 6.
        assert_eq!(
            order(schedule(&[plan(5, 24, 2), plan(3, 16, 1)])),
            [3, 5, 5, 3, 3, 5, 5]
        );
        // Equals take turns by burst, lowest slot first.
        assert_eq!(order(schedule(&[plan(0, 8, 2), plan(1, 8, 1)])), [0, 0, 1]);
        assert_eq!(order(schedule(&[])), Vec::<usize>::new());
    }

    #[test]
    fn each_path_goes_on_at_its_own_pace() {
        let mut schedule = schedule(&[plan(0, 8, 2), plan(1, 24, 3)]);
        let (both, slow) = (schedule.pending(), PathSet::only(slot(1)));
        // Three bursts of two packets come before the slow path's.
        assert_eq!(schedule.first(slow, both), Some((slot(1), 6000)));
        schedule.on_sent(slot(1));
        assert_eq!(schedule.first(slow, both), Some((slot(1), 6000)));
        schedule.on_sent(slot(0));
        assert_eq!(schedule.first(slow, both), Some((slot(1), 5000)));
        // Without the fast path, nothing is left out for it.
        assert_eq!(schedule.first(slow, slow), Some((slot(1), 0)));
        schedule.on_sent(slot(1));
        schedule.on_sent(slot(1));
        assert_eq!(schedule.pending(), PathSet::only(slot(0)));
        assert_eq!(schedule.first(slow, both), None);
        assert_eq!(schedule.first(both, both), Some((slot(0), 0)));
        // More than was planned changes nothing.
        schedule.on_sent(slot(1));
        schedule.remove(slot(0));
        assert!(schedule.pending().is_empty());
    }

    proptest! {
        /// In each period every path sends as many bursts as its delay allows, whoever goes first.
        #[test]
        fn a_period_has_room_for_all(
            paths in prop::collection::vec((0_u64..2000, 1_u32..20), 1..=MAX_PATHS),
            turns in prop::collection::vec(any::<u16>(), 1..50),
        ) {
            let plans: Vec<_> = paths
                .iter()
                .enumerate()
                .map(|(index, (rtt, burst))| plan(index, *rtt, *burst))
                .collect();
            let mut schedule = schedule(&plans);
            prop_assert!(schedule.period <= MAX_SLOTS);
            let planned: u64 = schedule.runs.iter().flatten()
                .map(|run| u64::from(schedule.period / run.delay * run.plan.burst))
                .sum();
            let mut sent = 0;
            for turn in turns.iter().cycle() {
                let pending = schedule.pending();
                if pending.is_empty() {
                    break;
                }
                let nth = usize::from(*turn) % pending.len();
                let only: PathSet = pending.iter().skip(nth).take(1).collect();
                let (path, before) = schedule.first(only, pending).unwrap();
                prop_assert!(before / 1000 < planned - sent);
                schedule.on_sent(path);
                sent += 1;
            }
            prop_assert_eq!(sent, planned);
        }
    }
}
