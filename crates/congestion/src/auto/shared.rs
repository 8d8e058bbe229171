//! Whether paths of one connection meet in one bottleneck, by when they lose packets; holds no window.
//!
//! A queue that overflows drops packets of all who fill it, within a round trip. So each loss event asks: did another path lose
//! just before? The answers are trials of a sequential test (Wald 1945) of two hypotheses: that paths lose together as those do that
//! share a queue, or as often as chance has it. Paths that share one grow together like one flow (goal 2 of RFC 6356): as two flows
//! they would take two shares of it.
//!
//! What it cannot see: queues that drop before they are full (CoDel), and two bottlenecks that overflow in step because nobody
//! else uses them: there, windows grow more slowly than they need to.

use std::time::{Duration, Instant};

use mpquic_sched_core::{PathIndex, PathSet};

use super::Auto;

/// Of two paths that share a queue, so many loss events come within a round trip after one of the other path.
const TOGETHER: f32 = 0.35;
/// By chance at least so many do.
const LEAST_CHANCE: f32 = 0.02;
/// Of the logarithm of the likelihood ratio: from here on they share a queue, 55 to 1.
const SHARED: f32 = 4.0;
/// It stays between these, so that the newest events can change it.
const LEAST: f32 = -2.0;
const MOST: f32 = 6.0;
/// What a new interval between events weighs.
const WEIGHT: f32 = 0.25;
/// A path that has lost nothing for so many of its intervals fills no queue any more: what its events told is over.
const OVER: f32 = 4.0;

/// What the loss events of a path tell.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Meetings {
    last: Option<Instant>,
    /// The mean time between two events, seconds; 0 before there are two.
    interval: f32,
    /// The logarithm of the likelihood ratio, of the events of this path.
    evidence: f32,
    /// The paths that lost before it when it last lost together with others.
    with: PathSet,
    /// Those that share its bottleneck.
    shares: PathSet,
}

impl Meetings {
    /// How likely one of its events is in a time of this length, by chance; and whether there is one in the time up to now.
    fn near(&self, now: Instant, time: Duration) -> Option<(f32, bool)> {
        let since = now.saturating_duration_since(self.last?);
        let interval = self.interval.max(since.as_secs_f32());
        (self.interval > 0.0).then(|| (time.as_secs_f32() / interval, since <= time))
    }

    /// Whether it has lost nothing for far longer than it used to.
    fn is_over(&self, now: Instant) -> bool {
        self.last.is_some_and(|last| {
            now.saturating_duration_since(last).as_secs_f32() > OVER * self.interval
        })
    }

    /// A loss event. `chance`: how likely another path's was near, by chance; `with`: those whose was.
    fn on_event(&mut self, now: Instant, chance: f32, with: PathSet) {
        if let Some(last) = self.last.replace(now) {
            let interval = now.saturating_duration_since(last).as_secs_f32();
            let known = if self.interval > 0.0 {
                self.interval
            } else {
                interval
            };
            self.interval = known + WEIGHT * (interval - known);
        }
        let chance = chance.max(LEAST_CHANCE);
        if chance >= TOGETHER {
            // They lose so often that nothing can be told.
            return;
        }
        let ratio = if with.is_empty() {
            (1.0 - TOGETHER) / (1.0 - chance)
        } else {
            self.with = with;
            TOGETHER / chance
        };
        self.evidence = (self.evidence + ratio.ln()).clamp(LEAST, MOST);
    }

    /// Compares this path, which has just lost, with another one.
    fn compare(&mut self, now: Instant, this: PathIndex, other: &mut Self, path: PathIndex) {
        if other.is_over(now) {
            other.evidence = other.evidence.min(0.0);
        }
        let evidence = self.evidence + other.evidence;
        let met = self.with.contains(path) || other.with.contains(this);
        if evidence <= 0.0 {
            self.shares.remove(path);
            other.shares.remove(this);
        } else if evidence >= SHARED && met {
            self.shares.insert(path);
            other.shares.insert(this);
        }
    }
}

/// Which of the other paths lost just before, and how likely that is by chance. With each one, the longer one of its round trip and
/// the path's.
fn look_around<'a>(
    now: Instant,
    others: impl Iterator<Item = (PathIndex, &'a Meetings, Duration)>,
) -> (f32, PathSet) {
    let (mut chance, mut with) = (0.0, PathSet::EMPTY);
    for (other, meetings, rtt) in others {
        if let Some((likely, near)) = meetings.near(now, rtt) {
            chance += likely;
            if near {
                with.insert(other);
            }
        }
    }
    (chance, with)
}

impl Auto {
    /// A path's window gives way to a loss event that has just begun.
    pub(super) fn on_overflow(&mut self, path: PathIndex, now: Instant) {
        let several = self.paths.iter().nth(1).is_some();
        let Some(p) = self.watched_mut(path).filter(|_| several) else {
            return;
        };
        let (rtt, mut own) = (p.rtt, p.meetings.take().unwrap_or_default());
        let others = self.paths.iter().filter_map(|(other, slot)| {
            let p = slot.watched.as_ref().filter(|p| p.stay.is_none())?;
            Some((other, p.meetings.as_deref()?, rtt.max(p.rtt)))
        });
        let (chance, with) = look_around(now, others);
        own.on_event(now, chance, with);
        for other in (0..self.paths.len()).filter_map(PathIndex::new) {
            let meetings = self.watched_mut(other).map(|p| &mut p.meetings);
            if let Some(Some(meetings)) = meetings {
                own.compare(now, path, meetings, other);
            }
        }
        if let Some(p) = self.watched_mut(path) {
            p.meetings = Some(own);
        }
        self.grow_by_bottlenecks();
    }

    /// A path has ended, or continues elsewhere: others do not share its bottleneck any more.
    pub(super) fn part(&mut self, path: PathIndex) {
        for other in (0..self.paths.len()).filter_map(PathIndex::new) {
            let meetings = self.watched_mut(other).map(|p| &mut p.meetings);
            if let Some(Some(meetings)) = meetings {
                meetings.with.remove(path);
                meetings.shares.remove(path);
            }
        }
        self.grow_by_bottlenecks();
    }

    fn grow_by_bottlenecks(&mut self) {
        for (path, slot) in self.paths.iter() {
            let meetings = slot.watched.as_ref().and_then(|p| p.meetings.as_ref());
            let others = meetings.map_or(0, |meetings| meetings.shares.len());
            // There are no more than `MAX_PATHS`.
            self.cubic.grow_as_part(path, others as u8 + 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Duration = Duration::from_millis(50);

    fn path(index: usize) -> PathIndex {
        PathIndex::new(index).unwrap()
    }

    /// Events of two paths at these times, milliseconds: which paths share a bottleneck with each.
    fn after(events: &[(usize, u64)]) -> [PathSet; 2] {
        let start = Instant::now();
        let mut both = [Meetings::default(); 2];
        for &(of, at) in events {
            let now = start + Duration::from_millis(at);
            let other = (path(1 - of), &both[1 - of], RTT);
            let (chance, with) = look_around(now, [other].into_iter());
            both[of].on_event(now, chance, with);
            let [first, second] = &mut both;
            if of == 0 {
                first.compare(now, path(0), second, path(1));
            } else {
                second.compare(now, path(1), first, path(0));
            }
        }
        both.map(|meetings| meetings.shares)
    }

    #[test]
    fn paths_that_lose_together_share() {
        let events: Vec<_> = (0..12)
            .flat_map(|i| {
                [
                    (i as usize % 2, 2000 * i),
                    (1 - i as usize % 2, 2000 * i + 30),
                ]
            })
            .collect();
        let both = after(&events);
        assert_eq!(both, [PathSet::only(path(1)), PathSet::only(path(0))]);
    }

    #[test]
    fn paths_that_lose_at_times_of_their_own_do_not() {
        // Periods of 2 and 1.7 s: they meet every 34 s.
        let mut events: Vec<_> = (0..200).map(|i| (0, 2000 * i)).collect();
        events.extend((0..235).map(|i| (1, 1700 * i + 7)));
        events.sort_by_key(|event| event.1);
        for len in 1..events.len() {
            let both = after(&events[..len]);
            assert!(both[0].is_empty(), "{len}: {both:?}");
        }
    }

    #[test]
    fn losses_every_round_trip_tell_nothing() {
        let events: Vec<_> = (0..500).map(|i| (i as usize % 2, 50 * i)).collect();
        let both = after(&events);
        assert!(both[0].is_empty(), "{both:?}");
    }

    #[test]
    fn what_is_over_is_forgotten() {
        // Either is the first in turn, so that both have seen the other.
        let mut events: Vec<_> = (0..12)
            .flat_map(|i| {
                let first = i as usize % 2;
                [(first, 2000 * i), (1 - first, 2000 * i + 30)]
            })
            .collect();
        assert!(!after(&events)[1].is_empty());
        // From then on, the second one loses alone.
        events.extend((12..40).map(|i| (1, 2000 * i + 900)));
        assert!(after(&events)[1].is_empty());
    }
}
