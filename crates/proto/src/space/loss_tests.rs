//! Tests of acknowledgement processing and loss detection, with a model of packets' fates.

use std::collections::{BTreeMap, BTreeSet};

use mpquic_sched_core::TransportErrorCode;
use proptest::prelude::*;
use rand::SeedableRng;
use rand::rngs::StdRng;

use super::*;
use crate::space::tests_support::{ack_only, packet};

const DELAY: Duration = Duration::from_millis(25);

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

struct Sender {
    t0: Instant,
    rng: StdRng,
    space: PacketSpace,
    rtt: RttEstimator,
    acked: Vec<(u64, SentPacket)>,
    lost: Vec<(u64, SentPacket)>,
}

impl Sender {
    fn new() -> Self {
        let mut rng = StdRng::seed_from_u64(7);
        Self {
            t0: Instant::now(),
            space: PacketSpace::new(&mut rng),
            rng,
            rtt: RttEstimator::new(ms(333)),
            acked: Vec::new(),
            lost: Vec::new(),
        }
    }

    fn send(&mut self, at: u64) -> u64 {
        let pn = self.space.next_pn().unwrap();
        let packet = packet(self.t0 + ms(at));
        self.space.on_sent(packet, &mut self.rng);
        pn
    }

    /// Ranges ascending.
    fn ack(&mut self, at: u64, ranges: &[(u64, u64)]) -> Result<AckOutcome, TransportError> {
        let largest = ranges.last().unwrap().1;
        let blocks = ranges.iter().rev().map(|&(low, high)| low..=high);
        let now = self.t0 + ms(at);
        self.acked.clear();
        self.space.on_ack(
            largest,
            blocks,
            None,
            Duration::ZERO,
            false,
            now,
            &mut self.rtt,
            &mut self.acked,
        )
    }

    fn detect(&mut self, at: u64) -> LossOutcome {
        self.lost.clear();
        self.space
            .detect_lost(self.t0 + ms(at), &self.rtt, DELAY, &mut self.lost)
    }

    fn acked(&self) -> Vec<u64> {
        self.acked.iter().map(|(pn, _)| *pn).collect()
    }

    fn lost(&self) -> Vec<u64> {
        self.lost.iter().map(|(pn, _)| *pn).collect()
    }
}

#[test]
fn packet_threshold() {
    let mut s = Sender::new();
    (0..5).for_each(|_| {
        s.send(0);
    });
    s.ack(50, &[(2, 2)]).unwrap();
    s.detect(50);
    assert!(s.lost.is_empty(), "2 is not 3 beyond 0");
    s.ack(50, &[(2, 4)]).unwrap();
    assert_eq!(s.acked(), [3, 4]);
    let outcome = s.detect(50);
    assert_eq!(s.lost(), [0, 1]);
    assert_eq!(outcome.bytes, 2400);
    assert_eq!(outcome.newest_sent, Some(s.t0));
    assert!(!outcome.persistent);
    assert_eq!(s.space.bytes_in_flight(), 0);
    assert_eq!(s.space.loss_time, None);
}

//= specs/rfc9002.txt#section-6.1.2
//= type=test
//# Once a later packet within the same packet number space has been acknowledged, an endpoint
//# SHOULD declare an earlier packet lost if it was sent a threshold amount of time in the past.
//= specs/rfc9002.txt#section-6.1.2
//= type=test
//# If packets sent prior to the largest acknowledged packet cannot yet be declared lost, then a
//# timer SHOULD be set for the remaining time.
#[test]
fn time_threshold() {
    let mut s = Sender::new();
    s.send(0);
    s.send(8);
    s.ack(88, &[(1, 1)]).unwrap();
    assert_eq!(s.rtt.latest(), ms(80));
    s.detect(88);
    assert!(s.lost.is_empty());
    // 9/8 of 80 ms after it was sent.
    assert_eq!(s.space.loss_time, Some(s.t0 + ms(90)));
    s.detect(89);
    assert!(s.lost.is_empty());
    s.detect(90);
    assert_eq!(s.lost(), [0]);
    assert_eq!(s.space.loss_time, None);
    assert_eq!(s.space.ack_eliciting_in_flight(), 0);
}

//= specs/rfc9002.txt#section-5.1
//= type=test
//# To avoid generating multiple RTT samples for a single packet, an ACK frame SHOULD NOT be used to
//# update RTT estimates if it does not newly acknowledge the largest acknowledged packet.
#[test]
fn samples_only_from_the_largest_newly_acknowledged() {
    let mut s = Sender::new();
    (0..4).for_each(|i| {
        s.send(i);
    });
    let outcome = s.ack(50, &[(1, 1), (3, 3)]).unwrap();
    assert_eq!(outcome.rtt_sample, Some(ms(47)));
    assert_eq!(outcome.newest_sent, Some(s.t0 + ms(3)));
    assert!(outcome.ack_eliciting);
    // The largest is not new.
    let outcome = s.ack(60, &[(2, 3)]).unwrap();
    assert_eq!(s.acked(), [2]);
    assert_eq!(outcome.rtt_sample, None);
    assert_eq!(s.space.largest_acked, Some(3));
    // An older frame, reordered.
    let outcome = s.ack(61, &[(0, 1)]).unwrap();
    assert_eq!((s.acked(), outcome.rtt_sample), (vec![0], None));
    assert_eq!(s.space.largest_acked, Some(3));
}

//= specs/rfc9002.txt#section-5.1
//= type=test
//# An RTT sample MUST NOT be generated on receiving an ACK frame that does not newly acknowledge at
//# least one ack-eliciting packet.
#[test]
fn acknowledgements_of_acks_alone_give_no_sample() {
    let mut s = Sender::new();
    s.space.on_sent(ack_only(s.t0), &mut s.rng);
    let outcome = s.ack(500, &[(0, 0)]).unwrap();
    assert_eq!(s.acked(), [0]);
    assert!(outcome.rtt_sample.is_none() && !outcome.ack_eliciting);
    // With an ack-eliciting one, the packet with ACKs is good enough as the largest.
    s.send(500);
    s.space.on_sent(ack_only(s.t0 + ms(510)), &mut s.rng);
    s.send(520);
    let outcome = s.ack(560, &[(1, 2)]).unwrap();
    assert_eq!(s.acked(), [1, 2], "in the order of their numbers");
    assert_eq!(outcome.rtt_sample, Some(ms(50)));
}

//= specs/rfc9000.txt#section-13.1
//= type=test
//# An endpoint SHOULD treat receipt of an acknowledgment for a packet it did not send as a
//# connection error of type PROTOCOL_VIOLATION, if it is able to detect the condition.
#[test]
fn acknowledging_what_was_not_sent_is_a_violation() {
    let mut s = Sender::new();
    for at in 0..3000 {
        s.send(at);
    }
    let next = s.space.next_pn().unwrap();
    let skipped = s.space.numbers.oldest_skipped().unwrap();
    for range in [
        (next, next),
        (0, next),
        (0, next - 1),
        (skipped, skipped),
        (skipped - 1, skipped + 1),
    ] {
        let error = s.ack(3000, &[range]).unwrap_err();
        assert_eq!(error.code, TransportErrorCode::PROTOCOL_VIOLATION);
        assert_eq!(s.space.largest_acked, None);
        assert!(s.acked.is_empty());
    }
    s.ack(3000, &[(0, skipped - 1), (skipped + 1, skipped + 3)])
        .unwrap();
    assert_eq!(s.acked.len() as u64, skipped + 3);
    assert!(s.ack(3000, &[(u64::MAX, u64::MAX)]).is_err());
    assert!(Sender::new().ack(0, &[(0, 0)]).is_err());
}

#[test]
fn a_late_acknowledgement_is_a_spurious_loss() {
    let mut s = Sender::new();
    (0..8).for_each(|i| {
        s.send(i);
    });
    s.ack(50, &[(7, 7)]).unwrap();
    s.detect(50);
    assert_eq!(s.lost(), [0, 1, 2, 3, 4]);
    let outcome = s.ack(51, &[(2, 4), (7, 7)]).unwrap();
    assert_eq!((outcome.spurious, outcome.spurious_bytes), (3, 3600));
    assert_eq!(outcome.spurious_sent, Some(s.t0 + ms(4)));
    assert!(s.acked.is_empty());
    let outcome = s.ack(52, &[(0, 7)]).unwrap();
    assert_eq!((outcome.spurious, s.acked()), (2, vec![5, 6]));
    assert_eq!(s.ack(53, &[(0, 7)]).unwrap().spurious, 0);
}

/// RFC 9002 section 7.6.3, scaled: a probe every 20 ms, a PTO of 28 ms.
#[test]
fn persistent_congestion_example() {
    let mut s = Sender::new();
    s.rtt.update(s.t0, ms(1), Duration::ZERO);
    assert_eq!(s.rtt.pto_base(DELAY), ms(28));
    s.send(1);
    s.ack(2, &[(0, 0)]).unwrap();
    s.detect(2);
    s.send(10);
    for at in [20, 40, 60, 80, 100, 120] {
        s.send(at);
    }
    let pn = s.send(160);
    s.ack(161, &[(pn, pn)]).unwrap();
    let outcome = s.detect(161);
    assert!(outcome.persistent);
    // From 10 to 120 ms: more than three PTOs.
    assert_eq!(s.lost(), [1, 2, 3, 4, 5, 6, 7]);
}

#[test]
fn an_acknowledged_packet_with_acks_only_breaks_persistent_congestion() {
    let mut s = Sender::new();
    s.rtt.update(s.t0, ms(1), Duration::ZERO);
    s.send(10);
    s.space.on_sent(ack_only(s.t0 + ms(60)), &mut s.rng);
    s.send(110);
    let last = s.send(120);
    s.ack(121, &[(1, 1), (last, last)]).unwrap();
    assert!(!s.detect(200).persistent);
    assert_eq!(s.lost(), [0, 2]);
}

//= specs/rfc9000.txt#section-14.4
//= type=test
//# Loss of a QUIC packet that is carried in a PMTU probe is therefore not a reliable indication of
//# congestion and SHOULD NOT trigger a congestion control reaction; see Item 7 in Section 3 of
//# [DPLPMTUD].
//= specs/rfc8899.txt#section-3
//= type=test
//# Loss of a probe packet SHOULD NOT be treated as an indication of congestion and SHOULD NOT
//# trigger a congestion control reaction [RFC4821] because this could result in unnecessary
//# reduction of the sending rate.
#[test]
fn mtu_probes_are_lost_without_congestion() {
    let mut s = Sender::new();
    let mut probe = packet(s.t0);
    probe.mtu_probe = true;
    s.space.on_sent(probe, &mut s.rng);
    (0..4).for_each(|_| {
        s.send(0);
    });
    s.ack(50, &[(1, 4)]).unwrap();
    assert_eq!(s.detect(50), LossOutcome::default());
    assert_eq!(s.lost(), [0]);
}

#[test]
fn an_abandoned_path_loses_everything_once() {
    let mut s = Sender::new();
    (0..6).for_each(|_| {
        s.send(0);
    });
    s.ack(50, &[(3, 3)]).unwrap();
    s.detect(50);
    let mut out = Vec::new();
    s.space.drain_all(&mut out);
    assert_eq!(
        out.iter().map(|(pn, _)| *pn).collect::<Vec<_>>(),
        [1, 2, 4, 5]
    );
    assert_eq!((s.space.bytes_in_flight(), s.space.loss_time), (0, None));
    let outcome = s.ack(60, &[(0, 5)]).unwrap();
    assert_eq!((outcome.spurious, s.acked.len()), (5, 0));
    s.detect(60);
    assert!(s.lost.is_empty());
}

#[test]
fn probe_timer_follows_the_last_ack_eliciting_packet() {
    let mut s = Sender::new();
    assert_eq!(s.space.pto_time(&s.rtt, Duration::ZERO, 0), None);
    s.send(0);
    s.send(10);
    s.space.on_sent(ack_only(s.t0 + ms(20)), &mut s.rng);
    assert_eq!(
        s.space.pto_time(&s.rtt, Duration::ZERO, 1),
        Some(s.t0 + ms(10 + 2 * 999))
    );
    s.ack(100, &[(0, 1)]).unwrap();
    assert_eq!(s.space.pto_time(&s.rtt, Duration::ZERO, 0), None);
}

#[test]
fn ecn_counts_are_checked_against_newly_acknowledged_packets() {
    let mut s = Sender::new();
    for _ in 0..4 {
        let mut packet = packet(s.t0);
        packet.ecn_marked = true;
        s.space.on_sent(packet, &mut s.rng);
    }
    let mut ack = |range: RangeInclusive<u64>, ecn| {
        let mut out = Vec::new();
        s.space
            .on_ack(
                *range.end(),
                std::iter::once(range),
                ecn,
                Duration::ZERO,
                false,
                s.t0,
                &mut s.rtt,
                &mut out,
            )
            .unwrap()
            .ecn
    };
    let counts = |ect0, ce| Some(EcnCounts { ect0, ect1: 0, ce });
    assert_eq!(
        ack(0..=1, counts(1, 1)),
        EcnReport::Valid { marked: 2, ce: 1 }
    );
    assert_eq!(
        ack(0..=1, None),
        EcnReport::Silent,
        "the largest has not risen"
    );
    assert_eq!(ack(0..=3, counts(2, 1)), EcnReport::Invalid);
}

/// The number space goes on over another network path, the marks of which are judged by themselves.
#[test]
fn marks_of_the_network_path_before_do_not_fail_the_next_one() {
    let mut s = Sender::new();
    let marked = |s: &mut Sender| {
        let mut packet = packet(s.t0);
        packet.ecn_marked = true;
        s.space.on_sent(packet, &mut s.rng);
    };
    for _ in 0..2 {
        marked(&mut s);
    }
    let next = s.space.numbers.next().unwrap();
    s.space.ecn.restart(next);
    for _ in 0..2 {
        marked(&mut s);
    }
    let mut ack = |range: RangeInclusive<u64>, ecn| {
        let mut out = Vec::new();
        let (space, rtt) = (&mut s.space, &mut s.rtt);
        let blocks = std::iter::once(range.clone());
        let largest = *range.end();
        let outcome = space.on_ack(
            largest,
            blocks,
            ecn,
            Duration::ZERO,
            false,
            s.t0,
            rtt,
            &mut out,
        );
        outcome.unwrap().ecn
    };
    let counts = |ect0| {
        Some(EcnCounts {
            ect0,
            ect1: 0,
            ce: 0,
        })
    };
    assert_eq!(ack(0..=1, None), EcnReport::Silent, "bleached before");
    assert_eq!(ack(0..=2, counts(1)), EcnReport::Silent, "the first one");
    let valid = EcnReport::Valid { marked: 1, ce: 0 };
    assert_eq!(ack(0..=3, counts(2)), valid);
}

/// Frames that list all over again cost no walk over what is settled.
#[test]
fn repeated_ranges_are_cheap() {
    let mut s = Sender::new();
    for at in 0..20_000u64 {
        let pn = s.send(at / 100);
        // Skips excluded, everything since the start.
        let mut ranges = vec![];
        let mut low = 0;
        for skip in (0..=pn).filter(|&n| pn < 2000 && s.space.numbers.has_skipped(n, n)) {
            ranges.push((low, skip - 1));
            low = skip + 1;
        }
        if pn >= 2000 {
            low = pn - 10;
            while (low..=pn).any(|n| s.space.numbers.has_skipped(n, n)) {
                low += 1;
            }
        }
        ranges.push((low, pn));
        s.ack(at / 100 + 50, &ranges).unwrap();
        s.detect(at / 100 + 50);
        assert!(s.space.sent.lowest().is_none_or(|lowest| lowest + 4 > pn));
    }
    assert_eq!(s.space.bytes_in_flight(), 0);
}

#[derive(Debug, Clone)]
enum Op {
    Send(u8),
    SendAck,
    /// An ACK of all that has arrived, of which the network lets this share of 8 through.
    Ack,
    /// The network delivers the packet at this distance from the newest.
    Deliver(u64),
    Wait(u64),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        3 => (1u8..6).prop_map(Op::Send),
        1 => Just(Op::SendAck),
        3 => Just(Op::Ack),
        4 => (0u64..12).prop_map(Op::Deliver),
        2 => (0u64..60).prop_map(Op::Wait),
    ]
}

#[derive(Debug, PartialEq)]
enum Fate {
    Flying,
    Acked,
    Lost,
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    /// Every packet in flight is acknowledged or lost, once; counters agree; in the end none flies.
    #[test]
    fn every_packet_has_one_fate(ops in prop::collection::vec(op(), 1..200)) {
        let mut s = Sender::new();
        let mut fate: BTreeMap<u64, Fate> = BTreeMap::new();
        let mut arrived: BTreeSet<u64> = BTreeSet::new();
        let mut spurious = 0;
        let mut now = 0;
        let ops = ops.into_iter().chain([Op::Wait(1), Op::Send(1), Op::Deliver(0), Op::Ack, Op::Wait(100_000)]);
        for op in ops {
            match op {
                Op::Send(n) => (0..n).for_each(|_| { fate.insert(s.send(now), Fate::Flying); }),
                Op::SendAck => { let t = s.t0 + ms(now); s.space.on_sent(ack_only(t), &mut s.rng); }
                Op::Deliver(back) => {
                    if let Some((&pn, _)) = fate.iter().nth_back(back as usize) { arrived.insert(pn); }
                }
                Op::Wait(t) => {
                    now += t;
                    s.acked.clear();
                    if s.space.loss_time.is_some_and(|at| at <= s.t0 + ms(now)) { s.detect(now); } else { s.lost.clear(); }
                }
                Op::Ack => {
                    if arrived.is_empty() { continue; }
                    let mut ranges: Vec<(u64, u64)> = Vec::new();
                    for &pn in &arrived {
                        match ranges.last_mut() {
                            Some(last) if last.1 + 1 == pn => last.1 = pn,
                            _ => ranges.push((pn, pn)),
                        }
                    }
                    let outcome = s.ack(now, &ranges).unwrap();
                    spurious += outcome.spurious;
                    s.detect(now);
                }
            }
            prop_assert!(s.acked.is_sorted_by_key(|(pn, _)| *pn) && s.lost.is_sorted_by_key(|(pn, _)| *pn));
            for pn in s.acked() {
                prop_assert_eq!(fate.insert(pn, Fate::Acked), Some(Fate::Flying));
                prop_assert!(arrived.contains(&pn));
            }
            for pn in s.lost() {
                prop_assert_eq!(fate.insert(pn, Fate::Lost), Some(Fate::Flying));
                prop_assert!(pn < s.space.largest_acked.unwrap());
            }
            s.acked.clear();
            s.lost.clear();
            let flying = fate.values().filter(|f| **f == Fate::Flying).count();
            prop_assert_eq!(s.space.sent.iter().count(), flying);
            prop_assert_eq!(s.space.bytes_in_flight(), 1200 * flying as u64);
        }
        prop_assert!(fate.values().all(|f| *f != Fate::Flying));
        let late = fate.iter().filter(|(pn, f)| **f == Fate::Lost && arrived.contains(pn)).count();
        prop_assert!(spurious as usize <= late || fate.len() > MAX_REMEMBERED);
    }
}
