//! The link model: what it does with single packets, what its settings may be, its laws under random use.

mod closed_forms;
mod rates;
mod traces;

use std::time::Duration;

use proptest::prelude::*;

use super::*;

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// No headers, so that sizes are round.
fn bare(rate: u64, delay: Duration) -> LinkConfig {
    LinkConfig {
        overhead: 0,
        ..LinkConfig::new(rate, delay)
    }
}

fn drain<T: Clone>(link: &mut Link<T>) -> Vec<Exit<T>> {
    let mut exits = Vec::new();
    while let Some(at) = link.next_event() {
        while let Some(exit) = link.poll(at) {
            exits.push(exit);
        }
    }
    exits
}

#[test]
fn an_idle_link_takes_serialisation_plus_propagation() {
    // 1200 + 28 bytes at 10 Mbit/s: 982.4 us.
    let mut link = Link::new(LinkConfig::new(10_000_000, ms(20)), 1).unwrap();
    link.enqueue(ms(5), 1200, ()).unwrap();
    let exits = drain(&mut link);
    assert_eq!(exits.len(), 1);
    assert_eq!(exits[0].at, ms(25) + Duration::from_nanos(982_400));
    assert_eq!(link.stats().busy, Duration::from_nanos(982_400));
}

#[test]
fn a_second_packet_waits_for_the_first() {
    let mut link = Link::new(bare(8_000_000, ms(0)), 1).unwrap();
    link.enqueue(Duration::ZERO, 1000, 0).unwrap();
    link.enqueue(Duration::from_micros(400), 500, 1).unwrap();
    let at: Vec<_> = drain(&mut link).iter().map(|exit| exit.at).collect();
    assert_eq!(at, [ms(1), Duration::from_micros(1500)]);
    assert_eq!(link.stats().max_queue_packets, 1);
    assert_eq!(link.stats().max_queue_bytes, 500);
}

#[test]
fn without_a_rate_only_the_delay_counts() {
    let config = LinkConfig {
        delay: ms(3),
        ..LinkConfig::default()
    };
    let mut link = Link::new(config, 1).unwrap();
    for i in 0..1000 {
        link.enqueue(ms(1), 1200, i).unwrap();
    }
    let exits = drain(&mut link);
    assert_eq!(exits.len(), 1000);
    assert!(exits.iter().all(|exit| exit.at == ms(4)));
    assert!(exits.iter().map(|exit| exit.payload).eq(0..1000));
}

#[test]
fn the_tail_is_dropped_by_packets_and_by_bytes() {
    for limit in [QueueLimit::Packets(10), QueueLimit::Bytes(10_000)] {
        let config = bare(8_000_000, ms(0)).with_queue(limit);
        let mut link = Link::new(config, 1).unwrap();
        let entered: Vec<_> = (0..20)
            .filter(|&i| link.enqueue(ms(0), 1000, i).is_ok())
            .collect();
        // One being serialised and ten waiting.
        assert_eq!(entered, (0..11).collect::<Vec<_>>());
        assert_eq!(link.stats().dropped_queue, 9);
        assert_eq!(link.stats().max_queue_packets, 10);
        // One has left: there is room for one.
        assert!(link.enqueue(ms(1), 1000, 20).is_ok());
        assert_eq!(
            link.enqueue(ms(1), 1000, 21).unwrap_err(),
            (21, Loss::Queue)
        );
    }
}

#[test]
fn the_automatic_queue_is_a_bdp_and_at_least_100_packets() {
    let slow = LinkConfig::new(2_000_000, ms(100)).queue_limit();
    assert_eq!(slow, QueueLimit::Packets(100));
    // 50 Mbit/s * 200 ms / 8 / 1350 = 925.9.
    let fast = LinkConfig::new(50_000_000, ms(100)).queue_limit();
    assert_eq!(fast, QueueLimit::Packets(926));
}

#[test]
fn a_lost_packet_takes_its_time_on_the_link() {
    let mut link = Link::new(bare(8_000_000, ms(10)).with_loss(1.0), 1).unwrap();
    link.enqueue(ms(0), 1000, ()).unwrap();
    link.enqueue(ms(0), 1000, ()).unwrap();
    let exits = drain(&mut link);
    // Lost where they leave the queue: no propagation.
    assert_eq!(exits[1].at, ms(2));
    assert_eq!(link.stats().busy, ms(2));
}

#[test]
fn rtt_variation_is_split_over_both_directions() {
    // 8 % of 200 ms is 16 ms; two independent directions of 11.3 ms each add up to it.
    let config = LinkConfig::new(2_000_000, ms(100)).with_rtt_variation(8.0);
    let one = config.delay_sd.as_secs_f64();
    assert!((one * one * 2.0 - 0.016 * 0.016).abs() < 1e-9);
}

/// As netem's, if asked for: a late packet is overtaken, and delays nobody.
#[test]
fn variation_keeps_the_order_unless_it_may_not() {
    for delay_reorders in [false, true] {
        let config = LinkConfig {
            delay_sd: ms(5),
            delay_reorders,
            ..LinkConfig::new(80_000_000, ms(50))
        };
        let mut link = Link::new(config, 1).unwrap();
        for i in 0..100 {
            link.enqueue(ms(0), 1000, i).unwrap();
        }
        let exits = drain(&mut link);
        assert_eq!(exits.len(), 100);
        let payloads: Vec<_> = exits.iter().map(|exit| exit.payload).collect();
        assert_eq!(payloads.is_sorted(), !delay_reorders);
        assert!(exits.is_sorted_by_key(|exit| exit.at));
    }
}

#[test]
fn an_outage_takes_what_waits_and_spares_what_is_on_its_way() {
    // 1 ms each; dark from 2.5 ms to 10 ms.
    let config = bare(8_000_000, ms(50)).with_outage(Duration::from_micros(2500), ms(7) + ms(1));
    let mut link = Link::new(config, 1).unwrap();
    for i in 0..5 {
        link.enqueue(ms(0), 1000, i).unwrap();
    }
    assert_eq!(link.enqueue(ms(5), 1000, 5), Err((5, Loss::Outage)));
    link.enqueue(ms(11), 1000, 6).unwrap();
    let exits = drain(&mut link);
    let arrived: Vec<_> = exits
        .iter()
        .filter(|exit| exit.fate.arrives())
        .map(|exit| (exit.payload, exit.at))
        .collect();
    assert_eq!(arrived, [(0, ms(51)), (1, ms(52)), (6, ms(62))]);
    let lost: Vec<_> = exits
        .iter()
        .filter(|exit| exit.fate == Fate::Lost(Loss::Outage))
        .map(|exit| (exit.payload, exit.at.as_micros()))
        .collect();
    assert_eq!(lost, [(2, 2500), (3, 2500), (4, 2500)]);
    assert_eq!(link.stats().dropped_outage, 4);
}

#[test]
fn a_commanded_outage_is_the_same() {
    let mut link = Link::new(bare(8_000_000, ms(1)), 1).unwrap();
    for i in 0..3 {
        link.enqueue(ms(0), 1000, i).unwrap();
    }
    link.set_up(Duration::from_micros(1500), false);
    assert_eq!(link.enqueue(ms(2), 1000, 3), Err((3, Loss::Outage)));
    link.set_up(ms(3), true);
    link.enqueue(ms(3), 1000, 4).unwrap();
    let arrived: Vec<_> = drain(&mut link)
        .iter()
        .filter(|exit| exit.fate.arrives())
        .map(|exit| (exit.payload, exit.at))
        .collect();
    assert_eq!(arrived, [(0, ms(2)), (4, ms(5))]);
}

#[test]
fn changes_are_checked() {
    let mut link = Link::<()>::new(LinkConfig::default(), 1).unwrap();
    assert!(link.set_rate(ms(0), Some(0)).is_err());
    assert!(link.set_loss(ms(0), 2.0).is_err());
    assert!(link.set_delay(ms(0), Duration::MAX).is_err());
    link.set_loss(ms(0), 1.0).unwrap();
    link.set_delay(ms(0), ms(1)).unwrap();
    assert_eq!((link.config().loss, link.config().delay), (1.0, ms(1)));
}

#[test]
fn a_shorter_delay_keeps_order() {
    let mut link = Link::new(bare(8_000_000_000, ms(50)), 1).unwrap();
    link.enqueue(ms(0), 1000, 0).unwrap();
    link.set_delay(ms(10), ms(5)).unwrap();
    link.enqueue(ms(10), 1000, 1).unwrap();
    let exits = drain(&mut link);
    assert_eq!(exits[0].payload, 0);
    assert_eq!(exits[0].at, exits[1].at);
}

#[test]
fn duplication_reordering_and_corruption() {
    let config = LinkConfig {
        duplication: 1.0,
        ..bare(8_000_000, ms(5))
    };
    let mut link = Link::new(config, 1).unwrap();
    link.enqueue(ms(0), 1000, 0).unwrap();
    let exits = drain(&mut link);
    assert_eq!(exits[0].fate, Fate::Delivered);
    assert_eq!(exits[1].fate, Fate::Duplicate);
    assert_eq!(exits[0].at, exits[1].at);
    assert_eq!((link.stats().delivered, link.stats().duplicated), (2, 1));

    let config = LinkConfig {
        reordering: 0.3,
        ..bare(8_000_000, ms(5))
    };
    let mut link = Link::new(config, 1).unwrap();
    for i in 0..100 {
        link.enqueue(ms(0), 1000, i).unwrap();
    }
    let order: Vec<_> = drain(&mut link).iter().map(|exit| exit.payload).collect();
    assert!(!order.is_sorted());
    assert!(link.stats().reordered > 10 && link.stats().reordered < 60);

    let config = LinkConfig {
        corruption: 1.0,
        ..bare(8_000_000, ms(5))
    };
    let mut link = Link::new(config, 1).unwrap();
    link.enqueue(ms(0), 10, [0_u8; 10]).unwrap();
    link.enqueue(ms(0), 0, [0_u8; 10]).unwrap();
    let mut exits = drain(&mut link);
    let Fate::Corrupted { bit } = exits[0].fate else {
        panic!("{:?}", exits[0].fate);
    };
    flip_bit(&mut exits[0].payload, bit);
    let ones: u32 = exits[0].payload.iter().map(|byte| byte.count_ones()).sum();
    assert_eq!(ones, 1);
    // No bit to flip in an empty packet, and none beyond an end.
    assert_eq!(exits[1].fate, Fate::Delivered);
    flip_bit(&mut [], 3);
}

#[test]
fn time_that_runs_backwards_counts_as_the_latest() {
    let mut link = Link::new(bare(8_000_000, ms(0)), 1).unwrap();
    link.enqueue(ms(10), 1000, 0).unwrap();
    link.enqueue(ms(1), 1000, 1).unwrap();
    assert_eq!(drain(&mut link)[1].at, ms(12));
}

#[test]
fn bad_settings_are_named() {
    let named = |config: LinkConfig| match config.validate().unwrap_err() {
        LinkConfigError::OutOfRange { field, .. } => field,
        LinkConfigError::Conflict { first, second } => format!("{first}, {second}"),
        LinkConfigError::TraceNotLoaded { .. } => "trace_file".to_owned(),
        LinkConfigError::OverlappingOutages { .. } => "outages".to_owned(),
    };
    let base = LinkConfig::default;
    assert_eq!(
        named(LinkConfig {
            rate: Some(0),
            ..base()
        }),
        "rate"
    );
    assert_eq!(named(base().with_loss(1.5)), "loss");
    assert_eq!(named(base().with_loss(f64::NAN)), "loss");
    assert_eq!(
        named(LinkConfig {
            corruption: -0.1,
            ..base()
        }),
        "corruption"
    );
    assert_eq!(
        named(LinkConfig {
            delay: Duration::MAX,
            ..base()
        }),
        "delay_ms"
    );
    assert_eq!(
        named(LinkConfig {
            overhead: 9000,
            ..base()
        }),
        "overhead"
    );
    let overlapping = base().with_outage(ms(10), ms(5)).with_outage(ms(2), ms(9));
    assert_eq!(named(overlapping), "outages");
}

#[test]
fn a_link_is_read_from_a_file() {
    let json = r#"{"rate": 2000000, "delay_ms": 3.5, "loss": 0.015, "queue": {"packets": 15},
        "outages": [{"at_ms": 1000, "lasting_ms": 500}]}"#;
    let config: LinkConfig = serde_json::from_str(json).unwrap();
    assert_eq!(config.delay, Duration::from_micros(3500));
    assert_eq!(config.queue, QueueLimit::Packets(15));
    assert_eq!(config.outages[0].at, ms(1000));
    assert_eq!(config.overhead, 28);
    let again: LinkConfig = serde_json::from_str(&serde_json::to_string(&config).unwrap()).unwrap();
    assert_eq!(again, config);

    let error = |json| {
        serde_json::from_str::<LinkConfig>(json)
            .unwrap_err()
            .to_string()
    };
    assert!(error(r#"{"delay_ms": -1}"#).contains("-1 is not a time"));
    assert!(error(r#"{"rat": 1}"#).contains("unknown field `rat`"));
}

/// What a link is served by: a rate or none, with steps, changes or neither, or a trace.
fn any_service() -> impl Strategy<Value = LinkConfig> {
    let rate = || proptest::option::of(10_000_u64..1_000_000_000);
    let base = |rate| LinkConfig {
        rate,
        ..LinkConfig::default()
    };
    prop_oneof![
        rate().prop_map(base),
        (
            rate(),
            proptest::collection::vec((1_u64..50, 0_u64..10_000_000), 0..5),
            proptest::option::of(1_u64..20),
        )
            .prop_map(move |(rate, steps, after)| {
                let mut at = 0;
                let steps: Vec<_> = steps
                    .into_iter()
                    .chain([(1, 1_000_000)])
                    .map(|(gap, rate)| {
                        at += gap;
                        (ms(at), rate)
                    })
                    .collect();
                let period = after.map(|after| ms(at + after));
                base(rate).with_rate_steps(steps, period)
            }),
        (
            rate(),
            proptest::collection::vec((0_u64..200, 1_u64..10_000_000, 0.0..1.0), 0..5)
        )
            .prop_map(move |(rate, changes)| {
                changes
                    .into_iter()
                    .fold(base(rate), |config, (at, rate, share)| {
                        config.with_change(PlannedChange {
                            at: ms(at),
                            rate: Some(rate),
                            delay: Some(ms(rate % 50)),
                            delay_sd: Some(ms(rate % 7)),
                            loss: Some(share),
                            gilbert_elliott: Some(GilbertElliott::new(share, 0.5)),
                        })
                    })
            }),
        proptest::collection::vec(0_u64..5, 1..50).prop_map(|gaps| {
            let times = gaps.into_iter().chain([1]).scan(0, |at, gap| {
                *at += gap;
                Some(*at)
            });
            let trace = MahimahiTrace::from_millis(times).unwrap();
            LinkConfig::from_trace(trace, ms(0))
        }),
    ]
}

fn any_config() -> impl Strategy<Value = LinkConfig> {
    (
        any_service(),
        0_u64..50,
        0_u64..10,
        [0.0..0.5, 0.0..0.3, 0.0..0.3, 0.0..0.3],
        prop_oneof![
            Just(QueueLimit::Auto),
            (0_u64..20).prop_map(QueueLimit::Packets),
            (0_u64..20_000).prop_map(QueueLimit::Bytes)
        ],
        proptest::option::of((0_u64..100, 0_u64..50)),
        proptest::option::of((0.0..0.2, 1.0..10.0)),
    )
        .prop_map(
            |(service, delay, sd, [loss, a, b, c], queue, outage, bursts)| {
                let config = LinkConfig {
                    delay: ms(delay),
                    delay_sd: ms(sd),
                    loss,
                    gilbert_elliott: bursts
                        .map(|(loss, burst)| GilbertElliott::from_mean(loss, burst).unwrap()),
                    queue,
                    reordering: a,
                    duplication: b,
                    corruption: c,
                    ..service
                };
                match outage {
                    Some((at, lasting)) => config.with_outage(ms(at), ms(lasting)),
                    None => config,
                }
            },
        )
}

proptest! {
    #[test]
    fn what_goes_in_comes_out_or_is_counted_lost(
        config in any_config(),
        seed: u64,
        packets in proptest::collection::vec((0_u64..3000, 0_usize..1500), 1..200),
        commands in proptest::collection::vec((0_usize..200, 0_u8..4, 1_u64..1_000_000), 0..8),
    ) {
        let mut link = Link::new(config, seed).unwrap();
        let (mut now, mut exits, mut refused) = (Duration::ZERO, Vec::new(), 0_u64);
        for (i, (gap, size)) in packets.iter().enumerate() {
            now += Duration::from_micros(*gap);
            for (_, kind, value) in commands.iter().filter(|command| command.0 == i) {
                match kind {
                    0 => link.set_up(now, false),
                    1 => link.set_up(now, true),
                    2 => link.set_rate(now, None).unwrap(),
                    _ => link.set_rate(now, Some(*value)).unwrap(),
                }
            }
            refused += u64::from(link.enqueue(now, *size, i).is_err());
            while let Some(exit) = link.poll(now) {
                prop_assert!(exit.at <= now);
                exits.push(exit);
            }
            let stats = *link.stats();
            prop_assert_eq!(
                stats.packets_in + stats.duplicated,
                stats.delivered + stats.dropped() + link.in_transit()
            );
        }
        exits.extend(drain(&mut link));
        let stats = *link.stats();
        prop_assert_eq!(link.in_transit(), 0);
        prop_assert_eq!(stats.packets_in, packets.len() as u64);
        prop_assert_eq!(stats.packets_in + stats.duplicated, stats.delivered + stats.dropped());
        prop_assert_eq!(exits.len() as u64 + refused, stats.packets_in + stats.duplicated);
        prop_assert!(exits.iter().all(|exit| exit.at >= exit.entered));
        prop_assert!(exits.is_sorted_by_key(|exit| exit.at));
    }

    #[test]
    fn without_reordering_it_is_a_fifo(
        config in any_config(),
        seed: u64,
        gaps in proptest::collection::vec(0_u64..3000, 1..200),
    ) {
        let config = LinkConfig { reordering: 0.0, ..config };
        let mut link = Link::new(config, seed).unwrap();
        let mut now = Duration::ZERO;
        for (i, gap) in gaps.iter().enumerate() {
            now += Duration::from_micros(*gap);
            let _ = link.enqueue(now, 1200, i);
        }
        let order: Vec<_> = drain(&mut link)
            .into_iter()
            .filter(|exit| exit.fate.arrives())
            .map(|exit| exit.payload)
            .collect();
        prop_assert!(order.is_sorted());
    }

    #[test]
    fn the_same_seed_makes_the_same_choices(config in any_config(), seed: u64) {
        let run = || {
            let mut link = Link::new(config.clone(), seed).unwrap();
            for i in 0..100_u64 {
                let _ = link.enqueue(Duration::from_micros(i * 700), 1200, i);
            }
            drain(&mut link)
        };
        prop_assert_eq!(run(), run());
    }
}
