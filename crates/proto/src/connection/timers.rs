//! When the connection wakes up and what it does then: idle, loss, probe, acknowledgement, validation, discard.
//! Derived from the parts' state on each call, so no timer can be orphaned.

use std::time::Instant;

use mpquic_sched_core::Side;

use super::Connection;
use crate::closing::CloseFrame;
use crate::config::MIN_KEEP_ALIVE;
use crate::handshake::{Attempt, TimerFacts as HandshakeFacts};
use crate::path::{ALL, ChallengeOutcome, Expected, TimerFacts};
use crate::recovery::earlier;
use crate::space::{PacketSpace, SpaceId};
use crate::{ConnectionError, PathErrorCode, PathId};

impl Connection {
    /// When to call [`handle_timeout`](Self::handle_timeout); `None` for never.
    pub fn poll_timeout(&mut self) -> Option<Instant> {
        if self.state.is_drained() {
            return None;
        }
        if let Some(until) = self.state.timer() {
            return Some(until);
        }
        let mut next = self.idle.rest_timer();
        if self.handshake.has_timers() {
            next = earlier(next, self.handshake_timeout());
        }
        if self.state.is_established() {
            let waits = self.has_scheduled_data();
            let pto = || self.paths.smallest_pto();
            next = earlier(next, self.data.next_timeout(waits, pto));
        }
        if self.pace_at.is_some() {
            next = earlier(next, self.pace_at);
        }
        if !self.paths.retired().is_empty() {
            next = earlier(next, self.paths.retired_timeout());
        }
        // After the others: what they say spares a path to work out timers that come later.
        for path in self.paths.iter() {
            // The paths are looked over for others only where it matters.
            let elsewhere = path.is_suspect() && self.paths.has_other_usable(path.index);
            next = path.next_timeout(self.timer_facts(elsewhere), next);
        }
        self.idle.earlier(next, || self.paths.largest_pto())
    }

    /// The next of the timers that only a handshake has. Apart from the rest, as most of a connection's life is after it.
    #[cold]
    #[inline(never)]
    fn handshake_timeout(&mut self) -> Option<Instant> {
        let next = self.handshake.next_timeout(self.handshake_facts().as_ref());
        let copies = self.handshake.attempt().and_then(Attempt::timer);
        let copies = copies.filter(|_| self.state.is_alive());
        let others = self.with_race(|race, own| race.timer(own)).flatten();
        earlier(earlier(next, copies), others)
    }

    /// What the timers of the handshake depend on; `None` if its path is gone.
    fn handshake_facts(&self) -> Option<HandshakeFacts<'_>> {
        let path = self.paths.get(PathId::ZERO)?;
        Some(HandshakeFacts {
            rtt: path.rtt(),
            pto_count: path.pto_count(),
            at_limit: path.is_at_limit(),
            idle_since: self.idle.since(),
        })
    }

    /// The time of [`poll_timeout`](Self::poll_timeout) has come. An early call does nothing.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.on_timeout(now);
        if self.handshake.attempt().is_some() {
            self.with_race(|race, own| race.on_timeout(own, now));
            self.settle_race(now);
        }
    }

    /// Whether [`handle_timeout`](Self::handle_timeout) would draw conclusions from what was not acknowledged: packets
    /// lost, a probe timeout, a path that falls suspect. If the task that receives may be late, look first whether
    /// something waits to be received, and hand that in.
    pub fn judges_silence(&self, now: Instant) -> bool {
        self.paths.iter().any(|path| {
            let elsewhere = path.is_suspect() && self.paths.has_other_usable(path.index);
            path.judges_silence(now, self.timer_facts(elsewhere))
        })
    }

    fn on_timeout(&mut self, now: Instant) {
        if self.state.is_drained() {
            return;
        }
        let due = self.poll_timeout();
        if let Some(until) = self.state.timer() {
            if until <= now {
                self.end(now, None);
            }
            return;
        }
        if self.handshake.is_late(now) {
            if let Some(race) = &mut self.race {
                race.on_late(now);
            }
            return self.end(now, Some(ConnectionError::TimedOut));
        }
        let idle = self.idle.deadline(|| self.paths.largest_pto());
        if idle.is_some_and(|at| at <= now) {
            // RFC 9000 section 10.1: silently.
            self.end(now, Some(ConnectionError::TimedOut));
            return;
        }
        if self.pace_at.is_some_and(|at| at <= now) && self.is_too_slow(now) {
            return self.start_closing(now, CloseFrame::TooSlow, true);
        }
        if self.idle.is_at_rest(now) {
            // Gives back the memory that a transfer's buffers are kept for: the next transfer allocates them anew.
            self.data.shrink();
            self.events.shrink_to_fit();
            self.endpoint_events.shrink_to_fit();
            self.handshake.shrink();
            self.paths.shrink();
        }
        self.handshake.on_timeout(now);
        self.on_handshake_timeouts(now);
        let ids: smallvec::SmallVec<[PathId; 16]> = self.paths.iter().map(|path| path.id).collect();
        for id in ids {
            self.on_path_timeout(now, due, id);
        }
        let pto = self.paths.smallest_pto();
        self.data.on_timeout(now, pto);
        for retired in self.paths.retired_mut() {
            retired.on_timeout(now);
        }
        while let Some(id) = self.paths.discard_due(now) {
            self.paths
                .discard(id, &mut self.rng, &mut self.endpoint_events);
            self.on_path_discarded(now, id);
        }
    }

    /// A period is over in which the peer had to take so many bytes of what waited for it.
    fn is_too_slow(&mut self, now: Instant) -> bool {
        let Some((rate, period)) = self.config.min_rate else {
            return false;
        };
        self.pace_at = Some(now + period);
        let least = u128::from(rate) * period.as_millis() / 1000;
        let taken = self.data.streams_mut().end_period();
        taken.is_some_and(|taken| u128::from(taken) < least)
    }

    /// Only clients ask for data and credit that do not come: servers have no NAT that forgets them, and know no new
    /// address of their peer to ask at.
    fn timer_facts(&self, elsewhere: bool) -> TimerFacts {
        let idle_timeout = self.idle.timeout();
        let client = self.side == Side::Client;
        let waits = client && self.data.streams().is_limited();
        //= specs/rfc9000.txt#section-4.1
        //# To keep the connection from closing, a sender that is flow control limited SHOULD
        //# periodically send a STREAM_DATA_BLOCKED or DATA_BLOCKED frame when it has no
        //# ack-eliciting packets in flight.
        // Not by servers: the idle timeout is what ends a client that reads nothing of what is kept for it.
        let limited = idle_timeout
            .filter(|_| waits)
            .map(|timeout| (timeout / 3).max(MIN_KEEP_ALIVE));
        let keep_alive = [self.config.keep_alive_interval, limited];
        TimerFacts {
            max_ack_delay: self.paths.peer_max_ack_delay(),
            confirmed: self.handshake.is_confirmed(),
            keep_alive: match self.state.is_established() {
                true => keep_alive.into_iter().flatten().min(),
                false => None,
            },
            elsewhere,
            asks: client && self.state.is_established(),
            expected: Expected {
                streams: self.data.streams().may_receive(),
                credit: waits || (client && self.data.streams().wants_streams()),
                idle_timeout,
            },
        }
    }

    fn on_path_timeout(&mut self, now: Instant, due: Option<Instant>, id: PathId) {
        let facts = self.timer_facts(false);
        let Some((index, outcome)) = self.paths.on_timeout(now, due, id, facts) else {
            return;
        };
        let changed = self.paths.any_lost() || outcome.suspect || outcome.offer;
        if self.paths.any_lost() {
            self.on_packets_lost(now, index, SpaceId::Data);
        }
        if changed {
            self.watch.on_metrics(now, || self.paths.metrics(index));
        }
        let mut asks = outcome.kept_alive;
        if outcome.receive_idle
            && let Some(path) = self.paths.at_mut(index)
        {
            let expected = Expected {
                streams: self.data.streams().expects_data(),
                ..facts.expected
            };
            asks |= path.on_receive_idle(now, expected, facts.max_ack_delay);
        }
        if asks && facts.expected.credit {
            self.data.streams_mut().repeat_blocked();
        }
        if outcome.suspect {
            self.on_suspect(now, id, index);
        }
        if outcome.certain && self.paths.confirm(now, index) {
            self.offer_in_flight(index, ALL);
        }
        if outcome.offer {
            let packets = self.paths.on_suspect_pto(now, index);
            self.offer_in_flight(index, packets);
        }
        if outcome.repeat_control {
            // RFC 9002 section 6.2.4: on the only path there is, a probe carries again what a lost packet may have
            // carried. Control frames are queued again; stream data is copied when the probe is built.
            for frame in &self.paths.frames_in_flight(index, 2) {
                self.repeat_control(SpaceId::Data, frame);
            }
        }
        if self.paths.suspect_early_data(now, index) {
            // Data that was sent ahead of the validation may have gone where nobody is: others carry it, too.
            self.on_suspect(now, id, index);
            if self.paths.fail_over(index) {
                self.offer_in_flight(index, ALL);
            }
        }
        let events = &mut self.endpoint_events;
        match self.paths.on_challenge_timeout(now, index, events) {
            ChallengeOutcome::Waiting => {}
            ChallengeOutcome::WentBack => self.data.on_path_moved(index),
            //= specs/rfc9000.txt#section-9.3.2
            //# If an endpoint has no state about the last validated peer address, it MUST close the
            //# connection silently by discarding all connection state.
            ChallengeOutcome::Failed if self.paths.open_count() == 1 => {
                self.end(now, Some(ConnectionError::NoValidatedPath));
            }
            //= specs/rfc10069-draft.md#path-initiation
            //# If validation fails, the client MUST NOT use the path and can remove any status
            //# associated to the path initiation attempt.
            //= specs/rfc10069-draft.md#path-initiation
            //# As the used path ID is consumed either way, the endpoint MUST explicitly close the
            //# path, as specified in {{path-close}}.
            ChallengeOutcome::Failed => {
                self.abandon_path(now, id, PathErrorCode::PATH_UNSTABLE_OR_POOR, false);
            }
        }
    }

    fn on_handshake_timeouts(&mut self, now: Instant) {
        for space_id in [SpaceId::Initial, SpaceId::Handshake] {
            let space = self.handshake.space_mut(space_id);
            let due = |space: &&mut PacketSpace| space.loss_time.is_some_and(|at| at <= now);
            if let Some(space) = space.filter(due)
                && let Some(index) = self.paths.on_handshake_loss_timeout(now, space, space_id)
            {
                self.on_packets_lost(now, index, space_id);
            }
        }
        let pto = self.handshake.pto_deadline(self.handshake_facts().as_ref());
        if pto.is_some_and(|at| at <= now)
            && let Some(path) = self.paths.get_mut(PathId::ZERO)
        {
            path.on_handshake_pto();
            // If nothing is in flight, the next deadline counts from what a client sends now.
            if self.handshake.on_pto() {
                self.idle.keep();
            }
        }
    }
}
