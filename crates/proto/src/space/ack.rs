//! When received packets must be acknowledged (RFC 9000 section 13.2); writes no ACK frame.

use std::time::{Duration, Instant};

use mpquic_sched_core::EcnCodepoint;

use crate::frame::EcnCounts;
use crate::recovery::later;

/// Ack-eliciting packets after which an ACK goes at once (RFC 9000 section 13.2.2).
const DEFAULT_THRESHOLD: u32 = 2;

/// What a received packet was.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ReceivedPacket {
    pub(crate) now: Instant,
    pub(crate) pn: u64,
    pub(crate) ack_eliciting: bool,
    /// The mark of its IP header.
    pub(crate) ecn: Option<EcnCodepoint>,
    /// Our own max_ack_delay.
    pub(crate) max_ack_delay: Duration,
    /// Whether the space acknowledges at once: Initial and Handshake.
    pub(crate) immediate: bool,
}

/// Decides when a space owes an ACK.
#[derive(Debug, Clone)]
pub(crate) struct AckScheduler {
    /// Ack-eliciting packets that may wait for a common ACK.
    pub(crate) threshold: u32,
    /// Ack-eliciting packets since the last ACK was sent.
    unacked: u32,
    immediate: bool,
    timer: Option<Instant>,
    largest_eliciting: Option<u64>,
    /// The largest packet and when it came: for the ACK Delay field.
    largest: Option<(u64, Instant)>,
    ecn: EcnCounts,
}

impl Default for AckScheduler {
    fn default() -> Self {
        Self {
            threshold: DEFAULT_THRESHOLD,
            unacked: 0,
            immediate: false,
            timer: None,
            largest_eliciting: None,
            largest: None,
            ecn: EcnCounts::default(),
        }
    }
}

impl AckScheduler {
    /// The largest ack-eliciting number so far, for the test whether numbers are missing after it.
    pub(crate) const fn largest_eliciting(&self) -> Option<u64> {
        self.largest_eliciting
    }

    /// A packet came that is no duplicate. `gap`: numbers are missing between the largest
    /// ack-eliciting one before and this one.
    pub(crate) fn on_received(&mut self, packet: &ReceivedPacket, gap: bool) {
        //= specs/rfc9000.txt#section-13.4.1
        //# Even if an endpoint does not set an ECT field in packets it sends, the endpoint MUST
        //# provide feedback about ECN markings it receives, if these are accessible.
        match packet.ecn {
            Some(EcnCodepoint::Ect0) => self.ecn.ect0 += 1,
            Some(EcnCodepoint::Ect1) => self.ecn.ect1 += 1,
            Some(EcnCodepoint::Ce) => self.ecn.ce += 1,
            None => {}
        }
        if self.largest.is_none_or(|(largest, _)| packet.pn > largest) {
            self.largest = Some((packet.pn, packet.now));
        }
        //= specs/rfc9000.txt#section-13.2.1
        //# An endpoint MUST NOT send a non-ack-eliciting packet in response to a non-ack-eliciting
        //# packet, even if there are packet gaps that precede the received packet.
        if !packet.ack_eliciting {
            return;
        }
        self.unacked += 1;
        let reordered = self.largest_eliciting.is_some_and(|l| packet.pn < l);
        self.largest_eliciting = self.largest_eliciting.max(Some(packet.pn));
        //= specs/rfc9000.txt#section-13.2.1
        //# Similarly, packets marked with the ECN Congestion Experienced (CE) codepoint in the IP
        //# header SHOULD be acknowledged immediately, to reduce the peer's response time to
        //# congestion events.
        //= specs/rfc9000.txt#section-13.2.2
        //# A receiver SHOULD send an ACK frame after receiving at least two ack- eliciting packets.
        if packet.immediate
            || reordered
            || gap
            || packet.ecn == Some(EcnCodepoint::Ce)
            || self.unacked >= self.threshold
        {
            self.immediate = true;
        } else if self.timer.is_none() {
            //= specs/rfc9000.txt#section-13.2.1
            //# An endpoint MUST acknowledge all ack-eliciting Initial and Handshake packets
            //# immediately and all ack-eliciting 0-RTT and 1-RTT packets within its advertised
            //# max_ack_delay, with the following exception.
            //= specs/rfc9000.txt#section-13.2.1
            //# Every packet SHOULD be acknowledged at least once, and ack-eliciting packets MUST be
            //# acknowledged at least once within the maximum delay an endpoint communicated using
            //# the max_ack_delay transport parameter; see Section 18.2.
            self.timer = Some(later(packet.now, packet.max_ack_delay));
        }
    }

    /// Whether an ACK must go now.
    pub(crate) fn due(&self, now: Instant) -> bool {
        self.immediate || self.timer.is_some_and(|timer| timer <= now)
    }

    /// Whether an ACK is worth adding to a packet that goes anyway.
    pub(crate) const fn pending(&self) -> bool {
        self.unacked > 0
    }

    /// When the ACK falls due that does not go at once.
    pub(crate) fn timer(&self) -> Option<Instant> {
        self.timer.filter(|_| !self.immediate)
    }

    /// An ACK frame with the largest range left.
    pub(crate) const fn on_ack_sent(&mut self) {
        self.unacked = 0;
        self.immediate = false;
        self.timer = None;
    }

    /// An ACK must go as soon as possible, though nothing new may have come.
    pub(crate) const fn force(&mut self) {
        self.immediate = true;
    }

    /// What the ACK Delay field says (RFC 9000 section 13.2.5).
    pub(crate) fn delay(&self, now: Instant) -> Duration {
        //= specs/rfc9000.txt#section-13.2.5
        //# An endpoint MUST NOT include delays that it does not control when populating the ACK
        //# Delay field in an ACK frame.
        //= specs/rfc9000.txt#section-13.2.5
        //# When the measured acknowledgment delay is larger than its max_ack_delay, an endpoint
        //# SHOULD report the measured delay.
        self.largest.map_or(Duration::ZERO, |(_, received)| {
            now.saturating_duration_since(received)
        })
    }

    /// The counts for the ACK frame; `None` before the first mark was seen.
    pub(crate) fn ecn(&self) -> Option<EcnCounts> {
        (self.ecn != EcnCounts::default()).then_some(self.ecn)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAX_ACK_DELAY: Duration = Duration::from_millis(25);

    fn packet(now: Instant, pn: u64) -> ReceivedPacket {
        ReceivedPacket {
            now,
            pn,
            ack_eliciting: true,
            ecn: None,
            max_ack_delay: MAX_ACK_DELAY,
            immediate: false,
        }
    }

    //= specs/rfc9000.txt#section-13.2.2
    //= type=test
    //# A receiver SHOULD send an ACK frame after receiving at least two ack- eliciting packets.
    //= specs/rfc9000.txt#section-13.2.1
    //= type=test
    //# Every packet SHOULD be acknowledged at least once, and ack-eliciting packets MUST be
    //# acknowledged at least once within the maximum delay an endpoint communicated using the
    //# max_ack_delay transport parameter; see Section 18.2.
    #[test]
    fn every_second_packet_or_the_timer() {
        let now = Instant::now();
        let mut acks = AckScheduler::default();
        acks.on_received(&packet(now, 0), false);
        assert!(!acks.due(now) && acks.pending());
        assert_eq!(acks.timer(), Some(now + MAX_ACK_DELAY));
        assert!(acks.due(now + MAX_ACK_DELAY));
        acks.on_received(&packet(now + Duration::from_millis(3), 1), false);
        assert!(acks.due(now));
        assert_eq!(acks.timer(), None);
        assert_eq!(
            acks.delay(now + Duration::from_millis(5)),
            Duration::from_millis(2)
        );
        acks.on_ack_sent();
        assert!(!acks.due(now + MAX_ACK_DELAY) && !acks.pending());
    }

    //= specs/rfc9000.txt#section-13.2.1
    //= type=test
    //# Similarly, packets marked with the ECN Congestion Experienced (CE) codepoint in the IP
    //# header SHOULD be acknowledged immediately, to reduce the peer's response time to congestion
    //# events.
    //= specs/rfc9000.txt#section-13.2.1
    //= type=test
    //# An endpoint MUST acknowledge all ack-eliciting Initial and Handshake packets immediately and
    //# all ack-eliciting 0-RTT and 1-RTT packets within its advertised max_ack_delay, with the
    //# following exception.
    #[test]
    fn at_once_for_gap_reordering_mark_and_handshake() {
        let now = Instant::now();
        let mut acks = AckScheduler::default();
        acks.on_received(&packet(now, 5), true);
        assert!(acks.due(now), "gap");
        acks.on_ack_sent();
        acks.on_received(&packet(now, 4), false);
        assert!(acks.due(now), "reordered");
        acks.on_ack_sent();
        acks.on_received(
            &ReceivedPacket {
                ecn: Some(EcnCodepoint::Ce),
                ..packet(now, 6)
            },
            false,
        );
        assert!(acks.due(now), "CE");
        assert_eq!(
            acks.ecn(),
            Some(EcnCounts {
                ect0: 0,
                ect1: 0,
                ce: 1
            })
        );
        acks.on_ack_sent();
        acks.on_received(
            &ReceivedPacket {
                immediate: true,
                ..packet(now, 7)
            },
            false,
        );
        assert!(acks.due(now), "Initial or Handshake");
    }

    //= specs/rfc9000.txt#section-13.2.1
    //= type=test
    //# An endpoint MUST NOT send a non-ack-eliciting packet in response to a non-ack-eliciting
    //# packet, even if there are packet gaps that precede the received packet.
    #[test]
    fn what_elicits_nothing_is_not_answered() {
        let now = Instant::now();
        let mut acks = AckScheduler::default();
        acks.on_received(
            &ReceivedPacket {
                ack_eliciting: false,
                ..packet(now, 9)
            },
            true,
        );
        assert!(!acks.pending() && !acks.due(now) && acks.timer().is_none());
        assert_eq!(acks.ecn(), None);
    }
}
