//! When a path wakes up, and what it does then. Derived from the path's state on each call, so that no timer can be
//! orphaned.

use std::time::{Duration, Instant};

use super::failover::AckWait;
use super::{Expected, PROBES_PER_PTO, Path};
use crate::congestion::Controller;
use crate::recovery::{earlier, later};
use crate::space::{SentPacket, SpaceId};

/// What the timers of a path depend on beyond the path itself.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TimerFacts {
    /// The peer's max_ack_delay.
    pub(crate) max_ack_delay: Duration,
    /// Ack-eliciting packets that the peer may receive without acknowledging them at once.
    pub(crate) ack_threshold: u64,
    /// By how much the peer holds acknowledgements back, as far as it was asked to.
    pub(crate) held_back: Duration,
    /// The handshake is confirmed.
    pub(crate) confirmed: bool,
    /// How long a silent path is kept alive by PINGs, if at all.
    pub(crate) keep_alive: Option<Duration>,
    /// Data can go on another path. Only asked for suspect paths and for those that time out.
    pub(crate) elsewhere: bool,
    /// We ask the peer if we expect data of it and hear nothing: [`ReceiveIdle`](super::receive_idle::ReceiveIdle) tells whether we do.
    pub(crate) asks: bool,
    pub(crate) expected: Expected,
}

impl TimerFacts {
    /// How long acknowledgements may be waited for.
    pub(crate) const fn ack_wait(&self) -> AckWait {
        AckWait::new(self.max_ack_delay, self.ack_threshold, self.held_back)
    }
}

/// What a timeout asks the connection to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct PathTimeout {
    /// The path has become suspect.
    pub(crate) suspect: bool,
    /// What the path has in flight is to be offered to the other paths again.
    pub(crate) offer: bool,
    /// It is certain by now that the silence is the path's own.
    pub(crate) certain: bool,
    /// There is no other path: the oldest control frames in flight are to be repeated here.
    pub(crate) repeat_control: bool,
    /// Nothing was heard for so long that the peer is to be asked, if data is expected of it.
    pub(crate) receive_idle: bool,
    /// A PING is to be sent for want of anything else.
    pub(crate) kept_alive: bool,
    /// The path has fallen silent for the application that watches it: how long a packet has been waited for.
    pub(crate) silent: Option<Duration>,
}

impl Path {
    /// The earliest time at which the path wants [`on_timeout`](Self::on_timeout) to be called, or `next` if that is
    /// earlier.
    pub(crate) fn next_timeout(
        &self,
        facts: TimerFacts,
        mut next: Option<Instant>,
    ) -> Option<Instant> {
        let suspicion = &self.recovery.suspect;
        // What is judged by silence waits for what may have come while this host did not run.
        let judged = |at: Option<Instant>| at.map(|at| suspicion.not_before(at));
        let challenged = self.previous.is_some() || self.network.challenge_timer().is_some();
        if challenged || self.space.loss_time.is_some() || facts.elsewhere {
            next = earlier(next, self.seldom_timeout(facts));
        }
        next = earlier(next, self.space.acks.timer());
        next = earlier(next, self.probe_timer());
        if self.silence.is_some() {
            next = earlier(next, judged(self.silence_deadline(&facts)));
        }
        let quiet = self.space.ack_eliciting_in_flight() == 0;
        if quiet && (facts.asks || facts.keep_alive.is_some()) {
            next = earlier(next, self.keep_alive_deadline(facts));
            next = earlier(next, self.receive_idle_deadline(facts));
        }
        if quiet {
            // Nothing waits for an acknowledgement.
            return next;
        }
        // Those that do are hardly ever the next while packets keep leaving: worked out only if not even their least would
        // come later.
        let (space, rtt) = (&self.space, &self.recovery.rtt);
        if let Some(sent) = space.last_ack_eliciting_sent
            && next.is_none_or(|next| later(sent, rtt.least_pto()) < next)
        {
            next = earlier(next, judged(self.pto_deadline(facts)));
        }
        let deadline = suspicion.deadline_before(next, space, rtt, facts.ack_wait());
        earlier(next, judged(deadline))
    }

    /// The next of the timers that few paths have: of challenges, of a loss by time, of a path that is not needed.
    #[cold]
    #[inline(never)]
    fn seldom_timeout(&self, facts: TimerFacts) -> Option<Instant> {
        let suspicion = &self.recovery.suspect;
        let certain = suspicion.confirmed_at().filter(|_| facts.elsewhere);
        let judged = earlier(self.space.loss_time, certain).map(|at| suspicion.not_before(at));
        let previous = self.previous.as_ref();
        let previous = previous.and_then(|left| left.challenge_timer());
        earlier(judged, earlier(self.network.challenge_timer(), previous))
    }

    /// Time has passed; `due` is when the connection wanted to be called. Losses, probe timeouts and silence are not judged
    /// if that was long ago: this host did not run since, and what it was sent may still have to be read. Lost packets go
    /// onto `lost`. Challenges have a call of their own,
    /// [`on_challenge_timeout`](Self::on_challenge_timeout).
    pub(crate) fn on_timeout(
        &mut self,
        now: Instant,
        due: Option<Instant>,
        facts: TimerFacts,
        controller: &mut dyn Controller,
        lost: &mut Vec<(u64, SentPacket)>,
    ) -> PathTimeout {
        let is_due = |at: Option<Instant>| at.is_some_and(|at| at <= now);
        let judges = self.recovery.suspect.may_judge(now, due);
        let pto = judges && is_due(self.pto_deadline(facts));
        let kept_alive = is_due(self.keep_alive_deadline(facts));
        if kept_alive {
            self.recovery.ping = true;
            self.last_activity = now;
        }
        if is_due(self.space.acks.timer()) {
            // Due from now on, whether or not it can be sent at once.
            self.space.acks.force();
        }
        if judges && is_due(self.space.loss_time) {
            let (id, delay) = (SpaceId::Data, facts.max_ack_delay);
            let space = &mut self.space;
            let persistent = self
                .recovery
                .detect_lost(now, space, id, delay, controller, lost);
            if let Some(memory) = &mut self.recovery.memory {
                memory.on_loss_timeout(now, persistent, controller);
            }
        }
        let mut outcome = PathTimeout {
            receive_idle: is_due(self.receive_idle_deadline(facts)),
            kept_alive,
            ..PathTimeout::default()
        };
        if pto {
            self.on_pto(now, facts, controller, &mut outcome);
        }
        if judges {
            outcome.suspect |= self.check_suspect(now, facts);
            outcome.certain = facts.elsewhere && is_due(self.recovery.suspect.confirmed_at());
            outcome.silent = self.check_silence(now, &facts);
        }
        outcome
    }

    /// Whether [`on_timeout`](Self::on_timeout) would draw conclusions from what was not acknowledged.
    pub(crate) fn judges_silence(&self, now: Instant, facts: TimerFacts) -> bool {
        let (space, rtt) = (&self.space, &self.recovery.rtt);
        let suspicion = &self.recovery.suspect;
        let deadline = suspicion.deadline_before(None, space, rtt, facts.ack_wait());
        let certain = suspicion.confirmed_at().filter(|_| facts.elsewhere);
        let pto = self.pto_deadline(facts);
        let silence = self.silence_deadline(&facts);
        let times = [space.loss_time, pto, deadline, certain, silence];
        let mut judged = times.into_iter().flatten();
        judged.any(|at| suspicion.not_before(at) <= now)
    }

    /// RFC 9002 section 6.2.4: a probe timeout of the path's packet number space.
    fn on_pto(
        &mut self,
        now: Instant,
        facts: TimerFacts,
        controller: &mut dyn Controller,
        outcome: &mut PathTimeout,
    ) {
        let recovery = &mut self.recovery;
        //= specs/rfc9002.txt#section-6.2
        //# A PTO timer expiration event does not indicate packet loss and MUST NOT cause prior
        //# unacknowledged packets to be marked as lost.
        recovery.pto_count = recovery.pto_count.saturating_add(1);
        if recovery.mtu.on_pto(now, recovery.pto_count) {
            controller.on_mtu_update(self.index, recovery.mtu.current());
        }
        outcome.suspect = self.check_suspect(now, facts);
        // A scheduler may have gone on to send here: that must not be stuck either.
        outcome.offer = !outcome.suspect && facts.elsewhere;
        outcome.repeat_control = !facts.elsewhere;
        // With the data on other paths, one small probe shows whether this one lives.
        //= specs/rfc9002.txt#section-6.2.4
        //# When a PTO timer expires, a sender MUST send at least one ack- eliciting packet in the
        //# packet number space as a probe.
        if facts.elsewhere {
            self.recovery.probes = 1;
            self.recovery.ping = true;
            self.forget_bare_packets();
        } else {
            // Two probes at first, then one: those that follow come more often than the PTO doubles.
            let first = self.recovery.pto_count <= 1;
            self.recovery.probes = if first { PROBES_PER_PTO } else { 1 };
        }
    }

    /// When the PTO of the path's 1-RTT space expires.
    //= specs/rfc9000.txt#section-8.1
    //# To prevent this deadlock, clients MUST send a packet on a Probe Timeout (PTO); see Section
    //# 6.2 of [QUIC-RECOVERY].
    fn pto_deadline(&self, facts: TimerFacts) -> Option<Instant> {
        //= specs/rfc9002.txt#section-6.2.1
        //# An endpoint MUST NOT set its PTO timer for the Application Data packet number space
        //# until the handshake is confirmed.
        if !facts.confirmed || self.space.ack_eliciting_in_flight() == 0 {
            return None;
        }
        // The probes of the last one wait to be sent, as soon as the path lets them. RFC 9002 section
        // 6.2.2.1: nor while they could not leave. Armed, it would fire for ever and send nothing.
        if self.recovery.probes > 0 || self.network.is_at_limit() {
            return None;
        }
        let (rtt, count) = (&self.recovery.rtt, self.recovery.pto_count);
        //= specs/quic-ack-frequency.md#computation-of-probe-timeout-period
        //# Therefore, if Reordering Threshold is set to 0, the PTO MUST be larger than the peer's
        //# max_ack_delay.
        let deadline = self.space.pto_time(rtt, facts.max_ack_delay, count)?;
        match self.suspect_probe_deadline(facts) {
            Some(probe) => Some(deadline.min(probe)),
            None => Some(deadline),
        }
    }

    /// When to ask a peer of which nothing is heard. What is in flight asks by itself.
    fn receive_idle_deadline(&self, facts: TimerFacts) -> Option<Instant> {
        let quiet = facts.asks && self.space.ack_eliciting_in_flight() == 0;
        if !quiet || self.recovery.ping {
            return None;
        }
        let pto = self.pto(facts.max_ack_delay);
        self.receive_idle
            .deadline(self.last_activity, pto, facts.expected)
    }

    /// Nothing is heard of the peer. `expected`: what it owes, now that the streams were looked at. If it owes anything, a
    /// PING is to be sent, in a datagram large enough for the peer to answer in full, should it come from an address that
    /// it does not know (RFC 9000 section 8.1). Returns whether one is.
    pub(crate) fn on_receive_idle(
        &mut self,
        now: Instant,
        expected: Expected,
        max_ack_delay: Duration,
    ) -> bool {
        if !expected.streams {
            self.receive_idle.on_no_streams();
        }
        let pto = self.pto(max_ack_delay);
        let deadline = self
            .receive_idle
            .deadline(self.last_activity, pto, expected);
        let asks = deadline.is_some_and(|at| at <= now);
        if asks {
            self.receive_idle.on_asked();
            self.recovery.ping = true;
            self.recovery.full_ping = true;
        }
        asks
    }

    /// When a PING is due for want of anything else. What is in flight must be acknowledged as it is,
    /// and has a probe timer that backs off.
    fn keep_alive_deadline(&self, facts: TimerFacts) -> Option<Instant> {
        let interval = facts.keep_alive?;
        let silent = self.space.ack_eliciting_in_flight() == 0;
        silent.then(|| self.last_activity + interval)
    }
}
