//! What the schedulers that may wait for a faster path share: which path that is, how long a wait
//! may last, a flag per pair of paths; the rule of when to wait is each scheduler's own.

use std::time::{Duration, Instant};

use crate::min_rtt::rank;
use crate::{Context, Data, Decision, MAX_PATHS, PathIndex, PathSet, PathView};

/// What a decision is about, before any rule of waiting.
///
/// `fast` is the path with the smallest smoothed RTT among the open ones of the best
/// [standing](PathView::standing), whether or not it can send; `slow` is what
/// [`MinRtt`](crate::MinRtt) would take: the one with the smallest smoothed RTT among those of
/// them that can. Of equals, the lowest slot.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Choice<'a> {
    /// No path that the preferences allow has room: there is no question.
    Nothing,
    /// This path, without any test: it is the fast one; or the fast one is not worth waiting for,
    /// being in trouble or having nothing in flight whose acknowledgement would end the wait; or
    /// the slow one has no RTT sample and is to get one; or there is no new data, and whatever else
    /// there is (control frames, datagrams, data to be sent again) does not wait.
    Plain(&'a PathView),
    /// The fast path's window has room, and its pacer lets the next packet go so soon that it
    /// arrives no later than one sent on the slow path now.
    ///
    /// In the kernel, where these schedulers come from, such a path is available: it tests the
    /// window alone, and pacing happens below the scheduler. Waiting until
    /// [`next_release`](PathView::next_release) is the same thing; falling through to the slow path
    /// would be a spill that the rules do not know.
    Paced {
        fast: &'a PathView,
        slow: &'a PathView,
    },
    /// The fast path is full, the slow one is not: the scheduler's rule decides. A pacer that
    /// holds the fast path back for longer than [`Paced`](Self::Paced) allows counts as a full
    /// window, as long as something is in flight.
    Between {
        fast: &'a PathView,
        slow: &'a PathView,
    },
}

impl<'a> Choice<'a> {
    /// One walk over the slots.
    #[inline]
    pub(crate) fn of(cx: &Context<'a>) -> Self {
        // As in `MinRtt`: a better standing voids what was found before.
        let mut standing = u8::MAX;
        let (mut least, mut least_ready) = (u64::MAX, u64::MAX);
        let (mut fast, mut slow) = (None, None);
        for path in cx.open() {
            if path.standing() != standing {
                if path.standing() > standing {
                    continue;
                }
                standing = path.standing();
                (least, least_ready) = (u64::MAX, u64::MAX);
                (fast, slow) = (None, None);
            }
            let rank = rank(path);
            if rank < least {
                least = rank;
                fast = Some(path);
            }
            let rank = if path.can_send { rank } else { u64::MAX };
            if rank < least_ready {
                least_ready = rank;
                slow = Some(path);
            }
        }
        let (Some(fast), Some(slow)) = (fast, slow) else {
            return Self::Nothing;
        };
        // An untested fast path means that all are: they are ranked behind those with a sample.
        if fast.index == slow.index || fast.suspect || !slow.has_rtt() || !has_new_data(cx) {
            return Self::Plain(slow);
        }
        if let Some(release) = fast.next_release {
            // Arrival on either path: half an RTT after departure.
            let held = release.saturating_duration_since(cx.now);
            let arrival = held.saturating_mul(2).saturating_add(fast.smoothed_rtt);
            if arrival <= slow.smoothed_rtt {
                return Self::Paced { fast, slow };
            }
        }
        if fast.in_flight == 0 {
            return Self::Plain(slow);
        }
        Self::Between { fast, slow }
    }
}

/// Whether there is new data and the peer's window lets it go.
fn has_new_data(cx: &Context<'_>) -> bool {
    cx.queue.unsent > 0 && cx.queue.window_left > 0
}

/// Nothing to send on: whatever gives a path room is an event.
pub(crate) const NO_ROOM: Decision = Decision::Wait { until: None };

/// Keeps every wait finite.
///
/// A wait begins with the first decision to wait since new data was last sent, and lasts no longer
/// than the awaited path's probe timeout without back-off, which is its smoothed RTT, four times
/// its RTT variation and the peer's longest ACK delay (RFC 9002 section 6.2.1). By then an
/// acknowledgement of something in flight is overdue, and one packet goes to the slow path. The
/// kernel's schedulers need no such rule: they live off TCP's own ACK clock.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct WaitClock {
    since: Option<Instant>,
}

impl WaitClock {
    /// Sends new data, or whatever else there is, on `path`.
    #[inline]
    pub(crate) fn send(&mut self, path: &PathView) -> Decision {
        self.since = None;
        Decision::send(path.index)
    }

    /// Holds new data back for `fast`, unless that has gone on for too long.
    ///
    /// Control frames, datagrams and retransmissions are no new data: they go on the slow path
    /// meanwhile, and the wait goes on.
    pub(crate) fn wait(&mut self, cx: &Context<'_>, fast: &PathView, slow: &PathView) -> Decision {
        let since = *self.since.get_or_insert(cx.now);
        let deadline = since.checked_add(fast.pto);
        if deadline.is_some_and(|deadline| deadline <= cx.now) {
            return self.send(slow);
        }
        if cx.queue.retransmittable > 0 || cx.queue.control {
            return Decision::Send {
                path: slow.index,
                data: Data::Again,
                copies: PathSet::EMPTY,
            };
        }
        // A pacer needs a timer; nothing else tells that it has opened.
        let release = fast.next_release.filter(|release| *release > cx.now);
        Decision::Wait {
            until: deadline.into_iter().chain(release).min(),
        }
    }
}

/// A flag for each ordered pair of slots.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct PairFlags([PathSet; MAX_PATHS]);

impl PairFlags {
    pub(crate) fn get(&self, fast: PathIndex, slow: PathIndex) -> bool {
        self.0[fast.get()].contains(slow)
    }

    pub(crate) fn set(&mut self, fast: PathIndex, slow: PathIndex, value: bool) {
        let row = &mut self.0[fast.get()];
        if value {
            row.insert(slow);
        } else {
            row.remove(slow);
        }
    }

    /// A path ended: the slot's next one starts without flags.
    pub(crate) fn forget(&mut self, path: PathIndex) {
        self.0[path.get()] = PathSet::EMPTY;
        for row in &mut self.0 {
            row.remove(path);
        }
    }
}

/// A duration in nanoseconds, as a float: products with bytes do not overflow, and 53 bits hold a
/// hundred days exactly.
#[inline]
pub(crate) fn nanos(duration: Duration) -> f64 {
    duration.as_secs() as f64 * 1e9 + f64::from(duration.subsec_nanos())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{PathStatus, QueueView};

    const fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    fn path(slot: usize, rtt: u64) -> PathView {
        PathView {
            open: true,
            can_send: true,
            smoothed_rtt: ms(rtt),
            pto: ms(rtt + 40),
            ..PathView::closed(PathIndex::new(slot).unwrap())
        }
    }

    fn full(slot: usize, rtt: u64) -> PathView {
        PathView {
            can_send: false,
            in_flight: 12_000,
            ..path(slot, rtt)
        }
    }

    fn queue() -> QueueView {
        QueueView {
            unsent: 100_000,
            window_left: 1_000_000,
            ..QueueView::default()
        }
    }

    /// The kind of choice, with the slots of fast and slow.
    fn choice(now: Instant, paths: &[PathView], queue: &QueueView) -> String {
        match Choice::of(&Context::new(now, paths, queue, 0)) {
            Choice::Nothing => "nothing".into(),
            Choice::Plain(path) => format!("plain {}", path.index),
            Choice::Paced { fast, slow } => format!("paced {} {}", fast.index, slow.index),
            Choice::Between { fast, slow } => format!("between {} {}", fast.index, slow.index),
        }
    }

    #[test]
    fn which_path_is_fast_and_which_is_slow() {
        let now = Instant::now();
        let backup = |view| PathView {
            status: PathStatus::Backup,
            ..view
        };
        let suspect = |view| PathView {
            suspect: true,
            ..view
        };
        let idle = |view| PathView {
            in_flight: 0,
            ..view
        };
        let table: &[(&str, &[PathView], &str)] = &[
            ("no path", &[], "nothing"),
            ("all full", &[full(0, 10), full(1, 50)], "nothing"),
            ("fast has room", &[path(0, 50), path(1, 10)], "plain 1"),
            ("fast is full", &[path(0, 50), full(1, 10)], "between 1 0"),
            (
                "the fastest of those with room",
                &[full(0, 10), full(1, 20), path(2, 90), path(3, 60)],
                "between 0 3",
            ),
            (
                "ties go to the lowest slot",
                &[full(0, 10), full(1, 10), path(2, 60), path(3, 60)],
                "between 0 2",
            ),
            (
                "a slower path that is full is nobody's concern",
                &[path(0, 10), full(1, 20)],
                "plain 0",
            ),
            (
                "nothing in flight would end the wait",
                &[idle(full(0, 10)), path(1, 50)],
                "plain 1",
            ),
            (
                "a backup path is not spilled to",
                &[full(0, 90), backup(path(1, 10))],
                "nothing",
            ),
            (
                "nor is it waited for",
                &[path(0, 90), backup(full(1, 10))],
                "plain 0",
            ),
            (
                "nor is a path in trouble",
                &[suspect(full(0, 10)), path(1, 50)],
                "plain 1",
            ),
            (
                "even if all are",
                &[suspect(full(0, 10)), suspect(path(1, 50))],
                "plain 1",
            ),
            (
                "a path without a sample is not waited for",
                &[full(0, 0), path(1, 50)],
                "plain 1",
            ),
            (
                "and gets its first packets without a test",
                &[full(0, 10), path(1, 0)],
                "plain 1",
            ),
            (
                "no samples at all",
                &[full(0, 0), path(1, 0), path(2, 0)],
                "plain 1",
            ),
        ];
        for (case, paths, expected) in table {
            assert_eq!(choice(now, paths, &queue()), *expected, "{case}");
        }
    }

    #[test]
    fn only_new_data_waits() {
        let now = Instant::now();
        let paths = [full(0, 10), path(1, 50)];
        assert_eq!(choice(now, &paths, &queue()), "between 0 1");
        let nothing_new = QueueView {
            unsent: 0,
            retransmittable: 5000,
            ..queue()
        };
        assert_eq!(choice(now, &paths, &nothing_new), "plain 1");
        let no_credit = QueueView {
            window_left: 0,
            ..queue()
        };
        assert_eq!(choice(now, &paths, &no_credit), "plain 1");
    }

    #[test]
    fn a_pacer_is_waited_for_while_the_packet_still_arrives_first() {
        let now = Instant::now();
        let paced = |held| PathView {
            next_release: Some(now + ms(held)),
            ..full(0, 10)
        };
        // Sent on the slow path now, it arrives after 50 / 2 = 25 ms; on the fast one after the
        // pacer's time and 10 / 2 = 5 ms: the pacer may take 20 ms.
        for (held, expected) in [(1, "paced 0 1"), (20, "paced 0 1"), (21, "between 0 1")] {
            let paths = [paced(held), path(1, 50)];
            assert_eq!(choice(now, &paths, &queue()), expected, "{held} ms");
        }
        let nothing_in_flight = |held| PathView {
            in_flight: 0,
            ..paced(held)
        };
        for (held, expected) in [(20, "paced 0 1"), (21, "plain 1")] {
            let paths = [nothing_in_flight(held), path(1, 50)];
            assert_eq!(choice(now, &paths, &queue()), expected, "{held} ms, idle");
        }
    }

    fn wait(
        clock: &mut WaitClock,
        now: Instant,
        paths: &[PathView],
        queue: &QueueView,
    ) -> Decision {
        clock.wait(&Context::new(now, paths, queue, 0), &paths[0], &paths[1])
    }

    #[test]
    fn no_wait_outlasts_the_probe_timeout() {
        let start = Instant::now();
        let mut paths = [full(0, 10), path(1, 50)];
        let queue = queue();
        let mut clock = WaitClock::default();
        let deadline = Some(start + ms(50));
        for at in [0, 20, 49] {
            assert_eq!(
                wait(&mut clock, start + ms(at), &paths, &queue),
                Decision::Wait { until: deadline },
                "after {at} ms"
            );
        }
        let slow = Decision::send(paths[1].index);
        assert_eq!(wait(&mut clock, start + ms(50), &paths, &queue), slow);
        // One packet, and a new wait begins.
        assert_eq!(
            wait(&mut clock, start + ms(50), &paths, &queue),
            Decision::Wait {
                until: Some(start + ms(100))
            }
        );
        // Whatever is sent ends the wait.
        clock.send(&paths[0]);
        assert_eq!(
            wait(&mut clock, start + ms(99), &paths, &queue),
            Decision::Wait {
                until: Some(start + ms(149))
            }
        );
        // The pacer's release comes first, unless it is over already.
        paths[0].next_release = Some(start + ms(120));
        for (at, until) in [(110, 120), (120, 149)] {
            assert_eq!(
                wait(&mut clock, start + ms(at), &paths, &queue),
                Decision::Wait {
                    until: Some(start + ms(until))
                }
            );
        }
    }

    #[test]
    fn what_is_not_new_goes_on_meanwhile() {
        let start = Instant::now();
        let paths = [full(0, 10), path(1, 50)];
        let again = Decision::Send {
            path: paths[1].index,
            data: Data::Again,
            copies: PathSet::EMPTY,
        };
        for queue in [
            QueueView {
                retransmittable: 1,
                ..queue()
            },
            QueueView {
                control: true,
                ..queue()
            },
        ] {
            let mut clock = WaitClock::default();
            assert_eq!(wait(&mut clock, start, &paths, &queue), again);
            assert_eq!(wait(&mut clock, start + ms(49), &paths, &queue), again);
            // It does not put the end of the wait off.
            assert_eq!(
                wait(&mut clock, start + ms(50), &paths, &queue),
                Decision::send(paths[1].index)
            );
        }
    }

    #[test]
    fn flags_are_of_ordered_pairs() {
        let p = |slot| PathIndex::new(slot).unwrap();
        let mut flags = PairFlags::default();
        flags.set(p(0), p(1), true);
        flags.set(p(2), p(1), true);
        assert!(flags.get(p(0), p(1)) && !flags.get(p(1), p(0)));
        flags.set(p(0), p(1), false);
        assert!(!flags.get(p(0), p(1)) && flags.get(p(2), p(1)));
        flags.set(p(1), p(15), true);
        flags.forget(p(1));
        assert!(!flags.get(p(2), p(1)) && !flags.get(p(1), p(15)));
    }

    #[test]
    fn nanoseconds() {
        assert_eq!(nanos(Duration::new(3, 17)), 3_000_000_017.0);
    }
}
