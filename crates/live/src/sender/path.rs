//! A path as the sender sees it: what the transport says of it, its habit, and for how long it has been silent.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::habit::Habit;

/// A path, by the number that the transport has for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PathId(pub u32);

/// What the transport knows of an open path.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PathView {
    /// Which path.
    pub id: PathId,
    /// Its smoothed round-trip time.
    pub rtt: Duration,
    /// By how much that varies: the smoothed deviation (RFC 9002 section 5.3).
    pub rttvar: Duration,
    /// Bytes that the congestion window has room for now.
    pub room: u64,
    /// Bytes per second that the path can carry: a forecast, or the window over the round-trip time, but not what the application
    /// happens to send. 0 if it is not known: then nothing is held back for want of it.
    pub rate: u64,
    /// Only to be used if there is no other.
    pub backup: bool,
}

/// No trigger is shorter than a round trip and this: a shorter one cost 6 to 8 % of bytes on mobile paths, by false alarms.
const LEAST: Duration = Duration::from_millis(10);

/// A path that is silent for a round trip and this is suspect; with a habit of longer round trips, up to twice this.
const SUSPECT: Duration = Duration::from_millis(20);

/// After so much more time it is dark.
pub(super) const DARK: Duration = Duration::from_millis(30);

/// How often a dark path is probed.
pub(super) const PROBE: Duration = Duration::from_millis(50);

/// How many packets in flight are followed for a path.
const FOLLOWED: usize = 4_096;

/// Whether a path can be relied on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    Well,
    /// Silent for longer than it should be.
    Suspect,
    /// Silent for so long that nothing new is sent on it.
    Dark,
}

#[derive(Debug)]
pub(super) struct Path {
    pub(super) view: PathView,
    habit: Habit,
    /// When what was sent after the newest acknowledged packet was sent, in that order.
    silent: VecDeque<Instant>,
    /// When the newest acknowledged packet was sent.
    heard: Option<Instant>,
    /// Round trips of what was sent before count for nothing: a hole was on their way.
    fresh_from: Option<Instant>,
    /// Packets that may become overdue, with the time when they were sent.
    pub(super) watched: VecDeque<(u64, Instant)>,
    pub(super) next_probe: Option<Instant>,
    /// Bytes handed to it since the view was given.
    pub(super) given: u64,
    /// Bytes of datagrams that left on it and of whose fate nothing is known.
    pub(super) flying: u64,
    /// How often a frame went over it so that its window grows, and when last.
    pub(super) widened: u8,
    pub(super) widened_at: Option<Instant>,
}

impl Path {
    pub(super) fn new(view: PathView) -> Self {
        Self {
            view,
            habit: Habit::new(),
            silent: VecDeque::new(),
            heard: None,
            fresh_from: None,
            watched: VecDeque::new(),
            next_probe: None,
            given: 0,
            flying: 0,
            widened: 0,
            widened_at: None,
        }
    }

    pub(super) fn sent(&mut self, tag: u64, at: Instant, watch: bool) {
        if self.heard.is_none_or(|heard| at > heard) && self.silent.len() < FOLLOWED {
            self.silent.push_back(at);
        }
        if watch && self.watched.len() < FOLLOWED {
            self.watched.push_back((tag, at));
        }
    }

    pub(super) fn acknowledged(&mut self, sent: Instant, at: Instant) {
        if self.standing(at) == Standing::Dark {
            self.fresh_from = Some(at);
        }
        self.heard = self.heard.max(Some(sent));
        while self
            .silent
            .front()
            .is_some_and(|front| Some(*front) <= self.heard)
        {
            self.silent.pop_front();
        }
        if self.fresh_from.is_none_or(|from| sent >= from) {
            self.habit.push(at.saturating_duration_since(sent));
        }
    }

    /// The way to the peer, if half of the shortest round trip.
    pub(super) fn one_way(&self) -> Duration {
        self.habit
            .shortest()
            .map_or(self.view.rtt, |shortest| shortest.min(self.view.rtt))
            / 2
    }

    /// When what is sent now would arrive, behind what was handed over since.
    pub(super) fn arrival(&self, now: Instant) -> Instant {
        let queue = match self.view.rate {
            0 => Duration::ZERO,
            rate => Duration::from_secs_f64(self.given as f64 / rate as f64),
        };
        now + self.view.rtt / 2 + queue
    }

    pub(super) fn has_room(&self, bytes: usize) -> bool {
        self.view.room >= self.given + bytes as u64
    }

    /// For how long a path may be silent, until it is suspect.
    fn patience(&self) -> Duration {
        let extra = match self.habit.most() {
            Some(most) => most.saturating_sub(self.view.rtt),
            None => self.view.rttvar * 3 / 2,
        };
        self.view.rtt + extra.clamp(SUSPECT, 2 * SUSPECT)
    }

    pub(super) fn standing(&self, now: Instant) -> Standing {
        match self.silent.front() {
            Some(since) if now >= *since + self.patience() + DARK => Standing::Dark,
            Some(since) if now >= *since + self.patience() => Standing::Suspect,
            _ => Standing::Well,
        }
    }

    /// For how long the oldest packet has been on its way, of those that were sent after the newest acknowledged one: while packets
    /// leave, a round trip with all queues.
    pub(super) fn age(&self, now: Instant) -> Duration {
        self.silent.front().map_or(Duration::ZERO, |since| {
            now.saturating_duration_since(*since)
        })
    }

    /// When it is dark, if nothing is heard until then.
    pub(super) fn dark_at(&self) -> Option<Instant> {
        self.silent
            .front()
            .map(|since| *since + self.patience() + DARK)
    }

    /// When it is suspect, if nothing is heard until then.
    pub(super) fn suspect_at(&self) -> Option<Instant> {
        self.silent.front().map(|since| *since + self.patience())
    }

    /// After which time a packet is overdue.
    pub(super) fn overdue_after(&self, now: Instant) -> Duration {
        let habit = match self.habit.most() {
            Some(most) => most.max(self.view.rtt + LEAST),
            None => self.view.rtt + SUSPECT.max(2 * self.view.rttvar),
        };
        match self.standing(now) {
            Standing::Well => habit,
            _ => habit.min(self.patience()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn path() -> Path {
        Path::new(PathView {
            id: PathId(0),
            rtt: ms(50),
            rttvar: ms(5),
            room: 10_000,
            rate: 1_000_000,
            backup: false,
        })
    }

    #[test]
    fn silence_is_counted_from_what_should_have_been_answered() {
        let (mut path, begin) = (path(), Instant::now());
        assert_eq!(path.standing(begin + ms(10_000)), Standing::Well);
        path.sent(0, begin, true);
        path.sent(1, begin + ms(30), true);
        assert_eq!(path.standing(begin + ms(69)), Standing::Well);
        assert_eq!(path.standing(begin + ms(70)), Standing::Suspect);
        assert_eq!(path.standing(begin + ms(100)), Standing::Dark);
        assert_eq!(path.dark_at(), Some(begin + ms(100)));
        // The first one's answer shows that the path was alive until the second one was sent.
        path.acknowledged(begin, begin + ms(52));
        assert_eq!(path.standing(begin + ms(99)), Standing::Well);
        assert_eq!(path.standing(begin + ms(100)), Standing::Suspect);
        path.acknowledged(begin + ms(30), begin + ms(110));
        assert_eq!(path.standing(begin + ms(10_000)), Standing::Well);
    }

    #[test]
    fn what_waited_in_a_hole_is_no_habit() {
        let (mut path, begin) = (path(), Instant::now());
        for i in 0..100 {
            path.sent(i, begin + ms(i), true);
            path.acknowledged(begin + ms(i), begin + ms(i + 50));
        }
        assert_eq!(path.habit.most(), Some(ms(50)));
        assert_eq!(path.overdue_after(begin + ms(150)), ms(60));
        for i in 200..400 {
            path.sent(i, begin + ms(i), true);
        }
        for i in 200..400 {
            path.acknowledged(begin + ms(i), begin + ms(1_000));
        }
        assert_eq!(path.habit.most(), Some(ms(50)));
        // What is sent after it counts again.
        for i in 1_000..1_100 {
            path.sent(i, begin + ms(i), true);
            path.acknowledged(begin + ms(i), begin + ms(i + 90));
        }
        assert_eq!(path.habit.most(), Some(ms(90)));
        // No habit makes it wait for more than a round trip and 40 ms.
        assert_eq!(path.patience(), ms(90));
    }
}
