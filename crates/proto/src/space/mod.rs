//! One packet number space: the numbers of its packets, what was received, what was sent, which acknowledgement is due.

mod ack;
mod loss;
mod pto;
mod sent;
#[cfg(test)]
pub(crate) use sent::tests as tests_support;

use std::collections::VecDeque;
use std::time::Instant;

use rand::RngExt;
use rand::rngs::StdRng;

pub(crate) use ack::{AckPolicy, AckScheduler, Owed, ReceivedPacket, ReceivedPackets};
pub(crate) use loss::{AckOutcome, LossOutcome, LostNumbers};
pub(crate) use pto::pto_duration;
pub(crate) use sent::{PacketOrigin, SentPacket, SentPackets};

use crate::PathId;
use crate::frame_writer::FrameWriter;
use crate::recovery::{EcnCounter, PersistentCongestion};
use crate::sent_frame::SentFrame;
use mpquic_wire::frame::encode_ack;

/// Which packet number space (RFC 9000 section 12.3). Each has an encryption level with a CRYPTO stream of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum SpaceId {
    Initial,
    Handshake,
    /// 1-RTT packets: with RFC 10069 (section 1), one space per path ID.
    Data,
}

/// A packet number space: Initial, Handshake, or that of a path ID (RFC 10069 section 1). Its reaction to
/// acknowledgements and time is in `loss`.
#[derive(Debug)]
pub(crate) struct PacketSpace {
    /// The numbers given to packets.
    pub(crate) numbers: PacketNumbers,
    pub(crate) received: ReceivedPackets,
    pub(crate) acks: AckScheduler,
    pub(crate) sent: SentPackets,
    pub(crate) largest_acked: Option<u64>,
    /// When the oldest packet before an acknowledged one falls lost (RFC 9002 section 6.1.2).
    pub(crate) loss_time: Option<Instant>,
    pub(crate) last_ack_eliciting_sent: Option<Instant>,
    pub(crate) ecn: EcnCounter,
    /// Declared lost lately.
    pub(crate) lost: LostNumbers,
    pub(crate) persistent: PersistentCongestion,
    /// Packets with these numbers left for other addresses than the path has now: that they are lost says nothing of it.
    elsewhere: std::ops::Range<u64>,
    /// The ranges of the ACK frame under way; kept for its allocation.
    pub(crate) blocks: Vec<(u64, u64)>,
}

impl PacketSpace {
    /// Gives back memory that is kept to be used again, and forgets packets with ACKs only, whose acknowledgement would
    /// say nothing new.
    pub(crate) fn shrink(&mut self) {
        let settled = self.sent.first().map_or(u64::MAX, |(pn, _)| pn);
        if self.sent.forget_other_below(settled) {
            self.persistent.on_acked();
        }
        self.sent.shrink();
        self.blocks = Vec::new();
    }

    pub(crate) fn new(rng: &mut StdRng) -> Self {
        Self {
            numbers: PacketNumbers::new(rng),
            received: ReceivedPackets::default(),
            acks: AckScheduler::default(),
            sent: SentPackets::default(),
            largest_acked: None,
            loss_time: None,
            last_ack_eliciting_sent: None,
            ecn: EcnCounter::default(),
            lost: LostNumbers::default(),
            persistent: PersistentCongestion::default(),
            elsewhere: 0..0,
            blocks: Vec::new(),
        }
    }

    /// The number of the next packet; taken by [`on_sent`](Self::on_sent). `None` once the space is
    /// used up: a path is then abandoned, a connection closed silently (RFC 9000 section 12.3).
    pub(crate) const fn next_pn(&self) -> Option<u64> {
        self.numbers.next()
    }

    /// What counts is a copy of this packet, which left at this time, if that was later.
    pub(crate) fn on_left_later(&mut self, pn: u64, at: Instant) {
        if let Some(packet) = self.sent.get_mut(pn)
            && packet.time_sent < at
        {
            packet.time_sent = at;
            if packet.ack_eliciting {
                self.last_ack_eliciting_sent = self.last_ack_eliciting_sent.max(Some(at));
            }
        }
    }

    /// The packet with the number of [`next_pn`](Self::next_pn) left.
    pub(crate) fn on_sent(&mut self, packet: SentPacket, rng: &mut StdRng) {
        //= specs/rfc9000.txt#section-17.2.3
        //# New packet numbers MUST be used for any new packets that are sent; as described in
        //# Section 17.2.5.3, reusing packet numbers could compromise packet protection.
        let pn = self.numbers.take(rng);
        if packet.ack_eliciting {
            self.last_ack_eliciting_sent = Some(packet.time_sent);
        }
        if packet.ecn_marked {
            self.ecn.on_sent_marked();
        }
        self.sent.insert(pn, packet);
        while self.sent.has_excess() {
            if self.sent.forget_oldest_other() {
                // Its place among the lost cannot be told any more: assume the harmless.
                self.persistent.on_acked();
            }
        }
    }

    /// A packet was decrypted; false if it is a duplicate, which is not to be processed.
    pub(crate) fn on_received(&mut self, packet: &ReceivedPacket) -> bool {
        let new_range = if self.received.extend(packet.pn) {
            false
        } else if self.received.insert(packet.pn) {
            self.received.is_alone(packet.pn)
        } else {
            return false;
        };
        let out_of_order = packet.ack_eliciting && self.is_out_of_order(packet);
        self.acks.on_received(packet, out_of_order, new_range);
        true
    }

    /// Whether an ack-eliciting packet is out of order so that its sender should learn of it at once.
    fn is_out_of_order(&self, packet: &ReceivedPacket) -> bool {
        // Nearly always it follows the one before, and then it is in order unless a number that is missing further back
        // falls out of a window of several packets by it.
        let before = self.acks.largest_eliciting();
        let follows = before.is_some() && packet.pn.checked_sub(1) == before;
        if follows && packet.policy.reordering_threshold <= 1 {
            return false;
        }
        self.is_reordered(packet, before)
    }

    #[inline(never)]
    fn is_reordered(&self, packet: &ReceivedPacket, before: Option<u64>) -> bool {
        match packet.policy.reordering_threshold {
            //= specs/quic-ack-frequency.md#out-of-order
            //# If the most recent ACK_FREQUENCY frame received from the peer has a Reordering
            //# Threshold value of 0, the endpoint SHOULD NOT send an immediate
            //# acknowledgment in response to packets received out of order, and instead
            //# rely on the peer's Ack-Eliciting Threshold and Requested Max Ack Delay
            //# for sending acknowledgments.
            0 => false,
            //= specs/rfc9000.txt#section-13.2.1
            //# In order to assist loss detection at the sender, an endpoint SHOULD generate and send
            //# an ACK frame without delay when it receives an ack- eliciting packet either:
            //#
            //# * when the received packet has a packet number less than another ack-eliciting packet
            //# that has been received, or
            //#
            //# * when the packet has a packet number larger than the highest- numbered ack-eliciting
            //# packet that has been received and there are missing packets between that packet and
            //# this packet.
            1 => match before {
                Some(largest) => {
                    packet.pn < largest || self.received.missing_between(largest, packet.pn)
                }
                // Before the first packet, 0 is the one expected.
                None => packet.pn > 0 && self.received.missing_between(0, packet.pn),
            },
            //= specs/quic-ack-frequency.md#out-of-order
            //# An endpoint that receives an ACK_FREQUENCY frame with a non-zero Reordering
            //# Threshold value SHOULD send an immediate ACK whenever it receives an ack-eliciting,
            //# out-of order packet whose packet number is outside the reordering window of the peer,
            //# i.e. when
            //# * the difference between the smallest Unreported Missing packet and the
            //# Largest Unacked packet is greater than or equal to the Reordering
            //# Threshold value; or
            //# * the received packet number is less than or equal to `Largest Acked - Reordering Threshold`.
            threshold => {
                let largest_unacked = before.map_or(packet.pn, |largest| largest.max(packet.pn));
                let largest_acked = self.acks.largest_acked();
                let reported = largest_acked.and_then(|acked| acked.checked_sub(threshold));
                let unreported = reported.map_or(0, |reported| reported + 1);
                let missing = self.received.first_missing_from(unreported);
                packet.pn < unreported
                    || largest_unacked
                        .checked_sub(missing)
                        .is_some_and(|distance| distance >= threshold)
            }
        }
    }

    /// One past the largest number received: what truncated numbers are expanded near (RFC 9000 appendix A.3).
    pub(crate) fn next_expected(&self) -> u64 {
        self.received.largest().map_or(0, |largest| largest + 1)
    }

    /// Writes the acknowledgement that the space owes, if it owes one: PATH_ACK for the path ID of `wire`, ACK without
    /// one. `id`: the path that the space belongs to.
    pub(crate) fn write_ack(
        &mut self,
        w: &mut FrameWriter<'_>,
        now: Instant,
        wire: Option<PathId>,
        id: PathId,
        exponent: u8,
    ) {
        if !self.acks.pending() {
            return;
        }
        let Some(largest) = self.received.largest() else {
            return;
        };
        let delay = self.acks.delay(now).as_micros() as u64 >> exponent;
        let ecn = self.acks.ecn();
        // A PING may have to follow, where the amplification limit leaves room for a few bytes only.
        let room = w.remaining().saturating_sub(1);
        //= specs/rfc10069-draft.md#handling-ack-and-path-ack-in-0-rtt-and-1-rtt
        //# After the handshake concludes with support for the multipath extension, endpoints SHOULD
        //# use PATH_ACK frames instead of ACK frames, including for so far unacknowledged 0-RTT
        //# packets using path ID 0.
        let written = encode_ack(w.buf, wire, delay, self.received.descending(), ecn, room);
        if written.is_some() {
            self.acks.on_ack_sent(largest);
            w.record(SentFrame::Ack { path: id, largest });
        }
    }

    /// Bytes in flight.
    pub(crate) const fn bytes_in_flight(&self) -> u64 {
        self.sent.bytes_in_flight()
    }

    /// Ack-eliciting packets in flight.
    pub(crate) const fn ack_eliciting_in_flight(&self) -> usize {
        self.sent.ack_eliciting()
    }
}

/// One past the largest packet number (RFC 9000 section 12.3).
const END: u64 = 1 << 62;

/// Packets at the start of a space without a skip: handshakes and short transfers stay clean.
const FIRST_SKIP: u64 = 16;

/// Bounds of the mean distance between skips. It grows with the packet number; the upper bound keeps
/// a trap in every window of a fast path, or a peer that acknowledges ahead of what it receives
/// could blow up the congestion window between two of them.
const MIN_DISTANCE: u64 = 64;
const MAX_DISTANCE: u64 = 1 << 13;

/// Skipped numbers remembered. Older ones need not be kept: their neighbours are acknowledged or lost.
const MAX_REMEMBERED: usize = 64;

/// Gives out packet numbers and now and then leaves one out: who acknowledges it acknowledges what
/// was never sent (RFC 9000 section 21.4).
#[derive(Debug)]
pub(crate) struct PacketNumbers {
    next: u64,
    next_skip: u64,
    /// Ascending.
    skipped: VecDeque<u64>,
}

impl PacketNumbers {
    pub(crate) fn new(rng: &mut StdRng) -> Self {
        let mut numbers = Self {
            next: 0,
            next_skip: 0,
            skipped: VecDeque::new(),
        };
        numbers.plan_skip(rng);
        numbers
    }

    fn plan_skip(&mut self, rng: &mut StdRng) {
        let mean = self.next.clamp(MIN_DISTANCE, MAX_DISTANCE);
        self.next_skip = self.next + FIRST_SKIP + rng.random_range(0..2 * mean);
    }

    /// The next number, if there is one left.
    pub(crate) const fn next(&self) -> Option<u64> {
        if self.next < END {
            Some(self.next)
        } else {
            None
        }
    }

    /// Takes the next number.
    pub(crate) fn take(&mut self, rng: &mut StdRng) -> u64 {
        //= specs/rfc9000.txt#section-12.3
        //# A QUIC endpoint MUST NOT reuse a packet number within the same packet number space in
        //# one connection.
        //= specs/rfc9000.txt#section-12.3
        //# Subsequent packets sent in the same packet number space MUST increase the packet number
        //# by at least one.
        let pn = self.next;
        self.next += 1;
        if self.next == self.next_skip {
            if self.skipped.len() == MAX_REMEMBERED {
                self.skipped.pop_front();
            }
            self.skipped.push_back(self.next);
            self.next += 1;
            self.plan_skip(rng);
        }
        pn
    }

    /// Whether a packet with this number may exist, as far as the largest sent tells.
    pub(crate) const fn was_reached(&self, pn: u64) -> bool {
        pn < self.next
    }

    /// Whether the range has a number that was skipped.
    #[inline]
    pub(crate) fn has_skipped(&self, low: u64, high: u64) -> bool {
        // Most ACKs touch only what lies above the newest skip.
        let newest = self.skipped.back();
        newest.is_some_and(|&newest| newest >= low) && self.find_skipped(low, high)
    }

    #[inline(never)]
    fn find_skipped(&self, low: u64, high: u64) -> bool {
        let index = self.skipped.partition_point(|&skipped| skipped < low);
        self.skipped.get(index).is_some_and(|&skip| skip <= high)
    }

    /// The oldest skipped number that is remembered.
    pub(crate) fn oldest_skipped(&self) -> Option<u64> {
        self.skipped.front().copied()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rand::SeedableRng;

    use super::*;

    fn arrival(now: Instant, pn: u64) -> ReceivedPacket {
        ReceivedPacket {
            now,
            received: now,
            pn,
            ack_eliciting: true,
            ecn: None,
            policy: AckPolicy::new(Duration::from_millis(25)),
            immediate: false,
        }
    }

    //= specs/rfc10069-draft.md#handling-ack-and-path-ack-in-0-rtt-and-1-rtt
    //= type=test
    //# After the handshake concludes with support for the multipath extension, endpoints SHOULD use
    //# PATH_ACK frames instead of ACK frames, including for so far unacknowledged 0-RTT packets
    //# using path ID 0.
    #[test]
    fn acknowledgements_name_their_path_with_multipath() {
        let now = Instant::now();
        for (wire, start) in [
            (None, &[0x02, 5][..]),
            (Some(PathId::ZERO), &[0x3e, 0, 5]),
            (Some(PathId(3)), &[0x3e, 3, 5]),
        ] {
            let mut space = PacketSpace::new(&mut StdRng::seed_from_u64(1));
            space.on_received(&arrival(now, 5));
            let mut buf = Vec::new();
            let mut w = FrameWriter::new(&mut buf, 1200);
            space.write_ack(&mut w, now, wire, PathId(3), 0);
            assert!(buf.starts_with(start), "{buf:x?}");
        }
    }

    #[test]
    fn gaps_are_reported_once() {
        let now = Instant::now();
        let mut space = PacketSpace::new(&mut StdRng::seed_from_u64(1));
        assert!(space.on_received(&arrival(now, 0)));
        assert!(!space.acks.due(now));
        assert!(!space.on_received(&arrival(now, 0)), "duplicate");
        assert!(space.on_received(&arrival(now, 2)));
        assert!(space.acks.due(now), "1 is missing");
        space.acks.on_ack_sent(2);
        assert!(space.on_received(&arrival(now, 3)));
        assert!(!space.acks.due(now), "nothing is missing between 2 and 3");
        assert!(space.on_received(&arrival(now, 1)));
        assert!(space.acks.due(now), "reordered");
    }

    /// The packets after which an acknowledgement goes at once, with this Reordering Threshold alone.
    fn acknowledged_at(reordering_threshold: u64, numbers: &[u64]) -> Vec<u64> {
        let now = Instant::now();
        let mut space = PacketSpace::new(&mut StdRng::seed_from_u64(1));
        let mut at = Vec::new();
        for &pn in numbers {
            let mut packet = arrival(now, pn);
            packet.policy.ack_eliciting_threshold = u64::MAX;
            packet.policy.reordering_threshold = reordering_threshold;
            assert!(space.on_received(&packet));
            if space.acks.due(now) {
                let mut buf = Vec::new();
                let mut w = FrameWriter::new(&mut buf, 1200);
                space.write_ack(&mut w, now, None, PathId::ZERO, 0);
                at.push(pn);
            }
        }
        at
    }

    //= specs/quic-ack-frequency.md#out-of-order
    //= type=test
    //# An endpoint that receives an ACK_FREQUENCY frame with a non-zero Reordering
    //# Threshold value SHOULD send an immediate ACK whenever it receives an ack-eliciting,
    //# out-of order packet whose packet number is outside the reordering window of the peer,
    //# i.e. when
    //# * the difference between the smallest Unreported Missing packet and the
    //# Largest Unacked packet is greater than or equal to the Reordering
    //# Threshold value; or
    //# * the received packet number is less than or equal to `Largest Acked - Reordering Threshold`.
    //= specs/quic-ack-frequency.md#out-of-order
    //= type=test
    //# If the most recent ACK_FREQUENCY frame received from the peer has a Reordering
    //# Threshold value of 0, the endpoint SHOULD NOT send an immediate
    //# acknowledgment in response to packets received out of order, and instead
    //# rely on the peer's Ack-Eliciting Threshold and Requested Max Ack Delay
    //# for sending acknowledgments.
    #[test]
    fn reordering_is_reported_as_the_peer_asked() {
        // The examples of the draft.
        assert_eq!(
            acknowledged_at(3, &[0, 1, 3, 4, 5, 8, 9, 10]),
            [5, 9, 10],
            "a threshold of 3"
        );
        assert_eq!(
            acknowledged_at(5, &[0, 1, 3, 5, 6, 7, 8, 9]),
            [7, 9],
            "a threshold of 5"
        );
        assert_eq!(acknowledged_at(1, &[0, 1, 3, 4, 2, 5]), [3, 2]);
        assert_eq!(acknowledged_at(0, &[0, 1, 3, 4, 20, 2, 19]), []);
        // 2 is one that the sender has declared lost by the first acknowledgement.
        assert_eq!(acknowledged_at(3, &[0, 1, 3, 4, 5, 2]), [5, 2]);
        assert_eq!(acknowledged_at(3, &[7]), [7], "0 to 6 are missing");
        assert_eq!(acknowledged_at(u64::MAX, &[0, 9, 1_000_000]), []);
    }

    /// What no ACK frame has told of must not fall out of the memory.
    #[test]
    fn ranges_are_told_before_they_are_forgotten() {
        let numbers: Vec<u64> = (0..1000).map(|n| 2 * n).collect();
        let acknowledged = acknowledged_at(0, &numbers);
        assert!(
            acknowledged.len() > 1000 / crate::limits::MAX_ACK_RANGES,
            "{acknowledged:?}"
        );
    }

    #[test]
    fn acks_that_nobody_acknowledges_cost_constant_memory() {
        let now = Instant::now();
        let mut rng = StdRng::seed_from_u64(1);
        let mut space = PacketSpace::new(&mut rng);
        space.on_sent(sent::tests::packet(now), &mut rng);
        for _ in 0..100_000 {
            space.on_sent(sent::tests::ack_only(now), &mut rng);
        }
        assert!(!space.sent.has_excess());
        assert_eq!(space.sent.iter().count(), 1);
        assert_eq!(space.bytes_in_flight(), 1200);
        assert_eq!(space.ack_eliciting_in_flight(), 1);
    }
}

#[cfg(test)]
mod numbers_tests {
    use rand::SeedableRng;

    use super::*;

    #[test]
    fn skips_late_seldom_and_unpredictably() {
        let mut patterns = Vec::new();
        for seed in 0..50 {
            let mut rng = StdRng::seed_from_u64(seed);
            let mut numbers = PacketNumbers::new(&mut rng);
            let mut skips = Vec::new();
            let mut last = None;
            for _ in 0..200_000 {
                let expected = numbers.next();
                let pn = numbers.take(&mut rng);
                assert_eq!(expected, Some(pn));
                if let Some(last) = last {
                    assert!(pn > last && pn - last <= 2);
                    if pn - last == 2 {
                        skips.push(pn - 1);
                        assert!(numbers.has_skipped(pn - 1, pn - 1));
                        assert!(!numbers.has_skipped(pn, pn + 100));
                        assert!(numbers.has_skipped(0, pn));
                    }
                }
                last = Some(pn);
            }
            assert!(skips[0] >= FIRST_SKIP);
            assert!((10..200).contains(&skips.len()), "{}", skips.len());
            assert!(
                skips
                    .windows(2)
                    .all(|w| w[1] - w[0] <= FIRST_SKIP + 2 * MAX_DISTANCE + 1)
            );
            assert!(numbers.skipped.len() <= MAX_REMEMBERED);
            patterns.push(skips);
        }
        patterns.sort();
        patterns.dedup();
        assert_eq!(patterns.len(), 50);
    }

    #[test]
    fn ends_at_the_largest_number() {
        let mut rng = StdRng::seed_from_u64(1);
        let mut numbers = PacketNumbers::new(&mut rng);
        numbers.next = END - 1;
        assert_eq!(numbers.take(&mut rng), END - 1);
        assert_eq!(numbers.next(), None);
        assert!(numbers.was_reached(END - 1) && !numbers.was_reached(END));
    }
}
