//! When a path wants to be woken, and what it does then: loss detection, probe timeout, suspicion, keep-alive.
//! Derived from the path's state on each call, so no timer can be orphaned.

use std::time::{Duration, Instant};

use super::{NetworkPath, Path};
use crate::congestion::Controller;
use crate::recovery::pto_time;
use crate::space::{SentPacket, SpaceId};

/// A suspect path is probed at least so often while another path carries the data: a path that
/// comes back is found within this time and its round trip.
const MAX_SUSPECT_PROBE_INTERVAL: Duration = Duration::from_millis(400);

/// Probes of a suspect path that are remembered: they go on for as long as the path is silent. An
/// answer to one of the newest is what tells that it is back.
const MAX_BARE_PROBES: usize = 16;

/// Probes sent when a PTO expires (RFC 9002 section 6.2.4).
pub(crate) const PROBES_PER_PTO: u8 = 2;

/// What the timers of a path depend on beyond the path itself.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TimerFacts {
    /// The peer's max_ack_delay.
    pub(crate) max_ack_delay: Duration,
    /// The handshake is confirmed.
    pub(crate) confirmed: bool,
    /// How long a silent path is kept alive by PINGs, if at all.
    pub(crate) keep_alive: Option<Duration>,
    /// Data can go on another path. Only asked for suspect paths and for those that time out.
    pub(crate) elsewhere: bool,
}

/// What a timeout asks the connection to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct PathTimeout {
    /// The path has become suspect.
    pub(crate) suspect: bool,
    /// What the path has in flight is to be offered to the other paths again.
    pub(crate) offer: bool,
    /// There is no other path: the oldest control frames in flight are to be repeated here.
    pub(crate) repeat_control: bool,
}

impl Path {
    /// The earliest time at which the path wants [`on_timeout`](Self::on_timeout) to be called.
    pub(crate) fn next_timeout(&self, facts: TimerFacts) -> Option<Instant> {
        let suspicion = &self.recovery.suspect;
        [
            self.space.loss_time,
            self.pto_deadline(facts),
            self.space.acks.timer(),
            self.network.challenge_timer(),
            self.previous
                .as_ref()
                .and_then(NetworkPath::challenge_timer),
            suspicion.deadline(&self.space, &self.recovery.rtt, facts.max_ack_delay),
            self.keep_alive_deadline(facts),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// Time has passed. Lost packets go onto `lost`. Challenges have a call of their own,
    /// [`on_challenge_timeout`](Self::on_challenge_timeout).
    pub(crate) fn on_timeout(
        &mut self,
        now: Instant,
        facts: TimerFacts,
        controller: &mut dyn Controller,
        lost: &mut Vec<(u64, SentPacket)>,
    ) -> PathTimeout {
        let is_due = |at: Option<Instant>| at.is_some_and(|at| at <= now);
        let pto = is_due(self.pto_deadline(facts));
        if is_due(self.keep_alive_deadline(facts)) {
            self.recovery.ping = true;
            self.last_activity = now;
        }
        if is_due(self.space.acks.timer()) {
            // Due from now on, whether or not it can be sent at once.
            self.space.acks.force();
        }
        if is_due(self.space.loss_time) {
            let (id, delay) = (SpaceId::Data, facts.max_ack_delay);
            let space = &mut self.space;
            self.recovery
                .detect_lost(now, space, id, delay, controller, lost);
        }
        let mut outcome = PathTimeout::default();
        if pto {
            self.on_pto(now, facts, controller, &mut outcome);
        }
        outcome.suspect |= self.check_suspect(now, facts);
        outcome
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
            self.space.sent.forget_bare(MAX_BARE_PROBES);
        } else {
            self.recovery.probes = PROBES_PER_PTO;
        }
    }

    fn check_suspect(&mut self, now: Instant, facts: TimerFacts) -> bool {
        let recovery = &mut self.recovery;
        let (rtt, pto_count) = (&recovery.rtt, recovery.pto_count);
        recovery
            .suspect
            .check(now, &self.space, rtt, facts.max_ack_delay, pto_count)
    }

    /// When the PTO of the path's 1-RTT space expires.
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
        let deadline = pto_time(&self.space, rtt, facts.max_ack_delay, count)?;
        if self.is_suspect() && facts.elsewhere {
            let interval = self
                .pto(facts.max_ack_delay)
                .max(MAX_SUSPECT_PROBE_INTERVAL);
            return Some(deadline.min(self.space.last_ack_eliciting_sent? + interval));
        }
        Some(deadline)
    }

    /// When a PING is due for want of anything else. What is in flight must be acknowledged as it is,
    /// and has a probe timer that backs off.
    fn keep_alive_deadline(&self, facts: TimerFacts) -> Option<Instant> {
        let interval = facts.keep_alive?;
        let silent = self.space.ack_eliciting_in_flight() == 0;
        silent.then(|| self.last_activity + interval)
    }
}
