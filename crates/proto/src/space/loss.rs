//! What acknowledgements and time say about sent packets (RFC 9002 section 6.1).

use std::collections::VecDeque;
use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

use mpquic_wire::frame::EcnCounts;

use super::{PacketSpace, SentPacket};
use crate::TransportError;
use crate::recovery::{EcnReport, PACKET_THRESHOLD, RttEstimator, later};

/// Lost packets remembered per space, to notice that the loss was spurious.
const MAX_REMEMBERED: usize = 256;

/// What an ACK frame told, besides the packets that it newly acknowledged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AckOutcome {
    /// The RTT sample that it gave; the estimator has it already (RFC 9002 section 5.1).
    pub(crate) rtt_sample: Option<Duration>,
    /// Whether that says how long the path is ([`RttEstimator::update_over_other`]).
    pub(crate) own_rtt: bool,
    /// Whether an ack-eliciting packet was newly acknowledged.
    pub(crate) ack_eliciting: bool,
    /// When the newest of the newly acknowledged packets was sent.
    pub(crate) newest_sent: Option<Instant>,
    /// For the path's `EcnValidator`.
    pub(crate) ecn: EcnReport,
    /// Packets that had been declared lost.
    pub(crate) spurious: u32,
    /// Their bytes.
    pub(crate) spurious_bytes: u64,
    /// When the newest of them was sent.
    pub(crate) spurious_sent: Option<Instant>,
}

/// What one look for lost packets found, besides the packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct LossOutcome {
    /// Bytes of lost packets, MTU probes not counted.
    pub(crate) bytes: u64,
    /// When the newest of these was sent: if set, there is a congestion event (RFC 9002 section 7.3.2).
    pub(crate) newest_sent: Option<Instant>,
    /// The size of the largest of these, for black hole detection.
    pub(crate) largest_size: u16,
    /// Persistent congestion (RFC 9002 section 7.6).
    pub(crate) persistent: bool,
}

#[derive(Debug, Clone, Copy)]
struct LostNumber {
    pn: u64,
    sent: Instant,
    size: u16,
}

/// Packet numbers declared lost lately, ascending.
#[derive(Debug, Default)]
pub(crate) struct LostNumbers(VecDeque<LostNumber>);

impl LostNumbers {
    fn push(&mut self, pn: u64, packet: &SentPacket) {
        if self.0.len() == MAX_REMEMBERED {
            self.0.pop_front();
        }
        self.0.push_back(LostNumber {
            pn,
            sent: packet.time_sent,
            size: packet.size,
        });
    }

    /// Takes out those within the range and reports them to `outcome`.
    fn take_range(&mut self, low: u64, high: u64, outcome: &mut AckOutcome) {
        if self.0.back().is_none_or(|newest| newest.pn < low) {
            return;
        }
        self.take_spurious(low, high, outcome);
    }

    #[cold]
    fn take_spurious(&mut self, low: u64, high: u64, outcome: &mut AckOutcome) {
        let from = self.0.partition_point(|lost| lost.pn < low);
        let to = self.0.partition_point(|lost| lost.pn <= high);
        for lost in self.0.drain(from..to) {
            outcome.spurious += 1;
            outcome.spurious_bytes += u64::from(lost.size);
            outcome.spurious_sent = outcome.spurious_sent.max(Some(lost.sent));
        }
    }
}

impl PacketSpace {
    /// Takes in an ACK frame of this space: `blocks` descending and disjoint, the first one ending at
    /// `largest`. Once the handshake is confirmed, `ack_delay` is limited to the peer's max_ack_delay. `over_other`: the frame
    /// came on another path.
    ///
    /// Newly acknowledged packets go onto `out` in ascending order. [`detect_lost`](Self::detect_lost)
    /// must follow.
    ///
    /// # Errors
    ///
    /// PROTOCOL_VIOLATION for a packet that was never sent (RFC 9000 sections 13.1 and 21.4);
    /// nothing has changed then.
    pub(crate) fn on_ack(
        &mut self,
        largest: u64,
        blocks: impl Iterator<Item = RangeInclusive<u64>>,
        ecn: Option<EcnCounts>,
        ack_delay: Duration,
        over_other: bool,
        now: Instant,
        rtt: &mut RttEstimator,
        out: &mut Vec<(u64, SentPacket)>,
    ) -> Result<AckOutcome, TransportError> {
        if !self.numbers.was_reached(largest) {
            return Err(never_sent());
        }
        let mut blocks = blocks;
        // Nearly always the only one; without any, a range with nothing in it.
        let (low, high) = blocks.next().map_or((1, 0), RangeInclusive::into_inner);
        if high > largest || self.numbers.has_skipped(low, high) {
            return Err(skipped());
        }
        self.blocks.clear();
        if let Some(second) = blocks.next() {
            self.gather(std::iter::once(second).chain(blocks))?;
        }

        let mut outcome = AckOutcome {
            rtt_sample: None,
            own_rtt: true,
            ack_eliciting: false,
            newest_sent: None,
            ecn: EcnReport::Silent,
            spurious: 0,
            spurious_bytes: 0,
            spurious_sent: None,
        };
        let start = out.len();
        let mut apart = !self.blocks.is_empty() && self.take_further(&mut outcome, out);
        apart |= self.take_range(low, high, &mut outcome, out);
        let acked = &mut out[start..];
        // Packets with ACKs only come apart from the others: bring them to their places.
        if apart {
            sort(acked);
        }

        let (mut marked, mut first_marked) = (0, u64::MAX);
        for (pn, packet) in acked.iter() {
            outcome.ack_eliciting |= packet.ack_eliciting;
            if packet.ecn_marked {
                marked += 1;
                first_marked = first_marked.min(*pn);
            }
        }
        if let Some((newest, packet)) = acked.last() {
            outcome.newest_sent = Some(packet.time_sent);
            //= specs/rfc9002.txt#section-5.1
            //# To avoid generating multiple RTT samples for a single packet, an ACK frame SHOULD
            //# NOT be used to update RTT estimates if it does not newly acknowledge the largest
            //# acknowledged packet.
            //= specs/rfc9002.txt#section-5.1
            //# An RTT sample MUST NOT be generated on receiving an ACK frame that does not newly
            //# acknowledge at least one ack-eliciting packet.
            if *newest == largest && outcome.ack_eliciting {
                let sample = now.saturating_duration_since(packet.time_sent);
                if over_other {
                    outcome.own_rtt = rtt.update_over_other(now, sample, ack_delay);
                } else {
                    rtt.update(now, sample, ack_delay);
                }
                outcome.rtt_sample = Some(sample);
            }
        }
        //= specs/rfc9000.txt#section-13.4.2.1
        //# An endpoint MUST NOT fail ECN validation as a result of processing an ACK frame that
        //# does not increase the largest acknowledged packet number.
        if self.largest_acked.is_none_or(|before| largest > before) {
            self.largest_acked = Some(largest);
            outcome.ecn = self.ecn.on_ack(marked, first_marked, ecn);
        }
        Ok(outcome)
    }

    /// Takes the ranges of an ACK frame below the first to [`blocks`](Self::blocks).
    #[inline(never)]
    fn gather(
        &mut self,
        blocks: impl Iterator<Item = RangeInclusive<u64>>,
    ) -> Result<(), TransportError> {
        // Below this number, nothing is left to learn. It bounds the work for a frame that lists
        // again what was settled before.
        let lowest_lost = self.lost.0.front().map(|lost| lost.pn);
        let lowest = [
            self.sent.lowest(),
            lowest_lost,
            self.numbers.oldest_skipped(),
        ];
        let lowest = lowest.into_iter().flatten().min().unwrap_or(u64::MAX);
        for block in blocks {
            let (low, high) = block.into_inner();
            if high < lowest {
                break;
            }
            if self.numbers.has_skipped(low, high) {
                return Err(skipped());
            }
            self.blocks.push((low, high));
        }
        Ok(())
    }

    /// The packets of [`blocks`](Self::blocks) were acknowledged. As [`take_range`](Self::take_range).
    #[inline(never)]
    fn take_further(&mut self, outcome: &mut AckOutcome, out: &mut Vec<(u64, SentPacket)>) -> bool {
        let mut apart = false;
        for i in (0..self.blocks.len()).rev() {
            let (low, high) = self.blocks[i];
            apart |= self.take_range(low, high, outcome, out);
        }
        apart
    }

    /// Packets with these numbers were acknowledged: those newly so go onto `out`. Whether they are not in ascending order.
    #[inline(never)]
    fn take_range(
        &mut self,
        low: u64,
        high: u64,
        outcome: &mut AckOutcome,
        out: &mut Vec<(u64, SentPacket)>,
    ) -> bool {
        self.lost.take_range(low, high, outcome);
        self.sent.take_range(low, high, out)
    }

    /// Takes lost packets out, onto `out` in ascending order, and sets
    /// [`loss_time`](Self::loss_time): RFC 9002 appendix A.10. Called after each ACK and when
    /// `loss_time` has come. `max_ack_delay` is the peer's, whatever the space (section 7.6.1).
    ///
    /// Send times rise with packet numbers, so the lost are always the oldest: each packet is looked
    /// at once when it is settled, however many are outstanding.
    pub(crate) fn detect_lost(
        &mut self,
        now: Instant,
        rtt: &RttEstimator,
        max_ack_delay: Duration,
        out: &mut Vec<(u64, SentPacket)>,
    ) -> LossOutcome {
        self.loss_time = None;
        let mut outcome = LossOutcome::default();
        let Some(largest_acked) = self.largest_acked else {
            return outcome;
        };
        loop {
            if let Some(acked) = self.sent.forget_acked() {
                self.sent.forget_other_below(acked);
                self.persistent.on_acked();
            }
            // Nearly always, nothing is outstanding before what was acknowledged.
            let oldest = self.sent.first().map(|(pn, _)| pn);
            if oldest.is_none_or(|pn| pn > largest_acked)
                || !self.lose_oldest(now, rtt, max_ack_delay, &mut outcome, out)
            {
                break;
            }
        }
        if self.sent.has_other() {
            self.forget_other(largest_acked);
        }
        outcome
    }

    /// Forgets packets with ACKs only, whose loss concerns nobody.
    #[inline(never)]
    fn forget_other(&mut self, largest_acked: u64) {
        let settled = self.sent.first().map_or(u64::MAX, |(pn, _)| pn);
        let settled = settled.min((largest_acked + 1).saturating_sub(PACKET_THRESHOLD));
        if self.sent.forget_other_below(settled) {
            self.persistent.on_acked();
        }
    }

    /// Declares all that is outstanding lost, onto `out` in ascending order: the path was abandoned.
    /// Acknowledgements that still come are taken for spurious losses.
    pub(crate) fn drain_all(&mut self, out: &mut Vec<(u64, SentPacket)>) {
        while let Some((pn, packet)) = self.sent.pop_oldest() {
            if let Some(packet) = packet {
                self.lost.push(pn, &packet);
                out.push((pn, packet));
            }
        }
        self.sent.clear();
        self.loss_time = None;
    }

    /// The path has other addresses from here on. Packets with numbers from `from` on went to those before.
    pub(crate) fn on_new_addresses(&mut self, from: u64) {
        //= specs/rfc9000.txt#section-9.4
        //# Packets sent on the old path MUST NOT contribute to congestion control or RTT estimation
        //# for the new path.
        self.elsewhere = from..self.numbers.next().unwrap_or(u64::MAX);
        self.persistent.on_acked();
    }

    /// One past the last packet that went to the addresses before these.
    pub(crate) fn end_of_elsewhere(&self) -> u64 {
        self.elsewhere.end
    }

    /// Whether the packet with this number went to addresses that the path does not use, or not any more.
    pub(crate) fn left_elsewhere(&self, pn: u64, packet: &SentPacket) -> bool {
        packet.elsewhere || self.elsewhere.contains(&pn)
    }

    /// Declares lost, onto `out` in ascending order, what went to the addresses before these and is not acknowledged.
    /// Acknowledgements that still come are news of nothing.
    pub(crate) fn drain_elsewhere(&mut self, out: &mut Vec<(u64, SentPacket)>) {
        while let Some((pn, _)) = self.sent.first()
            && self.elsewhere.contains(&pn)
        {
            while let Some((popped, packet)) = self.sent.pop_oldest() {
                out.extend(packet.map(|packet| (popped, packet)));
                if popped >= pn {
                    break;
                }
            }
        }
        self.lost = LostNumbers::default();
        self.loss_time = None;
    }

    /// Takes the oldest packet out, before which one was acknowledged, if it is lost; or else sets the time when it will be.
    #[inline(never)]
    fn lose_oldest(
        &mut self,
        now: Instant,
        rtt: &RttEstimator,
        max_ack_delay: Duration,
        outcome: &mut LossOutcome,
        out: &mut Vec<(u64, SentPacket)>,
    ) -> bool {
        let (Some((pn, packet)), Some(largest_acked)) = (self.sent.first(), self.largest_acked)
        else {
            return false;
        };
        //= specs/rfc9002.txt#section-6.1.2
        //# Once a later packet within the same packet number space has been acknowledged,
        //# an endpoint SHOULD declare an earlier packet lost if it was sent a threshold
        //# amount of time in the past.
        let overdue = later(packet.time_sent, rtt.loss_delay(max_ack_delay));
        if largest_acked - pn < PACKET_THRESHOLD && overdue > now {
            //= specs/rfc9002.txt#section-6.1.2
            //# If packets sent prior to the largest acknowledged packet cannot yet be
            //# declared lost, then a timer SHOULD be set for the remaining time.
            self.loss_time = Some(overdue);
            return false;
        }
        let Some((_, Some(packet))) = self.sent.pop_oldest() else {
            return false;
        };
        if self.sent.forget_other_below(pn) {
            self.persistent.on_acked();
        }
        self.lost.push(pn, &packet);
        //= specs/rfc9002.txt#section-7.4
        //# Endpoints MUST NOT ignore the loss of packets that were sent after the earliest
        //# acknowledged packet in a given packet number space.
        //= specs/rfc9000.txt#section-14.4
        //# Loss of a QUIC packet that is carried in a PMTU probe is therefore not a reliable
        //# indication of congestion and SHOULD NOT trigger a congestion control reaction; see Item
        //# 7 in Section 3 of [DPLPMTUD].
        //= specs/rfc8899.txt#section-3
        //# Loss of a probe packet SHOULD NOT be treated as an indication of congestion and SHOULD
        //# NOT trigger a congestion control reaction [RFC4821] because this could result in
        //# unnecessary reduction of the sending rate.
        if !packet.mtu_probe && !self.left_elsewhere(pn, &packet) {
            outcome.bytes += u64::from(packet.size);
            outcome.newest_sent = outcome.newest_sent.max(Some(packet.time_sent));
            outcome.largest_size = outcome.largest_size.max(packet.size);
            //= specs/rfc9002.txt#section-7.6.2
            //# These two packets MUST be ack-eliciting, since a receiver is required to acknowledge
            //# only ack-eliciting packets within its maximum acknowledgment delay; see Section 13.2
            //# of [QUIC-TRANSPORT].
            if packet.ack_eliciting {
                outcome.persistent |= self
                    .persistent
                    .on_lost(packet.time_sent, rtt, max_ack_delay);
            }
        }
        out.push((pn, packet));
        true
    }
}

#[inline(never)]
fn sort(packets: &mut [(u64, SentPacket)]) {
    packets.sort_unstable_by_key(|(pn, _)| *pn);
}

#[cold]
fn never_sent() -> TransportError {
    //= specs/rfc9000.txt#section-13.1
    //# An endpoint SHOULD treat receipt of an acknowledgment for a packet it did not send
    //# as a connection error of type PROTOCOL_VIOLATION, if it is able to detect the
    //# condition.
    TransportError::protocol_violation("acknowledgement of a packet that was not sent")
}

#[cold]
fn skipped() -> TransportError {
    TransportError::protocol_violation("acknowledgement of a packet number that was skipped")
}

#[cfg(test)]
#[path = "loss_tests.rs"]
mod tests;
