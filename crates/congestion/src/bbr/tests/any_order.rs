//! Whatever happens in whatever order: the window and the pace stay within bounds, and nothing panics.

use mpquic_sched_core::PathIndex;
use proptest::prelude::*;

use super::*;
use crate::tests::build;
use crate::{
    CongestionControl, CongestionEvent, InitialWindow, MAX_WINDOW, NewPath, SentPacket,
    SpuriousLoss,
};

#[derive(Debug, Clone)]
enum Op {
    Sent(u64),
    Ack {
        rate: f64,
        numbers: [u64; 7],
        rtt: Option<u64>,
        app_limited: bool,
    },
    Lost {
        back: u64,
        numbers: [u64; 3],
        app_limited: bool,
    },
    Event {
        persistent: bool,
        ecn: bool,
    },
    Spurious {
        back: u64,
        bytes: u64,
    },
    Mtu(u16),
    Wait(u64),
    Restart,
    Change,
}

fn number() -> impl Strategy<Value = u64> {
    prop_oneof![4 => 0u64..200_000, 1 => 0u64..1 << 40]
}

fn op() -> impl Strategy<Value = Op> {
    let rate = prop_oneof![Just(0.0), 1.0..1e9, 1.0..1e15];
    prop_oneof![
        2 => number().prop_map(Op::Sent),
        8 => (rate, prop::array::uniform7(number()), prop::option::of(number()), prop::bool::weighted(0.2))
            .prop_map(|(rate, numbers, rtt, app_limited)| Op::Ack { rate, numbers, rtt, app_limited }),
        3 => (number(), prop::array::uniform3(number()), prop::bool::weighted(0.2))
            .prop_map(|(back, numbers, app_limited)| Op::Lost { back, numbers, app_limited }),
        1 => (prop::bool::weighted(0.2), any::<bool>()).prop_map(|(persistent, ecn)| Op::Event { persistent, ecn }),
        1 => (number(), number()).prop_map(|(back, bytes)| Op::Spurious { back, bytes }),
        1 => (1200u16..).prop_map(Op::Mtu),
        4 => prop_oneof![0u64..200_000, 0u64..1 << 40].prop_map(Op::Wait),
        1 => Just(Op::Restart),
        1 => Just(Op::Change),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]
    #[test]
    fn window_and_pace_stay_within_bounds(ops in prop::collection::vec(op(), 1..200)) {
        let path = PathIndex::new(2).unwrap();
        let mut cc = build(CongestionControl::Bbr, InitialWindow::default());
        let origin = Instant::now();
        let mut now = origin;
        let mut mtu = 1200;
        let mut rtt = RttEstimator::new(ms(333));
        let mut total = 0u64;
        cc.add_path(&NewPath::new(path, now, mtu));
        for op in ops {
            let before = |back: u64| origin.max(now.checked_sub(Duration::from_micros(back)).unwrap_or(origin));
            match op {
                Op::Sent(in_flight) => cc.on_packet_sent(&SentPacket::new(path, now, mtu.into(), in_flight)),
                Op::Ack { rate, numbers: [acked, delivered, prior, tx, lost, newly_lost, in_flight], rtt: took, app_limited } => {
                    total += acked;
                    let took = took.map(Duration::from_micros);
                    if let Some(took) = took {
                        rtt.update(now, took, Duration::ZERO);
                    }
                    let sample = RateSample {
                        rate,
                        delivered,
                        prior_delivered: prior.min(total),
                        tx_in_flight: tx,
                        lost,
                        newly_acked: acked,
                        newly_lost,
                        total_delivered: total,
                        app_limited,
                    };
                    let ack = AckSummary { path, now, sample: &sample, newest_sent: before(prior), rtt_sample: took, rtt: &rtt, in_flight };
                    cc.on_ack_end(&ack);
                }
                Op::Lost { back, numbers: [number, tx_in_flight, lost], app_limited } => {
                    let packet = LostPacket { path, now, number, sent: before(back), size: mtu.into(), tx_in_flight, lost, total_delivered: total, app_limited };
                    cc.on_packet_lost(&packet);
                }
                Op::Event { persistent, ecn } => cc.on_congestion_event(&CongestionEvent { path, now, newest_sent: now, lost_bytes: 1200, persistent, ecn }),
                Op::Spurious { back, bytes } => cc.on_spurious_loss(&SpuriousLoss::new(path, now, before(back), bytes)),
                Op::Mtu(new) => { mtu = new; cc.on_mtu_update(path, new); }
                Op::Wait(us) => now += Duration::from_micros(us),
                Op::Restart => cc.on_restart(path, now),
                Op::Change => cc.on_path_changed(&NewPath::new(path, now, mtu)),
            }
            let window = cc.window(path);
            prop_assert!(window >= 2 * u64::from(mtu), "{} below two of {}", window, mtu);
            prop_assert!(window <= MAX_WINDOW);
            let pace = cc.pacing_rate(path, &rtt).unwrap();
            prop_assert!(pace.is_finite() && pace >= 0.0, "{}", pace);
        }
    }
}

#[test]
fn paths_do_not_touch_each_other() {
    let [one, other] = [0, 5].map(|slot| PathIndex::new(slot).unwrap());
    let mut cc = build(CongestionControl::Bbr, InitialWindow::Packets(32));
    let now = Instant::now();
    let rtt = RttEstimator::new(ms(100));
    assert_eq!((cc.window(one), cc.pacing_rate(one, &rtt)), (0, None));
    cc.add_path(&NewPath::new(one, now, 1200));
    cc.add_path(&NewPath::new(other, now, 1200));
    assert_eq!(cc.window(one), 38_400);
    assert!(cc.in_slow_start(one));
    cc.on_mtu_update(one, 1400);
    cc.on_congestion_event(&CongestionEvent::loss(one, now, now, 0, true));
    assert_eq!((cc.window(one), cc.window(other)), (2800, 38_400));
    cc.remove_path(one);
    assert_eq!(
        (cc.window(one), cc.ssthresh(one), cc.in_slow_start(one)),
        (0, 0, false)
    );
    cc.on_congestion_event(&CongestionEvent {
        path: one,
        now,
        newest_sent: now,
        lost_bytes: 0,
        persistent: true,
        ecn: true,
    });
    assert_eq!(cc.congestion_events(one), 0);
    cc.add_path(&NewPath::new(one, now, 1200));
    assert_eq!(cc.window(one), 38_400);
}
