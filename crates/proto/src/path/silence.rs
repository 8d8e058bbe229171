//! A path of which the application wants to know early that it is silent: before the transport draws conclusions. Nothing
//! in the transport goes by it.

use std::time::{Duration, Instant};

use super::{Path, TimerFacts};
use crate::recovery::{RttEstimator, later};
use crate::space::PacketSpace;

/// Follows one path. It is silent once the acknowledgement of the oldest ack-eliciting packet, of those that left after the
/// newest acknowledged one, is overdue: a packet that is lost among others that arrive makes no silence, and nor does a peer
/// that holds an acknowledgement back as it may.
#[derive(Debug)]
pub(super) struct Silence {
    /// Waited beyond the smoothed RTT.
    extra: Duration,
    /// The path is silent: what its largest acknowledged number was when it fell silent.
    silent: Option<Option<u64>>,
}

/// When the oldest ack-eliciting packet left, of those after the newest acknowledged one; and when that one left, or could
/// have left, whose arrival the peer acknowledges at once.
fn waiting_since(space: &PacketSpace, facts: &TimerFacts) -> Option<(Instant, Instant)> {
    if space.ack_eliciting_in_flight() == 0 {
        return None;
    }
    let next = space.largest_acked.map_or(0, |largest| largest + 1);
    let newer = space.sent.iter_from(next);
    let mut newer =
        newer.filter_map(|(_, packet)| packet.ack_eliciting.then_some(packet.time_sent));
    let oldest = newer.next()?;
    // RFC 9000 section 13.2.2: one of two packets is acknowledged at once, unless the peer was asked for something else.
    let held_back = later(oldest, facts.held_back);
    let full = match facts.ack_threshold.checked_sub(1) {
        None => Some(oldest),
        Some(further) => newer.nth(usize::try_from(further).unwrap_or(usize::MAX)),
    };
    Some((oldest, full.map_or(held_back, |full| full.min(held_back))))
}

impl Silence {
    const fn new(extra: Duration) -> Self {
        Self {
            extra,
            silent: None,
        }
    }

    /// When the path falls silent if nothing is acknowledged until then.
    fn deadline(
        &self,
        space: &PacketSpace,
        rtt: &RttEstimator,
        facts: &TimerFacts,
    ) -> Option<Instant> {
        if self.silent.is_some() {
            return None;
        }
        let (_, answered) = waiting_since(space, facts)?;
        let patience = rtt.smoothed().saturating_add(self.extra);
        Some(later(answered, patience))
    }

    /// Looks at the path. How long it has been waited for, if it has fallen silent just now.
    fn check(
        &mut self,
        now: Instant,
        space: &PacketSpace,
        rtt: &RttEstimator,
        facts: &TimerFacts,
    ) -> Option<Duration> {
        self.deadline(space, rtt, facts).filter(|at| *at <= now)?;
        self.silent = Some(space.largest_acked);
        let (oldest, _) = waiting_since(space, facts)?;
        Some(now.saturating_duration_since(oldest))
    }

    /// An ACK frame was taken in; true if the path is not silent any more by it.
    fn on_ack(&mut self, space: &PacketSpace) -> bool {
        let heard = self
            .silent
            .is_some_and(|before| space.largest_acked > before);
        if heard {
            self.silent = None;
        }
        heard
    }
}

impl Path {
    /// The application wants to know when the path is silent for so much longer than its smoothed RTT; `None`: not any more.
    pub(crate) fn watch_silence(&mut self, extra: Option<Duration>) {
        self.silence = extra.map(|extra| Box::new(Silence::new(extra)));
    }

    /// When the path falls silent, if the application wants to know.
    #[inline]
    pub(super) fn silence_deadline(&self, facts: &TimerFacts) -> Option<Instant> {
        let silence = self.silence.as_ref()?;
        silence.deadline(&self.space, &self.recovery.rtt, facts)
    }

    /// How long the path has been silent, if it has fallen so just now and the application wants to know.
    #[inline]
    pub(super) fn check_silence(&mut self, now: Instant, facts: &TimerFacts) -> Option<Duration> {
        let silence = self.silence.as_mut()?;
        silence.check(now, &self.space, &self.recovery.rtt, facts)
    }

    /// An ACK frame was taken in; true if the application is to know that the path is not silent any more.
    #[inline]
    pub(super) fn ends_silence(&mut self) -> bool {
        let silence = self.silence.as_mut();
        silence.is_some_and(|silence| silence.on_ack(&self.space))
    }

    /// When the oldest ack-eliciting packet in flight left.
    pub(crate) fn oldest_unacked(&self) -> Option<Instant> {
        self.space.sent.first_ack_eliciting_sent()
    }

    /// When a packet of the peer was last received and processed on it.
    pub(crate) fn last_heard(&self) -> Option<Instant> {
        self.heard.map(|heard| heard.last)
    }
}

#[cfg(test)]
mod tests {
    use std::ops::RangeInclusive;

    use rand::SeedableRng;
    use rand::rngs::StdRng;

    use super::super::Expected;
    use super::*;
    use crate::space::tests_support::{ack_only, packet};

    const EXTRA: Duration = Duration::from_millis(20);
    const RTT: Duration = Duration::from_millis(30);
    const DELAY: Duration = Duration::from_millis(25);

    struct Fixture {
        now: Instant,
        rng: StdRng,
        space: PacketSpace,
        rtt: RttEstimator,
        silence: Silence,
        facts: TimerFacts,
    }

    impl Fixture {
        fn new() -> Self {
            let mut rng = StdRng::seed_from_u64(1);
            let now = Instant::now();
            let mut rtt = RttEstimator::new(RTT);
            rtt.update(now, RTT, Duration::ZERO);
            Self {
                now,
                space: PacketSpace::new(&mut rng),
                rng,
                rtt,
                silence: Silence::new(EXTRA),
                facts: TimerFacts {
                    max_ack_delay: DELAY,
                    held_back: DELAY,
                    // Each packet is acknowledged.
                    ack_threshold: 0,
                    confirmed: true,
                    keep_alive: None,
                    elsewhere: false,
                    asks: false,
                    expected: Expected {
                        streams: false,
                        credit: false,
                        idle_timeout: None,
                    },
                },
            }
        }

        fn at(&self, millis: u64) -> Instant {
            self.now + Duration::from_millis(millis)
        }

        fn send(&mut self, millis: u64) {
            let packet = packet(self.at(millis));
            self.space.on_sent(packet, &mut self.rng);
        }

        /// Packets are acknowledged an RTT after the last of them left, so that the estimate stays.
        fn ack(&mut self, millis: u64, numbers: RangeInclusive<u64>) -> bool {
            let (now, mut out) = (self.at(millis), Vec::new());
            let (largest, rtt) = (*numbers.end(), &mut self.rtt.clone());
            let blocks = std::iter::once(numbers);
            let taken = self.space.on_ack(
                largest,
                blocks,
                None,
                Duration::ZERO,
                false,
                now,
                rtt,
                &mut out,
            );
            assert!(taken.is_ok());
            self.silence.on_ack(&self.space)
        }

        fn deadline(&self) -> Option<Duration> {
            let at = self.silence.deadline(&self.space, &self.rtt, &self.facts)?;
            Some(at - self.now)
        }

        fn check(&mut self, millis: u64) -> Option<Duration> {
            let now = self.at(millis);
            self.silence.check(now, &self.space, &self.rtt, &self.facts)
        }
    }

    #[test]
    fn nothing_in_flight_is_no_silence() {
        let mut f = Fixture::new();
        assert_eq!((f.deadline(), f.check(1000)), (None, None));
        f.space.on_sent(ack_only(f.now), &mut f.rng);
        assert_eq!((f.deadline(), f.check(1000)), (None, None));
    }

    #[test]
    fn it_is_told_once_and_ends_with_an_acknowledgement() {
        let mut f = Fixture::new();
        f.send(0);
        f.send(10);
        let patience = RTT + EXTRA;
        assert_eq!(f.deadline(), Some(patience));
        assert_eq!(f.check(49), None);
        assert_eq!(f.check(51), Some(Duration::from_millis(51)));
        assert_eq!((f.deadline(), f.check(100)), (None, None));
        f.send(110);
        assert!(f.ack(120, 1..=1));
        // The next one waits since it left, not since the silence began.
        assert_eq!(f.deadline(), Some(Duration::from_millis(110) + patience));
        assert_eq!(f.check(161), Some(Duration::from_millis(51)));
    }

    #[test]
    fn a_packet_that_is_lost_among_others_is_no_silence() {
        let mut f = Fixture::new();
        for millis in 0..4 {
            f.send(millis);
        }
        // The first is lost, or late: those after it arrive.
        assert!(!f.ack(32, 1..=2));
        let waits = Duration::from_millis(3) + RTT + EXTRA;
        assert_eq!(f.deadline(), Some(waits));
        assert!(!f.ack(33, 3..=3));
        assert_eq!((f.deadline(), f.check(1000)), (None, None));
        // What is said of older ones later ends no silence.
        f.send(1000);
        assert!(f.check(1050).is_some());
        assert!(!f.ack(1060, 0..=0));
        assert!(f.ack(1070, 4..=4));
    }

    #[test]
    fn an_acknowledgement_that_may_be_held_back_is_waited_for() {
        let mut f = Fixture::new();
        f.facts.ack_threshold = 1;
        f.send(0);
        assert_eq!(f.deadline(), Some(DELAY + RTT + EXTRA));
        // The second one makes it due.
        f.send(4);
        let second = Duration::from_millis(4);
        assert_eq!(f.deadline(), Some(second + RTT + EXTRA));
        f.send(5);
        assert_eq!(f.deadline(), Some(second + RTT + EXTRA));
        // The peer was asked for fewer of them.
        f.facts.ack_threshold = 2;
        let third = Duration::from_millis(5);
        assert_eq!(f.deadline(), Some(third + RTT + EXTRA));
        f.facts.ack_threshold = u64::MAX;
        assert_eq!(f.deadline(), Some(DELAY + RTT + EXTRA));
        // One that comes later than the peer may wait makes nothing later.
        let mut f = Fixture::new();
        f.facts.ack_threshold = 1;
        f.send(0);
        f.send(30);
        assert_eq!(f.deadline(), Some(DELAY + RTT + EXTRA));
    }

    #[test]
    fn any_patience_will_do() {
        for extra in [Duration::ZERO, Duration::MAX] {
            let mut f = Fixture::new();
            f.silence = Silence::new(extra);
            f.send(0);
            let silent = f.check(30).is_some();
            assert_eq!(silent, extra.is_zero());
        }
    }
}
