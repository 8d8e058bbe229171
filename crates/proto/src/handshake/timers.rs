//! Timers that only a handshake has: when it must be complete, lost packets and probe timeouts of the Initial and Handshake
//! spaces, when 0-RTT keys go.

use std::time::{Duration, Instant};

use mpquic_sched_core::Side;

use super::Handshake;
use crate::congestion::RttEstimator;
use crate::path::{PROBES_PER_PTO, Path};
use crate::recovery::{earlier, later};
use crate::sent_frame::SentFrame;
use crate::space::{SpaceId, pto_duration};

/// What they depend on of path 0 and of the connection.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TimerFacts<'a> {
    pub(crate) rtt: &'a RttEstimator,
    /// Probe timeouts in a row.
    pub(crate) pto_count: u32,
    /// The amplification limit lets nothing more out.
    pub(crate) at_limit: bool,
    /// When a packet was last received, or the first ack-eliciting one sent after that.
    pub(crate) idle_since: Instant,
}

impl<'a> TimerFacts<'a> {
    /// Of the path of the handshake, if it is there.
    pub(crate) fn of(path: Option<&'a Path>, idle_since: Instant) -> Option<Self> {
        path.map(|path| Self {
            rtt: path.rtt(),
            pto_count: path.pto_count(),
            at_limit: path.is_at_limit(),
            idle_since,
        })
    }
}

impl Handshake {
    /// Whether any timer may be set.
    pub(crate) fn has_timers(&self) -> bool {
        self.deadline.is_some()
            || !self.spaces.is_empty()
            || self.attempt.is_some()
            || self.session.early_data.timer().is_some()
    }

    /// The next of them. `facts`: none if path 0 is gone. Apart from the rest, as most of a connection's life is after it.
    #[cold]
    #[inline(never)]
    pub(crate) fn next_timeout(&self, facts: Option<&TimerFacts<'_>>) -> Option<Instant> {
        let mut next = earlier(self.deadline, self.pto_deadline(facts));
        next = earlier(next, self.session.early_data.timer());
        next = earlier(
            next,
            self.attempt.as_ref().and_then(|attempt| attempt.timer()),
        );
        let losses = self.spaces.iter().filter_map(|space| space.loss_time);
        earlier(next, losses.min())
    }

    /// Whether its time is over.
    pub(crate) fn is_late(&self, now: Instant) -> bool {
        self.deadline.is_some_and(|at| at <= now)
    }

    /// Forgets keys whose time is over: of early data, and those that a key update left behind.
    pub(crate) fn on_timeout(&mut self, now: Instant) {
        self.session.on_timeout(now);
    }

    /// When the PTO of the Initial and Handshake spaces expires.
    pub(crate) fn pto_deadline(&self, facts: Option<&TimerFacts<'_>>) -> Option<Instant> {
        if self.spaces.is_empty() {
            return None;
        }
        let facts = facts?;
        //= specs/rfc9002.txt#section-6.2.2.1
        //# If no additional data can be sent, the server's PTO timer MUST NOT be armed until
        //# datagrams have been received from the client because packets sent on PTO count against
        //# the anti-amplification limit.
        if facts.at_limit || self.spaces.has_probes() {
            return None;
        }
        // RFC 9002 section 6.2.1: nor while a loss by time is awaited.
        if self.spaces.iter().any(|space| space.loss_time.is_some()) {
            return None;
        }
        let spaces = self.spaces.iter();
        //= specs/rfc9002.txt#section-6.2.1
        //# When ack-eliciting packets in multiple packet number spaces are in flight, the timer
        //# MUST be set to the earlier value of the Initial and Handshake packet number spaces.
        let earliest = spaces
            .filter_map(|space| space.pto_time(facts.rtt, Duration::ZERO, facts.pto_count))
            .min();
        if earliest.is_some() || self.confirmed {
            return earliest;
        }
        if self.side == Side::Server {
            return self.finished_deadline(facts);
        }
        //= specs/rfc9002.txt#section-6.2.2.1
        //# That is, the client MUST set the PTO timer if the client has not received an
        //# acknowledgment for any of its Handshake packets and the handshake is not confirmed (see
        //# Section 4.1.2 of [QUIC-TLS]), even if there are no packets in flight.
        Some(facts.idle_since + pto_duration(facts.rtt, Duration::ZERO, facts.pto_count))
    }

    /// When a server asks for the client's Finished. The client has Handshake keys and owes it, the server has nothing in
    /// flight, and the client's PTO may be long by then: it has doubled with each loss, and no RTT sample may have made it
    /// short. Each question waits twice as long as the one before, whatever is answered.
    fn finished_deadline(&self, facts: &TimerFacts<'_>) -> Option<Instant> {
        let space = self.spaces.get(SpaceId::Handshake)?;
        if self.session.is_complete() || space.next_expected() == 0 {
            return None;
        }
        let wait = pto_duration(facts.rtt, Duration::ZERO, self.spaces.asked());
        Some(later(facts.idle_since, wait))
    }

    /// The PTO has come: what is in flight goes out again, or something that makes the peer answer. True if nothing was in
    /// flight at a client, whose next PTO counts from now.
    pub(crate) fn on_pto(&mut self) -> bool {
        let mut probed = false;
        for space_id in [SpaceId::Initial, SpaceId::Handshake] {
            let Some(space) = self.spaces.get(space_id) else {
                continue;
            };
            if space.ack_eliciting_in_flight() == 0 {
                continue;
            }
            probed = true;
            let stream = self.session.stream(space_id);
            for (_, packet) in space.sent.iter() {
                for frame in &packet.frames {
                    if let SentFrame::Crypto { start, end } = *frame {
                        stream.on_lost(start, end);
                    }
                }
            }
            self.spaces.request_probes(space_id, PROBES_PER_PTO);
        }
        if probed {
            return false;
        }
        if self.side == Side::Server {
            self.spaces.ask_for_finished();
            return false;
        }
        //= specs/rfc9000.txt#section-8.1
        //# Specifically, the client MUST send an Initial packet in a UDP datagram that contains at
        //# least 1200 bytes if it does not have Handshake keys, and otherwise send a Handshake
        //# packet.
        //= specs/rfc9002.txt#section-6.2.2.1
        //# When the PTO fires, the client MUST send a Handshake packet if it has Handshake
        //# keys, otherwise it MUST send an Initial packet in a UDP datagram with a payload of
        //# at least 1200 bytes.
        let space_id = match self.session.handshake {
            Some(_) => SpaceId::Handshake,
            None => SpaceId::Initial,
        };
        self.spaces.request_probes(space_id, 1);
        true
    }
}
