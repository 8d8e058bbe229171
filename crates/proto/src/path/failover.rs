//! A path that falls silent: when it is suspect, whose silence it is, how it is probed, and how much of what it has in
//! flight is offered to other paths. That is a little while the peer or this host may be the one that stands still, and
//! all of it once it is certain that the path does.

use std::time::{Duration, Instant};

use mpquic_sched_core::{PathIndex, PathSet};
use smallvec::SmallVec;

use super::{Path, Paths, TimerFacts};
use crate::recovery::{RttEstimator, STALL, later};
use crate::sent_frame::SentFrame;
use crate::space::PacketSpace;

/// A suspect path is probed at intervals of an eighth of the time of its silence, but of at least this and a PTO: its
/// return is noticed that much later, and the longer it was away the less that matters.
const MIN_SUSPECT_PROBE_INTERVAL: Duration = Duration::from_millis(100);

/// A suspect path is probed at least so often while another path carries the data, by a small datagram: a path that
/// comes back is found within this time and its round trip.
const MAX_SUSPECT_PROBE_INTERVAL: Duration = Duration::from_millis(400);

/// The same for a connection whose paths are all suspect. Its probes carry data.
const MAX_LONE_PROBE_INTERVAL: Duration = Duration::from_secs(10);

/// Probes of a suspect path that are remembered: they go on for as long as the path is silent. An
/// answer to one of the newest is what tells that it is back.
const MAX_BARE_PROBES: usize = 16;

/// Packets that are offered at once when a path falls suspect: what a connection may send before it knows anything of a
/// path (RFC 9002 section 7.2).
const UNCONFIRMED_PACKETS: u64 = 10;

/// Bytes that may be offered so in any case, and the part of all that was sent that may be in addition. Beyond, it is one
/// packet, whose acknowledgement tells whether the peer runs.
const UNCONFIRMED_BYTES: u64 = 16 * 1024;
const UNCONFIRMED_SHARE: u64 = 256;

/// Largest PTOs after which a suspicion counts as certain even if nothing was heard of the peer.
const UNCONFIRMED_PTOS: u32 = 2;

/// All packets in flight are offered.
pub(crate) const ALL: usize = usize::MAX;

/// When packets came on a path without a pause.
#[derive(Debug, Clone, Copy)]
pub(super) struct Heard {
    first: Instant,
    pub(super) last: Instant,
}

/// A timer that comes so much too late says that this host did not run.
const LATE: Duration = Duration::from_millis(3);

/// By how much the peer may hold acknowledgements back.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AckWait {
    /// At most.
    pub(crate) longest: Duration,
    /// How far apart they come at most while packets keep arriving, if fewer were asked for.
    pub(crate) apart: Duration,
}

impl AckWait {
    /// The longest delay, the packets that need no acknowledgement at once, and by how much the peer was asked to hold it back.
    pub(crate) const fn new(longest: Duration, threshold: u64, held_back: Duration) -> Self {
        let apart = if threshold > 1 {
            held_back
        } else {
            Duration::ZERO
        };
        Self { longest, apart }
    }
}

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
    fn deadline(&self, space: &PacketSpace, rtt: &RttEstimator, wait: AckWait) -> Option<Instant> {
        self.deadline_before(None, space, rtt, wait)
    }

    /// The same for a timer that goes off at `next` if at all: `None`, too, if the path cannot fall suspect before.
    pub(crate) fn deadline_before(
        &self,
        next: Option<Instant>,
        space: &PacketSpace,
        rtt: &RttEstimator,
        wait: AckWait,
    ) -> Option<Instant> {
        if self.since.is_some() {
            return None;
        }
        let sent = space.sent.first_ack_eliciting_sent()?;
        let overdue = later(sent, Self::patience(rtt, wait.longest));
        // Nearly always: the probe timer comes first.
        if next.is_some_and(|next| next <= overdue) {
            return None;
        }
        let silent = self.last_ack.map(|at| later(at, rtt.quiet() + wait.apart));
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
        wait: AckWait,
        pto_count: u32,
    ) -> bool {
        let Some(deadline) = self.deadline(space, rtt, wait) else {
            return false;
        };
        if pto_count == 0 && deadline > now {
            return false;
        }
        self.since = Some(now);
        self.certain = None;
        self.patience = Self::patience(rtt, wait.longest);
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
    pub(crate) const fn confirmed_at(&self) -> Option<Instant> {
        self.certain
    }

    /// Whether the path is suspect, and the peer or this host may be the ones who stood still.
    pub(crate) const fn is_unconfirmed(&self) -> bool {
        self.certain.is_some()
    }

    /// Nobody knows yet. It counts as certain from `at` on, whatever is heard.
    pub(crate) const fn confirm_by(&mut self, at: Instant) {
        self.certain = Some(at);
    }

    /// It is certain from `at` on, if not before.
    pub(crate) fn on_evidence(&mut self, at: Instant) {
        self.certain = self.certain.map(|certain| certain.min(at));
    }

    /// It is certain.
    pub(crate) const fn on_confirmed(&mut self) {
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

impl Path {
    /// Whether the path is in trouble, so that its data should go elsewhere.
    pub(crate) fn is_suspect(&self) -> bool {
        self.recovery.suspect.is_suspect()
    }

    /// The peer ran, and could send on any path, from the first of these times to the second: when its packets left.
    /// `None` if it sent nothing on this path.
    pub(crate) fn peer_ran(&self) -> Option<(Instant, Instant)> {
        let heard = self.heard?;
        Some((self.left(heard.first), self.left(heard.last)))
    }

    /// When a packet left that came from the peer. Our own data makes the way there longer, and not the way back.
    fn left(&self, came: Instant) -> Instant {
        let back = self.recovery.rtt.min() / 2;
        came.checked_sub(back).unwrap_or(came)
    }

    /// When it is certain that the silence of a suspect path is the path's own, if the peer ran in this time: it has to
    /// have run for a while after it owed an acknowledgement, and what it sent then has to have had the time to arrive.
    /// `None` if the peer may have stood still.
    pub(crate) fn own_silence(
        &self,
        (from, to): (Instant, Instant),
        wait: AckWait,
    ) -> Option<Instant> {
        let rtt = &self.recovery.rtt;
        let oldest = self.space.sent.first_ack_eliciting_sent()?;
        let owed = match self.recovery.suspect.last_ack() {
            // They came one after the other.
            Some(at) if at >= oldest => later(self.left(at), STALL + wait.apart),
            _ => self.left(later(oldest, rtt.smoothed().saturating_add(wait.longest))),
        };
        let ran = owed.max(from);
        (ran <= to).then(|| later(ran, rtt.quiet() + wait.apart))
    }

    pub(crate) fn suspicion(&self) -> &Suspect {
        &self.recovery.suspect
    }

    pub(crate) fn suspicion_mut(&mut self) -> &mut Suspect {
        &mut self.recovery.suspect
    }

    /// Looks at the path; true if it has become suspect just now.
    pub(super) fn check_suspect(&mut self, now: Instant, facts: TimerFacts) -> bool {
        let recovery = &mut self.recovery;
        let (rtt, pto_count) = (&recovery.rtt, recovery.pto_count);
        recovery
            .suspect
            .check(now, &self.space, rtt, facts.ack_wait(), pto_count)
    }

    /// When a suspect path is probed, if it does not wait for its PTO.
    pub(super) fn suspect_probe_deadline(&self, facts: TimerFacts) -> Option<Instant> {
        let since = self.recovery.suspect.since()?;
        let sent = self.space.last_ack_eliciting_sent?;
        let most = match facts.elsewhere {
            true => MAX_SUSPECT_PROBE_INTERVAL,
            false => MAX_LONE_PROBE_INTERVAL,
        };
        let silence = sent.saturating_duration_since(since);
        let interval = (silence / 8)
            .clamp(MIN_SUSPECT_PROBE_INTERVAL, most)
            .max(self.pto(facts.max_ack_delay));
        Some(sent + interval)
    }

    /// Not once more for each packet of a batch.
    #[inline]
    pub(super) fn note_heard(&mut self, now: Instant) {
        self.heard = Some(match self.heard {
            Some(heard) if now <= later(heard.last, STALL) => Heard {
                last: now.max(heard.last),
                ..heard
            },
            _ => Heard {
                first: now,
                last: now,
            },
        });
    }

    /// Forgets the oldest of many packets in flight that carry nothing to be repeated.
    pub(super) fn forget_bare_packets(&mut self) {
        self.space.sent.forget_bare(MAX_BARE_PROBES);
    }
}

impl Paths {
    /// A path falls suspect. Returns how many of its packets in flight are offered to the other paths: all at once if the
    /// peer is known to run, otherwise a few, and the rest when it is.
    pub(crate) fn on_suspect(&mut self, now: Instant, index: PathIndex) -> usize {
        self.seek_evidence(now, index);
        if !self.has_other_usable(index) {
            return 0;
        }
        match self.confirm(now, index) {
            true => ALL,
            false => self.unconfirmed_packets(index, self.traffic.sent_bytes),
        }
    }

    /// Whether a path falls suspect because data was sent on it ahead of its validation, and the challenge stays
    /// unanswered.
    pub(crate) fn suspect_early_data(&mut self, now: Instant, index: PathIndex) -> bool {
        let max_ack_delay = self.peer_max_ack_delay();
        let path = self.at_mut(index);
        path.is_some_and(|path| path.suspect_early_data(now, max_ack_delay))
    }

    /// A probe timeout of a suspect path: a scheduler may have gone on to send on it. Returns how many of its packets are
    /// offered.
    pub(crate) fn on_suspect_pto(&mut self, now: Instant, index: PathIndex) -> usize {
        let unconfirmed = |path: &Path| path.suspicion().is_unconfirmed();
        if self.at(index).is_some_and(unconfirmed) && !self.confirm(now, index) {
            return 1;
        }
        ALL
    }

    /// It may be certain by now that a suspect path is silent and not the peer: then all that it has in flight is to be
    /// offered. Returns whether it is.
    pub(crate) fn confirm(&mut self, now: Instant, index: PathIndex) -> bool {
        let Some(path) = self.at_mut(index) else {
            return false;
        };
        let suspicion = path.suspicion_mut();
        let certain = suspicion.confirmed_at().is_some_and(|at| at <= now);
        if certain {
            suspicion.on_confirmed();
        }
        certain
    }

    /// All that a suspect path has in flight is to be offered, whoever stands still. Returns whether another path can take
    /// it.
    pub(crate) fn fail_over(&mut self, index: PathIndex) -> bool {
        if let Some(path) = self.at_mut(index) {
            path.suspicion_mut().on_confirmed();
        }
        self.has_other_usable(index)
    }

    /// A path can be used that could not before: what the others have in flight and cannot be counted on to deliver had
    /// nowhere to go until now. Returns those of which all is to be offered.
    pub(crate) fn stranded(&mut self, now: Instant) -> SmallVec<[PathIndex; 4]> {
        let with_others = |path: &&Path| path.is_suspect() && self.has_other_usable(path.index);
        let suspects = self.iter().filter(with_others);
        let mut stranded: SmallVec<[PathIndex; 4]> = suspects.map(|path| path.index).collect();
        stranded.retain(|index| {
            let unconfirmed = |path: &Path| path.suspicion().is_unconfirmed();
            if !self.at(*index).is_some_and(unconfirmed) {
                return true;
            }
            // Perhaps both were silent together, and this one is about to be heard, too.
            self.seek_evidence(now, *index);
            self.confirm(now, *index)
        });
        stranded
    }

    /// The peer was heard: that may tell whose the silence of suspect paths is.
    pub(crate) fn on_heard(&mut self, now: Instant) {
        // It takes another path to tell.
        if self.open_count() > 1 {
            self.look_for_evidence_on_all(now);
        }
    }

    #[inline(never)]
    fn look_for_evidence_on_all(&mut self, now: Instant) {
        let unconfirmed = self.iter().filter(|path| path.suspicion().is_unconfirmed());
        let unconfirmed: PathSet = unconfirmed.map(|path| path.index).collect();
        for index in unconfirmed.iter() {
            self.look_for_evidence(now, index);
        }
    }

    /// Whose silence it is has to be found out, from what is known already or is heard from now on.
    fn seek_evidence(&mut self, now: Instant, index: PathIndex) {
        let longest = self.largest_pto().saturating_mul(UNCONFIRMED_PTOS);
        if let Some(path) = self.at_mut(index) {
            path.suspicion_mut().confirm_by(later(now, longest));
        }
        self.look_for_evidence(now, index);
    }

    fn look_for_evidence(&mut self, now: Instant, index: PathIndex) {
        let wait = self.ack_wait();
        let Some(path) = self.at(index) else {
            return;
        };
        let others = self.iter().filter(|other| other.index != index);
        let heard = others.filter_map(Path::peer_ran);
        let certain = heard.filter_map(|ran| path.own_silence(ran, wait));
        if let Some(at) = certain.min()
            && let Some(path) = self.at_mut(index)
        {
            path.suspicion_mut().on_evidence(at.max(now));
        }
    }

    /// How many packets of a path are offered in doubt.
    fn unconfirmed_packets(&mut self, index: PathIndex, sent: u64) -> usize {
        let mtu = self.at(index).map_or(1, |path| path.mtu().into());
        let budget = UNCONFIRMED_BYTES + sent / UNCONFIRMED_SHARE;
        let left = budget.saturating_sub(self.offered_unconfirmed);
        let packets = (left / mtu).clamp(1, UNCONFIRMED_PACKETS);
        self.offered_unconfirmed += packets * mtu;
        packets as usize
    }

    /// The paths in trouble.
    pub(crate) fn suspects(&self) -> PathSet {
        let suspects = self.iter().filter(|path| path.is_suspect());
        suspects.map(|path| path.index).collect()
    }

    /// The frames of the oldest packets in flight on a path that carry any, at most so many packets.
    pub(crate) fn frames_in_flight(
        &self,
        index: PathIndex,
        packets: usize,
    ) -> SmallVec<[SentFrame; 8]> {
        let path = self.at(index).into_iter();
        path.flat_map(|path| path.space().sent.iter())
            .filter(|(_, packet)| packet.ack_eliciting && !packet.frames.is_empty())
            .take(packets)
            .flat_map(|(_, packet)| packet.frames.iter().copied())
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use rand::rngs::StdRng;

    use super::super::set::tests::{open, paths};
    use super::*;
    use crate::recovery::earlier;
    use crate::space::tests_support::packet;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }
    const DELAY: Duration = ms(25);
    const WAIT: AckWait = AckWait {
        longest: DELAY,
        apart: Duration::ZERO,
    };

    struct Link {
        t0: Instant,
        rng: StdRng,
        space: PacketSpace,
        rtt: RttEstimator,
        suspect: Suspect,
    }

    impl Link {
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
                    false,
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
                .check(self.t0 + ms(at), &self.space, &self.rtt, WAIT, pto_count)
        }
    }

    #[test]
    fn silence_while_sending_goes_on() {
        let mut path = Link::new();
        assert!(!path.check(10_000, 5), "idle paths are above suspicion");
        for at in 0..85 {
            path.send(at);
            assert!(!path.check(at, 0), "{at}");
        }
        let deadline = path.suspect.deadline(&path.space, &path.rtt, WAIT).unwrap();
        // 50 ms + slack of 10 ms + 25 ms.
        assert_eq!(deadline - path.t0, ms(85));
        assert!(path.check(85, 0));
        assert!(!path.check(96, 0), "only once");
        assert_eq!(path.suspect.deadline(&path.space, &path.rtt, WAIT), None);
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
        let mut path = Link::new();
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
        let deadline = path.suspect.deadline(&path.space, &path.rtt, WAIT).unwrap();
        assert_eq!(deadline - path.t0, ms(135));
        // Whatever else is due, and when: the earlier of the two is found.
        for next in (0..200).map(|at| path.t0 + ms(at)) {
            let (space, rtt) = (&path.space, &path.rtt);
            let found = path.suspect.deadline_before(Some(next), space, rtt, WAIT);
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
        let mut path = Link::new();
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
    fn a_suspicion_is_unconfirmed_until_it_is_certain() {
        let mut path = Link::new();
        let t0 = path.t0;
        let at = |millis| t0 + ms(millis);
        path.suspect.on_evidence(at(1));
        assert_eq!(path.suspect.confirmed_at(), None, "no suspicion");
        path.send(0);
        assert!(path.check(85, 0));
        path.suspect.confirm_by(at(300));
        path.suspect.on_evidence(at(120));
        path.suspect.on_evidence(at(140));
        assert_eq!(path.suspect.confirmed_at(), Some(at(120)));
        assert!(path.ack(130, 0));
        assert!(!path.suspect.is_unconfirmed());
        // That answer took 130 ms: 60 ms + 4 * 20 ms + 25 ms.
        path.send(200);
        assert!(!path.check(364, 0));
        assert!(path.check(366, 0));
        path.suspect.confirm_by(at(500));
        path.suspect.on_confirmed();
        assert!(path.suspect.is_suspect() && !path.suspect.is_unconfirmed());
    }

    #[test]
    fn a_probe_timeout_is_enough() {
        let mut path = Link::new();
        path.send(0);
        assert!(!path.check(1, 0));
        assert!(path.check(2, 1));
        assert!(path.ack(200, 0), "nothing is left to wait for");
    }

    /// The queue grows by 2 ms per packet, and jitter comes on top: RTT from 50 to 450 ms.
    #[test]
    fn a_growing_queue_with_jitter_is_healthy() {
        let mut path = Link::new();
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

    #[test]
    fn a_suspect_path_offers_little_until_it_is_certain_that_the_silence_is_its_own() {
        let now = Instant::now();
        let mut paths = paths();
        let first = open(&mut paths, 0);
        assert_eq!(paths.on_suspect(now, first), 0, "there is no other");
        open(&mut paths, 1);
        // 16 KiB of packets of 1200 bytes, at most ten at a time, and never less than one.
        for packets in [10, 3, 1, 1] {
            assert_eq!(paths.on_suspect(now, first), packets);
        }
        paths.count_sent(1, 1 << 30);
        assert_eq!(paths.on_suspect(now, first), 10, "much was sent");
        assert_eq!(paths.on_suspect_pto(now, first), 1);
        let certain = now + paths.largest_pto() * UNCONFIRMED_PTOS;
        let before = certain.checked_sub(Duration::from_nanos(1)).unwrap();
        assert!(!paths.confirm(before, first));
        assert_eq!(paths.on_suspect_pto(certain, first), ALL);
        assert_eq!(
            paths.on_suspect_pto(certain, first),
            ALL,
            "no doubt is left"
        );
    }
}
