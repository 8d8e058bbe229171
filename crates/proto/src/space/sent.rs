//! The packets of a space that are neither acknowledged nor lost.

use std::collections::VecDeque;
use std::time::Instant;

use mpquic_sched_core::PathIndex;

use crate::recovery::DeliverySnapshot;
use crate::sent_frame::{SentFrame, SentFrames};

/// Packets not in flight (ACKs only) whose send time is remembered. A peer that never acknowledges
/// them, as it need not, costs no more than that.
const MAX_NOT_IN_FLIGHT: usize = 64;

/// What is known of a packet that was sent.
#[derive(Debug, Clone)]
pub(crate) struct SentPacket {
    pub(crate) time_sent: Instant,
    /// Bytes on the wire: QUIC header and AEAD tag included, UDP and IP not.
    pub(crate) size: u16,
    pub(crate) ack_eliciting: bool,
    /// Whether it counts towards the congestion window: not if it carries ACKs only (RFC 9002 section 2).
    pub(crate) in_flight: bool,
    /// Whether it left with an ECT(0) mark.
    pub(crate) ecn_marked: bool,
    /// Whether it probes for a larger MTU: its loss is no sign of congestion (RFC 9000 section 14.4).
    pub(crate) mtu_probe: bool,
    /// Whether it asks or answers on a network path: PATH_CHALLENGE, PATH_RESPONSE.
    pub(crate) path_probe: bool,
    /// Whether it went to other addresses than the path uses, to ask or to answer there.
    pub(crate) elsewhere: bool,
    /// The decision of the scheduler that asked for it.
    pub(crate) decision: Option<u64>,
    /// The state of delivery when it left; `None` for packets that are not in flight.
    pub(crate) delivery: Option<DeliverySnapshot>,
    pub(crate) frames: SentFrames,
}

impl SentPacket {
    /// Stream bytes in it.
    pub(crate) fn stream_bytes(&self) -> u64 {
        let bytes = |frame: &SentFrame| match frame {
            SentFrame::Stream(range) => range.end - range.start,
            _ => 0,
        };
        self.frames.iter().map(bytes).sum()
    }
}

/// Why a 1-RTT packet was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PacketOrigin {
    /// The scheduler asked for it.
    Decision(u64),
    /// A copy of what the scheduler asked for.
    Copy(u64),
    /// The path sends it by itself: probes, acknowledgements, keep-alives.
    Unscheduled,
    /// PATH_CHALLENGE and PATH_RESPONSE.
    PathProbe,
    /// It tries a larger datagram.
    MtuProbe,
    /// CONNECTION_CLOSE: nobody acknowledges it.
    Close,
}

impl PacketOrigin {
    /// The decision that asked for it.
    pub(crate) const fn decision(self) -> Option<u64> {
        match self {
            Self::Decision(number) | Self::Copy(number) => Some(number),
            Self::Unscheduled | Self::PathProbe | Self::MtuProbe | Self::Close => None,
        }
    }
}

#[derive(Debug)]
struct Entry {
    pn: u64,
    /// `None` once acknowledged.
    packet: Option<SentPacket>,
}

/// Packets in ascending order of their numbers; the acknowledged leave a hole until all before
/// them are settled, which loss detection does right after each ACK.
#[derive(Debug, Default)]
struct Ring(VecDeque<Entry>);

impl Ring {
    /// Index of the first entry with a number of at least `pn`.
    fn lower_bound(&self, pn: u64) -> usize {
        let Some(first) = self.0.front() else {
            return 0;
        };
        if pn <= first.pn {
            return 0;
        }
        // Numbers are mostly dense: look there first. With gaps the entry lies before the guess.
        let guess = usize::try_from(pn - first.pn).unwrap_or(usize::MAX);
        match self.0.get(guess) {
            Some(entry) if entry.pn == pn => guess,
            _ => self.0.partition_point(|entry| entry.pn < pn),
        }
    }

    fn find(&self, pn: u64) -> Option<usize> {
        let index = self.lower_bound(pn);
        (self.0.get(index)?.pn == pn).then_some(index)
    }

    /// Takes out the packets with numbers from `low` to `high`, onto `out` in ascending order.
    #[inline(never)]
    fn take_range(&mut self, low: u64, high: u64, out: &mut Vec<(u64, SentPacket)>) {
        let mut index = self.lower_bound(low);
        while let Some(entry) = self.0.get_mut(index)
            && entry.pn <= high
        {
            if let Some(packet) = entry.packet.take() {
                out.push((entry.pn, packet));
            }
            index += 1;
        }
    }
}

/// The sent packets of one space: O(1) for the usual insertion, acknowledgement and loss; memory
/// in proportion to what is outstanding, whatever the peer acknowledges.
#[derive(Debug, Default)]
pub(crate) struct SentPackets {
    in_flight: Ring,
    /// Not in flight, capped.
    other: Ring,
    bytes_in_flight: u64,
    ack_eliciting: usize,
    scheduled: usize,
    path_probes: usize,
}

impl SentPackets {
    /// Gives back memory that is not used.
    pub(crate) fn shrink(&mut self) {
        self.in_flight.0.shrink_to_fit();
        self.other.0.shrink_to_fit();
    }

    /// Takes in a packet; `pn` is larger than all before.
    pub(crate) fn insert(&mut self, pn: u64, packet: SentPacket) {
        let ring = if packet.in_flight {
            self.bytes_in_flight += u64::from(packet.size);
            self.ack_eliciting += usize::from(packet.ack_eliciting);
            self.scheduled += usize::from(packet.decision.is_some());
            self.path_probes += usize::from(packet.path_probe);
            &mut self.in_flight
        } else {
            &mut self.other
        };
        debug_assert!(ring.0.back().is_none_or(|last| last.pn < pn));
        ring.0.push_back(Entry {
            pn,
            packet: Some(packet),
        });
    }

    /// How many are remembered.
    pub(crate) fn remembered(&self) -> usize {
        self.in_flight.0.len() + self.other.0.len()
    }

    /// Whether packets not in flight are remembered.
    pub(super) fn has_other(&self) -> bool {
        !self.other.0.is_empty()
    }

    /// Whether more packets not in flight are remembered than is allowed.
    pub(super) fn has_excess(&self) -> bool {
        self.other.0.len() > MAX_NOT_IN_FLIGHT
    }

    fn uncount(&mut self, packet: &SentPacket) {
        if packet.in_flight {
            self.bytes_in_flight -= u64::from(packet.size);
            self.ack_eliciting -= usize::from(packet.ack_eliciting);
            self.scheduled -= usize::from(packet.decision.is_some());
            self.path_probes -= usize::from(packet.path_probe);
        }
    }

    /// Takes out all packets with numbers from `low` to `high` as acknowledged, onto `out`: those in
    /// flight in ascending order, then the others. Whether there were others.
    pub(crate) fn take_range(
        &mut self,
        low: u64,
        high: u64,
        out: &mut Vec<(u64, SentPacket)>,
    ) -> bool {
        let start = out.len();
        self.in_flight.take_range(low, high, out);
        for (_, packet) in &out[start..] {
            self.bytes_in_flight -= u64::from(packet.size);
            self.ack_eliciting -= usize::from(packet.ack_eliciting);
            self.scheduled -= usize::from(packet.decision.is_some());
            self.path_probes -= usize::from(packet.path_probe);
        }
        if !self.has_other() {
            return false;
        }
        let start = out.len();
        self.other.take_range(low, high, out);
        out.len() > start
    }

    /// An outstanding packet.
    pub(crate) fn get(&self, pn: u64) -> Option<&SentPacket> {
        [&self.in_flight, &self.other]
            .into_iter()
            .find_map(|ring| ring.0[ring.find(pn)?].packet.as_ref())
    }

    /// Outstanding packets that count as in flight, from this number on, oldest first.
    pub(crate) fn iter_from(&self, pn: u64) -> impl Iterator<Item = (u64, &SentPacket)> {
        let start = self.in_flight.lower_bound(pn);
        let entries = self.in_flight.0.range(start..);
        entries.filter_map(|entry| Some((entry.pn, entry.packet.as_ref()?)))
    }

    /// Outstanding packets that count as in flight, below this number, newest first.
    pub(crate) fn newest_below(&self, pn: u64) -> impl Iterator<Item = (u64, &SentPacket)> {
        let end = self.in_flight.lower_bound(pn);
        let entries = self.in_flight.0.range(..end).rev();
        entries.filter_map(|entry| Some((entry.pn, entry.packet.as_ref()?)))
    }

    /// An outstanding packet that counts as in flight.
    pub(crate) fn get_mut(&mut self, pn: u64) -> Option<&mut SentPacket> {
        let index = self.in_flight.find(pn)?;
        self.in_flight.0[index].packet.as_mut()
    }

    /// Forgets all but the newest `keep` packets that carry nothing to be repeated: the probes of a
    /// path that does not answer, and challenges, which have a timer of their own.
    pub(crate) fn forget_bare(&mut self, keep: usize) {
        let to_repeat = |frame: &SentFrame| !matches!(frame, SentFrame::PathChallenge(_));
        let is_bare = |entry: &Entry| match &entry.packet {
            Some(packet) => {
                let repeats = packet.frames.iter().any(to_repeat);
                !repeats && packet.decision.is_none() && !packet.mtu_probe
            }
            None => false,
        };
        let bare = self.in_flight.0.iter().filter(|e| is_bare(e)).count();
        let mut excess = bare.saturating_sub(keep);
        if excess == 0 {
            return;
        }
        let mut forgotten = (0, 0, 0);
        self.in_flight.0.retain(|entry| {
            if excess == 0 || !is_bare(entry) {
                return true;
            }
            excess -= 1;
            if let Some(packet) = &entry.packet {
                forgotten.0 += u64::from(packet.size);
                forgotten.1 += usize::from(packet.ack_eliciting);
                forgotten.2 += usize::from(packet.path_probe);
            }
            false
        });
        self.bytes_in_flight -= forgotten.0;
        self.ack_eliciting -= forgotten.1;
        self.path_probes -= forgotten.2;
    }

    /// A path ended; its slot will mean another one, which has carried nothing.
    pub(crate) fn forget_path(&mut self, path: PathIndex) {
        for packet in self.in_flight.0.iter_mut().flat_map(|e| &mut e.packet) {
            for frame in &mut packet.frames {
                if let SentFrame::Stream(range) = frame {
                    range.carried.remove(path);
                }
            }
        }
    }

    /// The outstanding packets in flight, ascending.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, &SentPacket)> {
        let entries = self.in_flight.0.iter();
        entries.filter_map(|entry| Some((entry.pn, entry.packet.as_ref()?)))
    }

    /// The oldest packet in flight.
    pub(crate) fn first(&self) -> Option<(u64, &SentPacket)> {
        // Nearly always the oldest entry.
        let entry = self.in_flight.0.front()?;
        match &entry.packet {
            Some(packet) => Some((entry.pn, packet)),
            None => self.find_first(),
        }
    }

    #[cold]
    fn find_first(&self) -> Option<(u64, &SentPacket)> {
        self.iter().next()
    }

    /// When the oldest ack-eliciting packet in flight was sent.
    pub(crate) fn first_ack_eliciting_sent(&self) -> Option<Instant> {
        // Nearly always the oldest entry.
        let entry = self.in_flight.0.front()?;
        match &entry.packet {
            Some(packet) if packet.ack_eliciting => Some(packet.time_sent),
            _ => self.find_ack_eliciting_sent(),
        }
    }

    #[cold]
    fn find_ack_eliciting_sent(&self) -> Option<Instant> {
        let mut eliciting = self.iter().filter(|(_, packet)| packet.ack_eliciting);
        eliciting.next().map(|(_, packet)| packet.time_sent)
    }

    /// Forgets the oldest entries in flight that are acknowledged. The number of the newest of them.
    pub(super) fn forget_acked(&mut self) -> Option<u64> {
        let mut forgotten = None;
        while let Some(entry) = self.in_flight.0.front()
            && entry.packet.is_none()
        {
            forgotten = Some(entry.pn);
            // There is nothing in it to drop.
            std::mem::forget(self.in_flight.0.pop_front());
        }
        forgotten
    }

    /// Takes out the oldest entry in flight: a packet if it was outstanding.
    pub(crate) fn pop_oldest(&mut self) -> Option<(u64, Option<SentPacket>)> {
        let entry = self.in_flight.0.pop_front()?;
        if let Some(packet) = &entry.packet {
            self.uncount(packet);
        }
        Some((entry.pn, entry.packet))
    }

    /// Forgets packets not in flight with numbers below `pn`. Whether one of them was acknowledged.
    pub(crate) fn forget_other_below(&mut self, pn: u64) -> bool {
        self.has_other() && self.pop_other_below(pn)
    }

    #[inline(never)]
    fn pop_other_below(&mut self, pn: u64) -> bool {
        let mut acked = false;
        while self.other.0.front().is_some_and(|entry| entry.pn < pn) {
            acked |= self.forget_oldest_other();
        }
        acked
    }

    /// Forgets the oldest packet not in flight. Whether it was acknowledged.
    pub(crate) fn forget_oldest_other(&mut self) -> bool {
        let entry = self.other.0.pop_front();
        entry.is_some_and(|entry| entry.packet.is_none())
    }

    /// The smallest number about which an ACK can still say something new.
    pub(crate) fn lowest(&self) -> Option<u64> {
        let front = |ring: &Ring| ring.0.front().map(|entry| entry.pn);
        match (front(&self.in_flight), front(&self.other)) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    /// Bytes in flight.
    pub(crate) const fn bytes_in_flight(&self) -> u64 {
        self.bytes_in_flight
    }

    /// Packets in flight that a scheduler decided on.
    pub(crate) const fn scheduled(&self) -> usize {
        self.scheduled
    }

    /// Ack-eliciting packets in flight.
    pub(crate) const fn ack_eliciting(&self) -> usize {
        self.ack_eliciting
    }

    /// Packets in flight with PATH_CHALLENGE or PATH_RESPONSE.
    pub(crate) const fn path_probes(&self) -> usize {
        self.path_probes
    }

    /// Forgets everything.
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    /// A full-size packet with nothing special to it.
    pub(crate) fn packet(time_sent: Instant) -> SentPacket {
        SentPacket {
            time_sent,
            size: 1200,
            ack_eliciting: true,
            in_flight: true,
            ecn_marked: false,
            mtu_probe: false,
            path_probe: false,
            elsewhere: false,
            decision: None,
            delivery: None,
            frames: SentFrames::new(),
        }
    }

    /// A packet with ACKs only.
    pub(crate) fn ack_only(time_sent: Instant) -> SentPacket {
        SentPacket {
            size: 40,
            ack_eliciting: false,
            in_flight: false,
            ..packet(time_sent)
        }
    }

    #[test]
    fn endless_probes_cost_no_memory() {
        let now = Instant::now();
        let mut sent = SentPackets::default();
        let data = |number| SentPacket {
            frames: SentFrames::from_iter([SentFrame::MaxPathId(number)]),
            decision: Some(u64::from(number)),
            ..packet(now)
        };
        for pn in 0..10_000 {
            let carries = pn == 0 || pn == 5000;
            sent.insert(
                pn,
                if carries {
                    data(pn as u32)
                } else {
                    packet(now)
                },
            );
            sent.forget_bare(3);
            assert!(sent.in_flight.0.len() <= 5);
        }
        let left: Vec<_> = sent.iter().map(|(pn, _)| pn).collect();
        assert_eq!(left, [0, 5000, 9997, 9998, 9999]);
        assert_eq!((sent.ack_eliciting(), sent.scheduled()), (5, 2));
        assert_eq!(sent.bytes_in_flight(), 5 * 1200);
        // The peer may still acknowledge what was forgotten.
        let mut out = Vec::new();
        sent.take_range(0, 9999, &mut out);
        assert_eq!((out.len(), sent.scheduled()), (5, 0));
    }

    #[test]
    fn an_entry_stays_small() {
        assert!(size_of::<Entry>() <= 256, "{}", size_of::<Entry>());
    }

    #[derive(Debug, Clone)]
    enum Op {
        Send { gap: u64, in_flight: bool },
        Get(u64),
        Range(u64, u64),
        Pop,
    }

    fn op() -> impl Strategy<Value = Op> {
        prop_oneof![
            4 => (0u64..3, prop::bool::weighted(0.9)).prop_map(|(gap, in_flight)| Op::Send { gap, in_flight }),
            1 => (0u64..200).prop_map(Op::Get),
            1 => (0u64..200, 0u64..40).prop_map(|(low, len)| Op::Range(low, low + len)),
            1 => Just(Op::Pop),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]
        #[test]
        fn behaves_like_a_map(ops in prop::collection::vec(op(), 1..150)) {
            let now = Instant::now();
            let mut sent = SentPackets::default();
            let mut model: BTreeMap<u64, bool> = BTreeMap::new();
            let mut next = 0;
            for op in ops {
                match op {
                    Op::Send { gap, in_flight } => {
                        next += gap;
                        sent.insert(next, if in_flight { packet(now) } else { ack_only(now) });
                        model.insert(next, in_flight);
                        next += 1;
                    }
                    Op::Get(pn) => {
                        prop_assert_eq!(sent.get(pn).is_some(), model.contains_key(&pn));
                    }
                    Op::Range(low, high) => {
                        let mut out = Vec::new();
                        sent.take_range(low, high, &mut out);
                        let mut taken: Vec<u64> = out.iter().map(|(pn, _)| *pn).collect();
                        taken.sort_unstable();
                        let expected: Vec<u64> = model.range(low..=high).map(|(pn, _)| *pn).collect();
                        prop_assert_eq!(taken, expected);
                        model.retain(|pn, _| !(low..=high).contains(pn));
                    }
                    Op::Pop => {
                        if let Some((pn, Some(_))) = sent.pop_oldest() {
                            prop_assert_eq!(model.iter().find(|(_, f)| **f).map(|(pn, _)| *pn), Some(pn));
                            model.remove(&pn);
                        }
                    }
                }
                let flight: Vec<u64> = model.iter().filter(|(_, f)| **f).map(|(pn, _)| *pn).collect();
                prop_assert_eq!(sent.iter().map(|(pn, _)| pn).collect::<Vec<_>>(), flight.clone());
                prop_assert_eq!(sent.ack_eliciting(), flight.len());
                prop_assert_eq!(sent.bytes_in_flight(), 1200 * flight.len() as u64);
                prop_assert_eq!(sent.first().map(|(pn, _)| pn), flight.first().copied());
            }
        }
    }
}
