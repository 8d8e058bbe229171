//! What the schedulers that may wait for a faster path share: which path that is, how long a wait
//! may last, a flag per pair of paths; the rule of when to wait is each scheduler's own.

use std::time::Instant;

use super::{Fastest, Patience, nanos};
use crate::{Context, Data, Decision, MAX_PATHS, PathIndex, PathSet, PathView, StreamId};

/// What a scheduler's rule says of new data, the fast path being full and the slow one not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Advice {
    /// Wait for the fast path.
    Wait,
    /// Send the next of it on the slow path.
    Send,
    /// Send the next of this stream on the slow path.
    SendStream(StreamId),
}

impl Advice {
    /// [`Wait`](Self::Wait) or [`Send`](Self::Send).
    pub const fn wait_if(wait: bool) -> Self {
        if wait { Self::Wait } else { Self::Send }
    }
}

/// Finds the paths between which to decide, asks a scheduler's rule if there is something to
/// decide, and keeps every wait finite.
///
/// `fast` is the path with the smallest smoothed RTT among the open ones of the best
/// [standing](PathView::standing), whether or not it can send; `slow` is what
/// [`MinRtt`](crate::MinRtt) would take: the one with the smallest smoothed RTT among those of
/// them that can. Of equals, the lowest slot.
///
/// **Waits end.** A wait begins with the first decision to wait since a packet was last sent, and
/// lasts no longer than the awaited path's probe timeout without back-off, which is its smoothed
/// RTT, four times its RTT variation and the peer's longest ACK delay (RFC 9002 section 6.2.1). By
/// then an acknowledgement of something in flight is overdue, and one packet goes to the slow path.
/// The kernel's schedulers need no such rule: they live off TCP's own ACK clock.
///
/// **All else** (lost data, control frames, datagrams) is not put to the rule: it takes no new
/// window space, and what follows lost data is of no use before it. It goes where the last of it
/// arrives first, see `opens_in` and `drains_in`. The references do the like: in the kernel a subflow repeats its own losses,
/// and the Go code sends them on the fast path even if that is full.
#[derive(Debug, Clone, Copy, Default)]
pub struct Waiting {
    patience: Patience,
    /// A fast path that only its pacer holds back is full.
    paced_is_full: bool,
    said: Said,
}

/// Why it said what it said last: a byte, put into words only for those who ask.
#[derive(Debug, Clone, Copy, Default)]
enum Said {
    #[default]
    NoRoom,
    NoTest,
    Paced,
    RuleWaits,
    RuleSends,
    LostFirst,
    WaitedEnough,
}

impl Waiting {
    /// For a scheduler that waits for a fast path that only its pacer holds back, provided that the packet still arrives
    /// no later than on the slow path, or else puts such a path to the rule as a full one. The default is to wait.
    pub const fn new(wait_for_pacer: bool) -> Self {
        Self {
            patience: Patience::NONE,
            paced_is_full: !wait_for_pacer,
            said: Said::NoRoom,
        }
    }

    /// Why the last decision was what it was, for [`Scheduler::why`](crate::Scheduler::why).
    pub const fn why(&self) -> &'static str {
        match self.said {
            Said::NoRoom => "no path has room",
            Said::NoTest => "fastest with room",
            Said::Paced => "the fast path's pacer opens soon",
            Said::RuleWaits => "the fast path is worth waiting for",
            Said::RuleSends => "the fast path is full, waiting gains nothing",
            Said::LostFirst => "lost data is sooner through here",
            Said::WaitedEnough => "waited for the fast path long enough",
        }
    }

    /// The decision. `rule` is asked for new data, with the fast and the slow path, and only if the
    /// fast one is full and can be waited for.
    #[inline]
    pub fn decide<'a>(
        &mut self,
        cx: &Context<'a>,
        rule: impl FnOnce(&'a PathView, &'a PathView) -> Advice,
    ) -> Decision {
        let (fast, slow) = match Choice::of(cx, !self.paced_is_full) {
            // Whatever gives a path room is an event.
            Choice::Nothing => {
                self.said = Said::NoRoom;
                return Decision::Wait { until: None };
            }
            Choice::Plain(path) => {
                self.said = Said::NoTest;
                return self.send(path, Data::Next);
            }
            Choice::Paced { fast, slow } => {
                self.said = Said::Paced;
                return self.wait(cx.now, fast, slow);
            }
            Choice::Between { fast, slow } => (fast, slow),
        };
        let queue = cx.queue;
        let lost = queue.retransmittable > 0;
        let held = || opens_in(fast) + drains_in(queue.retransmittable, fast);
        let goes_now = (lost || queue.control) && !arrives_sooner(held(), fast, slow);
        let advice = if has_new_data(cx) {
            rule(fast, slow)
        } else {
            Advice::wait_if(!goes_now)
        };
        self.said = match advice {
            _ if goes_now => Said::LostFirst,
            Advice::Wait => Said::RuleWaits,
            Advice::Send | Advice::SendStream(_) => Said::RuleSends,
        };
        match advice {
            Advice::Wait if goes_now => self.send_meanwhile(cx.now, fast, slow),
            Advice::Wait => self.wait(cx.now, fast, slow),
            Advice::Send if goes_now || !lost => self.send(slow, Data::Next),
            // New data without the lost, lowest offset first.
            Advice::Send => self.send(slow, Data::Ahead(0)),
            Advice::SendStream(_) if goes_now => self.send(slow, Data::Retransmit),
            Advice::SendStream(id) if lost && is_head(cx, id) => self.send(slow, Data::Ahead(0)),
            Advice::SendStream(id) => self.send(slow, Data::Stream(id)),
        }
    }

    #[inline]
    fn send(&mut self, path: &PathView, data: Data) -> Decision {
        self.patience.end();
        Decision::send_data(path.index, data)
    }

    fn wait(&mut self, now: Instant, fast: &PathView, slow: &PathView) -> Decision {
        let Some(deadline) = self.patience.deadline(now, fast) else {
            self.said = Said::WaitedEnough;
            return Decision::send(slow.index);
        };
        // Nothing but a timer tells that a pacer has opened.
        let until = match fast.next_release {
            Some(release) if release > now => release.min(deadline),
            _ => deadline,
        };
        Decision::Wait { until: Some(until) }
    }

    /// New data waits on while other things go on the slow path.
    fn send_meanwhile(&mut self, now: Instant, fast: &PathView, slow: &PathView) -> Decision {
        match self.patience.deadline(now, fast) {
            Some(_) => Decision::send_data(slow.index, Data::Retransmit),
            None => Decision::send(slow.index),
        }
    }
}

/// Whether there is new data and the peer's window lets it go.
pub fn has_new_data(cx: &Context<'_>) -> bool {
    cx.queue.unsent > 0 && cx.queue.window_left > 0
}

/// What must still pass through the paths' windows: what was never sent, and what was lost. ECF's K. Lost data is in it
/// (ours): the kernel repeats it on its own subflow, where it takes that window; here it is sent anew wherever there is
/// room.
pub const fn backlog(cx: &Context<'_>) -> u64 {
    cx.queue.unsent.saturating_add(cx.queue.retransmittable)
}

fn is_head(cx: &Context<'_>, stream: StreamId) -> bool {
    cx.queue.head.is_some_and(|head| head.id == stream)
}

/// Whether a packet that leaves on the fast path in `held` nanoseconds arrives no later than one
/// that leaves on the slow path now: half an RTT after departure.
fn arrives_sooner(held: f64, fast: &PathView, slow: &PathView) -> bool {
    2.0 * held + nanos(fast.smoothed_rtt) <= nanos(slow.smoothed_rtt)
}

/// In how many nanoseconds a full window has room for a packet. What is in flight is acknowledged
/// within an RTT, evenly: as much of an RTT as of that is too much. Right after a loss has halved
/// the window, this is half an RTT; otherwise the next acknowledgement is at hand.
fn opens_in(path: &PathView) -> f64 {
    let excess = (path.in_flight + u64::from(path.mtu)).saturating_sub(path.capacity());
    let share = excess as f64 / path.in_flight as f64;
    nanos(path.smoothed_rtt) * share.min(1.0)
}

/// In how many nanoseconds, from then on, the last of so many lost bytes leaves. After a burst of
/// losses on the slow path, a fast path with a small window would be busy with them for many round
/// trips; each one that the slow path takes is one less.
fn drains_in(lost: u64, path: &PathView) -> f64 {
    let behind = lost.saturating_sub(u64::from(path.mtu));
    nanos(path.smoothed_rtt) * behind as f64 / path.capacity() as f64
}

/// What a decision is about, before any rule of waiting.
#[derive(Debug, Clone, Copy)]
enum Choice<'a> {
    /// No path that the preferences allow has room: there is no question.
    Nothing,
    /// This path, without any test: it is the fast one; or the fast one is not worth waiting for,
    /// being in trouble or having nothing in flight whose acknowledgement would end the wait; or
    /// the slow one has no RTT sample and is to get one; or there is nothing to send.
    Plain(&'a PathView),
    /// The fast path's window has room, and its pacer lets the next packet go so soon that it
    /// arrives no later than one sent on the slow path now.
    ///
    /// Ours: no published rule knows pacers. Where pacing happens below the scheduler, a path whose window has room is
    /// available, and waiting until [`next_release`](PathView::next_release) is the same thing. Linux MPTCP v0.95 does not
    /// offer a subflow, though, that already has its share in the queues below it (`mptcp_is_temp_unavailable`). Hence a
    /// setting.
    Paced {
        fast: &'a PathView,
        slow: &'a PathView,
    },
    /// The fast path is full, the slow one is not: the scheduler's rule decides. A pacer that
    /// holds the fast path back for longer than [`Paced`](Self::Paced) allows counts as a full
    /// window, as long as something is in flight; so does one of a path that has as much in flight as
    /// the pace of its controller puts there in a round trip.
    Between {
        fast: &'a PathView,
        slow: &'a PathView,
    },
}

impl<'a> Choice<'a> {
    /// One walk over the slots. Inlined: the answer is taken apart at once, and would go through memory.
    #[inline(always)]
    fn of(cx: &Context<'a>, wait_for_pacer: bool) -> Self {
        let Some(Fastest {
            overall: fast,
            sendable: Some(slow),
        }) = Fastest::of(cx)
        else {
            return Self::Nothing;
        };
        let idle = !has_new_data(cx) && cx.queue.retransmittable == 0 && !cx.queue.control;
        // An untested fast path means that all are: they are ranked behind those with a sample.
        if fast.index == slow.index || fast.suspect || !slow.has_rtt() || idle {
            return Self::Plain(slow);
        }
        let room = fast.in_flight + u64::from(fast.mtu) <= fast.capacity();
        if let Some(release) = fast.next_release
            && wait_for_pacer
            && (room || fast.pacing_rate == 0)
        {
            let held = nanos(release.saturating_duration_since(cx.now));
            if arrives_sooner(held, fast, slow) {
                return Self::Paced { fast, slow };
            }
        }
        if fast.in_flight == 0 {
            return Self::Plain(slow);
        }
        Self::Between { fast, slow }
    }
}

/// A flag for each ordered pair of slots.
#[derive(Debug, Clone, Copy, Default)]
pub struct PairFlags([PathSet; MAX_PATHS]);

impl PairFlags {
    /// The flag of (`fast`, `slow`); false before it was set.
    pub fn get(&self, fast: PathIndex, slow: PathIndex) -> bool {
        self.0[fast.get()].contains(slow)
    }

    /// Sets the flag of (`fast`, `slow`).
    pub fn set(&mut self, fast: PathIndex, slow: PathIndex, value: bool) {
        let row = &mut self.0[fast.get()];
        if value {
            row.insert(slow);
        } else {
            row.remove(slow);
        }
    }

    /// A path ended: the slot's next one starts without flags.
    pub fn forget(&mut self, path: PathIndex) {
        self.0[path.get()] = PathSet::EMPTY;
        for row in &mut self.0 {
            row.remove(path);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{PathStatus, QueueView};

    const fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    fn path(slot: usize, rtt: u64) -> PathView {
        changed!(PathView::of(slot, ms(rtt)), pto = ms(rtt + 40))
    }

    fn full(slot: usize, rtt: u64) -> PathView {
        changed!(path(slot, rtt), can_send = false, in_flight = 12_000)
    }

    fn queue() -> QueueView {
        changed!(
            QueueView::default(),
            unsent = 100_000,
            window_left = 1_000_000
        )
    }

    /// The kind of choice, with the slots of fast and slow.
    fn choice(now: Instant, paths: &[PathView], queue: &QueueView) -> String {
        match Choice::of(&Context::new(now, paths, queue, 0), true) {
            Choice::Nothing => "nothing".into(),
            Choice::Plain(path) => format!("plain {}", path.index),
            Choice::Paced { fast, slow } => format!("paced {} {}", fast.index, slow.index),
            Choice::Between { fast, slow } => format!("between {} {}", fast.index, slow.index),
        }
    }

    #[test]
    fn which_path_is_fast_and_which_is_slow() {
        let now = Instant::now();
        let backup = |view: PathView| changed!(view, status = PathStatus::Backup);
        let suspect = |view: PathView| changed!(view, suspect = true);
        let idle = |view: PathView| changed!(view, in_flight = 0);
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
    fn without_data_there_is_no_question() {
        let now = Instant::now();
        let paths = [full(0, 10), path(1, 50)];
        assert_eq!(choice(now, &paths, &queue()), "between 0 1");
        let nothing = changed!(queue(), unsent = 0);
        assert_eq!(choice(now, &paths, &nothing), "plain 1");
        let control = changed!(nothing.clone(), control = true);
        assert_eq!(choice(now, &paths, &control), "between 0 1");
        let lost = changed!(nothing, retransmittable = 1);
        assert_eq!(choice(now, &paths, &lost), "between 0 1");
        let no_window = changed!(queue(), window_left = 0);
        assert_eq!(choice(now, &paths, &no_window), "plain 1");
    }

    #[test]
    fn a_pacer_is_waited_for_while_the_packet_still_arrives_first() {
        let now = Instant::now();
        let paced = |held| changed!(full(0, 10), next_release = Some(now + ms(held)));
        // Sent on the slow path now, it arrives after 50 / 2 = 25 ms; on the fast one after the
        // pacer's time and 10 / 2 = 5 ms: the pacer may take 20 ms.
        for (held, expected) in [(1, "paced 0 1"), (20, "paced 0 1"), (21, "between 0 1")] {
            let paths = [paced(held), path(1, 50)];
            assert_eq!(choice(now, &paths, &queue()), expected, "{held} ms");
        }
        let nothing_in_flight = |held| changed!(paced(held), in_flight = 0);
        for (held, expected) in [(20, "paced 0 1"), (21, "plain 1")] {
            let paths = [nothing_in_flight(held), path(1, 50)];
            assert_eq!(choice(now, &paths, &queue()), expected, "{held} ms, idle");
        }
    }

    /// The published rules know no pacer.
    #[test]
    fn a_pacer_is_not_waited_for_if_the_scheduler_does_not_want_that() {
        let now = Instant::now();
        let until = now + ms(1);
        let paced = changed!(full(0, 10), next_release = Some(until), in_flight = 1200);
        let idle = changed!(paced.clone(), in_flight = 0);
        let slow = path(1, 50);
        let asked = |wait_for_pacer, fast: &PathView| {
            let paths = [fast.clone(), slow.clone()];
            let queue = queue();
            let cx = Context::new(now, &paths, &queue, 0);
            let mut asked = false;
            let decision = Waiting::new(wait_for_pacer).decide(&cx, |_, _| {
                asked = true;
                Advice::Send
            });
            (asked, decision)
        };
        let wait = Decision::Wait { until: Some(until) };
        let send = Decision::send(slow.index);
        assert_eq!(asked(true, &paced), (false, wait));
        assert_eq!(asked(false, &paced), (true, send));
        assert_eq!(asked(true, &idle), (false, wait));
        assert_eq!(asked(false, &idle), (false, send));
    }

    /// With a pace of the controller's own, it is always the pacer that holds the path back, never
    /// the window: what the pace puts in flight in a round trip takes its place.
    #[test]
    fn a_path_that_carries_all_it_can_counts_as_full() {
        let now = Instant::now();
        // 1 MB/s * 10 ms = 10 kB; one more packet of 1200 bytes fits up to 8800.
        let paced = |in_flight| {
            changed!(
                full(0, 10),
                next_release = Some(now + ms(1)),
                cwnd = 20_000,
                pacing_rate = 1_000_000,
                in_flight = in_flight
            )
        };
        for (in_flight, expected) in [(8_800, "paced 0 1"), (8_801, "between 0 1")] {
            let paths = [paced(in_flight), path(1, 50)];
            assert_eq!(choice(now, &paths, &queue()), expected, "{in_flight}");
        }
    }

    fn decide(
        waiting: &mut Waiting,
        now: Instant,
        paths: &[PathView],
        queue: &QueueView,
        advice: Advice,
    ) -> Decision {
        waiting.decide(&Context::new(now, paths, queue, 0), |_, _| advice)
    }

    #[test]
    fn no_wait_outlasts_the_probe_timeout() {
        let start = Instant::now();
        let mut paths = [full(0, 10), path(1, 50)];
        let mut waiting = Waiting::default();
        let mut ask = |at: u64, paths: &[PathView], advice| {
            decide(&mut waiting, start + ms(at), paths, &queue(), advice)
        };
        let until = |at| Decision::Wait {
            until: Some(start + ms(at)),
        };
        let slow = Decision::send(paths[1].index);
        for at in [0, 20, 49] {
            assert_eq!(ask(at, &paths, Advice::Wait), until(50), "after {at} ms");
        }
        // One packet, and a new wait begins.
        assert_eq!(ask(50, &paths, Advice::Wait), slow);
        assert_eq!(ask(50, &paths, Advice::Wait), until(100));
        // Whatever is sent ends the wait.
        assert_eq!(ask(90, &paths, Advice::Send), slow);
        assert_eq!(ask(99, &paths, Advice::Wait), until(149));
        // The pacer's release comes first, unless it is over already.
        paths[0].next_release = Some(start + ms(120));
        assert_eq!(ask(110, &paths, Advice::Send), until(120));
        paths[0].next_release = Some(start + ms(140));
        assert_eq!(ask(120, &paths, Advice::Wait), until(140));
        assert_eq!(ask(140, &paths, Advice::Wait), until(149));
        // A timeout beyond the end of time is none to wait for.
        paths[0].next_release = None;
        paths[0].pto = Duration::MAX;
        assert_eq!(ask(148, &paths, Advice::Wait), slow);
    }

    #[test]
    fn what_is_not_new_goes_where_it_arrives_first() {
        let stream = |index| StreamId::new(crate::Side::Client, crate::Dir::Uni, index);
        let (head, other) = (stream(0), stream(1));
        // 12 packets of 1200 bytes in flight, of which 5 fit into the window and 8 are too many for
        // another one: two thirds of an RTT until there is room, 2 · 6.67 + 10 = 23.3 ms.
        let reduced = changed!(full(0, 10), in_flight = 14_400, cwnd = 6000);
        let far = [reduced.clone(), path(1, 24)];
        let near = [reduced, path(1, 23)];
        let both = changed!(
            queue(),
            retransmittable = 1,
            head = Some(crate::StreamHead::new(head, 0, 1, None, None))
        );
        let lost = changed!(both.clone(), unsent = 0);
        let control = changed!(both.clone(), control = true);
        let told = changed!(control.clone(), retransmittable = 0);
        let plain = queue();
        let (wait, goes) = (Advice::Wait, Advice::Send);
        let (of_head, of_other) = (Advice::SendStream(head), Advice::SendStream(other));
        type Case<'a> = (&'a str, &'a [PathView], &'a QueueView, Advice, Option<Data>);
        let table: [Case<'_>; 16] = [
            ("all waits", &far, &both, wait, None),
            ("lost data waits", &far, &lost, wait, None),
            ("but new data goes", &far, &both, goes, Some(Data::Ahead(0))),
            ("of the head", &far, &both, of_head, Some(Data::Ahead(0))),
            (
                "of another",
                &far,
                &both,
                of_other,
                Some(Data::Stream(other)),
            ),
            (
                "lost data goes alone",
                &near,
                &both,
                wait,
                Some(Data::Retransmit),
            ),
            ("there is no other", &near, &lost, wait, Some(Data::Next)),
            ("it goes first", &near, &both, goes, Some(Data::Next)),
            (
                "before the head",
                &near,
                &both,
                of_head,
                Some(Data::Retransmit),
            ),
            (
                "before another",
                &near,
                &both,
                of_other,
                Some(Data::Retransmit),
            ),
            ("control waits too", &far, &control, wait, None),
            ("or goes too", &near, &control, wait, Some(Data::Retransmit)),
            (
                "it needs no loss",
                &near,
                &told,
                of_head,
                Some(Data::Retransmit),
            ),
            ("nor new data", &far, &told, goes, Some(Data::Next)),
            ("no loss, no control", &far, &plain, goes, Some(Data::Next)),
            (
                "of a stream",
                &far,
                &plain,
                of_head,
                Some(Data::Stream(head)),
            ),
        ];
        let now = Instant::now();
        for (case, paths, queue, advice, expected) in table {
            let got = match decide(&mut Waiting::default(), now, paths, queue, advice) {
                Decision::Send { path, data, copies } => {
                    assert_eq!((path.get(), copies.is_empty()), (1, true));
                    Some(data)
                }
                Decision::Wait { until } => {
                    assert_eq!(until, Some(now + ms(50)));
                    None
                }
            };
            assert_eq!(got, expected, "{case}");
        }
        // What goes meanwhile does not put the end of the wait off.
        let mut waiting = Waiting::default();
        for (at, data) in [
            (0, Data::Retransmit),
            (49, Data::Retransmit),
            (50, Data::Next),
        ] {
            assert_eq!(
                decide(&mut waiting, now + ms(at), &near, &both, wait),
                Decision::send_data(near[1].index, data)
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

    /// As above, two thirds of an RTT until there is room; the last of 200 bytes more than a packet
    /// leaves a thirtieth of an RTT later: 2 · (6.67 + 0.33) + 10 = 24 ms.
    #[test]
    fn a_burst_of_lost_data_does_not_wait_for_a_small_window_alone() {
        let reduced = changed!(full(0, 10), in_flight = 14_400, cwnd = 6000);
        let paths = [reduced, path(1, 24)];
        for (lost, goes) in [(1390, false), (1410, true), (300_000, true)] {
            let queue = changed!(queue(), unsent = 0, retransmittable = lost);
            let cx = Context::new(Instant::now(), &paths, &queue, 0);
            let decision = Waiting::default().decide(&cx, |_, _| Advice::Wait);
            let sent = matches!(decision, Decision::Send { path, .. } if path.get() == 1);
            assert_eq!(sent, goes, "{lost} bytes lost");
        }
    }
}
