//! Whether a path is in trouble, so that its data should go elsewhere.

use std::time::{Duration, Instant};

use super::{RttEstimator, STALL, later};
use crate::space::PacketSpace;

/// A timer that comes so much too late says that this host did not run.
const LATE: Duration = Duration::from_millis(3);

/// Follows one path. It is suspect once a probe timeout has passed, or once an ack-eliciting packet has been in flight
/// for a PTO and nothing was acknowledged for half an RTT and what the RTT varies by. The second matters while packets
/// keep leaving, each of which puts the probe timer off: acknowledgements then come in all the while, so that silence
/// tells more than on a path with little in flight. The PTO of the oldest packet has waited for an acknowledgement that
/// the peer delays; the silence need not do so again. A path whose RTT merely grows or jitters is not silent.
#[derive(Debug, Default)]
pub(crate) struct Suspect {
    since: Option<Instant>,
    /// How long a packet was waited for when the path fell suspect.
    patience: Duration,
    /// When an ACK frame last acknowledged something new.
    last_ack: Option<Instant>,
    /// The path is suspect: from when on it is certain that its silence is its own, and neither the peer's nor ours.
    certain: Option<Instant>,
    /// Nothing is judged before: this host did not run, and reads what came meanwhile.
    judge_from: Option<Instant>,
}

impl Suspect {
    /// When the path falls suspect if nothing is acknowledged until then. `None` if it is suspect already or has nothing
    /// in flight that the peer must acknowledge.
    fn deadline(
        &self,
        space: &PacketSpace,
        rtt: &RttEstimator,
        max_ack_delay: Duration,
    ) -> Option<Instant> {
        self.deadline_before(None, space, rtt, max_ack_delay)
    }

    /// The same for a timer that goes off at `next` if at all: `None`, too, if the path cannot fall suspect before.
    pub(crate) fn deadline_before(
        &self,
        next: Option<Instant>,
        space: &PacketSpace,
        rtt: &RttEstimator,
        max_ack_delay: Duration,
    ) -> Option<Instant> {
        if self.since.is_some() {
            return None;
        }
        let sent = space.sent.first_ack_eliciting_sent()?;
        let overdue = later(sent, Self::patience(rtt, max_ack_delay));
        // Nearly always: the probe timer comes first.
        if next.is_some_and(|next| next <= overdue) {
            return None;
        }
        let silent = self.last_ack.map(|at| later(at, rtt.quiet()));
        Some(overdue).max(silent)
    }

    fn patience(rtt: &RttEstimator, max_ack_delay: Duration) -> Duration {
        rtt.patience().saturating_add(max_ack_delay)
    }

    /// Looks at the path; true if it has become suspect just now.
    pub(crate) fn check(
        &mut self,
        now: Instant,
        space: &PacketSpace,
        rtt: &RttEstimator,
        max_ack_delay: Duration,
        pto_count: u32,
    ) -> bool {
        let Some(deadline) = self.deadline(space, rtt, max_ack_delay) else {
            return false;
        };
        if pto_count == 0 && deadline > now {
            return false;
        }
        self.since = Some(now);
        self.certain = None;
        self.patience = Self::patience(rtt, max_ack_delay);
        true
    }

    /// An ACK frame newly acknowledged packets, the newest of which was sent at `newest_sent`; the
    /// space has taken it in. True if the path has recovered by it: a packet came through that was
    /// sent since it is suspect, or as fast as on a healthy path, or the last one before did and nothing
    /// is left to wait for.
    pub(crate) fn on_ack(
        &mut self,
        now: Instant,
        newest_sent: Instant,
        space: &PacketSpace,
    ) -> bool {
        if self.last_ack.is_none_or(|last| last < now) {
            self.last_ack = Some(now);
        }
        match self.since {
            Some(since) => self.has_recovered(now, newest_sent, space, since),
            None => false,
        }
    }

    #[cold]
    fn has_recovered(
        &mut self,
        now: Instant,
        newest_sent: Instant,
        space: &PacketSpace,
        since: Instant,
    ) -> bool {
        let recovered = newest_sent >= since
            || now.saturating_duration_since(newest_sent) <= self.patience
            || space.sent.ack_eliciting() == 0;
        if recovered {
            self.since = None;
            self.certain = None;
        }
        recovered
    }

    /// Whether silence may be judged; `due` is when a timer of the connection was due. Not if that was long ago, for the
    /// time in which a host that runs again reads what it was sent. Once for each silence, lest a busy host never judge.
    pub(crate) fn may_judge(&mut self, now: Instant, due: Option<Instant>) -> bool {
        if self.judge_from.is_some_and(|from| now < from) {
            return false;
        }
        let late = due.is_some_and(|due| now > later(due, LATE));
        let heard_since = |from| self.last_ack.is_some_and(|at| later(at, STALL) > from);
        if late && self.judge_from.is_none_or(heard_since) {
            self.judge_from = Some(later(now, STALL));
            return false;
        }
        true
    }

    /// When something may be judged that is due at `at`.
    pub(crate) fn not_before(&self, at: Instant) -> Instant {
        self.judge_from.map_or(at, |from| at.max(from))
    }

    /// From when on it is certain that the silence is the path's own. `None` if the path is not suspect, or if that was
    /// certain already.
    pub(crate) const fn certain_at(&self) -> Option<Instant> {
        self.certain
    }

    /// Whether the path is suspect, and the peer or this host may be the ones who stood still.
    pub(crate) const fn is_doubtful(&self) -> bool {
        self.certain.is_some()
    }

    /// Nobody knows yet. It counts as certain from `at` on, whatever is heard.
    pub(crate) const fn doubt_until(&mut self, at: Instant) {
        self.certain = Some(at);
    }

    /// It is certain from `at` on, if not before.
    pub(crate) fn on_evidence(&mut self, at: Instant) {
        self.certain = self.certain.map(|certain| certain.min(at));
    }

    /// It is certain.
    pub(crate) const fn on_certain(&mut self) {
        self.certain = None;
    }

    /// Since when the path is suspect.
    pub(crate) const fn since(&self) -> Option<Instant> {
        self.since
    }

    /// Whether the path is suspect.
    pub(crate) const fn is_suspect(&self) -> bool {
        self.since.is_some()
    }

    /// When a packet of the path was last acknowledged.
    pub(crate) const fn last_ack(&self) -> Option<Instant> {
        self.last_ack
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use rand::rngs::StdRng;

    use super::super::earlier;
    use super::*;
    use crate::space::tests_support::packet;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }
    const DELAY: Duration = ms(25);

    struct Path {
        t0: Instant,
        rng: StdRng,
        space: PacketSpace,
        rtt: RttEstimator,
        suspect: Suspect,
    }

    impl Path {
        fn new() -> Self {
            let mut rng = StdRng::seed_from_u64(3);
            let t0 = Instant::now();
            let mut rtt = RttEstimator::new(ms(333));
            // Settled: variation down to a few milliseconds.
            (0..20).for_each(|_| rtt.update(t0, ms(50), Duration::ZERO));
            Self {
                t0,
                space: PacketSpace::new(&mut rng),
                rng,
                rtt,
                suspect: Suspect::default(),
            }
        }

        fn send(&mut self, at: u64) {
            self.space.on_sent(packet(self.t0 + ms(at)), &mut self.rng);
        }

        fn ack(&mut self, at: u64, pn: u64) -> bool {
            let now = self.t0 + ms(at);
            let mut out = Vec::new();
            let block = std::iter::once(pn..=pn);
            let outcome = self
                .space
                .on_ack(
                    pn,
                    block,
                    None,
                    Duration::ZERO,
                    now,
                    &mut self.rtt,
                    &mut out,
                )
                .unwrap();
            self.space.detect_lost(now, &self.rtt, DELAY, &mut out);
            self.suspect
                .on_ack(now, outcome.newest_sent.unwrap(), &self.space)
        }

        fn check(&mut self, at: u64, pto_count: u32) -> bool {
            self.suspect
                .check(self.t0 + ms(at), &self.space, &self.rtt, DELAY, pto_count)
        }
    }

    #[test]
    fn silence_while_sending_goes_on() {
        let mut path = Path::new();
        assert!(!path.check(10_000, 5), "idle paths are above suspicion");
        for at in 0..85 {
            path.send(at);
            assert!(!path.check(at, 0), "{at}");
        }
        let deadline = path
            .suspect
            .deadline(&path.space, &path.rtt, DELAY)
            .unwrap();
        // 50 ms + slack of 10 ms + 25 ms.
        assert_eq!(deadline - path.t0, ms(85));
        assert!(path.check(85, 0));
        assert!(!path.check(96, 0), "only once");
        assert_eq!(path.suspect.deadline(&path.space, &path.rtt, DELAY), None);
        // An old packet comes through late: not enough, others are missing.
        assert!(!path.ack(100, 10));
        assert!(path.suspect.is_suspect());
        path.send(110);
        assert!(path.ack(160, path.space.next_pn().unwrap() - 1));
        assert!(!path.suspect.is_suspect());
    }

    /// Acknowledgements came one after the other, and none comes any more: nobody waits for a whole RTT.
    #[test]
    fn silence_of_a_busy_path_tells_sooner() {
        let mut path = Path::new();
        let mut numbers = Vec::new();
        for at in 0..100 {
            numbers.push(path.space.next_pn().unwrap());
            path.send(at);
            if let Some(acked) = at.checked_sub(50) {
                path.ack(at, numbers[acked as usize]);
            }
        }
        // The oldest in flight was sent at 50 ms: its RTT of 50 ms, slack of 10 ms, and 25 ms that the peer may wait.
        // That is later than half an RTT and the slack after the last acknowledgement, at 99 ms.
        let deadline = path
            .suspect
            .deadline(&path.space, &path.rtt, DELAY)
            .unwrap();
        assert_eq!(deadline - path.t0, ms(135));
        // Whatever else is due, and when: the earlier of the two is found.
        for next in (0..200).map(|at| path.t0 + ms(at)) {
            let (space, rtt) = (&path.space, &path.rtt);
            let found = path.suspect.deadline_before(Some(next), space, rtt, DELAY);
            assert_eq!(earlier(Some(next), found), Some(next.min(deadline)));
        }
        assert!(!path.check(134, 0));
        assert!(path.check(136, 0));
        // A hiccup: what comes through now took no longer than usual.
        assert!(path.ack(137, numbers[99]));
        assert!(!path.suspect.is_suspect());
    }

    /// A timer that comes late says that this host did not run.
    #[test]
    fn a_late_host_reads_before_it_judges() {
        let mut path = Path::new();
        let t0 = path.t0;
        let at = |millis| t0 + ms(millis);
        path.send(0);
        assert!(path.suspect.may_judge(at(88), Some(at(85))));
        assert!(!path.suspect.may_judge(at(190), Some(at(85))));
        assert_eq!(path.suspect.not_before(at(85)), at(200));
        assert!(!path.suspect.may_judge(at(199), Some(at(199))));
        // Once for each silence: a host that is always late would never judge.
        assert!(path.suspect.may_judge(at(260), Some(at(200))));
        path.ack(270, 0);
        assert!(!path.suspect.may_judge(at(400), Some(at(300))));
    }

    /// Nobody knows whose silence it is, until there is evidence or the path answers.
    #[test]
    fn a_suspicion_is_doubtful_until_it_is_certain() {
        let mut path = Path::new();
        let t0 = path.t0;
        let at = |millis| t0 + ms(millis);
        path.suspect.on_evidence(at(1));
        assert_eq!(path.suspect.certain_at(), None, "no suspicion");
        path.send(0);
        assert!(path.check(85, 0));
        path.suspect.doubt_until(at(300));
        path.suspect.on_evidence(at(120));
        path.suspect.on_evidence(at(140));
        assert_eq!(path.suspect.certain_at(), Some(at(120)));
        assert!(path.ack(130, 0));
        assert!(!path.suspect.is_doubtful());
        // That answer took 130 ms: 60 ms + 4 * 20 ms + 25 ms.
        path.send(200);
        assert!(!path.check(364, 0));
        assert!(path.check(366, 0));
        path.suspect.doubt_until(at(500));
        path.suspect.on_certain();
        assert!(path.suspect.is_suspect() && !path.suspect.is_doubtful());
    }

    #[test]
    fn a_probe_timeout_is_enough() {
        let mut path = Path::new();
        path.send(0);
        assert!(!path.check(1, 0));
        assert!(path.check(2, 1));
        assert!(path.ack(200, 0), "nothing is left to wait for");
    }

    /// The queue grows by 2 ms per packet, and jitter comes on top: RTT from 50 to 450 ms.
    #[test]
    fn a_growing_queue_with_jitter_is_healthy() {
        let mut path = Path::new();
        let mut acks = std::collections::BTreeMap::new();
        let mut latest = 0;
        for at in 0..600u64 {
            if at % 3 == 0 {
                let pn = path.space.next_pn().unwrap();
                path.send(at);
                // In order, 2 ms slower each time, jitter up to 16 ms.
                latest = (at + 50 + pn * 2 + (pn * 7919) % 16).max(latest + 1);
                acks.insert(latest, pn);
            }
            if let Some(pn) = acks.remove(&at) {
                path.ack(at, pn);
            }
            assert!(!path.check(at, 0), "at {at} ms");
        }
    }
}
