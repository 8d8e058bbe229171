//! Which packets of a space were received, and when they must be acknowledged (RFC 9000 section 13.2).

use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

use mpquic_sched_core::EcnCodepoint;
use mpquic_wire::frame::EcnCounts;

use crate::limits::MAX_ACK_RANGES;
use crate::recovery::later;

/// Received packet numbers as at most [`MAX_ACK_RANGES`] ranges. Numbers below the ranges that were
/// given up count as received, so that no packet is ever processed twice (RFC 9000 section 13.2.3).
#[derive(Debug, Default)]
pub(crate) struct ReceivedPackets {
    /// Ascending, neither overlapping nor adjacent: first and last number.
    ranges: Vec<(u64, u64)>,
    /// Numbers below this one count as duplicates.
    floor: u64,
}

impl ReceivedPackets {
    /// Whether the packet was received before, or may have been.
    pub(crate) fn is_duplicate(&self, pn: u64) -> bool {
        // In order, it is larger than all before it.
        if self.largest().is_some_and(|largest| pn > largest) {
            return false;
        }
        pn < self.floor
            || self.is_beyond_memory(pn)
            || self
                .search(pn)
                .is_some_and(|i| (self.ranges[i].0..=self.ranges[i].1).contains(&pn))
    }

    /// Whether a number lies below all that is remembered while there is no room to remember it: it might be processed
    /// again and again (RFC 9000 section 12.3).
    fn is_beyond_memory(&self, pn: u64) -> bool {
        self.ranges.len() == MAX_ACK_RANGES
            && self
                .ranges
                .first()
                .is_some_and(|&(first, _)| pn + 1 < first)
    }

    /// The index of the last range that starts at or before `pn`.
    fn search(&self, pn: u64) -> Option<usize> {
        // In order, the newest range is the one.
        let newest = self.ranges.len().checked_sub(1)?;
        if self.ranges[newest].0 <= pn {
            return Some(newest);
        }
        self.ranges
            .partition_point(|&(start, _)| start <= pn)
            .checked_sub(1)
    }

    /// How many ranges are remembered.
    pub(crate) fn ranges(&self) -> usize {
        self.ranges.len()
    }

    /// Takes in the number that follows the largest, as nearly all do; false, with nothing changed, if this is another.
    #[inline]
    pub(crate) fn extend(&mut self, pn: u64) -> bool {
        match self.ranges.last_mut() {
            Some((_, largest)) if pn.checked_sub(1) == Some(*largest) => {
                *largest = pn;
                true
            }
            _ => false,
        }
    }

    /// Takes in a number; false if it is a duplicate.
    pub(crate) fn insert(&mut self, pn: u64) -> bool {
        if self.extend(pn) {
            return true;
        }
        if pn < self.floor {
            return false;
        }
        let before = self.search(pn);
        if let Some(i) = before {
            let (_, end) = self.ranges[i];
            if pn <= end {
                return false;
            }
            if pn - 1 == end {
                self.ranges[i].1 = pn;
                if self.ranges.get(i + 1).is_some_and(|next| next.0 - 1 == pn) {
                    self.ranges[i].1 = self.ranges[i + 1].1;
                    self.ranges.remove(i + 1);
                }
                return true;
            }
        }
        let after = before.map_or(0, |i| i + 1);
        match self.ranges.get_mut(after) {
            Some(next) if next.0 - 1 == pn => next.0 = pn,
            _ => {
                if self.ranges.len() < MAX_ACK_RANGES {
                    self.ranges.insert(after, (pn, pn));
                } else if after > 0 {
                    // The oldest range goes; what lay in or below it cannot be told from new.
                    let (_, end) = self.ranges.remove(0);
                    self.floor = self.floor.max(end + 1);
                    self.ranges.insert(after - 1, (pn, pn));
                } else {
                    //= specs/rfc9000.txt#section-13.2.3
                    //# A receiver MUST retain an ACK Range unless it can ensure that it will not
                    //# subsequently accept packets with numbers in that range.
                    // Older than all that is remembered, and no room: as if it had been lost.
                    return false;
                }
            }
        }
        true
    }

    /// The largest number received. It stays, whatever is discarded (RFC 9000 section 13.2.3).
    //= specs/rfc9000.txt#section-13.2.3
    //# Receivers can discard all ACK Ranges, but they MUST retain the largest packet number that
    //# has been successfully processed, as that is used to recover packet numbers from subsequent
    //# packets; see Section 17.1.
    pub(crate) fn largest(&self) -> Option<u64> {
        self.ranges.last().map(|&(_, end)| end)
    }

    /// Whether a number between the two, both excluded, is missing.
    pub(crate) fn missing_between(&self, low: u64, high: u64) -> bool {
        self.search(high)
            .is_none_or(|i| self.ranges[i].0 > low.saturating_add(1).max(self.floor))
    }

    /// Whether this number was received, and neither of its neighbours was.
    pub(crate) fn is_alone(&self, pn: u64) -> bool {
        self.search(pn).is_some_and(|i| self.ranges[i] == (pn, pn))
    }

    /// The smallest number that is not below `pn` and was not received.
    pub(crate) fn first_missing_from(&self, pn: u64) -> u64 {
        let pn = pn.max(self.floor);
        match self.search(pn) {
            Some(i) if self.ranges[i].1 >= pn => self.ranges[i].1.saturating_add(1),
            _ => pn,
        }
    }

    /// The ranges in descending order, as an ACK frame lists them.
    //= specs/rfc9000.txt#section-13.2.3
    //# A receiver SHOULD include an ACK Range containing the largest received packet number in
    //# every ACK frame.
    pub(crate) fn descending(&self) -> impl Iterator<Item = RangeInclusive<u64>> + '_ {
        self.ranges.iter().rev().map(|&(start, end)| start..=end)
    }

    /// Number of ranges.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.ranges.len()
    }

    /// Numbers below `pn` need no acknowledging any more (RFC 9000 section 13.2.4). The largest
    /// number stays in any case: every ACK frame names it.
    //= specs/rfc9000.txt#section-13.2.3
    //# After receiving acknowledgments for an ACK frame, the receiver SHOULD stop tracking those
    //# acknowledged ACK Ranges.
    pub(crate) fn discard_below(&mut self, pn: u64) {
        let Some(largest) = self.largest() else {
            return;
        };
        let floor = pn.min(largest);
        if let Some(first) = self.ranges.first()
            && first.1 < floor
        {
            self.pop_below(floor);
        }
        if let Some(first) = self.ranges.first_mut() {
            first.0 = first.0.max(floor);
        }
        self.floor = self.floor.max(floor);
    }

    /// Forgets the ranges that end below `floor`.
    #[inline(never)]
    fn pop_below(&mut self, floor: u64) {
        let gone = self.ranges.partition_point(|&(_, end)| end < floor);
        self.ranges.drain(..gone);
    }
}

/// Ranges of received packets that no ACK frame has told of, after which one goes whatever the peer asked for.
const MAX_UNREPORTED_RANGES: usize = MAX_ACK_RANGES / 4;

/// When to acknowledge: as RFC 9000 section 13.2 has it, until the peer asks for something else.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct AckPolicy {
    /// Our max_ack_delay, less what our timers are late.
    pub(crate) max_ack_delay: Duration,
    /// Ack-eliciting packets that may wait for a common ACK.
    pub(crate) ack_eliciting_threshold: u64,
    /// How far packets may be out of order before an ACK goes at once; 0: as far as they like.
    pub(crate) reordering_threshold: u64,
}

impl AckPolicy {
    /// What holds before the peer asks for something else.
    pub(crate) const fn new(max_ack_delay: Duration) -> Self {
        Self {
            max_ack_delay,
            //= specs/rfc9000.txt#section-13.2.2
            //# A receiver SHOULD send an ACK frame after receiving at least two ack- eliciting
            //# packets.
            ack_eliciting_threshold: 1,
            reordering_threshold: 1,
        }
    }

    /// Whether a packet with a CE mark is acknowledged at once; `after_mark`: so was the one before.
    const fn hastens_mark(&self, after_mark: bool) -> bool {
        //= specs/quic-ack-frequency.md#congestion
        //# If the Ack-Eliciting Threshold is larger than 1, an endpoint SHOULD send
        //# an immediate acknowledgement when a packet marked with the ECN Congestion
        //# Experienced (CE) {{?RFC3168}} codepoint in the IP header is received and
        //# the previously received packet was not marked CE.
        //= specs/rfc9000.txt#section-13.2.1
        //# Similarly, packets marked with the ECN Congestion Experienced (CE) codepoint in the IP
        //# header SHOULD be acknowledged immediately, to reduce the peer's response time to
        //# congestion events.
        self.ack_eliciting_threshold <= 1 || !after_mark
    }
}

/// What a received packet was.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ReceivedPacket {
    pub(crate) now: Instant,
    /// When it came: before `now` if it had to wait for keys.
    pub(crate) received: Instant,
    pub(crate) pn: u64,
    pub(crate) ack_eliciting: bool,
    /// The mark of its IP header.
    pub(crate) ecn: Option<EcnCodepoint>,
    pub(crate) policy: AckPolicy,
    /// Whether it is acknowledged at once: in Initial and Handshake packets, or because it asks for that.
    pub(crate) immediate: bool,
}

/// What a space owes its peer: what an ACK frame that leaves changes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Owed {
    unacked: u64,
    ranges: usize,
    immediate: bool,
    timer: Option<Instant>,
    largest_acked: Option<u64>,
}

/// Decides when a space owes an ACK.
#[derive(Debug, Clone, Default)]
pub(crate) struct AckScheduler {
    /// Ack-eliciting packets since the last ACK was sent.
    unacked: u64,
    /// Ranges of received packets that came into being since then.
    ranges: usize,
    immediate: bool,
    timer: Option<Instant>,
    largest_eliciting: Option<u64>,
    /// The largest number that an ACK frame named.
    largest_acked: Option<u64>,
    /// Whether the packet before had a CE mark.
    after_mark: bool,
    /// The largest packet and when it came: for the ACK Delay field.
    largest: Option<(u64, Instant)>,
    ecn: EcnCounts,
}

impl AckScheduler {
    /// The largest ack-eliciting number so far, for the test whether numbers are missing after it.
    pub(crate) const fn largest_eliciting(&self) -> Option<u64> {
        self.largest_eliciting
    }

    /// The Largest Acknowledged of the ACK frames sent.
    pub(crate) const fn largest_acked(&self) -> Option<u64> {
        self.largest_acked
    }

    /// A packet came that is no duplicate. `out_of_order`: in a way of which its sender should learn at once.
    /// `new_range`: it does not continue the numbers received.
    pub(crate) fn on_received(
        &mut self,
        packet: &ReceivedPacket,
        out_of_order: bool,
        new_range: bool,
    ) {
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
            //= specs/rfc9000.txt#section-13.2.5
            //# However, endpoints SHOULD include buffering delays caused by unavailability of
            //# decryption keys, since these delays can be large and are likely to be non-repeating.
            self.largest = Some((packet.pn, packet.received));
        }
        let marked = packet.ecn == Some(EcnCodepoint::Ce);
        let after_mark = std::mem::replace(&mut self.after_mark, marked);
        self.ranges += usize::from(new_range);
        //= specs/rfc9000.txt#section-13.2.1
        //# An endpoint MUST NOT send a non-ack-eliciting packet in response to a non-ack-eliciting
        //# packet, even if there are packet gaps that precede the received packet.
        if !packet.ack_eliciting {
            return;
        }
        self.unacked += 1;
        self.largest_eliciting = self.largest_eliciting.max(Some(packet.pn));
        //= specs/quic-ack-frequency.md#ack-frequency-frame
        //# A receiving endpoint SHOULD send at least one ACK frame after receiving more
        //# than this many ack-eliciting packets.
        //= specs/quic-ack-frequency.md#immediate-ack-frame
        //# An endpoint SHOULD send a packet containing an ACK frame
        //# immediately upon receiving an IMMEDIATE_ACK frame.
        if packet.immediate
            || out_of_order
            || (marked && packet.policy.hastens_mark(after_mark))
            || self.unacked > packet.policy.ack_eliciting_threshold
            || self.ranges >= MAX_UNREPORTED_RANGES
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
            self.timer = Some(later(packet.received, packet.policy.max_ack_delay));
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

    /// An ACK frame left, of which the largest number was `largest`.
    //= specs/rfc9000.txt#section-13.2.1
    //# Since packets containing only ACK frames are not congestion controlled, an endpoint MUST NOT
    //# send more than one such packet in response to receiving an ack-eliciting packet.
    pub(crate) const fn on_ack_sent(&mut self, largest: u64) {
        self.largest_acked = Some(largest);
        self.unacked = 0;
        self.ranges = 0;
        self.immediate = false;
        self.timer = None;
    }

    /// What is owed, to be [restored](Self::restore) if the ACK frame does not leave after all.
    pub(crate) const fn owed(&self) -> Owed {
        Owed {
            unacked: self.unacked,
            ranges: self.ranges,
            immediate: self.immediate,
            timer: self.timer,
            largest_acked: self.largest_acked,
        }
    }

    /// The ACK frame that was written since did not leave.
    pub(crate) const fn restore(&mut self, owed: &Owed) {
        self.unacked = owed.unacked;
        self.ranges = owed.ranges;
        self.immediate = owed.immediate;
        self.timer = owed.timer;
        self.largest_acked = owed.largest_acked;
    }

    /// The next packet carries an ACK, even if no packet that came asked for one.
    pub(crate) fn add_to_next(&mut self) {
        self.unacked = self.unacked.max(1);
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
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn ranges(received: &ReceivedPackets) -> Vec<RangeInclusive<u64>> {
        received.descending().collect()
    }

    #[test]
    fn joins_neighbours() {
        let mut r = ReceivedPackets::default();
        for pn in [0, 1, 4, 2, 6, 5] {
            assert!(r.insert(pn), "{pn}");
        }
        assert_eq!(ranges(&r), [4..=6, 0..=2]);
        assert!(!r.insert(1));
        assert!(r.missing_between(2, 4));
        assert!(!r.missing_between(4, 6));
        assert!(!r.missing_between(0, 2));
        assert!(r.insert(3));
        assert_eq!(ranges(&r), [0..=6]);
        assert_eq!(r.largest(), Some(6));
    }

    #[test]
    fn alternate_losses_keep_the_ranges_capped() {
        let mut r = ReceivedPackets::default();
        for pn in (0..1_000_000).step_by(2) {
            assert!(r.insert(pn));
            assert!(r.len() <= MAX_ACK_RANGES);
        }
        assert!(!r.insert(1), "below what is remembered");
        assert!(r.is_duplicate(1));
        assert!(r.insert(999_997));
    }

    //= specs/rfc9000.txt#section-13.2.3
    //= type=test
    //# Receivers can discard all ACK Ranges, but they MUST retain the largest packet number that
    //# has been successfully processed, as that is used to recover packet numbers from subsequent
    //# packets; see Section 17.1.
    //= specs/rfc9000.txt#section-13.2.3
    //= type=test
    //# After receiving acknowledgments for an ACK frame, the receiver SHOULD stop tracking those
    //# acknowledged ACK Ranges.
    #[test]
    fn the_largest_survives_discarding() {
        let mut r = ReceivedPackets::default();
        (0..10).for_each(|pn| assert!(r.insert(pn)));
        r.discard_below(100);
        assert_eq!(ranges(&r), [9..=9]);
        assert!(!r.insert(3));
        assert!(r.insert(10));
        assert_eq!(ranges(&r), [9..=10]);
        assert!(
            !r.missing_between(3, 10),
            "what lies below the floor is settled"
        );
    }

    #[test]
    fn extreme_numbers() {
        let mut r = ReceivedPackets::default();
        assert!(r.insert(u64::MAX));
        assert!(r.insert(0));
        assert!(!r.insert(u64::MAX));
        r.discard_below(u64::MAX);
        assert_eq!(r.largest(), Some(u64::MAX));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]
        #[test]
        fn behaves_like_a_set(ops in prop::collection::vec((0u64..300, 0u8..100), 1..400)) {
            let mut r = ReceivedPackets::default();
            let mut model = BTreeSet::new();
            for (pn, op) in ops {
                if op == 0 {
                    r.discard_below(pn);
                    if let Some(&largest) = model.last() {
                        // Everything below counts as received.
                        model.extend(0..pn.min(largest));
                    }
                } else {
                    let floor = r.floor;
                    let known = model.contains(&pn);
                    let full = r.len() == MAX_ACK_RANGES;
                    // With no room left a number below all that is remembered counts as received;
                    // the neighbour of the lowest range still joins it.
                    let lowest = r.descending().last().map_or(0, |range| *range.start());
                    let forgotten = pn < floor || (full && pn + 1 < lowest);
                    prop_assert_eq!(r.is_duplicate(pn), known || forgotten);
                    let fresh = r.insert(pn);
                    prop_assert_eq!(fresh, !(known || forgotten));
                    if fresh {
                        model.insert(pn);
                    }
                    model.extend(floor..r.floor);
                }
                let missing = (pn..).find(|pn| *pn >= r.floor && !model.contains(pn));
                prop_assert_eq!(Some(r.first_missing_from(pn)), missing);
                prop_assert!(r.len() <= MAX_ACK_RANGES);
                prop_assert_eq!(r.largest(), model.last().copied());
                let listed: BTreeSet<u64> = r.descending().flatten().collect();
                prop_assert_eq!(listed, model.range(r.floor.min(300)..).copied().collect::<BTreeSet<_>>());
                let list = ranges(&r);
                prop_assert!(list.windows(2).all(|w| *w[1].end() + 1 < *w[0].start()));
            }
        }
    }
}

#[cfg(test)]
mod received_tests {
    use super::*;

    const MAX_ACK_DELAY: Duration = Duration::from_millis(25);

    fn packet(now: Instant, pn: u64) -> ReceivedPacket {
        ReceivedPacket {
            now,
            received: now,
            pn,
            ack_eliciting: true,
            ecn: None,
            policy: AckPolicy::new(MAX_ACK_DELAY),
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
    //= specs/rfc9000.txt#section-13.2.1
    //= type=test
    //# Since packets containing only ACK frames are not congestion controlled, an endpoint MUST NOT
    //# send more than one such packet in response to receiving an ack-eliciting packet.
    fn every_second_packet_or_the_timer() {
        let now = Instant::now();
        let mut acks = AckScheduler::default();
        acks.on_received(&packet(now, 0), false, false);
        assert!(!acks.due(now) && acks.pending());
        assert_eq!(acks.timer(), Some(now + MAX_ACK_DELAY));
        assert!(acks.due(now + MAX_ACK_DELAY));
        acks.on_received(&packet(now + Duration::from_millis(3), 1), false, false);
        assert!(acks.due(now));
        assert_eq!(acks.timer(), None);
        assert_eq!(
            acks.delay(now + Duration::from_millis(5)),
            Duration::from_millis(2)
        );
        acks.on_ack_sent(5);
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
    fn at_once_for_a_gap_a_mark_and_the_handshake() {
        let now = Instant::now();
        let mut acks = AckScheduler::default();
        acks.on_received(&packet(now, 5), true, false);
        assert!(acks.due(now), "out of order");
        acks.on_ack_sent(5);
        acks.on_received(
            &ReceivedPacket {
                ecn: Some(EcnCodepoint::Ce),
                ..packet(now, 6)
            },
            false,
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
        acks.on_ack_sent(5);
        acks.on_received(
            &ReceivedPacket {
                immediate: true,
                ..packet(now, 7)
            },
            false,
            false,
        );
        assert!(acks.due(now), "Initial or Handshake");
    }

    //= specs/quic-ack-frequency.md#ack-frequency-frame
    //= type=test
    //# A receiving endpoint SHOULD send at least one ACK frame after receiving more
    //# than this many ack-eliciting packets.
    #[test]
    fn as_many_packets_as_the_peer_asked_for() {
        let now = Instant::now();
        for threshold in [0, 1, 2, 10, 100] {
            let mut acks = AckScheduler::default();
            for pn in 0..=threshold {
                assert!(!acks.due(now), "{pn} packets, {threshold} may wait");
                let mut packet = packet(now, pn);
                packet.policy.ack_eliciting_threshold = threshold;
                acks.on_received(&packet, false, false);
            }
            assert!(acks.due(now), "{threshold} may wait");
        }
    }

    //= specs/quic-ack-frequency.md#congestion
    //= type=test
    //# If the Ack-Eliciting Threshold is larger than 1, an endpoint SHOULD send
    //# an immediate acknowledgement when a packet marked with the ECN Congestion
    //# Experienced (CE) {{?RFC3168}} codepoint in the IP header is received and
    //# the previously received packet was not marked CE.
    #[test]
    fn the_first_of_marked_packets_is_acknowledged_at_once() {
        let now = Instant::now();
        let marks = [false, true, true, false, true];
        for (threshold, expected) in [
            (1, [false, true, true, false, true]),
            (9, [false, true, false, false, true]),
        ] {
            let mut acks = AckScheduler::default();
            for (pn, (mark, due)) in marks.into_iter().zip(expected).enumerate() {
                let mut packet = packet(now, pn as u64);
                packet.policy.ack_eliciting_threshold = threshold;
                packet.ecn = mark.then_some(EcnCodepoint::Ce);
                acks.on_received(&packet, false, false);
                assert_eq!(acks.due(now), due, "packet {pn}, threshold {threshold}");
                if due || threshold == 1 {
                    acks.on_ack_sent(pn as u64);
                }
            }
        }
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
            false,
        );
        assert!(!acks.pending() && !acks.due(now) && acks.timer().is_none());
        assert_eq!(acks.ecn(), None);
    }
}
