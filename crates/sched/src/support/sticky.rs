//! Waits that stand once they are chosen, for the schedulers that learn whether to wait; which is chosen is theirs.

use super::{Advice, Waiting, has_new_data};
use crate::{Arm, Context, Data, Decision, PathIndex, PathView};

/// [`Waiting`] whose rule is asked once per wait.
///
/// Transmitting is chosen for one packet, waiting until the fast path f has room: asked again
/// at each acknowledgement, a rule that waits with probability p would hardly ever wait to the end,
/// and what it learned of waiting would be of something else. (Peekaboo, section III-A.)
///
/// A wait is over, and the next question is a new one, when f has room, whoever uses it; when
/// another path is the fast one; when f ends or is no more worth waiting for (in trouble, nothing in
/// flight); and after f's probe timeout, when one packet goes on the slow path in any case. It goes on
/// while the slow path is full too, while f is held back by nothing but its pacer, and while lost
/// data and control frames go on the slow path.
#[derive(Debug, Clone, Copy, Default)]
pub struct StickyWaiting {
    wait: Waiting,
    /// The path that is waited for.
    held: Option<PathIndex>,
}

impl StickyWaiting {
    /// The decision. `choose` is asked what to do with new data, with the fast and the slow path, if
    /// there is a choice and no wait goes on.
    #[inline]
    pub fn decide<'a>(
        &mut self,
        cx: &Context<'a>,
        choose: impl FnOnce(&'a PathView, &'a PathView) -> Arm,
    ) -> Decision {
        let full =
            |path: &PathView| path.open && !path.can_send && !path.suspect && path.in_flight > 0;
        let held = self.held.filter(|held| cx.path(*held).is_some_and(full));
        let mut holds = held;
        let decision = self.wait.decide(cx, |fast, slow| {
            let arm = if held == Some(fast.index) {
                Arm::Wait
            } else {
                choose(fast, slow)
            };
            holds = (arm == Arm::Wait).then_some(fast.index);
            Advice::wait_if(arm == Arm::Wait)
        });
        let goes_on = match decision {
            Decision::Wait { .. } => true,
            Decision::Send { data, .. } => data == Data::Retransmit || !has_new_data(cx),
        };
        self.held = holds.filter(|_| goes_on);
        decision
    }

    /// A path ended.
    pub fn forget(&mut self, path: PathIndex) {
        self.held = self.held.filter(|held| *held != path);
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;
    use crate::QueueView;

    const fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    fn path(slot: usize, rtt: u64, full: bool) -> PathView {
        changed!(
            PathView::of(slot, ms(rtt)),
            can_send = !full,
            pto = ms(rtt + 40),
            cwnd = 12_000,
            in_flight = if full { 12_000 } else { 0 }
        )
    }

    fn queue() -> QueueView {
        changed!(
            QueueView::default(),
            unsent = 100_000,
            window_left = 1_000_000
        )
    }

    struct Asked {
        wait: StickyWaiting,
        start: Instant,
    }

    impl Asked {
        fn new() -> Self {
            let (wait, start) = (StickyWaiting::default(), Instant::now());
            Self { wait, start }
        }

        /// Whether the rule is asked so many milliseconds after the start, and the slot that is sent
        /// on. The rule answers `arm`.
        fn at(
            &mut self,
            millis: u64,
            paths: &[PathView],
            queue: &QueueView,
            arm: Arm,
        ) -> (bool, Option<usize>) {
            let cx = Context::new(self.start + ms(millis), paths, queue, 0);
            let mut asked = false;
            let decision = self.wait.decide(&cx, |_, _| {
                asked = true;
                arm
            });
            match decision {
                Decision::Send { path, .. } => (asked, Some(path.get())),
                Decision::Wait { .. } => (asked, None),
            }
        }
    }

    #[test]
    fn transmitting_is_chosen_for_a_packet_and_waiting_until_there_is_room() {
        let mut asked = Asked::new();
        let (blocked, room) = (
            [path(0, 10, true), path(1, 50, false)],
            [path(0, 10, false), path(1, 50, false)],
        );
        let queue = queue();
        for _ in 0..3 {
            assert_eq!(asked.at(0, &blocked, &queue, Arm::Send), (true, Some(1)));
        }
        assert_eq!(asked.at(1, &blocked, &queue, Arm::Wait), (true, None));
        assert_eq!(asked.at(2, &blocked, &queue, Arm::Send), (false, None));
        // Both full, and the slow one alone has room again.
        let both = [path(0, 10, true), path(1, 50, true)];
        assert_eq!(asked.at(3, &both, &queue, Arm::Send), (false, None));
        assert_eq!(asked.at(4, &blocked, &queue, Arm::Send), (false, None));
        assert_eq!(asked.at(5, &room, &queue, Arm::Send), (false, Some(0)));
        assert_eq!(asked.at(6, &blocked, &queue, Arm::Wait), (true, None));
    }

    #[test]
    fn a_wait_that_expires_is_over() {
        let mut asked = Asked::new();
        let (blocked, queue) = ([path(0, 10, true), path(1, 50, false)], queue());
        assert_eq!(asked.at(0, &blocked, &queue, Arm::Wait), (true, None));
        assert_eq!(asked.at(49, &blocked, &queue, Arm::Wait), (false, None));
        assert_eq!(asked.at(50, &blocked, &queue, Arm::Wait), (false, Some(1)));
        assert_eq!(asked.at(50, &blocked, &queue, Arm::Wait), (true, None));
    }

    #[test]
    fn lost_data_does_not_end_a_wait() {
        let mut asked = Asked::new();
        let blocked = [path(0, 40, true), path(1, 50, false)];
        let lost = changed!(queue(), retransmittable = 20_000);
        assert_eq!(asked.at(0, &blocked, &lost, Arm::Wait), (true, Some(1)));
        assert_eq!(asked.at(1, &blocked, &lost, Arm::Send), (false, Some(1)));
        assert_eq!(asked.at(2, &blocked, &queue(), Arm::Send), (false, None));
        // Nothing new for a while.
        let nothing_new = changed!(lost, unsent = 0);
        assert_eq!(
            asked.at(3, &blocked, &nothing_new, Arm::Send),
            (false, Some(1))
        );
        assert_eq!(asked.at(4, &blocked, &queue(), Arm::Send), (false, None));
    }

    #[test]
    fn a_pacer_does_not_end_a_wait() {
        let mut asked = Asked::new();
        let (blocked, queue) = ([path(0, 10, true), path(1, 50, false)], queue());
        assert_eq!(asked.at(0, &blocked, &queue, Arm::Wait), (true, None));
        let mut paced = blocked.clone();
        (paced[0].in_flight, paced[0].next_release) = (6_000, Some(asked.start + ms(8)));
        assert_eq!(asked.at(5, &paced, &queue, Arm::Send), (false, None));
        assert_eq!(asked.at(6, &blocked, &queue, Arm::Send), (false, None));
    }

    #[test]
    fn another_fast_path_is_another_question() {
        let mut asked = Asked::new();
        let queue = queue();
        let blocked = [path(0, 10, true), path(1, 50, false)];
        assert_eq!(asked.at(0, &blocked, &queue, Arm::Wait), (true, None));
        let third = [path(0, 20, true), path(1, 50, false), path(2, 10, true)];
        assert_eq!(asked.at(1, &third, &queue, Arm::Wait), (true, None));
        assert_eq!(asked.at(2, &blocked, &queue, Arm::Send), (true, Some(1)));
        // The path ends, and another one gets its slot.
        assert_eq!(asked.at(3, &blocked, &queue, Arm::Wait), (true, None));
        asked.wait.forget(blocked[0].index);
        assert_eq!(asked.at(4, &blocked, &queue, Arm::Wait), (true, None));
        // It had room while another one was the fast one.
        let elsewhere = [path(0, 60, false), path(1, 50, false)];
        assert_eq!(asked.at(5, &elsewhere, &queue, Arm::Send), (false, Some(1)));
        assert_eq!(asked.at(6, &blocked, &queue, Arm::Send), (true, Some(1)));
        let mut suspect = blocked.clone();
        assert_eq!(asked.at(7, &blocked, &queue, Arm::Wait), (true, None));
        suspect[0].suspect = true;
        assert_eq!(asked.at(8, &suspect, &queue, Arm::Wait), (false, Some(1)));
        assert_eq!(asked.at(9, &blocked, &queue, Arm::Wait), (true, None));
    }
}
